//! Calls whose protocol is not known: programs with a protocol of their own, and telephones behind a tunnel. Their packets show no
//! sequence numbers, but the times at which they were sent are known: sound is cut into frames of 10 to 60 ms by the clock of an audio
//! device, whatever encodes and encrypts it.
//!
//! **Recognition.** Over [`WINDOW`], the times of a flow's packets are taken as angles on a circle that has the interval as its
//! circumference. If they have a common direction, the flow has that interval: the Rayleigh test, n R² for n packets with a mean
//! resultant of length R, has [`LOCKED`] or more (Mardia, Jupp, Directional Statistics, §6.3.1). Losses and pauses do not matter, only
//! jitter: at 20 ms, a standard deviation of up to 4.8 ms. A stream with more jitter, as out of the mesh, is taken to have the interval
//! of the other direction.
//!
//! **Sequence numbers** are then inferred: see [`Slots`]. [`Stream`] gets them as those of RTP, so that such a call is judged as any
//! other.
//!
//! **Beside other data**, as in the tunnel of a whole computer, only packets of [`SOUND_BYTES`] are looked at: data fills larger ones, and
//! acknowledgments are smaller. Frames of video, which come at the times of a clock, end with packets of that size too, but not all of
//! them do. So most packets of the interval have to be there ([`BESIDE_DATA`]).
//!
//! Before they are a call, the pacer already lets them pass the data ([`Opaque::may_have_sound`]): behind it they would come at its times, or
//! be dropped with it.
//!
//! **What is not recognised:** two calls in one tunnel, a call beside other data whose packets are as small as acknowledgments (G.729A, AMR),
//! and intervals that are not those of codecs. A game at 50 packets a second is taken for a call; it needs the same.

use std::f32::consts::TAU;

use fairhop_model::units::Nanos;

use super::call::Stream;
use crate::digest::RtpFields;

/// Time over which the angles are summed. A clock that is wrong by more than 0.4 % turns too far in it, at 20 ms: that of a program that
/// sleeps between its packets. With half, it is 0.7 %; with double, 0.2 %, and calls are known 4 s later.
const WINDOW: Nanos = Nanos::from_secs(4);
/// The statistic from which packets have an interval in common: one window of a flow without any in 10⁸ has as much. With half it is
/// one in 4,000, which is one in five hours; with double, jitter may be 4.0 ms.
const LOCKED: f32 = 20.0;
/// The same before the end of a window, from so many packets on: a call with little jitter is known after a second. A clock that is wrong by
/// less than 0.8 % may have as much then; the whole window has to confirm it. With half of the packets, and of the statistic, it is 1.5 %
/// and half a second; with double, 0.4 % and two seconds.
const EARLY_LOCKED: f32 = 30.0;
const EARLY: u32 = 50;
/// Common multiple of all intervals.
const CIRCLE: Nanos = Nanos::from_millis(120);
/// Intervals, and how often each fits into the circle. A stream also has the shorter ones that divide its own, so that the longest one
/// counts.
const INTERVALS: [(Nanos, usize); 5] = [
    (Nanos::from_millis(60), 2),
    (Nanos::from_millis(40), 3),
    (Nanos::from_millis(30), 4),
    (Nanos::from_millis(20), 6),
    (Nanos::from_millis(10), 12),
];
/// Packets of a window relative to those of an unbroken stream: at least, with pauses and losses, and at most, with keep-alives.
const PACKETS: std::ops::RangeInclusive<f32> = 0.3..=1.2;
/// Longer packets are no sound: IP bytes.
pub(super) const MAX_BYTES: u32 = 600;
/// IP bytes of packets that may be sound beside other data. In WireGuard, acknowledgments with time stamps have 124, and 140 with selective
/// ones; Opus at 24 kb/s has 172, G.711 268. With half of the minimum, acknowledgments count; with double, Opus does not.
pub const SOUND_BYTES: std::ops::Range<u32> = 150..MAX_BYTES;
/// The minimum of [`PACKETS`] beside other data. A frame of video ends with a packet of random length, and 0.4 of these have
/// [`SOUND_BYTES`]. With half of the minimum, video may be taken for a call; with double, no call has so many packets.
const BESIDE_DATA: f32 = 0.8;
/// Beside other data, a call is recognised only if the other end has sent such a packet in this time. Half or double makes no difference
/// while both ends send.
const HEARD: Nanos = Nanos::from_secs(1);
/// Large packets in [`WINDOW`] from which a flow has other data: 60 kb/s. With half, and with double, it is half and double of that.
const MANY: u16 = 20;
/// Part of the packets of a window that may be missing where the window itself does not show the interval. If more seem to be, the
/// sender has another interval by now.
const MAX_MISSING: f32 = 0.4;

