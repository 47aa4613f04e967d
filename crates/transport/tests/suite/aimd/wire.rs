//! The format between two hosts: bytes by hand, round trips, and whatever else may arrive.

use std::fs;
use std::path::Path;

use fairhop_transport::aimd::wire::{Body, MAX_HEADER, Packet, WireError};
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
    let flow = 0x0102_0304;
    let packet = |body| encoded(Packet { flow, body });
    let datagram = Datagram { seq: Seq::of(0xab_cdef), sent_us: 0x1122_3344 };
    assert_eq!(packet(Body::Data(datagram)), [0x10, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44]);
    let ack = Ack { seq: Seq::of(0x1_0203), vector: 0b1000_0001, rwnd: 0x0506, transit_us: 0x0708_090a };
    assert_eq!(packet(Body::Ack(ack)), [0x11, 1, 2, 3, 1, 2, 3, 4, 0b1000_0001, 0, 5, 6, 7, 8, 9, 10]);
    assert_eq!(packet(Body::End { end: Seq::of(7) }), [0x12, 0, 0, 7, 1, 2, 3, 4]);
    assert_eq!(packet(Body::Report { received: 9 }), [0x13, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 9]);
    assert_eq!(packet(Body::Busy), [0x14, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(Packet { flow, body: Body::Busy }.encode(&mut [0; 7]), None);
}

#[test]
fn what_is_no_packet_is_refused_for_its_reason() {
    let refused = |bytes: &[u8]| Packet::decode(bytes).err();
    assert_eq!(refused(&[]), Some(WireError::Short));
    assert_eq!(refused(&[0x10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Short));
    assert_eq!(refused(&[0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Version));
    assert_eq!(refused(&[0x15, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Kind));
    assert_eq!(refused(&[0x14, 0, 0, 0, 0, 0, 0, 0, 0]), Some(WireError::Long));
    assert_eq!(refused(&[0x14, 0, 0, 1, 0, 0, 0, 0]), Some(WireError::Reserved));
    assert_eq!(refused(&[0x11, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), Some(WireError::Reserved));
}

#[test]
fn no_bytes_of_the_corpus_panic_or_change_when_they_are_written_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/aimd");
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        check::check(&fs::read(entry.expect("an entry").path()).expect("a file"));
        read += 1;
    }
    assert!(read > 20, "only {read} files");
}

fn body() -> impl Strategy<Value = Body> {
    let seq = || any::<u64>().prop_map(Seq::of);
    prop_oneof![
        (seq(), any::<u32>()).prop_map(|(seq, sent_us)| Body::Data(Datagram { seq, sent_us })),
        (seq(), any::<u8>(), any::<u16>(), any::<u32>())
            .prop_map(|(seq, vector, rwnd, transit_us)| Body::Ack(Ack { seq, vector, rwnd, transit_us })),
        seq().prop_map(|end| Body::End { end }),
        any::<u32>().prop_map(|received| Body::Report { received }),
        Just(Body::Busy),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        flow in any::<u32>(), body in body(), payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let packet = Packet { flow, body };
        let mut bytes = encoded(packet);
        if matches!(body, Body::Data(_)) {
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
