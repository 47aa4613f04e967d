//! Packets as bytes: what is read out of them by the standards' layouts, and that no bytes cause a panic.

use std::fs;
use std::path::Path;

use fairhop_control::digest::{
    Digest, Direction, Payload, ReceptionReport, RtcpFields, RtpFields, TcpFields, VoipMetrics, tcp_flag,
};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::window::{Clamp, Clamps, rewrite, update_checksum};
use fairhop_model::units::Nanos;
use proptest::prelude::*;

use crate::check_packet;

pub(crate) const AT: Nanos = Nanos::from_millis(7);

pub(crate) fn v4(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let length = (20 + transport.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0xb8, length[0], length[1], 0, 0, 0x40, 0, 62, protocol, 0, 0];
    packet.extend([10, 1, 0, 4, 192, 0, 2, 1]);
    packet.extend_from_slice(transport);
    packet
}

pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let mut bytes = vec![0xc3, 0x50, 0xc3, 0x51, length[0], length[1], 0, 0];
    bytes.extend_from_slice(payload);
    bytes
}

/// SYN of 10.1.0.4:50000 with MSS 1460, SACK permitted, timestamps 1000 and 0, scale 10, as Linux lays them out.
pub(crate) fn syn() -> Vec<u8> {
    let mut tcp = vec![0xc3, 0x50, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0];
    tcp.extend([2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 3, 0xe8, 0, 0, 0, 0, 1, 3, 3, 10]);
    tcp
}

/// G.729A, 20 ms, with the marker.
pub(crate) fn rtp() -> Vec<u8> {
    let mut rtp = vec![0x80, 0x80 | 18, 1, 2, 0, 0, 0xa1, 0x40, 0, 0, 0, 7];
    rtp.extend([0; 20]);
    rtp
}

/// A sender report with a block, then XR with VoIP metrics.
pub(crate) fn rtcp() -> Vec<u8> {
    let mut rtcp = vec![0x81, 200, 0, 12, 0, 0, 0, 5, 0, 0, 0x12, 0x34, 0x56, 0x78, 0, 0];
    rtcp.extend([0; 12]);
    rtcp.extend([
        0, 0, 0, 7, 64, 0xff, 0xff, 0xfe, 0, 1, 0, 9, 0, 0, 0, 80, 0xaa, 0xbb, 0xcc, 0xdd, 0, 1, 0, 0,
    ]);
    rtcp.extend([0x80, 207, 0, 10, 0, 0, 0, 5, 7, 0, 0, 8, 0, 0, 0, 7, 26, 13]);
    rtcp.resize(52 + 8 + 36, 0);
    rtcp[52 + 8 + 27] = 31;
    rtcp
}

fn read(packet: &[u8]) -> Digest {
    Digest::read(AT, Direction::FromMesh, packet).expect("a digest")
}

#[test]
fn a_syn_has_all_fields_that_a_clamp_needs() {
    let digest = read(&v4(6, &syn()));
    let key = FlowKey {
        mesh: Address::v4([10, 1, 0, 4]),
        wired: Address::v4([192, 0, 2, 1]),
        mesh_port: 50_000,
        wired_port: 80,
        protocol: 6,
    };
    assert_eq!((digest.flow(), digest.ttl, digest.traffic_class, digest.bytes), (key, 62, 0xb8, 60));
    let expected = TcpFields {
        seq: 9,
        ack: 0,
        flags: tcp_flag::SYN,
        window: 64_240,
        payload_bytes: 0,
        mss: Some(1460),
        window_scale: Some(10),
        sack_permitted: true,
        has_sack: false,
        timestamps: Some((1000, 0)),
    };
    assert_eq!(digest.payload, Payload::Tcp(expected));
    assert_eq!(expected.seq_end(), 10);
    // Cut after the MSS, as by a kernel that passes on 44 bytes.
    let Payload::Tcp(cut) = read(&v4(6, &syn())[..44]).payload else { panic!("TCP") };
    assert_eq!((cut.mss, cut.window_scale), (Some(1460), None));
    // A scale of 15 counts as 14; a header longer than the packet is invalid.
    let mut odd = syn();
    odd[39] = 15;
    let Payload::Tcp(fields) = read(&v4(6, &odd)).payload else { panic!("TCP") };
    assert_eq!(fields.window_scale, Some(14));
    odd[12] = 0xf0;
    assert_eq!(read(&v4(6, &odd)).payload, Payload::Other);
    // A later fragment has no ports.
    let mut fragment = v4(6, &syn());
    fragment[7] = 1;
    assert_eq!((read(&fragment).payload, read(&fragment).source_port), (Payload::Other, 0));
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    // Hop-by-hop of 16 bytes, first fragment, UDP of 20 bytes with RTP.
    let transport = udp(&rtp());
    let payload = (16 + 8 + transport.len() as u16).to_be_bytes();
    let mut packet = vec![0x6b, 0x80, 0, 0, payload[0], payload[1], 0, 63];
    packet.extend([0xfd; 16]);
    packet.extend([0x20; 16]);
    packet.extend([44, 1]);
    packet.extend([0; 14]);
    packet.extend([17, 0, 0, 1, 0, 0, 0, 0]);
    packet.extend(transport);
    let digest = read(&packet);
    assert_eq!((digest.protocol, digest.ttl, digest.traffic_class), (17, 63, 0xb8));
    assert_eq!((digest.source, digest.bytes as usize), (Address::v6([0xfd; 16]), packet.len()));
    let expected = RtpFields {
        payload_type: 18,
        marker: true,
        sequence: 258,
        timestamp: 41_280,
        ssrc: 7,
        payload_bytes: 20,
    };
    assert_eq!(digest.payload, Payload::Rtp(expected));
}

