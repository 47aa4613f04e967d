//! What ends a command early: diagnostics for `miette`, and the exit code that goes with them.

use std::{fmt, io};

use fairhop_sim::output::OutputError;
use fairhop_sim::scenario::ScenarioErrors;
use miette::Diagnostic;
use thiserror::Error;

use crate::ui;

/// The exit codes of the program. 2, a command line that cannot be understood, is clap's.
pub(crate) mod exit {
    /// Something is wrong with what was given: a scenario, a file, a directory.
    pub(crate) const INPUT: u8 = 1;
    /// Ended by the user: 128 and the number of SIGINT, as shells have it.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Why a command could not do what was asked; at least one diagnostic.
#[derive(Debug)]
pub(crate) struct Failure {
    diagnostics: Vec<Box<dyn Diagnostic + Send + Sync>>,
    /// How many more there are than are told.
    untold: usize,
}

/// A diagnostic that belongs to no text.
#[derive(Debug, Error)]
#[error("{message}")]
struct Complaint {
    message: String,
    help: String,
}

impl Diagnostic for Complaint {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn fmt::Display>)
    }
}

impl Failure {
    /// What is wrong, naming the thing, and the mend.
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::of(Complaint { message: message.into(), help: help.into() })
    }

    /// One diagnostic.
    pub(crate) fn of(diagnostic: impl Diagnostic + Send + Sync + 'static) -> Self {
        Self { diagnostics: vec![Box::new(diagnostic)], untold: 0 }
    }

    /// Tells the user.
    pub(crate) fn tell(&self) {
        ui::complain(self.diagnostics.iter().map(|diagnostic| &**diagnostic as &dyn Diagnostic));
        if self.untold > 0 {
            ui::remark(&format!("and {} more", self.untold));
        }
    }
}

impl From<ScenarioErrors> for Failure {
    fn from(errors: ScenarioErrors) -> Self {
        let untold = errors.untold();
        let diagnostics = errors.into_iter().map(|problem| Box::new(problem) as Box<_>).collect();
        Self { diagnostics, untold }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let message = match &error {
            OutputError::Io { action, path, source } => {
                format!("cannot {action} {}: {}", path.display(), reason(source))
            }
            OutputError::Occupied { .. } => error.to_string(),
        };
        Self::new(message, error.mend())
    }
}

/// What the system said, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
