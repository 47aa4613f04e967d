//! Small instruments: a least value that is forgotten in time, round trips, a rate.

use fairhop_model::units::{BitRate, Nanos};

/// The least of recent values: of the last one to two generations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least<T> {
    generation: Nanos,
    began: Nanos,
    current: Option<T>,
    previous: Option<T>,
}

impl<T: Copy + Ord> Least<T> {
    pub(crate) const fn new(generation: Nanos) -> Self {
        Self { generation, began: Nanos::ZERO, current: None, previous: None }
    }

    pub(crate) fn update(&mut self, now: Nanos, value: T) {
        if self.current.is_some() && now.saturating_sub(self.began) >= self.generation {
            self.previous = self.current.take();
        }
        if self.current.is_none() {
            self.began = now;
        }
        self.current = Some(self.current.map_or(value, |least| least.min(value)));
    }

    pub(crate) fn value(&self) -> Option<T> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// No end that holds an ACK back does so for less (Linux; RFC 9293 §3.8.6.3 has no least).
pub(crate) const HELD_LEAST: Nanos = Nanos::from_millis(40);

/// Round trips of one side of a flow.
///
/// The base is the least of one to two minutes. What is over it now is taken from the least sample of the last moments,
/// since a receiver that holds its ACK back (RFC 5681 §4.2), or one repetition more on the air, lengthens single samples,
/// and a queue all of them.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    least: Least<Nanos>,
    handshake: Option<Nanos>,
    smoothed: Option<Nanos>,
    recent: [Recent; Self::RECENT],
}

/// The samples of 100 ms.
#[derive(Clone, Copy, Debug)]
struct Recent {
    epoch: u64,
    least: Nanos,
    samples: u32,
    /// One of them was surely not held back.
    is_sure: bool,
}

/// By how much round trips are over their base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Over the base.
    pub over_base: Nanos,
    /// Of so many samples.
    pub samples: u32,
    /// One of them was surely not held back by the receiver.
    pub is_sure: bool,
}

impl RoundTrip {
    /// Of these the last four count, all if those have few samples.
    const RECENT: usize = 10;
    const FRESH: u64 = 4;
    pub(crate) const FEW: u32 = 4;
    const BUCKET: Nanos = Nanos::from_millis(100);
    const GENERATION: Nanos = Nanos::from_secs(60);

    pub(crate) const fn new() -> Self {
        Self {
            least: Least::new(Self::GENERATION),
            handshake: None,
            smoothed: None,
            recent: [Recent { epoch: u64::MAX, least: Nanos::ZERO, samples: 0, is_sure: false };
                Self::RECENT],
        }
    }

    /// Takes a sample; `at_once` if the receiver had no reason to hold its ACK back.
    pub(crate) fn update(&mut self, now: Nanos, sample: Nanos, at_once: bool) {
        self.least.update(now, sample);
        // RFC 6298 §2, α = 1/8.
        self.smoothed = Some(self.smoothed.map_or(sample, |srtt| Nanos((7 * srtt.0 + sample.0) / 8)));
        let epoch = now.div_floor(Self::BUCKET);
        let place = &mut self.recent[(epoch % Self::RECENT as u64) as usize];
        if place.epoch != epoch {
            *place = Recent { epoch, least: sample, samples: 0, is_sure: false };
        }
        place.least = place.least.min(sample);
        place.samples += 1;
        place.is_sure |= at_once || sample < self.least.value().unwrap_or(sample).saturating_add(HELD_LEAST);
    }

    /// The round trip of a SYN. It is shorter than one of data by the time that large packets take on the air, so it is a
    /// base only as long as there is no other.
    pub(crate) const fn shake(&mut self, sample: Nanos) {
        self.handshake = Some(sample);
    }

    /// The least one; none before the first sample.
    pub fn base(&self) -> Option<Nanos> {
        self.least.value().or(self.handshake)
    }

    /// A mean with a gain of 1/8; none before the first sample.
    pub const fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// How far the last 300 to 400 ms are over the base: the mean over those 100 ms that have samples; where samples are few,
    /// the least of the last second. None without any.
    pub fn excess(&self, now: Nanos) -> Option<Excess> {
        let newest = now.div_floor(Self::BUCKET);
        let of_last = |epochs: u64| {
            self.recent.iter().filter(move |recent| {
                recent.epoch != u64::MAX && recent.epoch.saturating_add(epochs) > newest
            })
        };
        let (sum, count, samples) = of_last(Self::FRESH).fold((0, 0, 0), |(sum, count, samples), recent| {
            (sum + recent.least.0, count + 1, samples + recent.samples)
        });
        let recent = match samples {
            Self::FEW.. => Nanos(sum / count),
            _ => of_last(Self::RECENT as u64).map(|recent| recent.least).min()?,
        };
        let all = of_last(Self::RECENT as u64);
        let (samples, is_sure) = all
            .fold((0, false), |(samples, sure), recent| (samples + recent.samples, sure || recent.is_sure));
        Some(Excess { over_base: recent.saturating_sub(self.base()?), samples, is_sure })
    }
}

/// Bytes a second, in windows of half a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    began: Nanos,
    bytes: u64,
    last: u64,
}

impl Meter {
    /// Nothing yet.
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

    /// The rate over the last half second that is complete, or of the present one where that is more already.
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
