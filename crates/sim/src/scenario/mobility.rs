//! Nodes on their way from one place to another, as a scenario writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Movement of nodes: random waypoint, or a file of movements. Waypoints of single nodes are written in
/// `topology.nodes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mobility {
    /// Mobility model. Left out: movements come from `file`, or from the waypoints of nodes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MobilityKind>,
    /// Width of the area of random waypoint in metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub width_m: Option<f64>,
    /// Height of the area of random waypoint in metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub height_m: Option<f64>,
    /// Minimum and maximum speed in m/s; the speed of each leg is uniform between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mps: Option<Vec<f64>>,
    /// Pause at each waypoint in seconds. Left out: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub pause_s: Option<f64>,
    /// Nodes that move by random waypoint. Left out: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<u32>>,
    /// State of random waypoint at the start of the run. Left out: `steady-state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Initial>,
    /// File of movements in ns-2's form (`set X_`, `setdest`), which setdest, BonnMotion and SUMO write. The path is
    /// relative to the scenario's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Text of the movements in ns-2's form, in place of a file. With it, `file` is only the name that messages use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub movements: Option<String>,
    /// How often routes follow moving nodes, in seconds.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub route_interval_s: f64,
}

impl Default for Mobility {
    fn default() -> Self {
        Self {
            kind: None,
            width_m: None,
            height_m: None,
            speed_mps: None,
            pause_s: None,
            nodes: None,
            initial: None,
            file: None,
            movements: None,
            route_interval_s: 0.1,
        }
    }
}

/// Mobility model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MobilityKind {
    /// Random waypoint (Johnson and Maltz 1996): to a uniform place in the area at a uniform speed, a pause, and on.
    RandomWaypoint,
}

/// State of random waypoint at the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// Uniform places and a full pause first (Broch et al. 1998): nodes drift to the middle and slow down during the first
    /// minutes.
    Uniform,
    /// Places, speeds and pauses as after a long time (Navidi and Camp 2004).
    #[default]
    SteadyState,
}

impl Mobility {
    /// The name of the movements in messages.
    pub(crate) fn file_name(&self) -> &str {
        self.file.as_deref().unwrap_or("movements")
    }

    /// Minimum and maximum speed in m/s, where both are given.
    pub(crate) fn speeds(&self) -> Option<(f64, f64)> {
        match self.speed_mps.as_deref() {
            Some(&[min, max]) => Some((min, max)),
            _ => None,
        }
    }
}
