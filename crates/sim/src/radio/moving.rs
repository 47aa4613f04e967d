//! Links of nodes that move: computed when a frame begins, from the exact places at that time.
//!
//! Every node has a list of candidates: the nodes that can come into reach while the list is valid (Verlet lists of
//! molecular dynamics: Verlet 1967). A list covers a margin beyond the reach, which two nodes at maximum speed need some
//! time to cross; lists are made again after that time. A frame then looks at the candidates of its sender only, and at
//! those that move if the sender rests, so the cost follows the nodes that move.
//!
//! Power is computed by a formula without logarithms. It equals that of [`received_power`] but for rounding.

use fairhop_model::units::{Db, Dbm, Nanos, Power};

use super::config::Propagation;
use super::grid::Grid;
use super::links::{Link, Links};
use super::params::RadioParams;
use super::propagation::{LIGHT_M_PER_S, Position, RANGE_EDGE, crossover_m, reach_m, received_power};
use crate::mobility::{Leg, Trajectory};

/// Margin of candidate lists, as a share of the reach. A larger one makes lists longer, a smaller one makes them valid for
/// a shorter time.
const MARGIN: f64 = 0.1;

/// More than the relative error of a computed distance.
const ROUNDING: f64 = 1e-6;

/// Received power as a function of the squared distance, in units of [`Power`].
#[derive(Clone, Copy, Debug)]
enum Law {
    /// `factor / d⁴`
    Fourth { factor: f64 },
    /// `factor / d²`
    Square { factor: f64 },
    /// Square up to the crossover, then fourth.
    TwoRay { crossover_m2: f64, square: f64, fourth: f64 },
    /// `factor · max(d², reference²)^(−exponent / 2)`
    Power { factor: f64, reference_m2: f64, half_exponent: f64 },
}

impl Law {
    /// The law of a model, unless its power does not depend on distance.
    fn new(model: &Propagation, tx_power: Dbm) -> Option<Self> {
        let units = |dbm: Dbm| Db(dbm.0).as_ratio() * Power::from_dbm(Dbm(0.0)).0 as f64;
        let at_m = |metres: f64| units(received_power(model, tx_power, (0, 0), metres, 0));
        Some(match model {
            Propagation::Range { receive_m, .. } => {
                let receive_m2 = receive_m * receive_m;
                Self::Fourth { factor: units(RANGE_EDGE) * receive_m2 * receive_m2 }
            }
            Propagation::FreeSpace { .. } => Self::Square { factor: at_m(1.0) },
            Propagation::TwoRay { frequency_ghz, antenna_height_m } => {
                let crossover_m = crossover_m(*frequency_ghz, *antenna_height_m);
                let (near_m, far_m) = (crossover_m * 0.5, crossover_m * 2.0);
                Self::TwoRay {
                    crossover_m2: crossover_m * crossover_m,
                    square: at_m(near_m) * near_m * near_m,
                    fourth: at_m(far_m) * far_m.powi(4),
                }
            }
            Propagation::LogDistance { exponent, reference_loss_db, reference_m, .. } => Self::Power {
                factor: units(tx_power - Db(*reference_loss_db)) * libm::pow(*reference_m, *exponent),
                reference_m2: reference_m * reference_m,
                half_exponent: 0.5 * exponent,
            },
            Propagation::Matrix { .. } => return None,
        })
    }

    #[inline]
    fn units(self, m2: f64) -> f64 {
        match self {
            Self::Fourth { factor } => factor / (m2 * m2),
            Self::Square { factor } => factor / m2,
            Self::TwoRay { crossover_m2, square, .. } if m2 < crossover_m2 => square / m2,
            Self::TwoRay { fourth, .. } => fourth / (m2 * m2),
            Self::Power { factor, reference_m2, half_exponent } => {
                factor * libm::pow(m2.max(reference_m2), -half_exponent)
            }
        }
    }
}

/// A node that can come into reach.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    node: u32,
    /// Shadowing of the pair as a factor of power.
    gain: f64,
}

/// The network's moving nodes and what their links depend on.
#[derive(Clone, Debug)]
pub struct Moving {
    law: Law,
    model: Propagation,
    tx_power: Dbm,
    seed: u64,
    floor: Power,
    strongest: f64,
    reach_m: f64,
    /// Square of a distance beyond which there certainly is no link.
    limit_m2: f64,
    /// By node; none where it rests.
    trajectories: Vec<Option<Trajectory>>,
    /// The leg of every node now, or an earlier one if the node has not been asked for since.
    legs: Vec<Leg>,
    /// By node in the order of numbers: all that can come into reach of a moving node, and those that move for a resting
    /// one.
    candidates: Vec<Vec<Candidate>>,
    /// The links that [`Moving::update`] keeps of a resting node may lead to moving nodes.
    mixed: Vec<bool>,
    /// Candidates are complete until then.
    valid_until: Nanos,
    /// How long lists are valid.
    validity: Nanos,
    /// Nodes at the places of `listed`.
    grid: Grid,
    listed: Vec<Position>,
    found: Vec<Link>,
}

