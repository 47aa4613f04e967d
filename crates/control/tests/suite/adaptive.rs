//! Controllers in a small mesh (see `plant`): calls stay good and TCP gets the rest, with constant and changing conditions.
//! `cargo test -p fairhop-control --test suite adaptive -- --nocapture` prints the figures.

use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtpFields, TcpFields, tcp_flag,
};
use fairhop_control::policy::{Policy, Reason, State};
use fairhop_control::{AdaptiveConfig, Controller, ControllerConfig, FixedConfig, FlowKey, ObserverConfig};
use fairhop_model::units::{BitRate, Nanos};

use crate::observing::{MESH, WIRED, digest};
use crate::plant::Plant;

fn adaptive() -> ControllerConfig {
    ControllerConfig::Adaptive(AdaptiveConfig::default())
}

fn secs(s: u64) -> Nanos {
    Nanos::from_secs(s)
}

/// Calls from the start, transfers from 1 s.
fn mesh(config: ControllerConfig, calls: usize, flows: usize, wired_ms: u64) -> Plant {
    mesh_with_seed(config, calls, flows, wired_ms, 1)
}

fn mesh_with_seed(config: ControllerConfig, calls: usize, flows: usize, wired_ms: u64, seed: u64) -> Plant {
    let mut plant = Plant::new(config, wired_ms, seed);
    for _ in 0..calls {
        plant.call(Nanos::ZERO, Nanos::MAX);
    }
    for flow in 0..flows {
        plant.transfer(secs(1) + Nanos::from_millis(37 * flow as u64));
    }
    plant
}

/// The best constant rate in steps of 100 kb/s with which calls are good in 95 % of the seconds, and TCP's goodput with it,
/// both in bits per second.
fn best_fixed(calls: usize, flows: usize, wired_ms: u64) -> (u64, f64) {
    (1..20)
        .map(|step| step * 100_000)
        .filter_map(|rate| {
            let config = FixedConfig {
                data_rate: Some(BitRate(rate)),
                window: Some(20_000),
                ..FixedConfig::default()
            };
            let mut plant = mesh(ControllerConfig::Fixed(config), calls, flows, wired_ms);
            plant.run(secs(40));
            (plant.good_seconds(10, 40) >= 0.95).then(|| (rate, plant.goodput(10, 40)))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0))
}

#[test]
fn without_a_setting_calls_are_good_and_tcp_gets_seven_tenths_of_the_best_fixed_settings_goodput() {
    let cases = [(0, 1, 30), (0, 10, 30), (1, 3, 30), (3, 3, 30), (6, 3, 10), (6, 30, 150), (9, 3, 30)];
    for (calls, flows, wired_ms) in cases {
        let (rate, best) = best_fixed(calls, flows, wired_ms);
        // Three draws of losses.
        let (mut goodput, mut good) = (0.0, 0.0);
        for seed in 1..=3 {
            let mut plant = mesh_with_seed(adaptive(), calls, flows, wired_ms, seed);
            plant.run(secs(60));
            goodput += plant.goodput(10, 60) / 3.0;
            good += plant.good_seconds(10, 60) / 3.0;
            // It does not oscillate: few cuts after the first 10 s.
            let cuts = plant.log.windows(2).filter(|pair| {
                pair[1].0 > secs(10) && pair[1].1 == State::Protecting && pair[0].1 != State::Protecting
            });
            let cuts = cuts.count();
            assert!(cuts <= 8, "{cuts} cuts in 50 s");
        }
        let mut free = mesh(ControllerConfig::None, calls, flows, wired_ms);
        free.run(secs(40));
        let (free_goodput, free_good) = (free.goodput(10, 40), free.good_seconds(10, 40));
        println!(
            "{calls} calls, {flows} flows, {wired_ms} ms: best fixed {:.0} kb/s at {}, adaptive {:.0} ({good:.3} good), \
             no control {:.0} ({free_good:.2})",
            best / 1e3,
            rate / 1000,
            goodput / 1e3,
            free_goodput / 1e3,
        );
        assert!(good >= 0.95, "calls are good in {good} of the seconds");
        assert!(goodput >= 0.7 * best, "{goodput} of {best}");
        assert!(calls == 0 || free_good < 0.1);
    }
}

