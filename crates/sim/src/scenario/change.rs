//! Changes of the network during a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of the network at some time during the run. Routes are updated at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A node moves to another position. Frames already on the air are received as sent from the old one.
    Move {
        /// Time of the change in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
        /// The node.
        node: u32,
        /// Horizontal coordinate in metres.
        #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
        x_m: f64,
        /// Vertical coordinate in metres.
        #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
        y_m: f64,
    },
    /// A node changes the rate of its data frames, to all neighbours or to one. The packet in service keeps its rate. For
    /// rates that hold from the start of the run, see `rates` in `[radio]`.
    Rate {
        /// Time of the change in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
        /// The sending node.
        from: u32,
        /// The neighbour. Left out: all neighbours.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u32>,
        /// The rate in Mb/s; one of the standard's rates.
        rate_mbps: f64,
    },
}

impl Change {
    /// Time of the change in seconds.
    pub const fn at_s(&self) -> f64 {
        match self {
            Self::Move { at_s, .. } | Self::Rate { at_s, .. } => *at_s,
        }
    }
}
