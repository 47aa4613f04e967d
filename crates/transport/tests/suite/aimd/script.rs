//! One acknowledgment at a time.

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{Ack, Arrival, Datagram, Receiver, ReceiverConfig, Sender, SenderConfig, Seq};

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A sender with an endless stream that has sent its first window at time 0.
fn sender(config: SenderConfig) -> Sender {
    let mut sender = Sender::new(config);
    sender.offer(u64::MAX);
    pump(&mut sender, Nanos::ZERO);
    sender
}

fn pump(sender: &mut Sender, now: Nanos) -> u32 {
    let mut sent = 0;
    while sender.poll_transmit(now).is_some() {
        sent += 1;
    }
    sent
}

fn ack(seq: u64, vector: u8) -> Ack {
    Ack { seq: Seq::of(seq), vector, rwnd: u16::MAX, transit_us: 0 }
}

/// Acknowledges every number of the range in order, with nothing missing before.
fn ack_all(sender: &mut Sender, now: Nanos, numbers: std::ops::Range<u64>) {
    for number in numbers {
        sender.on_ack(now, &ack(number, 0xff));
        pump(sender, now);
    }
}

/// A window of 20 in congestion avoidance, and the number of the next packet.
fn avoiding(config: SenderConfig) -> (Sender, u64) {
    let mut sender = sender(SenderConfig { initial_window: 20, ..config });
    sender.on_ack(ms(100), &ack(19, 0));
    // 0 to 10 are not covered, 11 to 18 are reported missing. Three more arrivals make them lost.
    pump(&mut sender, ms(100));
    for number in 20..23 {
        sender.on_ack(ms(101), &ack(number, (1 << (number - 19)) - 1));
    }
    assert_eq!(sender.stats().backoffs, 1);
    ack_all(&mut sender, ms(200), 23..24);
    while sender.cwnd() < 20.0 {
        let next = sender.stats().sent;
        let oldest = next - u64::from(sender.outstanding());
        ack_all(&mut sender, ms(300), oldest..next);
    }
    let next = sender.stats().sent;
    (sender, next)
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    let mut sender = sender(SenderConfig { initial_window: 2, ..SenderConfig::default() });
    let mut first = 0;
    for (round, window) in [2, 4, 8, 16, 32].into_iter().enumerate() {
        assert_eq!((sender.window(), sender.outstanding()), (window, window));
        ack_all(&mut sender, ms(100 * (round as u64 + 1)), first..first + u64::from(window));
        first += u64::from(window);
    }
}

#[test]
fn congestion_avoidance_adds_alpha_in_a_round_trip() {
    for alpha in [0.2, 1.0, 2.5] {
        let (mut sender, next) = avoiding(SenderConfig { alpha, beta: 0.5, ..SenderConfig::default() });
        let before = sender.cwnd();
        let outstanding = u64::from(sender.outstanding());
        ack_all(&mut sender, ms(500), next - outstanding..next);
        // Each acknowledgment adds α/cwnd, and cwnd grows meanwhile.
        let grown = sender.cwnd() - before;
        assert!(grown <= alpha && grown > alpha * (1.0 - (1.0 + alpha) / before), "{alpha}: {grown}");
    }
}

#[test]
fn the_first_loss_is_detected_when_three_later_packets_have_arrived_and_the_window_falls_to_beta_of_the_outstanding()
 {
    let mut sender = sender(SenderConfig { initial_window: 10, beta: 0.875, ..SenderConfig::default() });
    // 0 is missing; 1, 2 and 3 arrive.
    sender.on_ack(ms(100), &ack(1, 0b0));
    sender.on_ack(ms(100), &ack(2, 0b1));
    assert_eq!((sender.stats().lost, sender.outstanding()), (0, 8));
    sender.on_ack(ms(100), &ack(3, 0b11));
    assert_eq!((sender.stats().lost, sender.stats().backoffs), (1, 1));
    // Ten were outstanding before this batch of acknowledgments, including the lost one.
    assert_eq!((sender.cwnd(), sender.ssthresh()), (8.75, Some(8.75)));
    assert_eq!(sender.outstanding(), 6);
}

