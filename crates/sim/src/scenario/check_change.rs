//! Whether what happens during the run can happen. Whether the network holds together afterwards is found when the world is
//! built.

use super::change::Change;
use super::check::{Findings, nodes_are, rates};
use super::types::{Propagation, Scenario};

impl Scenario {
    pub(super) fn check_changes(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        for (i, change) in self.change.iter().enumerate() {
            let path = format!("change.{i}");
            if change.at_s() >= self.duration_s {
                findings.add(
                    format!("{path}.at_s"),
                    format!("`at_s` is {}, but the run ends at {} s", change.at_s(), self.duration_s),
                    "would never come",
                    "make `at_s` smaller or `duration_s` longer",
                );
            }
            let named = match change {
                Change::Move { node, .. } => vec![("node", *node)],
                Change::Rate { from, to, .. } => [("from", Some(*from)), ("to", *to)]
                    .into_iter()
                    .filter_map(|(k, n)| Some((k, n?)))
                    .collect(),
            };
            for (key, node) in named.into_iter().filter(|(_, node)| *node as usize >= nodes) {
                findings.add(
                    format!("{path}.{key}"),
                    format!("`{key}` is node {node}, which does not exist"),
                    "no such node",
                    nodes_are(nodes),
                );
            }
            match change {
                Change::Move { .. } => {
                    if let Propagation::Matrix { .. } = self.radio.propagation {
                        findings.add(
                            path,
                            "a node cannot move where a loss matrix says who hears whom: positions mean nothing",
                            "without effect",
                            "choose another `propagation`, or leave the change out",
                        );
                    }
                }
                Change::Rate { from, to, rate_mbps, .. } => {
                    self.check_changed_rate(&path, *rate_mbps, findings);
                    if *to == Some(*from) {
                        findings.add(
                            format!("{path}.to"),
                            format!("`from` and `to` are the same, node {from}"),
                            "the sender itself",
                            "write the neighbour, or leave `to` out for all neighbours",
                        );
                    }
                }
            }
        }
    }

    fn check_changed_rate(&self, path: &str, rate_mbps: f64, findings: &mut Findings) {
        let standard = self.radio.standard;
        let path = format!("{path}.rate_mbps");
        if standard.rate(rate_mbps).is_none() {
            findings.add(
                path,
                format!("{} has no rate of {rate_mbps} Mb/s", standard.name()),
                "not a rate of the standard",
                format!("{} has {}", standard.name(), rates(standard)),
            );
        } else if let Some(basic) = &self.radio.basic_rates_mbps
            && basic.iter().all(|rate| *rate > rate_mbps)
        {
            findings.add(
                path,
                format!("every basic rate is faster than `rate_mbps` = {rate_mbps}"),
                "an ACK may not be faster than its data",
                "add a basic rate that is no faster",
            );
        }
    }
}
