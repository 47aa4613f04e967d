//! One direction of a call, as it passes the gateway.
//!
//! **Recognition by shape.** RTP of version 2 with one SSRC, [`PROBATION`] packets with consecutive sequence numbers, and
//! timestamps that advance by a constant step. The step is 10 to 60 ms by the codec's clock, and matches the time between
//! arrivals. Ports do not matter. Video does not match: it has many packets with one timestamp, or a clock of 90 kHz. Where several
//! sources share the ports, as in calls of browsers (RFC 8843), the first one that matches is the call; see
//! [`Stream::has_other_sources`].
//!
//! **Loss** is gaps in sequence numbers (RFC 3550 §A.3). **Delay** is relative: how much longer a packet took than the fastest
//! packet of the last one to two minutes (clocks may drift), by timestamp and arrival. A packet is **late** if its delay is
//! over the playout delay. **Jitter** is that of RFC 3550 §6.4.1, by time of arrival at the gateway.
//!
//! For a stream *out of* the mesh, these are the mesh's effects. A stream *into* the mesh has crossed only the wired side:
//! the mesh's effects on it are not visible here.

use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec, Jitter};

use super::meter::WindowedMin;
use crate::digest::RtpFields;

/// Consecutive packets before a stream counts as a call: 160 ms at 20 ms each.
pub const PROBATION: u8 = 8;

/// Maximum number of lost packets in a row, and of packets by which one is behind; beyond that, the sender has begun to number anew
/// (RFC 3550 §A.1 has 3000 and 100; a call that lost two seconds is over).
const MAX_GAP: u16 = 100;

/// Packets of another payload type in a row after which the codec has changed: telephone events, which have a type of their own
/// (RFC 4733), last no two seconds.
const MAX_OTHERS: u8 = 100;

/// The payload type of comfort noise (RFC 3389).
const COMFORT_NOISE: u8 = 13;

/// A longer jump of the timestamps is no pause of the speaker.
const MAX_PAUSE: Nanos = Nanos::from_secs(30);

/// Timestamps that disagree with the arrivals by more have been set anew, as after a transfer of the call: no queue holds so much.
const MAX_STEP: Nanos = Nanos::from_secs(5);

/// A call that is silent for longer gives its place to another source of the same ports: packets of comfort noise are 400 ms apart
/// (RFC 6716 §2.1.9).
const REPLACED: Nanos = Nanos::from_millis(500);

/// The same for a source that is not yet recognised: three packets of 60 ms.
const GIVEN_UP: Nanos = Nanos::from_millis(200);

/// Count of packets of other sources, from which they are more than some strays. Each counts four, and each one of the call takes
/// one away, so that a quarter of the call's packets is enough.
const OTHER_SOURCES: u8 = 64;

/// A stream that is silent for longer is not overdue any more: the speaker may suppress silence, which only the next packet
/// tells.
const MAX_OVERDUE: Nanos = Nanos::from_millis(400);

/// A stream without a pause for so long is expected to have none. Talk spurts are exponential with a mean of 1 s (ITU-T
/// P.59): one in fifty is longer.
const CONTINUOUS: Nanos = Nanos::from_secs(4);

/// Time over which a clock has shown itself: a queue that grows by a second meanwhile changes it by a third, where clocks are a
/// factor of three apart.
pub const CLOCK_SHOWN: Nanos = Nanos::from_secs(4);

/// Counts of 100 ms of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Number of the 100 ms, which begins anew after 109 minutes: see [`Stream::is_stale`].
    epoch: u16,
    expected: u16,
    received: u16,
    late: u16,
    delay_sum_us: u32,
    delay_max_us: u32,
}

/// A stream is judged over a second at most, and the 100 ms that have begun.
const BUCKETS: usize = 12;
const BUCKET: Nanos = Nanos::from_millis(100);

