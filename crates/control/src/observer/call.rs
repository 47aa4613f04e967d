//! One direction of a call, as it passes the gateway.
//!
//! **Recognised by shape.** RTP of version 2 with one SSRC, [`PROBATION`] packets in a row by sequence, timestamps that
//! advance by one and the same step from packet to packet, and that step, by the codec's clock, 10 to 60 ms and what the
//! packets' arrivals are apart. Ports are not asked. Video fails by its many packets of one timestamp, and by its rate.
//!
//! **Loss** is what sequence numbers leave out (RFC 3550 §A.3). **Delay** is relative: how much longer than the stream's
//! fastest packet (of one to two minutes, so that clocks may drift) a packet took, by timestamp and arrival. **Late** is
//! what is over the playout delay. **Jitter** is RFC 3550 §6.4.1, in time of arrival at the gateway.
//!
//! A stream that comes *out of* the mesh has these behind it: they are the mesh's. One that goes *into* the mesh has only the
//! wired side behind it: what the mesh does to it is not seen here.

use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec, Jitter};

use super::meter::Least;
use crate::digest::RtpFields;

/// Packets in a row before a stream counts as a call: 160 ms at 20 ms each.
pub const PROBATION: u8 = 8;

/// A gap of more is not loss but a stream that begins anew (RFC 3550 §A.1 has 3000; a call that lost two seconds is over).
const MAX_GAP: u16 = 100;

/// 100 ms of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    epoch: u64,
    expected: u16,
    received: u16,
    late: u16,
    delay_sum_us: u64,
    delay_max_us: u32,
}

const BUCKETS: usize = 16;
const BUCKET: Nanos = Nanos::from_millis(100);

/// One direction of what may be a call.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    ssrc: u32,
    payload_type: u8,
    /// Highest sequence number, and which of the 64 up to it have come.
    highest: u16,
    seen: u64,
    timestamp: u32,
    step: u32,
    streak: u8,
    began: Nanos,
    recognised: bool,
    suppresses_silence: bool,
    codec: Codec,
    clock_hz: u32,
    interval: Nanos,
    /// Stream time since `began` in ticks.
    ticks: i64,
    least: Least<i64>,
    /// The same of the last seconds, which clocks that drift do not shift.
    lately: Least<i64>,
    jitter: Jitter,
    last_at: Nanos,
    last_delay: Nanos,
    buckets: [Bucket; BUCKETS],
    pub(crate) lost: u64,
    received: u64,
}

/// How a stream fared over a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Packets that should have come.
    pub expected: u32,
    /// Fraction lost.
    pub loss: f64,
    /// Fraction that came too late to be played, or is overdue by as much.
    pub late: f64,
    /// Mean delay over the fastest packet's.
    pub delay: Nanos,
    /// Greatest such delay, that of a packet that is overdue now among them.
    pub delay_max: Nanos,
    /// RFC 3550 jitter.
    pub jitter: Nanos,
    /// MOS, with the delay that the gateway cannot see taken from the configuration.
    pub mos: f64,
}

/// What the listener is taken to have, and what the gateway cannot see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listening {
    /// Playout delay after the fastest packet.
    pub playout: Nanos,
    /// Delay of the fastest packet from end to end: the gateway sees only differences.
    pub least_delay: Nanos,
}

impl Stream {
    pub(crate) const GENERATION: Nanos = Nanos::from_secs(60);
    const LATELY: Nanos = Nanos::from_secs(1);

    pub(crate) const fn new() -> Self {
        Self {
            ssrc: 0,
            payload_type: 0,
            highest: 0,
            seen: 0,
            timestamp: 0,
            step: 0,
            streak: 0,
            began: Nanos::ZERO,
            recognised: false,
            suppresses_silence: false,
            codec: Codec::G711,
            clock_hz: 8000,
            interval: Nanos::from_millis(20),
            ticks: 0,
            least: Least::new(Self::GENERATION),
            lately: Least::new(Self::LATELY),
            jitter: Jitter::NONE,
            last_at: Nanos::ZERO,
            last_delay: Nanos::ZERO,
            buckets: [Bucket {
                epoch: 0,
                expected: 0,
                received: 0,
                late: 0,
                delay_sum_us: 0,
                delay_max_us: 0,
            }; BUCKETS],
            lost: 0,
            received: 0,
        }
    }

