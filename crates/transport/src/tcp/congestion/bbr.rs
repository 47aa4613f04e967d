//! BBR version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016; draft-cardwell-iccrg-bbr-00), with
//! the constants and the integer arithmetic of Linux 6.1's `tcp_bbr.c`.
//!
//! A model of the path sets the pacing rate and the window: the maximum delivery rate of ten round trips and the minimum
//! round-trip time of ten seconds. STARTUP doubles the rate each round trip until it stops growing, DRAIN empties the
//! resulting queue, PROBE_BW cycles through eight gains, and PROBE_RTT keeps four packets in flight for 200 ms if the
//! minimum round-trip time was not measured again. Also from Linux: packet conservation in the first round trip of a
//! recovery, a window that allows for aggregated acknowledgments, and a long-term rate if a policer is detected.
//!
//! Rates are segments per microsecond, times 2^24; gains are multiples of 1/256. The first phase of PROBE_BW is random in
//! Linux; here it follows from a seed. Left out: TSO, so that the allowance for a burst is one segment at rates below
//! 1.2 Mb/s and two above, as in Linux.

use fairhop_model::units::Nanos;

use super::{AckEvent, CongestionControl, LossEvent, OpenEvent, Phase, StartEvent, Window};

/// Shift of rates, and their unit.
const BW_SCALE: u32 = 24;
const BW_UNIT: u64 = 1 << BW_SCALE;
/// Shift of gains, and their unit.
const GAIN_SCALE: u32 = 8;
const GAIN_UNIT: u64 = 1 << GAIN_SCALE;
/// 2 / ln 2: doubles the rate every round trip.
const HIGH_GAIN: u64 = GAIN_UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = GAIN_UNIT * 1000 / 2885;
const CWND_GAIN: u64 = GAIN_UNIT * 2;
const CYCLE: [u64; 8] =
    [GAIN_UNIT * 5 / 4, GAIN_UNIT * 3 / 4, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT];
/// Number of phases in which PROBE_BW may begin; the draining one is excluded.
const CYCLE_RANDOM: u64 = 7;
/// Window of the maximum rate in round trips, and of the minimum round-trip time.
const BW_ROUNDS: u32 = 10;
const MIN_RTT_WINDOW: Nanos = Nanos::from_secs(10);
const PROBE_RTT_TIME: Nanos = Nanos::from_millis(200);
const MIN_CWND: u32 = 4;
/// Per cent by which the pacing rate is below the estimated rate, to keep the queue short.
const PACING_MARGIN: u64 = 1;
/// STARTUP has filled the path when the rate has not grown by a quarter for three round trips.
const FULL_BW_GAIN: u64 = GAIN_UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;
/// Bits per second below which one segment is sent at a time.
const LOW_RATE: u64 = 1_200_000;
const INITIAL_CWND: u32 = 10;
/// Long-term sampling: minimum round trips of an interval, minimum loss of a lossy interval (in 256ths), maximum
/// difference of two intervals (in 256ths, or in bytes per second), and round trips for which the rate is used.
const LT_MIN_ROUNDS: u32 = 4;
const LT_LOSS: u64 = 50;
const LT_RATIO: u64 = GAIN_UNIT / 8;
const LT_DIFF: u64 = 4000 / 8;
const LT_MAX_ROUNDS: u32 = 48;
/// Aggregation: window of its maximum in round trips, maximum segments in an epoch, and maximum time it accounts for.
const EXTRA_ROUNDS: u32 = 5;
const EXTRA_EPOCH: u64 = 1 << 20;
const EXTRA_TIME_US: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// A maximum over a window of rounds, kept as the best samples of three successive parts of it (Linux's `minmax`).
#[derive(Clone, Copy, Debug, Default)]
struct WindowedMax {
    best: [(u32, u64); 3],
}

impl WindowedMax {
    fn get(&self) -> u64 {
        self.best[0].1
    }

