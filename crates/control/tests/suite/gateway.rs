//! The pipeline of one gateway: which packets pass, wait or are refused, in which order they leave, and what is clamped.

use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtcpFields, RtpFields, TcpFields, tcp_flag,
};
use fairhop_control::flow::Address;
use fairhop_control::gateway::{Arrival, Gateway, PacketKind, Released, Verdict};
use fairhop_control::pacer::PacerConfig;
use fairhop_control::policy::{Means, Reason, State};
use fairhop_control::{ControllerConfig, FixedConfig, ObserverConfig};
use fairhop_model::units::{BitRate, Nanos};

use Direction::{FromMesh, ToMesh};

const MESH: Address = Address::v4([10, 1, 0, 4]);
const WIRED: Address = Address::v4([192, 0, 2, 1]);
/// A packet of 1500 bytes takes 12 ms.
const RATE: BitRate = BitRate(1_000_000);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn digest(at: Nanos, direction: Direction, port: u16, bytes: u32, payload: Payload) -> Digest {
    let (source, destination) = match direction {
        ToMesh => (WIRED, MESH),
        FromMesh => (MESH, WIRED),
    };
    Digest {
        at,
        waited: Nanos::ZERO,
        direction,
        source,
        destination,
        source_port: port,
        destination_port: port,
        protocol: if matches!(payload, Payload::Tcp(_)) { PROTOCOL_TCP } else { PROTOCOL_UDP },
        ttl: 61,
        traffic_class: 0,
        bytes,
        payload,
    }
}

fn tcp(flags: u8, ack: u32, payload_bytes: u32) -> Payload {
    Payload::Tcp(TcpFields { flags, ack, payload_bytes, window: 60_000, ..TcpFields::default() })
}

fn data() -> Payload {
    tcp(tcp_flag::ACK, 1, 1460)
}

fn ack(number: u32) -> Payload {
    tcp(tcp_flag::ACK, number, 0)
}

fn gateway(config: FixedConfig, packets: usize) -> Gateway<u32> {
    let mut gateway = Gateway::new(ObserverConfig { flows: 16, ..ObserverConfig::default() });
    gateway.set(
        Nanos::ZERO,
        ControllerConfig::Fixed(config),
        PacerConfig { packets, flows: 8, mark_after: Some(ms(20)) },
    );
    gateway
}

fn to_mesh(gateway: &mut Gateway<u32>, now: Nanos, packet: u32, port: u16, payload: Payload) -> Verdict<u32> {
    let bytes = if let Payload::Tcp(fields) = payload { 40 + fields.payload_bytes } else { 1500 };
    gateway.to_mesh(now, packet, &Arrival::from(&digest(now, ToMesh, port, bytes, payload)))
}

fn from_mesh(
    gateway: &mut Gateway<u32>,
    now: Nanos,
    packet: u32,
    payload: Payload,
) -> (Option<u16>, Verdict<u32>) {
    gateway.from_mesh(packet, &digest(now, FromMesh, 80, 40, payload))
}

/// Lets both SYNs of the flow of port 80 cross: no scale, segments of 1460 bytes.
fn handshake(gateway: &mut Gateway<u32>, now: Nanos) {
    let syn =
        |flags| Payload::Tcp(TcpFields { flags, mss: Some(1460), window: 60_000, ..TcpFields::default() });
    gateway.crossing(&digest(now, ToMesh, 80, 44, syn(tcp_flag::SYN)));
    let _ = gateway.from_mesh(0, &digest(now, FromMesh, 80, 44, syn(tcp_flag::SYN | tcp_flag::ACK)));
}

