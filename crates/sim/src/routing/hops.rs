//! Radio hops: which links can be used for data, and what each costs.

use fairhop_model::phy::frame;

use crate::engine::{Interrupt, Interrupted};
use crate::mac::MacParams;
use crate::radio::{Link, Links, Position, RadioParams};
use crate::scenario::Metric;

/// Minimum chance that a hop's data and ACK both arrive: at a tenth, the standard's seven attempts still deliver every
/// second packet.
const MIN_DELIVERY: f64 = 0.1;

/// Cost of a hop that always works, in thousandths of a transmission. No hop costs less.
pub(super) const GOOD_HOP: u32 = 1000;

/// What decides which hops are usable, and what they cost.
#[derive(Clone, Copy)]
pub struct HopModel<'a> {
    /// The links between nodes.
    pub links: &'a Links,
    /// Thresholds and error rates of reception.
    pub radio: &'a RadioParams,
    /// Rates of data and control frames.
    pub mac: &'a MacParams,
    /// What a hop costs.
    pub metric: Metric,
}

impl HopModel<'_> {
    /// Whether a hop works at all, data one way and its ACK the other: whether an attempt succeeds with a chance of at
    /// least 10 %.
    pub fn usable(&self, from: u32, to: u32) -> bool {
        let there = self.links.between(from as usize, to as usize);
        there.is_some_and(|there| self.delivery(from, there).is_some_and(|chance| chance >= MIN_DELIVERY))
    }

    /// The chance that a 1500-byte packet and its ACK arrive at the first attempt.
    fn delivery(&self, from: u32, there: &Link) -> Option<f64> {
        let back = self.links.opposite(from as usize, there)?.power;
        let rate = self.mac.rate_of_hop(from, there.to);
        let forward = self.radio.delivery_ratio(rate, there.power, frame::of_ip_packet(1500));
        Some(forward * self.radio.delivery_ratio(self.mac.control_rate_of(rate), back, frame::ACK))
    }

    /// The cost of a hop in thousandths of a transmission. By hop count, only good hops are used, since all count alike;
    /// ETX tells poor hops by their cost.
    pub(super) fn cost(&self, from: u32, there: &Link) -> Option<u32> {
        match self.metric {
            Metric::Hops => {
                let back = self.links.opposite(from as usize, there)?.power;
                let good = self.radio.decodes(self.mac.rate_of_hop(from, there.to), there.power)
                    && self.radio.decodes(self.mac.rate_of_hop(there.to, from), back);
                good.then_some(GOOD_HOP)
            }
            Metric::Etx => {
                let chance = self.delivery(from, there)?;
                (chance >= MIN_DELIVERY).then(|| (f64::from(GOOD_HOP) / chance).round() as u32)
            }
        }
    }
}

/// The cost of a path: hops in thousandths, delay of wires in nanoseconds, millimetres of radio plus number of wires.
pub(super) type Cost = (u64, u64, u64);

pub(super) const UNREACHED: Cost = (u64::MAX, u64::MAX, u64::MAX);

pub(super) fn plus(a: Cost, b: Cost) -> Cost {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1), a.2.saturating_add(b.2))
}

/// A pair of nodes with a hop in at least one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) to: u32,
    /// Cost of the hop; [`Hop::UNUSABLE`] if there is none in this direction.
    pub(super) cost: u32,
    /// The same in the opposite direction.
    pub(super) back: u32,
    pub(super) mm: u32,
}

impl Hop {
    pub(super) const UNUSABLE: u32 = u32::MAX;

    pub(super) fn weight(cost: u32, mm: u32) -> Cost {
        (u64::from(cost), 0, u64::from(mm))
    }
}

/// The hops of a network.
#[derive(Clone, Debug)]
pub(super) struct HopGraph {
    pub(super) positions: Vec<Position>,
    /// By node, in the order of neighbours.
    pub(super) of_node: Vec<Vec<Hop>>,
    /// No hop is longer, in metres.
    pub(super) max_hop_m: f64,
}

impl HopGraph {
    pub(super) fn new(model: &HopModel<'_>, interrupt: &Interrupt<'_>) -> Result<Self, Interrupted> {
        let positions = model.links.positions().to_vec();
        let mut graph = Self { of_node: Vec::with_capacity(positions.len()), positions, max_hop_m: 0.0 };
        for node in 0..graph.positions.len() {
            interrupt.check()?;
            let hops = graph.compute(model, node);
            graph.of_node.push(hops);
        }
        Ok(graph)
    }

    fn compute(&mut self, model: &HopModel<'_>, node: usize) -> Vec<Hop> {
        let hop = |there: &Link| {
            let back = model.links.opposite(node, there)?;
            let cost = model.cost(node as u32, there).unwrap_or(Hop::UNUSABLE);
            let back = match model.metric {
                Metric::Hops => cost, // a hop needs both directions
                Metric::Etx => model.cost(there.to, &back).unwrap_or(Hop::UNUSABLE),
            };
            if cost == Hop::UNUSABLE && back == Hop::UNUSABLE {
                return None;
            }
            let metres = self.positions[node].distance_m(self.positions[there.to as usize]);
            Some((Hop { to: there.to, cost, back, mm: (metres * 1000.0).round() as u32 }, metres))
        };
        let found: Vec<(Hop, f64)> = model.links.from(node).iter().filter_map(hop).collect();
        self.max_hop_m = found.iter().map(|&(_, metres)| metres).fold(self.max_hop_m, f64::max);
        found.into_iter().map(|(hop, _)| hop).collect()
    }

    /// Whether another graph has the same hops at the same costs, whatever their lengths are.
    pub(super) fn has_hops_of(&self, other: &Self) -> bool {
        let key = |hop: &Hop| (hop.to, hop.cost, hop.back);
        self.of_node.iter().zip(&other.of_node).all(|(a, b)| a.iter().map(key).eq(b.iter().map(key)))
    }

    /// Computes the hops of a node, and those of others to it.
    pub(super) fn update(&mut self, model: &HopModel<'_>, node: usize) {
        self.positions[node] = model.links.positions()[node];
        let new = self.compute(model, node);
        let old = std::mem::replace(&mut self.of_node[node], new.clone());
        let at = |hops: &[Hop]| hops.binary_search_by_key(&(node as u32), |hop| hop.to);
        for gone in old {
            let hops = &mut self.of_node[gone.to as usize];
            if let Ok(index) = at(hops) {
                hops.remove(index);
            }
        }
        for Hop { to, cost, back, mm } in new {
            let hops = &mut self.of_node[to as usize];
            let opposite = Hop { to: node as u32, cost: back, back: cost, mm };
            match at(hops) {
                Ok(index) => hops[index] = opposite,
                Err(index) => hops.insert(index, opposite),
            }
        }
    }
}
