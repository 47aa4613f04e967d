//! The DCF as an observer sees it: when frames go on the air, to the nanosecond, for 802.11a, b and g.
//!
//! Times in µs are derived by hand in `support::PHYS`. Propagation takes 100 ns from one node of a `Lab::of_links` to the
//! next.

use crate::support::*;
use fairhop_model::phy::Rate;
use fairhop_model::units::Nanos;
use fairhop_sim::mac::FrameKind;
use fairhop_sim::recorder::Loss;
use fairhop_sim::scenario::{Capture, QueueLimit};

/// Propagation delay from one node to the next.
const HOP: Nanos = Nanos(100);

/// Two stations, the first with more packets for the second than it can send.
fn saturated_pair(phy: PhyCase, seconds: f64) -> Lab {
    Lab::of_links(2, &[(0, 1, DECODED)])
        .phy(phy)
        .queue(QueueLimit::Packets(3))
        .stream(node(0), node(1), IP_BYTES, 1.5e6 * phy.rate_mbps / f64::from(8 * IP_BYTES))
        .seconds(seconds)
}

#[test]
fn a_frame_goes_at_once_its_ack_after_sifs_and_the_next_one_after_difs_and_a_uniform_backoff() {
    for phy in PHYS {
        let what = format!("{phy:?}");
        let run = saturated_pair(phy, 5.0).run(1);
        let (data, acks) = (run.data(0), run.sent_kind(1, FrameKind::Ack));
        assert!(data.len() > 2000);
        let mut backoffs = vec![0; phy.cw_min as usize + 1];
        // The last exchange may be cut off by the end of the run.
        for (i, ack) in acks.iter().enumerate().take(data.len() - 1) {
            let frame = data[i];
            assert_eq!((frame.time(), ack.time()), (us(phy.data), us(phy.ack)), "{what}");
            assert_eq!((frame.rate.mbps(), ack.rate), (phy.rate_mbps, phy.ack_rate), "{what}");
            assert_eq!((frame.to, ack.to, frame.nav, ack.nav), (1, 0, us(phy.sifs + phy.ack), Nanos::ZERO));
            assert_eq!(ack.at, frame.end + HOP + us(phy.sifs), "{what}");
            let free = ack.end + HOP + us(phy.difs);
            let k = slots(data[i + 1].at, free, us(phy.slot)).expect("whole slots after a DIFS");
            assert!(k <= u64::from(phy.cw_min), "{what}: {k} slots");
            backoffs[k as usize] += 1;
            assert!(!frame.retry);
            assert_eq!(frame.sequence, (i % 4096) as u16, "sequence numbers count modulo 4096");
        }
        assert_uniform(&backoffs, &what);
    }
}

#[test]
fn the_first_frame_finds_the_medium_idle_for_a_difs_and_goes_at_once() {
    for phy in PHYS {
        let lab = Lab::of_links(2, &[(0, 1, DECODED)])
            .phy(phy)
            .packet(node(0), node(1), IP_BYTES, us(100))
            .seconds(0.01);
        for run in lab.runs(10) {
            let frame = run.data(0)[0];
            assert_eq!(frame.at, frame.packet.unwrap().created);
        }
    }
}

/// The power that station 2 receives from station 0, and the time it waits after a frame before it counts slots.
#[test]
fn a_station_waits_eifs_after_a_frame_locked_and_lost_difs_after_energy_and_the_nav_after_a_good_one() {
    for phy in PHYS {
        let cases = [
            (DECODED, Some(phy.sifs + phy.ack + phy.difs)),
            (WEAK, Some(phy.eifs)),
            (FELT, Some(phy.difs)),
            (-95.0, None),
        ];
        for (dbm, wait) in cases {
            let what = format!("{dbm} dBm, {phy:?}");
            let lab = Lab::of_links(4, &[(0, 1, DECODED), (2, 3, DECODED), (0, 2, dbm)])
                .phy(phy)
                .packet(node(0), node(1), IP_BYTES, ms(10))
                // Its packet comes while the other frame is on the air.
                .packet(node(2), node(3), IP_BYTES, ms(10) + us(phy.data / 2))
                .seconds(0.02);
            let mut backoffs = vec![0; phy.cw_min as usize + 1];
            for run in lab.runs(20 * phy.cw_min as usize) {
                let (first, second) = (run.data(0)[0], run.data(2)[0]);
                match wait {
                    None => assert_eq!(second.at, second.packet.unwrap().created, "{what}"),
                    Some(wait) => {
                        let free = first.end + HOP * 2 + us(wait);
                        let k = slots(second.at, free, us(phy.slot))
                            .unwrap_or_else(|| panic!("{what}: {:?} after {free:?}", second.at));
                        backoffs[k as usize] += 1;
                    }
                }
            }
            if wait.is_some() {
                assert_uniform(&backoffs, &what);
            }
        }
    }
}

