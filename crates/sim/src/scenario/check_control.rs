//! Whether a control fits the rest of its scenario.

use super::check::{Findings, check_pace};
use super::control::{Control, ControlChange};
use super::queue::Queue;
use super::types::Scenario;

impl Scenario {
    pub(super) fn check_control(&self, findings: &mut Findings) {
        let Some(control) = &self.control else { return };
        let (start_s, stop_s, changes) = control.times();
        if self.topology.node_count() == 0 {
            findings.add(
                "control",
                "there is no gateway to a mesh: the topology has no nodes",
                "nothing to control",
                "give [topology] nodes, or leave [control] out",
            );
        }
        check_windows("control", control.windows(), findings);
        if let Some(rate_kbps) = control.rate_kbps() {
            check_pace("control.rate_kbps", rate_kbps, findings);
        }
        if let Some(up_kbps) = control.up_kbps() {
            check_pace("control.up_kbps", up_kbps, findings);
        }
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
            check_windows(&path, change.windows(), findings);
            if let Some(rate_kbps) = change.rate_kbps() {
                check_pace(&format!("{path}.rate_kbps"), rate_kbps, findings);
            }
            if let Some(up_kbps) = change.up_kbps() {
                check_pace(&format!("{path}.up_kbps"), up_kbps, findings);
            }
            if let ControlChange::Throttle { thr_max_kbps, .. } = change {
                check_thr_max(&path, thr_max_kbps, findings);
            }
            let at_s = change.at_s();
            let late = match stop_s {
                Some(stop_s) if at_s >= stop_s => Some(format!("`stop_s` = {stop_s}")),
                _ if at_s >= self.duration_s => Some(format!("`duration_s` = {}", self.duration_s)),
                _ => None,
            };
            if at_s <= before.1 {
                findings.add(
                    format!("{path}.at_s"),
                    format!("`at_s` is {at_s}, not later than {} = {}", before.0, before.1),
                    "the wrong way round",
                    "write the changes in the order of time",
                );
            } else if let Some(end) = late {
                findings.add(
                    format!("{path}.at_s"),
                    format!("`at_s` is {at_s}, but {end}: the change would never come"),
                    "too late",
                    "make `at_s` smaller, or leave the change out",
                );
            }
            if let ControlChange::Priority { .. } = change {
                findings.add(
                    format!("{path}.kind"),
                    "\"priority\" cannot begin during a run: it is in the queues of all nodes",
                    "not as a change",
                    "write it as the kind of [control], without changes, for the whole run",
                );
            }
            before = (format!("`at_s` of change {i}"), at_s);
        }
    }

    fn check_control_times(&self, start_s: f64, stop_s: Option<f64>, findings: &mut Findings) {
        if let Some(stop_s) = stop_s.filter(|stop_s| *stop_s <= start_s) {
            findings.add(
                "control.stop_s",
                format!("`stop_s` is {stop_s}, not later than `start_s` = {start_s}"),
                "the wrong way round",
                "make `stop_s` larger, or leave it out",
            );
        }
        if start_s >= self.duration_s {
            findings.add(
                "control.start_s",
                format!("`start_s` is {start_s}, but the run ends after {} s", self.duration_s),
                "never begins",
                "make `start_s` smaller or `duration_s` larger",
            );
        }
    }

    fn check_priority(&self, findings: &mut Findings) {
        let Some((start_s, stop_s, changes)) = self.control.as_ref().map(Control::times) else { return };
        let moving =
            [("start_s", start_s > 0.0), ("stop_s", stop_s.is_some()), ("change", !changes.is_empty())];
        for (key, _) in moving.into_iter().filter(|(_, written)| *written) {
            findings.add(
                format!("control.{key}"),
                "\"priority\" holds for the whole run: it is in the queues of all nodes",
                "cannot change",
                format!("leave `{key}` out, or choose a control at the gateway"),
            );
        }
        if !matches!(self.mac.queue, Queue::DropTail { .. }) {
            findings.add(
                "control.kind",
                "\"priority\" is a discipline of [mac] queue, which has another one already",
                "two disciplines",
                "leave [control] out, or leave the discipline of [mac] queue out",
            );
        }
    }
}

fn check_windows(path: &str, windows: Option<(Option<u32>, Option<u32>)>, findings: &mut Findings) {
    match windows {
        Some((Some(_), Some(_))) => findings.add(
            format!("{path}.window_packets"),
            "a window in `window_bytes` and `window_packets` together",
            "one too many",
            "keep one of them",
        ),
        Some((None, None)) => findings.add(
            path,
            "the control has no window",
            "`window_packets` is missing",
            "add window_packets = 4, or window_bytes = 6000",
        ),
        _ => {}
    }
}

fn check_thr_max(path: &str, thr_max_kbps: &[f64], findings: &mut Findings) {
    for (i, kbps) in
        thr_max_kbps.iter().enumerate().filter(|(_, kbps)| !(**kbps >= 0.001 && kbps.is_finite()))
    {
        findings.add(
            format!("{path}.thr_max_kbps.{i}"),
            format!("a flow that carries {kbps} kb/s alone over {} hops would send nothing", i + 1),
            "no throughput",
            "write what one flow alone carries over 1, 2, 3, … hops, in kb/s",
        );
    }
}
