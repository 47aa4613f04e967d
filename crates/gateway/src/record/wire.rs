//! Digests as bytes, field by field, so that a recording is the same on every machine.

use fairhop_control::raw::RawDigest;

/// Bytes of a digest.
pub(super) const DIGEST_BYTES: usize = 104;
/// Bytes of a tick: time, waiting packets, mark.
pub(super) const TICK_BYTES: usize = 12 + super::mark::BYTES;

const _: () = assert!(size_of::<RawDigest>() == DIGEST_BYTES);

pub(super) fn digest_bytes(digest: &RawDigest) -> [u8; DIGEST_BYTES] {
    let mut bytes = [0; DIGEST_BYTES];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&digest.at.to_le_bytes());
    put(&digest.source);
    put(&digest.destination);
    put(&digest.bytes.to_le_bytes());
    put(&digest.source_port.to_le_bytes());
    put(&digest.destination_port.to_le_bytes());
    put(&[
        digest.direction,
        digest.protocol,
        digest.ttl,
        digest.traffic_class,
        digest.payload,
        digest.present,
    ]);
    put(&digest.octets);
    put(&digest.waited.to_le_bytes());
    for half in digest.halves {
        put(&half.to_le_bytes());
    }
    for word in digest.words {
        put(&word.to_le_bytes());
    }
    bytes
}

pub(super) fn digest_of(bytes: &[u8; DIGEST_BYTES]) -> RawDigest {
    let mut rest: &[u8] = bytes;
    // The lengths below add up to that of the array: zeros are never taken.
    fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
        let (field, after) =
            rest.split_first_chunk().map_or(([0; N], *rest), |(field, after)| (*field, after));
        *rest = after;
        field
    }
    RawDigest {
        at: u64::from_le_bytes(take(&mut rest)),
        source: take(&mut rest),
        destination: take(&mut rest),
        bytes: u32::from_le_bytes(take(&mut rest)),
        source_port: u16::from_le_bytes(take(&mut rest)),
        destination_port: u16::from_le_bytes(take(&mut rest)),
        direction: take::<1>(&mut rest)[0],
        protocol: take::<1>(&mut rest)[0],
        ttl: take::<1>(&mut rest)[0],
        traffic_class: take::<1>(&mut rest)[0],
        payload: take::<1>(&mut rest)[0],
        present: take::<1>(&mut rest)[0],
        octets: take(&mut rest),
        waited: u16::from_le_bytes(take(&mut rest)),
        halves: std::array::from_fn(|_| u16::from_le_bytes(take(&mut rest))),
        words: std::array::from_fn(|_| u32::from_le_bytes(take(&mut rest))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_comes_back_as_it_was() {
        let bytes: [u8; DIGEST_BYTES] = std::array::from_fn(|i| i as u8 + 1);
        let digest = digest_of(&bytes);
        assert_eq!(digest_bytes(&digest), bytes);
        assert_eq!(digest.at, 0x0807_0605_0403_0201);
        assert_eq!(digest.words[9], u32::from_le_bytes([101, 102, 103, 104]));
    }
}
