//! Digests and clamps with a fixed layout: sizes, offsets, and conversions without loss.

use std::mem::{align_of, offset_of, size_of};

use fairhop_control::digest::{
    Digest, Direction, Payload, ReceptionReport, RtcpFields, RtpFields, TcpFields, VoipMetrics, tcp_flag,
};
use fairhop_control::flow::Address;
use fairhop_control::raw::{InvalidDigest, RawClamp, RawDigest, WAITED_UNIT, payload};
use fairhop_control::window::Clamp;
use fairhop_model::units::Nanos;
use proptest::option;
use proptest::prelude::*;

use crate::packets::{AT, syn, v4};

/// A C struct of the same fields has these sizes and offsets on every machine.
#[test]
fn the_layouts_are_as_documented_and_without_padding() {
    assert_eq!((size_of::<RawDigest>(), align_of::<RawDigest>()), (104, 8));
    let offsets = [
        (offset_of!(RawDigest, at), 0),
        (offset_of!(RawDigest, source), 8),
        (offset_of!(RawDigest, destination), 24),
        (offset_of!(RawDigest, bytes), 40),
        (offset_of!(RawDigest, source_port), 44),
        (offset_of!(RawDigest, destination_port), 46),
        (offset_of!(RawDigest, direction), 48),
        (offset_of!(RawDigest, protocol), 49),
        (offset_of!(RawDigest, ttl), 50),
        (offset_of!(RawDigest, traffic_class), 51),
        (offset_of!(RawDigest, payload), 52),
        (offset_of!(RawDigest, present), 53),
        (offset_of!(RawDigest, octets), 54),
        (offset_of!(RawDigest, waited), 58),
        (offset_of!(RawDigest, halves), 60),
        (offset_of!(RawDigest, words), 64),
    ];
    for (offset, expected) in offsets {
        assert_eq!(offset, expected);
    }
    assert_eq!((size_of::<RawClamp>(), align_of::<RawClamp>()), (8, 4));
    let offsets = [
        offset_of!(RawClamp, edge),
        offset_of!(RawClamp, mss),
        offset_of!(RawClamp, scale),
        offset_of!(RawClamp, present),
    ];
    assert_eq!(offsets, [0, 4, 6, 7]);
}

/// The fields of a SYN at their documented places, so that two errors in the conversions cannot cancel.
#[test]
fn a_syn_has_its_fields_where_the_table_says() {
    let digest = Digest::read(AT, Direction::FromMesh, &v4(6, &syn())).expect("a digest");
    let raw = RawDigest::from(&digest);
    assert_eq!((raw.at, raw.direction, raw.payload, raw.protocol, raw.ttl), (7_000_000, 1, 1, 6, 62));
    assert_eq!((raw.bytes, raw.source_port, raw.destination_port, raw.traffic_class), (60, 50_000, 80, 0xb8));
    assert_eq!(
        (&raw.source[10..], &raw.destination[10..]),
        (&[255, 255, 10, 1, 0, 4][..], &[255, 255, 192, 0, 2, 1][..])
    );
    // Segment size, scale, SACK permitted, timestamps; no SACK blocks.
    assert_eq!((raw.present, raw.octets, raw.halves), (0b10111, [tcp_flag::SYN, 10, 0, 0], [64_240, 1460]));
    assert_eq!(raw.words, [9, 0, 0, 1000, 0, 0, 0, 0, 0, 0]);
    // Waits are rounded down, and the longest that 16 bits hold is a minute.
    for (waited, units) in
        [(Nanos::ZERO, 0), (Nanos(5 * WAITED_UNIT.0 - 1), 4), (Nanos::from_secs(100), u16::MAX)]
    {
        assert_eq!(RawDigest::from(&Digest { waited, ..digest }).waited, units);
    }
}

fn tcp() -> impl Strategy<Value = Payload> {
    let numbers = any::<(u32, u32, u8, u16, u32)>();
    let options = (
        option::of(any::<u16>()),
        option::of(any::<u8>()),
        any::<(bool, bool)>(),
        option::of(any::<(u32, u32)>()),
    );
    (numbers, options).prop_map(
        |((seq, ack, flags, window, payload_bytes), (mss, window_scale, sack, timestamps))| {
            let (sack_permitted, has_sack) = sack;
            Payload::Tcp(TcpFields {
                seq,
                ack,
                flags,
                window,
                payload_bytes,
                mss,
                window_scale,
                sack_permitted,
                has_sack,
                timestamps,
            })
        },
    )
}

fn rtp() -> impl Strategy<Value = Payload> {
    any::<(u8, bool, u16, u32, u32, u32)>().prop_map(
        |(payload_type, marker, sequence, timestamp, ssrc, payload_bytes)| {
            Payload::Rtp(RtpFields { payload_type, marker, sequence, timestamp, ssrc, payload_bytes })
        },
    )
}

