//! Static routes: shortest paths over links that work both ways, and over wires, as a table at every node and host.
//!
//! A path costs first what its radio hops cost, then the delay of its wires, then their number: wires go before radio. The
//! table is asked by source and destination, so that paths set by hand, and several paths to one place, cannot make a
//! loop. Left out: routing protocols and reaction to loss.

mod config;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairhop_model::phy::frame;
use fairhop_model::units::Nanos;

use crate::engine::fetch_ahead;
use crate::mac::MacParams;
use crate::radio::{Links, RadioParams};
pub use config::{Metric, Routing};

/// A next hop with this bit is a direction of a wired link, whose number the other bits are, and no neighbour.
pub const WIRE: u32 = 1 << 31;

/// Which way packets go, by node and then by host.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// For each node the first of its hops, and the end of the last one's.
    begin: Vec<u32>,
    /// The hops of one node after the other, each node's by ends.
    hops: Vec<Hop>,
}

/// Where a node sends packets between two ends.
#[derive(Clone, Copy, Debug)]
struct Hop {
    ends: u64,
    next: u32,
}

/// Source and destination as one number.
const fn ends(source: u32, destination: u32) -> u64 {
    (source as u64) << 32 | destination as u64
}

impl Routes {
    /// Tables for all `paths`: each from its first node to its last, for packets from the one to the other. Where there is
    /// a wire, it is taken. Of two paths between the same ends the later one counts.
    pub fn new(paths: &[Vec<u32>], wires: &Wires) -> Self {
        let hops_of = |path: &[u32]| -> Vec<(u32, Hop)> {
            let (Some(&source), Some(&destination)) = (path.first(), path.last()) else { return Vec::new() };
            let over = |from, to| wires.direction(from, to).map_or(to, |direction| WIRE | direction);
            path.windows(2)
                .map(|hop| (hop[0], Hop { ends: ends(source, destination), next: over(hop[0], hop[1]) }))
                .collect()
        };
        let mut hops: Vec<(u32, Hop)> = paths.iter().flat_map(|path| hops_of(path)).collect();
        hops.reverse();
        Self::of_hops(hops, wires)
    }

    /// Of hops that differ in the next node alone, the first one counts.
    fn of_hops(mut hops: Vec<(u32, Hop)>, wires: &Wires) -> Self {
        hops.sort_by_key(|(node, hop)| (*node, hop.ends));
        hops.dedup_by_key(|(node, hop)| (*node, hop.ends));
        let begin =
            (0..=wires.places() as u32).map(|node| hops.partition_point(|hop| hop.0 < node) as u32).collect();
        Self { begin, hops: hops.into_iter().map(|(_, hop)| hop).collect() }
    }

    /// Tables for new paths in place of old ones. A node that a path does not pass any more keeps its hop for packets that are
    /// there still. They make no loop: from an old path they come to a new one, and never back.
    pub fn replace(&mut self, paths: &[Vec<u32>], wires: &Wires) {
        let new = Self::new(paths, wires);
        *self = Self::of_hops(new.by_node().chain(self.by_node()).collect(), wires);
    }

    /// All hops with their nodes.
    fn by_node(&self) -> impl Iterator<Item = (u32, Hop)> {
        self.begin.windows(2).zip(0..).flat_map(|(of_node, node)| {
            self.hops[of_node[0] as usize..of_node[1] as usize].iter().map(move |hop| (node, *hop))
        })
    }

    /// Fetches the first hop of a node, which is asked for soon.
    #[inline]
    pub fn fetch_hop(&self, node: u32) {
        if let Some(&begin) = self.begin.get(node as usize)
            && let Some(hop) = self.hops.get(begin as usize)
        {
            fetch_ahead(hop);
        }
    }

    /// Where `node` sends a packet from `source` to `destination`.
    #[inline]
    pub fn next_hop(&self, node: u32, source: u32, destination: u32) -> Option<u32> {
        let &[begin, end] = self.begin.get(node as usize..)?.first_chunk()?;
        let hops = self.hops.get(begin as usize..end as usize)?;
        let ends = ends(source, destination);
        // Most nodes know few ways.
        if let [first, ..] = hops
            && first.ends == ends
        {
            return Some(first.next);
        }
        let index = hops.binary_search_by_key(&ends, |hop| hop.ends).ok()?;
        Some(hops[index].next)
    }
}