/// One direction of a flow that may be a call.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    ssrc: u32,
    payload_type: u8,
    /// Highest sequence number, and a bit for each of the 64 up to it that has arrived.
    highest: u16,
    seen: u64,
    timestamp: u32,
    step: u32,
    streak: u8,
    began: Nanos,
    recognised: bool,
    suppresses_silence: bool,
    /// Packets of another payload type in a row, and the count of those of other sources ([`OTHER_SOURCES`]).
    others: u8,
    foreign: u8,
    /// The sequence number that shows that the sender has begun to number anew.
    resumes_at: Option<u16>,
    /// Packets have passed unseen since the last one.
    was_blind: bool,
    codec: Codec,
    clock_hz: u32,
    /// The clock has been compared with the arrivals of [`CLOCK_SHOWN`].
    is_clock_known: bool,
    interval: Nanos,
    /// Stream time since `began` in ticks.
    ticks: i64,
    /// Minimum of the transit times, and the same over the last seconds, which clock drift does not shift.
    min: WindowedMin<i64>,
    recent_min: WindowedMin<i64, 1>,
    jitter: Jitter,
    last_at: Nanos,
    last_delay: Nanos,
    buckets: [Bucket; BUCKETS],
    lost: u32,
    received: u32,
}

/// How a stream fared over a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Packets that should have arrived.
    pub expected: u32,
    /// Fraction lost.
    pub loss: f64,
    /// Fraction that arrived too late to be played, or is overdue by that much.
    pub late: f64,
    /// Mean delay over that of the fastest packet.
    pub delay: Nanos,
    /// Maximum such delay; a packet that is overdue now counts too.
    pub delay_max: Nanos,
    /// RFC 3550 jitter.
    pub jitter: Nanos,
    /// MOS, with the configured delay of the fastest packet.
    pub mos: f64,
}

/// Assumptions about the listener, and about what the gateway cannot see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listening {
    /// Playout delay after the fastest packet.
    pub playout: Nanos,
    /// End-to-end delay of the fastest packet: the gateway sees only differences.
    pub min_delay: Nanos,
}

impl Listening {
    /// MOS of a stream of which the fraction `missing` is lost or late; what is over 1 counts as 1.
    pub fn mos(&self, codec: Codec, missing: f64) -> f64 {
        voice::mos(codec, missing.min(1.0), self.min_delay, self.playout)
    }
}

