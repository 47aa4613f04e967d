//! Gates: the times at which elastic data enters the mesh, in step with the calls.
//!
//! On a string of hops, a call's packet that leaves the mesh is lost where it meets data that enters it: its sender cannot
//! sense the data's sender three hops away, and its retries fail while data frames follow each other. A call sends at a
//! fixed interval, so the gateway can predict its next packet. Data that starts right after a call's packet has arrived
//! meets none until the next one starts. A [`Gate`] is a cycle of such times, like the gate control list of IEEE 802.1Qbv
//! (IEEE 802.1Q-2018, 8.6.8.4) and Linux's `taprio`: plain data, which a pacer in a kernel can obey.

use fairhop_model::units::Nanos;

/// A repeating cycle of times at which one packet each may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    period: Nanos,
    /// Ascending, each within the period.
    openings: [Nanos; Self::MAX_OPENINGS],
    count: usize,
}

/// Requirements for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSpec {
    /// Minimum time from a call's packet to the next data: covers call packets that arrive late.
    pub guard: Nanos,
    /// Minimum time from data to the next packet of a call; with less, the two meet.
    pub clear: Nanos,
    /// Minimum time between data packets.
    pub step: Nanos,
    /// Data packets per cycle.
    pub packets: usize,
}

impl Gate {
    /// Maximum number of openings per period.
    pub const MAX_OPENINGS: usize = 32;

    /// A gate for calls whose packets leave the mesh at `arrivals` in each period. Among the possible openings it takes those
    /// with the longest time to the next arrival. None if there is no arrival, or if the cycle has no room for that many
    /// packets.
    pub fn plan(period: Nanos, arrivals: &mut [Nanos], spec: GateSpec) -> Option<Self> {
        let period = Nanos(period.0.max(1));
        let step = Nanos(spec.step.0.max(1));
        for arrival in arrivals.iter_mut() {
            arrival.0 %= period.0;
        }
        arrivals.sort_unstable();
        let first = arrivals.first()?.0 + period.0;
        let nexts = arrivals.iter().skip(1).map(|next| next.0).chain([first]);
        // Time to the next arrival, and the opening.
        let mut best: [(u64, u64); Self::MAX_OPENINGS] = [(0, 0); Self::MAX_OPENINGS];
        let mut count = 0;
        let wanted = spec.packets.clamp(1, Self::MAX_OPENINGS);
        for (arrival, next) in arrivals.iter().map(|arrival| arrival.0).zip(nexts) {
            let mut at = arrival + spec.guard.0;
            while at + spec.clear.0 <= next {
                let left = next - at;
                if count < wanted {
                    best[count] = (left, at % period.0);
                    count += 1;
                } else if let Some(worst) = best[..count].iter_mut().min()
                    && worst.0 < left
                {
                    *worst = (left, at % period.0);
                }
                at += step.0;
            }
        }
        if count < wanted {
            return None;
        }
        let mut openings = [Nanos::ZERO; Self::MAX_OPENINGS];
        for (opening, (_, at)) in openings.iter_mut().zip(&best[..count]) {
            *opening = Nanos(*at);
        }
        openings[..count].sort_unstable();
        Some(Self { period, openings, count })
    }

    /// Number of openings per period.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Length of the cycle.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// The openings of a cycle, ascending, from the beginning of the cycle.
    pub fn openings(&self) -> &[Nanos] {
        &self.openings[..self.count]
    }

    /// The last opening up to `now`.
    pub fn last(&self, now: Nanos) -> Nanos {
        let phase = now.0 % self.period.0;
        let cycle = now.0 - phase;
        match self.openings().iter().rev().find(|opening| opening.0 <= phase) {
            Some(opening) => Nanos(cycle + opening.0),
            None => {
                let last = self.openings().last().map_or(0, |last| last.0);
                Nanos((cycle + last).saturating_sub(self.period.0))
            }
        }
    }

    /// The first opening after `now`.
    pub fn next(&self, now: Nanos) -> Nanos {
        let phase = now.0 % self.period.0;
        let cycle = now.0 - phase;
        match self.openings().iter().find(|opening| opening.0 > phase) {
            Some(opening) => Nanos(cycle.saturating_add(opening.0)),
            None => {
                let first = self.openings().first().map_or(0, |first| first.0);
                Nanos(cycle.saturating_add(self.period.0).saturating_add(first))
            }
        }
    }
}
