//! Results of runs against what was seen of their packets on the air and on wires.

use std::collections::BTreeMap;

use crate::support::*;
use fairhop_model::units::Nanos;
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::{DelaySummary, Summary};
use fairhop_sim::scenario::QueueLimit;

/// Delays of a stream's packets from their creation to the end of the frame, or the wire, that brought them to `destination`,
/// in ms and in ascending order. Packets of the warm-up are left out.
fn delays_seen(run: &Run, stream: u32, destination: u32) -> Vec<f64> {
    let on_air =
        run.frames.iter().filter(|frame| frame.received && frame.is_data() && frame.to == destination);
    let on_air = on_air.filter_map(|frame| Some((frame.packet?, frame.end)));
    let on_wire = run.wired.iter().filter(|seen| seen.arrived && seen.node == destination);
    let arrivals = on_air.chain(on_wire.map(|seen| (seen.packet, seen.at)));
    let warmup = run.world.recorder().warmup;
    let mut first = BTreeMap::new();
    for (packet, at) in arrivals.filter(|(packet, _)| packet.stream == stream && packet.created >= warmup) {
        first.entry((packet.created, packet.number)).or_insert(at - packet.created);
    }
    let mut delays: Vec<f64> = first.into_values().map(Nanos::as_millis_f64).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn assert_delays(found: &DelaySummary, seen: &[f64], what: &str) {
    let close = |a: f64, b: f64, relative: f64| (a - b).abs() <= relative * b + 2e-3;
    let quantile = |q: f64| seen[((q * seen.len() as f64).ceil() as usize).max(1) - 1];
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    assert!(close(found.mean_ms, mean, 1e-9), "{what}: {found:?}, mean {mean}");
    assert!(close(found.max_ms, seen[seen.len() - 1], 1e-9), "{what}: {found:?}");
    for (found, q) in [(found.p50_ms, 0.5), (found.p95_ms, 0.95), (found.p99_ms, 0.99)] {
        assert!(close(found, quantile(q), 0.01), "{what}: {q}: {found} of {}", quantile(q));
    }
}

/// Two calls, a stream of datagrams and a video beside two downloads, over three hops that are more than busy.
#[test]
fn delays_of_every_flow_are_those_of_its_packets_on_the_air_and_on_wires() {
    let mut lab = Lab::at((0..4).map(|node| (200.0 * f64::from(node), 0.0)))
        .seconds(12.0)
        .internet(100.0, 10.0, QueueLimit::Packets(100))
        .with("kind = \"call\"\nfrom = \"internet\"\nto = 3")
        .with("kind = \"call\"\nfrom = 3\nto = 0")
        .with("kind = \"bulk\"\nfrom = \"internet\"\nto = 3\ncount = 2")
        .with("kind = \"cbr\"\nfrom = 2\nto = \"internet\"\nrate_kbps = 100\npayload_bytes = 500")
        .with("kind = \"video\"\nfrom = 1\nto = 3\nrate_kbps = 200\ngroup_frames = 5\ni_to_p = 3");
    lab.scenario.warmup_s = 2.0;
    let run = lab.run(3);
    let summary = Summary::of(&run.world, false);
    assert_eq!((summary.calls.len(), summary.flows.len()), (2, 4));
    let mut flows = summary.flows.iter();
    let mut calls = summary.calls.iter();
    for (index, flow) in (0..).zip(run.world.flows()) {
        let seen = |stream: u32, destination| delays_seen(&run, stream, destination);
        match flow.kind.name() {
            "call" => {
                let call = calls.next().unwrap();
                let [forward, backward] = [seen(2 * index, flow.to), seen(2 * index + 1, flow.from)];
                assert_delays(&call.forward.delay, &forward, &call.name);
                assert_delays(&call.backward.delay, &backward, &call.name);
                let mean = f64::midpoint(call.forward.delay.mean_ms, call.backward.delay.mean_ms);
                assert!((call.delay_ms - mean).abs() < 1e-9);
            }
            "bulk" => {
                flows.next();
            }
            _ => {
                let flow_summary = flows.next().unwrap();
                assert_delays(&flow_summary.delay, &seen(2 * index, flow.to), &flow_summary.name);
            }
        }
    }
}

/// 1000 packets of 1250 bytes a second are 10 Mb/s; the wire carries 4 Mb/s.
#[test]
fn a_flow_reports_what_it_sent_and_what_was_delivered() {
    let run = Lab::of_links(2, &[(0, 1, DECODED)])
        .internet(4.0, 10.0, QueueLimit::Packets(10))
        .stream(node(0), INTERNET, 1250, 1000.0)
        .seconds(10.0)
        .run(1);
    let summary = Summary::of(&run.world, false);
    let flow = &summary.flows[0];
    let payload = 1222.0 / 1250.0;
    assert!((flow.sent_mbps - 10.0 * payload).abs() < 0.01, "{flow:?}");
    assert!((flow.goodput_mbps / (4.0 * payload) - 1.0).abs() < 0.01, "{flow:?}");
    assert!((flow.loss - 0.6).abs() < 0.01 && flow.lost["wired_queue_full"] > 5900.0, "{flow:?}");
    assert_eq!(summary.totals.udp_goodput_mbps, flow.goodput_mbps);
    let row = &RunTables::collect(&run.world, false).flows[0];
    assert_eq!((row.sent_mbps, row.goodput_mbps, row.loss), (flow.sent_mbps, flow.goodput_mbps, flow.loss));
}

/// One call of three stops during the warm-up.
#[test]
fn a_call_that_sent_nothing_after_the_warm_up_has_no_score_anywhere() {
    let mut lab = Lab::at((0..2).map(|node| (200.0 * f64::from(node), 0.0)))
        .seconds(4.0)
        .with("kind = \"call\"\nname = \"talks\"\nfrom = 0\nto = 1\ncount = 2")
        .with("kind = \"call\"\nname = \"silent\"\nfrom = 0\nto = 1\nstop_s = 0.5");
    lab.scenario.warmup_s = 1.0;
    let run = lab.run(1);
    let summary = Summary::of(&run.world, false);
    let [first, second, silent] = &summary.calls[..] else { panic!("three calls") };
    assert_eq!((silent.mos, silent.mos_worst, silent.clear), (None, None, None));
    let scores = [first, second].map(|call| call.mos.unwrap());
    assert!(scores.iter().all(|&score| score > 4.0), "{scores:?}");
    assert_eq!(summary.totals.mos_mean, Some(f64::midpoint(scores[0], scores[1])));
    assert!(summary.totals.mos_min.unwrap() > 4.0);
    assert_eq!((summary.totals.calls_ok, summary.totals.calls_clear), (2.0, 1.0));
    let tables = RunTables::collect(&run.world, false);
    for row in &tables.flows {
        assert_eq!(row.mos.is_none(), row.name.starts_with("silent"), "{row:?}");
    }
}

/// Node 0 broadcasts. Node 1 receives it undisturbed; node 2 also receives node 4, which is hidden from node 0 and sends a fifth
/// of the time; node 3 senses node 0 but cannot decode it.
#[test]
fn a_broadcast_reports_the_delivery_ratio_of_each_receiver() {
    let mut lab = Lab::of_links(5, &[(0, 1, DECODED), (0, 2, DECODED), (0, 3, WEAK)])
        .stream(node(0), ALL, 500, 100.0)
        .stream(node(4), ALL, 1000, 130.0)
        .seconds(5.0);
    lab.hears(2, 4, DECODED);
    lab.scenario.warmup_s = 1.0;
    let run = lab.run(1);
    let summary = Summary::of(&run.world, false);
    let flow = &summary.flows[0];
    assert_eq!(flow.loss, 0.0, "every packet reached the air");
    let found = flow.broadcast.as_ref().unwrap();
    assert_eq!(found.delivery.keys().collect::<Vec<_>>(), ["1", "2"]);
    for node in [1, 2] {
        let warmup = run.world.recorder().warmup;
        let data = run.received(node).filter(|frame| frame.from == 0 && frame.is_data());
        let received = data.filter(|frame| frame.packet.unwrap().created >= warmup).count();
        let expected = received as f64 / flow.sent;
        assert!(
            (found.delivery[&node.to_string()] - expected).abs() < 1e-12,
            "{found:?}, node {node}: {expected}"
        );
    }
    assert_eq!(found.delivery["1"], 1.0);
    assert!((0.5..0.9).contains(&found.delivery["2"]), "{found:?}");
    assert_eq!(found.delivery_min, Some(found.delivery["2"]));
    assert_eq!(found.delivery_mean, Some(f64::midpoint(1.0, found.delivery["2"])));
    assert!(summary.flows[1].broadcast.as_ref().unwrap().delivery.contains_key("2"));

    let tables = RunTables::collect(&run.world, false);
    let rows: Vec<_> = tables.receivers.iter().filter(|row| row.flow == 0).collect();
    assert_eq!(
        rows.iter().map(|row| (row.node, row.delivery.unwrap())).collect::<Vec<_>>(),
        [(1, 1.0), (2, found.delivery["2"])]
    );
    let row = &tables.flows[0];
    assert_eq!(
        (row.receivers, row.delivery_min, row.delivery_mean),
        (Some(2), found.delivery_min, found.delivery_mean)
    );
}

/// A receiver that comes into reach during the run appears in the results, and the mean over seeds joins receivers by number.
#[test]
fn a_node_that_moves_into_reach_of_a_broadcast_becomes_a_receiver() {
    let mut lab =
        Lab::at([(0.0, 0.0), (200.0, 0.0), (900.0, 0.0)]).stream(node(0), ALL, 500, 100.0).seconds(4.0);
    lab.scenario.change = vec![change("kind = \"move\"\nat_s = 3\nnode = 2\nx_m = 150\ny_m = 100")];
    let delivery = Summary::of(&lab.run(1).world, false).flows[0].broadcast.clone().unwrap().delivery;
    assert!((0.98..=1.0).contains(&delivery["1"]) && (delivery["2"] - 0.25).abs() < 0.01, "{delivery:?}");
}
