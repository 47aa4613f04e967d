//! A delay of a call that is no queue's.
//!
//! A sender that has lost some of the sound which it records, or begins to hold its packets for longer, sends all of them later by their
//! timestamps. Until the fastest packet is forgotten, that looks like a queue. A queue of elastic flows becomes shorter where they
//! send less. A delay that stays as it is does not come from them.

use fairhop_model::units::Nanos;

/// A shorter delay of the fastest packets is left alone: half of what a call's delay may be.
const STANDS: Nanos = Nanos::from_millis(10);

/// Part of what elastic flows sent at most, at which a queue of theirs would have become shorter.
const LESS: f32 = 0.7;

/// How long it has to stay before what is sent is compared, and then although less is sent: the minimum of the fastest packets goes back by
/// two seconds, as does most of the mean of what is sent.
const UNMOVED: Nanos = Nanos::from_secs(4);

/// A delay of the fastest packets that has stayed about the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    delay: Nanos,
    since: Nanos,
    /// The highest rate of elastic flows meanwhile, in bits per second.
    peak: f32,
    /// Since when they send less than [`LESS`] of it.
    less_since: Nanos,
}

impl Standing {
    pub(super) const fn new() -> Self {
        Self { delay: Nanos::ZERO, since: Nanos::ZERO, peak: 0.0, less_since: Nanos::ZERO }
    }

    /// Takes the delay of the fastest packets, while elastic flows send `sent` bits per second in the mean of seconds. Returns whether
    /// that delay is no queue's.
    pub(super) fn follow(&mut self, now: Nanos, delay: Nanos, sent: f64) -> bool {
        let sent = sent as f32;
        // A tenth, and a packet of a call on the air.
        let margin = self.delay.0 / 10 + 1_000_000;
        if self.delay.0.abs_diff(delay.0) > margin {
            *self = Self { delay, since: now, peak: 0.0, less_since: now };
        }
        if now.saturating_sub(self.since) < UNMOVED {
            // The mean still contains what was sent before.
            self.less_since = now;
            return false;
        }
        self.peak = self.peak.max(sent);
        if delay < STANDS || sent > LESS * self.peak {
            self.less_since = now;
        }
        now.saturating_sub(self.less_since) > UNMOVED
    }
}
