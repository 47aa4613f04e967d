//! Sources and sinks: who makes packets when, and what becomes of the ones that arrive.

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;
use fairhop_transport::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig, SenderState, SenderStats};

use crate::engine::Timer;
use crate::packet::{Body, Dscp, NodeId};

/// Bytes of the headers below the payload.
pub const IP_HEADER: u32 = 20;
/// UDP header.
pub const UDP_HEADER: u32 = 8;
/// RTP header without contributing sources.
pub const RTP_HEADER: u32 = 12;

/// What kind of flow it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// A call, measured both ways.
    Call(Codec),
    /// A TCP transfer; the index of its machines.
    Bulk(usize),
    /// AIMD datagrams; the index of its machines.
    Aimd(usize),
    /// A transfer over QUIC-like datagrams; the index of its machines.
    Quic(usize),
    /// Datagrams at a constant rate.
    Cbr,
    /// Datagrams in bursts.
    Burst,
    /// Pages; the index of the session.
    Web(usize),
    /// Requests and responses; the index of the session.
    Request(usize),
    /// Video; its index.
    Video(usize),
}

impl FlowKind {
    /// The word for it in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Bulk(_) => "bulk",
            Self::Aimd(_) => "aimd",
            Self::Quic(_) => "quic",
            Self::Cbr => "cbr",
            Self::Burst => "burst",
            Self::Web(_) => "web",
            Self::Request(_) => "request",
            Self::Video(_) => "video",
        }
    }
}

/// A flow: one call, transfer or stream of datagrams.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name in results.
    pub name: String,
    /// The entry of the scenario's traffic that it comes from.
    pub entry: usize,
    /// What it is.
    pub kind: FlowKind,
    /// One end: the sender of data, where only one end does.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// How urgent its packets are, both ways.
    pub dscp: Dscp,
    /// A packet that comes later than this after the fastest one is an outage.
    pub delay_bound: Option<Nanos>,
    /// When it may start.
    pub start: Nanos,
    /// When it stops.
    pub stop: Nanos,
}

/// The stream of a flow's data, and of what comes back.
pub const fn stream(flow: usize, back: bool) -> u32 {
    (flow * 2 + back as usize) as u32
}

/// The flow that a stream belongs to.
pub const fn flow_of(stream: u32) -> usize {
    stream as usize / 2
}

/// A source that sends by the clock.
#[derive(Clone, Debug)]
pub enum Source {
    /// Packets at a steady interval.
    Datagrams(DatagramSource),
    /// The start, and later the stop, of a TCP transfer.
    Transfer {
        /// Index of the transfer's machines.
        tcp: usize,
        /// When the application stops, if it does.
        stop: Option<Nanos>,
        /// Bytes that the application offers at the start.
        offer: u64,
    },
    /// The next report of an end of a call; its index.
    Report(usize),
    /// The end of a pause of a session; its index.
    Session(usize),
    /// The next frame of a video; its index.
    Video(usize),
    /// The start, and later the stop, of a transfer over QUIC-like datagrams.
    Quic {
        /// Index of the transfer's machines.
        index: usize,
        /// When the application stops, if it does.
        stop: Option<Nanos>,
        /// It has started.
        started: bool,
    },
    /// The start, and later the stop, of a stream of AIMD datagrams.
    Aimd {
        /// Index of the stream's machines.
        index: usize,
        /// When the application stops, if it does.
        stop: Option<Nanos>,
        /// It has started.
        started: bool,
    },
}

/// Datagrams at a steady interval, one or several at a time.
#[derive(Clone, Debug)]
pub struct DatagramSource {
    /// The stream.
    pub stream: u32,
    /// Where the packets come from.
    pub from: NodeId,
    /// Where they go.
    pub to: NodeId,
    /// Size of an IP packet.
    pub bytes: u32,
    /// Time from one burst to the next, in fractions of a nanosecond that do not add up to drift.
    pub interval: Interval,
    /// Packets that leave at once.
    pub burst: u32,
    /// No packet from here on.
    pub stop: Nanos,
    /// Packets sent so far.
    pub sequence: u32,
    /// The voice codec, where it is one.
    pub codec: Option<Codec>,
}

impl DatagramSource {
    /// What the next packet carries.
    pub fn next_body(&mut self) -> Body {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        match self.codec {
            None => Body::Udp { sequence },
            Some(codec) => {
                let profile = codec.profile();
                let samples = u64::from(profile.clock_hz) * profile.interval.0 / 1_000_000_000;
                Body::Rtp {
                    sequence,
                    timestamp: u64::from(sequence) * samples,
                    ssrc: self.stream + 1,
                    payload_type: profile.rtp_payload_type,
                }
            }
        }
    }
}

