//! The end of slow start before a loss: HyStart as in Linux (Ha and Rhee 2011; `tcp_cubic.c` of 6.1), or HyStart++
//! (RFC 9406).
//!
//! HyStart sets the threshold to the window when acknowledgments have formed a train over half the minimum delay, or when
//! the minimum of a round's first delays exceeds the path's minimum by an eighth. HyStart++ compares only the delays of
//! two rounds. It then grows at a quarter of the rate for up to five rounds, and returns to slow start if the delay falls
//! again, because the increase was no queue.

use fairhop_model::units::Nanos;

use super::{AckEvent, HyStart, Window};

/// Minimum window for HyStart (Linux's `hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// Maximum time between acknowledgments of a train, in microseconds (`hystart_ack_delta_us`).
const TRAIN_GAP_US: u64 = 2000;
/// Delay samples per round (`HYSTART_MIN_SAMPLES`, RFC 9406's N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Bounds of the tolerated delay increase in microseconds (both documents).
const MIN_THRESHOLD_US: u64 = 4000;
const MAX_THRESHOLD_US: u64 = 16_000;
/// RFC 9406 §4.3: rounds of conservative slow start, and the divisor of its growth.
const CSS_ROUNDS: u32 = 5;
const CSS_GROWTH_DIVISOR: u32 = 4;

/// State of both kinds.
#[derive(Clone, Debug)]
pub(super) struct Hystart {
    kind: HyStart,
    found: bool,
    /// The round ends when all data before this offset have arrived.
    round_end: u64,
    round_start: Nanos,
    last_ack: Nanos,
    samples: u32,
    /// Minimum delay of this round and of the last one, in microseconds.
    min_us: u64,
    last_min_us: u64,
    /// RFC 9406: the delay that started conservative slow start, its rounds so far, and credit towards a segment.
    css_baseline_us: Option<u64>,
    css_rounds: u32,
    css_credit: u32,
}

impl Hystart {
    pub(super) fn new(kind: HyStart) -> Self {
        Self {
            kind,
            found: false,
            round_end: 0,
            round_start: Nanos::ZERO,
            last_ack: Nanos::ZERO,
            samples: 0,
            min_us: u64::MAX,
            last_min_us: u64::MAX,
            css_baseline_us: None,
            css_rounds: 0,
            css_credit: 0,
        }
    }

    pub(super) fn kind(&self) -> HyStart {
        self.kind
    }

    /// Slow start begins.
    pub(super) fn reset(&mut self, now: Nanos, nxt: u64) {
        *self = Self::new(self.kind);
        self.begin_round(now, nxt);
    }

    /// A loss ends slow start.
    pub(super) fn on_loss(&mut self) {
        self.css_baseline_us = None;
    }

    fn begin_round(&mut self, now: Nanos, nxt: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.round_end = nxt;
        self.last_min_us = self.min_us;
        self.min_us = u64::MAX;
        self.samples = 0;
    }

    /// An acknowledgment in slow start with its delay and the minimum delay so far.
    pub(super) fn on_ack(
        &mut self,
        window: &mut Window,
        ack: &AckEvent,
        delay_us: u64,
        delay_min_us: u64,
        cushion_us: u64,
    ) {
        match self.kind {
            HyStart::Off => {}
            HyStart::Classic => {
                if ack.una > self.round_end {
                    self.begin_round(ack.now, ack.nxt);
                }
                if !self.found && window.cwnd >= LOW_WINDOW {
                    self.detect_end(ack, delay_us, delay_min_us, cushion_us);
                    if self.found {
                        window.ssthresh = window.cwnd;
                    }
                }
            }
            HyStart::PlusPlus => self.on_ack_plus_plus(window, ack, delay_us),
        }
    }

