//! Random waypoint (Johnson and Maltz 1996): a node goes to a uniform place of a rectangle at a uniform speed, pauses, and
//! goes on.
//!
//! A uniform start (Broch et al. 1998) is not the steady state: nodes gather in the middle, and slow legs last longer, so
//! that the mean speed falls during the first minutes. The steady state is drawn as in Navidi and Camp (IEEE TMC 2004):
//! the node is in a pause with the probability of the mean pause to the mean cycle; else on a leg whose ends have a density
//! proportional to its length, at a uniform place of it, with a speed of density proportional to 1/v. With a minimum speed
//! of 0, the mean speed falls for ever (Yoon, Liu and Noble 2003), so it is refused before this.

use fairhop_model::units::Nanos;

use super::Leg;
use crate::engine::Stream;
use crate::radio::Position;

/// The area of random waypoint, its speeds and pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Width in metres.
    pub width_m: f64,
    /// Height in metres.
    pub height_m: f64,
    /// Minimum speed in m/s, above 0.
    pub min_mps: f64,
    /// Maximum speed in m/s.
    pub max_mps: f64,
    /// Pause at each waypoint.
    pub pause: Nanos,
}

impl Area {
    fn place(&self, random: &mut Stream) -> Position {
        Position { x_m: random.unit() * self.width_m, y_m: random.unit() * self.height_m }
    }

    /// Mean of 1/v over legs, in s/m.
    fn mean_slowness(&self) -> f64 {
        let range = self.max_mps - self.min_mps;
        if range > 1e-9 * self.max_mps {
            libm::log(self.max_mps / self.min_mps) / range
        } else {
            1.0 / self.max_mps
        }
    }

    /// The share of time that a node spends in pauses in the long run.
    pub fn pause_share(&self) -> f64 {
        let pause_s = self.pause.as_secs_f64();
        pause_s / (pause_s + mean_length_m(self.width_m, self.height_m) * self.mean_slowness())
    }

    /// Mean speed over time in the long run in m/s, pauses included.
    pub fn mean_speed_mps(&self) -> f64 {
        (1.0 - self.pause_share()) / self.mean_slowness()
    }
}

/// Mean distance in metres of two uniform places in a rectangle (Ghosh 1951).
pub fn mean_length_m(width_m: f64, height_m: f64) -> f64 {
    let (a, b) = (width_m, height_m);
    let d = libm::hypot(a, b);
    let (a2, b2) = (a * a, b * b);
    (a2 * a / b2 + b2 * b / a2 + d * (3.0 - a2 / b2 - b2 / a2)) / 15.0
        + (b2 / a * libm::acosh(d / b) + a2 / b * libm::acosh(d / a)) / 6.0
}

/// The legs of one node.
#[derive(Clone, Debug)]
pub struct RandomWaypoint {
    area: Area,
    random: Stream,
    at: Position,
    now: Nanos,
    /// Legs that come before the next one that is drawn, last first.
    ready: Vec<Leg>,
}

impl RandomWaypoint {
    /// From a uniform place, after a full pause.
    pub fn uniform(area: Area, mut random: Stream) -> Self {
        let at = area.place(&mut random);
        let mut model = Self { area, random, at, now: Nanos::ZERO, ready: Vec::with_capacity(2) };
        model.pause(area.pause);
        model
    }

    /// In the steady state.
    pub fn steady(area: Area, mut random: Stream) -> Self {
        if random.unit() < area.pause_share() {
            // The rest of a constant pause that is met at a random time is uniform.
            let at = area.place(&mut random);
            let left = Nanos::from_secs_f64(area.pause.as_secs_f64() * random.unit());
            let mut model = Self { area, random, at, now: Nanos::ZERO, ready: Vec::with_capacity(2) };
            model.pause(left);
            return model;
        }
        let longest_m = libm::hypot(area.width_m, area.height_m);
        let (from, to) = loop {
            let (from, to) = (area.place(&mut random), area.place(&mut random));
            if random.unit() * longest_m < from.distance_m(to) {
                break (from, to);
            }
        };
        let done = random.unit();
        let at = Position {
            x_m: from.x_m + (to.x_m - from.x_m) * done,
            y_m: from.y_m + (to.y_m - from.y_m) * done,
        };
        // The inverse of the distribution function ln(v / min) / ln(max / min).
        let speed = area.min_mps * libm::pow(area.max_mps / area.min_mps, random.unit());
        let mut model = Self { area, random, at, now: Nanos::ZERO, ready: Vec::with_capacity(2) };
        model.walk(to, speed);
        model
    }

    pub(super) fn max_speed_mps(&self) -> f64 {
        self.area.max_mps
    }

    fn pause(&mut self, pause: Nanos) {
        let end = self.now.saturating_add(pause);
        self.ready.push(Leg::rest(self.at, self.now, end));
        self.now = end;
    }

    /// Adds a leg, and the pause after it.
    fn walk(&mut self, to: Position, speed_mps: f64) {
        let took = Nanos::from_secs_f64(self.at.distance_m(to) / speed_mps);
        let end = self.now.saturating_add(took.max(Nanos(1)));
        let leg = Leg::new(self.at, to, self.now, end);
        (self.at, self.now) = (to, end);
        if self.area.pause > Nanos::ZERO {
            self.pause(self.area.pause);
        }
        self.ready.push(leg);
    }

    /// The next leg or pause.
    pub(super) fn next_leg(&mut self) -> Leg {
        loop {
            if let Some(leg) = self.ready.pop() {
                return leg;
            }
            let to = self.area.place(&mut self.random);
            let speed = self.area.min_mps + (self.area.max_mps - self.area.min_mps) * self.random.unit();
            self.walk(to, speed);
        }
    }
}

#[cfg(test)]
mod tests;
