//! Links: which nodes receive a signal from which, with what power and delay. They are computed when a node is placed or
//! moves, not when it transmits.
//!
//! Candidates come from a grid of cells as wide as the radio reaches, so the work grows with the number of neighbours,
//! not with the square of the number of nodes. Moving a node recomputes its own links and single links of its old and
//! new neighbours. A loss matrix has no distances: all nodes are candidates.

use fairhop_model::units::{Dbm, Nanos, Power};

use super::config::Propagation;
use super::grid::Grid;
use super::limits::distance_limit_m;
use super::params::RadioParams;
use super::propagation::{LIGHT_M_PER_S, Position, reach_m, received_power};
use crate::engine::{Interrupt, Interrupted};

/// Maximum number of links of a network, each direction counted: 2²⁵ links of 16 bytes take 512 MiB. 5,792 nodes that
/// all hear each other have that many.
pub const MAX_LINKS: usize = 1 << 25;

/// How a node's signal reaches another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The receiving node.
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

/// Why the links of a network were not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinksError {
    /// The work was interrupted.
    Interrupted,
    /// The network has more than [`MAX_LINKS`] links.
    TooMany {
        /// Mean number of links of a node, over the nodes up to the one that exceeded the limit.
        mean_per_node: u32,
    },
}

impl From<Interrupted> for LinksError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The links of all nodes.
#[derive(Clone, Debug)]
pub struct Links {
    model: Propagation,
    tx_power: Dbm,
    floor: Power,
    seed: u64,
    /// Distance beyond which there certainly is no link, in metres.
    limit_m: f64,
    positions: Vec<Position>,
    /// The links of one node after the other, with gaps where nodes have moved.
    links: Vec<Link>,
    of_node: Vec<OfNode>,
    /// Links in `links` that belong to no node any more.
    unused: usize,
    grid: Grid,
}

/// The links of a node: a range of [`Links::links`] in the order of receivers.
#[derive(Clone, Copy, Debug)]
struct OfNode {
    begin: u32,
    end: u32,
    /// Links that fit from `begin` on.
    room: u32,
    longest_delay: Nanos,
    /// Counts the changes of this node's links and position.
    version: u32,
}

