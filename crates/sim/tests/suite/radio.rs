//! The rules of reception on hand-made layouts: which frame survives an overlap, which one locks the receiver, what keeps
//! the medium busy, and the throughput of hidden and exposed terminals.

use crate::support::*;
use fairhop_model::phy::{Phy, Preamble, Rate, Standard, chunk_success, noise_floor};
use fairhop_model::units::{Db, Nanos};
use fairhop_sim::mac::{FrameKind, Stations};
use fairhop_sim::radio::{FrameLoss, Links, Receiver};
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{Capture, Propagation, QueueLimit, Reception};

/// 436 bytes on the air, broadcast at 6 Mb/s: 3510 bits with service and tail, 147 symbols of 24, 20 + 588 µs.
const FRAME_BYTES: u32 = 400;
const FRAME: Nanos = us(608);
const DIFS: Nanos = us(34);
const EIFS: Nanos = us(94);
const SLOT: Nanos = us(9);

/// Senders that do not hear each other, and the power in dBm that node 0 receives of each. Every sender broadcasts one
/// frame, 100 µs after the previous sender, so that all overlap.
fn overlapping(powers: &[f64]) -> Lab {
    let links: Vec<_> = powers.iter().enumerate().map(|(i, &dbm)| (0, i + 1, dbm)).collect();
    let mut lab = Lab::of_links(powers.len() + 1, &links).seconds(0.02);
    for sender in 1..=powers.len() as u64 {
        lab = lab.packet(node(sender as u32), ALL, FRAME_BYTES, ms(10) + us(100 * sender));
    }
    lab
}

/// The senders whose frames node 0 received, and why it did not receive the others.
fn fates(run: &Run) -> (Vec<u32>, Vec<(FrameLoss, u64)>) {
    let mut received: Vec<u32> = run.received(0).map(|frame| frame.from).collect();
    received.sort_unstable();
    let lost = run.world.recorder().nodes[0].frames_lost;
    let why = |why: FrameLoss| (lost[why as usize] > 0).then_some((why, lost[why as usize]));
    (received, FrameLoss::ALL.into_iter().filter_map(why).collect())
}

#[test]
fn the_capture_rule_decides_which_frame_survives_an_overlap() {
    use Capture::{First, None, Stronger};
    use FrameLoss::{Busy, Captured, Collision, Weak};
    // 12 dB from one to the next, then energy that does not lock, and a signal below every threshold.
    let (strong, weak, felt, nothing) = (-52.0, -64.0, FELT, -95.0);
    let undecodable = WEAK;
    type Case<'a> = (Capture, &'a [f64], &'a [u32], &'a [(FrameLoss, u64)]);
    let cases: [Case<'_>; 19] = [
        // Any overlap with a signal that can be sensed destroys both.
        (None, &[weak, strong], &[], &[(Collision, 2)]),
        (None, &[strong, weak], &[], &[(Collision, 2)]),
        (None, &[undecodable, strong], &[], &[(Collision, 2)]),
        (None, &[felt, strong], &[], &[(Collision, 1), (Weak, 1)]),
        (None, &[strong, felt], &[], &[(Collision, 1), (Weak, 1)]),
        (None, &[strong, nothing], &[1], &[(Weak, 1)]),
        // The first frame keeps the receiver; it survives frames that are 10 dB weaker.
        (First, &[weak, strong], &[], &[(Collision, 1), (Busy, 1)]),
        (First, &[strong, weak], &[1], &[(Busy, 1)]),
        (First, &[weak, weak], &[], &[(Collision, 1), (Busy, 1)]),
        (First, &[undecodable, strong], &[], &[(Collision, 1), (Busy, 1)]),
        (First, &[undecodable, nothing], &[], &[(Weak, 2)]),
        (First, &[felt, strong], &[2], &[(Weak, 1)]),
        (First, &[strong, felt], &[1], &[(Weak, 1)]),
        // A frame that is 10 dB stronger takes the receiver.
        (Stronger, &[weak, strong], &[2], &[(Captured, 1)]),
        (Stronger, &[strong, weak], &[1], &[(Busy, 1)]),
        (Stronger, &[weak, weak], &[], &[(Collision, 1), (Busy, 1)]),
        (Stronger, &[undecodable, strong], &[2], &[(Captured, 1)]),
        (Stronger, &[weak, undecodable, strong], &[3], &[(Busy, 1), (Captured, 1)]),
        (Stronger, &[felt, strong], &[2], &[(Weak, 1)]),
    ];
    for reception in [Reception::Threshold, Reception::Sinr] {
        for (capture, powers, received, lost) in cases {
            let run = overlapping(powers).capture(capture).reception(reception).runs(1).next().unwrap();
            let what = format!("{reception:?} {capture:?} {powers:?}");
            let (heard, mut why) = fates(&run);
            if reception == Reception::Sinr && powers.contains(&undecodable) {
                // 20 dB above the noise: under SINR reception it can be decoded when it is alone.
                assert_eq!(
                    heard.iter().filter(|&&sender| powers[sender as usize - 1] != undecodable).count(),
                    received.len(),
                    "{what}"
                );
                continue;
            }
            why.sort_by_key(|(why, _)| *why as usize);
            assert_eq!((heard.as_slice(), why.as_slice()), (received, lost), "{what}");
        }
    }
}

