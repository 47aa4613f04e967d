//! Contention windows and queues.

use fairhop_model::phy::Phy;

use super::super::place::{NamedPlace, Place};
use super::super::sections::Scenario;
use super::super::traffic::Traffic;
use crate::mac::windows;
use crate::queue::Discipline;
use fairhop_config::Findings;
use fairhop_config::Number;

impl Scenario {
    pub(super) fn check_mac(&self, findings: &mut Findings) {
        let mac = &self.mac;
        let phy = Phy::new(self.radio.standard, self.radio.preamble);
        let mut valid = true;
        for (key, window) in [("cw_min", mac.cw_min), ("cw_max", mac.cw_max)] {
            valid &= check_window("mac", key, window, findings);
        }
        let (min, max) = (mac.cw_min.unwrap_or(phy.cw_min), mac.cw_max.unwrap_or(phy.cw_max));
        if valid && min > max {
            let (path, note) = match mac.cw_max {
                Some(_) => ("mac.cw_max", ""),
                None => ("mac.cw_min", ", the standard's"),
            };
            findings.add(
                path,
                format!("`cw_min` is {min}, larger than `cw_max` = {max}{note}"),
                "in the wrong order",
                "the window grows from `cw_min` to `cw_max`: make one smaller or the other larger",
            );
        }
    }

    /// Contention windows of access categories, including those derived from the standard or from `[mac]`.
    pub(super) fn check_edca(&self, findings: &mut Findings) {
        let Some(edca) = self.mac.edca.parameters() else { return };
        let phy = Phy::new(self.radio.standard, self.radio.preamble);
        let (min, max) = (self.mac.cw_min.unwrap_or(phy.cw_min), self.mac.cw_max.unwrap_or(phy.cw_max));
        let categories = [
            ("background", edca.background),
            ("best_effort", edca.best_effort),
            ("video", edca.video),
            ("voice", edca.voice),
        ];
        for (index, (name, written)) in categories.into_iter().enumerate() {
            let path = format!("mac.edca.{name}");
            let mut valid = true;
            for (key, window) in [("cw_min", written.cw_min), ("cw_max", written.cw_max)] {
                valid &= check_window(&path, key, window, findings);
            }
            let (cw_min, cw_max) = windows(index, min, max, &written);
            if valid && cw_min > cw_max {
                let (key, note) =
                    if written.cw_max.is_some() { ("cw_max", "") } else { ("cw_min", ", the standard's") };
                findings.add(
                    format!("{path}.{key}"),
                    format!("the windows of {name} go from {cw_min} to {cw_max}{note}"),
                    "in the wrong order",
                    "the window grows from `cw_min` to `cw_max`: make one smaller or the other larger",
                );
            }
        }
    }

    /// Parameters of the disciplines, and that each queue has room for the largest packet.
    pub(super) fn check_queues(&self, findings: &mut Findings) {
        let outside = Place::Named(NamedPlace::Internet);
        let largest = |wired: bool| {
            let uses = |t: &&Traffic| t.count() > 0 && (!wired || t.from() == outside || t.to() == outside);
            self.traffic.iter().filter(uses).max_by_key(|t| t.largest_packet_bytes())
        };
        let queues = [
            ("mac.queue", "every node", Some(&self.mac.queue), largest(false)),
            ("internet.queue", "the wired link", self.internet.as_ref().map(|i| &i.queue), largest(true)),
        ];
        for (path, owner, queue, largest) in queues {
            let Some(queue) = queue else { continue };
            check_queue(path, queue, findings);
            if let ((None, Some(bytes)), Some(entry)) = (queue.limits(), largest)
                && bytes < entry.largest_packet_bytes()
            {
                let packet = entry.largest_packet_bytes();
                findings.add(
                    format!("{path}.bytes"),
                    format!(
                        "the queue of {owner} holds {bytes} bytes, less than one packet of `{}` ({packet} bytes)",
                        entry.base_name()
                    ),
                    "smaller than a packet",
                    format!("make it at least {packet}, or count in packets: queue = {{ packets = 50 }}"),
                );
            }
        }
    }
}

/// Whether a contention window is one less than a power of two.
fn check_window(table: &str, key: &str, window: Option<u32>, findings: &mut Findings) -> bool {
    let Some(window) = window.filter(|window| !(window + 1).is_power_of_two()) else { return true };
    let above = (window + 1).next_power_of_two();
    findings.add(
        format!("{table}.{key}"),
        format!("`{key}` is {window}, but must be one less than a power of two"),
        "not 2^k − 1",
        format!("write {} or {}", above / 2 - 1, above - 1),
    );
    false
}

/// Parameters of one queue.
pub(super) fn check_queue(path: &str, queue: &Discipline, findings: &mut Findings) {
    match queue.limits() {
        (Some(_), Some(_)) => findings.add(
            format!("{path}.bytes"),
            "`queue` has `packets` and `bytes` together",
            "one too many",
            "keep one of them",
        ),
        (None, None) => findings.add(
            path,
            "`queue` has no capacity",
            "no limit",
            "add `packets = 50`, or a number of `bytes`",
        ),
        _ => {}
    }
    if let Discipline::Red { min_packets, max_packets, .. } = queue
        && let (Some(min), Some(max)) = (min_packets, max_packets)
        && max <= min
    {
        findings.add(
            format!("{path}.max_packets"),
            format!("`max_packets` is {}, not more than `min_packets` = {}", Number(*max), Number(*min)),
            "in the wrong order",
            format!("make it larger: three times `min_packets`, {}, is usual", Number(3.0 * min)),
        );
    } else if let Discipline::Red { min_packets: None, max_packets: Some(_), .. } = queue {
        findings.add(
            format!("{path}.max_packets"),
            "`max_packets` without `min_packets`",
            "one of a pair",
            "add `min_packets`, a third of it is usual, or leave both out",
        );
    }
    if let Discipline::Codel { target_ms, interval_ms, .. }
    | Discipline::FqCodel { target_ms, interval_ms, .. }
    | Discipline::Cake { target_ms, interval_ms, .. } = queue
        && target_ms >= interval_ms
    {
        findings.add(
            format!("{path}.target_ms"),
            format!(
                "`target_ms` is {}, not less than `interval_ms` = {}",
                Number(*target_ms),
                Number(*interval_ms)
            ),
            "too long",
            "the target is 5 to 10 % of the interval (RFC 8289)",
        );
    }
}