/// Station 2 loses a data frame of station 0, then receives the ACK of station 1: EIFS ends with it.
#[test]
fn a_good_frame_after_a_lost_one_ends_eifs() {
    for phy in [PHYS[0], PHYS[2], PHYS[4]] {
        let what = format!("{phy:?}");
        // Otherwise EIFS would be over before the ACK and its DIFS.
        assert!(phy.sifs + phy.ack + phy.difs < phy.eifs, "{what}");
        let lab = Lab::of_links(4, &[(0, 1, DECODED), (0, 2, WEAK), (1, 2, DECODED), (2, 3, DECODED)])
            .phy(phy)
            .packet(node(0), node(1), IP_BYTES, ms(10))
            .packet(node(2), node(3), 100, ms(10) + us(phy.data / 2))
            .seconds(0.02);
        let mut backoffs = vec![0; phy.cw_min as usize + 1];
        for run in lab.runs(20 * phy.cw_min as usize) {
            let (ack, own) = (run.sent_kind(1, FrameKind::Ack)[0], run.data(2)[0]);
            let k = slots(own.at, ack.end + HOP + us(phy.difs), us(phy.slot))
                .unwrap_or_else(|| panic!("{what}: {:?} after the ACK", own.at - ack.end));
            backoffs[k as usize] += 1;
        }
        assert_uniform(&backoffs, &what);
    }
}

/// Station 2 loses a frame of station 0 on which it was locked, then senses energy of station 4 before EIFS is over.
#[test]
fn energy_after_a_lost_frame_is_followed_by_difs_and_not_by_another_eifs() {
    let phy = PHYS[0];
    let lab =
        Lab::of_links(6, &[(2, 3, DECODED), (0, 2, WEAK), (4, 2, FELT), (0, 1, DECODED), (4, 5, DECODED)])
            .phy(phy)
            .packet(node(0), ALL, 400, ms(10))
            // Broadcasts go at 6 Mb/s: 436 bytes are 3510 bits, 147 symbols, 608 µs; it is 30 µs later than the first one's end.
            .packet(node(4), ALL, 400, ms(10) + us(608 + 30))
            .packet(node(2), node(3), 100, ms(10) + us(608 + 100))
            .seconds(0.02);
    for run in lab.runs(40) {
        let (lost, felt, own) = (run.data(0)[0], run.data(4)[0], run.data(2)[0]);
        assert_eq!(lost.time(), us(608));
        assert!(felt.at > lost.end && felt.at < lost.end + us(phy.eifs));
        let free = felt.end + HOP * 2 + us(phy.difs);
        let k = slots(own.at, free, us(phy.slot)).expect("whole slots after a DIFS");
        assert!(k <= 15, "{k} slots after a DIFS, {:?} after the energy", own.at - felt.end);
    }
}