/// A UDP flow whose protocol is not known.
#[derive(Debug, Default)]
pub(super) struct Opaque {
    down: Half,
    up: Half,
    /// Only packets that may be sound beside other data are looked at.
    is_beside_data: bool,
}

/// The large packets of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Large {
    /// When the present window began.
    began: Nanos,
    packets: u16,
    /// The window before had many.
    had_many: bool,
}

impl Large {
    pub(super) const NONE: Self = Self { began: Nanos::ZERO, packets: 0, had_many: false };

    /// Counts a packet of the flow.
    pub(super) const fn add(&mut self, at: Nanos, bytes: u32) {
        let age = at.saturating_sub(self.began).0;
        if age >= WINDOW.0 {
            let had_many = self.packets >= MANY && age < 2 * WINDOW.0;
            *self = Self { began: at, packets: 0, had_many };
        }
        if bytes >= MAX_BYTES {
            self.packets = self.packets.saturating_add(1);
        }
    }

    /// Whether the flow has other data than sound.
    pub(super) const fn are_many(&self) -> bool {
        self.had_many || self.packets >= MANY
    }
}

/// One direction of it.
#[derive(Debug, Default)]
struct Half {
    window: Window,
    /// The packets by number, where the direction belongs to a call.
    slots: Option<Slots>,
    /// Its interval was known before the end of a window, which has not yet confirmed it.
    is_early: bool,
    /// An interval that was assumed, or known early, did not fit: the next one has to be shown by a whole window.
    differs: bool,
    /// The last window was not that of a call.
    was_bulk: bool,
}

/// What the packets of some time have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Nanos,
    last: Nanos,
    packets: u32,
    bytes: u32,
    /// Sums of cosines and sines for each of [`INTERVALS`].
    sums: [(f32, f32); INTERVALS.len()],
}

/// The packets of a direction by number.
///
/// A packet takes the next slot, one interval after the last one. What comes 0.75 intervals or more after its slot four times in a row
/// shows that a packet is missing, and the slots move on by one. What comes half an interval before its slot takes one that was left
/// out: then the packets before had waited in a queue. So losses are seen 80 ms late, and a queue that begins looks like losses, which
/// are taken back when it ends.
#[derive(Debug)]
struct Slots {
    interval: Nanos,
    /// When the last slot was due, for a packet without delay.
    due: Nanos,
    /// When the last packet passed; zero before the first one.
    last: Nanos,
    sequence: u16,
    timestamp: u32,
    /// By how much the last packet came before its slot. It may be no sound, such as a keep-alive, so that only two in a row show that slots
    /// are due earlier.
    earlier: Nanos,
    /// Delays of the last packets, of which the first `known` count.
    delays: [Nanos; Self::DELAYS],
    known: u8,
    /// Sequence numbers that were left out last, of which the first `skipped` count.
    holes: [u16; Self::HOLES],
    skipped: u8,
    /// Slots taken and left out in this window.
    taken: u32,
    missing: u32,
    /// Packets without a slot count four, and each other one takes one away.
    excess: u8,
}

impl Opaque {
    /// Whether a packet may be sound, beside other data or not.
    pub(super) fn counts(bytes: u32, is_beside_data: bool) -> bool {
        !is_beside_data || SOUND_BYTES.contains(&bytes)
    }

    /// Looks at other packets from now on, if the flow has begun to have other data.
    pub(super) fn look_beside_data(&mut self, is_beside_data: bool) {
        if self.is_beside_data != is_beside_data {
            *self = Self { is_beside_data, ..Self::default() };
        }
    }

    /// Whether both ends send packets that may be sound beside other data, as many as of a call; none if that is not known.
    pub(super) fn may_have_sound(&self) -> Option<bool> {
        /// Packets of each end that tell it: 0.16 s at 20 ms. With half, or double, so does half or double of that time.
        const ENOUGH: u32 = 8;
        let windows = [&self.down.window, &self.up.window];
        let is_known = windows.iter().all(|window| window.packets >= ENOUGH);
        is_known.then(|| {
            self.is_beside_data
                && windows
                    .iter()
                    .all(|window| INTERVALS.iter().any(|&(interval, _)| window.fits(interval, BESIDE_DATA)))
        })
    }

