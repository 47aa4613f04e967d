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
use super::tuning::{Tuning, secs};
use super::{DEFAULT_TOLERANCE, SLOW};
use crate::policy::{Reason, State};

/// Where less is tolerable than [`DEFAULT_TOLERANCE`] (G.723.1), the absence of loss has to exclude only this many times the
/// tolerable loss before the budget grows fast. One to six such calls over three and four hops are clear in 0.95 to 0.97 of
/// the seconds with 2, and in 0.92 to 0.95 with 6.5, which treats them like G.729A; with 1 growth takes minutes.
const SENSITIVE: f64 = 2.0;

/// Part of what leaves the mesh to which a cut goes where a queue is the cause: behind a bottleneck, the peak of two windows is some
/// 3 % over the mean, and the queue has to drain.
const CARRIED_PART: f64 = 0.95;

/// Seconds over which the peak of what leaves the mesh is remembered: two windows of its meters, so that ACKs that come in bursts
/// do not lower it.
const CARRIED_FOR: f64 = 1.0;
/// Seconds without stress from which a budget without calls grows fast: a queue at the budget would have shown by then.
const QUEUE_SHOWS: f64 = 0.375;
/// Longest average of the use, in seconds.
const MAX_USE_SPAN: f64 = 4.0;
/// Maximum time for which what was sent before the control began counts as the cause of stress: a queue of 200 packets leaves at
/// 0.5 Mb/s.
const MAX_FIRST: Nanos = Nanos::from_secs(5);

/// A budget, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub(super) state: State,
    pub(super) reason: Reason,
    /// Bits per second times price.
    pub(super) budget: f64,
    /// Budget at which degradation was last seen.
    pub(super) ceiling: f64,
    /// When the ceiling was set, and how long it is not questioned.
    pub(super) ceiling_at: Nanos,
    pub(super) hold: Nanos,
    /// Since when the budget probes past the ceiling.
    probing_since: Option<Nanos>,
    pub(super) cut_at: Nanos,
    /// How long after a cut its effect is judged.
    pub(super) settle_for: Nanos,
    /// Until when queues drain after a cut.
    pub(super) drain_until: Nanos,
    /// When the stress was last over a half.
    stressed_at: Nanos,
    /// The budget at which stress begins is known.
    pub(super) has_learnt: bool,
    /// Stress is still caused by what was sent before the control began.
    pub(super) is_first: bool,
    /// Smoothed use of the budget.
    pub(super) used: f64,
    /// Recent peak of the use: a load that was taken.
    peak_used: f64,
    /// Peak over [`CARRIED_FOR`] of what has left the mesh.
    carried: f64,
}

/// What a tick begins with, beside the stress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Packets wait for the budget.
    pub(super) is_wanted: bool,
    /// Lower bound of the budget.
    pub(super) min_budget: f64,
    /// The budget with which learning begins.
    pub(super) first_budget: f64,
    /// A flow sends data out of the mesh.
    pub(super) has_uploads: bool,
    /// There are calls.
    pub(super) has_calls: bool,
    /// Tolerated fraction of their packets lost or late.
    pub(super) tolerance: f64,
    /// Part of the budget that is used.
    pub(super) caution: f64,
    /// A route is interrupted.
    pub(super) is_interrupted: bool,
    /// The budget is so small already that it is compared with the one before.
    pub(super) is_small: bool,
}

/// A tick.
#[derive(Clone, Copy)]
struct Step<'a> {
    now: Nanos,
    seconds: f64,
    load: &'a Load,
    stress: &'a Stress,
    tuning: &'a Tuning,
}

impl Step<'_> {
    /// The speed g of the law, per second.
    fn speed(&self) -> f64 {
        let Self { load, stress, tuning, .. } = self;
        if !load.has_calls {
            return tuning.speed;
        }
        (tuning.loss_cost * load.tolerance * stress.packets).clamp(tuning.min_speed, 2.0 * tuning.speed)
    }
}

impl Law {
    /// Learning begins with this budget.
    pub(super) fn new(budget: f64, tuning: &Tuning) -> Self {
        Self {
            state: State::Off,
            reason: Reason::NoElasticTraffic,
            budget,
            ceiling: f64::INFINITY,
            ceiling_at: Nanos::ZERO,
            hold: secs(tuning.min_hold_s),
            probing_since: None,
            cut_at: Nanos::ZERO,
            settle_for: secs(tuning.settle_s),
            drain_until: Nanos::ZERO,
            stressed_at: Nanos::ZERO,
            has_learnt: false,
            is_first: true,
            used: 0.0,
            peak_used: 0.0,
            carried: 0.0,
        }
    }

