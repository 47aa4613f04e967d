//! Pacing: packets leave no faster than a rate (kim2010, "TCP data/ACK pacing").
//!
//! | part | what it does |
//! |---|---|
//! | [`departure`] | the arithmetic: when may the next packet leave? No queue, no memory |
//! | [`Pacer`] | a queue of data packets that leave at those times |
//! | [`AckPacer`] | a queue of ACKs, paced by the bytes that they acknowledge |
//!
//! Rates hold for the aggregate, for each flow, or for both. Flows take turns by bytes (deficit round robin, Shreedhar and
//! Varghese 1995). The queue is bounded: when it is full, the newest packet of the longest queue is dropped. Urgent packets are
//! dropped when they have waited too long. Packets that have waited long can be marked (RFC 3168).
//!
//! All parts are sans-IO: packets are whatever the caller hands in, `poll` returns those that are due, `next_time` is when
//! to poll again. A late poll does not catch up: over any interval, no more than the rate allows and one packet leave, or two of
//! a flow whose packets leave in pairs. All memory is taken at the start.

mod ack;
pub mod departure;
mod pool;

use fairhop_model::units::{BitRate, Nanos};

pub use ack::{AckPacer, MAX_ACK_WAIT};
use departure::{FlowSpacing, Schedule, Spacing};
use pool::{List, Pool};

use crate::flow::FlowKey;
use crate::gate::Gate;

/// Time by which urgent packets may be ahead of their rate: video sends a frame of packets at once.
pub const URGENT_BURST: Nanos = Nanos::from_millis(100);

/// Longest wait of an urgent packet: a conversation bears that delay (ITU-T G.114). Later it is of no use, and delays the next
/// ones.
pub const MAX_URGENT_WAIT: Nanos = Nanos::from_millis(150);

/// Sizes of a pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerConfig {
    /// Maximum number of waiting packets.
    pub packets: usize,
    /// Maximum number of flows with waiting packets; further ones share the last queue.
    pub flows: usize,
    /// A packet that waited longer is marked when it leaves; none: no packet is marked.
    pub mark_after: Option<Nanos>,
}

impl Default for PacerConfig {
    /// 200 packets of 64 flows, no marks.
    fn default() -> Self {
        Self { packets: 200, flows: 64, mark_after: None }
    }
}

#[derive(Debug)]
struct Waiting<P> {
    packet: P,
    bytes: u32,
    since: Nanos,
}

/// A flow with its queue.
#[derive(Debug)]
struct Lane {
    key: FlowKey,
    spacing: FlowSpacing,
    queue: List,
    /// Its packets go ahead of those of other flows.
    is_urgent: bool,
    /// Bytes that it may send in this round.
    deficit: u64,
}

impl Lane {
    fn is_ready(&self, now: Nanos) -> bool {
        !self.queue.is_empty() && self.spacing.next() <= now
    }
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<P> {
    /// The packet.
    pub packet: P,
    /// It waited longer than [`PacerConfig::mark_after`].
    pub mark: bool,
    /// How long it waited.
    pub waited: Nanos,
}

/// Holds data packets.
#[derive(Debug)]
pub struct Pacer<P> {
    config: PacerConfig,
    schedule: Schedule,
    /// Rate up to which urgent packets go ahead.
    urgent: Spacing,
    /// The rate of flows without one of their own.
    flow_rate: Option<BitRate>,
    lanes: Vec<Lane>,
    pool: Pool<Waiting<P>>,
    /// The lane whose turn it is.
    turn: usize,
    waiting: usize,
    dropped: u64,
}

impl<P> Pacer<P> {
    /// Bytes that a lane gets in its turn: one packet of the usual size (Ethernet's 1500 and its header), or two where packets
    /// leave in pairs.
    const QUANTUM: u64 = 1514;

    /// A pacer without a rate: everything passes.
    pub fn new(config: PacerConfig) -> Self {
        let config = PacerConfig { packets: config.packets.max(1), flows: config.flows.max(1), ..config };
        Self {
            config,
            schedule: Schedule::new(),
            urgent: Spacing::new(None),
            flow_rate: None,
            lanes: Vec::with_capacity(config.flows),
            // One more, for the packet that comes to a full pacer.
            pool: Pool::new(config.packets.saturating_add(1)),
            turn: 0,
            waiting: 0,
            dropped: 0,
        }
    }

    /// Sets the times at which one packet each may leave; none for any time.
    pub const fn set_gate(&mut self, gate: Option<Gate>) {
        self.schedule.set_gate(gate);
    }

    /// Sets the rate of the aggregate; none for no limit.
    pub const fn set_aggregate(&mut self, rate: Option<BitRate>) {
        self.schedule.set_aggregate(rate);
    }

    /// Sets the rate up to which urgent packets go ahead of others; none for any rate. Beyond it, they get what the
    /// others leave.
    pub const fn set_urgent(&mut self, rate: Option<BitRate>) {
        self.urgent.set_rate(rate);
    }

