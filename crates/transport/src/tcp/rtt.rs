//! Round-trip time and retransmission timeout: RFC 6298, in whole nanoseconds.
//!
//! Samples come from every acknowledgment that covers a segment sent once (Karn's rule, RFC 6298 §3, or timestamps,
//! RFC 7323 §4); the gains stay 1/8 and 1/4 however many samples a round trip brings, as in Linux and ns-3, and not
//! scaled as RFC 7323 Appendix G suggests. Linux bounds 4·RTTVAR from below where the standard bounds the whole
//! timeout; here the standard holds.

use fairhop_model::units::Nanos;

/// Bounds and granularity of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttConfig {
    /// Timeout before the first sample (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Shortest timeout (RFC 6298 §2.4: 1 s).
    pub min_rto: Nanos,
    /// Longest timeout, backed off or not (RFC 6298 §2.5: at least 60 s).
    pub max_rto: Nanos,
    /// G: what 4·RTTVAR is at least (RFC 6298 §2.3).
    pub clock_granularity: Nanos,
}

impl Default for RttConfig {
    fn default() -> Self {
        Self {
            initial_rto: Nanos::from_secs(1),
            min_rto: Nanos::from_secs(1),
            max_rto: Nanos::from_secs(60),
            clock_granularity: Nanos::from_millis(1),
        }
    }
}

/// SRTT, RTTVAR and the timeout that follows from them.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// SRTT and RTTVAR, once there is a sample.
    smoothed: Option<(Nanos, Nanos)>,
    least: Option<Nanos>,
    rto: Nanos,
    backoff: u32,
}

impl RttEstimator {
    /// An estimator without samples.
    pub fn new(config: RttConfig) -> Self {
        Self { config, smoothed: None, least: None, rto: config.initial_rto, backoff: 0 }
    }

    /// Takes a sample and ends the backoff (RFC 6298 §2.2, §2.3, §5.7).
    pub fn on_sample(&mut self, rtt: Nanos) {
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, Nanos(rtt.0 / 2)),
            Some((srtt, rttvar)) => {
                let error = Nanos(srtt.0.abs_diff(rtt.0));
                (Nanos((7 * srtt.0 + rtt.0) / 8), Nanos((3 * rttvar.0 + error.0) / 4))
            }
        };
        self.smoothed = Some((srtt, rttvar));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let spread = Nanos(4 * rttvar.0).max(self.config.clock_granularity);
        self.rto = (srtt + spread).max(self.config.min_rto).min(self.config.max_rto);
        self.backoff = 0;
    }

    /// The timer ran out: the timeout doubles (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(u64::BITS - 1);
    }

    /// Undoes the backoff without a sample: an answer to a window probe says that the path works.
    pub fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// A SYN was sent again and no sample came of it: data begin with a timeout of at least 3 s (RFC 6298 §5.7).
    pub fn after_lost_syn(&mut self) {
        if self.smoothed.is_none() {
            self.rto = self.rto.max(Nanos::from_secs(3)).min(self.config.max_rto);
        }
        self.backoff = 0;
    }

    /// The timeout, backed off.
    pub fn rto(&self) -> Nanos {
        let doubled = u128::from(self.rto.0) << self.backoff;
        Nanos(u64::try_from(doubled).unwrap_or(u64::MAX)).min(self.config.max_rto)
    }

    /// The smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.smoothed.map(|(srtt, _)| srtt)
    }

    /// The variation of the round-trip time, once there is a sample.
    pub fn rttvar(&self) -> Option<Nanos> {
        self.smoothed.map(|(_, rttvar)| rttvar)
    }

    /// The shortest sample.
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn unbounded() -> RttEstimator {
        RttEstimator::new(RttConfig { min_rto: Nanos::ZERO, ..RttConfig::default() })
    }

    #[test]
    fn rfc6298_2_first_and_following_samples_give_the_hand_computed_timeouts() {
        let mut rtt = unbounded();
        assert_eq!(rtt.rto(), ms(1000));
        rtt.on_sample(ms(80));
        // SRTT 80, RTTVAR 40, RTO 80 + 160.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(80)), Some(ms(40)), ms(240)));
        rtt.on_sample(ms(160));
        // RTTVAR 3/4·40 + 1/4·80 = 50, SRTT 7/8·80 + 1/8·160 = 90, RTO 90 + 200.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(90)), Some(ms(50)), ms(290)));
        rtt.on_sample(ms(90));
        // RTTVAR 37.5, SRTT 90, RTO 90 + 150.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(90)), Some(Nanos(37_500_000)), ms(240)));
    }

    #[test]
    fn rfc6298_2_3_a_steady_round_trip_leaves_the_clock_granularity() {
        let mut rtt = unbounded();
        for _ in 0..200 {
            rtt.on_sample(ms(80));
        }
        assert_eq!(rtt.rto(), ms(81));
    }

    #[test]
    fn rfc6298_2_4_and_2_5_bound_the_timeout_and_5_5_doubles_it() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        rtt.on_sample(ms(10));
        assert_eq!(rtt.rto(), ms(1000));
        let backed_off: Vec<_> = (0..8)
            .map(|_| {
                rtt.back_off();
                rtt.rto().0 / 1_000_000_000
            })
            .collect();
        assert_eq!(backed_off, [2, 4, 8, 16, 32, 60, 60, 60]);
        (0..200).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), Nanos::from_secs(60));
        rtt.on_sample(ms(10));
        assert_eq!(rtt.rto(), ms(1000));
    }

    #[test]
    fn rfc6298_5_7_data_after_a_lost_syn_begin_with_three_seconds() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        rtt.back_off();
        rtt.after_lost_syn();
        assert_eq!(rtt.rto(), Nanos::from_secs(3));
    }
}