/// The wires of a network, by the node or host where each direction begins.
#[derive(Clone, Debug, Default)]
pub struct Wires {
    /// Where it ends, its delay and its number.
    from: Vec<Vec<(u32, Nanos, u32)>>,
}

impl Wires {
    /// No wires between so many nodes and hosts.
    pub fn new(places: usize) -> Self {
        Self { from: vec![Vec::new(); places] }
    }

    /// How many nodes and hosts there are.
    pub fn places(&self) -> usize {
        self.from.len()
    }

    /// Adds a direction of a link.
    pub fn add(&mut self, from: u32, to: u32, delay: Nanos, direction: u32) {
        self.from[from as usize].push((to, delay, direction));
    }

    /// The direction that goes from one place to another.
    fn direction(&self, from: u32, to: u32) -> Option<u32> {
        self.from[from as usize].iter().find(|wire| wire.0 == to).map(|wire| wire.2)
    }
}

/// The cost of a path: what the metric counts, in thousandths; the delay of wires; then millimetres of radio and the number
/// of wires, so that equal paths are told apart.
type Cost = (u64, u64, u64);

/// Finds shortest paths.
pub struct PathFinder<'a> {
    links: &'a Links,
    wires: &'a Wires,
    radio: &'a RadioParams,
    routing: &'a Routing,
    mac: &'a MacParams,
    best: Vec<(Cost, u32)>,
    touched: Vec<u32>,
    /// There is a wire.
    wired: bool,
    /// A host over which nodes do not reach each other.
    closed: Option<u32>,
}

/// A link over which fewer attempts succeed is none: at a tenth, the standard's seven attempts still bring every second
/// packet over.
const LEAST_DELIVERY: f64 = 0.1;

const UNREACHED: Cost = (u64::MAX, u64::MAX, u64::MAX);

/// Over which links a path may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Radio,
    RadioAndWires,
}

impl<'a> PathFinder<'a> {
    /// A finder for data frames at the rates that `mac` gives them.
    pub fn new(
        links: &'a Links,
        wires: &'a Wires,
        radio: &'a RadioParams,
        routing: &'a Routing,
        mac: &'a MacParams,
    ) -> Self {
        let best = vec![(UNREACHED, u32::MAX); wires.from.len()];
        let wired = wires.from.iter().any(|wires| !wires.is_empty());
        Self { links, wires, radio, routing, mac, best, touched: Vec::new(), wired, closed: None }
    }

    /// Paths from node to node do not pass this host: what goes by radio stays there, though several gateways lead to it.
    #[must_use]
    pub fn past(self, closed: Option<u32>) -> Self {
        Self { closed, ..self }
    }

    /// Whether a hop from one node to another can work at all, data one way and its ACK the other: whether an attempt
    /// succeeds at least with the chance [`LEAST_DELIVERY`].
    pub fn usable(&self, from: u32, to: u32) -> bool {
        self.delivery(from, to).is_some_and(|chance| chance >= LEAST_DELIVERY)
    }

    /// The chance that a 1500-byte packet and its ACK get over a hop at the first attempt.
    fn delivery(&self, from: u32, to: u32) -> Option<f64> {
        let there = self.links.between(from as usize, to as usize)?.power;
        let back = self.links.between(to as usize, from as usize)?.power;
        let rate = self.mac.rate_of_hop(from, to);
        let forward = self.radio.delivery_ratio(rate, there, frame::of_ip_packet(1500));
        Some(forward * self.radio.delivery_ratio(self.mac.control_rate_of(rate), back, frame::ACK))
    }

    /// What a hop costs, in thousandths of a transmission. Hops that count alike must be good ones both ways; ETX tells a
    /// poor one by its cost.
    fn hop_cost(&self, from: u32, to: u32) -> Option<u64> {
        match self.routing.metric {
            Metric::Hops => {
                let there = self.links.between(from as usize, to as usize)?.power;
                let back = self.links.between(to as usize, from as usize)?.power;
                let good = self.radio.decodes(self.mac.rate_of_hop(from, to), there)
                    && self.radio.decodes(self.mac.rate_of_hop(to, from), back);
                good.then_some(1000)
            }
            Metric::Etx => {
                let chance = self.delivery(from, to)?;
                (chance >= LEAST_DELIVERY).then(|| (1000.0 / chance).round() as u64)
            }
        }
    }

