//! Congestion control against measured Linux kernels, over the path of the measurement (`traces/README.md`).
//!
//! With `LINUX_PATH_CSV=directory` every run writes its samples there, with `LINUX_PATH_SVG=directory` a picture of its
//! window and the kernel's.

// `--nocapture` prints the figures of the comparison.
#![allow(clippy::print_stdout)]

mod compare;
mod path;
mod picture;
mod trace;

use compare::{Limits, compare, compare_as};
use fairhop_model::units::Nanos;
use fairhop_transport::quic;
use fairhop_transport::tcp::{CongestionKind, Receiver, ReceiverConfig, Sender, SenderConfig};
use path::{Loss, Path};
use trace::{SETTLED_MS, Trace};

/// The receiver of the measured kernels; the buffer is never a limit.
fn receiver() -> ReceiverConfig {
    ReceiverConfig { buffer: 16 << 20, ..ReceiverConfig::linux() }
}

fn sender(congestion: CongestionKind) -> SenderConfig {
    SenderConfig { congestion, ..SenderConfig::linux() }
}

/// A TCP flow over the path of the measured kernels.
fn tcp(congestion: CongestionKind, receiver: ReceiverConfig, loss: Loss) -> Trace {
    tcp_with(sender(congestion), receiver, loss)
}

fn tcp_with(config: SenderConfig, receiver: ReceiverConfig, loss: Loss) -> Trace {
    let mut sender = Sender::new(config);
    sender.offer(u64::MAX);
    sender.open(Nanos::ZERO);
    Path::new(loss).run(&mut sender, Receiver::new(receiver))
}

#[test]
fn the_traces_give_the_figures_that_were_reported_with_them() {
    // Goodput in Mb/s; mean, minimum and maximum of the window from 10 s on.
    let reported = [
        ("reno_0", 9.550, 65.1, 42, 85),
        ("cubic_0", 9.550, 74.5, 58, 84),
        ("vegas_0", 9.550, 38.0, 38, 38),
        ("westwood_0", 9.505, 62.3, 34, 85),
        ("bbr_0", 9.371, 76.5, 4, 80),
        ("reno_n200", 4.376, 16.2, 11, 22),
        ("cubic_n200", 4.022, 14.8, 12, 18),
        ("vegas_n200", 4.327, 16.2, 11, 22),
        ("bbr_n200", 9.324, 69.4, 4, 82),
    ];
    for (name, goodput_mbps, mean, min, max) in reported {
        let trace = Trace::of_kernel(name);
        assert_eq!(trace.samples.len(), 600, "{name}");
        let summary = trace.summary();
        assert!((summary.goodput_mbps - goodput_mbps).abs() < 0.001, "{name}: {summary:?}");
        assert!((summary.cwnd_mean - mean).abs() < 0.051, "{name}: {summary:?}");
        assert_eq!((summary.cwnd_min, summary.cwnd_max), (min, max), "{name}");
    }
    assert!((Trace::of_kernel("westwood_n200").summary().goodput_mbps - 6.647).abs() < 0.002);
}

#[test]
fn the_path_has_the_delay_and_the_rate_of_the_measured_path() {
    let ours = tcp(CongestionKind::NewReno, receiver(), Loss::QueueOnly);
    let kernel = Trace::of_kernel("reno_0");
    // A SYN of 74 B takes 59.2 us at 10 Mb/s, plus 40 ms both ways. Only the path determines the following slow start.
    for (ours, theirs) in ours.samples.iter().zip(&kernel.samples).take(3) {
        assert_eq!((ours.cwnd, ours.acked_bytes), (theirs.cwnd, theirs.acked_bytes));
        assert!(ours.srtt_us.abs_diff(theirs.srtt_us) <= 1, "{ours:?} {theirs:?}");
    }
}

#[test]
fn reno_as_linux() {
    compare("reno_0", &tcp(CongestionKind::Reno, receiver(), Loss::QueueOnly), Limits::STANDARD);
    compare("reno_n200", &tcp(CongestionKind::Reno, receiver(), Loss::Every200th), Limits::STANDARD);
}

