//! The law of the budget.
//!
//! The logarithm of the budget moves at the speed g · (1 − stress): it rises while nothing is wrong, falls faster the higher
//! the stress is, and rests where the stress averages 1. The speed is chosen so that each lost packet takes the same part of
//! the budget (`loss_cost`): with more calls the law is faster.
//!
//! Beyond a point a mesh breaks down within less than a second, for which the law is too slow. Acute stress therefore cuts the
//! budget at once, and for a moment further so that queues drain. The budget at that time is remembered as the *ceiling*.
//! The budget returns fast to the ceiling, holds, and then probes past it. The hold doubles after each failed probe
//! and is reset by a successful one. A probe succeeds when the budget that it reached has held for as long as a breakdown takes
//! to develop; it fails at the first queue. Degradation caused by probes becomes rare, and more capacity is still found.
//!
//! Where round trips grow, more enters the mesh than it carries. The budget falls to what is used, and the demand is reduced
//! further in proportion to the queue, which damps oscillation; the recent peak of the use is a ceiling. Where a queue makes
//! the controller cut, the budget, and with it the ceiling, falls to what leaves the mesh: behind a bottleneck that is its rate,
//! however much was sent. A budget that is not used does not grow, and falls to what is carried while queues are long.

use fairhop_model::units::Nanos;

use super::stress::{Stress, confidence};
use super::{Adaptive, DEFAULT_TOLERANCE, SLOW, secs};
use crate::policy::{Reason, State};

/// Where less is tolerable than [`DEFAULT_TOLERANCE`] (G.723.1), the absence of loss has to exclude only this many times the
/// tolerable loss before the budget grows fast. One to six such calls over three and four hops are clear in 0.95 to 0.97 of
/// the seconds with 2, and in 0.92 to 0.95 with 6.5, which treats them like G.729A; with 1 growth takes minutes.
const SENSITIVE: f64 = 2.0;

