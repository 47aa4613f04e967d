//! Controllers: digests in, policies out.
//!
//! [`Controller::tick`] is due every [`TICK`]; a policy is void after [`VALID`] without one, so that a gateway whose
//! controller hangs does as if there were none.

mod adaptive;
mod fixed;

use fairhop_model::units::Nanos;

use adaptive::Adaptive;
pub use adaptive::AdaptiveConfig;
pub use fixed::FixedConfig;

use crate::digest::Digest;
use crate::observer::{Observer, ObserverConfig};
use crate::policy::Policy;

/// Time between ticks.
pub const TICK: Nanos = Nanos::from_millis(100);

/// How long a policy holds.
pub const VALID: Nanos = Nanos::from_secs(2);

/// Which controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ControllerConfig {
    /// Watches, and asks for nothing.
    #[default]
    None,
    /// Settings that somebody chose.
    Fixed(FixedConfig),
    /// Finds its settings.
    Adaptive(AdaptiveConfig),
}

#[derive(Debug)]
enum Kind {
    None,
    Fixed(FixedConfig),
    Adaptive(Box<Adaptive>),
}

/// An observer, and what it leads to.
#[derive(Debug)]
pub struct Controller {
    observer: Observer,
    kind: Kind,
    policy: Policy,
}

impl Controller {
    /// A controller that has seen nothing.
    pub fn new(observer: ObserverConfig, config: ControllerConfig) -> Self {
        let kind = match config {
            ControllerConfig::None => Kind::None,
            ControllerConfig::Fixed(fixed) => Kind::Fixed(fixed),
            ControllerConfig::Adaptive(adaptive) => Kind::Adaptive(Box::new(Adaptive::new(adaptive))),
        };
        Self { observer: Observer::new(observer), kind, policy: Policy::none() }
    }

    /// Takes the digest of a packet that crosses the gateway.
    pub fn on_digest(&mut self, digest: &Digest) {
        self.observer.on_digest(digest);
    }

    /// Decides. Times must not go back.
    pub fn tick(&mut self, now: Nanos) -> &Policy {
        match &mut self.kind {
            Kind::None => {}
            Kind::Fixed(config) => config.tick(now, &mut self.policy),
            Kind::Adaptive(adaptive) => adaptive.tick(now, &self.observer, &mut self.policy),
        }
        if !matches!(self.kind, Kind::None) {
            self.policy.at = now;
            self.policy.expires = now.saturating_add(VALID);
        }
        &self.policy
    }

    /// What was asked for last.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What is known.
    pub const fn observer(&self) -> &Observer {
        &self.observer
    }
}
