//! Random streams: one for each (seed, subject, purpose), so that no draw depends on the order of others.
//!
//! The generator is PCG-64 MCG (O'Neill, HMC-CS-2014-0905), which gives the same numbers on every machine. This module
//! implements the draws itself, because libraries change theirs between versions.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Backoff of a station.
    Backoff = 1,
    /// Bit errors at a receiver.
    Reception,
    /// Phase and times of a source.
    Source,
    /// Shadowing of a pair of nodes.
    Shadowing,
    /// Positions of nodes.
    Placement,
    /// Early drops of a queue, and the key of its hash.
    Queue,
    /// Losses on a wired link, and the channel of a slotted one.
    Channel,
    /// Seed of a congestion control's own random choices.
    Congestion,
    /// Times of RTCP reports.
    Report,
    /// Talk-spurts and pauses of a speaker.
    Speech,
    /// Jitter of routing messages.
    Routing,
    /// The way of a moving node.
    Mobility = 12,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

/// The finalizer of SplitMix64 (Steele et al., OOPSLA 2014): spreads a counter over all 64 bits.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of `subject` (a node, a flow, a pair) for `purpose` under `seed`.
    pub fn new(seed: u64, subject: u64, purpose: Purpose) -> Self {
        let key = mix(mix(mix(seed) ^ subject) ^ purpose as u64);
        Self(Pcg64Mcg::new(u128::from(mix(key ^ 1)) << 64 | u128::from(key)))
    }

    /// A whole number from 0 up to and including `max`, every one equally likely (Lemire, ACM TOMACS 2019).
    #[inline]
    pub fn up_to(&mut self, max: u32) -> u32 {
        let range = u64::from(max) + 1;
        loop {
            let product = u64::from(self.0.next_u32()) * range;
            let low = product as u32;
            // Rejecting the first (2³² mod range) values of each bucket makes all buckets equally large.
            if u64::from(low) >= range || u64::from(low) >= (1 << 32) % range {
                return (product >> 32) as u32;
            }
        }
    }

    /// 64 bits that seed another generator.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in [0, 1), in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponentially distributed number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_do_not_change_between_machines_and_versions() {
        let mut stream = Stream::new(1, 2, Purpose::Backoff);
        let draws: Vec<u32> = (0..8).map(|_| stream.up_to(15)).collect();
        assert_eq!(draws, GOLDEN);
    }
    const GOLDEN: [u32; 8] = [7, 3, 6, 2, 2, 11, 12, 1];

    #[test]
    fn draws_are_uniform_and_streams_differ() {
        for max in [0, 1, 2, 15, 1023, u32::MAX] {
            let mut stream = Stream::new(7, u64::from(max), Purpose::Source);
            let n = 40_000;
            let mean = (0..n).map(|_| f64::from(stream.up_to(max))).sum::<f64>() / f64::from(n);
            let sigma = f64::from(max) / 12f64.sqrt() / f64::from(n).sqrt();
            assert!((mean - f64::from(max) / 2.0).abs() <= 4.5 * sigma, "max {max}: mean {mean}");
        }
        let first = |seed, subject, purpose| Stream::new(seed, subject, purpose).up_to(u32::MAX);
        let all = [
            first(1, 0, Purpose::Backoff),
            first(2, 0, Purpose::Backoff),
            first(1, 1, Purpose::Backoff),
            first(1, 0, Purpose::Source),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
