//! Segments of the receiver: SYN, FIN and acknowledgments with window and SACK blocks.

use fairhop_model::units::Nanos;

use super::Receiver;
use super::payload::Interval;
use crate::tcp::segment::{Flags, SackBlock, SackBlocks, Segment, Timestamps};
use crate::tcp::seq::Seq;
use crate::tcp::timestamp_clock;

impl Receiver {
    /// The offset to acknowledge: RCV.NXT with the FIN.
    pub(super) fn ack_offset(&self) -> u64 {
        self.next + u64::from(self.fin_at == Some(self.next))
    }

    /// Right edge of the window to announce. It is the end of the buffer, in steps of the window scale, but moves only by at
    /// least a segment or half the buffer (RFC 9293 §3.8.6.2.2) and never back (RFC 9293 §3.8.6.2). As in Linux, a window
    /// is rounded up to whole steps, so that it may exceed the buffer by less than a step.
    pub(super) fn new_edge(&self) -> u64 {
        let step = 1_u64 << self.shift;
        let free = (self.read + u64::from(self.config.buffer)).saturating_sub(self.next);
        let largest = u64::from(u16::MAX) << self.shift;
        let open = self.next + (free & !(step - 1)).min(largest);
        let worth_it = u64::from((self.config.buffer / 2).min(self.config.mss));
        if open >= self.edge + worth_it {
            return open;
        }
        self.next + self.edge.saturating_sub(self.next).next_multiple_of(step).min(largest)
    }

    /// The next segment to send, if any. Call it after every other call until it returns none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.syn_due) {
            self.syn_ack_sent_at = now;
            self.start_retransmission_timer(now);
            return Some(self.syn_ack(now));
        }
        if !self.ack_due && !self.fin_due {
            return None;
        }
        let fin = std::mem::take(&mut self.fin_due);
        self.ack_due = false;
        self.ack_timer = None;
        self.unacknowledged = 0;
        self.quick = self.quick.saturating_sub(1);
        if fin {
            self.fin_sent = true;
            self.start_retransmission_timer(now);
        }
        self.edge = self.new_edge();
        self.last_ack_sent = self.ack_offset();
        self.stats.acks_sent += 1;
        Some(Segment {
            seq: Seq(self.config.initial_seq) + 1 + u32::from(self.fin_sent && !fin),
            ack: self.origin.at(self.last_ack_sent),
            flags: self.flags(fin),
            window: ((self.edge - self.next) >> self.shift) as u16,
            sack: self.sack_blocks(),
            timestamps: self.timestamps(now),
            ..Segment::default()
        })
    }

    fn syn_ack(&mut self, now: Nanos) -> Segment {
        self.stats.acks_sent += 1;
        Segment {
            seq: Seq(self.config.initial_seq),
            ack: self.origin,
            // RFC 3168 §6.1.1: ECE alone in the answer accepts ECN.
            flags: Flags::SYN | Flags::ACK | if self.ecn { Flags::ECE } else { Flags::NONE },
            window: self.config.buffer.min(u32::from(u16::MAX)) as u16,
            mss: Some(self.config.mss.min(u32::from(u16::MAX)) as u16),
            window_scale: self.scaling.then_some(self.shift),
            sack_permitted: self.sack,
            timestamps: self.timestamps(now),
            ..Segment::default()
        }
    }

    fn flags(&self, fin: bool) -> Flags {
        let fin = if fin { Flags::FIN } else { Flags::NONE };
        let echo = if self.echo { Flags::ECE } else { Flags::NONE };
        Flags::ACK | fin | echo
    }

    fn timestamps(&self, now: Nanos) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps { value: timestamp_clock(now), echo: self.recent_timestamp })
    }

    fn start_retransmission_timer(&mut self, now: Nanos) {
        let backed_off = self.config.initial_rto.0.saturating_mul(1 << self.retransmissions.min(6));
        self.retransmission_timer = Some(now.saturating_add(Nanos(backed_off)));
    }

    /// RFC 2883 §4 and RFC 2018 §4: a duplicate first, then the blocks that grew last; remaining room repeats the oldest
    /// blocks.
    fn sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if !self.sack {
            return blocks;
        }
        let wire = |i: Interval| SackBlock { start: self.origin.at(i.start), end: self.origin.at(i.end) };
        if let Some(duplicate) = self.duplicate.take() {
            blocks.push(wire(duplicate));
        }
        let recent = &self.recent[..self.recent_count];
        recent.iter().for_each(|&block| blocks.push(wire(block)));
        let others = self.out_of_order.iter().filter(|block| !recent.contains(block));
        others.take(SackBlocks::MAX - self.recent_count).for_each(|&block| blocks.push(wire(block)));
        blocks
    }
}
