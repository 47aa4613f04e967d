//! Packets from outside: their way through the network, what the network rewrites, and what is counted.

use fairhop_model::units::Nanos;
use fairhop_sim::recorder::Loss;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Override, load};
use fairhop_sim::world::{Delivered, Rejected, World};
use proptest::prelude::*;

/// Four nodes in a row, with a wired Internet host at node 0.
const STRING: &str = r#"
name = "real packets"
duration_s = 20

[radio]
standard = "802.11a"
rate_mbps = 12
propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }

[topology]
kind = "string"
hops = 3
spacing_m = 200
gateway = 0

[internet]
delay_ms = 10
rate_mbps = 100
"#;

const EDGES: &str = "\n[[attach]]\nnode = 0\n[[attach]]\nnode = 3\n[[attach]]\nnode = \"internet\"\n";
const LINKS: &str = "\n[[attach]]\nkind = \"link\"\n";

fn world(more: &str, overrides: &[&str]) -> World {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let loaded = load("real.toml", &format!("{STRING}{more}"), &overrides).expect("a scenario");
    World::new(&loaded.scenario, 1).expect("a network")
}

fn node(number: u8) -> [u8; 4] {
    [10, 77, 0, number]
}
const INTERNET: [u8; 4] = [10, 78, 0, 1];
/// The number of the Internet host.
const HOST: u32 = 4;

fn sum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&low| u32::from(low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn ipv4(from: [u8; 4], to: [u8; 4], ttl: u8, tos: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, tos, 0, 0, 0, 7, 0x40, 0, ttl, protocol, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(from);
    packet.extend(to);
    let check = !sum(&packet);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(payload);
    packet
}

fn udp(from: [u8; 4], to: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x9c, 0x40, 0x9c, 0x41];
    datagram.extend((payload.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ipv4(from, to, ttl, 0, 17, &datagram)
}

/// A TCP segment with a right checksum.
fn tcp(from: [u8; 4], to: [u8; 4], (seq, ack, window): (u32, u32, u16), flags: u8, data: &[u8]) -> Vec<u8> {
    let ports = if from < to { [0x10, 1, 0x20, 2] } else { [0x20, 2, 0x10, 1] };
    let mut segment = ports.to_vec();
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags]);
    segment.extend(window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(data);
    let mut pseudo = [from, to].concat();
    pseudo.extend([0, 6]);
    pseudo.extend((segment.len() as u16).to_be_bytes());
    let check = !sum(&[pseudo, segment.clone()].concat());
    segment[16..18].copy_from_slice(&check.to_be_bytes());
    ipv4(from, to, 64, 0, 6, &segment)
}

/// Whether both checksums of a TCP packet are right.
fn checks(packet: &[u8]) -> bool {
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, 6]);
    pseudo.extend((packet.len() as u16 - 20).to_be_bytes());
    sum(&packet[..20]) == 0xffff && sum(&[&pseudo, &packet[20..]].concat()) == 0xffff
}

fn run(world: &mut World, ms: u64) -> Vec<Delivered> {
    let until = world.now() + Nanos::from_millis(ms);
    world.advance_to(until);
    std::iter::from_fn(|| world.take_delivered()).collect()
}

#[test]
fn a_packet_crosses_three_hops_with_two_less_of_its_ttl_and_a_right_checksum() {
    let mut world = world(EDGES, &[]);
    world.advance_to(Nanos::from_millis(5));
    let sent = udp(node(0), node(3), 64, b"hello");
    world.inject(0, &sent).expect("accepted");
    let got = run(&mut world, 100);
    assert_eq!(got.len(), 1);
    let Delivered { node: at, at: when, bytes } = &got[0];
    assert_eq!(*at, 3);
    assert_eq!((bytes[8], sum(&bytes[..20])), (62, 0xffff));
    assert_eq!((&bytes[20..], &bytes[..8]), (&sent[20..], &sent[..8]));
    // 33 bytes in 69 on the air at 12 Mb/s: 68 µs with its preamble, three times; the first goes at once, the others wait
    // for a DIFS of 34 µs and the ACK, up to 15 slots of backoff, and each is acknowledged.
    let took = *when - Nanos::from_millis(5);
    assert!((Nanos::from_micros(3 * 68)..Nanos::from_millis(1)).contains(&took), "{took:?}");
}

