//! What the daemon knows, as data: the API serves it, metrics and the terminal show it.

mod collect;

use serde::{Deserialize, Serialize};

pub use collect::{collect, decision, probes};

/// Maximum number of flows in a status: those with the highest rates.
pub const MAX_FLOWS: usize = 500;
/// Maximum number of calls in a status: those with the lowest opinion scores.
pub const MAX_CALLS: usize = 1000;

/// The daemon at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Mode: observe, dry-run or live.
    pub mode: String,
    /// Seconds since the daemon started.
    pub uptime_s: f64,
    /// Time of this status in seconds since 1970.
    pub unix_s: f64,
    /// Its gateways.
    pub gateways: Vec<GatewayStatus>,
    /// Times that the config was reloaded, and times that a reload was refused.
    pub reloads: u64,
    /// See [`Status::reloads`].
    pub reloads_refused: u64,
}

/// A gateway at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Its name.
    pub name: String,
    /// Interface to the mesh.
    pub mesh: String,
    /// Interface to the Internet.
    pub wired: Option<String>,
    /// Kind of the control: adaptive, window, …
    pub control: String,
    /// Why packets pass without the gateway; none while it works.
    pub fault: Option<String>,
    /// What the datapath can do.
    pub datapath: DatapathStatus,
    /// The last decision.
    pub decision: DecisionStatus,
    /// The calls.
    pub calls: Vec<CallStatus>,
    /// The hosts that are probed.
    pub probes: Vec<ProbeStatus>,
    /// The flows that are not calls.
    pub flows: Vec<FlowStatus>,
    /// Flows of which digests are known, whatever their number in `flows`.
    pub known_flows: u64,
    /// Flows that were forgotten since the table was full.
    pub evicted_flows: u64,
    /// Hosts whose RTP is not trusted.
    pub distrusted: Vec<DistrustedStatus>,
    /// Number of flows that were distrusted since the start.
    pub distrusted_total: u64,
    /// Bytes and packets by class and direction since the start.
    pub classes: Vec<ClassStatus>,
    /// Counts of the datapath since the start.
    pub counters: CounterStatus,
    /// Queues that the gateway has made, and removes at its end.
    pub queues: Vec<QueueStatus>,
}

/// What a datapath can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatapathStatus {
    /// How programs are attached: tcx, clsact or none.
    pub attachment: String,
    /// How packets into the mesh are paced: departure times, polling, classes or off.
    pub pacing: String,
    /// Whether the gate is kept.
    pub gate: bool,
    /// What is missing, and what to do.
    pub notes: Vec<String>,
}

/// A decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionStatus {
    /// State of the controller: off, learning, steady, protecting or starved.
    pub state: String,
    /// Kind of the reason, one word.
    pub reason: String,
    /// The reason as a sentence.
    pub why: String,
    /// What enforces the budget: window, pacing or both.
    pub means: String,
    /// Budget of all elastic flows in kb/s times hops.
    pub budget_kbps: Option<f64>,
    /// Rate of elastic packets into the mesh in kb/s.
    pub down_kbps: Option<f64>,
    /// Rate of acknowledged data in kb/s, the slower direction.
    pub acks_kbps: Option<f64>,
    /// The smallest window in force in bytes.
    pub window_bytes: Option<u32>,
    /// Packets that wait in the pacer.
    pub waiting: u32,
    /// The lowest opinion score of a call over the last second.
    pub mos: Option<f64>,
    /// Whether the times of a gate are in force.
    pub gate: bool,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallStatus {
    /// Address and port in the mesh.
    pub mesh: String,
    /// Address and port at the other end.
    pub wired: String,
    /// Codec whose impairments are assumed; `unknown` for a call of an unknown protocol, with those of Opus.
    pub codec: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Opinion score of the worse direction over the last second, as the ends hear it.
    pub mos: Option<f64>,
    /// Out of the mesh, as measured.
    pub up: Option<DirectionStatus>,
    /// The same as the other end hears it, by its reports (RTCP).
    pub heard: Option<DirectionStatus>,
    /// Into the mesh, as the listener reports or as inferred.
    pub down: Option<DirectionStatus>,
    /// Whether `down` comes from the listener: its reports, or what it asks to be sent again.
    pub down_is_reported: bool,
}

