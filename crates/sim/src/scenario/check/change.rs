//! Changes during the run. Whether the network stays connected is checked when the network is built.

use super::super::change::Change;
use super::super::sections::Scenario;
use super::findings::nodes_are;
use crate::radio::Propagation;
use fairhop_config::Findings;
use fairhop_config::Number;

impl Scenario {
    pub(super) fn check_changes(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        for (i, change) in self.change.iter().enumerate() {
            let path = format!("change.{i}");
            if change.at_s() >= self.duration_s {
                findings.add(
                    format!("{path}.at_s"),
                    format!(
                        "`at_s` is {}, but the run ends at {} s",
                        Number(change.at_s()),
                        Number(self.duration_s)
                    ),
                    "after the end",
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
                            "a node cannot move with a loss matrix, in which path loss does not depend on positions",
                            "no effect",
                            "choose another `propagation`, or leave the change out",
                        );
                    }
                }
                Change::Rate { from, to, rate_mbps, .. } => {
                    self.check_hop_rate(&path, *from, *to, *rate_mbps, findings);
                }
            }
        }
    }
}
