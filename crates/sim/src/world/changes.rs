//! Changes of the network during a run: nodes move, rates change, and routes follow at once.
//!
//! A frame that is on the air keeps its receivers: its sender keeps its links until it ends, and all other nodes have the
//! new ones. A packet that waits for a neighbour goes on waiting for it. A packet at a node that no path passes any more
//! takes the old path on; if no node receives it there, it is lost.
//!
//! Where nodes move, links are those of the exact places at the start of each frame ([`Moving`](crate::radio::Moving));
//! routes follow at intervals (`mobility.route_interval_s`), and only if a hop has appeared or vanished since.
//!
//! Left out: the time that a routing protocol needs to react.

use fairhop_model::phy::Standard;
use fairhop_model::units::Nanos;

use super::World;
use super::applications::flow::{Flow, FlowKind};
use super::throttle::{Surroundings, Throttle};
use crate::engine::{Event, EventKind, Interrupt};
use crate::mac::{BROADCAST, MacParams};
use crate::packet::NodeId;
use crate::radio::{Links, Position};
use crate::routing::{HopModel, PathFinder};
use crate::scenario::{Change, Scenario};

/// The changes of a World.
#[derive(Debug)]
pub(super) struct Changes {
    /// In the order of time.
    planned: Vec<(Nanos, Change)>,
    /// How many have been made.
    done: usize,
    /// How often routes follow nodes that move.
    interval: Option<Nanos>,
    /// Knows the paths as they are, so that a change costs no more than the paths that it affects.
    finder: PathFinder,
}

/// The subject of an event for the next change.
pub(super) const NEXT: u32 = 0;
/// The subject of an event at which routes follow the nodes that move.
pub(super) const FOLLOW: u32 = 1;
/// `FRAMES + node` is the subject of the end of a frame of that node.
const FRAMES: u32 = 2;

impl Changes {
    /// The changes of a scenario; none where nothing changes and no node moves.
    pub(super) fn new(scenario: &Scenario, finder: PathFinder) -> Option<Box<Self>> {
        let planned: Vec<_> = in_order(scenario).map(|(_, at, change)| (at, change)).collect();
        let interval = scenario.has_mobility().then(|| scenario.route_interval());
        (!planned.is_empty() || interval.is_some())
            .then(|| Box::new(Self { planned, done: 0, interval, finder }))
    }

    /// How often routes follow nodes that move; none where no node moves.
    pub(super) fn interval(&self) -> Option<Nanos> {
        self.interval
    }

    /// When they come.
    pub(super) fn times(&self) -> impl Iterator<Item = Nanos> {
        self.planned.iter().map(|&(at, _)| at)
    }
}

/// The changes of a scenario in the order of time, with their places in it.
pub(super) fn in_order(scenario: &Scenario) -> impl Iterator<Item = (usize, Nanos, Change)> {
    let mut changes: Vec<_> = scenario
        .change
        .iter()
        .enumerate()
        .map(|(place, change)| (place, Nanos::from_secs_f64(change.at_s()), *change))
        .collect();
    changes.sort_by_key(|&(_, at, _)| at);
    changes.into_iter()
}

/// Makes a change. The result is the node whose links or rates it changes.
pub(super) fn make(change: &Change, standard: Standard, links: &mut Links, mac: &mut MacParams) -> NodeId {
    match *change {
        Change::Move { node, x_m, y_m, .. } => {
            links.move_node(node as usize, Position { x_m, y_m });
            node
        }
        Change::Rate { from, to, rate_mbps, .. } => {
            if let Some(rate) = standard.rate(rate_mbps) {
                mac.set_rate(from, to, rate);
            }
            from
        }
    }
}

/// The host that nodes do not reach each other by: that of the Internet, where several gateways lead to it.
pub(super) fn closed(scenario: &Scenario, nodes: NodeId) -> Option<NodeId> {
    (scenario.internet.is_some() && scenario.topology.gateways().len() > 1).then_some(nodes)
}

/// The simulated flows that have two ends, with these. Those of real flows are [`RealFlows`](super::applications::RealFlows)'s.
pub(super) fn flows_with_ends(flows: &[Flow]) -> impl Iterator<Item = (&Flow, (NodeId, NodeId))> {
    let is_real = |flow: &Flow| matches!(flow.kind, FlowKind::Real(_));
    flows
        .iter()
        .filter(move |flow| flow.to != BROADCAST && !is_real(flow))
        .map(|flow| (flow, (flow.from, flow.to)))
}

/// Paths there and back.
pub(super) fn both_ways(paths: impl Iterator<Item = Vec<u32>>) -> Vec<Vec<u32>> {
    paths.flat_map(|path| [path.clone(), path.into_iter().rev().collect()]).collect()
}

