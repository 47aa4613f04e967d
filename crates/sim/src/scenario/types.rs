//! A scenario as written: the one source for the TOML form, its JSON Schema, its help and its checks.
//!
//! Every doc comment here is shown to users. Names carry their units; what has a default may be left out.

use fairhop_model::phy::{Preamble, Standard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::control::Control;
use super::dscp::Codepoint;
use super::edca::EdcaChoice;
use super::queue::{Queue, QueueLimit, queue_named_or_not};
use super::wired::{HostName, Wired};

/// A world to simulate: the radio, who stands where, what they send, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the scenario is called in results.
    pub name: String,
    /// What it shows, in a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Simulated seconds, warm-up included.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub duration_s: f64,
    /// Seconds at the start that no statistic counts.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub warmup_s: f64,
    /// Fixes every random draw. The same scenario and seed give the same bytes.
    #[serde(default = "one")]
    pub seed: u64,
    /// Radio: standard, rates, propagation and reception.
    #[serde(default)]
    pub radio: Radio,
    /// Medium access.
    #[serde(default)]
    pub mac: Mac,
    /// Who stands where.
    pub topology: Topology,
    /// How routes are chosen.
    #[serde(default)]
    pub routing: Routing,
    /// The wired Internet behind the gateway; left out, there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet: Option<Internet>,
    /// Other wired hosts and links; left out, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wired: Option<Wired>,
    /// Who sends what to whom.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// What is done so that calls stay clear and TCP shares are fair; left out, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// What happens to the network during the run; left out, nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<Change>,
    /// How call quality is judged.
    #[serde(default)]
    pub voice: Voice,
    /// What is recorded.
    #[serde(default)]
    pub record: Record,
}

fn one() -> u64 {
    1
}

/// The radio that every node has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Radio {
    /// 802.11a, 802.11b or 802.11g.
    pub standard: Standard,
    /// Rate of data frames in Mb/s; one that the standard has.
    pub rate_mbps: f64,
    /// Rates of control and broadcast frames in Mb/s: an answer goes at the fastest one that is no faster than what
    /// it answers. Left out: the standard's mandatory rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_rates_mbps: Option<Vec<f64>>,
    /// Preamble of 802.11b.
    pub preamble: Preamble,
    /// How power falls with distance.
    pub propagation: Propagation,
    /// How the fate of a frame follows from signal and interference.
    pub reception: Reception,
    /// What happens when frames overlap at a receiver.
    pub capture: Capture,
    /// How much stronger, in dB, a frame must be to survive an overlap (`first`, with threshold reception) or to take
    /// a receiver that is busy with another (`stronger`).
    #[schemars(range(min = 0.0, max = 100.0))]
    pub capture_db: f64,
    /// Transmit power in dBm (not for the `range` model).
    #[schemars(range(min = -50.0, max = 60.0))]
    pub tx_power_dbm: f64,
    /// Noise figure of the receiver in dB, over thermal noise in 20 MHz (22 MHz for 802.11b).
    #[schemars(range(min = 0.0, max = 60.0))]
    pub noise_figure_db: f64,
    /// A frame at least this strong can be decoded under threshold reception, in dBm (not for `range`). Left out: the
    /// standard's minimum sensitivity of the data rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub sensitivity_dbm: Option<f64>,
    /// A preamble at least this strong locks the receiver, decodable or not, in dBm (not for `range`). Left out: the
    /// standard's minimum sensitivity of the slowest rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub preamble_detect_dbm: Option<f64>,
    /// Energy of at least this much makes the medium busy, in dBm (not for `range`). Left out: 20 dB over the
    /// standard's minimum sensitivity of the slowest rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -150.0, max = 50.0))]
    pub energy_detect_dbm: Option<f64>,
}

