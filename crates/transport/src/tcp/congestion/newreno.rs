//! NewReno: slow start and congestion avoidance of RFC 5681 §3.1, the reductions of RFC 6582 and RFC 6675.
//!
//! Growth is counted in the integer arithmetic of Linux's `tcp_reno_cong_avoid`. With byte counting it counts delivered
//! segments (RFC 3465) and, like Linux, does not limit how much one acknowledgment may add in slow start (RFC 3465's L),
//! because the window only grows with data that left the network; without, it counts acknowledgments (RFC 5681 §3.1).

use fairhop_model::units::Nanos;

use super::{AckEvent, CongestionControl, LossEvent, Phase, Window};

/// State of NewReno.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    /// Segments delivered since the window last grew in congestion avoidance.
    credit: u32,
}

impl NewReno {
    /// Smallest slow-start threshold, in segments (RFC 5681 equation 4).
    const MIN_SSTHRESH: u32 = 2;

    /// RFC 5681 equation (4). FlightSize must not count what limited transmit sent past the window (RFC 5681 §3.2
    /// step 2), hence the smaller of the two.
    fn halved(window: &Window, flight: u32) -> u32 {
        (window.cwnd.min(flight) / 2).max(Self::MIN_SSTHRESH)
    }

    /// RFC 5681 §3.1: to the threshold and no further; returns what of `delivered` is left.
    fn slow_start(window: &mut Window, delivered: u32) -> u32 {
        let grown = window.cwnd.saturating_add(delivered).min(window.ssthresh);
        let left = delivered - (grown - window.cwnd);
        window.cwnd = grown;
        left
    }

    /// RFC 5681 §3.1: one segment for each window of segments delivered.
    fn congestion_avoidance(&mut self, window: &mut Window, delivered: u32) {
        if self.credit >= window.cwnd {
            self.credit = 0;
            window.cwnd += 1;
        }
        self.credit += delivered;
        if self.credit >= window.cwnd {
            let windows = self.credit / window.cwnd;
            self.credit -= windows * window.cwnd;
            window.cwnd = window.cwnd.saturating_add(windows);
        }
    }
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        if ack.phase == Phase::Recovery || !ack.advanced || !ack.cwnd_limited {
            return;
        }
        let mut delivered = ack.growth_credit;
        if window.in_slow_start() {
            delivered = Self::slow_start(window, delivered);
        }
        if delivered > 0 {
            self.congestion_avoidance(window, delivered);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent) {
        // RFC 6675 §5 step 4.2; without SACK RFC 6582 §3.2 step 2 adds three segments for the duplicates, which here
        // are out of the count of segments in flight instead.
        window.ssthresh = Self::halved(window, loss.flight);
        window.cwnd = window.ssthresh;
        self.credit = 0;
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        // RFC 6582 §3.2 step 3 (2), RFC 6675 §5.
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        // RFC 5681 §3.1: the loss window is one segment whatever the initial window.
        window.ssthresh = Self::halved(window, loss.flight);
        window.cwnd = 1;
        self.credit = 0;
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(newly_delivered: u32) -> AckEvent {
        AckEvent {
            now: Nanos::ZERO,
            newly_delivered,
            growth_credit: newly_delivered,
            delivered: 0,
            advanced: true,
            rtt: None,
            min_rtt: None,
            prior_in_flight: 0,
            in_flight: 0,
            cwnd_limited: true,
            phase: Phase::Open,
        }
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_the_rest_counts_for_congestion_avoidance() {
        let mut reno = NewReno::default();
        let mut window = Window { cwnd: 9, ssthresh: 10 };
        reno.on_ack(&mut window, &ack(6));
        // One of six grows the window to 10, five of ten wait for the next segment.
        assert_eq!((window.cwnd, reno.credit), (10, 5));
        reno.on_ack(&mut window, &ack(5));
        assert_eq!((window.cwnd, reno.credit), (11, 0));
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window_however_acks_are_delayed() {
        for per_ack in [1, 2, 4] {
            let mut reno = NewReno::default();
            let mut window = Window { cwnd: 20, ssthresh: 10 };
            for _ in 0..20 / per_ack {
                assert_eq!(window.cwnd, 20);
                reno.on_ack(&mut window, &ack(per_ack));
            }
            assert_eq!(window.cwnd, 21);
        }
    }
}
