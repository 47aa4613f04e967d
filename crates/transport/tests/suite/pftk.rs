//! NewReno against the full model of Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998, equation 32).
//!
//! The path has a delay of 50 ms each way and no other limit, so that the round-trip time is constant and the timeout is
//! its minimum, one second. The result depends mainly on the meaning of `p`; `docs/validation/tcp-newreno.md` explains
//! why there are two tests.
// `--nocapture` prints the tables.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

const ONE_WAY: Nanos = Nanos::from_millis(50);
const RTT_S: f64 = 0.1;
const TIMEOUT_S: f64 = 1.0;
const LOSSES: [f64; 7] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05];

/// Packets sent per second. A packet is lost with probability `p` if no earlier one of its round was lost; the window
/// grows per `b` acknowledged packets.
fn model(p: f64, b: f64) -> f64 {
    let q = 1.0 - p;
    let c = (2.0 + b) / (3.0 * b);
    let window = c + (8.0 * q / (3.0 * b * p) + c * c).sqrt();
    let timeout =
        (1.0 - q.powi(3)) * (1.0 + q.powi(3) * (1.0 - q.powf(window - 3.0))) / (1.0 - q.powf(window));
    let timeout = timeout.min(1.0);
    let backoff = 1.0 + (0..6).map(|i| f64::from(1 << i) * p.powi(i + 1)).sum::<f64>();
    (q / p + window + timeout / q) / (RTT_S * (b / 2.0 * window + 1.0) + timeout * TIMEOUT_S * backoff / q)
}

#[test]
fn the_model_gives_the_values_computed_by_hand() {
    // p = 0.01, b = 1: c = 1, E[W] = 1 + √(8·0.99/0.03 + 1) = 17.279; Q̂ = 0.029701 · (1 + 0.970299 · (1 − 0.99^14.279))
    // / (1 − 0.99^17.279) = 0.029701 · 1.129693 / 0.159407 = 0.210486; f = 1.010204. (99 + 17.279 + 0.212612) /
    // (0.96395 + 0.214781) = 98.83.
    assert!((model(0.01, 1.0) - 98.83).abs() < 0.01, "{}", model(0.01, 1.0));
}

/// xorshift64*.
struct Rng(u64);

impl Rng {
    fn chance(&mut self, probability: f64) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

/// Loss process.
#[derive(Clone, Copy)]
enum Losses {
    /// Each packet independently.
    Independent,
    /// With the rest of its round, that is, all packets sent in the next half round-trip time.
    Runs,
}

/// Result of a run.
struct Outcome {
    /// Packets sent per second.
    rate: f64,
    /// Fast recoveries and timeouts per packet sent; consecutive timeouts without progress count once.
    indications: f64,
    /// Share of timeouts among them.
    timeouts: f64,
}

/// A flow that sends 4,000 / p packets.
fn run(sender: SenderConfig, receiver: ReceiverConfig, losses: Losses, p: f64) -> Outcome {
    let mut sender = Sender::new(sender);
    let mut receiver = Receiver::new(receiver);
    let mut rng = Rng(77);
    let mut now = Nanos::ZERO;
    let mut flying: VecDeque<(Nanos, bool, Segment)> = VecDeque::new();
    let (mut run_until, mut timer_runs, mut timeouts, mut acked) = (Nanos::ZERO, 0, 0, None);
    sender.offer(u64::MAX);
    sender.open(now);
    let packets = (4000.0 / p) as u64;
    while sender.stats().segments_sent < packets {
        while let Some(segment) = sender.poll_transmit(now) {
            let in_run = now < run_until;
            let lost = segment.len > 0 && (in_run || rng.chance(p));
            if lost && !in_run && matches!(losses, Losses::Runs) {
                run_until = now + ONE_WAY;
            }
            if !lost {
                flying.push_back((now + ONE_WAY, true, segment));
            }
        }
        while let Some(segment) = receiver.poll_transmit(now) {
            flying.push_back((now + ONE_WAY, false, segment));
        }
        let times = [flying.front().map(|f| f.0), sender.next_timer(), receiver.next_timer()];
        now = times.into_iter().flatten().min().expect("an endless stream");
        if let Some(&(_, forward, segment)) = flying.front().filter(|f| f.0 <= now) {
            flying.pop_front();
            if forward {
                receiver.on_segment(now, &segment);
            } else {
                sender.on_segment(now, &segment);
            }
        }
        sender.on_timer(now);
        receiver.on_timer(now);
        if sender.stats().timeouts > timer_runs {
            timer_runs = sender.stats().timeouts;
            timeouts += u64::from(acked.replace(sender.bytes_acked()) != Some(sender.bytes_acked()));
        }
    }
    let indications = (sender.stats().fast_recoveries + timeouts) as f64;
    Outcome {
        rate: packets as f64 / now.as_secs_f64(),
        indications: indications / packets as f64,
        timeouts: timeouts as f64 / indications,
    }
}

/// Byte counting of the sender, segments per acknowledgment of the receiver, and the model's b.
const ACKS: [(bool, u32, f64); 3] = [(true, 2, 1.0), (false, 1, 1.0), (false, 2, 2.0)];

#[test]
fn newreno_sends_at_the_models_rate_for_its_rate_of_loss_indications() {
    println!(
        "counts bytes, segments/ACK, p: sent/s, indications/packet (share of timeouts), model, ratio; model at p, ratio"
    );
    for (byte_counting, delayed_ack_segments, b) in ACKS {
        for p in LOSSES {
            let sender = SenderConfig { byte_counting, sack: false, ..SenderConfig::default() };
            let receiver =
                ReceiverConfig { delayed_ack_segments, buffer: 1 << 26, ..ReceiverConfig::default() };
            let Outcome { rate, indications, timeouts } = run(sender, receiver, Losses::Independent, p);
            let (predicted, at_p) = (model(indications, b), model(p, b));
            let ratio = rate / predicted;
            println!(
                "{byte_counting} {delayed_ack_segments} {p}: {rate:.1}, {indications:.5} ({timeouts:.3}), {predicted:.1}, \
                 {ratio:.3}; {at_p:.1}, {:.3}",
                rate / at_p
            );
            assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
        }
    }
}

#[test]
fn with_sack_it_sends_at_the_models_rate_for_the_models_own_losses() {
    println!("p: sent/s, indications/packet (share of timeouts), model, ratio");
    for p in LOSSES {
        let sender = SenderConfig { byte_counting: false, ..SenderConfig::default() };
        let receiver =
            ReceiverConfig { delayed_ack_segments: 1, buffer: 1 << 26, ..ReceiverConfig::default() };
        let Outcome { rate, indications, timeouts } = run(sender, receiver, Losses::Runs, p);
        let predicted = model(p, 1.0);
        let ratio = rate / predicted;
        println!("{p}: {rate:.1}, {indications:.5} ({timeouts:.3}), {predicted:.1}, {ratio:.3}");
        assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
    }
}
