//! Control of a network: gateways ([`super::gateway`]) and throttles ([`super::throttle`]), and the stages of a scenario in
//! which they change.
//!
//! Each of several gateways has its own observer, controller and actuators, and sees only the packets that cross it.

use fairhop_control::controller::{CustomController, TICK};
use fairhop_control::{Controller, Decision, ObserverConfig};
use fairhop_model::units::Nanos;

use super::World;
use super::applications::real::SECOND;
use super::gateway::Gateway;
use super::mesh::Mesh;
use super::throttle::Throttle;
use crate::engine::{Event, EventKind};
use crate::headers::Addresses;
use crate::packet::NodeId;
use crate::scenario::{ControlSetting, Scenario};

/// Flows that a gateway knows at a time beyond those of the scenario: sessions open one connection after the other.
const SPARE_FLOWS: usize = 64;

/// Flows that a gateway knows at a time beyond those where real programs send.
const REAL_FLOWS: usize = 256;

/// Decisions of this many seconds are kept before memory has to grow.
const LOGGED_S: f64 = 10_000.0;

/// All control of a World.
#[derive(Debug)]
pub struct Control {
    /// Start, name and setting of each stage.
    stages: Vec<(Nanos, &'static str, ControlSetting)>,
    /// How many of them have begun.
    begun: usize,
    next_tick: Nanos,
    gateways: Vec<Gateway>,
    pub(super) throttle: Option<Throttle>,
    decisions: Vec<Decided>,
}

/// What a controller asked for at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decided {
    /// At which gateway.
    pub gateway: NodeId,
    /// The kind of control, as in the scenario.
    pub kind: &'static str,
    /// What it asked for; packets in shapers are among those that wait.
    pub decision: Decision,
}

impl Control {
    /// The control of a scenario; none where it has none, or none outside the stations' queues.
    pub(super) fn new(scenario: &Scenario, addresses: Addresses, throttle: Throttle) -> Option<Box<Self>> {
        let control = scenario.control.as_ref()?;
        let stages: Vec<_> = control
            .stages()
            .into_iter()
            .map(|(from_s, kind, setting)| (Nanos::from_secs_f64(from_s), kind, setting))
            .collect();
        let at_gateway =
            stages.iter().any(|(_, _, setting)| matches!(setting, ControlSetting::Gateway { .. }));
        let throttles =
            stages.iter().any(|(_, _, setting)| matches!(setting, ControlSetting::Throttle { .. }));
        if stages.iter().all(|(_, _, setting)| *setting == ControlSetting::Priority) {
            return None; // the queues of stations do it
        }
        let flows = scenario.traffic.iter().map(|entry| entry.count() as usize).sum::<usize>();
        let observer = ObserverConfig {
            flows: 4 * flows + SPARE_FLOWS + if scenario.attachments().is_empty() { 0 } else { REAL_FLOWS },
            playout: Nanos::from_millis_f64(scenario.voice.playout_ms),
            ..ObserverConfig::default()
        };
        let nodes = scenario.topology.gateways().iter().filter(|_| at_gateway);
        let gateways: Vec<Gateway> =
            nodes.zip(0..).map(|(&node, index)| Gateway::new(node, index, addresses, observer)).collect();
        let next_tick = if at_gateway { TICK } else { Nanos::MAX };
        let throttle = throttles.then_some(throttle);
        let ticks = (scenario.duration_s.min(LOGGED_S) / TICK.as_secs_f64()) as usize + 2;
        let decisions = Vec::with_capacity(ticks * gateways.len());
        Some(Box::new(Self { stages, begun: 0, next_tick, gateways, throttle, decisions }))
    }

    /// When something is due next; [`Nanos::MAX`] is never.
    pub(super) fn next_time(&self) -> Nanos {
        let stage = self.stages.get(self.begun).map_or(Nanos::MAX, |(from, ..)| *from);
        let flows = self.throttle.as_ref().map_or(Nanos::MAX, Throttle::next_change);
        stage.min(self.next_tick).min(flows)
    }

    /// The setting of the next stage, if it begins now.
    fn begin_stage(&mut self, now: Nanos) -> Option<ControlSetting> {
        let (from, _, setting) = self.stages.get(self.begun)?;
        if *from > now {
            return None;
        }
        self.begun += 1;
        Some(setting.clone())
    }

    /// Lets the controllers decide, where a tick is due.
    fn tick(&mut self, now: Nanos, mesh: &Mesh) -> bool {
        if self.next_tick > now {
            return false;
        }
        self.next_tick = now + TICK;
        let kind = self.kind();
        for gateway in &mut self.gateways {
            gateway.tick(now, mesh.backlog(gateway.node() as usize));
            let decision = gateway.decision(now);
            self.decisions.push(Decided { gateway: gateway.node(), kind, decision });
        }
        true
    }

    /// The gateway at a node.
    #[inline]
    pub(super) fn gateway_at(&self, node: NodeId) -> Option<usize> {
        self.gateways.iter().position(|gateway| gateway.node() == node)
    }

