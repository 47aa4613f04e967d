//! Departure times of the programs against those of [`fairhop_control::pacer`].

use std::collections::VecDeque;

use fairhop_control::digest::Direction;
use fairhop_control::gate::{Gate, GateSpec};
use fairhop_control::pacer::AckPacer;
use fairhop_control::pacer::departure::{FlowSpacing, Schedule};
use fairhop_control::policy::{FlowPolicy, Policy, Treatment};
use fairhop_control::raw::WAITED_UNIT;
use fairhop_gateway::datapath::trial::{self, Constants, Program, Trial};
use fairhop_gateway::datapath::{AckWeight, DatagramClass, Orders, Pacing};
use fairhop_model::units::{BitRate, Nanos};

use crate::differential::trial;
use crate::frames::{Random, datagram, key, segment};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ACK: u8 = 0x10;
const QUEUE: u32 = 200;
const START: Nanos = Nanos::from_secs(100);
/// Interface out of the park.
const UNPARK: u32 = 8;

fn departures() -> Constants {
    Constants { pacing: Pacing::DepartureTimes, ..Constants::default() }
}

fn gate() -> Gate {
    let spec = GateSpec {
        guard: Nanos::from_millis(2),
        clear: Nanos::from_millis(4),
        step: Nanos::from_millis(1),
        packets: 5,
    };
    Gate::plan(Nanos::from_millis(20), &mut [Nanos::from_millis(3), Nanos::from_millis(11)], spec).unwrap()
}

/// Aggregate, rates of flows, a gate, packets of all sizes, and rates that change: to the nanosecond.
#[test]
fn packets_leave_when_the_pacer_of_the_laboratory_says() {
    let Some(mut trial) = trial(departures()) else { return };
    let mut random = Random(7);
    let mut paced = 0;
    let mut schedule = Schedule::new();
    for round in 0..12_u64 {
        // Each round begins after all earlier departures, with flows of its own.
        let mut now = START.saturating_add(Nanos::from_secs(30 * round));
        let mut flows = [FlowSpacing::new(None); 4];
        let first = 10 * round as u8;
        for _ in 0..8 {
            let rate =
                |random: &mut Random| (!random.one_in(4)).then(|| BitRate(200_000 + random.below(8_000_000)));
            let (down, others, own) = (rate(&mut random), rate(&mut random), rate(&mut random));
            let gate = (round % 3 == 2).then(gate);
            let treatment = Treatment { rate: own, ..Treatment::default() };
            let mut policy = Policy {
                down,
                gate,
                flows: vec![FlowPolicy { key: key(first, TCP), treatment }],
                others: Treatment { rate: others, ..Treatment::default() },
                ..Policy::none()
            };
            if !policy.paces_data() {
                policy.down = Some(BitRate(1_000_000));
            }
            trial.order(&policy, Nanos::MAX, QUEUE).unwrap();
            schedule.set_aggregate(policy.down);
            schedule.set_gate(policy.gate);
            for (place, flow) in flows.iter_mut().enumerate() {
                // Packets of flows with a treatment of their own leave in pairs.
                flow.set(if place == 0 { own } else { others }, place == 0);
            }
            let slowest = policy.down.or([own, others].into_iter().flatten().min()).unwrap();
            let full = slowest.time_for(u64::from(QUEUE) * 1500).min(Nanos::from_secs(8));
            for _ in 0..100 {
                now = now.saturating_add(Nanos(random.below(3_000_000)));
                let which = random.below(4) as usize;
                let payload = 1 + random.below(1448) as usize;
                let frame = segment(first + which as u8, Direction::ToMesh, 1, ACK, payload);
                let before = (schedule, flows[which]);
                let expected = schedule.depart(&mut flows[which], now, 40 + payload as u64);
                let outcome = trial.run(Program::ToMesh, now, 0, &frame).unwrap();
                if expected.saturating_sub(now) > full {
                    assert!(!outcome.passes, "a full pacer drops");
                    (schedule, flows[which]) = before;
                    continue;
                }
                assert_eq!(outcome.departure, expected, "round {round}, {policy:?}");
                assert_eq!(outcome.digest.unwrap().at, expected.0, "a digest has the time of the departure");
                paced += u64::from(expected > now);
            }
        }
    }
    assert!(paced > 1000, "{paced}");
}

