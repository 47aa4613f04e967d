//! What is measured while the World runs: plain counters and bins, allocated before the first event.

mod applications;
mod histogram;

pub use applications::{FrameRecord, TransactionRecord};
pub use histogram::Histogram;

use fairhop_model::units::Nanos;
use fairhop_model::voice::Jitter;

use crate::packet::Packet;
use crate::radio::{Airtime, FrameLoss};

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// The interface queue of a station was full.
    QueueFull,
    /// A station gave up after its retry limit: collisions or a bad link.
    RetryLimit,
    /// The queue of a wired link was full.
    WiredQueueFull,
    /// A queue, of a station or a wired link, dropped it early to stay short (RED, CoDel).
    Aqm,
    /// It was lost on a wired link.
    Link,
    /// It found no place in a pacer of the gateway, or in the queue of a node's throttle for its own packets.
    Control,
    /// A node that held it had no route to its destination.
    NoRoute,
    /// Its time to live ran out on the way (RFC 1812 §5.3.1).
    Ttl,
}

impl Loss {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::RetryLimit,
        Self::WiredQueueFull,
        Self::Aqm,
        Self::Link,
        Self::Control,
        Self::NoRoute,
        Self::Ttl,
    ];

    /// The reason's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::RetryLimit => "retry_limit",
            Self::WiredQueueFull => "wired_queue_full",
            Self::Aqm => "aqm",
            Self::Link => "link",
            Self::Control => "control",
            Self::NoRoute => "no_route",
            Self::Ttl => "ttl",
        }
    }
}

/// Counts of one recording interval of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBin {
    /// Packets that were sent in the interval.
    pub sent: u32,
    /// Packets sent in the interval that arrived at all.
    pub arrived: u32,
    /// Packets sent in the interval that arrived in time to be played.
    pub in_time: u32,
    /// Sum of the delays of those that arrived.
    pub delay_sum: Nanos,
    /// Bytes of payload that were delivered in the interval, whenever they were sent.
    pub delivered_bytes: u64,
}

/// A sample of a TCP sender at the end of a recording interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpSample {
    /// When.
    pub at: Nanos,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold in bytes; none before the first loss.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed round-trip time.
    pub srtt: Option<Nanos>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Segments retransmitted so far.
    pub retransmitted: u64,
    /// Retransmission timeouts so far.
    pub timeouts: u64,
}

/// A sample of a node at the end of a recording interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeSample {
    /// When.
    pub at: Nanos,
    /// Packets that wait, the one in service included.
    pub backlog: u32,
    /// Airtime since the start.
    pub airtime: Airtime,
}

/// What is counted for one direction of a flow. Packets made before the end of the warm-up do not count, except in the
/// bins.
///
/// The order of the fields matters in large networks: a packet that is sent touches the first cache line, one that
/// arrives two more.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct StreamRecord {
    /// Bins from time zero.
    pub bins: Vec<StreamBin>,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of payload sent.
    pub sent_bytes: u64,
    /// Shortest delay, warm-up included: the playout buffer is set by it.
    pub delay_min: Nanos,
    /// A packet is played this long after the fastest one would have been.
    pub playout: Nanos,
    /// Bytes of payload delivered after the warm-up, in order and once.
    pub delivered_bytes: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Sum of delays.
    pub delay_sum: Nanos,
    /// Longest delay.
    pub delay_max: Nanos,
    /// Delays.
    pub delays: Histogram,
    /// Interarrival jitter (RFC 3550 §6.4.1).
    pub jitter: Jitter,
    /// Sum of the jitter after each packet, for its mean.
    pub jitter_sum: Nanos,
    /// Packets lost, by reason.
    pub lost: [u64; Loss::ALL.len()],
    /// Packets that had not arrived at the end of the run and could still have been in time.
    pub in_flight: u64,
}