    /// The flow is new: what is known is of one that was forgotten.
    pub(super) fn begin(&mut self) {
        (self.down.slots, self.up.slots) = (None, None);
    }

    /// Takes a packet, with the streams of both directions. Returns whether the flow is a call.
    pub(super) fn update(
        &mut self,
        at: Nanos,
        bytes: u32,
        to_mesh: bool,
        (down, up): (&mut Stream, &mut Stream),
        playout: Nanos,
    ) -> bool {
        let (half, other, stream, twin) = match to_mesh {
            true => (&mut self.down, &mut self.up, down, up),
            false => (&mut self.up, &mut self.down, up, down),
        };
        let least = if self.is_beside_data { BESIDE_DATA } else { *PACKETS.start() };
        let over = half.window.add(at, bytes);
        // Acknowledgments of bulk data may be as regular as sound, and as large. Beside other data, both ends of a call are heard.
        let is_beside_bulk = || other.is_bulk(at) || (self.is_beside_data && !other.is_heard(at));
        let assumed = || other.slots.as_ref().map(|slots| slots.interval);
        if let Some(window) = over {
            half.was_bulk = window.is_bulk();
            let is_withdrawn = half.look(&window, least, is_beside_bulk(), assumed(), stream);
            if half.was_bulk || is_withdrawn {
                other.stop(twin);
                other.differs = true;
            }
        } else if half.slots.is_none() && !half.differs && half.window.may_show_early() {
            half.look_early(least, is_beside_bulk(), assumed());
        }
        if let Some(slots) = &mut half.slots {
            let fits = slots.update(at, bytes, stream, playout);
            if !fits {
                half.stop(stream);
                other.stop(twin);
                (half.differs, other.differs) = (true, true);
            }
        }
        half.slots.is_some() || other.slots.is_some()
    }
}

impl Half {
    /// Looks at a window that is over. It has to have the part `least` of the packets of its interval; `assumed` is the interval of the
    /// other direction. Returns whether an interval that seemed to be known early is none.
    fn look(
        &mut self,
        window: &Window,
        least: f32,
        is_beside_bulk: bool,
        assumed: Option<Nanos>,
        stream: &mut Stream,
    ) -> bool {
        let own = window.interval(LOCKED, least).filter(|_| !is_beside_bulk);
        let is_withdrawn = std::mem::take(&mut self.is_early) && own.is_none();
        if let Some(slots) = &mut self.slots {
            let missing = slots.missing as f32 / (slots.taken + slots.missing).max(1) as f32;
            (slots.taken, slots.missing) = (0, 0);
            let is_wrong = own.map_or(missing > MAX_MISSING, |own| own != slots.interval);
            if self.was_bulk || is_wrong || is_withdrawn {
                self.stop(stream);
                self.differs = true;
            }
        }
        if self.slots.is_none() && !is_withdrawn {
            self.differs &= own.is_none();
            self.begin(window, own, assumed);
        }
        is_withdrawn
    }

    /// Looks at a window that is not over.
    fn look_early(&mut self, least: f32, is_beside_bulk: bool, assumed: Option<Nanos>) {
        let window = self.window;
        let own = window.interval(EARLY_LOCKED, least).filter(|_| !is_beside_bulk);
        self.is_early = own.is_some();
        self.begin(&window, own, assumed);
    }

    /// Belongs to a call from now on, if it has an interval of its own or may have the assumed one.
    fn begin(&mut self, window: &Window, own: Option<Nanos>, assumed: Option<Nanos>) {
        let assumed = assumed.filter(|&interval| !self.differs && window.fits(interval, *PACKETS.start()));
        self.slots = own.or(assumed).map(Slots::new);
    }

    /// Whether it has lately been no direction of a call.
    fn is_bulk(&self, now: Nanos) -> bool {
        let is_recent = now.saturating_sub(self.window.last) < WINDOW * 2;
        is_recent && (self.was_bulk || self.window.is_bulk())
    }

    /// Whether a packet has passed lately.
    fn is_heard(&self, now: Nanos) -> bool {
        self.window.packets > 0 && now.saturating_sub(self.window.last) < HEARD
    }

    fn stop(&mut self, stream: &mut Stream) {
        if self.slots.take().is_some() {
            *stream = Stream::new();
        }
    }
}