    pub(super) fn enter(&mut self, state: State, reason: Reason) {
        (self.state, self.reason) = (state, reason);
    }

    /// Takes what is used and carried now, in bits per second times price. The use is averaged over the time of `use_bits` at the
    /// budget, for the meters' half second may hold a single packet; `price` is the highest one.
    pub(super) fn take(&mut self, seconds: f64, (used, carried): (f64, f64), price: f64, tuning: &Tuning) {
        let span = (tuning.use_bits * price / self.budget.max(1.0)).min(MAX_USE_SPAN);
        let is_averaged = span > seconds && self.state != State::Learning;
        self.used += (used - self.used) * if is_averaged { seconds / span } else { 1.0 };
        self.peak_used = self.used.max(self.peak_used * (1.0 - seconds / tuning.carried_s));
        self.carried = carried.max(self.carried * (1.0 - seconds / CARRIED_FOR));
    }

    /// Notes when there is stress.
    pub(super) fn follow_stress(&mut self, now: Nanos, stress: &Stress) {
        if stress.level > 0.5 {
            self.stressed_at = now;
        }
    }

    /// Follows whether stress is still caused by what was sent before the control began, `elapsed` ago: until it has been low once.
    pub(super) fn follow_beginning(&mut self, elapsed: Nanos, stress: &Stress, tuning: &Tuning) {
        self.is_first &= elapsed <= secs(tuning.first_s) || stress.level >= 1.0 && elapsed <= MAX_FIRST;
    }

    /// Moves the budget by the stress. Returns whether it was cut.
    pub(super) fn decide(
        &mut self,
        now: Nanos,
        seconds: f64,
        load: &Load,
        stress: &Stress,
        tuning: &Tuning,
    ) -> bool {
        let step = Step { now, seconds, load, stress, tuning };
        match self.state {
            State::Protecting if now.saturating_sub(self.cut_at) < self.settle_for => {}
            State::Protecting => {
                if stress.acute {
                    self.cut(&step);
                    return true;
                } else if self.has_learnt {
                    self.enter(State::Steady, Reason::Hold);
                } else {
                    self.enter(State::Learning, Reason::RoomToGrow);
                }
            }
            _ if stress.acute => {
                self.cut(&step);
                return true;
            }
            State::Learning => self.learn(&step),
            _ => self.move_by_law(&step),
        }
        false
    }

    fn learn(&mut self, step: &Step<'_>) {
        let Step { now, seconds, load, stress, tuning } = *step;
        // After a cut, the slow span still contains what was before it.
        if stress.lower_level > 1.0 && now.saturating_sub(self.cut_at) > SLOW {
            if self.is_first {
                // What was sent before the control began is the cause.
                self.budget = (tuning.learnt * self.budget).max(load.min_budget);
                self.cut_at = now;
                self.reason = stress.reason;
                return;
            }
            self.ceiling = if stress.queue > 1.0 { self.budget.min(self.peak_used) } else { self.budget };
            (self.ceiling_at, self.hold) = (now, secs(tuning.min_hold_s));
            self.budget *= tuning.learnt;
            // Uploads obey late, and with few call packets the stress is seen late.
            if load.has_uploads && load.has_calls {
                self.budget *= confidence(stress.packets, tuning.enough_packets);
            }
            self.has_learnt = true;
            self.enter(State::Steady, stress.reason);
        } else if self.is_short(load, tuning) || self.used > tuning.learning_used * self.budget {
            // Stress is seen a second late. Growth slows down before it reaches 1, so that the budget overshoots less.
            self.grow(seconds * tuning.learning_speed * (1.0 - stress.level).max(0.0));
            self.reason = Reason::RoomToGrow;
        } else {
            self.reason = Reason::NotUsed;
            self.fit_to_use(step);
        }
    }

    /// The budget is too small: packets wait for it. They may wait for something else, such as the pace of their flow, if only a small
    /// part of the budget is used. A budget that grew whenever they do would have no bound.
    fn is_short(&self, load: &Load, tuning: &Tuning) -> bool {
        load.is_wanted && self.peak_used.max(load.first_budget) >= tuning.wanted_used * self.budget
    }

