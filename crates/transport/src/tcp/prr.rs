//! Proportional rate reduction (RFC 6937): the window falls over the round trip of a recovery, a little with each
//! acknowledgment, instead of at once.
//!
//! Done as in Linux 6.1 (`tcp_cwnd_reduction`), in whole segments: while more is in flight than the threshold, the
//! proportional part; below it, the slow-start reduction bound (PRR-SSRB) when an acknowledgment moves forward and
//! makes nothing new known as lost, and the conservative one (PRR-CRB) otherwise. Linux takes what the standard calls
//! `RecoverFS` to be the window of before, and not what was in flight, which is the same for a sender that has enough
//! to send.

/// State of one reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// The window when the reduction began; 0: none is under way.
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

    /// A segment went out during the reduction.
    pub(super) fn on_sent(&mut self) {
        self.out = self.out.saturating_add(1);
    }

    /// An acknowledgment that says `newly_delivered` segments to have arrived; returns the window, or none where it
    /// stays. `conserve` asks for PRR-CRB.
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
        // The first repetition goes out whatever the arithmetic says.
        let share = if self.out == 0 { share.max(1) } else { share };
        Some(in_flight.saturating_add(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc6937_3_1_of_twenty_in_flight_with_half_the_window_every_second_acknowledgment_lets_one_out() {
        let mut prr = Prr::default();
        prr.begin(20);
        // One is lost: 19 acknowledgments come, the first makes it known.
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
        // The first at once (the repetition), then ⌈10·n/20⌉ in all after n; once ten are in flight, one for one.
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
        // An acknowledgment that moves on: one more than arrived.
        assert_eq!(prr.on_ack(2, 3, 10, false), Some(6));
        // And never past the threshold.
        assert_eq!(prr.on_ack(9, 8, 10, false), Some(10));
    }
}
