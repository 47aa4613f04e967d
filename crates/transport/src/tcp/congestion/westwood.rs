//! TCP Westwood and Westwood+: after a loss the window is the measured bandwidth times the minimum round-trip time, and not
//! half of the former window.
//!
//! - [`Westwood`] is the original (Mascolo, Casetti, Gerla, Sanadidi, Wang, MobiCom 2001; Casetti et al., Wireless
//!   Networks 8, 2002). Every acknowledgment is a bandwidth sample. A low-pass filter (bilinear transform with unequal
//!   intervals) smooths the samples and gets samples of zero while no acknowledgments arrive. It overestimates if
//!   acknowledgments arrive in bunches, which is why its authors replaced it.
//! - [`WestwoodPlus`] is Linux's `tcp_westwood.c` (Dell'Aera, Grieco, Mascolo, ICC 2004): one sample per round trip of at
//!   least 50 ms and two averages of 7/8 in series, in whole clock ticks and bytes per tick of a kernel with HZ = 1000.
//!   Like Linux it halves the threshold when recovery begins and uses the estimate when recovery ends; the papers use
//!   the estimate at once.
//!
//! Both count an acknowledgment that does not advance as one segment, and subtract it when a later one covers it (the
//! papers' `AckedCount`). Linux skips this for an acknowledgment that passes its header prediction. No acknowledgment that
//! ends a recovery passes it in the measured traces, so it is always done here.

use fairhop_model::units::Nanos;

use super::{AckEvent, AdditiveIncrease, CongestionControl, LossEvent, Window};

/// Bytes that acknowledgments represent (`AckedCount` of the papers, `westwood_acked_count` of Linux).
#[derive(Clone, Copy, Debug, Default)]
struct AckedCount {
    /// Bytes counted for duplicates and not yet covered.
    accounted: u64,
}

impl AckedCount {
    /// Bytes to count for an acknowledgment that advances by `advance` bytes.
    fn count(&mut self, advance: u64, mss: u64) -> u64 {
        if advance == 0 {
            self.accounted += mss;
            return mss;
        }
        if advance <= mss {
            return advance;
        }
        if self.accounted >= advance {
            self.accounted -= advance;
            return mss;
        }
        advance - std::mem::take(&mut self.accounted)
    }
}

/// `bytes` in segments, at least two.
fn segments(bytes: u64, mss: u64) -> u32 {
    u32::try_from(bytes / mss.max(1)).unwrap_or(u32::MAX).max(2)
}

/// State of Westwood+.
#[derive(Clone, Copy, Debug, Default)]
pub struct WestwoodPlus {
    growth: AdditiveIncrease,
    acked: AckedCount,
    /// SND.UNA of the last acknowledgment; none before the first.
    una: Option<u64>,
    /// Bytes acknowledged since the sample began, and the tick of its start.
    bytes: u64,
    sample_began: u64,
    /// Both averages in bytes per tick, once there is a sample.
    estimate: Option<(u64, u64)>,
    /// The last and the minimum round-trip time in ticks.
    rtt: Option<u64>,
    min_rtt: Option<u64>,
    recovered: bool,
    mss: u64,
}

impl WestwoodPlus {
    /// HZ = 1000.
    const TICK_NS: u64 = 1_000_000;
    /// Minimum length of a sample: HZ/20.
    const MIN_SAMPLE: u64 = 50;
    /// Round-trip time before the first sample: 20 s, so that any sample replaces it as the minimum.
    const INITIAL_RTT: u64 = 20_000;

    fn last_rtt(&self) -> u64 {
        self.rtt.unwrap_or(Self::INITIAL_RTT)
    }

    /// Linux's `westwood_update_window` and `westwood_filter`.
    fn end_sample(&mut self, tick: u64) {
        let length = tick.saturating_sub(self.sample_began);
        if length <= self.last_rtt().max(Self::MIN_SAMPLE) {
            return;
        }
        let rate = self.bytes / length;
        let average = |old: u64, new: u64| (7 * old + new) >> 3;
        self.estimate = Some(match self.estimate {
            None | Some((0, 0)) => (rate, rate),
            Some((once, twice)) => {
                let once = average(once, rate);
                (once, average(twice, once))
            }
        });
        self.bytes = 0;
        self.sample_began = tick;
    }

