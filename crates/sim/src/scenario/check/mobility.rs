//! Nodes that move: waypoints, random waypoint, movements of a file.

use std::collections::{BTreeMap, BTreeSet};

use super::super::change::Change;
use super::super::mobility::{Mobility, MobilityKind};
use super::super::sections::Scenario;
use super::super::topology::Topology;
use super::findings::{nodes_are, repeated};
use crate::mobility::parse;
use crate::radio::Propagation;
use fairhop_config::{Findings, Number};

/// Maximum speed in m/s.
const MAX_SPEED_MPS: f64 = 10_000.0;

impl Scenario {
    pub(super) fn check_mobility(&self, findings: &mut Findings) {
        // What lets each node move, by its place in the scenario.
        let mut movers: BTreeMap<u32, &str> = BTreeMap::new();
        self.check_waypoints(findings);
        movers.extend(self.waypoints().map(|(node, _)| (node as u32, "its waypoints")));
        if let Some(mobility) = &self.mobility {
            self.check_model(mobility, findings);
            for (node, path) in self.nodes_of_model(mobility, findings) {
                if let Some(other) = movers.insert(node, "[mobility]").filter(|other| *other != "[mobility]")
                {
                    findings.add(
                        path,
                        format!("[mobility] and {other} both move node {node}"),
                        "two ways",
                        "leave the waypoints out, or list the nodes of [mobility] in `nodes`",
                    );
                }
            }
        }
        if !movers.is_empty() && matches!(self.radio.propagation, Propagation::Matrix { .. }) {
            findings.add(
                if self.mobility.is_some() { "mobility" } else { "topology.nodes" },
                "nodes cannot move with a loss matrix, in which path loss does not depend on positions",
                "no effect",
                "choose another `propagation`, or let the nodes rest",
            );
        }
        for (i, change) in self.change.iter().enumerate() {
            if let Change::Move { node, .. } = change
                && let Some(mover) = movers.get(node)
            {
                findings.add(
                    format!("change.{i}.node"),
                    format!("node {node} is moved by {mover}: it cannot jump as well"),
                    "moves already",
                    "leave the change out, or choose a node that rests",
                );
            }
        }
    }

    fn check_waypoints(&self, findings: &mut Findings) {
        let Topology::Explicit { nodes, .. } = &self.topology else { return };
        for (node, waypoints) in self.waypoints() {
            let path = format!("topology.nodes.{node}.waypoints");
            let (start, first) = (&nodes[node], &waypoints[0]);
            if (start.x_m, start.y_m) != (first.x_m, first.y_m) {
                findings.add(
                    format!("{path}.0"),
                    format!(
                        "the first waypoint of node {node} is ({}, {}), but the node rests at ({}, {}) before",
                        Number(first.x_m),
                        Number(first.y_m),
                        Number(start.x_m),
                        Number(start.y_m)
                    ),
                    "a jump",
                    "write the node's own place, and the time at which it leaves; to walk from the start, at_s = 0",
                );
            }
            for (i, pair) in waypoints.windows(2).enumerate() {
                if pair[1].at_s <= pair[0].at_s {
                    findings.add(
                        format!("{path}.{}.at_s", i + 1),
                        format!(
                            "`at_s` is {}, not later than the waypoint before, at {} s",
                            Number(pair[1].at_s),
                            Number(pair[0].at_s)
                        ),
                        "not later",
                        "write the waypoints in the order of time, each at a time of its own",
                    );
                }
            }
        }
    }

