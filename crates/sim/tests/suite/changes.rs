//! Changes during a run: rates of hops and positions of nodes, and the parts of the network that follow them.

use crate::support::*;
use fairhop_control::observer::{Flow, FlowBody};
use fairhop_sim::scenario::{Change, EdcaChoice, Scenario, load};
use fairhop_sim::world::World;

fn moves(at_s: f64, node: u32, (x_m, y_m): (f64, f64)) -> Change {
    Change::Move { at_s, node, x_m, y_m }
}

fn slows(at_s: f64, from: u32, to: Option<u32>) -> Change {
    Change::Rate { at_s, from, to, rate_mbps: 6.0 }
}

/// Goodput of a flow's forward stream in Mb/s between two seconds, at bins of a tenth.
fn goodput(world: &World, flow: usize, from_s: usize, until_s: usize) -> f64 {
    let bins = &world.recorder().streams[2 * flow].bins[10 * from_s..10 * until_s];
    bins.iter().map(|bin| bin.delivered_bytes).sum::<u64>() as f64 * 8e-6 / (until_s - from_s) as f64
}

/// A string of `hops` hops of 200 m.
fn string(hops: u32) -> Lab {
    Lab::at((0..=hops).map(|node| (200.0 * f64::from(node), 0.0))).seconds(10.0)
}

/// Changing every node's rate to 6 Mb/s before the first frame gives the run of the scenario with 6 Mb/s, to the nanosecond: the
/// rates of ACK, RTS and CTS, the NAV, the waits and the bursts of EDCA follow the rate of the data.
#[test]
fn a_run_whose_rates_change_at_the_start_is_the_run_with_these_rates() {
    for (rts, edca) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut lab = string(3)
            .with("kind = \"bulk\"\nfrom = 0\nto = 3")
            .with("kind = \"call\"\nfrom = 3\nto = 0")
            .with("kind = \"cbr\"\nfrom = 1\nto = \"broadcast\"\nrate_kbps = 50\npayload_bytes = 200");
        lab.scenario.mac.rts_threshold_bytes = rts.then_some(500);
        lab.scenario.mac.edca = EdcaChoice::On(edca);
        let mut slow = lab.clone();
        slow.scenario.radio.rate_mbps = 6.0;
        lab.scenario.change = (0..4).map(|node| slows(0.0, node, None)).collect();
        let worlds = [lab, slow].map(|lab| {
            let mut world = lab.world(3);
            world.run();
            (world.recorder().fingerprint, world.recorder().frames)
        });
        assert_eq!(worlds[0], worlds[1], "RTS {rts}, EDCA {edca}");
    }
}

/// The middle hop of three halves its rate after ten seconds. From then on a saturating flow has the goodput that it has where
/// this hop was slow from the start.
#[test]
fn after_a_change_of_rate_a_path_has_the_goodput_of_the_new_rate() {
    let lab = |change: Vec<Change>| {
        let mut lab = string(3).seconds(20.0).stream(node(0), node(3), 1500, 400.0);
        lab.scenario.change = change;
        let mut world = lab.world(1);
        world.run();
        world
    };
    let (fast, falls, slow) =
        (lab(vec![]), lab(vec![slows(10.0, 1, Some(2))]), lab(vec![slows(0.0, 1, Some(2))]));
    let before = goodput(&falls, 0, 2, 10);
    assert_eq!(before, goodput(&fast, 0, 2, 10), "before the change");
    let (after, known) = (goodput(&falls, 0, 11, 20), goodput(&slow, 0, 2, 20));
    assert!((after / known - 1.0).abs() < 0.04, "{after} Mb/s, {known} where it was slow from the start");
    assert!(after < 0.88 * before, "{after} after {before}");
    // The way back over the same hop is as fast as before: six in ten of the hop's bits are slow, not all.
    let mut all = string(3).seconds(20.0).stream(node(0), node(3), 1500, 400.0);
    all.scenario.radio.rate_mbps = 6.0;
    let mut all = all.world(1);
    all.run();
    assert!(after > 1.1 * goodput(&all, 0, 2, 20));
}

/// Nodes 0, 1 and 2 on a line; node 3 is two hops from the gateway, through node 1, or three, through nodes 1 and 2.
fn with_a_node_at(place: (f64, f64)) -> Lab {
    let mut lab = Lab::at([(0.0, 0.0), (200.0, 0.0), (400.0, 0.0), place])
        .seconds(40.0)
        .internet(100.0, 10.0, fairhop_sim::scenario::QueueLimit::Packets(1000))
        .with("kind = \"bulk\"\nfrom = \"internet\"\nto = 3\nmax_window_packets = 4");
    lab.scenario.control = Some(toml::from_str("kind = \"none\"").expect("a control"));
    lab
}

const NEAR: (f64, f64) = (300.0, 150.0);
const FAR: (f64, f64) = (600.0, 0.0);

/// Hops of the only flow, as the gateway infers them from the TTL.
fn hops_seen(world: &World) -> u8 {
    let observer = world.control().and_then(|control| control.controller()).expect("a controller").observer();
    let (_, flow) = observer.active(world.now() - ms(1000)).next().expect("a flow");
    assert!(matches!(flow, Flow { body: FlowBody::Tcp(_), .. }));
    flow.hops
}

