//! RACK-TLP, PRR and the undo of spurious reductions, segment by segment.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::congestion::Phase;
use fairhop_transport::tcp::{Recovery, Segment, SenderConfig, Timestamps};

use super::script::{SenderScript, ms};

fn config() -> SenderConfig {
    SenderConfig { recovery: Recovery::RackTlp, undo: true, ..SenderScript::config() }
}

/// Segments `0` to `9` are sent, and a round trip of 100 ms has passed.
fn ten_out(config: SenderConfig) -> SenderScript {
    let mut s = SenderScript::established(config);
    assert_eq!(s.sent(), (0..10).collect::<Vec<_>>());
    s.after(100);
    s
}

const NOTHING: [u64; 0] = [];

#[test]
fn rfc8985_6_2_a_hole_is_lost_with_the_third_sack_past_it_or_a_quarter_of_a_round_trip_after_the_first() {
    let mut s = ten_out(config());
    assert_eq!(s.sack(0, &[(1, 2)]).sent(), [10]);
    assert_eq!(s.sack(0, &[(1, 3)]).sent(), [11]);
    assert_eq!(s.sack(0, &[(1, 4)]).sender.phase(), Phase::Recovery);

    // A single SACK: the reordering window of 25 ms, plus the 2 ms that Linux adds to such timers.
    let mut s = ten_out(config());
    assert_eq!(s.sack(0, &[(1, 2)]).sent(), [10]);
    assert_eq!(s.sender.next_timer(), Some(s.now + ms(27)));
    assert_eq!(s.after(26).sent(), NOTHING);
    assert_eq!(s.sender.phase(), Phase::Open);
    s.after(1);
    // Pipe 11 − 1 − 1 = 9, over the window of 5. Without PRR the window is reduced at once, so that the first
    // retransmission waits until four more segments have left.
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments(), s.sender.in_flight()), (Phase::Recovery, 5, 9));
    assert_eq!(s.sack(0, &[(1, 6)]).sent(), NOTHING);
    assert_eq!(s.sack(0, &[(1, 7)]).sent(), [0]);
}

#[test]
fn rfc8985_3_4_a_lost_retransmission_is_detected_when_a_segment_sent_later_arrives() {
    let mut s = ten_out(SenderConfig { prr: true, ..config() });
    s.sack(0, &[(1, 2)]).sent();
    s.sack(0, &[(1, 3)]).sent();
    assert_eq!(s.after(1).sack(0, &[(1, 4)]).sent(), [0]);
    // The rest of the first flight arrives; half as many new segments are sent (PRR).
    let mut sent = vec![];
    for end in 5..11 {
        sent.extend(s.after(1).sack(0, &[(1, end)]).sent());
    }
    assert_eq!(sent, [12, 13]);
    // A round trip later: 10, 11 of limited transmit, then 12, which was sent after the retransmission of 0.
    s.after(93).sack(0, &[(1, 12)]).sent();
    assert_eq!(s.sender.stats().lost_retransmissions, 0);
    s.after(2).sack(0, &[(1, 13)]);
    assert_eq!(s.sent()[0], 0);
    assert_eq!((s.sender.stats().lost_retransmissions, s.sender.stats().timeouts), (1, 0));
    // It is the same recovery, and the window is not reduced again.
    assert_eq!((s.sender.stats().fast_recoveries, s.sender.ssthresh()), (1, Some(5000)));
}

#[test]
fn rfc8985_6_2_step_4_the_reordering_window_opens_with_reordering_and_with_reported_duplicates() {
    let mut s = ten_out(config());
    // 0 arrives after 1 to 3. It was declared lost with the third SACK, so that the duplicate is reported.
    for end in 2..5 {
        s.sack(0, &[(1, end)]);
    }
    assert_eq!(s.sender.phase(), Phase::Recovery);
    s.sent();
    s.ack(5).sent();
    // From now on three SACKs are not enough.
    s.after(100);
    for end in 7..10 {
        s.sack(5, &[(6, end)]).sent();
    }
    assert_eq!((s.sender.stats().fast_recoveries, s.sender.phase()), (1, Phase::Recovery));
}

#[test]
fn rfc8985_7_2_and_7_3_the_tail_is_probed_after_two_round_trips() {
    let mut s = SenderScript::opened(config());
    s.sender.offer(3000);
    s.after(100).answer_syn(10);
    s.acks();
    assert_eq!(s.sent(), [0, 1, 2]);
    // Two smoothed round trips and 2 ms.
    assert_eq!(s.sender.next_timer(), Some(s.now + ms(202)));
    assert_eq!(s.after(202).sent(), [2]);
    assert_eq!((s.sender.stats().loss_probes, s.sender.stats().timeouts), (1, 0));
    // Window and threshold are unchanged, and the retransmission timer runs.
    assert_eq!((s.sender.cwnd_segments(), s.sender.ssthresh()), (10, None));
    assert_eq!(s.sender.next_timer(), Some(s.now + ms(1000)));
    // The probe's SACK reveals the losses before it.
    s.after(100).sack(1, &[(2, 3)]);
    assert_eq!(s.after(100).sent(), [1]);
    assert_eq!(s.sender.stats().timeouts, 0);
}

#[test]
fn rfc8985_7_3_new_data_are_the_preferred_probe_and_may_exceed_the_window_by_one() {
    let mut s = SenderScript::established(config());
    assert_eq!(s.sent().len(), 10);
    assert_eq!(s.after(202).sent(), [10]);
    assert_eq!(s.sender.in_flight(), 11);
    assert_eq!(s.sent(), NOTHING);
}

