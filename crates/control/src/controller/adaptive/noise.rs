//! The mesh's own loss of call packets, which TCP does not cause.
//!
//! Loss caused by TCP falls with the budget; the mesh's own noise does not. The loss near the recent peak of the budget is
//! compared with the loss at three fifths of the peak and less. If TCP caused all of it, in proportion, three fifths would be
//! left. It is noise if significantly more than three quarters are left, and more than what calls tolerate. Significant means:
//! even if the number of lost packets were one standard deviation lower.
//!
//! Noise is tolerated for the next minute, beside half of what is tolerable anyway. Noise that is near the tolerable loss from
//! the start is not recognized, as there is no peak to compare with.

use fairhop_model::units::Nanos;

use super::Adaptive;
use super::stress::Stress;
use super::tuning::Tuning;
use crate::policy::State;

/// Seconds in which the peak fades.
const PEAK_FADES: f64 = 600.0;
/// Bounds in seconds of the span in which `noise_packets` are collected.
const SPAN: (f64, f64) = (4.0, 16.0);
/// How long noise is tolerated before it has to be shown again.
const MEMORY: Nanos = Nanos::from_secs(60);
/// The budget after noise has been recognized, as a part of the peak.
const RETURN_TO: f64 = 0.85;

/// The comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    /// Recent peak of the budget, fading.
    peak: f64,
    high: Mean,
    low: Mean,
}

/// Mean fraction of call packets lost or late.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    seconds: f64,
}

impl Mean {
    /// Adds a value that held for `seconds`. The memory is at most `max_seconds` long.
    fn add(&mut self, value: f64, seconds: f64, max_seconds: f64) {
        self.seconds = (self.seconds + seconds).min(max_seconds);
        self.value += (value - self.value) * (seconds / self.seconds);
    }
}

/// Noise that has been recognized.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recognized {
    /// Fraction of call packets lost or late.
    loss: f64,
    /// The peak of the budget, near which TCP may go on.
    peak: f64,
}

impl Noise {
    /// Starts anew: loss from now on has another cause than before.
    pub(super) fn restart(&mut self, budget: f64) {
        *self = Self { peak: budget, ..Self::default() };
    }

    /// Adds the loss of `packets` per second (more than 0) in the last `seconds` with this budget. Returns the noise if it is
    /// known to be above `tolerable`.
    fn update(
        &mut self,
        tuning: &Tuning,
        budget: f64,
        seconds: f64,
        (loss_or_late, packets): (f64, f64),
        tolerable: f64,
    ) -> Option<Recognized> {
        let span = (tuning.noise_packets / packets).clamp(SPAN.0, SPAN.1);
        self.peak = budget.max(self.peak * (1.0 - seconds / PEAK_FADES));
        if budget > tuning.noise_high * self.peak {
            self.high.add(loss_or_late, seconds, span);
            self.low = Mean::default();
        } else if budget < tuning.noise_low * self.peak {
            self.low.add(loss_or_late, seconds, f64::INFINITY);
            let lost = self.low.value * packets * self.low.seconds;
            let at_least = self.low.value * (1.0 - 1.0 / libm::sqrt(lost.max(1.0)));
            let is_known = self.high.seconds > 0.0 && self.low.seconds > span;
            if is_known && at_least > (tuning.noise_left * self.high.value).max(tolerable) {
                return Some(Recognized { loss: std::mem::take(&mut self.low).value, peak: self.peak });
            }
        }
        None
    }
}

impl Adaptive {
    /// Raises the tolerance and the budget where less TCP has not reduced the loss of calls.
    pub(super) fn learn_noise(&mut self, now: Nanos, seconds: f64, stress: &Stress) {
        if now.saturating_sub(self.tolerant_since) > MEMORY {
            self.tolerance = self.tolerable.loss;
        }
        if self.nodes.is_empty() || stress.acute || self.law.state != State::Steady {
            return;
        }
        let loss = (stress.combined_loss, stress.packets.max(1.0));
        if let Some(noise) = self.noise.update(&self.tuning, self.law.budget, seconds, loss, self.tolerance) {
            let tolerable = self.tolerable.loss;
            let tolerance = noise.loss + 0.5 * tolerable;
            self.tolerance = tolerance.min(self.tuning.noise_tolerance * tolerable).max(tolerable);
            self.tolerant_since = now;
            self.law.budget = RETURN_TO * noise.peak;
            self.law.ceiling = self.law.ceiling.max(self.law.budget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The noise recognized after 20 s with a budget of 1 and then up to `seconds` with a part of it, at 150 packets per second.
    fn recognized(loss: impl Fn(f64) -> f64, part: f64, seconds: u32) -> Option<Recognized> {
        let mut noise = Noise::default();
        let mut update =
            |budget: f64| noise.update(&Tuning::default(), budget, 0.1, (loss(budget), 150.0), 0.005);
        assert!((0..200).all(|_| update(1.0).is_none()));
        (0..10 * seconds).find_map(|_| update(part))
    }

    #[test]
    fn noise_is_loss_that_half_of_the_budget_does_not_reduce_and_calls_do_not_tolerate() {
        let constant = recognized(|_| 0.01, 0.45, 15);
        assert!(constant.is_some_and(|noise| (noise.loss - 0.01).abs() < 1e-9 && noise.peak > 0.95));
        // Loss in proportion to the budget and tolerable loss are not noise, however long they last.
        assert_eq!(recognized(|budget| 0.02 * budget, 0.45, 600), None);
        assert_eq!(recognized(|_| 0.004, 0.45, 600), None);
        // Two thirds of the budget are no comparison, and 3 s are too short.
        assert_eq!(recognized(|_| 0.01, 0.66, 600), None);
        assert_eq!(recognized(|_| 0.01, 0.45, 3), None);
    }

    #[test]
    fn nothing_is_noise_without_a_peak_to_compare_with() {
        let mut noise = Noise::default();
        noise.restart(1.0);
        assert!((0..600).all(|_| noise.update(&Tuning::default(), 0.4, 0.1, (0.02, 150.0), 0.005).is_none()));
    }
}
