//! CUBIC (RFC 9438) in the integer arithmetic of Linux 6.1's `tcp_cubic.c`: times in milliseconds (HZ = 1000) or 1/1024
//! s, C = 410/1024 (0.4), β = 717/1024 (0.7), fast convergence, and the estimate of Reno's window (the RFC's Reno-friendly
//! region) with Linux's rounding of 3(1 − β)/(1 + β).
//!
//! As in Linux, growth starts from the window after the reduction, and the target is computed one minimum round trip
//! ahead (RFC 9438 §4.2's W_cubic(t + RTT)). [`super::HyStart`] ends slow start. Left out: the effect of TSO on HyStart,
//! because packets here are single.

use fairhop_model::units::Nanos;

use super::hystart::{Hystart, ack_train_cushion_us};
use super::{
    AckEvent, AdditiveIncrease, CongestionControl, HyStart, LossEvent, OpenEvent, StartEvent, Window,
};

/// Unit of β and C.
const SCALE: u32 = 1024;
/// β: part of the window that a reduction keeps.
const BETA: u32 = 717;
/// 1024·C·10, as Linux scales it for a nominal round trip of 100 ms.
const CUBE_RTT_SCALE: u64 = 410;
/// 2^40 / 410: K³ in (1/1024 s)³ per segment below W_max.
const CUBE_FACTOR: u64 = (1 << 40) / CUBE_RTT_SCALE;
/// 8·(1 + β) / 3(1 − β): acknowledged segments, in eighths of a window, for which Reno adds one.
const RENO_SCALE: u32 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// Maximum time between two computations of the target, in milliseconds.
const RECOMPUTE_MS: u64 = 31;
/// Time after a reduction in which delays are ignored, in milliseconds.
const SETTLING_MS: u64 = 1000;
const MIN_SSTHRESH: u32 = 2;

/// State of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    growth: AdditiveIncrease,
    /// Acknowledged segments per segment of growth.
    count: u32,
    /// W_max after fast convergence; 0 before the first loss.
    last_max: u32,
    /// Window and time in ms of the last computation of `count`.
    last_cwnd: u32,
    last_ms: u64,
    /// Origin point of the curve in segments, K in 1/1024 s, and start of the epoch.
    origin: u32,
    k: u64,
    epoch_ms: Option<u64>,
    /// Segments acknowledged since the estimate of Reno's window last grew, and the estimate.
    acked: u32,
    reno_cwnd: u32,
    /// Minimum delay in microseconds; 0 before the first sample.
    delay_min_us: u64,
    hystart: Hystart,
}

impl Cubic {
    /// A new instance with the given end of slow start.
    pub fn new(hystart: HyStart) -> Self {
        Self {
            growth: AdditiveIncrease::default(),
            count: 0,
            last_max: 0,
            last_cwnd: 0,
            last_ms: 0,
            origin: 0,
            k: 0,
            epoch_ms: None,
            acked: 0,
            reno_cwnd: 0,
            delay_min_us: 0,
            hystart: Hystart::new(hystart),
        }
    }

    /// Linux's `bictcp_reset` and the start of a round of HyStart.
    fn reset(&mut self, now: Nanos, nxt: u64) {
        *self = Self { growth: self.growth, ..Self::new(self.hystart.kind()) };
        self.hystart.reset(now, nxt);
    }

    /// Linux's `bictcp_update`: computes the acknowledged segments per segment of growth.
    fn update(&mut self, now_ms: u64, cwnd: u32, acked: u32) {
        self.acked = self.acked.saturating_add(acked);
        if self.last_cwnd == cwnd && now_ms - self.last_ms <= RECOMPUTE_MS {
            return;
        }
        if self.epoch_ms.is_none() || now_ms != self.last_ms {
            self.last_cwnd = cwnd;
            self.last_ms = now_ms;
            let epoch_ms = match self.epoch_ms {
                Some(epoch_ms) => epoch_ms,
                None => self.begin_epoch(now_ms, cwnd, acked),
            };
            let target = self.target(now_ms, epoch_ms);
            self.count =
                if target > u64::from(cwnd) { cwnd / (target - u64::from(cwnd)) as u32 } else { 100 * cwnd };
            // Before the first loss the curve is not defined.
            if self.last_max == 0 {
                self.count = self.count.min(20);
            }
        }
        self.stay_friendly(cwnd);
        self.count = self.count.max(2);
    }

