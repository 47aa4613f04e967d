//! Proportional rate reduction (RFC 6937): the window falls during the round trip of a recovery, with each acknowledgment,
//! instead of at once.
//!
//! As in Linux 6.1 (`tcp_cwnd_reduction`), in whole segments. While more than the threshold is in flight, the proportional
//! part applies. Below it, the slow-start reduction bound (PRR-SSRB) applies if an acknowledgment advances and reveals no
//! new loss, otherwise the conservative one (PRR-CRB). The standard's `RecoverFS` is, as in Linux, the former window and
//! not the data in flight; both are equal for a sender with enough to send.

/// State of one reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// The window at the start of the reduction; 0 if none is active.
    prior_cwnd: u32,
    /// RFC 6937's `prr_delivered` and `prr_out`, in segments.
    delivered: u32,
    out: u32,
}

impl Prr {
    /// A reduction from this window begins.
    pub(super) fn begin(&mut self, prior_cwnd: u32) {
        *self = Self { prior_cwnd: prior_cwnd.max(1), delivered: 0, out: 0 };
    }

    pub(super) fn end(&mut self) {
        self.prior_cwnd = 0;
    }

    pub(super) fn is_active(&self) -> bool {
        self.prior_cwnd > 0
    }

    /// A segment was sent during the reduction.
    pub(super) fn on_sent(&mut self) {
        self.out = self.out.saturating_add(1);
    }

    /// An acknowledgment that reports `newly_delivered` segments. Returns the window, or none if it does not change.
    /// `conserve` selects PRR-CRB.
    pub(super) fn on_ack(
        &mut self,
        newly_delivered: u32,
        in_flight: u32,
        ssthresh: u32,
        conserve: bool,
    ) -> Option<u32> {
        if newly_delivered == 0 || !self.is_active() {
            return None;
        }
        self.delivered = self.delivered.saturating_add(newly_delivered);
        let share = if in_flight > ssthresh {
            let due = (u64::from(ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(self.prior_cwnd));
            u32::try_from(due).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(newly_delivered);
            let limit = if conserve { limit } else { limit.saturating_add(1) };
            limit.min(ssthresh - in_flight)
        };
        // The first retransmission is always sent.
        let share = if self.out == 0 { share.max(1) } else { share };
        Some(in_flight.saturating_add(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc6937_3_1_a_halved_window_sends_one_segment_per_two_acknowledgments() {
        let mut prr = Prr::default();
        prr.begin(20);
        // One of twenty is lost: 19 acknowledgments arrive, the first of which reveals the loss.
        let mut in_flight = 19;
        let mut sent = vec![];
        for _ in 0..19 {
            in_flight -= 1;
            let cwnd = prr.on_ack(1, in_flight, 10, true).expect("a reduction");
            let now = cwnd.saturating_sub(in_flight);
            (0..now).for_each(|_| prr.on_sent());
            in_flight += now;
            sent.push(now);
        }
        // The retransmission at once, then ⌈10·n/20⌉ in total after n; once ten are in flight, one for one.
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(in_flight, 10);
    }

    #[test]
    fn rfc6937_3_1_below_the_threshold_slow_start_or_conservation_refill_the_pipe() {
        let mut prr = Prr::default();
        prr.begin(20);
        // Fifteen of twenty lost: four in flight against a threshold of ten.
        assert_eq!(prr.on_ack(1, 4, 10, true), Some(5));
        prr.on_sent();
        // Conservation: as many as arrived.
        assert_eq!(prr.on_ack(1, 4, 10, true), Some(5));
        prr.on_sent();
        // An acknowledgment that advances: one more than arrived.
        assert_eq!(prr.on_ack(2, 3, 10, false), Some(6));
        // Never past the threshold.
        assert_eq!(prr.on_ack(9, 8, 10, false), Some(10));
    }
}