impl Links {
    /// The links between nodes at `positions`; `seed` determines the shadowing.
    ///
    /// # Errors
    /// More than [`MAX_LINKS`] links, or an interrupt.
    pub fn new(
        model: &Propagation,
        params: &RadioParams,
        seed: u64,
        positions: Vec<Position>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Self, LinksError> {
        Self::limited(model, params, seed, positions, interrupt, MAX_LINKS)
    }

    fn limited(
        model: &Propagation,
        params: &RadioParams,
        seed: u64,
        positions: Vec<Position>,
        interrupt: &Interrupt<'_>,
        max_links: usize,
    ) -> Result<Self, LinksError> {
        let reach_m = reach_m(model, params.tx_power, params.floor_dbm);
        let mut links = Self {
            model: model.clone(),
            tx_power: params.tx_power,
            floor: params.floor,
            seed,
            limit_m: distance_limit_m(model, params, reach_m),
            links: Vec::new(),
            of_node: Vec::with_capacity(positions.len()),
            unused: 0,
            grid: Grid::new(reach_m, &positions),
            positions,
        };
        let mut found = Vec::new();
        for node in 0..links.positions.len() {
            interrupt.check()?;
            links.compute(node, &mut found);
            let begin = links.links.len();
            if begin + found.len() > max_links {
                let mean_per_node = ((begin + found.len()) / (node + 1)) as u32;
                return Err(LinksError::TooMany { mean_per_node });
            }
            links.links.extend_from_slice(&found);
            links.of_node.push(OfNode {
                begin: begin as u32,
                end: links.links.len() as u32,
                room: found.len() as u32,
                longest_delay: longest_delay(&found),
                version: 0,
            });
        }
        Ok(links)
    }

    /// The links from a node, in the order of receivers.
    #[inline]
    pub fn from(&self, node: usize) -> &[Link] {
        let OfNode { begin, end, .. } = self.of_node[node];
        &self.links[begin as usize..end as usize]
    }

    /// The longest propagation delay from a node to a receiver.
    #[inline]
    pub fn longest_delay(&self, node: usize) -> Nanos {
        self.of_node[node].longest_delay
    }

    /// The link between two nodes, if there is one.
    pub fn between(&self, from: usize, to: usize) -> Option<&Link> {
        let links = self.from(from);
        links.binary_search_by_key(&(to as u32), |link| link.to).ok().map(|index| &links[index])
    }

    /// The link opposite to `link`, which is one from node `from`.
    #[inline]
    pub fn opposite(&self, from: usize, link: &Link) -> Option<Link> {
        if matches!(self.model, Propagation::Matrix { .. }) {
            self.between(link.to as usize, from).copied()
        } else {
            Some(Link { to: from as u32, ..*link }) // loss depends on the distance and the pair alone
        }
    }

    /// The positions of the nodes.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Number of links, each direction counted.
    pub fn count(&self) -> usize {
        self.links.len() - self.unused
    }

    /// Moves a node. The result are the nodes whose links changed: the node itself, and its neighbours before and after
    /// the move. Other nodes' links are not touched.
    pub fn move_node(&mut self, node: usize, to: Position) -> Vec<u32> {
        let mut changed = self.near(node, |other| self.between(other, node).is_some());
        self.grid.remove(node, self.positions[node]);
        self.grid.insert(node, to);
        self.positions[node] = to;
        let mut links = Vec::new();
        self.compute(node, &mut links);
        self.replace(node, &links);
        changed.extend(self.near(node, |other| self.link(other, node).is_some()));
        changed.sort_unstable();
        changed.dedup();
        for &other in &changed {
            let other = other as usize;
            let new = self.link(other, node);
            links.clear();
            links.extend_from_slice(self.from(other));
            match (links.binary_search_by_key(&(node as u32), |link| link.to), new) {
                (Ok(index), Some(new)) => links[index] = new,
                (Ok(index), None) => drop(links.remove(index)),
                (Err(index), Some(new)) => links.insert(index, new),
                (Err(_), None) => {}
            }
            self.replace(other, &links);
        }
        let own = changed.partition_point(|&other| (other as usize) < node);
        changed.insert(own, node as u32);
        changed
    }

    /// Those nodes near a node that `chosen` selects.
    fn near(&self, node: usize, chosen: impl Fn(usize) -> bool) -> Vec<u32> {
        let near = self.grid.near(self.positions[node]).filter(|&other| other != node && chosen(other));
        near.map(|other| other as u32).collect()
    }

    /// Takes over positions and links from `new`, a later state of the same network, for the nodes that are `ready`. The
    /// other nodes keep their links, and all nodes get their new position. Only nodes that differ are copied.
    pub fn take_from(&mut self, new: &Self, ready: impl Fn(usize) -> bool) {
        for node in 0..new.positions.len() {
            if self.positions[node] != new.positions[node] {
                self.grid.remove(node, self.positions[node]);
                self.grid.insert(node, new.positions[node]);
                self.positions[node] = new.positions[node];
            }
            let version = new.of_node[node].version;
            if self.of_node[node].version != version && ready(node) {
                self.replace(node, new.from(node));
                self.of_node[node].version = version;
            }
        }
    }

    /// Computes the links of a node.
    fn compute(&self, node: usize, found: &mut Vec<Link>) {
        found.clear();
        let peers = self.grid.near(self.positions[node]).filter(|&peer| peer != node);
        found.extend(peers.filter_map(|peer| self.link(node, peer)));
        found.sort_unstable_by_key(|link| link.to);
    }

    /// Replaces the links of a node after a change.
    fn replace(&mut self, node: usize, links: &[Link]) {
        self.set(node, links);
        let version = &mut self.of_node[node].version;
        *version = version.wrapping_add(1);
    }

    /// Sets the links of a node that are in the order of receivers: in place if there is room, else at the end.
    pub(super) fn set(&mut self, node: usize, links: &[Link]) {
        let OfNode { begin, end, room, version, .. } = self.of_node[node];
        let used = (end - begin) as usize;
        let (begin, room) = if links.len() <= room as usize {
            self.links[begin as usize..][..links.len()].copy_from_slice(links);
            self.unused = self.unused + used - links.len();
            (begin, room)
        } else {
            self.unused += used;
            self.links.extend_from_slice(links);
            ((self.links.len() - links.len()) as u32, links.len() as u32)
        };
        self.of_node[node] = OfNode {
            begin,
            end: begin + links.len() as u32,
            room,
            longest_delay: longest_delay(links),
            version,
        };
        if self.unused > self.links.len() / 2 {
            self.compact();
        }
    }

    /// Sets the place of a node, without its links.
    pub(super) fn set_position(&mut self, node: usize, at: Position) {
        self.grid.remove(node, self.positions[node]);
        self.grid.insert(node, at);
        self.positions[node] = at;
    }

    /// Whether a node has a link to a node that `chosen` selects.
    pub(super) fn leads_to(&self, node: usize, chosen: impl Fn(usize) -> bool) -> bool {
        self.from(node).iter().any(|link| chosen(link.to as usize))
    }

    /// Closes the gaps.
    fn compact(&mut self) {
        let mut links = Vec::with_capacity(self.links.len() - self.unused);
        for of_node in &mut self.of_node {
            let begin = links.len() as u32;
            links.extend_from_slice(&self.links[of_node.begin as usize..of_node.end as usize]);
            (of_node.begin, of_node.end) = (begin, links.len() as u32);
            of_node.room = of_node.end - begin;
        }
        (self.links, self.unused) = (links, 0);
    }

    /// The power that node `pair.1` at `to` receives from node `pair.0` at `from`, for positions that are not links yet.
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
        let (from_at, to_at) = (self.positions[from], self.positions[to]);
        if from_at.is_farther_m(to_at, self.limit_m) {
            return None;
        }
        let distance_m = from_at.distance_m(to_at);
        let power =
            Power::from_dbm(received_power(&self.model, self.tx_power, (from, to), distance_m, self.seed));
        (power >= self.floor && power > Power::ZERO).then(|| Link {
            to: to as u32,
            delay_ns: (distance_m / LIGHT_M_PER_S * 1e9).round() as u32,
            power,
        })
    }
}