    fn begin_epoch(&mut self, now_ms: u64, cwnd: u32, acked: u32) -> u64 {
        self.epoch_ms = Some(now_ms);
        self.acked = acked;
        self.reno_cwnd = cwnd;
        (self.k, self.origin) = if self.last_max <= cwnd {
            (0, cwnd)
        } else {
            (cube_root(CUBE_FACTOR * u64::from(self.last_max - cwnd)), self.last_max)
        };
        now_ms
    }

    /// RFC 9438 equation (1), one round trip ahead.
    fn target(&self, now_ms: u64, epoch_ms: u64) -> u64 {
        let t = ((now_ms - epoch_ms + self.delay_min_us.div_ceil(1000)) << 10) / 1000;
        let distance = t.abs_diff(self.k).min(1 << 17);
        let delta = (CUBE_RTT_SCALE * distance * distance * distance) >> 40;
        let origin = u64::from(self.origin);
        if t < self.k { origin.saturating_sub(delta) } else { origin + delta }
    }

    /// RFC 9438 §4.3: grows at least as fast as Reno.
    fn stay_friendly(&mut self, cwnd: u32) {
        let per_segment = ((cwnd * RENO_SCALE) >> 3).max(1);
        while self.acked > per_segment {
            self.acked -= per_segment;
            self.reno_cwnd += 1;
        }
        if self.reno_cwnd > cwnd {
            self.count = self.count.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }

    /// Linux's `cubictcp_acked`: updates the minimum delay and checks whether slow start ends.
    fn watch_delay(&mut self, window: &mut Window, ack: &AckEvent, rtt: Nanos) {
        let now_ms = ack.now.0 / 1_000_000;
        if self.epoch_ms.is_some_and(|epoch| now_ms.saturating_sub(epoch) < SETTLING_MS) {
            return;
        }
        let delay = (rtt.0 / 1000).max(1);
        if self.delay_min_us == 0 || delay < self.delay_min_us {
            self.delay_min_us = delay;
        }
        if window.in_slow_start() {
            let cushion = ack_train_cushion_us(window.cwnd, ack.mss, ack.srtt);
            self.hystart.on_ack(window, ack, delay, self.delay_min_us, cushion);
        }
    }

    /// RFC 9438 §4.6 and §4.7, Linux's `cubictcp_recalc_ssthresh`.
    fn reduced(&mut self, cwnd: u32) -> u32 {
        self.epoch_ms = None;
        let keep = u64::from(cwnd);
        self.last_max = if cwnd < self.last_max {
            (keep * u64::from(SCALE + BETA) / u64::from(2 * SCALE)) as u32
        } else {
            cwnd
        };
        ((keep * u64::from(BETA) / u64::from(SCALE)) as u32).max(MIN_SSTHRESH)
    }
}

/// The cube root of `a`, rounded down. Linux's is the nearest integer or one below.
fn cube_root(a: u64) -> u64 {
    let mut x = libm::cbrt(a as f64) as u64;
    while (x + 1).pow(3) <= a {
        x += 1;
    }
    while x.pow(3) > a {
        x -= 1;
    }
    x
}

impl CongestionControl for Cubic {
    fn on_open(&mut self, _window: &mut Window, open: &OpenEvent) {
        self.hystart.reset(open.now, 0);
    }