/// Station 2 observes the reservation of an RTS; during it, station 2 loses a frame of station 6 on which it was locked.
#[test]
fn eifs_runs_in_parallel_to_the_nav_and_not_after_it() {
    let phy = PHYS[0];
    let mut lab = Lab::of_links(7, &[(0, 1, DECODED), (0, 2, DECODED), (2, 3, DECODED), (6, 2, WEAK)])
        .phy(phy)
        .rts()
        .attempts(1, 1)
        // Station 5 keeps station 1 busy, so that the RTS finds no answer.
        .stream(node(5), ALL, 1000, 1000.0)
        .seconds(0.02);
    lab.hears(1, 5, DECODED);
    // 100 bytes of IP make 136 on the air: 1110 bits, 47 symbols of 6 Mb/s, 208 µs. It ends long before the reservation.
    let lab = lab
        .packet(node(0), node(1), IP_BYTES, ms(10))
        .packet(node(6), ALL, 100, ms(10) + us(phy.rts + 30))
        .packet(node(2), node(3), 100, ms(10) + us(phy.rts + 50));
    let mut seen = 0;
    for seed in 1..=40 {
        let run = lab.run(seed);
        let (rts, lost, own) = (run.sent(0).next().unwrap(), run.data(6)[0], run.sent(2).next().unwrap());
        if run.received(1).any(|frame| frame.from == 0) {
            continue; // it slipped into a gap
        }
        let reserved = rts.end + HOP * 2 + rts.nav;
        assert!(lost.at > rts.end && lost.end + us(phy.eifs) < reserved);
        assert!(slots(own.at, reserved + us(phy.difs), us(phy.slot)).is_some_and(|k| k <= 15), "seed {seed}");
        seen += 1;
    }
    assert!(seen > 20);
}

/// The RTS that station 2 overhears gets no response; a frame that it cannot decode begins near the end of NAVTimeout.
#[test]
fn the_reservation_of_an_rts_is_kept_for_a_preamble_that_ended_in_nav_timeout_and_not_for_one_that_only_began()
 {
    let phy = PHYS[0];
    // 2 SIFS + CTS + preamble and header (20 µs) + 2 slots (10.3.2.4).
    let nav_timeout = 2 * phy.sifs + phy.ack + 20 + 2 * phy.slot;
    for (before_its_end, kept) in [(25, true), (15, false)] {
        let mut lab = Lab::of_links(7, &[(0, 1, DECODED), (0, 2, DECODED), (2, 3, DECODED), (6, 2, WEAK)])
            .phy(phy)
            .rts()
            .attempts(1, 1)
            .stream(node(5), ALL, 1000, 1000.0)
            .seconds(0.02);
        lab.hears(1, 5, DECODED);
        let lab = lab
            .packet(node(0), node(1), IP_BYTES, ms(10))
            .packet(node(6), ALL, 100, ms(10) + us(phy.rts + nav_timeout - before_its_end))
            .packet(node(2), node(3), 100, ms(10) + us(phy.rts + 50));
        let mut seen = 0;
        for seed in 1..=40 {
            let run = lab.run(seed);
            if run.received(1).any(|frame| frame.from == 0) {
                continue; // the RTS slipped into a gap and was answered
            }
            let (rts, lost, own) = (run.sent(0).next().unwrap(), run.data(6)[0], run.sent(2).next().unwrap());
            let reserved = rts.end + HOP * 2 + rts.nav;
            assert!(lost.end + us(phy.eifs + 15 * phy.slot) < reserved);
            assert_eq!(own.at >= reserved, kept, "seed {seed}");
            seen += 1;
        }
        assert!(seen > 20);
    }
}

