//! When a packet may leave: arithmetic without a queue.
//!
//! [`Schedule::depart`] takes the state, a time and a packet's size, and returns the packet's departure time. Called for
//! each packet as it arrives, it gives the times that an earliest-departure-time queue needs (`skb->tstamp` and Linux's
//! `fq`). [`super::Pacer`] calls the same arithmetic when a packet leaves, so that it can serve flows in turn and obey a
//! new rate at once. For the packets of one flow at unchanged rates, both give the same times.

use fairhop_model::units::{BitRate, Nanos};

use crate::gate::Gate;

/// Minimum distance between packets at a rate: after a packet of L bytes, the next one leaves L·8/R later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spacing {
    rate: Option<BitRate>,
    /// Departure of the last packet (or up to the slack earlier, if it left late) and its bytes.
    last: Option<(Nanos, u64)>,
    /// Departure of the last packet.
    left: Nanos,
}

impl Spacing {
    /// Spacing at a rate; none for no limit.
    pub const fn new(rate: Option<BitRate>) -> Self {
        Self { rate, last: None, left: Nanos::ZERO }
    }

    /// Changes the rate, which counts for the next packet already.
    pub const fn set_rate(&mut self, rate: Option<BitRate>) {
        self.rate = rate;
    }

    /// When the last packet left; zero if none has.
    pub fn last(&self) -> Nanos {
        self.last.map_or(Nanos::ZERO, |(at, _)| at)
    }

    /// The earliest departure of the next packet. May be in the past.
    pub fn next(&self) -> Nanos {
        match (self.last, self.rate) {
            (Some((at, bytes)), Some(rate)) => at.saturating_add(rate.time_for(bytes)),
            _ => Nanos::ZERO,
        }
    }

    /// Records that a packet leaves at `at`. Up to `slack` of the time by which it is late does not count: the next packet
    /// may leave as if this one had been that much earlier.
    pub fn record(&mut self, at: Nanos, bytes: u64, slack: Nanos) {
        let counted =
            if self.last.is_some() { self.next().max(at.saturating_sub(slack)).min(at) } else { at };
        self.last = Some((counted, bytes));
        self.left = at;
    }

    /// Records that a packet leaves at `at`, as part of the one before.
    const fn add(&mut self, at: Nanos, bytes: u64) {
        if let Some((_, before)) = &mut self.last {
            *before = before.saturating_add(bytes);
        }
        self.left = at;
    }
}

/// Spacing of one flow's packets, alone or in pairs.
///
/// In pairs, the second of two packets may leave with the first, and the next two wait for the time of both. A receiver
/// acknowledges every second segment at once and delays the ACK of a single one (RFC 5681 §4.2), so that the round trips of
/// slow flows show queues only in pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSpacing {
    spacing: Spacing,
    in_pairs: bool,
    /// The last packet was the first of a pair.
    is_half: bool,
}

impl FlowSpacing {
    /// Spacing of single packets at a rate; none for no limit.
    pub const fn new(rate: Option<BitRate>) -> Self {
        Self { spacing: Spacing::new(rate), in_pairs: false, is_half: false }
    }

    /// Changes the rate, which counts for the next packet already, and whether packets leave in pairs.
    pub const fn set(&mut self, rate: Option<BitRate>, in_pairs: bool) {
        self.spacing.set_rate(rate);
        self.in_pairs = in_pairs;
    }

    /// Whether packets leave in pairs.
    pub const fn is_in_pairs(&self) -> bool {
        self.in_pairs
    }

    /// When the last packet left; zero if none has.
    pub fn last(&self) -> Nanos {
        self.spacing.last()
    }

    /// The earliest departure of the next packet. May be in the past.
    pub fn next(&self) -> Nanos {
        if self.in_pairs && self.is_half { Nanos::ZERO } else { self.spacing.next() }
    }

    /// How long after the first packet of a pair the second one leaves, at this rate of the aggregate; zero for other packets.
    fn behind_first(&self, aggregate: Option<BitRate>) -> Nanos {
        match (aggregate, self.spacing.last) {
            (Some(rate), Some((_, bytes))) if self.in_pairs && self.is_half => rate.time_for(bytes),
            _ => Nanos::ZERO,
        }
    }

