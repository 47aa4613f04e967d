//! No machine allocates in steady state, including losses. The counting allocator counts per thread, so that the other
//! tests of this binary do not disturb it.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;
use fairhop_transport::aimd;
use fairhop_transport::quic;
use fairhop_transport::tcp::{CongestionKind, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

use crate::counting;

/// Runs for `millis` ms over a link of 10 ms that drops every 97th data segment.
fn run(
    sender: &mut Sender,
    receiver: &mut Receiver,
    flying: &mut VecDeque<(Nanos, bool, Segment)>,
    now: &mut Nanos,
    count: &mut u64,
    millis: u64,
) {
    for _ in 0..millis {
        *now += Nanos::from_millis(1);
        while flying.front().is_some_and(|&(at, ..)| at <= *now) {
            let Some((_, forward, segment)) = flying.pop_front() else { break };
            if forward {
                receiver.on_segment(*now, &segment);
            } else {
                sender.on_segment(*now, &segment);
            }
        }
        sender.on_timer(*now);
        receiver.on_timer(*now);
        while let Some(segment) = sender.poll_transmit(*now) {
            *count += 1;
            if !count.is_multiple_of(97) {
                flying.push_back((*now + Nanos::from_millis(10), true, segment));
            }
        }
        while let Some(segment) = receiver.poll_transmit(*now) {
            flying.push_back((*now + Nanos::from_millis(10), false, segment));
        }
    }
}

/// Allocations in one minute after a warm-up of twenty seconds.
fn allocations(sender: SenderConfig, receiver: ReceiverConfig) -> u64 {
    let (mut sender, mut receiver) = (Sender::new(sender), Receiver::new(receiver));
    let (mut flying, mut now, mut count) = (VecDeque::with_capacity(10_000), Nanos::ZERO, 0);
    sender.offer(u64::MAX);
    sender.open(now);
    run(&mut sender, &mut receiver, &mut flying, &mut now, &mut count, 20_000);
    let (before, retransmitted) = (counting::allocations(), sender.stats().segments_retransmitted);
    run(&mut sender, &mut receiver, &mut flying, &mut now, &mut count, 60_000);
    assert!(sender.stats().segments_retransmitted > retransmitted + 100);
    counting::allocations() - before
}

#[test]
fn a_lossy_transfer_allocates_nothing_once_it_is_warm() {
    for sack in [true, false] {
        let sender = SenderConfig { sack, ..SenderConfig::default() };
        let receiver = ReceiverConfig { sack, ..ReceiverConfig::default() };
        assert_eq!(allocations(sender, receiver), 0, "sack {sack}");
    }
    for congestion in [CongestionKind::Reno, CongestionKind::Cubic, CongestionKind::Bbr] {
        // BBR ignores losses: only the maximum window bounds its flight on a link without a rate limit.
        let sender = SenderConfig { congestion, max_window: Some(200), ..SenderConfig::linux() };
        assert_eq!(allocations(sender, ReceiverConfig::linux()), 0, "{congestion:?}");
    }
}

#[test]
fn a_stream_of_datagrams_never_allocates() {
    let mut sender = aimd::Sender::new(aimd::SenderConfig::default());
    let mut receiver = aimd::Receiver::new(aimd::ReceiverConfig { rwnd: 100, ..Default::default() });
    let mut flying = VecDeque::with_capacity(1_000);
    sender.offer(u64::MAX);
    let before = counting::allocations();
    for millis in 0..60_000 {
        let now = Nanos::from_millis(millis);
        while flying.front().is_some_and(|&(at, _)| at <= now) {
            let Some((_, ack)) = flying.pop_front() else { break };
            sender.on_ack(now, &ack);
        }
        sender.on_timer(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            if !sender.stats().sent.is_multiple_of(97) {
                let (ack, _) = receiver.on_datagram(now, &datagram);
                flying.push_back((now + Nanos::from_millis(20), ack));
            }
        }
    }
    assert!(sender.stats().lost > 100 && sender.stats().backoffs > 100);
    assert_eq!(counting::allocations() - before, 0);
}

#[test]
fn a_lossy_transfer_over_quic_allocates_nothing_once_it_is_warm() {
    let mut sender = quic::Sender::new(quic::SenderConfig::default());
    let mut receiver = quic::Receiver::new(quic::ReceiverConfig::default());
    let mut flying: VecDeque<(Nanos, bool, quic::Datagram)> = VecDeque::with_capacity(10_000);
    let (mut before, mut count) = (0, 0_u64);
    sender.offer(u64::MAX);
    for millis in 0..80_000 {
        let (now, arrival) = (Nanos::from_millis(millis), Nanos::from_millis(millis + 10));
        if millis == 20_000 {
            before = counting::allocations();
        }
        while flying.front().is_some_and(|&(at, ..)| at <= now) {
            let Some((_, forward, datagram)) = flying.pop_front() else { break };
            if forward {
                receiver.on_datagram(now, &datagram);
            } else {
                sender.on_datagram(now, &datagram);
            }
        }
        sender.on_timer(now);
        receiver.on_timer(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            count += 1;
            if !count.is_multiple_of(97) {
                flying.push_back((arrival, true, datagram));
            }
        }
        while let Some(datagram) = receiver.poll_transmit(now) {
            flying.push_back((arrival, false, datagram));
        }
    }
    assert!(sender.stats().packets_retransmitted > 100);
    assert_eq!(counting::allocations() - before, 0);
}
