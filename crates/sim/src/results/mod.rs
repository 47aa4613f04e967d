//! Results: the figures of a run, and the means of several runs, as `fairhop run --json` prints them.
//!
//! Times are milliseconds, rates Mb/s. Losses are fractions of the packets sent whose fate is known. What does not exist,
//! such as the score of a call that sent nothing, is null, and means and minima over calls leave it out.
//!
//! | module | contents |
//! |---|---|
//! | `figures` | from the counters of a stream to figures: quality, loss, delay |
//! | `collect` | from a [`World`](crate::world::World) to a [`Summary`] |
//! | `replications` | means and confidence intervals over seeds |

mod collect;
mod figures;
mod replications;
mod routing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use figures::{loss_or_late, mos_of_direction, mos_of_interval, outage, totals};
pub use replications::{Entries, NoRuns, Replications};
pub use routing::{DiscoverySummary, PathSummary, RoutingSummary};

/// Minimum MOS of the worse direction of an acceptable call (kim2010).
pub const ACCEPTABLE_MOS: f64 = 3.6;

/// The results of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the program.
    pub fairhop: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// True where the run was ended early; the figures cover the time until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What an emulation was like; left out where nothing was real.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<EmulationSummary>,
    /// Simulated seconds.
    pub sim_s: f64,
    /// Frames sent over the air.
    pub frames: f64,
    /// Calls.
    pub calls: Vec<CallSummary>,
    /// Other flows.
    pub flows: Vec<FlowSummary>,
    /// Figures over all flows.
    pub totals: Totals,
    /// Stations.
    pub nodes: Vec<NodeSummary>,
    /// Directions of wired links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSummary>,
    /// The routing protocol; left out where paths are known everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingSummary>,
    /// The controller of the first gateway; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlSummary>,
    /// The controllers of the other gateways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_control: Vec<ControlSummary>,
}

/// How well a run kept up with the clock, and its real packets. Counts include the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulationSummary {
    /// True where more than 1 % of the events came more than 1 ms late: the figures of the run cannot be trusted.
    pub too_late: bool,
    /// How late events were handled: median.
    pub lateness_p50_ms: f64,
    /// 99th percentile.
    pub lateness_p99_ms: f64,
    /// Maximum.
    pub lateness_max_ms: f64,
    /// How late the machine woke the program when an event was due, 99th percentile: the part of the lateness that no
    /// program can avoid.
    pub wakeup_p99_ms: f64,
    /// Whether the machine gave the program real-time priority (`SCHED_FIFO`).
    pub real_time_priority: bool,
    /// Packets that programs sent into the network.
    pub injected: f64,
    /// Packets that arrived; of a broadcast, receptions.
    pub delivered: f64,
    /// Packets that arrived and were not taken by the interface of their destination.
    pub unwritten: f64,
    /// Packets that did not enter the network, by reason.
    pub rejected: BTreeMap<String, f64>,
}

/// A gateway's controller: its last decision, and the time it spent in each state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlSummary {
    /// Number of the gateway's node.
    pub gateway: String,
    /// Kind of control in force at the end, as in the scenario.
    pub kind: String,
    /// The last state: `off`, `learning`, `steady`, `protecting` or `starved`.
    pub state: String,
    /// Reason for the last state, in words.
    pub reason: String,
    /// What enforced the last budget: `window`, `pacing` or `both`.
    pub means: String,
    /// The last budget, times hops; left out where the controller sets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_mbps: Option<f64>,
    /// The last rate of elastic data into the mesh; left out where there was no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_mbps: Option<f64>,
    /// The last rate of bytes that released ACKs acknowledge; left out where there was no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks_mbps: Option<f64>,
    /// The last smallest window clamp, in bytes; left out where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<f64>,
    /// Mean number of packets queued in the pacers, over the ticks.
    pub pacer_mean: f64,
    /// Packets dropped by full pacers.
    pub dropped: f64,
    /// Fraction of the ticks in each state, warm-up excluded.
    pub states: BTreeMap<String, f64>,
}

