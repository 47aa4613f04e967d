//! Acknowledgments and the window of the receiver.

use fairhop_transport::tcp::{Flags, ReceiverConfig};

use super::script::{Ack, MSS, ReceiverScript, ms};

fn none() -> Vec<Ack> {
    vec![]
}

fn established() -> ReceiverScript {
    ReceiverScript::established(ReceiverScript::config())
}

#[test]
fn rfc5681_4_2_every_second_segment_is_acknowledged_and_one_alone_after_the_delay() {
    let mut r = established();
    assert_eq!(r.data(0).acks(), none());
    assert_eq!(r.data(1).acks(), [(2, vec![])]);
    assert_eq!(r.data(2).acks(), none());
    assert_eq!(r.receiver.next_timer(), Some(ms(200)));
    assert_eq!(r.after(199).acks(), none());
    assert_eq!(r.after(1).acks(), [(3, vec![])]);
    assert_eq!(r.receiver.stats().delayed_acks, 1);
    assert_eq!(r.receiver.next_timer(), None);
}

#[test]
fn rfc5681_4_2_segments_past_a_hole_and_those_that_fill_one_are_acknowledged_at_once() {
    let mut r = established();
    assert_eq!(r.data(1).acks(), [(0, vec![(1, 2)])]);
    assert_eq!(r.data(3).acks(), [(0, vec![(3, 4), (1, 2)])]);
    assert_eq!(r.data(0).acks(), [(2, vec![(3, 4)])]);
    assert_eq!(r.data(2).acks(), [(4, vec![])]);
    assert_eq!(r.data(4).acks(), none());
    assert_eq!(r.receiver.delivered(), 5 * u64::from(MSS));
}

#[test]
fn rfc2018_4_the_first_block_is_the_one_that_grew_last_and_four_are_reported() {
    let mut r = established();
    for i in [2, 4, 6, 8] {
        r.data(i);
    }
    assert_eq!(r.data(10).acks(), [(0, vec![(10, 11), (8, 9), (6, 7), (4, 5)])]);
    assert_eq!(r.data(5).acks(), [(0, vec![(4, 7), (10, 11), (8, 9), (2, 3)])]);
    // 0 and 1 fill the hole up to 3.
    assert_eq!(r.data(0).acks(), [(1, vec![(4, 7), (10, 11), (8, 9), (2, 3)])]);
    assert_eq!(r.data(1).acks(), [(3, vec![(4, 7), (10, 11), (8, 9)])]);
}

#[test]
fn rfc2883_4_a_duplicate_is_the_first_block_of_one_acknowledgment() {
    let mut r = established();
    r.data(0).data(1).acks();
    assert_eq!(r.data(1).acks(), [(2, vec![(1, 2)])]);
    r.data(4).acks();
    assert_eq!(r.data(4).acks(), [(2, vec![(4, 5), (4, 5)])]);
    assert_eq!(r.data(6).acks(), [(2, vec![(6, 7), (4, 5)])]);
    assert_eq!(r.receiver.stats().duplicates, 2);
}

#[test]
fn rfc9293_3_8_6_the_window_closes_with_the_buffer_and_opens_by_at_least_a_segment() {
    let mut r = ReceiverScript::established(ReceiverConfig { buffer: 4 * MSS, ..ReceiverScript::config() });
    r.receiver.set_reading(false);
    let mut windows = vec![];
    for i in 0..4 {
        r.data(i);
        windows.extend(r.poll().iter().map(|a| a.window));
    }
    assert_eq!(windows, [2 * MSS as u16, 0]);
    // Past the window: dropped, answered.
    r.data(4);
    assert_eq!(r.poll()[0].window, 0);
    assert_eq!(r.receiver.stats().bytes_past_window, u64::from(MSS));
    // Room for less than a segment does not open the window, not even after a probe.
    assert_eq!(r.receiver.read(999), 999);
    assert_eq!(r.poll(), []);
    r.segment(i64::from(4 * MSS) - 1, 0, Flags::ACK);
    assert_eq!(r.poll()[0].window, 0);
    // The next octet makes it a segment: an update is sent.
    r.receiver.read(1);
    assert_eq!(r.poll()[0].window, 1000);
    assert_eq!(r.receiver.delivered(), 1000);
    r.receiver.set_reading(true);
    assert_eq!(r.poll()[0].window, 4000);
    assert_eq!(r.receiver.delivered(), 4000);
}

#[test]
fn an_unread_stream_keeps_the_receiver_open_after_the_senders_fin() {
    let mut r = established();
    r.receiver.set_reading(false);
    r.segment(0, MSS, Flags::ACK | Flags::FIN);
    assert_eq!(r.poll()[0].flags, Flags::ACK);
    assert_eq!(r.receiver.read(400), 400);
    assert_eq!(r.poll(), []);
    assert_eq!(r.receiver.read(5000), 600);
    assert_eq!(r.poll()[0].flags, Flags::FIN | Flags::ACK);
}

fn linux() -> ReceiverConfig {
    let config = ReceiverScript::config();
    ReceiverConfig {
        mss: config.mss,
        initial_seq: config.initial_seq,
        timestamps: false,
        ..ReceiverConfig::linux()
    }
}

#[test]
fn linux_acknowledges_sixteen_segments_at_once_and_then_every_second_one() {
    let mut r = ReceiverScript::established(ReceiverConfig { autotune: false, ..linux() });
    let acked: Vec<_> = (0..22).map(|number| r.data(number).acks().len()).collect();
    assert_eq!(acked, [[1; 16].as_slice(), &[0, 1, 0, 1, 0, 1]].concat());
    // A single segment waits 40 ms.
    assert!(r.data(22).acks().is_empty());
    assert!(r.after(39).acks().is_empty());
    assert_eq!(r.after(1).acks(), [(23, vec![])]);
}

#[test]
fn linux_reports_a_hole_three_times_at_once_and_then_by_timer() {
    let mut r = ReceiverScript::established(ReceiverConfig { quick_acks: 0, autotune: false, ..linux() });
    // The script's handshake takes no time, and so does a twentieth of it: the timer expires at once.
    for number in 1..4 {
        assert_eq!(r.data(number).acks(), [(0, vec![(1, number + 1)])]);
    }
    assert!(r.data(4).acks().is_empty());
    assert!(r.data(5).acks().is_empty());
    assert_eq!(r.receiver.next_timer(), Some(r.now));
    assert_eq!(r.after(1).acks(), [(0, vec![(1, 6)])]);
    // Filling the hole is acknowledged at once.
    assert_eq!(r.data(0).acks(), [(6, vec![])]);
}
