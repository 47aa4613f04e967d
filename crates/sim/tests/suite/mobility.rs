//! Nodes that move: where they are, which routes follow, and what does not change.

use crate::support::*;
use fairhop_model::units::Nanos;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Scenario, ScenarioErrors, load, load_with};
use fairhop_sim::world::World;

/// A string of three nodes 220 m apart, and a walker who goes 620 m along it and back at 10 m/s, from 5 s on.
const WALK: &str = r#"
name = "walk"
duration_s = 140
[radio]
standard = "802.11b"
rate_mbps = 2
propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }
[topology]
kind = "explicit"
nodes = [
  { x_m = 0, y_m = 0 }, { x_m = 220, y_m = 0 }, { x_m = 440, y_m = 0 },
  { x_m = 0, y_m = 10, waypoints = [
    { at_s = 5, x_m = 0, y_m = 10 }, { at_s = 67, x_m = 620, y_m = 10 }, { at_s = 129, x_m = 0, y_m = 10 },
  ] },
]
[[traffic]]
kind = "cbr"
from = 3
to = 0
rate_kbps = 160
payload_bytes = 1000
start_s = 1
"#;

/// The walk in ns-2's form.
const MOVEMENTS: &str = r#"
$node_(3) set X_ 0
$node_(3) set Y_ 10
$ns_ at 5.0 "$node_(3) setdest 620 10 10"
$ns_ at 67.0 "$node_(3) setdest 0 10 10"
"#;

const RANDOM: &str = r#"
name = "random waypoint"
duration_s = 30
topology = { kind = "random", nodes = 20, width_m = 900, height_m = 300 }
mobility = { kind = "random-waypoint", width_m = 900, height_m = 300, speed_mps = [1, 20], pause_s = 2 }
[[traffic]]
kind = "cbr"
from = 0
to = 19
rate_kbps = 80
payload_bytes = 500
"#;

fn scenario(text: &str) -> Scenario {
    load("t.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}")).scenario
}

fn run(text: &str) -> World {
    let mut world = World::new(&scenario(text), 1).unwrap_or_else(|findings| panic!("{findings:?}"));
    world.run();
    world
}

/// The first message.
fn refused(text: &str) -> String {
    let errors: ScenarioErrors = load("t.toml", text, &[]).expect_err("an error");
    errors.problems()[0].message().to_owned()
}

#[test]
fn routes_follow_a_walker_over_one_two_and_three_hops_and_back() {
    let world = run(WALK);
    let record = &world.recorder().streams[0];
    // 20 packets a second for 139 s. At each of four changes of hops, the routes of the last tenth of a second may hold for a
    // moment too long: a packet or two.
    assert!(record.arrived >= 2770, "{}", record.arrived);
    assert_eq!(
        world.place(3, s(36.0)).x_m,
        world.place(3, s(140.0)).x_m,
        "the run has ended at the start of the walk"
    );
    // One to three hops: frames of data per packet show it.
    let frames: u64 = world.recorder().nodes.iter().map(|node| node.frames_sent).sum();
    assert!(frames > 2 * 2770 + 1000, "{frames}");
}

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

#[test]
fn a_file_of_movements_gives_the_run_of_its_waypoints() {
    let waypoints = run(WALK);
    let (before, after) = WALK.split_once(", waypoints = [").expect("waypoints");
    let after = after.split_once("] }").expect("their end").1;
    let rest = format!("{before} }}{after}");
    let with_file = rest.replace("[topology]", "[mobility]\nfile = \"move.tcl\"\n[topology]");
    let loaded = load_with("t.toml", &with_file, &[], |file| {
        assert_eq!(file, "move.tcl");
        Ok(MOVEMENTS.to_owned())
    });
    let resolved = loaded.unwrap_or_else(|errors| panic!("{errors}")).scenario;
    let mut world = World::new(&resolved, 1).expect("a network");
    world.run();
    let figures = |world: &World| {
        let record = &world.recorder().streams[0];
        (record.arrived, record.lost_total(), world.recorder().frames)
    };
    assert_eq!(figures(&world), figures(&waypoints));
    // The resolved scenario needs no file.
    let text = toml::to_string(&resolved).expect("TOML");
    assert_eq!(scenario(&text), resolved);
    let unread = load("t.toml", &with_file, &[]).expect_err("no file is read here");
    assert!(unread.problems()[0].message().starts_with("cannot read move.tcl"));
}

