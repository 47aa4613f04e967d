//! TCP Veno (Fu and Liew, IEEE JSAC 21(2), 2003) as in Linux (`tcp_veno.c`).
//!
//! Like Vegas, Veno estimates how many packets are queued. It leaves the growth of the window to Reno while fewer than β
//! are queued, and slows it to one segment every other round trip when more are. A loss while fewer are queued is
//! attributed to the radio and reduces the window by a fifth, any other loss by half.
//!
//! The arithmetic is Linux's, in half packets. The estimate is renewed by every acknowledgment, in slow start too. As in
//! Linux, an acknowledgment without a round-trip time (it covers retransmitted segments) counts as congestion, and the
//! estimate is off in every state but Open (`tcp_veno_state`): in recovery, and also in Disorder, while segments have
//! arrived past a hole. Otherwise a second loss right after a recovery would find the estimate without samples and halve
//! the window.

use fairhop_model::units::Nanos;

use super::round_trips::RoundTrips;
use super::{AckEvent, AdditiveIncrease, CongestionControl, LossEvent, Phase, StartEvent, Window};

/// State of Veno.
#[derive(Clone, Copy, Debug)]
pub struct Veno {
    growth: AdditiveIncrease,
    round_trips: RoundTrips,
    /// The state is not Open: the window grows as Reno's, and the estimate stays.
    off: bool,
    /// Half packets in queues.
    queued: u64,
    /// In the congestive state: the next full window of acknowledgments adds a segment.
    grow_next: bool,
}

impl Default for Veno {
    fn default() -> Self {
        Self {
            growth: AdditiveIncrease::default(),
            round_trips: RoundTrips::default(),
            off: false,
            queued: 0,
            grow_next: true,
        }
    }
}

impl Veno {
    /// Three packets, in half packets: the network is congested if this many are queued (Linux's `beta`).
    const BETA: u64 = 3 << 1;

    fn reset(&mut self) {
        self.round_trips.base_us = RoundTrips::UNKNOWN_US;
        self.round_trips.min_us = RoundTrips::UNKNOWN_US;
        self.grow_next = true;
        self.off = false;
    }

    /// Linux's `tcp_veno_ssthresh`.
    fn reduced(&self, window: &Window) -> u32 {
        if self.queued < Self::BETA {
            ((u64::from(window.cwnd) * 4 / 5) as u32).max(2)
        } else {
            window.half()
        }
    }

    fn grow(&mut self, window: &mut Window, mut acked: u32) {
        let cwnd = u64::from(window.cwnd) << 1;
        self.queued = cwnd - cwnd * self.round_trips.base_us / self.round_trips.min_us;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        if self.queued < Self::BETA {
            self.growth.grow(window, window.cwnd, acked);
        } else if self.growth.credit >= window.cwnd {
            if self.grow_next {
                window.cwnd = window.cwnd.saturating_add(1);
            }
            self.grow_next = !self.grow_next;
            self.growth.credit = 0;
        } else {
            self.growth.credit = self.growth.credit.saturating_add(acked);
        }
    }
}

impl CongestionControl for Veno {
    fn on_start(&mut self, _window: &mut Window, _start: &StartEvent) {
        self.reset();
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        if let Some(rtt) = ack.rtt {
            self.round_trips.on_sample(rtt);
        }
        let off = ack.phase != Phase::Open || ack.disordered;
        let was_off = std::mem::replace(&mut self.off, off);
        if was_off && !self.off {
            self.round_trips.min_us = RoundTrips::UNKNOWN_US;
        }
        if !ack.may_grow() {
            return;
        }
        if self.off {
            self.growth.grow_as_reno(window, ack);
            return;
        }
        if !ack.cwnd_limited {
            return;
        }
        if self.round_trips.count <= 2 {
            self.growth.grow_as_reno(window, ack);
        } else {
            self.grow(window, ack.growth_credit);
            window.cwnd = window.cwnd.max(2);
        }
        self.round_trips.min_us = RoundTrips::UNKNOWN_US;
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = self.reduced(window);
        window.cwnd = window.ssthresh;
        self.growth = AdditiveIncrease::default();
        self.off = true;
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = self.reduced(window);
        window.cwnd = 1;
        self.growth = AdditiveIncrease::default();
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

    fn at(rtt_us: u64) -> AckEvent {
        AckEvent { rtt: Some(Nanos::from_micros(rtt_us - 1)), ..ack(1) }
    }

    /// Three samples at 100 ms while the window cannot grow.
    fn warm() -> Veno {
        let mut veno = Veno::default();
        for _ in 0..3 {
            veno.on_ack(&mut Window { cwnd: 2, ssthresh: 2 }, &AckEvent { growth_credit: 0, ..at(100_000) });
        }
        veno
    }

    #[test]
    fn three_queued_packets_halve_the_growth() {
        // 33 packets at 110 ms: 66 − 60 = 6 half packets; at 109 ms 66 − 60; at 107 ms 66 − 61 = 5. With 34 at
        // 107 ms 68 − 63 = 5 still.
        for (rtt_us, queued, acks_to_grow) in [(110_000, 6, 34), (109_000, 6, 34), (107_000, 5, 33)] {
            let (mut veno, mut window) = (warm(), Window { cwnd: 33, ssthresh: 10 });
            let mut acks = 0;
            while window.cwnd == 33 {
                veno.on_ack(&mut window, &at(rtt_us));
                acks += 1;
            }
            assert_eq!((veno.queued, acks), (queued, acks_to_grow), "{rtt_us}");
            // The second segment comes after one window without congestion, and after two with it.
            let mut acks = 0;
            while window.cwnd == 34 {
                veno.on_ack(&mut window, &at(rtt_us));
                acks += 1;
            }
            assert_eq!(acks, if queued < 6 { 34 } else { 2 * 35 }, "{rtt_us}");
        }
    }

    #[test]
    fn a_loss_with_few_queued_packets_costs_a_fifth_and_otherwise_half() {
        for (rtt_us, left) in [(100_000, 26), (104_000, 26), (120_000, 16)] {
            let (mut veno, mut window) = (warm(), Window { cwnd: 33, ssthresh: 10 });
            veno.on_ack(&mut window, &at(rtt_us));
            let mut timed_out = (veno, window);
            veno.on_enter_recovery(&mut window, &loss(33));
            assert_eq!(window, Window { cwnd: left, ssthresh: left }, "{rtt_us}");
            timed_out.0.on_timeout(&mut timed_out.1, &loss(33));
            assert_eq!(timed_out.1, Window { cwnd: 1, ssthresh: left });
        }
    }
    /// Linux's `tcp_veno_state`: the acknowledgment that ends a recovery may report the next hole.
    #[test]
    fn a_loss_right_after_recovery_costs_a_fifth_too() {
        let (mut veno, mut window) = (warm(), Window { cwnd: 33, ssthresh: 10 });
        veno.on_ack(&mut window, &at(100_000));
        veno.on_enter_recovery(&mut window, &loss(33));
        veno.on_ack(&mut window, &AckEvent { phase: Phase::Recovery, ..at(100_000) });
        veno.on_exit_recovery(&mut window, Nanos::ZERO);
        veno.on_ack(&mut window, &AckEvent { disordered: true, ..at(100_000) });
        veno.on_enter_recovery(&mut window, &loss(26));
        assert_eq!(window, Window { cwnd: 20, ssthresh: 20 });
    }
}