    /// Counts a packet.
    pub(crate) fn update(&mut self, now: Nanos, rtp: &RtpFields, playout: Nanos) {
        let same = self.streak > 0 && rtp.ssrc == self.ssrc && rtp.payload_type == self.payload_type;
        let ahead = rtp.sequence.wrapping_sub(self.highest);
        let gap = ahead.wrapping_sub(1);
        // Telephone events and comfort noise come in between with a payload type of their own (RFC 4733, RFC 3389).
        if self.recognised && rtp.ssrc == self.ssrc && !same {
            self.account(now, ahead, None, playout);
            return;
        }
        if !same || (ahead < 0x8000 && gap > MAX_GAP && ahead != 0) {
            self.restart(now, rtp);
            return;
        }
        if !self.recognised {
            self.on_probation(now, rtp, ahead);
            return;
        }
        if ahead == 1 && rtp.timestamp.wrapping_sub(self.timestamp) > 2 * self.step && rtp.marker {
            self.suppresses_silence = true;
        }
        self.account(now, ahead, Some(rtp.timestamp), playout);
    }

    fn restart(&mut self, now: Nanos, rtp: &RtpFields) {
        let lost = self.lost;
        *self = Self {
            ssrc: rtp.ssrc,
            payload_type: rtp.payload_type,
            highest: rtp.sequence,
            seen: 1,
            timestamp: rtp.timestamp,
            streak: 1,
            began: now,
            last_at: now,
            lost,
            ..Self::new()
        };
    }

    fn on_probation(&mut self, now: Nanos, rtp: &RtpFields, ahead: u16) {
        let step = rtp.timestamp.wrapping_sub(self.timestamp);
        let steady = ahead == 1 && step != 0 && (self.streak == 1 || step == self.step);
        if !steady {
            self.restart(now, rtp);
            return;
        }
        self.highest = rtp.sequence;
        self.timestamp = rtp.timestamp;
        self.step = step;
        self.streak += 1;
        self.last_at = now;
        if self.streak < PROBATION {
            return;
        }
        let apart = Nanos(now.saturating_sub(self.began).0 / u64::from(PROBATION - 1));
        if let Some((codec, clock_hz)) = codec_of(rtp.payload_type, step, apart) {
            self.recognised = true;
            self.codec = codec;
            self.clock_hz = clock_hz;
            self.interval = Nanos(u64::from(step) * 1_000_000_000 / u64::from(clock_hz));
            self.seen = u64::MAX;
            self.began = now;
            self.place(now, 0);
        } else {
            self.restart(now, rtp);
        }
    }

    /// Counts a packet of a call, so many sequence numbers after the highest; `timestamp` if it is one of speech.
    fn account(&mut self, now: Nanos, ahead: u16, timestamp: Option<u32>, playout: Nanos) {
        let bucket = self.bucket_at(now);
        if ahead == 0 || ahead >= 0x8000 {
            // Behind: a duplicate, one that was counted as lost, or one that is too old to tell.
            let behind = ahead.wrapping_neg();
            let bit = 1_u64.checked_shl(u32::from(behind)).unwrap_or(0);
            if bit == 0 || self.seen & bit != 0 {
                return;
            }
            self.seen |= bit;
            self.lost = self.lost.saturating_sub(1);
        } else {
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.highest = self.highest.wrapping_add(ahead);
            self.lost += u64::from(ahead - 1);
            self.buckets[bucket].expected = self.buckets[bucket].expected.saturating_add(ahead);
        }
        self.buckets[bucket].received = self.buckets[bucket].received.saturating_add(1);
        self.received += 1;
        self.last_at = now;
        if let Some(timestamp) = timestamp {
            let ticks = i64::from(timestamp.wrapping_sub(self.timestamp).cast_signed());
            if ahead != 0 && ahead < 0x8000 {
                self.timestamp = timestamp;
                self.ticks += ticks;
                self.place(now, 0);
            } else {
                self.place(now, ticks);
            }
            let bucket = &mut self.buckets[bucket];
            let delay_us = u32::try_from(self.last_delay.0 / 1000).unwrap_or(u32::MAX);
            bucket.delay_sum_us += u64::from(delay_us);
            bucket.delay_max_us = bucket.delay_max_us.max(delay_us);
            bucket.late += u16::from(self.last_delay > playout);
        }
    }

    /// Sets the packet of stream time `ticks` + `offset` against its arrival.
    fn place(&mut self, now: Nanos, offset: i64) {
        let since = i128::from(self.ticks + offset) * 1_000_000_000 / i128::from(self.clock_hz);
        let sent = i64::try_from(since).unwrap_or(i64::MAX);
        let transit = (now.0.wrapping_sub(self.began.0)).cast_signed().saturating_sub(sent);
        self.least.update(now, transit);
        self.lately.update(now, transit);
        let least = self.least.value().unwrap_or(transit);
        self.last_delay = Nanos(transit.saturating_sub(least).max(0).cast_unsigned());
        self.jitter.update(Nanos(self.began.0.wrapping_add(sent.cast_unsigned())), now);
    }

    fn bucket_at(&mut self, now: Nanos) -> usize {
        let epoch = now.div_floor(BUCKET);
        let place = (epoch % BUCKETS as u64) as usize;
        if self.buckets[place].epoch != epoch {
            self.buckets[place] = Bucket { epoch, ..Bucket::default() };
        }
        place
    }

