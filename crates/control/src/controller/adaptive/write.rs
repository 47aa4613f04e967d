//! The budget as a policy: rates by shares of C-load, windows from round trips, and the gate.
//!
//! On three hops and more, data enters the mesh at the openings of a [`Gate`], right after packets of calls have arrived, so
//! that the two meet less often.

use fairhop_model::units::{BitRate, Nanos};

use super::stress::Stress;
use super::{Adaptive, TICK};
use crate::allocate::{Claim, split};
use crate::gate::{Gate, GateSpec};
use crate::observer::{Flow, FlowBody, MAX_ACK_DELAY, Observer, RoundTrip, TcpFlow};
use crate::policy::{FlowPolicy, Means, Policy, Reason, State, Treatment};

/// Round trip of a side that is not known.
const UNKNOWN_ROUND_TRIP: Nanos = Nanos::from_millis(10);
/// Window in bytes of a flow without a treatment of its own: two segments of Ethernet at least, and the initial window of
/// RFC 6928 at most.
const NEW_FLOW_WINDOW: u32 = 3000;
const MAX_NEW_FLOW_WINDOW: u32 = 14_600;
/// Round trip of a flow that is not known yet.
const FIRST_ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// Window in segments of an upload that one segment keeps busy: one, with room for headers and rounding.
const ONE_SEGMENT: f64 = 1.25;
/// Growth of an upload's window within a tick that is a jump, such as that from one segment to two.
const JUMP: f64 = 1.5;
/// What jumps let go, as a part of the uploads' rate: that much they exceed it until all windows have grown.
const JUMPS_PER_SECOND: f64 = 0.1;
/// Maximum credit for jumps, in bytes: two segments.
const MAX_JUMPS: f64 = 3000.0;
/// Minimum rate in bits per second: a rate of zero would hold packets forever.
const MIN_RATE: u64 = 1000;

/// Longest period of a gate, in nanoseconds: the common multiple of the usual 20 and 30 ms.
const MAX_PERIOD: u64 = 60_000_000;
/// Gate: time after a call packet's due time, as packets may arrive late.
const GATE_GUARD: Nanos = Nanos::from_millis(1);

/// What the link to the Internet leaves to a flow, in bits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Bound of its rate; infinite if it wants less than its share.
    rate: f64,
    /// Its share, whatever it uses.
    fair: f64,
}

impl Limit {
    const NONE: Self = Self { rate: f64::INFINITY, fair: f64::INFINITY };
}

impl Adaptive {
    /// Round trip of a flow from end to end without queues, but with the airtime of its packets: the smoothed one, limited to
    /// what is tolerable over the base.
    fn round_trip(&self, tcp: &TcpFlow) -> Nanos {
        let of = |side: &RoundTrip| match (side.smoothed(), side.base()) {
            (Some(smoothed), Some(base)) => smoothed.min(base.saturating_add(self.config.excess)),
            (_, base) => base.unwrap_or(UNKNOWN_ROUND_TRIP),
        };
        of(tcp.mesh_rtt.all()).saturating_add(of(&tcp.wired_rtt))
    }

    /// The gate for data at `down` bits per second; none on short paths, without calls, or where their intervals have no short
    /// common multiple.
    fn gate(&mut self, down: f64) -> Option<Gate> {
        if f64::from(self.hops) < self.tuning.gate_hops {
            return None;
        }
        let period = self.cadences.iter().try_fold(1_u64, |period, (interval, _)| {
            let interval = interval.0.max(1);
            let common = period / gcd(period, interval) * interval;
            (common <= MAX_PERIOD).then_some(common)
        })?;
        self.arrivals.clear();
        for (interval, phase) in &self.cadences {
            for turn in 0..period / interval.0.max(1) {
                self.arrivals.push(Nanos(phase.0 + turn * interval.0));
            }
        }
        // The ACK takes a fifth of a round trip without queues.
        let transit = Nanos(self.base.0 / 5 * 4);
        let shared = u64::from(self.config.shared_links.min(u32::from(self.hops)));
        let wanted = (down * Nanos(period).as_secs_f64() / self.packet_bits)
            .ceil()
            .clamp(1.0, Gate::MAX_OPENINGS as f64) as usize;
        let spec = |packets| GateSpec {
            guard: GATE_GUARD,
            clear: transit,
            step: Nanos(transit.0 * shared / u64::from(self.hops)),
            packets,
        };
        Gate::plan(Nanos(period), &mut self.arrivals, spec(wanted))
    }

