//! The same scenario and seed give the same run, whoever watches and however it is driven; and a table of runs that
//! shows every change of behaviour as a difference to be reviewed.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite determinism` writes `golden/runs.txt` anew.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;

use crate::support::*;
use fairhop_sim::recorder::StreamRecord;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::library;
use fairhop_sim::world::World;

/// The summary as bytes, and the fingerprint of every transmission.
fn result(world: &World) -> (u64, String) {
    (world.recorder().fingerprint, serde_json::to_string(&Summary::of(world, false)).expect("JSON"))
}

fn plainly(lab: &Lab, seed: u64) -> (u64, String) {
    let mut world = lab.world(seed);
    world.run();
    result(&world)
}

/// Shadowing, random places, SINR and draws for bit errors; range and collisions; a matrix.
const VARIED: [&str; 4] = ["random-mesh", "k-mix", "matrix", "grid-cbr"];

#[test]
fn a_run_is_the_same_twice_watched_or_not_and_in_slices_of_any_length() {
    for name in VARIED {
        let lab = Lab::ready(name, 3.0, 0.5);
        let first = plainly(&lab, 7);
        assert_eq!(plainly(&lab, 7), first, "{name}: twice");
        assert_eq!(result(&lab.run(7).world), first, "{name}: watched");
        let mut sliced = lab.world(7);
        for slice in 1..100 {
            sliced.run_until(us(slice * slice * 301));
        }
        sliced.run();
        assert_eq!(result(&sliced), first, "{name}: in slices");
    }
}

#[test]
fn runs_on_two_threads_are_those_of_one() {
    for name in VARIED {
        let lab = Lab::ready(name, 2.0, 0.5);
        let alone: Vec<_> = (1..=6).map(|seed| plainly(&lab, seed)).collect();
        let together: Vec<_> = thread::scope(|scope| {
            let half = |seeds: [u64; 3]| {
                let lab = &lab;
                scope.spawn(move || seeds.map(|seed| plainly(lab, seed)))
            };
            let halves = [half([1, 2, 3]), half([4, 5, 6])];
            halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
        });
        assert_eq!(alone, together, "{name}");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    for name in VARIED {
        let lab = Lab::ready(name, 1.0, 0.0);
        let mut fingerprints: Vec<_> = (1..=20).map(|seed| plainly(&lab, seed).0).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), 20, "{name}");
    }
}

/// One line a ready-made scenario, cut to 4 s of which the first is warm-up.
fn table() -> String {
    let mut table = format!(
        "{:<18} {:>6} {:>16} {:>7} {:>7} {:>5} {:>5} {:>5} {:>6}\n",
        "scenario", "frames", "fingerprint", "tcp", "udp", "mos", "worst", "jain", "lost"
    );
    for ready in library() {
        let mut world = Lab::ready(ready.name, 4.0, 1.0).world(1);
        world.run();
        let recorder = world.recorder();
        let totals = Summary::of(&world, false).totals;
        writeln!(
            table,
            "{:<18} {:>6} {:016x} {:>7.4} {:>7.4} {:>5.3} {:>5.3} {:>5.3} {:>6}",
            ready.name,
            recorder.frames,
            recorder.fingerprint,
            totals.tcp_goodput_mbps,
            totals.udp_goodput_mbps,
            totals.mos_mean,
            totals.mos_min,
            totals.jain,
            recorder.streams.iter().map(StreamRecord::lost_total).sum::<u64>(),
        )
        .expect("memory");
    }
    table
}

#[test]
fn the_ready_made_scenarios_run_as_they_did_when_this_was_last_reviewed() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/runs.txt");
    let now = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, &now).unwrap();
    }
    let then = std::fs::read_to_string(&golden).unwrap_or_default();
    let changed: Vec<_> = now.lines().filter(|line| !then.lines().any(|old| old == *line)).collect();
    assert!(
        now == then,
        "changed:\n{}\nIf this was meant: UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite determinism",
        changed.join("\n")
    );
}