impl Moving {
    /// The moving nodes of a network whose `links` are those of its start. None for a loss matrix, in which power does not
    /// depend on places.
    pub fn new(
        model: &Propagation,
        params: &RadioParams,
        seed: u64,
        links: &Links,
        mut trajectories: Vec<Option<Trajectory>>,
    ) -> Option<Self> {
        let law = Law::new(model, params.tx_power)?;
        let reach_m = reach_m(model, params.tx_power, params.floor_dbm);
        let listed = links.positions().to_vec();
        let nodes = listed.len();
        trajectories.resize(nodes, None);
        let max_speed_mps =
            trajectories.iter().flatten().map(Trajectory::max_speed_mps).fold(0.0_f64, f64::max);
        let validity = Nanos::from_secs_f64(MARGIN * reach_m / (2.0 * max_speed_mps));
        Some(Self {
            law,
            model: model.clone(),
            tx_power: params.tx_power,
            seed,
            floor: params.floor,
            strongest: Power::from_dbm(Dbm(100.0)).0 as f64,
            reach_m,
            limit_m2: (reach_m * (1.0 + ROUNDING)).powi(2),
            legs: listed.iter().map(|&at| Leg::resting(at)).collect(),
            candidates: vec![Vec::new(); nodes],
            mixed: vec![true; nodes],
            valid_until: Nanos::ZERO,
            validity: validity.max(Nanos(1)),
            grid: Grid::new(reach_m * (1.0 + MARGIN), &listed),
            listed,
            found: Vec::new(),
            trajectories,
        })
        .map(|mut moving| {
            for (leg, trajectory) in moving.legs.iter_mut().zip(&mut moving.trajectories) {
                if let Some(trajectory) = trajectory {
                    *leg = trajectory.leg(Nanos::ZERO);
                }
            }
            moving.list(Nanos::ZERO);
            moving
        })
    }

    /// Whether a node has a trajectory.
    pub fn moves(&self, node: usize) -> bool {
        self.trajectories[node].is_some()
    }

    /// The place of a node at a time, which must not be before that of an earlier call that changed the state.
    pub fn place(&self, node: usize, now: Nanos) -> Position {
        match &self.trajectories[node] {
            Some(trajectory) if now > self.legs[node].end() => trajectory.clone().at(now),
            _ => self.legs[node].at(now),
        }
    }

    #[inline]
    fn at(&mut self, node: usize, now: Nanos) -> Position {
        if now > self.legs[node].end() {
            self.next_leg(node, now);
        }
        self.legs[node].at(now)
    }

    #[cold]
    fn next_leg(&mut self, node: usize, now: Nanos) {
        if let Some(trajectory) = &mut self.trajectories[node] {
            self.legs[node] = trajectory.leg(now);
        }
    }

    /// The link over a squared distance.
    #[inline]
    fn link(&self, to: u32, m2: f64, gain: f64) -> Option<Link> {
        if m2 > self.limit_m2 {
            return None;
        }
        let power = Power(nearest((self.law.units(m2) * gain).min(self.strongest)));
        (power >= self.floor && power > Power::ZERO).then(|| Link {
            to,
            delay_ns: nearest(m2.sqrt() * (1e9 / LIGHT_M_PER_S)) as u32,
            power,
        })
    }

    /// The link between two nodes at a time, if there is one. In the same order of time as [`Moving::update`].
    pub fn between(&mut self, from: usize, to: usize, now: Nanos) -> Option<Link> {
        let (here, there) = (self.at(from, now), self.at(to, now));
        self.link(to as u32, squared_m(here, there), self.gain(from, to))
    }

    fn gain(&self, from: usize, to: usize) -> f64 {
        let Propagation::LogDistance { shadowing_db, reference_loss_db, reference_m, .. } = &self.model
        else {
            return 1.0;
        };
        if *shadowing_db == 0.0 {
            return 1.0;
        }
        let shadowed = received_power(&self.model, self.tx_power, (from, to), *reference_m, self.seed);
        Db(shadowed.0 - (self.tx_power.0 - reference_loss_db)).as_ratio()
    }

