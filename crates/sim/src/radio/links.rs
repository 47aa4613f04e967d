//! Who hears whom: for every node the signals that reach others, computed when a node is placed or moves, not when it
//! sends.
//!
//! Neighbours come from a grid of cells as wide as the radio reaches, so that the work grows with neighbours and not
//! with nodes squared. A loss matrix says itself who the neighbours are.

use fairhop_model::units::{Dbm, Nanos, Power};

use super::config::Propagation;
use super::params::RadioParams;
use super::propagation::{LIGHT_M_PER_S, Position, reach_m, received_power};

/// How a node's signal reaches another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that hears.
    pub to: u32,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u32,
    /// Received power.
    pub power: Power,
}

impl Link {
    /// Propagation delay.
    #[inline]
    pub fn delay(&self) -> Nanos {
        Nanos(u64::from(self.delay_ns))
    }
}

/// The links of all nodes, those of one node after the other.
#[derive(Clone, Debug)]
pub struct Links {
    model: Propagation,
    tx_power: Dbm,
    floor: Power,
    seed: u64,
    positions: Vec<Position>,
    links: Vec<Link>,
    of_node: Vec<OfNode>,
    grid: Grid,
}

/// Where the links of a node are, by receiver.
#[derive(Clone, Copy, Debug)]
struct OfNode {
    begin: u32,
    end: u32,
    longest_delay: Nanos,
}

impl Links {
    /// The links between nodes at `positions`; `seed` draws the shadowing.
    pub fn new(model: &Propagation, params: &RadioParams, seed: u64, positions: Vec<Position>) -> Self {
        let reach = reach_m(model, params.tx_power, params.floor_dbm);
        let mut links = Self {
            model: model.clone(),
            tx_power: params.tx_power,
            floor: params.floor,
            seed,
            links: Vec::new(),
            of_node: Vec::new(),
            grid: Grid::new(reach, &positions),
            positions,
        };
        links.compute(|_| true);
        links
    }

    /// The links from a node, by receiver.
    #[inline]
    pub fn from(&self, node: usize) -> &[Link] {
        let OfNode { begin, end, .. } = self.of_node[node];
        &self.links[begin as usize..end as usize]
    }

    /// The longest propagation delay from a node.
    #[inline]
    pub fn longest_delay(&self, node: usize) -> Nanos {
        self.of_node[node].longest_delay
    }

    /// The link between two nodes, where there is one.
    pub fn between(&self, from: usize, to: usize) -> Option<&Link> {
        let links = self.from(from);
        links.binary_search_by_key(&(to as u32), |link| link.to).ok().map(|index| &links[index])
    }

    /// Where the nodes are.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Moves a node: its links, and those of the nodes that heard or now may hear it, are computed again.
    pub fn move_node(&mut self, node: usize, to: Position) {
        let from = self.positions[node];
        let mut near = self.grid.near(from);
        near.extend(self.grid.near(to));
        self.grid.remove(node, from);
        self.grid.insert(node, to);
        self.positions[node] = to;
        self.compute(|other| other == node || near.contains(&other));
    }

    /// Takes the links of those nodes that are `ready` from `new`, where nodes stand elsewhere. The others keep theirs.
    pub fn take_from(&mut self, new: &Self, ready: impl Fn(usize) -> bool) {
        let mut links = Vec::with_capacity(new.links.len());
        let mut of_node = Vec::with_capacity(new.of_node.len());
        for node in 0..new.positions.len() {
            let source = if ready(node) { new } else { &*self };
            let begin = links.len() as u32;
            links.extend_from_slice(source.from(node));
            let longest_delay = source.longest_delay(node);
            of_node.push(OfNode { begin, end: links.len() as u32, longest_delay });
        }
        (self.links, self.of_node) = (links, of_node);
        self.positions.clone_from(&new.positions);
        self.grid.clone_from(&new.grid);
    }

    /// Computes the links of the nodes that have changed and keeps those of the others.
    fn compute(&mut self, changed: impl Fn(usize) -> bool) {
        let mut links = Vec::with_capacity(self.links.len());
        let mut of_node = Vec::with_capacity(self.positions.len());
        for node in 0..self.positions.len() {
            let begin = links.len();
            if changed(node) {
                let mut peers = self.grid.near(self.positions[node]);
                peers.sort_unstable();
                links.extend(
                    peers.into_iter().filter(|&peer| peer != node).filter_map(|peer| self.link(node, peer)),
                );
            } else {
                links.extend_from_slice(self.from(node));
            }
            let longest_delay = links[begin..].iter().map(Link::delay).max().unwrap_or_default();
            of_node.push(OfNode { begin: begin as u32, end: links.len() as u32, longest_delay });
        }
        self.links = links;
        self.of_node = of_node;
    }

    /// The power between two nodes that stand at given places, before there are links.
    pub fn power_between(
        model: &Propagation,
        params: &RadioParams,
        seed: u64,
        pair: (usize, usize),
        from: Position,
        to: Position,
    ) -> Power {
        Power::from_dbm(received_power(model, params.tx_power, pair, from.distance_m(to), seed))
    }

