//! Opening, closing and negotiation.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{
    Flags, Receiver, ReceiverConfig, ReceiverState, Segment, Sender, SenderConfig, SenderState, Seq,
    Timestamps,
};

use super::script::{MSS, ReceiverScript, SenderScript, ms};

fn exchange(sender: SenderConfig, receiver: ReceiverConfig) -> (Sender, Receiver, Vec<Segment>) {
    let (mut s, mut r) = (Sender::new(sender), Receiver::new(receiver));
    let (mut now, mut log) = (Nanos::ZERO, vec![]);
    s.offer(3000);
    s.close();
    s.open(now);
    for _ in 0..10 {
        while let Some(segment) = s.poll_transmit(now) {
            r.on_segment(now, &segment);
            log.push(segment);
        }
        while let Some(segment) = r.poll_transmit(now) {
            s.on_segment(now, &segment);
            log.push(segment);
        }
        now += ms(1);
    }
    (s, r, log)
}

#[test]
fn rfc9293_3_5_and_3_6_a_connection_opens_carries_and_closes_both_ways() {
    let (s, r, log) = exchange(SenderScript::config(), ReceiverScript::config());
    let flags: Vec<_> =
        log.iter().map(|x| format!("{:?}{}", x.flags, if x.len > 0 { "+" } else { "" })).collect();
    assert_eq!(flags, ["S", "S.", ".", ".+", ".+", "FP.+", "F.", "."]);
    assert_eq!((s.state(), r.state()), (SenderState::TimeWait, ReceiverState::Closed));
    assert_eq!((s.bytes_acked(), r.delivered()), (3000, 3000));
    assert_eq!((s.next_timer(), r.next_timer()), (None, None));
}

#[test]
fn options_are_used_only_if_both_sides_offer_them() {
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let sender = SenderConfig { sack: a, timestamps: a, ..SenderScript::config() };
        let receiver = ReceiverConfig { sack: b, timestamps: b, ..ReceiverScript::config() };
        let (s, _, log) = exchange(sender, receiver);
        assert!(s.is_finished());
        assert_eq!(log[0].timestamps.is_some(), a);
        assert_eq!((log[1].timestamps.is_some(), log[1].sack_permitted), (a && b, a && b));
        assert!(log[2..].iter().all(|x| x.timestamps.is_some() == (a && b)));
    }
}

#[test]
fn rfc9293_3_7_1_the_smaller_segment_size_applies_and_536_without_the_option() {
    let mut s = SenderScript::opened(SenderConfig { mss: 8960, ..SenderScript::config() });
    s.answer_syn(0);
    assert_eq!(s.sender.effective_mss(), 1460);
    let mut s = SenderScript::opened(SenderScript::config());
    let mut bare = s.ack_segment(0);
    bare.flags = Flags::SYN | Flags::ACK;
    bare.seq = bare.seq - 1;
    s.sender.on_segment(s.now, &bare);
    assert_eq!(s.sender.effective_mss(), 536);
}

#[test]
fn rfc7323_2_the_buffer_determines_the_scale_and_syns_are_not_scaled() {
    for (buffer, shift) in [(65_535, 0), (65_536, 1), (4 << 20, 7), (1_000_000_000, 14)] {
        let (_, _, log) =
            exchange(SenderScript::config(), ReceiverConfig { buffer, ..ReceiverScript::config() });
        assert_eq!(log[1].window_scale, Some(shift), "buffer {buffer}");
        assert_eq!(log[1].window, 65_535);
        let last = log[log.len() - 2];
        assert!(u64::from(last.window) << shift <= u64::from(buffer));
        assert!(u64::from(last.window) << shift > u64::from(buffer) - (1 << shift));
    }
}

#[test]
fn rfc6298_5_5_a_lost_syn_is_retransmitted_with_doubled_timeouts_until_the_connection_fails() {
    let mut s = SenderScript::opened(SenderConfig { syn_retries: 3, ..SenderScript::config() });
    let mut at = vec![];
    while let Some(next) = s.sender.next_timer() {
        s.after((next - s.now).0 / 1_000_000);
        at.push((next, s.poll().len()));
    }
    assert_eq!(at, [(ms(1000), 1), (ms(3000), 1), (ms(7000), 1), (ms(15_000), 0)]);
    assert_eq!(s.sender.state(), SenderState::Failed);
}