    /// Keys of random waypoint and of files.
    fn check_model(&self, mobility: &Mobility, findings: &mut Findings) {
        if self.topology.node_count() == 0 {
            findings.add(
                "mobility",
                "there are no nodes that could move",
                "no nodes",
                "leave [mobility] out",
            );
        }
        let has_file = mobility.file.is_some() || mobility.movements.is_some();
        if mobility.kind.is_some() && has_file {
            findings.add(
                "mobility",
                "[mobility] has a model (`kind`) and movements (`file`)",
                "two ways",
                "keep one of them",
            );
        }
        if mobility.kind.is_none() && !has_file && self.waypoints().next().is_none() {
            findings.add(
                "mobility",
                "[mobility] moves no node",
                "no effect",
                "write kind = \"random-waypoint\", or file = \"move.tcl\", or give nodes `waypoints`",
            );
        }
        let given = [
            ("width_m", mobility.width_m.is_some()),
            ("height_m", mobility.height_m.is_some()),
            ("speed_mps", mobility.speed_mps.is_some()),
            ("pause_s", mobility.pause_s.is_some()),
            ("nodes", mobility.nodes.is_some()),
            ("initial", mobility.initial.is_some()),
        ];
        match mobility.kind {
            Some(MobilityKind::RandomWaypoint) => {
                for (key, _) in given.into_iter().take(3).filter(|(_, given)| !given) {
                    findings.add(
                        "mobility",
                        format!("random waypoint needs `{key}`"),
                        "incomplete",
                        "write width_m = 1500, height_m = 300 and speed_mps = [1, 20], or your own values",
                    );
                }
                check_speeds(mobility, findings);
            }
            None => {
                for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                    findings.add(
                        format!("mobility.{key}"),
                        format!("`{key}` belongs to random waypoint"),
                        "not used",
                        "write kind = \"random-waypoint\", or leave it out",
                    );
                }
            }
        }
    }

    /// The nodes that `[mobility]` moves, with the places in the scenario that say so.
    fn nodes_of_model(&self, mobility: &Mobility, findings: &mut Findings) -> Vec<(u32, String)> {
        let count = self.topology.node_count();
        if let Some(text) = &mobility.movements {
            let place = if mobility.file.is_some() { "mobility.file" } else { "mobility.movements" };
            return match parse(text, count) {
                Ok(read) => read.starts.into_keys().map(|node| (node, place.to_owned())).collect(),
                Err(errors) => {
                    for error in errors {
                        findings.add(
                            place,
                            format!("{}, line {}: {}", mobility.file_name(), error.line, error.message),
                            "cannot be read",
                            "write the movements in ns-2's form, as setdest and BonnMotion do, without other commands",
                        );
                    }
                    Vec::new()
                }
            };
        }
        if mobility.kind.is_none() {
            return Vec::new();
        }
        let Some(nodes) = &mobility.nodes else {
            return (0..count as u32).map(|node| (node, "mobility".to_owned())).collect();
        };
        let repeated: BTreeSet<usize> = repeated(nodes.iter().copied());
        for (i, node) in nodes.iter().enumerate() {
            if *node as usize >= count {
                findings.add(
                    format!("mobility.nodes.{i}"),
                    format!("node {node} does not exist"),
                    "no such node",
                    nodes_are(count),
                );
            } else if repeated.contains(&i) {
                findings.add(
                    format!("mobility.nodes.{i}"),
                    format!("node {node} is listed twice"),
                    "second time",
                    "list each node once",
                );
            }
        }
        nodes.iter().enumerate().map(|(i, &node)| (node, format!("mobility.nodes.{i}"))).collect()
    }
}

fn check_speeds(mobility: &Mobility, findings: &mut Findings) {
    let Some(speeds) = &mobility.speed_mps else { return };
    let path = "mobility.speed_mps";
    let &[min, max] = speeds.as_slice() else {
        findings.add(
            path,
            format!("`speed_mps` has {} numbers", speeds.len()),
            "not a range",
            "write the minimum and the maximum, as in [1, 20]",
        );
        return;
    };
    if min <= 0.0 || min.is_nan() {
        findings.add(
            format!("{path}.0"),
            format!(
                "the minimum speed is {}: the mean speed would fall for ever, as nodes spend ever more of their time on slow \
                 legs (Yoon, Liu and Noble 2003)",
                Number(min)
            ),
            "no steady state",
            "write a minimum above 0, such as 1",
        );
    } else if max < min || max.is_nan() {
        findings.add(
            format!("{path}.1"),
            format!("the maximum speed {} is below the minimum {}", Number(max), Number(min)),
            "below the minimum",
            "write the minimum first",
        );
    } else if max > MAX_SPEED_MPS {
        findings.add(
            format!("{path}.1"),
            format!(
                "the maximum speed is {} m/s; at most {} is possible",
                Number(max),
                Number(MAX_SPEED_MPS)
            ),
            "too fast",
            "speeds are in metres per second",
        );
    }
}
