//! Loss recovery, the reduction for a mark, and the timers: RFC 6675 with SACK, RFC 6582 without, RFC 6298, RFC 3168
//! §6.1.2. Recovery by RACK-TLP is in `racktlp`.

use fairhop_model::units::Nanos;

use super::{Sender, SenderState, Timer};
use crate::tcp::CongestionKind;
use crate::tcp::congestion::{CongestionControl, LossEvent, Phase, Reason};
use crate::tcp::scoreboard::DUP_THRESH;

impl Sender {
    /// RFC 6675 §5 with SACK, RFC 6582 §3.2 without.
    pub(super) fn recover(&mut self, now: Nanos, advanced: bool) {
        let reached = self.recovery_point.is_none_or(|point| self.una >= point);
        match self.phase {
            Phase::Recovery if reached => self.exit_recovery(now),
            Phase::Recovery if !self.sack && advanced => {
                if self.config.congestion == CongestionKind::Reno {
                    // RFC 5681 §3.2 step 6: further losses wait for new duplicates or the timer.
                    self.exit_recovery(now);
                } else {
                    self.board.lose_head();
                    self.retransmit_now = true;
                }
            }
            Phase::Loss if reached => self.phase = Phase::Open,
            Phase::Cwr => self.end_cwr(now),
            _ => {}
        }
        if self.sack {
            self.board.judge();
        } else if advanced && self.phase != Phase::Recovery {
            self.board.forget_assumed();
        }
        if matches!(self.phase, Phase::Open | Phase::Cwr) && self.loss_is_evident() {
            self.enter_recovery(now);
        }
    }

    /// RFC 6675 §5 steps 1 and 2; RFC 6582 §3.2 step 2, which ignores duplicates of data sent before the end of the last
    /// recovery.
    fn loss_is_evident(&self) -> bool {
        if self.sack {
            return self.board.has_lost() || self.duplicate_acks >= DUP_THRESH;
        }
        self.duplicate_acks >= DUP_THRESH && self.recovery_point.is_none_or(|point| self.una > point)
    }

    fn enter_recovery(&mut self, now: Nanos) {
        self.stats.fast_recoveries += 1;
        if self.phase != Phase::Cwr {
            self.reduce(now, Reason::Loss);
        }
        self.phase = Phase::Recovery;
        self.recovery_point = Some(self.nxt);
        if !self.board.has_lost() {
            self.board.lose_head();
        }
        self.board.restart_holes();
        self.retransmit_now = true;
        self.rescue_left = self.sack;
        self.partial_ack_seen = false;
    }

    pub(super) fn exit_recovery(&mut self, now: Nanos) {
        self.phase = Phase::Open;
        self.retransmit_now = false;
        self.rescue_left = false;
        self.board.forget_assumed();
        self.end_reduction(now);
    }

    /// Reduces the window, at once or over the next round trip.
    pub(super) fn reduce(&mut self, now: Nanos, reason: Reason) {
        let prior = self.window.cwnd;
        let loss = self.loss_event(now, reason);
        self.congestion.on_enter_recovery(&mut self.window, &loss);
        if self.config.prr && !self.congestion.owns_window() {
            self.prr.begin(prior);
            self.window.cwnd = prior;
        }
        self.cwr_due = self.ecn;
    }

    pub(super) fn end_reduction(&mut self, now: Nanos) {
        if self.prr.is_active() {
            self.prr.end();
            self.window.cwnd = self.window.ssthresh;
        }
        self.congestion.on_exit_recovery(&mut self.window, now);
    }

    /// RFC 3168 §6.1.2: a mark reduces the window like a loss, once per window of data.
    pub(super) fn on_ece(&mut self, now: Nanos) {
        if self.phase != Phase::Open {
            return;
        }
        self.stats.ecn_reductions += 1;
        self.recovery_point = Some(self.nxt);
        self.reduce(now, Reason::Ecn);
        self.phase = Phase::Cwr;
    }