#[test]
fn the_payload_of_rtp_begins_after_its_contributing_sources_and_extension() {
    // Two contributing sources, then an extension of one word.
    let mut packet = rtp();
    packet[0] = 0x80 | 0x10 | 2;
    packet[20..24].copy_from_slice(&[0xbe, 0xde, 0, 1]);
    let Payload::Rtp(fields) = read(&v4(17, &udp(&packet))).payload else { panic!("RTP") };
    assert_eq!((fields.payload_bytes, fields.ssrc), (20 - 8 - 8, 7));
    // More sources than bytes.
    packet[0] = 0x80 | 15;
    assert_eq!(read(&v4(17, &udp(&packet))).payload, Payload::Udp);
}

#[test]
fn rtcp_is_distinguished_from_rtp_and_all_parts_of_a_compound_packet_are_read() {
    let Payload::Rtcp(fields) = read(&v4(17, &udp(&rtcp()))).payload else { panic!("RTCP") };
    let report = ReceptionReport {
        ssrc: 7,
        fraction_lost: 64,
        cumulative_lost: -2,
        highest_sequence: 65_545,
        jitter: 80,
        last_sender_report: 0xaabb_ccdd,
        delay_since: 65_536,
    };
    let voip = VoipMetrics { ssrc: 7, loss_rate: 26, discard_rate: 13, mos_cq: 31 };
    let expected = RtcpFields {
        ssrc: 5,
        sender_report: Some(0x1234_5678),
        report: Some(report),
        voip: Some(voip),
        nack_entries: 0,
    };
    assert_eq!(fields, expected);
    // STUN begins with two zero bits, so it is not RTP.
    assert_eq!(read(&v4(17, &udp(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0]))).payload, Payload::Udp);
}

#[test]
fn entries_of_nacks_are_counted_in_clear_and_in_encrypted_packets() {
    let entries_of = |packet: &[u8]| match read(&v4(17, &udp(packet))).payload {
        Payload::Rtcp(fields) => fields.nack_entries,
        other => panic!("{other:?}"),
    };
    let part = |format: u8, kind: u8, words: u8| {
        let mut part = vec![0x80 | format, kind, 0, words];
        part.resize(4 * (usize::from(words) + 1), 0xe5);
        part
    };
    // RFC 4585 §6.1: two words follow the header, then the entries.
    assert_eq!(entries_of(&part(1, 205, 3)), 1);
    assert_eq!(entries_of(&part(1, 205, 6)), 4);
    assert_eq!(entries_of(&part(1, 205, 2)), 0);
    // Behind a report without blocks, and twice.
    assert_eq!(entries_of(&[part(0, 201, 1), part(1, 205, 4), part(1, 205, 3)].concat()), 3);
    // Of a part that is longer than the packet, what is there.
    assert_eq!(entries_of(&part(1, 205, 6)[..20]), 2);
    // Other feedback: temporary bit rates, that of transport-wide congestion control, a picture that is lost.
    for (format, kind) in [(3, 205), (15, 205), (1, 206)] {
        assert_eq!(entries_of(&part(format, kind, 6)), 0);
    }
    // RFC 3711 §3.4: what is behind the first eight bytes is encrypted; index and tag follow.
    let encrypted = [part(1, 205, 3), vec![0x80, 0, 0, 1], vec![0x9d; 10]].concat();
    assert_eq!(entries_of(&encrypted), 1);
}

