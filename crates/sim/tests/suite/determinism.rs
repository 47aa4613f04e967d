//! The same scenario and seed give the same run, whether it is observed or not and in slices of any length. A golden table
//! of all ready-made scenarios shows every change of behaviour as a difference to review.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite determinism` rewrites `golden/runs.txt`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

use crate::support::*;
use fairhop_sim::recorder::StreamRecord;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Change, Ready, Traffic, library};
use fairhop_sim::world::World;

/// The fingerprints of all frames and of all wired packets, and the summary as bytes.
type Outcome = (u64, u64, String);

fn result(world: &World) -> Outcome {
    let summary = serde_json::to_string(&Summary::of(world, false)).expect("JSON");
    (world.recorder().fingerprint, world.recorder().wired_fingerprint, summary)
}

fn outcome(lab: &Lab, seed: u64) -> Outcome {
    let mut world = lab.world(seed);
    world.run();
    result(&world)
}

/// Random positions with shadowing, SINR and bit errors; the range model with collisions; a loss matrix.
const VARIED: [&str; 4] = ["random-mesh", "k-mix", "matrix", "grid-cbr"];

#[test]
fn a_run_is_the_same_twice_observed_or_not_and_in_slices_of_any_length() {
    for name in VARIED {
        let lab = Lab::ready(name, 3.0, 0.5);
        let first = outcome(&lab, 7);
        assert_eq!(outcome(&lab, 7), first, "{name}: twice");
        assert_eq!(result(&lab.run(7).world), first, "{name}: observed");
        let mut sliced = lab.world(7);
        for slice in 1..100 {
            sliced.run_until(us(slice * slice * 301));
        }
        sliced.run();
        assert_eq!(result(&sliced), first, "{name}: in slices");
    }
}

#[test]
fn runs_on_two_threads_equal_those_on_one() {
    for name in VARIED {
        let lab = Lab::ready(name, 2.0, 0.5);
        let alone: Vec<_> = (1..=6).map(|seed| outcome(&lab, seed)).collect();
        let together: Vec<_> = thread::scope(|scope| {
            let half = |seeds: [u64; 3]| {
                let lab = &lab;
                scope.spawn(move || seeds.map(|seed| outcome(lab, seed)))
            };
            let halves = [half([1, 2, 3]), half([4, 5, 6])];
            halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
        });
        assert_eq!(alone, together, "{name}");
    }
}

#[test]
fn different_seeds_give_different_runs() {
    for name in VARIED {
        let lab = Lab::ready(name, 1.0, 0.0);
        let mut fingerprints: Vec<_> = (1..=20).map(|seed| outcome(&lab, seed).0).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), 20, "{name}");
    }
}

/// Duration of a scenario's line in the table: 4 s, or 4 s after its last change and the last start or stop of a flow.
fn golden_duration_s(lab: &Lab) -> f64 {
    let changes = lab.scenario.change.iter().map(Change::at_s);
    let flows =
        lab.scenario.traffic.iter().flat_map(|entry| [Some(entry.times().0), entry.times().1]).flatten();
    let last = changes.chain(flows).filter(|at_s| at_s.is_finite()).fold(0.0, f64::max);
    if last < 4.0 { 4.0 } else { last + 4.0 }
}

/// The fingerprint of a run's frames or, without a radio, of its wired packets.
fn fingerprint(world: &World) -> u64 {
    let recorder = world.recorder();
    if recorder.frames > 0 { recorder.fingerprint } else { recorder.wired_fingerprint }
}

/// One line for each ready-made scenario, with a warm-up of 1 s.
fn table() -> String {
    let mut table = format!(
        "{:<18} {:>6} {:>16} {:>7} {:>7} {:>5} {:>5} {:>5} {:>6}\n",
        "scenario", "frames", "fingerprint", "tcp", "udp", "mos", "worst", "jain", "lost"
    );
    for ready in simulated() {
        let whole = Lab::ready(ready.name, f64::MAX, 1.0);
        let mut world = Lab::ready(ready.name, golden_duration_s(&whole), 1.0).world(1);
        world.run();
        let recorder = world.recorder();
        let totals = Summary::of(&world, false).totals;
        writeln!(
            table,
            "{:<18} {:>6} {:016x} {:>7.4} {:>7.4} {:>5.3} {:>5.3} {:>5.3} {:>6}",
            ready.name,
            recorder.frames,
            fingerprint(&world),
            totals.tcp_goodput_mbps,
            totals.udp_goodput_mbps,
            totals.mos_mean.unwrap_or(0.0),
            totals.mos_min.unwrap_or(0.0),
            totals.jain,
            recorder.streams.iter().map(StreamRecord::lost_total).sum::<u64>(),
        )
        .expect("memory");
    }
    table
}

/// The ready-made scenarios with simulated traffic. Others need `fairhop emulate`.
fn simulated() -> impl Iterator<Item = &'static Ready> {
    library().iter().filter(|ready| {
        let traffic = Lab::ready(ready.name, f64::MAX, 1.0).scenario.traffic;
        !traffic.iter().all(|traffic| matches!(traffic, Traffic::Real(_)))
    })
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/runs.txt")
}

#[test]
fn the_ready_made_scenarios_run_as_in_the_reviewed_golden_table() {
    let golden = golden_path();
    let now = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, &now).unwrap();
    }
    let then = std::fs::read_to_string(&golden).unwrap_or_default();
    let changed: Vec<_> = now.lines().filter(|line| !then.lines().any(|old| old == *line)).collect();
    assert!(
        now == then,
        "changed:\n{}\nIf this is intended: UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite determinism",
        changed.join("\n")
    );
}

/// The fault that this guards against: a table cut before the first change, and a hash of no events.
#[test]
fn every_line_of_the_golden_table_covers_the_changes_of_its_scenario_and_has_events() {
    for ready in simulated() {
        let whole = Lab::ready(ready.name, f64::MAX, 1.0);
        let cut = Lab::ready(ready.name, golden_duration_s(&whole), 1.0);
        assert_eq!(cut.scenario.change.len(), whole.scenario.change.len(), "{}", ready.name);
        assert_eq!(cut.scenario.traffic.len(), whole.scenario.traffic.len(), "{}", ready.name);
    }
    let golden = std::fs::read_to_string(golden_path()).unwrap_or_default();
    let fingerprints: Vec<&str> =
        golden.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(fingerprints.len(), simulated().count());
    // The offset basis of FNV-1a.
    assert!(!fingerprints.contains(&"cbf29ce484222325"), "a run without any event");
    for ready in simulated() {
        let mut lab = Lab::ready(ready.name, f64::MAX, 1.0);
        if !lab.scenario.change.is_empty() {
            lab.scenario.duration_s = golden_duration_s(&lab);
            let changed = outcome(&lab, 1);
            lab.scenario.change.clear();
            assert_ne!(outcome(&lab, 1).0, changed.0, "{}: the changes have no effect", ready.name);
        }
    }
}