    /// As in Linux, data past the marked window of data must have arrived, so that the receiver has seen the CWR bit.
    pub(super) fn end_cwr(&mut self, now: Nanos) {
        if self.recovery_point.is_none_or(|point| self.una > point) {
            self.phase = Phase::Open;
            self.end_reduction(now);
        }
    }

    pub(super) fn loss_event(&self, now: Nanos, reason: Reason) -> LossEvent {
        // A mark halves the window (RFC 3168 §6.1.2). With RACK-TLP the window counts as the flight, as in Linux: when the
        // loss is detected, much of the flight may have arrived.
        let outstanding = self.board.outstanding();
        let by_window = reason == Reason::Ecn || self.racktlp.is_some();
        LossEvent {
            now,
            reason,
            flight: if by_window { outstanding.max(self.window.cwnd) } else { outstanding },
            in_flight: self.board.in_flight(),
            delivered: self.delivered,
            lost: self.board.losses(),
            una: self.una,
            nxt: self.nxt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            mss: self.mss,
            phase: self.phase,
        }
    }

    /// RFC 6298 §5.2 and §5.3. With SACK every partial acknowledgment restarts the timer, as in Linux; without SACK only the
    /// first one does (RFC 6582 §4, the impatient variant).
    pub(super) fn restart_timer(&mut self, now: Nanos) {
        if self.board.is_empty() {
            self.timer = None;
            return;
        }
        if self.phase == Phase::Recovery && !self.sack {
            if self.partial_ack_seen {
                return;
            }
            self.partial_ack_seen = true;
        }
        self.start_timer(Timer::Retransmission, now);
    }

    pub(super) fn start_timer(&mut self, timer: Timer, now: Nanos) {
        self.timer = Some((timer, now.saturating_add(self.rtt.rto())));
    }

    /// The time is `now`. No effect before [`Sender::next_timer`].
    pub fn on_timer(&mut self, now: Nanos) {
        let Some((timer, at)) = self.timer else { return };
        if now < at {
            return;
        }
        self.timer = None;
        match timer {
            Timer::Probe => return self.on_probe_timer(now),
            Timer::Reordering => return self.on_reordering_timer(now),
            Timer::Retransmission | Timer::Persist => {}
        }
        let max = if self.state == SenderState::SynSent {
            self.config.syn_retries
        } else {
            self.config.data_retries
        };
        if self.retries >= max {
            self.fail();
            return;
        }
        self.retries += 1;
        if timer == Timer::Persist {
            self.probe_due = true;
        } else {
            self.on_retransmission_timeout(now);
        }
        self.rtt.back_off();
    }

    /// RFC 6298 §5.4 to §5.6, RFC 5681 §3.1, RFC 6675 §5.1.
    fn on_retransmission_timeout(&mut self, now: Nanos) {
        self.stats.timeouts += 1;
        if self.state == SenderState::SynSent {
            self.syn_due = true;
            return;
        }
        // As in Linux, the threshold falls once per window of data: not again when the retransmission is lost (RFC 5681
        // §3.1), nor when fast recovery has already reduced it.
        let already_reduced = match self.phase {
            Phase::Open => false,
            Phase::Cwr | Phase::Recovery => true,
            Phase::Loss => self.retries > 1,
        };
        self.prr.end();
        if self.racktlp.is_some() {
            self.lose_by_timeout(now, already_reduced);
            return;
        }
        let loss = self.loss_event(now, Reason::Loss);
        if already_reduced {
            self.window.cwnd = 1;
            self.congestion.on_repeated_timeout(&mut self.window, &loss);
        } else {
            self.congestion.on_timeout(&mut self.window, &loss);
        }
        self.cwr_due = self.ecn;
        self.enter_loss();
        self.board.lose_all();
    }

    pub(super) fn enter_loss(&mut self) {
        self.phase = Phase::Loss;
        self.recovery_point = Some(self.nxt);
        self.duplicate_acks = 0;
        self.retransmit_now = false;
        self.rescue_left = false;
    }
}