#[test]
fn after_every_success_a_backoff_runs_even_if_no_frame_is_queued() {
    let phy = PHYS[0];
    // The second packet comes 4.5 slots after the DIFS that follows the ACK, within 900 ns of propagation and start times.
    let exchange = phy.data + phy.sifs + phy.ack;
    let lab = |later| {
        Lab::of_links(2, &[(0, 1, DECODED)])
            .phy(phy)
            .packet(node(0), node(1), IP_BYTES, ms(10))
            .packet(node(0), node(1), 100, ms(10) + us(exchange + later))
            .seconds(0.02)
    };
    let mut backoffs = [0; 16];
    let mut at_once = 0;
    let runs = 640;
    for run in lab(phy.difs + 4 * phy.slot + 4).runs(runs) {
        let (first, second) = (run.data(0)[0], run.data(0)[1]);
        let free = first.end + HOP * 2 + us(phy.sifs + phy.ack + phy.difs);
        if second.at == second.packet.unwrap().created {
            at_once += 1;
        } else {
            let k = slots(second.at, free, us(phy.slot)).expect("the slots of the backoff after the ACK");
            backoffs[k as usize] += 1;
        }
    }
    // Backoffs of 0 to 4 slots are over, those of 5 to 15 are not.
    assert_chance(at_once, runs as u64, 5.0 / 16.0, "sent at once");
    assert!(backoffs[..5].iter().all(|&n| n == 0));
    assert_uniform(&backoffs[5..], "backoffs of 5 to 15 slots");

    // A packet that comes within the DIFS waits for the same backoff; no other one is drawn.
    let mut backoffs = [0; 16];
    for run in lab(phy.difs / 2).runs(runs) {
        let (first, second) = (run.data(0)[0], run.data(0)[1]);
        let free = first.end + HOP * 2 + us(phy.sifs + phy.ack + phy.difs);
        backoffs[slots(second.at, free, us(phy.slot)).expect("whole slots") as usize] += 1;
    }
    assert_uniform(&backoffs, "backoffs after a packet that came within the DIFS");
}

/// Station 2, which station 0 does not hear, jams station 1: no response ever comes.
#[test]
fn without_an_ack_the_window_doubles_after_each_of_seven_attempts_and_then_starts_again() {
    for phy in PHYS {
        for cw_max in [1023, 63] {
            let what = format!("{phy:?}");
            let mut lab = saturated_pair(phy, if phy.cw_min == 15 { 4.0 } else { 10.0 });
            lab.scenario.mac.cw_max = Some(cw_max);
            let mut lab = Lab::of_links(3, &[(0, 1, DECODED)]).adopt(lab).stream(node(2), ALL, 2000, 6000.0);
            lab.hears(1, 2, DECODED);
            let run = lab.run(3);
            assert_eq!(run.received(0).count(), 0);
            let data = run.data(0);
            let (mut attempt, mut dropped) = (1, 0);
            let mut longest = [0; 7];
            let mut firsts = vec![0; phy.cw_min as usize + 1];
            for pair in data.windows(2) {
                let (last, next) = (pair[0], pair[1]);
                let k = slots(next.at, last.end + us(phy.timeout + phy.difs), us(phy.slot))
                    .unwrap_or_else(|| panic!("{what}: {:?} after {:?}", next.at, last.end));
                if next.retry {
                    attempt += 1;
                    assert_eq!((next.sequence, next.packet), (last.sequence, last.packet));
                } else {
                    assert_eq!(attempt, 7, "{what}: dropped after {attempt} attempts");
                    assert_eq!(next.sequence, (last.sequence + 1) % 4096);
                    attempt = 1;
                    dropped += 1;
                    firsts[k as usize] += 1;
                }
                longest[attempt - 1] = longest[attempt - 1].max(k);
            }
            assert!(dropped > 100, "{what}: only {dropped} packets");
            for (attempt, &k) in longest.iter().enumerate() {
                // 15 or 31, then twice that and one, up to the largest.
                let window = (u64::from((phy.cw_min + 1) << attempt) - 1).min(cw_max.into());
                assert!(
                    k <= window && 10 * k >= 9 * window,
                    "{what}: attempt {} waits up to {k}",
                    attempt + 1
                );
            }
            assert_eq!(longest[1], 2 * u64::from(phy.cw_min) + 1, "{what}");
            assert_uniform(&firsts, &what);
            let record = &run.world.recorder().streams[0];
            assert_eq!(record.lost[Loss::RetryLimit as usize], dropped);
            assert_eq!(record.arrived, 0);
        }
    }
}

