//! RACK-TLP (RFC 8985) and the undo of spurious reductions, in the order of Linux 6.1's processing of an acknowledgment
//! (`tcp_fastretrans_alert`, `tcp_process_loss`).
//!
//! A reduction is undone if DSACK (RFC 2883) reports all retransmissions as duplicates, if an echoed timestamp shows that
//! the original was acknowledged (RFC 3522), or, after a timeout, if F-RTO with SACK (RFC 5682 §3) detects it.

use fairhop_model::units::Nanos;

use super::{Sender, Timer};
use crate::tcp::congestion::{CongestionControl, Phase, Reason, Window};
use crate::tcp::rack::{Rack, Times};
use crate::tcp::scoreboard::Arrived;
use crate::tcp::timestamp_clock;

/// Linux's addition to timers in milliseconds (TCP_TIMEOUT_MIN at HZ = 1000).
const TIMER_SLACK: Nanos = Nanos(2_000_000);

/// State of RACK-TLP, boxed because other senders do not need it.
#[derive(Clone, Debug, Default)]
pub(super) struct RackTlp {
    pub(super) rack: Rack,
    /// SND.NXT when the probe was sent whose outcome is open, and whether it was a retransmission.
    probe_end: Option<u64>,
    probe_retransmitted: bool,
    /// A probe is to be sent.
    pub(super) probe_due: bool,
    undo: Undo,
    /// F-RTO is active, and in this round new data are sent instead of retransmissions (RFC 5682 §3 step 2).
    frto: bool,
    pub(super) new_data_first: bool,
}

/// State for undoing a reduction.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    /// SND.UNA at the start of the reduction.
    marker: Option<u64>,
    /// The former window, with a threshold of at least three quarters of it.
    prior: Option<Window>,
    /// Retransmissions not reported as duplicates; none before the first one.
    retransmissions: Option<u32>,
    /// Timestamp of the first retransmission.
    stamp: Option<u32>,
}

/// Contents of an acknowledgment, for recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) advanced: bool,
    pub(super) covered: Arrived,
    pub(super) reported: Arrived,
    /// End of a reported duplicate.
    pub(super) dsack: Option<u64>,
    pub(super) echo: Option<u32>,
    pub(super) ece: bool,
    /// It has payload or changes the window, so that it is no pure duplicate.
    pub(super) not_duplicate: bool,
}

impl Facts {
    /// End of the first newly arrived segment that was sent once.
    fn original_end(&self) -> Option<u64> {
        let end = |arrived: &Arrived| arrived.first_sent_at.map(|_| arrived.first_end);
        end(&self.covered).into_iter().chain(end(&self.reported)).min()
    }
}

impl Sender {
    fn times(&self) -> Times {
        Times {
            min_rtt: self.rtt.min_rtt().unwrap_or_default(),
            srtt: self.rtt.srtt().unwrap_or(Nanos(u64::MAX)),
        }
    }

    fn reached(&self) -> bool {
        self.recovery_point.is_none_or(|point| self.una >= point)
    }

    /// An acknowledgment arrived.
    pub(super) fn recover_by_time(&mut self, now: Nanos, facts: &Facts) {
        let min_rtt = self.rtt.min_rtt();
        let (una, nxt) = (self.una, self.nxt);
        let Some(this) = self.racktlp.as_deref_mut() else { return };
        this.new_data_first = false;
        for newest in [facts.covered.newest, facts.reported.newest].into_iter().flatten() {
            this.rack.on_delivered(now, newest, min_rtt);
        }
        if facts.covered.reordered || facts.reported.reordered {
            this.rack.on_reordering();
        }
        if let Some(end) = facts.dsack {
            this.rack.on_dsack(una, nxt);
            if let Some(left) = &mut this.undo.retransmissions
                && this.undo.marker.is_some_and(|marker| end > marker)
            {
                *left = left.saturating_sub(1);
            }
        }
        this.rack.prune(self.board.first());
        self.judge_probe(now, facts);
        if facts.advanced {
            self.set_timer(now);
        }
        let quiet = self.phase == Phase::Open
            && self.board.sacked() == 0
            && facts.reported.delivered == 0
            && facts.dsack.is_none()
            && !self.board.has_lost();
        if facts.ece {
            self.forget_prior();
        }
        if quiet {
            if facts.ece {
                self.on_ece_by_time(now);
            }
            if self.board.retransmitted() == 0 && facts.advanced {
                self.forget_stamp();
            }
            return;
        }
        self.alert(now, facts);
    }

