//! Errors and warnings of a document: the message, the place in the text, the help.
//!
//! There are two forms. A [`Finding`] names its place by dotted path (`traffic.0.to`); it comes from checks that have no
//! text. A [`Problem`] has a span in the file or in an override and is a [`miette::Diagnostic`]: the program prints it with
//! line and caret.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{
    Diagnostic, LabeledSpan, MietteError, NamedSource, Severity, SourceCode, SourceSpan, SpanContents,
};

use crate::excerpt;

/// An error or warning at a place in the document's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place: keys and indices separated by dots, as in `--set`. If the key was left out, the nearest table above it.
    pub path: String,
    /// What is wrong, with the name of the key or object.
    pub message: String,
    /// A few words for the caret.
    pub label: String,
    /// How to fix it.
    pub help: String,
}

impl Finding {
    /// A finding at `path`.
    pub fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), message: message.into(), label: label.into(), help: help.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.help)
    }
}

impl Error for Finding {}

/// A text from which a document is read: the file or an override.
pub(crate) type Source = Arc<NamedSource<String>>;

/// An error or warning with its place in the text.
#[derive(Clone, Debug)]
pub struct Problem {
    message: String,
    label: String,
    help: String,
    source: Source,
    span: Range<usize>,
    severity: Severity,
}

impl Problem {
    pub(crate) fn new(
        source: &Source,
        span: Range<usize>,
        message: String,
        label: String,
        help: String,
    ) -> Self {
        // Renderers may panic unless a span lies on character boundaries inside the text.
        let text = source.inner();
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        let end = floor(span.end).max(start);
        // An empty span at the end of the text would have no line to show: the last character is marked instead.
        let written = text.trim_end().len();
        let last = text[..written].char_indices().next_back().map_or(0, |(i, _)| i);
        let (start, end) = if start == end && start >= written { (last, written) } else { (start, end) };
        Self { message, label, help, source: source.clone(), span: start..end, severity: Severity::Error }
    }

    /// The same as a warning.
    pub(crate) fn into_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// Whether the problem is in this text.
    pub(crate) fn is_in(&self, source: &Source) -> bool {
        Arc::ptr_eq(&self.source, source)
    }

    /// What is wrong, with the name of the key or object.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A few words for the caret.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How to fix it.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// The name of the file, or `--set` for an override.
    pub fn source_name(&self) -> &str {
        self.source.name()
    }

    /// The text of the file or override.
    pub fn source_text(&self) -> &str {
        self.source.inner()
    }

    /// Range of bytes in the text.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Line and column, counted from 1; the column in characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.source.inner()[..self.span.start];
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        (line, column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = (!self.label.is_empty()).then(|| self.label.clone());
        let end = match excerpt::cut(self.source.inner(), &self.span, excerpt::CONTEXT) {
            Some(shown) => self.span.end.min(shown.end),
            None => self.span.end,
        };
        let span = self.span.start..end;
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(label, span))))
    }
}

impl SourceCode for Problem {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        excerpt::read_span(&self.source, span, lines_before, lines_after)
    }
}

/// The errors of a document, in the order of the text; at least one problem.
///
/// Prints as lines `file:line:column: message` with the help below each. To print line and caret, hand each [`Problem`] to
/// `miette`.
#[derive(Clone, Debug)]
pub struct Errors {
    problems: Vec<Problem>,
    untold: usize,
}

impl Errors {
    /// The first `max` of the problems; the others, and `uncollected` more, are counted.
    pub(crate) fn limited(mut problems: Vec<Problem>, max: usize, uncollected: usize) -> Self {
        let untold = problems.len().saturating_sub(max) + uncollected;
        problems.truncate(max);
        Self { problems, untold }
    }

    /// Number of problems beyond those in [`problems`](Self::problems).
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// The problems.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl IntoIterator for Errors {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.problems.into_iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let (line, column) = problem.line_column();
            write!(f, "{}:{line}:{column}: {}", problem.source_name(), problem.message)?;
            if !problem.help.is_empty() {
                write!(f, "\n  help: {}", problem.help)?;
            }
        }
        if self.untold > 0 {
            write!(f, "\nand {} more", self.untold)?;
        }
        Ok(())
    }
}

impl Error for Errors {}
