//! What a controller decided at a tick, in short: for views, records and results.

use std::mem;

use fairhop_model::units::{BitRate, Nanos};

use crate::controller::Controller;
use crate::policy::{Means, Reason, State};

/// What a controller asks for, and how calls are, at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Nanos,
    /// State of the controller.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// What enforces the budget.
    pub means: Means,
    /// The budget of all elastic flows in bits per second times price, if the controller seeks one.
    pub budget: Option<f64>,
    /// Pace of elastic data into the mesh.
    pub down: Option<BitRate>,
    /// Pace of what ACKs acknowledge, the slower direction.
    pub acks: Option<BitRate>,
    /// The smallest clamp on a window, in bytes.
    pub window: Option<u32>,
    /// Packets in the pacers.
    pub waiting: u32,
    /// The lowest opinion score of a call over the last second, as the gateway sees it.
    pub mos: Option<f64>,
}

impl Decision {
    /// What `controller` asks for and how calls are now; `waiting` packets are in the pacers.
    pub fn of(controller: &Controller, now: Nanos, waiting: usize) -> Self {
        let policy = controller.policy();
        let windows = policy.flows.iter().map(|flow| flow.treatment.window).chain([policy.others.window]);
        let calls = controller.observer().calls(now, Nanos::from_secs(1));
        Self {
            at: now,
            state: policy.state,
            reason: policy.reason,
            means: policy.means,
            budget: controller.budget(),
            down: policy.down,
            acks: policy.down_acks.into_iter().chain(policy.up_acks).min(),
            window: windows.flatten().min(),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
            mos: calls.filter(|call| !call.is_probe()).filter_map(|call| call.mos()).reduce(f64::min),
        }
    }

    /// Whether state and kind of reason are those of another decision; the figures may differ.
    pub fn is_like(&self, other: &Self) -> bool {
        self.state == other.state && mem::discriminant(&self.reason) == mem::discriminant(&other.reason)
    }
}
