//! Pacers and the throttle: never faster than their rate, no flow starves, and departure times without a queue.

use fairhop_control::flow::FlowKey;
use fairhop_control::gate::{Gate, GateSpec};
use fairhop_control::pacer::departure::{FlowSpacing, Schedule};
use fairhop_control::pacer::{AckPacer, Pacer, PacerConfig};
use fairhop_control::throttle::{IngressThrottle, spacing};
use fairhop_model::units::{BitRate, Nanos};
use proptest::prelude::*;

fn key(port: u16) -> FlowKey {
    FlowKey { mesh_port: port, ..FlowKey::default() }
}

/// From any packet to any later one, at most what the rate allows and one packet left.
fn never_over(rate: BitRate, left: &[(Nanos, u64)]) -> bool {
    left.iter().enumerate().all(|(first, &(from, _))| {
        let mut before = 0_u64;
        left[first..].iter().all(|&(at, bytes)| {
            let allowed = rate.time_for(before) <= at - from;
            before += bytes;
            allowed
        })
    })
}

proptest! {
    #[test]
    fn over_no_interval_more_than_the_rate_and_one_packet(
        aggregate in 100_000_u64..20_000_000,
        each in 100_000_u64..20_000_000,
        offers in proptest::collection::vec((0_u64..4_000_000, 0_u16..4, 40_u32..1500, 0_u64..3_000_000), 1..120),
    ) {
        let mut pacer = Pacer::new(PacerConfig { packets: 30, flows: 3, mark_after: None });
        pacer.set_aggregate(Some(BitRate(aggregate)));
        pacer.set_each_flow(Some(BitRate(each)));
        let (mut now, mut left, mut inside, mut dropped) = (Nanos::ZERO, Vec::new(), 0, 0);
        for (wait, flow, bytes, late) in offers {
            let until = now + Nanos(wait);
            while let Some(at) = pacer.next_time(now).filter(|&at| at <= until) {
                // Timers fire late, as they do.
                now = (at + Nanos(late)).min(until.max(at));
                let packet = pacer.poll(now);
                prop_assert!(packet.is_some());
                left.extend(packet.map(|released| (now, released.packet)));
            }
            now = until.max(now);
            dropped += usize::from(pacer.offer(now, &key(flow), bytes, false, (flow, u64::from(bytes))).is_some());
            inside += 1;
            prop_assert!(pacer.len() <= 30);
        }
        while let Some(at) = pacer.next_time(now) {
            now = at;
            left.extend(pacer.poll(now).map(|released| (now, released.packet)));
        }
        // No packet disappears without being returned as dropped.
        prop_assert_eq!(left.len() + dropped, inside);
        prop_assert_eq!(pacer.dropped() as usize, dropped);
        let all: Vec<_> = left.iter().map(|&(at, (_, bytes))| (at, bytes)).collect();
        prop_assert!(never_over(BitRate(aggregate), &all));
        for flow in 0..2 {
            let one: Vec<_> =
                left.iter().filter(|(_, (of, _))| *of == flow).map(|&(at, (_, bytes))| (at, bytes)).collect();
            // A flow whose lane was reused may send at once when it returns.
            prop_assert!(never_over(BitRate(each), &one) || left.iter().any(|(_, (of, _))| *of == 3));
        }
    }

    /// The packets of one flow leave a pacer at the times that the arithmetic alone gives them when they arrive: with and
    /// without a rate of the aggregate, of the flow, and a gate, up to the first one that its flow's rate would hold for too long.
    #[test]
    fn departure_times_without_a_queue_are_those_of_a_pacer_with_one(
        aggregate in prop::option::of(100_000_u64..20_000_000),
        each in prop::option::of(100_000_u64..20_000_000),
        gated in any::<bool>(),
        in_pairs in any::<bool>(),
        offers in prop::collection::vec((0_u64..6_000_000, 40_u32..1500), 1..60),
    ) {
        let spec = GateSpec { guard: Nanos::from_millis(1), clear: Nanos::from_millis(3), step: Nanos::from_millis(2), packets: 3 };
        let gate = Gate::plan(Nanos::from_millis(20), &mut [Nanos::from_millis(4)], spec).filter(|_| gated);
        let (aggregate, each) = (aggregate.map(BitRate), each.map(BitRate));
        let mut schedule = Schedule::new();
        schedule.set_aggregate(aggregate);
        schedule.set_gate(gate);
        let mut flow = FlowSpacing::new(each);
        flow.set(each, in_pairs);
        let mut pacer = Pacer::new(PacerConfig::default());
        pacer.set_aggregate(aggregate);
        pacer.set_each_flow(each);
        pacer.set_gate(gate);
        let (mut now, mut computed, mut left) = (Nanos::ZERO, Vec::new(), Vec::new());
        let take = |pacer: &mut Pacer<u32>, mut now: Nanos, until: Nanos, left: &mut Vec<Nanos>| {
            while let Some(at) = pacer.next_time(now).filter(|&at| at < until) {
                now = at;
                left.extend(pacer.poll(now).map(|_| now));
            }
        };
        let mut compared = offers.len();
        for (place, (wait, bytes)) in offers.into_iter().enumerate() {
            let until = now + Nanos(wait);
            take(&mut pacer, now, until, &mut left);
            now = until;
            pacer.offer(now, &key(1), bytes, false, bytes);
            if in_pairs {
                pacer.set_flow(&key(1), each);
            }
            if flow.next() > now + Schedule::MAX_HELD {
                compared = compared.min(place);
            }
            computed.push(schedule.depart(&mut flow, now, u64::from(bytes)));
        }
        take(&mut pacer, now, Nanos::MAX, &mut left);
        prop_assert_eq!(&computed[..compared], &left[..compared]);
    }

    #[test]
    fn acknowledged_bytes_come_no_faster_than_the_rate_and_one_acknowledgment(
        rate in 100_000_u64..20_000_000,
        acks in proptest::collection::vec((0_u64..10_000_000, 0_u16..3, 0_u32..6000), 1..100),
    ) {
        let mut pacer = AckPacer::new(20, 8);
        pacer.set_rate(Some(BitRate(rate)));
        let (mut now, mut left, mut sent) = (Nanos::ZERO, Vec::new(), [0_u32; 3]);
        let mut highest = [None; 3];
        let mut take = |now: Nanos, (flow, ack): (u16, u32)| {
            let place = usize::from(flow);
            // The first ACK of a flow acknowledges an unknown number of bytes, which counts as none.
            let step = highest[place].map_or(0, |before| ack - before);
            highest[place] = Some(ack);
            // What takes more than a second is charged a second.
            left.push((now, u64::from(step).min(rate / 8)));
        };
        for (wait, flow, step) in acks {
            let until = now + Nanos(wait);
            while let Some(at) = pacer.next_time().map(|at| at.max(now)).filter(|&at| at <= until) {
                now = at;
                take(now, pacer.poll(now).expect("its time has come").0);
            }
            now = until;
            sent[usize::from(flow)] += step;
            let ack = sent[usize::from(flow)];
            pacer.offer(now, &key(flow), ack, (flow, ack));
            prop_assert!(pacer.len() <= 20);
        }
        while let Some(at) = pacer.next_time() {
            now = now.max(at);
            take(now, pacer.poll(now).expect("its time has come").0);
        }
        prop_assert!(never_over(BitRate(rate), &left.into_iter().filter(|&(_, bytes)| bytes > 0).collect::<Vec<_>>()));
    }
}