#[test]
fn a_node_that_moves_away_is_reached_over_one_more_hop() {
    let mut lab = with_a_node_at(NEAR);
    lab.scenario.change = vec![moves(10.0, 3, FAR)];
    let mut world = lab.world(1);
    world.run_until(ms(9_900));
    assert_eq!(hops_seen(&world), 2);
    world.run();
    assert_eq!(hops_seen(&world), 3);
    let [near, far] = [NEAR, FAR].map(|place| {
        let mut world = with_a_node_at(place).world(1);
        world.run();
        goodput(&world, 0, 2, 40)
    });
    // Packets lost on the old path cost a timeout or two.
    let (before, after) = (goodput(&world, 0, 2, 10), goodput(&world, 0, 15, 40));
    assert!((before / near - 1.0).abs() < 0.04, "{before} Mb/s, {near} where it stays");
    assert!((after / far - 1.0).abs() < 0.04, "{after} Mb/s, {far} where it always stood");
    assert!(far < 0.9 * near, "{far} of {near}");
}

/// Nodes move under load, during frames.
#[test]
fn every_packet_has_one_fate_and_runs_are_repeatable_where_nodes_move_during_frames() {
    let mut lab = Lab::ready("random-mesh", 4.0, 0.0);
    let still = lab.world(5);
    let places = still.links().positions().to_vec();
    for (index, place) in places.iter().cycle().take(390).enumerate() {
        let (node, turn) = (index % places.len(), index / places.len());
        let off = if turn.is_multiple_of(2) { 1.0 } else { -1.0 } * (node % 7) as f64 * 0.1;
        let at_s = 0.01 * (index + 1) as f64 + 1e-5 * index as f64;
        lab.scenario.change.push(moves(at_s, node as u32, (place.x_m + off, place.y_m + off)));
    }
    let ran = || {
        let mut world = lab.world(5);
        world.run();
        world
    };
    let (world, again) = (ran(), ran());
    assert_eq!(world.recorder().fingerprint, again.recorder().fingerprint);
    let mut free = Lab::ready("random-mesh", 4.0, 0.0).world(5);
    free.run();
    assert_ne!(world.recorder().fingerprint, free.recorder().fingerprint);
    let (mut arrived, mut lost) = (0, 0);
    // The ACKs of a transfer are not measured.
    for stream in world.recorder().streams.iter().filter(|stream| !stream.bins.is_empty()) {
        let unfinished = stream.in_flight + stream.overdue;
        assert_eq!(stream.arrived + stream.lost_total() + unfinished, stream.sent);
        (arrived, lost) = (arrived + stream.arrived, lost + stream.lost_total());
    }
    assert!(arrived > 1000 && lost > 10, "{arrived} arrived, {lost} lost");
}

/// The throttle recomputes its shares when a rate changes.
#[test]
fn the_shares_of_the_throttle_follow_the_rate_of_a_hop() {
    let lab = |change: Vec<Change>| {
        let mut lab = string(3).with("kind = \"bulk\"\nfrom = 0\nto = 3");
        lab.scenario.control = Some(toml::from_str("kind = \"throttle\"").unwrap());
        lab.scenario.change = change;
        lab.world(1)
    };
    let (mut falls, mut slow) = (lab(vec![slows(5.0, 1, Some(2))]), lab(vec![slows(0.0, 1, Some(2))]));
    falls.run_until(ms(4_900));
    slow.run_until(ms(4_900));
    let (before, after) = (falls.throttled_rate(0).unwrap(), slow.throttled_rate(0).unwrap());
    assert!(after < before, "{after:?} {before:?}");
    falls.run();
    assert_eq!(falls.throttled_rate(0), Some(after));
    assert!(goodput(&falls, 0, 6, 10) > 0.5 * after.as_mbps());
}

#[test]
fn a_change_that_leaves_a_flow_without_a_route_is_an_error_before_the_run() {
    let text = "name = \"t\"\nduration_s = 10\ntopology = { kind = \"string\", hops = 3, spacing_m = 200 }\n\
                [[traffic]]\nkind = \"call\"\nfrom = 3\nto = 0\nSTOP\n[[change]]\nkind = \"move\"\nat_s = 5\nnode = 2\nx_m = 400\ny_m = 900\n";
    let built = |text: String| {
        let loaded = load("t.toml", &text, &[]).expect("a scenario");
        let scenario: Scenario = loaded.scenario;
        World::new(&scenario, 1).map(|_| ())
    };
    let findings = built(text.replace("STOP", "")).expect_err("cut off");
    assert_eq!(findings[0].path, "change.0");
    assert_eq!(findings[0].message, "after this change, no route from node 3 to node 0");
    // A call that has stopped by then needs no route.
    assert!(built(text.replace("STOP", "stop_s = 5")).is_ok());
    let near = text.replace("STOP", "").replace("y_m = 900", "y_m = 0").replace("node = 2", "node = 1");
    assert_eq!(built(near).expect_err("taken")[0].message, "node 1 moves to the place of node 2");
}