#[test]
fn frames_overlap_in_the_order_in_which_they_arrive_and_not_in_which_they_are_sent() {
    use Capture::{First, None, Stronger};
    // Node 10 is 1000 ns away and sends up to 320 ns after the start, node 1 is 100 ns away and sends 400 to 720 ns after
    // it: that one arrives first.
    let cases: [(Capture, f64, f64, &[u32]); 9] = [
        (None, -64.0, -52.0, &[]),
        (None, -52.0, -64.0, &[]),
        (None, -64.0, -64.0, &[]),
        (First, -64.0, -52.0, &[]),
        (First, -52.0, -64.0, &[1]),
        (First, -64.0, -64.0, &[]),
        (Stronger, -64.0, -52.0, &[10]),
        (Stronger, -52.0, -64.0, &[1]),
        (Stronger, -64.0, -64.0, &[]),
    ];
    for (capture, near, far, received) in cases {
        let lab = Lab::of_links(11, &[(0, 1, near), (0, 10, far)])
            .capture(capture)
            .packet(node(10), ALL, FRAME_BYTES, ms(10))
            .packet(node(1), ALL, FRAME_BYTES, ms(10) + Nanos(400))
            .seconds(0.02);
        for run in lab.runs(3) {
            assert!(run.data(10)[0].at < run.data(1)[0].at);
            assert_eq!(fates(&run).0, received, "{capture:?}: near {near} dBm, far {far} dBm");
        }
    }
}

#[test]
fn interference_adds_up() {
    // Each interferer is 12 dB weaker than the frame; two are 10 log10 2 = 3.01 dB more: 8.99 dB weaker.
    for (interferers, capture_db, survives) in
        [(1, 10.0, true), (2, 10.0, false), (2, 8.9, true), (2, 9.1, false)]
    {
        let mut powers = vec![-52.0];
        powers.resize(interferers + 1, -64.0);
        let mut lab = overlapping(&powers).capture(Capture::First);
        lab.scenario.radio.capture_db = capture_db;
        let (received, _) = fates(&lab.runs(1).next().unwrap());
        let expected: &[u32] = if survives { &[1] } else { &[] };
        assert_eq!(received, expected, "{interferers} at {capture_db} dB");
    }
}

#[test]
fn a_station_hears_nothing_while_it_sends_and_afterwards_only_energy() {
    // Station 0 starts to send at 10 ms; the frame of station 1, which does not hear it, comes 100 µs later.
    let mut lab = Lab::of_links(2, &[])
        .packet(node(0), ALL, FRAME_BYTES, ms(10))
        .packet(node(0), ALL, FRAME_BYTES, ms(10) + us(300))
        .packet(node(1), ALL, FRAME_BYTES, ms(10) + us(100))
        .seconds(0.02);
    lab.hears(0, 1, -52.0);
    for run in lab.runs(20) {
        assert_eq!(fates(&run), (vec![], vec![(FrameLoss::Transmitting, 1)]));
        let (other, next) = (run.data(1)[0], run.data(0)[1]);
        assert!(
            slots(next.at, other.end + Nanos(100) + DIFS, SLOT).is_some_and(|k| k <= 15),
            "DIFS and not EIFS"
        );
    }
}