    /// The path between two nodes or hosts, both included. None where there is none.
    pub fn path(&mut self, from: u32, to: u32) -> Option<Vec<u32>> {
        if !self.wired {
            return self.radio_path(from, to);
        }
        let mut path = self.shortest(from, to, Over::RadioAndWires)?;
        path.reverse();
        // What goes over the air between two wires goes as it would without them: by hand, or the same way back.
        let is_wire = |hop: &[u32]| self.wires.direction(hop[0], hop[1]).is_some();
        let mut whole = vec![from];
        let mut start = 0;
        while start + 1 < path.len() {
            let wires = path[start..].windows(2).take_while(|hop| is_wire(hop)).count();
            whole.extend(&path[start + 1..=start + wires]);
            start += wires;
            let hops = path[start..].windows(2).take_while(|hop| !is_wire(hop)).count();
            if hops > 0 {
                let radio = self.radio_path(path[start], path[start + hops])?;
                whole.extend(&radio[1..]);
                start += hops;
            }
        }
        Some(whole)
    }

    /// The path over the air between two nodes: the one set by hand, or the shortest.
    fn radio_path(&mut self, from: u32, to: u32) -> Option<Vec<u32>> {
        for path in &self.routing.paths {
            if path.first() == Some(&from) && path.last() == Some(&to) {
                return Some(path.clone());
            }
            if path.first() == Some(&to) && path.last() == Some(&from) {
                return Some(path.iter().rev().copied().collect());
            }
        }
        // Always searched from the lower number, so that both directions take the same path.
        let (start, goal) = (from.min(to), from.max(to));
        let mut path = self.shortest(start, goal, Over::Radio)?;
        if from == start {
            path.reverse();
        }
        Some(path)
    }

    /// Dijkstra's algorithm from `start`; the path is given from `goal` back to `start`.
    fn shortest(&mut self, start: u32, goal: u32, over: Over) -> Option<Vec<u32>> {
        for node in self.touched.drain(..) {
            self.best[node as usize] = (UNREACHED, u32::MAX);
        }
        let mut open = BinaryHeap::new();
        self.best[start as usize] = ((0, 0, 0), start);
        self.touched.push(start);
        open.push(Reverse(((0, 0, 0), start)));
        while let Some(Reverse((cost, node))) = open.pop() {
            if node == goal {
                break;
            }
            if cost > self.best[node as usize].0 {
                continue;
            }
            let (links, wires) = (self.links, self.wires);
            let positions = links.positions();
            let between_nodes = (start.max(goal) as usize) < positions.len();
            if self.closed == Some(node) && between_nodes {
                continue;
            }
            if (node as usize) < positions.len() {
                for link in links.from(node as usize) {
                    let Some(hop) = self.hop_cost(node, link.to) else { continue };
                    let metres = positions[node as usize].distance_m(positions[link.to as usize]);
                    let reached = (cost.0 + hop, cost.1, cost.2 + (metres * 1000.0).round() as u64);
                    self.reach(link.to, reached, node, &mut open);
                }
            }
            if over == Over::RadioAndWires {
                for &(to, delay, _) in &wires.from[node as usize] {
                    self.reach(to, (cost.0, cost.1.saturating_add(delay.0), cost.2 + 1), node, &mut open);
                }
            }
        }
        if self.best[goal as usize].0 == UNREACHED {
            return None;
        }
        let mut path = vec![goal];
        let mut node = goal;
        while node != start {
            node = self.best[node as usize].1;
            path.push(node);
        }
        Some(path)
    }

    /// A way to a node has been found. Among equals the lowest predecessor, which comes first.
    fn reach(&mut self, to: u32, cost: Cost, from: u32, open: &mut BinaryHeap<Reverse<(Cost, u32)>>) {
        let best = &mut self.best[to as usize];
        if best.0 == UNREACHED {
            self.touched.push(to);
        }
        if cost < best.0 {
            *best = (cost, from);
            open.push(Reverse((cost, to)));
        }
    }
}
