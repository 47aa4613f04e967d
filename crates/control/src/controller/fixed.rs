//! Settings that somebody chose: the window W and the rate R of kim2010, each alone or together.

use fairhop_model::units::{BitRate, Nanos};

use crate::observer::{Flow, FlowKind, Observer};
use crate::policy::{Means, Policy, Reason, State, Treatment};

/// A flow that has been silent for longer has no part of a common window.
const ACTIVE: Nanos = Nanos::from_secs(2);

/// The settings; none of them is the same as no control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedConfig {
    /// Clamp on the window of every flow in bytes.
    pub window: Option<u32>,
    /// Clamp on the windows of all TCP flows together, in bytes; each has an equal part of it.
    pub window_of_all: Option<u32>,
    /// Pace of elastic data into the mesh, all together.
    pub data_rate: Option<BitRate>,
    /// Pace of elastic data into the mesh, each flow.
    pub flow_rate: Option<BitRate>,
    /// Pace of what ACKs acknowledge, in either direction, all together.
    pub ack_rate: Option<BitRate>,
}

impl FixedConfig {
    /// Asks for what is configured.
    pub(super) fn tick(&self, now: Nanos, observer: &Observer, policy: &mut Policy) {
        let part = self.window_of_all.map(|window| {
            let horizon = now.saturating_sub(ACTIVE);
            let is_tcp = |flow: &Flow| flow.kind(now) == FlowKind::Tcp;
            let flows = observer.active(horizon).filter(|(_, flow)| is_tcp(flow)).count();
            window / flows.max(1) as u32
        });
        // The smaller of the two, where there are both.
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
