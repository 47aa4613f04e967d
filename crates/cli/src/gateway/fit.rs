//! Text with ANSI styles that fits the lines of a terminal, by the width that its characters have there.

use unicode_width::UnicodeWidthChar;

/// Ends all styles.
const RESET: &str = "\x1b[0m";

/// What a text with styles consists of.
enum Part<'t> {
    /// A style (SGR, ECMA-48 §8.3.117), which takes no room.
    Code(&'t str),
    /// A character and its width. Control characters, those of other sequences too, are spaces: they would move the cursor.
    Letter(char, usize),
}

/// The parts of a text with their places in bytes.
fn parts(text: &str) -> impl Iterator<Item = (usize, Part<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (at, &text[at..]);
        let letter = rest.chars().next()?;
        if let Some(code) = rest.strip_prefix("\x1b[")
            && let Some(end) = code.find(|c: char| c.is_ascii_alphabetic())
            && code[end..].starts_with('m')
        {
            at += end + 3;
            return Some((start, Part::Code(&rest[..end + 3])));
        }
        at += letter.len_utf8();
        let letter = if letter.is_control() { ' ' } else { letter };
        Some((start, Part::Letter(letter, letter.width().unwrap_or(0))))
    })
}

/// The number of columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    parts(text).map(|(_, part)| if let Part::Letter(_, width) = part { width } else { 0 }).sum()
}

/// A text in one line of at most `columns`. What is cut off leaves an ellipsis.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let is_cut = width(text) > columns;
    let room = if is_cut { columns.saturating_sub(1) } else { columns };
    let (mut line, mut used, mut is_styled) = (String::new(), 0, false);
    for (_, part) in parts(text) {
        match part {
            Part::Code(code) => {
                line += code;
                is_styled = code != RESET;
            }
            Part::Letter(_, width) if used + width > room => break,
            Part::Letter(letter, width) => {
                line.push(letter);
                used += width;
            }
        }
    }
    if is_cut && columns > 0 {
        line.push('…');
    }
    if is_styled {
        line += RESET;
    }
    line
}

/// A text in at most `max_lines` lines of at most `columns`, broken between words where there are any. The last line is cut if the
/// text is longer.
pub(super) fn wrap(text: &str, columns: usize, max_lines: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.to_owned();
    while lines.len() + 1 < max_lines && width(&rest) > columns {
        let Some((end, styles)) = line_break(&rest, columns) else { break };
        let (line, next) = rest.split_at(end);
        lines.push(cut(line.trim_end(), columns));
        rest = styles + next.trim_start();
    }
    if max_lines > 0 {
        lines.push(cut(&rest, columns));
    }
    lines
}

/// Where a line of `columns` ends, and the styles that are in force there. None if not even one character fits.
fn line_break(text: &str, columns: usize) -> Option<(usize, String)> {
    let (mut used, mut styles, mut found) = (0, String::new(), None);
    for (at, part) in parts(text) {
        match part {
            Part::Code(RESET) => styles.clear(),
            Part::Code(code) => styles += code,
            Part::Letter(letter, width) => {
                if letter == ' ' && used > 0 {
                    found = Some((at, styles.clone()));
                }
                if used + width > columns {
                    let here = (used > 0).then(|| (at, styles.clone()));
                    return found.or(here);
                }
                used += width;
            }
        }
    }
    found
}

/// The text without colours, with all other control sequences.
pub(super) fn without_colors(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, code) = rest.split_at(at);
        plain += before;
        let end = code[2..].find(|c: char| c.is_ascii_alphabetic()).map_or(code.len(), |end| end + 3);
        if !code[..end].ends_with('m') {
            plain += &code[..end];
        }
        rest = &code[end..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{BAD, TITLE};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_line_is_cut_by_the_width_of_its_characters_and_ends_its_style() {
        assert_eq!(cut("steady: holds", 13), "steady: holds");
        assert_eq!(cut("steady: holds", 12), "steady: hol…");
        assert_eq!(cut("two\nlines\tand\x1b[2Jmore", 40), "two lines and [2Jmore");
        let styled = format!("a {BAD}通话通话{BAD:#} b");
        for columns in 0..12 {
            let line = cut(&styled, columns);
            assert!(width(&line) <= columns, "{columns}: {line:?}");
            assert!(line.rfind("\x1b[31m").is_none_or(|at| line[at..].contains(RESET)), "{line:?}");
        }
        assert_eq!(plain(&cut(&styled, 7)), "a 通话…");
    }

    #[test]
    fn a_text_is_wrapped_between_words_with_its_style_in_every_line() {
        let text = format!("{TITLE}one two{TITLE:#} {BAD}three four\nfive{BAD:#} six");
        let lines = wrap(&text, 9, 4);
        assert_eq!(
            lines.iter().map(|line| plain(line)).collect::<Vec<_>>(),
            ["one two", "three", "four five", "six"]
        );
        assert!(lines[2].starts_with("\x1b[1m\x1b[31m") && lines[2].ends_with(RESET), "{lines:?}");
        assert!(!lines[3].contains("\x1b[31m"), "{lines:?}");
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("interface", 4, 3), ["inte", "rfac", "e"]);
        assert_eq!((wrap("one", 9, 3), wrap("one", 9, 0)), (vec!["one".to_owned()], Vec::new()));
    }

    #[test]
    fn without_colours_the_places_of_the_cursor_stay() {
        assert_eq!(without_colors("\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\n"), "\x1b[Ha\x1b[K\r\n");
    }
}
