//! Sequence numbers of AODV.

/// A destination's sequence number: 32 bits that wrap around, compared by their signed difference (RFC 3561 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Whether this number is newer than another one. Of two numbers at a distance of 2³¹, neither is.
    pub const fn is_newer_than(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }

    /// The newer of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if other.is_newer_than(self) { other } else { self }
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_1_numbers_are_compared_by_their_signed_difference() {
        for at in [0, 1, i32::MAX as u32 - 1, i32::MAX as u32, 1 << 31, u32::MAX - 1, u32::MAX] {
            let number = Sequence(at);
            assert!(number.next().is_newer_than(number) && !number.is_newer_than(number.next()), "{at}");
            assert!(!number.is_newer_than(number));
            assert_eq!(number.max(number.next()), number.next());
            assert_eq!(number.next().max(number), number.next());
        }
        assert!(Sequence(i32::MAX as u32).is_newer_than(Sequence(0)), "2³¹ − 1 is ahead of 0");
        assert!(Sequence(0).is_newer_than(Sequence(u32::MAX)), "0 follows 2³² − 1");
        assert_eq!(Sequence(u32::MAX).next(), Sequence(0));
    }
}
