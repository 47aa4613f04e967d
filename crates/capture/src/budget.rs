//! What the adaptive controller would have asked for: the gateway in dry-run, on a capture.
//!
//! The capture must have been made where a gateway would stand, between the mesh and its wired side. The controller sees the
//! packets that crossed. Its orders are not carried out: from its first cut on, it sees TCP that goes on as before, and asks for
//! less than it would of TCP that obeys.

use fairhop_control::controller::TICK;
use fairhop_control::digest::{Digest, Direction};
use fairhop_control::{Controller, ControllerConfig, Decision, Network, ObserverConfig};
use fairhop_model::units::Nanos;

/// Longer gaps in a capture are skipped: all flows have ended by then.
const MAX_PAUSE: Nanos = Nanos::from_secs(120);

/// A controller beside the capture.
#[derive(Debug)]
pub(crate) struct Budget {
    mesh: Vec<Network>,
    controller: Controller,
    next: Option<Nanos>,
    /// What was decided, each second, and wherever state or kind of reason changed.
    pub(crate) decisions: Vec<Decision>,
    /// Packets that do not cross the edge of the mesh.
    pub(crate) elsewhere: u64,
    pub(crate) crossed: u64,
}

impl Budget {
    pub(crate) fn new(mesh: Vec<Network>, observer: ObserverConfig) -> Self {
        Self {
            mesh,
            controller: Controller::new(observer, ControllerConfig::Adaptive(Default::default())),
            next: None,
            decisions: Vec::new(),
            elsewhere: 0,
            crossed: 0,
        }
    }

    pub(crate) fn add(&mut self, digest: &Digest) {
        let is_in = |host| self.mesh.iter().any(|network| network.contains(host));
        let direction = match (is_in(digest.source), is_in(digest.destination)) {
            (false, true) => Direction::ToMesh,
            (true, false) => Direction::FromMesh,
            _ => {
                self.elsewhere += 1;
                return;
            }
        };
        self.crossed += 1;
        self.tick(digest.at);
        self.controller.on_digest(&Digest { direction, ..*digest });
    }

    fn tick(&mut self, now: Nanos) {
        let mut next = self.next.unwrap_or(now);
        if now.saturating_sub(next) > MAX_PAUSE {
            next = now;
        }
        while next <= now {
            self.controller.tick(next, 0);
            self.decide(next);
            next = next.saturating_add(TICK);
        }
        self.next = Some(next);
    }

    fn decide(&mut self, now: Nanos) {
        let decision = Decision::of(&self.controller, now, 0);
        let is_new = self.decisions.last().is_none_or(|last| {
            !last.is_like(&decision) || now.saturating_sub(last.at) >= Nanos::from_secs(1)
        });
        if is_new {
            self.decisions.push(decision);
        }
    }
}