    /// Sets the rate of every flow, new ones too. [`Pacer::set_flow`] overrides it for one.
    pub fn set_each_flow(&mut self, rate: Option<BitRate>) {
        self.flow_rate = rate;
        for lane in &mut self.lanes {
            lane.spacing.set(rate, false);
        }
    }

    /// Sets the rate of one flow, if packets of it have passed. They leave in pairs.
    pub fn set_flow(&mut self, key: &FlowKey, rate: Option<BitRate>) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.key == *key) {
            lane.spacing.set(rate, true);
        }
    }

    /// Number of waiting packets.
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Number of packets dropped because the pacer was full or they were late.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes a packet; one that is urgent goes ahead of others ([`Pacer::set_urgent`]). If the pacer is full, returns the packet
    /// that is dropped: the newest of the longest queue, which may be this one. A packet that may leave at once is returned by
    /// the next [`Pacer::poll`].
    pub fn offer(&mut self, now: Nanos, key: &FlowKey, bytes: u32, is_urgent: bool, packet: P) -> Option<P> {
        let lane = self.lane(key);
        self.lanes[lane].is_urgent = is_urgent;
        self.pool.push(&mut self.lanes[lane].queue, Waiting { packet, bytes, since: now });
        self.waiting += 1;
        if self.waiting <= self.config.packets {
            return None;
        }
        let longest = self.lanes.iter_mut().max_by_key(|lane| lane.queue.len())?;
        let victim = self.pool.pop_last(&mut longest.queue)?;
        self.waiting -= 1;
        self.dropped += 1;
        Some(victim.packet)
    }

    fn lane(&mut self, key: &FlowKey) -> usize {
        if let Some(place) = self.lanes.iter().position(|lane| lane.key == *key) {
            return place;
        }
        let spacing = FlowSpacing::new(self.flow_rate);
        if self.lanes.len() < self.config.flows {
            self.lanes.push(Lane { key: *key, spacing, queue: List::EMPTY, is_urgent: false, deficit: 0 });
            return self.lanes.len() - 1;
        }
        // The lane of the flow without packets that has been silent longest; if all have packets, the last lane is shared.
        let idle = self.lanes.iter().enumerate().filter(|(_, lane)| lane.queue.is_empty());
        let Some((place, _)) = idle.min_by_key(|(_, lane)| lane.spacing.last()) else {
            return self.lanes.len() - 1;
        };
        let lane = &mut self.lanes[place];
        (lane.key, lane.spacing, lane.deficit) = (*key, spacing, 0);
        place
    }

    /// When a packet may leave, `now` at the earliest; none if none waits.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.lanes.iter().filter(|lane| !lane.queue.is_empty());
        let first = waiting.min_by_key(|lane| lane.spacing.next())?;
        Some(self.schedule.departure(&first.spacing, now))
    }

    /// An urgent packet that has waited longer than [`MAX_URGENT_WAIT`]: the caller drops it. Due before [`Pacer::poll`].
    pub fn poll_late(&mut self, now: Nanos) -> Option<P> {
        if self.waiting == 0 {
            return None;
        }
        let is_late = |first: &Waiting<P>| now.saturating_sub(first.since) > MAX_URGENT_WAIT;
        let pool = &self.pool;
        let lane = self
            .lanes
            .iter_mut()
            .find(|lane| lane.is_urgent && pool.first(&lane.queue).is_some_and(is_late))?;
        let late = self.pool.pop_first(&mut lane.queue)?;
        self.waiting -= 1;
        self.dropped += 1;
        Some(late.packet)
    }

    /// A packet that may leave now.
    pub fn poll(&mut self, now: Nanos) -> Option<Released<P>> {
        if self.waiting == 0 || !self.schedule.is_open(now) {
            return None;
        }
        // Urgent flows go first up to their rate. Beyond it, they get what the others leave.
        let mut ready = [false; 2];
        for lane in self.lanes.iter().filter(|lane| lane.is_ready(now)) {
            ready[usize::from(lane.is_urgent)] = true;
        }
        let serves_urgent = match ready {
            [false, false] => return None,
            [others, urgent] => urgent && (!others || self.urgent.next() <= now),
        };
        loop {
            let turn = self.turn % self.lanes.len();
            let lane = &mut self.lanes[turn];
            if lane.is_urgent == serves_urgent && lane.is_ready(now) {
                let bytes = self.pool.first(&lane.queue).map_or(0, |first| u64::from(first.bytes));
                if lane.deficit >= bytes {
                    lane.deficit -= bytes;
                    let first = self.pool.pop_first(&mut lane.queue)?;
                    if lane.queue.is_empty() {
                        lane.deficit = 0;
                    }
                    self.schedule.record(&mut lane.spacing, now, bytes);
                    if serves_urgent {
                        self.urgent.record(now, bytes, URGENT_BURST);
                    }
                    self.waiting -= 1;
                    let waited = now.saturating_sub(first.since);
                    let mark = self.config.mark_after.is_some_and(|threshold| waited > threshold);
                    return Some(Released { packet: first.packet, mark, waited });
                }
                lane.deficit += Self::QUANTUM << u32::from(lane.spacing.is_in_pairs());
            }
            self.turn = (turn + 1) % self.lanes.len();
        }
    }
}
