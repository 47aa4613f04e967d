//! The retransmission timer, window probes, failing connections.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{Segment, SenderConfig, SenderState, Timestamps};

use super::script::{MSS, SenderScript, ms};

#[test]
fn rfc6298_2_the_handshake_gives_the_first_sample_and_data_the_next() {
    let config = SenderConfig { min_rto: Nanos::ZERO, ..SenderScript::config() };
    let mut s = SenderScript::established(config);
    // R = 100: SRTT 100, RTTVAR 50, RTO 300.
    assert_eq!((s.sender.srtt(), s.sender.rto()), (Some(ms(100)), ms(300)));
    s.sent();
    // R = 180: RTTVAR 37.5 + 20 = 57.5, SRTT 110, RTO 340.
    s.after(180).ack(2);
    assert_eq!((s.sender.srtt(), s.sender.rto()), (Some(ms(110)), ms(340)));
}

#[test]
fn rfc6298_5_the_timer_starts_with_the_first_segment_and_again_with_each_acknowledgment_of_new_data() {
    let mut s = SenderScript::opened(SenderScript::config());
    s.after(100).answer_syn(10);
    s.acks();
    assert_eq!(s.sender.next_timer(), None);
    s.sender.offer(2 * u64::from(MSS));
    s.sent();
    assert_eq!(s.sender.next_timer(), Some(ms(1100)));
    s.after(100).ack(1);
    assert_eq!(s.sender.next_timer(), Some(ms(1200)));
    s.after(100).ack(2);
    assert_eq!(s.sender.next_timer(), None);
}

#[test]
fn rfc6298_3_karn_a_retransmitted_segment_gives_no_sample_and_the_backoff_stays() {
    let mut s = SenderScript::established(SenderScript::config());
    s.sent();
    s.after(1000).sent();
    assert_eq!(s.sender.rto(), ms(2000));
    let before = s.sender.srtt();
    s.after(20).ack(1).sent();
    assert_eq!((s.sender.srtt(), s.sender.rto()), (before, ms(2000)));
    // 10 is new and sent once.
    s.after(20).ack(10);
    assert_eq!(s.sent(), [10, 11, 12, 13, 14, 15]);
    assert_eq!(s.sender.rto(), ms(2000));
    s.after(100).ack(11);
    assert_eq!(s.sender.rto(), ms(1000));
}

#[test]
fn rfc7323_4_1_timestamps_measure_retransmitted_segments_too() {
    let config = SenderConfig { timestamps: true, min_rto: ms(10), ..SenderScript::config() };
    let mut s = SenderScript::established(config);
    assert_eq!(s.sender.effective_mss(), MSS - 12);
    s.poll();
    s.after(1000);
    let retransmitted = s.poll()[0];
    let times = retransmitted.timestamps.expect("timestamps");
    assert_eq!((times.value, times.echo), (1100, 5000));
    s.after(60);
    let mut ack = s.ack_segment(u64::from(MSS - 12));
    ack.timestamps = Some(Timestamps { value: 5400, echo: times.value });
    s.sender.on_segment(s.now, &ack);
    // SRTT 7/8·100 + 1/8·60.
    assert_eq!(s.sender.srtt(), Some(ms(95)));
}

#[test]
fn rfc7323_5_3_the_sender_drops_acknowledgments_with_old_timestamps() {
    let mut s = SenderScript::established(SenderConfig { timestamps: true, ..SenderScript::config() });
    s.poll();
    s.after(50);
    let payload = u64::from(MSS - 12);
    // The SYN with ACK had 5000.
    for (value, acked) in [(4999, 0), (5001, payload)] {
        let mut ack = s.ack_segment(payload);
        ack.timestamps = Some(Timestamps { value, echo: 100 });
        s.sender.on_segment(s.now, &ack);
        assert_eq!(s.sender.bytes_acked(), acked, "{value}");
    }
}

