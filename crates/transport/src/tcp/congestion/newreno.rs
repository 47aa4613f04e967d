//! NewReno: slow start and congestion avoidance of RFC 5681 §3.1, the reductions of RFC 6582 and RFC 6675.
//!
//! Growth uses the integer arithmetic of Linux's `tcp_reno_cong_avoid`. With byte counting it counts delivered segments
//! (RFC 3465) and, like Linux, does not limit the growth per acknowledgment in slow start (RFC 3465's L), because the
//! window grows only with data that left the network. Without byte counting it counts acknowledgments (RFC 5681 §3.1).

use fairhop_model::units::Nanos;

use super::{AckEvent, AdditiveIncrease, CongestionControl, LossEvent, Window};

/// State of NewReno.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    growth: AdditiveIncrease,
}

impl NewReno {
    /// Minimum slow-start threshold in segments (RFC 5681 equation 4).
    const MIN_SSTHRESH: u32 = 2;

    /// RFC 5681 equation (4). FlightSize must not include segments that limited transmit sent past the window (RFC 5681
    /// §3.2 step 2), hence the minimum of the two.
    fn halved(window: &Window, flight: u32) -> u32 {
        (window.cwnd.min(flight) / 2).max(Self::MIN_SSTHRESH)
    }
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        if !ack.may_grow() || !ack.cwnd_limited {
            return;
        }
        let mut delivered = ack.growth_credit;
        if window.in_slow_start() {
            delivered = window.slow_start(delivered);
        }
        if delivered > 0 {
            self.growth.grow(window, window.cwnd, delivered);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent) {
        // RFC 6675 §5 step 4.2. Without SACK, RFC 6582 §3.2 step 2 adds three segments for the duplicates; here they are
        // subtracted from the segments in flight instead.
        window.ssthresh = Self::halved(window, loss.flight);
        window.cwnd = window.ssthresh;
        self.growth = AdditiveIncrease::default();
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        // RFC 6582 §3.2 step 3 (2), RFC 6675 §5.
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        // RFC 5681 §3.1: the loss window is one segment, independent of the initial window.
        window.ssthresh = Self::halved(window, loss.flight);
        window.cwnd = 1;
        self.growth = AdditiveIncrease::default();
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {
        self.growth = AdditiveIncrease::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;

    #[test]
    fn slow_start_stops_at_the_threshold_and_the_rest_counts_for_congestion_avoidance() {
        let mut reno = NewReno::default();
        let mut window = Window { cwnd: 9, ssthresh: 10 };
        reno.on_ack(&mut window, &ack(6));
        // One of six grows the window to 10; five count towards the next segment.
        assert_eq!((window.cwnd, reno.growth.credit), (10, 5));
        reno.on_ack(&mut window, &ack(5));
        assert_eq!((window.cwnd, reno.growth.credit), (11, 0));
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

    #[test]
    fn rfc5681_4_a_loss_halves_what_was_in_flight_and_a_timeout_leaves_one_segment() {
        let mut reno = NewReno::default();
        let mut window = Window { cwnd: 20, ssthresh: Window::UNKNOWN };
        reno.on_enter_recovery(&mut window, &loss(15));
        assert_eq!(window, Window { cwnd: 7, ssthresh: 7 });
        reno.on_timeout(&mut window, &loss(3));
        assert_eq!(window, Window { cwnd: 1, ssthresh: 2 });
    }
}
