//! Shortest paths over radio hops that work both ways and over wires, for a network that may change.
//!
//! A path costs first what its radio hops cost, then the delay of its wires, then the millimetres of its radio hops plus
//! the number of its wires. Among paths of equal cost, each node's predecessor is the one with the lowest cost from the
//! start, then the one with the lowest number.
//!
//! How the work stays small:
//! - Hops are computed once, when the finder is made, and again only where nodes have changed.
//! - A few goals from one start are searched one by one with A* (Hart, Nilsson and Raphael 1968), which looks at the
//!   nodes between start and goal; many goals from one start share one search of Dijkstra's.
//! - [`PathFinder::update`] forgets only paths that a change may affect, and [`PathFinder::paths`] searches what is not
//!   known. Both give the paths that a new finder gives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fairhop_model::units::Nanos;

use super::Wires;
use super::hops::{Cost, GOOD_HOP, Hop, HopGraph, HopModel, UNREACHED, plus};
use crate::engine::{Interrupt, Interrupted};
use crate::radio::Position;
use crate::scenario::Routing;

/// The links that a path may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Over {
    Radio,
    RadioAndWires,
}

/// A search: from its start to its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Query {
    over: Over,
    start: u32,
    goal: u32,
}

impl Query {
    /// Radio paths are always searched from the lower number, so that both directions take the same path.
    fn radio(from: u32, to: u32) -> Self {
        Self { over: Over::Radio, start: from.min(to), goal: from.max(to) }
    }
}

/// A path from the start of a search to its goal.
#[derive(Clone, Debug)]
struct Found {
    cost: Cost,
    nodes: Vec<u32>,
}

/// What a search knows of a node.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Cost of the best path so far, and the predecessor on it.
    cost: Cost,
    from: u32,
    /// Minimum cost from here to the goal, as far as distance tells.
    rest: Cost,
    is_goal: bool,
}

impl Reached {
    const NOT: Self = Self { cost: UNREACHED, from: u32::MAX, rest: (0, 0, 0), is_goal: false };
}

/// Finds shortest paths and keeps them.
#[derive(Clone, Debug)]
pub struct PathFinder {
    graph: HopGraph,
    wires: Wires,
    /// Wires in both directions with the lower delay of the two.
    min_wires: Vec<Vec<(u32, Nanos)>>,
    /// Nodes with a radio that have a wire.
    wired_nodes: Vec<u32>,
    by_hand: Vec<Vec<u32>>,
    closed: Option<u32>,
    found: BTreeMap<Query, Option<Found>>,
    reached: Vec<Reached>,
    touched: Vec<u32>,
}

impl PathFinder {
    /// Up to this number of goals from one start, each is searched for itself.
    const SINGLE_GOALS: usize = 4;
    /// With more wired nodes than this, distance says nothing about the rest of a path over wires.
    const MAX_WIRED_TARGETS: usize = 8;
    /// Nodes that a search expands between two checks for an interrupt.
    const EXPANSIONS: usize = 64;

