//! Small instruments: a minimum over recent values, round trips, a rate.

use fairhop_model::units::{BitRate, Nanos};

/// The minimum over the last one to two generations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowedMin<T> {
    generation: Nanos,
    began: Nanos,
    current: Option<T>,
    previous: Option<T>,
}

impl<T: Copy + Ord> WindowedMin<T> {
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
        self.current = Some(self.current.map_or(value, |min| min.min(value)));
    }

    pub(crate) fn value(&self) -> Option<T> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Shortest time for which an end delays an ACK (Linux; RFC 9293 §3.8.6.3 has no minimum).
pub(crate) const MIN_ACK_DELAY: Nanos = Nanos::from_millis(40);

/// Round trips of one side of a flow.
///
/// The base is the minimum over one to two minutes. The excess over it is taken from the shortest samples of the last
/// moments: a delayed ACK (RFC 5681 §4.2) or one more retry on the air lengthens single samples, a queue all of them.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    min: WindowedMin<Nanos>,
    handshake: Option<Nanos>,
    smoothed: Option<Nanos>,
    recent: [Recent; Self::RECENT],
}

/// The samples of 100 ms.
#[derive(Clone, Copy, Debug)]
struct Recent {
    epoch: u64,
    min: Nanos,
    samples: u32,
    /// The ACK of at least one of them was not delayed by the receiver.
    is_prompt: bool,
}

/// How far round trips are over their base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Excess over the base.
    pub over_base: Nanos,
    /// Number of samples that it is taken from.
    pub samples: u32,
    /// The ACK of at least one of them was not delayed by the receiver.
    pub is_prompt: bool,
}

impl RoundTrip {
    /// Buckets that are kept: one second.
    const RECENT: usize = 10;
    /// Buckets that the excess is taken from, if they have enough samples: 300 to 400 ms.
    const FRESH: u64 = 4;
    /// Minimum number of samples for an excess without a prompt one: fewer may all be delayed ACKs.
    pub(crate) const ENOUGH: u32 = 4;
    /// Length of a bucket: one tick of a controller.
    const BUCKET: Nanos = Nanos::from_millis(100);
    /// Generation of the base: routes change more often, queues last less long.
    const GENERATION: Nanos = Nanos::from_secs(60);

    pub(crate) const fn new() -> Self {
        Self {
            min: WindowedMin::new(Self::GENERATION),
            handshake: None,
            smoothed: None,
            recent: [Recent { epoch: u64::MAX, min: Nanos::ZERO, samples: 0, is_prompt: false };
                Self::RECENT],
        }
    }

    /// Takes a sample; `is_prompt` if the receiver had no reason to delay its ACK.
    pub(crate) fn update(&mut self, now: Nanos, sample: Nanos, is_prompt: bool) {
        self.min.update(now, sample);
        // RFC 6298 §2, α = 1/8.
        self.smoothed = Some(self.smoothed.map_or(sample, |srtt| Nanos((7 * srtt.0 + sample.0) / 8)));
        let epoch = now.div_floor(Self::BUCKET);
        let place = &mut self.recent[(epoch % Self::RECENT as u64) as usize];
        if place.epoch != epoch {
            *place = Recent { epoch, min: sample, samples: 0, is_prompt: false };
        }
        place.min = place.min.min(sample);
        place.samples += 1;
        place.is_prompt |=
            is_prompt || sample < self.min.value().unwrap_or(sample).saturating_add(MIN_ACK_DELAY);
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

    /// The smoothed round trip (gain 1/8, RFC 6298 §2.3); none before the first sample.
    pub const fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// How far the last 300 to 400 ms are over the base: the mean of the buckets' minima, or with few samples the minimum of
    /// the last second. None without samples.
    pub fn excess(&self, now: Nanos) -> Option<Excess> {
        let newest = now.div_floor(Self::BUCKET);
        let of_last = |epochs: u64| {
            self.recent.iter().filter(move |recent| {
                recent.epoch != u64::MAX && recent.epoch.saturating_add(epochs) > newest
            })
        };
        let (sum, count, samples) = of_last(Self::FRESH).fold((0, 0, 0), |(sum, count, samples), recent| {
            (sum + recent.min.0, count + 1, samples + recent.samples)
        });
        let recent = match samples {
            Self::ENOUGH.. => Nanos(sum / count),
            _ => of_last(Self::RECENT as u64).map(|recent| recent.min).min()?,
        };
        let all = of_last(Self::RECENT as u64);
        let (samples, is_prompt) = all.fold((0, false), |(samples, prompt), recent| {
            (samples + recent.samples, prompt || recent.is_prompt)
        });
        Some(Excess { over_base: recent.saturating_sub(self.base()?), samples, is_prompt })
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
