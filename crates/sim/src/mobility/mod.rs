//! Movement of nodes: straight lines at constant speed, and rests between them.
//!
//! A [`Trajectory`] gives the exact place of a node at any time. It comes from waypoints, from a file in ns-2's form
//! ([`parse`]), or from the random waypoint model ([`RandomWaypoint`]). Times only go forward, so that a model draws its
//! legs one at a time and takes the same memory however long the run is.
//!
//! Left out: acceleration, obstacles, groups, and a third dimension.

mod ns2;
mod random_waypoint;

use std::sync::Arc;

use fairhop_model::units::Nanos;

use crate::radio::Position;
pub use ns2::{LineError, Movement, Movements, parse};
pub use random_waypoint::{Area, RandomWaypoint, mean_length_m};

/// A straight line at constant speed, or a rest.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub struct Leg {
    from: Position,
    to: Position,
    /// Metres per nanosecond.
    velocity: (f64, f64),
    start: Nanos,
    end: Nanos,
}

impl Leg {
    /// From one place at `start` to another at `end`. If the times are equal, the node is at `to`.
    pub fn new(from: Position, to: Position, start: Nanos, end: Nanos) -> Self {
        let nanos = end.saturating_sub(start).0 as f64;
        let velocity =
            if nanos > 0.0 { ((to.x_m - from.x_m) / nanos, (to.y_m - from.y_m) / nanos) } else { (0.0, 0.0) };
        Self { from, to, velocity, start, end }
    }

    /// A rest from `start` to `end`.
    pub fn rest(at: Position, start: Nanos, end: Nanos) -> Self {
        Self::new(at, at, start, end)
    }

    /// A rest that does not end.
    pub fn resting(at: Position) -> Self {
        Self::rest(at, Nanos::ZERO, Nanos::MAX)
    }

    /// When it ends.
    #[inline]
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// The place at a time: that of the start before it, and that of the end after it.
    #[inline]
    pub fn at(&self, time: Nanos) -> Position {
        if time >= self.end {
            return self.to;
        }
        // Signed, which is one instruction to convert.
        let nanos = time.0.saturating_sub(self.start.0) as i64 as f64;
        Position {
            x_m: self.from.x_m + self.velocity.0 * nanos,
            y_m: self.from.y_m + self.velocity.1 * nanos,
        }
    }

    /// Speed in m/s.
    pub fn speed_mps(&self) -> f64 {
        libm::hypot(self.velocity.0, self.velocity.1) * 1e9
    }
}

/// Where further legs come from.
#[derive(Clone, Debug)]
enum Source {
    /// Known before the run: all legs, and the number of the next one.
    Planned(Arc<[Leg]>, usize),
    /// Drawn one at a time.
    Random(Box<RandomWaypoint>),
}

/// The way of a node through the run.
#[derive(Clone, Debug)]
pub struct Trajectory {
    leg: Leg,
    source: Source,
    max_speed_mps: f64,
}

impl Trajectory {
    /// Along places with times that increase strictly. The node rests at the first before its time, and at the last after it.
    pub fn along(places: &[(Nanos, Position)]) -> Self {
        let first = places.first().map_or_else(Position::default, |&(_, at)| at);
        let start = places.first().map_or(Nanos::ZERO, |&(at, _)| at);
        let legs = places.windows(2).map(|pair| Leg::new(pair[0].1, pair[1].1, pair[0].0, pair[1].0));
        Self::planned(std::iter::once(Leg::rest(first, Nanos::ZERO, start)).chain(legs).collect())
    }

