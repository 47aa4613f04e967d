//! Routes that break under an adaptive controller, in a small mesh (see `plant`): three calls and three transfers.

use fairhop_control::controller::Tuning;
use fairhop_control::policy::{Reason, State};
use fairhop_control::{AdaptiveConfig, ControllerConfig};
use fairhop_model::units::Nanos;

use crate::plant::Plant;

/// What the controller asked for by tick: state, reason and pace.
type Log = Vec<(Nanos, State, Reason, u64)>;

/// The route of a mesh breaks for `lasts_ms` at 40 s; afterwards packets make `hops` instead of 4.
fn log_of(tuning: Tuning, lasts_ms: u64, hops: u8, change: impl FnOnce(&mut Plant)) -> Log {
    let config = AdaptiveConfig { tuning, ..AdaptiveConfig::default() };
    let mut plant = Plant::new(ControllerConfig::Adaptive(config), 30, 1);
    for _ in 0..3 {
        plant.call(Nanos::ZERO, Nanos::MAX);
    }
    for flow in 0..3 {
        plant.transfer(Nanos::from_millis(1000 + 37 * flow));
    }
    if lasts_ms > 0 {
        let from = Nanos::from_secs(40);
        plant.break_route(from, from + Nanos::from_millis(lasts_ms), hops);
    }
    change(&mut plant);
    plant.run(Nanos::from_secs(60));
    plant.log
}

fn unaware() -> Tuning {
    Tuning { route_silent_s: 1e9, ..Tuning::default() }
}

/// The mean pace from `from` until `until` seconds, in bits per second.
fn pace(log: &Log, from: f64, until: f64) -> f64 {
    let (from, until) = (Nanos::from_secs_f64(from), Nanos::from_secs_f64(until));
    let paces: Vec<_> =
        log.iter().filter(|(at, ..)| (from..until).contains(at)).map(|entry| entry.3).collect();
    paces.iter().sum::<u64>() as f64 / paces.len() as f64
}

fn has(log: &Log, state: State) -> bool {
    log.iter().any(|(at, of, ..)| *at > Nanos::from_secs(40) && *of == state)
}

#[test]
fn a_broken_route_is_named_and_costs_tcp_nothing_that_was_learnt() {
    let mut gained = Vec::new();
    for (lasts_ms, hops) in [(700, 5), (2000, 5), (2000, 4), (5000, 5)] {
        let aware = log_of(Tuning::default(), lasts_ms, hops, |_| {});
        let unaware = log_of(unaware(), lasts_ms, hops, |_| {});
        let named = aware.iter().filter(|(.., reason, _)| *reason == Reason::RouteInterrupted).count();
        let before = pace(&aware, 35.0, 40.0);
        let end = 40.0 + lasts_ms as f64 / 1000.0;
        // Packets have to arrive again first, TCP waits for its timeout, and less is sent at first over more hops. The return after a
        // cut takes more than ten seconds.
        let after = |log| pace(log, end + 14.0, end + 19.0) / before;
        println!(
            "{lasts_ms} ms, {hops} hops: {:.2} of the pace, {:.2} if unaware; named {named}",
            after(&aware),
            after(&unaware)
        );
        assert!(named as u64 * 100 >= lasts_ms / 2, "{named} ticks");
        assert!(!has(&aware, State::Learning), "forgets what it has learnt");
        assert!(after(&aware) > 0.9);
        gained.push(after(&aware) - after(&unaware));
    }
    // A controller that does not know of the break cuts in some cases and not in others.
    assert!(gained.iter().sum::<f64>() / gained.len() as f64 > 0.04, "{gained:?}");
}

#[test]
fn a_short_silence_of_the_same_route_is_a_loss_as_any_other() {
    let (aware, unaware) = (log_of(Tuning::default(), 600, 4, |_| {}), log_of(unaware(), 600, 4, |_| {}));
    let pace_at = |log: &Log, second: u64| pace(log, second as f64, second as f64 + 1.0);
    for second in 41..50 {
        assert!((pace_at(&aware, second) / pace_at(&unaware, second) - 1.0).abs() < 0.05, "at {second} s");
    }
}

#[test]
fn a_breakdown_by_load_is_not_taken_for_a_broken_route() {
    // A third of the capacity at once, then calls beyond what is left.
    let slower = |plant: &mut Plant| {
        plant.set_slowdown(Nanos::from_secs(40), 3.0);
        (0..6).for_each(|_| plant.call(Nanos::from_secs(45), Nanos::MAX));
    };
    let log = log_of(Tuning::default(), 0, 4, slower);
    assert!(log.iter().all(|(.., reason, _)| *reason != Reason::RouteInterrupted));
}

/// The hops that share the air are four, so the price of the longer path is the same. Too short a break to be seen.
#[test]
fn less_is_sent_for_some_seconds_over_a_path_with_more_hops() {
    let (longer, same) =
        (log_of(Tuning::default(), 100, 6, |_| {}), log_of(Tuning::default(), 100, 4, |_| {}));
    let reasons = |log: &Log| log.iter().filter(|(.., reason, _)| *reason == Reason::PathLonger).count();
    assert!(reasons(&longer) > 0 && reasons(&same) == 0);
    let part = pace(&longer, 41.0, 43.0) / pace(&same, 41.0, 43.0);
    let later = pace(&longer, 50.0, 60.0) / pace(&same, 50.0, 60.0);
    assert!((0.35..0.7).contains(&part) && later > 0.85, "{part:.2} of the pace, later {later:.2}");
}
