//! Counters, bins and samples of a run. All of them are allocated before the first event.

mod applications;
mod histogram;
mod routing;
#[cfg(test)]
mod tests;

pub use applications::{FrameRecord, TransactionRecord};
pub use histogram::Histogram;
pub use routing::{INTERRUPTION, Interruption, MessageCount, PathRecord, RouteChange, RoutingRecord};

use fairhop_model::units::Nanos;
use fairhop_model::voice::Jitter;

use crate::packet::{NodeId, Packet};
use crate::radio::{Airtime, FrameLoss};

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// The interface queue of a station was full.
    QueueFull,
    /// A station dropped it at its retry limit: collisions or a bad link.
    RetryLimit,
    /// The queue of a wired link was full.
    WiredQueueFull,
    /// A queue, of a station or a wired link, dropped it early to stay short (RED, CoDel).
    Aqm,
    /// It was lost on a wired link.
    Link,
    /// A pacer of the gateway, or the queue of a node's throttle for its own packets, was full.
    Control,
    /// A node that held it had no route to its destination.
    NoRoute,
    /// Its time to live ran out on the way (RFC 1812 §5.3.1).
    Ttl,
    /// It waited at a station for a neighbour to which the link broke.
    RouteBroken,
    /// The buffer for packets without a route was full.
    BufferFull,
    /// It waited too long for a route.
    BufferTimeout,
}

impl Loss {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::QueueFull,
        Self::RetryLimit,
        Self::WiredQueueFull,
        Self::Aqm,
        Self::Link,
        Self::Control,
        Self::NoRoute,
        Self::Ttl,
        Self::RouteBroken,
        Self::BufferFull,
        Self::BufferTimeout,
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
            Self::RouteBroken => "route_broken",
            Self::BufferFull => "buffer_full",
            Self::BufferTimeout => "buffer_timeout",
        }
    }

    /// Whether only a routing protocol loses packets for this reason; results of other runs leave it out.
    pub const fn is_of_routing(self) -> bool {
        matches!(self, Self::RouteBroken | Self::BufferFull | Self::BufferTimeout)
    }
}

/// Counters of a stream in one recording interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBin {
    /// Packets sent in the interval.
    pub sent: u32,
    /// Packets sent in the interval that arrived.
    pub arrived: u32,
    /// Packets sent in the interval that arrived before their playout time.
    pub in_time: u32,
    /// Sum of the delays of the packets that arrived.
    pub delay_sum: Nanos,
    /// Payload bytes delivered in the interval, whenever they were sent.
    pub delivered_bytes: u64,
}

/// A sample of a TCP sender at the end of a recording interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpSample {
    /// Time of the sample.
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
    /// Time of the sample.
    pub at: Nanos,
    /// Packets in the queue and in service.
    pub backlog: u32,
    /// Airtime since the start.
    pub airtime: Airtime,
}

/// Receptions of a broadcast stream at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receptions {
    /// The receiver.
    pub node: NodeId,
    /// Packets that it received.
    pub packets: u64,
}

/// Counters of one direction of a flow. Packets made during the warm-up count in the bins only.
///
/// The order of the fields matters in large networks: sending a packet touches the first cache line, receiving one
/// touches two more.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct StreamRecord {
    /// Bins from time zero.
    pub bins: Vec<StreamBin>,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of payload sent.
    pub sent_bytes: u64,
    /// Shortest delay, warm-up included; [`Nanos::MAX`] where no packet arrived. It sets the playout time.
    pub delay_min: Nanos,
    /// Playout buffer: a packet is late when its delay exceeds `delay_min` by more than this.
    pub playout: Nanos,
    /// Payload bytes delivered after the warm-up, in order and once.
    pub delivered_bytes: u64,
    /// Packets that arrived; of a broadcast, receptions.
    pub arrived: u64,
    /// Late packets: arrived after their playout time, or not arrived at the end of the run though it had passed.
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
    /// Packets in the network at the end of the run whose playout time had not come: their fate is unknown.
    pub in_flight: u64,
    /// Packets in the network at the end of the run whose playout time had passed; [`StreamRecord::late`] counts them too.
    pub overdue: u64,
    /// Receptions of a broadcast by node, sorted: all nodes in reach of the sender, and those that received a packet
    /// though they were not. Empty for other streams.
    pub receptions: Vec<Receptions>,
    /// A routing protocol carries it: it has reasons of loss of its own.
    pub routed: bool,
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
            overdue: 0,
            receptions: Vec::new(),
            routed: false,
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

    /// Packets whose fate is known: all but those in flight at the end of the run.
    pub fn decided(&self) -> u64 {
        self.sent.saturating_sub(self.in_flight)
    }

    /// Fraction of the packets sent that each receiver of a broadcast received, in the order of
    /// [`StreamRecord::receptions`]; nothing where no packet's fate is known.
    pub fn delivery_ratios(&self) -> impl Iterator<Item = (NodeId, f64)> {
        let decided = self.decided();
        let counted = if decided > 0 { self.receptions.as_slice() } else { &[] };
        counted.iter().map(move |at| (at.node, at.packets as f64 / decided as f64))
    }
}

