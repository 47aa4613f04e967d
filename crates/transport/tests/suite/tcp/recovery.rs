//! Loss recovery and the congestion window, segment by segment.

use fairhop_transport::tcp::SenderConfig;
use fairhop_transport::tcp::congestion::Phase;

use super::script::{MSS, SenderScript};

/// Segments `0` to `9` are sent.
fn ten_out(config: SenderConfig) -> SenderScript {
    let mut s = SenderScript::established(config);
    assert_eq!(s.sent(), (0..10).collect::<Vec<_>>());
    s.after(100);
    s
}

fn without_sack() -> SenderConfig {
    SenderConfig { sack: false, ..SenderScript::config() }
}

const NOTHING: [u64; 0] = [];

#[test]
fn rfc6928_2_the_first_flight_is_ten_segments() {
    ten_out(SenderScript::config());
}

#[test]
fn rfc5681_3_1_slow_start_sends_two_segments_for_each_that_arrived() {
    let mut s = ten_out(SenderScript::config());
    assert_eq!(s.ack(2).sent(), [10, 11, 12, 13]);
    assert_eq!(s.ack(10).sent(), (14..30).collect::<Vec<_>>());
    assert_eq!(s.sender.cwnd_segments(), 20);
}

#[test]
fn rfc3042_the_first_two_duplicates_each_send_a_new_segment() {
    for config in [SenderScript::config(), without_sack()] {
        let mut s = ten_out(config);
        assert_eq!(s.sack(0, &[(1, 2)]).sent(), [10]);
        assert_eq!(s.sack(0, &[(1, 3)]).sent(), [11]);
        assert_eq!(s.sender.phase(), Phase::Open);
        assert_eq!(s.sender.cwnd_segments(), 10);
    }
}

#[test]
fn rfc6675_5_recovery_retransmits_holes_first_and_keeps_the_pipe_at_half_the_window() {
    let mut s = ten_out(SenderScript::config());
    // Segments 0, 1 and 4 are lost.
    assert_eq!(s.sack(0, &[(2, 3)]).sent(), [10]);
    assert_eq!(s.sack(0, &[(2, 4)]).sent(), [11]);
    // The third SACKed segment: 0 and 1 are lost, 4 is not yet. ssthresh = 10 / 2. Pipe is 12 − 3 − 2 = 7, over the
    // window, but the first retransmission is sent.
    assert_eq!(s.sack(0, &[(5, 6), (2, 4)]).sent(), [0]);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Recovery, 5));
    assert_eq!(s.sender.in_flight(), 8);
    // Each further SACK removes one from the pipe: 7, 6 (4 is lost with the second: 5), 4.
    assert_eq!(s.sack(0, &[(5, 7), (2, 4)]).sent(), NOTHING);
    assert_eq!(s.sender.in_flight(), 7);
    // Now 5, 6 and 7 past 4 are SACKed: pipe 7 − 1 − 1 = 5.
    assert_eq!(s.sack(0, &[(5, 8), (2, 4)]).sent(), NOTHING);
    assert_eq!(s.sack(0, &[(5, 9), (2, 4)]).sent(), [1]);
    assert_eq!(s.sack(0, &[(5, 10), (2, 4)]).sent(), [4]);
    // The segments of limited transmit arrive; all losses are retransmitted, so new data are sent.
    assert_eq!(s.sack(0, &[(5, 11), (2, 4)]).sent(), [12]);
    assert_eq!(s.sack(0, &[(5, 12), (2, 4)]).sent(), [13]);
    // The retransmissions arrive.
    assert_eq!(s.after(100).sack(1, &[(5, 12), (2, 4)]).sent(), [14]);
    assert_eq!(s.sack(4, &[(5, 12)]).sent(), [15]);
    assert_eq!(s.sender.phase(), Phase::Recovery);
    // The last one: all data before the recovery point have arrived. 12 to 15 are in flight.
    assert_eq!(s.ack(12).sent(), [16]);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Open, 5));
    assert_eq!(s.sender.stats().segments_retransmitted, 3);
    assert_eq!(s.sender.stats().fast_recoveries, 1);
}