/// Eight flows with many packets at once, in random order. All leave at the rate in force then, those of a flow in their order,
/// and a new rate takes effect within the 150 ms for which departures are fixed, and a stay in the park.
#[test]
fn packets_that_are_too_early_are_parked_and_leave_in_order_at_the_rate_of_then() {
    const STAY: Nanos = Nanos::from_millis(50);
    const HORIZON: Nanos = Nanos::from_millis(150);
    let Some(mut trial) = trial(Constants { park: (7, UNPARK), ..departures() }) else { return };
    let changed = START.saturating_add(Nanos::from_millis(800));
    let (slow, fast) = (BitRate(400_000), BitRate(4_000_000));
    let spacing = |rate: BitRate| rate.time_for(1040);
    let mut random = Random(3);
    // Time of arrival, flow, number of the packet, and the one it got in the park.
    let mut coming: Vec<(Nanos, u8, usize, Option<u32>)> = (0..160)
        .map(|number| {
            let at = START.saturating_add(Nanos(number as u64 * 1_000_000 + random.below(900_000)));
            (at, random.below(8) as u8, number, None)
        })
        .collect();
    let mut left: Vec<(Nanos, u8, usize)> = Vec::new();
    let mut stays = 0;
    trial.order(&Policy { down: Some(slow), ..Policy::none() }, Nanos::MAX, QUEUE).unwrap();
    let mut is_fast = false;
    while !coming.is_empty() {
        coming.sort();
        let (now, flow, number, parked) = coming.remove(0);
        if now >= changed && !is_fast {
            trial.order(&Policy { down: Some(fast), ..Policy::none() }, Nanos::MAX, QUEUE).unwrap();
            is_fast = true;
        }
        let frame = segment(flow, Direction::ToMesh, 1, ACK, 1000);
        let ingress = if parked.is_some() { UNPARK } else { 0 };
        let outcome = trial.run_again(Program::ToMesh, now, ingress, parked.unwrap_or(0), &frame).unwrap();
        if outcome.parked.is_some() {
            assert_eq!(outcome.digest, None, "a digest is sent once");
            stays += 1;
            // Its timer is late by what it may be.
            let back = now.saturating_add(STAY).saturating_add(Nanos(11_000));
            coming.push((back, flow, number, outcome.parked));
        } else {
            assert!(outcome.passes && outcome.departure.saturating_sub(now) <= HORIZON);
            left.push((outcome.departure.max(now), flow, number));
        }
    }
    assert_eq!(trial.counters().unwrap().to_mesh.tcp.packets, 160, "packets are counted once");
    assert!(stays > 160, "{stays}");
    left.sort();
    for flow in 0..8 {
        let of_flow = left.iter().filter(|(_, which, _)| *which == flow).map(|(_, _, number)| *number);
        assert!(of_flow.is_sorted(), "flow {flow}");
    }
    for pair in left.windows(2) {
        let gap = pair[1].0.saturating_sub(pair[0].0);
        assert!(gap >= spacing(fast) && (gap >= spacing(slow) || pair[1].0 >= changed), "{gap:?}");
    }
    // The pacer does not run dry at the old rate, and all have left soon after the change.
    let before = left.iter().filter(|(at, ..)| *at < changed).count();
    assert!((before as u64) >= changed.saturating_sub(START).0 / spacing(slow).0, "{before}");
    let rest = Nanos(spacing(fast).0 * (160 - before as u64));
    let end = changed.saturating_add(HORIZON).saturating_add(STAY).saturating_add(rest);
    assert!(left.last().unwrap().0 < end.saturating_add(STAY), "{:?}", left.last());
}

/// A packet that is parked when polling: when it came, flow, place among those that came, and the number that it got.
type Polled = (Nanos, u8, usize, u32);