/// Counters of one station, warm-up excluded. The first cache line holds what every frame of the station touches.
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
    /// Packets dropped because the queue was full: those that arrived, or those removed to make room.
    pub queue_drops: u64,
    /// Packets that the queue's discipline dropped early.
    pub early_drops: u64,
    /// Frames addressed to this station that it did not receive, by reason.
    pub frames_lost: [u64; FrameLoss::ALL.len()],
    /// Airtime up to the end of the warm-up, which results subtract.
    pub airtime_warmup: Airtime,
}

impl NodeRecord {
    /// Records a change of the backlog.
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

/// Hash of no events: the offset basis of 64-bit FNV-1a.
const EMPTY_FINGERPRINT: u64 = 0xcbf2_9ce4_8422_2325;

/// Everything that is measured.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// End of the warm-up, before which nothing counts.
    pub warmup: Nanos,
    /// Length of a bin.
    pub interval: Nanos,
    /// One record for each direction of a flow: 2·flow forward, 2·flow + 1 backward.
    pub streams: Vec<StreamRecord>,
    /// Samples of TCP senders, by transfer.
    pub tcp: Vec<Vec<TcpSample>>,
    /// One record for each station.
    pub nodes: Vec<NodeRecord>,
    /// Samples of stations.
    pub node_samples: Vec<Vec<NodeSample>>,
    /// Frames on the air.
    pub frames: u64,
    /// Hash of the time, sender, kind and length of every frame (FNV-1a): equal for equal runs.
    pub fingerprint: u64,
    /// Hash of the time, direction, length and fate of every packet that reaches the end of a wired link (FNV-1a).
    pub wired_fingerprint: u64,
    /// What a routing protocol does; none where there is none.
    pub routing: Option<Box<RoutingRecord>>,
}

/// One round of the fingerprints: FNV-1a by words, with the high bits folded into the low ones.
#[inline]
const fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    hash ^ hash >> 29
}