/// 1500 bytes per ACK at 1 Mb/s.
/// A receiver acknowledges every second segment at once, and delays the ACK of a single one (RFC 5681 §4.2).
#[test]
fn packets_of_a_flow_with_a_rate_of_its_own_leave_in_pairs_at_that_rate() {
    let mut pacer = Pacer::new(PacerConfig::default());
    // A packet of 1500 bytes takes 1 ms of the aggregate, and 10 ms of its flow's rate.
    pacer.set_aggregate(Some(BitRate(12_000_000)));
    for number in 0..12_u16 {
        pacer.offer(Nanos::ZERO, &key(number % 2), 1500, false, number % 2);
    }
    for flow in 0..2 {
        pacer.set_flow(&key(flow), Some(BitRate(1_200_000)));
    }
    let (mut now, mut left) = (Nanos::ZERO, [Vec::new(), Vec::new()]);
    while let Some(at) = pacer.next_time(now) {
        now = at;
        let released = pacer.poll(now).expect("its time has come");
        left[usize::from(released.packet)].push(now.as_millis_f64());
    }
    assert_eq!(left[0], [0.0, 1.0, 20.0, 21.0, 40.0, 41.0]);
    assert_eq!(left[1], [2.0, 3.0, 22.0, 23.0, 42.0, 43.0]);
}

#[test]
fn acks_of_equal_steps_leave_at_equal_distances() {
    let mut pacer = AckPacer::new(20, 8);
    pacer.set_rate(Some(BitRate(1_000_000)));
    (0..10_u32).for_each(|ack| assert_eq!(pacer.offer(Nanos::ZERO, &key(1), 1500 * ack, ack), None));
    assert_eq!(
        pacer.poll(Nanos::ZERO),
        Some((0, Nanos::ZERO)),
        "the first acknowledges an unknown number of bytes"
    );
    for ack in 1..10 {
        let due = Nanos::from_millis(12 * u64::from(ack - 1));
        assert_eq!(pacer.next_time().map(|at| at.max(Nanos::ZERO)), Some(due));
        assert_eq!(pacer.poll(due), Some((ack, due)), "and it has waited since the beginning");
    }
}