/// Packets that come at times, as the programs see them when polling: of those that are parked, one in each 0.05 ms passes again.
/// `done` gets what has left or was dropped: the time, the packet, and the result.
fn poll(
    trial: &mut Trial,
    coming: &[(Nanos, u8, Vec<u8>)],
    mut order: impl FnMut(&mut Trial, Nanos),
    mut done: impl FnMut(Nanos, Polled, &trial::Outcome<'_>),
) {
    const VISIT: Nanos = Nanos::from_micros(50);
    let mut parked: VecDeque<Polled> = VecDeque::new();
    let (mut next, mut visit) = (0, START);
    while next < coming.len() || !parked.is_empty() {
        let comes = coming.get(next).map_or(Nanos::MAX, |(at, ..)| *at);
        let is_new = parked.is_empty() || comes <= visit;
        let now = if is_new { comes } else { visit };
        order(trial, now);
        let (ingress, packet) = if is_new {
            next += 1;
            (0, (now, coming[next - 1].1, next - 1, 0))
        } else {
            (UNPARK, parked.pop_front().unwrap())
        };
        let outcome = trial.run_again(Program::ToMesh, now, ingress, packet.3, &coming[packet.2].2).unwrap();
        match outcome.parked {
            Some(number) => {
                assert_eq!(outcome.digest, None, "a digest is sent once");
                parked.push_back((packet.0, packet.1, packet.2, number));
            }
            None => done(now, packet, &outcome),
        }
        if !is_new || parked.len() == 1 {
            visit = now.saturating_add(VISIT);
        }
    }
}

fn polling() -> Constants {
    Constants { pacing: Pacing::Polling, park: (7, UNPARK), ..Constants::default() }
}

/// Eight flows with many packets at once, one after the other, without a queue that keeps departure times. They leave in the order of
/// their flows, at the rate in force then in the mean, and late by no more than it takes all that are parked to pass.
#[test]
fn polled_packets_leave_in_order_at_the_rate_of_then() {
    let Some(mut trial) = trial(polling()) else { return };
    let changed = START.saturating_add(Nanos::from_millis(800));
    let (slow, fast) = (BitRate(400_000), BitRate(4_000_000));
    let mut random = Random(3);
    // Of a flow, the times of 64 are known.
    let coming: Vec<(Nanos, u8, Vec<u8>)> = (0..128)
        .map(|number| {
            let at = START.saturating_add(Nanos(number * 1_000_000 + random.below(900_000)));
            let flow = (number * 5 % 8) as u8;
            (at, flow, segment(flow, Direction::ToMesh, 1, ACK, 1000))
        })
        .collect();
    let mut left: Vec<(Nanos, Polled)> = Vec::new();
    let mut rate = None;
    poll(
        &mut trial,
        &coming,
        |trial, now| {
            let wanted = Some(if now < changed { slow } else { fast });
            if std::mem::replace(&mut rate, wanted) != wanted {
                trial.order(&Policy { down: wanted, ..Policy::none() }, Nanos::MAX, QUEUE).unwrap();
            }
        },
        |now, packet, outcome| {
            assert!(outcome.passes && outcome.departure == Nanos::ZERO, "no queue is asked to keep it");
            let digest = outcome.digest.unwrap();
            assert_eq!(digest.at, now.0, "its answer is not seen before it");
            let waited = now.saturating_sub(packet.0).0 / WAITED_UNIT.0;
            assert!(waited.abs_diff(u64::from(digest.waited)) <= 1, "{waited} {}", digest.waited);
            left.push((now, packet));
        },
    );
    assert_eq!(trial.counters().unwrap().to_mesh.tcp.packets, 128, "packets are counted once");
    for flow in 0..8 {
        let of_flow = left.iter().filter(|(_, packet)| packet.1 == flow).map(|(_, packet)| packet.2);
        assert!(of_flow.is_sorted(), "flow {flow}");
    }
    let taken = |rate: BitRate, packets: usize| rate.time_for(1040).0 * packets as u64;
    // Until then, one every 20.8 ms; the rest one every 2.08 ms, begun within a cycle.
    let before = left.iter().filter(|(at, _)| *at < changed).count();
    assert!((taken(slow, before) as f64 / 8e8 - 1.0).abs() < 0.03, "{before}");
    let rest = left.last().unwrap().0.saturating_sub(changed).0 as f64;
    assert!((rest / taken(fast, left.len() - before) as f64 - 1.0).abs() < 0.03, "{rest}");
    for (pair, number) in left.windows(2).zip(1..) {
        // All that are parked pass within this time.
        let late = 50_000 * (coming.len() - number) as u64 + 100_000;
        let gap = pair[1].0.saturating_sub(pair[0].0).0;
        assert!(gap + late >= taken(if pair[1].0 < changed { slow } else { fast }, 1), "{gap}");
    }
}

/// ACKs leave so that they acknowledge at their pace, in the mean and in the order of their flows. Of a flow, 16 wait, and the oldest of
/// more is dropped, since later ones say the same. When the pace ends, all leave.
#[test]
fn polled_acks_acknowledge_at_their_pace() {
    let Some(mut trial) = trial(polling()) else { return };
    // Each ACK takes 20 ms.
    let (pace, step) = (BitRate(1_000_000), 2_500);
    let at = |ms: u64| START.saturating_add(Nanos::from_millis(ms));
    let ack = |ms: u64, flow: u8, number: u32| {
        (at(ms), flow, segment(flow, Direction::ToMesh, step * (number + 1), ACK, 0))
    };
    let two_flows = (0..30).map(|number| ack(u64::from(number), (number % 2) as u8, number / 2));
    let too_many = (0..40).map(|number| ack(2000 + u64::from(number), 2, number));
    let at_the_end = (0..8).map(|number| ack(5000 + u64::from(number), 3, number));
    let coming: Vec<_> = two_flows.chain(too_many).chain(at_the_end).collect();
    let end = at(5010);
    let mut left: Vec<(Nanos, Polled)> = Vec::new();
    let mut is_ordered = None;
    poll(
        &mut trial,
        &coming,
        |trial, now| {
            let up_acks = (now < end).then_some(pace);
            if is_ordered.replace(up_acks) != Some(up_acks) {
                trial.order(&Policy { up_acks, ..Policy::none() }, Nanos::MAX, QUEUE).unwrap();
            }
        },
        |now, packet, outcome| {
            let waited = now.saturating_sub(packet.0).0 / WAITED_UNIT.0;
            if let Some(digest) = &outcome.digest {
                let is_known = packet.1 == 2 || waited.abs_diff(u64::from(digest.waited)) <= 1;
                assert!(is_known, "{waited} {}", digest.waited);
                left.push((now, packet));
            }
        },
    );
    assert!((0..4).all(|flow| {
        left.iter().filter(|(_, packet)| packet.1 == flow).map(|(_, packet)| packet.2).is_sorted()
    }));
    let of = |flows: std::ops::Range<u8>| {
        left.iter()
            .filter(|(_, packet)| flows.contains(&packet.1))
            .map(|(at, packet)| (*at, packet.2))
            .collect::<Vec<_>>()
    };
    // The first ACK of each flow acknowledges an unknown number of bytes, which is none.
    let first = of(0..2);
    assert_eq!(first.len(), 30);
    let took = first.last().unwrap().0.saturating_sub(START).0 as f64;
    assert!((took / (27.0 * 20e6) - 1.0).abs() < 0.03, "{took}");
    let second = of(2..3);
    assert_eq!((second.len() as u64 + trial.counters().unwrap().dropped, second.last().unwrap().1), (40, 69));
    // Those that are left, and those that had left before so many waited.
    assert!((16..=20).contains(&second.len()), "{second:?}");
    let took = second.last().unwrap().0.saturating_sub(at(2000)).0 as f64;
    assert!((took / (38.0 * 20e6) - 1.0).abs() < 0.03, "{took}");
    let last = of(3..4);
    assert_eq!(last.len(), 8);
    assert!(last.last().unwrap().0 <= end.saturating_add(Nanos::from_millis(1)), "{last:?}");
}

/// Interactive packets go ahead at their rate, none leaves after it would be of use, and they and the bulk together keep the pace.
#[test]
fn polled_interactive_packets_go_ahead_and_do_not_leave_late() {
    let Some(mut trial) = trial(polling()) else { return };
    let policy =
        Policy { down: Some(BitRate(800_000)), interactive: Some(BitRate(400_000)), ..Policy::none() };
    let datagrams = [(key(2, UDP), DatagramClass::Interactive), (key(3, UDP), DatagramClass::Elastic)];
    // 1000 bytes take 10 ms of the pace, and 20 ms of the rate of interactive packets.
    let packets = |flow: u8, count: usize| vec![(START, flow, datagram(flow, 972)); count];
    let coming = [packets(3, 60), packets(2, 30)].concat();
    let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
    trial.order_all(&orders, Nanos::MAX, QUEUE).unwrap();
    let mut left: Vec<(u64, u8)> = Vec::new();
    poll(
        &mut trial,
        &coming,
        |_, _| {},
        |now, packet, outcome| {
            if outcome.passes {
                left.push((now.saturating_sub(START).0 / 1_000_000, packet.1));
            }
        },
    );
    let pictures: Vec<u64> = left.iter().filter(|(_, flow)| *flow == 2).map(|(at, _)| *at).collect();
    // One every 20 ms at least, behind 60 packets of bulk that came before, and none after 150 ms.
    assert!(pictures.len() >= 8 && pictures.last().is_some_and(|at| *at <= 151), "{pictures:?}");
    assert!((1..).zip(&pictures[1..]).all(|(place, at)| *at <= 25 * place), "{pictures:?}");
    assert_eq!(left.len() as u64 + trial.counters().unwrap().dropped, 90);
    let last = left.last().unwrap().0 as f64;
    assert!((last / (10.0 * (left.len() - 1) as f64) - 1.0).abs() < 0.03, "{last} ms for {}", left.len());
}

/// Video at five times its rate, for five seconds and in pictures of up to 100 packets: what leaves has not waited for longer than it is of
/// use, however many packets wait.
#[test]
fn polled_interactive_packets_do_not_leave_late_however_many_come() {
    let Some(mut trial) = trial(polling()) else { return };
    let rate = Some(BitRate(400_000));
    let policy = Policy { down: rate, interactive: rate, ..Policy::none() };
    let datagrams = [(key(2, UDP), DatagramClass::Interactive)];
    let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
    trial.order_all(&orders, Nanos::MAX, QUEUE).unwrap();
    let at = |ms: u64| START.saturating_add(Nanos::from_millis(ms));
    // Times are known by a unit of `waited`, at both ends, and 64 others pass before a packet is looked at again.
    let latest = Nanos::from_micros(150_000 + 64 * 50).saturating_add(WAITED_UNIT * 2);
    // One leaves every 20 ms; of a picture every 400 ms, those that do within 150 ms.
    for (begin, packets, every_ms, least) in
        [(0, 1, 4, 240), (10_000, 40, 160, 240), (20_000, 100, 400, 12 * 8)]
    {
        let coming: Vec<_> = (0..1250 / packets)
            .flat_map(|picture| vec![(at(begin + picture * every_ms), 2, datagram(2, 972)); packets as usize])
            .collect();
        let mut left = 0;
        poll(
            &mut trial,
            &coming,
            |_, _| {},
            |now, packet, outcome| {
                let waited = now.saturating_sub(packet.0);
                assert!(!outcome.passes || waited <= latest, "{waited:?} of {packets} at a time");
                left += u64::from(outcome.passes);
            },
        );
        assert!(left >= least, "{left} of {packets} at a time");
    }
}

/// The gate opens for a packet, and for those within a millisecond.
#[test]
fn polled_packets_pass_the_gate_where_it_is_open() {
    let Some(mut trial) = trial(polling()) else { return };
    let gate = gate();
    let (period, openings) = (gate.period().0, gate.openings().to_vec());
    let policy = Policy { down: Some(BitRate(2_000_000)), gate: Some(gate), ..Policy::none() };
    let coming: Vec<_> =
        (0..40_u8).map(|n| (START, n % 4, segment(n % 4, Direction::ToMesh, 1, ACK, 1000))).collect();
    trial.order(&policy, Nanos::MAX, QUEUE).unwrap();
    let mut left = Vec::new();
    poll(&mut trial, &coming, |_, _| {}, |now, _, _| left.push(now.0));
    assert_eq!(left.len(), 40);
    for at in &left {
        // Two visits early, or while it is open.
        let since =
            openings.iter().map(|opening| (at + 100_000 + period - opening.0) % period).min().unwrap();
        assert!(since <= 1_100_000, "{since}");
    }
    let cycles = (left[39] - left[0]) / period + 1;
    assert!(
        40 <= cycles * openings.len() as u64 && cycles <= 40,
        "{cycles} cycles, {} openings",
        openings.len()
    );
}

/// 40 packets of a flow at once, where 20 can be parked. Five of those leave, and the others are lost.
#[test]
fn a_full_park_drops_the_newest_packets_and_counts_them() {
    const STAY: Nanos = Nanos::from_millis(50);
    let Some(mut trial) = trial(Constants { park: (7, UNPARK), park_packets: 20, ..departures() }) else {
        return;
    };
    // A packet takes 20.8 ms: eight departures are fixed within the 150 ms.
    trial.order(&Policy { down: Some(BitRate(400_000)), ..Policy::none() }, Nanos::MAX, QUEUE).unwrap();
    let frame = |flow| segment(flow, Direction::ToMesh, 1, ACK, 1000);
    let back = |now: Nanos| now.saturating_add(STAY).saturating_add(Nanos(9_000_000));
    let mut parked: Vec<(Nanos, u32)> = Vec::new();
    let mut passed = 0;
    for _ in 0..40 {
        let outcome = trial.run_again(Program::ToMesh, START, 0, 0, &frame(1)).unwrap();
        passed += u32::from(outcome.passes);
        parked.extend(outcome.parked.map(|number| (back(START), number)));
    }
    assert_eq!((passed, parked.len()), (8, 20));
    assert_eq!(trial.counters().unwrap().dropped, 12);
    // They come back in any order.
    parked.reverse();
    let mut left: Vec<(Nanos, u32)> = Vec::new();
    let mut now = START;
    while left.len() < 5 {
        let first = (0..parked.len()).min_by_key(|&place| parked[place].0).unwrap();
        let number;
        (now, number) = parked.remove(first);
        let outcome = trial.run_again(Program::ToMesh, now, UNPARK, number, &frame(1)).unwrap();
        match outcome.parked {
            Some(same) => parked.push((back(now), same)),
            None => left.push((outcome.departure, number)),
        }
    }
    assert!(left.iter().map(|(_, number)| *number).eq(0..5) && left.is_sorted(), "{left:?}");
    let parked_of = |trial: &mut Trial, at: Nanos, flow: u8| {
        (0..60)
            .filter(|_| trial.run_again(Program::ToMesh, at, 0, 0, &frame(flow)).unwrap().parked.is_some())
            .count()
    };
    assert_eq!(parked_of(&mut trial, now, 2), 5);
    // None of them is seen again. After two epochs there is as much room as before.
    assert_eq!(parked_of(&mut trial, now.saturating_add(Nanos::from_millis(121)), 3), 20);
}

/// ACKs into the mesh and out of it, charged what they acknowledge, duplicates free of charge: to the nanosecond. Connections end
/// and begin on the same ports, acknowledgments jump, and rates end and begin.
#[test]
fn acks_leave_when_the_ack_pacer_of_the_laboratory_says() {
    let Some(mut trial) = trial(departures()) else { return };
    for (round, direction) in [Direction::ToMesh, Direction::FromMesh].into_iter().enumerate() {
        let rate = Some(BitRate(3_000_000));
        let policy = Policy { up_acks: rate, down_acks: rate, ..Policy::none() };
        trial.order(&policy, Nanos::MAX, QUEUE).unwrap();
        let program = if direction == Direction::ToMesh { Program::ToMesh } else { Program::ToWired };
        let mut pacer = AckPacer::new(1000, 16);
        pacer.set_rate(rate);
        let mut random = Random(9 + round as u64);
        let mut acked = [u32::MAX - 50_000; 3];
        let mut now = START;
        let (mut given, mut left, mut dropped) = (Vec::new(), Vec::new(), 0);
        for number in 0..6000_usize {
            let next = now.saturating_add(Nanos(random.below(12_000_000)));
            while let Some(at) = pacer.next_time().map(|at| at.max(now)).filter(|at| *at <= next) {
                let Some((packet, _)) = pacer.poll(at) else { break };
                left.push((packet, at));
            }
            now = next;
            let which = random.below(3) as usize;
            let flow = 200 + which as u8;
            let event = random.below(200);
            // These hold for ACKs that come later, and the laboratory's pacer looks at ACKs when they leave.
            while event < 2
                && let Some(at) = pacer.next_time().map(|at| at.max(now))
                && let Some((packet, _)) = pacer.poll(at)
            {
                left.push((packet, at));
                now = at;
            }
            match event {
                // Another connection, whose first packet into the mesh has a SYN.
                0 => {
                    acked[which] = random.next() as u32;
                    let syn = segment(flow, Direction::ToMesh, 0, 0x12, 0);
                    trial.run(Program::ToMesh, now, 0, &syn).unwrap();
                    pacer.restart(&key(flow, TCP));
                }
                // No pace for a while.
                1 => {
                    trial.order(&Policy::none(), Nanos::MAX, QUEUE).unwrap();
                    pacer.set_rate(None);
                    let frame = segment(flow, direction, acked[which].wrapping_add(900_000), ACK, 0);
                    assert_eq!(trial.run(program, now, 0, &frame).unwrap().departure, Nanos::ZERO);
                    acked = acked.map(|acked| acked.wrapping_add(1_000_000));
                    trial.order(&policy, Nanos::MAX, QUEUE).unwrap();
                    pacer.set_rate(rate);
                }
                // Any number, as of a connection whose SYN was not seen, and a jump within the largest window.
                2 => acked[which] = random.next() as u32,
                3 => acked[which] = acked[which].wrapping_add(random.below(1 << 30) as u32),
                4..60 => {}
                _ => acked[which] = acked[which].wrapping_add(random.below(4500) as u32),
            }
            let frame = segment(flow, direction, acked[which], ACK, 0);
            let outcome = trial.run(program, now, 0, &frame).unwrap();
            if !outcome.passes {
                dropped += 1;
                continue;
            }
            if direction == Direction::ToMesh {
                let waits = outcome.departure.saturating_sub(now).div_floor(WAITED_UNIT);
                assert_eq!(u64::from(outcome.digest.unwrap().waited), waits);
            }
            given.push((number, outcome.departure));
            assert!(pacer.offer(now, &key(flow, TCP), acked[which], number).is_none());
            while let Some((packet, _)) = pacer.poll(now) {
                left.push((packet, now));
            }
        }
        assert!(left.len() > 1900);
        let differs = given.iter().zip(&left).find(|(given, left)| given != left);
        assert_eq!(differs, None, "number and departure, from the program and from the laboratory");
        assert!(left.iter().zip(given).filter(|((_, at), _)| *at > START).count() > 1000);
        assert!(dropped < 2000, "{dropped}");
    }
}

/// All flows share the rate of ACKs: whatever one ACK claims, those of other flows pass again a second later.
#[test]
fn what_an_ack_claims_holds_the_acks_of_other_flows_for_a_second_at_most() {
    let Some(mut trial) = trial(departures()) else { return };
    let rate = Some(BitRate(1_000_000));
    let paced = Policy { up_acks: rate, ..Policy::none() };
    let mut wait = |now: Nanos, flow: u8, ack: u32, policy: Option<&Policy>, expires: Nanos| {
        if let Some(policy) = policy {
            trial.order(policy, expires, QUEUE).unwrap();
        }
        let outcome =
            trial.run(Program::ToMesh, now, 0, &segment(flow, Direction::ToMesh, ack, ACK, 0)).unwrap();
        outcome.passes.then(|| outcome.departure.saturating_sub(now).0 / 1_000_000)
    };
    let at = |ms: u64| START.saturating_add(Nanos::from_millis(ms));
    assert_eq!(wait(at(0), 1, 0, Some(&paced), Nanos::MAX), Some(0));
    assert_eq!(wait(at(0), 2, 0, None, Nanos::MAX), Some(0));
    // 125 kB take a second: 8,000 times as much is charged no more.
    assert_eq!(wait(at(0), 1, 1_000_000_000, None, Nanos::MAX), Some(0));
    assert_eq!(wait(at(0), 2, 1, None, Nanos::MAX), Some(1000));
    assert_eq!(wait(at(999), 3, 0, None, Nanos::MAX), Some(1));
    // Without a pace, 100 MB were acknowledged; with another one, that is not charged.
    assert_eq!(wait(at(2000), 1, 1_050_000_000, Some(&Policy::none()), Nanos::MAX), Some(0));
    assert_eq!(wait(at(3000), 1, 1_100_000_000, Some(&paced), at(4000)), Some(0));
    assert_eq!(wait(at(3000), 2, 2, None, Nanos::MAX), Some(0));
    // Nor is what passes after orders have expired.
    assert_eq!(wait(at(5000), 1, 1_200_000_000, None, Nanos::MAX), Some(0));
    assert_eq!(wait(at(6000), 1, 1_300_000_000, Some(&paced), Nanos::MAX), Some(0));
    assert_eq!(wait(at(6000), 2, 1_000_000, None, Nanos::MAX), Some(0));
    // A rate that falls meanwhile does not make the wait longer.
    assert_eq!(wait(at(6000), 1, 1_300_100_000, None, Nanos::MAX), Some(0));
    let slow = Policy { up_acks: Some(BitRate(10_000)), ..Policy::none() };
    assert_eq!(wait(at(6000), 2, 1_000_001, Some(&slow), Nanos::MAX), Some(1000));
}

#[test]
fn a_policy_that_is_not_renewed_limits_nothing() {
    let Some(mut trial) = trial(departures()) else { return };
    let others = Treatment { window: Some(3000), ..Treatment::default() };
    let policy = Policy { down: Some(BitRate(100_000)), others, ..Policy::none() };
    let expires = START.saturating_add(Nanos::from_secs(3));
    trial.order(&policy, expires, QUEUE).unwrap();
    let frame = segment(1, Direction::ToMesh, 1, ACK, 1000);
    let syn = segment(2, Direction::FromMesh, 0, 2, 0);
    trial.run(Program::ToMesh, START, 0, &frame).unwrap();
    let second = trial.run(Program::ToMesh, START, 0, &frame).unwrap();
    assert_eq!(second.departure, START.saturating_add(BitRate(100_000).time_for(1040)));
    assert_ne!(trial.run(Program::FromMesh, START, 0, &syn).unwrap().packet, syn);
    let outcome = trial.run(Program::ToMesh, expires, 0, &frame).unwrap();
    assert_eq!((outcome.departure, outcome.packet), (Nanos::ZERO, &frame[..]));
    assert_eq!(outcome.digest.unwrap().at, expires.0);
    assert_eq!(trial.run(Program::FromMesh, expires, 0, &syn).unwrap().packet, syn);
    assert_eq!(trial.counters().unwrap().unlimited, 2);
}

#[test]
fn interactive_packets_go_ahead_up_to_their_rate_and_calls_are_never_paced() {
    let Some(mut trial) = trial(departures()) else { return };
    let policy =
        Policy { down: Some(BitRate(800_000)), interactive: Some(BitRate(400_000)), ..Policy::none() };
    let datagrams = [(key(2, UDP), DatagramClass::Interactive), (key(3, UDP), DatagramClass::Elastic)];
    let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
    trial.order_all(&orders, Nanos::MAX, QUEUE).unwrap();
    let mut run = |frame: &[u8]| {
        let outcome = trial.run(Program::ToMesh, START, 0, frame).unwrap();
        outcome.passes.then(|| outcome.departure.saturating_sub(START).0 / 1_000_000)
    };
    let (bulk, picture) = (datagram(3, 972), datagram(2, 972));
    // 1000 bytes take 10 ms.
    assert_eq!((run(&bulk), run(&bulk)), (Some(0), Some(10)));
    assert_eq!(run(&picture), Some(0), "ahead");
    assert_eq!(run(&bulk), Some(30), "on the account of the others");
    assert_eq!(run(&picture), Some(20), "no faster than its rate");
    assert_eq!(run(&datagram(9, 160)), Some(0), "unknown UDP, such as a call, is free");
    for place in (50..=190).step_by(10) {
        assert_eq!(run(&bulk), Some(place));
    }
    for ahead in (40..=140).step_by(20) {
        assert_eq!(run(&picture), Some(ahead));
    }
    assert_eq!(run(&picture), None, "it would be late");
    assert_eq!(run(&bulk), Some(260));
    assert_eq!(trial.counters().unwrap().dropped, 1);
}

/// A tunnel that carries a call beside data: what may be sound passes, however many large packets wait.
#[test]
fn small_packets_of_a_tunnel_pass_its_data() {
    for constants in [departures(), Constants { park: (7, UNPARK), ..departures() }, polling()] {
        let Some(mut trial) = trial(constants) else { return };
        let policy = Policy { down: Some(BitRate(800_000)), ..Policy::none() };
        let datagrams =
            [(key(2, UDP), DatagramClass::ElasticBesideSound), (key(3, UDP), DatagramClass::Elastic)];
        let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
        trial.order_all(&orders, Nanos::MAX, QUEUE).unwrap();
        let mut passes = |flow, bytes: usize| {
            let outcome = trial.run_again(Program::ToMesh, START, 0, 0, &datagram(flow, bytes - 28)).unwrap();
            outcome.passes && outcome.parked.is_none() && outcome.departure <= START
        };
        assert!(passes(2, 1000), "the first one leaves at once");
        for _ in 0..20 {
            assert!(!passes(2, 1000) && !passes(2, 600) && !passes(2, 149), "data waits");
            assert!(passes(2, 599) && passes(2, 150), "sound does not");
            assert!(!passes(3, 188), "another flow has none");
        }
    }
}

/// Bulk has got all departures that are fixed in advance, and more of it is parked.
#[test]
fn late_interactive_packets_are_dropped_where_bulk_is_parked() {
    let Some(mut trial) = trial(Constants { park: (7, UNPARK), ..departures() }) else { return };
    let policy =
        Policy { down: Some(BitRate(800_000)), interactive: Some(BitRate(40_000)), ..Policy::none() };
    let datagrams = [(key(2, UDP), DatagramClass::Interactive), (key(3, UDP), DatagramClass::Elastic)];
    let orders = Orders { policy: &policy, datagrams: &datagrams, acks: AckWeight::default() };
    trial.order_all(&orders, Nanos::MAX, QUEUE).unwrap();
    let (bulk, picture) = (datagram(3, 972), datagram(2, 972));
    for _ in 0..15 {
        assert!(trial.run_again(Program::ToMesh, START, 0, 0, &bulk).unwrap().parked.is_none());
    }
    let first = trial.run_again(Program::ToMesh, START, 0, 0, &picture).unwrap();
    assert_eq!((first.passes, first.departure), (true, START), "ahead of all that");
    assert!(trial.run_again(Program::ToMesh, START, 0, 0, &bulk).unwrap().parked.is_some());
    // At its rate, a packet takes 200 ms.
    let second = trial.run_again(Program::ToMesh, START, 0, 0, &picture).unwrap();
    assert!(!second.passes && second.parked.is_none(), "it is never parked");
    // Where the others have left, it gets what they leave.
    let later = START.saturating_add(Nanos::from_millis(170));
    let third = trial.run_again(Program::ToMesh, later, 0, 0, &picture).unwrap();
    assert!(third.passes && third.departure <= later.saturating_add(Nanos::from_millis(10)), "{third:?}");
}