#[test]
fn changes_of_calls_capacity_and_flows_are_handled_within_two_seconds() {
    // (a) Six calls begin 10 s apart from 10 s on, and end from 80 s on.
    let mut plant = mesh(adaptive(), 0, 3, 30);
    for call in 0..6 {
        plant.call(secs(10 * (call + 1)), secs(130 - 10 * call));
    }
    plant.run(secs(130));
    for change in (10..130).step_by(10) {
        let good = plant.good_seconds(change + 2, change + 10);
        println!("calls change at {change} s: {good:.2} good from 2 s after it");
        assert!(good >= 0.75, "{change}");
    }
    let all = plant.good_seconds(12, 130);
    assert!(all >= 0.88, "{all}");
    // The capacity that calls released is found again.
    assert!(plant.goodput(122, 130) > 0.55 * plant.goodput(5, 10));

    // (b) Half the capacity from 40 to 80 s. Ten draws of losses.
    let (mut good, mut back) = (0.0, 0.0);
    for seed in 1..=10 {
        let mut plant = mesh_with_seed(adaptive(), 3, 3, 30, seed);
        plant.set_slowdown(secs(40), 2.0);
        plant.set_slowdown(secs(80), 1.0);
        plant.run(secs(130));
        good += plant.good_seconds(42, 80) / 10.0;
        back += plant.goodput(115, 130) / plant.goodput(20, 40) / 10.0;
    }
    println!("half the capacity: {good:.2} good from 2 s after it; then {back:.2} of the goodput before");
    assert!(good >= 0.9 && back >= 0.65, "{good} {back}");

    // (c) Ten more flows at 40 s and at 60 s.
    let mut plant = mesh(adaptive(), 3, 1, 30);
    for flow in 0..20 {
        plant.transfer(secs(40 + 20 * (flow / 10)));
    }
    plant.run(secs(80));
    for change in [40, 60] {
        let good = plant.good_seconds(change + 2, change + 20);
        println!("ten flows at {change} s: {good:.2} good from 2 s after it");
        assert!(good >= 0.85, "{good}");
    }
}

/// Downloads end, calls begin in the pause, and downloads begin again. Without calls the budget was several times as large.
#[test]
fn calls_that_begin_in_a_pause_of_the_downloads_are_as_good_as_without_the_earlier_downloads() {
    let with_seed = |has_early: bool, calls_before: usize, seed: u64| {
        let mut plant = Plant::new(adaptive(), 30, seed);
        if has_early {
            (0..3).for_each(|flow| plant.transfer_of(Nanos::from_millis(1000 + 37 * flow), 1_500_000));
        }
        (0..calls_before).for_each(|_| plant.call(Nanos::ZERO, Nanos::MAX));
        (calls_before..5).for_each(|_| plant.call(secs(50), Nanos::MAX));
        (0..3).for_each(|flow| plant.transfer(secs(60) + Nanos::from_millis(37 * flow)));
        plant.run(secs(80));
        let state = plant.log.iter().find(|(at, state, ..)| *at > secs(60) && *state != State::Off);
        (plant.good_seconds(60, 70), state.map(|(_, state, ..)| *state), plant.goodput(61, 66))
    };
    // Good seconds and goodput in the mean, and the states at first.
    let good_seconds = |has_early: bool, calls_before: usize| {
        let runs: Vec<_> = (1..=24).map(|seed| with_seed(has_early, calls_before, seed)).collect();
        let mean =
            |of: fn(&(f64, Option<State>, f64)) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let state = runs[0].1.filter(|state| runs.iter().all(|run| run.1 == Some(*state)));
        (mean(|run| run.0), state, mean(|run| run.2))
    };
    let (without, with) = (good_seconds(false, 0), good_seconds(true, 0));
    println!("good seconds after the pause: {without:?} without earlier downloads, {with:?} with them");
    assert_eq!(with.1, Some(State::Learning));
    assert!(with.0 >= without.0 - 0.02 && with.0 > 0.9, "{with:?}, {without:?}");
    // One call joins four others: what was learnt beside them holds, less its load.
    let joined = good_seconds(true, 4);
    println!("where one call joins four: {joined:?}");
    assert_eq!(joined.1, Some(State::Steady));
    assert!(joined.0 > 0.9 && joined.2 > without.2, "{joined:?}");
}

