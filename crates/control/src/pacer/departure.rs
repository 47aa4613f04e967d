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
}

impl Spacing {
    /// Spacing at a rate; none for no limit.
    pub const fn new(rate: Option<BitRate>) -> Self {
        Self { rate, last: None }
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
        self.through_gate(flow.next().max(self.aggregate.next()).max(now).max(self.last))
    }

    /// Whether aggregate and gate let a packet leave at `now`.
    pub fn is_open(&self, now: Nanos) -> bool {
        self.aggregate.next() <= now && self.through_gate(now) <= now
    }

    /// The first time from `at` on at which the gate lets a packet pass.
    fn through_gate(&self, at: Nanos) -> Nanos {
        let Some(gate) = &self.gate else { return at };
        let opened = gate.last(at);
        let is_unused = opened > self.last && at.saturating_sub(opened) < Self::OPEN_FOR;
        if is_unused { at } else { gate.next(at) }
    }

    /// Records that a packet of a flow leaves at `at`. A gate makes packets wait for up to a period, which is not their
    /// flow's loss.
    pub fn record(&mut self, flow: &mut Spacing, at: Nanos, bytes: u64) {
        let slack = self.gate.map_or(Nanos::ZERO, |gate| gate.period());
        flow.record(at, bytes, slack);
        self.aggregate.record(at, bytes, slack);
        self.last = at;
    }

    /// The departure time of a packet of `bytes` that arrives at `now`, which is recorded. Packets leave in the order of the
    /// calls.
    pub fn depart(&mut self, flow: &mut Spacing, now: Nanos, bytes: u64) -> Nanos {
        let at = self.departure(flow, now);
        self.record(flow, at, bytes);
        at
    }
}
