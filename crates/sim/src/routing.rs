//! Static routes: shortest paths over links that work both ways, and over wires, as a table at every node and host.
//!
//! A path costs first what its radio hops cost, then the delay of its wires, then their number: wires go before radio. The
//! table is asked by source and destination, so that paths set by hand, and several paths to one place, cannot make a
//! loop. Left out: reaction to loss, which is for routing protocols ([`fairhop_routing`]).

mod config;
mod hops;
mod paths;

use fairhop_model::units::Nanos;

use crate::engine::prefetch;
use crate::mac::BROADCAST;
pub use config::{AodvSettings, Hello, Metric, OnBreak, Protocol, Routing};
pub use hops::HopModel;
pub use paths::PathFinder;

/// Where a node sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// By radio to a neighbour.
    Radio(u32),
    /// By radio, over the route that a routing protocol has found to this node.
    Routed(u32),
    /// By wire; the number of the direction of a link.
    Wire(u32),
    /// By radio to all neighbours.
    Broadcast,
    /// Nowhere: to the node itself.
    Local,
}

/// Forwarding tables, by node and then by host.
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
    next: NextHop,
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
            let over = |from, to| wires.direction(from, to).map_or(NextHop::Radio(to), NextHop::Wire);
            path.windows(2)
                .map(|hop| (hop[0], Hop { ends: ends(source, destination), next: over(hop[0], hop[1]) }))
                .collect()
        };
        let mut hops: Vec<(u32, Hop)> = paths.iter().flat_map(|path| hops_of(path)).collect();
        hops.reverse();
        Self::of_hops(hops, wires)
    }

    /// Tables for paths of packets between other ends: each with the source and destination of its packets.
    pub fn for_ends(paths: &[((u32, u32), Vec<u32>)], wires: &Wires) -> Self {
        let hops = paths.iter().flat_map(|((source, destination), path)| {
            let over = |from, to| wires.direction(from, to).map_or(NextHop::Radio(to), NextHop::Wire);
            let ends = ends(*source, *destination);
            path.windows(2).map(move |hop| (hop[0], Hop { ends, next: over(hop[0], hop[1]) }))
        });
        Self::of_hops(hops.collect(), wires)
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

    /// Removes the route from one end to another at all nodes.
    pub fn remove(&mut self, source: u32, destination: u32) {
        let gone = ends(source, destination);
        if !self.hops.iter().any(|hop| hop.ends == gone) {
            return;
        }
        let places = self.begin.len().saturating_sub(1);
        let kept: Vec<(u32, Hop)> = self.by_node().filter(|(_, hop)| hop.ends != gone).collect();
        *self = Self::of_hops(kept, &Wires::new(places));
    }

    /// All hops with their nodes.
    fn by_node(&self) -> impl Iterator<Item = (u32, Hop)> {
        self.begin.windows(2).zip(0..).flat_map(|(of_node, node)| {
            self.hops[of_node[0] as usize..of_node[1] as usize].iter().map(move |hop| (node, *hop))
        })
    }

    /// Prefetches the first hop of a node.
    #[inline]
    pub fn prefetch_hop(&self, node: u32) {
        if let Some(&begin) = self.begin.get(node as usize)
            && let Some(hop) = self.hops.get(begin as usize)
        {
            prefetch(hop);
        }
    }

    /// Where `node` sends a packet from `source` to `destination`; none where it has no route.
    #[inline]
    pub fn next_hop(&self, node: u32, source: u32, destination: u32) -> Option<NextHop> {
        if destination == node {
            return Some(NextHop::Local);
        }
        if destination == BROADCAST {
            return Some(NextHop::Broadcast);
        }
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

    /// Where the wires from a place lead.
    pub(crate) fn from(&self, place: u32) -> impl Iterator<Item = u32> {
        self.from[place as usize].iter().map(|wire| wire.0)
    }

    /// The direction that goes from one place to another.
    fn direction(&self, from: u32, to: u32) -> Option<u32> {
        self.from[from as usize].iter().find(|wire| wire.0 == to).map(|wire| wire.2)
    }
}
