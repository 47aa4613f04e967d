//! The law of the budget.
//!
//! The logarithm of the budget moves at the speed g · (1 − stress): it rises while nothing is wrong, falls faster the higher
//! the stress is, and rests where the stress averages 1. The speed is chosen so that each lost packet takes the same part of
//! the budget ([`LOSS_COST`]): with more calls the law is faster.
//!
//! Beyond a point a mesh breaks down within less than a second, for which the law is too slow. Acute stress therefore cuts the
//! budget at once, and for a moment further so that queues drain. The budget at that time is remembered as the *ceiling*.
//! The budget returns fast to just under the ceiling, holds, and then probes past it. The hold doubles after each failed probe
//! and is reset by a successful one. A probe succeeds when the budget that it reached has held for as long as a breakdown takes
//! to develop; it fails at the first queue. Degradation caused by probes becomes rare, and more capacity is still found.
//!
//! Where round trips grow, more enters the mesh than it carries, and what it carries is what is used. The budget falls to
//! that, and the demand is reduced further in proportion to the queue, which damps oscillation; the recent peak of the use is
//! a ceiling. A budget that is not used does not grow, and falls to what is carried while the mesh loses data, but not far
//! below the point to stay at: a flow that recovers from a loss will use it again.

use fairhop_model::units::Nanos;

use super::stress::{Stress, confidence};
use super::{Adaptive, MIN_HOLD, RETURN_SPEED, SETTLE, SLOW, USED};
use crate::policy::{Reason, State};

/// Growth while learning, per second: doubles every second, as slow start would in a few round trips.
const LEARNING_SPEED: f64 = core::f64::consts::LN_2;
/// Use of the budget above which it grows while learning.
const LEARNING_USED: f64 = 0.7;
/// Budget multiplier at the first stress: the stress is seen about a second after its cause.
const LEARNT: f64 = 0.6;
/// Speed g of the law without calls, per second; with calls it is between a quarter and twice as much.
const SPEED: f64 = 0.06;
/// Minimum speed of the law with calls.
const MIN_SPEED: f64 = 0.0075;
/// Growth at the beginning of a probe, per second: a breakdown shows before the budget is 10 % over the ceiling.
const PROBE_SPEED: f64 = 0.03;
/// Maximum stress in the law: one tick takes at most 8.4 % of the budget.
const MAX_STRESS: f64 = 8.0;
/// Part of the budget that one lost call packet costs.
const LOSS_COST: f64 = 0.03;

/// Budget multiplier of a cut.
const CUT: f64 = 0.65;
/// Budget multiplier of a second cut, if calls are still bad when the first should have helped.
const CUT_AGAIN: f64 = 0.5;
/// How long queues drain after a cut: a queue of 50 packets of 1500 bytes at 2.4 Mb/s.
pub(super) const DRAIN_TIME: Nanos = Nanos::from_millis(250);
/// Longest wait after a cut before its effect is judged.
const MAX_SETTLE: Nanos = Nanos::from_secs(2);
/// Cuts before that are caused by what was sent before the control began, and nothing is learnt from them.
const FIRST: Nanos = Nanos::from_millis(1500);

/// The point to stay at, as a part of the ceiling.
const BELOW_CEILING: f64 = 0.93;
/// Number of call packets that would have been lost by now if this were the point to stay at. Above it, it is not.
const SURE: f64 = 1.5;
/// Longest hold of a ceiling: a change of the network is found within a minute.
const MAX_HOLD: Nanos = Nanos::from_secs(60);
/// Seconds for which a probe stays slow.
const PROBE_CALM: f64 = 3.0;
/// Seconds from its cause to a breakdown.
const BREAKDOWN_AFTER: f64 = 2.0;
/// Part of the point to stay at that an unused budget keeps: that much is known to be carried.
const KNOWN: f64 = 0.75;
/// Seconds within which an unused budget falls to what is carried.
const FIT_TO_USE: f64 = 2.0;
/// A loss in the mesh within that time counts as present.
const RECENT_LOSS: Nanos = Nanos::from_secs(1);
/// Seconds within which the budget falls to what is carried where a queue grows.
const FIT_TO_QUEUE: f64 = 0.5;
/// How far below what is carried, per unit of stress above 1: the queue has to shrink.
const QUEUE_MARGIN: f64 = 0.05;

