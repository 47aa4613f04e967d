//! C-FRIEND: AIMD(α, β) with α = 3(1 − β)/(1 + β) gets the throughput of TCP under the same losses (cai2005, equation 1). Each flow
//! is alone on a path of 100 ms with independent losses.
//!
//! The theory assumes a sawtooth: with a loss every 1/p packets, the mean window of any TCP-friendly pair is √(3/2p). It
//! ignores timeouts and the randomness of losses.
// `--nocapture` shows the table.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{Receiver, ReceiverConfig, Sender, SenderConfig};
use fairhop_transport::tcp;

use super::network::Uniform;

const ONE_WAY: Nanos = Nanos::from_millis(50);

/// Packets per round trip of an AIMD flow.
fn datagrams(beta: f64, loss: f64) -> f64 {
    let mut sender = Sender::new(SenderConfig::tcp_friendly(beta));
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let (mut uniform, mut now) = (Uniform(5), Nanos::ZERO);
    let mut answers = VecDeque::new();
    sender.offer(u64::MAX);
    let packets = (2_000.0 / loss) as u64;
    while sender.stats().sent < packets {
        while let Some(datagram) = sender.poll_transmit(now) {
            if uniform.draw() >= loss {
                let (ack, _) = receiver.on_datagram(now + ONE_WAY, &datagram);
                answers.push_back((now + ONE_WAY * 2, ack));
            }
        }
        let answer = answers.front().map(|&(at, _)| at);
        now = [answer, sender.next_timer()].into_iter().flatten().min().expect("a stream without end");
        if answer == Some(now) {
            answers.pop_front().into_iter().for_each(|(_, ack)| sender.on_ack(now, &ack));
        }
        sender.on_timer(now);
    }
    packets as f64 * ONE_WAY.as_secs_f64() * 2.0 / now.as_secs_f64()
}

/// Packets per round trip of NewReno with an acknowledgment for each segment, as in AIMD.
fn newreno(loss: f64) -> f64 {
    let mut sender = tcp::Sender::new(tcp::SenderConfig::default());
    let mut receiver =
        tcp::Receiver::new(tcp::ReceiverConfig { delayed_ack_segments: 1, ..tcp::ReceiverConfig::default() });
    let (mut uniform, mut now) = (Uniform(5), Nanos::ZERO);
    let mut flying: VecDeque<(Nanos, bool, tcp::Segment)> = VecDeque::new();
    sender.offer(u64::MAX);
    sender.open(now);
    let packets = (2_000.0 / loss) as u64;
    while sender.stats().segments_sent < packets {
        while let Some(segment) = sender.poll_transmit(now) {
            if segment.len == 0 || uniform.draw() >= loss {
                flying.push_back((now + ONE_WAY, true, segment));
            }
        }
        while let Some(segment) = receiver.poll_transmit(now) {
            flying.push_back((now + ONE_WAY, false, segment));
        }
        let times = [flying.front().map(|f| f.0), sender.next_timer(), receiver.next_timer()];
        now = times.into_iter().flatten().min().expect("a stream without end");
        if let Some(&(_, forward, segment)) = flying.front().filter(|f| f.0 <= now) {
            flying.pop_front();
            if forward { receiver.on_segment(now, &segment) } else { sender.on_segment(now, &segment) }
        }
        sender.on_timer(now);
        receiver.on_timer(now);
    }
    packets as f64 * ONE_WAY.as_secs_f64() * 2.0 / now.as_secs_f64()
}

#[test]
fn c_friend_tcp_friendly_pairs_get_the_throughput_of_tcp_under_the_same_losses() {
    println!("| loss | √(3/2p) | NewReno | AIMD(1, 0.5) | AIMD(0.529, 0.7) | AIMD(0.2, 0.875) |");
    for loss in [0.001_f64, 0.003, 0.01] {
        let theory = (1.5 / loss).sqrt();
        let tcp = newreno(loss);
        let pairs = [0.5, 0.7, 0.875].map(|beta| datagrams(beta, loss));
        println!("| {loss} | {theory:.1} | {tcp:.1} | {:.1} | {:.1} | {:.1} |", pairs[0], pairs[1], pairs[2]);
        for found in pairs {
            assert!((found / tcp - 1.0).abs() < 0.15, "{loss}: {found} {tcp}");
        }
    }
}
