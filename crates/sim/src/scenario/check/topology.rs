//! Nodes, gateways and paths.

use std::collections::{BTreeMap, BTreeSet};

use super::super::sections::Scenario;
use super::super::topology::Topology;
use super::super::{Hello, Protocol};
use super::findings::{nodes_are, plural, repeated};
use super::wired::check_rate;
use fairhop_config::Findings;
use fairhop_config::Number;
use fairhop_config::control::Control;

/// Maximum number of nodes.
const MAX_NODES: usize = 100_000;
/// Minimum distance between two nodes in metres: path loss is undefined at distance 0.
pub(crate) const MIN_DISTANCE_M: f64 = 0.001;

impl Scenario {
    pub(super) fn check_topology(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        if self.topology == Topology::None {
            if self.wired_hosts().is_empty() {
                findings.add(
                    "topology",
                    "there are no nodes and no wired hosts",
                    "nothing to simulate",
                    "add `[[wired.hosts]]` and `[[wired.links]]`, or choose another kind of topology",
                );
            }
            return;
        }
        if nodes == 0 {
            findings.add(
                "topology.nodes",
                "the topology has no nodes",
                "empty",
                "give each node a position, as in nodes = [{ x_m = 0, y_m = 0 }]",
            );
            return;
        }
        if nodes > MAX_NODES {
            findings.add(
                "topology",
                format!("the topology has {nodes} nodes; at most {MAX_NODES} can be simulated"),
                "too many",
                "make it smaller",
            );
        }
        self.check_gateways(nodes, findings);
        let distances = match &self.topology {
            Topology::String { spacing_m, line_spacing_m, .. } => {
                vec![("spacing_m", Some(*spacing_m)), ("line_spacing_m", *line_spacing_m)]
            }
            Topology::Grid { spacing_m, .. } | Topology::Ring { spacing_m, .. } => {
                vec![("spacing_m", Some(*spacing_m))]
            }
            Topology::Random { .. } | Topology::Explicit { .. } | Topology::None => vec![],
        };
        for (key, metres) in distances {
            if let Some(metres) = metres.filter(|m| *m < MIN_DISTANCE_M) {
                findings.add(
                    format!("topology.{key}"),
                    format!("`{key}` is {}: nodes would have the same position", Number(metres)),
                    "too small",
                    format!("write at least {MIN_DISTANCE_M} (a millimetre)"),
                );
            }
        }
        if let Topology::Explicit { nodes, .. } = &self.topology {
            let mut at: Vec<_> = nodes.iter().enumerate().map(|(i, n)| (n.x_m, n.y_m, i)).collect();
            at.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
            for pair in at.windows(2).filter(|p| p[0].0 == p[1].0 && p[0].1 == p[1].1) {
                let (first, second) = (pair[0].2, pair[1].2);
                findings.add(
                    format!("topology.nodes.{second}"),
                    format!("nodes {first} and {second} have the same position"),
                    format!("same as node {first}"),
                    "move one of them: path loss is undefined at distance 0",
                );
            }
        }
    }

    fn check_gateways(&self, nodes: usize, findings: &mut Findings) {
        let gateways = self.topology.gateways();
        let repeated = repeated(gateways.iter().copied());
        if gateways.is_empty() {
            findings.add(
                "topology.gateway",
                "the list of gateways is empty",
                "no gateway",
                "list the nodes where the Internet is attached, as in gateway = [0, 8], or leave `gateway` out for node 0",
            );
        }
        for (i, gateway) in gateways.iter().enumerate() {
            let path =
                if gateways.len() > 1 { format!("topology.gateway.{i}") } else { "topology.gateway".into() };
            if *gateway as usize >= nodes {
                findings.add(
                    path,
                    format!("the gateway is node {gateway}, which does not exist"),
                    "no such node",
                    nodes_are(nodes),
                );
            } else if repeated.contains(&i) {
                findings.add(
                    path,
                    format!("node {gateway} is listed twice as a gateway"),
                    "second time",
                    "list each node once",
                );
            }
        }
    }

    pub(super) fn check_paths(&self, findings: &mut Findings) {
        let nodes = self.topology.node_count();
        let mut ends = BTreeMap::new();
        for (i, path) in self.routing.paths.iter().enumerate() {
            let here = format!("routing.paths.{i}");
            if path.len() < 2 {
                findings.add(
                    here,
                    format!("path {i} has {}", plural(path.len(), "node")),
                    "too short",
                    "list the nodes from first to last, as in [0, 1, 2]",
                );
                continue;
            }
            let mut seen = BTreeSet::new();
            for (j, node) in path.iter().enumerate() {
                let here = format!("{here}.{j}");
                if *node as usize >= nodes {
                    findings.add(
                        here,
                        format!("path {i} goes through node {node}, which does not exist"),
                        "no such node",
                        nodes_are(nodes),
                    );
                } else if !seen.insert(node) {
                    findings.add(
                        here,
                        format!("path {i} visits node {node} twice"),
                        "second time",
                        "list each node of a path once: packets would loop",
                    );
                }
            }
            let (first, last) = (path[0], path[path.len() - 1]);
            if let Some(before) = ends.insert((first.min(last), first.max(last)), i) {
                findings.add(
                    here,
                    format!("paths {before} and {i} both connect nodes {first} and {last}"),
                    "second path",
                    "keep one of them: a path is used in both directions",
                );
            }
        }
    }

    /// Keys of routing that do not go with its protocol.
    pub(super) fn check_routing(&self, findings: &mut Findings) {
        let routing = &self.routing;
        let mut only = |key: &str, protocol: &str, present: bool| {
            if present {
                findings.add(
                    format!("routing.{key}"),
                    format!("`{key}` has an effect with protocol = \"{protocol}\" only"),
                    "without effect",
                    format!("remove it, or set protocol = \"{protocol}\""),
                );
            }
        };
        match routing.protocol {
            Protocol::Oracle => only("aodv", "aodv", routing.aodv.is_some()),
            Protocol::Aodv => {
                only("metric", "oracle", routing.metric.is_some());
                only("paths", "oracle", !routing.paths.is_empty());
            }
        }
        let Some(aodv) = routing.aodv() else { return };
        let throttles = matches!(self.control, Some(Control::Throttle { .. }));
        if throttles && !aodv.pdp {
            findings.add(
                "control",
                "throttles take their shares from paths that are known everywhere, which AODV has not",
                "needs shares",
                "set routing.aodv.pdp = true, choose another kind of control, or protocol = \"oracle\"",
            );
        }
        if aodv.pdp && aodv.hello == Hello::Off {
            findings.add(
                "routing.aodv.pdp",
                "the path density protocol is carried by HELLO messages, which are off",
                "needs HELLO",
                "set hello = \"active\" or \"always\", or pdp = false",
            );
        }
    }

    pub(super) fn check_internet(&self, findings: &mut Findings) {
        let Some(internet) = &self.internet else { return };
        check_rate("internet", internet.rate_mbps, findings);
        if self.topology.node_count() == 0 {
            findings.add(
                "internet",
                "the internet is attached to the gateway, but there are no nodes",
                "no node to attach to",
                "connect hosts with `[[wired.links]]`, or add nodes to [topology]",
            );
        }
    }
}
