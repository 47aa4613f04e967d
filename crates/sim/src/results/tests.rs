//! Figures of hand-made recordings against figures worked out by hand, and against a direct computation from the packets.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};
use proptest::prelude::*;

use super::figures::{broadcast, call, flow, outage, totals, transactions, video};
use super::{CallSummary, mos_of_direction};
use crate::packet::{Ecn, Packet, Packets};
use crate::queue::testing;
use crate::recorder::{FrameRecord, Loss, Recorder, StreamRecord, TransactionRecord};

const CODEC: Codec = Codec::G729a;
const PLAYOUT: Nanos = Nanos::from_millis(60);

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Packets of 1000 bytes of payload; times in ms.
struct Recording {
    recorder: Recorder,
    end: Nanos,
}

impl Recording {
    /// Ten seconds with bins of one second.
    fn new(warmup: Nanos) -> Self {
        let end = ms(10_000);
        Self { recorder: Recorder::new(warmup, ms(1000), end, PLAYOUT, &[true; 2], 0, 0), end }
    }

    fn packet(stream: u32, created: Nanos) -> Packet {
        let mut packets = Packets::new(0, 64);
        let id = testing::packet(&mut packets, stream, 1028, Ecn::NotEct).packet;
        Packet { created, ..*packets.get(id) }
    }

    fn sent(&mut self, stream: u32, created: Nanos) -> Packet {
        let packet = Self::packet(stream, created);
        self.recorder.packet_sent(&packet, 1000);
        packet
    }

    fn arrives(&mut self, stream: u32, created: Nanos, delay: Nanos) {
        let packet = self.sent(stream, created);
        self.recorder.packet_arrived(&packet, created + delay);
        self.recorder.delivered(stream, 1000, created + delay);
    }

    fn lost(&mut self, stream: u32, created: Nanos, why: Loss) {
        let packet = self.sent(stream, created);
        self.recorder.packet_lost(&packet, why);
    }

    fn unfinished(&mut self, stream: u32, created: Nanos) {
        let packet = self.sent(stream, created);
        self.recorder.packet_unfinished(&packet, self.end);
    }

    fn records(&self) -> [&StreamRecord; 2] {
        [&self.recorder.streams[0], &self.recorder.streams[1]]
    }

    fn call(&self) -> CallSummary {
        call("call", CODEC, self.records(), &self.recorder)
    }
}

/// The forward direction sends 115 packets: 100 arrive, 10 are lost, 5 are in the network at the end. The backward direction
/// sends 50, which all take 30 ms.
fn uneven_call() -> Recording {
    let mut recording = Recording::new(ms(1000));
    let delays = [(80, 10), (10, 20), (4, 40), (6, 200)];
    let mut created = (0..).map(|number| ms(1000 + 20 * number));
    for (count, delay) in delays {
        for at in created.by_ref().take(count) {
            recording.arrives(0, at, ms(delay));
        }
    }
    for at in created.by_ref().take(6) {
        recording.lost(0, at, Loss::QueueFull);
    }
    for at in created.take(4) {
        recording.lost(0, at, Loss::RetryLimit);
    }
    // Played 70 ms after they were sent, at 10,010, 10,000, 9999 … ms.
    for at in [9940, 9930, 9929, 9900, 9000] {
        recording.unfinished(0, ms(at));
    }
    for number in 0..50 {
        recording.arrives(1, ms(1000 + 20 * number), ms(30));
    }
    recording
}

