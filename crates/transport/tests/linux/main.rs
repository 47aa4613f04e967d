//! Congestion control against measured Linux kernels, over the path on which they were measured (`traces/README.md`).
//!
//! `LINUX_PATH_CSV=directory` makes every run write its samples there, `LINUX_PATH_SVG=directory` a picture of its
//! window over the kernel's.

mod compare;
mod path;
mod picture;
mod trace;

use compare::{Limits, compare};
use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{CongestionKind, Receiver, ReceiverConfig, Sender, SenderConfig};
use path::{Loss, Path};
use trace::Trace;

/// The receiver of the measured kernels; the buffer is never a limit.
fn receiver() -> ReceiverConfig {
    ReceiverConfig { buffer: 16 << 20, ..ReceiverConfig::linux() }
}

fn sender(congestion: CongestionKind) -> SenderConfig {
    SenderConfig { congestion, ..SenderConfig::linux() }
}

/// A TCP flow over the path of the measured kernels.
fn tcp(congestion: CongestionKind, receiver: ReceiverConfig, loss: Loss) -> Trace {
    let mut sender = Sender::new(sender(congestion));
    sender.offer(u64::MAX);
    sender.open(Nanos::ZERO);
    Path::new(loss).run(sender, Receiver::new(receiver))
}

#[test]
fn the_kept_traces_give_the_figures_that_were_reported_with_them() {
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
    for (name, goodput_mbps, mean, least, most) in reported {
        let trace = Trace::of_kernel(name);
        assert_eq!(trace.samples.len(), 600, "{name}");
        let summary = trace.summary();
        assert!((summary.goodput_mbps - goodput_mbps).abs() < 0.001, "{name}: {summary:?}");
        assert!((summary.cwnd_mean - mean).abs() < 0.051, "{name}: {summary:?}");
        assert_eq!((summary.cwnd_min, summary.cwnd_max), (least, most), "{name}");
    }
    assert!((Trace::of_kernel("westwood_n200").summary().goodput_mbps - 6.647).abs() < 0.002);
}

#[test]
fn the_path_has_the_delay_and_the_rate_of_the_measured_one() {
    // The kernel acknowledges each of the first packets.
    let receiver = ReceiverConfig { delayed_ack_segments: 1, ..receiver() };
    let ours = tcp(CongestionKind::NewReno, receiver, Loss::QueueOnly);
    let kernel = Trace::of_kernel("reno_0");
    // A SYN of 74 B takes 59.2 us at 10 Mb/s, and the way there and back 40 ms; then slow start, which nothing but the
    // path decides.
    for (ours, theirs) in ours.samples.iter().zip(&kernel.samples).take(3) {
        assert_eq!((ours.cwnd, ours.acked_bytes), (theirs.cwnd, theirs.acked_bytes));
    }
    assert!(ours.samples[0].srtt_us.abs_diff(40_060) <= 1);
}

#[test]
fn reno_as_linux() {
    compare("reno_0", &tcp(CongestionKind::Reno, receiver(), Loss::QueueOnly), Limits::STANDARD);
    compare("reno_n200", &tcp(CongestionKind::Reno, receiver(), Loss::Every200th), Limits::STANDARD);
}

#[test]
fn vegas_as_linux() {
    compare("vegas_0", &tcp(CongestionKind::Vegas, receiver(), Loss::QueueOnly), Limits::STANDARD);
}

#[test]
fn westwood_plus_as_linux() {
    // The kernel's ticks do not begin when the connection does.
    let limits = Limits { goodput: 0.04, ..Limits::STANDARD };
    compare("westwood_0", &tcp(CongestionKind::WestwoodPlus, receiver(), Loss::QueueOnly), limits);
    compare("westwood_n200", &tcp(CongestionKind::WestwoodPlus, receiver(), Loss::Every200th), limits);
}
