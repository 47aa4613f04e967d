//! Small instruments: a minimum over recent values, round trips, a rate.

use fairhop_model::units::{BitRate, Nanos};

/// The minimum over the last one to two generations of `SECONDS`. A minute: routes change more often, queues last less long, and
/// clocks drift by less than matters.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin<T, const SECONDS: u64 = 60> {
    began: Nanos,
    current: Option<T>,
    previous: Option<T>,
}

impl<T: Copy + Ord, const SECONDS: u64> WindowedMin<T, SECONDS> {
    const GENERATION: Nanos = Nanos::from_secs(SECONDS);

    /// A minimum of nothing.
    pub const fn new() -> Self {
        Self { began: Nanos::ZERO, current: None, previous: None }
    }

    /// Takes a value.
    pub fn update(&mut self, now: Nanos, value: T) {
        if self.current.is_some() && now.saturating_sub(self.began) >= Self::GENERATION {
            self.previous = self.current.take();
        }
        if self.current.is_none() {
            self.began = now;
        }
        self.current = Some(self.current.map_or(value, |min| min.min(value)));
    }

    /// The minimum; none without values.
    pub fn value(&self) -> Option<T> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl<T: Copy + Ord, const SECONDS: u64> Default for WindowedMin<T, SECONDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Longest time for which common receivers delay an ACK: Windows and macOS up to 200 ms, Linux 40 to 200 ms (RFC 1122
/// §4.2.3.2 allows 500 ms).
pub(crate) const MAX_ACK_DELAY: Nanos = Nanos::from_millis(200);

/// Round trips of one side of a flow. The base is the minimum over one to two minutes.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    min: WindowedMin<Nanos>,
    handshake: Option<Nanos>,
    smoothed: Option<Nanos>,
}

/// Round trips through the mesh, and how far they are over a base.
///
/// The excess is taken from the shortest samples of the last moments: one more retry on the air lengthens single samples, a
/// queue all of them.
///
/// A receiver may delay its ACK ([`MAX_ACK_DELAY`]). A sample is *prompt* if it certainly did not. Other samples are only
/// upper bounds of the round trip: without a prompt sample, a queue is certain only beyond the longest delay of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct MeshRoundTrip {
    all: RoundTrip,
    recent: Recent,
}

/// Round trips of an upload beyond the gateway, and how far they are over their minimum.
#[derive(Clone, Copy, Debug, Default)]
pub struct UplinkRoundTrip {
    base: WindowedMin<Nanos>,
    recent: Recent,
}

/// The shortest round trips of each 100 ms of the last second.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// Number of the newest 100 ms with a sample; 32 bits hold 13 years.
    newest: u32,
    /// Minimum of each 100 ms up to it, in microseconds; [`Self::NONE`] without a sample.
    min_us: [u32; Self::LEN],
    /// A bit for each of them with a prompt sample, and with one of a pair of segments.
    prompt: u16,
    pairs: u16,
    /// Minimum of the last 100 ms with a sample before the newest one.
    before_us: u32,
}

/// How far round trips are over a base of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Excess over the base.
    pub over_base: Nanos,
    /// A receiver did not delay its ACK; otherwise the excess may be the delay of ACKs.
    pub is_prompt: bool,
}

impl Excess {
    /// The part that is certainly no delay of ACKs.
    pub const fn certain(self) -> Nanos {
        if self.is_prompt { self.over_base } else { self.over_base.saturating_sub(MAX_ACK_DELAY) }
    }

    /// That of a queue which two flows share: a queue lengthens the round trips of both.
    pub fn common(self, other: Self) -> Self {
        Self { over_base: self.over_base.min(other.over_base), is_prompt: self.is_prompt || other.is_prompt }
    }
}

impl RoundTrip {
    /// How much of the wait for the gateway's own pace counts in a base, and so in windows: at most the longest delay of an ACK. If
    /// none counts, windows are so small that uploads send one segment at a time; then all their ACKs are delayed, which hides a
    /// queue beyond the gateway. If all of it counts, larger windows lengthen the wait, and the wait makes windows larger.
    const COUNTED_WAIT: Nanos = MAX_ACK_DELAY;

