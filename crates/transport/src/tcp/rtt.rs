//! Round-trip time and retransmission timeout: RFC 6298, in whole nanoseconds.
//!
//! Every acknowledgment of a segment sent once gives a sample (Karn's rule, RFC 6298 §3, or timestamps, RFC 7323 §4). The
//! gains are 1/8 and 1/4 for any number of samples per round trip, as in Linux and ns-3; RFC 7323 Appendix G suggests to
//! scale them. Linux bounds 4·RTTVAR from below, the standard the whole timeout; [`RttArithmetic`] selects one.

use fairhop_model::units::Nanos;

/// Computation of the timeout from the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttArithmetic {
    /// RFC 6298 §2.
    #[default]
    Rfc6298,
    /// Linux's `tcp_rtt_estimator`, in its scaled microseconds. The variation falls slowly, keeps its maximum for a round
    /// trip, and is at least the minimum timeout, which is thus added to SRTT. Timeouts are whole milliseconds
    /// (HZ = 1000).
    Linux,
}

/// Bounds and granularity of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttConfig {
    /// Timeout before the first sample (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Minimum timeout (RFC 6298 §2.4: 1 s).
    pub min_rto: Nanos,
    /// Maximum timeout, with backoff (RFC 6298 §2.5: at least 60 s).
    pub max_rto: Nanos,
    /// G: minimum of 4·RTTVAR (RFC 6298 §2.3).
    pub clock_granularity: Nanos,
    /// Computation of the timeout.
    pub arithmetic: RttArithmetic,
}

impl Default for RttConfig {
    fn default() -> Self {
        Self {
            initial_rto: Nanos::from_secs(1),
            min_rto: Nanos::from_secs(1),
            max_rto: Nanos::from_secs(60),
            clock_granularity: Nanos::from_millis(1),
            arithmetic: RttArithmetic::Rfc6298,
        }
    }
}

/// SRTT, RTTVAR and the timeout.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// SRTT and RTTVAR, once there is a sample.
    smoothed: Option<(Nanos, Nanos)>,
    min: Option<Nanos>,
    rto: Nanos,
    backoff: u32,
    linux: LinuxRtt,
}

/// Linux's variables of the same names: `srtt` in eighths of a microsecond, the others in quarters.
#[derive(Clone, Copy, Debug, Default)]
struct LinuxRtt {
    srtt: i64,
    mdev: i64,
    mdev_max: i64,
    rttvar: i64,
    /// End of the round trip over which `mdev_max` is taken.
    round_end: u64,
}

impl LinuxRtt {
    /// A sample in microseconds.
    fn on_sample(&mut self, sample: i64, min_rto: i64, una: u64, nxt: u64) {
        if self.srtt == 0 {
            self.srtt = (sample << 3).max(1);
            self.mdev = sample << 1;
            self.rttvar = self.mdev.max(min_rto);
            self.mdev_max = self.rttvar;
            self.round_end = nxt;
            return;
        }
        let error = sample - (self.srtt >> 3);
        self.srtt = (self.srtt + error).max(1);
        let change = error.abs() - (self.mdev >> 2);
        // A short sample beyond the mean deviation counts only an eighth, so that it does not raise the timeout.
        self.mdev += if error < 0 && change > 0 { change >> 3 } else { change };
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if una > self.round_end {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
            }
            self.round_end = nxt;
            self.mdev_max = min_rto;
        }
    }

    /// In whole milliseconds, rounded up.
    fn rto(&self) -> Nanos {
        let micros = (self.srtt >> 3) + self.rttvar;
        Nanos::from_millis((micros.max(0) as u64).div_ceil(1000))
    }
}

impl RttEstimator {
    /// An estimator without samples.
    pub fn new(config: RttConfig) -> Self {
        Self {
            config,
            smoothed: None,
            min: None,
            rto: config.initial_rto,
            backoff: 0,
            linux: LinuxRtt::default(),
        }
    }