    fn on_start(&mut self, _window: &mut Window, start: &StartEvent) {
        // The curve stops while nothing is sent (RFC 9438 §5.8).
        if let Some(epoch_ms) = &mut self.epoch_ms {
            *epoch_ms = (*epoch_ms + start.idle.0 / 1_000_000).min(start.now.0 / 1_000_000);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        if let Some(rtt) = ack.rtt {
            self.watch_delay(window, ack, rtt);
        }
        if !ack.may_grow() || !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.growth_credit;
        if window.in_slow_start() {
            acked = self.hystart.grow(window, acked);
            if acked == 0 {
                return;
            }
        }
        self.update(ack.now.0 / 1_000_000, window.cwnd, acked);
        self.growth.grow(window, self.count, acked);
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = self.reduced(window.cwnd);
        window.cwnd = window.ssthresh;
        self.growth = AdditiveIncrease::default();
        self.hystart.on_loss();
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        window.ssthresh = self.reduced(window.cwnd);
        window.cwnd = 1;
        self.growth = AdditiveIncrease::default();
        self.reset(loss.now, loss.nxt);
    }

    fn on_repeated_timeout(&mut self, _window: &mut Window, loss: &LossEvent) {
        self.growth = AdditiveIncrease::default();
        self.reset(loss.now, loss.nxt);
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {
        self.growth = AdditiveIncrease::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::super::testing::{ack, loss};
    use super::*;

    #[test]
    fn rfc9438_4_2_the_window_follows_the_curve_from_the_reduction_through_w_max() {
        // W_max = 1000: reduced to 700, K = ∛(300 / 0.4) = 9.086 s; then a round trip of 100 ms.
        let mut cubic = Cubic::new(HyStart::Off);
        let mut window = Window { cwnd: 1000, ssthresh: 1000 };
        cubic.on_enter_recovery(&mut window, &loss(1000));
        assert_eq!(window, Window { cwnd: 700, ssthresh: 700 });
        let rtt = Nanos::from_millis(100);
        let mut now = Nanos::from_secs(5);
        let begin = now;
        while now.saturating_sub(begin) < Nanos::from_secs(15) {
            let t = now.saturating_sub(begin).0 as f64 / 1e9;
            let curve = 0.4 * libm::pow(t - libm::cbrt(300.0 / 0.4), 3.0) + 1000.0;
            let off = f64::from(window.cwnd) - curve;
            // The window follows the target, which is one round trip ahead: within the growth of a round trip, at most 12.
            assert!(off.abs() < 0.015 * curve, "t {t:.2}: {} against {curve:.1}", window.cwnd);
            for _ in 0..10 {
                let event = AckEvent { now, rtt: Some(rtt), phase: Phase::Open, ..ack(window.cwnd / 10) };
                cubic.on_ack(&mut window, &event);
                now += Nanos(rtt.0 / 10);
            }
        }
        assert!(window.cwnd > 1050);
    }

    #[test]
    fn rfc9438_4_7_fast_convergence_lowers_w_max_when_the_window_did_not_recover() {
        let mut cubic = Cubic::new(HyStart::Off);
        let mut window = Window { cwnd: 100, ssthresh: 100 };
        cubic.on_enter_recovery(&mut window, &loss(100));
        assert_eq!(cubic.last_max, 100);
        window.cwnd = 90;
        cubic.on_enter_recovery(&mut window, &loss(90));
        // 90 · (1 + 0.7) / 2 = 76.5.
        assert_eq!((cubic.last_max, window.cwnd), (76, 63));
    }

    #[test]
    fn rfc9438_4_3_a_small_window_grows_as_fast_as_renos() {
        // W_max = 10, β = 0.7: with Reno's mean window, 3(1 − β)/(1 + β) = 0.53 segments per round trip.
        let mut cubic = Cubic::new(HyStart::Off);
        let mut window = Window { cwnd: 10, ssthresh: 10 };
        cubic.on_enter_recovery(&mut window, &loss(10));
        let (mut now, begin) = (Nanos::from_secs(1), window.cwnd);
        for _ in 0..20 {
            let event = AckEvent { now, rtt: Some(Nanos::from_millis(10)), ..ack(window.cwnd) };
            cubic.on_ack(&mut window, &event);
            now += Nanos::from_millis(10);
        }
        // The curve alone grows from 7 to 8 in 0.2 s.
        assert!((9..=11).contains(&(window.cwnd - begin)), "{}", window.cwnd);
    }

    #[test]
    fn the_cube_root_is_exact() {
        for a in [0, 1, 7, 8, 26, 27, 2_681_735_677, CUBE_FACTOR * 300, u64::from(u32::MAX)] {
            let x = cube_root(a);
            assert!(x.pow(3) <= a && (x + 1).pow(3) > a, "{a}");
        }
    }
}