#[test]
fn signals_travel_at_the_speed_of_light() {
    // 299,792,458 m/s: 1 m in 3.34 ns, 29.9792458 m in 100 ns, 250 m in 833.9 ns.
    for (metres, ns) in [(1.0, 3), (29.979_245_8, 100), (250.0, 834)] {
        let run = Lab::at([(0.0, 0.0), (metres, 0.0)])
            .packet(node(0), node(1), IP_BYTES, ms(1))
            .runs(1)
            .next()
            .unwrap();
        let (sent, ack) = (run.data(0)[0], run.sent_kind(1, FrameKind::Ack)[0]);
        let received = run.received(1).next().unwrap();
        assert_eq!((received.at - sent.at, received.end - sent.end), (Nanos(ns), Nanos(ns)));
        assert_eq!(run.received(0).next().unwrap().at - ack.at, Nanos(ns));
    }
}

/// How long a station waits after a frame that was on the air when it got a packet.
#[derive(Debug, PartialEq)]
enum Waits {
    Not,
    Difs,
    Eifs,
}

/// How long station 0 waits for the first of the other stations' frames to end.
fn waits(run: &Run) -> Waits {
    let own = run.data(0)[0];
    if own.at == own.packet.expect("a packet").created {
        return Waits::Not;
    }
    let end = run.data(1)[0].end + run.delay(1, 0);
    if slots(own.at, end + DIFS, SLOT).is_some_and(|k| k <= 15) {
        Waits::Difs
    } else {
        assert!(slots(own.at, end + EIFS, SLOT).is_some_and(|k| k <= 15), "{:?} after {end:?}", own.at);
        Waits::Eifs
    }
}

#[test]
fn preambles_and_energy_have_separate_thresholds_and_only_a_frame_locked_and_lost_causes_eifs() {
    // 16 dBm − 40 dB − 30 log10 d: −24 dBm at 1 m, −63.0 at 20 m, −68.7 at 31 m, −69.0 at 31.6 m, −80.0 at 73.6 m,
    // −83.9 at 99 m, −84.1 at 101 m.
    let preamble_deeper = (-80.0, -84.0, -69.0);
    let energy_deeper = (-65.0, -69.0, -84.0);
    let cases = [
        (preamble_deeper, 73.0, Waits::Difs),
        (preamble_deeper, 74.0, Waits::Eifs),
        (preamble_deeper, 99.0, Waits::Eifs),
        (preamble_deeper, 101.0, Waits::Not),
        (energy_deeper, 20.0, Waits::Difs),
        (energy_deeper, 31.0, Waits::Eifs),
        (energy_deeper, 32.0, Waits::Difs),
        (energy_deeper, 99.0, Waits::Difs),
        (energy_deeper, 101.0, Waits::Not),
    ];
    for ((sensitivity, preamble, energy), metres, expected) in cases {
        let mut lab = Lab::at([(0.0, 0.0), (metres, 0.0)])
            .packet(node(1), ALL, FRAME_BYTES, ms(10))
            .packet(node(0), ALL, FRAME_BYTES, ms(10) + us(300))
            .seconds(0.02);
        let radio = &mut lab.scenario.radio;
        radio.propagation = Propagation::LogDistance {
            exponent: 3.0,
            reference_loss_db: 40.0,
            reference_m: 1.0,
            shadowing_db: 0.0,
        };
        radio.sensitivity_dbm = Some(sensitivity);
        radio.preamble_detect_dbm = Some(preamble);
        radio.energy_detect_dbm = Some(energy);
        for run in lab.runs(5) {
            assert_eq!(waits(&run), expected, "{metres} m, preamble {preamble} dBm, energy {energy} dBm");
        }
    }
}

