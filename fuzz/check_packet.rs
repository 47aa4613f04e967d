//! What holds for all bytes that are taken for a packet. Used by the fuzz target and by the test that replays the corpus.

use fairhop_control::digest::{Digest, Direction, Payload};
use fairhop_control::window::rewrite;
use fairhop_control::{Observer, ObserverConfig};
use fairhop_model::units::Nanos;

/// Reads `bytes` both ways and shows the digests to `observer`; rewrites a window. Nothing panics; what is rewritten is
/// four bytes, with a smaller window, and its checksum is as right or wrong as before.
pub(crate) fn check(bytes: &[u8], observer: &mut Observer, at: Nanos) {
    for direction in [Direction::ToMesh, Direction::FromMesh] {
        if let Some(digest) = Digest::read(at, direction, bytes) {
            observer.on_digest(&digest);
            assert_eq!(digest.flow(), Digest::read(at, direction, bytes).expect("the same").flow());
        }
    }
    let before = Digest::read(at, Direction::ToMesh, bytes);
    let mut packet = bytes.to_vec();
    let changed = rewrite(&mut packet, |tcp| tcp.window / 2);
    let differing = packet.iter().zip(bytes).filter(|(a, b)| a != b).count();
    assert_eq!(changed, differing > 0);
    assert!(differing <= 4 && packet.len() == bytes.len());
    if changed {
        let after = Digest::read(at, Direction::ToMesh, &packet);
        match (before.map(|digest| digest.payload), after.map(|digest| digest.payload)) {
            (Some(Payload::Tcp(before)), Some(Payload::Tcp(after))) => {
                assert_eq!(after.window, before.window / 2);
                assert_eq!(sum(bytes), sum(&packet));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An observer for checks.
pub(crate) fn observer() -> Observer {
    Observer::new(ObserverConfig { flows: 8, ..ObserverConfig::default() })
}

/// The sum of all words in ones' complement; both ways to write zero are one.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = words.fold(0_u32, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    });
    sum = (sum & 0xffff) + (sum >> 16);
    sum % 0xffff
}
