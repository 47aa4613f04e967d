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
    pub fn departure(&self, flow: &Spacing, now: Nanos) -> Nanos {
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
    pub fn record(&mut self, flow: &mut Spacing, at: Nanos, bytes: u64) {
        self.record_at(flow, at, at, bytes);
    }

    /// The departure time of a packet of `bytes` that arrives at `now`, which is recorded.
    ///
    /// The packet takes the next place in the aggregate, and leaves later than that if its flow's rate asks for it: a slow flow
    /// does not hold the others. Its own rate holds it for [`Schedule::MAX_HELD`] at most, as it may be raised meanwhile.
    pub fn depart(&mut self, flow: &mut Spacing, now: Nanos, bytes: u64) -> Nanos {
        let last = self.last.max(flow.left);
        let place = self.through_gate(self.aggregate.next().max(now).max(self.last), last);
        // Packets of a flow stay in their order.
        let own = flow.next().min(now.saturating_add(Self::MAX_HELD)).max(flow.left);
        let at = if own >= place { self.through_gate(own, last) } else { place };
        self.record_at(flow, at, place, bytes);
        at
    }

    /// Records that a packet of a flow leaves at `at` and has its place in the aggregate at `place`.
    fn record_at(&mut self, flow: &mut Spacing, at: Nanos, place: Nanos, bytes: u64) {
        let slack = self.gate.map_or(Nanos::ZERO, |gate| gate.period());
        flow.record(at, bytes, slack);
        self.aggregate.record(place, bytes, slack);
        self.last = place;
    }
}