impl Stream {
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
            others: 0,
            foreign: 0,
            resumes_at: None,
            was_blind: false,
            codec: Codec::G711,
            clock_hz: 8000,
            is_clock_known: false,
            interval: Nanos::from_millis(20),
            ticks: 0,
            min: WindowedMin::new(),
            recent_min: WindowedMin::new(),
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
        if self.streak == 0 || rtp.ssrc != self.ssrc {
            self.on_other_source(now, rtp);
            return;
        }
        self.foreign = self.foreign.saturating_sub(1);
        let ahead = rtp.sequence.wrapping_sub(self.highest);
        if !self.recognised {
            self.on_probation(now, rtp, ahead);
            return;
        }
        if std::mem::take(&mut self.was_blind) {
            self.resume(now, rtp);
            return;
        }
        let distance = if ahead < 0x8000 { ahead } else { ahead.wrapping_neg() };
        if distance > MAX_GAP {
            let resumes_at = self.resumes_at.replace(rtp.sequence.wrapping_add(1));
            if resumes_at == Some(rtp.sequence) {
                self.resume(now, rtp);
            }
            return;
        }
        self.resumes_at = None;
        if rtp.payload_type == COMFORT_NOISE && self.payload_type != COMFORT_NOISE {
            self.suppresses_silence = true;
            self.account(now, ahead, None, playout);
            return;
        }
        if rtp.payload_type != self.payload_type {
            self.others += 1;
            if self.others == MAX_OTHERS {
                self.restart(now, rtp);
            } else {
                self.account(now, ahead, None, playout);
            }
            return;
        }
        // With all packets there, time without any is a pause. Some senders set no marker after it. Telephone events take time, too.
        let follows_speech = std::mem::take(&mut self.others) == 0;
        let step = rtp.timestamp.wrapping_sub(self.timestamp);
        if ahead == 1 && follows_speech && step > 2 * self.step && self.time_of(step) < MAX_PAUSE {
            self.suppresses_silence = true;
        }
        self.account(now, ahead, Some(rtp.timestamp), playout);
    }

    /// What packets without numbers of their own have in common ([`super::opaque`]).
    pub(super) const INFERRED: RtpFields =
        RtpFields { payload_type: 96, marker: false, sequence: 0, timestamp: 0, ssrc: 0, payload_bytes: 0 };

    /// Belongs to a call from now on whose packets have inferred numbers. This one has sequence number and timestamp 0; timestamps advance
    /// by `step`.
    pub(super) fn follow(&mut self, now: Nanos, step: u32, clock_hz: u32) {
        self.restart(now, &Self::INFERRED);
        (self.recognised, self.is_clock_known) = (true, true);
        (self.streak, self.seen, self.step) = (PROBATION, u64::MAX, step);
        self.begin(now, (Codec::Opus, clock_hz));
        self.compare(now, 0);
    }

    /// Packets have passed unseen: the next one begins the numbers anew.
    pub(crate) const fn on_blind(&mut self) {
        self.was_blind = true;
    }

    /// Takes a packet of another source than the one that is followed.
    fn on_other_source(&mut self, now: Nanos, rtp: &RtpFields) {
        let kept_for = if self.recognised { REPLACED } else { GIVEN_UP };
        if self.streak > 0 && now.saturating_sub(self.last_at) < kept_for {
            self.foreign = self.foreign.saturating_add(4);
            return;
        }
        if self.recognised {
            self.foreign = 0;
        }
        self.restart(now, rtp);
    }

    /// The sender numbers anew: what was counted stays, and delays are measured from here.
    fn resume(&mut self, now: Nanos, rtp: &RtpFields) {
        self.resumes_at = None;
        (self.highest, self.seen, self.timestamp) = (rtp.sequence, u64::MAX, rtp.timestamp);
        self.last_at = now;
        self.begin(now, (self.codec, self.clock_hz));
        self.compare(now, 0);
    }

    fn time_of(&self, ticks: u32) -> Nanos {
        Nanos(u64::from(ticks) * 1_000_000_000 / u64::from(self.clock_hz))
    }

    fn restart(&mut self, now: Nanos, rtp: &RtpFields) {
        let (lost, foreign) = (self.lost, self.foreign);
        *self = Self {
            ssrc: rtp.ssrc,
            payload_type: rtp.payload_type,
            highest: rtp.sequence,
            seen: 1,
            timestamp: rtp.timestamp,
            streak: 1,
            began: now,
            last_at: now,
            foreign,
            lost,
            ..Self::new()
        };
    }

    fn on_probation(&mut self, now: Nanos, rtp: &RtpFields, ahead: u16) {
        let step = rtp.timestamp.wrapping_sub(self.timestamp);
        let is_same = rtp.payload_type == self.payload_type && ahead == 1;
        let is_steady = is_same && step != 0 && (self.streak == 1 || step == self.step);
        if !is_steady {
            self.fail_probation(now, rtp);
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
        if let Cadence::Voice(codec, clock_hz) = Cadence::of(rtp.payload_type, step, apart) {
            self.recognised = true;
            self.seen = u64::MAX;
            self.begin(now, (codec, clock_hz));
            self.compare(now, 0);
        } else {
            self.fail_probation(now, rtp);
        }
    }

    /// Tries again from this packet. Where there are other sources, the next packet decides which one is tried.
    fn fail_probation(&mut self, now: Nanos, rtp: &RtpFields) {
        self.restart(now, rtp);
        if self.foreign > 0 {
            self.streak = 0;
        }
    }

    /// Measures delays from now on, by this clock.
    fn begin(&mut self, now: Nanos, (codec, clock_hz): (Codec, u32)) {
        (self.codec, self.clock_hz) = (codec, clock_hz);
        self.interval = Nanos(u64::from(self.step) * 1_000_000_000 / u64::from(clock_hz));
        (self.began, self.ticks) = (now, 0);
        self.min = WindowedMin::new();
        self.recent_min = WindowedMin::new();
        self.jitter = Jitter::NONE;
    }

    /// A call that begins while a queue grows or drains may seem to have another clock. Its delays would then seem to fall or
    /// grow for ever. The clock is known once it agrees with the arrivals. Video that seemed to be a call is one no more.
    fn check_clock(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.began);
        if self.is_clock_known || elapsed < CLOCK_SHOWN {
            return;
        }
        let ticks = u64::try_from(self.ticks).unwrap_or(0).max(1);
        let apart = Nanos(elapsed.0.saturating_mul(u64::from(self.step)) / ticks);
        self.is_clock_known = misfit(self.interval, apart) < CLOCK_AGREES;
        match Cadence::of(self.payload_type, self.step, apart) {
            Cadence::Voice(codec, hz) if hz != self.clock_hz => {
                self.is_clock_known = false;
                self.begin(now, (codec, hz));
            }
            Cadence::Video => (self.recognised, self.streak) = (false, 0),
            _ => {}
        }
    }

    /// Counts a packet of a call that is `ahead` sequence numbers after the highest; `timestamp` if it carries speech.
    fn account(&mut self, now: Nanos, ahead: u16, timestamp: Option<u32>, playout: Nanos) {
        let bucket = self.bucket_at(now);
        if ahead == 0 || ahead >= 0x8000 {
            // Behind: a duplicate, a packet that was counted as lost, or one too old to know.
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
            self.lost = self.lost.saturating_add(u32::from(ahead - 1));
            self.buckets[bucket].expected = self.buckets[bucket].expected.saturating_add(ahead);
        }
        self.buckets[bucket].received = self.buckets[bucket].received.saturating_add(1);
        self.received = self.received.saturating_add(1);
        let previous = std::mem::replace(&mut self.last_at, now);
        if let Some(timestamp) = timestamp {
            let ticks = i64::from(timestamp.wrapping_sub(self.timestamp).cast_signed());
            if ahead != 0 && ahead < 0x8000 {
                self.timestamp = timestamp;
                let expected = i64::try_from(now.saturating_sub(previous).0).unwrap_or(i64::MAX);
                let step = ticks.saturating_mul(1_000_000_000) / i64::from(self.clock_hz);
                if step.abs_diff(expected) > MAX_STEP.0 {
                    self.begin(now, (self.codec, self.clock_hz));
                    self.compare(now, 0);
                    return;
                }
                self.ticks += ticks;
                self.check_clock(now);
                self.compare(now, 0);
            } else {
                self.compare(now, ticks);
            }
            let bucket = &mut self.buckets[bucket];
            let delay_us = u32::try_from(self.last_delay.0 / 1000).unwrap_or(u32::MAX);
            bucket.delay_sum_us = bucket.delay_sum_us.saturating_add(delay_us);
            bucket.delay_max_us = bucket.delay_max_us.max(delay_us);
            bucket.late += u16::from(self.last_delay > playout);
        }
    }

    /// Compares the stream time `ticks` + `offset` of a packet with its arrival.
    fn compare(&mut self, now: Nanos, offset: i64) {
        let since = i128::from(self.ticks + offset) * 1_000_000_000 / i128::from(self.clock_hz);
        let sent = i64::try_from(since).unwrap_or(i64::MAX);
        let transit = (now.0.wrapping_sub(self.began.0)).cast_signed().saturating_sub(sent);
        self.min.update(now, transit);
        self.recent_min.update(now, transit);
        let min = self.min.value().unwrap_or(transit);
        self.last_delay = Nanos(transit.saturating_sub(min).max(0).cast_unsigned());
        self.jitter.update(Nanos(self.began.0.wrapping_add(sent.cast_unsigned())), now);
    }

    fn bucket_at(&mut self, now: Nanos) -> usize {
        if self.is_stale(now) {
            self.buckets = <_>::default();
        }
        let number = now.div_floor(BUCKET);
        let (epoch, place) = (number as u16, (number % BUCKETS as u64) as usize);
        if self.buckets[place].epoch != epoch {
            self.buckets[place] = Bucket { epoch, ..Bucket::default() };
        }
        place
    }

    /// Whether all counts are of the past.
    fn is_stale(&self, now: Nanos) -> bool {
        now.saturating_sub(self.last_at) > BUCKET * BUCKETS as u64
    }

    /// Whether it belongs to a call.
    pub const fn is_recognised(&self) -> bool {
        self.recognised
    }

    /// Whether it belongs to a call and a packet has arrived since `horizon`.
    pub fn is_alive(&self, horizon: Nanos) -> bool {
        self.recognised && self.is_heard(horizon)
    }

    /// Whether a packet of this source has arrived since `horizon`.
    pub(crate) fn is_heard(&self, horizon: Nanos) -> bool {
        self.last_at >= horizon
    }

    /// The SSRC.
    pub const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Whether the speaker sends nothing while silent.
    pub const fn suppresses_silence(&self) -> bool {
        self.suppresses_silence
    }

    /// Whether it is a stream of a call that is old enough to know, and its speaker does not pause.
    pub fn is_continuous(&self) -> bool {
        self.recognised && !self.suppresses_silence && self.last_at.saturating_sub(self.began) > CONTINUOUS
    }

    /// Whether other sources send on the same ports about as much or more, such as the video of the call.
    pub const fn has_other_sources(&self) -> bool {
        self.recognised && self.foreign >= OTHER_SOURCES
    }

    /// The codec whose impairments are used for MOS.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Time between packets.
    pub const fn interval(&self) -> Nanos {
        self.interval
    }

    /// When undelayed packets arrive, as an offset within the interval; none before the first packet.
    pub fn phase(&self) -> Option<Nanos> {
        let interval = self.interval.0.max(1).cast_signed();
        let at = self.began.0.cast_signed().wrapping_add(self.recent_min.value()?);
        Some(Nanos(at.rem_euclid(interval).cast_unsigned()))
    }

    /// By how much the fastest packets of the last two seconds were later than the fastest one; none before the first packet.
    pub(super) fn standing_delay(&self) -> Option<Nanos> {
        let (min, recent) = self.min.value().zip(self.recent_min.value()).filter(|_| self.recognised)?;
        Some(Nanos(recent.saturating_sub(min).max(0).cast_unsigned()))
    }

    /// Measures delays from the fastest packets of the last two seconds on.
    pub(super) fn forget_minimum(&mut self, now: Nanos) {
        self.min = WindowedMin::new();
        if let Some(recent) = self.recent_min.value() {
            self.min.update(now, recent);
        }
    }

    /// Ticks per second of the timestamps.
    pub const fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// Packets received and lost since the call was recognised.
    pub const fn counts(&self) -> (u32, u32) {
        (self.received, self.lost)
    }

    /// Its quality over the last `span` (at most 1.1 s, in steps of 100 ms). None if the stream belongs to no call.
    ///
    /// With `expects_more`, packets that are overdue by more than the playout delay count as late before they arrive, unless
    /// the speaker suppresses silence, or the stream is too young to know. A stream that has ended expects none.
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
        let newest = now.div_floor(BUCKET) as u16;
        let count = span.div_floor(BUCKET).clamp(1, BUCKETS as u64 - 1) as u16;
        let (mut expected, mut received, mut late, mut sum, mut max) = (0_u32, 0_u32, 0_u32, 0_u64, 0_u32);
        for bucket in self.buckets.iter().filter(|_| !self.is_stale(now)) {
            if newest.wrapping_sub(bucket.epoch) < count {
                expected += u32::from(bucket.expected);
                received += u32::from(bucket.received);
                late += u32::from(bucket.late);
                sum += u64::from(bucket.delay_sum_us);
                max = max.max(bucket.delay_max_us);
            }
        }
        let missing = expected.saturating_sub(received);
        let mut delay_max = Nanos::from_micros(u64::from(max));
        let waited = now.saturating_sub(self.last_at);
        if expects_more && self.is_continuous() && waited > self.interval && waited < MAX_OVERDUE {
            let overdue = waited - self.interval;
            delay_max = delay_max.max(overdue);
            let missing = overdue.saturating_sub(listening.playout).div_floor(self.interval);
            let missing = missing.min(span.div_floor(self.interval)) as u32;
            expected += missing;
            late += missing;
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
            mos: listening.mos(self.codec, loss + late_part),
        })
    }
}

