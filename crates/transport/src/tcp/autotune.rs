//! When Linux's receiver lets its window grow, and that it acknowledges each segment while it does.
//!
//! Dynamic right-sizing (`tcp_rcv_space_adjust`): once in a round trip, what the application has read since the last
//! one sets how large the window may become. The window then grows by two segments with each that arrives
//! (`tcp_grow_window`), and each of those is acknowledged at once, long after the sixteen at the start of a connection:
//! in slow start that is most of them. Only this effect is modelled. The window itself is the configured buffer's from
//! the start, since a sender that is never limited by it cannot see the difference.

use fairhop_model::units::Nanos;

/// What one segment of 1,448 bytes takes of a buffer of which half is window (SKB_TRUESIZE, `tcp_adv_win_scale` = 1):
/// the window that a buffer for `n` segments gives is `n` times this many bytes.
const WINDOW_PER_SEGMENT: u64 = 1492;

/// The window at the start: half of `tcp_rmem[1]`, less a segment (`tcp_init_buffer_space`).
const INITIAL_WINDOW: u64 = 65_536 - 1448;

/// What the segment that has just arrived takes of the window that the buffer gives, until it is read.
const ARRIVED: u64 = 1152;

/// State of one receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotune {
    mss: u64,
    /// Most that the window may become: half of `tcp_rmem[2]`.
    limit: u64,
    /// `window_clamp` and `rcv_ssthresh`: what the window may become, and what it is.
    clamp: u64,
    window: u64,
    /// `rcvq_space`: bytes read in the best round trip, and where and when the present one began.
    space: u64,
    begin: u64,
    since: Nanos,
    /// Smoothed round-trip time in eighths of a microsecond, from echoed timestamps; 0: not known.
    rtt8_us: u64,
    last_echo: u32,
}

impl Autotune {
    /// For segments of `mss` bytes and at most `limit` bytes of window.
    pub(super) fn new(mss: u32, limit: u32, now: Nanos) -> Self {
        let mss = u64::from(mss.max(1));
        Self {
            mss,
            limit: u64::from(limit),
            clamp: INITIAL_WINDOW,
            window: INITIAL_WINDOW,
            space: 10 * mss,
            begin: 0,
            since: now,
            rtt8_us: 0,
            last_echo: 0,
        }
    }

    /// A segment came; `round_trip_ms` ago the timestamp that it echoes was sent. Returns whether the window grew.
    pub(super) fn on_segment(&mut self, echo: Option<(u32, u32)>) -> bool {
        if let Some((echo, round_trip_ms)) = echo.filter(|&(echo, _)| echo != self.last_echo) {
            self.last_echo = echo;
            let sample = u64::from(round_trip_ms.max(1)) * 1000;
            self.rtt8_us = match self.rtt8_us {
                0 => sample << 3,
                rtt8 => rtt8 - (rtt8 >> 3) + sample,
            };
        }
        let room = self.clamp.saturating_sub(self.window + ARRIVED);
        self.window += room.min(2 * self.mss);
        room > 0
    }

    /// The application has read `read` bytes in all.
    pub(super) fn on_read(&mut self, now: Nanos, read: u64) {
        let elapsed_us = now.saturating_sub(self.since).0 / 1000;
        if self.rtt8_us == 0 || elapsed_us < self.rtt8_us >> 3 {
            return;
        }
        let copied = read - self.begin;
        if copied > self.space {
            let enough = 2 * copied + 16 * self.mss;
            // For a sender that doubles its rate.
            let enough = enough + 2 * (enough * (copied - self.space) / self.space);
            let clamp = (enough / self.mss).saturating_mul(WINDOW_PER_SEGMENT).min(self.limit);
            self.clamp = self.clamp.max(clamp);
            self.space = copied;
        }
        self.begin = read;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_when_more_is_read_in_a_round_trip_than_ever_before() {
        let ms = Nanos::from_millis;
        let mut autotune = Autotune::new(1448, 6 << 20, ms(0));
        assert!(!autotune.on_segment(Some((1, 40))));
        autotune.on_read(ms(1), 1448);
        // Twenty segments in the first round trip of 40 ms, where ten were the measure: 2 · 28960 + 16 · 1448 = 81088,
        // and twice as much again for a sender that doubles: 168 segments of 1492 B.
        autotune.on_read(ms(41), 20 * 1448);
        assert_eq!(autotune.clamp, 168 * WINDOW_PER_SEGMENT);
        // Room for 250656 − 64088 − 1152 bytes, 2896 at a time.
        let grown = (0..200).filter(|_| autotune.on_segment(None)).count();
        assert_eq!(grown, 65);
        // No more in the next round trip: no growth.
        autotune.on_read(ms(82), 40 * 1448);
        assert!(!autotune.on_segment(None));
    }
}