#[test]
fn reordering_by_two_places_is_no_loss() {
    let mut sender = sender(SenderConfig { initial_window: 10, ..SenderConfig::default() });
    sender.on_ack(ms(100), &ack(1, 0b0));
    sender.on_ack(ms(100), &ack(2, 0b1));
    sender.on_ack(ms(101), &ack(2, 0b11));
    sender.on_ack(ms(102), &ack(3, 0b111));
    assert_eq!((sender.stats().lost, sender.stats().acked, sender.stats().backoffs), (0, 4, 0));
}

#[test]
fn all_losses_of_a_window_cause_one_backoff_and_a_loss_in_the_next_window_another() {
    let (mut sender, next) = avoiding(SenderConfig::default());
    let (oldest, before) = (next - u64::from(sender.outstanding()), sender.stats().backoffs);
    // Of eight packets in the window four are lost, every other one.
    for arrived in 0..8 {
        let vector = [0b0, 0b10, 0b1010, 0b10_1010, 0b1010_1010][arrived.min(4)];
        sender.on_ack(ms(600), &ack(oldest + 1 + 2 * arrived as u64, vector));
    }
    assert_eq!(sender.stats().backoffs, before + 1);
    pump(&mut sender, ms(600));
    let fresh = sender.stats().sent;
    ack_all(&mut sender, ms(700), oldest + 16..fresh);
    let oldest = sender.stats().sent - u64::from(sender.outstanding());
    for (arrived, vector) in [(1, 0b1111_1110), (2, 0b1111_1101), (3, 0b1111_1011)] {
        sender.on_ack(ms(800), &ack(oldest + arrived, vector));
    }
    assert_eq!(sender.stats().backoffs, before + 2);
}

#[test]
fn the_next_acknowledgment_replaces_up_to_eight_lost_ones() {
    let mut sender = sender(SenderConfig { initial_window: 10, ..SenderConfig::default() });
    sender.on_ack(ms(100), &ack(8, 0xff));
    assert_eq!((sender.stats().acked, sender.stats().lost, sender.outstanding()), (9, 0, 1));
    assert_eq!(sender.cwnd(), 19.0);
}

#[test]
fn a_packet_that_no_acknowledgment_covers_leaves_the_window_without_a_backoff() {
    let mut sender = sender(SenderConfig { initial_window: 12, ..SenderConfig::default() });
    sender.on_ack(ms(100), &ack(11, 0xff));
    let stats = *sender.stats();
    assert_eq!((stats.acked, stats.unreported, stats.lost, stats.backoffs), (9, 3, 0, 0));
    assert_eq!(sender.outstanding(), 0);
    // A reordered old acknowledgment still counts.
    sender.on_ack(ms(101), &ack(2, 0b11));
    assert_eq!((sender.stats().acked, sender.stats().unreported), (12, 0));
}

#[test]
fn a_timeout_counts_all_as_lost_halves_ssthresh_and_doubles_the_timer_until_an_acknowledgment() {
    let mut sender = sender(SenderConfig { initial_window: 8, ..SenderConfig::default() });
    assert_eq!(sender.next_timer(), Some(ms(1000)));
    sender.on_timer(ms(999));
    assert_eq!(sender.stats().timeouts, 0);
    sender.on_timer(ms(1000));
    assert_eq!((sender.stats().lost, sender.outstanding(), sender.ssthresh()), (8, 0, Some(4.0)));
    assert_eq!(pump(&mut sender, ms(1000)), 8, "the first window again");
    assert_eq!(sender.next_timer(), Some(ms(3000)));
    sender.on_timer(ms(3000));
    assert_eq!(sender.ssthresh(), Some(2.0));
    // A late acknowledgment of a packet counted as lost is a sample, since nothing is retransmitted.
    sender.on_ack(ms(3100), &ack(7, 0xff));
    assert_eq!((sender.srtt(), sender.stats().spurious, sender.stats().lost), (Some(ms(3100)), 8, 8));
    assert_eq!(sender.window(), 8, "late answers do not open the window");
}