    /// A finder for the network as it is. Paths between nodes do not pass the host `closed`: what can go by radio stays
    /// there, even if several gateways lead to that host.
    ///
    /// # Errors
    /// An interrupt.
    pub fn new(
        model: &HopModel<'_>,
        wires: &Wires,
        routing: &Routing,
        closed: Option<u32>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Self, Interrupted> {
        let graph = HopGraph::new(model, interrupt)?;
        let mut min_wires = vec![Vec::new(); wires.from.len()];
        for (from, wires) in wires.from.iter().enumerate() {
            for &(to, delay, _) in wires {
                min_wires[from].push((to, delay));
                min_wires[to as usize].push((from as u32, delay));
            }
        }
        let nodes = graph.positions.len();
        let wired = (0..nodes).filter(|&node| min_wires.get(node).is_some_and(|wires| !wires.is_empty()));
        Ok(Self {
            reached: vec![Reached::NOT; wires.from.len().max(nodes)],
            touched: Vec::new(),
            wired_nodes: wired.map(|node| node as u32).collect(),
            min_wires,
            wires: wires.clone(),
            by_hand: routing.paths.clone(),
            closed,
            found: BTreeMap::new(),
            graph,
        })
    }

    /// The paths between pairs of nodes or hosts, each from the first to the second, both included; `None` where there is
    /// none.
    ///
    /// # Errors
    /// An interrupt.
    pub fn paths(
        &mut self,
        ends: &[(u32, u32)],
        interrupt: &Interrupt<'_>,
    ) -> Result<Vec<Option<Vec<u32>>>, Interrupted> {
        if !self.has_wires() {
            let queries = ends.iter().filter(|&&(from, to)| self.path_by_hand(from, to).is_none());
            self.search_all(queries.map(|&(from, to)| Query::radio(from, to)).collect(), interrupt)?;
            return Ok(ends.iter().map(|&(from, to)| self.radio_path(from, to)).collect());
        }
        let query = |&(start, goal): &(u32, u32)| Query { over: Over::RadioAndWires, start, goal };
        self.search_all(ends.iter().map(query).collect(), interrupt)?;
        let of_ends = |finder: &Self, ends| {
            let found = finder.found.get(&query(ends)).and_then(Option::as_ref);
            found.map(|found| finder.stretches(&found.nodes))
        };
        let stretches: Vec<_> = ends.iter().map(|ends| of_ends(self, ends)).collect();
        let radio = stretches.iter().flatten().flatten().filter_map(|stretch| match stretch {
            Stretch::Wire(_) => None,
            Stretch::Radio(from, to) if self.path_by_hand(*from, *to).is_some() => None,
            Stretch::Radio(from, to) => Some(Query::radio(*from, *to)),
        });
        self.search_all(radio.collect(), interrupt)?;
        let join = |(&(from, _), stretches): (&(u32, u32), Option<Vec<Stretch>>)| {
            let mut path = vec![from];
            for stretch in stretches? {
                match stretch {
                    Stretch::Wire(to) => path.push(to),
                    Stretch::Radio(from, to) => path.extend(&self.radio_path(from, to)?[1..]),
                }
            }
            Some(path)
        };
        Ok(ends.iter().zip(stretches).map(join).collect())
    }

    /// The network has changed: `nodes` have moved, or their data rates have. Hops of these nodes are computed again, and
    /// paths that the change may affect are forgotten: those through one of these nodes, and those that are not shorter
    /// than the shortest path through one of them can be.
    pub fn update(&mut self, model: &HopModel<'_>, nodes: &[u32]) {
        for &node in nodes {
            self.graph.update(model, node as usize);
        }
        let no_path = self.found.values().any(Option::is_none);
        let max_cost = self.found.values().flatten().map(|found| found.cost).max().unwrap_or_default();
        let limit = if no_path { UNREACHED } else { max_cost };
        for &node in nodes {
            let radio = self.min_costs(node, Over::Radio, limit);
            let both =
                if self.has_wires() { self.min_costs(node, Over::RadioAndWires, limit) } else { Vec::new() };
            self.found.retain(|query, found| {
                let costs = if query.over == Over::Radio { &radio } else { &both };
                let [to, from] = [query.start, query.goal].map(|end| costs[end as usize]);
                let through = if to == UNREACHED || from == UNREACHED { UNREACHED } else { plus(to, from) };
                match found {
                    Some(found) => through > found.cost && !found.nodes.contains(&node),
                    None => through == UNREACHED,
                }
            });
        }
    }

    /// All nodes may have moved. Hops are computed again, and all paths are forgotten if a hop has appeared or vanished, or
    /// has changed its cost. Returns whether they are; paths that tie in cost do not change while only distances do.
    pub fn renew(&mut self, model: &HopModel<'_>) -> bool {
        let Ok(graph) = HopGraph::new(model, &Interrupt::NEVER) else { return false };
        let is_same = graph.has_hops_of(&self.graph);
        self.graph = graph;
        if !is_same {
            self.found.clear();
        }
        !is_same
    }

    fn has_wires(&self) -> bool {
        self.wires.from.iter().any(|wires| !wires.is_empty())
    }

    /// Lower bounds of the cost between a node and all others, in either direction, as far as they are within `limit`.
    fn min_costs(&self, node: u32, over: Over, limit: Cost) -> Vec<Cost> {
        let mut costs = vec![UNREACHED; self.reached.len()];
        let mut open = BinaryHeap::from([Reverse(((0, 0, 0), node))]);
        costs[node as usize] = (0, 0, 0);
        while let Some(Reverse((cost, node))) = open.pop() {
            if cost > costs[node as usize] {
                continue;
            }
            let hops = self.graph.of_node.get(node as usize).into_iter().flatten();
            let hops = hops.map(|hop| (hop.to, Hop::weight(hop.cost.min(hop.back), hop.mm)));
            let wires = self.min_wires[node as usize].iter().filter(|_| over == Over::RadioAndWires);
            for (to, weight) in hops.chain(wires.map(|&(to, delay)| (to, (0, delay.0, 1)))) {
                let reached = plus(cost, weight);
                if reached < costs[to as usize] && reached <= limit {
                    costs[to as usize] = reached;
                    open.push(Reverse((reached, to)));
                }
            }
        }
        costs
    }

    /// The path set by hand between two nodes.
    fn path_by_hand(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        for path in &self.by_hand {
            if path.first() == Some(&from) && path.last() == Some(&to) {
                return Some(path.clone());
            }
            if path.first() == Some(&to) && path.last() == Some(&from) {
                return Some(path.iter().rev().copied().collect());
            }
        }
        None
    }

    /// The path over radio hops between two nodes: the one set by hand, or the one that was found.
    fn radio_path(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        if let Some(path) = self.path_by_hand(from, to) {
            return Some(path);
        }
        let mut nodes = self.found.get(&Query::radio(from, to))?.as_ref()?.nodes.clone();
        if nodes.first() != Some(&from) {
            nodes.reverse();
        }
        Some(nodes)
    }

    /// A path as wires and stretches of radio. A stretch takes the path that it would take without wires: the one set by
    /// hand, or the same in both directions.
    fn stretches(&self, path: &[u32]) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for hop in path.windows(2) {
            let (from, to) = (hop[0], hop[1]);
            if self.wires.direction(from, to).is_some() {
                stretches.push(Stretch::Wire(to));
            } else if let Some(Stretch::Radio(_, end)) = stretches.last_mut() {
                *end = to;
            } else {
                stretches.push(Stretch::Radio(from, to));
            }
        }
        stretches
    }