impl Adaptive {
    pub(super) fn decide(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        if self.state != State::Starved && self.follow_degradation(now, stress) {
            self.give_back(now);
            return;
        }
        match self.state {
            State::Starved => self.starve(now, stress),
            State::Protecting if now.saturating_sub(self.cut_at) < self.settle_for => {}
            State::Protecting => {
                if stress.acute {
                    self.cut(now, stress);
                } else if self.has_learnt {
                    self.enter(State::Steady, Reason::Hold);
                } else {
                    self.enter(State::Learning, Reason::RoomToGrow);
                }
            }
            _ if stress.acute => self.cut(now, stress),
            State::Learning => self.learn(now, seconds, used, stress),
            _ => self.move_by_law(now, seconds, used, stress),
        }
    }

    fn learn(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        // After a cut, the slow span still contains what was before it.
        if stress.lower_level > 1.0 && now.saturating_sub(self.cut_at) > SLOW {
            self.ceiling = if stress.queue > 1.0 { self.budget.min(self.carried) } else { self.budget };
            (self.ceiling_at, self.hold) = (now, MIN_HOLD);
            self.budget *= LEARNT;
            // Uploads obey late, and with few call packets the stress is seen late.
            if self.has_uploads && !self.nodes.is_empty() {
                self.budget *= confidence(stress.packets);
            }
            self.has_learnt = true;
            self.enter(State::Steady, stress.reason);
        } else if self.is_wanted || used > LEARNING_USED * self.budget {
            self.grow(seconds * LEARNING_SPEED);
            self.reason = Reason::RoomToGrow;
        } else {
            self.reason = Reason::NotUsed;
            self.fit_to_use(now, seconds, used, stress);
        }
    }

    /// Lowers an unused budget to what is carried, where the mesh loses data or queues grow. Otherwise an unused budget does
    /// no harm.
    fn fit_to_use(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        if stress.queue > 0.5 || now.saturating_sub(self.lost_at) < RECENT_LOSS {
            let known = if self.ceiling.is_finite() { KNOWN * BELOW_CEILING * self.ceiling } else { 0.0 };
            let over = self.budget - (used / USED).max(known);
            self.budget -= over.max(0.0) * seconds / FIT_TO_USE;
        }
    }

    /// Lowers the budget to what is carried, which is what is used, where a queue grows.
    fn fit_to_queue(&mut self, seconds: f64, used: f64, stress: &Stress) {
        if stress.queue > 1.0 && used > 0.4 * self.budget {
            let carried = used * (1.0 - QUEUE_MARGIN * (stress.queue.min(3.0) - 1.0));
            self.ceiling = self.ceiling.min(self.carried);
            self.budget -= (self.budget - carried).max(0.0) * (seconds / FIT_TO_QUEUE).min(1.0);
        }
    }

    /// The speed g of the law, per second.
    fn speed(&self, stress: &Stress) -> f64 {
        if self.nodes.is_empty() {
            return SPEED;
        }
        (LOSS_COST * self.tolerance * stress.packets).clamp(MIN_SPEED, 2.0 * SPEED)
    }

    fn grow(&mut self, by: f64) {
        self.budget *= 1.0 + by;
    }