    /// Brings the links from a node up to date. `now` must not be before that of an earlier call.
    #[inline(never)]
    pub fn update(&mut self, node: usize, now: Nanos, links: &mut Links) {
        if now >= self.valid_until {
            self.list(now);
        }
        if self.trajectories[node].is_none() && self.candidates[node].is_empty() && !self.mixed[node] {
            return;
        }
        self.compute(node, now, links);
        self.mixed[node] = !self.candidates[node].is_empty();
        links.set(node, &self.found);
    }

    /// Computes the links from a node into `found`.
    fn compute(&mut self, node: usize, now: Nanos, links: &Links) {
        let here = self.at(node, now);
        let candidates = std::mem::take(&mut self.candidates[node]);
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        if self.moves(node) {
            found.reserve(candidates.len());
            for &Candidate { node: other, gain } in &candidates {
                let there = self.at(other as usize, now);
                if let Some(link) = self.link(other, squared_m(here, there), gain) {
                    found.push(link);
                }
            }
        } else {
            // The links to resting nodes stay. Both lists are in the order of receivers.
            let mut moving = candidates.iter();
            let mut next = moving.next();
            let mut advance = |below: u32, found: &mut Vec<Link>, this: &mut Self| {
                while let Some(&Candidate { node: other, gain }) = next.filter(|next| next.node < below) {
                    let there = this.at(other as usize, now);
                    found.extend(this.link(other, squared_m(here, there), gain));
                    next = moving.next();
                }
            };
            for link in links.from(node) {
                if self.moves(link.to as usize) {
                    continue;
                }
                advance(link.to, &mut found, self);
                found.push(*link);
            }
            advance(u32::MAX, &mut found, self);
        }
        self.candidates[node] = candidates;
        self.found = found;
    }

    /// Makes the candidate lists again.
    fn list(&mut self, now: Nanos) {
        let nodes = self.legs.len();
        for node in 0..nodes {
            self.candidates[node].clear();
            if self.moves(node) {
                let at = self.at(node, now);
                self.grid.remove(node, self.listed[node]);
                self.grid.insert(node, at);
                self.listed[node] = at;
            }
        }
        let limit_m = self.reach_m * (1.0 + MARGIN);
        for node in 0..nodes {
            if !self.moves(node) {
                continue;
            }
            let here = self.listed[node];
            let mut candidates = std::mem::take(&mut self.candidates[node]);
            for other in self.grid.near(here).filter(|&other| other != node) {
                if here.is_farther_m(self.listed[other], limit_m) {
                    continue;
                }
                let gain = self.gain(node, other);
                candidates.push(Candidate { node: other as u32, gain });
                if !self.moves(other) {
                    self.candidates[other].push(Candidate { node: node as u32, gain });
                    self.mixed[other] = true;
                }
            }
            candidates.sort_unstable_by_key(|candidate| candidate.node);
            self.candidates[node] = candidates;
        }
        self.valid_until = now.saturating_add(self.validity);
    }

    /// Brings all links up to date, and the places of the nodes. `now` must not be before that of an earlier call.
    pub fn update_all(&mut self, now: Nanos, links: &mut Links) {
        if now >= self.valid_until {
            self.list(now);
        }
        for node in 0..self.legs.len() {
            if self.moves(node) {
                let at = self.at(node, now);
                links.set_position(node, at);
            }
            if self.moves(node)
                || !self.candidates[node].is_empty()
                || links.leads_to(node, |to| self.moves(to))
            {
                self.compute(node, now, links);
                links.set(node, &self.found);
            }
        }
    }

    /// Takes over the places of resting nodes after a change has moved some at once.
    pub fn adopt(&mut self, links: &Links) {
        for (node, &at) in links.positions().iter().enumerate() {
            if !self.moves(node) && self.listed[node] != at {
                self.grid.remove(node, self.listed[node]);
                self.grid.insert(node, at);
                self.listed[node] = at;
                self.legs[node] = Leg::resting(at);
            }
        }
        self.mixed.fill(true);
        self.valid_until = Nanos::ZERO;
    }
}

/// [`f64::round`] of a number from 0 to 2⁶³. That is a call of the C library where SSE 4.1 is not presupposed.
#[inline]
fn nearest(value: f64) -> u64 {
    let floor = value as i64;
    (floor + i64::from(value - floor as f64 >= 0.5)) as u64
}

#[inline]
fn squared_m(a: Position, b: Position) -> f64 {
    let (x_m, y_m) = (a.x_m - b.x_m, a.y_m - b.y_m);
    x_m * x_m + y_m * y_m
}

#[cfg(test)]
mod tests;