    /// See [`Spacing::record`].
    pub fn record(&mut self, at: Nanos, bytes: u64, slack: Nanos) {
        if self.in_pairs && self.is_half && at < self.spacing.next() {
            self.spacing.add(at, bytes);
            self.is_half = false;
        } else {
            self.spacing.record(at, bytes, slack);
            self.is_half = true;
        }
    }
}

/// What all flows share: the rate of the aggregate, and the gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    aggregate: Spacing,
    gate: Option<Gate>,
    /// Departure of the last packet.
    last: Nanos,
}

impl Schedule {
    /// How late after an opening of the gate a packet still passes. Longer than a timer is late, shorter than a packet's
    /// way over one hop.
    const OPEN_FOR: Nanos = Nanos::from_millis(1);

    /// Longest time for which a flow's own rate puts off a departure that is fixed on arrival. Half as long changes nothing for
    /// flows of more than 50 kb/s; twice as long, and a flow that was idle takes a second to use a new share.
    pub const MAX_HELD: Nanos = Nanos::from_millis(500);

    /// A schedule without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rate of the aggregate; none for no limit.
    pub const fn set_aggregate(&mut self, rate: Option<BitRate>) {
        self.aggregate.set_rate(rate);
    }

    /// Sets the times at which one packet each may leave; none for any time.
    pub const fn set_gate(&mut self, gate: Option<Gate>) {
        self.gate = gate;
    }

    /// The earliest departure of a packet that is here at `now` and whose flow is spaced by `flow`.
    pub fn departure(&self, flow: &FlowSpacing, now: Nanos) -> Nanos {
        self.through_gate(flow.next().max(self.aggregate.next()).max(now).max(self.last), self.last)
    }

    /// Whether aggregate and gate let a packet leave at `now`.
    pub fn is_open(&self, now: Nanos) -> bool {
        self.aggregate.next() <= now && self.through_gate(now, self.last) <= now
    }

    /// The first time from `at` on at which the gate lets a packet pass, after one that left at `last`.
    fn through_gate(&self, at: Nanos, last: Nanos) -> Nanos {
        let Some(gate) = &self.gate else { return at };
        let opened = gate.last(at);
        let is_unused = opened > last && at.saturating_sub(opened) < Self::OPEN_FOR;
        if is_unused { at } else { gate.next(at) }
    }

    /// Records that a packet of a flow leaves at `at`. A gate makes packets wait for up to a period, which is not their
    /// flow's loss.
    pub fn record(&mut self, flow: &mut FlowSpacing, at: Nanos, bytes: u64) {
        self.record_at(flow, at, at, bytes);
    }

    /// The departure time of a packet of `bytes` that arrives at `now`, which is recorded.
    ///
    /// The packet takes the next place in the aggregate, and leaves later than that if its flow's rate asks for it: a slow flow
    /// does not hold the others. Its own rate holds it for [`Schedule::MAX_HELD`] at most, as it may be raised meanwhile.
    pub fn depart(&mut self, flow: &mut FlowSpacing, now: Nanos, bytes: u64) -> Nanos {
        let last = self.last.max(flow.spacing.left);
        let place = self.through_gate(self.aggregate.next().max(now).max(self.last), last);
        // Packets of a flow stay in their order, and the two of a pair are apart as those of two flows are.
        let apart = if self.gate.is_none() { flow.behind_first(self.aggregate.rate) } else { Nanos::ZERO };
        let left = flow.spacing.left.saturating_add(apart);
        let own = flow.next().min(now.saturating_add(Self::MAX_HELD)).max(left);
        let at = if own >= place { self.through_gate(own, last) } else { place };
        self.record_at(flow, at, place, bytes);
        at
    }

    /// Records that a packet of a flow leaves at `at` and has its place in the aggregate at `place`.
    fn record_at(&mut self, flow: &mut FlowSpacing, at: Nanos, place: Nanos, bytes: u64) {
        let slack = self.gate.map_or(Nanos::ZERO, |gate| gate.period());
        flow.record(at, bytes, slack);
        self.aggregate.record(place, bytes, slack);
        self.last = place;
    }
}
