//! Structured logs: one line an event, `key=value` pairs, on standard error.
//!
//! Under systemd a line begins with its priority (`sd-daemon(3)`), otherwise with the time. Values with spaces are quoted.
//! A log is a record for people and never a reason to stop: a line that cannot be written is lost.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The daemon ends with an error.
    Error,
    /// Something to look at; the daemon goes on.
    Warn,
    /// What it does, and why.
    Info,
}

impl Level {
    /// The priority of `syslog(3)`.
    const fn priority(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info => 6,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

/// A line, built field by field.
#[derive(Debug)]
pub struct Line {
    level: Level,
    text: String,
}

impl Line {
    /// A line about an event.
    pub fn new(level: Level, event: &str) -> Self {
        Self { level, text: format!("event={event}") }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, key: &str, value: impl Display) -> Self {
        let value = value.to_string();
        let is_plain = !value.is_empty()
            && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=');
        // A string cannot fail to take text.
        let _ = if is_plain {
            write!(self.text, " {key}={value}")
        } else {
            write!(self.text, " {key}={value:?}")
        };
        self
    }

    /// Adds a field if it has a value.
    #[must_use]
    pub fn maybe(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.field(key, value),
            None => self,
        }
    }

    /// The text of the line without priority and time.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the line.
    pub fn write(self) {
        static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
        let line = if *IS_JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some()) {
            format!("<{}>{}\n", self.level.priority(), self.text)
        } else {
            format!("{:.3} level={} {}\n", unix_s(), self.level.name(), self.text)
        };
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Seconds since 1970, for people and files; control uses the monotonic clock.
pub fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_would_break_the_line() {
        let line = Line::new(Level::Info, "decision")
            .field("state", "steady")
            .field("why", "a call has \"loss\"\nand delay")
            .maybe("mos", None::<f64>);
        assert_eq!(line.text(), "event=decision state=steady why=\"a call has \\\"loss\\\"\\nand delay\"");
    }
}
