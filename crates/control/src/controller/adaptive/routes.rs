//! Calls that the route interrupts.
//!
//! A routing protocol takes from 20 ms to several seconds to replace a route that has broken. All packets of a node are lost
//! meanwhile, which looks like a breakdown of the mesh, and a cut of TCP does not help. The two differ in what else the gateway
//! sees of the node. In a breakdown packets are late and some are lost, but others arrive, ACKs among them. Without a route
//! *nothing* arrives, and afterwards packets have often made another number of hops, which their time to live shows.
//!
//! A node is *silent* if its continuous call goes on at the wired end, and no packet of any of its flows has arrived for
//! `route_silent_s`. Nothing is decided by its calls and round trips then, nor by the gateway's own queue, where packets for a
//! link that has gone are tried again and again. If it returns over another number of hops, or
//! was silent for `route_sure_s`, its route was *broken*: the spans over which calls and round trips are measured have to be past
//! the silence before they count again, and what was decided since the last packet before it is taken back, unless other
//! nodes show stress as well. Otherwise packets of the same route were lost, which TCP may have caused: by link feedback, a
//! routing protocol takes a link for broken that is only too busy.
//!
//! Left out: routes that break for less, and calls that suppress silence, whose pauses look the same.

use fairhop_model::units::Nanos;

use super::degradation::Degradation;
use super::stress::Stress;
use super::{Adaptive, SLOW, secs};
use crate::flow::Address;
use crate::observer::{CallNow, Observer};
use crate::policy::{Reason, State};

/// Ticks after the last packet of a node until it counts as silent are fewer.
const KEPT: usize = 16;

/// What the controller had found at the end of a tick.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: Nanos,
    state: State,
    budget: f64,
    ceiling: f64,
    ceiling_at: Nanos,
    hold: Nanos,
    has_learnt: bool,
    degradation: Option<Degradation>,
}

/// A node that is silent, or has returned over another route.
#[derive(Clone, Copy, Debug)]
struct Silent {
    address: Address,
    /// Time and hops of its last packet before.
    heard: Nanos,
    hops: u8,
    /// When a call of it was last known to go on.
    awaited: Nanos,
    /// What was found before its last packet.
    before: Option<Found>,
    /// Its route was broken, and its calls count again from then on; none while it is not known.
    until: Option<Nanos>,
}

/// Nodes without a route.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// In the order of addresses.
    nodes: Vec<Silent>,
    /// What is to come back as soon as there is no other stress.
    undo: Option<Found>,
    recent: [Option<Found>; KEPT],
    next: usize,
}

impl Routes {
    /// Whether a node is silent, or returned a moment ago over another route.
    pub(super) const fn is_interrupted(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The same for this node.
    pub(super) fn interrupts(&self, node: Address) -> bool {
        self.nodes.binary_search_by_key(&node, |known| known.address).is_ok()
    }

    fn before(&self, at: Nanos) -> Option<Found> {
        let recent = self.recent.iter().flatten().filter(|found| found.at <= at);
        recent.max_by_key(|found| found.at).copied()
    }
}

impl Adaptive {
    /// Looks which of the silent nodes have returned, and by which route.
    pub(super) fn follow_returns(&mut self, now: Nanos, observer: &Observer) {
        let sure = secs(self.tuning.route_sure_s);
        let Routes { nodes, undo, .. } = &mut self.routes;
        nodes.retain_mut(|known| {
            let Some(node) = observer.node(known.address) else { return false };
            let is_silent = node.heard == Some(known.heard);
            if known.until.is_none() && is_silent {
                return now.saturating_sub(known.awaited) < SLOW;
            }
            if known.until.is_none() {
                let lasted = now.saturating_sub(known.heard);
                if node.last_hops == known.hops && lasted < sure {
                    return false;
                }
                known.until = Some(now.saturating_add(SLOW));
                if let Some(before) = known.before.filter(|a| undo.is_none_or(|b| a.at < b.at)) {
                    *undo = Some(before);
                }
            }
            known.until.is_none_or(|until| now < until)
        });
        if nodes.is_empty() {
            *undo = None;
        }
    }

    /// Notes whether the node of a call is silent.
    pub(super) fn follow_route(&mut self, now: Nanos, observer: &Observer, call: &CallNow) {
        let address = call.key.mesh;
        let Some(node) = observer.node(address) else { return };
        let Some(heard) = node.heard else { return };
        if !call.is_awaited || now.saturating_sub(heard) < secs(self.tuning.route_silent_s) {
            return;
        }
        match self.routes.nodes.binary_search_by_key(&address, |known| known.address) {
            Ok(place) => self.routes.nodes[place].awaited = now,
            Err(place) => {
                let before = self.routes.before(heard);
                let hops = node.last_hops;
                let silent = Silent { address, heard, hops, awaited: now, before, until: None };
                self.routes.nodes.insert(place, silent);
            }
        }
    }

    /// Takes back what was decided since a route broke, once nodes that have a route show no stress.
    pub(super) fn undo_since_break(&mut self, now: Nanos, stress: &Stress) {
        if stress.acute || stress.level > 1.0 {
            return;
        }
        let Some(before) = self.routes.undo.take() else { return };
        if before.budget > self.law.budget {
            self.law.budget = before.budget;
            self.law.drain_until = now;
        }
        if before.ceiling > self.law.ceiling {
            (self.law.ceiling, self.law.ceiling_at, self.law.hold) =
                (before.ceiling, before.ceiling_at, before.hold);
        }
        self.law.has_learnt = before.has_learnt;
        self.degradation = before.degradation;
        if self.law.state == State::Protecting && before.state != State::Protecting {
            self.law.enter(before.state, Reason::RouteInterrupted);
        }
    }

    /// Keeps what was found at this tick. While a route is interrupted and no cut is in force, that is the reason.
    pub(super) fn end_tick(&mut self, now: Nanos) {
        if self.routes.is_interrupted() && !matches!(self.law.state, State::Protecting | State::Starved) {
            self.law.reason = Reason::RouteInterrupted;
        }
        let found = Found {
            at: now,
            state: self.law.state,
            budget: self.law.budget,
            ceiling: self.law.ceiling,
            ceiling_at: self.law.ceiling_at,
            hold: self.law.hold,
            has_learnt: self.law.has_learnt,
            degradation: self.degradation,
        };
        let next = self.routes.next;
        self.routes.recent[next] = Some(found);
        self.routes.next = (next + 1) % KEPT;
    }
}
