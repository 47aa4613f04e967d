//! State of each outstanding segment: RFC 6675's scoreboard, one entry per segment.
//!
//! Counts are updated with each change, so that the pipe of RFC 6675 §4 is a subtraction, as in Linux:
//! `in flight = outstanding − sacked − lost + retransmitted`. Segments keep the bounds with which they were first sent.
//! They are identified by their number since the connection began, which gives their place in the ring. The loss marker
//! and the two retransmission cursors pass each segment a constant number of times, and only the new part of a SACK block
//! is processed, so that the cost of an acknowledgment does not grow with the window.
//!
//! RACK (RFC 8985), if enabled, marks losses itself ([`Scoreboard::lose`]), including lost retransmissions, and
//! [`Scoreboard::judge`] is not called. Without RACK, lost retransmissions wait for the timer.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

/// Segments SACKed past a hole after which it counts as lost (RFC 6675 §2, DupThresh).
pub(super) const DUP_THRESH: u32 = 3;

/// An outstanding segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Offset of its first octet.
    pub(super) start: u64,
    /// Payload in bytes.
    pub(super) len: u32,
    /// FIN is set; it takes the offset after the payload.
    pub(super) fin: bool,
    /// Selectively acknowledged.
    pub(super) sacked: bool,
    /// Declared lost.
    pub(super) lost: bool,
    /// Retransmitted, and the retransmission is not declared lost.
    pub(super) retransmitted: bool,
    /// Sent more than once, so that it gives no round-trip time (Karn).
    pub(super) ambiguous: bool,
    /// When it was last sent.
    pub(super) sent_at: Nanos,
}

impl Sent {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len) + u64::from(self.fin)
    }

    /// Whether its last transmission may still arrive.
    pub(super) fn is_out(&self) -> bool {
        !self.lost || self.retransmitted
    }
}

/// Of the segments that an acknowledgment reports, the one that was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) sent_at: Nanos,
    pub(crate) end: u64,
    /// It was sent more than once.
    pub(crate) ambiguous: bool,
}

/// Segments that an acknowledgment reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Segments that left the scoreboard.
    pub(super) removed: u32,
    /// Segments newly reported as arrived.
    pub(super) delivered: u32,
    /// One of them was sent more than once.
    pub(super) ambiguous: bool,
    /// Sending times of the first and the last newly arrived segment that was sent once.
    pub(super) first_sent_at: Option<Nanos>,
    pub(super) last_sent_at: Option<Nanos>,
    /// End of that first segment.
    pub(super) first_end: u64,
    /// The newly arrived segment that was sent last.
    pub(super) newest: Option<Newest>,
    /// A segment sent once arrived after one that was sent later.
    pub(super) reordered: bool,
}

impl Arrived {
    fn take(&mut self, segment: &Sent, number: u64, sacked_end: u64) {
        self.reordered |= !segment.ambiguous && number < sacked_end;
        if self.newest.is_none_or(|newest| newest.sent_at <= segment.sent_at) {
            self.newest = Some(Newest {
                number,
                sent_at: segment.sent_at,
                end: segment.end(),
                ambiguous: segment.ambiguous,
            });
        }
        if !segment.ambiguous && self.first_sent_at.is_none() {
            self.first_end = segment.end();
        }
        self.delivered += 1;
        self.ambiguous |= segment.ambiguous;
        if !segment.ambiguous {
            self.first_sent_at.get_or_insert(segment.sent_at);
            self.last_sent_at = Some(segment.sent_at);
        }
    }
}

/// Offsets from `start` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    ring: VecDeque<Sent>,
    /// Number of the oldest entry.
    first: u64,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// Segments that have arrived according to duplicate acknowledgments without SACK; which ones is unknown.
    assumed: u32,
    /// Outstanding segments already counted as delivered because of duplicates.
    credited: u32,
    /// Every segment before this number is SACKed or declared lost.
    judged: u64,
    /// SACKed segments from `judged` on.
    sacked_past_judged: u32,
    /// Past the highest SACKed segment.
    sacked_end: u64,
    /// No segment before this number is lost and not retransmitted, and none from `lost_end` on is lost.
    lost_cursor: u64,
    lost_end: u64,
    /// No segment before this number is a hole for RFC 6675's rule 3.
    hole_cursor: u64,
    /// Losses declared; a segment that is lost twice counts twice.
    losses: u64,
    /// SACK blocks of the last acknowledgment, whose segments are already marked.
    known_blocks: [Range; 4],
}

