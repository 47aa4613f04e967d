//! Wired networks as a scenario writes them: hosts, and links between hosts and nodes.

use arrayvec::ArrayString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::{Queue, queue_named_or_not};
use super::types::{Place, wired_queue};

/// The name of a host. Short, so that places can be copied.
pub type HostName = ArrayString<24>;

/// Hosts and the wires between them and the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wired {
    /// Hosts: they send, receive and pass on, and have no radio.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// Links, full duplex. Packets take the path with the fewest radio hops, then the least delay of its wires, then the
    /// fewest wires.
    #[serde(default)]
    pub links: Vec<WiredLink>,
}

/// A host of a wired network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What `from`, `to` and `between` call it; at most 24 bytes.
    #[schemars(with = "String", length(min = 1, max = 24))]
    pub name: HostName,
}

/// A link between two hosts, a host and a node, or two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WiredLink {
    /// Its two ends: names of hosts, numbers of nodes, `"gateway"` or `"internet"`.
    pub between: Vec<Place>,
    /// Rate in each direction in Mb/s.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub rate_mbps: f64,
    /// One-way delay in ms.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub delay_ms: f64,
    /// The queue at each end.
    #[serde(default = "wired_queue", deserialize_with = "queue_named_or_not")]
    pub queue: Queue,
    /// Bytes that the link adds to each IP packet; Ethernet's header is 14.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub overhead_bytes: u32,
    /// Losses on the way; left out, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LinkLoss>,
    /// A time-slotted radio channel instead of a wire; left out, it is a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<SlottedChannel>,
    /// What is different from the first of `between` to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<LinkDirection>,
    /// What is different from the second of `between` to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<LinkDirection>,
}

/// What is different in one direction of a link. What is left out is that of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDirection {
    /// Rate in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub rate_mbps: Option<f64>,
    /// Delay in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub delay_ms: Option<f64>,
    /// The queue at the end that sends.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_queue")]
    pub queue: Option<Queue>,
    /// Losses on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LinkLoss>,
    /// A time-slotted radio channel instead of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<SlottedChannel>,
}

fn some_queue<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Queue>, D::Error> {
    queue_named_or_not(deserializer).map(Some)
}

/// Losses on a link: every so many frames, or with a chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkLoss {
    /// Every so many frames, one is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub every: Option<u32>,
    /// Each frame is lost with this chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: Option<f64>,
    /// Only frames of more bytes than this, `overhead_bytes` included, are counted or lost.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_535))]
    pub over_bytes: u32,
}

/// A time-slotted radio channel (cai2005, section IV): in each slot one frame, which gets through or not by the state of a
/// Markov chain that takes a step every slot. The sender learns at the end of a slot what became of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlottedChannel {
    /// Chance that a frame is lost, over all slots.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error: f64,
    /// The part of the chain that stays as it is from slot to slot; 0: no slot knows of the one before.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 0.999_999))]
    pub memory: f64,
    /// States of the chain, from one in which all is lost to one in which nothing is.
    #[serde(default = "two_states")]
    #[schemars(range(min = 2, max = 64))]
    pub states: u32,
    /// What the sender does about a lost frame.
    #[serde(default)]
    pub arq: LinkArq,
    /// Bytes that fill a slot, `overhead_bytes` included: a slot is their time at the link's rate. A larger packet takes
    /// several slots, a smaller one a whole one.
    #[schemars(range(min = 1, max = 65_535))]
    pub slot_bytes: u32,
}

fn two_states() -> u32 {
    2
}

/// What a time-slotted link does about a lost frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkArq {
    /// Sends it again in the next slot, until it gets through.
    #[default]
    Persistent,
    /// Leaves the next slot out and sends it again in the one after.
    Optimal,
    /// Gives its packet up.
    None,
}
