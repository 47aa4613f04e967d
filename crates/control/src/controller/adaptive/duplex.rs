//! Meshes whose links carry both directions independently, as wired links and radios with two channels do.
//!
//! Uploads take nothing from downloads there, so each direction has a controller of its own, which sees the flows whose data take
//! that direction and the signals of that direction alone:
//!
//! | direction | its signals |
//! |---|---|
//! | into the mesh | losses that listeners report, the gateway's own queue, and round trips without the delay of the way out |
//! | out of the mesh | losses and delays of calls as they arrive |
//!
//! The delay of the way out is the smallest mean delay of a call's packets. Without calls, nothing shows in which direction a queue
//! is, so that round trips count for both.

use fairhop_model::units::Nanos;

use super::{Adaptive, AdaptiveConfig};
use crate::allocate::OtherRegion;
use crate::digest::Direction;
use crate::flow::Address;
use crate::observer::{CallNow, Observer, Quality};
use crate::policy::{Means, Policy, State, Treatment};

/// A controller for each direction, with its policy.
#[derive(Debug)]
pub(in crate::controller) struct Duplex {
    down: (Adaptive, Policy),
    up: (Adaptive, Policy),
}

impl Duplex {
    pub(in crate::controller) fn new(config: AdaptiveConfig) -> Self {
        let way = |direction| (Adaptive::new(config, Some(direction)), Policy::none());
        Self { down: way(Direction::ToMesh), up: way(Direction::FromMesh) }
    }

    /// See [`Controller::set_weights`](crate::controller::Controller::set_weights).
    pub(in crate::controller) fn set_weights(&mut self, weights: Vec<(Address, f64)>) {
        self.down.0.set_weights(weights.clone());
        self.up.0.set_weights(weights);
    }

    /// See [`Controller::set_regions`](crate::controller::Controller::set_regions).
    pub(in crate::controller) fn set_regions(&mut self, regions: Vec<OtherRegion>) {
        self.down.0.set_regions(regions.clone());
        self.up.0.set_regions(regions);
    }

    pub(in crate::controller) fn tick(
        &mut self,
        now: Nanos,
        observer: &Observer,
        waiting: usize,
        policy: &mut Policy,
    ) {
        let (down, up) = (&mut self.down, &mut self.up);
        (down.1.expires, up.1.expires) = (policy.expires, policy.expires);
        let of_down = down.0.tick(now, observer, waiting, &mut down.1);
        // What waits is data into the mesh.
        let of_up = up.0.tick(now, observer, 0, &mut up.1);
        let (down, up) = (&down.1, &up.1);
        let is_up = match (down.state, up.state) {
            (_, State::Off) => false,
            (State::Off, _) => true,
            _ => of_up > of_down,
        };
        (policy.state, policy.reason) = if is_up { (up.state, up.reason) } else { (down.state, down.reason) };
        (policy.down, policy.interactive, policy.gate) = (down.down, down.interactive, down.gate);
        (policy.down_acks, policy.up_acks) = (down.down_acks, up.up_acks);
        policy.means = if down.means == up.means { down.means } else { Means::Both };
        // The direction of a new flow is not known.
        let window = down.others.window.into_iter().chain(up.others.window).max();
        policy.others = Treatment { window, ..Treatment::default() };
        policy.flows.clear();
        policy.flows.extend(down.flows.iter().chain(&up.flows));
        policy.flows.sort_unstable_by_key(|flow| flow.key);
    }
}

impl Adaptive {
    /// A call with the quality of the streams alone that take this controller's direction. Into the mesh, that is what the listener
    /// reports; its delay is not known, as it is inferred from round trips and from the way out.
    pub(super) fn in_own_direction(&self, call: CallNow) -> CallNow {
        match self.way {
            None => call,
            Some(Direction::ToMesh) => {
                let reported = call.down.filter(|_| call.down_is_reported);
                CallNow {
                    up: None,
                    down: reported.map(|down| Quality { delay: Nanos::ZERO, ..down }),
                    ..call
                }
            }
            Some(Direction::FromMesh) => CallNow { down: None, ..call },
        }
    }
}
