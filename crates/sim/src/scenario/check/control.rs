//! Kinds, times and parameters of control.

use fairhop_config::control::{Control, ControlChange};
use fairhop_config::{Findings, Number};

use super::super::sections::Scenario;
use super::super::traffic::Traffic;
use crate::queue::Discipline;

impl Scenario {
    pub(super) fn check_control(&self, findings: &mut Findings) {
        let Some(control) = &self.control else { return };
        let (start_s, stop_s, changes) = control.times();
        if self.topology.node_count() == 0 {
            findings.add(
                "control",
                "there is no gateway to a mesh: the topology has no nodes",
                "nothing to control",
                "add nodes to [topology], or leave [control] out",
            );
        }
        let segment = self.segment_bytes();
        control.check("control", segment, findings);
        self.check_control_times(start_s, stop_s, findings);
        if let Control::Priority { .. } = control {
            self.check_priority(findings);
        }
        if let Control::Throttle { thr_max_kbps, .. } = control {
            check_thr_max("control", thr_max_kbps, findings);
        }
        let mut before = ("`start_s`".to_owned(), start_s);
        for (i, change) in changes.iter().enumerate() {
            let path = format!("control.change.{i}");
            change.check(&path, segment, findings);
            if let ControlChange::Throttle { thr_max_kbps, .. } = change {
                check_thr_max(&path, thr_max_kbps, findings);
            }
            let at_s = change.at_s();
            let late = match stop_s {
                Some(stop_s) if at_s >= stop_s => Some(format!("`stop_s` = {}", Number(stop_s))),
                _ if at_s >= self.duration_s => Some(format!("`duration_s` = {}", Number(self.duration_s))),
                _ => None,
            };
            if at_s <= before.1 {
                findings.add(
                    format!("{path}.at_s"),
                    format!("`at_s` is {}, not later than {} = {}", Number(at_s), before.0, Number(before.1)),
                    "in the wrong order",
                    "list the changes in the order of time",
                );
            } else if let Some(end) = late {
                findings.add(
                    format!("{path}.at_s"),
                    format!("`at_s` is {}, but {end}: the change would have no effect", Number(at_s)),
                    "too late",
                    "make `at_s` smaller, or leave the change out",
                );
            }
            if let ControlChange::Priority { .. } = change {
                findings.add(
                    format!("{path}.kind"),
                    "\"priority\" cannot start during a run: it is a discipline of the nodes' queues",
                    "not possible as a change",
                    "set it as the kind of [control], without changes, for the whole run",
                );
            }
            before = (format!("`at_s` of change {i}"), at_s);
        }
    }

    /// The largest TCP segment of the traffic, or the smallest that traffic could have.
    fn segment_bytes(&self) -> u32 {
        const MIN_MSS: u32 = 88;
        let entries = self.traffic.iter().filter(|entry| entry.count() > 0);
        entries.filter_map(Traffic::mss_bytes).max().unwrap_or(MIN_MSS)
    }

    fn check_control_times(&self, start_s: f64, stop_s: Option<f64>, findings: &mut Findings) {
        if let Some(stop_s) = stop_s.filter(|stop_s| *stop_s <= start_s) {
            findings.add(
                "control.stop_s",
                format!("`stop_s` is {}, not later than `start_s` = {}", Number(stop_s), Number(start_s)),
                "in the wrong order",
                "make `stop_s` larger, or leave it out",
            );
        }
        if start_s >= self.duration_s {
            findings.add(
                "control.start_s",
                format!(
                    "`start_s` is {}, but the run ends at {} s",
                    Number(start_s),
                    Number(self.duration_s)
                ),
                "never starts",
                "make `start_s` smaller or `duration_s` larger",
            );
        }
    }

    fn check_priority(&self, findings: &mut Findings) {
        let Some((start_s, stop_s, changes)) = self.control.as_ref().map(Control::times) else { return };
        let set = [("start_s", start_s > 0.0), ("stop_s", stop_s.is_some()), ("change", !changes.is_empty())];
        for (key, _) in set.into_iter().filter(|(_, written)| *written) {
            findings.add(
                format!("control.{key}"),
                "\"priority\" applies to the whole run: it is a discipline of the nodes' queues",
                "not possible here",
                format!("leave `{key}` out, or choose a control at the gateway"),
            );
        }
        if !matches!(self.mac.queue, Discipline::DropTail { .. }) {
            findings.add(
                "control.kind",
                "\"priority\" sets the discipline of [mac] queue, which already has another one",
                "two disciplines",
                "leave [control] out, or leave the discipline of [mac] queue out",
            );
        }
    }
}

fn check_thr_max(path: &str, thr_max_kbps: &[f64], findings: &mut Findings) {
    for (i, kbps) in
        thr_max_kbps.iter().enumerate().filter(|(_, kbps)| !(**kbps >= 0.001 && kbps.is_finite()))
    {
        findings.add(
            format!("{path}.thr_max_kbps.{i}"),
            format!("the throughput over {} hops is {} kb/s: flows would send nothing", i + 1, Number(*kbps)),
            "no throughput",
            "write the throughput of a single flow over 1, 2, 3, … hops, in kb/s",
        );
    }
}