/// Station 5 jams station 1. While station 0 waits for the ACK of station 1, a frame of station 2 begins, which only
/// station 0 hears. During the backoff after that, a frame of station 3 follows.
#[test]
fn a_frame_that_begins_before_the_timeout_is_waited_for_and_fails_the_attempt_once() {
    let phy = PHYS[0];
    let mut lab = Lab::of_links(6, &[(0, 1, DECODED)])
        .phy(phy)
        .attempts(2, 2)
        .stream(node(5), ALL, 2000, 6000.0)
        .seconds(0.03);
    lab.hears(1, 5, DECODED);
    lab.hears(0, 2, DECODED);
    lab.hears(0, 3, DECODED);
    // Broadcasts of 136 bytes: 1110 bits, 47 symbols of 6 Mb/s, 208 µs. The timeout is 45 µs after the end, and the PHY
    // takes 20 µs to notice a frame.
    let lab = lab
        .packet(node(0), node(1), IP_BYTES, ms(10))
        .packet(node(2), ALL, 100, ms(10) + us(phy.data + 20))
        .packet(node(3), ALL, 100, ms(10) + us(phy.data + 20 + 208 + phy.difs + 2));
    let mut late = 0;
    for seed in 1..=40 {
        let run = lab.run(seed);
        let (data, first, second) = (run.data(0), run.data(2)[0], run.data(3)[0]);
        assert!(first.at > data[0].end && first.at + us(20) <= data[0].end + us(phy.timeout));
        assert_eq!(data.len(), 2, "seed {seed}");
        assert!(data[1].retry);
        let free = if data[1].at < second.at { first.end + HOP * 2 } else { second.end + HOP * 3 };
        let k = slots(data[1].at, free + us(phy.difs), us(phy.slot)).expect("a DIFS after what was heard");
        assert!(k <= 31);
        late += u32::from(k > 15);
    }
    assert!((8..32).contains(&late), "the window has doubled: {late} of 40 over 15 slots");
}

/// As in the test of doubling windows, but station 2 leaves gaps.
#[test]
fn the_window_is_small_again_after_a_success() {
    let phy = PHYS[0];
    let mut lab = saturated_pair(phy, 10.0);
    lab = Lab::of_links(3, &[(0, 1, DECODED)]).adopt(lab).stream(node(2), ALL, 100, 250.0);
    lab.hears(1, 2, DECODED);
    let run = lab.run(1);
    let (mut after_success, mut retries) = ([0; 16], 0);
    for pair in run.data(0).windows(2) {
        let (last, next) = (pair[0], pair[1]);
        let acked = run.sent(1).any(|ack| ack.at == last.end + HOP + us(phy.sifs));
        assert_eq!(next.retry, !acked, "it is sent again if and only if no ACK came");
        if acked && last.retry {
            let free = last.end + HOP * 2 + us(phy.sifs + phy.ack + phy.difs);
            after_success[slots(next.at, free, us(phy.slot)).expect("whole slots") as usize] += 1;
        }
        retries += u64::from(next.retry);
    }
    assert_uniform(&after_success, "backoffs after a success on a repetition");
    assert_eq!(retries, run.world.recorder().nodes[0].retries);
}

/// Station 1 receives the data. At station 0, frames of station 2, 6 dB weaker and below all sensing thresholds, destroy
/// its ACKs.
#[test]
fn a_packet_whose_ack_is_lost_is_repeated_seven_times_and_delivered_once() {
    let phy = PHYS[0];
    let mut lab = Lab::of_links(3, &[(0, 1, DECODED)])
        .phy(phy)
        .capture(Capture::First)
        .stream(node(0), node(1), IP_BYTES, 50.0)
        .stream(node(2), ALL, 2296, 400.0)
        .seconds(5.0);
    lab.hears(0, 2, DECODED - 6.0);
    let radio = &mut lab.scenario.radio;
    (radio.preamble_detect_dbm, radio.sensitivity_dbm) = (Some(DECODED - 4.0), Some(DECODED - 2.0));
    radio.energy_detect_dbm = Some(DECODED + 10.0);
    let run = lab.run(1);
    let record = &run.world.recorder().streams[0];
    let copies: Vec<&Seen> = run.received(1).filter(|frame| frame.is_data() && frame.from == 0).collect();
    let acks = run.sent_kind(1, FrameKind::Ack);
    assert_eq!(copies.len(), acks.len(), "every copy is acknowledged");
    assert!(copies.len() as u64 > 5 * record.arrived, "the ACKs are lost");
    for packet in 0..record.sent as u32 - 1 {
        let copies: Vec<_> = copies.iter().filter(|frame| frame.packet.unwrap().number == packet).collect();
        assert!(copies.len() <= 7);
        assert!(copies.iter().enumerate().all(|(i, copy)| copy.retry == (i > 0)));
        assert!(copies.iter().all(|copy| copy.sequence == copies[0].sequence));
    }
    assert_eq!((record.arrived, record.lost_total(), record.in_flight), (record.sent, 0, 0));
    assert_eq!(record.delivered_bytes, record.sent * u64::from(IP_BYTES - 28));
}

