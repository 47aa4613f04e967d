//! The one place that writes to the terminal.
//!
//! Text may contain ANSI styles; `anstream` removes them if the stream is not a terminal, if `NO_COLOR` is set, or if
//! `--no-color` was given. Each command writes its output in one piece.

use std::io::{self, ErrorKind, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use crate::failure::{Failure, reason};

/// The width that reports keep to.
pub(crate) const COLUMNS: usize = 100;

/// Turns colours off, even on a terminal.
pub(crate) fn forbid_colors() {
    ColorChoice::Never.write_global();
}

/// Writes to standard output. A closed pipe (`| head`) is no error.
///
/// # Errors
/// The output cannot be written: the disk is full.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = AutoStream::auto(io::stdout().lock());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
            format!("cannot write to standard output: {}", reason(&error)),
            "free some space, or send the output elsewhere",
        )),
        _ => Ok(()),
    }
}

/// Writes a remark to standard error. If that is closed, the remark is lost.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(AutoStream::auto(io::stderr().lock()), "{text}");
}

/// Whether standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Writes diagnostics to standard error, with line, caret and help.
pub(crate) fn diagnose<'a>(diagnostics: impl IntoIterator<Item = &'a dyn Diagnostic>) {
    let colored = !matches!(AutoStream::choice(&io::stderr()), ColorChoice::Never);
    let theme = if colored { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler =
        GraphicalReportHandler::new_themed(theme).with_links(false).without_cause_chain().with_width(COLUMNS);
    for (index, diagnostic) in diagnostics.into_iter().enumerate() {
        let mut text = String::from(if index > 0 { "\n" } else { "" });
        if handler.render_report(&mut text, diagnostic).is_err() {
            text += &diagnostic.to_string();
        }
        remark(text.trim_end());
    }
}

/// Writes a failure to standard error.
pub(crate) fn complain(failure: &Failure) {
    diagnose(failure.diagnostics());
    if failure.further() > 0 {
        remark(&format!("and {} more", failure.further()));
    }
}
