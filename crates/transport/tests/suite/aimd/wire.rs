//! The format between two hosts: bytes by hand, round trips, arbitrary bytes.

use std::fs;
use std::path::Path;

use fairhop_transport::aimd::wire::{MAX_HEADER, Packet, WireError, tag_of};
use fairhop_transport::aimd::{Ack, Datagram, Seq};
use proptest::prelude::*;

#[path = "../../../../../fuzz/aimd.rs"]
mod check;

fn encoded(packet: Packet) -> Vec<u8> {
    let mut buffer = [0xaa; MAX_HEADER];
    let length = packet.encode(&mut buffer).expect("room");
    assert!(buffer[length..].iter().all(|&byte| byte == 0xaa), "nothing past the end");
    buffer[..length].to_vec()
}

#[test]
fn packets_are_these_bytes() {
    let (id, cookie, tag) = (0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x0506_0708);
    assert_eq!(tag_of(id), tag);
    assert_eq!(
        encoded(Packet::Hello { id, cookie }),
        [0x20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]
    );
    assert_eq!(encoded(Packet::Cookie { id, cookie })[..12], [0x21, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(encoded(Packet::Accept { id }), [0x22, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(encoded(Packet::Busy { id }), [0x23, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let datagram = Datagram { seq: Seq::of(0xab_cdef), sent_us: 0x1122_3344 };
    assert_eq!(
        encoded(Packet::Data { tag, datagram }),
        [0x24, 0xab, 0xcd, 0xef, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44]
    );
    let ack = Ack { seq: Seq::of(0x1_0203), vector: 0b1000_0001, rwnd: 0x0506, transit_us: 0x0708_090a };
    assert_eq!(
        encoded(Packet::Ack { tag, ack }),
        [0x25, 1, 2, 3, 5, 6, 7, 8, 0b1000_0001, 0, 5, 6, 7, 8, 9, 10]
    );
    assert_eq!(encoded(Packet::End { tag, end: Seq::of(7) }), [0x26, 0, 0, 7, 5, 6, 7, 8]);
    assert_eq!(encoded(Packet::Report { tag, received: 9 }), [0x27, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 9]);
    assert_eq!(Packet::Busy { id }.encode(&mut [0; 11]), None);
}

#[test]
fn other_bytes_are_refused_with_their_reason() {
    let refused = |bytes: &[u8]| Packet::decode(bytes).err();
    assert_eq!(refused(&[]), Some(WireError::Short));
    assert_eq!(refused(&[0x24, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Short));
    assert_eq!(
        refused(&[0x10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        Some(WireError::Version),
        "data of version 1"
    );
    assert_eq!(refused(&[0x28, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Kind));
    assert_eq!(refused(&[0x26, 0, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Long));
    assert_eq!(refused(&[0x27, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Reserved));
    assert_eq!(refused(&[0x25, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), Some(WireError::Reserved));
}

#[test]
fn bytes_of_the_corpus_neither_panic_nor_change_when_encoded_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/aimd");
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        check::check(&fs::read(entry.expect("an entry").path()).expect("a file"));
        read += 1;
    }
    assert!(read > 20, "only {read} files");
}

fn packet() -> impl Strategy<Value = Packet> {
    let seq = || any::<u64>().prop_map(Seq::of);
    let (id, tag) = (any::<u64>, any::<u32>);
    prop_oneof![
        (id(), id()).prop_map(|(id, cookie)| Packet::Hello { id, cookie }),
        (id(), id()).prop_map(|(id, cookie)| Packet::Cookie { id, cookie }),
        id().prop_map(|id| Packet::Accept { id }),
        id().prop_map(|id| Packet::Busy { id }),
        (tag(), seq(), tag())
            .prop_map(|(tag, seq, sent_us)| Packet::Data { tag, datagram: Datagram { seq, sent_us } }),
        (tag(), seq(), any::<u8>(), any::<u16>(), tag()).prop_map(|(tag, seq, vector, rwnd, transit_us)| {
            Packet::Ack { tag, ack: Ack { seq, vector, rwnd, transit_us } }
        }),
        (tag(), seq()).prop_map(|(tag, end)| Packet::End { tag, end }),
        (tag(), tag()).prop_map(|(tag, received)| Packet::Report { tag, received }),
    ]
}

proptest! {
    #[test]
    fn packets_survive_encoding_and_decoding(
        packet in packet(), payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = encoded(packet);
        if matches!(packet, Packet::Data { .. }) {
            bytes.extend(&payload);
            prop_assert_eq!(Packet::decode(&bytes), Ok((packet, &payload[..])));
        } else {
            prop_assert_eq!(Packet::decode(&bytes), Ok((packet, &[][..])));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        check::check(&bytes);
    }
}
