//! Comparison of a simulated flow with a kernel's.
// `--nocapture` prints the figures of the comparison.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;

use super::picture;
use super::trace::Trace;

/// Maximum differences. Two runs of a kernel differ in the phase of the sawtooth: about 1 % of goodput, one packet of the
/// mean and two of the extremes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Goodput, relative to the kernel's.
    pub(crate) goodput: f64,
    /// Mean of the window in packets.
    pub(crate) cwnd_mean: f64,
    /// Its minimum and maximum in packets.
    pub(crate) cwnd_extremes: u32,
    /// Packets retransmitted: relative to the kernel's, and a minimum tolerance. Without spurious retransmissions they
    /// equal the drops of queue and link.
    pub(crate) retransmitted: (f64, u64),
    /// Start of their count.
    pub(crate) retransmitted_from_ms: u64,
}

impl Limits {
    /// The limits unless a test explains others.
    pub(crate) const STANDARD: Self = Self {
        goodput: 0.02,
        cwnd_mean: 2.0,
        cwnd_extremes: 4,
        retransmitted: (0.05, 5),
        retransmitted_from_ms: 0,
    };
}

/// Compares a run with the kernel's of that name, and writes files if the environment requests them.
pub(crate) fn compare(name: &str, ours: &Trace, limits: Limits) {
    compare_as(name, name, ours, limits);
}

/// The same under another name than the kernel's trace.
pub(crate) fn compare_as(name: &str, kernel: &str, ours: &Trace, limits: Limits) {
    let kernel = Trace::of_kernel(kernel);
    write_files(name, ours, &kernel);
    let (a, b) = (ours.summary(), kernel.summary());
    let retransmitted = [ours, &kernel].map(|trace| trace.retransmitted_from(limits.retransmitted_from_ms));
    let report = format!(
        "{name}\n ours   {a:?} queue drops {}\n kernel {b:?}\n retransmitted {retransmitted:?}",
        ours.queue_drops
    );
    println!("{report}");
    let ratio = a.goodput_mbps / b.goodput_mbps;
    assert!((ratio - 1.0).abs() <= limits.goodput, "goodput {ratio:.4} of the kernel's: {report}");
    assert!((a.cwnd_mean - b.cwnd_mean).abs() <= limits.cwnd_mean, "mean window: {report}");
    assert!(a.cwnd_min.abs_diff(b.cwnd_min) <= limits.cwnd_extremes, "minimum window: {report}");
    assert!(a.cwnd_max.abs_diff(b.cwnd_max) <= limits.cwnd_extremes, "maximum window: {report}");
    let (part, min) = limits.retransmitted;
    let [a, b] = retransmitted;
    let allowed = ((b as f64 * part) as u64).max(min);
    assert!(a.abs_diff(b) <= allowed, "retransmissions: {report}");
}

/// The samples and the picture, if requested.
fn write_files(name: &str, ours: &Trace, kernel: &Trace) {
    if let Some(directory) = std::env::var_os("LINUX_PATH_CSV") {
        write(PathBuf::from(directory).join(format!("{name}.csv")), &ours.to_csv());
    }
    if let Some(directory) = std::env::var_os("LINUX_PATH_SVG") {
        write(PathBuf::from(directory).join(format!("{name}.svg")), &picture::windows(name, ours, kernel));
    }
}

fn write(path: PathBuf, text: &str) {
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
