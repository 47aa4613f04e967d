//! Properties that hold for every network.

use std::collections::BTreeSet;

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{
    Ack, Datagram, Receiver, ReceiverConfig, Sender, SenderConfig, SenderStats, Seq,
};
use proptest::prelude::*;

use super::network::{Network, Way};

fn way(loss: f64) -> impl Strategy<Value = Way> {
    (0.0..loss, 0.0..0.3, 0.0..200.0, 0.0..100.0).prop_map(|(loss, repeated, shortest, spread)| Way {
        loss,
        repeated,
        delay_ms: (shortest, shortest + spread),
    })
}

fn accounted(stats: &SenderStats, outstanding: u32) -> u64 {
    stats.acked + stats.lost + stats.unreported + u64::from(outstanding)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The window is never exceeded (asserted at every packet), every packet has one outcome, nothing is delivered twice or
    /// invented, and the stream always ends. Numbers begin near the wrap of 24 bits.
    #[test]
    fn the_stream_ends_despite_loss_duplication_and_reordering(
        ways in [way(0.6), way(0.6)],
        beta in 0.05_f64..0.95, initial_window in 1_u32..20, max_window in 1_u16..200, rwnd in 0_u16..100,
        packets in 1_u64..800, first in (1_u64 << 24) - 400..(1 << 24) + 10, seed in any::<u64>(),
    ) {
        let first = Seq::of(first);
        let sender =
            SenderConfig { initial_window, max_window, first, ..SenderConfig::tcp_friendly(beta) };
        let mut network = Network::new(sender, ReceiverConfig { rwnd, first }, ways, seed);
        network.sender.offer(packets);
        let mut events = 0_u64;
        while !network.sender.is_idle() {
            prop_assert!(network.step(), "a deadlock");
            let stats = network.sender.stats();
            prop_assert_eq!(accounted(stats, network.sender.outstanding()), stats.sent);
            prop_assert!(network.sender.cwnd() >= 1.0);
            events += 1;
            prop_assert!(events < 200 * (packets + 10), "no end");
        }
        while network.step() {}
        let stats = *network.sender.stats();
        prop_assert_eq!(stats.sent, packets);
        let distinct: BTreeSet<u64> = network.delivered.iter().copied().collect();
        prop_assert_eq!(distinct.len(), network.delivered.len());
        prop_assert!(distinct.last().is_none_or(|&last| last < packets));
        let received = *network.receiver.stats();
        prop_assert_eq!(received.received, network.delivered.len() as u64);
        prop_assert!(stats.acked <= received.received, "what did not arrive is not acknowledged");
        network.receiver.on_end(network.sender.end());
        prop_assert_eq!(network.receiver.stats().missing(), packets - received.received);
    }

    /// A network without loss and reordering: nothing is counted as lost, and there is no timeout.
    #[test]
    fn without_losses_no_packet_counts_as_lost(
        delay in 0.1_f64..400.0, packets in 1_u64..3_000, rwnd in 1_u16..200, beta in 0.1_f64..0.9,
    ) {
        let clean = Way { loss: 0.0, repeated: 0.0, delay_ms: (delay, delay) };
        let config = ReceiverConfig { rwnd, ..ReceiverConfig::default() };
        let mut network = Network::new(SenderConfig::tcp_friendly(beta), config, [clean, clean], 1);
        network.sender.offer(packets);
        while network.step() {}
        let stats = *network.sender.stats();
        prop_assert_eq!((stats.acked, stats.lost, stats.timeouts, stats.backoffs), (packets, 0, 0, 0));
        prop_assert_eq!(network.sender.min_rtt(), Some(Nanos::from_millis_f64(delay) * 2));
    }

    /// Arbitrary acknowledgments and datagrams: no panic, and the counts stay consistent.
    #[test]
    fn arbitrary_packets_keep_the_counts_consistent(
        acks in prop::collection::vec((0_u64..64, any::<u8>(), any::<u16>(), any::<u32>(), 0_u64..500), 1..200),
        datagrams in prop::collection::vec((any::<u64>(), any::<u32>()), 1..200),
    ) {
        let mut sender = Sender::new(SenderConfig::default());
        sender.offer(u64::MAX);
        let mut now = Nanos::ZERO;
        for (seq, vector, rwnd, transit_us, wait) in acks {
            while sender.poll_transmit(now).is_some() {}
            now += Nanos::from_millis(wait);
            sender.on_timer(now);
            sender.on_ack(now, &Ack { seq: Seq::of(seq), vector, rwnd, transit_us });
            prop_assert_eq!(accounted(sender.stats(), sender.outstanding()), sender.stats().sent);
            prop_assert!(sender.window() >= 1);
        }
        let mut receiver = Receiver::new(ReceiverConfig::default());
        for (number, sent_us) in datagrams {
            receiver.on_datagram(now, &Datagram { seq: Seq::of(number), sent_us });
            receiver.on_end(Seq::of(number.rotate_left(7)));
            prop_assert!(receiver.stats().received <= receiver.stats().expected);
        }
    }
}

/// A stream that wraps the 24 bits more than once, with losses.
#[test]
fn numbers_may_wrap_repeatedly() {
    let way = Way { loss: 0.02, repeated: 0.0, delay_ms: (10.0, 10.0) };
    let sender = SenderConfig { initial_window: 2_000, ..SenderConfig::default() };
    let mut network =
        Network::new(sender, ReceiverConfig { rwnd: 40, ..ReceiverConfig::default() }, [way, way], 3);
    let packets = (1 << 24) + 100_000;
    // Numbers are skipped in blocks: the packets between are never sent.
    let mut jumped = 0;
    while jumped + 1_000 < packets {
        network.sender.offer(200);
        while !network.sender.is_idle() {
            assert!(network.step());
        }
        while network.step() {}
        let skipped = (packets - jumped - 200).min((1 << 20) - 200);
        network.sender.offer(skipped);
        while !network.sender.is_idle() {
            while let Some(datagram) = network.sender.poll_transmit(network.now) {
                let (ack, _) = network.receiver.on_datagram(network.now, &datagram);
                network.sender.on_ack(network.now, &ack);
            }
        }
        jumped += 200 + skipped;
    }
    let (sent, received) = (*network.sender.stats(), *network.receiver.stats());
    assert!(sent.sent >= 1 << 24 && sent.strange_acks == 0 && received.too_late == 0);
    assert_eq!(accounted(&sent, 0), sent.sent);
    assert!(received.expected <= sent.sent && received.expected + 40 > sent.sent);
    assert!(sent.spurious < 100, "{sent:?}");
}
