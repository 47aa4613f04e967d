//! Parameters of routing as a scenario writes them. The doc comments are the descriptions in the JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Static shortest-path routing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// Metric of a path.
    pub metric: Metric,
    /// Explicit paths, as node numbers from first to last. They take precedence over the metric and are used in both
    /// directions.
    pub paths: Vec<Vec<u32>>,
    /// Time to live that hosts and nodes send with: a packet is dropped by the node that would forward it for this many
    /// times. 64 is the default of Linux.
    #[schemars(range(min = 1, max = 255))]
    pub ttl: u8,
}

impl Default for Routing {
    fn default() -> Self {
        Self { metric: Metric::Hops, paths: Vec::new(), ttl: 64 }
    }
}

/// Routing metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Fewest hops over links that decode at the data rate; ties are broken by the shortest distance, then the lowest node
    /// number.
    Hops,
    /// ETX: minimum expected transmissions of a 1500-byte packet and its ACK (De Couto et al., MobiCom 2003), computed from
    /// the links' error rates without interference. Links with a delivery ratio below 10 % are not used.
    Etx,
}