    pub(crate) const fn new() -> Self {
        Self { min: WindowedMin::new(), handshake: None, smoothed: None }
    }

    /// Takes a sample.
    pub(crate) fn update(&mut self, now: Nanos, sample: Nanos) {
        self.update_held(now, sample, Nanos::ZERO);
    }

    /// Takes a sample of which `waited` was the wait for the gateway's own pace. No more than [`Self::COUNTED_WAIT`] of it counts in the
    /// base.
    pub(crate) fn update_held(&mut self, now: Nanos, sample: Nanos, waited: Nanos) {
        self.min.update(now, sample.saturating_sub(waited.saturating_sub(Self::COUNTED_WAIT)));
        // RFC 6298 §2, α = 1/8.
        self.smoothed = Some(self.smoothed.map_or(sample, |srtt| Nanos((7 * srtt.0 + sample.0) / 8)));
    }

    /// Takes the round trip of a SYN. It is shorter than that of data by the airtime of large packets, so it is the base only
    /// until there is another sample.
    pub(crate) const fn on_handshake(&mut self, sample: Nanos) {
        self.handshake = Some(sample);
    }

    /// The base; none before the first sample.
    pub fn base(&self) -> Option<Nanos> {
        self.min.value().or(self.handshake)
    }

    /// The round trip of the handshake; none if it did not pass.
    pub const fn handshake(&self) -> Option<Nanos> {
        self.handshake
    }

    /// The smoothed round trip (gain 1/8, RFC 6298 §2.3); none before the first sample.
    pub const fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }
}

impl MeshRoundTrip {
    /// Buckets that the excess is taken from, if they have prompt samples: 300 to 400 ms.
    const FRESH: u32 = 4;

    pub(crate) const fn new() -> Self {
        Self { all: RoundTrip::new(), recent: Recent::new() }
    }

    /// Takes a sample; `is_prompt` if the receiver had no reason to delay its ACK.
    pub(crate) fn update(&mut self, now: Nanos, sample: Nanos, is_prompt: bool) {
        self.all.update(now, sample);
        self.recent.update(now, sample, false, is_prompt);
    }

    /// See [`RoundTrip::on_handshake`].
    pub(crate) const fn on_handshake(&mut self, sample: Nanos) {
        self.all.on_handshake(sample);
    }

    /// The round trips without their excess.
    pub const fn all(&self) -> &RoundTrip {
        &self.all
    }

    /// The base; none before the first sample.
    pub fn base(&self) -> Option<Nanos> {
        self.all.base()
    }

    /// How far the last 300 to 400 ms are over `base`: the mean of the minima of 100 ms with prompt samples, or with none the
    /// minimum of the last second. None without samples.
    pub fn excess(&self, now: Nanos, base: Nanos) -> Option<Excess> {
        let least = self.recent.least(now, base)?;
        let mean = self.recent.mean_of(self.recent.prompt, now, Self::FRESH);
        Some(Excess { over_base: mean.map_or(least.over_base, |mean| mean.saturating_sub(base)), ..least })
    }

    /// In how many of the ten spans of 100 ms of the last second there are samples, and the shortest sample of the last two spans with any,
    /// whenever they were.
    pub(crate) fn evidence(&self, now: Nanos) -> (usize, Nanos) {
        let Recent { newest, min_us, before_us, .. } = self.recent;
        let last = min_us[newest as usize % Recent::LEN].min(before_us);
        (self.recent.places(now, Recent::LEN as u32).count(), Nanos::from_micros(last.into()))
    }
}

impl UplinkRoundTrip {
    /// Maximum time that a full packet is taken to be under way longer than a handshake: at 0.6 Mb/s. On slower links the rest
    /// counts as a queue.
    const FULL_PACKET: Nanos = Nanos::from_millis(20);

    /// Takes a sample; `is_prompt` if the ACK was certainly not delayed, `is_pair` if it answers two segments that passed together.
    pub(crate) fn update(&mut self, now: Nanos, sample: Nanos, is_pair: bool, is_prompt: bool) {
        self.base.update(now, sample);
        self.recent.update(now, sample, is_pair, is_prompt);
    }

