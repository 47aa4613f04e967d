//! Gates: at which moments elastic data enters the mesh, in step with the calls.
//!
//! On a string of hops, what a call sends out of the mesh is lost where it meets data that goes in: its sender does not
//! hear the sender of the data, three hops away, and repeats in vain while one data frame follows the other. A call sends at
//! a steady interval, so the gateway knows when its next packet will have come, and data that sets out just after one has
//! come meets none until the next one sets out. A [`Gate`] is a cycle of such moments, as the gate control list of IEEE
//! 802.1Qbv (IEEE 802.1Q-2018, 8.6.8.4) and Linux's `taprio` know it: plain data, which a pacer in a kernel can obey.

use fairhop_model::units::Nanos;

/// Moments at which one packet each may leave, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    period: Nanos,
    /// Ascending, each within the period.
    openings: [Nanos; Self::MOST],
    count: usize,
}

/// What the plan of a gate needs to know of a mesh and of what is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// From a call's packet to the first data: how much later than its due time a packet still comes.
    pub guard: Nanos,
    /// From data to the next packet of a call that comes: where less is left, they meet.
    pub clear: Nanos,
    /// From data to data.
    pub step: Nanos,
    /// Packets in a cycle.
    pub packets: usize,
}

impl Gate {
    /// Most openings of a gate.
    pub const MOST: usize = 32;

    /// A gate for calls whose packets come out of the mesh at `arrivals`, each time one within the period. Where there is
    /// room the openings are those after which the next arrival is farthest away. None if there is no arrival, or if so
    /// many packets find no place in the cycle even where they meet calls.
    pub fn plan(period: Nanos, arrivals: &mut [Nanos], needs: Needs) -> Option<Self> {
        let period = Nanos(period.0.max(1));
        let step = Nanos(needs.step.0.max(1));
        for arrival in arrivals.iter_mut() {
            arrival.0 %= period.0;
        }
        arrivals.sort_unstable();
        let first = arrivals.first()?.0 + period.0;
        let nexts = arrivals.iter().skip(1).map(|next| next.0).chain([first]);
        // Moments, and what is left from there to the next arrival.
        let mut best: [(u64, u64); Self::MOST] = [(0, 0); Self::MOST];
        let mut count = 0;
        let wanted = needs.packets.clamp(1, Self::MOST);
        for (arrival, next) in arrivals.iter().map(|arrival| arrival.0).zip(nexts) {
            let mut at = arrival + needs.guard.0;
            while at + needs.clear.0 <= next {
                let left = next - at;
                if count < wanted {
                    best[count] = (left, at % period.0);
                    count += 1;
                } else if let Some(least) = best[..count].iter_mut().min()
                    && least.0 < left
                {
                    *least = (left, at % period.0);
                }
                at += step.0;
            }
        }
        if count < wanted {
            return None;
        }
        let mut openings = [Nanos::ZERO; Self::MOST];
        for (opening, (_, at)) in openings.iter_mut().zip(&best[..count]) {
            *opening = Nanos(*at);
        }
        openings[..count].sort_unstable();
        Some(Self { period, openings, count })
    }

    /// How often it opens in a period.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The cycle.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// The moments of a cycle, ascending.
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