    /// Searches what is not known yet.
    fn search_all(&mut self, mut queries: Vec<Query>, interrupt: &Interrupt<'_>) -> Result<(), Interrupted> {
        queries.retain(|query| !self.found.contains_key(query));
        queries.sort_unstable();
        queries.dedup();
        let nodes = self.graph.positions.len() as u32;
        let alike =
            |a: &Query, b: &Query| (a.over, a.start, a.goal < nodes) == (b.over, b.start, b.goal < nodes);
        for group in queries.chunk_by(alike) {
            let size = if group.len() <= Self::SINGLE_GOALS { 1 } else { group.len() };
            for goals in group.chunks(size) {
                self.search(goals, interrupt)?;
            }
        }
        Ok(())
    }

    /// Searches several goals from the same start: hosts only, or nodes only.
    fn search(&mut self, goals: &[Query], interrupt: &Interrupt<'_>) -> Result<(), Interrupted> {
        let &[Query { over, start, goal }, ..] = goals else { return Ok(()) };
        for node in self.touched.drain(..) {
            self.reached[node as usize] = Reached::NOT;
        }
        for query in goals {
            self.touched.push(query.goal);
            self.reached[query.goal as usize].is_goal = true;
        }
        let nodes = self.graph.positions.len();
        let closed = self.closed.filter(|_| (start.max(goal) as usize) < nodes);
        let targets = if goals.len() == 1 { self.targets(goals[0]) } else { Vec::new() };
        let mut remaining = goals.len();
        let mut limit = UNREACHED;
        let mut expanded = 0;
        let mut open = BinaryHeap::new();
        self.reach(start, (0, 0, 0), u32::MAX, &targets, &mut open);
        while let Some(Reverse((bound, node))) = open.pop() {
            let here = self.reached[node as usize];
            if bound > limit {
                break;
            }
            if bound > plus(here.cost, here.rest) {
                continue;
            }
            if here.is_goal {
                self.reached[node as usize].is_goal = false;
                remaining -= 1;
                if remaining == 0 {
                    limit = bound; // nodes with this bound may still precede the goal on a path of equal cost
                }
            }
            if closed == Some(node) {
                continue;
            }
            expanded += 1;
            if expanded % Self::EXPANSIONS == 0 {
                interrupt.check()?;
            }
            for index in 0..self.graph.of_node.get(node as usize).map_or(0, Vec::len) {
                let Hop { to, cost, mm, .. } = self.graph.of_node[node as usize][index];
                if cost != Hop::UNUSABLE {
                    self.reach(to, plus(here.cost, Hop::weight(cost, mm)), node, &targets, &mut open);
                }
            }
            if over == Over::RadioAndWires {
                for index in 0..self.wires.from[node as usize].len() {
                    let (to, delay, _) = self.wires.from[node as usize][index];
                    self.reach(to, plus(here.cost, (0, delay.0, 1)), node, &targets, &mut open);
                }
            }
        }
        for &query in goals {
            let found = self.path_to(start, query.goal);
            self.found.insert(query, found);
        }
        Ok(())
    }