    /// Lowers an unused budget to what is carried, where queues grow. Otherwise an unused budget does no harm.
    fn fit_to_use(&mut self, step: &Step<'_>) {
        if step.load.is_interrupted {
            return;
        }
        if step.stress.queue > 0.5 {
            let over = self.budget - self.used / step.tuning.used;
            self.budget -= over.max(0.0) * step.seconds / step.tuning.fit_to_use_s;
        }
    }

    /// Lowers the budget to what is carried, which is what is used, where a queue grows.
    fn fit_to_queue(&mut self, step: &Step<'_>) {
        if step.stress.queue > 1.0 && self.used > 0.4 * self.budget {
            self.ceiling = self.ceiling.min(self.peak_used);
            let part = (step.seconds / step.tuning.fit_to_queue_s).min(1.0);
            self.budget -= (self.budget - self.used).max(0.0) * part;
        }
    }

    fn grow(&mut self, by: f64) {
        self.budget *= 1.0 + by;
    }

    fn move_by_law(&mut self, step: &Step<'_>) {
        let Step { now, seconds, load, stress, tuning } = *step;
        self.fit_to_queue(step);
        let speed = step.speed();
        // One lost packet counts in full, however little is tolerable: otherwise the law rests at a higher loss.
        let one = 1.0 / (load.tolerance * stress.packets.max(1.0));
        let pull = 1.0 - stress.level.min(tuning.max_stress.max(one));
        if pull < 0.0 {
            self.grow(seconds * speed * pull);
            self.reason = stress.reason;
            let fails = stress.lower_level > 2.0 || stress.queue > 1.0 || self.budget < self.ceiling;
            if self.probing_since.is_some() && fails {
                self.fail_probe(now, tuning);
            } else if stress.lower_level > 1.0
                && self.ceiling.is_finite()
                // Until then, the slow span still contains what was before the cut.
                && now.saturating_sub(self.cut_at) > SLOW
            {
                let over = (self.ceiling - self.budget).max(0.0);
                self.ceiling -= over * (tuning.ceiling_speed * seconds).min(1.0);
                self.ceiling_at = now;
            }
            return;
        }
        if load.caution < 1.0 {
            return;
        }
        if !self.is_short(load, tuning) && self.used < tuning.used * self.budget {
            self.reason = Reason::NotUsed;
            self.fit_to_use(step);
            return;
        }
        if let Some(since) = self.probing_since {
            self.probe(step, since, pull);
        } else if self.budget < self.ceiling {
            self.approach(step, pull);
        } else {
            self.reason = Reason::Hold;
            if now.saturating_sub(self.ceiling_at) >= self.hold {
                self.probing_since = Some(now);
            }
        }
    }

    /// Grows past the ceiling: slowly at first, and faster the longer nothing goes wrong.
    fn probe(&mut self, step: &Step<'_>, since: Nanos, pull: f64) {
        let tuning = step.tuning;
        let held = step.now.saturating_sub(since).as_secs_f64();
        let speed = (tuning.probe_speed
            * (1.0 + (held - tuning.probe_calm_s).max(0.0) / tuning.probe_grows_s))
            .min(tuning.return_speed);
        self.grow(step.seconds * speed * pull);
        self.reason = Reason::Probe;
        // The budget of that time has held: what was learnt before is out of date.
        let holds = self.budget / (1.0 + speed * tuning.breakdown_after_s);
        if holds > self.ceiling {
            self.ceiling = holds;
            self.hold = secs(tuning.min_hold_s);
        }
    }

    /// Grows towards the ceiling: fast far below it, and close to it the faster the longer nothing has been wrong.
    fn approach(&mut self, step: &Step<'_>, pull: f64) {
        let Step { now, seconds, load, stress, tuning } = *step;
        let speed = step.speed();
        let calm = now.saturating_sub(self.stressed_at).as_secs_f64();
        // Far below the ceiling, most of the way is known.
        let is_known = self.ceiling.is_finite() && self.budget < 0.5 * self.ceiling;
        let return_speed = if is_known { tuning.learning_speed } else { tuning.return_speed };
        // How far below a part of the ceiling the budget is: 1 from a fifth of the ceiling on.
        let below = |part: f64| (5.0 * (part * self.ceiling - self.budget) / self.ceiling).clamp(0.0, 1.0);
        // Packets that would be lost in a second if this were the point to stay at. Codecs that tolerate little wait less than
        // they would have to, as loss rises steeply with the budget.
        let believed = load.tolerance.max(DEFAULT_TOLERANCE.min(SENSITIVE * load.tolerance));
        let expected = stress.packets * believed;
        // Without calls only queues tell. The evidence counts from where it suffices, and in full at three times as much.
        let evidence =
            if load.has_calls { calm * expected / tuning.sure_packets } else { calm / QUEUE_SHOWS };
        let shown = ((evidence - 1.0) / 2.0).clamp(0.0, 1.0);
        let sure =
            if self.ceiling.is_finite() { (below(1.0) * shown).max(below(tuning.safe_part)) } else { shown };
        let speed = speed + (return_speed - speed) * sure;
        let grown = self.budget * (1.0 + seconds * speed * pull);
        self.budget = grown.min(self.ceiling);
        self.reason = Reason::RoomToGrow;
    }