#[test]
fn where_tcp_does_not_cause_bad_calls_the_state_is_starved_and_tcp_gets_its_budget_back() {
    let noisy = |config| {
        let mut plant = mesh(config, 3, 3, 30);
        plant.set_noise(secs(40), 0.1);
        plant.set_noise(secs(80), 0.0005);
        plant.run(secs(120));
        plant
    };
    let plant = noisy(adaptive());
    let starved = plant.log.iter().filter(|(_, state, ..)| *state == State::Starved);
    assert!(starved.clone().all(|(at, _, reason, _)| *at > secs(40) && *reason == Reason::TcpIsNotTheCause));
    let part = starved.count() as f64 / 400.0;
    let (free, controlled) = (noisy(ControllerConfig::None).goodput(45, 80), plant.goodput(45, 80));
    println!(
        "noise of 10 %: starved for {part:.2} of the time, {:.0} kb/s of {:.0}",
        controlled / 1e3,
        free / 1e3
    );
    assert!(part > 0.3);
    assert!(controlled > 0.5 * free);
    // Afterwards, calls are good again.
    assert!(plant.good_seconds(83, 120) >= 0.9 && plant.goodput(85, 120) > 0.4 * plant.goodput(10, 40));
    assert!(plant.log.last().is_some_and(|(_, state, ..)| *state == State::Steady));
}

#[test]
fn noise_that_tcp_does_not_cause_costs_it_at_most_half_of_its_goodput() {
    let carried_of = |config: ControllerConfig, noise: f64, seed: u64| {
        let mut plant = mesh_with_seed(config, 3, 3, 30, seed);
        plant.set_noise(secs(40), noise);
        plant.run(secs(140));
        (plant.goodput(60, 140), plant.good_seconds(60, 140))
    };
    // Means over ten draws of losses.
    let carried = |config: ControllerConfig, noise: f64| {
        let runs = (1..=10).map(|seed| carried_of(config, noise, seed));
        runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0 / 10.0, sum.1 + run.1 / 10.0))
    };
    let best_fixed = |noise: f64| {
        let fixed = (1..16).map(|step| FixedConfig {
            data_rate: Some(BitRate(step * 100_000)),
            window: Some(20_000),
            ..FixedConfig::default()
        });
        let runs = fixed.map(|config| carried_of(ControllerConfig::Fixed(config), noise, 1));
        runs.filter(|(_, good)| *good >= 0.95).map(|(goodput, _)| goodput).fold(0.0, f64::max)
    };
    // Noise below the tolerable loss. A cut by chance is recovered slowly under it.
    let (best, (goodput, good)) = (best_fixed(0.003), carried(adaptive(), 0.003));
    println!("noise of 0.3 %: {:.2} of the best setting's goodput, {good:.2} good", goodput / best);
    assert!(goodput > 0.5 * best, "{goodput} of {best}");
    // Noise above the tolerable loss: TCP is not held back for it.
    let (clean, _) = carried(adaptive(), 0.0005);
    let (goodput, good) = carried(adaptive(), 0.006);
    println!("noise of 0.6 %: {:.2} of the goodput without noise, {good:.2} good", goodput / clean);
    assert!(goodput > 0.4 * clean, "{goodput} of {clean}");
}

