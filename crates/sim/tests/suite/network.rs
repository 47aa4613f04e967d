//! Routes, queues, the wired link, and the books: whatever a world is made of, every packet is accounted for once.

use std::collections::BTreeSet;

use crate::support::*;
use fairhop_model::phy::{Phy, Preamble, Rate, Standard, chunk_success, frame, noise_floor};
use fairhop_model::units::{Db, Nanos};
use fairhop_model::voice::Codec;
use fairhop_sim::recorder::Loss;
use fairhop_sim::scenario::{
    Bulk, Burst, Call, Capture, Cbr, Gateways, Metric, Place, Propagation, QueueLimit, Reception, TcpProfile,
    TcpVariant, Topology, Traffic,
};
use fairhop_sim::world::World;
use proptest::prelude::*;

// ---- routes ----

#[test]
fn etx_takes_three_good_hops_where_two_bad_ones_cost_more_and_hop_count_takes_the_two() {
    // A 1500-byte packet has 1536 bytes on the air. Two hops that deliver 55 % cost 2 / 0.55 = 3.6 transmissions, two
    // that deliver 80 % cost 2.5; three sure hops cost 3.
    for (chance, etx_hops) in [(0.55, 3), (0.8, 2)] {
        let bad = power_that_delivers(chance);
        let good = bad + 20.0;
        for (metric, hops) in [(Metric::Hops, 2), (Metric::Etx, etx_hops)] {
            let links = [(0, 1, bad), (1, 4, bad), (0, 2, good), (2, 3, good), (3, 4, good)];
            let mut lab = Lab::of_links(5, &links).rate(54.0, &[6.0]).reception(Reception::Sinr).packet(
                node(0),
                node(4),
                100,
                ms(10),
            );
            lab.scenario.routing.metric = metric;
            let path: Vec<_> = if hops == 2 { vec![(0, 1), (1, 4)] } else { vec![(0, 2), (2, 3), (3, 4)] };
            assert_eq!(lab.runs(1).next().unwrap().hops(0), path, "{metric:?}, {chance}");
        }
    }
}

/// The power in dBm at which this fraction of 1500-byte packets gets over a hop at 54 Mb/s.
fn power_that_delivers(chance: f64) -> f64 {
    let (mut low, mut high) = (10.0, 40.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        let delivered = chunk_success(Rate::Ofdm54, Db(middle).as_ratio(), 8.0 * 1536.0);
        *(if delivered < chance { &mut low } else { &mut high }) = middle;
    }
    noise_floor(Standard::Dot11a, Db(7.0)).0 + high
}

#[test]
fn etx_prefers_two_good_hops_to_one_poor_link_and_takes_the_poor_link_where_it_costs_less_or_is_all_there_is()
{
    // A link that delivers 40 % costs 2.5 transmissions.
    let poor = power_that_delivers(0.4);
    let good = poor + 20.0;
    let cases = [
        (vec![(0, 3, poor), (0, 1, good), (1, 3, good)], vec![(0, 1), (1, 3)]),
        (vec![(0, 3, poor), (0, 1, good), (1, 2, good), (2, 3, good)], vec![(0, 3)]),
        (vec![(0, 3, poor)], vec![(0, 3)]),
    ];
    let lab = |links: &[(usize, usize, f64)]| {
        let lab = Lab::of_links(4, links).rate(54.0, &[6.0]).reception(Reception::Sinr);
        let mut lab = lab.packet(node(0), node(3), 100, ms(10));
        lab.scenario.routing.metric = Metric::Etx;
        lab
    };
    for (links, path) in cases {
        assert_eq!(lab(&links).runs(1).next().unwrap().hops(0), path, "{links:?}");
    }
    // Of two in a hundred not even seven attempts bring every seventh packet over.
    assert!(World::new(&lab(&[(0, 3, power_that_delivers(0.02))]).scenario, 1).is_err());
}

#[test]
fn among_paths_of_as_many_hops_the_shortest_and_then_the_lowest_node_wins() {
    // 0 and 3 are 300 m apart; 1 and 2 lie on either side of the line between them.
    for (off_line_m, through) in [(100.0, 1), (50.0, 2), (150.0, 1)] {
        let lab = Lab::at([(0.0, 0.0), (150.0, 100.0), (150.0, -off_line_m), (300.0, 0.0)]).packet(
            node(0),
            node(3),
            100,
            ms(10),
        );
        assert_eq!(lab.runs(1).next().unwrap().hops(0), [(0, through), (through, 3)], "{off_line_m} m");
    }
}