/// One direction of a wired link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Sending end: a node's number or a host's name.
    pub from: String,
    /// Receiving end.
    pub to: String,
    /// Fraction of time spent sending, repetitions included.
    pub utilization: f64,
    /// Packets sent.
    pub sent: f64,
    /// Mean number of packets in the queue, the one being sent included.
    pub queue_mean: f64,
    /// Maximum number of packets in the queue.
    pub queue_max: f64,
    /// Packets dropped because the queue was full.
    pub queue_drops: f64,
    /// Packets dropped early by the queue discipline (RED, CoDel).
    pub queue_early_drops: f64,
    /// Packets lost on the link.
    pub lost: f64,
    /// Failed frames of a time-slotted link.
    pub frames_failed: f64,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// Name of the flow.
    pub name: String,
    /// Mean opinion score: mean of the directions; null where the call sent nothing.
    pub mos: Option<f64>,
    /// Mean opinion score of the worse direction; null where the call sent nothing.
    pub mos_worst: Option<f64>,
    /// Fraction of the recording intervals in which both directions scored at least 3.6. Intervals that began during the
    /// warm-up, and those in which nothing was sent, do not count; null where none counts.
    pub clear: Option<f64>,
    /// Fraction of packets lost in the network, mean of the directions.
    pub loss: f64,
    /// Fraction of packets that arrived too late to be played, mean of the directions.
    pub late: f64,
    /// Mean one-way delay, mean of the directions.
    pub delay_ms: f64,
    /// Mean interarrival jitter (RFC 3550), mean of the directions.
    pub jitter_ms: f64,
    /// The direction from `from` to `to`.
    pub forward: DirectionSummary,
    /// The direction from `to` to `from`.
    pub backward: DirectionSummary,
    /// A call of real programs as a gateway's observer sees it; left out for simulated calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedSummary>,
}

/// A call as the observer of `fairhop_control` sees it at one end, from packets that pass there, without knowledge of the
/// network: what a gateway can know. Warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedSummary {
    /// Mean opinion score: mean of the directions that it knows, with a delay of 50 ms for the fastest packet.
    pub mos: Option<f64>,
    /// Mean opinion score of the worse direction.
    pub mos_worst: Option<f64>,
    /// Fraction of the seconds in which the worse direction scored at least 3.6.
    pub clear: Option<f64>,
}

/// One direction of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Mean opinion score; null where no packet's fate is known.
    pub mos: Option<f64>,
    /// Packets sent.
    pub sent: f64,
    /// Fraction of packets lost in the network.
    pub loss: f64,
    /// Fraction of packets that arrived too late to be played.
    pub late: f64,
    /// Packets lost, by reason.
    pub lost: BTreeMap<String, f64>,
    /// One-way delay.
    pub delay: DelaySummary,
    /// Mean interarrival jitter.
    pub jitter_ms: f64,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelaySummary {
    /// Minimum.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

/// A flow that is not a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Name of the flow.
    pub name: String,
    /// `bulk`, `aimd`, `quic`, `cbr`, `burst`, `ping`, `web`, `request` or `video`; of real programs `real-tcp`, `real-udp` or `real`.
    pub kind: String,
    /// Payload delivered, in order and once.
    pub goodput_mbps: f64,
    /// Payload sent, retransmissions included.
    pub sent_mbps: f64,
    /// Mean one-way delay of packets.
    pub delay_ms: f64,
    /// Fraction of packets lost. A broadcast is lost only where it never reaches the air; see `broadcast`.
    pub loss: f64,
    /// Packets sent.
    pub sent: f64,
    /// Packets lost, by reason.
    pub lost: BTreeMap<String, f64>,
    /// One-way delay of packets.
    pub delay: DelaySummary,
    /// Mean interarrival jitter.
    pub jitter_ms: f64,
    /// Fraction of the packets not lost that exceeded the delay of the fastest one by more than the flow's
    /// `delay_bound_ms`; left out where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<f64>,
    /// Rate limit of a throttled source at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_mbps: Option<f64>,
    /// Receivers of a broadcast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<BroadcastSummary>,
    /// Counters of AIMD datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aimd: Option<AimdSummary>,
    /// Counters of a QUIC-like transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicSummary>,
    /// Counters of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSummary>,
    /// Pages, or requests with their responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionSummary>,
    /// Frames of a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoSummary>,
}

/// Receivers of a broadcast flow. A broadcast is not acknowledged, so each receiver has a delivery ratio of its own: packets
/// received as a fraction of those sent whose fate is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BroadcastSummary {
    /// Mean of the delivery ratios; null where no node is in reach or nothing was sent.
    pub delivery_mean: Option<f64>,
    /// Smallest delivery ratio.
    pub delivery_min: Option<f64>,
    /// Delivery ratio by the number of the receiving node: of all nodes in reach of the sender at the start of the run, and
    /// of those that received a packet later.
    pub delivery: BTreeMap<String, f64>,
}