impl Scoreboard {
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Segments sent and not cumulatively acknowledged.
    pub(super) fn outstanding(&self) -> u32 {
        self.ring.len() as u32
    }

    /// RFC 6675 §4, SetPipe, in segments.
    pub(super) fn in_flight(&self) -> u32 {
        (self.outstanding() + self.retransmitted).saturating_sub(self.sacked + self.assumed + self.lost)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether segments past a missing one have arrived, or one is declared lost (Linux's `tcp_left_out`).
    pub(super) fn has_hole(&self) -> bool {
        self.sacked + self.assumed + self.lost > 0
    }

    /// Losses declared since the connection began; a segment that is lost twice counts twice.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Segments selectively acknowledged.
    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments that were retransmitted and whose retransmission is in flight.
    pub(super) fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    /// Number of the oldest segment.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// When the oldest segment was last sent.
    pub(super) fn head_sent_at(&self) -> Option<Nanos> {
        self.ring.front().map(|head| head.sent_at)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.ring.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        self.ring.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// A new segment was sent.
    pub(super) fn push(&mut self, segment: Sent) {
        self.ring.push_back(segment);
    }

    /// A cumulative acknowledgment up to `una`.
    pub(super) fn acknowledge(&mut self, una: u64) -> Arrived {
        let mut arrived = Arrived::default();
        while let Some(&segment) = self.ring.front() {
            if segment.end() > una {
                break;
            }
            self.ring.pop_front();
            if !segment.sacked {
                arrived.take(&segment, self.first, self.sacked_end);
            }
            self.forget(&segment);
            arrived.removed += 1;
        }
        if let Some(head) = self.ring.front_mut().filter(|head| head.start < una) {
            // A receiver that ran out of buffer accepted a part.
            head.len -= (una - head.start) as u32;
            head.start = una;
        }
        self.lost_cursor = self.lost_cursor.max(self.first);
        self.hole_cursor = self.hole_cursor.max(self.first);
        arrived
    }

    /// Removes the oldest segment, which has left the ring, from the counts.
    fn forget(&mut self, segment: &Sent) {
        self.sacked -= u32::from(segment.sacked);
        self.lost -= u32::from(segment.lost);
        self.retransmitted -= u32::from(segment.retransmitted);
        if self.judged > self.first {
            self.first += 1;
            return;
        }
        self.first += 1;
        self.judged = self.first;
        self.sacked_past_judged -= u32::from(segment.sacked);
    }

    /// The SACK blocks of one acknowledgment as offsets, without those below the cumulative acknowledgment.
    pub(super) fn selectively_acknowledge(&mut self, blocks: &[Range]) -> Arrived {
        let mut arrived = Arrived::default();
        let sacked_end = self.sacked_end;
        let known = self.known_blocks;
        self.known_blocks = [Range::default(); 4];
        for (place, &block) in self.known_blocks.iter_mut().zip(blocks) {
            *place = block;
        }
        for &block in blocks {
            let inside =
                |old: &&Range| block.start <= old.start && old.end <= block.end && old.start < old.end;
            match known.iter().find(inside) {
                Some(old) => {
                    self.sack(block, block.start, old.start, sacked_end, &mut arrived);
                    self.sack(block, old.end, block.end, sacked_end, &mut arrived);
                }
                None => self.sack(block, block.start, block.end, sacked_end, &mut arrived),
            }
        }
        arrived
    }

    /// Marks the segments that lie wholly in `block` and have an octet between `from` and `to`.
    fn sack(&mut self, block: Range, from: u64, to: u64, sacked_end: u64, arrived: &mut Arrived) {
        let mut index =
            self.ring.partition_point(|segment| segment.start < block.start || segment.end() <= from);
        while let Some(segment) = self.ring.get_mut(index) {
            if segment.start >= to || segment.end() > block.end {
                break;
            }
            let number = self.first + index as u64;
            index += 1;
            if segment.sacked {
                continue;
            }
            arrived.take(segment, number, sacked_end);
            segment.sacked = true;
            self.sacked += 1;
            // A segment that has arrived is neither lost nor in flight.
            self.lost -= u32::from(segment.lost);
            self.retransmitted -= u32::from(segment.retransmitted);
            segment.lost = false;
            segment.retransmitted = false;
            self.sacked_past_judged += u32::from(number >= self.judged);
            self.sacked_end = self.sacked_end.max(number + 1);
        }
    }

    /// RFC 6675 §4, IsLost: a segment is lost once three segments past it are SACKed. (The standard counts separate blocks
    /// or the bytes of more than two full segments.)
    pub(super) fn judge(&mut self) {
        while self.sacked_past_judged >= DUP_THRESH {
            let Some(segment) = self.get_mut(self.judged) else { return };
            if segment.sacked {
                if self.sacked_past_judged == DUP_THRESH {
                    return;
                }
                self.sacked_past_judged -= 1;
            } else if !segment.lost {
                segment.lost = true;
                self.lost += 1;
                self.losses += 1;
                self.lost_cursor = self.lost_cursor.min(self.judged);
                self.lost_end = self.lost_end.max(self.judged + 1);
            }
            self.judged += 1;
        }
    }

    /// Declares the oldest segment lost, independent of the number of SACKed ones.
    pub(super) fn lose_head(&mut self) {
        let first = self.first;
        if let Some(head) = self.ring.front_mut().filter(|head| !head.sacked && !head.lost) {
            head.lost = true;
            self.lost += 1;
            self.losses += 1;
            self.lost_cursor = first;
            self.lost_end = self.lost_end.max(first + 1);
            self.assumed = self.assumed.min(self.outstanding() - self.sacked - self.lost);
        }
    }

    /// Declares a segment lost that is in flight. Returns whether it had been retransmitted, so that the retransmission is
    /// lost.
    pub(super) fn lose(&mut self, number: u64) -> bool {
        let Some(segment) = self.get_mut(number) else { return false };
        let again = segment.retransmitted;
        let anew = !segment.lost;
        segment.lost = true;
        segment.retransmitted = false;
        self.lost += u32::from(anew);
        self.losses += 1;
        self.retransmitted -= u32::from(again);
        self.lost_cursor = self.lost_cursor.min(number);
        self.lost_end = self.lost_end.max(number + 1);
        again
    }

    /// The losses were spurious: segments marked as lost are in flight again (Linux's `tcp_undo_cwnd_reduction`).
    pub(super) fn undo_losses(&mut self) {
        self.ring.iter_mut().for_each(|segment| segment.lost = false);
        self.lost = 0;
    }

    /// The timer expired with RACK: the oldest segment is lost, and all others for which `is_overdue` is true for their
    /// sending time; the rest may be in flight (RFC 8985 §6.3). A SACKed head is treated as in [`Scoreboard::lose_all`].
    pub(super) fn lose_overdue(&mut self, is_overdue: impl Fn(Nanos) -> bool) {
        if self.ring.front().is_none_or(|head| head.sacked) {
            self.lose_all();
            return;
        }
        for index in 0..self.ring.len() {
            let number = self.first + index as u64;
            let segment = self.ring[index];
            if !segment.sacked && segment.is_out() && (index == 0 || is_overdue(segment.sent_at)) {
                self.lose(number);
            }
        }
        self.lost_cursor = self.first;
    }

    /// The timer expired: every segment that is not SACKed is lost (RFC 6675 §5.1), and so are retransmissions. A SACKed
    /// head means that the receiver reneged, that is, discarded data it had reported (RFC 2018 §8): then all SACK
    /// information is discarded.
    pub(super) fn lose_all(&mut self) {
        let reneged = self.ring.front().is_some_and(|head| head.sacked);
        for segment in &mut self.ring {
            segment.sacked &= !reneged;
            self.losses += u64::from(!segment.sacked && segment.is_out());
            segment.lost = !segment.sacked;
            segment.retransmitted = false;
        }
        if reneged {
            self.sacked = 0;
            self.sacked_end = 0;
            self.known_blocks = [Range::default(); 4];
        }
        self.lost = self.outstanding() - self.sacked;
        self.retransmitted = 0;
        self.assumed = 0;
        self.judged = self.next_number();
        self.sacked_past_judged = 0;
        self.lost_cursor = self.first;
        self.lost_end = self.judged;
    }

    /// A duplicate acknowledgment without SACK: one more segment, other than the lost one, has arrived. Returns whether
    /// there is an outstanding segment to count.
    pub(super) fn assume_arrival(&mut self) -> bool {
        let room = self.assumed + self.sacked + self.lost < self.outstanding();
        self.assumed += u32::from(room);
        self.credited += u32::from(room);
        room
    }

    /// A cumulative acknowledgment without SACK covers `removed` segments: the hole, and segments already counted because
    /// of duplicates. Returns how many had not been counted as delivered.
    pub(super) fn settle_assumed(&mut self, removed: u32) -> u32 {
        let known = removed.saturating_sub(1);
        self.assumed = self.assumed.saturating_sub(known);
        let counted = self.credited.min(known);
        self.credited = (self.credited - counted).min(self.outstanding());
        removed - counted
    }

    /// Ignores the duplicates counted so far in the number of segments in flight.
    pub(super) fn forget_assumed(&mut self) {
        self.assumed = 0;
    }

    /// Fast recovery begins: the search for holes starts at the oldest segment.
    pub(super) fn restart_holes(&mut self) {
        self.hole_cursor = self.first;
    }

    /// RFC 6675 §4, NextSeg rule 1: the oldest lost segment that was not retransmitted.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        if self.lost == 0 {
            return None;
        }
        while self.lost_cursor < self.lost_end {
            let segment = self.get(self.lost_cursor)?;
            if segment.lost && !segment.retransmitted {
                return Some(self.lost_cursor);
            }
            self.lost_cursor += 1;
        }
        None
    }

    /// NextSeg rule 3: the oldest segment before a SACKed one that is neither SACKed nor retransmitted.
    pub(super) fn next_hole(&mut self) -> Option<u64> {
        while self.hole_cursor < self.sacked_end {
            let segment = self.get(self.hole_cursor)?;
            if !segment.sacked && !segment.retransmitted {
                return Some(self.hole_cursor);
            }
            self.hole_cursor += 1;
        }
        None
    }

    /// NextSeg rule 4: the last segment, if it is neither SACKed nor retransmitted.
    pub(super) fn unreported_tail(&self) -> Option<u64> {
        let tail = self.ring.back()?;
        (!tail.sacked && !tail.retransmitted).then(|| self.next_number() - 1)
    }

    /// A segment is retransmitted. A rescue (rule 4) does not mark it as retransmitted, so that rule 1 may still choose it.
    pub(super) fn retransmit(&mut self, number: u64, now: Nanos, rescue: bool) -> Option<Sent> {
        let segment = self.get_mut(number)?;
        segment.ambiguous = true;
        segment.sent_at = now;
        let counts = !rescue && !segment.retransmitted;
        segment.retransmitted |= counts;
        let segment = *segment;
        self.retransmitted += u32::from(counts);
        Some(segment)
    }

    pub(super) fn is_first(&self, number: u64) -> bool {
        number == self.first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: u64 = 10;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segments).for_each(|number| board.push(sent(number)));
        board
    }

