//! Degradation of calls that TCP does not cause.
//!
//! While a call is bad, its loss with a budget near the first one is compared with its loss at a small part of it. If that is not
//! clearly lower, TCP is not the cause: the budget is given back (state *Starved*), and the comparison is repeated later.

use fairhop_model::units::Nanos;

use super::stress::Stress;
use super::{Adaptive, SETTLE, SLOW};
use crate::policy::{Reason, State};

/// A budget is small below this part of the budget at the begin of the degradation.
const SMALL: f64 = 0.3;
/// How long the budget must have been small before TCP is ruled out.
const SMALL_FOR: Nanos = Nanos::from_secs(3);
/// TCP is ruled out if more than this part of the loss is left with a small budget.
const LOSS_LEFT: f64 = 0.6;
/// Time without a bad call after which the degradation is over.
const OVER_AFTER: Nanos = Nanos::from_secs(2);
/// Time in the state Starved before the next comparison: short enough to protect calls again soon, and long enough that TCP
/// is not cut for most of the time. It doubles up to the maximum while comparisons say the same.
pub(super) const STARVED_FOR: Nanos = Nanos::from_secs(12);
const MAX_STARVED_FOR: Nanos = Nanos::from_secs(60);

/// A period with bad calls, and what has been tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Degradation {
    /// The budget when it began.
    budget: f64,
    /// Loss or lateness while the budget is not small, and while it is.
    before: Mean,
    after: Mean,
    /// Since when the budget has been small.
    small_since: Option<Nanos>,
    /// When a call was last bad.
    last_bad: Nanos,
}

impl Degradation {
    /// The budget is small already.
    pub(super) const fn is_small(&self) -> bool {
        self.small_since.is_some()
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
            let begun = Degradation {
                budget: self.budget,
                before: Mean::default(),
                after: Mean::default(),
                small_since: None,
                last_bad: now,
            };
            self.degradation.get_or_insert(begun).last_bad = now;
        }
        let Some(degradation) = &mut self.degradation else { return false };
        if now.saturating_sub(degradation.last_bad) > OVER_AFTER {
            self.degradation = None;
            return false;
        }
        if self.budget > (degradation.budget * SMALL).max(self.min_budget) {
            degradation.before.add(stress.loss_or_late);
            degradation.small_since = None;
            degradation.after = Mean::default();
            return false;
        }
        // At first, the slow span still contains what was before.
        let small_for = now.saturating_sub(*degradation.small_since.get_or_insert(now));
        if small_for > SLOW {
            degradation.after.add(stress.loss_or_late);
        }
        small_for >= SMALL_FOR
            && stress.bad_call
            && degradation.after.value() > LOSS_LEFT * degradation.before.value()
    }

    /// TCP is not the cause: it gets back the budget that it had.
    pub(super) fn give_back(&mut self, now: Nanos) {
        if let Some(degradation) = self.degradation {
            self.budget = degradation.budget;
        }
        self.starved_until = now.saturating_add(self.starve_for);
        self.starve_for = Nanos(2 * self.starve_for.0).min(MAX_STARVED_FOR);
        self.enter(State::Starved, Reason::TcpIsNotTheCause);
    }

    /// Limits nothing, until calls are good or the comparison is due again.
    pub(super) fn starve(&mut self, now: Nanos, stress: &Stress) {
        if !stress.bad_call {
            self.degradation = None;
            self.starve_for = STARVED_FOR;
            self.enter(State::Steady, Reason::Hold);
        } else if now >= self.starved_until {
            let mut before = Mean::default();
            before.add(stress.loss_or_late);
            self.degradation = Some(Degradation {
                budget: self.budget,
                before,
                after: Mean::default(),
                small_since: Some(now),
                last_bad: now,
            });
            self.budget *= SMALL;
            (self.cut_at, self.settle_for) = (now, SETTLE);
            self.enter(State::Protecting, Reason::TryAgain);
        }
    }
}
