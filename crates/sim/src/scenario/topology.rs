//! The nodes of a topology, and the nodes and hosts that the places of a scenario name.

use super::types::{NamedPlace, Place, Scenario, Topology};
use super::wired::Host;

/// What a [`Place`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// In the mesh.
    Node(u32),
    /// Behind the gateway.
    Internet,
    /// A host of `[wired]`, by its index; past the end of the list if the name is unknown.
    Host(usize),
    /// All neighbours of the sender.
    Broadcast,
}

impl Topology {
    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        match self {
            Self::String { hops, lines, .. } => (*hops as usize + 1) * *lines as usize,
            Self::Grid { columns, rows, .. } => *columns as usize * *rows as usize,
            Self::Ring { nodes, .. } | Self::Random { nodes, .. } => *nodes as usize,
            Self::Explicit { nodes, .. } => nodes.len(),
            Self::None => 0,
        }
    }

    /// The node where the Internet is attached, the first one of several; without meaning if there are no nodes.
    pub fn gateway(&self) -> u32 {
        self.gateways().first().copied().unwrap_or(0)
    }

    /// All nodes where the Internet is attached.
    pub fn gateways(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::String { gateway, .. }
            | Self::Grid { gateway, .. }
            | Self::Ring { gateway, .. }
            | Self::Random { gateway, .. }
            | Self::Explicit { gateway, .. } => gateway.nodes(),
        }
    }
}

impl Scenario {
    /// The hosts of `[wired]`.
    pub fn wired_hosts(&self) -> &[Host] {
        self.wired.as_ref().map_or(&[], |wired| &wired.hosts)
    }

    /// The node or host that a place names; `gateway` becomes its node.
    pub fn resolve_place(&self, place: Place) -> Endpoint {
        match place {
            Place::Node(node) => Endpoint::Node(node),
            Place::Named(NamedPlace::Gateway) => Endpoint::Node(self.topology.gateway()),
            Place::Named(NamedPlace::Internet) => Endpoint::Internet,
            Place::Named(NamedPlace::Broadcast) => Endpoint::Broadcast,
            Place::Host(name) => {
                let hosts = self.wired_hosts();
                Endpoint::Host(hosts.iter().position(|host| host.name == name).unwrap_or(hosts.len()))
            }
        }
    }
}
