//! Path loss: the power that one node receives from another, by their positions.
//!
//! Models: free space (Friis 1946), two-ray ground (Rappaport 2002, §4.6, with the crossover at 4π·h²/λ), log-distance
//! with log-normal shadowing that is fixed for each pair (ibid., §4.9), a given matrix, and circles. Left out: fading in
//! time, antenna patterns, obstacles.

use fairhop_model::units::{Db, Dbm};

use super::config::Propagation;
use crate::engine::{Purpose, Stream};

/// A position in the plane, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Metres to the right.
    pub x_m: f64,
    /// Metres up.
    pub y_m: f64,
}

impl Position {
    /// The distance to another position in metres.
    pub fn distance_m(self, other: Self) -> f64 {
        libm::hypot(self.x_m - other.x_m, self.y_m - other.y_m)
    }

    /// Whether another position is farther away than a distance in metres, within rounding.
    #[inline]
    pub fn is_farther_m(self, other: Self, distance_m: f64) -> bool {
        let (x_m, y_m) = (self.x_m - other.x_m, self.y_m - other.y_m);
        x_m * x_m + y_m * y_m > distance_m * distance_m
    }
}

/// The speed of light in m/s.
pub const LIGHT_M_PER_S: f64 = 299_792_458.0;

/// Power at the edge of reception in the circle model. Only ratios matter, since the model has no noise.
pub(super) const RANGE_EDGE: Dbm = Dbm(-80.0);

/// Matrix entries of this loss or more mean that there is no signal at all.
pub(super) const NOT_HEARD_DB: f64 = 1000.0;

/// The power that node `to` at distance `distance_m` receives from node `from`.
pub(super) fn received_power(
    model: &Propagation,
    tx_power: Dbm,
    (from, to): (usize, usize),
    distance_m: f64,
    seed: u64,
) -> Dbm {
    match model {
        Propagation::Range { receive_m, .. } => RANGE_EDGE - range_loss(*receive_m, distance_m),
        Propagation::FreeSpace { frequency_ghz } => tx_power - friis(*frequency_ghz, distance_m),
        Propagation::TwoRay { frequency_ghz, antenna_height_m } => {
            if distance_m < crossover_m(*frequency_ghz, *antenna_height_m) {
                tx_power - friis(*frequency_ghz, distance_m)
            } else {
                tx_power - Db(40.0 * libm::log10(distance_m) - 40.0 * libm::log10(*antenna_height_m))
            }
        }
        Propagation::LogDistance { exponent, reference_loss_db, reference_m, shadowing_db } => {
            let slope = 10.0 * exponent * libm::log10(distance_m.max(*reference_m) / reference_m);
            let shadow = if *shadowing_db > 0.0 {
                let pair = (from.min(to) as u64) << 32 | from.max(to) as u64;
                shadowing_db * Stream::new(seed, pair, Purpose::Shadowing).normal()
            } else {
                0.0
            };
            tx_power - Db(reference_loss_db + slope + shadow)
        }
        Propagation::Matrix { loss_db } => {
            let loss = loss_db[from][to];
            if loss >= NOT_HEARD_DB { Dbm(f64::NEG_INFINITY) } else { tx_power - Db(loss) }
        }
    }
}

/// Loss of the circle model relative to the edge of reception: the fourth power of distance.
pub(super) fn range_loss(receive_m: f64, distance_m: f64) -> Db {
    Db(40.0 * libm::log10(distance_m / receive_m))
}

/// The distance at which the two-ray model takes over from free space.
pub(super) fn crossover_m(frequency_ghz: f64, antenna_height_m: f64) -> f64 {
    4.0 * std::f64::consts::PI * antenna_height_m * antenna_height_m / wavelength_m(frequency_ghz)
}

fn wavelength_m(frequency_ghz: f64) -> f64 {
    LIGHT_M_PER_S / (frequency_ghz * 1e9)
}

fn friis(frequency_ghz: f64, distance_m: f64) -> Db {
    Db(20.0 * libm::log10(4.0 * std::f64::consts::PI * distance_m / wavelength_m(frequency_ghz)))
}

/// The distance in metres beyond which received power is below `floor`. Infinite for a matrix. With shadowing, the
/// distance includes six standard deviations.
pub(crate) fn reach_m(model: &Propagation, tx_power: Dbm, floor: Dbm) -> f64 {
    reach_with_shadowing_m(model, tx_power, floor, 6.0)
}