/// Part of what leaves the mesh to which a cut goes where a queue is the cause: behind a bottleneck, the peak of two windows is some
/// 3 % over the mean, and the queue has to drain.
const CARRIED_PART: f64 = 0.95;

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
            if self.is_first {
                // What was sent before the control began is the cause.
                self.budget = (self.tuning.learnt * self.budget).max(self.min_budget);
                self.cut_at = now;
                self.reason = stress.reason;
                return;
            }
            self.ceiling = if stress.queue > 1.0 { self.budget.min(self.peak_used) } else { self.budget };
            (self.ceiling_at, self.hold) = (now, secs(self.tuning.min_hold_s));
            self.budget *= self.tuning.learnt;
            // Uploads obey late, and with few call packets the stress is seen late.
            if self.has_uploads && !self.nodes.is_empty() {
                self.budget *= confidence(stress.packets, self.tuning.enough_packets);
            }
            self.has_learnt = true;
            self.enter(State::Steady, stress.reason);
        } else if self.is_wanted || used > self.tuning.learning_used * self.budget {
            // Stress is seen a second late. Growth slows down before it reaches 1, so that the budget overshoots less.
            self.grow(seconds * self.tuning.learning_speed * (1.0 - stress.level).max(0.0));
            self.reason = Reason::RoomToGrow;
        } else {
            self.reason = Reason::NotUsed;
            self.fit_to_use(seconds, used, stress);
        }
    }

    /// Lowers an unused budget to what is carried, where queues grow. Otherwise an unused budget does no harm.
    fn fit_to_use(&mut self, seconds: f64, used: f64, stress: &Stress) {
        if self.routes.is_interrupted() {
            return;
        }
        if stress.queue > 0.5 {
            let over = self.budget - used / self.tuning.used;
            self.budget -= over.max(0.0) * seconds / self.tuning.fit_to_use_s;
        }
    }

    /// Lowers the budget to what is carried, which is what is used, where a queue grows.
    fn fit_to_queue(&mut self, seconds: f64, used: f64, stress: &Stress) {
        if stress.queue > 1.0 && used > 0.4 * self.budget {
            self.ceiling = self.ceiling.min(self.peak_used);
            self.budget -= (self.budget - used).max(0.0) * (seconds / self.tuning.fit_to_queue_s).min(1.0);
        }
    }

    /// The speed g of the law, per second.
    fn speed(&self, stress: &Stress) -> f64 {
        if self.nodes.is_empty() {
            return self.tuning.speed;
        }
        (self.tuning.loss_cost * self.tolerance * stress.packets)
            .clamp(self.tuning.min_speed, 2.0 * self.tuning.speed)
    }

    fn grow(&mut self, by: f64) {
        self.budget *= 1.0 + by;
    }

    fn move_by_law(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        self.fit_to_queue(seconds, used, stress);
        let speed = self.speed(stress);
        // One lost packet counts in full, however little is tolerable: otherwise the law rests at a higher loss.
        let one = 1.0 / (self.tolerance * stress.packets.max(1.0));
        let pull = 1.0 - stress.level.min(self.tuning.max_stress.max(one));
        if pull < 0.0 {
            self.grow(seconds * speed * pull);
            self.reason = stress.reason;
            let fails = stress.lower_level > 2.0 || stress.queue > 1.0 || self.budget < self.ceiling;
            if self.probing_since.is_some() && fails {
                self.fail_probe(now);
            } else if stress.lower_level > 1.0
                && self.ceiling.is_finite()
                // Until then, the slow span still contains what was before the cut.
                && now.saturating_sub(self.cut_at) > SLOW
            {
                let over = (self.ceiling - self.budget).max(0.0);
                self.ceiling -= over * (self.tuning.ceiling_speed * seconds).min(1.0);
                self.ceiling_at = now;
            }
            return;
        }
        if self.caution < 1.0 {
            return;
        }
        if !self.is_wanted && used < self.tuning.used * self.budget {
            self.reason = Reason::NotUsed;
            self.fit_to_use(seconds, used, stress);
            return;
        }
        if let Some(since) = self.probing_since {
            self.probe(now, since, seconds, pull);
        } else if self.budget < self.ceiling {
            self.approach(now, seconds, pull, stress);
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
        let speed = (self.tuning.probe_speed
            * (1.0 + (held - self.tuning.probe_calm_s).max(0.0) / self.tuning.probe_grows_s))
            .min(self.tuning.return_speed);
        self.grow(seconds * speed * pull);
        self.reason = Reason::Probe;
        // The budget of that time has held: what was learnt before is out of date.
        let holds = self.budget / (1.0 + speed * self.tuning.breakdown_after_s);
        if holds > self.ceiling {
            self.ceiling = holds;
            self.hold = secs(self.tuning.min_hold_s);
        }
    }

    /// Grows towards the ceiling: fast far below it, and close to it the faster the longer nothing has been wrong.
    fn approach(&mut self, now: Nanos, seconds: f64, pull: f64, stress: &Stress) {
        let speed = self.speed(stress);
        let calm = now.saturating_sub(self.stressed_at).as_secs_f64();
        // Far below the ceiling, most of the way is known.
        let is_known = self.ceiling.is_finite() && self.budget < 0.5 * self.ceiling;
        let return_speed = if is_known { self.tuning.learning_speed } else { self.tuning.return_speed };
        // How far below a part of the ceiling the budget is: 1 from a fifth of the ceiling on.
        let below = |part: f64| (5.0 * (part * self.ceiling - self.budget) / self.ceiling).clamp(0.0, 1.0);
        // Packets that would have been lost by now if this were the point to stay at. Codecs that tolerate little
        // wait less than they would have to, as loss rises steeply with the budget.
        let believed = self.tolerance.max(DEFAULT_TOLERANCE.min(SENSITIVE * self.tolerance));
        let expected = stress.packets * believed;
        let missed = if self.nodes.is_empty() { 2.0 * calm } else { calm * expected };
        let shown = ((missed - self.tuning.sure_packets) / (2.0 * self.tuning.sure_packets)).clamp(0.0, 1.0);
        let sure = if self.ceiling.is_finite() {
            (below(1.0) * shown).max(below(self.tuning.safe_part))
        } else {
            shown
        };
        let speed = speed + (return_speed - speed) * sure;
        let grown = self.budget * (1.0 + seconds * speed * pull);
        self.budget = grown.min(self.ceiling);
        self.reason = Reason::RoomToGrow;
    }

    fn fail_probe(&mut self, now: Nanos) {
        self.probing_since = None;
        self.ceiling_at = now;
        self.ceiling = self.ceiling.min(self.budget);
        self.budget = self.budget.min(self.ceiling);
        self.hold = Nanos(self.hold.0 * 2).min(secs(self.tuning.max_hold_s));
    }

    fn cut(&mut self, now: Nanos, stress: &Stress) {
        self.has_learnt |= !self.is_first;
        self.budget *= std::mem::replace(&mut self.caution, 1.0);
        if matches!(stress.reason, Reason::QueueGrows { .. }) {
            // More than the mesh carries made the queue.
            self.budget = self.budget.min(CARRIED_PART * self.carried);
        }
        if self.probing_since.is_some() {
            self.fail_probe(now);
        } else if self.state != State::Protecting {
            // Less than what held until now: capacity has fallen, or this is the first cut.
            self.ceiling = self.ceiling.min(self.budget);
            self.hold = secs(self.tuning.min_hold_s);
            self.ceiling_at = now;
        }
        let is_small = self.degradation.is_some_and(|degradation| degradation.is_small());
        if !is_small {
            self.budget *=
                if self.state == State::Protecting { self.tuning.cut_again } else { self.tuning.cut };
            self.drain_until = now.saturating_add(secs(self.tuning.drain_s));
        }
        self.cut_at = now;
        // Packets that a queue has delayed show it for that time.
        self.settle_for = secs(self.tuning.settle_s).saturating_add(stress.excess);
        self.noise.restart(self.budget);
        self.enter(State::Protecting, stress.reason);
    }
}
