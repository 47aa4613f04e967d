//! Compound TCP (Tan, Song, Zhang, Sridharan, INFOCOM 2006; draft-sridharan-tcpm-ctcp).
//!
//! The window is the sum of Reno's and of a second one, `dwnd`, which grows fast while few packets are queued and shrinks
//! when many are. Let win = cwnd + dwnd, and diff the number of queued packets, estimated from the delay as in Vegas. Each
//! round trip of congestion avoidance changes dwnd to
//!
//! - dwnd + (α·win^k − 1)⁺ if diff < γ,
//! - (dwnd − ζ·diff)⁺ otherwise (the draft writes η for ζ).
//!
//! A loss changes it to (win·(1 − β) − cwnd/2)⁺, so that win·(1 − β) is left in total.
//!
//! Reno's part grows by one segment per round trip. In slow start and after a timeout dwnd is zero. As in the proposed
//! Linux module (`tcp_compound.c`, never part of the kernel), the delay of a round trip is the minimum of its samples, and
//! a round trip with at most two samples changes nothing. Left out: the tuning of γ from the buffers on the path (the
//! authors' TUBE), which is not in the paper.

use fairhop_model::units::Nanos;

use super::round_trips::RoundTrips;
use super::{AckEvent, AdditiveIncrease, CongestionControl, LossEvent, Phase, Window};

/// The constants of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompoundParameters {
    /// α: factor of dwnd's growth.
    pub alpha: f64,
    /// β: part of the window that a loss removes.
    pub beta: f64,
    /// k: exponent of the window in dwnd's growth.
    pub k: f64,
    /// γ: queued packets at which dwnd begins to shrink.
    pub gamma: f64,
    /// ζ: segments that dwnd loses per queued packet.
    pub zeta: f64,
}

impl CompoundParameters {
    /// The paper's choice: the response of HighSpeed TCP, with 3/4 instead of 0.8, which is faster to compute.
    pub const PAPER: Self = Self { alpha: 0.125, beta: 0.5, k: 0.75, gamma: 30.0, zeta: 1.0 };
}

/// State of Compound TCP.
#[derive(Clone, Copy, Debug)]
pub struct Compound {
    parameters: CompoundParameters,
    growth: AdditiveIncrease,
    round_trips: RoundTrips,
    dwnd: f64,
    /// Whole segments of dwnd, included in the window.
    added: u32,
    /// In recovery, or after a timeout.
    off: bool,
    round_end: u64,
    nxt: u64,
}

impl Default for Compound {
    fn default() -> Self {
        Self::new(CompoundParameters::PAPER)
    }
}

impl Compound {
    /// Compound TCP with other constants.
    pub fn new(parameters: CompoundParameters) -> Self {
        Self {
            parameters,
            growth: AdditiveIncrease::default(),
            round_trips: RoundTrips::default(),
            dwnd: 0.0,
            added: 0,
            off: false,
            round_end: 0,
            nxt: 0,
        }
    }

    fn start_round(&mut self, nxt: u64) {
        self.round_end = nxt;
        self.round_trips.reset_recent();
    }

    /// Sets the window to `reno` segments plus dwnd.
    fn compose(&mut self, window: &mut Window, reno: u32, dwnd: f64) {
        self.dwnd = dwnd.max(0.0);
        self.added = self.dwnd as u32;
        window.cwnd = reno.saturating_add(self.added);
    }

    /// Reno's part. The sender may have reduced the window.
    fn reno(&mut self, window: &Window) -> u32 {
        if self.added >= window.cwnd {
            self.dwnd = 0.0;
            self.added = 0;
        }
        window.cwnd - self.added
    }

    /// Once per round trip.
    fn adjust(&mut self, window: &mut Window) {
        let p = self.parameters;
        let reno = self.reno(window);
        let queued = self.round_trips.queued(window.cwnd);
        let change = if queued < p.gamma {
            (p.alpha * libm::pow(f64::from(window.cwnd), p.k) - 1.0).max(0.0)
        } else {
            -p.zeta * queued
        };
        self.compose(window, reno, self.dwnd + change);
    }
}