impl StreamRecord {
    fn new(playout: Nanos, bins: usize) -> Self {
        Self {
            sent: 0,
            sent_bytes: 0,
            arrived: 0,
            late: 0,
            lost: [0; Loss::ALL.len()],
            in_flight: 0,
            delivered_bytes: 0,
            delay_sum: Nanos::ZERO,
            delay_min: Nanos::MAX,
            delay_max: Nanos::ZERO,
            delays: if bins > 0 { Histogram::new() } else { Histogram::default() },
            jitter: Jitter::default(),
            jitter_sum: Nanos::ZERO,
            bins: vec![StreamBin::default(); bins],
            playout,
        }
    }

    /// Packets lost for any reason.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Packets whose fate counts: all but those that were still under way.
    pub fn decided(&self) -> u64 {
        self.sent.saturating_sub(self.in_flight)
    }
}

/// What is counted for one station, warm-up excluded. What every frame of the station touches comes first, in one cache
/// line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct NodeRecord {
    /// Frames sent.
    pub frames_sent: u64,
    /// Data frames sent again.
    pub retries: u64,
    /// Time integral of the backlog, in packet-nanoseconds.
    pub backlog_integral: u128,
    backlog_since: Nanos,
    backlog: u32,
    /// Longest backlog.
    pub backlog_max: u32,
    /// Packets that found the queue full or made room in it.
    pub queue_drops: u64,
    /// Packets that the queue's discipline dropped early.
    pub early_drops: u64,
    /// Frames meant for this station that it did not receive, by reason.
    pub frames_lost: [u64; FrameLoss::ALL.len()],
    /// Airtime up to the end of the warm-up, to be taken off.
    pub airtime_warmup: Airtime,
}

impl NodeRecord {
    /// The backlog has changed.
    #[inline]
    pub fn set_backlog(&mut self, backlog: usize, now: Nanos, warmup: Nanos) {
        let since = self.backlog_since.max(warmup);
        if now > since {
            self.backlog_integral += u128::from(self.backlog) * u128::from((now - since).0);
        }
        self.backlog = backlog as u32;
        self.backlog_since = now;
        if now >= warmup {
            self.backlog_max = self.backlog_max.max(self.backlog);
        }
    }
}

/// Everything that is measured.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Nothing before this counts.
    pub warmup: Nanos,
    /// Length of a bin.
    pub interval: Nanos,
    /// One record a direction of a flow: 2·flow, and 2·flow + 1 for the way back.
    pub streams: Vec<StreamRecord>,
    /// Samples of TCP senders, by TCP flow.
    pub tcp: Vec<Vec<TcpSample>>,
    /// One record a station.
    pub nodes: Vec<NodeRecord>,
    /// Samples of stations.
    pub node_samples: Vec<Vec<NodeSample>>,
    /// Frames on the air.
    pub frames: u64,
    /// A hash of every transmission's time, sender, kind and length (FNV-1a): equal for equal runs.
    pub fingerprint: u64,
}