    /// Adds a sample and ends the backoff (RFC 6298 §2.2, §2.3, §5.7). `una` and `nxt` are SND.UNA and SND.NXT as stream
    /// offsets; Linux's arithmetic counts round trips with them.
    pub fn on_sample(&mut self, rtt: Nanos, una: u64, nxt: u64) {
        self.backoff = 0;
        if self.config.arithmetic == RttArithmetic::Linux {
            let min_rto = (self.config.min_rto.0 / 1000) as i64;
            self.linux.on_sample((rtt.0 / 1000) as i64, min_rto, una, nxt);
            let linux = &self.linux;
            self.smoothed =
                Some((Nanos((linux.srtt >> 3) as u64 * 1000), Nanos((linux.rttvar >> 2) as u64 * 1000)));
            self.rto = linux.rto().min(self.config.max_rto);
            return;
        }
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, Nanos(rtt.0 / 2)),
            Some((srtt, rttvar)) => {
                let error = Nanos(srtt.0.abs_diff(rtt.0));
                (Nanos((7 * srtt.0 + rtt.0) / 8), Nanos((3 * rttvar.0 + error.0) / 4))
            }
        };
        self.smoothed = Some((srtt, rttvar));
        let spread = Nanos(4 * rttvar.0).max(self.config.clock_granularity);
        self.rto = (srtt + spread).max(self.config.min_rto).min(self.config.max_rto);
    }

    /// Updates the minimum round-trip time.
    pub fn note_min(&mut self, rtt: Nanos) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }

    /// The timer expired: the timeout doubles (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(u64::BITS - 1);
    }

    /// Ends the backoff without a sample: an answer to a window probe shows that the path works.
    pub fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// A SYN was retransmitted and gave no sample: data begin with a timeout of at least 3 s (RFC 6298 §5.7).
    pub fn after_lost_syn(&mut self) {
        if self.smoothed.is_none() {
            self.rto = self.rto.max(Nanos::from_secs(3)).min(self.config.max_rto);
        }
        self.backoff = 0;
    }

    /// The timeout with backoff.
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

    /// The minimum round-trip time.
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min
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
        rtt.on_sample(ms(80), 0, 0);
        // SRTT 80, RTTVAR 40, RTO 80 + 160.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(80)), Some(ms(40)), ms(240)));
        rtt.on_sample(ms(160), 0, 0);
        // RTTVAR 3/4·40 + 1/4·80 = 50, SRTT 7/8·80 + 1/8·160 = 90, RTO 90 + 200.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(90)), Some(ms(50)), ms(290)));
        rtt.on_sample(ms(90), 0, 0);
        // RTTVAR 37.5, SRTT 90, RTO 90 + 150.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(90)), Some(Nanos(37_500_000)), ms(240)));
    }

    #[test]
    fn rfc6298_2_3_a_steady_round_trip_leaves_the_clock_granularity() {
        let mut rtt = unbounded();
        for _ in 0..200 {
            rtt.on_sample(ms(80), 0, 0);
        }
        assert_eq!(rtt.rto(), ms(81));
    }

    #[test]
    fn rfc6298_2_4_and_2_5_bound_the_timeout_and_5_5_doubles_it() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        rtt.on_sample(ms(10), 0, 0);
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
        rtt.on_sample(ms(10), 0, 0);
        assert_eq!(rtt.rto(), ms(1000));
    }

    #[test]
    fn rfc6298_5_7_data_after_a_lost_syn_begin_with_three_seconds() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        rtt.back_off();
        rtt.after_lost_syn();
        assert_eq!(rtt.rto(), Nanos::from_secs(3));
    }

    #[test]
    fn linux_adds_the_minimum_timeout_to_srtt_and_a_spike_lasts() {
        let config = RttConfig { min_rto: ms(200), arithmetic: RttArithmetic::Linux, ..RttConfig::default() };
        let mut rtt = RttEstimator::new(config);
        // mdev = rttvar = max(2·40, 200).
        rtt.on_sample(ms(40), 0, 10);
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(40)), ms(240)));
        // Error 400: srtt 40 + 50, mdev 80 + 400 − 20 = 460 is the new rttvar.
        rtt.on_sample(ms(440), 5, 10);
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(90)), ms(550)));
        // Error −50: under mdev / 4 = 115, so mdev falls to 395. rttvar stays in this round trip, whose maximum is 460.
        rtt.on_sample(ms(40), 11, 20);
        // srtt 83.75.
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(Nanos(83_750_000)), ms(544)));
        // Errors of zero: mdev 395, then 297, is the maximum of this round trip. At its end rttvar has moved a quarter of
        // the way from 460 to 297.
        rtt.on_sample(ms(84), 15, 20);
        rtt.on_sample(ms(84), 21, 30);
        assert_eq!(rtt.rto(), ms(503));
    }
}