    fn sent(number: u64) -> Sent {
        Sent {
            start: number * LEN,
            len: LEN as u32,
            fin: false,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
            sent_at: Nanos(number),
        }
    }

    fn range(first: u64, past: u64) -> Range {
        Range { start: first * LEN, end: past * LEN }
    }

    fn lost(board: &Scoreboard) -> Vec<u64> {
        board.ring.iter().filter(|s| s.lost).map(|s| s.start / LEN).collect()
    }

    #[test]
    fn rfc6675_4_a_segment_is_lost_once_three_past_it_are_sacked() {
        let mut board = board(10);
        board.selectively_acknowledge(&[range(4, 5), range(7, 8)]);
        board.judge();
        assert!(lost(&board).is_empty());
        board.selectively_acknowledge(&[range(9, 10), range(4, 5), range(7, 8)]);
        board.judge();
        // Past 0 to 3 are 4, 7 and 9; past 5 and 6 only two.
        assert_eq!(lost(&board), [0, 1, 2, 3]);
        assert_eq!(board.in_flight(), 10 - 3 - 4);
    }

    #[test]
    fn a_segment_is_sacked_only_when_one_block_covers_all_of_it() {
        let mut board = board(3);
        board.selectively_acknowledge(&[Range { start: 15, end: 25 }]);
        assert_eq!(board.sacked, 0);
        board.selectively_acknowledge(&[Range { start: 15, end: 30 }]);
        assert_eq!(board.sacked, 1);
        board.selectively_acknowledge(&[Range { start: 10, end: 30 }]);
        assert_eq!(board.sacked, 2);
    }