impl Recorder {
    /// An empty recorder with room for a whole run. `measured` says of every stream whether it carries data whose delay
    /// and loss matter.
    pub fn new(
        warmup: Nanos,
        interval: Nanos,
        duration: Nanos,
        playout: Nanos,
        measured: &[bool],
        tcp_flows: usize,
        nodes: usize,
    ) -> Self {
        let bins = duration.0.div_ceil(interval.0.max(1)) as usize;
        Self {
            warmup,
            interval,
            streams: measured
                .iter()
                .map(|&measured| StreamRecord::new(playout, if measured { bins } else { 0 }))
                .collect(),
            // Not `vec![…; n]`: a clone has no room to spare.
            tcp: (0..tcp_flows).map(|_| Vec::with_capacity(bins + 1)).collect(),
            nodes: vec![NodeRecord::default(); nodes],
            node_samples: (0..nodes).map(|_| Vec::with_capacity(bins + 1)).collect(),
            frames: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Whether the delay and loss of a stream are measured.
    #[inline]
    pub fn is_measured(&self, stream: u32) -> bool {
        !self.streams[stream as usize].bins.is_empty()
    }

    /// Whether a bin ends here.
    pub fn is_bin_edge(&self, at: Nanos) -> bool {
        at > Nanos::ZERO && at % self.interval == Nanos::ZERO
    }

    /// The next end of a bin or of the warm-up after `now`.
    pub fn next_sample(&self, now: Nanos) -> Nanos {
        let edge = self.interval * (now.div_floor(self.interval) + 1);
        if now < self.warmup { edge.min(self.warmup) } else { edge }
    }

    /// A frame goes on the air.
    #[inline]
    pub fn frame_sent(&mut self, now: Nanos, node: u32, kind: u32, bytes: u32, retry: bool) {
        for word in [now.0, u64::from(node) << 40 | u64::from(kind) << 32 | u64::from(bytes)] {
            self.fingerprint = (self.fingerprint ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.fingerprint ^= self.fingerprint >> 29;
        }
        self.frames += 1;
        if now >= self.warmup {
            let record = &mut self.nodes[node as usize];
            record.frames_sent += 1;
            record.retries += u64::from(retry);
        }
    }

    /// A station did not receive a frame that was meant for it.
    #[inline]
    pub fn frame_lost(&mut self, now: Nanos, node: u32, why: FrameLoss) {
        if now >= self.warmup {
            self.nodes[node as usize].frames_lost[why as usize] += 1;
        }
    }

    #[inline]
    fn bin(&mut self, stream: u32, at: Nanos) -> Option<&mut StreamBin> {
        let index = at.0 / self.interval.0;
        self.streams[stream as usize].bins.get_mut(index as usize)
    }

    /// A packet enters the network.
    #[inline]
    pub fn packet_sent(&mut self, packet: &Packet, payload: u32) {
        if let Some(bin) = self.bin(packet.stream, packet.created) {
            bin.sent += 1;
        }
        if packet.created >= self.warmup {
            let record = &mut self.streams[packet.stream as usize];
            record.sent += 1;
            record.sent_bytes += u64::from(payload);
        }
    }

    /// A packet has arrived where it goes.
    #[inline]
    pub fn packet_arrived(&mut self, packet: &Packet, now: Nanos) {
        let delay = now - packet.created;
        let record = &mut self.streams[packet.stream as usize];
        record.delay_min = record.delay_min.min(delay);
        let in_time = delay <= record.delay_min + record.playout;
        if packet.created >= self.warmup {
            record.arrived += 1;
            record.late += u64::from(!in_time);
            record.delay_sum += delay;
            record.delay_max = record.delay_max.max(delay);
            record.delays.add(delay);
            record.jitter.update(packet.created, now);
            record.jitter_sum += record.jitter.value();
        }
        if let Some(bin) = self.bin(packet.stream, packet.created) {
            bin.arrived += 1;
            bin.in_time += u32::from(in_time);
            bin.delay_sum += delay;
        }
    }

    /// Payload was delivered to the application, in order and once.
    #[inline]
    pub fn delivered(&mut self, stream: u32, bytes: u64, now: Nanos) {
        if let Some(bin) = self.bin(stream, now) {
            bin.delivered_bytes += bytes;
        }
        if now >= self.warmup {
            self.streams[stream as usize].delivered_bytes += bytes;
        }
    }

    /// A packet is lost.
    pub fn packet_lost(&mut self, packet: &Packet, why: Loss) {
        if packet.created >= self.warmup {
            self.streams[packet.stream as usize].lost[why as usize] += 1;
        }
    }

    /// A packet was still under way at the end: it counts as late where it could not have been in time any more.
    pub fn packet_unfinished(&mut self, packet: &Packet, end: Nanos) {
        if packet.created < self.warmup {
            return;
        }
        let record = &mut self.streams[packet.stream as usize];
        let deadline = record.delay_min.saturating_add(record.playout);
        if end - packet.created > deadline {
            record.late += 1;
        } else {
            record.in_flight += 1;
            if let Some(bin) = self.bin(packet.stream, packet.created) {
                bin.sent -= 1;
            }
        }
    }
}