fn close(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

/// 800 + 200 + 160 + 1200 ms are 23.6 ms in the mean. The 50th of 100 delays is 10 ms, the 90th 20 ms, the 95th 200 ms.
#[test]
fn mean_median_and_95th_percentile_of_delays_are_those_worked_out_by_hand() {
    let call = uneven_call().call();
    let delay = &call.forward.delay;
    assert_eq!((delay.min_ms, delay.max_ms), (10.0, 200.0));
    assert!((delay.mean_ms - 23.6).abs() < 1e-9, "{delay:?}");
    assert!(
        close(delay.p50_ms, 10.0) && close(delay.p95_ms, 200.0) && close(delay.p99_ms, 200.0),
        "{delay:?}"
    );
    assert!((call.delay_ms - f64::midpoint(23.6, 30.0)).abs() < 1e-9, "{}", call.delay_ms);
    let flow = flow("flow", "cbr", uneven_call().records()[0], 9.0);
    assert!((flow.delay_ms - 23.6).abs() < 1e-9 && flow.delay == *delay, "{flow:?}");
}

#[test]
fn the_95th_percentile_is_not_the_90th() {
    let mut recording = Recording::new(ms(0));
    for number in 0..1000 {
        recording.arrives(0, ms(number), ms(10 + number));
    }
    let delay = flow("flow", "cbr", recording.records()[0], 10.0).delay;
    assert!(
        close(delay.p50_ms, 509.0) && close(delay.p95_ms, 959.0) && close(delay.p99_ms, 999.0),
        "{delay:?}"
    );
}

/// Of 115 packets the fate of 113 is known: 2 were in the network and could still have been played. 10 were lost; 6 arrived
/// too late and 3 were in the network after their playout time.
#[test]
fn lost_packets_are_not_late_and_late_packets_are_not_lost() {
    let call = uneven_call().call();
    let forward = &call.forward;
    assert_eq!((forward.sent, call.backward.sent), (115.0, 50.0));
    assert_eq!((forward.loss, forward.late), (10.0 / 113.0, 9.0 / 113.0));
    assert_eq!((call.backward.loss, call.backward.late), (0.0, 0.0));
    assert_eq!((call.loss, call.late), (5.0 / 113.0, 4.5 / 113.0));
    assert_eq!((forward.lost["queue_full"], forward.lost["retry_limit"]), (6.0, 4.0));
    assert_eq!(forward.lost.values().sum::<f64>(), 10.0);
    // Reasons of routing protocols are shown only under one.
    assert_eq!(forward.lost.len(), Loss::ALL.iter().filter(|loss| !loss.is_of_routing()).count());
    let recording = uneven_call();
    let record = recording.records()[0];
    assert_eq!((record.in_flight, record.overdue), (2, 3));
    let flow = flow("flow", "cbr", record, 9.0);
    assert_eq!((flow.loss, flow.sent), (10.0 / 113.0, 115.0));
    assert_eq!(outage(record), 9.0 / 103.0, "of those that were not lost");
}

#[test]
fn an_unfinished_packet_is_late_once_its_playout_time_has_passed() {
    let late = |age: Nanos| {
        let mut recording = Recording::new(ms(0));
        recording.arrives(0, ms(100), ms(10));
        recording.unfinished(0, ms(10_000) - age);
        let record = recording.records()[0];
        assert_eq!(record.sent, record.arrived + record.in_flight + record.overdue);
        assert_eq!(record.late, record.overdue);
        assert_eq!(u64::from(record.bins[9].sent), record.overdue, "a packet in flight leaves its interval");
        record.overdue
    };
    assert_eq!((late(ms(70)), late(ms(70) + Nanos(1))), (0, 1));
    let mut recording = Recording::new(ms(0));
    recording.unfinished(0, ms(0));
    assert_eq!(recording.records()[0].in_flight, 1, "no packet has arrived that could set a playout time");
}

#[test]
fn a_call_scores_the_mean_of_its_directions_and_its_worst_is_the_worse_one() {
    let forward = voice::mos(CODEC, 19.0 / 113.0, ms(10), PLAYOUT);
    let backward = voice::mos(CODEC, 0.0, ms(30), PLAYOUT);
    assert!(forward < 3.0 && backward > 4.0, "{forward} {backward}");
    let recording = uneven_call();
    let [to, back] = recording.records();
    for (records, [first, second]) in [([to, back], [forward, backward]), ([back, to], [backward, forward])] {
        let call = call("call", CODEC, records, &recording.recorder);
        assert_eq!((call.forward.mos, call.backward.mos), (Some(first), Some(second)));
        assert_eq!(call.mos, Some(f64::midpoint(forward, backward)));
        assert_eq!(call.mos_worst, Some(forward));
    }
}

/// A call with these numbers of packets lost of 100, forward and backward.
fn call_that_lost(forward: u64, backward: u64) -> CallSummary {
    let mut recording = Recording::new(ms(0));
    for (stream, lost) in [(0, forward), (1, backward)] {
        for number in 0..100 {
            if number < lost {
                recording.lost(stream, ms(20 * number), Loss::RetryLimit);
            } else {
                recording.arrives(stream, ms(20 * number), ms(10));
            }
        }
    }
    recording.call()
}

fn silent_call() -> CallSummary {
    Recording::new(ms(0)).call()
}

#[test]
fn a_call_is_acceptable_by_its_worse_direction() {
    let [good, one_way] = [call_that_lost(0, 0), call_that_lost(0, 4)];
    let (mos, worst) = (one_way.mos.unwrap(), one_way.mos_worst.unwrap());
    assert!(mos >= super::ACCEPTABLE_MOS && worst < super::ACCEPTABLE_MOS, "{mos} {worst}");
    let totals = totals(&[good.clone(), one_way, call_that_lost(4, 0)], &[]);
    assert_eq!(totals.calls_ok, 1.0);
    assert_eq!(totals.mos_min, Some(worst));
    assert_eq!(totals.mos_mean, Some((good.mos.unwrap() + 2.0 * mos) / 3.0));
}

#[test]
fn a_call_that_sent_nothing_has_no_score_and_counts_in_no_total() {
    let silent = silent_call();
    assert_eq!((silent.mos, silent.mos_worst, silent.clear), (None, None, None));
    assert_eq!((silent.forward.mos, silent.backward.mos), (None, None));
    let json = serde_json::to_value(&silent).expect("JSON");
    assert!(
        ["mos", "mos_worst", "clear"].iter().all(|key| json[key].is_null())
            && json["forward"]["mos"].is_null()
    );
    let heard = [call_that_lost(0, 0), call_that_lost(50, 0)];
    let with_silent = [&heard[..], std::slice::from_ref(&silent)].concat();
    assert_eq!(totals(&with_silent, &[]), totals(&heard, &[]));
    let none = totals(&[silent], &[]);
    assert_eq!((none.mos_mean, none.mos_min, none.calls_ok, none.calls_clear), (None, None, 0.0, 1.0));
}

#[test]
fn a_call_of_which_one_direction_sent_has_the_score_of_that_direction() {
    let mut recording = Recording::new(ms(0));
    recording.arrives(1, ms(0), ms(10));
    let call = recording.call();
    assert_eq!(call.forward.mos, None);
    assert_eq!((call.mos, call.mos_worst), (call.backward.mos, call.backward.mos));
}

#[test]
fn a_direction_of_which_nothing_arrived_has_the_worst_score() {
    let call = call_that_lost(100, 0);
    assert_eq!((call.forward.mos, call.mos_worst), (Some(1.0), Some(1.0)));
}

/// The warm-up ends at 1.5 s, so intervals from 2 s on count: clear both ways; losses forward; late packets backward; forward
/// alone and clear; nothing sent.
#[test]
fn clear_counts_the_intervals_after_the_warm_up_in_which_both_directions_are_acceptable() {
    const LATE: Nanos = ms(200);
    let mut recording = Recording::new(ms(1500));
    let mut second = |stream, second: u64, lost: u64, late: u64| {
        for number in 0..50 {
            let at = ms(1000 * second + 20 * number);
            if number < lost {
                recording.lost(stream, at, Loss::RetryLimit);
            } else {
                recording.arrives(stream, at, if number < lost + late { LATE } else { ms(10) });
            }
        }
    };
    second(0, 0, 0, 0);
    second(1, 0, 0, 0);
    for (number, [forward_lost, backward_late]) in [(1, [50, 50]), (2, [0, 0]), (3, [10, 0]), (4, [0, 10])] {
        second(0, number, forward_lost, 0);
        second(1, number, 0, backward_late);
    }
    second(0, 5, 0, 0);
    assert_eq!(recording.call().clear, Some(2.0 / 4.0));
}

/// 9 s are measured. 900 packets of 1000 bytes are sent and 675 arrive; those of the warm-up count for neither.
#[test]
fn rates_are_those_of_what_was_sent_and_of_what_was_delivered_after_the_warm_up() {
    let mut recording = Recording::new(ms(1000));
    for number in 0..1000 {
        if number % 4 == 0 {
            recording.lost(0, ms(10 * number), Loss::QueueFull);
        } else {
            recording.arrives(0, ms(10 * number), ms(5));
        }
    }
    let flow = flow("flow", "cbr", recording.records()[0], 9.0);
    assert_eq!(flow.sent, 900.0);
    assert!((flow.sent_mbps - 0.8).abs() < 1e-12, "{}", flow.sent_mbps);
    assert!((flow.goodput_mbps - 0.6).abs() < 1e-12, "{}", flow.goodput_mbps);
    assert_eq!(flow.loss, 0.25);
}

#[test]
fn tcp_and_other_flows_are_summed_apart_and_jains_index_is_of_all_of_them() {
    let of_rate = |goodput_mbps, is_tcp: bool| {
        let mut flow = flow("flow", "bulk", Recording::new(ms(0)).records()[0], 1.0);
        flow.goodput_mbps = goodput_mbps;
        flow.tcp = is_tcp.then(|| {
            let zeros = ["efficiency", "retransmitted", "timeouts", "recoveries"].map(|key| (key, 0.0));
            serde_json::from_value(serde_json::json!(BTreeMap::from(zeros))).expect("counters")
        });
        flow
    };
    let totals = totals(&[], &[of_rate(1.0, true), of_rate(2.0, true), of_rate(3.0, false)]);
    assert_eq!((totals.tcp_goodput_mbps, totals.udp_goodput_mbps), (3.0, 3.0));
    // (1 + 2 + 3)² / (3 · (1 + 4 + 9))
    assert!((totals.jain - 36.0 / 42.0).abs() < 1e-12, "{}", totals.jain);
}

/// Ten packets, of which node 3 receives 9, node 5 none, and node 4, which was out of reach at the start, 2.
#[test]
fn each_receiver_of_a_broadcast_has_its_own_delivery_ratio() {
    let mut recording = Recording::new(ms(1000));
    recording.recorder.expect_receivers(0, [3, 5]);
    for number in 0..11 {
        // The first packet belongs to the warm-up.
        let packet = recording.sent(0, ms(500 + 500 * number));
        for (node, until) in [(3, 9), (4, 2)] {
            if number <= until {
                recording.recorder.broadcast_received(&packet, node, packet.created + ms(2));
            }
        }
    }
    let record = recording.records()[0];
    assert_eq!((record.sent, record.arrived), (10, 11));
    let found = broadcast(record);
    let expected = [("3", 0.9), ("4", 0.2), ("5", 0.0)].map(|(node, ratio)| (node.to_owned(), ratio));
    assert_eq!(found.delivery, BTreeMap::from(expected));
    assert!((found.delivery_mean.unwrap() - 1.1 / 3.0).abs() < 1e-12, "{found:?}");
    assert_eq!(found.delivery_min, Some(0.0));
    let nothing_sent = broadcast(Recording::new(ms(0)).records()[0]);
    assert_eq!((nothing_sent.delivery_mean, nothing_sent.delivery_min), (None, None));
}

#[test]
fn transactions_and_video_frames_are_counted_once() {
    let mut record = TransactionRecord::default();
    for (time, count) in [(100, 8), (200, 1), (900, 1)] {
        for _ in 0..count {
            record.began(true);
            record.finished(ms(time), true);
        }
    }
    for _ in 0..3 {
        record.began(true);
    }
    record.failed(true);
    // During the warm-up.
    record.began(false);
    record.finished(ms(5000), false);
    record.failed(false);
    let found = transactions(&record);
    assert_eq!((found.finished, found.open, found.failed), (10.0, 2.0, 1.0));
    let time = found.time.expect("times");
    assert_eq!((time.min_ms, time.mean_ms, time.max_ms), (100.0, 190.0, 900.0));
    assert!(close(time.p50_ms, 100.0) && close(time.p95_ms, 900.0), "{time:?}");

    let mut frames = FrameRecord::default();
    for (lost, age, counts) in
        [(false, 50, true), (false, 51, true), (true, 10, true), (true, 99, true), (true, 1, false)]
    {
        frames.settled(lost, ms(age), ms(50), counts);
    }
    let found = video(&frames);
    assert_eq!((found.frames, found.complete, found.late, found.lost), (4.0, 0.25, 0.25, 0.5));
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives(Nanos),
    Lost(usize),
    Unfinished,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (100_u64..200_000).prop_map(|us| Fate::Arrives(Nanos::from_micros(us))),
        2 => (0..Loss::ALL.len()).prop_map(Fate::Lost),
        1 => Just(Fate::Unfinished),
    ]
}