    /// By movements in ns-2's form: each one goes from the place that the node has then, whether it was reached or not.
    /// Movements must be in the order of time.
    pub fn by_movements(start: Position, movements: &[Movement]) -> Self {
        let mut legs = vec![Leg::rest(start, Nanos::ZERO, Nanos::ZERO)];
        for &Movement { at, to, speed_mps, .. } in movements {
            let before = legs[legs.len() - 1];
            let from = before.at(at);
            if let Some(last) = legs.last_mut().filter(|last| last.end > at) {
                // The new destination replaces the old one before it is reached.
                *last = Leg { to: from, end: at, ..*last };
            }
            legs.push(Leg::rest(from, before.end.min(at), at));
            if speed_mps > 0.0 {
                let seconds = from.distance_m(to) / speed_mps;
                legs.push(Leg::new(from, to, at, at.saturating_add(Nanos::from_secs_f64(seconds))));
            }
        }
        Self::planned(legs)
    }

    /// By random waypoint.
    pub fn random(mut model: RandomWaypoint) -> Self {
        let leg = model.next_leg();
        Self { leg, max_speed_mps: model.max_speed_mps(), source: Source::Random(Box::new(model)) }
    }

    fn planned(legs: Vec<Leg>) -> Self {
        let max_speed_mps = legs.iter().map(Leg::speed_mps).fold(0.0, f64::max);
        Self { leg: legs[0], source: Source::Planned(legs.into(), 1), max_speed_mps }
    }

    /// The place at a time, which must not be before that of an earlier call.
    pub fn at(&mut self, time: Nanos) -> Position {
        self.leg(time).at(time)
    }

    /// The leg at a time, which must not be before that of an earlier call.
    pub fn leg(&mut self, time: Nanos) -> Leg {
        while time > self.leg.end {
            self.leg = match &mut self.source {
                Source::Planned(legs, next) => match legs.get(*next) {
                    Some(&leg) => {
                        *next += 1;
                        leg
                    }
                    None => Leg::rest(self.leg.to, self.leg.end, Nanos::MAX),
                },
                Source::Random(model) => model.next_leg(),
            };
        }
        self.leg
    }

    /// No leg is faster, in m/s.
    pub fn max_speed_mps(&self) -> f64 {
        self.max_speed_mps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x_m: f64, y_m: f64) -> Position {
        Position { x_m, y_m }
    }

    fn s(seconds: f64) -> Nanos {
        Nanos::from_secs_f64(seconds)
    }

    #[test]
    fn a_node_rests_before_its_first_waypoint_and_after_its_last_and_walks_evenly_between() {
        let mut walk = Trajectory::along(&[(s(5.0), at(0.0, 10.0)), (s(67.0), at(620.0, 10.0))]);
        for (time, x_m) in [(0.0, 0.0), (5.0, 0.0), (6.0, 10.0), (36.0, 310.0), (67.0, 620.0), (90.0, 620.0)]
        {
            let place = walk.at(s(time));
            assert!((place.x_m - x_m).abs() < 1e-9 && (place.y_m - 10.0).abs() < 1e-9, "{time}: {place:?}");
        }
        assert!((walk.max_speed_mps() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_movement_that_comes_on_the_way_starts_where_the_node_is_then() {
        let movement = |seconds, to, speed_mps| Movement { node: 0, at: s(seconds), to, speed_mps };
        let mut walk = Trajectory::by_movements(
            at(0.0, 0.0),
            &[
                movement(1.0, at(100.0, 0.0), 10.0),
                movement(6.0, at(50.0, 30.0), 5.0), // from (50, 0), reached at 12 s
                movement(20.0, at(0.0, 0.0), 0.0),  // no speed: it stays
            ],
        );
        let expected = [
            (0.5, 0.0, 0.0),
            (3.0, 20.0, 0.0),
            (6.0, 50.0, 0.0),
            (8.0, 50.0, 10.0),
            (12.0, 50.0, 30.0),
            (30.0, 50.0, 30.0),
        ];
        for (time, x_m, y_m) in expected {
            let place = walk.at(s(time));
            assert!((place.x_m - x_m).abs() < 1e-6 && (place.y_m - y_m).abs() < 1e-6, "{time}: {place:?}");
        }
    }
}