#[test]
fn a_path_set_by_hand_is_used_in_both_directions() {
    let call = "kind = \"call\"\nfrom = 4\nto = 0";
    for path in [[0, 1, 2, 3, 4], [0, 7, 6, 5, 4]] {
        let mut lab = Lab::ready("ring", 1.0, 0.0);
        lab.scenario.traffic.clear();
        lab.scenario.routing.paths = vec![path.to_vec()];
        let run = lab.with(call).run(1);
        let there: Vec<_> = path.windows(2).map(|hop| (hop[0], hop[1])).collect();
        let back: Vec<_> = path.windows(2).rev().map(|hop| (hop[1], hop[0])).collect();
        assert_eq!((run.hops(1), run.hops(0)), (there, back));
    }
}

// ---- queues ----

/// What became of the packets of the first stream: arrived, and lost for a reason.
fn fate(world: &World, why: Loss) -> (u64, u64) {
    let record = &world.recorder().streams[0];
    assert_eq!(record.lost_total(), record.lost[why as usize]);
    assert_eq!(record.sent, record.arrived + record.lost_total());
    (record.arrived, record.lost_total())
}

#[test]
fn an_interface_queue_holds_its_limit_beside_the_frame_in_service_and_drops_the_rest() {
    for (limit, holds) in [
        (QueueLimit::Packets(1), 1),
        (QueueLimit::Packets(7), 7),
        (QueueLimit::Packets(50), 50),
        (QueueLimit::Bytes(3500), 7),
        (QueueLimit::Bytes(3499), 6),
    ] {
        let run = Lab::of_links(2, &[(0, 1, DECODED)])
            .queue(limit)
            .packets(node(0), node(1), 100, 500, ms(10))
            .runs(1)
            .next()
            .unwrap();
        assert_eq!(fate(&run.world, Loss::QueueFull), (holds + 1, 99 - holds), "{limit:?}");
        let record = run.world.recorder().nodes[0];
        assert_eq!((record.queue_drops, u64::from(record.backlog_max)), (99 - holds, holds + 1));
        let order: Vec<_> = run.data(0).iter().map(|frame| frame.packet.unwrap().number).collect();
        assert!(order.is_sorted(), "first in, first out");
    }
}

/// Station 1 cannot get rid of its packets: station 2, where they go, is drowned by station 3.
#[test]
fn a_packet_that_a_relay_has_no_room_for_is_lost_to_the_relays_queue() {
    let mut lab = Lab::of_links(4, &[(0, 1, DECODED), (1, 2, DECODED)])
        .queue(QueueLimit::Packets(5))
        .stream(node(0), node(2), 500, 200.0)
        .stream(node(3), ALL, 2000, 6000.0)
        .seconds(3.0);
    lab.hears(2, 3, DECODED);
    let run = lab.run(1);
    let record = &run.world.recorder().streams[0];
    let dropped = run.world.recorder().nodes[1].queue_drops;
    assert!(dropped > 100);
    assert_eq!(record.lost[Loss::QueueFull as usize], dropped);
    assert!(record.lost[Loss::RetryLimit as usize] > 50);
    assert_eq!(record.sent, record.arrived + record.lost_total() + record.in_flight);
}

#[test]
fn the_wired_link_delivers_at_its_rate_after_its_delay_and_drops_what_its_queue_cannot_hold() {
    for (limit, holds) in [
        (QueueLimit::Packets(100), 10),
        (QueueLimit::Packets(4), 4),
        (QueueLimit::Bytes(5000), 4),
        (QueueLimit::Bytes(4999), 3),
    ] {
        let run = Lab::of_links(2, &[(0, 1, DECODED)])
            .internet(1.0, 30.0, limit)
            .packets(INTERNET, node(1), 10, 1250, ms(10))
            .runs(1)
            .next()
            .unwrap();
        assert_eq!(fate(&run.world, Loss::WiredQueueFull), (holds, 10 - holds), "{limit:?}");
        let arrivals: Vec<_> = run.wired.iter().filter(|seen| seen.arrived).collect();
        for (i, seen) in arrivals.iter().enumerate() {
            // 1250 bytes take 10 ms at 1 Mb/s.
            let expected = seen.packet.created + ms(10 * (i as u64 + 1) + 30);
            assert_eq!((seen.node, seen.at, seen.packet.number), (0, expected, i as u32));
        }
    }
}