proptest! {
    /// Packets 5 ms apart, whose fates are recorded in the order in which they were sent; the warm-up takes two seconds of ten.
    #[test]
    fn the_figures_of_a_direction_are_those_of_its_packets(fates in prop::collection::vec(fate(), 0..2000)) {
        let warmup = ms(2000);
        let mut recording = Recording::new(warmup);
        let (mut delays, mut lost, mut late, mut open, mut min) = (Vec::new(), 0, 0, 0, None::<Nanos>);
        for (number, fate) in (0..).zip(&fates) {
            let created = ms(5 * number);
            let counts = created >= warmup;
            match *fate {
                Fate::Arrives(delay) => {
                    recording.arrives(0, created, delay);
                    let fastest = *min.insert(min.map_or(delay, |min| min.min(delay)));
                    if counts {
                        delays.push(delay);
                        late += u64::from(delay > fastest + PLAYOUT);
                    }
                }
                Fate::Lost(why) => {
                    recording.lost(0, created, Loss::ALL[why]);
                    lost += u64::from(counts);
                }
                Fate::Unfinished => {
                    // Its playout time is that of the packets that arrived before.
                    recording.unfinished(0, created);
                    let overdue = min.is_some_and(|min| recording.end - created > min + PLAYOUT);
                    late += u64::from(counts && overdue);
                    open += u64::from(counts && !overdue);
                }
            }
        }
        let record = recording.records()[0];
        let counted = fates.len().saturating_sub(400) as u64;
        prop_assert_eq!(record.sent, counted);
        prop_assert_eq!(record.sent, record.arrived + record.lost_total() + record.in_flight + record.overdue);
        let decided = counted - open;
        let part = |packets: u64| if decided > 0 { packets as f64 / decided as f64 } else { 0.0 };
        let call = recording.call();
        let found = &call.forward;
        prop_assert_eq!((found.loss, found.late), (part(lost), part(late)));
        prop_assert!(found.loss + found.late <= 1.0);
        prop_assert_eq!(found.mos.is_some(), decided > 0);
        prop_assert_eq!(found.mos, mos_of_direction(CODEC, record));
        if let (Some(score), Some(min)) = (found.mos, min) {
            prop_assert!((score - voice::mos(CODEC, part(lost + late), min, PLAYOUT)).abs() < 1e-12);
        }
        prop_assert_eq!((call.mos, call.mos_worst), (found.mos, found.mos));
        delays.sort_unstable();
        if let [first, .., last] = delays[..] {
            let mean = delays.iter().map(|delay| delay.as_millis_f64()).sum::<f64>() / delays.len() as f64;
            prop_assert!((found.delay.mean_ms - mean).abs() < 1e-6);
            prop_assert_eq!(found.delay.max_ms, last.as_millis_f64());
            prop_assert_eq!(Some(record.delay_min), min, "warm-up included");
            prop_assert!(record.delay_min <= first);
            for (q, found) in [(0.5, found.delay.p50_ms), (0.95, found.delay.p95_ms), (0.99, found.delay.p99_ms)] {
                let rank = ((q * delays.len() as f64).ceil() as usize).max(1);
                let exact = delays[rank - 1].as_millis_f64();
                prop_assert!((found - exact).abs() <= 0.01 * exact + 1e-3, "{}: {} of {}", q, found, exact);
            }
        }
    }
}
