//! What calls lose without any TCP, told from what it does to them.
//!
//! Harm falls with the budget; the mesh's own noise does not. So what is unheard near the largest budget of late is set
//! against what is unheard at half of it and less. If TCP did it all, and in proportion, half would be left; if it did half,
//! three quarters. It is noise if surely more is left than that, and more than calls bear. Surely is by a deviation of the
//! count of packets.

/// The comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    /// The largest budget of late, fading.
    top: f64,
    high: Mean,
    low: Mean,
}

/// Fraction of call packets that are unheard, over so many seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    seconds: f64,
}

impl Mean {
    /// A plain mean, whose memory is `at_most` seconds long.
    fn add(&mut self, value: f64, seconds: f64, at_most: f64) {
        self.seconds = (self.seconds + seconds).min(at_most);
        self.value += (value - self.value) * (seconds / self.seconds);
    }
}

impl Noise {
    const NEAR: f64 = 0.85;
    const FAR: f64 = 0.5;
    const LEFT: f64 = 0.75;
    /// Seconds in which the top fades.
    const FADES: f64 = 600.0;
    /// Call packets from which on a mean says something.
    const PACKETS: f64 = 600.0;

    /// What is unheard from here on has another cause than what was before.
    pub(super) fn forget(&mut self, budget: f64) {
        *self = Self { top: budget, ..Self::default() };
    }

    /// `unheard` of `packets` a second (more than none) in the last `seconds` with this budget. Returns the noise, if it is
    /// known by now to be more than `tolerable`, and the top, near which TCP may go on.
    pub(super) fn tell(
        &mut self,
        budget: f64,
        seconds: f64,
        (unheard, packets): (f64, f64),
        tolerable: f64,
    ) -> Option<(f64, f64)> {
        let span = (Self::PACKETS / packets).clamp(4.0, 16.0);
        self.top = budget.max(self.top * (1.0 - seconds / Self::FADES));
        if budget > Self::NEAR * self.top {
            self.high.add(unheard, seconds, span);
            self.low = Mean::default();
        } else if budget < Self::FAR * self.top {
            self.low.add(unheard, seconds, f64::INFINITY);
            let events = self.low.value * packets * self.low.seconds;
            let surely = self.low.value * (1.0 - 1.0 / libm::sqrt(events.max(1.0)));
            let is_known = self.high.seconds > 0.0 && self.low.seconds > span;
            if is_known && surely > (Self::LEFT * self.high.value).max(tolerable) {
                return Some((std::mem::take(&mut self.low).value, self.top));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise and top after 20 s with a budget of 1 and then so many with a part of it, where 150 packets a second tell.
    fn told(unheard: impl Fn(f64) -> f64, part: f64, seconds: u32) -> Option<(f64, f64)> {
        let mut noise = Noise::default();
        let mut tell = |budget: f64| noise.tell(budget, 0.1, (unheard(budget), 150.0), 0.005);
        assert!((0..200).all(|_| tell(1.0).is_none()));
        (0..10 * seconds).find_map(|_| tell(part))
    }

    #[test]
    fn noise_is_what_half_of_the_budget_does_not_lessen_and_calls_do_not_bear() {
        let constant = told(|_| 0.01, 0.45, 15);
        assert!(constant.is_some_and(|(noise, top)| (noise - 0.01).abs() < 1e-9 && top > 0.95));
        // Harm in proportion to the budget, and what calls bear, are none, however long they last.
        assert_eq!(told(|budget| 0.02 * budget, 0.45, 600), None);
        assert_eq!(told(|_| 0.004, 0.45, 600), None);
        // Two thirds of the budget do not tell, nor does a moment.
        assert_eq!(told(|_| 0.01, 0.66, 600), None);
        assert_eq!(told(|_| 0.01, 0.45, 3), None);
    }

    #[test]
    fn nothing_is_noise_without_a_top_to_compare_with() {
        let mut noise = Noise::default();
        noise.forget(1.0);
        assert!((0..600).all(|_| noise.tell(0.4, 0.1, (0.02, 150.0), 0.005).is_none()));
    }
}
