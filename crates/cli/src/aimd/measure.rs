//! Statistics of a stream, and the line that shows them while it runs.

use std::time::Duration;

use fairhop_model::units::Nanos;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::table::{NOTHING, fixed};
use crate::ui;

/// Delays in classes of 1.6 %: memory does not grow with the length of the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    count: u64,
    sum_us: f64,
    max: Nanos,
    classes: Vec<u64>,
}

/// Classes per factor of e.
const CLASSES: f64 = 64.0;

impl Delays {
    pub(crate) fn record(&mut self, delay: Nanos) {
        let us = delay.as_micros_f64();
        let class = (us.ln_1p() * CLASSES) as usize;
        if class >= self.classes.len() {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
        self.count += 1;
        self.sum_us += us;
        self.max = self.max.max(delay);
    }

    /// The mean in ms.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us / self.count as f64 / 1e3)
    }

    /// The delay in ms that this fraction of the packets does not exceed, to within a class.
    pub(crate) fn quantile_ms(&self, fraction: f64) -> Option<f64> {
        let rank = (fraction * self.count as f64).ceil() as u64;
        let mut below = 0;
        let class = self.classes.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let upper = ((class + 1) as f64 / CLASSES).exp_m1() / 1e3;
        Some(upper.min(self.max.as_millis_f64()))
    }

    pub(crate) fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max.as_millis_f64())
    }

    pub(crate) fn json(&self) -> Value {
        json!({"mean": self.mean_ms(), "p95": self.quantile_ms(0.95), "max": self.max_ms()})
    }

    /// Mean, 95th percentile and maximum for readers.
    pub(crate) fn text(&self) -> String {
        format!(
            "mean {}, 95th percentile {}, maximum {} ms",
            ms(self.mean_ms()),
            ms(self.quantile_ms(0.95)),
            ms(self.max_ms())
        )
    }
}

/// Milliseconds with one decimal, or a dash.
pub(crate) fn ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| NOTHING.to_owned(), |ms| fixed(ms, 1))
}

/// A percentage with two decimals, or a dash.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { NOTHING.to_owned() } else { fixed(100.0 * part as f64 / whole as f64, 2) }
}

/// Kilobits a second.
pub(crate) fn kbps(bytes: u64, time: Nanos) -> f64 {
    let s = time.as_secs_f64();
    if s > 0.0 { bytes as f64 * 8.0 / 1e3 / s } else { 0.0 }
}

/// The live line of a stream, if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Live {
    bar: ProgressBar,
    /// Time and bytes at the last update of the rate.
    last: (Nanos, u64),
}

/// Time between two updates of the rate.
const UPDATE: Nanos = Nanos(500_000_000);

impl Live {
    pub(crate) fn new() -> Self {
        let target =
            if ui::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar, last: (Nanos::ZERO, 0) }
    }

    /// Shows the rate of the last half second and `rest`.
    pub(crate) fn show(&mut self, now: Nanos, bytes: u64, rest: impl FnOnce() -> String) {
        let (then, before) = self.last;
        let passed = now.saturating_sub(then);
        if passed >= UPDATE {
            self.last = (now, bytes);
            let rate = kbps(bytes.saturating_sub(before), passed);
            self.bar.set_message(format!("{:.1} s  {} kb/s  {}", now.as_secs_f64(), fixed(rate, 0), rest()));
        }
    }

    /// Shows another text.
    pub(crate) fn say(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Removes the line from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_class_of_the_true_ones() {
        let mut delays = Delays::default();
        assert_eq!((delays.mean_ms(), delays.quantile_ms(0.5), delays.max_ms()), (None, None, None));
        for us in 1..=100_000 {
            delays.record(Nanos::from_micros(us));
        }
        assert!((delays.mean_ms().expect("a mean") - 50.0).abs() < 0.01);
        for fraction in [0.01, 0.5, 0.95, 1.0] {
            let found = delays.quantile_ms(fraction).expect("a quantile");
            assert!((found / (100.0 * fraction) - 1.0).abs() < 0.017, "{fraction}: {found}");
        }
        assert_eq!(delays.max_ms(), Some(100.0));
    }
}
