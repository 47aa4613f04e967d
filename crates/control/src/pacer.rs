//! Pacing: packets of a flow, or of all, leave no faster than a rate (kim2010, "TCP data/ACK pacing").
//!
//! [`Pacer`] holds data: after a packet of L bytes the next leaves L/R later at the earliest. The rate can be that of
//! the aggregate, or of each flow, or both; flows take turns by bytes (deficit round robin, Shreedhar and Varghese 1995).
//! The queue is bounded: a full one drops the newest packet of the longest queue, and packets that have waited long can be
//! marked (RFC 3168). [`AckPacer`] holds ACKs so that what they acknowledge comes at the rate; see there.
//!
//! Both are sans-IO: packets are whatever the caller hands in; `poll` gives those whose time has come, `next_time` tells
//! when to come again. A late poll loses its time: packets are never sent closer together to catch up, so that over any
//! interval no more leaves than the rate allows and one packet. All memory is taken at the start.

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

use crate::flow::{FlowKey, FlowTable};
use crate::gate::Gate;

/// Spacing at a rate: what left last, and when it could have.
#[derive(Clone, Copy, Debug, Default)]
struct Spacing {
    last: Option<(Nanos, u64)>,
    rate: Option<BitRate>,
}

impl Spacing {
    /// When the next may leave. A change of the rate counts at once.
    fn next(&self) -> Nanos {
        match (self.last, self.rate) {
            (Some((at, bytes)), Some(rate)) => at.saturating_add(rate.time_for(bytes)),
            _ => Nanos::ZERO,
        }
    }

    /// A packet leaves. Of the time that it was late, up to `slack` is not lost.
    fn sent(&mut self, now: Nanos, bytes: u64, slack: Nanos) {
        let at = if self.last.is_some() { self.next().max(now.saturating_sub(slack)).min(now) } else { now };
        self.last = Some((at, bytes));
    }
}

/// Sizes of a pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerConfig {
    /// Most packets that wait.
    pub packets: usize,
    /// Most flows with packets that wait; those past that share the last place.
    pub flows: usize,
    /// Packets that waited for longer are marked on leaving; none are where there is no threshold.
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

/// Packets of all lanes in one piece of memory, each lane's in a list.
#[derive(Debug)]
struct Shelf<P> {
    places: Vec<Place<P>>,
    /// The first of the places that are free, in a list by `next`.
    free: usize,
}

#[derive(Debug)]
struct Place<P> {
    waiting: Option<Waiting<P>>,
    before: usize,
    next: usize,
}

/// No place.
const NOWHERE: usize = usize::MAX;

/// The packets of a lane, by their places.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: usize,
    last: usize,
    len: usize,
}

impl Queue {
    const EMPTY: Self = Self { first: NOWHERE, last: NOWHERE, len: 0 };

    const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<P> Shelf<P> {
    fn new(places: usize) -> Self {
        let place = |next| Place { waiting: None, before: NOWHERE, next };
        let places = (1..=places).map(|next| place(if next == places { NOWHERE } else { next })).collect();
        Self { places, free: 0 }
    }

    fn bytes(&self, place: usize) -> u32 {
        self.places.get(place).and_then(|place| place.waiting.as_ref()).map_or(0, |waiting| waiting.bytes)
    }

    /// Adds a packet at the end of a queue. There is a free place.
    fn push(&mut self, queue: &mut Queue, waiting: Waiting<P>) {
        let at = self.free;
        let place = &mut self.places[at];
        self.free = place.next;
        *place = Place { waiting: Some(waiting), before: queue.last, next: NOWHERE };
        match queue.last {
            NOWHERE => queue.first = at,
            last => self.places[last].next = at,
        }
        queue.last = at;
        queue.len += 1;
    }

    /// Takes a packet out of the queue that it is in, wherever it is.
    fn take(&mut self, queue: &mut Queue, at: usize) -> Option<Waiting<P>> {
        let place = self.places.get_mut(at)?;
        let waiting = place.waiting.take()?;
        let (before, next) = (place.before, std::mem::replace(&mut place.next, self.free));
        self.free = at;
        match before {
            NOWHERE => queue.first = next,
            before => self.places[before].next = next,
        }
        match next {
            NOWHERE => queue.last = before,
            next => self.places[next].before = before,
        }
        queue.len -= 1;
        Some(waiting)
    }
}

#[derive(Debug)]
struct Lane {
    key: FlowKey,
    spacing: Spacing,
    queue: Queue,
    deficit: u64,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<P> {
    /// The packet.
    pub packet: P,
    /// Whether it waited so long that it should be marked, if it can be.
    pub mark: bool,
}

/// Holds data packets.
#[derive(Debug)]
pub struct Pacer<P> {
    config: PacerConfig,
    aggregate: Spacing,
    /// The rate of flows without one of their own.
    flow_rate: Option<BitRate>,
    lanes: Vec<Lane>,
    shelf: Shelf<P>,
    turn: usize,
    waiting: usize,
    dropped: u64,
    gate: Option<Gate>,
    /// When a packet last left.
    last: Nanos,
}

impl<P> Pacer<P> {
    /// What a turn gives a lane, in bytes: a packet of the usual size.
    const QUANTUM: u64 = 1514;