    /// Bandwidth measurement (Linux's `tcp_westwood_ack`). The round-trip time of an acknowledgment counts from the next
    /// one on.
    fn measure(&mut self, ack: &AckEvent) {
        let advance = ack.una - self.una.unwrap_or(ack.una).min(ack.una);
        let first = self.una.replace(ack.una).is_none();
        self.mss = u64::from(ack.mss);
        self.end_sample(ack.now.0 / Self::TICK_NS);
        if !first {
            self.bytes += self.acked.count(advance, self.mss);
        }
        let rtt = self.last_rtt();
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        if let Some(rtt) = ack.rtt.filter(|rtt| rtt.0 >= 1000) {
            self.rtt = Some((rtt.0 / 1000 * 1000).div_ceil(Self::TICK_NS));
        }
    }

    /// Linux's `tcp_westwood_bw_rttmin`.
    fn bdp_segments(&self) -> u32 {
        let (_, rate) = self.estimate.unwrap_or_default();
        segments(rate * self.min_rtt.unwrap_or(Self::INITIAL_RTT), self.mss)
    }
}

impl CongestionControl for WestwoodPlus {
    fn on_open(&mut self, _window: &mut Window, open: &super::OpenEvent) {
        self.sample_began = open.now.0 / Self::TICK_NS;
        self.mss = u64::from(open.mss);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        self.measure(ack);
        if std::mem::take(&mut self.recovered) {
            window.ssthresh = self.bdp_segments();
            window.cwnd = window.ssthresh;
        }
        if ack.may_grow() {
            self.growth.grow_as_reno(window, ack);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = window.half();
        window.cwnd = window.ssthresh;
        self.growth = AdditiveIncrease::default();
    }

    /// The estimate must include the acknowledgment that ends recovery, so the window is set in `on_ack`, which follows.
    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
        self.recovered = true;
    }

    fn on_timeout(&mut self, window: &mut Window, _loss: &LossEvent) {
        window.ssthresh = self.bdp_segments();
        window.cwnd = 1;
        // The path may have changed.
        self.min_rtt = None;
        self.growth = AdditiveIncrease::default();
    }

    fn on_restart(&mut self, _window: &mut Window, _now: Nanos) {
        self.growth = AdditiveIncrease::default();
    }
}

/// State of the original Westwood.
#[derive(Clone, Copy, Debug, Default)]
pub struct Westwood {
    growth: AdditiveIncrease,
    acked: AckedCount,
    /// SND.UNA and the time of the last acknowledgment that gave a sample.
    last: Option<(u64, Nanos)>,
    /// Bytes acknowledged since then, if several acknowledgments arrive at the same time.
    bytes: u64,
    /// The last sample and the filter's output, in bytes per second.
    sample: f64,
    estimate: f64,
    min_rtt: Option<Nanos>,
}

impl Westwood {
    /// τ: cut-off of the filter. The papers leave it open.
    const TAU_S: f64 = 0.5;
    /// A sample of zero replaces every τ/m without an acknowledgment, m = 2 (the minimum after Nyquist).
    const SILENCE: Nanos = Nanos::from_millis(250);
    /// After this number of them the estimate is zero: each reduces it to 3/5.
    const MAX_SILENCES: u64 = 100;

    /// b̂ = a·b̂′ + (1 − a)·(b + b′)/2 with a = (2τ − Δ)/(2τ + Δ).
    fn filter(&mut self, sample: f64, interval_s: f64) {
        let keep = (2.0 * Self::TAU_S - interval_s) / (2.0 * Self::TAU_S + interval_s);
        self.estimate = keep * self.estimate + (1.0 - keep) * (sample + self.sample) / 2.0;
        self.sample = sample;
    }

