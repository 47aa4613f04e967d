//! The checksum of the Internet protocols (RFC 1071).

/// A sum of 16-bit words in the network's byte order; an odd byte at the end counts as the upper half of one. Sums of parts
/// with even lengths can be added.
pub fn sum_words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low))).sum()
}

/// The checksum of data with that sum: the complement of the sum in one's complement arithmetic.
pub const fn complement(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_and_data_with_its_checksum() {
        // RFC 1071 §3.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!((sum_words(&words), complement(sum_words(&words))), (0x2_ddf0, !0xddf2));
        // An odd byte has a zero behind it.
        assert_eq!(sum_words(&words[..7]), sum_words(&words) - 0xf7);
        // A receiver that takes the checksum in finds zero.
        let mut bytes = [7; 40];
        bytes[2..4].fill(0);
        let sum = complement(sum_words(&bytes));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(complement(sum_words(&bytes)), 0);
    }
}