    /// How far the round trips of the last second are over the base: the mean of the minima of 100 ms with pairs, or with none the
    /// minimum. None without samples.
    ///
    /// The base is at most the round trip of the `handshake` and [`Self::FULL_PACKET`], for a queue may stand since the first
    /// data. The second packet of a pair waits for the first, which is no queue.
    pub fn excess(&self, now: Nanos, handshake: Option<Nanos>) -> Option<Excess> {
        let shortest = self.base.value()?;
        let handshake = handshake.unwrap_or(shortest);
        let base = shortest.min(handshake.saturating_add(Self::FULL_PACKET));
        let least = self.recent.least(now, base)?;
        let mean = self.recent.mean_of(self.recent.pairs, now, Recent::LEN as u32);
        let Some(mean) = mean else { return Some(least) };
        let packet = base.saturating_sub(handshake);
        Some(Excess { over_base: mean.saturating_sub(base.saturating_add(packet)), is_prompt: true })
    }
}

impl Recent {
    const NONE: u32 = u32::MAX;
    /// Buckets that are kept: one second.
    const LEN: usize = 10;
    /// Length of a bucket: one tick of a controller.
    const BUCKET: Nanos = Nanos::from_millis(100);

    const fn new() -> Self {
        Self { newest: 0, min_us: [Self::NONE; Self::LEN], prompt: 0, pairs: 0, before_us: Self::NONE }
    }

    fn update(&mut self, now: Nanos, sample: Nanos, is_pair: bool, is_prompt: bool) {
        let epoch = now.div_floor(Self::BUCKET) as u32;
        let sample_us = u32::try_from(sample.0 / 1000).unwrap_or(Self::NONE - 1);
        if epoch > self.newest {
            self.before_us = self.min_us[self.newest as usize % Self::LEN];
        }
        // The buckets after the newest one have no sample yet.
        let first = self.newest.saturating_add(1).max(epoch.saturating_sub(Self::LEN as u32 - 1));
        for empty in first..=epoch {
            let place = empty as usize % Self::LEN;
            self.min_us[place] = Self::NONE;
            self.prompt &= !(1 << place);
            self.pairs &= !(1 << place);
        }
        self.newest = self.newest.max(epoch);
        let place = epoch as usize % Self::LEN;
        self.min_us[place] = self.min_us[place].min(sample_us);
        self.prompt |= u16::from(is_prompt) << place;
        self.pairs |= u16::from(is_pair) << place;
    }

    /// Mean of the minima of the last `epochs`, of those with a bit in `kept`; none without any.
    fn mean_of(&self, kept: u16, now: Nanos, epochs: u32) -> Option<Nanos> {
        let kept = self.places(now, epochs).filter(|&place| kept & 1 << place != 0);
        let (sum, count) =
            kept.fold((0, 0), |(sum, count), place| (sum + u64::from(self.min_us[place]), count + 1));
        u64::checked_div(sum, count).map(Nanos::from_micros)
    }

    /// How far all samples are over `base`. None without samples.
    fn least(&self, now: Nanos, base: Nanos) -> Option<Excess> {
        let places = self.places(now, Self::LEN as u32);
        let is_prompt = places.clone().any(|place| self.prompt & 1 << place != 0);
        let min = Nanos::from_micros(u64::from(places.map(|place| self.min_us[place]).min()?));
        Some(Excess { over_base: min.saturating_sub(base), is_prompt })
    }

    /// The places of the last `epochs` with samples.
    fn places(&self, now: Nanos, epochs: u32) -> impl Iterator<Item = usize> + Clone {
        let end = (now.div_floor(Self::BUCKET) as u32).saturating_add(1);
        let kept = self.newest.saturating_add(1).saturating_sub(Self::LEN as u32);
        let places =
            (end.saturating_sub(epochs).max(kept)..=self.newest).map(|epoch| epoch as usize % Self::LEN);
        places.filter(|&place| self.min_us[place] != Self::NONE)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self::new()
    }
}

/// The gateway's own queue into the mesh.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnQueue {
    recent: [Found; Self::BUCKETS],
}

/// 100 ms of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    epoch: u64,
    /// Packets that entered, those of voice among them, and how many of these it dropped.
    entered: u32,
    voice: u32,
    dropped: u32,
    /// Looks at the queue, and the sum of the packets that they found.
    looks: u32,
    packets: u64,
}