    fn update(&mut self, window: u32, round: u32, value: u64) {
        let sample = (round, value);
        if value >= self.best[0].1 || round - self.best[2].0 > window {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].1 {
            self.best[2] = sample;
        }
        let age = round - self.best[0].0;
        if age > window {
            self.best = [self.best[1], self.best[2], sample];
            if round - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

/// The rate of a policer, if one is detected.
#[derive(Clone, Copy, Debug, Default)]
struct LongTerm {
    sampling: bool,
    used: bool,
    bw: u64,
    rounds: u32,
    began: Nanos,
    delivered: u64,
    lost: u64,
}

/// State of BBR.
#[derive(Clone, Debug)]
pub struct Bbr {
    seed: u64,
    mode: Mode,
    mss: u64,
    pacing_rate: u64,
    pacing_gain: u64,
    cwnd_gain: u64,
    has_seen_rtt: bool,
    max_bw: WindowedMax,
    min_rtt: Option<Nanos>,
    min_rtt_at: Nanos,
    probe_rtt_done_at: Option<Nanos>,
    probe_rtt_round_done: bool,
    rounds: u32,
    round_start: bool,
    next_round_delivered: u64,
    cycle: usize,
    cycle_at: Nanos,
    full_bw: u64,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    prior_phase: Phase,
    prior_cwnd: u32,
    packet_conservation: bool,
    idle_restart: bool,
    long_term: LongTerm,
    /// When an acknowledgment last reported new data.
    delivered_at: Nanos,
    delivered: u64,
    lost: u64,
    extra_at: Nanos,
    extra_epoch: u64,
    extra: [u32; 2],
    extra_rounds: u32,
    extra_index: usize,
}

impl Bbr {
    /// A new instance; the seed determines the first phases of PROBE_BW.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            mode: Mode::Startup,
            mss: 1,
            pacing_rate: 0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            has_seen_rtt: false,
            max_bw: WindowedMax::default(),
            min_rtt: None,
            min_rtt_at: Nanos::ZERO,
            probe_rtt_done_at: None,
            probe_rtt_round_done: false,
            rounds: 0,
            round_start: false,
            next_round_delivered: 0,
            cycle: 0,
            cycle_at: Nanos::ZERO,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            prior_phase: Phase::Open,
            prior_cwnd: 0,
            packet_conservation: false,
            idle_restart: false,
            long_term: LongTerm::default(),
            delivered_at: Nanos::ZERO,
            delivered: 0,
            lost: 0,
            extra_at: Nanos::ZERO,
            extra_epoch: 0,
            extra: [0; 2],
            extra_rounds: 0,
            extra_index: 0,
        }
    }

    fn bw(&self) -> u64 {
        if self.long_term.used { self.long_term.bw } else { self.max_bw.get() }
    }

    fn bytes_per_second(&self, bw: u64, gain: u64) -> u64 {
        let rate = ((bw * self.mss * gain) >> GAIN_SCALE) * (1_000_000 / 100 * (100 - PACING_MARGIN));
        rate >> BW_SCALE
    }

    /// Pacing rate before the first rate sample: the window per round trip at the high gain.
    fn pace_by_rtt(&mut self, cwnd: u32, srtt: Option<Nanos>) {
        self.has_seen_rtt |= srtt.is_some();
        let rtt_us = srtt.map_or(1000, |srtt| (srtt.0 / 1000).max(1));
        self.pacing_rate = self.bytes_per_second(u64::from(cwnd) * BW_UNIT / rtt_us, HIGH_GAIN);
    }

    fn set_pacing_rate(&mut self, cwnd: u32, srtt: Option<Nanos>) {
        if !self.has_seen_rtt && srtt.is_some() {
            self.pace_by_rtt(cwnd, srtt);
        }
        let rate = self.bytes_per_second(self.bw(), self.pacing_gain);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Segments of a burst: the amount paced in 1 ms, at least one or two.
    fn burst(&self) -> u32 {
        let min = if self.pacing_rate < LOW_RATE >> 3 { 1 } else { 2 };
        ((self.pacing_rate >> 10).min(65_535) / self.mss).clamp(min, 0x7f) as u32
    }

    /// gain · bw · min_rtt, rounded up.
    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        let Some(min_rtt) = self.min_rtt else { return INITIAL_CWND };
        let product = (u128::from(bw) * u128::from(min_rtt.0 / 1000) * u128::from(gain)) >> GAIN_SCALE;
        u32::try_from(product.div_ceil(u128::from(BW_UNIT))).unwrap_or(u32::MAX / 2)
    }

    /// Room for bursts at both ends and for delayed acknowledgments.
    fn with_budget(&self, segments: u32) -> u32 {
        let segments = (segments + 3 * self.burst() + 1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle == 0 { segments + 2 } else { segments }
    }

    fn inflight(&self, bw: u64, gain: u64) -> u32 {
        self.with_budget(self.bdp(bw, gain))
    }

    /// Segments in the network when the next packet leaves, given those in flight now.
    fn in_network(&self, ack: &AckEvent, in_flight: u32) -> u32 {
        let wait_us = ack.release.saturating_sub(ack.now).0 / 1000;
        let delivered = ((self.bw() * wait_us) >> BW_SCALE) as u32;
        let burst = if self.pacing_gain > GAIN_UNIT { self.burst() } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    // Path model.

    fn update_bw(&mut self, ack: &AckEvent) {
        self.round_start = false;
        let Some(rate) = ack.rate else { return };
        if rate.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(ack.newly_lost > 0, rate.app_limited);
        let bw = u64::from(rate.delivered) * BW_UNIT / (rate.interval.0 / 1000).max(1);
        if !rate.app_limited || bw >= self.max_bw.get() {
            self.max_bw.update(BW_ROUNDS, self.rounds, bw);
        }
    }

    fn begin_long_term_interval(&mut self) {
        let long_term = &mut self.long_term;
        long_term.began = self.delivered_at;
        long_term.delivered = self.delivered;
        long_term.lost = self.lost;
        long_term.rounds = 0;
    }

    fn end_long_term(&mut self) {
        self.long_term = LongTerm::default();
        self.begin_long_term_interval();
    }

    /// Two intervals of the same rate with much loss indicate a token-bucket policer.
    fn sample_long_term(&mut self, losses: bool, app_limited: bool) {
        if self.long_term.used {
            if self.mode == Mode::ProbeBw && self.round_start {
                self.long_term.rounds += 1;
                if self.long_term.rounds >= LT_MAX_ROUNDS {
                    self.end_long_term();
                    self.enter_probe_bw();
                }
            }
            return;
        }
        if !self.long_term.sampling {
            if !losses {
                return;
            }
            self.begin_long_term_interval();
            self.long_term.sampling = true;
        }
        if app_limited {
            self.end_long_term();
            return;
        }
        self.long_term.rounds += u32::from(self.round_start);
        if self.long_term.rounds < LT_MIN_ROUNDS {
            return;
        }
        if self.long_term.rounds > 4 * LT_MIN_ROUNDS {
            self.end_long_term();
            return;
        }
        let lost = self.lost - self.long_term.lost;
        let delivered = self.delivered - self.long_term.delivered;
        if !losses || delivered == 0 || lost << GAIN_SCALE < LT_LOSS * delivered {
            return;
        }
        let millis = self.delivered_at.0 / 1_000_000 - self.long_term.began.0 / 1_000_000;
        if millis >= 1 {
            self.judge_long_term(delivered * BW_UNIT / (millis * 1000));
        }
    }

    fn judge_long_term(&mut self, bw: u64) {
        let before = self.long_term.bw;
        if before > 0 {
            let difference = bw.abs_diff(before);
            if difference << GAIN_SCALE <= LT_RATIO * before
                || self.bytes_per_second(difference, GAIN_UNIT) <= LT_DIFF
            {
                self.long_term.bw = u64::midpoint(bw, before);
                self.long_term.used = true;
                self.long_term.rounds = 0;
                self.pacing_gain = GAIN_UNIT;
                return;
            }
        }
        self.long_term.bw = bw;
        self.begin_long_term_interval();
    }

    /// Maximum, over five to ten round trips, of the segments that arrived beyond the estimated rate.
    fn update_aggregation(&mut self, window: &Window, ack: &AckEvent) {
        if ack.newly_delivered == 0 || ack.rate.is_none() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra_index ^= 1;
                self.extra[self.extra_index] = 0;
            }
        }
        let epoch_us = self.delivered_at.saturating_sub(self.extra_at).0 / 1000;
        let mut expected = ((u128::from(self.bw()) * u128::from(epoch_us)) >> BW_SCALE) as u64;
        if self.extra_epoch <= expected || self.extra_epoch + u64::from(ack.newly_delivered) >= EXTRA_EPOCH {
            self.extra_epoch = 0;
            self.extra_at = self.delivered_at;
            expected = 0;
        }
        self.extra_epoch = (self.extra_epoch + u64::from(ack.newly_delivered)).min(EXTRA_EPOCH - 1);
        let extra = (self.extra_epoch - expected).min(u64::from(window.cwnd)) as u32;
        self.extra[self.extra_index] = self.extra[self.extra_index].max(extra);
    }

    fn aggregation(&self) -> u32 {
        if !self.full_bw_reached {
            return 0;
        }
        let max = ((self.bw() * EXTRA_TIME_US) >> BW_SCALE) as u32;
        self.extra[0].max(self.extra[1]).min(max)
    }

    // Modes.

    fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - self.draw() as usize;
        self.next_phase();
    }

