//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation-02), as Linux's `tcp_rate.c` measures it.
//!
//! Each transmission stores how much was delivered at that time. When its arrival is reported, a sample is the data
//! delivered in between divided by the longer of sending and acknowledging time. The snapshots are in a ring of their
//! own, so that senders whose variant needs no rates have none.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::congestion::RateSample;
use super::scoreboard::Newest;

/// State at the last transmission of a segment.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    app_limited: bool,
    /// Its sample was taken.
    used: bool,
}

/// The estimator of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateEstimator {
    ring: VecDeque<Snapshot>,
    /// Number of the oldest snapshot.
    first: u64,
    /// Start of the sending and of the acknowledging interval of the next sample.
    first_sent_at: Nanos,
    delivered_at: Nanos,
    /// Samples are application-limited until this number of segments has been delivered; 0 if they are not.
    app_limited_until: u64,
}

impl RateEstimator {
    /// The segment `number` is sent or retransmitted; `idle` if nothing is outstanding.
    pub(crate) fn on_sent(&mut self, number: u64, now: Nanos, delivered: u64, idle: bool) {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        let snapshot = Snapshot {
            delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > 0,
            used: false,
        };
        match self.slot(number) {
            Some(slot) => *slot = snapshot,
            None => {
                if self.ring.is_empty() {
                    self.first = number;
                }
                self.ring.push_back(snapshot);
            }
        }
    }

    fn slot(&mut self, number: u64) -> Option<&mut Snapshot> {
        self.ring.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The application has nothing to send within the window, or the variant limits the data in flight itself.
    pub(crate) fn limit(&mut self, delivered: u64, in_flight: u32) {
        self.app_limited_until = (delivered + u64::from(in_flight)).max(1);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// An acknowledgment reported `newly_delivered` segments, of which `newest` was sent last; `delivered` is the total.
    /// Segments before the number `oldest` are no longer outstanding. A sample over less than the minimum round trip
    /// comes from a spurious retransmission and is discarded.
    pub(crate) fn on_ack(
        &mut self,
        now: Nanos,
        newest: Option<Newest>,
        newly_delivered: u32,
        delivered: u64,
        oldest: u64,
        min_rtt: Option<Nanos>,
    ) -> Option<RateSample> {
        let mut sample = None;
        let mut prior = None;
        if let Some(newest) = newest
            && let Some(slot) = self.slot(newest.number).filter(|slot| !slot.used)
        {
            slot.used = true;
            let snapshot = *slot;
            prior = Some((snapshot, newest));
            self.first_sent_at = newest.sent_at;
        }
        if self.app_limited_until > 0 && delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if newly_delivered > 0 {
            self.delivered_at = now;
        }
        if let Some((snapshot, newest)) = prior {
            let sending = newest.sent_at.saturating_sub(snapshot.first_sent_at);
            let acknowledging = now.saturating_sub(snapshot.delivered_at);
            let interval = sending.max(acknowledging);
            if interval > Nanos::ZERO && min_rtt.is_none_or(|min| interval >= min) {
                sample = Some(RateSample {
                    delivered: u32::try_from(delivered - snapshot.delivered).unwrap_or(u32::MAX),
                    prior_delivered: snapshot.delivered,
                    interval,
                    app_limited: snapshot.app_limited,
                    retransmitted: newest.ambiguous,
                });
            }
        }
        while self.first < oldest && self.ring.pop_front().is_some() {
            self.first += 1;
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn newest(number: u64, sent_at: Nanos) -> Option<Newest> {
        Some(Newest { number, sent_at, end: 0, ambiguous: false })
    }

    #[test]
    fn delivery_rate_3_2_the_longer_of_sending_and_acknowledging_counts() {
        let mut rate = RateEstimator::default();
        // Ten segments, one per millisecond, acknowledged together 100 ms after the last.
        for number in 0..10 {
            rate.on_sent(number, ms(number), 0, number == 0);
        }
        let sample = rate.on_ack(ms(109), newest(9, ms(9)), 10, 10, 10, Some(ms(100))).expect("a sample");
        assert_eq!((sample.delivered, sample.interval), (10, ms(109)));
        // Two segments with one acknowledgment in between: the acknowledging time counts, 141 ms against 143.
        rate.on_sent(10, ms(110), 10, false);
        rate.on_sent(11, ms(150), 10, false);
        assert!(rate.on_ack(ms(250), newest(10, ms(110)), 1, 11, 11, Some(ms(100))).is_some());
        let sample = rate.on_ack(ms(252), newest(11, ms(150)), 1, 12, 12, Some(ms(100))).expect("a sample");
        assert_eq!((sample.delivered, sample.prior_delivered, sample.interval), (2, 10, ms(143)));
        // The acknowledgment of one segment is delayed by 50 ms, that of the next is not: the sending time counts.
        let mut rate = RateEstimator::default();
        rate.on_sent(0, ms(0), 0, true);
        let sample = rate.on_ack(ms(150), newest(0, ms(0)), 1, 1, 1, Some(ms(100))).expect("a sample");
        assert_eq!((sample.delivered, sample.interval), (1, ms(150)));
        rate.on_sent(1, ms(160), 1, false);
        let sample = rate.on_ack(ms(260), newest(1, ms(160)), 1, 2, 2, Some(ms(100))).expect("a sample");
        assert_eq!((sample.delivered, sample.prior_delivered, sample.interval), (1, 1, ms(160)));
    }

    #[test]
    fn delivery_rate_3_3_a_sample_shorter_than_a_round_trip_is_none_and_idle_times_are_marked() {
        let mut rate = RateEstimator::default();
        rate.limit(0, 0);
        rate.on_sent(0, ms(0), 0, true);
        rate.on_sent(1, ms(0), 0, false);
        assert_eq!(rate.on_ack(ms(50), newest(0, ms(0)), 1, 1, 1, Some(ms(100))), None);
        let sample = rate.on_ack(ms(100), newest(1, ms(0)), 1, 2, 2, Some(ms(100))).expect("a sample");
        assert!(sample.app_limited && !rate.is_limited());
    }
}
