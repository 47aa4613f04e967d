//! The list of findings, and phrases that several checks use.

use std::collections::BTreeSet;

use fairhop_model::phy::{Rate, Standard};

use super::super::MAX_COLLECTED;
use super::super::error::Finding;
use super::super::number::Number;

/// Findings in the order in which the checks found them. The first [`MAX_COLLECTED`] are kept, the others counted.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    pub(super) uncollected: usize,
}

impl Findings {
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.list.len() < MAX_COLLECTED {
            self.list.push(Finding::new(path, message, label, help));
        } else {
            self.uncollected += 1;
        }
    }

    /// Whether a further finding would only be counted.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_COLLECTED
    }
}

/// The indices of items that occurred before in the list.
pub(super) fn repeated<T: Ord + Copy>(items: impl IntoIterator<Item = T>) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    items.into_iter().enumerate().filter_map(|(i, item)| (!seen.insert(item)).then_some(i)).collect()
}

pub(super) fn plural(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

pub(super) fn nodes_are(nodes: usize) -> String {
    match nodes {
        0 => "the topology has no nodes".into(),
        1 => "the topology has one node, number 0".into(),
        _ => format!("the topology has {nodes} nodes, numbered 0 to {}", nodes - 1),
    }
}

pub(super) fn rates(standard: Standard) -> String {
    let rates: Vec<_> = standard.rates().iter().copied().map(Rate::mbps).map(|r| r.to_string()).collect();
    match rates.split_last() {
        Some((last, first)) => format!("{} and {last} Mb/s", first.join(", ")),
        None => "none".into(),
    }
}

/// Refuses rates below a bit per second: the next packet would come after the end of the clock (2^63 ns).
pub(super) fn check_pace(path: &str, rate_kbps: f64, findings: &mut Findings) {
    if rate_kbps < 0.001 {
        let key = path.rsplit('.').next().unwrap_or(path);
        findings.add(
            path,
            format!("`{key}` is {}, less than a bit per second", Number(rate_kbps)),
            "too low",
            format!("`{key}` is in kb/s: 500 is a usual value"),
        );
    }
}
