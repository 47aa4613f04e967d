//! Static routes: shortest paths over links that work both ways, as a table at every node.
//!
//! The table is asked by source and destination, so that paths set by hand, and several paths to one place, cannot make
//! a loop. Left out: routing protocols and reaction to loss.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairhop_model::phy::{Rate, frame};

use crate::radio::{Links, RadioParams};
use crate::scenario::{Metric, Routing};

/// Which way packets go, by node.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// For each node the first of its hops, and the end of the last one's.
    begin: Vec<u32>,
    /// The hops of one node after the other.
    hops: Vec<Hop>,
}

/// Where a node sends packets between two ends. Sorted by node, source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hop {
    node: u32,
    source: u32,
    destination: u32,
    next: u32,
}

impl Routes {
    /// Tables for so many nodes of all `paths`: each from its first node to its last, for packets from a source to a
    /// destination, which lie at or beyond its ends. Of two paths between the same ends the later one counts.
    pub fn new(nodes: usize, paths: &[(Vec<u32>, u32, u32)]) -> Self {
        let mut hops: Vec<Hop> = paths
            .iter()
            .flat_map(|(path, source, destination)| {
                path.windows(2).map(|hop| Hop {
                    node: hop[0],
                    source: *source,
                    destination: *destination,
                    next: hop[1],
                })
            })
            .collect();
        hops.reverse();
        hops.sort_by_key(|hop| (hop.node, hop.source, hop.destination));
        hops.dedup_by_key(|hop| (hop.node, hop.source, hop.destination));
        let begin =
            (0..=nodes as u32).map(|node| hops.partition_point(|hop| hop.node < node) as u32).collect();
        Self { begin, hops }
    }

    /// Where `node` sends a packet from `source` to `destination`.
    #[inline]
    pub fn next_hop(&self, node: u32, source: u32, destination: u32) -> Option<u32> {
        let hops = &self.hops[self.begin[node as usize] as usize..self.begin[node as usize + 1] as usize];
        let index =
            hops.binary_search_by_key(&(source, destination), |hop| (hop.source, hop.destination)).ok()?;
        Some(hops[index].next)
    }
}

/// The cost of a path: what the metric counts, then metres (both in thousandths), so that equal paths are told apart.
type Cost = (u64, u64);

/// Finds shortest paths.
pub struct PathFinder<'a> {
    links: &'a Links,
    radio: &'a RadioParams,
    routing: &'a Routing,
    rate: Rate,
    ack_rate: Rate,
    best: Vec<(Cost, u32)>,
    touched: Vec<u32>,
}

/// A link over which fewer attempts succeed is none: at a tenth, the standard's seven attempts still bring every second
/// packet over.
const LEAST_DELIVERY: f64 = 0.1;

const UNREACHED: Cost = (u64::MAX, u64::MAX);

impl<'a> PathFinder<'a> {
    /// A finder for data frames at `rate`, acknowledged at `ack_rate`.
    pub fn new(
        links: &'a Links,
        radio: &'a RadioParams,
        routing: &'a Routing,
        rate: Rate,
        ack_rate: Rate,
    ) -> Self {
        let best = vec![(UNREACHED, u32::MAX); links.positions().len()];
        Self { links, radio, routing, rate, ack_rate, best, touched: Vec::new() }
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
        let forward = self.radio.delivery_ratio(self.rate, there, frame::of_ip_packet(1500));
        Some(forward * self.radio.delivery_ratio(self.ack_rate, back, frame::ACK))
    }

    /// What a hop costs, in thousandths of a transmission. Hops that count alike must be good ones both ways; ETX tells a
    /// poor one by its cost.
    fn hop_cost(&self, from: u32, to: u32) -> Option<u64> {
        match self.routing.metric {
            Metric::Hops => {
                let there = self.links.between(from as usize, to as usize)?.power;
                let back = self.links.between(to as usize, from as usize)?.power;
                let good = self.radio.decodes(self.rate, there) && self.radio.decodes(self.rate, back);
                good.then_some(1000)
            }
            Metric::Etx => {
                let chance = self.delivery(from, to)?;
                (chance >= LEAST_DELIVERY).then(|| (1000.0 / chance).round() as u64)
            }
        }
    }

    /// The path between two nodes, both included: the one set by hand, or the shortest. None where there is none.
    pub fn path(&mut self, from: u32, to: u32) -> Option<Vec<u32>> {
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
        let mut path = self.shortest(start, goal)?;
        if from == start {
            path.reverse();
        }
        Some(path)
    }

    /// Dijkstra's algorithm from `start`; the path is given from `goal` back to `start`.
    fn shortest(&mut self, start: u32, goal: u32) -> Option<Vec<u32>> {
        for node in self.touched.drain(..) {
            self.best[node as usize] = (UNREACHED, u32::MAX);
        }
        let mut open = BinaryHeap::new();
        self.best[start as usize] = ((0, 0), start);
        self.touched.push(start);
        open.push(Reverse(((0, 0), start)));
        while let Some(Reverse((cost, node))) = open.pop() {
            if node == goal {
                break;
            }
            if cost > self.best[node as usize].0 {
                continue;
            }
            let links = self.links;
            let positions = links.positions();
            for link in links.from(node as usize) {
                let Some(hop) = self.hop_cost(node, link.to) else { continue };
                let metres = positions[node as usize].distance_m(positions[link.to as usize]);
                let reached = (cost.0 + hop, cost.1 + (metres * 1000.0).round() as u64);
                let best = &mut self.best[link.to as usize];
                if best.0 == UNREACHED {
                    self.touched.push(link.to);
                }
                // Among equals the lowest predecessor, which comes first.
                if reached < best.0 {
                    *best = (reached, node);
                    open.push(Reverse((reached, link.to)));
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
}