#[test]
fn in_the_range_model_a_frame_is_decoded_locked_and_sensed_up_to_the_radius_of_each() {
    let sensed_locks =
        Propagation::Range { receive_m: 250.0, carrier_sense_m: 550.0, preamble_m: None, reach_m: vec![] };
    let sensed_only = Propagation::Range {
        receive_m: 250.0,
        carrier_sense_m: 550.0,
        preamble_m: Some(400.0),
        reach_m: vec![],
    };
    let cases = [
        (&sensed_locks, 249.0, Waits::Difs),
        (&sensed_locks, 251.0, Waits::Eifs),
        (&sensed_locks, 549.0, Waits::Eifs),
        (&sensed_locks, 551.0, Waits::Not),
        (&sensed_only, 399.0, Waits::Eifs),
        (&sensed_only, 401.0, Waits::Difs),
        (&sensed_only, 549.0, Waits::Difs),
        (&sensed_only, 551.0, Waits::Not),
    ];
    for (propagation, metres, expected) in cases {
        let mut lab = Lab::at([(0.0, 0.0), (metres, 0.0)])
            .packet(node(1), ALL, FRAME_BYTES, ms(10))
            .packet(node(0), ALL, FRAME_BYTES, ms(10) + us(300))
            .seconds(0.02);
        lab.scenario.radio.propagation = propagation.clone();
        for run in lab.runs(3) {
            assert_eq!(waits(&run), expected, "{metres} m, {propagation:?}");
        }
    }
}

#[test]
fn stations_links_and_receivers_can_be_sent_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Stations>();
    is_send::<Links>();
    is_send::<Receiver>();
}

#[test]
fn energy_adds_up_to_a_busy_medium() {
    // −92 dBm is below the threshold of −90; two of them are −89.
    for (powers, expected) in [([-92.0, -99.0], Waits::Not), ([-92.0, -92.0], Waits::Difs)] {
        let lab = overlapping(&powers).packet(node(0), ALL, FRAME_BYTES, ms(10) + us(400));
        for run in lab.runs(5) {
            assert_eq!(waits(&run), expected, "{powers:?}");
        }
    }
}

#[test]
fn in_one_cell_frames_overlap_only_if_backoffs_end_in_the_same_slot_and_then_both_are_lost() {
    for (capture, seed) in [(Capture::None, 1), (Capture::First, 2)] {
        let mut lab =
            Lab::at((0..6).map(|i| (f64::from(i % 3), f64::from(i / 3)))).capture(capture).seconds(3.0);
        lab.scenario.radio.capture_db = 100.0;
        for sender in 1..6 {
            lab = lab.stream(node(sender), node(0), IP_BYTES, 500.0);
        }
        let run = lab.run(seed);
        let mut sent: Vec<&Seen> = run.frames.iter().filter(|frame| !frame.received).collect();
        sent.sort_by_key(|frame| frame.at);
        let mut together = vec![false; sent.len()];
        for i in 1..sent.len() {
            for j in (i.saturating_sub(6)..i).filter(|&j| sent[j].overlaps(sent[i])) {
                // The turnaround of 2 µs and 10 ns of light.
                assert!(sent[i].at - sent[j].at <= us(2) + Nanos(10), "{:?} {:?}", sent[j], sent[i]);
                assert!(sent[i].is_data() && sent[j].is_data());
                (together[i], together[j]) = (true, true);
            }
        }
        let received: std::collections::BTreeSet<_> = run
            .received(0)
            .map(|frame| (frame.from, frame.sequence, frame.at - run.delay(frame.from, 0)))
            .collect();
        // Frames on the air at the end of the run are left out.
        for (frame, together) in
            sent.iter().zip(&together).filter(|(frame, _)| frame.is_data() && frame.end < ms(2990))
        {
            let arrived = received.contains(&(frame.from, frame.sequence, frame.at));
            assert_eq!(arrived, !together, "{frame:?}");
        }
        let collided = together.iter().filter(|&&together| together).count();
        assert!(collided > 200, "{collided}");
    }
}