    /// Whether it is a call's.
    pub const fn is_recognised(&self) -> bool {
        self.recognised
    }

    /// Whether it is a call's and has been heard since `horizon`.
    pub fn is_alive(&self, horizon: Nanos) -> bool {
        self.recognised && self.last_at >= horizon
    }

    /// The SSRC.
    pub const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The codec whose impairments are assumed.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Speech in a packet.
    pub const fn interval(&self) -> Nanos {
        self.interval
    }

    /// When packets come that nothing delays, within the interval; none before the first.
    pub fn phase(&self) -> Option<Nanos> {
        let interval = self.interval.0.max(1).cast_signed();
        let at = self.began.0.cast_signed().wrapping_add(self.lately.value()?);
        Some(Nanos(at.rem_euclid(interval).cast_unsigned()))
    }

    /// Ticks a second of the timestamps.
    pub const fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// Packets received and lost since the call was recognised.
    pub const fn counts(&self) -> (u64, u64) {
        (self.received, self.lost)
    }

    /// How it fared over the last `span`, at most 1.5 s, in steps of 100 ms. None of a stream that is no call's.
    ///
    /// Where `expects_more`, a packet that is overdue by more than the playout delay counts as late before it comes, unless
    /// the speaker's side leaves out silence. A stream that has ended expects none.
    pub fn quality(
        &self,
        now: Nanos,
        span: Nanos,
        listening: Listening,
        expects_more: bool,
    ) -> Option<Quality> {
        if !self.recognised {
            return None;
        }
        let newest = now.div_floor(BUCKET);
        let count = span.div_floor(BUCKET).clamp(1, BUCKETS as u64 - 1);
        let (mut expected, mut received, mut late, mut sum, mut max) = (0_u32, 0_u32, 0_u32, 0_u64, 0_u32);
        for bucket in &self.buckets {
            if bucket.epoch <= newest && bucket.epoch + count > newest {
                expected += u32::from(bucket.expected);
                received += u32::from(bucket.received);
                late += u32::from(bucket.late);
                sum += bucket.delay_sum_us;
                max = max.max(bucket.delay_max_us);
            }
        }
        let missing = expected.saturating_sub(received);
        let mut delay_max = Nanos::from_micros(u64::from(max));
        let waited = now.saturating_sub(self.last_at);
        if expects_more && !self.suppresses_silence && waited > self.interval {
            let overdue = waited - self.interval;
            delay_max = delay_max.max(overdue);
            let given_up = overdue.saturating_sub(listening.playout).div_floor(self.interval);
            let given_up = given_up.min(span.div_floor(self.interval)) as u32;
            expected += given_up;
            late += given_up;
        }
        let part = |number: u32| if expected == 0 { 0.0 } else { f64::from(number) / f64::from(expected) };
        let (loss, late_part) = (part(missing), part(late).min(1.0));
        Some(Quality {
            expected,
            loss,
            late: late_part,
            delay: Nanos::from_micros(sum.checked_div(u64::from(received)).unwrap_or(0)),
            delay_max,
            jitter: self.jitter.value(),
            mos: voice::mos(
                self.codec,
                (loss + late_part).min(1.0),
                listening.least_delay,
                listening.playout,
            ),
        })
    }
}

/// Codec and clock of a payload type (RFC 3551 table 4); for dynamic types the clock that makes the step fit the arrivals.
/// None if this is no cadence of a call.
fn codec_of(payload_type: u8, step: u32, apart: Nanos) -> Option<(Codec, u32)> {
    const LEAST: Nanos = Nanos::from_millis(9);
    const MOST: Nanos = Nanos::from_millis(65);
    let of_clock = |hz: u32| Nanos(u64::from(step) * 1_000_000_000 / u64::from(hz));
    // Arrivals may be off by a half: what has been queued comes in a bunch.
    let fits = |hz: u32| {
        let interval = of_clock(hz);
        (LEAST..=MOST).contains(&interval) && apart.0 * 2 >= interval.0 && apart.0 <= interval.0 * 2
    };
    let (codec, clocks): (_, &[u32]) = match payload_type {
        0 | 8 | 9 => (Codec::G711, &[8000]),
        4 => (Codec::G7231, &[8000]),
        18 => (Codec::G729a, &[8000]),
        96.. => (Codec::Opus, &[48_000, 8000, 16_000]),
        _ => (Codec::G711, &[8000, 16_000]),
    };
    let off = |hz: u32| of_clock(hz).0.abs_diff(apart.0);
    let clock = clocks.iter().copied().filter(|&hz| fits(hz)).min_by_key(|&hz| off(hz))?;
    // A dynamic type with a narrowband clock is some narrowband codec.
    Some((if codec == Codec::Opus && clock == 8000 { Codec::G711 } else { codec }, clock))
}