#[test]
fn cubic_as_linux() {
    compare("cubic_0", &tcp(CongestionKind::Cubic, receiver(), Loss::QueueOnly), Limits::STANDARD);
    compare("cubic_n200", &tcp(CongestionKind::Cubic, receiver(), Loss::Every200th), Limits::STANDARD);
}

#[test]
fn bbr_as_linux() {
    compare("bbr_0", &tcp(CongestionKind::Bbr, receiver(), Loss::QueueOnly), Limits::STANDARD);
    compare("bbr_n200", &tcp(CongestionKind::Bbr, receiver(), Loss::Every200th), Limits::STANDARD);
}

#[test]
fn bbr_holds_the_bottleneck_with_a_queue_of_at_most_one_and_a_quarter_of_what_the_path_holds() {
    for seed in 0..8 {
        let mut config = sender(CongestionKind::Bbr);
        config.tuning.seed = seed;
        let trace = tcp_with(config, receiver(), Loss::QueueOnly);
        let settled: Vec<_> = trace.samples.iter().filter(|s| s.t_ms >= 2000).collect();
        let (first, last) = (settled[0], settled[settled.len() - 1]);
        let rate =
            (last.acked_bytes - first.acked_bytes) as f64 * 8.0 / ((last.t_ms - first.t_ms) as f64 * 1e3);
        // PROBE_RTT costs 0.2 s of ten, plus the time to fill the path again.
        assert!(rate > 0.97 * 9.564, "seed {seed}: {rate} Mb/s");
        // In flight are the path's 34 packets and the queue; the gain is 5/4 at most on average.
        let bdp = 9.564e6 * 0.0412 / (8.0 * 1448.0);
        let mean = settled.iter().map(|s| f64::from(s.unacked)).sum::<f64>() / settled.len() as f64;
        let queue = mean - bdp;
        assert!(queue < 0.25 * bdp, "seed {seed}: {mean} in flight, the path's product is {bdp}");
        let max = settled.iter().map(|s| s.unacked).max().unwrap_or(0);
        assert!(f64::from(max) <= 2.25 * bdp, "seed {seed}: {max} in flight");
    }
}

#[test]
fn vegas_as_linux() {
    let ours = tcp(CongestionKind::Vegas, receiver(), Loss::QueueOnly);
    compare("vegas_0", &ours, Limits::STANDARD);
    // Without loss the kernel's run is reproducible, so every sample is compared. The first one is one acknowledgment
    // behind, because the kernel's sender pushes its 23rd segment and the receiver answers at once.
    for (ours, theirs) in ours.samples.iter().zip(&Trace::of_kernel("vegas_0").samples) {
        assert!(ours.cwnd.abs_diff(theirs.cwnd) <= 1, "{ours:?} {theirs:?}");
        assert!(ours.ssthresh.abs_diff(theirs.ssthresh) <= 1, "{ours:?} {theirs:?}");
        assert!(ours.acked_bytes.abs_diff(theirs.acked_bytes) <= 2 * 1448, "{ours:?} {theirs:?}");
    }
    compare("vegas_n200", &tcp(CongestionKind::Vegas, receiver(), Loss::Every200th), Limits::STANDARD);
}

#[test]
fn westwood_plus_as_linux() {
    // The phase of the kernel's ticks is unknown.
    let limits = Limits { goodput: 0.04, ..Limits::STANDARD };
    compare("westwood_0", &tcp(CongestionKind::WestwoodPlus, receiver(), Loss::QueueOnly), limits);
    compare("westwood_n200", &tcp(CongestionKind::WestwoodPlus, receiver(), Loss::Every200th), limits);
}

