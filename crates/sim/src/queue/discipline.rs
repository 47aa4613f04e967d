//! Parameters of a queue: the discipline with its constants, and the capacity. In a scenario, `{ packets = 50 }` without a
//! discipline is drop-tail. The doc comments of the types are the descriptions in the JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Queue discipline and capacity. Without a discipline, as in `{ packets = 50 }`, the queue is drop-tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "discipline", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = drop_tail_needs_no_name)]
pub enum Discipline {
    /// First in, first out; packets that arrive at a full queue are dropped.
    DropTail {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
    },
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Minimum threshold: no early drops while the average queue is shorter. Left out: the packets that the link sends
        /// in 2.5 ms (half the target delay of 5 ms), and at least 5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        min_packets: Option<f64>,
        /// Maximum threshold: the average queue at which the drop probability is `max_probability`. Left out: three times
        /// `min_packets`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        max_packets: Option<f64>,
        /// Weight of the current queue length in the moving average. Left out: 0.002, or with `adaptive` 1 − e^(−1/C), where
        /// C is the link's rate in packets per second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
        weight: Option<f64>,
        /// Drop probability when the average is at `max_packets`; with `adaptive`, its initial value.
        #[serde(default = "tenth")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
        max_probability: f64,
        /// Gentle mode: above `max_packets` the drop probability rises linearly to 1 at twice `max_packets`. false: all packets
        /// are dropped above `max_packets`.
        #[serde(default = "yes")]
        gentle: bool,
        /// Adaptive RED (Floyd, Gummadi and Shenker 2001): the drop probability follows the average queue.
        #[serde(default)]
        adaptive: bool,
        /// Byte mode: counts bytes in units of `mean_packet_bytes`, and drops large packets with a higher probability.
        #[serde(default)]
        count_bytes: bool,
        /// Mean packet size, from which the decay of the average over an idle period is computed.
        #[serde(default = "mean_packet")]
        #[schemars(range(min = 1, max = 9000))]
        mean_packet_bytes: u32,
        /// Marks packets of ECN-capable transports instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Strict priority by DSCP class, with a drop-tail queue per class.
    Priority {
        /// Capacity of each class in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity of each class in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// Time that the delay may stay above the target before packets are dropped, in ms; about the longest round-trip
        /// time.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Marks packets of ECN-capable transports instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Flow queuing with CoDel (RFC 8290).
    FqCodel {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay of a flow in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// Time that the delay may stay above the target before packets are dropped, in ms; about the longest round-trip
        /// time.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Bytes that a flow may send per round.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// Number of queues into which flows are hashed.
        #[serde(default = "flows")]
        #[schemars(range(min = 1, max = 65_536))]
        flows: u32,
        /// Marks packets of ECN-capable transports instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// FQ-CoDel with fairness first among hosts, then among the flows of a host, as in CAKE's `dual-srchost` and
    /// `dual-dsthost` modes (Høiland-Jørgensen, Täht and Morton 2018).
    Cake {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Acceptable standing delay of a flow in ms.
        #[serde(default = "target_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        target_ms: f64,
        /// Time that the delay may stay above the target before packets are dropped, in ms; about the longest round-trip
        /// time.
        #[serde(default = "interval_ms")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        interval_ms: f64,
        /// Bytes that a host may send per round.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// Number of queues into which flows are hashed.
        #[serde(default = "flows")]
        #[schemars(range(min = 1, max = 65_536))]
        flows: u32,
        /// Marks packets of ECN-capable transports instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
        /// The host by which packets are classified.
        #[serde(default)]
        by: HostOf,
    },
    /// Deficit round robin over hosts (Shreedhar and Varghese 1996).
    Drr {
        /// Capacity in packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: Option<u32>,
        /// Capacity in bytes of IP packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: Option<u32>,
        /// Bytes that a host may send per round.
        #[serde(default = "quantum")]
        #[schemars(range(min = 1, max = 1_000_000))]
        quantum_bytes: u32,
        /// The host by which packets are classified.
        #[serde(default)]
        by: HostOf,
    },
}

/// The host of a packet that a queue classifies by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostOf {
    /// The sender.
    #[default]
    Source,
    /// The receiver.
    Destination,
}

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// In packets.
    Packets(u32),
    /// In bytes of IP packets.
    Bytes(u32),
}

impl Discipline {
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

    /// The capacity. A checked scenario has exactly one of `packets` and `bytes`; here `packets` takes precedence.
    pub fn limit(&self) -> QueueLimit {
        match self.limits() {
            (Some(packets), _) => QueueLimit::Packets(packets),
            (None, Some(bytes)) => QueueLimit::Bytes(bytes),
            (None, None) => QueueLimit::Packets(1),
        }
    }
}

impl From<QueueLimit> for Discipline {
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

/// Deserializes a queue in which `discipline = "drop-tail"` may be left out.
///
/// # Errors
/// The table is not a queue.
pub(crate) fn queue_named_or_not<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Discipline, D::Error> {
    let mut table = serde_json::Map::deserialize(deserializer)?;
    table.entry(TAG).or_insert_with(|| DEFAULT.into());
    Discipline::deserialize(serde_json::Value::Object(table)).map_err(serde::de::Error::custom)
}

/// Makes `discipline` optional for drop-tail in the schema as well.
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