impl Window {
    /// Counts a packet. Returns the window if it is over; the packet is the first of the next one then.
    fn add(&mut self, at: Nanos, bytes: u32) -> Option<Self> {
        let is_over = at.saturating_sub(self.began) >= WINDOW;
        let was_silent = at.saturating_sub(self.last) >= WINDOW;
        let before = (is_over && !was_silent && self.packets > 0).then_some(*self);
        if is_over || was_silent {
            *self = Self { began: at, ..Self::default() };
        }
        self.last = at;
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let (sin, cos) = ((at.0 % CIRCLE.0) as f32 / CIRCLE.0 as f32 * TAU).sin_cos();
        // The angle of an interval that fits k times into the circle is k times that of the circle.
        let (mut times, mut power) = (0, (1.0_f32, 0.0_f32));
        for ((_, fits), sum) in INTERVALS.iter().zip(&mut self.sums) {
            while times < *fits {
                power = (power.0 * cos - power.1 * sin, power.0 * sin + power.1 * cos);
                times += 1;
            }
            *sum = (sum.0 + power.0, sum.1 + power.1);
        }
        before
    }

    /// Whether it is worth a look before its end.
    const fn may_show_early(&self) -> bool {
        self.packets >= EARLY && self.packets.is_multiple_of(EARLY / 2)
    }

    /// The interval that its packets have in common, with that statistic or more, and that part of its packets.
    fn interval(&self, statistic: f32, least: f32) -> Option<Nanos> {
        let packets = self.packets as f32;
        let locked = |(cos, sin): (f32, f32)| (cos * cos + sin * sin) / packets >= statistic;
        let mut intervals = INTERVALS.iter().zip(self.sums);
        intervals
            .find(|&(&(interval, _), sum)| self.fits(interval, least) && locked(sum))
            .map(|((interval, _), _)| *interval)
    }

    /// Whether a stream with that interval may have these packets, if it has the part `least` of its own.
    fn fits(&self, interval: Nanos, least: f32) -> bool {
        let all = self.last.saturating_sub(self.began).0 as f32 / interval.0 as f32;
        (least..=*PACKETS.end()).contains(&(self.packets as f32 / all.max(1.0))) && !self.has_large_packets()
    }

    fn has_large_packets(&self) -> bool {
        self.bytes / self.packets.max(1) >= MAX_BYTES
    }

    /// Whether no call sends so large packets, or so many.
    fn is_bulk(&self) -> bool {
        /// Fewer tell nothing.
        const ENOUGH: u32 = 20;
        let (shortest, _) = INTERVALS[INTERVALS.len() - 1];
        let all = self.last.saturating_sub(self.began).0 as f32 / shortest.0 as f32;
        let is_fast = self.packets as f32 > PACKETS.end() * all;
        self.packets >= ENOUGH && (self.has_large_packets() || is_fast)
    }
}

impl Slots {
    /// Packets over which the shortest delay counts, at most, and the time that they span at most. At 20 ms, with delays that differ by up
    /// to 40 ms from packet to packet, 1.9 % seem lost where nothing is; with half 4.4 %, with double 0.3 %. Where a tenth is lost and
    /// delays differ by 10 ms, 0.8 % seem late; with half 0.1 %, with double 4.8 %.
    const DELAYS: usize = 4;
    const SPAN: Nanos = Nanos::from_millis(80);
    /// Slots that can be taken back: a queue of 160 ms at 20 ms.
    const HOLES: usize = 8;
    /// A gap of more intervals is a pause.
    const PAUSE: u64 = 5;
    /// The speed at which slots follow packets that are late: more than any clock of an audio device is wrong.
    const DRIFT: u64 = 1000;
    /// Excess packets from which the flow is no call, counted as above.
    const MAX_EXCESS: u8 = 64;
    /// Ticks of the timestamps for a millisecond: those of Opus.
    const TICKS: u32 = 48;

    fn new(interval: Nanos) -> Self {
        Self {
            interval,
            due: Nanos::ZERO,
            last: Nanos::ZERO,
            sequence: 0,
            timestamp: 0,
            earlier: Nanos::ZERO,
            delays: [Nanos::ZERO; _],
            known: 0,
            holes: [0; _],
            skipped: 0,
            taken: 0,
            missing: 0,
            excess: 0,
        }
    }

    /// Number of packets over which the shortest delay counts.
    fn enough(&self) -> usize {
        (Self::SPAN.div_floor(self.interval) as usize).clamp(1, Self::DELAYS)
    }