/// The share of the data frames of stations 0 and 2 that station 1 lost.
fn lost_at_the_middle(run: &Run) -> f64 {
    let sent = run.data(0).len() + run.data(2).len();
    let received = run.received(1).filter(|frame| frame.is_data()).count();
    1.0 - received as f64 / sent as f64
}

#[test]
fn hidden_terminals_collide_and_with_rts_few_data_frames_are_lost() {
    // 300 and 310 packets a second, so that their phases drift.
    let mut hidden = Lab::at([(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)])
        .rate(12.0, &[6.0])
        .stream(node(0), node(1), 1000, 300.0)
        .stream(node(2), node(1), 1000, 310.0)
        .seconds(5.0);
    hidden.scenario.radio.propagation =
        Propagation::Range { receive_m: 250.0, carrier_sense_m: 250.0, preamble_m: None, reach_m: vec![] };
    let (basic, rts) = (hidden.run(1), hidden.clone().rts().run(1));
    let in_range = |run: &Run| run.world.links().between(0, 2).is_some();
    assert!(!in_range(&basic));
    assert!(lost_at_the_middle(&basic) > 0.3, "{}", lost_at_the_middle(&basic));
    assert!(lost_at_the_middle(&rts) < 0.01, "{}", lost_at_the_middle(&rts));
    let dropped = |run: &Run| run.world.recorder().streams.iter().map(|s| s.lost[1]).sum::<u64>();
    assert!(dropped(&rts) * 10 < dropped(&basic), "{} {}", dropped(&rts), dropped(&basic));
}

#[test]
fn exposed_terminals_take_turns_and_terminals_out_of_range_send_at_the_same_time() {
    let goodput = |between_m: f64, right: bool| {
        let places = [(-200.0, 0.0), (0.0, 0.0), (between_m, 0.0), (between_m + 200.0, 0.0)];
        let mut lab = Lab::at(places)
            .queue(QueueLimit::Packets(3))
            .stream(node(1), node(0), IP_BYTES, 2000.0)
            .seconds(3.0);
        lab.scenario.radio.propagation = Propagation::Range {
            receive_m: 250.0,
            carrier_sense_m: 250.0,
            preamble_m: None,
            reach_m: vec![],
        };
        if right {
            lab = lab.stream(node(2), node(3), IP_BYTES, 2000.0);
        }
        let run = lab.run(1);
        let overlaps = run.data(1).iter().filter(|a| run.data(2).iter().any(|b| a.overlaps(b))).count();
        let delivered =
            |stream: usize| run.world.recorder().streams.get(stream).map_or(0, |s| s.delivered_bytes);
        (delivered(0) as f64, delivered(2) as f64, overlaps as f64 / run.data(1).len() as f64)
    };
    let (alone, ..) = goodput(200.0, false);
    let (left, right, together) = goodput(200.0, true);
    // The two share the medium, and overlap only if both backoffs end in the same slot.
    assert!((left + right) / alone < 1.2 && together < 0.2, "{left} {right} {alone} {together}");
    let (left, right, together) = goodput(260.0, true);
    assert!(
        left / alone > 0.99 && right / alone > 0.99 && together > 0.5,
        "{left} {right} {alone} {together}"
    );
}

