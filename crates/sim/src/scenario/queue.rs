//! Queues as a scenario writes them: a discipline with its parameters, and how much it holds. `{ packets = 50 }` alone is
//! drop-tail.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// How packets wait, and how many. Written without a discipline, as in `{ packets = 50 }`, it is drop-tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "discipline", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = drop_tail_needs_no_name)]
pub enum Queue {
    /// First come, first served; what finds it full is lost.
    DropTail {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
    },
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Nothing is dropped early while the average queue is shorter than this. Left out: what makes 5 ms of delay, and at
        /// least 5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        min_packets: Option<f64>,
        /// The average queue at which packets are dropped with `max_probability`. Left out: three times `min_packets`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        max_packets: Option<f64>,
        /// Weight of the queue that a packet finds in the average. Left out: 0.002, or with `adaptive` 1 − e^(−1/C) where C
        /// is the link's rate in packets a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
        weight: Option<f64>,
        /// Chance of a drop when the average is at `max_packets`; with `adaptive`, at the start.
        #[serde(default = "tenth")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
        max_probability: f64,
        /// Above `max_packets` the chance rises to 1 at twice as much; false: all are dropped.
        #[serde(default = "yes")]
        gentle: bool,
        /// The chance follows the average (Adaptive RED: Floyd, Gummadi and Shenker 2001).
        #[serde(default)]
        adaptive: bool,
        /// Counts bytes, in units of `mean_packet_bytes`, and drops large packets sooner.
        #[serde(default)]
        count_bytes: bool,
        /// Mean size of a packet: by it the average falls while the queue is idle.
        #[serde(default = "mean_packet")]
        #[schemars(range(min = 1, max = 9000))]
        mean_packet_bytes: u32,
        /// Marks packets whose transport understands ECN instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Strict priority by DSCP class, with a drop-tail queue for each class.
    Priority {
        /// Each class holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Each class holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// About the longest round-trip time, in ms: the delay may be above the target for so long.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Marks packets whose transport understands ECN instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Flow queuing with CoDel (RFC 8290).
    FqCodel {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay of a flow in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// About the longest round-trip time, in ms: the delay may be above the target for so long.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Bytes that a flow may send in its turn.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// Queues into which flows are hashed.
        #[serde(default = "flows")]
        #[schemars(range(min = 1, max = 65_536))]
        flows: u32,
        /// Marks packets whose transport understands ECN instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// FQ-CoDel that is fair to hosts first and to the flows of a host second, as CAKE's `dual-srchost` and `dual-dsthost` are
    /// (Høiland-Jørgensen, Täht and Morton 2018).
    Cake {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay of a flow in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// About the longest round-trip time, in ms: the delay may be above the target for so long.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Bytes that a host may send in its turn.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// Queues into which flows are hashed.
        #[serde(default = "flows")]
        #[schemars(range(min = 1, max = 65_536))]
        flows: u32,
        /// Marks packets whose transport understands ECN instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
        /// Which host of a packet counts.
        #[serde(default)]
        by: HostOf,
    },
    /// Deficit round robin over hosts (Shreedhar and Varghese 1996).
    Drr {
        /// Holds this many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Holds this many bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Bytes that a host may send in its turn.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// Which host of a packet counts.
        #[serde(default)]
        by: HostOf,
    },
}

/// One of the two hosts of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostOf {
    /// The one that sent it.
    #[default]
    Source,
    /// The one that it goes to.
    Destination,
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// This many packets.
    Packets(u32),
    /// This many bytes of IP packets.
    Bytes(u32),
}

impl Queue {
    /// `packets` and `bytes` as written.
    pub fn limits(&self) -> (Option<u32>, Option<u32>) {
        match self {
            Self::DropTail { packets, bytes }
            | Self::Red { packets, bytes, .. }
            | Self::Priority { packets, bytes }
            | Self::Codel { packets, bytes, .. }
            | Self::FqCodel { packets, bytes, .. }
            | Self::Cake { packets, bytes, .. }
            | Self::Drr { packets, bytes, .. } => (*packets, *bytes),
        }
    }

    /// How much it holds. A checked scenario says exactly one of packets and bytes; packets go first here.
    pub fn limit(&self) -> QueueLimit {
        match self.limits() {
            (Some(packets), _) => QueueLimit::Packets(packets),
            (None, Some(bytes)) => QueueLimit::Bytes(bytes),
            (None, None) => QueueLimit::Packets(1),
        }
    }
}

impl From<QueueLimit> for Queue {
    /// Drop-tail.
    fn from(limit: QueueLimit) -> Self {
        match limit {
            QueueLimit::Packets(packets) => Self::DropTail { packets: Some(packets), bytes: None },
            QueueLimit::Bytes(bytes) => Self::DropTail { packets: None, bytes: Some(bytes) },
        }
    }
}

const TAG: &str = "discipline";
const DEFAULT: &str = "drop-tail";

/// Reads a queue that need not say `discipline = "drop-tail"`.
pub(super) fn queue_named_or_not<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Queue, D::Error> {
    let mut table = serde_json::Map::deserialize(deserializer)?;
    table.entry(TAG).or_insert_with(|| DEFAULT.into());
    Queue::deserialize(serde_json::Value::Object(table)).map_err(serde::de::Error::custom)
}

/// In the schema too, drop-tail may go without its name.
fn drop_tail_needs_no_name(schema: &mut schemars::Schema) {
    let variants = schema.get_mut("oneOf").and_then(|variants| variants.as_array_mut());
    for variant in variants.into_iter().flatten() {
        if variant["properties"][TAG]["const"] == DEFAULT
            && let Some(required) = variant["required"].as_array_mut()
        {
            required.retain(|key| key != TAG);
        }
    }
}

fn tenth() -> f64 {
    0.1
}

fn yes() -> bool {
    true
}

fn mean_packet() -> u32 {
    500
}

fn target_ms() -> f64 {
    5.0
}

fn interval_ms() -> f64 {
    100.0
}

fn quantum() -> u32 {
    1514
}

fn flows() -> u32 {
    1024
}
