//! No allocation per packet: pacers, clamps, the digest reader and the whole gateway take their memory at the start.

use fairhop_control::digest::{Digest, Direction, Payload, TcpFields, tcp_flag};
use fairhop_control::flow::FlowKey;
use fairhop_control::gateway::{Arrival, Gateway, Verdict};
use fairhop_control::pacer::{AckPacer, Pacer, PacerConfig};
use fairhop_control::raw::{RawClamp, RawDigest};
use fairhop_control::window::{Clamp, Clamps, rewrite};
use fairhop_control::{ControllerConfig, FixedConfig, ObserverConfig};
use fairhop_model::units::{BitRate, Nanos};

use crate::counting;
use crate::packets::{AT, rtcp, rtp, syn, udp, v4};

/// Twice as many flows as fit, each from its first packet on, and more packets than may wait.
#[test]
fn a_pacer_allocates_for_no_packet_not_even_the_first_of_a_flow() {
    let config = PacerConfig { packets: 50, flows: 16, mark_after: None };
    let (mut data, mut acks) = (Pacer::new(config), AckPacer::new(50, 16));
    data.set_aggregate(Some(BitRate(5_000_000)));
    acks.set_rate(Some(BitRate(5_000_000)));
    let before = counting::allocations();
    let (mut sent, mut dropped) = (0, 0);
    for round in 0..5_000_u64 {
        let now = Nanos::from_micros(round * 500);
        let key = FlowKey { mesh_port: (round % 32) as u16, ..FlowKey::default() };
        dropped += u32::from(data.offer(now, &key, 1500, false, round).is_some());
        dropped += u32::from(acks.offer(now, &key, round as u32 * 1500, round).is_some());
        sent += u32::from(data.poll(now).is_some()) + u32::from(acks.poll(now).is_some());
    }
    assert_eq!(counting::allocations() - before, 0);
    assert!(sent > 1000 && dropped > 1000, "{sent} sent, {dropped} dropped");
}

/// Every kind of packet, whole and cut at every length.
#[test]
fn reading_digests_allocates_nothing() {
    let packets =
        [v4(6, &syn()), v4(17, &udp(&rtp())), v4(17, &udp(&rtcp())), v4(17, &udp(&[0; 9])), v4(50, &[1; 9])];
    let before = counting::allocations();
    let mut kinds = [0_u32; 5];
    for packet in &packets {
        for length in 0..=packet.len() {
            let Some(digest) = Digest::read(AT, Direction::FromMesh, &packet[..length]) else { continue };
            assert_eq!(Digest::try_from(&RawDigest::from(&digest)), Ok(digest));
            kinds[match digest.payload {
                Payload::Tcp(_) => 0,
                Payload::Rtp(_) => 1,
                Payload::Rtcp(_) => 2,
                Payload::Udp => 3,
                Payload::Other => 4,
            }] += 1;
        }
    }
    assert_eq!(counting::allocations() - before, 0);
    assert!(kinds.iter().all(|&count| count > 0), "{kinds:?}");
}

/// Twice as many flows as fit, with handshake, ACKs and reset, and a rewritten packet.
#[test]
fn clamping_allocates_nothing() {
    let mut packet = v4(6, &syn());
    let mut clamps = Clamps::new(16);
    let before = counting::allocations();
    let mut clamped = 0;
    for round in 0..5_000_u32 {
        let key = FlowKey { mesh_port: (round / 100 % 32) as u16, ..FlowKey::default() };
        let (direction, flags) = match round % 100 {
            0 => (Direction::ToMesh, tcp_flag::SYN),
            1 => (Direction::FromMesh, tcp_flag::SYN | tcp_flag::ACK),
            99 => (Direction::FromMesh, tcp_flag::RST),
            _ => (Direction::FromMesh, tcp_flag::ACK),
        };
        let (mss, window_scale) = (Some(1460), Some(7));
        let fields =
            TcpFields { flags, ack: round * 1460, window: 60_000, mss, window_scale, ..TcpFields::default() };
        let now = Nanos::from_millis(u64::from(round));
        clamped += u32::from(clamps.on_segment(now, &key, direction, &fields, Some(10_000)) < 60_000);
    }
    let mut clamp = Clamp::from(&RawClamp::from(&Clamp::new(0, 1460)));
    assert!(rewrite(&mut packet, |tcp| clamp.apply(3000, tcp.ack, tcp.flags, tcp.window)));
    assert_eq!(counting::allocations() - before, 0);
    assert!(clamped > 4000, "{clamped} of 5000 windows");
}

#[test]
fn a_gateway_allocates_for_no_packet() {
    let mut gateway = Gateway::new(ObserverConfig { flows: 16, ..ObserverConfig::default() });
    let rate = Some(BitRate(10_000_000));
    let config =
        FixedConfig { window: Some(20_000), data_rate: rate, ack_rate: rate, ..FixedConfig::default() };
    gateway.set(
        Nanos::ZERO,
        ControllerConfig::Fixed(config),
        PacerConfig { packets: 20, ..PacerConfig::default() },
    );
    let tcp = Digest::read(AT, Direction::ToMesh, &v4(6, &syn())).expect("TCP");
    let before = counting::allocations();
    let (mut passed, mut held, mut refused, mut left) = (0, 0, 0, 0);
    for round in 0..5_000_u32 {
        let at = Nanos::from_micros(u64::from(round) * 500);
        let (flags, ack) = (tcp_flag::ACK, round * 3000);
        let payload_bytes = if round % 3 == 0 { 1460 } else { 0 };
        let fields = TcpFields { flags, ack, payload_bytes, window: 60_000, ..TcpFields::default() };
        let port = (round % 32) as u16;
        let digest = Digest { at, source_port: port, payload: Payload::Tcp(fields), bytes: 1500, ..tcp };
        let verdict = if round % 2 == 0 {
            gateway.to_mesh(at, round, &Arrival::from(&digest))
        } else {
            gateway.from_mesh(round, &Digest { direction: Direction::FromMesh, ..digest }).1
        };
        match verdict {
            Verdict::Pass(_) => passed += 1,
            Verdict::Held => held += 1,
            Verdict::Refused(_) => refused += 1,
        }
        while let Some(released) = gateway.poll(at) {
            left += 1;
            if released.direction == Direction::ToMesh {
                gateway.crossing(&digest);
            }
        }
    }
    assert_eq!(counting::allocations() - before, 0);
    assert!(passed.min(held).min(refused).min(left) > 100, "{passed} {held} {refused} {left}");
}
