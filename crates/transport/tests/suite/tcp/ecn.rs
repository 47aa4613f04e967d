//! Explicit congestion notification, RFC 3168.

use fairhop_transport::tcp::congestion::Phase;
use fairhop_transport::tcp::{Ecn, Flags, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

use super::script::{ReceiverScript, SenderScript, ms};

fn both() -> (SenderConfig, ReceiverConfig) {
    (
        SenderConfig { ecn: true, ..SenderScript::config() },
        ReceiverConfig { ecn: true, delayed_ack_segments: 1, ..ReceiverScript::config() },
    )
}

/// The handshake of a sender with an endless stream.
fn opened(sender: SenderConfig, receiver: ReceiverConfig) -> (Sender, Receiver, Vec<Segment>) {
    let (mut s, mut r) = (Sender::new(sender), Receiver::new(receiver));
    s.offer(u64::MAX);
    s.open(ms(0));
    let syn = s.poll_transmit(ms(0)).expect("a SYN");
    r.on_segment(ms(50), &syn);
    let answer = r.poll_transmit(ms(50)).expect("an answer");
    s.on_segment(ms(100), &answer);
    let ack = s.poll_transmit(ms(100)).expect("an acknowledgment");
    r.on_segment(ms(150), &ack);
    let data = std::iter::from_fn(|| s.poll_transmit(ms(100))).collect();
    (s, r, [vec![syn, answer, ack], data].concat())
}

#[test]
fn rfc3168_6_1_1_both_sides_must_agree_and_only_new_data_are_capable() {
    for (a, b) in [(true, true), (true, false), (false, true)] {
        let (sender, receiver) = both();
        let (_, _, log) = opened(SenderConfig { ecn: a, ..sender }, ReceiverConfig { ecn: b, ..receiver });
        assert_eq!(log[0].flags.has(Flags::ECE | Flags::CWR), a);
        assert_eq!((log[1].flags.has(Flags::ECE), log[1].flags.has(Flags::CWR)), (a && b, false));
        assert!(log[..3].iter().all(|s| s.ecn == Ecn::NotEct));
        let expected = if a && b { Ecn::Ect0 } else { Ecn::NotEct };
        assert!(log.len() > 3 && log[3..].iter().all(|s| s.ecn == expected && !s.flags.has(Flags::CWR)));
    }
}

#[test]
fn rfc3168_6_1_1_1_a_retransmitted_syn_has_no_ecn_bits() {
    let (sender, _) = both();
    let mut s = SenderScript::opened(sender);
    s.after(1000);
    let syn = s.poll()[0];
    assert_eq!(syn.flags, Flags::SYN);
}

#[test]
fn rfc3168_6_1_2_and_6_1_3_a_mark_is_echoed_until_cwr_and_halves_the_window_once() {
    let (sender, receiver) = both();
    let (mut s, mut r, log) = opened(sender, receiver);
    let (mut now, mut acks) = (ms(150), vec![]);
    // The third of ten is marked.
    for (i, segment) in log[3..].iter().enumerate() {
        let ecn = if i == 2 { Ecn::Ce } else { segment.ecn };
        r.on_segment(now, &Segment { ecn, ..*segment });
        acks.extend(r.poll_transmit(now));
    }
    let echoes: Vec<_> = acks.iter().map(|a| a.flags.has(Flags::ECE)).collect();
    assert_eq!(echoes, [false, false, true, true, true, true, true, true, true, true]);
    now = ms(200);
    let mut sent = vec![];
    for ack in &acks {
        s.on_segment(now, ack);
        sent.extend(std::iter::from_fn(|| s.poll_transmit(now)));
    }
    // Two were acknowledged before the mark: 12. Halved, once.
    assert_eq!((s.phase(), s.cwnd_segments(), s.stats().ecn_reductions), (Phase::Cwr, 6, 1));
    assert_eq!(s.stats().segments_retransmitted, 0);
    // CWR is in the first new segment after the reduction, and in no other.
    let answers = sent.iter().filter(|s| s.flags.has(Flags::CWR)).count();
    assert_eq!(answers, 1);
    let before = sent.iter().position(|s| s.flags.has(Flags::CWR)).expect("CWR");
    assert_eq!(before, 4, "two for each of the two acknowledgments before the mark");
    // It ends the echo; segments before it are still echoed.
    now = ms(250);
    let echoes: Vec<_> = sent
        .iter()
        .filter_map(|segment| {
            r.on_segment(now, segment);
            r.poll_transmit(now).map(|ack| {
                s.on_segment(ms(300), &ack);
                ack.flags.has(Flags::ECE)
            })
        })
        .collect();
    assert_eq!(echoes[..4], [true; 4]);
    assert!(echoes[4..].iter().all(|&echo| !echo));
    // The marked window and data after it have arrived: the window may grow again.
    assert_eq!((s.phase(), s.stats().ecn_reductions, r.stats().marked), (Phase::Open, 1, 1));
}

#[test]
fn rfc3168_6_1_2_a_loss_in_the_marked_window_does_not_reduce_again() {
    let (sender, _) = both();
    let mut s = SenderScript::opened(sender);
    s.sender.offer(u64::MAX);
    s.after(100);
    let mut answer = s.ack_segment(0);
    answer.flags = Flags::SYN | Flags::ACK | Flags::ECE;
    answer.seq = answer.seq - 1;
    answer.mss = Some(1460);
    answer.sack_permitted = true;
    answer.window_scale = Some(10);
    s.sender.on_segment(s.now, &answer);
    s.acks();
    s.ack(0);
    assert_eq!(s.sent().len(), 10);
    let mut marked = s.after(100).ack_segment(1000);
    marked.flags = Flags::ACK | Flags::ECE;
    s.sender.on_segment(s.now, &marked);
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Cwr, 5));
    for end in 3..6 {
        s.sack(1, &[(2, end)]);
    }
    assert_eq!((s.sender.phase(), s.sender.cwnd_segments()), (Phase::Recovery, 5));
    let sent = s.poll();
    // A retransmission is not ECN-capable (§6.1.5).
    assert_eq!((sent[0].ecn, sent[0].len), (Ecn::NotEct, 1000));
}
