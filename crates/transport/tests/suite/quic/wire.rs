//! The packet format: packets encoded by hand, round trips, and invalid input.

use std::fs;
use std::path::Path;

use fairhop_transport::quic::wire::{DecodeError, EncodeError, MAX_DATAGRAM, Packet};
use fairhop_transport::quic::{AckFrame, Datagram, StreamFrame};
use proptest::prelude::*;

#[path = "../../../../../fuzz/check_quic.rs"]
mod check;

const CONNECTION: u64 = 0x0102_0304_0506_0708;

/// Header with number 0x1234, frames, and a tag.
fn packet(frames: &[u8]) -> Vec<u8> {
    [&[0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34], frames, &[0; 16]].concat()
}

fn encoded(datagram: Datagram, payload: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let packet = Packet { connection: CONNECTION, datagram };
    let mut buffer = vec![0xaa; MAX_DATAGRAM + 1];
    let length = packet.encode(datagram.number.checked_sub(1), payload, &mut buffer)?;
    assert!(buffer[length..].iter().all(|&byte| byte == 0xaa), "no bytes past the end");
    buffer.truncate(length);
    Ok(buffer)
}

#[test]
fn rfc9000_17_and_19_packets_are_these_bytes() {
    let number = 0x1234;
    let mut ack = AckFrame::of(96, 100).expect("a range");
    ack.delay_us = 25_000;
    assert!(ack.push(20, 90));
    let stream = Some(StreamFrame { offset: 70_000, len: 3, fin: true });
    let full = Datagram {
        number,
        stream,
        ack: Some(ack),
        max_data: Some(63),
        data_blocked: Some(16_384),
        ping: true,
    };
    let frames = [
        // Largest 100, 25 ms in units of 8 µs, one range more; 100 to 96, a gap of 95 to 91, 90 to 20.
        &[0x02, 0x40, 100, 0x4c, 0x35, 1, 4, 4, 0x40, 70][..],
        &[0x10, 63],
        &[0x14, 0x80, 0, 0x40, 0],
        &[0x01],
        // With offset, length and end; stream 0.
        &[0x0f, 0, 0x80, 0x01, 0x11, 0x70, 3, 7, 8, 9],
    ]
    .concat();
    assert_eq!(encoded(full, &[7, 8, 9]), Ok(packet(&frames)));
    // RFC 9001 §5.4.2: two bytes of frames at least.
    assert_eq!(encoded(Datagram { number, ping: true, ..Datagram::default() }, &[]), Ok(packet(&[1, 0])));
}

#[test]
fn alternative_encodings_are_decoded() {
    let read = |bytes: &[u8]| Packet::decode(bytes, Some(0x1233)).map(|(packet, _)| packet.datagram);
    let ping = Datagram { number: 0x1234, ping: true, ..Datagram::default() };
    assert_eq!(read(&packet(&[0, 0, 1, 0, 1])), Ok(ping));
    // A number of one byte, and one of four.
    let header =
        |first: u8, number: &[u8]| [&[first, 0, 0, 0, 0, 0, 0, 0, 0], number, &[1], &[0; 16]].concat();
    assert_eq!(read(&header(0x40, &[0x34])), Ok(ping));
    assert_eq!(read(&header(0x43, &[0, 0, 0x12, 0x34])), Ok(ping));
    // The spin bit is ignored (RFC 9000 §17.4).
    assert_eq!(read(&header(0x60, &[0x34])), Ok(ping));
    // A stream from 0 to the end of the packet; an integer of eight bytes instead of one; a later frame first.
    let bytes = packet(&[0x14, 0xc0, 0, 0, 0, 0, 0, 0, 5, 0x10, 6, 0x08, 0, 0xff, 0xff]);
    let (read, payload) = Packet::decode(&bytes, None).expect("a packet");
    assert_eq!(payload, [0xff, 0xff]);
    let stream = StreamFrame { offset: 0, len: 2, fin: false };
    assert_eq!((read.datagram.stream, read.datagram.max_data), (Some(stream), Some(6)));
    assert_eq!(read.datagram.data_blocked, Some(5));
}

