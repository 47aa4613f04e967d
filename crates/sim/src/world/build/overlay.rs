//! Where packets enter and leave the mesh under a routing protocol.
//!
//! A place without radio is reached through a gateway: of the nodes to which wires lead from it, the one nearest to the other
//! end of the flow at the start, then the one with the lowest number. Both directions of a flow pass the same gateway, which
//! stays the same during the run. To AODV, the gateway is the destination. Wires between nodes are not used.

use std::collections::{BTreeMap, VecDeque};

use super::SetupError;
use super::flows::Plan;
use super::paths::Surrounds;
use crate::packet::NodeId;
use crate::routing::{Routes, Wires};
use crate::scenario::Finding;
use crate::world::aodv::Overlay;
use crate::world::changes::flows_with_ends;

impl Plan<'_> {
    /// Routes over wires, and the gateways of all flows.
    pub(super) fn overlay(&self, around: Surrounds<'_>) -> Result<(Routes, Overlay), SetupError> {
        let mut paths = Vec::new();
        let mut gateways = BTreeMap::new();
        let flows = flows_with_ends(&self.applications.flows);
        let flows = flows.map(|(flow, ends)| (Some(flow.entry), ends));
        let real = self.applications.real.ends.iter().map(|&ends| (None, ends));
        for (entry, (from, to)) in flows.chain(real) {
            let (host, end) = match (from < self.nodes, to < self.nodes) {
                (true, true) => continue,
                (false, _) => (from, to),
                (true, false) => (to, from),
            };
            let found = self.gateway(around, host, end);
            let Some(path) = found else {
                let Some(entry) = entry else { continue };
                return Err(Finding::new(
                    format!("traffic.{entry}"),
                    "no wires lead from one end of the flow to the other, or to a node of the mesh",
                    "cannot be reached",
                    "join its ends with `[[wired.links]]`: routing protocols cross the mesh between nodes",
                )
                .into());
            };
            if end < self.nodes
                && let Some(&gateway) = path.last()
            {
                gateways.insert((host, end), gateway);
                gateways.insert((end, host), gateway);
            }
            let back: Vec<u32> = path.iter().rev().copied().collect();
            paths.push(((host, end), path));
            paths.push(((end, host), back));
        }
        Ok((Routes::for_ends(&paths, around.wires), Overlay { nodes: self.nodes, gateways }))
    }

    /// The path over wires from a host to the other end of a flow, or to the gateway for it.
    fn gateway(&self, around: Surrounds<'_>, host: NodeId, end: NodeId) -> Option<Vec<NodeId>> {
        let came_from = self.reached(around.wires, host);
        let target = if end >= self.nodes {
            end
        } else {
            let at = around.links.positions();
            let distance = |node: &NodeId| at[*node as usize].distance_m(at[end as usize]);
            let nodes = came_from.keys().copied().filter(|&node| node < self.nodes);
            nodes.min_by(|a, b| distance(a).total_cmp(&distance(b)))?
        };
        let mut path = vec![target];
        while let Some(&before) = came_from.get(path.last()?) {
            if before == *path.last()? {
                path.reverse();
                return Some(path);
            }
            path.push(before);
        }
        None
    }

    /// All places that wires lead to from a host without passing a node, and the place before each; before the host, itself.
    fn reached(&self, wires: &Wires, host: NodeId) -> BTreeMap<NodeId, NodeId> {
        let mut came_from = BTreeMap::from([(host, host)]);
        let mut open = VecDeque::from([host]);
        while let Some(place) = open.pop_front() {
            if place < self.nodes {
                continue;
            }
            for to in wires.from(place) {
                came_from.entry(to).or_insert_with(|| {
                    open.push_back(to);
                    place
                });
            }
        }
        came_from
    }
}
