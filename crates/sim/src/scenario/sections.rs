//! A scenario as written: the single source of the TOML form, the JSON Schema, the help texts and the checks.
//!
//! Every doc comment here is shown to users. Names carry their units. Keys with a default may be left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attach::Attach;
use super::change::Change;
use super::mobility::Mobility;
use super::topology::Topology;
use super::traffic::Traffic;
use super::wired::{Internet, Wired};
use crate::mac::Mac;
use crate::radio::Radio;
use crate::routing::Routing;
use fairhop_config::control::Control;

/// A network to simulate: radio, topology, traffic and duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario in results.
    pub name: String,
    /// What the scenario shows, in one or two sentences.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Simulated time in seconds, warm-up included.
    #[schemars(range(min = 1e-6, max = 1_000_000.0))]
    pub duration_s: f64,
    /// Warm-up in seconds: statistics exclude this time at the start.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub warmup_s: f64,
    /// Seed of all random numbers. The same scenario and seed give identical results.
    #[serde(default = "one")]
    pub seed: u64,
    /// Radio: standard, rates, propagation and reception.
    #[serde(default)]
    pub radio: Radio,
    /// Medium access.
    #[serde(default)]
    pub mac: Mac,
    /// Positions of the nodes.
    pub topology: Topology,
    /// Movement of nodes. Left out: nodes rest, or walk along their waypoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mobility: Option<Mobility>,
    /// Routing.
    #[serde(default)]
    pub routing: Routing,
    /// A wired path from the gateway to a host in the Internet. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet: Option<Internet>,
    /// Other wired hosts and links. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wired: Option<Wired>,
    /// Traffic: senders, receivers and what they send.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Places whose network stacks are real, for `fairhop emulate`. Left out: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<Attach>,
    /// Control that keeps call quality high and TCP shares fair. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Changes of the network during the run. Left out: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<Change>,
    /// Rating of call quality.
    #[serde(default)]
    pub voice: Voice,
    /// Recording of time series.
    #[serde(default)]
    pub record: Record,
}

fn one() -> u64 {
    1
}

/// Rating of call quality.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Voice {
    /// Playout delay in ms: a packet whose delay exceeds that of the stream's fastest packet by more than this is late, and
    /// counts as lost for the listener.
    #[schemars(range(min = 0.0, max = 10_000.0))]
    pub playout_ms: f64,
}

impl Default for Voice {
    fn default() -> Self {
        Self { playout_ms: 60.0 }
    }
}

/// Recording of time series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// Interval of the time series in seconds.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub interval_s: f64,
}

impl Default for Record {
    fn default() -> Self {
        Self { interval_s: 1.0 }
    }
}