#[test]
fn invalid_packets_are_rejected_with_their_reason() {
    use DecodeError as E;
    let refused = |bytes: &[u8]| Packet::decode(bytes, None).err();
    let frames = |frames: &[u8]| refused(&packet(frames));
    assert_eq!(refused(&[]), Some(E::Short));
    assert_eq!(refused(&packet(&[1])[..26]), Some(E::Short));
    assert_eq!(refused(&vec![0x41; MAX_DATAGRAM + 1]), Some(E::Long));
    let first = |first: u8| {
        let mut bytes = packet(&[1, 0]);
        bytes[0] = first;
        refused(&bytes)
    };
    assert_eq!([0xc1, 0x01, 0x51, 0x45].map(first), [E::LongHeader, E::FixedBit, E::Bits, E::Bits].map(Some));
    assert_eq!(refused(&[packet(&[1]), vec![1]].concat()), Some(E::Tag));
    assert_eq!(frames(&[]), Some(E::Empty));
    // An acknowledgment with ECN counts; a type of two bytes.
    assert_eq!(frames(&[0x03, 0, 0, 0, 0]), Some(E::Frame { kind: 3 }));
    assert_eq!(frames(&[0x40, 0x01]), Some(E::Frame { kind: 0x40 }));
    assert_eq!(frames(&[0x10, 1, 0x10, 2]), Some(E::Twice { kind: 0x10 }));
    assert_eq!(frames(&[0x0a, 4, 0]), Some(E::Stream { id: 4 }));
    assert_eq!(frames(&[0x0a, 0, 2, 0xff]), Some(E::Short));
    assert_eq!(frames(&[0x0c, 0, 0xff, 255, 255, 255, 255, 255, 255, 255, 9]), Some(E::End));
    assert_eq!(frames(&[0x02, 3, 0, 0, 4]), Some(E::Range));
    assert_eq!(frames(&[0x02, 3, 0, 1, 2, 0, 0]), Some(E::Range));
    assert_eq!(frames(&[0x02, 0xc0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 1, 0, 0, 0, 0]), Some(E::Ranges));
    let seventeen = [&[0x02, 63, 0, 16, 0][..], &[0; 32]].concat();
    assert_eq!(frames(&seventeen), Some(E::Ranges));
}

#[test]
fn packets_that_cannot_be_encoded_are_rejected_with_their_reason() {
    use EncodeError as E;
    let ping = Datagram { ping: true, ..Datagram::default() };
    assert_eq!(
        Packet { connection: 0, datagram: ping }.encode(None, &[], &mut [0; 28]),
        Err(E::Room { needed: 29 })
    );
    let stream = |offset, len| Datagram {
        stream: Some(StreamFrame { offset, len, fin: false }),
        ..Datagram::default()
    };
    assert_eq!(encoded(stream(0, 2), &[1]), Err(E::Payload { frame: 2, given: 1 }));
    assert_eq!(encoded(ping, &[1]), Err(E::Payload { frame: 0, given: 1 }));
    // Header and tag, type and stream, offset, a length of four bytes: the rest is payload.
    let max = MAX_DATAGRAM - 27 - 2 - 1 - 4;
    assert_eq!(encoded(stream(0, max as u32), &vec![1; max]).map(|bytes| bytes.len()), Ok(MAX_DATAGRAM));
    assert_eq!(encoded(stream(0, max as u32 + 1), &vec![1; max + 1]), Err(E::Long));
    assert_eq!(encoded(stream((1 << 62) - 1, 1), &[1]), Err(E::Large));
    assert_eq!(encoded(Datagram { max_data: Some(1 << 62), ..Datagram::default() }, &[]), Err(E::Large));
    let number = |number| Packet { connection: 0, datagram: Datagram { number, ..ping } };
    let ahead = |number_, acknowledged| number(number_).encode(acknowledged, &[], &mut [0; 29]);
    assert_eq!([ahead(32_767, None), ahead(32_868, Some(100))], [Ok(29); 2]);
    assert_eq!([ahead(32_768, None), ahead(32_869, Some(100))], [Err(E::Number); 2]);
}

