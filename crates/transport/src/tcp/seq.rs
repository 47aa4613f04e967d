//! Sequence numbers on the wire, modulo 2³² (RFC 9293 §3.4), and their conversion to and from 64-bit stream offsets.

use std::fmt;
use std::ops::{Add, Sub};

/// A sequence number in a segment. It has no total order; [`Seq::before`] compares as in the standard.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether this number is earlier than `other`, both within 2³¹ of each other.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Distance of this number from `origin`; negative if it is earlier.
    pub const fn since(self, origin: Self) -> i64 {
        self.0.wrapping_sub(origin.0) as i32 as i64
    }

    /// The number of the octet at `offset` of a stream whose first octet has this number.
    #[must_use]
    pub const fn at(self, offset: u64) -> Self {
        Self(self.0.wrapping_add(offset as u32))
    }

    /// The offset nearest to `near` in a stream that begins at `origin`. Negative before the stream.
    pub const fn offset_in(self, origin: Self, near: u64) -> i64 {
        near as i64 + self.since(origin.at(near))
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, octets: u32) -> Self {
        Self(self.0.wrapping_add(octets))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, octets: u32) -> Self {
        Self(self.0.wrapping_sub(octets))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_across_the_wrap() {
        assert!(Seq(u32::MAX).before(Seq(0)));
        assert!(!Seq(0).before(Seq(u32::MAX)));
        assert!(Seq(0).before(Seq(0x7fff_ffff)));
        assert_eq!(Seq(5).since(Seq(u32::MAX - 4)), 10);
    }

    #[test]
    fn an_offset_is_recovered_from_its_32_bits_anywhere_in_a_long_stream() {
        let origin = Seq(0xffff_ff00);
        for near in [0_u64, 255, 256, 1 << 31, (1 << 32) - 1, 1 << 32, 7_000_000_000_000] {
            for step in [-1_000_000_i64, -1, 0, 1, 1_000_000] {
                let offset = near as i64 + step;
                if offset >= 0 {
                    assert_eq!(origin.at(offset as u64).offset_in(origin, near), offset);
                }
            }
        }
        assert_eq!((origin - 1).offset_in(origin, 0), -1);
    }
}