/// 0 sends to 1. Station 2 hears 0 alone, station 3 hears 1 alone; each has a packet for a neighbour of its own.
#[test]
fn rts_cts_data_and_ack_follow_each_other_by_sifs_and_stations_that_hear_one_side_stay_silent() {
    for phy in PHYS {
        let what = format!("{phy:?}");
        let links = [(0, 1, DECODED), (0, 2, DECODED), (1, 3, DECODED), (2, 4, DECODED), (3, 5, DECODED)];
        let before_cts = phy.rts + phy.sifs;
        let lab = Lab::of_links(6, &links)
            .phy(phy)
            .rts()
            .packet(node(0), node(1), IP_BYTES, ms(10))
            .packet(node(2), node(4), 100, ms(10) + us(phy.rts / 2))
            .packet(node(3), node(5), 100, ms(10) + us(before_cts + 10))
            .seconds(0.03);
        let mut backoffs = vec![[0; 2]; phy.cw_min as usize + 1];
        for run in lab.runs(20 * phy.cw_min as usize) {
            let mine: Vec<&Seen> = run.sent(0).collect();
            let answers: Vec<&Seen> = run.sent(1).collect();
            let (&[rts, data], &[cts, ack]) = (&mine[..], &answers[..]) else {
                panic!("{what}: {mine:?} {answers:?}")
            };
            let kinds = [rts.kind, cts.kind, data.kind, ack.kind];
            assert_eq!(kinds, [FrameKind::Rts, FrameKind::Cts, FrameKind::Data, FrameKind::Ack]);
            assert!([rts, cts, ack].iter().all(|frame| frame.rate == phy.ack_rate), "{what}");
            let times = [rts.time(), cts.time(), data.time(), ack.time()];
            assert_eq!(times, [phy.rts, phy.ack, phy.data, phy.ack].map(us), "{what}");
            for (before, after) in [(rts, cts), (cts, data), (data, ack)] {
                assert_eq!(after.at, before.end + HOP + us(phy.sifs), "{what}");
            }
            let reserved = 3 * phy.sifs + phy.ack + phy.data + phy.ack;
            let navs = [reserved, reserved - phy.sifs - phy.ack, phy.sifs + phy.ack, 0];
            assert_eq!([rts, cts, data, ack].map(|frame| frame.nav), navs.map(us), "{what}");

            // Station 2 has last heard the data frame (200 ns away) and its reservation, station 3 the ACK.
            let free = [data.end + HOP * 2 + data.nav, ack.end + HOP * 2].map(|end| end + us(phy.difs));
            for (side, station) in [2, 3].into_iter().enumerate() {
                let own = run.sent(station).next().unwrap();
                let k = slots(own.at, free[side], us(phy.slot))
                    .unwrap_or_else(|| panic!("{what}: station {station} at {:?}, {free:?}", own.at));
                backoffs[k as usize][side] += 1;
            }
        }
        for side in 0..2 {
            assert_uniform(&backoffs.iter().map(|k| k[side]).collect::<Vec<_>>(), &what);
        }
    }
}

