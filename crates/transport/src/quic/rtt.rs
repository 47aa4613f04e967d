//! Round-trip time (RFC 9002 §5) and probe timeout (§6.2.1).

use fairhop_model::units::Nanos;

/// kGranularity (RFC 9002 §6.1.2).
pub(super) const GRANULARITY: Nanos = Nanos::from_millis(1);

/// kInitialRtt (RFC 9002 §6.2.2).
const INITIAL_RTT: Nanos = Nanos::from_millis(333);

/// latest_rtt, min_rtt, smoothed_rtt and rttvar.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rtt {
    sampled: Option<Sampled>,
}

#[derive(Clone, Copy, Debug)]
struct Sampled {
    latest: Nanos,
    min: Nanos,
    smoothed: Nanos,
    variation: Nanos,
    first_at: Nanos,
}

impl Rtt {
    /// Adds a sample with the acknowledgment delay that the receiver reported.
    pub(super) fn on_sample(&mut self, now: Nanos, latest: Nanos, ack_delay: Nanos) {
        let Some(old) = self.sampled else {
            self.sampled = Some(Sampled {
                latest,
                min: latest,
                smoothed: latest,
                variation: Nanos(latest.0 / 2),
                first_at: now,
            });
            return;
        };
        let min = old.min.min(latest);
        let adjusted = if latest >= min + ack_delay { latest.saturating_sub(ack_delay) } else { latest };
        let deviation = old.smoothed.0.abs_diff(adjusted.0);
        self.sampled = Some(Sampled {
            latest,
            min,
            smoothed: Nanos((7 * old.smoothed.0 + adjusted.0) / 8),
            variation: Nanos((3 * old.variation.0 + deviation) / 4),
            ..old
        });
    }

    pub(super) fn smoothed(&self) -> Option<Nanos> {
        self.sampled.map(|s| s.smoothed)
    }

    pub(super) fn min_rtt(&self) -> Option<Nanos> {
        self.sampled.map(|s| s.min)
    }

    /// When the first sample was taken.
    pub(super) fn first_at(&self) -> Option<Nanos> {
        self.sampled.map(|s| s.first_at)
    }

    /// PTO (RFC 9002 §6.2.1) without backoff.
    pub(super) fn probe_timeout(&self, max_ack_delay: Nanos) -> Nanos {
        let (smoothed, variation) =
            self.sampled.map_or((INITIAL_RTT, Nanos(INITIAL_RTT.0 / 2)), |s| (s.smoothed, s.variation));
        smoothed + Nanos(4 * variation.0).max(GRANULARITY) + max_ack_delay
    }

    /// Age at which a packet is lost if a later one has arrived (RFC 9002 §6.1.2: 9/8 of the longer of the latest and the
    /// smoothed round-trip time).
    pub(super) fn time_threshold(&self) -> Nanos {
        let longer = self.sampled.map_or(INITIAL_RTT, |s| s.latest.max(s.smoothed));
        Nanos(longer.0 + longer.0 / 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn rfc9002_5_and_6_give_the_hand_computed_times() {
        let mut rtt = Rtt::default();
        assert_eq!(
            (rtt.probe_timeout(ms(25)), rtt.time_threshold()),
            (Nanos(333_000_000 * 3 + 25_000_000), Nanos(374_625_000))
        );
        rtt.on_sample(ms(7), ms(80), ms(20));
        // smoothed 80, variation 40: the delay of the first sample does not count.
        assert_eq!(
            (rtt.smoothed(), rtt.probe_timeout(ms(25)), rtt.first_at()),
            (Some(ms(80)), ms(80 + 160 + 25), Some(ms(7)))
        );
        rtt.on_sample(ms(8), ms(180), ms(20));
        // Adjusted 160: variation 3/4·40 + 1/4·80 = 50, smoothed 90.
        assert_eq!((rtt.smoothed(), rtt.probe_timeout(Nanos::ZERO)), (Some(ms(90)), ms(290)));
        assert_eq!((rtt.min_rtt(), rtt.time_threshold()), (Some(ms(80)), Nanos(202_500_000)));
        rtt.on_sample(ms(9), ms(90), ms(20));
        // 90 − 20 would be under the minimum: 90 stays.
        assert_eq!(rtt.smoothed(), Some(ms(90)));
    }
}
