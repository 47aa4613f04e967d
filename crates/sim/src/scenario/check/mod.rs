//! Checks that the types of a scenario cannot express: whether its parts are consistent with each other and the standard.
//!
//! All checks here use the scenario alone. Whether nodes are neighbours and whether routes exist is checked when the network
//! is built.

mod attach;
mod change;
mod control;
mod findings;
mod mac;
mod mobility;
mod places;
mod radio;
mod topology;
mod traffic;
mod warnings;
mod wired;

use super::sections::Scenario;
use fairhop_config::Finding;
use fairhop_config::Findings;
use fairhop_config::Number;
use places::Places;
pub(crate) use topology::MIN_DISTANCE_M;
use traffic::{check_load, check_reports, check_tcp};

/// Maximum number of intervals of the time series.
const MAX_BINS: f64 = 1_000_000.0;

impl Scenario {
    /// The errors of a scenario whose keys and ranges are right, at most [`MAX_COLLECTED`](super::MAX_COLLECTED). Empty if it
    /// can be simulated, as far as is known without its links.
    pub fn findings(&self) -> Vec<Finding> {
        self.counted_findings().0
    }

    /// [`Scenario::findings`], and the number of errors beyond them.
    pub(super) fn counted_findings(&self) -> (Vec<Finding>, usize) {
        let mut findings = Findings::default();
        self.check_name_and_times(&mut findings);
        self.check_rates(&mut findings);
        self.check_link_rates(&mut findings);
        self.check_propagation(&mut findings);
        self.check_mac(&mut findings);
        self.check_edca(&mut findings);
        self.check_topology(&mut findings);
        self.check_paths(&mut findings);
        self.check_routing(&mut findings);
        self.check_internet(&mut findings);
        let places = Places::of(self);
        self.check_wired(&places, &mut findings);
        for (i, entry) in self.traffic.iter().enumerate() {
            self.check_ends(i, entry, &places, &mut findings);
            self.check_flow_times(i, entry, &mut findings);
            check_load(i, entry, self.topology.node_count() > 0, &mut findings);
            check_tcp(i, entry, &mut findings);
            check_reports(i, entry, &mut findings);
        }
        self.check_attachments(&places, &mut findings);
        self.check_control(&mut findings);
        self.check_changes(&mut findings);
        self.check_mobility(&mut findings);
        self.check_queues(&mut findings);
        self.check_names(&mut findings);
        (findings.list, findings.uncollected)
    }

    fn check_name_and_times(&self, findings: &mut Findings) {
        if self.name.trim().is_empty() {
            findings.add("name", "`name` is empty", "no name", "describe the scenario in a few words");
        }
        if self.warmup_s >= self.duration_s {
            findings.add(
                "warmup_s",
                format!(
                    "`warmup_s` is {}, but the run lasts {} s: nothing would be measured",
                    Number(self.warmup_s),
                    Number(self.duration_s)
                ),
                "not less than `duration_s`",
                "make `warmup_s` smaller or `duration_s` larger; `duration_s` includes the warm-up",
            );
        }
        let bins = self.duration_s / self.record.interval_s;
        if bins > MAX_BINS {
            findings.add(
                "record.interval_s",
                format!("the time series would have {bins:.0} bins; at most {MAX_BINS} are possible"),
                "too short for this duration",
                format!("make `interval_s` at least {}", Number(self.duration_s / MAX_BINS)),
            );
        }
    }
}