#[test]
fn rfc6675_4_without_new_data_unjudged_holes_and_then_the_tail_are_retransmitted_once() {
    let mut s = SenderScript::opened(SenderScript::config());
    s.sender.offer(8 * u64::from(MSS));
    s.after(100).answer_syn(10);
    s.acks();
    assert_eq!(s.sent(), (0..8).collect::<Vec<_>>());
    s.after(100);
    // 1, 3 and 5 arrive; 0, 2, 4, 6 and 7 do not. 0 is lost; only two are SACKed past 2.
    assert_eq!(s.sack(0, &[(1, 2)]).sent(), NOTHING);
    assert_eq!(s.sack(0, &[(3, 4), (1, 2)]).sent(), NOTHING);
    // cwnd 4; pipe 8 − 3 − 1 + 1 = 5 after the retransmission.
    assert_eq!(s.sack(0, &[(5, 6), (3, 4), (1, 2)]).sent(), [0]);
    assert_eq!(s.sender.in_flight(), 5);
    // 0 arrives: pipe 4, no room for rule 3 yet; then the acknowledgment of 2 makes room.
    assert_eq!(s.after(100).sack(2, &[(3, 4), (5, 6)]).sent(), NOTHING);
    assert_eq!(s.sender.in_flight(), 4);
    // The original of 2 was only late: pipe 3, rule 3 retransmits 4.
    assert_eq!(s.sack(4, &[(5, 6)]).sent(), [4]);
    // 4 arrives too. 6 and 7 are not reported, pipe 2: the rescue retransmits the tail, once.
    assert_eq!(s.after(50).ack(6).sent(), [7]);
    assert_eq!(s.poll(), []);
}

#[test]
fn rfc6582_3_2_partial_acknowledgments_retransmit_one_hole_each_and_a_full_one_ends_it() {
    let mut s = ten_out(without_sack());
    // 0 and 3 are lost; eight of ten arrive and cause duplicates.
    assert_eq!(s.ack(0).sent(), [10]);
    assert_eq!(s.ack(0).sent(), [11]);
    assert_eq!(s.ack(0).sent(), [0]);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Recovery, 5));
    // In flight 12 − 3 − 1 + 1 = 9 against 5: RFC 6582's window of 5 + 3 against 12 outstanding. Four more duplicates
    // reduce it to 5, the fifth sends a new segment.
    for _ in 0..4 {
        assert_eq!(s.ack(0).sent(), NOTHING);
    }
    assert_eq!(s.ack(0).sent(), [12]);
    // The two of limited transmit arrive.
    assert_eq!(s.ack(0).sent(), [13]);
    assert_eq!(s.ack(0).sent(), [14]);
    // Partial: 0 to 2 arrived. The next hole is retransmitted; deflated by three, inflated by one, one new segment is
    // sent when there is room: 15 − 3 outstanding, 10 − 2 counted by duplicates, 3 lost and retransmitted: 4 in flight.
    assert_eq!(s.after(100).ack(3).sent(), [3, 15]);
    assert_eq!(s.sender.in_flight(), 5);
    // Full: all data before 12 arrived.
    s.after(100).ack(12);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Open, 5));
    assert_eq!(s.sent(), [16]);
}

#[test]
fn rfc6582_3_2_duplicates_from_before_a_timeout_start_no_fast_retransmit() {
    let mut s = ten_out(without_sack());
    s.after(900);
    assert_eq!(s.sent(), [0]);
    // The originals were only late: their duplicates do not count.
    for _ in 0..5 {
        assert_eq!(s.ack(0).sent(), NOTHING);
    }
    assert_eq!(s.ack(10).sender.phase(), Phase::Open);
    // Ten arrived: four grow the window from 1 to the threshold, six by one more.
    assert_eq!(s.sent(), [10, 11, 12, 13, 14, 15]);
    // Nothing after the recovery point is acknowledged yet.
    for _ in 0..4 {
        s.ack(10);
    }
    assert_eq!(s.sender.stats().fast_recoveries, 0);
}

