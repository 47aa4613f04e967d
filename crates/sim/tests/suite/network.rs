//! Routes, interface queues and the wired link of the Internet.

use crate::support::*;
use fairhop_model::phy::{Rate, Standard, chunk_success, noise_floor};
use fairhop_model::units::{Db, Nanos};
use fairhop_sim::recorder::Loss;
use fairhop_sim::scenario::{Capture, Metric, QueueLimit, Reception};
use fairhop_sim::world::World;

// ---- routes ----

#[test]
fn etx_prefers_three_good_hops_to_two_bad_ones_and_hop_count_prefers_the_two() {
    // A 1500-byte packet has 1536 bytes on the air. Two hops with 55 % delivery cost 2 / 0.55 = 3.6 transmissions, two with
    // 80 % cost 2.5, three with 100 % cost 3.
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
            lab.scenario.routing.metric = Some(metric);
            let path: Vec<_> = if hops == 2 { vec![(0, 1), (1, 4)] } else { vec![(0, 2), (2, 3), (3, 4)] };
            assert_eq!(lab.runs(1).next().unwrap().hops(0), path, "{metric:?}, {chance}");
        }
    }
}

/// The power in dBm at which a hop at 54 Mb/s delivers this fraction of 1500-byte packets.
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
fn etx_uses_a_poor_link_only_where_it_costs_less_or_is_the_only_path() {
    // A link with 40 % delivery costs 2.5 transmissions.
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
        lab.scenario.routing.metric = Some(Metric::Etx);
        lab
    };
    for (links, path) in cases {
        assert_eq!(lab(&links).runs(1).next().unwrap().hops(0), path, "{links:?}");
    }
    // At 2 % delivery, seven attempts deliver less than one packet in seven.
    assert!(World::new(&lab(&[(0, 3, power_that_delivers(0.02))]).scenario, 1).is_err());
}

#[test]
fn among_paths_of_equal_hops_the_shortest_and_then_the_lowest_node_number_wins() {
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
fn a_configured_path_is_used_in_both_directions() {
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

/// Packets of the first stream that arrived, and that were lost for the given reason, the only one.
fn fate(world: &World, why: Loss) -> (u64, u64) {
    let record = &world.recorder().streams[0];
    assert_eq!(record.lost_total(), record.lost[why as usize]);
    assert_eq!(record.sent, record.arrived + record.lost_total());
    (record.arrived, record.lost_total())
}

#[test]
fn an_interface_queue_holds_its_limit_besides_the_frame_in_service_and_drops_the_rest() {
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

/// Station 1 cannot deliver its packets: station 3 jams their receiver, station 2.
#[test]
fn a_packet_dropped_by_a_relays_full_queue_is_lost_to_queue_full() {
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
fn the_wired_link_delivers_at_its_rate_after_its_delay_and_its_full_queue_drops() {
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
    assert_eq!(run.wired.last().unwrap().node, 2, "the Internet host has the number after the two nodes");
}

#[test]
fn finite_transfers_deliver_exactly_their_size() {
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