#[test]
fn a_packet_reaches_the_internet_host_by_its_address_or_by_any_unknown_one() {
    let mut world = world(EDGES, &[]);
    for to in [INTERNET, [8, 8, 8, 8]] {
        world.inject(3, &udp(node(3), to, 64, b"x")).expect("accepted");
        let got = run(&mut world, 100);
        assert_eq!(got.iter().map(|packet| packet.node).collect::<Vec<_>>(), [HOST], "{to:?}");
        assert_eq!(got[0].bytes[8], 61, "three nodes forward it");
    }
}

#[test]
fn a_ttl_that_runs_out_on_the_way_is_counted_as_that() {
    let mut world = world(EDGES, &[]);
    for ttl in [1, 2, 3] {
        world.inject(0, &udp(node(0), node(3), ttl, b"x")).expect("accepted");
    }
    let got = run(&mut world, 100);
    assert_eq!(got.iter().map(|packet| packet.bytes[8]).collect::<Vec<_>>(), [1], "two nodes lower it");
    assert_eq!(world.recorder().streams[0].lost[Loss::Ttl as usize], 2);
    assert_eq!(world.inject(0, &udp(node(0), node(3), 0, b"x")), Err(Rejected::Ttl));
}

#[test]
fn what_cannot_be_routed_is_rejected_and_counted_by_reason() {
    let mut world = world("\n[[attach]]\nnode = 0\n[[attach]]\nnode = 3\n", &[]);
    let mut long = udp(node(0), node(3), 64, b"x");
    long.push(0);
    let cases = [
        (0, vec![], Rejected::Malformed),
        (0, vec![0x45; 10], Rejected::Malformed),
        (0, vec![0x70; 100], Rejected::Malformed),
        (0, long, Rejected::Malformed),
        (0, udp(node(0), node(3), 64, &[0; 2_290]), Rejected::Oversized),
        (0, udp(node(0), [224, 0, 0, 251], 64, b"x"), Rejected::Multicast),
        (0, udp(node(0), [255; 4], 64, b"x"), Rejected::Multicast),
        (0, udp(node(0), node(2), 64, b"x"), Rejected::UnknownDestination),
        (0, udp(node(0), node(0), 64, b"x"), Rejected::UnknownDestination),
        (99, udp(node(0), node(3), 64, b"x"), Rejected::UnknownSource),
    ];
    let mut counted = [0; Rejected::ALL.len()];
    for (at, packet, why) in &cases {
        assert_eq!(world.inject(*at, packet), Err(*why), "{packet:?}");
        counted[*why as usize] += 1;
    }
    assert_eq!(world.real().counts().rejected, counted);
    assert_eq!(world.inject_to(0, 99, &udp(node(0), node(3), 64, b"x")), Err(Rejected::UnknownDestination));
    assert_eq!(world.real().counts().injected, 0);
}