    /// A number below [`CYCLE_RANDOM`] (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % CYCLE_RANDOM
    }

    fn next_phase(&mut self) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = self.delivered_at;
    }

    fn update_cycle(&mut self, ack: &AckEvent) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full = self.min_rtt.is_some_and(|rtt| self.delivered_at.saturating_sub(self.cycle_at) > rtt);
        let over = if self.pacing_gain == GAIN_UNIT {
            full
        } else {
            let in_network = self.in_network(ack, ack.prior_in_flight);
            let bw = self.max_bw.get();
            if self.pacing_gain > GAIN_UNIT {
                full && (ack.newly_lost > 0 || in_network >= self.inflight(bw, self.pacing_gain))
            } else {
                full || in_network <= self.inflight(bw, GAIN_UNIT)
            }
        };
        if over {
            self.next_phase();
        }
    }

    fn check_full_bw(&mut self, ack: &AckEvent) {
        let app_limited = ack.rate.is_some_and(|rate| rate.app_limited);
        if self.full_bw_reached || !self.round_start || app_limited {
            return;
        }
        if self.max_bw.get() >= (self.full_bw * FULL_BW_GAIN) >> GAIN_SCALE {
            self.full_bw = self.max_bw.get();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    fn check_drain(&mut self, window: &mut Window, ack: &AckEvent) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(self.max_bw.get(), GAIN_UNIT);
        }
        if self.mode == Mode::Drain
            && self.in_network(ack, ack.in_flight) <= self.inflight(self.max_bw.get(), GAIN_UNIT)
        {
            self.enter_probe_bw();
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &AckEvent) {
        let expired = ack.now > self.min_rtt_at.saturating_add(MIN_RTT_WINDOW);
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|min| rtt <= min) || (expired && !ack.maybe_delayed))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window.cwnd);
            self.probe_rtt_done_at = None;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done_at.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(window, ack.now);
                }
            } else if ack.in_flight <= MIN_CWND {
                self.probe_rtt_done_at = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = ack.delivered;
            }
        }
        if ack.rate.is_some_and(|rate| rate.delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Nanos) {
        if self.probe_rtt_done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.used => (GAIN_UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (GAIN_UNIT, GAIN_UNIT),
        };
    }

    // Window.

    fn save_cwnd(&mut self, cwnd: u32) {
        let undisturbed = matches!(self.prior_phase, Phase::Open | Phase::Cwr) && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if undisturbed { cwnd } else { self.prior_cwnd.max(cwnd) };
    }

    /// The window in and after recovery; the flag means that it must not grow further.
    fn recover_or_restore(&mut self, cwnd: u32, ack: &AckEvent) -> (u32, bool) {
        let mut cwnd = if ack.newly_lost > 0 { cwnd.saturating_sub(ack.newly_lost).max(1) } else { cwnd };
        let recovering = |phase| matches!(phase, Phase::Recovery | Phase::Loss);
        if ack.phase == Phase::Recovery && self.prior_phase != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = ack.delivered;
            cwnd = ack.in_flight + ack.newly_delivered;
        } else if recovering(self.prior_phase) && !recovering(ack.phase) {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prior_phase = ack.phase;
        if self.packet_conservation {
            return (cwnd.max(ack.in_flight + ack.newly_delivered), true);
        }
        (cwnd, false)
    }

    fn set_cwnd(&mut self, window: &mut Window, ack: &AckEvent) {
        let acked = ack.newly_delivered;
        if acked > 0 {
            let (cwnd, conserved) = self.recover_or_restore(window.cwnd, ack);
            window.cwnd = cwnd;
            if !conserved {
                let target = self.with_budget(self.bdp(self.bw(), self.cwnd_gain) + self.aggregation());
                if self.full_bw_reached {
                    window.cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || ack.delivered < u64::from(INITIAL_CWND) {
                    window.cwnd = cwnd + acked;
                }
                window.cwnd = window.cwnd.max(MIN_CWND);
            }
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for Bbr {
    fn on_open(&mut self, window: &mut Window, open: &OpenEvent) {
        self.mss = u64::from(open.mss);
        self.min_rtt = open.srtt;
        self.min_rtt_at = open.now;
        self.extra_at = open.now;
        self.delivered_at = open.now;
        self.pace_by_rtt(window.cwnd, open.srtt);
    }

    fn on_start(&mut self, window: &mut Window, start: &StartEvent) {
        if !start.app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_at = start.now;
        self.extra_epoch = 0;
        if self.mode == Mode::ProbeBw {
            self.pacing_rate = self.bytes_per_second(self.bw(), GAIN_UNIT);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(window, start.now);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        if ack.newly_delivered > 0 {
            self.delivered_at = ack.now;
        }
        (self.delivered, self.lost) = (ack.delivered, ack.lost);
        self.update_bw(ack);
        self.update_aggregation(window, ack);
        self.update_cycle(ack);
        self.check_full_bw(ack);
        self.check_drain(window, ack);
        self.update_min_rtt(window, ack);
        self.update_gains();
        self.set_pacing_rate(window.cwnd, ack.srtt);
        self.set_cwnd(window, ack);
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        self.save_cwnd(window.cwnd);
    }

    fn on_exit_recovery(&mut self, _window: &mut Window, _now: Nanos) {}

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        self.save_cwnd(window.cwnd);
        window.cwnd = 1;
        self.on_repeated_timeout(window, loss);
    }

    fn on_repeated_timeout(&mut self, _window: &mut Window, loss: &LossEvent) {
        self.prior_phase = Phase::Loss;
        self.full_bw = 0;
        self.round_start = true;
        self.lost = loss.lost;
        self.sample_long_term(true, false);
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {}

    fn on_undo(&mut self, _window: &mut Window, _prior: Window) {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.end_long_term();
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn needs_rate(&self) -> bool {
        true
    }

    fn limits_itself(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn owns_window(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_windowed_maximum_is_from_the_window_and_not_below_that_of_its_last_quarter(
            values in prop::collection::vec(1..1000_u64, 1..60),
        ) {
            let mut max = WindowedMax::default();
            for (round, &value) in values.iter().enumerate() {
                max.update(BW_ROUNDS, round as u32, value);
                let of = |rounds: usize| &values[round.saturating_sub(rounds)..=round];
                prop_assert!(of(BW_ROUNDS as usize).contains(&max.get()));
                prop_assert!(max.get() >= *of(2).iter().max().expect("a value"));
            }
        }
    }

    #[test]
    fn the_gains_are_those_of_the_paper() {
        // 2.885, its inverse, 5/4 and 3/4, in 256ths.
        assert_eq!((HIGH_GAIN, DRAIN_GAIN, CYCLE[0], CYCLE[1]), (739, 88, 320, 192));
    }

    #[test]
    fn probe_bw_begins_in_any_phase_but_the_draining_one() {
        let mut seen = [false; 8];
        for seed in 0..200 {
            let mut bbr = Bbr::new(seed);
            bbr.enter_probe_bw();
            seen[bbr.cycle] = true;
        }
        assert_eq!(seen, [true, false, true, true, true, true, true, true]);
    }
}