#[test]
fn packets_of_a_relayed_call_are_read_in_the_messages_of_their_channel() {
    let message = |length: usize, carried: &[u8], padding: usize| {
        let mut message = vec![0x4f, 0xff];
        message.extend((length as u16).to_be_bytes());
        message.extend(carried);
        message.extend(vec![0; padding]);
        read(&v4(17, &udp(&message))).payload
    };
    let alone = |payload: &[u8]| read(&v4(17, &udp(payload))).payload;
    for carried in [rtp(), rtcp()] {
        let length = carried.len();
        assert_ne!(alone(&carried), Payload::Udp);
        for padding in 0..=3 {
            assert_eq!(message(length, &carried, padding), alone(&carried), "padding of {padding}");
        }
        // No such message: its length is another one, as in QUIC, whose short header may begin with the same byte.
        assert_eq!(message(length, &carried, 4), Payload::Udp);
        assert_eq!(message(length + 1, &carried, 0), Payload::Udp);
        assert_eq!(message(0, &carried, 0), Payload::Udp);
    }
    for cut in 0..4 {
        assert_eq!(alone(&[0x40, 0, 0, 0][..cut]), Payload::Udp);
    }
    // A channel in a channel is none.
    let mut inner = vec![0x40, 0, 0, 32];
    inner.extend(rtp());
    assert_eq!(message(inner.len(), &inner, 0), Payload::Udp);
}

#[test]
fn the_corpus_causes_no_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/packet");
    let (mut read, mut observer) = (0, check_packet::observer());
    for entry in fs::read_dir(folder).expect("the corpus") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
        check_packet::check(&bytes, &mut observer, Nanos::from_millis(read));
        read += 1;
    }
    assert!(read > 20, "only {read} packets");
}

/// RFC 1071 over the TCP part and its pseudo-header.
fn tcp_checksum(packet: &[u8]) -> u16 {
    let words = |bytes: &[u8]| {
        bytes.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(*b.get(1).unwrap_or(&0))).sum::<u32>()
    };
    let mut sum = words(&packet[12..20]) + 6 + (packet.len() as u32 - 20) + words(&packet[20..]);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn a_checksum_is_updated_as_in_the_example_of_rfc_1624() {
    // §4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 give 0x0000.
    assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        check_packet::check(&bytes, &mut check_packet::observer(), AT);
    }

    /// Bytes that pass the first checks: a valid IP header, transports with any content, cut anywhere.
    #[test]
    fn no_transport_causes_a_panic(
        protocol in prop_oneof![Just(6_u8), Just(17)],
        first in prop_oneof![Just(0x80_u8), Just(0x81), Just(0x50), Just(0xf0), any::<u8>()],
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
        cut in 0_usize..140,
    ) {
        let place = if protocol == 6 { 12 } else { 8 };
        if let Some(byte) = bytes.get_mut(place) {
            *byte = first;
        }
        let packet = v4(protocol, &bytes);
        check_packet::check(&packet[..cut.min(packet.len())], &mut check_packet::observer(), AT);
    }

    /// A valid checksum stays valid, whatever the segment, and the window does not grow.
    #[test]
    fn a_clamped_segment_has_a_valid_checksum_and_no_larger_window(
        mut tcp in proptest::collection::vec(any::<u8>(), 20..200),
        words in 5_u8..16,
        limit in 0_u32..100_000,
        scale in 0_u8..15,
    ) {
        tcp[12] = words << 4 | tcp[12] & 0x0f;
        (tcp[16], tcp[17]) = (0, 0);
        let mut packet = v4(6, &tcp);
        let check = tcp_checksum(&packet).to_be_bytes();
        (packet[36], packet[37]) = (check[0], check[1]);
        prop_assert_eq!(tcp_checksum(&packet), 0);
        let before = u16::from_be_bytes([packet[34], packet[35]]);
        let mut clamp = Clamp::new(scale, 1460);
        rewrite(&mut packet, |fields| clamp.apply(limit, fields.ack, fields.flags, fields.window));
        prop_assert!(u16::from_be_bytes([packet[34], packet[35]]) <= before);
        prop_assert_eq!(tcp_checksum(&packet), 0);
    }

    /// With a receiver that never moves its own edge back, repeated and reordered ACKs, and a clamp that changes at any time,
    /// the sender's right edge never moves back, is never beyond the receiver's, and never leaves room for more full segments than the
    /// clamp holds, or for one, except for what was offered before and for rounding to units.
    #[test]
    fn the_right_edge_never_moves_back_and_never_past_the_receivers(
        scale in 0_u8..15,
        start in any::<u32>(),
        steps in proptest::collection::vec((0_u32..30_000, 0_u32..60_000, 0_u32..80_000, 0_u32..4), 1..60),
    ) {
        let mut clamp = Clamp::new(scale, 1460);
        let (mut ack, mut offered, mut edge) = (start, start, start);
        let mut past: Vec<(u32, u16)> = Vec::new();
        let grain = 1_u32 << scale;
        for (acked, window, limit, again) in steps {
            ack = ack.wrapping_add(acked.min(edge.wrapping_sub(ack)));
            // The receiver's edge never moves back; the field rounds it up to units.
            let wanted = ack.wrapping_add(window);
            if wanted.wrapping_sub(offered).cast_signed() > 0 {
                offered = wanted;
            }
            let field = (offered.wrapping_sub(ack).div_ceil(grain)).min(65_535) as u16;
            past.push((ack, field));
            let (number, field) = if again == 0 { past[past.len() / 2] } else { (ack, field) };
            let passed = clamp.apply(limit, number, tcp_flag::ACK, field);
            prop_assert!(passed <= field);
            let new = number.wrapping_add(u32::from(passed) << scale);
            let theirs = number.wrapping_add(u32::from(field) << scale);
            if theirs.wrapping_sub(edge).cast_signed() >= 0 {
                prop_assert!(new.wrapping_sub(edge).cast_signed() >= 0, "{new} {edge}");
            }
            if new.wrapping_sub(edge).cast_signed() > 0 {
                let by_rounding = new.wrapping_sub(edge) < grain;
                let room = new.wrapping_sub(number);
                let whole = (limit / 1460).max(1) * 1460;
                prop_assert!(by_rounding || room <= limit || room < whole + grain);
                edge = new;
            }
        }
    }
}