#[test]
fn rfc5681_3_1_a_timeout_restarts_with_one_segment_and_half_the_window_as_threshold() {
    let mut s = ten_out(without_sack());
    s.after(900);
    assert_eq!(s.sent(), [0]);
    assert_eq!((s.sender.cwnd_segments(), s.sender.ssthresh()), (1, Some(5 * u64::from(MSS))));
    // Go-back-N in slow start; then congestion avoidance from 5 on.
    assert_eq!(s.after(50).ack(1).sent(), [1, 2]);
    assert_eq!(s.after(50).ack(3).sent(), [3, 4, 5, 6]);
    assert_eq!(s.after(50).ack(7).sent(), [7, 8, 9, 10, 11]);
    assert_eq!(s.sender.cwnd_segments(), 5);
    assert_eq!(s.sender.phase(), Phase::Loss);
    assert_eq!(s.after(50).ack(12).sender.phase(), Phase::Open);
    assert_eq!(s.sender.cwnd_segments(), 6);
}

#[test]
fn rfc6675_5_1_a_timeout_keeps_sacked_segments() {
    let mut s = ten_out(SenderScript::config());
    assert_eq!(s.sack(0, &[(2, 3), (8, 9)]).sent(), [10, 11]);
    s.after(900);
    assert_eq!(s.sent(), [0]);
    assert_eq!(s.after(50).sack(1, &[(2, 3), (8, 9)]).sent(), [1, 3]);
    assert_eq!(s.after(50).sack(4, &[(8, 9)]).sent(), [4, 5, 6, 7]);
    assert_eq!(s.after(50).ack(9).sent(), [9, 10, 11, 12, 13]);
}

#[test]
fn rfc5681_3_1_a_second_timeout_of_the_same_segment_keeps_the_threshold() {
    let mut s = ten_out(SenderScript::config());
    s.after(900).sent();
    s.after(2000);
    assert_eq!(s.sent(), [0]);
    assert_eq!(s.sender.ssthresh(), Some(5 * u64::from(MSS)));
    assert_eq!(s.sender.stats().timeouts, 2);
}

#[test]
fn rfc2883_4_a_reported_duplicate_is_counted_and_is_no_duplicate_acknowledgment() {
    let mut s = ten_out(SenderScript::config());
    assert_eq!(s.ack(5).sent().len(), 10);
    s.sack(5, &[(3, 4)]).sack(5, &[(3, 4)]).sack(5, &[(3, 4)]);
    assert_eq!((s.sender.stats().dsacks, s.sender.stats().duplicate_acks), (3, 0));
    assert_eq!(s.sender.phase(), Phase::Open);
    // A duplicate of SACKed data lies in the second block.
    s.sack(5, &[(8, 9), (7, 10)]);
    assert_eq!((s.sender.stats().dsacks, s.sender.stats().duplicate_acks), (4, 1));
}

#[test]
fn the_window_does_not_grow_while_the_application_does_not_fill_it() {
    let mut s = SenderScript::opened(SenderScript::config());
    s.after(100).answer_syn(10);
    s.acks();
    for i in 0..40 {
        s.sender.offer(u64::from(MSS));
        assert_eq!(s.sent(), [i]);
        s.after(20).ack(i + 1);
    }
    assert_eq!(s.sender.cwnd_segments(), 10);
}

#[test]
fn a_maximum_window_bounds_outstanding_segments_and_the_window_stops_at_twice_that() {
    let mut s = SenderScript::established(SenderConfig { max_window: Some(4), ..SenderScript::config() });
    assert_eq!(s.sent(), [0, 1, 2, 3]);
    for i in 1..100 {
        assert_eq!(s.after(10).ack(i).sent(), [i + 3]);
    }
    assert_eq!(s.sender.cwnd_segments(), 10);
}