#[test]
fn the_kind_of_a_packet_follows_from_its_payload() {
    use tcp_flag::{ACK, FIN, RST, SYN};
    for (payload, kind) in [
        (tcp(ACK, 7, 1), PacketKind::TcpData),
        (tcp(ACK | FIN, 7, 1), PacketKind::TcpData),
        (tcp(ACK, 7, 0), PacketKind::TcpAck { ack: 7 }),
        (tcp(0, 7, 0), PacketKind::TcpControl),
        (tcp(ACK | SYN, 7, 0), PacketKind::TcpControl),
        (tcp(ACK | FIN, 7, 0), PacketKind::TcpControl),
        (tcp(ACK | RST, 7, 0), PacketKind::TcpControl),
        (Payload::Rtcp(RtcpFields::default()), PacketKind::Rtcp),
        (Payload::Rtp(RtpFields::default()), PacketKind::Datagram),
        (Payload::Udp, PacketKind::Datagram),
        (Payload::Other, PacketKind::Datagram),
    ] {
        assert_eq!(PacketKind::of(&payload), kind, "{payload:?}");
    }
}

#[test]
fn the_pacer_lets_the_sound_of_a_tunnel_pass_its_data() {
    let pace = FixedConfig { data_rate: Some(BitRate(100_000)), ..FixedConfig::default() };
    let mut gateway = gateway(pace, 100);
    let mut cross = |at, direction, bytes| {
        let digest = digest(ms(at), direction, 80, bytes, Payload::Udp);
        match direction {
            ToMesh => {
                gateway.crossing(&digest);
                matches!(gateway.to_mesh(ms(at), 0, &Arrival::from(&digest)), Verdict::Pass(_))
            }
            FromMesh => matches!(gateway.from_mesh(0, &digest).1, Verdict::Pass(_)),
        }
    };
    for n in 0..100 {
        cross(20 * n, ToMesh, 188);
        cross(20 * n + 5, FromMesh, 188);
        cross(20 * n + 8, ToMesh, 1500);
    }
    assert!(!cross(2000, ToMesh, 1500), "data waits");
    assert!(cross(2000, ToMesh, 188), "sound does not");
}

#[test]
fn without_control_everything_passes_and_the_observer_watches() {
    let mut gateway = Gateway::new(ObserverConfig { flows: 16, ..ObserverConfig::default() });
    handshake(&mut gateway, Nanos::ZERO);
    for (packet, payload) in (1..).zip([data(), ack(1), tcp(tcp_flag::SYN, 0, 0), Payload::Udp]) {
        assert_eq!(to_mesh(&mut gateway, ms(1), packet, 80, payload), Verdict::Pass(packet));
    }
    assert_eq!(from_mesh(&mut gateway, ms(2), 9, ack(1)), (Some(60_000), Verdict::Pass(9)));
    assert_eq!(from_mesh(&mut gateway, ms(2), 9, Payload::Udp), (None, Verdict::Pass(9)));
    assert_eq!((gateway.poll(ms(3)), gateway.next_time(ms(3)), gateway.waiting()), (None, None, 0));
    assert_eq!((gateway.observer().table().len(), gateway.observer().totals().digests), (2, 4));
    assert_eq!(gateway.decision(ms(3)).state, State::Off);
}

#[test]
fn paced_data_is_held_and_everything_else_passes() {
    let mut gateway = gateway(FixedConfig { data_rate: Some(RATE), ..FixedConfig::default() }, 10);
    // In force from the beginning, not from the next tick.
    assert_eq!((gateway.policy().down, gateway.policy().reason), (Some(RATE), Reason::Configured));
    let now = ms(1);
    assert_eq!(to_mesh(&mut gateway, now, 1, 80, data()), Verdict::Held);
    assert_eq!(to_mesh(&mut gateway, now, 2, 80, data()), Verdict::Held);
    let voice = Payload::Rtp(RtpFields { payload_type: 18, ..RtpFields::default() });
    let rtcp = Payload::Rtcp(RtcpFields::default());
    for payload in [ack(1), tcp(tcp_flag::SYN, 0, 0), voice, rtcp, Payload::Udp, Payload::Other] {
        assert_eq!(to_mesh(&mut gateway, now, 9, 81, payload), Verdict::Pass(9), "{payload:?}");
    }
    let released = |packet, waited| Some(Released { packet, direction: ToMesh, mark: false, waited });
    assert_eq!(
        (gateway.poll(now), gateway.poll(now), gateway.waiting()),
        (released(1, Nanos::ZERO), None, 1)
    );
    assert_eq!(gateway.next_time(now), Some(ms(13)));
    assert_eq!((gateway.poll(ms(13)), gateway.next_time(ms(13))), (released(2, ms(12)), None));
    // A packet that has waited longer than the threshold is to be marked.
    assert_eq!(to_mesh(&mut gateway, ms(14), 3, 80, data()), Verdict::Held);
    assert!(gateway.poll(ms(35)).is_some_and(|released| released.mark));
}