/// Relative distance of the time between packets by the clock from that between arrivals, at which a clock is confirmed.
const CLOCK_AGREES: f64 = 0.15;

/// What the distances of packets and of their timestamps show.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cadence {
    /// A codec and the clock of its timestamps in Hz.
    Voice(Codec, u32),
    /// A clock of 90 kHz (RFC 3551 §5).
    Video,
    /// Neither.
    Other,
}

impl Cadence {
    /// That of a payload type (RFC 3551 tables 4 and 5). For dynamic types, the clock with which the step fits the arrivals best; one
    /// that is rare among codecs, or that of video, only if it fits well and no common one does.
    fn of(payload_type: u8, step: u32, apart: Nanos) -> Self {
        /// Codecs have 10 to 60 ms per packet.
        const MIN: Nanos = Nanos::from_millis(9);
        const MAX: Nanos = Nanos::from_millis(65);
        /// Misfit of a clock that is possible, since queued packets arrive in bursts; that rules a common one out; and of a good fit.
        const POSSIBLE: f64 = 1.0;
        const DOUBTFUL: f64 = 0.25;
        const GOOD: f64 = 0.1;
        const VIDEO_HZ: u32 = 90_000;
        let of_clock = |hz: u32| Nanos(u64::from(step) * 1_000_000_000 / u64::from(hz));
        let misfit = |hz: u32| misfit(of_clock(hz), apart);
        let (codec, common, rare): (_, &[u32], &[u32]) = match payload_type {
            0 | 8 | 9 => (Codec::G711, &[8000], &[]),
            4 => (Codec::G7231, &[8000], &[]),
            18 => (Codec::G729a, &[8000], &[]),
            25 | 26 | 28 | 31..=34 => return Self::Video,
            // Opus, wideband and narrowband codecs; rarely those between, such as G.722.1C.
            96.. => (Codec::Opus, &[48_000, 8000, 16_000], &[32_000, 24_000, 12_000, VIDEO_HZ]),
            _ => (Codec::G711, &[8000, 16_000], &[]),
        };
        let is_voice = |hz: u32| (MIN..=MAX).contains(&of_clock(hz));
        let possible = common.iter().copied().filter(|&hz| is_voice(hz) && misfit(hz) <= POSSIBLE);
        let common = possible.min_by_key(|&hz| of_clock(hz).0.abs_diff(apart.0));
        let rare = rare.iter().copied().find(|&hz| misfit(hz) < GOOD);
        match rare.filter(|_| common.is_none_or(|hz| misfit(hz) > DOUBTFUL)).or(common) {
            Some(VIDEO_HZ) => Self::Video,
            // A dynamic type with a narrowband clock is a narrowband codec.
            Some(8000) if codec == Codec::Opus => Self::Voice(Codec::G711, 8000),
            Some(hz) if is_voice(hz) => Self::Voice(codec, hz),
            _ => Self::Other,
        }
    }
}

/// Relative difference of two times between packets, over the shorter one.
fn misfit(a: Nanos, b: Nanos) -> f64 {
    let (a, b) = (a.0.max(1) as f64, b.0.max(1) as f64);
    (a / b).max(b / a) - 1.0
}
