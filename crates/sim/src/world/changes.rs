//! Changes of the network during a run: nodes move, rates change, and routes follow at once.
//!
//! A frame that is on the air keeps its receivers: its sender keeps its links until it ends, and all other nodes have the
//! new ones. A packet that waits for a neighbour goes on waiting for it. A packet at a node that no path passes any more
//! takes the old path on; if no node receives it there, it is lost.
//!
//! Left out: the time that a routing protocol needs to react, and nodes on their way from one place to another.

use fairhop_model::phy::Standard;
use fairhop_model::units::Nanos;

use super::World;
use super::applications::flow::Flow;
use super::throttle::{Surroundings, Throttle};
use crate::engine::Event;
use crate::mac::{BROADCAST, MacParams};
use crate::packet::NodeId;
use crate::radio::{Links, Position};
use crate::routing::PathFinder;
use crate::scenario::{Change, Scenario};

/// The changes of a World.
#[derive(Debug)]
pub(super) struct Changes {
    /// In the order of time.
    planned: Vec<(Nanos, Change)>,
    /// How many have been made.
    done: usize,
}

/// The subject of an event for the next change; `NEXT + 1 + node` stands for the end of a frame of that node.
pub(super) const NEXT: u32 = 0;

impl Changes {
    /// The changes of a scenario; none where there are none.
    pub(super) fn new(scenario: &Scenario) -> Option<Box<Self>> {
        let planned: Vec<_> = in_order(scenario).map(|(_, at, change)| (at, change)).collect();
        (!planned.is_empty()).then(|| Box::new(Self { planned, done: 0 }))
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

/// Makes a change.
pub(super) fn make(change: &Change, standard: Standard, links: &mut Links, mac: &mut MacParams) {
    match *change {
        Change::Move { node, x_m, y_m, .. } => links.move_node(node as usize, Position { x_m, y_m }),
        Change::Rate { from, to, rate_mbps, .. } => {
            if let Some(rate) = standard.rate(rate_mbps) {
                mac.set_rate(from, to, rate);
            }
        }
    }
}

/// The host that nodes do not reach each other by: that of the Internet, where several gateways lead to it.
pub(super) fn closed(scenario: &Scenario, nodes: NodeId) -> Option<NodeId> {
    (scenario.internet.is_some() && scenario.topology.gateways().len() > 1).then_some(nodes)
}

/// The path of every flow that has two ends, and none where there is no way.
pub(super) fn paths<'a>(
    flows: &'a [Flow],
    finder: &'a mut PathFinder<'_>,
) -> impl Iterator<Item = (&'a Flow, Option<Vec<u32>>)> {
    let between = flows.iter().filter(|flow| flow.to != BROADCAST);
    between.map(|flow| (flow, finder.path(flow.from, flow.to)))
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
        if let Some(node) = event.subject.checked_sub(NEXT + 1) {
            return self.mesh.adopt_links(node);
        }
        let Self { changes: Some(changes), mesh, core, scenario, .. } = self else { return };
        let Some(first) = changes.next(event.at) else { return }; // it came with another one of the same time
        let standard = scenario.radio.standard;
        mesh.change(core, NEXT + 1, |links, mac| {
            make(&first, standard, links, mac);
            while let Some(change) = changes.next(event.at) {
                make(&change, standard, links, mac);
            }
        });
        self.reroute();
        if let Some(tap) = &mut self.core.tap {
            tap.network_changed(event.at, self.mesh.current_links());
        }
    }

    /// Finds all routes again, and updates what depends on them.
    fn reroute(&mut self) {
        let Self { scenario, core, mesh, network, applications, control, .. } = self;
        let nodes = mesh.len();
        let wires = network.wires(nodes);
        let mut finder =
            PathFinder::new(mesh.current_links(), &wires, &mesh.radio, &scenario.routing, &mesh.mac)
                .past(closed(scenario, nodes as NodeId));
        // The builder of the World has checked that every flow has a path while it sends.
        let paths = both_ways(paths(&applications.flows, &mut finder).filter_map(|(_, path)| path));
        network.routes.replace(&paths, &wires);
        if let Some(throttle) = control.as_deref_mut().and_then(|control| control.throttle.as_mut()) {
            let new = Throttle::new(Surroundings { scenario, applications, network, mesh });
            throttle.replace(new, core, mesh);
        }
    }
}