impl Default for Radio {
    fn default() -> Self {
        Self {
            standard: Standard::Dot11a,
            rate_mbps: 12.0,
            basic_rates_mbps: None,
            preamble: Preamble::Long,
            propagation: Propagation::default(),
            reception: Reception::Threshold,
            capture: Capture::First,
            capture_db: 10.0,
            tx_power_dbm: 16.0,
            noise_figure_db: 7.0,
            sensitivity_dbm: None,
            preamble_detect_dbm: None,
            energy_detect_dbm: None,
        }
    }
}

/// How power falls with distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Propagation {
    /// Three circles and nothing else: frames are decoded within one radius and sensed within another. Between them
    /// power falls with the fourth power of distance, as in ns-2's two-ray ground.
    Range {
        /// Frames from this near can be decoded, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        receive_m: f64,
        /// Frames from this near keep the medium busy and collide, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        carrier_sense_m: f64,
        /// Frames from this near lock the receiver, decodable or not, in metres. Left out: `carrier_sense_m`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        preamble_m: Option<f64>,
    },
    /// Friis: power falls with the square of distance.
    FreeSpace {
        /// Carrier frequency in GHz.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100.0))]
        frequency_ghz: f64,
    },
    /// Free space up to the crossover distance, then the fourth power: the ground's reflection.
    TwoRay {
        /// Carrier frequency in GHz.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100.0))]
        frequency_ghz: f64,
        /// Height of every antenna in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000.0))]
        antenna_height_m: f64,
    },
    /// Power falls with a given exponent, with optional shadowing that is fixed per pair of nodes.
    LogDistance {
        /// Path-loss exponent.
        #[schemars(range(min = 1.0, max = 10.0))]
        exponent: f64,
        /// Loss at the reference distance, in dB.
        #[schemars(range(min = 0.0, max = 200.0))]
        reference_loss_db: f64,
        /// The reference distance in metres.
        #[serde(default = "one_metre")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
        reference_m: f64,
        /// Standard deviation of log-normal shadowing in dB; 0 is none. Drawn from the seed, the same both ways.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 30.0))]
        shadowing_db: f64,
    },
    /// The loss between every two nodes, in dB. Positions give propagation delay only.
    Matrix {
        /// Row i, column j: the loss from node i to node j in dB; the diagonal is not read. At least 1,000 dB means
        /// that nothing is heard.
        loss_db: Vec<Vec<f64>>,
    },
}

fn one_metre() -> f64 {
    1.0
}

impl Default for Propagation {
    fn default() -> Self {
        Self::Range { receive_m: 250.0, carrier_sense_m: 550.0, preamble_m: None }
    }
}

/// How the fate of a frame follows from signal and interference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reception {
    /// Decoded if it is strong enough and no overlap destroyed it.
    Threshold,
    /// Decoded with the chance that the modulation's error rate gives at the ratio of signal to noise and cumulative
    /// interference, piece by piece.
    Sinr,
}

/// What happens when frames overlap at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// Any overlap with what can be sensed destroys both frames.
    None,
    /// First come: a frame being received survives later, weaker ones; a receiver that is busy with a frame, decodable
    /// or not, misses its own.
    First,
    /// Message in message: a late frame that is strong enough takes the receiver from the one before.
    Stronger,
}

/// Medium access: the DCF or EDCA of IEEE 802.11.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mac {
    /// Smallest contention window, in slots; one less than a power of two. Left out: the standard's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_min: Option<u32>,
    /// Largest contention window, in slots; one less than a power of two. Left out: the standard's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub cw_max: Option<u32>,
    /// Attempts for a frame that is not longer than `rts_threshold_bytes`, and for an RTS.
    #[schemars(range(min = 1, max = 255))]
    pub short_retry_limit: u32,
    /// Attempts for a frame that is longer than `rts_threshold_bytes`.
    #[schemars(range(min = 1, max = 255))]
    pub long_retry_limit: u32,
    /// Frames longer than this, header and check sequence included, are sent after an RTS and CTS. Left out: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub rts_threshold_bytes: Option<u32>,
    /// How long before its slot a station no longer notices that the medium becomes busy, in µs: it is turning from
    /// receiving to transmitting. Left out: the standard's aRxTxTurnaroundTime.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 9.0))]
    pub turnaround_us: Option<f64>,
    /// Enhanced distributed channel access (802.11e): four access categories with a queue each, chosen by the DSCP of a
    /// packet. `true` for the standard's parameters, or a table of what differs.
    #[serde(skip_serializing_if = "EdcaChoice::is_off")]
    pub edca: EdcaChoice,
    /// The interface queue of every node, or of each access category.
    #[serde(deserialize_with = "queue_named_or_not")]
    pub queue: Queue,
}