    /// Adds samples of zero for the silence before `now`; returns the end of the last one.
    fn note_silence(&mut self, since: Nanos, now: Nanos) -> Nanos {
        let silences = now.saturating_sub(since).div_floor(Self::SILENCE);
        for _ in 0..silences.min(Self::MAX_SILENCES) {
            self.filter(0.0, Self::SILENCE.as_secs_f64());
        }
        since + Self::SILENCE * silences
    }

    fn measure(&mut self, ack: &AckEvent) {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        let Some((una, at)) = self.last else {
            self.last = Some((ack.una, ack.now));
            return;
        };
        self.bytes += self.acked.count(ack.una.saturating_sub(una), u64::from(ack.mss));
        let mut at = at;
        if ack.now > at {
            at = self.note_silence(at, ack.now);
            let interval = ack.now.saturating_sub(at);
            if interval > Nanos::ZERO {
                let bytes = std::mem::take(&mut self.bytes);
                self.filter(bytes as f64 / interval.as_secs_f64(), interval.as_secs_f64());
                at = ack.now;
            }
        }
        self.last = Some((ack.una, at));
    }

    /// The estimate times the minimum round-trip time, in segments.
    fn bdp_segments(&mut self, loss: &LossEvent) -> u32 {
        if let Some((una, at)) = self.last {
            self.last = Some((una, self.note_silence(at, loss.now)));
        }
        let seconds = self.min_rtt.map_or(0.0, Nanos::as_secs_f64);
        segments((self.estimate * seconds) as u64, u64::from(loss.mss))
    }
}

impl CongestionControl for Westwood {
    fn on_ack(&mut self, window: &mut Window, ack: &AckEvent) {
        self.measure(ack);
        if ack.may_grow() {
            self.growth.grow_as_reno(window, ack);
        }
    }

    fn on_enter_recovery(&mut self, window: &mut Window, loss: &LossEvent) {
        window.ssthresh = self.bdp_segments(loss);
        window.cwnd = window.cwnd.min(window.ssthresh);
        self.growth = AdditiveIncrease::default();
    }

    fn on_exit_recovery(&mut self, window: &mut Window, _now: Nanos) {
        window.cwnd = window.cwnd.min(window.ssthresh);
    }