impl Recorder {
    /// An empty recorder with room for a whole run. `measured` has an entry for every stream: whether its packets are
    /// counted.
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
            // Not `vec![…; n]`: clones of a vector have no spare capacity.
            tcp: (0..tcp_flows).map(|_| Vec::with_capacity(bins + 1)).collect(),
            nodes: vec![NodeRecord::default(); nodes],
            node_samples: (0..nodes).map(|_| Vec::with_capacity(bins + 1)).collect(),
            frames: 0,
            fingerprint: EMPTY_FINGERPRINT,
            wired_fingerprint: EMPTY_FINGERPRINT,
            routing: None,
        }
    }

    /// Adds a stream during the run; its bins begin at time zero, and grow with [`Recorder::extend_bins`].
    pub fn add_stream(&mut self, playout: Nanos, now: Nanos) {
        let mut record = StreamRecord::new(playout, (now.0 / self.interval.0) as usize + 1);
        record.routed = self.routing.is_some();
        self.streams.push(record);
    }

    /// Makes room for what happens `now`, in a stream that was added during the run.
    pub fn extend_bins(&mut self, stream: u32, now: Nanos) {
        let bins = &mut self.streams[stream as usize].bins;
        let needed = (now.0 / self.interval.0) as usize + 1;
        if bins.len() < needed {
            bins.resize(needed, StreamBin::default());
        }
    }

    /// Lists the nodes in reach of the sender of a broadcast stream, in ascending order, so that those that receive
    /// nothing appear in the results and receptions allocate nothing.
    pub fn expect_receivers(&mut self, stream: u32, nodes: impl IntoIterator<Item = NodeId>) {
        let receptions = nodes.into_iter().map(|node| Receptions { node, packets: 0 });
        self.streams[stream as usize].receptions = receptions.collect();
    }

    /// Whether the packets of a stream are counted.
    #[inline]
    pub fn is_measured(&self, stream: u32) -> bool {
        !self.streams[stream as usize].bins.is_empty()
    }

    /// Whether a bin ends at this time.
    pub fn is_bin_edge(&self, at: Nanos) -> bool {
        at > Nanos::ZERO && at % self.interval == Nanos::ZERO
    }

    /// The next end of a bin or of the warm-up after `now`.
    pub fn next_sample(&self, now: Nanos) -> Nanos {
        let edge = self.interval * (now.div_floor(self.interval) + 1);
        if now < self.warmup { edge.min(self.warmup) } else { edge }
    }

    /// Records the start of a frame's transmission.
    #[inline]
    pub fn frame_sent(&mut self, now: Nanos, node: u32, kind: u32, bytes: u32, retry: bool) {
        for word in [now.0, u64::from(node) << 40 | u64::from(kind) << 32 | u64::from(bytes)] {
            self.fingerprint = mixed(self.fingerprint, word);
        }
        self.frames += 1;
        if now >= self.warmup {
            let record = &mut self.nodes[node as usize];
            record.frames_sent += 1;
            record.retries += u64::from(retry);
        }
    }

    /// Records that a station did not receive a frame addressed to it.
    #[inline]
    pub fn frame_lost(&mut self, now: Nanos, node: u32, why: FrameLoss) {
        if now >= self.warmup {
            self.nodes[node as usize].frames_lost[why as usize] += 1;
        }
    }

    /// Records that a packet has reached the end of a direction of a wired link, or was lost on it.
    #[inline]
    pub fn wire_crossed(&mut self, now: Nanos, direction: u32, bytes: u32, lost: bool) {
        for word in [now.0, u64::from(direction) << 40 | u64::from(lost) << 32 | u64::from(bytes)] {
            self.wired_fingerprint = mixed(self.wired_fingerprint, word);
        }
    }

    #[inline]
    fn bin(&mut self, stream: u32, at: Nanos) -> Option<&mut StreamBin> {
        let index = at.0 / self.interval.0;
        self.streams[stream as usize].bins.get_mut(index as usize)
    }

    /// Records that a packet has entered the network.
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

    /// Records that a packet has arrived at its destination.
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

    /// Records that a node has received a broadcast packet.
    #[inline]
    pub fn broadcast_received(&mut self, packet: &Packet, node: NodeId, now: Nanos) {
        self.packet_arrived(packet, now);
        if packet.created < self.warmup {
            return;
        }
        let receptions = &mut self.streams[packet.stream as usize].receptions;
        match receptions.binary_search_by_key(&node, |at| at.node) {
            Ok(index) => receptions[index].packets += 1,
            // A node that was out of reach at the start: once for each such node.
            Err(index) => receptions.insert(index, Receptions { node, packets: 1 }),
        }
    }

    /// Records payload delivered to the application, in order and once.
    #[inline]
    pub fn delivered(&mut self, stream: u32, bytes: u64, now: Nanos) {
        if let Some(bin) = self.bin(stream, now) {
            bin.delivered_bytes += bytes;
        }
        if now >= self.warmup {
            self.streams[stream as usize].delivered_bytes += bytes;
        }
    }

    /// Records that a packet is lost.
    pub fn packet_lost(&mut self, packet: &Packet, why: Loss) {
        if packet.created >= self.warmup {
            self.streams[packet.stream as usize].lost[why as usize] += 1;
        }
    }

    /// Records that a packet was in the network at the end of the run. It is late if its playout time has passed.
    pub fn packet_unfinished(&mut self, packet: &Packet, end: Nanos) {
        if packet.created < self.warmup {
            return;
        }
        let record = &mut self.streams[packet.stream as usize];
        let deadline = record.delay_min.saturating_add(record.playout);
        if end - packet.created > deadline {
            record.late += 1;
            record.overdue += 1;
        } else {
            record.in_flight += 1;
            if let Some(bin) = self.bin(packet.stream, packet.created) {
                bin.sent -= 1;
            }
        }
    }
}