impl Default for Mac {
    fn default() -> Self {
        Self {
            cw_min: None,
            cw_max: None,
            short_retry_limit: 7,
            long_retry_limit: 4,
            rts_threshold_bytes: None,
            turnaround_us: None,
            edca: EdcaChoice::default(),
            queue: QueueLimit::Packets(50).into(),
        }
    }
}

/// Who stands where. Nodes are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// A line of `hops` + 1 nodes, or several such lines side by side (numbered line by line).
    String {
        /// Hops from the first node to the last.
        #[schemars(range(min = 1, max = 10_000))]
        hops: u32,
        /// Distance between neighbours in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// How many lines.
        #[serde(default = "one_line")]
        #[schemars(range(min = 1, max = 1_000))]
        lines: u32,
        /// Distance between lines in metres. Left out: `spacing_m`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        line_spacing_m: Option<f64>,
        /// The node where the Internet is attached, or a list of nodes: every flow goes by the one with the shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// A rectangle of nodes, numbered row by row.
    Grid {
        /// Nodes in a row.
        #[schemars(range(min = 1, max = 1_000))]
        columns: u32,
        /// Rows.
        #[schemars(range(min = 1, max = 1_000))]
        rows: u32,
        /// Distance between neighbours in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// The node where the Internet is attached, or a list of nodes: every flow goes by the one with the shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes on a circle.
    Ring {
        /// How many nodes.
        #[schemars(range(min = 3, max = 10_000))]
        nodes: u32,
        /// Distance between neighbours along the chord, in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100_000.0))]
        spacing_m: f64,
        /// The node where the Internet is attached, or a list of nodes: every flow goes by the one with the shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes anywhere in a rectangle, drawn from the seed until all are connected.
    Random {
        /// How many nodes.
        #[schemars(range(min = 1, max = 10_000))]
        nodes: u32,
        /// Width of the rectangle in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        width_m: f64,
        /// Height of the rectangle in metres.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        height_m: f64,
        /// The node where the Internet is attached, or a list of nodes: every flow goes by the one with the shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// Nodes at given places.
    Explicit {
        /// One entry a node, in the order of their numbers.
        nodes: Vec<NodeAt>,
        /// The node where the Internet is attached, or a list of nodes: every flow goes by the one with the shortest path.
        #[serde(default)]
        gateway: Gateways,
    },
    /// No nodes: a wired network alone.
    None,
}

fn one_line() -> u32 {
    1
}

/// One node, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gateways {
    /// One.
    One(u32),
    /// Several; the first one is `"gateway"` in `from` and `to`.
    Several(Vec<u32>),
}

impl Default for Gateways {
    fn default() -> Self {
        Self::One(0)
    }
}

impl From<u32> for Gateways {
    fn from(node: u32) -> Self {
        Self::One(node)
    }
}

impl Gateways {
    /// Their nodes.
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Several(nodes) => nodes,
        }
    }
}

/// A node of an explicit topology.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAt {
    /// Metres to the right.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub x_m: f64,
    /// Metres up.
    #[schemars(range(min = -10_000_000.0, max = 10_000_000.0))]
    pub y_m: f64,
}