    fn fail_probe(&mut self, now: Nanos, tuning: &Tuning) {
        self.probing_since = None;
        self.ceiling_at = now;
        self.ceiling = self.ceiling.min(self.budget);
        self.budget = self.budget.min(self.ceiling);
        self.hold = Nanos(self.hold.0 * 2).min(secs(tuning.max_hold_s));
    }

    fn cut(&mut self, step: &Step<'_>) {
        let Step { now, load, stress, tuning, .. } = *step;
        self.has_learnt |= !self.is_first;
        self.budget *= load.caution;
        if matches!(stress.reason, Reason::QueueGrows { .. }) {
            // More than the mesh carries made the queue.
            self.budget = self.budget.min(CARRIED_PART * self.carried);
        }
        if self.probing_since.is_some() {
            self.fail_probe(now, tuning);
        } else if self.state != State::Protecting {
            // Less than what held until now: capacity has fallen, or this is the first cut.
            self.ceiling = self.ceiling.min(self.budget);
            self.hold = secs(tuning.min_hold_s);
            self.ceiling_at = now;
        }
        if !load.is_small {
            self.budget *= if self.state == State::Protecting { tuning.cut_again } else { tuning.cut };
            self.drain_until = now.saturating_add(secs(tuning.drain_s));
        }
        self.cut_at = now;
        // Packets that a queue has delayed show it for that time.
        self.settle_for = secs(tuning.settle_s).saturating_add(stress.excess);
        self.enter(State::Protecting, stress.reason);
    }

    /// The part of the budget that may be sent now: less while queues drain after a cut or are long.
    pub(super) fn damped(&self, now: Nanos, queue: f64, tuning: &Tuning) -> f64 {
        if now < self.drain_until { tuning.drain } else { 1.0 - tuning.damping * queue.min(2.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the law has learnt, with this stress at each time in seconds.
    fn learnt_at(level: impl Fn(f64) -> f64) -> Option<f64> {
        let tuning = Tuning::default();
        let load = Load {
            is_wanted: true,
            min_budget: 0.0,
            first_budget: 1e6,
            has_uploads: false,
            has_calls: true,
            tolerance: DEFAULT_TOLERANCE,
            caution: 1.0,
            is_interrupted: false,
            is_small: false,
        };
        let mut law = Law::new(1e6, &tuning);
        law.enter(State::Learning, Reason::RoomToGrow);
        (1..200).map(|tick| f64::from(tick) / 10.0).find(|&seconds| {
            let (now, level) = (Nanos::from_secs_f64(seconds), level(seconds));
            let stress = Stress {
                level,
                lower_level: level,
                combined_loss: 0.0,
                packets: 100.0,
                queue: level,
                excess: Nanos::ZERO,
                acute: false,
                loss_or_late: 0.0,
                bad_call: false,
                reason: Reason::RoomToGrow,
            };
            law.follow_beginning(now, &stress, &tuning);
            law.decide(now, 0.1, &load, &stress, &tuning);
            law.has_learnt
        })
    }

    #[test]
    fn stress_teaches_nothing_until_it_was_low_once_or_for_five_seconds() {
        // First windows fill a queue that drains within 3 s; from 6 s on the budget is too large.
        let drains = |seconds: f64| if (3.0..6.0).contains(&seconds) { 0.2 } else { 2.0 };
        assert!(learnt_at(drains).is_some_and(|at| (6.0..6.2).contains(&at)));
        // A queue that does not drain. The last cut is judged for a second.
        assert!(learnt_at(|_| 2.0).is_some_and(|at| (5.0..6.2).contains(&at)));
        // Stress that begins once the first windows are gone is that of the budget.
        assert!(learnt_at(|seconds| if seconds < 2.0 { 0.2 } else { 2.0 }).is_some_and(|at| at < 2.2));
        assert_eq!(learnt_at(|_| 0.5), None);
    }
}
