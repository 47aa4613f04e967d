//! A window that is not in use does not grow, and decays (RFC 7661; done as in Linux).

use fairhop_model::units::Nanos;

use super::Sender;
use crate::tcp::congestion::{CongestionControl, Phase};

/// Linux's `tcp_cwnd_validate`: whether the congestion window limited transmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CwndUsage {
    pub(super) limited: bool,
    /// Maximum of segments outstanding in the current window of data while not limited.
    pub(super) max_outstanding: u32,
    /// End of the current window of data.
    pub(super) window_end: u64,
    /// Last time at which the window was in full use, and the maximum in use since then.
    pub(super) full_at: Nanos,
    pub(super) used: u32,
}

impl Sender {
    /// Linux's `tcp_is_cwnd_limited`: in slow start the window may be up to twice the segments in use.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.usage.limited
            || (self.window.in_slow_start()
                && self.window.cwnd < self.usage.max_outstanding.saturating_mul(2))
    }

    /// Linux's `tcp_cwnd_validate` and, if the window was not filled for a whole timeout, `tcp_cwnd_application_limited`
    /// (RFC 2861).
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

    /// RFC 5681 §4.1: halves the window per idle timeout, as Linux's `tcp_cwnd_restart` (RFC 2861).
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

    /// Linux's `tcp_current_ssthresh`, for a quick return to the former window.
    pub(super) fn keep_three_quarters(&mut self) {
        let three_quarters = (self.window.cwnd >> 1) + (self.window.cwnd >> 2);
        self.window.ssthresh = self.window.ssthresh.max(three_quarters);
    }
}