impl OwnQueue {
    /// Buckets over which the wait is averaged: 400 to 500 ms.
    const BUCKETS: usize = 5;
    const BUCKET: Nanos = Nanos::from_millis(100);

    fn bucket(&mut self, now: Nanos) -> &mut Found {
        let epoch = now.div_floor(Self::BUCKET);
        let place = &mut self.recent[(epoch % Self::BUCKETS as u64) as usize];
        if place.epoch != epoch {
            *place = Found { epoch, ..Found::default() };
        }
        place
    }

    /// A packet enters the queue.
    pub(crate) fn enter(&mut self, now: Nanos, is_voice: bool) {
        let bucket = self.bucket(now);
        bucket.entered += 1;
        bucket.voice += u32::from(is_voice);
    }

    /// It drops a packet of voice.
    pub(crate) fn drop(&mut self, now: Nanos) {
        self.bucket(now).dropped += 1;
    }

    /// Fraction of voice packets that it dropped in the last 400 to 500 ms. Elastic packets come in bursts, and are dropped more often.
    pub fn loss(&self, now: Nanos) -> f64 {
        let newest = now.div_floor(Self::BUCKET);
        let fresh = self.recent.iter().filter(|found| found.epoch + Self::BUCKETS as u64 > newest);
        let (voice, dropped) =
            fresh.fold((0, 0), |(voice, dropped), found| (voice + found.voice, dropped + found.dropped));
        f64::from(dropped) / f64::from(voice.max(dropped).max(1))
    }

    /// A look at the queue finds `packets` in it.
    pub(crate) fn look(&mut self, now: Nanos, packets: u32) {
        let place = self.bucket(now);
        place.looks += 1;
        place.packets += u64::from(packets);
    }

    /// How long packets wait in it now, on average: their number over their rate (Little's law).
    pub fn wait(&self, now: Nanos) -> Nanos {
        let newest = now.div_floor(Self::BUCKET);
        let first = (newest + 1).saturating_sub(Self::BUCKETS as u64);
        let fresh = self.recent.iter().filter(|found| found.epoch >= first);
        let (mut entered, mut looks, mut packets) = (0, 0, 0);
        for found in fresh {
            entered += u64::from(found.entered);
            looks += u64::from(found.looks);
            packets += found.packets;
        }
        let span = now.saturating_sub(Nanos(first * Self::BUCKET.0));
        let wait = u128::from(packets) * u128::from(span.0) / u128::from((looks * entered).max(1));
        Nanos(u64::try_from(wait).unwrap_or(u64::MAX)).min(span)
    }
}

/// A rate, in windows of half a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    began: Nanos,
    bytes: u64,
    last: u64,
}

impl Meter {
    /// No bytes yet.
    pub(crate) const NONE: Self = Self { began: Nanos::ZERO, bytes: 0, last: 0 };
    const WINDOW: Nanos = Nanos::from_millis(500);

    pub(crate) fn add(&mut self, now: Nanos, bytes: u64) {
        let age = now.saturating_sub(self.began);
        if age >= Self::WINDOW {
            self.last = if age < Self::WINDOW * 2 { self.bytes } else { 0 };
            self.bytes = 0;
            self.began = if age < Self::WINDOW * 2 { self.began + Self::WINDOW } else { now };
        }
        self.bytes += bytes;
    }

    /// The rate over the last complete window. A sum of such rates is not biased, as one of [`Meter::rate`] is.
    pub fn complete_rate(&self, now: Nanos) -> BitRate {
        let bytes = match now.saturating_sub(self.began).div_floor(Self::WINDOW) {
            0 => self.last,
            1 => self.bytes,
            _ => 0,
        };
        BitRate(bytes * 8 * 2)
    }

    /// The rate over the last complete window, or over the present one if that is higher already.
    pub fn rate(&self, now: Nanos) -> BitRate {
        let age = now.saturating_sub(self.began);
        let bytes = match age.div_floor(Self::WINDOW) {
            0 => self.last.max(self.bytes),
            1 => self.bytes,
            _ => 0,
        };
        BitRate(bytes * 8 * 2)
    }
}