    fn on_timeout(&mut self, window: &mut Window, loss: &LossEvent) {
        window.ssthresh = self.bdp_segments(loss);
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

    /// Segments are 1,000 bytes; each acknowledgment covers one.
    fn at(ms: u64, una: u64, rtt_ms: u64) -> AckEvent {
        AckEvent {
            now: Nanos::from_millis(ms),
            una: 1000 * una,
            rtt: Some(Nanos::from_millis(rtt_ms)),
            cwnd_limited: false,
            ..ack(1)
        }
    }

    #[test]
    fn duplicates_count_once_and_are_subtracted_when_they_are_covered() {
        let mut acked = AckedCount::default();
        assert_eq!((0..3).map(|_| acked.count(0, 1000)).sum::<u64>(), 3000);
        // The hole, the three segments past it and one more: two are new.
        assert_eq!((acked.count(5000, 1000), acked.accounted), (2000, 0));
        acked.count(0, 1000);
        acked.count(0, 1000);
        assert_eq!(
            (acked.count(2000, 1000), acked.accounted),
            (1000, 0),
            "a partial acknowledgment counts as one segment"
        );
    }

    #[test]
    fn westwood_plus_averages_one_sample_per_round_trip_in_bytes_per_tick() {
        let mut westwood = WestwoodPlus::default();
        let mut window = Window { cwnd: 100, ssthresh: 100 };
        // An acknowledgment of 1,000 bytes every 10 ms at a round-trip time of 100 ms; the first does not count. The
        // first round-trip time ends the wait for 20 s, and the sample that began at 0 is over when it is longer than
        // the last one: at 110 ms with the ten segments of 20 to 110, less that of 110, which opens the next.
        for i in 1..=10 {
            westwood.on_ack(&mut window, &at(10 * i, i, 100));
            assert_eq!(westwood.estimate, None);
        }
        westwood.on_ack(&mut window, &at(110, 11, 100));
        assert_eq!((westwood.estimate, westwood.bytes), (Some((9000 / 110, 9000 / 110)), 1000));
        for i in 12..=22 {
            westwood.on_ack(&mut window, &at(10 * i, i, 100));
        }
        // 11,000 bytes in 110 ms: (7·81 + 100)/8 = 83, (7·81 + 83)/8 = 81.
        assert_eq!(westwood.estimate, Some((83, 81)));
        // Half of the window during recovery; 81 B/ms times 100 ms, 8 segments, at its end.
        westwood.on_enter_recovery(&mut window, &loss(100));
        assert_eq!(window, Window { cwnd: 50, ssthresh: 50 });
        westwood.on_exit_recovery(&mut window, Nanos::ZERO);
        westwood.on_ack(&mut window, &at(225, 22, 100));
        assert_eq!(window, Window { cwnd: 8, ssthresh: 8 });
        westwood.on_timeout(&mut window, &loss(8));
        assert_eq!(window, Window { cwnd: 1, ssthresh: 8 });
        westwood.on_ack(&mut window, &at(226, 23, 200));
        westwood.on_ack(&mut window, &at(227, 24, 200));
        assert_eq!(westwood.min_rtt, Some(100), "the new minimum starts from the last round-trip time");
    }

    #[test]
    fn westwood_plus_rounds_round_trip_times_up_to_ticks() {
        let mut westwood = WestwoodPlus::default();
        for (rtt, ticks) in [(41_212_700, 42), (42_000_999, 42), (42_001_000, 43)] {
            westwood.on_ack(
                &mut Window { cwnd: 9, ssthresh: 9 },
                &AckEvent { rtt: Some(Nanos(rtt)), ..at(1, 1, 0) },
            );
            assert_eq!(westwood.rtt, Some(ticks));
        }
    }

    #[test]
    fn the_original_filters_each_acknowledgment_by_the_time_it_took() {
        let mut westwood = Westwood::default();
        let mut window = Window { cwnd: 100, ssthresh: 100 };
        westwood.on_ack(&mut window, &at(0, 1, 100));
        westwood.on_ack(&mut window, &at(100, 2, 100));
        // 10,000 B/s over 0.1 s: a = 0.9/1.1, (1 − a)/2 · 10,000 = 909.09.
        assert!((westwood.estimate - 10_000.0 / 11.0).abs() < 1e-9);
        westwood.on_ack(&mut window, &at(300, 4, 100));
        // 10,000 B/s over 0.2 s: a = 0.8/1.2, 606.06 + 3,333.33.
        assert!((westwood.estimate - (20_000.0 / 33.0 + 10_000.0 / 3.0)).abs() < 1e-9);
        for i in 4..=200 {
            westwood.on_ack(&mut window, &at(100 * i, i + 1, 100));
        }
        assert!((westwood.estimate - 10_000.0).abs() < 1.0);
        // Half a second of silence: a = 0.6 twice, the first time with half of the last sample: 0.6·10,000 + 0.2·10,000,
        // then 0.6 of that. 4,800 B/s times 100 ms is less than a segment.
        westwood.on_enter_recovery(&mut window, &LossEvent { now: Nanos::from_millis(20_500), ..loss(100) });
        assert!((westwood.estimate - 4800.0).abs() < 1.0, "{}", westwood.estimate);
        assert_eq!(window, Window { cwnd: 2, ssthresh: 2 });
    }

    #[test]
    fn the_original_keeps_a_window_below_the_estimate() {
        let mut westwood =
            Westwood { estimate: 80_000.0, min_rtt: Some(Nanos::from_millis(100)), ..Westwood::default() };
        let mut window = Window { cwnd: 6, ssthresh: 100 };
        westwood.on_enter_recovery(&mut window, &loss(6));
        assert_eq!(window, Window { cwnd: 6, ssthresh: 8 });
        westwood.on_timeout(&mut window, &loss(6));
        assert_eq!(window, Window { cwnd: 1, ssthresh: 8 });
    }
}
