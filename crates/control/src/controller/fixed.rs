//! Configured settings: the window W and the rate R of kim2010, alone or together.

use fairhop_model::units::{BitRate, Nanos};

use crate::observer::{Flow, FlowKind, Observer};
use crate::policy::{Means, Policy, Reason, State, Treatment};

/// A flow that was silent for longer has no part of the common window.
const ACTIVE: Nanos = Nanos::from_secs(2);

/// The settings. With all of them none, it is the same as no control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedConfig {
    /// Clamp on the window of each flow in bytes.
    pub window: Option<u32>,
    /// Clamp on the windows of all TCP flows together, in bytes; divided equally among those that are active.
    pub window_of_all: Option<u32>,
    /// Pace of elastic data into the mesh, all together.
    pub data_rate: Option<BitRate>,
    /// Pace of elastic data into the mesh, per flow.
    pub flow_rate: Option<BitRate>,
    /// Pace of acknowledged bytes, per direction, all flows together.
    pub ack_rate: Option<BitRate>,
}

impl FixedConfig {
    /// Writes the settings into a policy.
    pub(super) fn tick(&self, now: Nanos, observer: &Observer, policy: &mut Policy) {
        let part = self.window_of_all.map(|window| {
            let horizon = now.saturating_sub(ACTIVE);
            let is_tcp = |flow: &Flow| flow.kind(now) == FlowKind::Tcp;
            let flows = observer.active(horizon).filter(|(_, flow)| is_tcp(flow)).count();
            window / flows.max(1) as u32
        });
        // With both, the smaller one holds.
        let window = self.window.into_iter().chain(part).min();
        policy.down = self.data_rate;
        policy.down_acks = self.ack_rate;
        policy.up_acks = self.ack_rate;
        policy.others = Treatment { window, rate: self.flow_rate, ack_rate: None };
        policy.means = match (window.is_some(), self.data_rate.or(self.flow_rate).or(self.ack_rate).is_some())
        {
            (true, false) => Means::Window,
            (false, _) => Means::Pacing,
            (true, true) => Means::Both,
        };
        policy.state = State::Steady;
        policy.reason = Reason::Configured;
    }
}
