//! Calls and flows that begin or end, and paths that change: what the others bore before says less then.
//!
//! A new call gets its airtime at once, before it suffers. For some seconds, the controller also uses less of the budget: the
//! larger the new part of the calls, the less. It does the same where many flows begin at once. A path that becomes longer also
//! lowers the budget: beyond the hops that share the air its price stays, but more nodes can collide.

use fairhop_model::units::Nanos;

use super::inputs::CallsChange;
use super::stress::Stress;
use super::{Adaptive, secs};
use crate::policy::{Reason, State};

/// Number of flows beginning within a tick that counts as many, if it is also over a quarter of all flows.
const MANY_FLOWS: usize = 4;

/// While learning, first windows count again once the flows are this many times as many: at least half of all windows are first
/// ones then.
const TIMES_MORE: usize = 2;

/// Part of the budget that is kept at least when the first calls begin.
const MIN_KEPT: f64 = 0.25;

impl Adaptive {
    /// A call began: its load is taken from the budget. A call ended: the ceiling rises by its load.
    pub(super) fn on_calls_changed(&mut self, now: Nanos, change: CallsChange) {
        let CallsChange { load, came, went } = change;
        if load > 0.0 && self.law.state != State::Starved {
            let new_part = self.new_part(load);
            let are_first = self.are_first(load);
            if are_first {
                // These are the first calls: what was learnt without calls does not hold for them.
                self.law.ceiling = f64::INFINITY;
            }
            // The load is an estimate. The budget shrinks by no larger part than that by which the calls grow.
            let kept = (1.0 - load / self.law.budget).max(1.0 - new_part).max(MIN_KEPT);
            self.law.ceiling *= kept;
            // While learning, the budget is no measure of what the mesh carries: calls that begin one after the other do not
            // lower it further and further.
            let floor = if self.law.has_learnt {
                0.0
            } else {
                self.law.budget.min(self.config.first_budget * MIN_KEPT)
            };
            self.law.budget = (self.law.budget * kept).max(floor);
            let reason = if came { Reason::CallStarted } else { Reason::PathLonger };
            // The first calls have no others that were measured without them.
            self.make_room(now, if are_first { 0.0 } else { new_part }, reason);
        } else if load < 0.0 {
            // What a call of this load would have taken. The load is counted as that of all calls before.
            let remaining = self.calls.iter().map(|known| known.load).sum::<f64>();
            let old_part = -load / (remaining - load).max(1.0);
            let grown = (self.law.budget - load).min(self.law.budget / (1.0 - old_part).max(MIN_KEPT));
            self.law.budget += self.tuning.returned * (grown - self.law.budget);
            self.law.ceiling -= load;
            self.law.hold = secs(self.tuning.min_hold_s);
            self.noise.restart(self.law.budget);
            if self.calls.is_empty() {
                // What was learnt with calls does not hold for a mesh without them.
                self.law.ceiling = f64::INFINITY;
            }
            if went && self.law.state == State::Steady {
                self.law.reason = Reason::CallEnded;
            }
        }
    }

    /// The part that this load is of that of all calls.
    fn new_part(&self, load: f64) -> f64 {
        (load / self.calls.iter().map(|known| known.load).sum::<f64>()).min(1.0)
    }

    /// Whether this load is that of all calls, with the error of a sum.
    pub(super) fn are_first(&self, load: f64) -> bool {
        self.new_part(load) > 0.99
    }

    /// Reacts to many flows that began at once, or to a path that has become longer.
    pub(super) fn on_load_grown(&mut self, now: Nanos) {
        let new_part = self.new_flows as f64 / self.claims.len().max(1) as f64;
        let (new_part, reason) = if self.path_grew {
            (1.0, Reason::PathLonger)
        } else if self.new_flows >= MANY_FLOWS && new_part > 0.25 {
            (new_part, Reason::FlowsStarted)
        } else {
            return;
        };
        let is_first = now.saturating_sub(self.yielded_at) > secs(self.tuning.min_hold_s);
        if is_first && self.law.has_learnt && !self.nodes.is_empty() && self.law.state != State::Starved {
            if self.path_grew {
                // The budget was that of the shorter path. The ceiling stays, as most longer paths carry about as much.
                self.law.budget *= self.tuning.caution;
            }
            self.make_room(now, new_part, reason);
        }
    }

    /// Flows send their first windows before the control has an effect on them. While it learns, a beginning of [`TIMES_MORE`] times
    /// the flows of the last one counts as another beginning. Web pages, one after the other, are none, so they do not put off learning.
    pub(super) fn on_flows_doubled(&mut self, now: Nanos) {
        let have_doubled = self.new_flows > 0 && self.claims.len() >= TIMES_MORE * self.first_flows;
        if self.law.state == State::Learning && have_doubled {
            self.begin_first(now);
        }
    }

    /// Uses less of the budget before a call suffers; `new_part` of the calls or flows is new. Waits for the effect.
    fn make_room(&mut self, now: Nanos, new_part: f64, reason: Reason) {
        self.caution = self.caution.min(libm::pow(self.tuning.caution, new_part));
        self.yielded_at = now;
        self.noise.restart(self.law.budget);
        if new_part == 0.0 || new_part > 0.25 {
            self.law.drain_until = now.saturating_add(secs(self.tuning.drain_s));
        }
        (self.law.cut_at, self.law.settle_for) = (now, secs(self.tuning.settle_s));
        self.law.enter(State::Protecting, reason);
    }

    /// Returns to the whole budget once nothing is wrong.
    pub(super) fn restore_caution(&mut self, now: Nanos, seconds: f64, stress: &Stress) {
        if now.saturating_sub(self.yielded_at) > secs(self.tuning.caution_s) && stress.level < 1.0 {
            self.caution = (self.caution * (1.0 + seconds * self.tuning.return_speed)).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AdaptiveConfig;
    use super::*;
    use crate::allocate::Claim;
    use crate::flow::{Address, FlowKey};

    #[test]
    fn first_windows_count_again_while_learning_where_flows_double_and_not_for_web_pages() {
        let mut adaptive = Adaptive::new(AdaptiveConfig::default(), None);
        adaptive.law.enter(State::Learning, Reason::RoomToGrow);
        let mut since = |second, flows: u16, new_flows| {
            let key = |port| FlowKey {
                mesh: Address::v4([10, 0, 0, 1]),
                wired: Address::v4([10, 0, 0, 2]),
                mesh_port: port,
                wired_port: 443,
                protocol: 6,
            };
            adaptive.claims = (0..flows)
                .map(|port| Claim { key: key(port), price: 1.0, demand: 1e6, weight: 1.0 })
                .collect();
            adaptive.new_flows = new_flows;
            adaptive.on_flows_doubled(Nanos::from_secs(second));
            adaptive.first_since.0 / 1_000_000_000
        };
        assert_eq!(since(1, 2, 2), 1);
        // Pages, one after the other.
        assert_eq!(since(2, 3, 1), 1);
        assert_eq!(since(3, 3, 1), 1);
        assert_eq!(since(4, 4, 1), 4);
        assert_eq!(since(5, 9, 0), 4);
        assert_eq!(since(6, 9, 1), 6);
        assert_eq!(since(7, 4, 1), 6);
    }
}