impl CongestionControl for Compound {
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
        let avoiding = !self.off && !window.in_slow_start();
        self.growth.grow_as_reno(window, ack);
        if !self.off && ack.una > self.round_end {
            if avoiding && ack.cwnd_limited && self.round_trips.count > 2 {
                self.adjust(window);
            }
            self.start_round(ack.nxt);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        let left = f64::from(window.cwnd) * (1.0 - self.parameters.beta);
        let reno = self.reno(window) / 2;
        self.compose(window, reno, left - f64::from(reno));
        window.cwnd = window.cwnd.max(2);
        window.ssthresh = window.cwnd;
        self.growth = AdditiveIncrease::default();
        self.off = true;
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = window.half();
        self.compose(window, 1, 0.0);
        self.growth = AdditiveIncrease::default();
        self.off = true;
    }

    fn on_restart(&mut self, window: &mut Window, _now: Nanos) {
        // The remaining window is Reno's.
        let all = window.cwnd;
        self.compose(window, all, 0.0);
        self.growth = AdditiveIncrease::default();
        self.start_round(self.nxt);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;

    /// A round trip at `rtt_ms` after one sample at 100 ms. Its acknowledgments change the window only at the end.
    fn round(compound: &mut Compound, window: &mut Window, rtt_ms: u64) {
        let sample = |rtt_ms| AckEvent {
            una: 0,
            nxt: 1000,
            growth_credit: 0,
            rtt: Some(Nanos::from_micros(rtt_ms * 1000 - 1)),
            ..ack(1)
        };
        compound.on_ack(window, &sample(100));
        compound.start_round(0);
        for _ in 0..3 {
            compound.on_ack(window, &sample(rtt_ms));
        }
        compound.on_ack(window, &AckEvent { una: 1, ..sample(rtt_ms) });
    }

    #[test]
    fn the_second_window_grows_by_an_eighth_of_the_three_quarters_power_less_one() {
        let mut compound = Compound::default();
        let mut window = Window { cwnd: 256, ssthresh: 100 };
        // 256^(3/4) = 64, 64/8 − 1 = 7. Nothing is queued.
        round(&mut compound, &mut window, 100);
        assert_eq!((window.cwnd, compound.added), (263, 7));
        // 263 at 110 ms: 23.9 are queued, fewer than 30. 263^(3/4) = 65.31, 7.16 more.
        round(&mut compound, &mut window, 110);
        assert_eq!((window.cwnd, compound.added), (270, 14));
        assert!((compound.dwnd - 14.163).abs() < 0.001, "{}", compound.dwnd);
        // Below 16 segments it does not grow: 8 − 8.
        let (mut small, mut window) = (Compound::default(), Window { cwnd: 16, ssthresh: 2 });
        round(&mut small, &mut window, 100);
        assert_eq!((window.cwnd, small.dwnd), (16, 0.0));
    }

    #[test]
    fn thirty_queued_packets_shrink_the_second_window() {
        let mut compound = Compound { dwnd: 100.0, added: 100, ..Compound::default() };
        let mut window = Window { cwnd: 250, ssthresh: 100 };
        // 250 at 125 ms: 50 are queued.
        round(&mut compound, &mut window, 125);
        assert_eq!((window.cwnd, compound.added), (200, 50));
        // 200 at 200 ms: 100 are queued; dwnd falls to zero.
        round(&mut compound, &mut window, 200);
        assert_eq!((window.cwnd, compound.added), (150, 0));
    }

    #[test]
    fn a_loss_halves_the_sum_and_a_timeout_leaves_one_segment_of_renos() {
        let mut compound = Compound { dwnd: 60.5, added: 60, ..Compound::default() };
        let mut window = Window { cwnd: 101, ssthresh: 10 };
        compound.on_enter_recovery(&mut window, &loss(100));
        // 101/2 = 50.5, 41/2 = 20 of them Reno's.
        assert_eq!((window, compound.added), (Window { cwnd: 50, ssthresh: 50 }, 30));
        compound.on_timeout(&mut window, &loss(50));
        assert_eq!((window, compound.added), (Window { cwnd: 1, ssthresh: 25 }, 0));
    }

    #[test]
    fn slow_start_and_short_round_trips_leave_it_reno() {
        let mut compound = Compound::default();
        let mut window = Window { cwnd: 256, ssthresh: Window::UNKNOWN };
        round(&mut compound, &mut window, 100);
        assert_eq!((window.cwnd, compound.dwnd), (256, 0.0));
        window.ssthresh = 1;
        compound.start_round(0);
        compound.on_ack(&mut window, &AckEvent { una: 1, growth_credit: 0, ..ack(1) });
        assert_eq!((window.cwnd, compound.dwnd), (256, 0.0));
    }
}
