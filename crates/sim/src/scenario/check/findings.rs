//! Phrases that several checks use.

use std::collections::BTreeSet;

use fairhop_model::phy::{Rate, Standard};

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
