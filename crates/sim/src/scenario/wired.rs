//! Wired networks as a scenario writes them: the Internet behind the gateway, hosts, and links between hosts and nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::{HostName, Place};
use crate::queue::{Discipline, QueueLimit, queue_named_or_not};
use crate::wired::LinkArq;

/// A wired path from the gateway to a host in the Internet, which is called `internet` in `from` and `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Internet {
    /// One-way delay in ms.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub delay_ms: f64,
    /// Rate in each direction in Mb/s.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub rate_mbps: f64,
    /// Queue at each end of the path.
    #[serde(default = "wired_queue", deserialize_with = "queue_named_or_not")]
    pub queue: Discipline,
}

fn wired_queue() -> Discipline {
    QueueLimit::Packets(1000).into()
}

/// Wired hosts, and the links between them and the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wired {
    /// Hosts: they send, receive and forward packets, and have no radio.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// Full-duplex links. Packets take the path with the fewest radio hops, then the lowest total delay of its wires, then
    /// the fewest wires.
    #[serde(default)]
    pub links: Vec<WiredLink>,
}

/// A host of a wired network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name of the host in `from`, `to` and `between`; at most 24 bytes.
    #[schemars(with = "String", length(min = 1, max = 24))]
    pub name: HostName,
}

/// A link between two hosts, a host and a node, or two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WiredLink {
    /// The two ends: names of hosts, numbers of nodes, `"gateway"`, `"last"` or `"internet"`.
    pub between: Vec<Place>,
    /// Rate in each direction in Mb/s.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub rate_mbps: f64,
    /// One-way delay in ms.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub delay_ms: f64,
    /// Queue at each end.
    #[serde(default = "wired_queue", deserialize_with = "queue_named_or_not")]
    pub queue: Discipline,
    /// Bytes that the link adds to each IP packet; 14 for an Ethernet header.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub overhead_bytes: u32,
    /// Random or periodic losses. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LinkLoss>,
    /// A time-slotted radio channel instead of a wire. Left out: a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<SlottedChannel>,
    /// Parameters that differ in the direction from the first of `between` to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<LinkDirection>,
    /// Parameters that differ in the direction from the second of `between` to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<LinkDirection>,
}

/// Parameters of one direction of a link. Left out: those of the link.
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
    /// Queue at the sending end.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_queue")]
    pub queue: Option<Discipline>,
    /// Random or periodic losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LinkLoss>,
    /// A time-slotted radio channel instead of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<SlottedChannel>,
}

fn some_queue<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Discipline>, D::Error> {
    queue_named_or_not(deserializer).map(Some)
}

/// Losses on a link: periodic or random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkLoss {
    /// Periodic loss: one frame in this many is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub every: Option<u32>,
    /// Random loss: the probability that a frame is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: Option<f64>,
    /// Only frames larger than this, `overhead_bytes` included, are counted and lost.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_535))]
    pub over_bytes: u32,
}

/// A time-slotted radio channel (cai2005, section IV): one frame per slot, whose fate is determined by the state of a Markov
/// chain that advances every slot. The sender learns at the end of the slot whether the frame was received.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlottedChannel {
    /// Frame error rate over all slots.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error: f64,
    /// Correlation of the channel between successive slots. 0: slots are independent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 0.999_999))]
    pub memory: f64,
    /// Number of states of the chain, from one in which all frames are lost to one in which none is.
    #[serde(default = "two_states")]
    #[schemars(range(min = 2, max = 64))]
    pub states: u32,
    /// Retransmission of lost frames.
    #[serde(default)]
    pub arq: LinkArq,
    /// Slot size in bytes, `overhead_bytes` included: a slot lasts as long as this many bytes at the link's rate. A larger
    /// packet takes several slots, a smaller packet one.
    #[schemars(range(min = 1, max = 65_535))]
    pub slot_bytes: u32,
}

fn two_states() -> u32 {
    2
}