    /// Linux's `tcp_fastretrans_alert`.
    fn alert(&mut self, now: Nanos, facts: &Facts) {
        match self.phase {
            Phase::Cwr => self.end_cwr(now),
            Phase::Recovery if self.reached() => {
                self.try_undo(now, facts, false);
                self.finish_recovery(now);
            }
            _ => {}
        }
        match self.phase {
            Phase::Recovery => {
                if facts.advanced && self.was_delayed(facts) && self.has_marker() {
                    if self.board.retransmitted() > 0 {
                        return;
                    }
                    self.undo(now, true);
                    self.phase = Phase::Open;
                } else if self.all_were_spurious() {
                    self.undo(now, false);
                    self.phase = Phase::Open;
                }
                self.detect(now);
                if self.phase != Phase::Recovery && self.board.has_lost() {
                    self.enter_recovery_by_time(now, facts.ece);
                }
            }
            Phase::Loss => {
                self.process_loss(now, facts);
                let again = self.detect(now);
                if (self.phase == Phase::Open || again) && self.board.has_lost() {
                    self.enter_recovery_by_time(now, facts.ece);
                }
            }
            Phase::Open | Phase::Cwr => {
                if self.phase == Phase::Open && self.all_were_spurious() {
                    self.undo(now, false);
                }
                self.detect(now);
                if self.board.has_lost() {
                    self.enter_recovery_by_time(now, facts.ece);
                } else if facts.ece {
                    self.on_ece_by_time(now);
                }
            }
        }
    }

    fn on_ece_by_time(&mut self, now: Nanos) {
        if self.phase == Phase::Open {
            if let Some(this) = self.racktlp.as_deref_mut() {
                this.undo = Undo::default();
                this.probe_end = None;
            }
            self.on_ece(now);
        }
    }

    /// RFC 8985 §6.2 steps 4 and 5. Returns whether a retransmission was lost.
    fn detect(&mut self, now: Nanos) -> bool {
        let times = self.times();
        let recovering = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let Some(this) = self.racktlp.as_deref_mut() else { return false };
        if !this.rack.take_advanced() {
            return false;
        }
        self.detect_now(now, recovering, times)
    }

    fn detect_now(&mut self, now: Nanos, recovering: bool, times: Times) -> bool {
        let Some(this) = self.racktlp.as_deref_mut() else { return false };
        let verdict = this.rack.detect(now, &mut self.board, recovering, times);
        self.stats.lost_retransmissions += u64::from(verdict.lost_again);
        if let Some(wait) = verdict.wait {
            let wait = wait.saturating_add(TIMER_SLACK).min(self.rtt.rto());
            self.timer = Some((Timer::Reordering, now.saturating_add(wait)));
        }
        verdict.lost_again > 0
    }

    /// RFC 8985 §6.2 step 5: the reordering window has passed.
    pub(super) fn on_reordering_timer(&mut self, now: Nanos) {
        let before = self.board.in_flight();
        let times = self.times();
        let recovering = matches!(self.phase, Phase::Recovery | Phase::Loss);
        self.detect_now(now, recovering, times);
        if self.board.in_flight() != before && self.phase != Phase::Recovery {
            self.enter_recovery_by_time(now, false);
            self.apply_prr(1, false, 0);
        }
        if self.timer.is_none() {
            self.rearm(now);
        }
    }

