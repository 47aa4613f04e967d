//! Paths for all flows, and whether the network stays connected through its changes.

use fairhop_model::phy::Standard;
use fairhop_model::units::Nanos;

use super::flows::Plan;
use super::wired::hosts;
use super::{SetupError, check_reach};
use crate::engine::Interrupt;
use crate::mac::MacParams;
use crate::packet::NodeId;
use crate::radio::{Links, RadioParams};
use crate::routing::{HopModel, PathFinder, Wires};
use crate::scenario::{self, Change, Finding, Scenario};
use crate::world::applications::flow::Flow;
use crate::world::changes::{both_ways, closed, flows_with_ends, in_order, make};

/// The parts of a network that paths depend on.
#[derive(Clone, Copy)]
pub(super) struct Surrounds<'a> {
    pub(super) links: &'a Links,
    pub(super) wires: &'a Wires,
    pub(super) radio: &'a RadioParams,
    pub(super) mac: &'a MacParams,
}

impl Plan<'_> {
    /// Paths for every flow, both ways, as the network is at the start, and the finder that has found them. Also checks that the network stays
    /// connected through its changes.
    pub(super) fn paths(
        &self,
        around: Surrounds<'_>,
        interrupt: &Interrupt<'_>,
    ) -> Result<(Vec<Vec<u32>>, PathFinder), SetupError> {
        let Surrounds { links, wires, radio, mac } = around;
        let routing = &self.scenario.routing;
        let model = HopModel { links, radio, mac, metric: routing.metric() };
        let closed = closed(self.scenario, self.nodes);
        let mut finder = PathFinder::new(&model, wires, routing, closed, interrupt)?;
        if self.scenario.routing.aodv().is_some() {
            // The protocol looks for paths during the run, and there may be none for a while.
            return Ok((Vec::new(), finder));
        }
        let changes: Vec<_> = in_order(self.scenario).collect();
        let first = changes.first().map_or(Nanos::MAX, |&(_, at, _)| at);
        let found = self.paths_during(&model, &mut finder, (Nanos::ZERO, first), interrupt)?;
        if !changes.is_empty() && !self.scenario.has_mobility() {
            self.check_changes(&changes, around, finder.clone(), interrupt)?;
        }
        Ok((both_ways(found.into_iter()), finder))
    }

    /// The paths of flows. Flows that may send at some time from `during.0` to `during.1` need one.
    fn paths_during(
        &self,
        model: &HopModel<'_>,
        finder: &mut PathFinder,
        during: (Nanos, Nanos),
        interrupt: &Interrupt<'_>,
    ) -> Result<Vec<Vec<u32>>, SetupError> {
        let mut findings = Vec::new();
        // Nodes that move find and lose each other: packets without a route are lost for that reason.
        let required = !self.scenario.has_mobility();
        for (index, path) in self.scenario.routing.paths.iter().enumerate() {
            if let Some(hop) = path.windows(2).find(|hop| required && !model.usable(hop[0], hop[1])) {
                findings.push(Finding::new(
                    format!("routing.paths.{index}"),
                    format!("nodes {} and {} cannot hear each other well enough for a hop", hop[0], hop[1]),
                    "this path does not work",
                    distance_hint(model.links, hop[0], hop[1]),
                ));
            }
        }
        let ends = flows_with_ends(&self.applications.flows).map(|(_, ends)| ends);
        let ends: Vec<_> = ends.chain(self.applications.real.ends.iter().copied()).collect();
        let mut paths = finder.paths(&ends, interrupt)?.into_iter();
        let mut reported = None;
        let mut found = Vec::new();
        for ((flow, _), path) in flows_with_ends(&self.applications.flows).zip(&mut paths) {
            let sends = required && flow.start < during.1 && during.0 < flow.stop;
            if path.is_none() && sends && reported != Some(flow.entry) {
                reported = Some(flow.entry);
                findings.push(self.no_route(flow.entry, flow, model.links));
            }
            if let Some(path) = path.as_deref().filter(|path| path.len() > self.max_path_nodes())
                && sends
                && reported != Some(flow.entry)
            {
                reported = Some(flow.entry);
                findings.push(self.too_long(flow.entry, path));
            }
            found.extend(path);
        }
        // Attached places need no path: real packets without one are lost for that reason.
        found.extend(paths.flatten());
        if findings.is_empty() { Ok(found) } else { Err(findings.into()) }
    }

    /// Whether the network stays connected through its changes.
    fn check_changes(
        &self,
        changes: &[(usize, Nanos, Change)],
        around: Surrounds<'_>,
        mut finder: PathFinder,
        interrupt: &Interrupt<'_>,
    ) -> Result<(), SetupError> {
        let (mut links, mut mac) = (around.links.clone(), around.mac.clone());
        let mut changed = Vec::new();
        for (number, (place, at, change)) in changes.iter().enumerate() {
            interrupt.check()?;
            changed.push(make(change, self.scenario.radio.standard, &mut links, &mut mac));
            let until = changes.get(number + 1).map_or(Nanos::MAX, |&(_, next, _)| next);
            if until == *at {
                continue; // with the next one
            }
            let path = format!("change.{place}");
            check_change(&path, change, &links, around.radio, self.scenario.radio.standard)?;
            let after = |error: SetupError| match error {
                SetupError::Interrupted => error,
                SetupError::Findings(findings) => {
                    let after_change = |finding: Finding| Finding {
                        path: path.clone(),
                        message: format!("after this change, {}", finding.message),
                        ..finding
                    };
                    SetupError::Findings(findings.into_iter().map(after_change).collect())
                }
            };
            check_reach(&links, &mac).map_err(SetupError::from).map_err(after)?;
            let model = HopModel {
                links: &links,
                radio: around.radio,
                mac: &mac,
                metric: self.scenario.routing.metric(),
            };
            finder.update(&model, &changed);
            changed.clear();
            self.paths_during(&model, &mut finder, (*at, until), interrupt).map_err(after)?;
        }
        Ok(())
    }
}

