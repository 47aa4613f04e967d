//! Impairments of a path, and how an application reads: for the property tests of the transports.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;
use proptest::prelude::*;

/// Probabilities in per cent, and the delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Impairments {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
    pub(crate) delay_ms: u64,
    pub(crate) seed: u64,
}

impl Impairments {
    pub(crate) fn fair(delay_ms: u64) -> Self {
        Self { loss: 0, duplication: 0, reordering: 0, delay_ms, seed: 1 }
    }

    /// Arrival times of the copies of a packet that is sent now.
    pub(crate) fn arrivals(&self, rng: &mut Rng, now: Nanos) -> impl Iterator<Item = Nanos> + use<> {
        let lost = rng.below(100) < self.loss;
        let copies = if lost { 0 } else { 1 + usize::from(rng.below(100) < self.duplication) };
        let mut arrivals = [Nanos::ZERO; 2];
        for arrival in &mut arrivals[..copies] {
            let late = rng.below(100) < self.reordering;
            let late_us = if late { rng.below(3 * self.delay_ms * 1000) } else { 0 };
            *arrival = now + Nanos::from_millis(self.delay_ms) + Nanos::from_micros(late_us);
        }
        arrivals.into_iter().take(copies)
    }
}

/// xorshift64*.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// Numbers that have arrived, as joined ranges from the first to past the last.
#[derive(Default)]
pub(crate) struct Arrived(BTreeMap<u64, u64>);

impl Arrived {
    pub(crate) fn note(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|&(_, &e)| e >= start) {
            start = start.min(s);
            end = end.max(e);
            self.0.remove(&s);
        }
        self.0.insert(start, end);
    }

    /// End of the range that starts at zero.
    pub(crate) fn prefix(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }

    pub(crate) fn has(&self, start: u64, end: u64) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, &past)| end <= past)
    }
}

/// Reading pattern of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    Eager,
    /// Reads a number of bytes at an interval in milliseconds.
    Slow(u64, u64),
    /// Reads everything at an interval in milliseconds, so that the window closes and opens.
    Intermittent(u64),
}

impl Reader {
    /// Time of the first read, if any.
    pub(crate) fn first(self) -> Option<Nanos> {
        match self {
            Self::Eager => None,
            Self::Slow(..) => Some(Nanos::ZERO),
            Self::Intermittent(every_ms) => Some(Nanos::from_millis(every_ms)),
        }
    }

    /// Bytes to read now, and the time of the next read.
    pub(crate) fn act(self, now: Nanos) -> (u64, Nanos) {
        match self {
            Self::Eager => (u64::MAX, Nanos::MAX),
            Self::Slow(bytes, every_ms) => (bytes, now + Nanos::from_millis(every_ms)),
            Self::Intermittent(every_ms) => (u64::MAX, now + Nanos::from_millis(every_ms)),
        }
    }
}

pub(crate) fn impairments() -> impl Strategy<Value = Impairments> {
    (0..35_u64, 0..20_u64, 0..50_u64, 1..80_u64, any::<u64>()).prop_map(
        |(loss, duplication, reordering, delay_ms, seed)| Impairments {
            loss,
            duplication,
            reordering,
            delay_ms,
            seed,
        },
    )
}

pub(crate) fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        Just(Reader::Eager),
        (1..3_000_u64, 20..500_u64).prop_map(|(bytes, every)| Reader::Slow(bytes, every)),
        (50..3_000_u64).prop_map(Reader::Intermittent),
    ]
}