#[test]
fn a_packet_to_the_internet_crosses_the_air_and_then_the_wire() {
    let run = Lab::of_links(2, &[(0, 1, DECODED)])
        .internet(10.0, 5.0, QueueLimit::Packets(10))
        .packet(node(1), INTERNET, IP_BYTES, ms(10))
        .runs(1)
        .next()
        .unwrap();
    // At 12 Mb/s: 848 µs and 100 ns of light; then 1200 bytes at 10 Mb/s, 960 µs, and 5 ms.
    let delay = us(848) + Nanos(100) + us(960) + ms(5);
    let record = &run.world.recorder().streams[0];
    assert_eq!((record.arrived, record.delay_min, record.delay_max), (1, delay, delay));
    assert_eq!(run.wired.last().unwrap().node, 2, "the host comes after the two nodes");
}

#[test]
fn finite_transfers_complete_with_exactly_their_bytes() {
    let mut lab = Lab::ready("k-tcp", 60.0, 0.0).capture(Capture::First);
    lab.scenario.traffic.clear();
    let sizes = [1, 1460, 100_001, 250_000];
    for (i, size) in sizes.into_iter().enumerate() {
        lab = lab.with(&format!(
            "kind = \"bulk\"\nfrom = \"internet\"\nto = 4\nsize_bytes = {size}\nsack = {}\ntimestamps = {}\nstart_s = {i}.0",
            i % 2 == 0,
            i > 1,
        ));
    }
    for capture in [Capture::None, Capture::First, Capture::Stronger] {
        let run = lab.clone().capture(capture).run(1);
        for (i, transfer) in run.world.transfers().iter().enumerate() {
            let what = format!("{capture:?}, {} bytes", sizes[i]);
            assert!(transfer.completed.is_some(), "{what}");
            let record = &run.world.recorder().streams[2 * i];
            assert_eq!((transfer.delivered, record.delivered_bytes), (sizes[i], sizes[i]), "{what}");
            assert_eq!(record.in_flight, 0, "{what}");
        }
    }
}

// ---- the books ----

fn places(nodes: u32, internet: bool) -> impl Strategy<Value = (Place, Place)> {
    let end = move || {
        let mut ends: Vec<Place> = (0..nodes).map(Place::Node).collect();
        ends.extend(internet.then_some(INTERNET));
        prop::sample::select(ends)
    };
    // The gateway has no radio path to the Internet behind it, and nobody talks to himself.
    (end(), end()).prop_filter("two ends", |(from, to)| from != to)
}

fn traffic(nodes: u32, internet: bool) -> impl Strategy<Value = Traffic> {
    let codec = prop::sample::select(vec![Codec::G729a, Codec::G711, Codec::G7231, Codec::Opus]);
    let times = (0.0..0.4, prop::option::of(0.1..1.0));
    let tcp = (
        (prop::option::of(1u64..150_000), 88u32..1460, 1_460u32..100_000, prop::option::of(1u32..20)),
        (1u32..=10, 1u32..=4, any::<bool>(), any::<bool>(), any::<bool>()),
    );
    (0..5u8, places(nodes, internet), times, codec, tcp, 1u32..=8, 50.0..2500.0, 29u32..=1500).prop_map(
        |(
            kind,
            (from, to),
            (start_s, length_s),
            codec,
            (sizes, options),
            burst_packets,
            rate_kbps,
            bytes,
        )| {
            let (name, count) = (None, 1);
            let stop_s = length_s.map(|length_s| start_s + length_s);
            match kind {
                0 => {
                    let rtcp_interval_s = if burst_packets.is_multiple_of(2) { 0.1 } else { 0.0 };
                    let (count, dscp) = (2, None);
                    Traffic::Call(Call {
                        name,
                        from,
                        to,
                        count,
                        dscp,
                        codec,
                        rtcp_interval_s,
                        start_s,
                        stop_s,
                    })
                }
                1 => {
                    let (size_bytes, mss_bytes, receive_buffer_bytes, max_window_packets) = sizes;
                    let (initial_window_packets, delayed_ack_segments, sack, timestamps, byte_counting) =
                        options;
                    Traffic::Bulk(Bulk {
                        name,
                        from,
                        to,
                        count,
                        dscp: None,
                        tcp: TcpVariant::Newreno,
                        profile: TcpProfile::Standard,
                        byte_counting,
                        size_bytes,
                        mss_bytes,
                        receive_buffer_bytes,
                        max_window_packets,
                        initial_window_packets,
                        delayed_ack_segments,
                        delayed_ack_ms: Some(40.0),
                        sack,
                        ecn: false,
                        timestamps: Some(timestamps),
                        recovery: None,
                        prr: None,
                        undo: None,
                        hystart: None,
                        rto_min_ms: Some(200.0),
                        start_s,
                        stop_s,
                    })
                }
                2 => Traffic::Cbr(Cbr {
                    name,
                    from,
                    to,
                    count,
                    dscp: None,
                    rate_kbps,
                    payload_bytes: bytes - 28,
                    delay_bound_ms: None,
                    start_s,
                    stop_s,
                }),
                3 => Traffic::Burst(Burst {
                    name,
                    from,
                    to,
                    count,
                    dscp: None,
                    burst_packets,
                    rate_kbps,
                    packet_bytes: bytes,
                    start_s,
                    stop_s,
                }),
                _ => {
                    let from = if from == INTERNET { to } else { from };
                    Traffic::Cbr(Cbr {
                        name,
                        from,
                        to: ALL,
                        count,
                        dscp: None,
                        rate_kbps,
                        payload_bytes: bytes - 28,
                        delay_bound_ms: None,
                        start_s,
                        stop_s,
                    })
                }
            }
        },
    )
}