    /// A pacer without a rate: everything passes.
    pub fn new(config: PacerConfig) -> Self {
        let config = PacerConfig { packets: config.packets.max(1), flows: config.flows.max(1), ..config };
        Self {
            config,
            aggregate: Spacing::default(),
            flow_rate: None,
            lanes: Vec::with_capacity(config.flows),
            // One more, for the packet that comes to a full pacer.
            shelf: Shelf::new(config.packets.saturating_add(1)),
            turn: 0,
            waiting: 0,
            dropped: 0,
            gate: None,
            last: Nanos::ZERO,
        }
    }

    /// Sets the moments at which a packet may leave, one at each; none for any moment.
    pub const fn set_gate(&mut self, gate: Option<Gate>) {
        self.gate = gate;
    }

    /// The first moment from `at` on at which the gate lets a packet pass.
    fn through_gate(&self, at: Nanos) -> Nanos {
        /// A packet that is so much late still passes.
        const OPEN: Nanos = Nanos::from_millis(1);
        let Some(gate) = &self.gate else { return at };
        let opened = gate.last(at);
        if opened > self.last && at.saturating_sub(opened) < OPEN { at } else { gate.next(at) }
    }

    /// How late a packet may be without loss of its time: a gate makes it wait for up to a cycle.
    fn slack(&self) -> Nanos {
        self.gate.map_or(Nanos::ZERO, |gate| gate.period())
    }

    /// Sets the rate of the aggregate; none for no limit.
    pub const fn set_aggregate(&mut self, rate: Option<BitRate>) {
        self.aggregate.rate = rate;
    }

    /// Sets the rate of every flow, until [`Pacer::set_flow`] says otherwise for one.
    pub fn set_each_flow(&mut self, rate: Option<BitRate>) {
        self.flow_rate = rate;
        for lane in &mut self.lanes {
            lane.spacing.rate = rate;
        }
    }

    /// Sets the rate of one flow, if packets of it have passed.
    pub fn set_flow(&mut self, key: &FlowKey, rate: Option<BitRate>) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.key == *key) {
            lane.spacing.rate = rate;
        }
    }

    /// Packets that wait.
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Packets that found no place.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes a packet; returns the one that has to go, where there is no place: the newest of the longest queue, which may
    /// be this one. A packet that may leave at once is given by the next [`Pacer::poll`].
    pub fn offer(&mut self, now: Nanos, key: &FlowKey, bytes: u32, packet: P) -> Option<P> {
        let lane = self.lane(key);
        self.shelf.push(&mut self.lanes[lane].queue, Waiting { packet, bytes, since: now });
        self.waiting += 1;
        if self.waiting <= self.config.packets {
            return None;
        }
        let longest = self.lanes.iter_mut().max_by_key(|lane| lane.queue.len)?;
        let last = longest.queue.last;
        let victim = self.shelf.take(&mut longest.queue, last)?;
        self.waiting -= 1;
        self.dropped += 1;
        Some(victim.packet)
    }

    fn lane(&mut self, key: &FlowKey) -> usize {
        if let Some(place) = self.lanes.iter().position(|lane| lane.key == *key) {
            return place;
        }
        let spacing = Spacing { last: None, rate: self.flow_rate };
        if self.lanes.len() < self.config.flows {
            self.lanes.push(Lane { key: *key, spacing, queue: Queue::EMPTY, deficit: 0 });
            return self.lanes.len() - 1;
        }
        // The place of a flow that has nothing here, and has been silent longest; else the last is shared.
        let idle = self.lanes.iter().enumerate().filter(|(_, lane)| lane.queue.is_empty());
        let oldest = idle.min_by_key(|(_, lane)| lane.spacing.last.map_or(Nanos::ZERO, |(at, _)| at));
        let Some((place, _)) = oldest else { return self.lanes.len() - 1 };
        let lane = &mut self.lanes[place];
        (lane.key, lane.spacing, lane.deficit) = (*key, spacing, 0);
        place
    }