#[test]
fn a_packet_can_be_sent_to_a_place_of_the_callers_choice() {
    let mut world = world(EDGES, &[]);
    world.inject_to(0, 3, &udp(node(0), [192, 0, 2, 9], 64, b"x")).expect("accepted");
    assert_eq!(run(&mut world, 100).iter().map(|packet| packet.node).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_queue_that_marks_sets_ce_in_the_bytes() {
    let marking = ["mac.queue={discipline=\"codel\", packets=200, target_ms=1, interval_ms=5, ecn=true}"];
    let mut world = world(EDGES, &marking);
    let packet = ipv4(node(0), node(3), 64, 0x02, 17, &[0; 1_000]);
    for _ in 0..150 {
        world.inject(0, &packet).expect("accepted");
    }
    let got = run(&mut world, 2_000);
    let marked = got.iter().filter(|packet| packet.bytes[1] == 0x03).count();
    assert!(got.len() > 140 && marked > 5, "{marked} of {}", got.len());
    assert!(got.iter().all(|packet| sum(&packet.bytes[..20]) == 0xffff));
}

#[test]
fn a_gateway_under_control_rewrites_windows_of_real_segments_with_right_checksums() {
    let control = format!("{EDGES}\n[control]\nkind = \"window\"\nwindow_bytes = 4000\n");
    let mut world = world(&control, &[]);
    run(&mut world, 100);
    // The handshake, so that the gateway knows that there is no window scale.
    let syn = |from, to, ack, flags| tcp(from, to, (100, ack, 65_000), flags, &[]);
    world.inject(HOST, &syn(INTERNET, node(3), 0, 0x02)).expect("accepted");
    run(&mut world, 50);
    world.inject(3, &syn(node(3), INTERNET, 101, 0x12)).expect("accepted");
    run(&mut world, 50);
    world.inject(3, &tcp(node(3), INTERNET, (101, 101, 65_000), 0x10, b"ack")).expect("accepted");
    let got = run(&mut world, 50);
    assert_eq!(got.len(), 1);
    let window = u16::from_be_bytes([got[0].bytes[34], got[0].bytes[35]]);
    assert!((1_000..=4_000).contains(&window), "{window}");
    assert!(checks(&got[0].bytes));
}

#[test]
fn the_goodput_of_real_tcp_is_what_its_receiver_acknowledges() {
    let mut world = world(EDGES, &[]);
    let data = |seq| tcp(node(3), node(0), (seq, 1, 65_000), 0x10, &[7; 1_000]);
    let ack = |ack| tcp(node(0), node(3), (1, ack, 65_000), 0x10, &[]);
    world.inject(0, &ack(1_000)).expect("accepted");
    // One segment is lost and sent again; an old ACK comes late; the numbers wrap.
    for seq in [1_000, 2_000, 2_000] {
        world.inject(3, &data(seq)).expect("accepted");
        run(&mut world, 20);
    }
    for number in [2_000, 3_000, 2_000, 3_000] {
        world.inject(0, &ack(number)).expect("accepted");
        run(&mut world, 20);
    }
    world.run();
    let summary = Summary::of(&world, false);
    let flow = &summary.flows[0];
    assert_eq!((flow.kind.as_str(), flow.name.as_str()), ("real-tcp", "tcp 10.77.0.0:4097 > 10.77.0.3:8194"));
    assert_eq!(flow.goodput_mbps, 2_000.0 * 8e-6 / 20.0);
    assert_eq!(summary.totals.tcp_goodput_mbps, flow.goodput_mbps);
    assert_eq!(flow.sent_mbps, 3_000.0 * 8e-6 / 20.0);
}

/// A G.711 packet of an RTP stream.
fn rtp(from: [u8; 4], to: [u8; 4], number: u16, ssrc: u32) -> Vec<u8> {
    let mut voice = vec![0x80, 0];
    voice.extend(number.to_be_bytes());
    voice.extend((u32::from(number) * 160).to_be_bytes());
    voice.extend(ssrc.to_be_bytes());
    voice.resize(12 + 160, 0xd5);
    let mut datagram = vec![0x40, 0, 0x40, 0];
    datagram.extend((voice.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(voice);
    ipv4(from, to, 64, 0xb8, 17, &datagram)
}

#[test]
fn real_rtp_both_ways_is_a_call_with_the_score_of_its_delay_and_loss() {
    let mut world = world(EDGES, &["duration_s=6"]);
    for number in 0..250 {
        world.inject(0, &rtp(node(0), node(3), number, 1)).expect("accepted");
        world.inject(3, &rtp(node(3), node(0), number, 2)).expect("accepted");
        run(&mut world, 20);
    }
    world.run();
    let summary = Summary::of(&world, false);
    let call = &summary.calls[0];
    assert_eq!((summary.calls.len(), call.forward.sent, call.backward.sent), (1, 250.0, 250.0));
    // G.711 without loss, 60 ms of playout delay and a few ms in the network.
    assert!(call.mos.is_some_and(|mos| mos > 4.3), "{:?}", call.mos);
    assert!(summary.flows.is_empty());
}

/// A download whose packets wait 300 ms at the gateway, and a call that does not wait.
#[test]
fn a_gateway_that_paces_a_download_does_not_see_a_queue_in_the_mesh() {
    let control = format!("{EDGES}\n[control]\nkind = \"data-pacing\"\nrate_kbps = 240\n");
    let mut world = world(&control, &["duration_s=10", "warmup_s=4"]);
    let syn = |from, to, ack, flags| tcp(from, to, (999, ack, 65_000), flags, &[]);
    world.inject(HOST, &syn(INTERNET, node(3), 0, 0x02)).expect("accepted");
    run(&mut world, 50);
    world.inject(3, &syn(node(3), INTERNET, 1_000, 0x12)).expect("accepted");
    let (mut sent, mut acked) = (1_000, 1_000);
    for number in 0..500 {
        world.inject(0, &rtp(node(0), node(3), number, 1)).expect("accepted");
        world.inject(3, &rtp(node(3), node(0), number, 2)).expect("accepted");
        // One segment at a time at first: the shortest round trip.
        let window = if number < 50 { 1_000 } else { 9_000 };
        while sent + 1_000 <= acked + window {
            let data = tcp(INTERNET, node(3), (sent, 1_000, 65_000), 0x18, &[7; 1_000]);
            world.inject(HOST, &data).expect("accepted");
            sent += 1_000;
        }
        for packet in run(&mut world, 20) {
            if packet.node == 3 && packet.bytes.len() > 1_000 {
                let ack = tcp(node(3), INTERNET, (1_000, acked + 1_000, 65_000), 0x10, &[]);
                world.inject(3, &ack).expect("accepted");
            } else if packet.node == HOST {
                acked += 1_000;
            }
        }
    }
    world.run();
    let summary = Summary::of(&world, false);
    let download = summary.flows.iter().find(|flow| flow.kind == "real-tcp").expect("a flow");
    assert!(download.delay.p50_ms > 250.0, "{:?}", download.delay);
    let call = &summary.calls[0];
    let seen = call.observed.as_ref().and_then(|observed| observed.mos);
    assert!(call.mos.zip(seen).is_some_and(|(mos, seen)| mos > 4.3 && seen > 4.2), "{:?} {seen:?}", call.mos);
}

#[test]
fn simulated_and_real_traffic_share_the_air() {
    let cbr = "\n[[traffic]]\nkind = \"cbr\"\nfrom = 1\nto = 2\nrate_kbps = 20000\npayload_bytes = 1000\nstart_s = 1\n";
    let mut world = world(&format!("{EDGES}{cbr}"), &[]);
    let mut delays = [Nanos::ZERO; 2];
    for delay in &mut delays {
        for _ in 0..50 {
            let sent = world.now();
            world.inject(0, &udp(node(0), node(3), 64, &[0; 500])).expect("accepted");
            *delay += run(&mut world, 20).first().map_or(Nanos::from_millis(20), |packet| packet.at - sent);
        }
    }
    assert!(delays[1] > delays[0] * 2, "{delays:?}");
}

fn frame(to: [u8; 6], from: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 0, 0, from, 0x88, 0xb5]);
    frame.extend(payload);
    frame
}

#[test]
fn a_frame_reaches_the_neighbour_that_it_is_for_and_a_broadcast_all_of_them() {
    let mut world = world(LINKS, &[]);
    let to_2 = frame([2, 0, 0, 0, 0, 2], 1, b"unicast");
    world.inject_frame(1, &to_2).expect("accepted");
    let got = run(&mut world, 50);
    assert_eq!((got.len(), got[0].node, &got[0].bytes), (1, 2, &to_2));
    let to_all = frame([0x33, 0x33, 0, 0, 0, 1], 1, b"multicast");
    world.inject_frame(1, &to_all).expect("accepted");
    let mut got = run(&mut world, 50);
    got.sort_by_key(|frame| frame.node);
    assert_eq!(got.iter().map(|frame| frame.node).collect::<Vec<_>>(), [0, 2]);
    assert!(got.iter().all(|frame| frame.bytes == to_all));
    // Node 3 is out of reach: it does not answer, and the station gives up.
    world.inject_frame(0, &frame([2, 0, 0, 0, 0, 3], 0, b"far")).expect("accepted");
    assert!(run(&mut world, 200).is_empty());
    let lost =
        world.recorder().streams.iter().map(|stream| stream.lost[Loss::RetryLimit as usize]).sum::<u64>();
    assert_eq!(lost, 1);
    let rejected = [
        (frame([2, 0, 0, 0, 0, 77], 1, b"x"), Rejected::UnknownDestination),
        (frame([2, 0, 0, 0, 0, 2], 3, b"x"), Rejected::ForeignSource),
        (vec![2; 9], Rejected::Malformed),
        (frame([2, 0, 0, 0, 0, 2], 1, &[0; 2_400]), Rejected::Oversized),
    ];
    for (bytes, why) in rejected {
        assert_eq!(world.inject_frame(1, &bytes), Err(why));
    }
}

#[test]
fn more_flows_than_are_kept_share_the_last_one() {
    let mut world = world(EDGES, &[]);
    for port in 0..1_100_u16 {
        let mut packet = udp(node(0), node(3), 64, b"x");
        packet[20..22].copy_from_slice(&(1_000 + port).to_be_bytes());
        world.inject(0, &packet).expect("accepted");
    }
    assert_eq!(world.flows().len(), 1_001);
    assert_eq!(world.flows()[1_000].name, "other real traffic");
    run(&mut world, 1_000);
}

#[test]
fn real_flows_go_on_when_routes_change_under_a_throttle() {
    let more = format!(
        "{EDGES}\n[[traffic]]\nkind = \"bulk\"\nfrom = 3\nto = 0\n[control]\nkind = \"throttle\"\n\
         [[change]]\nkind = \"rate\"\nat_s = 1\nfrom = 1\nrate_mbps = 6\n"
    );
    let mut world = world(&more, &[]);
    let mut arrived = 0;
    for _ in 0..20 {
        world.inject(0, &udp(node(0), node(3), 64, b"x")).expect("accepted");
        arrived += run(&mut world, 100).len();
    }
    arrived += run(&mut world, 2_000).len();
    assert!(arrived >= 15, "{arrived} of 20, beside a transfer that fills the air");
}

#[test]
fn attaching_without_packets_changes_nothing_in_what_happens() {
    let call = "\n[[traffic]]\nkind = \"call\"\nfrom = \"internet\"\nto = 3\n";
    let fingerprint = |more: &str| {
        let mut world = world(more, &[]);
        world.run();
        (world.recorder().fingerprint, world.events_handled())
    };
    assert_eq!(fingerprint(call), fingerprint(&format!("{EDGES}{call}")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_at_random_places_are_sent_or_counted(
        packets in proptest::collection::vec(
            (0..7_u32, proptest::collection::vec(any::<u8>(), 0..100), any::<bool>()), 0..100,
        ),
        link: bool,
    ) {
        let mut world = world(if link { LINKS } else { EDGES }, &["duration_s=2"]);
        for (at, bytes, is_headed) in &packets {
            let mut bytes = bytes.clone();
            if *is_headed && !link {
                // Far enough past the first checks to reach the routers.
                bytes = ipv4(node(0), node(3), bytes.first().copied().unwrap_or(1), 0, 6, &bytes);
            } else if *is_headed {
                bytes = frame([2, 0, 0, 0, 0, (at % 4) as u8 ^ 1], *at as u8, &bytes);
            }
            let _ = if link { world.inject_frame(*at, &bytes) } else { world.inject(*at, &bytes) };
            run(&mut world, 1);
        }
        world.run();
        let counts = world.real().counts();
        prop_assert_eq!(counts.injected + counts.rejected.iter().sum::<u64>(), packets.len() as u64);
        let arrived: u64 = world.recorder().streams.iter().map(|stream| stream.arrived).sum();
        prop_assert_eq!(counts.delivered, arrived);
    }
}
