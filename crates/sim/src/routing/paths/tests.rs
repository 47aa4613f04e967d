//! Paths against a plain search, and after changes against a new finder.

use proptest::prelude::*;

use super::*;
use crate::engine::Interrupted;
use crate::mac::MacParams;
use crate::radio::{Links, RadioParams};
use crate::scenario::{Mac, Metric, Propagation, Radio, Reception};
use fairhop_model::phy::{Phy, Rate};

/// A network and what a finder needs to know of it.
#[derive(Clone)]
struct Network {
    links: Links,
    radio: RadioParams,
    mac: MacParams,
    wires: Wires,
    routing: Routing,
    closed: Option<u32>,
}

/// Nodes at positions, and hosts after them. Wires join any two of these, both ways, with a delay each.
#[derive(Clone, Debug)]
struct Plan {
    nodes: Vec<(f64, f64)>,
    metric: Metric,
    hosts: usize,
    wires: Vec<(prop::sample::Index, prop::sample::Index, u64, u64)>,
    closed: bool,
    model: usize,
}

/// Positions on a lattice, where many paths cost the same, or anywhere.
fn plan() -> impl Strategy<Value = Plan> {
    let lattice = (0..9u8, 0..9u8).prop_map(|(x, y)| (f64::from(x) * 120.0, f64::from(y) * 120.0));
    let anywhere = (0.0..1500.0, 0.0..1500.0);
    let nodes = prop_oneof![
        prop::collection::hash_set((0..9u8, 0..9u8), 2..30).prop_map(|set| {
            let mut nodes: Vec<_> = set.into_iter().collect();
            nodes.sort_unstable();
            nodes.into_iter().map(|(x, y)| (f64::from(x) * 120.0, f64::from(y) * 120.0)).collect()
        }),
        prop::collection::vec(anywhere, 2..30),
        prop::collection::vec(lattice, 2..6),
    ];
    let wire = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u64, 0..3u64);
    (nodes, any::<bool>(), 0..4usize, prop::collection::vec(wire, 0..5), any::<bool>(), 0..3usize).prop_map(
        |(nodes, etx, hosts, wires, closed, model)| {
            let metric = if etx { Metric::Etx } else { Metric::Hops };
            Plan { nodes, metric, hosts, wires, closed, model }
        },
    )
}

impl Plan {
    fn network(&self) -> Network {
        let nodes = self.nodes.len();
        let loss = |from: usize, to: usize| 88.0 + ((from * 7 + to * 13) % 11) as f64;
        let matrix = (0..nodes).map(|from| (0..nodes).map(|to| loss(from, to)).collect()).collect();
        let radio = match self.model {
            0 => Radio::default(),
            1 => Radio {
                reception: Reception::Sinr,
                propagation: Propagation::LogDistance {
                    exponent: 3.0,
                    reference_loss_db: 40.0,
                    reference_m: 1.0,
                    shadowing_db: 4.0,
                },
                ..Radio::default()
            },
            // Not symmetric: an attempt may succeed in one direction only.
            _ => Radio {
                reception: Reception::Sinr,
                propagation: Propagation::Matrix { loss_db: matrix },
                ..Radio::default()
            },
        };
        let params = RadioParams::new(&radio);
        let at = self.nodes.iter().map(|&(x_m, y_m)| Position { x_m, y_m }).collect();
        let links = Links::new(&radio.propagation, &params, 1, at, &Interrupt::NEVER).expect("few links");
        let mac = MacParams::new(
            Phy::new(radio.standard, radio.preamble),
            &Mac::default(),
            Rate::Ofdm12,
            &[Rate::Ofdm6],
        );
        let places = nodes + self.hosts;
        let mut wires = Wires::new(places);
        for (direction, (from, to, there, back)) in self.wires.iter().enumerate() {
            let (from, to) = (from.index(places) as u32, to.index(places) as u32);
            if from != to && wires.direction(from, to).is_none() {
                wires.add(from, to, Nanos(*there), 2 * direction as u32);
                wires.add(to, from, Nanos(*back), 2 * direction as u32 + 1);
            }
        }
        let closed = (self.closed && self.hosts > 0).then_some(nodes as u32);
        let routing = Routing { metric: Some(self.metric), ..Routing::default() };
        Network { links, radio: params, mac, wires, routing, closed }
    }
}