#[test]
fn rfc6298_5_5_timeouts_double_until_the_connection_fails() {
    let mut s = SenderScript::established(SenderConfig {
        data_retries: 3,
        max_rto: ms(3500),
        ..SenderScript::config()
    });
    s.sent();
    let mut at = vec![];
    while let Some(next) = s.sender.next_timer() {
        s.after((next - s.now).0 / 1_000_000).sent();
        at.push(next);
    }
    assert_eq!(at, [ms(1100), ms(3100), ms(6600), ms(10_100)]);
    assert_eq!(s.sender.state(), SenderState::Failed);
    assert!(s.sender.is_finished());
}

#[test]
fn rfc9293_3_8_6_1_a_closed_window_is_probed_without_limit_and_an_opened_one_is_used_at_once() {
    let mut s = SenderScript::established(SenderConfig { data_retries: 3, ..SenderScript::config() });
    assert_eq!(s.sent().len(), 10);
    s.window = 0;
    assert_eq!(s.after(50).ack(10).poll(), []);
    let mut waits = vec![];
    for _ in 0..9 {
        let at = s.sender.next_timer().expect("a persist timer");
        let wait = (at - s.now).0 / 1_000_000;
        waits.push(wait / 1000);
        s.after(wait);
        let probe = s.poll();
        let [Segment { len: 0, seq, .. }] = probe[..] else { panic!("{probe:?}") };
        // One before the next octet: the receiver must answer.
        assert_eq!(seq + 1, s.ack_segment(10 * u64::from(MSS)).ack);
        s.ack(10);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    s.window = 2;
    assert_eq!(s.after(50).ack(10).sent(), [10, 11]);
    assert_eq!(s.sender.stats().window_probes, 9);
}

#[test]
fn linux_an_acknowledgment_without_news_does_not_shrink_the_window() {
    let mut s = SenderScript::established(SenderScript::config());
    s.window = 1;
    assert_eq!(s.ack(0).sent().len(), 10, "an old acknowledgment may arrive late");
    // With new data acknowledged, the window of 1,024 bytes applies: no room beside the nine segments in flight.
    assert!(s.after(50).ack(1).sent().is_empty());
}

#[test]
fn rfc9293_3_8_6_2_1_less_than_a_segment_of_window_waits_for_the_override_timer() {
    let mut s = SenderScript::opened(SenderScript::config());
    s.sender.offer(u64::MAX);
    s.after(100);
    s.window = 4500;
    s.answer_syn(0);
    s.acks();
    // 500 bytes of window stay unused: less than half of the maximum window.
    assert_eq!(s.poll().iter().map(|p| p.len).collect::<Vec<_>>(), [1000; 4]);
    s.window = 500;
    s.after(50);
    let ack = s.ack_segment(4000);
    s.sender.on_segment(s.now, &ack);
    assert_eq!(s.poll(), []);
    let wait = (s.sender.next_timer().expect("a timer") - s.now).0 / 1_000_000;
    s.after(wait);
    assert_eq!(s.poll().iter().map(|p| p.len).collect::<Vec<_>>(), [500]);
}

#[test]
fn rfc5681_4_1_an_idle_sender_restarts_with_the_initial_window() {
    let mut s = SenderScript::opened(SenderScript::config());
    s.sender.offer(70 * u64::from(MSS));
    s.after(100).answer_syn(10);
    s.acks();
    assert_eq!(s.sent().len(), 10);
    assert_eq!(s.after(100).ack(10).sent().len(), 20);
    assert_eq!(s.after(100).ack(30).sent().len(), 40);
    s.after(100).ack(70);
    // Limited in the last round too: 80 segments.
    assert_eq!(s.sender.cwnd_segments(), 80);
    s.sender.offer(100 * u64::from(MSS));
    s.after(60_000);
    assert_eq!(s.sent().len(), 10);
    // The threshold keeps three quarters of the window.
    assert_eq!(s.sender.ssthresh(), None);
}
