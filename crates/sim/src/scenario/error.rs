//! What is wrong with a scenario: the message, the place in the text, the mend.
//!
//! Two forms. A [`Finding`] names its place by dotted path (`traffic.0.to`); checks of a [`Scenario`] and the builder
//! of a world, which know no text, speak in findings. A [`Problem`] has a span in the file or in an override and is a
//! [`miette::Diagnostic`]: the program prints it with line and caret.
//!
//! [`Scenario`]: super::Scenario

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, MietteError, NamedSource, SourceCode, SourceSpan, SpanContents};

use super::excerpt;

/// Something that cannot be simulated, at a place in the scenario's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: keys and indices with dots between them, as in `--set`. A place that was left out stands for the table
    /// that would hold it.
    pub path: String,
    /// What is wrong; names the thing.
    pub message: String,
    /// A few words to stand at the caret.
    pub label: String,
    /// The mend.
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

    /// The traffic entry with this index wants a path between two nodes, and there is none. `hint` says what would
    /// make one, as in "node 4 is 300 m from its nearest neighbour; receive_m is 250".
    pub fn no_route(traffic: usize, from: u32, to: u32, hint: &str) -> Self {
        Self::new(
            format!("traffic.{traffic}.to"),
            format!("no route from node {from} to node {to}"),
            "cannot be reached",
            hint,
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.help)
    }
}

impl Error for Finding {}

/// A text that a scenario was read from: the file or one override.
pub(super) type Source = Arc<NamedSource<String>>;

/// An error with its place in the text.
#[derive(Clone, Debug)]
pub struct Problem {
    message: String,
    label: String,
    help: String,
    source: Source,
    span: Range<usize>,
}

impl Problem {
    pub(super) fn new(
        source: &Source,
        span: Range<usize>,
        message: String,
        label: String,
        help: String,
    ) -> Self {
        // A span must lie on character boundaries inside the text, or a renderer could panic.
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
        // At the end of the text an empty span would be a caret without a line: it takes the last character instead.
        let written = text.trim_end().len();
        let last = text[..written].char_indices().next_back().map_or(0, |(i, _)| i);
        let (start, end) = if start == end && start >= written { (last, written) } else { (start, end) };
        Self { message, label, help, source: source.clone(), span: start..end }
    }

    /// Whether this is about that very text.
    pub(super) fn is_in(&self, source: &Source) -> bool {
        Arc::ptr_eq(&self.source, source)
    }

    /// What is wrong; names the thing.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A few words that stand at the caret.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The mend.
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

    /// Where in the text, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Line and column, from 1, the column in characters.
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

/// Everything that is wrong with a scenario, in the order of the text; at least one problem.
///
/// Prints as lines `file:line:column: message` with the mend below each; for line and caret hand each
/// [`Problem`] to `miette`.
#[derive(Clone, Debug)]
pub struct ScenarioErrors {
    problems: Vec<Problem>,
    untold: usize,
}

impl ScenarioErrors {
    /// The first `most` of the problems; the others are counted.
    pub(super) fn limited(mut problems: Vec<Problem>, most: usize) -> Self {
        let untold = problems.len().saturating_sub(most);
        problems.truncate(most);
        Self { problems, untold }
    }

    /// How many more problems there are than [`problems`](Self::problems) tells.
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// What is wrong, one by one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl IntoIterator for ScenarioErrors {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.problems.into_iter()
    }
}

impl fmt::Display for ScenarioErrors {
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

impl Error for ScenarioErrors {}
