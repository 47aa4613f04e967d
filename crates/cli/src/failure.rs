//! What ends a command early: diagnostics for `miette`, and the exit code that goes with them.

use std::fmt;

use fairhop_sim::output::OutputError;
use fairhop_sim::scenario::ScenarioErrors;
pub(crate) use fairhop_study::source::reason;
use fairhop_study::source::{BuildError, SourceError, Unavailable};
use miette::Diagnostic;
use thiserror::Error;

/// The exit codes of the program. 2, a command line that cannot be understood, is clap's.
pub(crate) mod exit {
    /// The input is wrong or cannot be used: a scenario, a file, a directory.
    pub(crate) const INPUT: u8 = 1;
    /// A bug in the program, as for an uncaught panic of Rust.
    pub(crate) const BUG: u8 = 101;
    /// Ended by the user: 128 plus the number of SIGINT, as in shells.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Why a command could not do its work; at least one diagnostic.
#[derive(Debug)]
pub(crate) struct Failure {
    diagnostics: Vec<Box<dyn Diagnostic + Send + Sync>>,
    /// How many more problems there are than diagnostics.
    further: usize,
    code: u8,
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
    /// One diagnostic: the message names the object, the help says how to fix it.
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let complaint = Complaint { message: message.into(), help: help.into() };
        Self { diagnostics: vec![Box::new(complaint)], further: 0, code: exit::INPUT }
    }

    /// A bug in the program: `message` says what it broke.
    pub(crate) fn bug(message: impl Into<String>) -> Self {
        const HELP: &str =
            "this is a bug in fairhop: please report it, with the scenario, the seed and the message above";
        Self { code: exit::BUG, ..Self::new(message, HELP) }
    }

    /// The diagnostics, for [`ui::complain`](crate::ui::complain).
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = &dyn Diagnostic> {
        self.diagnostics.iter().map(|diagnostic| &**diagnostic as &dyn Diagnostic)
    }

    /// How many more problems there are than diagnostics.
    pub(crate) fn further(&self) -> usize {
        self.further
    }

    /// The exit code of the program.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl From<ScenarioErrors> for Failure {
    fn from(errors: ScenarioErrors) -> Self {
        let further = errors.untold();
        let diagnostics = errors.into_iter().map(|problem| Box::new(problem) as Box<_>).collect();
        Self { diagnostics, further, code: exit::INPUT }
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

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unavailable(error) => error.into(),
            SourceError::Wrong(errors) => errors.into(),
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        Self::new(error.message, error.help)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Wrong(errors) => errors.into(),
            BuildError::Other(_) => Self::new(error.to_string(), ""),
        }
    }
}
