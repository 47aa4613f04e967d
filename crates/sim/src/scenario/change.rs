//! What happens to the network while a scenario runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something about the network that is different from some time on. Routes follow at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A node is at another place. Frames that are on the air are still those of the old one.
    Move {
        /// From here on, in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
        /// The node.
        node: u32,
        /// Metres to the right.
        #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
        x_m: f64,
        /// Metres up.
        #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
        y_m: f64,
    },
    /// A node sends its data frames at another rate: all of them, or those to one neighbour. The packet that it is busy with
    /// keeps its rate.
    Rate {
        /// From here on, in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
        /// The node that sends.
        from: u32,
        /// The neighbour. Left out: all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u32>,
        /// The rate in Mb/s; one that the standard has.
        rate_mbps: f64,
    },
}

impl Change {
    /// From when on, in seconds.
    pub const fn at_s(&self) -> f64 {
        match self {
            Self::Move { at_s, .. } | Self::Rate { at_s, .. } => *at_s,
        }
    }
}
