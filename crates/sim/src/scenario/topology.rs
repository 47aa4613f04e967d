//! Topologies as a scenario writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Positions of the nodes. Nodes are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// A line of `hops` + 1 nodes, or several parallel lines (numbered line by line).
    String {
        /// Hops from the first node to the last.
        #[schemars(range(min = 1, max = 10_000))]
        hops: u32,
        /// Distance between neighbours in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// Number of lines.
        #[serde(default = "one_line")]
        #[schemars(range(min = 1, max = 1_000))]
        lines: u32,
        /// Distance between lines in metres. Left out: `spacing_m`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        line_spacing_m: Option<f64>,
        /// The node where the Internet is attached, or a list of nodes: each flow uses the gateway on its shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// A rectangular grid of nodes, numbered row by row.
    Grid {
        /// Nodes per row.
        #[schemars(range(min = 1, max = 1_000))]
        columns: u32,
        /// Number of rows.
        #[schemars(range(min = 1, max = 1_000))]
        rows: u32,
        /// Distance between neighbours in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// The node where the Internet is attached, or a list of nodes: each flow uses the gateway on its shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes evenly spaced on a circle.
    Ring {
        /// Number of nodes.
        #[schemars(range(min = 3, max = 10_000))]
        nodes: u32,
        /// Distance between neighbours along the chord, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// The node where the Internet is attached, or a list of nodes: each flow uses the gateway on its shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes at random positions in a rectangle, drawn from the seed until all nodes are connected.
    Random {
        /// Number of nodes.
        #[schemars(range(min = 1, max = 10_000))]
        nodes: u32,
        /// Width of the rectangle in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        width_m: f64,
        /// Height of the rectangle in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        height_m: f64,
        /// The node where the Internet is attached, or a list of nodes: each flow uses the gateway on its shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes at given positions.
    Explicit {
        /// One entry per node, in the order of their numbers.
        nodes: Vec<NodeAt>,
        /// The node where the Internet is attached, or a list of nodes: each flow uses the gateway on its shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// No nodes: a wired network only.
    None,
}

fn one_line() -> u32 {
    1
}

/// One gateway or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gateways {
    /// One gateway.
    One(u32),
    /// Several gateways; `"gateway"` in `from` and `to` is the first of them.
    Several(Vec<u32>),
}

impl Default for Gateways {
    fn default() -> Self {
        Self::One(0)
    }
}

impl From<u32> for Gateways {
    fn from(node: u32) -> Self {
        Self::One(node)
    }
}

impl Gateways {
    /// Nodes of the gateways.
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Several(nodes) => nodes,
        }
    }
}

/// A node of an explicit topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAt {
    /// Horizontal coordinate in metres.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub x_m: f64,
    /// Vertical coordinate in metres.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub y_m: f64,
    /// Places on the node's way, which it walks in straight lines at constant speed. It rests before the first, which is its
    /// own place, and after the last. Left out: it rests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waypoints: Vec<Waypoint>,
}

/// A place where a node is at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waypoint {
    /// Time at which the node is there, in seconds.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub at_s: f64,
    /// Horizontal coordinate in metres.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub x_m: f64,
    /// Vertical coordinate in metres.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub y_m: f64,
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

    /// The node with the highest number; 0 without nodes.
    pub fn last_node(&self) -> u32 {
        self.node_count().saturating_sub(1) as u32
    }

    /// The node where the Internet is attached; with several gateways, the first of them. 0 without nodes.
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