#[test]
fn flows_take_turns_by_bytes_and_the_longest_queue_drops() {
    let mut pacer =
        Pacer::new(PacerConfig { packets: 40, flows: 4, mark_after: Some(Nanos::from_millis(20)) });
    pacer.set_aggregate(Some(BitRate(12_000_000)));
    // One flow has 60 packets of 1500 bytes, the other 12 of 500: 32 of the first are dropped, none of the second.
    for _ in 0..60 {
        pacer.offer(Nanos::ZERO, &key(1), 1500, false, 1);
    }
    let mut dropped = pacer.dropped();
    assert_eq!(dropped, 20);
    for _ in 0..12 {
        let victim = pacer.offer(Nanos::ZERO, &key(2), 500, false, 2);
        assert_eq!(victim, Some(1));
        dropped += 1;
    }
    assert_eq!((pacer.dropped(), pacer.len()), (dropped, 40));
    // The first 8 ms (12 kB): both send about the same number of bytes, 4 packets and 12.
    let mut bytes = [0, 0];
    let mut now = Nanos::ZERO;
    while let Some(at) = pacer.next_time(now).filter(|&at| at <= Nanos::from_millis(8)) {
        now = at;
        let released = pacer.poll(now).expect("its time has come");
        assert!(!released.mark);
        bytes[released.packet - 1] += if released.packet == 1 { 1500 } else { 500 };
    }
    assert!(bytes[1] >= 4500 && bytes[0] <= 7500, "{bytes:?}");
    assert!(pacer.poll(Nanos::from_millis(21)).is_some_and(|released| released.mark));
    // A higher rate holds at once; without a rate, everything leaves.
    pacer.set_aggregate(None);
    assert!(pacer.poll(Nanos::from_millis(21)).is_some());
}

#[test]
fn own_packets_are_spaced_by_mss_over_rate_and_have_priority_over_forwarded_ones() {
    // osipov2007: 600 bytes at a third of 590 kb/s.
    let delta = spacing(600, BitRate(196_600));
    assert_eq!(delta, Nanos(24_415_056));
    let mut throttle = IngressThrottle::new(1, 10);
    throttle.set_spacing(0, delta);
    for packet in 0..3 {
        assert_eq!(throttle.offer_own(0, packet), None);
        assert_eq!(throttle.offer_forwarded(10 + packet), None);
    }
    let at = |ns| Nanos(ns);
    assert_eq!(throttle.poll(at(0)), Some(0));
    assert_eq!((throttle.poll(at(1)), throttle.poll(at(2))), (Some(10), Some(11)));
    assert_eq!(throttle.poll(delta), Some(1));
    assert_eq!(throttle.poll(delta), Some(12));
    assert_eq!((throttle.poll(delta * 2 - at(1)), throttle.next_time()), (None, Some(delta * 2)));
    assert_eq!(throttle.poll(delta * 2), Some(2));
    assert_eq!(
        (throttle.poll(Nanos::MAX), throttle.next_time(), throttle.offer_own(7, 7)),
        (None, None, Some(7))
    );
}

/// Urgent packets go first up to their rate; beyond it, they get what the others leave.
#[test]
fn urgent_flows_go_ahead_of_others_within_their_rate() {
    let run = |others: bool| {
        let mut pacer = Pacer::new(PacerConfig::default());
        pacer.set_aggregate(Some(BitRate(1_000_000)));
        pacer.set_urgent(Some(BitRate(500_000)));
        for _ in 0..80 {
            pacer.offer(Nanos::ZERO, &key(1), 1250, true, 1);
            if others {
                pacer.offer(Nanos::ZERO, &key(2), 1250, false, 2);
            }
        }
        // A packet takes 10 ms at the rate of the aggregate.
        let mut now = Nanos::ZERO;
        let mut left = Vec::new();
        while let Some(at) = pacer.next_time(now).filter(|&at| at <= Nanos::from_millis(600)) {
            now = at;
            left.extend(pacer.poll(now).map(|released| released.packet));
        }
        left
    };
    let both = run(true);
    let urgent = both.iter().filter(|&&packet| packet == 1).count();
    assert_eq!(both[0], 1);
    // Half of 61 packets, and a burst of 100 ms at half of the rate.
    assert!((30..=37).contains(&urgent), "{urgent} of {}", both.len());
    assert!(run(false).iter().all(|&packet| packet == 1) && run(false).len() == 61);
}

/// At 1 Mb/s a packet takes 10 ms: 16 leave from 0 to 150 ms, and the rest is dropped.
#[test]
fn urgent_packets_that_have_waited_too_long_are_dropped() {
    for is_urgent in [true, false] {
        let mut pacer = Pacer::new(PacerConfig::default());
        pacer.set_aggregate(Some(BitRate(1_000_000)));
        pacer.set_urgent(Some(BitRate(1_000_000)));
        for packet in 0..40 {
            assert!(pacer.offer(Nanos::ZERO, &key(1), 1250, is_urgent, packet).is_none());
        }
        let (mut left, mut late) = (Vec::new(), Vec::new());
        while let Some(now) = pacer.next_time(Nanos::ZERO).filter(|_| !pacer.is_empty()) {
            late.extend(std::iter::from_fn(|| pacer.poll_late(now)));
            left.extend(pacer.poll(now).map(|released| released.packet));
        }
        let kept = if is_urgent { 16 } else { 40 };
        assert_eq!((left, late), ((0..kept).collect::<Vec<_>>(), (kept..40).collect()));
        assert_eq!(pacer.dropped(), 40 - kept);
    }
}