/// Six calls and one download. From 10 s on, each call loses every 50th packet, whatever TCP does. The law alone would take all
/// of TCP's budget.
#[test]
fn loss_that_less_tcp_does_not_reduce_takes_three_quarters_of_its_budget_at_most() {
    let mut controller = Controller::new(ObserverConfig::default(), adaptive());
    let (mut peak, mut min) = (0.0_f64, f64::INFINITY);
    for interval in 0..6000_u32 {
        let now = Nanos::from_millis(20 * u64::from(interval));
        for call in 0..6 {
            // Losses of the calls are 160 ms apart.
            if now > secs(10) && (interval + 8 * call).is_multiple_of(50) {
                continue;
            }
            let (sequence, timestamp) = (interval as u16, 160 * interval);
            let rtp = RtpFields { payload_type: 18, sequence, timestamp, ssrc: call, ..RtpFields::default() };
            let port = 5000 + 2 * call as u16;
            controller.on_digest(&digest(
                now,
                Direction::FromMesh,
                PROTOCOL_UDP,
                port,
                60,
                Payload::Rtp(rtp),
            ));
        }
        let (seq, flags, payload_bytes) = (1460 * interval, tcp_flag::ACK, 1460);
        let data = Payload::Tcp(TcpFields { seq, flags, payload_bytes, ..TcpFields::default() });
        controller.on_digest(&digest(now, Direction::ToMesh, PROTOCOL_TCP, 80, 1500, data));
        if interval.is_multiple_of(5) {
            controller.tick(now, 0);
            // By then, the first stress has ended the learning.
            if now > secs(12) {
                let budget = controller.budget().expect("a budget");
                (peak, min) = (peak.max(budget), min.min(budget));
            }
        }
    }
    assert!(min > 0.25 * peak, "budget from {peak} down to {min}");
}

const SEGMENT: u32 = 1460;

/// A full segment of a flow, by its port in the mesh and its number in the flow.
fn segment(at: Nanos, direction: Direction, port: u16, number: u32) -> Digest {
    let (mut source, mut destination) = ((MESH, port), (WIRED, 80));
    if direction == Direction::ToMesh {
        std::mem::swap(&mut source, &mut destination);
    }
    Digest {
        at,
        waited: Nanos::ZERO,
        direction,
        source: source.0,
        destination: destination.0,
        source_port: source.1,
        destination_port: destination.1,
        protocol: PROTOCOL_TCP,
        ttl: 61,
        traffic_class: 0,
        bytes: SEGMENT + 40,
        payload: Payload::Tcp(TcpFields {
            seq: number.wrapping_mul(SEGMENT),
            flags: tcp_flag::ACK,
            payload_bytes: SEGMENT,
            ..TcpFields::default()
        }),
    }
}

/// Two uploads until 30 s: one sends all the time, the other one segment per second.
#[test]
fn a_slow_upload_keeps_a_segment_per_second_and_held_acks_leave_at_their_pace_when_no_flow_sends() {
    let mut controller = Controller::new(ObserverConfig::default(), adaptive());
    let up = |now, port, number| segment(now, Direction::FromMesh, port, number);
    let slow = FlowKey { mesh: MESH, wired: WIRED, mesh_port: 2, wired_port: 80, protocol: PROTOCOL_TCP };
    let mut min = u64::MAX;
    for tick in 0..400_u64 {
        let now = Nanos::from_millis(100 * tick);
        if tick < 300 {
            (0..8).for_each(|n| controller.on_digest(&up(now, 1, (8 * tick + n) as u32)));
            if tick % 10 == 0 {
                controller.on_digest(&up(now, 2, (tick / 10) as u32));
            }
        }
        let policy = controller.tick(now, 0).clone();
        if (50..300).contains(&tick) {
            min = min.min(policy.treatment(now, &slow).ack_rate.map_or(0, |rate| rate.0));
        }
        if tick > 350 {
            assert!(policy.state == State::Off && policy.up_acks.is_some(), "{policy:?}");
        }
    }
    assert!(min >= 8 * u64::from(SEGMENT), "{min} b/s");
}