#[test]
fn datagrams_are_held_once_the_observer_takes_their_flow_for_bulk() {
    let mut gateway = gateway(FixedConfig { data_rate: Some(RATE), ..FixedConfig::default() }, 10);
    for packet in 0..20 {
        let now = ms(200 * u64::from(packet));
        assert_eq!(to_mesh(&mut gateway, now, packet, 443, Payload::Udp), Verdict::Pass(packet));
        assert_eq!(gateway.crossing(&digest(now, ToMesh, 443, 1500, Payload::Udp)), None);
    }
    assert_eq!(to_mesh(&mut gateway, ms(4000), 20, 443, Payload::Udp), Verdict::Held);
    assert_eq!(to_mesh(&mut gateway, ms(4000), 21, 444, Payload::Udp), Verdict::Pass(21), "another flow");
    // RTCP of the same ports is never held.
    let rtcp = Payload::Rtcp(RtcpFields::default());
    assert_eq!(to_mesh(&mut gateway, ms(4000), 22, 443, rtcp), Verdict::Pass(22));
}

#[test]
fn a_full_data_pacer_refuses_the_newest_of_the_longest_queue_and_a_full_ack_pacer_the_oldest() {
    let config = FixedConfig { data_rate: Some(RATE), ack_rate: Some(RATE), ..FixedConfig::default() };
    let mut gateway = gateway(config, 2);
    for (packet, port, verdict) in [
        (1, 80, Verdict::Held),
        (2, 80, Verdict::Held),
        (3, 80, Verdict::Refused(3)),
        (4, 81, Verdict::Refused(2)),
    ] {
        assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, packet, port, data()), verdict);
    }
    for (packet, verdict) in [(5, Verdict::Held), (6, Verdict::Held), (7, Verdict::Refused(5))] {
        assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, packet, 80, ack(packet)), verdict);
    }
    for (packet, verdict) in [(8, Verdict::Held), (9, Verdict::Held), (10, Verdict::Refused(8))] {
        assert_eq!(from_mesh(&mut gateway, Nanos::ZERO, packet, ack(packet)).1, verdict);
    }
    assert_eq!((gateway.waiting(), gateway.decision(Nanos::ZERO).waiting), (6, 6));
}