    /// Ticks of an interval.
    fn step(&self) -> u32 {
        Self::TICKS * self.interval.as_millis_f64() as u32
    }

    /// Slots in a time: one that is short of its end by less than a quarter counts.
    const fn slots_in(&self, time: u64) -> u64 {
        time.saturating_add(self.interval.0 / 4) / self.interval.0
    }

    /// Gives a packet its slot. Returns whether the flow may still be a call.
    fn update(&mut self, at: Nanos, bytes: u32, stream: &mut Stream, playout: Nanos) -> bool {
        let interval = self.interval.0;
        let since = at.saturating_sub(self.due).0;
        let is_first = self.last == Nanos::ZERO;
        // The first packets, of which all may have waited, show little of when slots are due.
        let is_early = since < interval / 2 && usize::from(self.known) == self.enough();
        if is_early && std::mem::take(&mut self.earlier) > Nanos::ZERO {
            // The one before was no sound: this one has its slot.
            return true;
        }
        if bytes >= MAX_BYTES || (is_early && self.skipped == 0) {
            self.excess = self.excess.saturating_add(4);
            return self.excess < Self::MAX_EXCESS;
        }
        self.excess = self.excess.saturating_sub(1);
        self.taken += 1;
        let gap = at.saturating_sub(std::mem::replace(&mut self.last, at)).0;
        if is_first {
            self.begin_at(at);
            stream.follow(at, self.step(), Self::TICKS * 1000);
        } else if is_early {
            // It stands in the place of one that was left out.
            self.skipped -= 1;
            self.missing = self.missing.saturating_sub(1);
            let sequence = self.holes[usize::from(self.skipped)];
            stream.update(at, &self.fields(sequence), playout);
        } else if gap > Self::PAUSE * interval {
            let steps = self.slots_in(since);
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(self.step().wrapping_mul(steps as u32));
            self.begin_at(at);
            stream.update(at, &self.fields(self.sequence), playout);
        } else {
            self.take_next(at, since);
            self.leave_out();
            stream.update(at.max(self.due), &self.fields(self.sequence), playout);
        }
        true
    }

    /// A packet has no delay: the slots are counted from it.
    const fn begin_at(&mut self, at: Nanos) {
        (self.due, self.known, self.skipped, self.earlier) = (at, 0, 0, Nanos::ZERO);
    }

    /// The next slot.
    fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(self.step());
        self.due = self.due.saturating_add(self.interval);
    }

    fn take_next(&mut self, at: Nanos, since: u64) {
        self.advance();
        let before = std::mem::replace(&mut self.earlier, Nanos(self.interval.0.saturating_sub(since)));
        let earlier = before.min(self.earlier);
        if earlier > Nanos::ZERO {
            // The fastest packets so far: the others had waited by that much more than was known.
            self.due = self.due.saturating_sub(earlier);
            self.earlier -= earlier;
            for delay in &mut self.delays {
                *delay = delay.saturating_add(earlier);
            }
        } else if self.shortest() > Nanos::ZERO {
            self.due = self.due.saturating_add(Nanos(self.interval.0 / Self::DRIFT));
        }
        self.delays.rotate_right(1);
        self.delays[0] = at.saturating_sub(self.due);
        self.known = (self.known + 1).min(self.enough() as u8);
    }

    /// The shortest of the last delays; zero while there are too few.
    fn shortest(&self) -> Nanos {
        let last = &self.delays[..self.enough()];
        if usize::from(self.known) < last.len() {
            return Nanos::ZERO;
        }
        last.iter().copied().min().unwrap_or(Nanos::ZERO)
    }

    /// Leaves the slots out whose packets are missing: the last packet has a later one.
    fn leave_out(&mut self) {
        let slots = self.slots_in(self.shortest().0);
        for _ in 0..slots {
            if usize::from(self.skipped) == Self::HOLES {
                self.holes.rotate_left(1);
                self.skipped -= 1;
            }
            self.holes[usize::from(self.skipped)] = self.sequence;
            self.skipped += 1;
            self.missing += 1;
            self.advance();
        }
        for delay in &mut self.delays {
            *delay = delay.saturating_sub(Nanos(slots * self.interval.0));
        }
    }

    fn fields(&self, sequence: u16) -> RtpFields {
        RtpFields { sequence, timestamp: self.timestamp, ..Stream::INFERRED }
    }
}