/// Whether a change makes sense among the links that there are then.
fn check_change(
    path: &str,
    change: &Change,
    links: &Links,
    radio: &RadioParams,
    standard: Standard,
) -> Result<(), Vec<Finding>> {
    let at = links.positions();
    let finding = match *change {
        Change::Move { node, .. } => {
            let mut others = (0..at.len()).filter(|&other| other != node as usize);
            let near = |other: &usize| at[node as usize].distance_m(at[*other]) < scenario::MIN_DISTANCE_M;
            others.find(near).map(|other| {
                Finding::new(
                    path,
                    format!("node {node} moves to the place of node {other}"),
                    "taken",
                    "choose another place: path loss has no meaning at distance 0",
                )
            })
        }
        Change::Rate { from, to: Some(to), .. } => check_neighbour(path, (from, to), links, radio, standard),
        Change::Rate { to: None, .. } => None,
    };
    finding.map_or(Ok(()), |finding| Err(vec![finding]))
}

/// Whether the rates of single links are those of neighbours.
pub(super) fn check_link_rates(
    scenario: &Scenario,
    links: &Links,
    radio: &RadioParams,
) -> Result<(), Vec<Finding>> {
    let rates = scenario.radio.rates.iter().enumerate();
    let findings: Vec<Finding> = rates
        .filter_map(|(i, link)| {
            let path = format!("radio.rates.{i}");
            check_neighbour(&path, (link.from, link.to), links, radio, scenario.radio.standard)
        })
        .collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The error of a rate between nodes that are not neighbours: the receiver decodes no frame of the sender at any rate.
fn check_neighbour(
    path: &str,
    (from, to): (u32, u32),
    links: &Links,
    radio: &RadioParams,
    standard: Standard,
) -> Option<Finding> {
    let power = links.between(from as usize, to as usize).map(|link| link.power);
    let decodes = power.is_some_and(|power| standard.rates().iter().any(|&rate| radio.decodes(rate, power)));
    (!decodes).then(|| {
        Finding::new(
            format!("{path}.to"),
            format!("node {to} is not a neighbour of node {from}: it decodes none of its frames at any rate"),
            "not a neighbour",
            distance_hint(links, from, to),
        )
    })
}

impl Plan<'_> {
    /// Nodes and hosts of the longest path that a packet survives: each one between its ends lowers the TTL.
    fn max_path_nodes(&self) -> usize {
        usize::from(self.scenario.routing.ttl) + 1
    }

    fn too_long(&self, entry: usize, path: &[u32]) -> Finding {
        let (hops, ttl) = (path.len() - 1, self.scenario.routing.ttl);
        Finding::new(
            format!("traffic.{entry}.to"),
            format!("the path has {hops} hops, but packets are dropped after {ttl}"),
            "too far",
            if hops <= usize::from(u8::MAX) {
                format!("set `routing.ttl` to {hops} or more, or choose nearer ends")
            } else {
                format!("choose nearer ends: no IP packet survives more than {} hops", u8::MAX)
            },
        )
    }

    /// A flow has no path. The one from or to the Internet misses the way to the gateway.
    fn no_route(&self, entry: usize, flow: &Flow, links: &Links) -> Finding {
        let gateway = self.scenario.topology.gateway();
        let mesh_end = |node: NodeId| {
            if node == self.nodes && self.scenario.internet.is_some() { gateway } else { node }
        };
        let (from, to) = (mesh_end(flow.from), mesh_end(flow.to));
        if from < self.nodes && to < self.nodes {
            return scenario::no_route(entry, from, to, &distance_hint(links, from, to));
        }
        let names = hosts(self.scenario);
        let name = |node: NodeId| match names.get(node.wrapping_sub(self.nodes) as usize) {
            Some(name) if node >= self.nodes => format!("\"{name}\""),
            _ => format!("node {node}"),
        };
        Finding::new(
            format!("traffic.{entry}.to"),
            format!("no route from {} to {}", name(flow.from), name(flow.to)),
            "cannot be reached",
            "join them with `[[wired.links]]`: hosts have no radio and need a link each; radio hops need nodes that hear \
             each other",
        )
    }
}

/// What would bring two nodes together.
fn distance_hint(links: &Links, from: u32, to: u32) -> String {
    let at = links.positions();
    let nearest = |node: u32| {
        (0..at.len())
            .filter(|&other| other != node as usize)
            .map(|other| at[node as usize].distance_m(at[other]))
            .fold(f64::INFINITY, f64::min)
    };
    format!(
        "they are {:.0} m apart; the nearest node to {from} is {:.0} m away, the nearest to {to} {:.0} m; place nodes \
         between them, or raise the reach of the radio (receive_m, tx_power_dbm, or a slower rate_mbps)",
        at[from as usize].distance_m(at[to as usize]),
        nearest(from),
        nearest(to),
    )
}