    /// The queue of a station has dropped a packet of voice.
    #[cold]
    pub(super) fn own_drop(&mut self, node: NodeId, now: Nanos) {
        if let Some(index) = self.gateway_at(node) {
            self.gateways[index].own_drop(now);
        }
    }

    pub(super) fn gateway_mut(&mut self, index: usize) -> &mut Gateway {
        &mut self.gateways[index]
    }

    /// The kind in force, as in the scenario; `custom` for controllers from outside.
    pub fn kind(&self) -> &'static str {
        if self.gateways.iter().any(|gateway| gateway.controller().is_custom()) {
            return "custom";
        }
        self.begun.checked_sub(1).map_or("none", |last| self.stages[last].1)
    }

    /// What the controllers asked for, tick by tick, at every tick in the order of the gateways.
    pub fn decisions(&self) -> &[Decided] {
        &self.decisions
    }

    /// The controller of the first gateway, where there is one.
    pub fn controller(&self) -> Option<&Controller> {
        self.gateways.first().map(Gateway::controller)
    }

    /// The nodes of the gateways under control, and how many packets their full pacers and shapers have dropped.
    pub fn gateways(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.gateways.iter().map(|gateway| (gateway.node(), gateway.dropped()))
    }

    /// Packets that full pacers and shapers of all gateways have dropped.
    pub fn dropped(&self) -> u64 {
        self.gateways.iter().map(Gateway::dropped).sum()
    }
}

impl World {
    /// The control of the scenario; none where it has none, or none outside the stations' queues.
    pub fn control(&self) -> Option<&Control> {
        self.control.as_deref()
    }

    /// Lets controllers from outside decide at all gateways, in place of the scenario's; `make` gives one for each gateway.
    /// The pacers and their queues are those of the scenario's control. Returns whether there is a gateway under control.
    pub fn set_controllers(&mut self, mut make: impl FnMut(NodeId) -> Box<dyn CustomController>) -> bool {
        let Some(control) = self.control.as_deref_mut() else { return false };
        for gateway in &mut control.gateways {
            gateway.set_custom(make(gateway.node()));
        }
        !control.gateways.is_empty()
    }

    /// Sends on what may leave the pacers and shapers of a gateway now.
    pub(super) fn poll_gateway(&mut self, index: usize) {
        while let Some(control) = &mut self.control
            && let gateway = control.gateway_mut(index)
            && let node = gateway.node()
            && let Some(image) = gateway.poll(&mut self.core, self.mesh.backlog(node as usize))
        {
            self.send_on(node, image);
        }
    }

    fn poll_gateways(&mut self) {
        for index in 0..self.control.as_deref().map_or(0, |control| control.gateways.len()) {
            self.poll_gateway(index);
        }
    }

    /// An event of the timer of a gateway's pacers.
    pub(super) fn pace_timer(&mut self, event: Event) {
        let index = event.subject as usize;
        if let Some(control) = &mut self.control
            && control.gateway_mut(index).fires(&mut self.core, event)
        {
            self.poll_gateway(index);
        }
    }

    /// A tick, the start of a stage, or the start or end of a throttled flow.
    pub(super) fn control_event(&mut self) {
        let now = self.core.now();
        while let Some(setting) = self.control.as_deref_mut().and_then(|control| control.begin_stage(now)) {
            self.begin_stage(&setting);
        }
        let Self { control: Some(control), core, mesh, applications, .. } = self else { return };
        if let Some(throttle) = &mut control.throttle {
            throttle.update_shares(core, mesh);
        }
        if control.tick(now, mesh) {
            if now >= core.recorder.warmup + SECOND && now.0.is_multiple_of(SECOND.0) {
                for gateway in &control.gateways {
                    applications.real.judge(gateway.controller().observer().calls(now, SECOND));
                }
            }
            self.poll_gateways();
        }
        let Self { control: Some(control), core, .. } = self else { return };
        let next = control.next_time();
        if next <= self.end {
            core.events.push(next.max(now), EventKind::Control, 0);
        }
    }

    /// Ends the control in force, whose packets go on at once, and begins another one.
    fn begin_stage(&mut self, setting: &ControlSetting) {
        let Self { control: Some(control), .. } = self else { return };
        control.gateways.iter_mut().for_each(Gateway::release);
        self.poll_gateways();
        let Self { control: Some(control), core, mesh, seed, .. } = self else { return };
        let Control { gateways, throttle, .. } = &mut **control;
        gateways.iter_mut().for_each(Gateway::remove_shapers);
        if let Some(throttle) = throttle {
            throttle.stop(core, mesh);
        }
        match setting {
            ControlSetting::Gateway { config, pacer, shaper } => {
                for gateway in gateways {
                    gateway.set(core.now(), *config, *pacer, shaper.as_ref(), *seed);
                }
            }
            ControlSetting::Throttle { thr_max, calibration } => {
                if let Some(throttle) = throttle {
                    throttle.begin(thr_max, *calibration);
                }
            }
            ControlSetting::Priority => {}
        }
    }
}