#[test]
fn windows_are_scaled_only_if_both_ends_offer_a_scale() {
    let key = FlowKey::default();
    for (wired, mesh, field) in
        [(None, None, 10_000), (Some(7), None, 10_000), (None, Some(7), 10_000), (Some(3), Some(7), 79)]
    {
        let mut clamps = Clamps::new(4);
        let mut show = |direction, flags, window_scale| {
            let mss = Some(1460);
            let fields =
                TcpFields { flags, ack: 1 << 20, window: 60_000, mss, window_scale, ..TcpFields::default() };
            clamps.on_segment(AT, &key, direction, &fields, Some(10_000))
        };
        show(Direction::ToMesh, tcp_flag::SYN, wired);
        show(Direction::FromMesh, tcp_flag::SYN | tcp_flag::ACK, mesh);
        // The SYN has offered 10,000 bytes already: 79 units of 128 bytes, rounded up.
        assert_eq!(show(Direction::FromMesh, tcp_flag::ACK, None), field, "{wired:?} and {mesh:?}");
    }
}

#[test]
fn a_clamp_has_room_for_the_full_segments_that_it_holds_and_a_zero_window_stays_zero() {
    let bytes = |scale, mss, limit| {
        let field = Clamp::new(scale, mss).apply(limit, 1000, tcp_flag::ACK, 65_535);
        u32::from(field) << scale
    };
    // One segment at least, in whole units.
    assert_eq!((bytes(10, 1460, 0), bytes(0, 1460, 0), bytes(7, 1448, 0)), (2048, 1460, 1536));
    // Two segments, for which two units of 1024 or 22 of 128 bytes are too few.
    assert_eq!((bytes(10, 1460, 3000), bytes(7, 1460, 2920)), (3072, 2944));
    // Rounded down where no segment is lost by it: 11 segments are 16,060 bytes.
    assert_eq!((bytes(10, 1460, 17_000), bytes(0, 1460, 2919)), (16_384, 2919));
    let mut clamp = Clamp::new(10, 1460);
    // 500 kB offered, clamp of 100 bytes: the floor, two units.
    assert_eq!(clamp.apply(100, 1000, tcp_flag::ACK, 500), 2);
    // 1000 bytes are acknowledged, 1048 are still offered: two units again, since one would move the edge back.
    assert_eq!(clamp.apply(100, 2000, tcp_flag::ACK, 500), 2);
    assert_eq!(clamp.apply(100, 2000, tcp_flag::ACK, 0), 0);
    // The window update after it opens to what was offered before, and no further.
    assert_eq!(clamp.apply(100, 2000, tcp_flag::ACK, 500), 2);
    assert_eq!(clamp.apply(1 << 20, 2000, tcp_flag::ACK, 500), 500);
    // The window of a SYN counts in bytes and keeps a segment. A reset passes unchanged.
    assert_eq!(Clamp::new(10, 1460).apply(100, 0, tcp_flag::SYN, 65_535), 1460);
    assert_eq!(Clamp::new(10, 1460).apply(100, 0, tcp_flag::RST, 700), 700);
    assert_eq!(Clamp::default().apply(100, 0, tcp_flag::ACK, 700), 700);
}
