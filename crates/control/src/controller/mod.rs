//! Controllers: digests in, policies out.
//!
//! [`Controller::tick`] is due every [`TICK`]; a policy is void after [`VALID`] without one, so that a gateway whose
//! controller hangs does as if there were none.

mod adaptive;
mod fixed;
mod noise;

use fairhop_model::units::Nanos;

use adaptive::Adaptive;
pub use adaptive::AdaptiveConfig;
pub use fixed::FixedConfig;

use crate::digest::Digest;
use crate::observer::{Observer, ObserverConfig};
use crate::policy::{Policy, State};

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

impl Kind {
    fn new(config: ControllerConfig) -> Self {
        match config {
            ControllerConfig::None => Self::None,
            ControllerConfig::Fixed(fixed) => Self::Fixed(fixed),
            ControllerConfig::Adaptive(adaptive) => Self::Adaptive(Box::new(Adaptive::new(adaptive))),
        }
    }
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
        Self { observer: Observer::new(observer), kind: Kind::new(config), policy: Policy::none() }
    }

    /// Another controller from now on, which knows the flows but nothing of what the one before has found. What that one
    /// asked for is void.
    pub fn set(&mut self, config: ControllerConfig) {
        self.kind = Kind::new(config);
        self.policy = Policy::none();
    }

    /// Takes the digest of a packet that crosses the gateway.
    pub fn on_digest(&mut self, digest: &Digest) {
        self.observer.on_digest(digest);
    }

    /// Decides. Times must not go back.
    pub fn tick(&mut self, now: Nanos) -> &Policy {
        match &mut self.kind {
            Kind::None => {}
            Kind::Fixed(config) => config.tick(now, &self.observer, &mut self.policy),
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

    /// The budget of all elastic flows together in bits a second times price, where the controller seeks one.
    pub fn budget(&self) -> Option<f64> {
        match &self.kind {
            Kind::Adaptive(adaptive) if self.policy.state != State::Off => Some(adaptive.budget()),
            Kind::Adaptive(_) | Kind::Fixed(_) | Kind::None => None,
        }
    }

    /// What is known.
    pub const fn observer(&self) -> &Observer {
        &self.observer
    }
}
