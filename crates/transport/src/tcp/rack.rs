//! RACK (RFC 8985): a segment is lost if one that was sent later has arrived and its own time to arrive has passed.
//!
//! As in Linux 6.1 (`tcp_recovery.c`) the reordering window is zero while no reordering has been seen and either three
//! segments are SACKed or recovery is active. Otherwise it is a quarter of the minimum round trip, times a multiplier that
//! rises with each round trip in which spurious retransmissions were reported, at most the smoothed round trip (RFC 8985
//! §6.2 step 4).
//!
//! Transmissions are kept in the order of sending, so that only the oldest are examined. Entries that have arrived or were
//! retransmitted are removed when they reach the front.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::scoreboard::{DUP_THRESH, Newest, Scoreboard};

/// Recoveries for which a widened reordering window lasts (RFC 8985 §6.2 step 4).
const RECOVERIES: u32 = 16;

/// State of RACK for one connection.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Transmissions in the order of sending: number of the segment and time.
    order: VecDeque<(u64, Nanos)>,
    /// RACK.xmit_ts, RACK.end_seq and RACK.rtt of the delivered segment that was sent last.
    latest: Option<(Nanos, u64)>,
    rtt: Nanos,
    /// RACK.reo_wnd_mult, and the recoveries for which it remains.
    steps: u32,
    recoveries_left: u32,
    /// End of the round trip in which a spurious retransmission was last counted.
    dsack_round: Option<u64>,
    reordering_seen: bool,
    /// A segment was delivered that was sent later than all delivered before.
    advanced: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            latest: None,
            rtt: Nanos::ZERO,
            steps: 1,
            recoveries_left: 0,
            dsack_round: None,
            reordering_seen: false,
            advanced: false,
        }
    }
}

impl Rack {
    /// The segment `number` is sent or retransmitted.
    pub(super) fn on_sent(&mut self, number: u64, now: Nanos) {
        self.order.push_back((number, now));
    }

    /// RFC 8985 §6.2 steps 1 and 2: a segment was delivered. An acknowledgment of a retransmitted segment in less than the
    /// minimum round trip belongs to the original.
    pub(super) fn on_delivered(&mut self, now: Nanos, newest: Newest, min_rtt: Option<Nanos>) {
        let key = (newest.sent_at, newest.end);
        if self.latest.is_some_and(|latest| key <= latest) {
            return;
        }
        let rtt = now.saturating_sub(newest.sent_at);
        if newest.ambiguous && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.latest = Some(key);
        self.rtt = rtt;
        self.advanced = true;
    }

    /// Segments before this number are no longer outstanding.
    pub(super) fn prune(&mut self, first: u64) {
        while self.order.front().is_some_and(|&(number, _)| number < first) {
            self.order.pop_front();
        }
    }

    /// Requests another loss detection.
    pub(super) fn note_advanced(&mut self) {
        self.advanced = true;
    }

    /// RFC 8985 §6.2 step 3.
    pub(super) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// RFC 8985 §6.2 step 4: a spurious retransmission was reported; `una` and `nxt` are SND.UNA and SND.NXT.
    pub(super) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(nxt);
            self.steps = self.steps.saturating_add(1);
            self.recoveries_left = RECOVERIES;
        }
    }

    /// A recovery is over.
    pub(super) fn on_recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.steps = 1;
        }
    }

    fn reordering_window(&self, sacked: u32, recovering: bool, times: Times) -> Nanos {
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESH) {
            return Nanos::ZERO;
        }
        let quarter = Nanos(times.min_rtt.0 / 4);
        Nanos(quarter.0.saturating_mul(u64::from(self.steps))).min(times.srtt)
    }

    /// Whether there is new information for loss detection; resets the flag.
    pub(super) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// RFC 8985 §6.2 step 5: marks lost segments.
    pub(super) fn detect(
        &mut self,
        now: Nanos,
        board: &mut Scoreboard,
        recovering: bool,
        times: Times,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(latest) = self.latest else { return verdict };
        let deadline = self.rtt.saturating_add(self.reordering_window(board.sacked(), recovering, times));
        let mut index = 0;
        while let Some(&(number, sent_at)) = self.order.get(index) {
            let candidate = board.get(number).filter(|s| !s.sacked && s.sent_at == sent_at && s.is_out());
            let Some(segment) = candidate else {
                self.discard(&mut index);
                continue;
            };
            if (sent_at, segment.end()) >= latest {
                break;
            }
            let since = now.saturating_sub(sent_at);
            if since >= deadline {
                verdict.lost += 1;
                verdict.lost_again += u32::from(board.lose(number));
                self.discard(&mut index);
            } else {
                verdict.wait = Some(verdict.wait.unwrap_or_default().max(deadline - since));
                index += 1;
            }
        }
        verdict
    }

    /// Removes an entry at the front, skips any other.
    fn discard(&mut self, index: &mut usize) {
        if *index == 0 {
            self.order.pop_front();
        } else {
            *index += 1;
        }
    }

    /// Whether the time to arrive has passed for a segment sent at `sent_at` (Linux's `tcp_rack_skb_timeout`, used at a
    /// timeout).
    pub(super) fn is_overdue(&self, now: Nanos, sent_at: Nanos) -> bool {
        now.saturating_sub(sent_at) >= self.rtt
    }
}

/// Round-trip times for RACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) min_rtt: Nanos,
    pub(super) srtt: Nanos,
}

/// Result of [`Rack::detect`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Segments newly marked as lost.
    pub(super) lost: u32,
    /// Those of them whose retransmission was lost.
    pub(super) lost_again: u32,
    /// Longest time after which an undecided segment counts as lost.
    pub(super) wait: Option<Nanos>,
}