/// The same controllers over QUIC-like datagrams. A frame of 1514 B carries 0.8 % less payload, there are no quick
/// acknowledgments, and acknowledgments are delayed by at most 25 ms.
///
/// After slow start the number of retransmissions is the kernel's. In slow start acknowledgments of pairs matter, because
/// two packets take 2.42 ms and HyStart's train needs gaps below 2 ms. The path holds 83 packets, 50 in the queue and 33 in
/// transit (40 ms / 1.211 ms). Maximum number of packets that slow start drops:
///
/// - *NewReno:* each packet that arrives releases two, one too many. The first drop is detected after the 83 packets before
///   it and three after it have arrived: 1 + 86.
/// - *CUBIC:* HyStart has only the delay criterion. The packets of the round that began with a window of 40 were queued. The
///   ninth acknowledgment of the next round detects this; the eight pairs before it have grown the window from 80 to 96.
///   Then one more per 20 of the 86 packets that arrive: 96 + 4 − 83, plus the packet being sent.
/// - *Vegas:* none; it stops at the first queued packets.
/// - *BBR:* STARTUP lasts three round trips without a growing rate, with 2.89 times the 34 packets of a round trip and 3 in
///   the window: 3 · (101 − 83).
#[test]
fn over_quic_a_controller_keeps_the_window_that_it_keeps_in_linux() {
    let limits = Limits { goodput: 0.05, retransmitted_from_ms: SETTLED_MS, ..Limits::STANDARD };
    for (congestion, name, slow_start_drops) in [
        (CongestionKind::NewReno, "reno", 87),
        (CongestionKind::Cubic, "cubic", 18),
        (CongestionKind::Vegas, "vegas", 0),
        (CongestionKind::Bbr, "bbr", 54),
    ] {
        for (loss, suffix) in [(Loss::QueueOnly, "0"), (Loss::Every200th, "n200")] {
            let config = quic::SenderConfig {
                congestion,
                initial_max_data: 16 << 20,
                ..quic::SenderConfig::default()
            };
            let mut sender = quic::Sender::new(config);
            sender.offer(u64::MAX);
            let config = quic::ReceiverConfig { buffer: 16 << 20, ..quic::ReceiverConfig::default() };
            let ours = Path::new(loss).run(&mut sender, quic::Receiver::new(config));
            let kernel = format!("{name}_{suffix}");
            compare_as(&format!("quic_{kernel}"), &kernel, &ours, limits);
            // With random loss the window never fills the queue again after slow start.
            if loss == Loss::Every200th {
                assert!(ours.queue_drops <= slow_start_drops, "{kernel}: {} drops", ours.queue_drops);
            }
            // The path keeps the order, so only dropped packets are declared lost and retransmitted, in packets with at most
            // 1440 B of payload.
            let (stats, drops) = (sender.stats(), ours.queue_drops + ours.link_drops);
            assert_eq!((stats.spurious_losses, stats.probe_timeouts), (0, 0), "{kernel}: {stats:?}");
            assert!(stats.packets_lost <= drops, "{kernel}: {drops} drops, {stats:?}");
            assert!(
                drops <= stats.packets_lost + u64::from(sender.in_flight()),
                "{kernel}: {drops}, {stats:?}"
            );
            assert!(stats.bytes_retransmitted <= stats.packets_lost * 1440, "{kernel}: {stats:?}");
        }
    }
}

#[test]
fn random_loss_costs_the_variants_made_for_it_less_than_reno() {
    let goodput = |congestion| tcp(congestion, receiver(), Loss::Every200th).summary().goodput_mbps;
    let reno = goodput(CongestionKind::Reno);
    // Veno reduces the window by a fifth instead of half without a queue. Westwood's window is the path's product.
    // Compound's second window begins at 16 segments and does not matter here.
    assert!(goodput(CongestionKind::Veno) > 1.4 * reno);
    assert!(goodput(CongestionKind::WestwoodPlus) > 1.4 * reno);
    assert!(goodput(CongestionKind::Westwood) > 2.0 * reno);
    assert!((goodput(CongestionKind::Compound) / reno - 1.0).abs() < 0.02);
}

/// Losses that are close together halved Veno's window before it followed Linux's Disorder state and round-trip times of
/// SACKed segments: goodput was 6.8 % under the kernel's at 0.5 % random loss (1.33 times Reno's).
#[test]
fn veno_under_independent_random_loss_has_1_4_times_the_goodput_of_reno() {
    let mean = |congestion| {
        let runs = (0..12).map(|seed| tcp(congestion, receiver(), Loss::Random(seed)).summary().goodput_mbps);
        runs.sum::<f64>() / 12.0
    };
    let (veno, reno) = (mean(CongestionKind::Veno), mean(CongestionKind::Reno));
    println!("random loss of 0.5 %: Veno {veno:.3}, Reno {reno:.3} Mb/s");
    assert!(veno > 1.4 * reno, "{veno} against {reno} Mb/s");
}