/// How static shortest paths are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// What is shortest.
    pub metric: Metric,
    /// Paths that are set by hand, as node numbers from first to last; they go before what the metric says, and are
    /// used in both directions.
    pub paths: Vec<Vec<u32>>,
}

impl Default for Routing {
    fn default() -> Self {
        Self { metric: Metric::Hops, paths: Vec::new() }
    }
}

/// What routing counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Fewest hops over links that decode at the data rate; among equals the shortest distance, then the lowest node.
    Hops,
    /// Least expected transmissions of a 1500-byte packet and its ACK (De Couto et al., MobiCom 2003), from the links'
    /// error rates without interference. Links over which fewer than a tenth of the attempts succeed are left out.
    Etx,
}

/// The wired path from the gateway to a host in the Internet, called `internet` in `from` and `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Internet {
    /// One-way delay in ms.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub delay_ms: f64,
    /// Rate of the link in each direction, in Mb/s.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
    pub rate_mbps: f64,
    /// The queue at each end of the link.
    #[serde(default = "wired_queue", deserialize_with = "queue_named_or_not")]
    pub queue: Queue,
}

pub(super) fn wired_queue() -> Queue {
    QueueLimit::Packets(1000).into()
}

/// A place that sends or receives: a node's number, `"internet"`, `"gateway"` or `"broadcast"`, or the name of a wired
/// host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Place {
    /// A node by number.
    Node(u32),
    /// A place by name.
    Named(NamedPlace),
    /// A host of `[wired]` by name.
    Host(#[schemars(with = "String", length(min = 1, max = 24))] HostName),
}

/// Places with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamedPlace {
    /// The host behind the gateway.
    Internet,
    /// The node where the Internet is attached, the first one of several.
    Gateway,
    /// All neighbours of the sender, one hop, without acknowledgment; only as the `to` of `cbr`.
    Broadcast,
}

