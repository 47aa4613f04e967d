//! Distances beyond which nodes certainly have no link, so that a search for neighbours can stop there.

use fairhop_model::phy::Rate;
use fairhop_model::units::{Dbm, Power};

use super::config::{Propagation, Reception};
use super::params::RadioParams;
use super::propagation::reach_with_shadowing_m;

/// A distance in metres beyond which no frame can be decoded at a rate where nothing disturbs it
/// ([`RadioParams::decodes`]); infinite for a matrix.
pub fn decode_limit_m(model: &Propagation, params: &RadioParams, rate: Rate) -> f64 {
    /// No draw of [`crate::engine::Stream::normal`] is larger: √(2 · 53 ln 2) = 8.57.
    const MAX_DEVIATIONS: f64 = 8.6;
    let threshold = match params.reception {
        Reception::Threshold => params.sensitivity[rate as usize],
        Reception::Sinr => params.preamble_detect,
    };
    match model {
        Propagation::Range { receive_m, reach_m, .. } => {
            let of_rate = reach_m.iter().find(|reach| reach.rate_mbps == rate.mbps());
            of_rate.map_or(*receive_m, |reach| reach.receive_m) * DISTANCE_SLACK
        }
        _ if threshold < FINE_POWER => f64::INFINITY,
        _ => {
            let threshold = Dbm(10.0 * libm::log10(threshold.ratio(Power::from_dbm(Dbm(0.0)))));
            reach_with_shadowing_m(model, params.tx_power, threshold, MAX_DEVIATIONS) * DISTANCE_SLACK
        }
    }
}

/// Powers of this size or more are rounded by less than 0.05 %.
const FINE_POWER: Power = Power(1000);

/// Covers that rounding where a distance limit is compared: power falls at least with the first power of distance.
const DISTANCE_SLACK: f64 = 1.001;

/// The distance in metres beyond which there certainly is no link, where it follows from `reach_m`: not for a matrix, not
/// with shadowing, and not where the floor is so low that powers near it are rounded coarsely. Infinite for those.
pub(super) fn distance_limit_m(model: &Propagation, params: &RadioParams, reach_m: f64) -> f64 {
    let fixed = match model {
        Propagation::Range { .. } | Propagation::FreeSpace { .. } | Propagation::TwoRay { .. } => true,
        Propagation::LogDistance { shadowing_db, .. } => *shadowing_db == 0.0,
        Propagation::Matrix { .. } => false,
    };
    if fixed && params.floor >= FINE_POWER { reach_m * DISTANCE_SLACK } else { f64::INFINITY }
}
