//! The part of a text that an error message shows.
//!
//! `miette` pads the line with the caret by `format!("{:width$}")`, which panics when the width exceeds 65,535 columns,
//! and it prints whole lines. If a line around the label is longer than [`MAX_LINE`] bytes, only the part near the label
//! is shown. Line and column of the header stay those of the whole text.

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, NamedSource, SourceCode, SourceSpan, SpanContents};

/// Longest line in bytes that is shown whole.
const MAX_LINE: usize = 240;
/// Bytes shown before the label, and from its start on, if a line is cut.
const BEFORE_LABEL: usize = 40;
const FROM_LABEL: usize = 80;

/// The part of the label's line to show, or `None` if the label's lines and `context` lines on either side fit.
pub(crate) fn cut(text: &str, label: &Range<usize>, context: usize) -> Option<Range<usize>> {
    let line_start = start_of_line(text, label.start);
    let mut from = line_start;
    for _ in 0..context {
        from = start_of_line(text, from.saturating_sub(1));
    }
    let mut to = end_of_line(text, label.end.max(label.start));
    for _ in 0..context {
        to = end_of_line(text, (to + 1).min(text.len()));
    }
    if text[from..to].split('\n').all(|line| line.len() <= MAX_LINE) {
        return None;
    }
    let start = floor_char_boundary(text, label.start.saturating_sub(BEFORE_LABEL).max(line_start));
    let line_end = end_of_line(text, label.start);
    let end = floor_char_boundary(text, label.start.saturating_add(FROM_LABEL).min(line_end));
    Some(start..end.max(start))
}

/// As [`SourceCode::read_span`] of `source`, with long lines cut.
pub(crate) fn read_span<'a>(
    source: &'a NamedSource<String>,
    span: &SourceSpan,
    lines_before: usize,
    lines_after: usize,
) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
    let text = source.inner();
    let label = span.offset()..span.offset() + span.len();
    if label.end > text.len() {
        return Err(MietteError::OutOfBounds);
    }
    let Some(shown) = cut(text, &label, CONTEXT.max(lines_before).max(lines_after)) else {
        return source.read_span(span, lines_before, lines_after);
    };
    let line = text.as_bytes()[..label.start].iter().filter(|&&byte| byte == b'\n').count();
    let column = label.start - start_of_line(text, label.start);
    Ok(Box::new(MietteSpanContents::new_named(
        source.name().to_owned(),
        &text.as_bytes()[shown.clone()],
        (shown.start, shown.len()).into(),
        line,
        column,
        1,
    )))
}

/// Lines that `miette` shows above and below the label unless told otherwise.
pub(crate) const CONTEXT: usize = 1;

fn start_of_line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)
}

fn end_of_line(text: &str, at: usize) -> usize {
    text.as_bytes()[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |newline| at + newline)
}

fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_shown_whole_and_long_ones_near_the_label() {
        assert_eq!(cut("a = 1\nb = 2\n", &(6..7), 1), None);
        let long = format!("{}x{}", "é".repeat(400), "y".repeat(400));
        let text = format!("a = 1\n{long}\nb = 2\n");
        let x = text.find('x').expect("an x");
        let shown = cut(&text, &(x..text.len()), 1).expect("a cut");
        assert!(text[shown.clone()].contains("éxy") && shown.len() <= BEFORE_LABEL + FROM_LABEL + 1);
        // A long neighbouring line is not shown either.
        assert_eq!(cut(&text, &(0..1), 1).map(|shown| &text[shown]), Some("a = 1"));
        assert_eq!(cut(&text, &(0..1), 0), None);
    }
}
