//! C-OUTAGE and C-OPT without cross traffic: a flow over a slotted wireless link with a Markov channel and ARQ. The largest
//! rwnd with at most 1 % of the packets more than 10 slots late is compared with the analysis (cai2005, equation 3 and
//! figures 3 and 4).
//!
//! A packet and its acknowledgment take R = 17 slots without queueing. The base station has a buffer of rwnd packets and
//! retransmits a lost frame until it arrives, in the next slot or after a skipped one.
// `--nocapture` shows the table.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;

use fairhop_model::markov::Channel;
use fairhop_model::outage::{Arq, Link, Start};
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::{Ack, Datagram, Receiver, ReceiverConfig, Sender, SenderConfig};

use super::network::Uniform;

const SLOT: Nanos = Nanos(5_000_000);
const RTT_SLOTS: u64 = 17;
const DELAY_SLOTS: u64 = 10;
const BOUND: f64 = 0.01;

/// The fraction of late packets, and the packets delivered per slot.
fn run(link: &Link, rwnd: u16, slots: u64) -> (f64, f64) {
    let mut sender = Sender::new(SenderConfig::default());
    let mut receiver = Receiver::new(ReceiverConfig { rwnd, ..ReceiverConfig::default() });
    let mut uniform = Uniform(11);
    let channel = link.channel();
    let mut state = channel.draw_initial(uniform.draw());
    let mut skip = false;
    let mut queue: VecDeque<(u64, Datagram)> = VecDeque::new();
    let mut returning: VecDeque<(u64, Ack)> = VecDeque::new();
    let (mut late, mut crossed) = (0_u64, 0_u64);
    sender.offer(u64::MAX);
    for slot in 0..slots {
        let now = Nanos(slot * SLOT.0);
        while returning.front().is_some_and(|&(at, _)| at <= slot) {
            let Some((_, ack)) = returning.pop_front() else { break };
            sender.on_ack(now, &ack);
            while let Some(datagram) = sender.poll_transmit(now) {
                queue.push_back((slot, datagram));
            }
        }
        sender.on_timer(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            queue.push_back((slot, datagram));
        }
        assert!(queue.len() <= usize::from(rwnd), "the buffer is as large as the window");
        let sends = !skip && !queue.is_empty();
        let through = sends && channel.draw_success(state, uniform.draw());
        skip = link.arq() == Arq::Optimal && sends && !through;
        state = channel.draw_next(state, uniform.draw());
        if through && let Some((sent, datagram)) = queue.pop_front() {
            let (ack, _) = receiver.on_datagram(now, &datagram);
            returning.push_back((slot + RTT_SLOTS, ack));
            crossed += 1;
            late += u64::from(slot - sent > DELAY_SLOTS);
        }
    }
    assert_eq!((sender.stats().lost, sender.stats().backoffs), (0, 0), "nothing is lost");
    (late as f64 / crossed as f64, crossed as f64 / slots as f64)
}

/// The largest window within the bound, searched from slightly below the analysis.
fn largest(link: &Link, analysis: u32) -> u32 {
    let windows = analysis.saturating_sub(3)..;
    windows.take_while(|&rwnd| run(link, rwnd as u16, 300_000).0 <= BOUND).last().unwrap_or(0)
}

#[test]
fn c_outage_and_c_opt_the_largest_window_is_that_of_the_analysis_to_within_a_packet() {
    println!(
        "| loss % | persistent: analysis | simulated | packets/slot | optimal: analysis | simulated | packets/slot |"
    );
    for percent in 1..=10 {
        let error = f64::from(percent) / 100.0;
        let link = |states, memory, arq| {
            Link::new(Channel::multi_state(states, error, memory).expect("a channel"), arq).expect("a link")
        };
        let mut windows = Vec::new();
        for link in [link(2, 0.0, Arq::Persistent), link(3, 0.35, Arq::Optimal)] {
            let analysis = link.max_window((RTT_SLOTS + DELAY_SLOTS) as u32, BOUND, Start::AnySlot);
            let simulated = largest(&link, analysis);
            assert!(simulated.abs_diff(analysis) <= 1, "{percent}: {simulated} {analysis}");
            windows.push((analysis, simulated, run(&link, simulated as u16, 100_000).1));
        }
        println!(
            "| {percent} | {} | {} | {:.3} | {} | {} | {:.3} |",
            windows[0].0, windows[0].1, windows[0].2, windows[1].0, windows[1].1, windows[1].2
        );
        assert!(windows[1].0 < windows[0].0 && windows[1].1 < windows[0].1, "optimal allows less");
    }
}