/// What some nodes send to others. `count` copies are made; their names get numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Traffic {
    /// A telephone call: RTP both ways. Each direction starts at a random phase of the packet interval.
    Call {
        /// Name of the flow; copies are numbered. Left out: `call`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// One end.
        from: Place,
        /// The other end.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, by DSCP: a name or a number. Left out: `EF`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// The codec.
        #[serde(default)]
        codec: CodecName,
        /// Mean time between the RTCP reports of each end, in seconds (RFC 3550; 5 is usual); each is drawn from 0.5 to 1.5
        /// times that. 0: no reports, as in the papers.
        #[serde(default, skip_serializing_if = "is_zero")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        rtcp_interval_s: f64,
        /// First packet, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No packet from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// A TCP transfer.
    Bulk {
        /// Name of the flow; copies are numbered. Left out: `bulk`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender of data.
        from: Place,
        /// The receiver.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, both ways, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Congestion control.
        #[serde(default)]
        tcp: TcpVariant,
        /// Whose sender and receiver: what is left out below is as there.
        #[serde(default)]
        profile: TcpProfile,
        /// The window grows with the data that an ACK covers (RFC 3465, as in Linux); false: by the ACK (RFC 5681, as in
        /// ns-2 and ns-3), which with delayed ACKs is half as fast.
        #[serde(default = "yes")]
        byte_counting: bool,
        /// Bytes to transfer. Left out: without end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
        size_bytes: Option<u64>,
        /// Largest segment in bytes of data.
        #[serde(default = "mss")]
        #[schemars(range(min = 88, max = 8960))]
        mss_bytes: u32,
        /// The receiver's buffer in bytes: no more than this is in flight.
        #[serde(default = "receive_buffer")]
        #[schemars(range(min = 1_000, max = 1_000_000_000))]
        receive_buffer_bytes: u32,
        /// Most segments in flight (xu2002's maximum window). Left out: no limit but the buffer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        max_window_packets: Option<u32>,
        /// Segments that the first flight may have (RFC 6928).
        #[serde(default = "initial_window")]
        #[schemars(range(min = 1, max = 100))]
        initial_window_packets: u32,
        /// An ACK is sent for every so many full segments; 1 acknowledges each.
        #[serde(default = "two")]
        #[schemars(range(min = 1, max = 16))]
        delayed_ack_segments: u32,
        /// A delayed ACK waits no longer than this, in ms. Left out: 200, 40 with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1.0, max = 500.0))]
        delayed_ack_ms: Option<f64>,
        /// Selective acknowledgments (RFC 2018).
        #[serde(default = "yes")]
        sack: bool,
        /// Explicit congestion notification (RFC 3168): queues with `ecn` mark its packets instead of dropping them.
        #[serde(default)]
        ecn: bool,
        /// Timestamps (RFC 7323); 12 of the bytes of every segment. Left out: none, but with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamps: Option<bool>,
        /// How losses are found and repaired with SACK. Left out: `rfc6675`, `rack-tlp` with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovery: Option<TcpRecovery>,
        /// The window falls over a round trip of recovery (RFC 6937) and not at once. Left out: no, but with
        /// profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prr: Option<bool>,
        /// A reduction is taken back where nothing proves to have been lost (RFC 2883, 3522 and 5682). Left out: no, but
        /// with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<bool>,
        /// How slow start ends before there is a loss; only for `cubic`. Left out: `classic`, as in Linux.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hystart: Option<TcpHyStart>,
        /// Shortest retransmission timeout in ms. Left out: 1000 (RFC 6298), 200 with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1.0, max = 60_000.0))]
        rto_min_ms: Option<f64>,
        /// Start, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// The application offers nothing more from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// AIMD(α, β) datagrams (cai2005): a window that grows by α packets a round trip and falls to β of what is
    /// outstanding; nothing is sent again. There is always a packet to send.
    Aimd {
        /// Name of the flow; copies are numbered. Left out: `aimd`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender.
        from: Place,
        /// The receiver.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, both ways, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// The window grows by so many packets a round trip. Left out: what is friendly to TCP, 3 (1 − β) / (1 + β).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100.0))]
        alpha: Option<f64>,
        /// After a loss the window is so much of the packets outstanding.
        #[serde(default = "beta")]
        #[schemars(range(min = 0.0, max = 1.0))]
        beta: f64,
        /// Size of an IP packet in bytes.
        #[schemars(range(min = 41, max = 9000))]
        packet_bytes: u32,
        /// The window that the receiver allows, in packets (cai2005's rwnd). Left out: no limit but 4096.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        rwnd_packets: Option<u32>,
        /// Window at the start, after a timeout and after an idle time, in packets.
        #[serde(default = "two")]
        #[schemars(range(min = 1, max = 100))]
        initial_window_packets: u32,
        /// Shortest retransmission timeout in ms (RFC 6298: 1000).
        #[serde(default = "rto_min_ms")]
        #[schemars(range(min = 1.0, max = 60_000.0))]
        rto_min_ms: f64,
        /// A packet that comes later than this after the fastest one is an outage, in ms. Left out: no outage is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100_000.0))]
        delay_bound_ms: Option<f64>,
        /// Start, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No new packet from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// A transfer over QUIC-like datagrams: TCP's congestion controls, packets that are acknowledged by number (RFC 9002),
    /// and nothing that a gateway could read or change.
    Quic {
        /// Name of the flow; copies are numbered. Left out: `quic`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender of data.
        from: Place,
        /// The receiver.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, both ways, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Congestion control.
        #[serde(default)]
        controller: TcpVariant,
        /// How slow start ends before there is a loss; only for `cubic`. Left out: `classic`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hystart: Option<TcpHyStart>,
        /// Bytes to transfer. Left out: without end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
        size_bytes: Option<u64>,
        /// Largest UDP payload in bytes (RFC 9000: at least 1200).
        #[serde(default = "datagram_bytes")]
        #[schemars(range(min = 1200, max = 8972))]
        datagram_bytes: u32,
        /// The receiver's buffer in bytes: the sender is no more than this ahead of it.
        #[serde(default = "receive_buffer")]
        #[schemars(range(min = 10_000, max = 1_000_000_000))]
        receive_buffer_bytes: u32,
        /// Packets that the first flight may have (RFC 9002).
        #[serde(default = "initial_window")]
        #[schemars(range(min = 1, max = 100))]
        initial_window_packets: u32,
        /// Start, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// The application offers nothing more from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// Datagrams at a constant rate.
    Cbr {
        /// Name of the flow; copies are numbered. Left out: `cbr`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender.
        from: Place,
        /// The receiver: a place, or `"broadcast"` for the neighbours of the sender.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Offered rate in kb/s of UDP payload.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
        rate_kbps: f64,
        /// UDP payload of a packet in bytes.
        #[schemars(range(min = 1, max = 8972))]
        payload_bytes: u32,
        /// A packet that comes later than this after the fastest one is an outage, in ms. Left out: no outage is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100_000.0))]
        delay_bound_ms: Option<f64>,
        /// First packet, in seconds, plus a random phase of one interval.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No packet from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// Datagrams in bursts at a constant mean rate (kim2010, Table 1).
    Burst {
        /// Name of the flow; copies are numbered. Left out: `burst`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender.
        from: Place,
        /// The receiver.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Packets that leave back to back.
        #[schemars(range(min = 1, max = 10_000))]
        burst_packets: u32,
        /// Mean offered rate in kb/s, counted on IP packets.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
        rate_kbps: f64,
        /// Size of an IP packet in bytes.
        #[schemars(range(min = 29, max = 9000))]
        packet_bytes: u32,
        /// First burst, in seconds, plus a random phase of one interval.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No burst from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// Somebody who reads pages: one TCP connection a page, then a pause. A page's time runs from the first SYN to the
    /// last byte; the way of the request is not modelled apart from the handshake.
    Web {
        /// Name of the flow; copies are numbered. Left out: `web`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The server, which sends the pages.
        from: Place,
        /// The reader.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, both ways, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Size of a page.
        #[serde(default)]
        size: SizeLaw,
        /// Pause from the end of a page to the start of the next one.
        #[serde(default)]
        think: TimeLaw,
        /// Congestion control.
        #[serde(default)]
        tcp: TcpVariant,
        /// Whose sender and receiver: what is left out below is as there.
        #[serde(default)]
        profile: TcpProfile,
        /// Largest segment in bytes of data.
        #[serde(default = "mss")]
        #[schemars(range(min = 88, max = 8960))]
        mss_bytes: u32,
        /// Segments that the first flight may have (RFC 6928).
        #[serde(default = "initial_window")]
        #[schemars(range(min = 1, max = 100))]
        initial_window_packets: u32,
        /// Shortest retransmission timeout in ms. Left out: 1000 (RFC 6298), 200 with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1.0, max = 60_000.0))]
        rto_min_ms: Option<f64>,
        /// The first pause begins here, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No new page from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// Somebody who asks and waits for the answer, over TCP connections that stay open: one for the requests and one for
    /// the responses, so that no acknowledgment rides on data. A response's time runs from the request.
    Request {
        /// Name of the flow; copies are numbered. Left out: `request`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Who asks.
        from: Place,
        /// Who answers.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, both ways, by DSCP: a name or a number. Left out: `BE`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Size of a request in bytes.
        #[serde(default = "request_bytes")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        request_bytes: u32,
        /// Size of a response.
        #[serde(default)]
        response: SizeLaw,
        /// Pause from the end of a response to the next request.
        #[serde(default)]
        think: TimeLaw,
        /// Congestion control.
        #[serde(default)]
        tcp: TcpVariant,
        /// Whose sender and receiver: what is left out below is as there.
        #[serde(default)]
        profile: TcpProfile,
        /// Largest segment in bytes of data.
        #[serde(default = "mss")]
        #[schemars(range(min = 88, max = 8960))]
        mss_bytes: u32,
        /// Segments that the first flight may have (RFC 6928).
        #[serde(default = "initial_window")]
        #[schemars(range(min = 1, max = 100))]
        initial_window_packets: u32,
        /// Shortest retransmission timeout in ms. Left out: 1000 (RFC 6298), 200 with profile = "linux".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1.0, max = 60_000.0))]
        rto_min_ms: Option<f64>,
        /// The first pause begins here, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No new request from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
    /// Video: frames by the clock over UDP, each split into packets that leave at once. A frame of which a packet is lost
    /// is lost.
    Video {
        /// Name of the flow; copies are numbered. Left out: `video`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The sender.
        from: Place,
        /// The receiver.
        to: Place,
        /// How many.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 0, max = 100_000))]
        count: u32,
        /// How urgent its packets are, by DSCP: a name or a number. Left out: `AF41`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dscp: Option<Codepoint>,
        /// Mean rate in kb/s of UDP payload.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
        rate_kbps: f64,
        /// Frames a second.
        #[serde(default = "frames_per_s")]
        #[schemars(range(min = 0.01, max = 1_000.0))]
        frames_per_s: f64,
        /// Frames of a group, of which the first one is coded by itself (I) and the others from the one before (P). 1: all
        /// frames are alike, as at a constant rate.
        #[serde(default = "one_flow")]
        #[schemars(range(min = 1, max = 1_000))]
        group_frames: u32,
        /// Mean size of an I frame over that of a P frame.
        #[serde(default = "one_metre")]
        #[schemars(range(min = 1.0, max = 100.0))]
        i_to_p: f64,
        /// Standard deviation of the size of frames of a kind over its mean; sizes are log-normal. 0: constant.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 5.0))]
        variation: f64,
        /// Largest IP packet in bytes.
        #[serde(default = "mtu")]
        #[schemars(range(min = 68, max = 9000))]
        packet_bytes: u32,
        /// A frame that is complete later than this after it was sent is late, in ms. Left out: no frame is late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100_000.0))]
        deadline_ms: Option<f64>,
        /// First frame, in seconds, plus a random phase of one interval.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// No frame from here on, in seconds. Left out: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
    },
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one_flow() -> u32 {
    1
}

fn request_bytes() -> u32 {
    400
}

fn frames_per_s() -> f64 {
    25.0
}

fn datagram_bytes() -> u32 {
    1472
}

fn mtu() -> u32 {
    1500
}

fn mss() -> u32 {
    1460
}

fn receive_buffer() -> u32 {
    4_194_304
}

fn initial_window() -> u32 {
    10
}

fn two() -> u32 {
    2
}

fn beta() -> f64 {
    0.875
}

fn yes() -> bool {
    true
}

fn rto_min_ms() -> f64 {
    1000.0
}

/// Sizes of pages and responses. The default is that of the sizes that users ask web servers for, Pareto with exponent 1
/// from 1000 bytes (Barford and Crovella, SIGMETRICS 1998), cut at 10 MB; its mean is 9.2 kB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeLaw {
    /// All alike.
    Fixed {
        /// The size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: u32,
    },
    /// Bounded Pareto: P(X > x) falls as x^-shape between two bounds.
    Pareto {
        /// Smallest size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        least_bytes: u32,
        /// Largest size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        most_bytes: u32,
        /// Exponent; up to 2 the tail is heavy.
        #[schemars(range(min = 0.1, max = 10.0))]
        shape: f64,
    },
    /// The logarithm is normal; cut at `most_bytes`.
    LogNormal {
        /// Median.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        median_bytes: u32,
        /// Standard deviation of the natural logarithm.
        #[schemars(range(min = 0.0, max = 10.0))]
        sigma: f64,
        /// Largest size.
        #[serde(default = "most_bytes")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        most_bytes: u32,
    },
}

fn most_bytes() -> u32 {
    10_000_000
}

impl Default for SizeLaw {
    fn default() -> Self {
        Self::Pareto { least_bytes: 1_000, most_bytes: most_bytes(), shape: 1.0 }
    }
}

/// Lengths of pauses. The default is the reader's off time of Barford and Crovella (SIGMETRICS 1998), cut at 100 s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TimeLaw {
    /// All alike.
    Fixed {
        /// The time in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        seconds: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        mean_s: f64,
    },
    /// Bounded Pareto: P(X > x) falls as x^-shape between two bounds.
    Pareto {
        /// Shortest time in seconds.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        least_s: f64,
        /// Longest time in seconds.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        most_s: f64,
        /// Exponent; up to 2 the tail is heavy.
        #[schemars(range(min = 0.1, max = 10.0))]
        shape: f64,
    },
}

impl Default for TimeLaw {
    fn default() -> Self {
        Self::Pareto { least_s: 1.0, most_s: 100.0, shape: 1.5 }
    }
}

/// Voice codecs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CodecName {
    /// ITU-T G.729 annex A: 20 bytes every 20 ms.
    #[default]
    G729a,
    /// ITU-T G.711: 160 bytes every 20 ms.
    G711,
    /// ITU-T G.723.1 at 6.3 kb/s: 24 bytes every 30 ms.
    #[serde(rename = "g723.1")]
    G7231,
    /// A profile like Opus at 24 kb/s: 60 bytes every 20 ms.
    Opus,
}

/// TCP congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpVariant {
    /// RFC 5681. With SACK the same as `newreno`; without it a recovery ends with the first new ACK.
    Reno,
    /// RFC 6582 and, with SACK, RFC 6675.
    #[default]
    Newreno,
    /// Brakmo and Peterson: keeps 2 to 4 packets in the queue, going by the round-trip time.
    Vegas,
    /// Fu and Liew: Reno that takes a fifth off where nothing waits, instead of half.
    Veno,
    /// Mascolo et al.: after a loss the window is the rate of ACKs times the shortest round trip.
    Westwood,
    /// Westwood with the rate taken once a round trip, as in Linux.
    WestwoodPlus,
    /// RFC 9438, Linux's default.
    Cubic,
    /// Tan et al.: Reno and a second window that goes by delay, long Windows' default.
    Compound,
    /// Cardwell et al., version 1: goes by the measured rate and the shortest round trip, and paces.
    Bbr,
}

/// Whose TCP sender and receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpProfile {
    /// What the RFCs ask for, as in ns-2 and ns-3.
    #[default]
    Standard,
    /// Linux 6.1: RACK-TLP, PRR, undo, timestamps, quick and compressed ACKs, timeouts from 200 ms, its arithmetic.
    Linux,
}

/// How TCP finds and repairs losses with SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpRecovery {
    /// RFC 6675: three segments that arrived past a gap.
    Rfc6675,
    /// RFC 8985: by time, repetitions included, with a probe where the tail may be lost.
    RackTlp,
}

/// How slow start ends before there is a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TcpHyStart {
    /// With a loss only.
    Off,
    /// Ha and Rhee's, as in Linux: a long train of ACKs or a longer round trip.
    Classic,
    /// HyStart++ (RFC 9406): a longer round trip leads to a slower slow start first.
    PlusPlus,
}

/// How call quality is judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Voice {
    /// A packet is played this long after the fastest packet of its stream would have been, in ms; what comes later is
    /// lost to the listener.
    #[schemars(range(min = 0.0, max = 10_000.0))]
    pub playout_ms: f64,
}

impl Default for Voice {
    fn default() -> Self {
        Self { playout_ms: 60.0 }
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// Length of a bin of the time series, in seconds.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub interval_s: f64,
}

impl Default for Record {
    fn default() -> Self {
        Self { interval_s: 1.0 }
    }
}