/// A period that need not be a whole number of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    start: Nanos,
    seconds: f64,
    count: u64,
}

impl Interval {
    /// A period of `seconds`, the first one from `start`.
    pub fn new(start: Nanos, seconds: f64) -> Self {
        Self { start, seconds, count: 0 }
    }

    /// When the next period begins.
    pub fn next_start(&mut self) -> Nanos {
        self.count += 1;
        self.start.saturating_add(Nanos::from_secs_f64(self.seconds * self.count as f64))
    }
}

/// The two ends of a TCP transfer, or of one connection after the other.
#[derive(Debug)]
pub struct Transfer {
    /// The flow that it is.
    pub flow: usize,
    /// The session that it serves.
    pub session: Option<usize>,
    /// Which of the flow's connections it is.
    pub connection: u16,
    /// Where data comes from.
    pub from: NodeId,
    /// Where data goes.
    pub to: NodeId,
    /// The stream of data.
    pub data_stream: u32,
    /// The stream of acknowledgments.
    pub ack_stream: u32,
    /// How its senders behave.
    pub sender_config: SenderConfig,
    /// How its receivers behave.
    pub receiver_config: ReceiverConfig,
    /// Counters of the connections before this one.
    pub past: TransferCounts,
    /// The end that sends data.
    pub sender: Sender,
    /// The end that receives data.
    pub receiver: Receiver,
    /// The sender's timer.
    pub sender_timer: Timer,
    /// The receiver's timer.
    pub receiver_timer: Timer,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Counters at the end of the warm-up: bytes sent and segments retransmitted.
    pub warmup: TransferCounts,
    /// When a finite transfer was complete at the receiver.
    pub completed: Option<Nanos>,
    /// Bytes that make it complete; none for one without end.
    pub size: Option<u64>,
}

impl Transfer {
    /// A transfer of `flow` from its one end to the other, that waits to be opened.
    pub fn new(flow: usize, ends: (NodeId, NodeId), sender: SenderConfig, receiver: ReceiverConfig) -> Self {
        Self {
            flow,
            session: None,
            connection: 0,
            from: ends.0,
            to: ends.1,
            data_stream: stream(flow, false),
            ack_stream: stream(flow, true),
            sender_config: sender,
            receiver_config: receiver,
            past: TransferCounts::default(),
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            sender_timer: Timer::default(),
            receiver_timer: Timer::default(),
            delivered: 0,
            warmup: TransferCounts::default(),
            completed: None,
            size: None,
        }
    }

    /// Connections of a flow differ by this much: two may be open at a time, one a direction.
    const CONNECTION_STEP: u16 = 2;

    /// Puts a new connection into the place of the last one, which is forgotten.
    pub fn renew(&mut self) {
        if self.sender.state() == SenderState::Closed {
            return; // the first one
        }
        self.past = self.counts();
        self.sender = Sender::new(self.sender_config);
        self.receiver = Receiver::new(self.receiver_config);
        self.sender_timer.cancel();
        self.receiver_timer.cancel();
        self.delivered = 0;
        self.connection = self.connection.wrapping_add(Self::CONNECTION_STEP);
    }

    /// The sender's counters, with those of the connections before.
    pub fn counts(&self) -> TransferCounts {
        self.past.plus(&TransferCounts::of(self.sender.stats()))
    }
}

/// Counters of a TCP sender at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferCounts {
    /// Bytes of data sent, repetitions included.
    pub bytes_sent: u64,
    /// Segments with data sent, repetitions included.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Repetitions that were reported to be needless (RFC 2883).
    pub spurious: u64,
    /// Reductions for a mark of the network (RFC 3168).
    pub ecn_reductions: u64,
    /// Reductions taken back.
    pub undone: u64,
}

impl TransferCounts {
    fn plus(&self, other: &Self) -> Self {
        Self {
            bytes_sent: self.bytes_sent + other.bytes_sent,
            segments_sent: self.segments_sent + other.segments_sent,
            retransmitted: self.retransmitted + other.retransmitted,
            timeouts: self.timeouts + other.timeouts,
            recoveries: self.recoveries + other.recoveries,
            spurious: self.spurious + other.spurious,
            ecn_reductions: self.ecn_reductions + other.ecn_reductions,
            undone: self.undone + other.undone,
        }
    }

    /// The counters as they stand.
    pub fn of(stats: &SenderStats) -> Self {
        Self {
            bytes_sent: stats.bytes_sent,
            segments_sent: stats.segments_sent,
            retransmitted: stats.segments_retransmitted,
            timeouts: stats.timeouts,
            recoveries: stats.fast_recoveries,
            spurious: stats.dsacks,
            ecn_reductions: stats.ecn_reductions,
            undone: stats.undone,
        }
    }
}
