//! The progress bar: simulated time, wall time and their ratio, over all runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ui;

/// A run that is over before this shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// Progress of some runs together, shown on standard error where somebody watches it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: AtomicBool,
}

impl Progress {
    /// Of runs that simulate `total` together.
    pub(crate) fn new(total: Nanos) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total.0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        // Where nobody watches the bar stays hidden: as if it had been shown already.
        Self { bar, began: Instant::now(), shown: AtomicBool::new(!ui::is_watched()) }
    }

    /// A run got on by `step`.
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
            self.bar.set_message(format!(
                "{simulated:.1} of {total:.0} s simulated in {wall:.1} s, {} times real time",
                significant(simulated / wall)
            ));
        }
    }

    /// Wall time since the start.
    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A ratio with two or three digits that mean something.
pub(crate) fn significant(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}
