//! In steady state a run allocates nothing: not for a frame, a packet, a segment, a sample or an event.

use crate::support::*;
use fairhop_sim::scenario::{Bulk, Capture, Discipline, Reception, Traffic};

/// Frames and allocations in the 20 s after the first 5 s of a run.
fn allocations(lab: &Lab) -> (u64, u64) {
    let mut world = lab.world(1);
    world.run_until(ms(5_000));
    let (allocations, frames) = (crate::counting::allocations(), world.recorder().frames);
    world.run_until(ms(25_000));
    (world.recorder().frames - frames, crate::counting::allocations() - allocations)
}

#[test]
fn a_run_in_steady_state_allocates_nothing() {
    for (name, capture, reception) in [
        ("k-mix", Capture::None, Reception::Threshold),
        ("k-mix", Capture::First, Reception::Threshold),
        ("rts-cts", Capture::Stronger, Reception::Threshold),
        ("grid-cbr", Capture::First, Reception::Threshold),
        ("random-mesh", Capture::Stronger, Reception::Sinr),
        ("parallel-strings", Capture::First, Reception::Threshold),
    ] {
        let mut lab = Lab::ready(name, 30.0, 0.0).capture(capture).reception(reception);
        let (frames, unlimited) = allocations(&lab);
        assert!(frames > 10_000, "{name}: {frames}");
        // An unlimited window grows, and the lists of segments in flight grow with it, by doubling.
        assert!(unlimited <= 2, "{name} {capture:?}: {unlimited} allocations in {frames} frames");
        for flow in &mut lab.scenario.traffic {
            if let Traffic::Bulk(Bulk { max_window_packets, .. }) = flow {
                *max_window_packets = Some(8);
            }
        }
        let (frames, limited) = allocations(&lab);
        assert_eq!(limited, 0, "{name} {capture:?}: {limited} allocations in {frames} frames");
    }
}

/// Only the queue of a flow or host may grow, by doubling.
#[test]
fn no_queue_discipline_allocates_for_a_packet() {
    for discipline in ["red", "priority", "codel", "fq-codel", "cake", "drr"] {
        let mut lab = Lab::ready("k-mix", 30.0, 0.0);
        let queue: Discipline =
            toml::from_str(&format!("discipline = \"{discipline}\"\npackets = 50")).expect("a queue");
        lab.scenario.mac.queue = queue.clone();
        if let Some(internet) = &mut lab.scenario.internet {
            internet.queue = queue;
        }
        for flow in &mut lab.scenario.traffic {
            if let Traffic::Bulk(Bulk { max_window_packets, .. }) = flow {
                *max_window_packets = Some(8);
            }
        }
        let (frames, allocations) = allocations(&lab);
        assert!(frames > 10_000, "{discipline}: {frames}");
        let max = if ["fq-codel", "cake", "drr"].contains(&discipline) { 16 } else { 0 };
        assert!(allocations <= max, "{discipline}: {allocations} allocations in {frames} frames");
    }
}

/// The gateway's observer, clamps and pacers allocate all their memory at the start. The allocations of the adaptive controller
/// are per tick, not per packet.
#[test]
fn control_allocates_nothing_for_a_packet() {
    for (control, max) in [
        ("kind = \"none\"", 0),
        ("kind = \"window\"\nwindow_packets = 4", 0),
        ("kind = \"combined\"\nwindow_packets = 8\nrate_kbps = 400", 0),
        ("kind = \"ack-pacing\"\nrate_kbps = 300", 0),
        ("kind = \"throttle\"", 0),
        ("kind = \"adaptive\"", 10 * 200),
    ] {
        let mut lab = Lab::ready("k-mix", 30.0, 0.0);
        lab.scenario.control = Some(toml::from_str(control).expect("a control"));
        for flow in &mut lab.scenario.traffic {
            if let Traffic::Bulk(Bulk { max_window_packets, .. }) = flow {
                *max_window_packets = Some(8);
            }
        }
        let (frames, allocations) = allocations(&lab);
        assert!(frames > 10_000, "{control}: {frames}");
        assert!(allocations <= max, "{control}: {allocations} allocations in {frames} frames");
    }
}

/// Receptions of broadcasts are counted by receiver.
#[test]
fn broadcasts_allocate_nothing_for_a_packet() {
    let lab = Lab::at((0..5).map(|node| (100.0 * f64::from(node), 0.0)));
    let lab = (0..5).fold(lab.seconds(30.0), |lab, number| lab.stream(node(number), ALL, 200, 150.0));
    let (frames, allocations) = allocations(&lab);
    assert!(frames > 10_000, "{frames}");
    assert_eq!(allocations, 0, "{allocations} allocations in {frames} frames");
}
