//! TCP Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995) as in Linux (`tcp_vegas.c`).
//!
//! Once per round trip the window is compared with what the path holds without queues. The difference is the number of
//! queued packets, and Vegas keeps it between α and β. Slow start ends when more than γ are queued. The integer
//! arithmetic is Linux's, so that a trace without loss is within one packet of the kernel's.
//!
//! As in Linux and unlike the paper, slow start doubles the window every round trip and not every other one, the rate is
//! computed from acknowledgments, and the sender detects and repairs losses. A round trip with at most two samples, whose
//! acknowledgments may all have been delayed, counts as Reno's; so does recovery. Linux also turns Vegas off in Disorder,
//! from the first SACKed segment on; here it stays on until the loss.

use fairhop_model::units::Nanos;

use super::round_trips::RoundTrips;
use super::{AckEvent, AdditiveIncrease, CongestionControl, LossEvent, Phase, StartEvent, Window};

/// State of Vegas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vegas {
    growth: AdditiveIncrease,
    round_trips: RoundTrips,
    /// Vegas is off because of recovery or a timeout.
    off: bool,
    /// SND.NXT at the start of the round trip, and at the last acknowledgment.
    round_end: u64,
    nxt: u64,
}

impl Vegas {
    /// Minimum (α) and maximum (β) of queued packets, and the number that ends slow start (γ). Linux's defaults.
    const ALPHA: u64 = 2;
    const BETA: u64 = 4;
    const GAMMA: u64 = 1;

    /// Linux's `vegas_enable`: the computation needs the samples of a whole round trip.
    fn start_round(&mut self, nxt: u64) {
        self.round_end = nxt;
        self.round_trips.reset_recent();
    }

    /// Linux's `tcp_vegas_init`: resets what is known of the path.
    fn reset(&mut self) {
        self.off = false;
        self.round_trips = RoundTrips::default();
        self.round_end = self.nxt;
    }

    /// Once per round trip (the core of Linux's `tcp_vegas_cong_avoid`).
    fn adjust(&self, window: &mut Window, acked: u32) {
        let (base, rtt) = (self.round_trips.base_us, self.round_trips.min_us);
        let cwnd = u64::from(window.cwnd);
        let target = cwnd * base / rtt;
        let queued = cwnd * (rtt - base) / base;
        if window.in_slow_start() {
            if queued > Self::GAMMA {
                // Plus one, because the division rounds down.
                window.cwnd = window.cwnd.min(target as u32 + 1);
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                window.slow_start(acked);
            }
        } else if queued > Self::BETA {
            window.cwnd -= 1;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < Self::ALPHA {
            window.cwnd = window.cwnd.saturating_add(1);
        }
        window.cwnd = window.cwnd.max(2);
        window.keep_three_quarters();
    }
}

impl CongestionControl for Vegas {
    fn on_start(&mut self, _window: &mut Window, _start: &StartEvent) {
        self.reset();
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        self.nxt = ack.nxt;
        if let Some(rtt) = ack.rtt {
            self.round_trips.on_sample(rtt);
        }
        let was_off = std::mem::replace(&mut self.off, ack.phase != Phase::Open);
        if was_off && !self.off {
            self.start_round(ack.nxt);
        }
        if !ack.may_grow() {
            return;
        }
        if self.off {
            self.growth.grow_as_reno(window, ack);
        } else if ack.una > self.round_end {
            if self.round_trips.count <= 2 {
                self.growth.grow_as_reno(window, ack);
            } else {
                self.adjust(window, ack.growth_credit);
            }
            self.start_round(ack.nxt);
        } else if window.in_slow_start() {
            window.slow_start(ack.growth_credit);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = window.half();
        window.cwnd = window.ssthresh;
        self.off = true;
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = window.half();
        window.cwnd = 1;
        self.off = true;
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;

    /// Segments are 1,000 bytes.
    fn after(una: u64, nxt: u64, rtt_us: u64) -> AckEvent {
        AckEvent { una: una * 1000, nxt: nxt * 1000, rtt: Some(Nanos::from_micros(rtt_us)), ..ack(1) }
    }

    /// A round trip of a window of `cwnd` with samples of `rtt_us`, after one sample of `base_us`.
    fn round(window: &mut Window, base_us: u64, rtt_us: u64) {
        let mut vegas = Vegas::default();
        vegas.on_ack(window, &AckEvent { advanced: false, ..after(0, 100, base_us) });
        vegas.start_round(100_000);
        let before = window.cwnd;
        for una in 98..=100 {
            vegas.on_ack(&mut *window, &AckEvent { growth_credit: 0, ..after(una, 200, rtt_us) });
            assert_eq!(window.cwnd, before, "within the round trip");
        }
        vegas.on_ack(window, &after(101, 200, rtt_us));
    }

    #[test]
    fn a_round_trip_keeps_two_to_four_packets_queued() {
        // baseRTT 99,999 + 1 us. 20 packets at 110 ms: 20·10/100 = 2 are queued, at 109 ms 1, at 120 ms 4, at 125 ms 5.
        // The threshold is three quarters of the window: 10 + 5 for 20 and 21, 9 + 4 for 19.
        for (rtt_us, cwnd, ssthresh) in
            [(108_999, 21, 15), (109_999, 20, 15), (119_999, 20, 15), (124_999, 19, 13)]
        {
            let mut window = Window { cwnd: 20, ssthresh: 10 };
            round(&mut window, 99_999, rtt_us);
            assert_eq!(window, Window { cwnd, ssthresh });
        }
    }

    #[test]
    fn slow_start_ends_one_above_the_target_when_more_than_one_packet_is_queued() {
        // 40 packets at 110 ms instead of 100 ms: 4 are queued, the target is 36.
        let mut window = Window { cwnd: 40, ssthresh: Window::UNKNOWN };
        round(&mut window, 99_999, 109_999);
        assert_eq!(window, Window { cwnd: 37, ssthresh: 37 });
        // 19 packets at 110 ms: 1 is queued.
        let mut window = Window { cwnd: 19, ssthresh: Window::UNKNOWN };
        round(&mut window, 99_999, 109_999);
        assert_eq!(window, Window { cwnd: 20, ssthresh: Window::UNKNOWN });
    }

    #[test]
    fn a_round_trip_with_at_most_two_samples_counts_as_renos() {
        let mut vegas = Vegas::default();
        let mut window = Window { cwnd: 2, ssthresh: 2 };
        for round in 0..8 {
            vegas.on_ack(
                &mut window,
                &AckEvent { growth_credit: 2, ..after(2 * round + 2, 2 * round + 2, 300_000) },
            );
        }
        // 16 segments: 2 grow the window to 3, then 3, 4 and 5 more; 2 are left.
        assert_eq!((window.cwnd, vegas.growth.credit), (6, 2));
    }

    #[test]
    fn a_loss_halves_the_window_and_the_round_trip_after_recovery_is_a_fresh_one() {
        let mut vegas = Vegas::default();
        let mut window = Window { cwnd: 21, ssthresh: Window::UNKNOWN };
        vegas.on_enter_recovery(&mut window, &loss(21));
        assert_eq!(window, Window { cwnd: 10, ssthresh: 10 });
        vegas.on_ack(&mut window, &AckEvent { phase: Phase::Recovery, ..after(5, 30, 100) });
        assert_eq!(vegas.round_trips.count, 1);
        vegas.on_ack(&mut window, &after(30, 40, 100));
        assert_eq!((vegas.round_end, vegas.round_trips.count, window.cwnd), (40_000, 0, 10));
        assert_eq!(vegas.round_trips.base_us, 101, "the minimum round-trip time outlives the loss");
    }
}