/// Transactions: pages, or requests with their responses, that began after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactionSummary {
    /// Transactions finished.
    pub finished: f64,
    /// Transactions in progress at the end of the run.
    pub open: f64,
    /// Transactions whose connection failed.
    pub failed: f64,
    /// Time from the start of the connection, or of the request, to the last byte; left out where none finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<DelaySummary>,
}

/// Frames of a video made after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoSummary {
    /// Frames sent whose fate is known.
    pub frames: f64,
    /// Fraction of frames complete by their deadline.
    pub complete: f64,
    /// Fraction of frames complete after their deadline.
    pub late: f64,
    /// Fraction of frames that lost a packet.
    pub lost: f64,
}

/// Counters of a sender of AIMD datagrams, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AimdSummary {
    /// Multiplicative decreases of the window.
    pub backoffs: f64,
    /// Timeouts.
    pub timeouts: f64,
}

/// Counters of a QUIC-like transfer, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuicSummary {
    /// Goodput as a fraction of the payload sent.
    pub efficiency: f64,
    /// Packets that carried retransmitted data.
    pub retransmitted: f64,
    /// Probe timeouts.
    pub timeouts: f64,
    /// Congestion events.
    pub recoveries: f64,
    /// Packets declared lost that arrived after all.
    pub spurious: f64,
    /// Completion time of a finite transfer in seconds; left out where it did not complete or has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
}

/// Counters of TCP, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpSummary {
    /// Goodput as a fraction of the payload sent.
    pub efficiency: f64,
    /// Segments retransmitted.
    pub retransmitted: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
    /// Fast recoveries.
    pub recoveries: f64,
    /// Spurious retransmissions that the receiver reported by DSACK (RFC 2883).
    #[serde(default)]
    pub spurious: f64,
    /// Window reductions in response to congestion marks (RFC 3168).
    #[serde(default)]
    pub ecn_reductions: f64,
    /// Window reductions undone because nothing had been lost.
    #[serde(default)]
    pub undone: f64,
    /// Completion time of a finite transfer in seconds; left out where it did not complete or has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
}

/// Figures over all flows. Calls that sent nothing do not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Mean of the calls' scores; null where no call has one.
    pub mos_mean: Option<f64>,
    /// Score of the worst direction of any call; null where no call has one.
    pub mos_min: Option<f64>,
    /// Number of calls whose worse direction scored at least 3.6.
    pub calls_ok: f64,
    /// Mean of the calls' `clear`; 1 where no call has one.
    pub calls_clear: f64,
    /// Goodput of all TCP flows.
    pub tcp_goodput_mbps: f64,
    /// Goodput of all flows other than TCP, calls, and real traffic that is neither TCP nor UDP.
    pub udp_goodput_mbps: f64,
    /// Jain's index of the goodputs of all flows other than calls; 1 where there is none.
    pub jain: f64,
}

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Number of the node.
    pub node: u32,
    /// Fractions of time.
    pub airtime: AirtimeSummary,
    /// Frames sent.
    pub frames_sent: f64,
    /// Data frames and RTS retransmitted.
    pub retries: f64,
    /// Frames addressed to it that it did not receive, by reason.
    pub frames_lost: BTreeMap<String, f64>,
    /// Packets that found its queue full or made room in it.
    pub queue_drops: f64,
    /// Packets that its queue dropped early to stay short (RED, CoDel).
    #[serde(default)]
    pub queue_early_drops: f64,
    /// Mean number of packets in the queue, the one in service included.
    pub queue_mean: f64,
    /// Maximum number of packets in the queue.
    pub queue_max: f64,
}

/// Airtime of a station, as fractions of the time after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AirtimeSummary {
    /// Own frames.
    pub own: f64,
    /// Received frames addressed to it.
    pub received: f64,
    /// Received frames addressed to others.
    pub overheard: f64,
    /// Frames that it locked on and lost.
    pub collided: f64,
    /// Energy above the carrier-sense threshold that it did not lock on.
    pub energy: f64,
    /// Idle medium.
    pub idle: f64,
}
