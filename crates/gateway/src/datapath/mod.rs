//! What the kernel does with packets, as the daemon sees it: digests come out, policies go in.
//!
//! ```text
//!  wired side        kernel: programs, maps, queues          mesh
//!        ─────────────────────────┬─────────────────────────────
//!              digests, counters  │  orders (policy, kinds of UDP flows)
//!                                 ▼
//!                              daemon
//! ```
//! [`Datapath`] is the interface between the two halves of the gateway. Its times are those of `CLOCK_MONOTONIC`, the clock
//! of the digests: [`fairhop_control::policy::Policy::at`], `expires` and the cycle of the gate count on it too.
//!
//! Everything in force expires: unless [`Datapath::apply`] is called within [`LIFETIME`], packets pass untouched and
//! unshaped.

mod departures;
pub mod kernel;
mod layout;
mod links;
mod netlink;
mod orders;
mod park;
mod places;
mod programs;
mod queues;
mod sys;
pub mod trial;

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use fairhop_control::Network;
use fairhop_control::flow::FlowKey;
use fairhop_control::observer::AckTotals;
use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::{BitRate, Nanos};

pub use links::misplaced;
pub use queues::{Found, look};

/// The addresses of this machine and the networks that they are in, in the network namespace of this thread.
///
/// # Errors
/// The kernel does not say.
pub fn local_networks() -> std::io::Result<Vec<Network>> {
    netlink::Netlink::open()?.local_networks()
}

/// How long orders are in force without being renewed.
pub const LIFETIME: Nanos = Nanos::from_secs(3);

/// What a daemon does with packets through a datapath.
pub trait Datapath {
    /// What the datapath can do, and how.
    fn features(&self) -> &Features;

    /// Hands over the digests that have come since the last call, in their order. It never waits.
    ///
    /// # Errors
    /// The datapath is gone.
    fn poll_digests(&mut self, sink: &mut dyn FnMut(&RawDigest)) -> Result<(), DatapathError>;

    /// When to poll again at the latest: soon while the times at which packets leave are inferred.
    fn poll_within(&self) -> Duration {
        POLL
    }

    /// Puts orders in force in place of those before, until [`LIFETIME`] from `now`, or until the policy expires if that is
    /// sooner.
    ///
    /// # Errors
    /// The kernel refuses; what was in force stays until it expires.
    fn apply(&mut self, orders: &Orders<'_>, now: Nanos) -> Result<(), DatapathError>;

    /// Number of packets that wait in the data pacer: the argument `waiting` of
    /// [`fairhop_control::Controller::tick`].
    ///
    /// # Errors
    /// The datapath is gone.
    fn waiting(&mut self, now: Nanos) -> Result<usize, DatapathError>;

    /// Whether the interfaces are still those for which the datapath was made.
    ///
    /// # Errors
    /// They are not: the datapath has to be started anew.
    fn check_interfaces(&mut self) -> Result<(), DatapathError> {
        Ok(())
    }

    /// Counts since the start.
    ///
    /// # Errors
    /// The datapath is gone.
    fn counters(&mut self) -> Result<Counters, DatapathError>;

    /// The queues that the datapath has made, as the kernel shows them now.
    ///
    /// # Errors
    /// The kernel refuses to list them.
    fn queues(&mut self) -> Result<Vec<Queue>, DatapathError>;

    /// Lifts all limits, removes programs and queues, and puts back the queues that were there before. A second call does
    /// nothing.
    ///
    /// # Errors
    /// What could not be removed; everything else is.
    fn stop(&mut self) -> Result<(), DatapathError>;
}

/// Time between polls of a datapath.
pub const POLL: Duration = Duration::from_millis(20);

/// What the datapath has to do: a policy, and what the observer knows of UDP flows, which no program in the kernel can know.
#[derive(Clone, Copy, Debug)]
pub struct Orders<'a> {
    /// The policy. [`Policy::none`] for no limits.
    pub policy: &'a Policy,
    /// UDP flows that are paced. All others pass freely.
    pub datagrams: &'a [(FlowKey, DatagramClass)],
    /// What an ACK into the mesh acknowledges, for classes.
    pub acks: AckWeight,
}