    fn move_by_law(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        self.fit_to_queue(seconds, used, stress);
        let speed = self.speed(stress);
        // One lost packet counts in full, however little is tolerable: otherwise the law rests at a higher loss.
        let one = 1.0 / (self.tolerance * stress.packets.max(1.0));
        let pull = 1.0 - stress.level.min(MAX_STRESS.max(one));
        if pull < 0.0 {
            self.grow(seconds * speed * pull);
            self.reason = stress.reason;
            let fails =
                stress.lower_level > 2.0 || stress.queue > 1.0 || self.budget < self.ceiling * BELOW_CEILING;
            if self.probing_since.is_some() && fails {
                self.fail_probe(now);
            }
            return;
        }
        if self.caution < 1.0 {
            return;
        }
        if !self.is_wanted && used < USED * self.budget {
            self.reason = Reason::NotUsed;
            self.fit_to_use(now, seconds, used, stress);
            return;
        }
        let stay = self.ceiling * BELOW_CEILING;
        if let Some(since) = self.probing_since {
            self.probe(now, since, seconds, pull);
        } else if self.budget < stay {
            self.approach(now, stay, seconds, pull, stress);
        } else {
            self.reason = Reason::Hold;
            if now.saturating_sub(self.ceiling_at) >= self.hold {
                self.probing_since = Some(now);
            }
        }
    }

    /// Grows past the ceiling: slowly at first, and faster the longer nothing goes wrong.
    fn probe(&mut self, now: Nanos, since: Nanos, seconds: f64, pull: f64) {
        let held = now.saturating_sub(since).as_secs_f64();
        let speed = (PROBE_SPEED * (1.0 + (held - PROBE_CALM).max(0.0) / 2.0)).min(RETURN_SPEED);
        self.grow(seconds * speed * pull);
        self.reason = Reason::Probe;
        // The budget of that time has held: what was learnt before is out of date.
        let holds = self.budget / (1.0 + speed * BREAKDOWN_AFTER);
        if holds > self.ceiling {
            self.ceiling = holds;
            self.hold = MIN_HOLD;
        }
    }

    /// Grows towards the point to stay at: faster the longer nothing has been wrong, and slower close to it.
    fn approach(&mut self, now: Nanos, stay: f64, seconds: f64, pull: f64, stress: &Stress) {
        let speed = self.speed(stress);
        let calm = now.saturating_sub(self.stressed_at).as_secs_f64();
        let far = if stay.is_finite() { (5.0 * (stay - self.budget) / stay).min(1.0) } else { 1.0 };
        // Packets that would have been lost by now if this were the point to stay at.
        let missed = if self.nodes.is_empty() { 2.0 * calm } else { calm * stress.packets * self.tolerance };
        let speed = speed + (RETURN_SPEED - speed) * far * ((missed - SURE) / (2.0 * SURE)).clamp(0.0, 1.0);
        let grown = self.budget * (1.0 + seconds * speed * pull);
        self.budget = grown.min(stay.max(self.budget));
        self.reason = Reason::RoomToGrow;
    }

    fn fail_probe(&mut self, now: Nanos) {
        self.probing_since = None;
        self.ceiling_at = now;
        self.ceiling = self.ceiling.min(self.budget);
        self.budget = self.budget.min(BELOW_CEILING * self.ceiling);
        self.hold = Nanos(self.hold.0 * 2).min(MAX_HOLD);
    }

    fn cut(&mut self, now: Nanos, stress: &Stress) {
        self.has_learnt |= now.saturating_sub(self.active_since) > FIRST;
        self.budget *= std::mem::replace(&mut self.caution, 1.0);
        if self.probing_since.is_some() {
            self.fail_probe(now);
        } else if self.state != State::Protecting {
            // Less than what held until now: capacity has fallen, or this is the first cut.
            self.ceiling = self.ceiling.min(self.budget);
            self.hold = MIN_HOLD;
            self.ceiling_at = now;
        }
        let is_small = self.degradation.is_some_and(|degradation| degradation.is_small());
        if !is_small {
            self.budget *= if self.state == State::Protecting { CUT_AGAIN } else { CUT };
            self.drain_until = now.saturating_add(DRAIN_TIME);
        }
        self.cut_at = now;
        // Packets that a queue has delayed show it for that time.
        self.settle_for = SETTLE.saturating_add(stress.excess).min(MAX_SETTLE);
        self.noise.restart(self.budget);
        self.enter(State::Protecting, stress.reason);
    }
}