/// Thirty downloads fill a pacer whose rate is so low that none of them is heard for seconds. They make no claim then, and with
/// the rate of no claims they would not be heard again.
#[test]
fn packets_that_wait_leave_at_the_rate_of_the_whole_budget_when_no_flow_has_been_heard_for_a_second() {
    let mut controller = Controller::new(ObserverConfig::default(), adaptive());
    for tick in 0..50_u64 {
        let now = Nanos::from_millis(100 * tick);
        if tick < 5 {
            (0..30).for_each(|port| {
                controller.on_digest(&segment(now, Direction::ToMesh, port, tick as u32));
            });
        }
        let down = controller.tick(now, 100).down.map_or(0.0, |down| down.0 as f64);
        let shared = f64::from(AdaptiveConfig::default().shared_links);
        if tick > 20 {
            let budget = controller.budget().unwrap_or_default();
            assert!(down * shared > 0.9 * budget, "{down} b/s with a budget of {budget} at tick {tick}");
        }
    }
}

/// Losses fall to a tenth when the budget has been small for some seconds, as where queues drain slowly: their mean since then is high,
/// but TCP was the cause.
#[test]
fn tcp_is_not_ruled_out_while_losses_fall() {
    let starved = |lasts_ms| {
        let mut plant = mesh(adaptive(), 3, 3, 30);
        plant.set_noise(secs(40), 0.3);
        plant.set_noise(secs(40) + Nanos::from_millis(lasts_ms), 0.03);
        plant.run(secs(50));
        plant.log.iter().filter(|(_, state, ..)| *state == State::Starved).count()
    };
    assert_eq!(starved(3600), 0);
    assert!(starved(8000) > 0, "they have not fallen");
}

/// Packet `number` of a call.
fn voice(at: Nanos, direction: Direction, port: u16, number: u32) -> Digest {
    let rtp = RtpFields {
        payload_type: 18,
        sequence: number as u16,
        timestamp: number.wrapping_mul(160),
        ssrc: u32::from(port),
        payload_bytes: 20,
        marker: false,
    };
    let packet = segment(at, direction, port, 0);
    Digest { protocol: PROTOCOL_UDP, bytes: 60, payload: Payload::Rtp(rtp), ..packet }
}

/// Policies of a new controller at each tick from the first to the one before `ticks`.
fn decided(config: ControllerConfig, mut digests: Vec<Digest>, ticks: u64) -> Vec<Policy> {
    let mut controller = Controller::new(ObserverConfig::default(), config);
    digests.sort_by_key(|digest| digest.at);
    let mut next = digests.into_iter().peekable();
    let ticks = (1..ticks).map(|tick| {
        let now = Nanos::from_millis(100 * tick);
        while let Some(digest) = next.next_if(|digest| digest.at < now) {
            controller.on_digest(&digest);
        }
        controller.tick(now, 0).clone()
    });
    ticks.collect()
}

/// Packets of three calls leave the mesh through a queue that ten uploads have filled. While it drains, by less than half a second
/// each second, they are late whatever the budget is, and TCP was the cause. If the queue stands still, it was not.
#[test]
fn tcp_is_not_ruled_out_while_a_queue_of_seconds_drains() {
    const FULL: u64 = 5000;
    let starved = |is_drained: bool| {
        // Delay in ms of a packet that is sent `at`: from the tenth second on it grows for five seconds, then falls for fifteen.
        let delay = |at: u64| match at {
            ..10_000 => 0,
            10_000..15_000 => at - 10_000,
            _ if is_drained => FULL.saturating_sub(4 * (at - 15_000) / 9),
            _ => FULL,
        };
        let mut digests = Vec::new();
        for n in 0..2_000_u32 {
            let sent = 20 * u64::from(n);
            let at = Nanos::from_millis(sent + delay(sent));
            digests.extend((5000..5003).map(|port| voice(at, Direction::FromMesh, port, n)));
            if sent > 9_000 && n % 3 == 0 {
                digests.push(segment(at, Direction::FromMesh, (n % 10) as u16, n));
            }
        }
        decided(adaptive(), digests, 400).iter().any(|policy| policy.state == State::Starved)
    };
    assert!(!starved(true), "while the queue drains");
    assert!(starved(false), "the queue stands still");
}