    /// When a packet may leave, from `now` on, if one waits.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.lanes.iter().filter(|lane| !lane.queue.is_empty());
        let first = waiting.map(|lane| lane.spacing.next()).min()?;
        Some(self.through_gate(first.max(self.aggregate.next()).max(now)))
    }

    /// A packet that may leave now.
    pub fn poll(&mut self, now: Nanos) -> Option<Released<P>> {
        if self.waiting == 0 || self.aggregate.next() > now || self.through_gate(now) > now {
            return None;
        }
        let slack = self.slack();
        let ready = |lane: &Lane| !lane.queue.is_empty() && lane.spacing.next() <= now;
        if !self.lanes.iter().any(ready) {
            return None;
        }
        loop {
            let turn = self.turn % self.lanes.len();
            let lane = &mut self.lanes[turn];
            if ready(lane) {
                let first = lane.queue.first;
                let bytes = u64::from(self.shelf.bytes(first));
                if lane.deficit >= bytes {
                    lane.deficit -= bytes;
                    let first = self.shelf.take(&mut lane.queue, first)?;
                    if lane.queue.is_empty() {
                        lane.deficit = 0;
                    }
                    lane.spacing.sent(now, bytes, slack);
                    self.aggregate.sent(now, bytes, slack);
                    self.last = now;
                    self.waiting -= 1;
                    let waited = now.saturating_sub(first.since);
                    let mark = self.config.mark_after.is_some_and(|threshold| waited > threshold);
                    return Some(Released { packet: first.packet, mark });
                }
                lane.deficit += Self::QUANTUM;
            }
            self.turn = (turn + 1) % self.lanes.len();
        }
    }
}

/// Holds ACKs, in order, so that the bytes that they acknowledge come no faster than the rate.
///
/// An ACK that acknowledges B bytes of its flow for the first time lets the next leave B·8/R later; one that acknowledges
/// nothing new (a duplicate, a window update) costs nothing and only keeps its place. To space ACKs by their number would
/// bound nothing, since one of them may acknowledge a whole window; and as each may still widen the window, what bounds
/// the bursts is a clamp beside it. A full queue drops the oldest: later ACKs say all that it said (RFC 9293 §3.10.7.4),
/// and their bytes count with the first that leaves.
#[derive(Debug)]
pub struct AckPacer<P> {
    spacing: Spacing,
    queue: VecDeque<(FlowKey, u32, P)>,
    packets: usize,
    /// Highest acknowledgment that has left, by flow.
    left: FlowTable<u32>,
}

impl<P> AckPacer<P> {
    /// A pacer without a rate, for at most `packets` ACKs that wait and `flows` flows.
    pub fn new(packets: usize, flows: usize) -> Self {
        let packets = packets.max(1);
        Self {
            spacing: Spacing::default(),
            queue: VecDeque::with_capacity(packets + 1),
            packets,
            left: FlowTable::new(flows),
        }
    }

    /// Sets the rate of what is acknowledged, by all flows together; none for no limit.
    pub const fn set_rate(&mut self, rate: Option<BitRate>) {
        self.spacing.rate = rate;
    }

    /// ACKs that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no ACK waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes an ACK; returns the one that has to go, where there is no place.
    pub fn offer(&mut self, key: &FlowKey, ack: u32, packet: P) -> Option<P> {
        self.queue.push_back((*key, ack, packet));
        if self.queue.len() <= self.packets {
            return None;
        }
        self.queue.pop_front().map(|(_, _, packet)| packet)
    }

    /// When an ACK may leave, if one waits. May be in the past.
    pub fn next_time(&self) -> Option<Nanos> {
        (!self.queue.is_empty()).then(|| self.spacing.next())
    }

    /// An ACK that may leave now.
    pub fn poll(&mut self, now: Nanos) -> Option<P> {
        if self.spacing.next() > now {
            return None;
        }
        let (key, ack, packet) = self.queue.pop_front()?;
        let left = self.left.touch(&key, now, || ack);
        let step = ack.wrapping_sub(*left).cast_signed();
        if step > 0 {
            *left = ack;
            self.spacing.sent(now, u64::from(step.cast_unsigned()), Nanos::ZERO);
        }
        Some(packet)
    }
}