#[test]
fn a_node_whose_waypoints_are_one_place_is_a_node_that_rests() {
    let here = "waypoints = [{ at_s = 5, x_m = 0, y_m = 10 }, { at_s = 90, x_m = 0, y_m = 10 }]";
    let (before, after) = WALK.split_once("waypoints = [").expect("waypoints");
    let after = after.split_once("] }").expect("their end").1;
    let on_the_spot = run(&format!("{before}{here} }}{after}"));
    let resting = run(&format!("{} }}{after}", before.trim_end().trim_end_matches(',')));
    let result = |world: &World| serde_json::to_string(&Summary::of(world, false)).expect("JSON");
    assert_eq!(result(&on_the_spot), result(&resting));
    assert_eq!(on_the_spot.recorder().fingerprint, resting.recorder().fingerprint);
}

#[test]
fn a_flow_more_moves_no_node_and_another_seed_moves_all() {
    let more = format!("{RANDOM}\n[[traffic]]\nkind = \"bulk\"\nfrom = 3\nto = 4\n");
    let (one, two) = (run(RANDOM), run(&more));
    let mut other = World::new(&scenario(RANDOM), 2).expect("a network");
    other.run();
    for node in 0..20 {
        assert_eq!(one.place(node, s(30.0)), two.place(node, s(30.0)));
        assert_ne!(one.place(node, s(30.0)), other.place(node, s(30.0)));
        assert!(one.moves(node));
    }
}

#[test]
fn a_run_of_moving_nodes_is_the_same_twice_and_in_slices() {
    let (one, two) = (run(RANDOM), run(RANDOM));
    assert!(one.recorder().streams[0].arrived > 100);
    let mut sliced = World::new(&scenario(RANDOM), 1).expect("a network");
    for slice in 1..200 {
        sliced.run_until(us(slice * slice * 301));
    }
    sliced.run();
    for world in [&two, &sliced] {
        assert_eq!(one.recorder().fingerprint, world.recorder().fingerprint);
        assert_eq!(one.recorder().streams[0].arrived, world.recorder().streams[0].arrived);
    }
}

#[test]
fn more_frequent_route_updates_change_the_delivery_of_a_walk_by_a_few_packets_only() {
    let finer = format!("{WALK}\n[mobility]\nroute_interval_s = 0.05\n");
    let (coarse, fine) = (run(WALK), run(&finer));
    let arrived = |world: &World| world.recorder().streams[0].arrived;
    assert!(arrived(&coarse).abs_diff(arrived(&fine)) <= 8, "{} {}", arrived(&coarse), arrived(&fine));
}

#[test]
fn nodes_that_cannot_move_so_are_refused_with_the_reason() {
    let with = |section: &str| RANDOM.replacen("pause_s = 2 }", &format!("pause_s = 2 }}\n{section}"), 1);
    for (text, words) in [
        (RANDOM.replace("[1, 20]", "[0, 20]"), "the mean speed would fall for ever"),
        (RANDOM.replace("[1, 20]", "[5, 2]"), "below the minimum"),
        (RANDOM.replace("speed_mps = [1, 20], ", ""), "needs `speed_mps`"),
        (
            with("change = [{ at_s = 1, kind = \"move\", node = 3, x_m = 1, y_m = 2 }]"),
            "node 3 is moved by [mobility]",
        ),
        (WALK.replace("at_s = 67", "at_s = 5"), "not later than the waypoint before"),
        (
            WALK.replace("{ at_s = 5, x_m = 0, y_m = 10 }", "{ at_s = 5, x_m = 1, y_m = 10 }"),
            "rests at (0, 10) before",
        ),
        (format!("{WALK}[mobility]\nmovements = '''\n$god_ set-dist 1 2 3'''"), "line 1: this is no place"),
        (
            format!("{WALK}[mobility]\nmovements = '''{MOVEMENTS}'''"),
            "[mobility] and its waypoints both move node 3",
        ),
        (format!("{WALK}[mobility]\npause_s = 3"), "belongs to random waypoint"),
    ] {
        let message = refused(&text);
        assert!(message.contains(words), "{message}\ninstead of: {words}");
    }
}