#[test]
fn a_lone_link_loses_as_many_frames_as_its_modulation_says() {
    let a = Phy::new(Standard::Dot11a, Preamble::Long);
    let b = Phy::new(Standard::Dot11b, Preamble::Long);
    for (phy, rate, header) in
        [(a, Rate::Ofdm18, Rate::Ofdm6), (a, Rate::Ofdm54, Rate::Ofdm6), (b, Rate::Cck11, Rate::Dsss1)]
    {
        for chance in [0.2, 0.5, 0.9] {
            let frame_us = phy.frame_duration(rate, IP_BYTES + 36).as_micros_f64();
            let header_us = phy.header_duration(rate).as_micros_f64();
            // Mb/s and µs: the header at the header's rate, the rest of the frame at its own.
            let predicted = |snr: f64| {
                chunk_success(header, snr, header.mbps() * header_us)
                    * chunk_success(rate, snr, rate.mbps() * (frame_us - header_us))
            };
            let (mut low, mut high) = (4.0, 40.0);
            for _ in 0..50 {
                let middle = (low + high) / 2.0;
                *(if predicted(Db(middle).as_ratio()) < chance { &mut low } else { &mut high }) = middle;
            }
            let noise = noise_floor(phy.standard, Db(7.0)).0;
            let mut lab = Lab::of_links(2, &[(0, 1, noise + high)]).reception(Reception::Sinr);
            lab.scenario.radio.standard = phy.standard;
            lab.scenario.radio.preamble_detect_dbm = Some(noise);
            lab.scenario.radio.sensitivity_dbm = None;
            // Broadcasts go at the lowest basic rate; 1 ms is enough for each.
            let lab =
                lab.rate(rate.mbps(), &[rate.mbps()]).stream(node(0), ALL, IP_BYTES, 400.0).seconds(10.0);
            let run = lab.run(1);
            let sent = run.data(0).iter().filter(|frame| frame.end < ms(9_999)).count() as u64;
            let received = run.received(1).filter(|frame| frame.end < ms(9_999)).count() as u64;
            assert!(sent > 3900);
            assert_chance(received, sent, chance, &format!("{rate:?} at {high:.2} dB"));
            let lost = run.world.recorder().nodes[1].frames_lost;
            assert!(lost[FrameLoss::Noise as usize] >= sent - received, "{lost:?}");
        }
    }
}

#[test]
fn the_airtime_of_an_overlap_by_hand() {
    // Two frames of 608 µs, the second 100 µs (and up to 0.4 µs) later: locked on the first and lost, then energy.
    let lab = overlapping(&[-64.0, -52.0]);
    let run = lab.runs(1).next().unwrap();
    let airtime = run.world.airtime(0);
    let shift = run.data(2)[0].at + Nanos(200) - run.data(1)[0].at - Nanos(100);
    assert_eq!((airtime.collided, airtime.busy), (FRAME, FRAME + shift));
    assert_eq!((airtime.own, airtime.received, airtime.overheard), (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
    assert_eq!(run.world.airtime(1).own, FRAME);
}

#[test]
fn a_nodes_time_is_the_sum_of_its_kinds_and_each_kind_the_sum_of_its_frames() {
    for (name, capture) in [
        ("k-mix", Capture::None),
        ("k-mix", Capture::Stronger),
        ("rts-cts", Capture::First),
        ("random-mesh", Capture::Stronger),
        ("one-cell", Capture::None),
    ] {
        let lab = Lab::ready(name, 3.0, 0.0).capture(capture);
        let run = lab.run(1);
        let end = run.world.end();
        for node in Summary::of(&run.world, false).nodes {
            let airtime = node.airtime;
            let all = [
                airtime.own,
                airtime.received,
                airtime.overheard,
                airtime.collided,
                airtime.energy,
                airtime.idle,
            ];
            assert!(all.iter().all(|share| (0.0..=1.0).contains(share)), "{name} {all:?}");
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name} {all:?}");
            let sum = |keep: &dyn Fn(&Seen) -> bool| {
                let time = |frame: &Seen| frame.end.min(end).0 - frame.at.0;
                run.frames.iter().filter(|f| f.node == node.node && keep(f)).map(time).sum::<u64>()
            };
            let for_it = |frame: &Seen| frame.to == node.node || frame.is_broadcast();
            let measured = run.world.airtime(node.node as usize);
            assert_eq!(measured.own.0, sum(&|frame| !frame.received), "{name} own");
            assert_eq!(measured.received.0, sum(&|frame| frame.received && for_it(frame)), "{name} received");
            assert_eq!(
                measured.overheard.0,
                sum(&|frame| frame.received && !for_it(frame)),
                "{name} overheard"
            );
        }
    }
}