    /// A path to a node has been found. Of predecessors at equal cost the one that the module documentation names.
    fn reach(&mut self, to: u32, cost: Cost, from: u32, targets: &[Position], open: &mut Open) {
        let best = self.reached[to as usize];
        if cost < best.cost {
            let rest = if best.cost == UNREACHED {
                self.touched.push(to);
                self.min_rest(to, targets)
            } else {
                best.rest
            };
            self.reached[to as usize] = Reached { cost, from, rest, ..best };
            open.push(Reverse((plus(cost, rest), to)));
        } else if cost == best.cost && cost != UNREACHED && best.from != u32::MAX {
            let precedence = |node: u32| (self.reached[node as usize].cost, node);
            if precedence(from) < precedence(best.from) {
                self.reached[to as usize].from = from;
            }
        }
    }

    /// Where a path to a goal must pass: at the goal, or at a wire. Nothing if that is unknown.
    fn targets(&self, query: Query) -> Vec<Position> {
        let goal = self.graph.positions.get(query.goal as usize).copied();
        if query.over == Over::Radio {
            return goal.into_iter().collect();
        }
        if self.wired_nodes.len() > Self::MAX_WIRED_TARGETS {
            return Vec::new();
        }
        let wired = self.wired_nodes.iter().map(|&node| self.graph.positions[node as usize]);
        goal.into_iter().chain(wired).collect()
    }

    /// A lower bound of the cost from a node to the nearest target: as many hops as the distance takes at least. It never
    /// falls by more than a hop costs, so that a search needs to look at each node once. The length of a hop is rounded
    /// by up to half a millimetre, which 0.6 mm a hop cover.
    fn min_rest(&self, node: u32, targets: &[Position]) -> Cost {
        let Some(at) = self.graph.positions.get(node as usize) else { return (0, 0, 0) };
        let rest = |target: &Position| {
            let metres = at.distance_m(*target);
            let hops = (metres / (self.graph.max_hop_m * (1.0 + 1e-9))).ceil();
            let mm = (metres * 1000.0 - 0.6 * hops).floor();
            (f64::from(GOOD_HOP) * hops, mm)
        };
        let rest = targets.iter().map(rest).min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        rest.filter(|_| self.graph.max_hop_m > 0.0)
            .map_or((0, 0, 0), |(hops, mm)| (hops as u64, 0, mm as u64))
    }

    fn path_to(&self, start: u32, goal: u32) -> Option<Found> {
        let cost = self.reached[goal as usize].cost;
        if cost == UNREACHED {
            return None;
        }
        let mut nodes = vec![goal];
        let mut node = goal;
        while node != start {
            node = self.reached[node as usize].from;
            nodes.push(node);
        }
        nodes.reverse();
        Some(Found { cost, nodes })
    }
}

/// Nodes to expand, by the minimum cost of a path through them.
type Open = BinaryHeap<Reverse<(Cost, u32)>>;

/// A part of a path.
#[derive(Clone, Copy, Debug)]
enum Stretch {
    /// A wire to here.
    Wire(u32),
    /// Radio hops from one node to another.
    Radio(u32, u32),
}

#[cfg(test)]
mod tests;