#[test]
fn a_release_lets_out_data_then_acks_into_the_mesh_then_acks_out_of_it_and_nothing_waits_after_it() {
    let config = FixedConfig { data_rate: Some(RATE), ack_rate: Some(RATE), ..FixedConfig::default() };
    let mut gateway = gateway(config, 10);
    for packet in [1, 2] {
        assert_eq!(from_mesh(&mut gateway, Nanos::ZERO, packet, ack(1500 * packet)).1, Verdict::Held);
    }
    for packet in [3, 4] {
        assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, packet, 81, ack(1500 * packet)), Verdict::Held);
    }
    for packet in [5, 6] {
        assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, packet, 80, data()), Verdict::Held);
    }
    gateway.release();
    // As long as older packets of the flow wait, new ones queue up behind them.
    assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, 7, 80, data()), Verdict::Held);
    assert_eq!(to_mesh(&mut gateway, Nanos::ZERO, 8, 81, ack(9000)), Verdict::Held);
    assert_eq!(from_mesh(&mut gateway, Nanos::ZERO, 9, ack(9000)).1, Verdict::Held);
    assert_eq!(gateway.next_time(ms(1)), Some(ms(1)));
    let left: Vec<_> = std::iter::from_fn(|| gateway.poll(ms(1))).map(|r| (r.packet, r.direction)).collect();
    let expected = [
        (5, ToMesh),
        (6, ToMesh),
        (7, ToMesh),
        (3, ToMesh),
        (4, ToMesh),
        (8, ToMesh),
        (1, FromMesh),
        (2, FromMesh),
        (9, FromMesh),
    ];
    assert_eq!(left, expected);
    assert_eq!(to_mesh(&mut gateway, ms(1), 10, 80, data()), Verdict::Pass(10));
    assert_eq!((gateway.waiting(), gateway.next_time(ms(1)), gateway.policy().state), (0, None, State::Off));
}

#[test]
fn acks_come_at_the_pace_of_what_they_acknowledge() {
    let mut gateway = gateway(FixedConfig { ack_rate: Some(RATE), ..FixedConfig::default() }, 10);
    for packet in 1..=3 {
        assert_eq!(from_mesh(&mut gateway, Nanos::ZERO, packet, ack(1500 * packet)).1, Verdict::Held);
    }
    // The first has nothing to count from; the second acknowledges 1500 bytes.
    let packets: Vec<_> = std::iter::from_fn(|| gateway.poll(Nanos::ZERO)).map(|r| r.packet).collect();
    assert_eq!((packets, gateway.next_time(Nanos::ZERO)), (vec![1, 2], Some(ms(12))));
    // A segment with data does not wait behind ACKs.
    assert_eq!(from_mesh(&mut gateway, ms(1), 4, data()).1, Verdict::Pass(4));
    assert_eq!(gateway.decision(ms(1)).acks, Some(RATE));
}

#[test]
fn a_window_is_clamped_by_the_policy_of_the_crossing_before_the_ack_waits() {
    let config = FixedConfig { window: Some(3000), ack_rate: Some(RATE), ..FixedConfig::default() };
    let mut gateway = gateway(config, 10);
    handshake(&mut gateway, Nanos::ZERO);
    // Both directions are clamped, and no edge that was offered before moves back: 60,000 bytes were in the SYN.
    assert_eq!(from_mesh(&mut gateway, ms(1), 1, ack(60_000)), (Some(3000), Verdict::Held));
    assert_eq!(gateway.crossing(&digest(ms(1), ToMesh, 80, 40, ack(60_000))), Some(3000));
    assert_eq!(gateway.decision(ms(1)).window, Some(3000));
    assert_eq!(gateway.decision(ms(1)).means, Means::Both);
    // A policy that is not renewed is void.
    gateway.tick(ms(100));
    assert_eq!(gateway.crossing(&digest(ms(2099), ToMesh, 80, 40, ack(70_000))), Some(3000));
    assert_eq!(gateway.crossing(&digest(ms(2100), ToMesh, 80, 40, ack(80_000))), Some(60_000));
}

#[test]
fn another_control_begins_with_empty_pacers_and_known_flows() {
    let mut gateway = gateway(FixedConfig { data_rate: Some(RATE), ..FixedConfig::default() }, 10);
    handshake(&mut gateway, Nanos::ZERO);
    gateway.release();
    let window = FixedConfig { window: Some(3000), ..FixedConfig::default() };
    gateway.set(ms(5), ControllerConfig::Fixed(window), PacerConfig::default());
    assert_eq!(to_mesh(&mut gateway, ms(5), 1, 80, data()), Verdict::Pass(1));
    // The clamp knows the flow's SYNs from before.
    assert_eq!(from_mesh(&mut gateway, ms(6), 2, ack(60_000)), (Some(3000), Verdict::Pass(2)));
}