fn rtcp() -> impl Strategy<Value = Payload> {
    let report = any::<(u32, u8, i32, u32, u32, u32, u32)>().prop_map(
        |(
            ssrc,
            fraction_lost,
            cumulative_lost,
            highest_sequence,
            jitter,
            last_sender_report,
            delay_since,
        )| {
            ReceptionReport {
                ssrc,
                fraction_lost,
                cumulative_lost,
                highest_sequence,
                jitter,
                last_sender_report,
                delay_since,
            }
        },
    );
    let voip = any::<(u32, u8, u8, u8)>().prop_map(|(ssrc, loss_rate, discard_rate, mos_cq)| VoipMetrics {
        ssrc,
        loss_rate,
        discard_rate,
        mos_cq,
    });
    (any::<u32>(), option::of(any::<u32>()), option::of(report), option::of(voip), any::<u32>()).prop_map(
        |(ssrc, sender_report, report, voip, nack_entries)| {
            Payload::Rtcp(RtcpFields { ssrc, sender_report, report, voip, nack_entries })
        },
    )
}

fn any_digest() -> impl Strategy<Value = Digest> {
    let payload = prop_oneof![tcp(), rtp(), rtcp(), Just(Payload::Udp), Just(Payload::Other)];
    let numbers = any::<(u64, bool, u16, u16, u8, u8, u8, u32)>();
    (payload, numbers, any::<u16>(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
        |(payload, numbers, waited, source, destination)| {
            let (at, down, source_port, destination_port, protocol, ttl, traffic_class, bytes) = numbers;
            Digest {
                at: Nanos(at),
                waited: WAITED_UNIT * u64::from(waited),
                direction: if down { Direction::ToMesh } else { Direction::FromMesh },
                source: Address(source),
                destination: Address(destination),
                source_port,
                destination_port,
                protocol,
                ttl,
                traffic_class,
                bytes,
                payload,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_digest_is_the_same_after_the_way_through_its_raw_form(digest in any_digest()) {
        prop_assert_eq!(Digest::try_from(&RawDigest::from(&digest)), Ok(digest));
    }

    /// Any bit pattern from outside is either refused or a digest, and what is not used does no harm.
    #[test]
    fn an_unknown_variant_is_refused_and_every_other_pattern_is_a_digest(
        direction in 0_u8..4,
        kind in 0_u8..8,
        present in any::<u8>(),
        octets in any::<[u8; 4]>(),
        halves in any::<[u16; 2]>(),
        words in any::<[u32; 10]>(),
    ) {
        let raw = RawDigest { direction, payload: kind, present, octets, halves, words, ..RawDigest::default() };
        match Digest::try_from(&raw) {
            Ok(digest) => {
                prop_assert!(direction < 2 && kind <= payload::UDP);
                prop_assert_eq!(Digest::try_from(&RawDigest::from(&digest)), Ok(digest));
            }
            Err(InvalidDigest::Direction(value)) => prop_assert!(value == direction && direction >= 2),
            Err(InvalidDigest::Payload(value)) => prop_assert!(value == kind && kind > payload::UDP),
        }
    }

    /// Whatever segments a clamp has seen, it is the same after the way through its raw form; and so is the raw form of one
    /// from outside, but for a scale over 14 and fields without a meaning.
    #[test]
    fn a_clamp_is_the_same_after_the_way_through_its_raw_form(
        scale in option::of(0_u8..20),
        mss in any::<u16>(),
        segments in prop::collection::vec(any::<(u32, u32, u8, u16)>(), 0..5),
        raw in any::<(u32, u16, u8, u8)>(),
    ) {
        let mut clamp = scale.map_or(Clamp::default(), |scale| Clamp::new(scale, mss));
        for (limit, ack, flags, field) in segments {
            clamp.apply(limit, ack, flags, field);
        }
        prop_assert_eq!(Clamp::from(&RawClamp::from(&clamp)), clamp);
        let (edge, mss, scale, present) = raw;
        let back = RawClamp::from(&Clamp::from(&RawClamp { edge, mss, scale, present }));
        prop_assert_eq!(back.present, present & (RawClamp::HAS_EDGE | RawClamp::HAS_SCALE));
        prop_assert_eq!(back.mss, mss);
        prop_assert_eq!(back.edge, if present & RawClamp::HAS_EDGE != 0 { edge } else { 0 });
        prop_assert_eq!(back.scale, if present & RawClamp::HAS_SCALE != 0 { scale.min(14) } else { 0 });
    }
}

#[test]
fn a_refused_digest_names_the_field_and_what_is_known() {
    let error =
        Digest::try_from(&RawDigest { direction: 9, ..RawDigest::default() }).expect_err("no direction");
    assert_eq!(error.to_string(), "digest with direction 9: 0 (to mesh) and 1 (from mesh) are known");
    let error = Digest::try_from(&RawDigest { payload: 5, ..RawDigest::default() }).expect_err("no kind");
    assert_eq!(error.to_string(), "digest with payload kind 5: 0 to 4 are known");
}