#[test]
fn the_receiver_bounds_the_window_and_zero_counts_as_one() {
    let mut sender = sender(SenderConfig { initial_window: 10, ..SenderConfig::default() });
    sender.on_ack(ms(100), &Ack { rwnd: 4, ..ack(3, 0xff) });
    assert_eq!((sender.outstanding(), sender.window(), pump(&mut sender, ms(100))), (6, 4, 0));
    sender.on_ack(ms(110), &Ack { rwnd: 0, ..ack(9, 0xff) });
    assert_eq!((sender.outstanding(), sender.rwnd(), pump(&mut sender, ms(110))), (0, Some(1), 1));
}

#[test]
fn after_an_idle_timeout_the_sender_restarts_with_the_small_window() {
    let mut sender = Sender::new(SenderConfig::default());
    sender.offer(6);
    pump(&mut sender, Nanos::ZERO);
    ack_all(&mut sender, ms(100), 0..6);
    assert!(sender.is_idle() && sender.cwnd() > 2.0 && sender.next_timer().is_none());
    sender.offer(100);
    assert_eq!(pump(&mut sender, ms(1050)), sender.window());
    ack_all(&mut sender, ms(1100), 6..106);
    sender.offer(100);
    assert_eq!(pump(&mut sender, ms(2200)), 2);
}

#[test]
fn the_window_does_not_grow_while_it_is_not_used() {
    let mut sender = Sender::new(SenderConfig { initial_window: 10, ..SenderConfig::default() });
    for number in 0..100 {
        sender.offer(1);
        pump(&mut sender, ms(10 * number));
        sender.on_ack(ms(10 * number + 5), &ack(number, 0xff));
    }
    assert_eq!(sender.cwnd(), 10.0);
}

#[test]
fn acknowledgments_of_packets_never_sent_change_nothing() {
    let mut sender = sender(SenderConfig { initial_window: 4, ..SenderConfig::default() });
    for seq in [4, 100, 1 << 23, (1 << 24) - 1] {
        sender.on_ack(ms(50), &Ack { rwnd: 0, ..ack(seq, 0xff) });
    }
    assert_eq!((sender.stats().strange_acks, sender.stats().acked, sender.outstanding()), (4, 0, 4));
    assert_eq!((sender.rwnd(), sender.srtt()), (None, None));
}

#[test]
fn the_acknowledgment_has_the_largest_number_and_a_bit_for_each_of_the_eight_before() {
    let mut receiver = Receiver::new(ReceiverConfig { rwnd: 17, ..ReceiverConfig::default() });
    let mut receive = |seq| receiver.on_datagram(ms(5), &Datagram { seq: Seq::of(seq), sent_us: 2_000 });
    let said = [0, 1, 3, 2, 12, 4].map(|seq| {
        let (ack, _) = receive(seq);
        assert_eq!((ack.rwnd, ack.transit_us), (17, 3_000));
        (ack.seq.get(), ack.vector)
    });
    // With 12 the bits of 11 to 4; when 4 comes, the highest bit.
    assert_eq!(said, [(0, 0), (1, 0b1), (3, 0b110), (3, 0b111), (12, 0), (12, 0b1000_0000)]);
    assert_eq!(receive(4).1, Arrival::Duplicate);
    assert_eq!(
        receive((1 << 24) - 1),
        (Ack { seq: Seq::of(12), ..receive(12).0 }, Arrival::TooLate),
        "before the first"
    );
    let stats = *receiver.stats();
    assert_eq!((stats.received, stats.duplicates, stats.reordered, stats.too_late), (6, 2, 2, 1));
    assert_eq!((stats.expected, stats.missing()), (13, 7));
    receiver.on_end(Seq::of(20));
    assert_eq!(receiver.stats().missing(), 14);
}