/// Packets of two calls come from the Internet every 50 ms, several at once, beside a download: after 20 ms in the mean. A queue of
/// 5 ms more is tolerable, though the mean delay is over 20 ms, and one of 30 ms is not.
#[test]
fn jitter_of_the_internet_is_no_queue_before_the_gateway() {
    let mut digests = Vec::new();
    for n in 0..3_000_u32 {
        let sent = 20 * u64::from(n);
        let queue = match sent {
            ..20_000 => 0,
            20_000..40_000 => 5,
            _ => 30,
        };
        let at = Nanos::from_millis(sent.next_multiple_of(50) + queue);
        digests.extend([5000, 5002].map(|port| voice(at, Direction::ToMesh, port, n)));
        digests.push(segment(Nanos::from_millis(sent), Direction::ToMesh, 6000, n));
    }
    let decided = decided(adaptive(), digests, 600);
    let is_queue = |tick: &usize| matches!(decided[tick - 1].reason, Reason::WiredQueue { .. });
    let queues: Vec<usize> = (1..600).filter(is_queue).collect();
    assert!(queues.first().is_some_and(|tick| (400..410).contains(tick)), "{queues:?}");
    assert!(queues.len() > 150, "{} of 200 ticks", queues.len());
}

/// Two calls, an upload and a download; from the tenth second on, calls are delayed by 60 ms on their way out of the mesh. Where links
/// carry both directions independently, that is the uploads' queue; on radio, it may be that of either.
#[test]
fn a_queue_on_the_way_out_limits_downloads_unless_links_carry_both_directions_independently() {
    let paces = |duplex| {
        let mut digests = Vec::new();
        for n in 0..1_000_u32 {
            let sent = 20 * u64::from(n);
            let queue = if sent < 10_000 { 0 } else { 60 };
            for port in [5000, 5002] {
                digests.push(voice(Nanos::from_millis(sent + queue), Direction::FromMesh, port, n));
                digests.push(voice(Nanos::from_millis(sent), Direction::ToMesh, port, n));
            }
            let data = [(Direction::FromMesh, 6000), (Direction::ToMesh, 6001)];
            digests.extend(data.map(|(way, port)| segment(Nanos::from_millis(sent), way, port, n)));
        }
        let config = AdaptiveConfig { duplex, ..AdaptiveConfig::default() };
        let policies = decided(ControllerConfig::Adaptive(config), digests, 200);
        let (before, after) = (&policies[98], &policies[198]);
        let ratio =
            |of: fn(&Policy) -> Option<BitRate>| of(after).unwrap().0 as f64 / of(before).unwrap().0 as f64;
        (ratio(|policy| policy.down), ratio(|policy| policy.up_acks), after.reason)
    };
    let (down, up, reason) = paces(false);
    assert!(down < 0.5 && up < 0.5, "radio: {down} of the downloads and {up} of the uploads are left");
    assert!(matches!(reason, Reason::CallDegraded { .. }), "radio: {reason}");
    let (down, up, reason) = paces(true);
    assert!(down > 0.9 && up < 0.5, "duplex: {down} of the downloads and {up} of the uploads are left");
    assert!(matches!(reason, Reason::CallDegraded { .. }), "duplex: {reason}");
}