#[test]
fn no_bytes_of_the_corpus_panic_or_change_when_encoded_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/quic");
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        check::check(&fs::read(entry.expect("an entry").path()).expect("a file"));
        read += 1;
    }
    assert!(read > 20, "only {read} files");
}

/// Integers of every length.
fn integer() -> impl Strategy<Value = u64> {
    (0..62_u32, any::<u64>()).prop_map(|(bits, value)| value & ((2 << bits) - 1))
}

fn ack() -> impl Strategy<Value = AckFrame> {
    let ranges = prop::collection::vec((integer(), 0..5_000_u64), 0..AckFrame::MAX);
    (integer(), 0..300_u64, 0..u32::MAX / 8, ranges).prop_map(|(largest, length, delay, ranges)| {
        let mut first = largest.saturating_sub(length);
        let mut frame = AckFrame::of(first, largest).expect("a range");
        frame.delay_us = 8 * delay;
        for (gap, length) in ranges {
            let Some(last) = first.checked_sub(2 + gap % 100_000) else { break };
            first = last.saturating_sub(length);
            assert!(frame.push(first, last));
        }
        frame
    })
}

fn datagram() -> impl Strategy<Value = (Datagram, Vec<u8>)> {
    let stream = (integer(), prop::collection::vec(any::<u8>(), 0..1500), any::<bool>());
    let limit = || prop::option::of(integer());
    (integer(), prop::option::of(stream), prop::option::of(ack()), limit(), limit(), any::<bool>()).prop_map(
        |(number, stream, ack, max_data, data_blocked, ping)| {
            let (stream, payload) = stream.map_or_else(
                || (None, Vec::new()),
                |(offset, payload, fin)| {
                    let len = payload.len() as u32;
                    let offset = offset.min((1 << 62) - 1 - u64::from(len));
                    (Some(StreamFrame { offset, len, fin }), payload)
                },
            );
            (Datagram { number, stream, ack, max_data, data_blocked, ping }, payload)
        },
    )
}

proptest! {
    #[test]
    fn encoded_packets_have_the_expected_length_and_decode_to_the_same((datagram, payload) in datagram()) {
        let bytes = encoded(datagram, &payload).expect("a packet");
        prop_assert_eq!(bytes.len() as u32, datagram.wire_bytes());
        let packet = Packet { connection: CONNECTION, datagram };
        prop_assert_eq!(Packet::decode(&bytes, datagram.number.checked_sub(1)), Ok((packet, &payload[..])));
    }

    #[test]
    fn rfc9000_17_1_a_number_is_decoded_whatever_arrived_since_the_last_acknowledgment_or_overtook_it(
        number in integer(), unacknowledged in 1..=1_u64 << 15, largest in -(1_i64 << 15)..(1 << 15) - 1,
    ) {
        let acknowledged = number.checked_sub(unacknowledged);
        prop_assume!(acknowledged.is_some() || number < 1 << 15);
        let datagram = Datagram { number, ping: true, ..Datagram::default() };
        let mut bytes = [0; 29];
        prop_assert_eq!(Packet { connection: 0, datagram }.encode(acknowledged, &[], &mut bytes), Ok(29));
        // Acknowledged packets have arrived.
        let largest = number.checked_add_signed(largest).max(acknowledged);
        let (read, _) = Packet::decode(&bytes, largest).expect("a packet");
        prop_assert_eq!(read.datagram.number, number);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), frames in prop::collection::vec(0..0x16_u8, 0..40)) {
        check::check(&bytes);
        check::check(&packet(&frames));
    }
}