/// Strings, grids and rings of up to 6 nodes under every rule, with any traffic.
fn labs() -> impl Strategy<Value = Lab> {
    let gateway = || Gateways::One(0);
    let topology = prop_oneof![
        (1u32..=4).prop_map(move |hops| Topology::String {
            hops,
            spacing_m: 200.0,
            lines: 1,
            line_spacing_m: None,
            gateway: gateway()
        }),
        prop::sample::select(vec![Gateways::One(0), Gateways::Several(vec![0, 5])])
            .prop_map(|gateway| Topology::Grid { columns: 3, rows: 2, spacing_m: 200.0, gateway }),
        (3u32..=6).prop_map(move |nodes| Topology::Ring { nodes, spacing_m: 200.0, gateway: gateway() }),
    ];
    let phy = prop::sample::select(vec![
        (Standard::Dot11a, 12.0, Preamble::Long),
        (Standard::Dot11a, 6.0, Preamble::Long),
        (Standard::Dot11b, 2.0, Preamble::Long),
        (Standard::Dot11b, 11.0, Preamble::Short),
        (Standard::Dot11g, 12.0, Preamble::Long),
    ]);
    let capture = prop::sample::select(vec![Capture::None, Capture::First, Capture::Stronger]);
    let queue =
        prop_oneof![(1u32..=10).prop_map(QueueLimit::Packets), (1500u32..8000).prop_map(QueueLimit::Bytes),];
    let rts = prop::option::of(prop::sample::select(vec![0u32, 300]));
    let wired = prop::option::of((1.0..100.0, 0.0..20.0));
    (topology, phy, (capture, any::<bool>()), queue, rts, wired, 0.5..1.5)
        .prop_flat_map(|(topology, phy, (capture, sinr), queue, rts, wired, duration_s)| {
            let mut lab = Lab::at([]).seconds(duration_s).capture(capture).queue(queue);
            lab.scenario.topology = topology;
            let nodes = lab.scenario.topology.node_count() as u32;
            let radio = &mut lab.scenario.radio;
            (radio.standard, radio.rate_mbps, radio.preamble) = phy;
            if sinr {
                // 16 − 40 − 22.2 log10 200 = −75.1 dBm between neighbours: no loss by noise at these rates, but what
                // comes from farther off counts.
                radio.reception = Reception::Sinr;
                radio.propagation = Propagation::LogDistance {
                    exponent: 2.22,
                    reference_loss_db: 40.0,
                    reference_m: 1.0,
                    shadowing_db: 0.0,
                };
            }
            lab.scenario.mac.rts_threshold_bytes = rts;
            if let Some((rate_mbps, delay_ms)) = wired {
                lab = lab.internet(rate_mbps, delay_ms, QueueLimit::Packets(20));
            }
            let flows = prop::collection::vec(traffic(nodes, wired.is_some()), 1..=4);
            (Just(lab), flows)
        })
        .prop_map(|(mut lab, flows)| {
            lab.scenario.traffic = flows;
            // A world may not stop before it starts, nor send nothing.
            lab.scenario.traffic.retain(|flow| flow.times().0 < lab.scenario.duration_s);
            lab
        })
}