impl Changes {
    /// The next change, if its time has come.
    fn next(&mut self, now: Nanos) -> Option<Change> {
        let (_, change) = self.planned.get(self.done).filter(|(at, _)| *at <= now)?;
        self.done += 1;
        Some(*change)
    }
}

impl World {
    /// A change is due, or a frame has ended whose sender takes new links.
    pub(super) fn change_event(&mut self, event: Event) {
        if event.subject == FOLLOW {
            return self.follow(event.at);
        }
        if let Some(node) = event.subject.checked_sub(FRAMES) {
            return self.mesh.adopt_links(node);
        }
        let Self { changes: Some(changes), mesh, core, scenario, .. } = self else { return };
        let mut changed = Vec::new();
        let standard = scenario.radio.standard;
        let Some(first) = changes.next(event.at) else { return }; // it came with another one of the same time
        mesh.change(core, FRAMES, |links, mac| {
            changed.push(make(&first, standard, links, mac));
            while let Some(change) = changes.next(event.at) {
                changed.push(make(&change, standard, links, mac));
            }
        });
        if self.mesh.is_moving() {
            self.mesh.follow(event.at);
            self.reroute_all();
        } else {
            self.reroute(&changed);
        }
        if let Some(tap) = &mut self.core.tap {
            tap.network_changed(event.at, self.mesh.current_links());
        }
    }

    /// Routes, shares and taps follow the nodes that move.
    fn follow(&mut self, now: Nanos) {
        let has_flows = flows_with_ends(&self.applications.flows).next().is_some()
            || !self.applications.real.ends.is_empty();
        if self.core.tap.is_some() || has_flows && self.network.overlay.is_none() {
            self.mesh.follow(now);
            self.reroute_all();
        }
        if let Some(tap) = &mut self.core.tap {
            tap.network_changed(now, self.mesh.current_links());
        }
        let Some(interval) = self.changes.as_ref().and_then(|changes| changes.interval) else { return };
        let next = now.saturating_add(interval);
        if next <= self.end {
            self.core.events.push(next, EventKind::Change, FOLLOW);
        }
    }

    /// Finds all routes again if hops have appeared or vanished. A flow without a path has no route until it has one again.
    fn reroute_all(&mut self) {
        let Self { scenario, core, mesh, network, applications, control, changes, .. } = self;
        if network.overlay.is_some() {
            return; // the protocol notices for itself
        }
        let Some(Changes { finder, .. }) = changes.as_deref_mut() else { return };
        if network.overlay.is_some() {
            return; // the protocol notices for itself
        }
        let metric = scenario.routing.metric();
        let model = HopModel { links: mesh.current_links(), radio: &mesh.radio, mac: &mesh.mac, metric };
        let throttle = control.as_deref_mut().and_then(|control| control.throttle.as_mut());
        if !finder.renew(&model) {
            if let Some(throttle) = throttle {
                throttle.compute_shares(core, mesh);
            }
            return;
        }
        let ends = flows_with_ends(&applications.flows).map(|(_, ends)| ends);
        let ends: Vec<_> = ends.chain(applications.real.ends.iter().copied()).collect();
        let Ok(found) = finder.paths(&ends, &Interrupt::NEVER) else { return };
        for (&(from, to), _) in ends.iter().zip(&found).filter(|(_, path)| path.is_none()) {
            network.routes.remove(from, to);
            network.routes.remove(to, from);
        }
        let paths = both_ways(found.into_iter().flatten());
        network.routes.replace(&paths, &network.wires(mesh.len()));
        if let Some(throttle) = throttle {
            let new = Throttle::new(Surroundings { scenario, applications, network, mesh });
            throttle.replace(new, core, mesh);
        }
    }

    /// Finds the routes again that the changed nodes affect, and updates what depends on them.
    fn reroute(&mut self, changed: &[NodeId]) {
        let Self { scenario, core, mesh, network, applications, control, changes, .. } = self;
        let Some(Changes { finder, .. }) = changes.as_deref_mut() else { return };
        if network.overlay.is_some() {
            return; // the protocol notices for itself
        }
        let metric = scenario.routing.metric();
        let model = HopModel { links: mesh.current_links(), radio: &mesh.radio, mac: &mesh.mac, metric };
        finder.update(&model, changed);
        let ends = flows_with_ends(&applications.flows).map(|(_, ends)| ends);
        let ends: Vec<_> = ends.chain(applications.real.ends.iter().copied()).collect();
        let Ok(paths) = finder.paths(&ends, &Interrupt::NEVER) else { return };
        // The builder of the World has checked that every flow has a path while it sends.
        let paths = both_ways(paths.into_iter().flatten());
        network.routes.replace(&paths, &network.wires(mesh.len()));
        if let Some(throttle) = control.as_deref_mut().and_then(|control| control.throttle.as_mut()) {
            let new = Throttle::new(Surroundings { scenario, applications, network, mesh });
            throttle.replace(new, core, mesh);
        }
    }
}
