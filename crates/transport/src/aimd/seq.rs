//! The 24-bit packet numbers (cai2005, section II), and their conversion to and from 64 bits.

use std::fmt;

/// The number of a packet modulo 2²⁴, as on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(u32);

impl Seq {
    const BITS: u32 = 24;
    const MASK: u32 = (1 << Self::BITS) - 1;

    /// The number with these lowest 24 bits.
    pub const fn of(number: u64) -> Self {
        Self(number as u32 & Self::MASK)
    }

    /// The number as on the wire, less than 2²⁴.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How far this number is past `other`, from −2²³ to 2²³ − 1.
    pub const fn since(self, other: Self) -> i64 {
        const UNUSED: u32 = u32::BITS - Seq::BITS;
        (self.0.wrapping_sub(other.0) << UNUSED) as i32 as i64 >> UNUSED
    }

    /// The 64-bit number nearest to `near` with these lowest 24 bits; none if it is negative or too large.
    pub const fn nearest(self, near: u64) -> Option<u64> {
        near.checked_add_signed(self.since(Self::of(near)))
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
    fn numbers_are_found_again_from_24_bits_across_every_wrap() {
        for near in [1 << 23, (1 << 24) - 1, 1 << 24, (1 << 40) + 3, 1 << 63] {
            for step in [-(1_i64 << 23), -1_000, -1, 0, 1, 8, (1 << 23) - 1] {
                let number = near + step as i128;
                let number = u64::try_from(number).expect("a number");
                assert_eq!(Seq::of(number).nearest(near as u64), Some(number), "{near} {step}");
            }
        }
        assert_eq!(Seq::of(u64::from(u32::MAX)).nearest(3), None, "before the first");
        assert_eq!(Seq::of(0).since(Seq::of(0xff_ffff)), 1);
        assert_eq!(Seq::of(0xff_ffff).since(Seq::of(0)), -1);
    }
}