#[test]
fn rfc6928_2_one_lost_syn_keeps_the_initial_window_and_two_reduce_it() {
    for (lost, first_flight) in [(1_u32, 10), (2, 1)] {
        let mut s = SenderScript::opened(SenderScript::config());
        s.sender.offer(u64::MAX);
        for i in 0..lost {
            s.after(1000 << i).poll();
        }
        s.after(50).answer_syn(10);
        s.acks();
        assert_eq!(s.sent().len(), first_flight);
        // RFC 6298 §5.7.
        assert_eq!(s.sender.rto(), Nanos::from_secs(3));
    }
}

#[test]
fn a_lost_acknowledgment_of_the_handshake_or_of_the_close_is_sent_again_on_a_retransmission() {
    let mut s = SenderScript::established(SenderScript::config());
    s.answer_syn(10);
    s.acks();
    s.sender.close();
    assert_eq!(s.poll()[0].flags, Flags::FIN | Flags::ACK);
    let mut fin = s.ack_segment(1);
    fin.flags = Flags::FIN | Flags::ACK;
    for _ in 0..2 {
        s.sender.on_segment(s.now, &fin);
        assert_eq!(s.sender.state(), SenderState::TimeWait);
        let last = s.poll();
        assert_eq!((last.len(), last[0].ack), (1, fin.seq + 1));
    }
}

#[test]
fn the_receiver_retransmits_its_syn_and_its_fin_until_they_are_acknowledged() {
    let mut r = ReceiverScript::established(ReceiverScript::config());
    r.segment(0, MSS, Flags::ACK | Flags::FIN);
    let fin = r.poll()[0];
    assert_eq!(fin.flags, Flags::FIN | Flags::ACK);
    assert_eq!(r.receiver.state(), ReceiverState::LastAck);
    assert_eq!(r.after(1000).poll()[0].seq, fin.seq);
    assert_eq!(r.after(2000).poll()[0].seq, fin.seq);
    // An old segment is answered with the number after the FIN.
    r.segment(0, MSS, Flags::ACK);
    assert_eq!(r.poll()[0].seq, fin.seq + 1);

    let mut silent = Receiver::new(ReceiverScript::config());
    let syn = Segment { seq: Seq(9), flags: Flags::SYN, ..Segment::default() };
    silent.on_segment(Nanos::ZERO, &syn);
    let first = silent.poll_transmit(Nanos::ZERO);
    silent.on_timer(ms(1000));
    assert_eq!(silent.poll_transmit(ms(1000)), first);
}

#[test]
fn rfc9293_3_10_7_a_reset_in_sequence_ends_the_connection_and_another_does_not() {
    let mut s = SenderScript::established(SenderScript::config());
    let mut reset = s.ack_segment(0);
    reset.flags = Flags::RST;
    reset.seq = reset.seq + 5;
    s.sender.on_segment(s.now, &reset);
    assert_eq!(s.sender.state(), SenderState::Established);
    reset.seq = reset.seq - 5;
    s.sender.on_segment(s.now, &reset);
    assert_eq!(s.sender.state(), SenderState::Failed);
    assert_eq!((s.poll(), s.sender.next_timer()), (vec![], None));
}

#[test]
fn rfc7323_5_3_old_timestamps_are_dropped_and_answered() {
    let config = ReceiverConfig { timestamps: true, delayed_ack_segments: 1, ..ReceiverScript::config() };
    let mut r = ReceiverScript::established(config);
    r.segment_at(0, 0, Flags::ACK, Some(10));
    r.segment_at(0, MSS, Flags::ACK, Some(500));
    assert_eq!(r.poll()[0].timestamps, Some(Timestamps { value: 0, echo: 500 }));
    r.segment_at(i64::from(MSS), MSS, Flags::ACK, Some(499));
    assert_eq!(r.acks(), [(1, vec![])]);
    assert_eq!((r.receiver.delivered(), r.receiver.stats().paws_drops), (u64::from(MSS), 1));
    // Without the option: dropped without an answer.
    r.segment(i64::from(MSS), MSS, Flags::ACK);
    assert_eq!((r.acks(), r.receiver.stats().paws_drops), (vec![], 2));
}