impl GatewayStatus {
    /// Calls whose quality into the mesh is inferred.
    pub fn inferred_calls(&self) -> usize {
        self.calls.iter().filter(|call| call.is_inferred()).count()
    }
}

impl CallStatus {
    /// Whether only the way out of the mesh is measured, and `down` is inferred from it.
    pub const fn is_inferred(&self) -> bool {
        self.down.is_some() && !self.down_is_reported
    }
}

/// A host of the mesh that is probed, and what its replies show: both ways together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// Its address.
    pub host: String,
    /// Its replies over the last second; none while it does not answer.
    pub round_trip: Option<DirectionStatus>,
}

/// One direction of a call over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Opinion score.
    pub mos: f64,
    /// Fraction of packets lost.
    pub loss: f64,
    /// Fraction of packets too late to be played.
    pub late: f64,
    /// Mean delay over the fastest packet in ms.
    pub delay_ms: f64,
    /// Jitter in ms (RFC 3550).
    pub jitter_ms: f64,
}

/// A flow that is not a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// tcp, bulk-udp, interactive or other.
    pub kind: String,
    /// Address and port in the mesh.
    pub mesh: String,
    /// Address and port at the other end.
    pub wired: String,
    /// Whether its data comes out of the mesh.
    pub upload: bool,
    /// Rate in kb/s of IP packets.
    pub kbps: f64,
    /// Window in force in bytes.
    pub window_bytes: Option<u32>,
    /// Rate in force in kb/s: of its data, or of what its ACKs acknowledge.
    pub limit_kbps: Option<f64>,
    /// Hops in the mesh; 0 if not known.
    pub hops: u8,
    /// Shortest round trip through the mesh in ms.
    pub rtt_ms: Option<f64>,
    /// Seconds since it began.
    pub age_s: f64,
}

/// A flow whose RTP is treated like other traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DistrustedStatus {
    /// Address and port in the mesh.
    pub mesh: String,
    /// Address and port at the other end.
    pub wired: String,
    /// Why.
    pub why: String,
    /// For how many seconds.
    pub for_s: f64,
}

/// A class in one direction, since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// to-mesh or from-mesh.
    pub direction: String,
    /// voice, tcp, tcp-control, paced-udp or other.
    pub class: String,
    /// IP bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Rate in kb/s of IP packets over the last second.
    pub kbps: f64,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterStatus {
    /// Digests from the datapath.
    pub digests: u64,
    /// Digests for which the ring buffer had no room.
    pub digests_lost: u64,
    /// Digests that were invalid.
    pub digests_invalid: u64,
    /// Windows that were lowered.
    pub clamped: u64,
    /// Packets that the pacer dropped: it was full, or they were interactive and late.
    pub dropped: u64,
    /// Packets that were left alone since they could not be parsed.
    pub unparsed: u64,
    /// Packets that passed while no orders were in force.
    pub unlimited: u64,
    /// Packets of several segments (GSO, GRO).
    pub super_packets: u64,
    /// TCP flows for which the table of the datapath had no room.
    pub flows_refused: u64,
    /// Seconds that the programs in the kernel have run; 0 unless `kernel.bpf_stats_enabled` is set.
    pub run_s: f64,
    /// How often they have run; 0 unless `kernel.bpf_stats_enabled` is set.
    pub runs: u64,
    /// TCP payload bytes that were acknowledged.
    pub delivered_bytes: u64,
    /// TCP payload bytes that the mesh lost.
    pub lost_bytes: u64,
}

/// A queue that the gateway has made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Interface.
    pub interface: String,
    /// What it is for.
    pub purpose: String,
    /// Kind: htb, tbf or fq.
    pub kind: String,
    /// Handle as `tc` prints it.
    pub handle: String,
    /// Rate in kb/s; none for no limit.
    pub kbps: Option<f64>,
    /// Packets that have left it.
    pub sent: u64,
    /// Packets that it has dropped.
    pub dropped: u64,
    /// Packets that wait in it.
    pub waiting: u32,
}

impl Status {
    /// A gateway by its name.
    pub fn gateway(&self, name: &str) -> Option<&GatewayStatus> {
        self.gateways.iter().find(|gateway| gateway.name == name)
    }
}