fn longest_delay(links: &[Link]) -> Nanos {
    links.iter().map(Link::delay).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::radio::Radio;

    fn position((x_m, y_m): (f64, f64)) -> Position {
        Position { x_m, y_m }
    }

    fn limited(model: &Propagation, places: &[(f64, f64)], max_links: usize) -> Result<Links, LinksError> {
        let params = RadioParams::new(&Radio { propagation: model.clone(), ..Radio::default() });
        let positions = places.iter().copied().map(position).collect();
        Links::limited(model, &params, 1, positions, &Interrupt::NEVER, max_links)
    }

    fn links_of(model: &Propagation, places: &[(f64, f64)]) -> Links {
        limited(model, places, MAX_LINKS).expect("few links")
    }

    fn links(places: &[(f64, f64)]) -> Links {
        links_of(&Radio::default().propagation, places)
    }

    fn places() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((-3000.0..3000.0, -3000.0..3000.0), 2..40)
    }

    /// Circles, free space, shadowing, and a matrix that is not symmetric.
    fn models(nodes: usize) -> [Propagation; 4] {
        let loss_db = |from: usize, to: usize| if (from * 7 + to * 3) % 5 < 2 { 80.0 } else { 2000.0 };
        let row = |from| (0..nodes).map(|to| loss_db(from, to)).collect();
        [
            Radio::default().propagation,
            Propagation::FreeSpace { frequency_ghz: 60.0 },
            Propagation::LogDistance {
                exponent: 3.5,
                reference_loss_db: 45.0,
                reference_m: 1.0,
                shadowing_db: 6.0,
            },
            Propagation::Matrix { loss_db: (0..nodes).map(row).collect() },
        ]
    }

    /// Everything that others can see of links.
    fn content(links: &Links) -> Vec<(Vec<Link>, Nanos, Position)> {
        let of_node = |node| (links.from(node).to_vec(), links.longest_delay(node), links.positions()[node]);
        (0..links.positions().len()).map(of_node).collect()
    }

    proptest! {
        #[test]
        fn the_grid_finds_exactly_the_pairs_within_reach(places in places()) {
            let links = links(&places);
            for (i, a) in links.positions().iter().enumerate() {
                for (j, b) in links.positions().iter().enumerate() {
                    let linked = i != j && a.distance_m(*b) <= 550.0;
                    prop_assert_eq!(links.between(i, j).is_some(), linked, "{} {}", i, j);
                }
            }
        }

        #[test]
        fn links_after_moves_equal_links_computed_from_scratch_and_only_reported_nodes_changed(
            places in places(),
            model in 0usize..4,
            moves in prop::collection::vec(
                (any::<prop::sample::Index>(), (-5000.0..5000.0, -5000.0..5000.0)), 1..12),
        ) {
            let model = &models(places.len())[model];
            let mut places = places;
            let mut moved = links_of(model, &places);
            let mut follower = moved.clone();
            for (node, to) in moves {
                let node = node.index(places.len());
                let before = content(&moved);
                let reported = moved.move_node(node, position(to));
                places[node] = to;
                let (after, fresh) = (content(&moved), links_of(model, &places));
                prop_assert_eq!(&after, &content(&fresh));
                prop_assert_eq!(moved.count(), fresh.count());
                prop_assert!(reported.is_sorted() && reported.contains(&(node as u32)));
                for other in (0..places.len()).filter(|&other| before[other] != after[other]) {
                    prop_assert!(reported.contains(&(other as u32)), "{} changed", other);
                }
                for (other, links) in before.iter().map(|of_node| &of_node.0).enumerate() {
                    for link in links {
                        let opposite = follower.between(link.to as usize, other).copied();
                        prop_assert_eq!(follower.opposite(other, link), opposite);
                    }
                }
                follower.take_from(&moved, |_| true);
                prop_assert_eq!(content(&follower), after);
            }
        }

        #[test]
        fn a_node_that_is_not_ready_keeps_its_links_until_it_is(
            places in places(), node in any::<prop::sample::Index>(), to in (-3000.0..3000.0, -3000.0..3000.0),
        ) {
            let node = node.index(places.len());
            let mut now = links(&places);
            let before = now.from(0).to_vec();
            let mut new = now.clone();
            new.move_node(node, position(to));
            now.take_from(&new, |other| other != 0);
            prop_assert_eq!(now.from(0), before);
            for other in 1..places.len() {
                prop_assert_eq!(now.from(other), new.from(other));
            }
            now.take_from(&new, |_| true);
            prop_assert_eq!(content(&now), content(&new));
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

    #[test]
    fn a_network_with_too_many_links_is_refused_and_names_the_mean() {
        let cell: Vec<_> = (0..10).map(|node| (f64::from(node), 0.0)).collect();
        let model = Radio::default().propagation;
        assert!(limited(&model, &cell, 90).is_ok());
        assert_eq!(limited(&model, &cell, 89).err(), Some(LinksError::TooMany { mean_per_node: 9 }));
    }

    #[test]
    fn computing_links_stops_when_interrupted() {
        let asked = std::cell::Cell::new(0);
        let requested = || {
            asked.set(asked.get() + 1);
            asked.get() == 5
        };
        let radio = Radio::default();
        let positions = (0..10).map(|node| position((f64::from(node), 0.0))).collect();
        let interrupt = Interrupt::new(&requested);
        let stopped = Links::new(&radio.propagation, &RadioParams::new(&radio), 1, positions, &interrupt);
        assert_eq!((stopped.err(), asked.get()), (Some(LinksError::Interrupted), 5));
    }

    #[test]
    fn memory_stays_bounded_when_nodes_keep_moving() {
        let places: Vec<_> = (0..30).map(|node| (f64::from(node) * 40.0, 0.0)).collect();
        let mut links = links(&places);
        for turn in 0..2000 {
            let x_m = f64::from(turn % 37) * 31.0;
            links.move_node(turn as usize % 30, Position { x_m, y_m: 5.0 });
            assert!(
                links.links.len() <= 2 * (links.count() + 30),
                "{} for {}",
                links.links.len(),
                links.count()
            );
        }
    }
}
