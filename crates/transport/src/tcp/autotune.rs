//! Growth of Linux's receive window, during which the receiver acknowledges each segment.
//!
//! Dynamic right-sizing (`tcp_rcv_space_adjust`): once per round trip, the data that the application has read since the
//! last one set the maximum of the window. The window then grows by two segments with each segment that arrives
//! (`tcp_grow_window`), and each of these is acknowledged at once, long after the sixteen at the start of a connection. In
//! slow start these are most segments. Only this effect is modelled. The announced window is the configured buffer from
//! the start, because a sender that is never limited by it sees no difference.

use fairhop_model::units::Nanos;

/// Window per segment of 1,448 bytes in the buffer, half of which is window (SKB_TRUESIZE, `tcp_adv_win_scale` = 1): a
/// buffer for `n` segments has a window of `n` times this number of bytes.
const WINDOW_PER_SEGMENT: u64 = 1492;

/// Initial window: half of `tcp_rmem[1]`, less a segment (`tcp_init_buffer_space`).
const INITIAL_WINDOW: u64 = 65_536 - 1448;

/// Window that a segment occupies from its arrival until it is read, in bytes.
const ARRIVED: u64 = 1152;

/// State of one receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotune {
    mss: u64,
    /// Maximum of the window: half of `tcp_rmem[2]`.
    limit: u64,
    /// `window_clamp` and `rcv_ssthresh`: present maximum of the window, and the window.
    clamp: u64,
    window: u64,
    /// `rcvq_space`: maximum of bytes read in a round trip; offset and time at which the present one began.
    space: u64,
    begin: u64,
    since: Nanos,
    /// Smoothed round-trip time in eighths of a microsecond, from echoed timestamps; 0 if unknown.
    rtt8_us: u64,
    last_echo: u32,
}

impl Autotune {
    /// State for segments of `mss` bytes and a window of at most `limit` bytes.
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

    /// A segment arrived. `echo` is the timestamp that it echoes and its age in ms. Returns whether the window grew.
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

    /// The application has read `read` bytes in total.
    pub(super) fn on_read(&mut self, now: Nanos, read: u64) {
        let elapsed_us = now.saturating_sub(self.since).0 / 1000;
        if self.rtt8_us == 0 || elapsed_us < self.rtt8_us >> 3 {
            return;
        }
        let copied = read - self.begin;
        if copied > self.space {
            let needed = 2 * copied + 16 * self.mss;
            // Room for a sender that doubles its rate.
            let needed = needed + 2 * (needed * (copied - self.space) / self.space);
            let clamp = (needed / self.mss).saturating_mul(WINDOW_PER_SEGMENT).min(self.limit);
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
    fn the_window_grows_when_more_is_read_in_a_round_trip_than_in_any_before() {
        let ms = Nanos::from_millis;
        let mut autotune = Autotune::new(1448, 6 << 20, ms(0));
        assert!(!autotune.on_segment(Some((1, 40))));
        autotune.on_read(ms(1), 1448);
        // Twenty segments in the first round trip of 40 ms, against an initial ten: 2 · 28960 + 16 · 1448 = 81088, plus
        // twice as much for a sender that doubles its rate: 168 segments of 1492 B.
        autotune.on_read(ms(41), 20 * 1448);
        assert_eq!(autotune.clamp, 168 * WINDOW_PER_SEGMENT);
        // Room for 250656 − 64088 − 1152 bytes, 2896 at a time.
        let grown = (0..200).filter(|_| autotune.on_segment(None)).count();
        assert_eq!(grown, 65);
        // The next round trip reads no more: no growth.
        autotune.on_read(ms(82), 40 * 1448);
        assert!(!autotune.on_segment(None));
    }
}