    /// Linux's `hystart_update`.
    fn detect_end(&mut self, ack: &AckEvent, delay_us: u64, delay_min_us: u64, cushion_us: u64) {
        let since = |then: Nanos| ack.now.saturating_sub(then).0 / 1000;
        if since(self.last_ack) <= TRAIN_GAP_US {
            self.last_ack = ack.now;
            self.found |= since(self.round_start) > (delay_min_us + cushion_us) >> 1;
        }
        self.min_us = self.min_us.min(delay_us);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let threshold = (delay_min_us >> 3).clamp(MIN_THRESHOLD_US, MAX_THRESHOLD_US);
            self.found |= self.min_us > delay_min_us + threshold;
        }
    }

    /// RFC 9406 §4.2.
    fn on_ack_plus_plus(&mut self, window: &mut Window, ack: &AckEvent, delay_us: u64) {
        if ack.una > self.round_end {
            self.begin_round(ack.now, ack.nxt);
            if self.css_baseline_us.is_some() {
                self.css_rounds += 1;
                if self.css_rounds >= CSS_ROUNDS {
                    window.ssthresh = window.cwnd;
                    self.css_baseline_us = None;
                    return;
                }
            }
        }
        self.min_us = self.min_us.min(delay_us);
        self.samples += 1;
        if self.samples < SAMPLES {
            return;
        }
        match self.css_baseline_us {
            // The delay fell again: the increase was no queue of this flow.
            Some(baseline) if self.min_us < baseline => self.css_baseline_us = None,
            Some(_) => {}
            None if self.last_min_us < u64::MAX => {
                let threshold = (self.last_min_us / 8).clamp(MIN_THRESHOLD_US, MAX_THRESHOLD_US);
                if self.min_us >= self.last_min_us + threshold {
                    self.css_baseline_us = Some(self.min_us);
                    self.css_rounds = 0;
                    self.css_credit = 0;
                }
            }
            None => {}
        }
    }

    /// Grows in slow start or RFC 9406's conservative slow start; returns how many of `acked` are left.
    pub(super) fn grow(&mut self, window: &mut Window, acked: u32) -> u32 {
        if self.css_baseline_us.is_none() {
            return window.slow_start(acked);
        }
        self.css_credit += acked;
        let segments = self.css_credit / CSS_GROWTH_DIVISOR;
        self.css_credit %= CSS_GROWTH_DIVISOR;
        window.slow_start(segments)
    }
}

/// Linux's addition to the length of a train for aggregation (`hystart_ack_delay`): four of its largest packets at the
/// pacing rate of slow start, which is twice the window per round trip; at most 1 ms, the value below 2 Gb/s.
pub(super) fn ack_train_cushion_us(cwnd: u32, mss: u32, srtt: Option<Nanos>) -> u64 {
    const LARGEST_PACKET: u64 = 65_536;
    let Some(srtt) = srtt else { return 0 };
    let rate = u128::from(2 * u64::from(cwnd) * u64::from(mss)) * 1_000_000_000 / u128::from(srtt.0.max(1));
    (u128::from(4 * LARGEST_PACKET) * 1_000_000 / rate.max(1)).min(1000) as u64
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack;
    use super::*;

    /// Rounds, each with a number of acknowledgments and a delay in microseconds.
    fn rounds(hystart: &mut Hystart, window: &mut Window, rounds: &[(u64, u64)]) {
        let (mut now, mut una) = (hystart.last_ack, hystart.round_end);
        for &(acks, delay_us) in rounds {
            // A round acknowledges the data that are in flight at its start.
            let nxt = una + acks;
            for _ in 0..acks {
                una += 1;
                now += Nanos::from_millis(3);
                let event = AckEvent { now, una, nxt, ..ack(1) };
                hystart.on_ack(window, &event, delay_us, 40_000, 1000);
                hystart.grow(window, 1);
            }
        }
    }

    #[test]
    fn a_round_whose_minimum_delay_is_an_eighth_longer_ends_slow_start() {
        let mut window = Window { cwnd: 20, ssthresh: Window::UNKNOWN };
        let mut hystart = Hystart::new(HyStart::Classic);
        rounds(&mut hystart, &mut window, &[(20, 40_000), (40, 44_900)]);
        assert_eq!(window.ssthresh, Window::UNKNOWN);
        rounds(&mut hystart, &mut window, &[(80, 45_100)]);
        assert!(window.ssthresh < 20 + 20 + 40 + 80, "{window:?}");
    }

    #[test]
    fn rfc9406_4_2_a_longer_delay_leads_to_a_quarter_of_the_growth_and_a_shorter_one_back() {
        let mut window = Window { cwnd: 20, ssthresh: Window::UNKNOWN };
        let mut hystart = Hystart::new(HyStart::PlusPlus);
        rounds(&mut hystart, &mut window, &[(20, 40_000)]);
        assert_eq!(window.cwnd, 40);
        rounds(&mut hystart, &mut window, &[(40, 46_000)]);
        // Seven at full growth, until there are eight samples; 33 at a quarter.
        assert!(hystart.css_baseline_us.is_some());
        assert_eq!(window, Window { cwnd: 40 + 7 + 8, ssthresh: Window::UNKNOWN });
        rounds(&mut hystart, &mut window, &[(40, 40_500)]);
        // Seven more at a quarter are, with the remainder, two segments; then 33 at full growth.
        assert!(hystart.css_baseline_us.is_none());
        assert_eq!(window, Window { cwnd: 55 + 2 + 33, ssthresh: Window::UNKNOWN });
    }

    #[test]
    fn rfc9406_4_3_five_rounds_of_conservative_slow_start_set_the_threshold() {
        let mut window = Window { cwnd: 20, ssthresh: Window::UNKNOWN };
        let mut hystart = Hystart::new(HyStart::PlusPlus);
        let steps: Vec<_> = std::iter::once((20, 40_000)).chain((0..8).map(|_| (24, 46_000))).collect();
        rounds(&mut hystart, &mut window, &steps);
        assert!(window.ssthresh < Window::UNKNOWN);
    }
}
