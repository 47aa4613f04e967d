//! RFC 9002 packet by packet.

use fairhop_model::units::Nanos;
use fairhop_transport::quic::{AckFrame, Datagram, Sender, SenderConfig};
use fairhop_transport::tcp::congestion::Phase;

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A sender of packets of 1,000 bytes, a kilobyte of payload or less, without pacing.
struct Script {
    sender: Sender,
}

impl Script {
    fn new() -> Self {
        let config = SenderConfig { datagram_bytes: 1000, pacing: false, ..SenderConfig::default() };
        let mut sender = Sender::new(config);
        sender.offer(u64::MAX);
        Self { sender }
    }

    /// Packets sent now: numbers and offsets.
    fn sends(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| self.sender.poll_transmit(now))
            .map(|datagram| (datagram.number, datagram.stream.map_or(0, |frame| frame.offset)))
            .collect()
    }

    fn acks(&mut self, now: Nanos, ranges: &[(u64, u64)]) {
        let mut ack = AckFrame::of(ranges[0].0, ranges[0].1).expect("a range");
        assert!(ranges[1..].iter().all(|&(first, last)| ack.push(first, last)));
        self.sender.on_datagram(now, &Datagram { ack: Some(ack), ..Datagram::default() });
    }
}

#[test]
fn rfc9002_6_1_1_a_packet_is_lost_when_a_packet_three_later_has_arrived_and_its_bytes_get_a_new_number() {
    let mut script = Script::new();
    let sent = script.sends(ms(0));
    assert_eq!(sent.len(), 10);
    script.acks(ms(100), &[(2, 2)]);
    assert_eq!((script.sender.stats().packets_lost, script.sender.phase()), (0, Phase::Open));
    script.acks(ms(101), &[(2, 3)]);
    assert_eq!((script.sender.stats().packets_lost, script.sender.phase()), (1, Phase::Recovery));
    // The window of 11 (one more by slow start) is halved; seven of ten remain in flight.
    assert_eq!((script.sender.cwnd_packets(), script.sender.in_flight()), (5, 7));
    assert!(script.sends(ms(101)).is_empty());
    script.acks(ms(102), &[(2, 5)]);
    // Packet 1 is lost too, in the same recovery, and two have arrived: one may be sent, with the oldest lost bytes.
    assert_eq!((script.sender.stats().recoveries, script.sender.in_flight()), (1, 4));
    assert_eq!(script.sends(ms(102)), [(10, sent[0].1)]);
}

#[test]
fn rfc9002_6_1_2_a_packet_is_lost_nine_eighths_of_a_round_trip_after_it_was_sent() {
    let mut script = Script::new();
    script.sends(ms(0));
    script.acks(ms(80), &[(1, 1)]);
    assert_eq!(script.sender.next_timer(), Some(ms(90)));
    script.sender.on_timer(ms(89));
    assert_eq!(script.sender.stats().packets_lost, 0);
    script.sender.on_timer(ms(90));
    assert_eq!(script.sender.stats().packets_lost, 1);
    // It arrives late: it counts as delivered, its bytes are not sent again, and the reduction stays.
    script.acks(ms(91), &[(0, 1)]);
    assert_eq!(script.sender.stats().spurious_losses, 1);
    script.acks(ms(95), &[(0, 9)]);
    assert!(script.sends(ms(95)).iter().all(|&(_, offset)| offset > 0));
}

#[test]
fn rfc9002_6_2_the_probe_timeout_backs_off_and_its_probes_keep_the_window() {
    let mut script = Script::new();
    script.sends(ms(0));
    // Without a sample: 333 + 4·166.5 + 25 ms after the last packet.
    assert_eq!(script.sender.next_timer(), Some(ms(1024)));
    script.sender.on_timer(ms(1024));
    assert_eq!((script.sends(ms(1024)).len(), script.sender.cwnd_packets()), (2, 10));
    assert_eq!(script.sender.next_timer(), Some(ms(1024 + 2048)));
    script.sender.on_timer(ms(3072));
    assert_eq!(script.sends(ms(3072)).len(), 2);
    assert_eq!(script.sender.next_timer(), Some(ms(3072 + 4096)));
    script.acks(ms(3200), &[(12, 13)]);
    assert_eq!(script.sender.srtt(), Some(ms(128)));
    // Ten packets sent three seconds before the one that arrived are lost: one congestion event.
    assert_eq!((script.sender.stats().packets_lost, script.sender.stats().recoveries), (12, 1));
    assert_eq!(script.sender.stats().persistent_congestion, 0, "nothing sent before the first sample counts");
}

#[test]
fn rfc9002_7_6_continuous_losses_over_three_probe_timeouts_leave_the_minimum_window() {
    // A sample of 100 ms and 20 packets at 101 ms. Probes follow a PTO of 100 + 4·50 + 25 = 325 ms later, and 650 and
    // 1300 ms after that; in the second case the first timer fires 375 ms late. Only the second of the last two probes
    // arrives, 124 ms after it was sent. The PTO is then 103 + 174 + 25 ms, and three times that 906 ms. All packets before
    // the last probes are lost: over 325, 700 and 975 ms. The minimum window grows by the packet that arrived.
    let cases: [(&[u64], u32, u64); 3] =
        [(&[426, 1076], 10, 0), (&[801, 1451], 10, 0), (&[426, 1076, 2376], 3, 1)];
    for (probes, window, persistent) in cases {
        let mut script = Script::new();
        script.sends(ms(0));
        script.acks(ms(100), &[(0, 9)]);
        assert_eq!(script.sends(ms(101)).len(), 20);
        let mut last = 29;
        for &at in probes {
            let timer = if at == 801 { 426 } else { at };
            assert_eq!(script.sender.next_timer(), Some(ms(timer)));
            script.sender.on_timer(ms(at));
            assert_eq!(script.sends(ms(at)).len(), 2);
            last += 2;
        }
        script.acks(ms(probes[probes.len() - 1] + 124), &[(last, last)]);
        assert_eq!(script.sender.stats().persistent_congestion, persistent, "{probes:?}");
        assert_eq!((script.sender.cwnd_packets(), script.sender.ssthresh_packets()), (window, Some(10)));
    }
}

#[test]
fn rfc9002_7_7_packets_are_paced_at_five_quarters_of_the_window_per_round_trip() {
    let config = SenderConfig { datagram_bytes: 1000, ..SenderConfig::default() };
    let mut script = Script { sender: Sender::new(config) };
    script.sender.offer(u64::MAX);
    assert_eq!(script.sends(ms(0)).len(), 10);
    script.acks(ms(100), &[(0, 9)]);
    // 20 packets · 5/4 in 100 ms: one every 4 ms, after an initial window at once.
    assert_eq!(script.sender.cwnd_packets(), 20);
    assert_eq!(script.sends(ms(100)).len(), 10);
    for at in [104, 108, 112] {
        assert_eq!(script.sender.next_timer(), Some(ms(at)));
        script.sender.on_timer(ms(at));
        assert_eq!(script.sends(ms(at)).len(), 1);
    }
}
