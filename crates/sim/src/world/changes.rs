//! What happens to the network while it runs: nodes move, rates change, and routes follow at once.
//!
//! A frame that is on the air is heard by those who heard its beginning: its sender keeps its links until it ends, and
//! everybody else has new ones. Packets that wait for a neighbour go on waiting for it, and packets at a node that no path
//! passes any more take the old way on; if nobody hears them there, they are lost.
//!
//! Left out: the time that a routing protocol takes to notice, and nodes on their way from one place to another.

use fairhop_model::phy::Standard;
use fairhop_model::units::Nanos;

use super::World;
use super::control::crossings;
use super::throttle::{Surroundings, Throttle};
use super::traffic::Flow;
use crate::engine::{Event, EventKind, Interrupt};
use crate::mac::{BROADCAST, MacParams};
use crate::packet::NodeId;
use crate::radio::{Links, Position};
use crate::routing::{HopModel, PathFinder, Wires};
use crate::scenario::{Change, ControlSetting, Scenario};
use crate::wired::Link;

/// The changes of a World.
#[derive(Debug)]
pub(super) struct Changes {
    /// In the order of time.
    planned: Vec<(Nanos, Change)>,
    /// How many have come.
    done: usize,
    /// The links as they are but for those who are on the air, where somebody is.
    coming: Option<Links>,
}

/// The subject of an event for the next change; a greater one is a node and one.
pub(super) const NEXT: u32 = 0;

impl Changes {
    /// The changes of a scenario; none where there are none.
    pub(super) fn new(scenario: &Scenario) -> Option<Box<Self>> {
        let planned: Vec<_> = in_order(scenario).map(|(_, at, change)| (at, change)).collect();
        (!planned.is_empty()).then(|| Box::new(Self { planned, done: 0, coming: None }))
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

/// The wires between nodes and hosts.
pub(super) fn wires(links: &[Link], places: usize) -> Wires {
    let mut wires = Wires::new(places);
    for (direction, link) in links.iter().enumerate() {
        wires.add(link.from(), link.to(), link.delay(), direction as u32);
    }
    wires
}

/// The host that nodes do not reach each other by: that of the Internet, where several gateways lead to it.
pub(super) fn closed(scenario: &Scenario, nodes: NodeId) -> Option<NodeId> {
    (scenario.internet.is_some() && scenario.topology.gateways().len() > 1).then_some(nodes)
}

/// The flows that have two ends, with these.
pub(super) fn flows_with_ends(flows: &[Flow]) -> impl Iterator<Item = (&Flow, (NodeId, NodeId))> {
    flows.iter().filter(|flow| flow.to != BROADCAST).map(|flow| (flow, (flow.from, flow.to)))
}

/// Paths there and back.
pub(super) fn both_ways(paths: impl Iterator<Item = Vec<u32>>) -> Vec<Vec<u32>> {
    paths.flat_map(|path| [path.clone(), path.into_iter().rev().collect()]).collect()
}

impl World {
    /// A change comes, or a frame has ended whose sender has new links.
    pub(super) fn change_event(&mut self, event: Event) {
        let Self { changes: Some(changes), links: now, on_air, .. } = self else { return };
        if let Some(node) = event.subject.checked_sub(NEXT + 1) {
            if let Some(coming) = &changes.coming {
                now.take_from(coming, |other| other == node as usize || on_air.of(other).is_none());
            }
            return;
        }
        if changes.planned.get(changes.done).is_none_or(|(at, _)| *at > event.at) {
            return; // it came with another one of the same time
        }
        let Some(mut changes) = self.changes.take() else { return };
        let standard = self.scenario.radio.standard;
        let mut links = changes.coming.take().unwrap_or_else(|| self.links.clone());
        while let Some((_, change)) = changes.planned.get(changes.done).filter(|(at, _)| *at <= event.at) {
            changes.done += 1;
            make(change, standard, &mut links, &mut self.mac);
        }
        for node in 0..self.stations.len() {
            if let Some(frame) = self.on_air.of(node) {
                let end = frame.end + self.links.longest_delay(node);
                self.events.push(end, EventKind::Change, NEXT + 1 + node as u32);
            }
        }
        let on_air = &self.on_air;
        self.links.take_from(&links, |node| on_air.of(node).is_none());
        self.reroute(&links);
        if let Some(tap) = &mut self.tap {
            tap.network_changed(event.at, &links);
        }
        changes.coming = Some(links);
        self.changes = Some(changes);
    }

    /// Finds all routes anew, and tells those who go by them.
    fn reroute(&mut self, links: &Links) {
        let wires = wires(&self.wired, self.stations.len() + self.hosts.len());
        let routing = &self.scenario.routing;
        let model = HopModel { links, radio: &self.radio, mac: &self.mac, metric: routing.metric };
        let closed = closed(&self.scenario, self.stations.len() as u32);
        let ends: Vec<_> = flows_with_ends(&self.flows).map(|(_, ends)| ends).collect();
        let never = &Interrupt::NEVER;
        let Ok(paths) = PathFinder::new(&model, &wires, routing, closed, never)
            .and_then(|mut finder| finder.paths(&ends, never))
        else {
            return;
        };
        // That all who send by then have one was seen when the World was built.
        let paths = both_ways(paths.into_iter().flatten());
        self.routes.replace(&paths, &wires);
        let Some(control) = self.control.as_deref_mut() else { return };
        for gateway in &mut control.gateways {
            let ends = self.flows.iter().map(|flow| (flow.from, flow.to));
            gateway.set_crossings(crossings(ends, gateway.node(), &self.routes, &self.wired));
        }
        if control.throttle.is_none() {
            return;
        }
        let sessions: Vec<usize> = self.sessions.iter().map(|session| session.transfer).collect();
        let throttle = Throttle::new(&Surroundings {
            scenario: &self.scenario,
            flows: &self.flows,
            transfers: &self.transfers,
            sessions: &sessions,
            routes: &self.routes,
            wired: &self.wired,
            links,
            radio: &self.radio,
            basic: self.mac.basic_rates(),
        });
        let in_force = control.setting().cloned();
        self.stop_throttling();
        if let Some(control) = self.control.as_deref_mut() {
            control.throttle = Some(throttle);
        }
        if let Some(ControlSetting::Throttle { thr_max, calibration }) = in_force {
            self.begin_throttling(&thr_max, calibration);
            self.share_among_flows();
        }
    }
}