/// What was seen to arrive of a stream, packet by packet, at its destination.
fn seen_to_arrive(run: &Run, stream: u32, destination: u32) -> u64 {
    let on_air = run
        .frames
        .iter()
        .filter(|f| f.received && f.is_data() && f.to == destination && f.node == destination);
    let on_wire = run.wired.iter().filter(|seen| seen.arrived && seen.node == destination);
    let packets = on_air.filter_map(|frame| frame.packet).chain(on_wire.map(|seen| seen.packet));
    let of_stream = packets.filter(|packet| packet.stream == stream && packet.number != REPORT);
    of_stream.map(|packet| (packet.created, packet.number)).collect::<BTreeSet<_>>().len() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_packet_sent_has_arrived_was_lost_for_one_reason_or_is_under_way(mut lab in labs(), seed in any::<u64>()) {
        let run = lab.run(seed);
        // With this much patience nothing is late. It is only about counting: the run is the same.
        lab.scenario.voice.playout_ms = 10_000.0;
        let patient = lab.run(seed);
        prop_assert_eq!(run.world.recorder().fingerprint, patient.world.recorder().fingerprint);
        let scenario = &lab.scenario;
        let phy = Phy::new(scenario.radio.standard, scenario.radio.preamble);
        let rate = scenario.radio.standard.rate(scenario.radio.rate_mbps).unwrap();

        for (index, flow) in run.world.flows().iter().enumerate() {
            for (stream, destination) in [(2 * index, flow.to), (2 * index + 1, flow.from)] {
                let record = &run.world.recorder().streams[stream];
                if !run.world.recorder().is_measured(stream as u32) {
                    continue;
                }
                let (all, loss) = (&patient.world.recorder().streams[stream], record.lost_total());
                prop_assert_eq!((all.sent, all.arrived, all.lost), (record.sent, record.arrived, record.lost));
                prop_assert_eq!(all.late, 0);
                if destination == u32::MAX {
                    // A broadcast has as many receivers as there are neighbours, or none.
                    let others = run.world.node_count() as u64 - 1;
                    prop_assert!(record.arrived <= record.sent * others);
                    continue;
                }
                prop_assert_eq!(all.sent, all.arrived + loss + all.in_flight, "stream {} {:?}", stream, flow);
                // What was under way and could not have been in time any more counts as late.
                let late_under_way = all.in_flight - record.in_flight;
                prop_assert!(record.late >= late_under_way && record.late - late_under_way <= record.arrived);
                if flow.kind.name() != "bulk" {
                    // Segments have no number to be told apart by.
                    prop_assert_eq!(record.arrived, seen_to_arrive(&run, stream as u32, destination));
                }
                prop_assert!(record.delivered_bytes <= record.sent_bytes);

                // No packet is faster than its bytes on every hop.
                if record.arrived > 0 {
                    let packets = run.frames.iter().filter_map(|f| f.packet).chain(run.wired.iter().map(|w| w.packet));
                    let bytes = packets.filter(|p| p.stream == stream as u32).map(|p| p.bytes).min().unwrap();
                    let hops = run.hops(stream as u32).len() as u64;
                    let mut least = phy.frame_duration(rate, frame::of_ip_packet(bytes)) * hops;
                    let internet = run.world.node_count() as u32;
                    if let Some(wired) = scenario.internet.as_ref().filter(|_| [flow.from, flow.to].contains(&internet)) {
                        least += Nanos::from_millis_f64(wired.delay_ms)
                            + Nanos::from_secs_f64(f64::from(bytes) * 8e-6 / wired.rate_mbps);
                    }
                    // The wire's rate and delay are rounded to nanoseconds.
                    prop_assert!(record.delay_min + Nanos(2) >= least, "{:?} < {:?}", record.delay_min, least);
                    prop_assert!(record.delay_min <= record.delay_max);
                }
            }
        }
        for (transfer, flow) in run.world.transfers().iter().zip(run.world.flows().iter().filter(|f| f.kind.name() == "bulk")) {
            prop_assert!(transfer.size.is_none_or(|size| transfer.delivered <= size));
            prop_assert_eq!(transfer.completed.is_some(), transfer.size == Some(transfer.delivered), "{:?}", flow);
        }
    }
}
