//! Received payload, in order and past holes, and the times of its acknowledgments.

use fairhop_model::units::Nanos;

use super::{Receiver, ReceiverState};
use crate::tcp::segment::{Flags, SackBlocks, Segment};
use crate::tcp::timestamp_clock;

/// Offsets from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Receiver {
    pub(super) fn on_payload(&mut self, now: Nanos, segment: &Segment, start: i64) {
        if self.state == ReceiverState::SynReceived {
            return;
        }
        let end = start + i64::from(segment.len);
        let fin = segment.flags.has(Flags::FIN);
        if segment.seq_len() == 0 {
            // A segment without payload outside the window is answered, because it may be a window probe.
            self.ack_due |= start < self.last_ack_sent as i64 || start > self.edge as i64 + 1;
            return;
        }
        if segment.len > 0 {
            self.stats.segments_received += 1;
            self.stats.bytes_received += u64::from(segment.len);
        }
        if fin && self.fin_at.is_none() && end >= self.next as i64 && end <= self.edge as i64 {
            self.fin_at = Some(end as u64);
        }
        // RFC 9293 §3.10.7.4: octets before RCV.NXT or past the window are dropped.
        let from = start.max(self.next as i64) as u64;
        let to = end.min(self.edge as i64).max(0) as u64;
        self.stats.bytes_past_window += (end - start.max(self.edge as i64)).max(0) as u64;
        self.note_duplicate(start, end);
        if fin || from >= to {
            self.ack_due = true;
        }
        if from >= to {
            self.acknowledge_quickly(self.config.quick_acks);
            return;
        }
        if self.autotune.is_some() {
            self.grow_window(now, segment);
        }
        if from == self.next {
            self.take_in_order(now, to);
            // Linux's `tcp_cleanup_rbuf`: the sender has nothing more for now, and the application has read all.
            self.ack_due |= self.config.autotune && segment.flags.has(Flags::PSH) && self.unread() == 0;
            if let Some(autotune) = self.autotune.as_deref_mut() {
                autotune.on_read(now, self.read);
            }
        } else {
            self.stats.out_of_order += 1;
            self.keep(Interval { start: from, end: to });
            self.acknowledge_past_hole(now);
        }
    }

    /// Linux's `tcp_grow_window`.
    fn grow_window(&mut self, now: Nanos, segment: &Segment) {
        let echo = segment
            .timestamps
            .filter(|_| self.timestamps)
            .map(|times| (times.echo, timestamp_clock(now).wrapping_sub(times.echo)));
        if self.autotune.as_deref_mut().is_some_and(|autotune| autotune.on_segment(echo)) {
            self.quick |= 1;
        }
    }

    /// RFC 2883 §4: the part that arrived a second time, below the acknowledgment or in a block past a hole.
    fn note_duplicate(&mut self, start: i64, end: i64) {
        let next = self.next as i64;
        let duplicate = if start < next {
            Some(Interval { start: start.max(0) as u64, end: end.min(next).max(0) as u64 })
        } else {
            let (start, end) = (start as u64, end as u64);
            let block = self.out_of_order.partition_point(|block| block.end <= start);
            self.out_of_order
                .get(block)
                .filter(|block| block.start < end)
                .map(|block| Interval { start: block.start.max(start), end: block.end.min(end) })
        };
        if let Some(duplicate) = duplicate.filter(|d| d.start < d.end) {
            self.stats.duplicates += 1;
            self.duplicate = Some(duplicate);
        }
    }

    /// RFC 5681 §4.2: at once. Linux's `__tcp_ack_snd_check` delays further acknowledgments past the same hole.
    fn acknowledge_past_hole(&mut self, now: Nanos) {
        if self.config.compress_sacks.is_none() || !self.sack || self.quick > 0 {
            self.ack_due = true;
            return;
        }
        if self.hole_at != self.next {
            self.hole_at = self.next;
            self.past_hole = 0;
        }
        if self.past_hole < 3 {
            self.past_hole += 1;
            self.ack_due = true;
            return;
        }
        let at = now.saturating_add(self.compress);
        self.ack_timer = Some(self.ack_timer.map_or(at, |timer| timer.min(at)));
    }

    fn take_in_order(&mut self, now: Nanos, to: u64) {
        let had_hole = !self.out_of_order.is_empty();
        self.next = to;
        self.join_blocks();
        if self.reading {
            self.read = self.next;
        }
        self.unacknowledged += 1;
        let enough = self.quick > 0 || self.unacknowledged >= self.config.delayed_ack_segments;
        if had_hole && !enough && self.config.compress_sacks.is_some() && !self.out_of_order.is_empty() {
            self.acknowledge_past_hole(now);
            return;
        }
        // RFC 5681 §4.2: at once while there is a hole, or when one has just been filled.
        let due = had_hole || enough;
        // A sender without room for another segment would wait for the delayed acknowledgment.
        let stuck = self.edge - self.next < u64::from(self.config.mss) && self.new_edge() > self.edge;
        if due || stuck {
            self.ack_due = true;
        } else if self.ack_timer.is_none() {
            self.ack_timer = Some(now.saturating_add(self.config.delayed_ack_timeout));
        }
    }

    /// Moves blocks that the stream has reached into the stream.
    fn join_blocks(&mut self) {
        let reached = self.out_of_order.partition_point(|block| block.start <= self.next);
        if reached == 0 {
            return;
        }
        self.next = self.next.max(self.out_of_order[reached - 1].end);
        self.out_of_order.drain(..reached);
        let next = self.next;
        self.retain_recent(|block| block.end > next);
    }

    /// Adds a block past a hole and makes it the most recent.
    fn keep(&mut self, mut new: Interval) {
        let first = self.out_of_order.partition_point(|block| block.end < new.start);
        let last = self.out_of_order.partition_point(|block| block.start <= new.end);
        if first < last {
            new.start = new.start.min(self.out_of_order[first].start);
            new.end = new.end.max(self.out_of_order[last - 1].end);
            self.out_of_order[first] = new;
            self.out_of_order.drain(first + 1..last);
        } else {
            self.out_of_order.insert(first, new);
        }
        self.retain_recent(|block| block.end < new.start || block.start > new.end);
        let count = (self.recent_count + 1).min(SackBlocks::MAX);
        self.recent.copy_within(..count - 1, 1);
        self.recent[0] = new;
        self.recent_count = count;
    }

    fn retain_recent(&mut self, keep: impl Fn(&Interval) -> bool) {
        let mut kept = 0;
        for i in 0..self.recent_count {
            if keep(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_count = kept;
    }
}
