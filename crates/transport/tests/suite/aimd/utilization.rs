//! C-UTIL: one flow on a link of fixed capacity (cai2005, section III-B, figure 1 and equation 2).
//!
//! The link sends one packet per slot from a buffer of B packets. A packet and its acknowledgment take R slots without
//! queueing, including the slot of the link. Rounds with an empty queue are stage I.

use std::collections::VecDeque;

use fairhop_model::outage::{full_use_buffer, stage_one_utilization, utilization_at};
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{Ack, Datagram, Receiver, ReceiverConfig, Sender, SenderConfig};

const SLOT: Nanos = Nanos(5_000_000);

/// How a flow used the link.
struct Run {
    /// Packets per slot, over all slots.
    utilization: f64,
    /// The same over the slots of stage I; none without stage I.
    stage_one: Option<f64>,
    lost: u64,
}

/// Runs a flow for `slots` slots after a warm-up of a tenth of them. A round of stage I is R slots: empty slots, then a
/// window of packets back to back. So stage I lasts from the first empty slot after a loss to the end of the round of the
/// last empty slot before the next loss, R − 1 slots later.
fn run(config: SenderConfig, rwnd: u16, rtt_slots: u64, buffer: usize, slots: u64) -> Run {
    let mut sender = Sender::new(config);
    let mut receiver = Receiver::new(ReceiverConfig { rwnd, ..ReceiverConfig::default() });
    let mut queue: VecDeque<Datagram> = VecDeque::new();
    let mut returning: VecDeque<(u64, Ack)> = VecDeque::new();
    sender.offer(u64::MAX);
    let (mut crossed, mut counted, mut lost) = (0_u64, 0_u64, 0);
    // Slots and packets since the first empty slot of a cycle, and both at the last empty slot.
    let mut stage: Option<[u64; 4]> = None;
    let (mut stage_slots, mut stage_packets) = (0_u64, 0_u64);
    for slot in 0..slots {
        let now = Nanos(slot * SLOT.0);
        while returning.front().is_some_and(|&(at, _)| at <= slot) {
            let Some((_, ack)) = returning.pop_front() else { break };
            sender.on_ack(now, &ack);
        }
        sender.on_timer(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            // The packet in the slot is on the link, not in the buffer.
            if queue.len() > buffer {
                lost += u64::from(slot >= slots / 10);
                if let Some([.., slots, packets]) = stage.take() {
                    stage_slots += slots + rtt_slots - 1;
                    stage_packets += packets + rtt_slots - 1;
                }
            } else {
                queue.push_back(datagram);
            }
        }
        let busy = match queue.pop_front() {
            Some(datagram) => {
                let (ack, _) = receiver.on_datagram(now, &datagram);
                returning.push_back((slot + rtt_slots, ack));
                1
            }
            None => 0,
        };
        if slot < slots / 10 {
            stage = None;
            continue;
        }
        counted += 1;
        crossed += busy;
        match &mut stage {
            Some([slots, packets, last_slots, last_packets]) => {
                *slots += 1;
                *packets += busy;
                if busy == 0 {
                    (*last_slots, *last_packets) = (*slots, *packets);
                }
            }
            None if busy == 0 => stage = Some([1, 0, 1, 0]),
            None => {}
        }
    }
    Run {
        utilization: crossed as f64 / counted as f64,
        stage_one: (stage_slots > 0).then(|| stage_packets as f64 / stage_slots as f64),
        lost,
    }
}

#[test]
fn c_util_stage_one_is_within_3_percent_of_the_formula_and_within_4_for_tcp_on_a_short_path() {
    for (beta, rtt_slots, buffers) in [
        (0.5, 40, &[10, 20, 30][..]),
        (0.7, 40, &[4, 9, 13][..]),
        (0.875, 40, &[1, 3, 4][..]),
        (0.875, 100, &[4, 11]),
        (0.5, 17, &[4, 9, 13]),
        (0.875, 17, &[1]),
    ] {
        for buffer in buffers.iter().copied() {
            let found = run(
                SenderConfig::tcp_friendly(beta),
                u16::MAX,
                rtt_slots,
                buffer,
                10_000 * rtt_slots.min(40),
            );
            let expected = stage_one_utilization(beta, rtt_slots as f64, buffer as f64);
            let stage_one = found.stage_one.expect("a stage I");
            println!(
                "| {beta} | {rtt_slots} | {buffer} | {expected:.4} | {stage_one:.4} | {:.4} |",
                found.utilization
            );
            // Windows are whole packets. With α = 1 and R = 17, on average half a packet is missing.
            let bound = if beta == 0.5 && rtt_slots == 17 { 0.04 } else { 0.03 };
            assert!((stage_one / expected - 1.0).abs() < bound, "{beta} {rtt_slots} {buffer}: {stage_one}");
        }
    }
}

#[test]
fn c_util_with_the_buffer_for_full_use_plus_three_packets_the_link_is_always_busy() {
    for (beta, rtt_slots) in [(0.5, 40), (0.7, 40), (0.875, 17), (0.875, 100)] {
        // A loss is detected three packets later, and windows are whole packets.
        let buffer = full_use_buffer(beta, rtt_slots as f64).ceil() as usize + 3;
        let found =
            run(SenderConfig::tcp_friendly(beta), u16::MAX, rtt_slots, buffer, 10_000 * rtt_slots.min(40));
        assert!(found.utilization > 0.999 && found.lost > 0, "{beta} {rtt_slots}: {}", found.utilization);
    }
}

#[test]
fn c_util_with_the_window_bounded_by_the_receiver_nothing_is_lost_and_the_link_is_used_by_rwnd_over_r() {
    for rwnd in [5_u16, 10, 17, 20, 27] {
        let found = run(SenderConfig::default(), rwnd, 17, 10, 50_000);
        let expected = utilization_at(f64::from(rwnd), 17.0);
        assert_eq!(found.lost, 0);
        assert!((found.utilization - expected).abs() < 1e-3, "{rwnd}: {} {expected}", found.utilization);
    }
}
