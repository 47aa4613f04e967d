//! The progress bar: simulated time, wall time, their ratio, time left and the size of captures, over all runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ui;

/// A shorter run shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// Progress of several runs together, shown if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: AtomicBool,
    /// Bytes of captures so far, over all runs.
    captured: AtomicU64,
}

impl Progress {
    /// Progress of runs that simulate `total` together.
    pub(crate) fn new(total: Nanos) -> Self {
        let bar = bar(Some(total.0), ProgressDrawTarget::hidden());
        // Off a terminal the bar stays hidden, as if it had been shown already.
        Self {
            bar,
            began: Instant::now(),
            shown: AtomicBool::new(!ui::is_watched()),
            captured: AtomicU64::new(0),
        }
    }

    /// A run has written `bytes` more to its captures.
    pub(crate) fn captured(&self, bytes: u64) {
        self.captured.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes a remark above the bar.
    pub(crate) fn remark(&self, text: &str) {
        self.bar.suspend(|| ui::remark(text));
    }

    /// A run has advanced by `step`.
    pub(crate) fn advance(&self, step: Nanos) {
        let wall = self.began.elapsed();
        if wall > PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(step.0);
        if !self.bar.is_hidden() {
            let simulated = Nanos(self.bar.position()).as_secs_f64();
            let total = Nanos(self.bar.length().unwrap_or_default()).as_secs_f64();
            let wall = wall.as_secs_f64();
            let captured = match self.captured.load(Ordering::Relaxed) {
                0 => String::new(),
                bytes => format!(", captures {}", size(bytes as f64)),
            };
            let left = duration(wall * (total - simulated).max(0.0) / simulated.max(1e-9));
            self.bar.set_message(format!(
                "{simulated:.1} of {total:.0} s simulated in {wall:.1} s, {} times real time, {left} left{captured}",
                significant(simulated / wall)
            ));
        }
    }

    /// An emulation has advanced by `step`; `text` says how it goes.
    pub(crate) fn emulated(&self, step: Nanos, text: &str) {
        if self.began.elapsed() > PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(step.0);
        let now = Nanos(self.bar.position()).as_secs_f64();
        let total = Nanos(self.bar.length().unwrap_or_default()).as_secs_f64();
        self.bar.set_message(format!("{now:.1} of {total:.0} s, {text}"));
    }

    /// Wall time since the start.
    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar with a message behind it.
pub(crate) fn bar(length: Option<u64>, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// A time in the unit that suits it.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A number of bytes with its unit, as in "1.3 GB".
pub(crate) fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 999.5e6 => format!("{:.1} GB", b / 1e9),
        b if b >= 999.5e3 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.0} kB", (b / 1e3).ceil()),
    }
}

/// A ratio with three significant digits.
pub(crate) fn significant(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ratios_are_short() {
        assert_eq!(
            [3.0, 80_000.0, 4.2e6, 999.6e6, 1.34e9].map(size),
            ["1 kB", "80 kB", "4 MB", "1.0 GB", "1.3 GB"]
        );
        assert_eq!([0.123, 12.34, 4567.8].map(significant), ["0.12", "12.3", "4568"]);
    }
}