    fn link(&self, from: usize, to: usize) -> Option<Link> {
        let distance_m = self.positions[from].distance_m(self.positions[to]);
        let power =
            Power::from_dbm(received_power(&self.model, self.tx_power, (from, to), distance_m, self.seed));
        (power >= self.floor && power > Power::ZERO).then(|| Link {
            to: to as u32,
            delay_ns: (distance_m / LIGHT_M_PER_S * 1e9).round() as u32,
            power,
        })
    }
}

/// Nodes by square cell, as wide as the radio reaches.
#[derive(Clone, Debug)]
struct Grid {
    cell_m: f64,
    origin: Position,
    columns: usize,
    rows: usize,
    cells: Vec<Vec<u32>>,
}

impl Grid {
    /// No more cells than this many a node: far-flung places get wider cells.
    const CELLS_PER_NODE: usize = 4;

    fn new(reach_m: f64, positions: &[Position]) -> Self {
        let bound = |pick: fn(&Position) -> f64| {
            let low = positions.iter().map(pick).fold(f64::INFINITY, f64::min);
            let high = positions.iter().map(pick).fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high - low) } else { (0.0, 0.0) }
        };
        let ((x_m, width_m), (y_m, height_m)) = (bound(|p| p.x_m), bound(|p| p.y_m));
        let most = positions.len() * Self::CELLS_PER_NODE + 1;
        // At least one cell a metre, at most one cell in all.
        let mut cell_m = reach_m.max(1.0);
        let count = |extent: f64, cell: f64| (extent / cell).floor() as usize + 1;
        while count(width_m, cell_m).saturating_mul(count(height_m, cell_m)) > most {
            cell_m *= 2.0;
        }
        let (columns, rows) = (count(width_m, cell_m), count(height_m, cell_m));
        let mut grid = Self {
            cell_m,
            origin: Position { x_m, y_m },
            columns,
            rows,
            cells: vec![Vec::new(); columns * rows],
        };
        for (node, position) in positions.iter().enumerate() {
            grid.insert(node, *position);
        }
        grid
    }

    /// The cell of a place; places outside belong to the cells at the border, which stays correct since a cell is never
    /// narrower than the reach and the border only grows outward.
    fn cell(&self, at: Position) -> (usize, usize) {
        let index =
            |offset: f64, count: usize| ((offset / self.cell_m).floor().max(0.0) as usize).min(count - 1);
        (index(at.x_m - self.origin.x_m, self.columns), index(at.y_m - self.origin.y_m, self.rows))
    }

    fn near(&self, at: Position) -> Vec<usize> {
        let (column, row) = self.cell(at);
        let mut nodes = Vec::new();
        for r in row.saturating_sub(1)..(row + 2).min(self.rows) {
            for c in column.saturating_sub(1)..(column + 2).min(self.columns) {
                nodes.extend(self.cells[r * self.columns + c].iter().map(|&node| node as usize));
            }
        }
        nodes
    }

    fn insert(&mut self, node: usize, at: Position) {
        let (column, row) = self.cell(at);
        self.cells[row * self.columns + column].push(node as u32);
    }

    fn remove(&mut self, node: usize, at: Position) {
        let (column, row) = self.cell(at);
        self.cells[row * self.columns + column].retain(|&other| other as usize != node);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::radio::Radio;

    fn links(places: &[(f64, f64)]) -> Links {
        let radio = Radio::default();
        let positions = places.iter().map(|&(x_m, y_m)| Position { x_m, y_m }).collect();
        Links::new(&radio.propagation, &RadioParams::new(&radio), 1, positions)
    }

    fn places() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((-3000.0..3000.0, -3000.0..3000.0), 2..40)
    }

    proptest! {
        #[test]
        fn the_grid_finds_exactly_the_pairs_within_reach(places in places()) {
            let links = links(&places);
            for (i, a) in links.positions().iter().enumerate() {
                for (j, b) in links.positions().iter().enumerate() {
                    let heard = i != j && a.distance_m(*b) <= 550.0;
                    prop_assert_eq!(links.between(i, j).is_some(), heard, "{} {}", i, j);
                }
            }
        }

        #[test]
        fn moving_a_node_gives_the_links_of_a_world_where_it_always_stood(
            places in places(), node in any::<prop::sample::Index>(), to in (-5000.0..5000.0, -5000.0..5000.0),
        ) {
            let node = node.index(places.len());
            let mut moved = links(&places);
            moved.move_node(node, Position { x_m: to.0, y_m: to.1 });
            let mut fresh = places.clone();
            fresh[node] = to;
            let fresh = links(&fresh);
            for i in 0..places.len() {
                prop_assert_eq!(moved.from(i), fresh.from(i));
                prop_assert_eq!(moved.longest_delay(i), fresh.longest_delay(i));
            }
        }
    }

    #[test]
    fn a_string_of_200_m_hears_two_hops_and_not_three() {
        let links = links(&[(0.0, 0.0), (200.0, 0.0), (400.0, 0.0), (600.0, 0.0)]);
        assert_eq!(links.from(0).iter().map(|link| link.to).collect::<Vec<_>>(), [1, 2]);
        // 200 m of light: 667 ns
        assert_eq!(links.from(0)[0].delay_ns, 667);
        assert_eq!(links.longest_delay(0), Nanos(1334));
    }
}