impl Network {
    fn model(&self) -> HopModel<'_> {
        let Self { links, radio, mac, routing, .. } = self;
        HopModel { links, radio, mac, metric: routing.metric() }
    }

    fn finder(&self) -> PathFinder {
        let never = &Interrupt::NEVER;
        PathFinder::new(&self.model(), &self.wires, &self.routing, self.closed, never).expect("no interrupt")
    }

    fn all_ends(&self) -> Vec<(u32, u32)> {
        let places = self.wires.places() as u32;
        (0..places).flat_map(|a| (0..places).map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
    }

    /// Dijkstra's algorithm without any shortcut, from `start`; the first predecessor in the order of cost and number
    /// counts.
    fn reference_search(&self, start: u32, goal: u32, over: Over) -> Option<Vec<u32>> {
        let model = self.model();
        let nodes = self.links.positions().len();
        let mut best = vec![(UNREACHED, u32::MAX); self.wires.places()];
        let mut open = vec![((0, 0, 0), start)];
        best[start as usize].0 = (0, 0, 0);
        while let Some(index) = (0..open.len()).min_by_key(|&index| open[index]) {
            let (cost, node) = open.swap_remove(index);
            let between_nodes = (start.max(goal) as usize) < nodes;
            if cost > best[node as usize].0 || (self.closed == Some(node) && between_nodes) {
                continue;
            }
            let mut reach = |to: u32, cost: Cost| {
                if cost < best[to as usize].0 {
                    best[to as usize] = (cost, node);
                    open.push((cost, to));
                }
            };
            if (node as usize) < nodes {
                for link in self.links.from(node as usize) {
                    let at = self.links.positions();
                    let mm = (at[node as usize].distance_m(at[link.to as usize]) * 1000.0).round();
                    if self.links.between(link.to as usize, node as usize).is_some()
                        && let Some(hop) = model.cost(node, link)
                    {
                        reach(link.to, (cost.0 + u64::from(hop), cost.1, cost.2 + mm as u64));
                    }
                }
            }
            if over == Over::RadioAndWires {
                for &(to, delay, _) in &self.wires.from[node as usize] {
                    reach(to, (cost.0, cost.1 + delay.0, cost.2 + 1));
                }
            }
        }
        let mut path = vec![goal];
        while path.last() != Some(&start) {
            let from = best[*path.last()? as usize].1;
            if from == u32::MAX {
                return None;
            }
            path.push(from);
        }
        path.reverse();
        Some(path)
    }

    fn reference_radio(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let mut path = self.reference_search(from.min(to), from.max(to), Over::Radio)?;
        if path[0] != from {
            path.reverse();
        }
        Some(path)
    }

    fn reference(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        if self.wires.from.iter().all(Vec::is_empty) {
            return self.reference_radio(from, to);
        }
        let path = self.reference_search(from, to, Over::RadioAndWires)?;
        let mut whole = vec![from];
        let mut at = 0;
        while at + 1 < path.len() {
            let end = (at + 1..path.len()).find(|&end| {
                end + 1 == path.len() || self.wires.direction(path[end], path[end + 1]).is_some()
            })?;
            if self.wires.direction(path[at], path[at + 1]).is_some() {
                whole.push(path[at + 1]);
                at += 1;
            } else {
                whole.extend(&self.reference_radio(path[at], path[end])?[1..]);
                at = end;
            }
        }
        Some(whole)
    }
}

proptest! {
    #[test]
    fn paths_are_those_of_a_plain_search_whether_found_alone_or_together(plan in plan()) {
        let network = plan.network();
        let ends = network.all_ends();
        let together = network.finder().paths(&ends, &Interrupt::NEVER).expect("no interrupt");
        let mut alone = network.finder();
        for (&(from, to), path) in ends.iter().zip(together) {
            prop_assert_eq!(&path, &network.reference(from, to), "{} to {}", from, to);
            let single = alone.paths(&[(from, to)], &Interrupt::NEVER).expect("no interrupt");
            prop_assert_eq!(&single[0], &path, "{} to {} alone", from, to);
        }
    }

    #[test]
    fn paths_after_changes_are_those_of_a_new_finder(
        plan in plan(),
        changes in prop::collection::vec(
            prop::collection::vec(
                (any::<prop::sample::Index>(), prop::option::of((0.0..1500.0, 0.0..1500.0)), any::<bool>()), 1..3),
            1..6),
    ) {
        let mut network = plan.network();
        let nodes = plan.nodes.len();
        let ends = network.all_ends();
        let mut finder = network.finder();
        finder.paths(&ends, &Interrupt::NEVER).expect("no interrupt");
        for step in changes {
            let mut changed = Vec::new();
            for (node, to, slow) in step {
                let node = node.index(nodes);
                changed.push(node as u32);
                match to {
                    Some((x_m, y_m)) => {
                        network.links.move_node(node, Position { x_m, y_m });
                    }
                    None => {
                        let rate = if slow { Rate::Ofdm6 } else { Rate::Ofdm54 };
                        network.mac.set_rate(node as u32, None, rate);
                    }
                }
            }
            finder.update(&network.model(), &changed);
            let updated = finder.paths(&ends, &Interrupt::NEVER).expect("no interrupt");
            let fresh = network.finder().paths(&ends, &Interrupt::NEVER).expect("no interrupt");
            prop_assert_eq!(updated, fresh);
        }
    }
}

/// A line of nodes, 200 m apart: a hop each.
fn line(nodes: u32) -> Network {
    let nodes = (0..nodes).map(|node| (200.0 * f64::from(node), 0.0)).collect();
    Plan { nodes, metric: Metric::Hops, hosts: 0, wires: vec![], closed: false, model: 0 }.network()
}

#[test]
fn a_move_forgets_only_the_paths_that_it_may_affect() {
    let mut network = line(40);
    let mut finder = network.finder();
    let ends: Vec<_> = (0..39).map(|node| (node, node + 1)).collect();
    finder.paths(&ends, &Interrupt::NEVER).expect("no interrupt");
    assert_eq!(finder.found.len(), 39);
    network.links.move_node(20, Position { x_m: 4000.0, y_m: 10.0 });
    finder.update(&network.model(), &[20]);
    // From 19 to 20, from 20 to 21. From 19 to 21 would be a hop more than any other path costs.
    assert_eq!(finder.found.len(), 37);
}

#[test]
fn a_single_goal_is_found_without_looking_at_the_whole_network() {
    let network = line(1000);
    let mut finder = network.finder();
    finder.paths(&[(500, 510)], &Interrupt::NEVER).expect("no interrupt");
    assert!(finder.touched.len() < 20, "{} nodes", finder.touched.len());
}

#[test]
fn a_search_stops_when_interrupted() {
    let network = line(1000);
    let mut finder = network.finder();
    let stopped = finder.paths(&[(0, 999)], &Interrupt::new(&|| true));
    assert_eq!(stopped, Err(Interrupted));
    let whole = finder.paths(&[(0, 999)], &Interrupt::NEVER).expect("no interrupt");
    assert_eq!(whole[0].as_ref().map(Vec::len), Some(1000));
}
