//! Controllers: digests in, policies out.
//!
//! [`Controller::tick`] is due every [`TICK`]. A policy expires after [`VALID`], so that a gateway whose controller hangs
//! behaves as if there were none.

mod adaptive;
mod fixed;

use std::fmt;

use fairhop_model::units::Nanos;

use adaptive::{Adaptive, Duplex};
pub use adaptive::{AdaptiveConfig, Constant, Tuning};
pub use fixed::FixedConfig;

use crate::allocate::OtherRegion;
use crate::digest::Digest;
use crate::flow::{Address, FlowKey};
use crate::network::Network;
use crate::observer::{Observer, ObserverConfig};
use crate::policy::{Policy, State};

/// Time between ticks: several per breakdown of a mesh, which takes under a second.
pub const TICK: Nanos = Nanos::from_millis(100);

/// How long a policy is valid: 20 ticks.
pub const VALID: Nanos = Nanos::from_secs(2);

/// Which controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "plain data, made once a run")]
pub enum ControllerConfig {
    /// Observes, and asks for nothing.
    #[default]
    None,
    /// Configured settings.
    Fixed(FixedConfig),
    /// Finds its settings at run time.
    Adaptive(AdaptiveConfig),
}

/// A controller from outside this crate, for studies: see [`Controller::set_custom`].
pub trait CustomController: fmt::Debug + Send {
    /// Changes the policy at `now` by what the observer knows; `waiting` packets wait in the pacer. The last policy stays
    /// in force where it changes nothing. Due every [`TICK`].
    fn tick(&mut self, now: Nanos, observer: &Observer, waiting: usize, policy: &mut Policy);
}

#[derive(Debug)]
enum Kind {
    None,
    Fixed(FixedConfig),
    Adaptive(Box<Adaptive>),
    Duplex(Box<Duplex>),
    Custom(Box<dyn CustomController>),
}

impl Kind {
    fn new(config: ControllerConfig) -> Self {
        match config {
            ControllerConfig::None => Self::None,
            ControllerConfig::Fixed(fixed) => Self::Fixed(fixed),
            ControllerConfig::Adaptive(config) if config.duplex => {
                Self::Duplex(Box::new(Duplex::new(config)))
            }
            ControllerConfig::Adaptive(config) => Self::Adaptive(Box::new(Adaptive::new(config, None))),
        }
    }
}

/// An observer, and the policy that follows from it.
#[derive(Debug)]
pub struct Controller {
    observer: Observer,
    kind: Kind,
    policy: Policy,
}

impl Controller {
    /// A controller that has seen no packet.
    pub fn new(observer: ObserverConfig, config: ControllerConfig) -> Self {
        Self { observer: Observer::new(observer), kind: Kind::new(config), policy: Policy::none() }
    }

    /// Replaces the controller. The observer keeps the flows; what the old controller has found and its policy are dropped.
    /// A custom controller stays.
    pub fn set(&mut self, config: ControllerConfig) {
        if self.is_custom() {
            return;
        }
        self.kind = Kind::new(config);
        self.policy = Policy::none();
    }

    /// Lets a controller from outside this crate decide from now on, in place of every configured one.
    pub fn set_custom(&mut self, custom: Box<dyn CustomController>) {
        self.kind = Kind::Custom(custom);
        self.policy = Policy::none();
    }

    /// Whether a controller from outside this crate decides.
    pub const fn is_custom(&self) -> bool {
        matches!(self.kind, Kind::Custom(_))
    }

    /// Lets an adaptive controller begin at a budget that was found before, in bits per second times price, instead of
    /// looking for it. If elastic traffic comes within a minute, the budget is held near that value. Other controllers
    /// ignore it, those with a budget for each direction as well.
    pub fn begin_at(&mut self, now: Nanos, budget: f64) {
        if let Kind::Adaptive(adaptive) = &mut self.kind {
            adaptive.begin_at(now, budget);
        }
    }

    /// Sets the weights of the flows of mesh hosts that do not have 1, in place of those before. Only adaptive controllers
    /// share by weights.
    pub fn set_weights(&mut self, weights: Vec<(Address, f64)>) {
        match &mut self.kind {
            Kind::Adaptive(adaptive) => adaptive.set_weights(weights),
            Kind::Duplex(duplex) => duplex.set_weights(weights),
            Kind::None | Kind::Fixed(_) | Kind::Custom(_) => {}
        }
    }

    /// Sets the regions besides the gateway's that are known, in place of those before. Only adaptive controllers share by them.
    pub fn set_regions(&mut self, regions: Vec<OtherRegion>) {
        match &mut self.kind {
            Kind::Adaptive(adaptive) => adaptive.set_regions(regions),
            Kind::Duplex(duplex) => duplex.set_regions(regions),
            Kind::None | Kind::Fixed(_) | Kind::Custom(_) => {}
        }
    }

    /// See [`Observer::set_local`].
    pub fn set_local(&mut self, local: Vec<Network>) {
        self.observer.set_local(local);
    }

    /// Takes the digest of a packet that crosses the gateway.
    pub fn on_digest(&mut self, digest: &Digest) {
        self.observer.on_digest(digest);
    }

    /// See [`Observer::on_blind`].
    pub fn on_blind(&mut self) {
        self.observer.on_blind();
    }

    /// See [`Observer::on_held`].
    pub fn on_held(&mut self, now: Nanos, key: &FlowKey) {
        self.observer.on_held(now, key);
    }

    /// See [`Observer::on_own_queue`].
    pub fn on_own_queue(&mut self, now: Nanos, packets: u32) {
        self.observer.on_own_queue(now, packets);
    }

    /// See [`Observer::on_own_drop`].
    pub fn on_own_drop(&mut self, now: Nanos) {
        self.observer.on_own_drop(now);
    }

    /// Makes a policy. `waiting` elastic packets wait in the pacer: more is wanted than the last policy lets pass. Times must
    /// not go back.
    pub fn tick(&mut self, now: Nanos, waiting: usize) -> &Policy {
        self.observer.survey(now);
        match &mut self.kind {
            Kind::None => {}
            Kind::Fixed(config) => config.tick(now, &self.observer, &mut self.policy),
            Kind::Adaptive(adaptive) => {
                adaptive.tick(now, &self.observer, waiting, &mut self.policy);
            }
            Kind::Duplex(duplex) => duplex.tick(now, &self.observer, waiting, &mut self.policy),
            Kind::Custom(custom) => custom.tick(now, &self.observer, waiting, &mut self.policy),
        }
        if !matches!(self.kind, Kind::None) {
            self.policy.at = now;
            self.policy.expires = now.saturating_add(VALID);
        }
        &self.policy
    }

    /// The last policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The budget of all elastic flows in bits per second times price, if the controller seeks one. A controller
    /// with a budget for each direction has none.
    pub fn budget(&self) -> Option<f64> {
        match &self.kind {
            Kind::Adaptive(adaptive) if self.policy.state != State::Off => Some(adaptive.budget()),
            Kind::Adaptive(_) | Kind::Duplex(_) | Kind::Fixed(_) | Kind::Custom(_) | Kind::None => None,
        }
    }

    /// The observer.
    pub const fn observer(&self) -> &Observer {
        &self.observer
    }
}