/// What pure ACKs into the mesh acknowledge in the mean. Queues with classes count the bytes of a packet, and not what it acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AckWeight {
    packets: f64,
    bytes: f64,
    acknowledged: f64,
}

impl AckWeight {
    /// What is left of the sums from one tick to the next: they reach back for a second.
    const KEPT: f64 = 0.9;
    /// A full segment with timestamps, and its ACK: what counts where no ACK has been seen, as a tenth of an ACK beside those that have.
    const USUAL: Self = Self { packets: 0.1, bytes: 5.2, acknowledged: 144.8 };

    /// Counts the ACKs of a tick.
    pub fn add(&mut self, acks: AckTotals) {
        let sum = |sum: f64, more: u64| Self::KEPT * sum + more as f64;
        self.packets = sum(self.packets, acks.packets);
        self.bytes = sum(self.bytes, acks.bytes);
        self.acknowledged = sum(self.acknowledged, acks.acknowledged);
    }

    /// Bytes of ACKs per second, each with a link header of `header` bytes, that acknowledge at this rate.
    pub fn bytes_per_second(self, rate: BitRate, header: u64) -> u64 {
        let Self { packets, bytes, acknowledged } = Self::USUAL;
        let bytes = self.bytes + bytes + header as f64 * (self.packets + packets);
        (rate.0 as f64 / 8.0 * bytes / (self.acknowledged + acknowledged)) as u64
    }
}

/// How the pacer treats a UDP flow ([`fairhop_control::observer::FlowKind`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramClass {
    /// Paced like TCP: `FlowKind::BulkUdp`.
    Elastic,
    /// Paced ahead of elastic packets, up to [`Policy::interactive`]: `FlowKind::Interactive`.
    Interactive,
    /// As elastic, but packets of [`SOUND_BYTES`](fairhop_control::observer::SOUND_BYTES) pass: a tunnel with a call.
    ElasticBesideSound,
}

/// How packets are paced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pacing {
    /// Not at all: only windows are clamped.
    #[default]
    Off,
    /// Departure times (`skb->tstamp`) that the queue `fq` keeps: aggregate, flows and gate.
    DepartureTimes,
    /// Departure times that no queue keeps: the programs look at what is too early again and again ([`park`]).
    Polling,
    /// Classes of HTB with a TBF leaf each: aggregate, flows, and ACKs into the mesh by their mean; no gate.
    Classes,
}

impl Pacing {
    /// Whether the programs decide when each packet leaves: rates of all kinds, and the gate.
    pub const fn has_times(self) -> bool {
        matches!(self, Self::DepartureTimes | Self::Polling)
    }

    /// Its name in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DepartureTimes => "departure times",
            Self::Polling => "polling",
            Self::Classes => "classes",
        }
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Attachment {
    /// Nothing is attached: no kernel is involved.
    #[default]
    None,
    /// TCX (Linux 6.6): gone with the process.
    Tcx,
    /// Filters of a `clsact` queue: they stay after a crash, until the next start.
    Clsact,
}

impl Attachment {
    /// Its name in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tcx => "tcx",
            Self::Clsact => "clsact",
        }
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a datapath can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// How programs are attached.
    pub attachment: Attachment,
    /// How packets into the mesh are paced.
    pub pacing: Pacing,
    /// Whether the gate is kept.
    pub has_gate: bool,
    /// Whether ACKs out of the mesh can be paced: takes a queue on the wired interface.
    pub paces_down_acks: bool,
    /// Sentences for `doctor` and `status`: what is missing, and what to do.
    pub notes: Vec<String>,
}

/// Packets and IP bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