/// Station 2 reserves the medium with an RTS that station 1 receives and station 0 does not. Station 0 sends its own RTS to
/// station 1 while station 2 receives the CTS of station 3.
#[test]
fn an_rts_is_not_answered_within_a_reservation() {
    let phy = PHYS[0];
    let lab = Lab::of_links(4, &[(0, 1, DECODED), (2, 3, DECODED), (1, 2, DECODED)])
        .phy(phy)
        .rts()
        .attempts(1, 1)
        .packet(node(2), node(3), IP_BYTES, ms(10))
        .packet(node(0), node(1), IP_BYTES, ms(10) + us(phy.rts + 10))
        .seconds(0.02);
    for run in lab.runs(20) {
        let (reserving, asking) = (run.sent(2).next().unwrap(), run.sent(0).next().unwrap());
        assert!(asking.at > reserving.end + us(5) && asking.end < reserving.end + us(2 * phy.sifs + phy.ack));
        assert!(run.reception(asking, 1).is_some() && run.reception(reserving, 1).is_some());
        assert_eq!(run.sent(1).count(), 0);
        assert_eq!(run.data(2).len(), 1, "the other exchange goes on");
    }
}

/// Station 5 jams station 1, so that the RTS of station 0 gets no response. Station 2 has received it.
#[test]
fn the_reservation_of_an_rts_ends_early_when_nothing_follows_it() {
    for phy in PHYS {
        let mut lab = Lab::of_links(6, &[(0, 1, DECODED), (0, 2, DECODED), (2, 4, DECODED)])
            .phy(phy)
            .rts()
            .attempts(1, 1)
            .stream(node(5), ALL, 2000, 2000.0)
            .packet(node(0), node(1), IP_BYTES, ms(10))
            .packet(node(2), node(4), 100, ms(10) + us(phy.rts / 2))
            .seconds(0.03);
        lab.hears(1, 5, DECODED);
        // 10.3.2.4: 2 SIFS, a CTS, the PHY's delay (the timeout without SIFS and slot) and 2 slots after the RTS.
        let wait = 2 * phy.sifs + phy.ack + (phy.timeout - phy.sifs - phy.slot) + 2 * phy.slot;
        let mut backoffs = vec![0; phy.cw_min as usize + 1];
        for seed in 1..=20 * u64::from(phy.cw_min) {
            let run = lab.run(seed);
            let (Some(rts), Some(own)) = (run.sent(0).next(), run.sent(2).next()) else { continue };
            if run.sent(1).next().is_some() {
                continue; // the RTS slipped into a gap
            }
            let k = slots(own.at, rts.end + HOP * 2 + us(wait + phy.difs), us(phy.slot))
                .unwrap_or_else(|| panic!("{phy:?} seed {seed}: {:?} after {:?}", own.at, rts.end));
            backoffs[k as usize] += 1;
        }
        assert_uniform(&backoffs, &format!("{phy:?}"));
    }
}

/// Short frames of station 2 disturb station 1; RTS and CTS fit between them, data does not.
#[test]
fn a_protected_frame_has_four_attempts_and_its_rts_seven() {
    let phy = PHYS[0];
    let mut lab = saturated_pair(phy, 10.0).rts();
    lab = Lab::of_links(3, &[(0, 1, DECODED)]).adopt(lab).stream(node(2), ALL, 29, 2500.0);
    lab.hears(1, 2, DECODED);
    let run = lab.run(1);
    let mut ends = [0u32; 3];
    let mut packets: Vec<Vec<&Seen>> = Vec::new();
    for frame in run.sent(0) {
        match packets.last_mut() {
            Some(frames) if frames[0].packet == frame.packet => frames.push(frame),
            _ => packets.push(vec![frame]),
        }
    }
    packets.pop(); // cut off by the end
    for frames in &packets {
        let data = frames.iter().filter(|frame| frame.is_data()).count();
        let lonely = frames.len() - 2 * data; // an RTS goes before every data frame
        let acked = run.sent(1).any(|ack| ack.at == frames.last().unwrap().end + HOP + us(phy.sifs));
        assert!(data <= 4 && lonely <= 7);
        let end = match (acked, data, lonely) {
            (true, ..) => 0,
            (false, 4, _) => 1,
            (false, _, 7) => 2,
            other => panic!("dropped after {other:?}"),
        };
        ends[end] += 1;
        let mut copies = frames.iter().filter(|frame| frame.is_data());
        assert!(copies.next().is_none_or(|first| !first.retry) && copies.all(|copy| copy.retry));
    }
    assert!(ends[1] > 20 && ends[2] > 5, "{ends:?}");
}