#[test]
fn rfc8985_7_4_a_loss_that_the_probe_repaired_reduces_the_window_and_a_spurious_probe_does_not() {
    for (dsack, cwnd) in [(false, 10), (true, 20)] {
        let mut s = SenderScript::opened(config());
        s.sender.offer(10_000);
        s.after(100).answer_syn(10);
        s.acks();
        assert_eq!(s.sent().len(), 10);
        assert_eq!(s.after(202).sent(), [9]);
        // All arrived, 9 as original or as probe: slow start doubles the window.
        s.after(100);
        match dsack {
            true => s.sack(10, &[(9, 10)]),
            false => s.ack(10),
        };
        s.sender.offer(2000);
        s.sent();
        s.after(100).ack(12);
        assert_eq!(s.sender.cwnd_segments(), cwnd, "duplicate reported: {dsack}");
    }
}

#[test]
fn rfc6937_3_the_window_falls_by_half_over_a_round_trip_and_ends_at_the_threshold() {
    let mut s = ten_out(SenderConfig { prr: true, ..config() });
    s.sack(0, &[(1, 2)]).sent();
    s.sack(0, &[(1, 3)]).sent();
    // 12 outstanding, three SACKed, one lost: pipe 8. The first retransmission is sent.
    assert_eq!(s.sack(0, &[(1, 4)]).sent(), [0]);
    assert_eq!((s.sender.ssthresh(), s.sender.in_flight()), (Some(5000), 9));
    // ⌈5·n/10⌉ in total after n: one for every two.
    let sent: Vec<_> = (5..11).map(|end| s.after(1).sack(0, &[(1, end)]).sent().len()).collect();
    // After the last but one, the segments in flight equal the threshold; then one is sent for each that arrives.
    assert_eq!(sent, [0, 1, 0, 1, 0, 0]);
    assert_eq!(s.sender.in_flight(), 5);
    // The retransmission arrives, and all data before the recovery point have arrived.
    s.after(100).ack(12);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Open, 5));
}

#[test]
fn rfc2883_a_recovery_whose_retransmissions_were_all_reported_as_duplicates_is_undone() {
    let mut s = ten_out(SenderConfig { prr: true, ..config() });
    for end in 2..5 {
        s.sack(0, &[(1, end)]);
    }
    assert_eq!(s.sent()[0], 0);
    assert_eq!(s.sender.ssthresh(), Some(5000));
    s.ack(10).sent();
    // The retransmission arrives too, and the receiver reports it.
    s.after(100).sack(10, &[(0, 1)]);
    assert_eq!((s.sender.stats().undone, s.sender.phase()), (1, Phase::Open));
    assert!(s.sender.cwnd_segments() >= 10 && s.sender.ssthresh().is_none());
}

fn with_times(s: &SenderScript, next: u64, echo: u32) -> Segment {
    let mut ack = s.ack_segment(next * 988);
    ack.timestamps = Some(Timestamps { value: 6000, echo });
    ack
}

#[test]
fn rfc3522_an_acknowledgment_of_the_original_undoes_a_timeout() {
    let mut s = SenderScript::established(SenderConfig { timestamps: true, ..config() });
    let first = s.poll();
    let echo = first[0].timestamps.map(|t| t.value).expect("timestamps");
    // The path is blocked for two seconds, so that the probe does not help.
    s.after(202).poll();
    s.after(1500);
    assert_eq!((s.poll().len(), s.sender.stats().timeouts), (1, 1));
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Loss, 1));
    // Then the acknowledgments of the originals arrive.
    let ack = with_times(&s, 2, echo);
    s.sender.on_segment(s.now, &ack);
    assert_eq!((s.sender.phase(), s.sender.stats().undone), (Phase::Open, 1));
    assert!(s.sender.cwnd_segments() >= 10);
    assert_eq!(s.sender.ssthresh(), None);
}

#[test]
fn rfc5682_3_after_a_timeout_new_data_are_tried_and_sacks_of_the_originals_end_it() {
    let mut s = ten_out(SenderConfig { undo: true, ..config() });
    s.after(102).sent();
    s.after(1500);
    assert_eq!(s.sent(), [0]);
    assert_eq!(s.sender.stats().timeouts, 1);
    // The first acknowledgment is of 0 alone, original or not: step 2 sends new data, two at the window of two.
    let sent = s.after(100).ack(1).sent();
    assert_eq!(sent, [11, 12], "{:?}", s.sender.phase());
    // Step 3b: 1 was not retransmitted and has arrived.
    s.ack(2);
    assert_eq!((s.sender.phase(), s.sender.stats().undone), (Phase::Open, 1));
    assert!(s.sender.cwnd_segments() >= 10);
}

#[test]
fn rfc5682_3_a_real_loss_continues_in_slow_start() {
    let mut s = ten_out(config());
    s.after(102).sent();
    s.after(1500);
    assert_eq!(s.sent(), [0]);
    assert_eq!(s.after(100).ack(1).sent(), [11, 12]);
    // Only the new segments arrive: a duplicate acknowledgment, and the rest is retransmitted.
    assert_eq!(s.after(100).sack(1, &[(11, 12)]).sent()[0], 1);
    assert_eq!((s.sender.phase(), s.sender.stats().undone), (Phase::Loss, 0));
}

#[test]
fn rfc6298_2_linux_waits_srtt_plus_at_least_200_ms() {
    let s = ten_out(SenderConfig { min_rto: ms(200), ..SenderConfig::linux() }.with_script());
    assert_eq!(s.sender.rto(), ms(300));
    assert_eq!(s.sender.srtt(), Some(Nanos::from_millis(100)));
}

trait WithScript {
    fn with_script(self) -> SenderConfig;
}

impl WithScript for SenderConfig {
    /// Segments and numbers of the script.
    fn with_script(self) -> SenderConfig {
        let script = SenderScript::config();
        SenderConfig { mss: script.mss, initial_seq: script.initial_seq, timestamps: false, ..self }
    }
}