    fn enter_recovery_by_time(&mut self, now: Nanos, ece: bool) {
        self.stats.fast_recoveries += 1;
        self.start_undo(ece || self.phase == Phase::Cwr);
        if self.phase != Phase::Cwr {
            self.recovery_point = Some(self.nxt);
            self.reduce(now, Reason::Loss);
        }
        self.phase = Phase::Recovery;
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.probe_end = None;
            this.frto = false;
        }
    }

    fn finish_recovery(&mut self, now: Nanos) {
        let undone = !self.has_marker();
        if let Some(this) = self.racktlp.as_deref_mut().filter(|_| !undone) {
            this.rack.on_recovered();
        }
        self.phase = Phase::Open;
        if undone {
            self.prr.end();
        } else {
            self.end_reduction(now);
        }
    }

    // Undo.

    fn start_undo(&mut self, without_prior: bool) {
        let three_quarters = (self.window.cwnd >> 1) + (self.window.cwnd >> 2);
        let prior = Window { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh.max(three_quarters) };
        let retransmitted = self.board.retransmitted();
        let marker = self.una;
        let undoes = self.config.undo;
        let Some(this) = self.racktlp.as_deref_mut() else { return };
        this.undo = Undo {
            marker: undoes.then_some(marker),
            prior: (!without_prior).then_some(prior),
            retransmissions: (retransmitted > 0).then_some(retransmitted),
            stamp: this.undo.stamp,
        };
    }

    fn has_marker(&self) -> bool {
        !self.config.undo || self.racktlp.as_deref().is_some_and(|this| this.undo.marker.is_some())
    }

    fn forget_prior(&mut self) {
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.undo.prior = None;
        }
    }

    fn forget_stamp(&mut self) {
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.undo.stamp = None;
        }
    }

    /// RFC 3522: the acknowledgment echoes a timestamp from before the first retransmission.
    fn was_delayed(&self, facts: &Facts) -> bool {
        let stamp = self.racktlp.as_deref().and_then(|this| this.undo.stamp);
        self.config.undo
            && matches!((stamp, facts.echo), (Some(stamp), Some(echo)) if (echo.wrapping_sub(stamp) as i32) < 0)
    }

    /// Every retransmission of this reduction was reported as a duplicate (Linux's `tcp_try_undo_dsack`).
    fn all_were_spurious(&self) -> bool {
        self.racktlp
            .as_deref()
            .is_some_and(|this| this.undo.marker.is_some() && this.undo.retransmissions == Some(0))
    }

    /// Linux's `tcp_may_undo`, for acknowledgments that advance.
    fn may_undo(&self, facts: &Facts) -> bool {
        self.all_were_spurious() || (self.config.undo && self.has_marker() && self.was_delayed(facts))
    }

    fn try_undo(&mut self, now: Nanos, facts: &Facts, unmark: bool) -> bool {
        let may = self.may_undo(facts);
        if may {
            self.undo(now, unmark);
        }
        may
    }

    /// Linux's `tcp_undo_cwnd_reduction`.
    fn undo(&mut self, _now: Nanos, unmark: bool) {
        if unmark {
            self.board.undo_losses();
        }
        self.prr.end();
        let Some(this) = self.racktlp.as_deref_mut() else { return };
        if let Some(prior) = this.undo.prior {
            self.congestion.on_undo(&mut self.window, prior);
            self.cwr_due = false;
        }
        this.undo = Undo { stamp: this.undo.stamp, ..Undo::default() };
        this.rack.note_advanced();
        self.stats.undone += 1;
    }

    /// A segment is retransmitted.
    pub(super) fn note_retransmission(&mut self, now: Nanos) {
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.undo.retransmissions = Some(this.undo.retransmissions.unwrap_or(0) + 1);
            this.undo.stamp.get_or_insert(timestamp_clock(now));
        }
    }

    // Timeouts.

    /// RFC 8985 §6.3, Linux's `tcp_enter_loss`.
    pub(super) fn lose_by_timeout(&mut self, now: Nanos, already_reduced: bool) {
        let already_reduced = already_reduced && !self.reached();
        let fresh = !matches!(self.phase, Phase::Recovery | Phase::Loss);
        if !already_reduced {
            self.start_undo(false);
        }
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.frto = self.config.undo && (fresh || self.retries > 1);
            // The oldest segment is retransmitted first (RFC 5682 §3 step 1).
            this.new_data_first = false;
            this.probe_end = None;
            this.probe_due = false;
            let rack = &this.rack;
            self.board.lose_overdue(|sent_at| rack.is_overdue(now, sent_at));
        }
        let loss = self.loss_event(now, Reason::Loss);
        if already_reduced {
            self.congestion.on_repeated_timeout(&mut self.window, &loss);
        } else {
            self.congestion.on_timeout(&mut self.window, &loss);
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.cwr_due = self.ecn;
        self.enter_loss();
    }

    /// Linux's `tcp_process_loss`, with F-RTO (RFC 5682 §3).
    fn process_loss(&mut self, now: Nanos, facts: &Facts) {
        let recovered = self.reached();
        if facts.advanced && self.try_undo(now, facts, true) {
            self.leave_loss();
            return;
        }
        if self.racktlp.as_deref().is_some_and(|this| this.frto) {
            let original =
                facts.original_end().is_some_and(|end| self.recovery_point.is_some_and(|point| end <= point));
            if original && self.has_marker() {
                self.undo(now, true);
                self.leave_loss();
                return;
            }
            if self.recovery_point.is_some_and(|point| self.nxt > point) {
                if facts.reported.delivered > 0 || !facts.advanced {
                    self.end_frto();
                }
            } else if facts.advanced && !recovered {
                self.recovery_point = Some(self.nxt);
                if self.next_new_segment().is_some() {
                    if let Some(this) = self.racktlp.as_deref_mut() {
                        this.new_data_first = true;
                    }
                    return;
                }
                self.end_frto();
            }
        }
        if recovered {
            self.try_undo(now, facts, false);
            self.leave_loss();
        }
    }

    fn end_frto(&mut self) {
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.frto = false;
        }
    }

    /// Step 2 of F-RTO has no new data to send: F-RTO ends, and lost segments are retransmitted.
    pub(super) fn cancel_frto(&mut self) {
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.new_data_first = false;
            this.frto = false;
        }
    }

    fn leave_loss(&mut self) {
        self.phase = Phase::Open;
        self.retries = 0;
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.undo.marker = None;
            this.frto = false;
        }
    }

    // Timers and probes.

    /// Linux's `tcp_set_xmit_timer`: the probe timer if a probe is possible, else the retransmission timer.
    fn set_timer(&mut self, now: Nanos) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// Linux's `tcp_rearm_rto`: after a probe or reordering timer the timeout counts from the sending of the oldest segment.
    pub(super) fn rearm(&mut self, now: Nanos) {
        let Some(head_sent_at) = self.board.head_sent_at() else {
            self.timer = None;
            return;
        };
        let postponed = matches!(self.timer, Some((Timer::Probe | Timer::Reordering, _)));
        let from = if postponed { head_sent_at } else { now };
        let at = from.saturating_add(self.rtt.rto()).max(now + Nanos(1000));
        self.timer = Some((Timer::Retransmission, at));
    }

    /// RFC 8985 §7.2: a probe after two round trips without an acknowledgment, at the latest when the retransmission timer
    /// would expire.
    pub(super) fn schedule_probe(&mut self, now: Nanos, advancing: bool) -> bool {
        let quiet = match self.phase {
            Phase::Open => self.board.sacked() == 0 && !self.board.has_lost(),
            Phase::Cwr => true,
            Phase::Recovery | Phase::Loss => false,
        };
        if self.racktlp.is_none() || !quiet {
            return false;
        }
        let Some(head_sent_at) = self.board.head_sent_at() else { return false };
        let wait = match self.rtt.srtt() {
            Some(srtt) if self.board.outstanding() == 1 => Nanos(2 * srtt.0) + self.config.min_rto,
            Some(srtt) => Nanos(2 * srtt.0) + TIMER_SLACK,
            None => self.config.initial_rto,
        };
        let from = if advancing { now } else { head_sent_at };
        let timeout = from.saturating_add(self.rtt.rto());
        let mut at = now.saturating_add(wait);
        if timeout > now {
            at = at.min(timeout);
        }
        self.timer = Some((Timer::Probe, at));
        true
    }

    pub(super) fn on_probe_timer(&mut self, now: Nanos) {
        let Some(this) = self.racktlp.as_deref_mut() else { return };
        if this.probe_end.is_none() && !self.board.is_empty() {
            this.probe_due = true;
        }
        self.timer = None;
        self.rearm(now);
    }

    /// RFC 8985 §7.3: the probe was sent.
    pub(super) fn note_probe(&mut self, now: Nanos, retransmitted: bool) {
        self.stats.loss_probes += 1;
        let nxt = self.nxt;
        if let Some(this) = self.racktlp.as_deref_mut() {
            this.probe_end = Some(nxt);
            this.probe_retransmitted = retransmitted;
        }
        self.timer = None;
        self.rearm(now);
    }

    /// RFC 8985 §7.4: reduces the window if the probe has repaired a loss.
    fn judge_probe(&mut self, now: Nanos, facts: &Facts) {
        let una = self.una;
        let Some(this) = self.racktlp.as_deref_mut() else { return };
        let Some(end) = this.probe_end.filter(|&end| una >= end) else { return };
        let duplicate = !facts.advanced && !facts.not_duplicate && facts.reported.delivered == 0;
        if !this.probe_retransmitted || facts.dsack.is_some() {
            this.probe_end = None;
        } else if una > end {
            this.probe_end = None;
            self.recovery_point = Some(self.nxt);
            self.reduce(now, Reason::Loss);
            self.end_reduction(now);
            if matches!(self.phase, Phase::Cwr) {
                self.phase = Phase::Open;
            }
        } else if duplicate {
            this.probe_end = None;
        }
    }
}