#[test]
fn a_broadcast_is_sent_once_at_the_lowest_basic_rate_without_ack_and_followed_by_a_backoff() {
    // 1236 bytes (9910 bits with service and tail) at 6 Mb/s: 413 symbols; (9888) at 1 Mb/s: 9888 µs with the long preamble.
    let us_and_rate = [
        (20 + 4 * 413, Rate::Ofdm6),
        (20 + 4 * 413, Rate::Ofdm6),
        (192 + 9888, Rate::Dsss1),
        (192 + 9888, Rate::Dsss1),
        (26 + 4 * 413, Rate::Ofdm6),
    ];
    for (phy, (time, rate)) in PHYS.into_iter().zip(us_and_rate) {
        let what = format!("{phy:?}");
        let run = Lab::of_links(3, &[(0, 1, DECODED), (0, 2, DECODED)])
            .phy(phy)
            .rts()
            .queue(QueueLimit::Packets(3))
            .stream(node(0), ALL, IP_BYTES, 1000.0)
            .seconds(5.0)
            .run(1);
        let sent: Vec<&Seen> = run.sent(0).collect();
        let mut backoffs = vec![0; phy.cw_min as usize + 1];
        for pair in sent.windows(2) {
            let (frame, next) = (pair[0], pair[1]);
            assert!(frame.is_broadcast() && frame.is_data() && !frame.retry);
            assert_eq!((frame.time(), frame.rate, frame.nav), (us(time), rate, Nanos::ZERO), "{what}");
            assert_eq!(next.sequence, (frame.sequence + 1) % 4096);
            let k = slots(next.at, frame.end + us(phy.difs), us(phy.slot)).expect("whole slots");
            backoffs[k as usize] += 1;
        }
        assert_uniform(&backoffs, &what);
        assert_eq!(run.sent(1).count() + run.sent(2).count(), 0, "{what}: somebody answered");
        let record = &run.world.recorder().streams[0];
        assert!(record.arrived >= 2 * (sent.len() as u64 - 1), "both neighbours have every one");
    }
}

/// Station 2 counts slots after a frame of station 0 when a frame of station 4 comes, which only station 2 hears. A run
/// with the same seed and without that frame shows which backoff station 2 has drawn.
#[test]
fn a_backoff_freezes_while_the_medium_is_busy_and_continues_after_a_difs() {
    let turnaround = us(2); // aRxTxTurnaroundTime: within it before its slot, a station notices nothing
    for phy in [PHYS[0], PHYS[1]] {
        let base = Lab::of_links(
            6,
            &[(0, 1, DECODED), (0, 2, FELT), (2, 3, DECODED), (4, 2, FELT), (4, 5, DECODED)],
        )
        .phy(phy)
        .packet(node(0), node(1), IP_BYTES, ms(10))
        .packet(node(2), node(3), 100, ms(10) + us(phy.data / 2))
        .seconds(0.02);
        // It comes up to 2 µs before the eighth slot after the DIFS is over: too late to be noticed in it.
        let disturbed =
            base.clone().packet(node(4), node(5), 500, ms(10) + us(phy.data + phy.difs + 8 * phy.slot - 1));
        let (mut frozen, mut untouched) = (0, 0);
        for run in disturbed.runs(100) {
            let free = base.run(run.world.seed()).data(2)[0].at;
            let (first, other, own) = (run.data(0)[0], run.data(4)[0], run.data(2)[0]);
            let counted_from = first.end + HOP * 2 + us(phy.difs);
            let k = slots(free, counted_from, us(phy.slot)).expect("whole slots");
            let busy = other.at + HOP * 2;
            if free <= busy + turnaround {
                untouched += 1;
                assert_eq!(own.at, free);
            } else {
                frozen += 1;
                let passed = (busy + turnaround - counted_from).0 / us(phy.slot).0;
                let rest = us(phy.slot) * (k - passed);
                assert_eq!(
                    own.at,
                    other.end + HOP * 2 + us(phy.difs) + rest,
                    "{passed} of {k} slots had passed"
                );
            }
        }
        assert!(frozen > 30 && untouched > 30, "{frozen} {untouched}");
    }
}