/// The same with another number of standard deviations of shadowing.
pub(super) fn reach_with_shadowing_m(model: &Propagation, tx_power: Dbm, floor: Dbm, deviations: f64) -> f64 {
    let budget = tx_power.0 - floor.0;
    match model {
        Propagation::Range { carrier_sense_m, .. } => *carrier_sense_m,
        Propagation::FreeSpace { frequency_ghz } => free_space_reach_m(*frequency_ghz, budget),
        Propagation::TwoRay { frequency_ghz, antenna_height_m } => {
            // Beyond the crossover power falls faster than in free space, before it slower than the two-ray formula.
            let two_ray = antenna_height_m * libm::exp10(budget / 40.0);
            let crossover_m = crossover_m(*frequency_ghz, *antenna_height_m);
            free_space_reach_m(*frequency_ghz, budget).min(two_ray.max(crossover_m))
        }
        Propagation::LogDistance { exponent, reference_loss_db, reference_m, shadowing_db } => {
            reference_m
                * libm::exp10((budget - reference_loss_db + deviations * shadowing_db) / (10.0 * exponent))
                    .max(1.0)
        }
        Propagation::Matrix { .. } => f64::INFINITY,
    }
}

fn free_space_reach_m(frequency_ghz: f64, budget_db: f64) -> f64 {
    wavelength_m(frequency_ghz) / (4.0 * std::f64::consts::PI) * libm::exp10(budget_db / 20.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(model: &Propagation, distance_m: f64) -> f64 {
        received_power(model, Dbm(20.0), (0, 1), distance_m, 1).0
    }

    #[test]
    fn free_space_loses_40_db_in_the_first_metre_at_2_4_ghz_and_6_db_a_doubling() {
        // 20 log10(4π / 0.12491 m) = 40.05 dB
        let model = Propagation::FreeSpace { frequency_ghz: 2.4 };
        assert!((at(&model, 1.0) - (20.0 - 40.05)).abs() < 0.01);
        assert!((at(&model, 100.0) - at(&model, 200.0) - 6.0206).abs() < 1e-3);
    }

    #[test]
    fn two_ray_meets_free_space_at_the_crossover_and_then_falls_12_db_a_doubling() {
        // ns-2's defaults: 914 MHz, 1.5 m: the crossover is at 86.2 m.
        let ground = Propagation::TwoRay { frequency_ghz: 0.914, antenna_height_m: 1.5 };
        let free = Propagation::FreeSpace { frequency_ghz: 0.914 };
        let crossover = 4.0 * std::f64::consts::PI * 1.5 * 1.5 / (LIGHT_M_PER_S / 914e6);
        assert!((crossover - 86.2).abs() < 0.1);
        assert!((at(&ground, crossover * 1.000_001) - at(&free, crossover)).abs() < 1e-3);
        assert!((at(&ground, 200.0) - at(&ground, 400.0) - 12.0412).abs() < 1e-3);
        // ns-2: 0.28183815 W at 250 m gives 3.652e-10 W, its RXThresh_.
        let watts = libm::exp10((received_power(&ground, Dbm(24.5), (0, 1), 250.0, 1).0 - 30.0) / 10.0);
        assert!((watts / 3.652e-10 - 1.0).abs() < 1e-3, "{watts}");
    }

    #[test]
    fn shadowing_is_the_same_both_ways_and_has_the_given_deviation() {
        let model = Propagation::LogDistance {
            exponent: 3.0,
            reference_loss_db: 40.0,
            reference_m: 1.0,
            shadowing_db: 6.0,
        };
        let power = |from, to| received_power(&model, Dbm(0.0), (from, to), 10.0, 9).0;
        assert_eq!(power(3, 8), power(8, 3));
        let n = 4000;
        let shadows: Vec<f64> = (1..=n).map(|to| power(0, to) + 70.0).collect();
        let mean = shadows.iter().sum::<f64>() / n as f64;
        let deviation =
            (shadows.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / (n - 1) as f64).sqrt();
        assert!(mean.abs() < 0.4, "{mean}");
        assert!((deviation - 6.0).abs() < 0.3, "{deviation}");
    }

    #[test]
    fn power_beyond_reach_is_below_the_floor() {
        let floor = Dbm(-100.0);
        for model in [
            Propagation::FreeSpace { frequency_ghz: 5.0 },
            Propagation::TwoRay { frequency_ghz: 0.914, antenna_height_m: 1.5 },
            Propagation::TwoRay { frequency_ghz: 5.0, antenna_height_m: 10.0 },
            Propagation::LogDistance {
                exponent: 3.0,
                reference_loss_db: 40.0,
                reference_m: 1.0,
                shadowing_db: 0.0,
            },
        ] {
            let reach = reach_m(&model, Dbm(20.0), floor);
            assert!(at(&model, reach * 1.001) < floor.0, "{model:?}");
            assert!(at(&model, reach * 0.999) > floor.0, "{model:?}");
        }
    }
}
