//! A window that is not in use must not grow, and fades: RFC 7661's concern, done as Linux does it.

use fairhop_model::units::Nanos;

use super::Sender;
use crate::tcp::congestion::{CongestionControl, Phase};

/// Linux's `tcp_cwnd_validate`: whether the congestion window was what held transmission back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CwndUsage {
    pub(super) limited: bool,
    /// Most segments outstanding in the current window of data while not limited.
    pub(super) max_outstanding: u32,
    /// The current window of data ends here.
    pub(super) window_end: u64,
    /// When the window was last in full use, and the most that was in use since.
    pub(super) full_at: Nanos,
    pub(super) used: u32,
}

impl Sender {
    /// Linux's `tcp_is_cwnd_limited`: in slow start the window may be up to twice what is in use.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.usage.limited
            || (self.window.in_slow_start()
                && self.window.cwnd < self.usage.max_outstanding.saturating_mul(2))
    }

    /// Linux's `tcp_cwnd_validate` and, where the window was not filled for a whole timeout,
    /// `tcp_cwnd_application_limited` (RFC 2861).
    pub(super) fn validate_cwnd(&mut self, now: Nanos, limited: bool) {
        let outstanding = self.board.outstanding();
        let usage = &mut self.usage;
        let new_window = self.una >= usage.window_end;
        if new_window || limited || (!usage.limited && outstanding > usage.max_outstanding) {
            usage.limited = limited;
            usage.max_outstanding = outstanding;
            usage.window_end = self.nxt;
        }
        if self.is_cwnd_limited() {
            self.usage.used = 0;
            self.usage.full_at = now;
            return;
        }
        self.usage.used = self.usage.used.max(outstanding);
        if now.saturating_sub(self.usage.full_at) >= self.rtt.rto()
            && self.phase == Phase::Open
            && !self.congestion.owns_window()
        {
            let used = self.usage.used.max(self.config.initial_window);
            if used < self.window.cwnd {
                self.keep_three_quarters();
                self.window.cwnd = self.window.cwnd.midpoint(used);
                self.congestion.on_restart(&mut self.window, now);
            }
            self.usage.used = 0;
            self.usage.full_at = now;
        }
    }

    /// RFC 5681 §4.1, halving per timeout of silence as Linux's `tcp_cwnd_restart` (RFC 2861).
    pub(super) fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.last_data_sent);
        let rto = self.rtt.rto();
        if !self.board.is_empty()
            || idle <= rto
            || self.window.cwnd <= self.config.initial_window
            || self.congestion.owns_window()
        {
            return;
        }
        self.keep_three_quarters();
        let halvings = idle.div_floor(rto).min(31) as u32;
        self.window.cwnd = (self.window.cwnd >> halvings).max(self.config.initial_window);
        self.usage = CwndUsage { full_at: now, ..CwndUsage::default() };
        self.congestion.on_restart(&mut self.window, now);
    }

    /// Linux's `tcp_current_ssthresh`: the way back up is short.
    pub(super) fn keep_three_quarters(&mut self) {
        let three_quarters = (self.window.cwnd >> 1) + (self.window.cwnd >> 2);
        self.window.ssthresh = self.window.ssthresh.max(three_quarters);
    }
}