    #[test]
    fn rfc2018_8_after_reneging_all_sack_information_is_discarded() {
        let mut board = board(4);
        board.selectively_acknowledge(&[range(1, 3)]);
        board.acknowledge(LEN);
        board.lose_all();
        assert_eq!((board.sacked, board.lost, board.in_flight()), (0, 3, 0));
        board.selectively_acknowledge(&[range(1, 3)]);
        assert_eq!(board.sacked, 2);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Send(u64),
        Acknowledge(u64),
        Sack(Vec<(u64, u64)>),
        RetransmitLost,
        RetransmitHole,
        Rescue,
        Timeout,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            (1..8_u64).prop_map(Op::Send),
            (0..60_u64).prop_map(Op::Acknowledge),
            prop::collection::vec((0..600_u64, 1..80_u64), 1..4).prop_map(Op::Sack),
            Just(Op::RetransmitLost),
            Just(Op::RetransmitHole),
            Just(Op::Rescue),
            Just(Op::Timeout),
        ];
        prop::collection::vec(op, 1..120)
    }

    /// RFC 6675 §4, literally, over every segment.
    fn check(board: &Scoreboard) -> Result<(), TestCaseError> {
        let ring = &board.ring;
        let count = |f: fn(&Sent) -> bool| ring.iter().filter(|s| f(s)).count() as u32;
        prop_assert_eq!(board.sacked, count(|s| s.sacked));
        prop_assert_eq!(board.lost, count(|s| s.lost));
        prop_assert_eq!(board.retransmitted, count(|s| s.retransmitted));
        let pipe: u32 =
            ring.iter().filter(|s| !s.sacked).map(|s| u32::from(!s.lost) + u32::from(s.retransmitted)).sum();
        prop_assert_eq!(board.in_flight(), pipe);
        for (i, segment) in ring.iter().enumerate() {
            let past = ring.iter().skip(i + 1).filter(|s| s.sacked).count() as u32;
            prop_assert!(segment.sacked || segment.lost || past < DUP_THRESH, "segment {} should be lost", i);
            prop_assert!(!(segment.sacked && (segment.lost || segment.retransmitted)));
        }
        let mut copy = board.clone();
        let due = ring.iter().position(|s| s.lost && !s.retransmitted).map(|i| board.first + i as u64);
        prop_assert_eq!(copy.next_lost(), due);
        Ok(())
    }

    proptest! {
        #[test]
        fn the_counts_equal_those_of_rfc6675_taken_literally(ops in ops()) {
            let mut board = Scoreboard::default();
            let (mut next, mut una) = (0, 0);
            for op in ops {
                match op {
                    Op::Send(n) => {
                        (next..next + n).for_each(|number| board.push(sent(number)));
                        next += n;
                    }
                    Op::Acknowledge(ahead) => {
                        una = (una + ahead).min(next * LEN);
                        let before = board.outstanding();
                        let arrived = board.acknowledge(una);
                        prop_assert_eq!(before - board.outstanding(), arrived.removed);
                    }
                    Op::Sack(blocks) => {
                        let ranges: Vec<_> = blocks
                            .iter()
                            .map(|&(start, len)| Range { start: una + start, end: una + start + len })
                            .filter(|range| range.end <= next * LEN)
                            .collect();
                        let before = board.sacked;
                        let arrived = board.selectively_acknowledge(&ranges);
                        prop_assert_eq!(board.sacked - before, arrived.delivered);
                        for s in &board.ring {
                            let inside = ranges.iter().any(|r| r.start <= s.start && s.end() <= r.end);
                            prop_assert!(s.sacked || !inside);
                        }
                        board.judge();
                    }
                    Op::RetransmitLost => {
                        if let Some(number) = board.next_lost() {
                            board.retransmit(number, Nanos::ZERO, false);
                        }
                    }
                    Op::RetransmitHole => {
                        if let Some(number) = board.next_hole() {
                            board.retransmit(number, Nanos::ZERO, false);
                        }
                    }
                    Op::Rescue => {
                        if let Some(number) = board.unreported_tail() {
                            board.retransmit(number, Nanos::ZERO, true);
                        }
                    }
                    Op::Timeout => board.lose_all(),
                }
                board.judge();
                check(&board)?;
            }
        }
    }
}
