//! Degradation of calls that TCP does not cause.
//!
//! While a call is bad, its loss with a budget near the first one is compared with its loss at a small part of it. If that is not
//! clearly lower, the same small part of that is tried: where calls alone nearly fill a mesh, a tenth of what TCP had may still
//! be too much. If calls are bad there, too, TCP is not the cause: the budget is given back (state *Starved*), and the second
//! comparison is repeated later. Nothing is concluded while a queue drains: 175 packets leave at 0.36 Mb/s in six seconds, and
//! in more if calls go on.

use fairhop_model::units::Nanos;

use super::stress::Stress;
use super::{Adaptive, SLOW, secs};
use crate::policy::{Reason, State};

/// Longest time between two comparisons: what has changed in the network is found within a minute.
const MAX_STARVED_FOR: Nanos = Nanos::from_secs(60);

/// A queue is draining if it has become shorter by this many times what is tolerable, 50 ms of a call's delay, within
/// [`small_s`](super::Tuning).
const DRAINS: f64 = 2.5;

/// A period with bad calls, and what has been tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Degradation {
    /// The budget when it began.
    budget: f64,
    /// Loss or lateness while the budget is not small.
    before: Mean,
    /// Since the budget is small; none while it is not.
    small: Option<Small>,
    /// When a call was last bad.
    last_bad: Nanos,
}

/// A time with a small budget.
#[derive(Clone, Copy, Debug)]
struct Small {
    since: Nanos,
    /// The second comparison, at the small part of the small part.
    is_second: bool,
    /// Loss or lateness.
    after: Mean,
    /// The shortest queue, over what is tolerable, that was shorter than those before by [`DRAINS`], and when it was reached.
    shortest: f64,
    shortest_at: Nanos,
}

impl Degradation {
    /// The budget is small already.
    pub(super) const fn is_small(&self) -> bool {
        self.small.is_some()
    }
}

impl Small {
    fn since(now: Nanos) -> Self {
        Self {
            since: now,
            is_second: false,
            after: Mean::default(),
            shortest: f64::INFINITY,
            shortest_at: now,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }
}

impl Adaptive {
    /// Records the loss of bad calls by budget; returns true once TCP is known not to be the cause.
    pub(super) fn follow_degradation(&mut self, now: Nanos, stress: &Stress) -> bool {
        if stress.bad_call {
            let begun =
                Degradation { budget: self.law.budget, before: Mean::default(), small: None, last_bad: now };
            self.degradation.get_or_insert(begun).last_bad = now;
        }
        let Some(degradation) = &mut self.degradation else { return false };
        if now.saturating_sub(degradation.last_bad) > secs(self.tuning.over_after_s) {
            self.degradation = None;
            return false;
        }
        if self.law.budget > (degradation.budget * self.tuning.small).max(self.min_budget) {
            degradation.before.add(stress.loss_or_late);
            degradation.small = None;
            return false;
        }
        let small = degradation.small.get_or_insert(Small::since(now));
        if stress.queue < small.shortest - DRAINS {
            (small.shortest, small.shortest_at) = (stress.queue, now);
        }
        // At first, the slow span still contains what was before.
        if now.saturating_sub(small.since) > SLOW {
            small.after.add(stress.loss_or_late);
        }
        // In the last second, too: where calls need most of the mesh, its queues drain more slowly than `small_s`.
        let left = small.after.value().min(stress.loss_or_late);
        let is_left = self.config.is_obeyed
            && now.saturating_sub(small.shortest_at) >= secs(self.tuning.small_s)
            && stress.bad_call
            && left > self.tuning.starved_left * degradation.before.value();
        if is_left && !small.is_second {
            let degradation = *degradation;
            self.compare_again(now, degradation);
            return false;
        }
        is_left
    }

    /// Begins the second comparison of a degradation: cuts the budget to the small part of the small part.
    fn compare_again(&mut self, now: Nanos, degradation: Degradation) {
        let small = Small { is_second: true, ..Small::since(now) };
        self.degradation = Some(Degradation { small: Some(small), ..degradation });
        self.law.budget = self.law.budget.min(degradation.budget * self.tuning.small.powi(2));
        (self.law.cut_at, self.law.settle_for) = (now, secs(self.tuning.settle_s));
        self.law.enter(State::Protecting, Reason::TryAgain);
    }

    /// TCP is not the cause: it gets back the budget that it had.
    pub(super) fn give_back(&mut self, now: Nanos) {
        if let Some(degradation) = self.degradation {
            self.law.budget = degradation.budget;
        }
        self.starved_until = now.saturating_add(self.starve_for);
        self.starve_for = Nanos(2 * self.starve_for.0).min(MAX_STARVED_FOR);
        self.law.enter(State::Starved, Reason::TcpIsNotTheCause);
    }

    /// Limits nothing, until calls are good or the comparison is due again.
    pub(super) fn starve(&mut self, now: Nanos, stress: &Stress) {
        if !stress.bad_call {
            self.degradation = None;
            self.starve_for = secs(self.tuning.starved_s);
            self.law.enter(State::Steady, Reason::Hold);
        } else if now >= self.starved_until {
            let mut before = Mean::default();
            before.add(stress.loss_or_late);
            let budget = self.law.budget;
            self.compare_again(now, Degradation { budget, before, small: None, last_bad: now });
        }
    }
}
