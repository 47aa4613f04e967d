//! Acknowledgments: the receiver's window, SACK blocks, round-trip times, delivery rates.

use fairhop_model::units::Nanos;

use super::racktlp::Facts;
use super::{Sender, Timer};
use crate::tcp::congestion::{AckEvent, CongestionControl, Phase, RateSample};
use crate::tcp::scoreboard::{Arrived, Newest, Range};
use crate::tcp::segment::{Flags, Segment};
use crate::tcp::timestamp_clock;

impl Sender {
    /// Processes the acknowledgment field, the window and the SACK blocks.
    pub(super) fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let ack = segment.ack.offset_in(self.origin, self.una);
        let Ok(ack) = u64::try_from(ack) else { return };
        if ack > self.nxt || ack < self.una {
            return;
        }
        self.stats.acks_received += 1;
        let prior_losses = self.board.losses();
        let prior_in_flight = self.board.in_flight();
        let window_changed = self.update_peer_window(segment, ack);
        let prior_una = self.una;
        let advanced = ack > prior_una;
        let cwnd_limited = self.is_cwnd_limited();
        self.una = ack;
        let covered = self.board.acknowledge(ack);
        let (reported, dsack) = if self.sack { self.take_sack(segment) } else { (Arrived::default(), None) };
        let rtt = self.measure_rtt(now, segment, advanced, covered, reported);
        if advanced {
            self.duplicate_acks = 0;
            self.retries = 0;
        }
        let duplicate = !advanced
            && !self.board.is_empty()
            && match self.sack {
                // RFC 6675 §2.
                true => reported.delivered > 0,
                // RFC 5681 §2.
                false => segment.seq_len() == 0 && !window_changed,
            };
        if duplicate {
            self.duplicate_acks += 1;
            self.stats.duplicate_acks += 1;
        }
        let newly_delivered = match self.sack {
            true => covered.delivered + reported.delivered,
            false => self.assume_delivered(covered.removed, duplicate),
        };
        self.delivered += u64::from(newly_delivered);
        let ece = self.ecn && segment.flags.has(Flags::ECE);
        if self.racktlp.is_some() {
            self.recover_by_time(
                now,
                &Facts {
                    advanced,
                    covered,
                    reported,
                    dsack,
                    echo: segment.timestamps.map(|times| times.echo).filter(|_| self.timestamps),
                    ece,
                    not_duplicate: segment.seq_len() > 0 || window_changed,
                },
            );
        } else {
            self.recover(now, advanced);
            if ece {
                self.on_ece(now);
            }
            if advanced {
                self.restart_timer(now);
            }
        }
        let newly_lost = (self.board.losses() - prior_losses) as u32;
        let rate = self.sample_rate(now, covered.newest, reported.newest, newly_delivered);
        self.apply_prr(newly_delivered, advanced, newly_lost);
        let event = AckEvent {
            now,
            newly_delivered,
            newly_acked: covered.removed,
            acked_bytes: ack - prior_una,
            newly_lost,
            growth_credit: if self.config.byte_counting { newly_delivered } else { newly_delivered.min(1) },
            delivered: self.delivered,
            lost: self.board.losses(),
            release: self.release,
            una: self.una,
            nxt: self.nxt,
            advanced,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            maybe_delayed: covered.removed == 1 && covered.delivered == 1 && self.board.is_empty(),
            rate,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            cwnd_limited,
            ece,
            mss: self.mss,
            phase: self.phase,
            disordered: self.board.has_hole(),
        };
        self.congestion.on_ack(&mut self.window, &event);
        if let Some(rate) = self.rate.as_deref_mut()
            && self.congestion.limits_itself()
        {
            rate.limit(self.delivered, self.board.in_flight());
        }
    }

    fn sample_rate(
        &mut self,
        now: Nanos,
        covered: Option<Newest>,
        reported: Option<Newest>,
        newly_delivered: u32,
    ) -> Option<RateSample> {
        let rate = self.rate.as_deref_mut()?;
        let newest = match (covered, reported) {
            (Some(a), Some(b)) => Some(if (a.sent_at, a.end) > (b.sent_at, b.end) { a } else { b }),
            (a, b) => a.or(b),
        };
        let oldest = self.board.first();
        rate.on_ack(now, newest, newly_delivered, self.delivered, oldest, self.rtt.min_rtt())
    }

    /// RFC 6937, while the window is being reduced.
    pub(super) fn apply_prr(&mut self, newly_delivered: u32, advanced: bool, newly_lost: u32) {
        if !self.prr.is_active() || !matches!(self.phase, Phase::Recovery | Phase::Cwr) {
            return;
        }
        let conserve = !advanced || newly_lost > 0;
        let in_flight = self.board.in_flight();
        if let Some(cwnd) = self.prr.on_ack(newly_delivered, in_flight, self.window.ssthresh, conserve) {
            self.window.cwnd = cwnd;
        }
    }

    /// RFC 9293 §3.10.7.4, SND.WND. As in Linux, an acknowledgment without other news may increase the window, but not
    /// decrease it, because it may be old. Returns whether the window changed.
    pub(super) fn update_peer_window(&mut self, segment: &Segment, ack: u64) -> bool {
        let window = u64::from(segment.window) << self.peer_shift;
        let newer = ack > self.una || self.window_update_seq.before(segment.seq);
        if !newer && (segment.seq != self.window_update_seq || window < self.peer_window) {
            return false;
        }
        let changed = window != self.peer_window;
        self.window_update_seq = segment.seq;
        self.set_peer_window(window);
        if matches!(self.timer, Some((Timer::Persist, _))) {
            // RFC 1122 §4.2.2.17: a connection whose window probes are answered stays open.
            self.retries = 0;
            if self.next_new_segment().is_some() {
                self.timer = None;
                self.rtt.end_backoff();
            }
        }
        changed
    }

    pub(super) fn set_peer_window(&mut self, window: u64) {
        self.peer_window = window;
        self.max_peer_window = self.max_peer_window.max(window);
    }

    /// Segments reported by the SACK blocks, and the end of a duplicate if one is reported.
    fn take_sack(&mut self, segment: &Segment) -> (Arrived, Option<u64>) {
        let blocks = segment.sack.as_slice();
        let mut ranges = [Range::default(); 4];
        let mut count = 0;
        let mut dsack = None;
        for (i, block) in blocks.iter().enumerate() {
            let start = block.start.offset_in(self.origin, self.una);
            let end = block.end.offset_in(self.origin, self.una);
            let una = self.una as i64;
            // RFC 2883 §4: the first block reports a duplicate if it is below the acknowledgment or inside the second.
            let inside_next = i == 0
                && blocks.get(1).is_some_and(|b| !block.start.before(b.start) && !b.end.before(block.end));
            if i == 0 && start < end && (end <= una || inside_next) {
                self.stats.dsacks += 1;
                dsack = u64::try_from(end).ok();
                continue;
            }
            if start >= end || start < una || end > self.nxt as i64 {
                continue;
            }
            ranges[count] = Range { start: start as u64, end: end as u64 };
            count += 1;
        }
        (self.board.selectively_acknowledge(&ranges[..count]), dsack)
    }

    /// RFC 6298 §3 (Karn) by the time each segment left, as in Linux (`tcp_clean_rtx_queue`, `tcp_ack_update_rtt`).
    ///
    /// The timeout is computed from the first segment that the cumulative acknowledgment covers, else from the first
    /// that a SACK block reports, else from the echoed timestamp (RFC 7323 §4.1). Congestion control, whose sample is
    /// returned, gets the last segment that a SACK block reports, else the last one covered: an acknowledgment that was
    /// delayed until a segment arrived past a hole covers segments that waited at the receiver.
    fn measure_rtt(
        &mut self,
        now: Nanos,
        segment: &Segment,
        advanced: bool,
        covered: Arrived,
        reported: Arrived,
    ) -> Option<Nanos> {
        let since = |sent: Nanos| now.saturating_sub(sent);
        let covered_first = covered.first_sent_at.filter(|_| !covered.ambiguous);
        let (smoothed, latest) = if let Some(first) = covered_first.or(reported.first_sent_at) {
            let covered_last = covered.last_sent_at.filter(|_| !covered.ambiguous);
            (since(first), reported.last_sent_at.or(covered_last).map(since))
        } else {
            let times = segment.timestamps.filter(|_| self.timestamps && advanced)?;
            let ticks = timestamp_clock(now).wrapping_sub(times.echo);
            if (ticks as i32) < 0 {
                return None;
            }
            // One tick is the shortest time that this clock resolves.
            let rtt = Nanos::from_millis(u64::from(ticks.max(1)));
            (rtt, Some(rtt))
        };
        if let Some(latest) = latest {
            self.rtt.note_min(latest);
        }
        self.sample_rtt(smoothed);
        latest
    }

    pub(super) fn sample_rtt(&mut self, rtt: Nanos) {
        self.stats.rtt_samples += 1;
        self.rtt.on_sample(rtt, self.una, self.nxt);
    }

    /// Segments delivered, without SACK: a duplicate counts as one, and a cumulative acknowledgment adds those without a
    /// duplicate, at least the hole (Linux's `tcp_add_reno_sack` and `tcp_remove_reno_sacks`). Duplicates after a timeout
    /// do not count. Linux also forgets those before the timeout, so that one acknowledgment of data that left the network
    /// long ago can increase the window by far; here they are kept (RFC 3465 §2.3's reason for L = 1 after a timeout).
    fn assume_delivered(&mut self, removed: u32, duplicate: bool) -> u32 {
        match removed {
            0 if duplicate && self.phase != Phase::Loss => u32::from(self.board.assume_arrival()),
            0 => 0,
            _ => self.board.settle_assumed(removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::{SackBlock, SackBlocks};
    use crate::tcp::{SenderConfig, Seq};

    /// Linux's `tcp_clean_rtx_queue`: with a SACK block, `ca_rtt_us` is that of the last segment SACKed.
    #[test]
    fn congestion_control_gets_the_round_trip_time_of_the_segment_sacked_last() {
        let ms = Nanos::from_millis;
        let mut sender = Sender::new(SenderConfig { mss: 1000, ..SenderConfig::default() });
        sender.offer(u64::MAX);
        sender.open(ms(0));
        assert!(sender.poll_transmit(ms(0)).is_some_and(|syn| syn.flags.has(Flags::SYN)));
        let syn_ack = Segment {
            flags: Flags::SYN | Flags::ACK,
            ack: Seq(1),
            window: 50_000,
            mss: Some(1000),
            sack_permitted: true,
            ..Segment::default()
        };
        sender.on_segment(ms(200), &syn_ack);
        assert!(sender.poll_transmit(ms(200)).is_some_and(|ack| ack.len == 0));
        for sent_at in [200, 210, 230] {
            assert!(sender.poll_transmit(ms(sent_at)).is_some_and(|segment| segment.len == 1000));
        }
        // The receiver delays the acknowledgment of the first segment until the third arrives past a hole.
        let mut sack = SackBlocks::NONE;
        sack.push(SackBlock { start: Seq(2001), end: Seq(3001) });
        let ack = Segment {
            flags: Flags::ACK,
            seq: Seq(1),
            ack: Seq(1001),
            window: 50_000,
            sack,
            ..Segment::default()
        };
        sender.on_segment(ms(310), &ack);
        assert_eq!(sender.rtt.min_rtt(), Some(ms(310 - 230)));
        // The timeout is computed from the first segment covered: SRTT 7/8·200 + 1/8·110.
        assert_eq!(sender.rtt.srtt(), Some(Nanos(188_750_000)));
    }
}