    /// Puts the budget into a policy.
    pub(super) fn write(&mut self, now: Nanos, observer: &Observer, stress: &Stress, policy: &mut Policy) {
        policy.state = self.law.state;
        policy.reason = self.law.reason;
        if let Some((level, reason)) = self.internet.reason()
            && level > stress.level
        {
            policy.reason = reason;
        }
        std::mem::swap(&mut policy.flows, &mut self.flows_before);
        policy.flows.clear();
        let mut jumps = self.jumps;
        policy.down_acks = None;
        policy.gate = None;
        if self.law.state == State::Starved || self.law.state == State::Off && now < self.starved_until {
            (policy.down, policy.up_acks, policy.interactive) = (None, None, None);
            policy.others = Treatment::default();
            return;
        }
        let budget = self.law.budget * self.caution * self.law.damped(now, stress.queue, &self.tuning);
        let max_price = f64::from(self.config.shared_links.max(1));
        // Interactive flows go first, up to a part of the budget if there are others; the elastic ones get the rest. Sound that shares their
        // ports, and their place in the pacer, is no part of the budget, as other calls are none.
        let part = if self.claims.is_empty() { 1.0 } else { self.tuning.interactive_part };
        let interactive = (self.tuning.interactive_margin * self.interactive).min(part * budget);
        let interactive_rate = interactive / self.interactive_price + self.sound;
        policy.interactive = (interactive_rate > 0.0).then(|| rate_of(interactive_rate));
        let budget = budget - interactive;
        if self.is_idle {
            // New flows, perhaps many at once, find short queues. The pace of ACKs stays: held ACKs may be the reason why no
            // flow sends.
            policy.down = Some(rate_of(budget / max_price + interactive_rate));
            policy.others = Treatment { window: Some(NEW_FLOW_WINDOW), ..Treatment::default() };
            return;
        }
        self.limit_by_internet(now, observer);
        let Ok(rates) = split(budget, &self.claims, &self.regions) else { return };
        let equal = budget / self.claims.len().max(1) as f64;
        let (mut down, mut up) = (0.0, 0.0);
        let mut unclaimed = budget;
        let (mut windows_fit, mut bursts_are_small) = (true, true);
        self.internet_binds = rates.iter().zip(&self.limits).any(|(rate, limit)| *rate >= 0.99 * limit.rate);
        let mut wants = self.claims.iter().zip(&rates).map(|(claim, rate)| *rate < 0.99 * claim.demand);
        self.budget_binds = self.claims.is_empty() || wants.any(|wants_more| wants_more);
        if self.internet_binds && policy.reason == Reason::NotUsed {
            // The flows would use more of the mesh.
            (policy.state, policy.reason) = self.internet.binding();
        }
        for ((claim, rate), limit) in self.claims.iter().zip(rates).zip(&self.limits) {
            let mut treatment = Treatment { rate: Some(rate_of(rate)), ..Treatment::default() };
            if let Some(Flow { body: FlowBody::Tcp(tcp), .. }) = observer.flow(&claim.key) {
                let mss = f64::from(tcp.mss());
                // At least the equal share: a window that followed the flow's use would keep it there.
                let fair = rate.max((equal / claim.price).min(limit.fair));
                let round_trip = self.round_trip(tcp);
                let in_path = fair / 8.0 * round_trip.as_secs_f64();
                windows_fit &= in_path >= mss;
                bursts_are_small &= in_path <= 4.0 * mss;
                // What the path holds at this rate, and two segments so that there is always one to send. Each ACK of an upload
                // may release two segments, which nothing paces: one segment is enough where it fills the path even with a
                // delayed ACK, and downloads beside such uploads get no more.
                let with_delay = round_trip.saturating_add(MAX_ACK_DELAY).as_secs_f64();
                let one = self.has_uploads && fair / 8.0 * with_delay < mss;
                let mut window = if one { ONE_SEGMENT * mss } else { in_path + 2.0 * mss };
                let is_upload = tcp.is_upload();
                if is_upload {
                    let known = self.flows_before.binary_search_by_key(&claim.key, |flow| flow.key);
                    let last = known.ok().and_then(|place| self.flows_before[place].treatment.window);
                    window = after_jump(window, mss, last, &mut jumps);
                }
                treatment.window = Some(window.min(f64::from(u32::MAX)) as u32);
                if is_upload {
                    treatment.ack_rate = treatment.rate.take();
                    up += rate;
                } else {
                    down += rate;
                }
            } else {
                down += rate;
            }
            unclaimed -= rate * claim.price;
            policy.flows.push(FlowPolicy { key: claim.key, treatment });
        }
        self.jumps = (jumps + JUMPS_PER_SECOND * TICK.as_secs_f64() * up / 8.0).min(MAX_JUMPS);
        policy.means = match (windows_fit, bursts_are_small) {
            (false, _) => Means::Pacing,
            (true, true) => Means::Window,
            (true, false) => Means::Both,
        };
        // Packets wait, of flows that have been silent for so long that they make no claim: nothing else would let them go.
        if self.is_wanted && down == 0.0 {
            down = unclaimed.max(0.0) / max_price;
        }
        down += interactive_rate;
        let guard = if policy.means == Means::Window { self.tuning.guard_rate } else { 1.0 };
        policy.down = Some(rate_of((guard * down).max(budget / max_price / 10.0)));
        policy.gate = self.gate(down);
        policy.up_acks = (up > 0.0).then(|| rate_of(guard * up));
        policy.others = Treatment { window: Some(self.first_window()), ..Treatment::default() };
    }