/// What a datapath has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets into the mesh, by class.
    pub to_mesh: ByClass,
    /// Packets out of the mesh, by class.
    pub from_mesh: ByClass,
    /// Digests that have been sent.
    pub digests: u64,
    /// Digests for which the ring buffer had no room.
    pub digests_lost: u64,
    /// Windows that were lowered.
    pub clamped: u64,
    /// Packets that were dropped because the pacer was full, and interactive ones that would have been late.
    pub dropped: u64,
    /// Packets that the programs could not parse and left alone: fragments, unknown protocols, cut headers.
    pub unparsed: u64,
    /// Packets that passed while no orders were in force.
    pub unlimited: u64,
    /// Packets of several segments (GSO, GRO).
    pub super_packets: u64,
    /// TCP flows for which the flow table had no room.
    pub flows_refused: u64,
    /// Time in nanoseconds that the programs have run; zero unless `kernel.bpf_stats_enabled` is set.
    pub run_time_ns: u64,
    /// How often the programs have run; zero unless `kernel.bpf_stats_enabled` is set.
    pub runs: u64,
}

/// Counts by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass {
    /// RTP and RTCP.
    pub voice: Count,
    /// TCP with data.
    pub tcp: Count,
    /// ACKs and control segments.
    pub tcp_control: Count,
    /// UDP that is paced: bulk (QUIC) and interactive.
    pub paced_udp: Count,
    /// Everything else.
    pub other: Count,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

impl AddAssign for ByClass {
    fn add_assign(&mut self, more: Self) {
        let Self { voice, tcp, tcp_control, paced_udp, other } = more;
        self.voice += voice;
        self.tcp += tcp;
        self.tcp_control += tcp_control;
        self.paced_udp += paced_udp;
        self.other += other;
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.to_mesh += more.to_mesh;
        self.from_mesh += more.from_mesh;
        self.digests += more.digests;
        self.digests_lost += more.digests_lost;
        self.clamped += more.clamped;
        self.dropped += more.dropped;
        self.unparsed += more.unparsed;
        self.unlimited += more.unlimited;
        self.super_packets += more.super_packets;
        self.flows_refused += more.flows_refused;
        self.run_time_ns += more.run_time_ns;
        self.runs += more.runs;
    }
}

/// A queue or class that a datapath has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Interface.
    pub interface: String,
    /// What it is for: "elastic into the mesh".
    pub purpose: String,
    /// Kind of the qdisc or class in the kernel: `htb`, `tbf`, `fq`.
    pub kind: String,
    /// Its handle as `tc` prints it: `fa10:2`.
    pub handle: String,
    /// Its rate in bits per second; none for no limit.
    pub rate: Option<u64>,
    /// What has left it.
    pub sent: Count,
    /// Packets that it has dropped.
    pub dropped: u64,
    /// Packets that wait in it.
    pub waiting: u32,
}

/// Why a datapath cannot do something. Messages name the cause and the fix.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// Something that the kernel or the machine has not.
    #[error("{missing}; fix: {fix}")]
    Missing {
        /// What is missing.
        missing: String,
        /// What to do.
        fix: String,
    },
    /// A system call has failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The kernel refuses a program.
    #[error("the kernel refuses the program {program}: {reason}")]
    Program {
        /// Name of the program.
        program: String,
        /// The last lines of the verifier.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_weigh_what_they_acknowledge_in_the_mean_of_a_second() {
        let mut weight = AckWeight::default();
        let rate = BitRate(8_000_000);
        // Before any ACK: one of 66 bytes on the wire for each 1448 bytes.
        assert_eq!(weight.bytes_per_second(rate, 14), 1_000_000 * 66 / 1448);
        // ACKs of two segments each, and as many that acknowledge nothing.
        for _ in 0..30 {
            weight.add(AckTotals { packets: 20, bytes: 20 * 52, acknowledged: 10 * 2896 });
        }
        let expected = 1e6 * 66.0 * 20.0 / (10.0 * 2896.0);
        assert!((weight.bytes_per_second(rate, 14) as f64 / expected - 1.0).abs() < 0.01);
        // After a long silence, that of before any counts again.
        for _ in 0..20_000 {
            weight.add(AckTotals::default());
        }
        assert_eq!(weight.bytes_per_second(rate, 14), 1_000_000 * 66 / 1448);
    }
}