    /// Shares the budgets of the link to the Internet among the flows that take it, as bounds of their claims.
    fn limit_by_internet(&mut self, now: Nanos, observer: &Observer) {
        self.limits.clear();
        self.limits.resize(self.claims.len(), Limit::NONE);
        for is_upload in [true, false] {
            let Some(budget) = self.internet_budget(now, is_upload) else { continue };
            let takes_it = |claim: &Claim| {
                let body = observer.flow(&claim.key).map(|flow| &flow.body);
                let sends = matches!(body, Some(FlowBody::Tcp(tcp)) if tcp.is_upload());
                sends == is_upload && observer.is_remote(claim.key.wired)
            };
            let places: Vec<usize> =
                (0..self.claims.len()).filter(|&place| takes_it(&self.claims[place])).collect();
            let alone: Vec<Claim> =
                places.iter().map(|&place| Claim { price: 1.0, ..self.claims[place] }).collect();
            let Ok(rates) = split(budget, &alone, &[]) else { continue };
            let equal = budget / alone.len().max(1) as f64;
            for (place, rate) in places.into_iter().zip(rates) {
                let claim = &mut self.claims[place];
                let limit = &mut self.limits[place];
                limit.fair = rate.max(equal);
                if rate < 0.99 * claim.demand {
                    (claim.demand, limit.rate) = (rate, rate);
                }
            }
        }
    }

    /// Window of a new flow: what the unused budget carries in a round trip, within bounds.
    fn first_window(&self) -> u32 {
        let unused = (self.law.budget - self.law.used).max(0.0) / f64::from(self.config.shared_links.max(1));
        let window = unused / 8.0 * FIRST_ROUND_TRIP.as_secs_f64();
        (window as u32).clamp(NEW_FLOW_WINDOW, MAX_NEW_FLOW_WINDOW)
    }
}

/// The window of an upload, whose `last` one is known. Where the windows of many uploads grow from one segment to two, their
/// senders send a second segment at once, which nothing paces. So each jump takes a segment from the `credit` in bytes, or waits
/// for it, and a window at most doubles.
fn after_jump(window: f64, mss: f64, last: Option<u32>, credit: &mut f64) -> f64 {
    let Some(last) = last.map(f64::from).filter(|last| window > JUMP * last) else { return window };
    if *credit < mss {
        return last;
    }
    *credit -= mss;
    window.min(2.0 * last)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn rate_of(bits: f64) -> BitRate {
    BitRate((bits.round() as u64).max(MIN_RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_many_uploads_jump_one_after_the_other_and_nothing_else_waits() {
        const MSS: f64 = 1460.0;
        let mut credit = MAX_JUMPS;
        let mut grown = || after_jump(2.0 * MSS, MSS, Some(1825), &mut credit);
        let windows: Vec<f64> = (0..30).map(|_| grown()).collect();
        assert_eq!(windows.iter().filter(|&&window| window > 1825.0).count(), 2, "{windows:?}");
        let mut none = 0.0;
        // New flows, small growth and smaller windows need no credit.
        assert_eq!(after_jump(9000.0, MSS, None, &mut none), 9000.0);
        assert_eq!(after_jump(4000.0, MSS, Some(3000), &mut none), 4000.0);
        assert_eq!(after_jump(1825.0, MSS, Some(3000), &mut none), 1825.0);
        // A window at most doubles.
        assert_eq!(after_jump(50_000.0, MSS, Some(3000), &mut MSS.clone()), 6000.0);
    }
}
