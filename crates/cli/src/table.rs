//! Aligned tables for the terminal, and how numbers are written in them.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use crate::ui::COLUMNS;

/// Titles.
pub(crate) const TITLE: Style = Style::new().bold();
/// Explanations.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Values that are not acceptable.
pub(crate) const BAD: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
/// Values that are acceptable.
pub(crate) const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// Stands for an absent number.
pub(crate) const NOTHING: &str = "–";

/// Longer names are truncated.
const NAME_WIDTH: usize = 24;
/// Spaces between columns.
const GAP: usize = 2;

/// A column; the first of a table is aligned to the left, the others to the right.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    head: String,
    /// In a table that is too wide, the columns of the lowest rank are left out first.
    rank: u8,
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style of its own.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// A table that fits into [`COLUMNS`].
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table. Its title is the head of the first column.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { columns: vec![Column { head: title.into(), rank: u8::MAX }], rows: Vec::new() }
    }

    /// Adds a column.
    #[must_use]
    pub(crate) fn column(mut self, head: impl Into<String>, rank: u8) -> Self {
        self.columns.push(Column { head: head.into(), rank });
        self
    }

    /// Adds a row, with one cell per column.
    pub(crate) fn row(&mut self, name: &str, cells: impl IntoIterator<Item = Cell>) {
        let mut row = vec![Cell::from(cut(name))];
        row.extend(cells);
        self.rows.push(row);
    }

    /// The table as lines.
    pub(crate) fn render(&self) -> String {
        self.render_within(COLUMNS)
    }

    /// The table as lines of at most `columns`, if the first two columns of the table fit.
    pub(crate) fn render_within(&self, columns: usize) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.width());
                cells.chain([column.head.width()]).max().unwrap_or_default()
            })
            .collect();
        let shown = self.fitting(&widths, columns);
        let mut text = String::new();
        let heads =
            self.columns.iter().enumerate().map(|(index, column)| {
                Cell::styled(column.head.clone(), if index == 0 { TITLE } else { FAINT })
            });
        line(&mut text, &heads.collect::<Vec<_>>(), &widths, &shown);
        for row in &self.rows {
            line(&mut text, row, &widths, &shown);
        }
        text
    }

    /// The columns that are shown.
    fn fitting(&self, widths: &[usize], columns: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while shown.iter().map(|&index| widths[index] + GAP).sum::<usize>() > columns + GAP && shown.len() > 2
        {
            // Of equal ranks, the last one.
            let lowest = shown.iter().copied().min_by_key(|&i| (self.columns[i].rank, usize::MAX - i));
            shown.retain(|&index| Some(index) != lowest);
        }
        shown
    }
}

fn line(text: &mut String, cells: &[Cell], widths: &[usize], shown: &[usize]) {
    let mut written = String::new();
    for (position, &index) in shown.iter().enumerate() {
        let Some(Cell { text, style }) = cells.get(index) else { continue };
        let space = " ".repeat(widths[index].saturating_sub(text.width()));
        let text = if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") };
        written += &if position == 0 { text + &space } else { format!("{:GAP$}{space}{text}", "") };
    }
    text.push_str(written.trim_end());
    text.push('\n');
}

/// A name, truncated to the width of a column.
fn cut(name: &str) -> String {
    if name.width() <= NAME_WIDTH {
        return name.to_owned();
    }
    let mut short = String::new();
    for letter in name.chars() {
        if short.width() + 2 > NAME_WIDTH {
            break;
        }
        short.push(letter);
    }
    short + "…"
}

/// A text in lines of at most [`COLUMNS`]. No-break spaces do not break.
pub(crate) fn wrap(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        if width > 0 && width + 1 + word.width() > COLUMNS {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += word.width();
    }
    lines
}

/// A number with `decimals` decimals; [`NOTHING`] if it is not finite. Never a negative zero.
pub(crate) fn fixed(number: f64, decimals: usize) -> String {
    if !number.is_finite() {
        return NOTHING.to_owned();
    }
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.chars().all(|c| c == '0' || c == '.') => digits.to_owned(),
        _ => text,
    }
}

/// A whole number with commas between thousands.
pub(crate) fn whole(number: f64) -> String {
    let digits = fixed(number, 0);
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &Table) -> String {
        anstream::adapter::strip_str(&table.render()).to_string()
    }

    #[test]
    fn columns_are_aligned_for_names_in_any_script() {
        let mut table = Table::new("Calls").column("MOS", 1).column("loss %", 1);
        table.row("call-0", ["4.07".into(), "0.00".into()]);
        table.row("通话", [Cell::styled("1.00", BAD), "100.00".into()]);
        assert_eq!(plain(&table), "Calls    MOS  loss %\ncall-0  4.07    0.00\n通话    1.00  100.00\n");
    }

    #[test]
    fn a_table_that_is_too_wide_leaves_out_its_least_important_columns() {
        let mut table = Table::new("x").column("a".repeat(60), 2).column("b".repeat(40), 1).column("c", 3);
        table
            .row("a name that is far too long for a column of a table", ["1".into(), "2".into(), "3".into()]);
        let text = plain(&table);
        assert!(text.lines().all(|line| line.width() <= COLUMNS) && !text.contains('b'), "{text}");
        assert!(text.contains("a name that is far too …") && text.ends_with("  3\n"), "{text}");
    }

    #[test]
    fn numbers_are_written_with_decimals_and_thousands() {
        assert_eq!(
            ["0", "999", "1,000", "353,211", "12,345,678"],
            [0.0, 999.0, 1e3, 353_211.0, 12_345_678.0].map(whole)
        );
        assert_eq!([fixed(-0.001, 2), fixed(-0.5, 1), fixed(f64::NAN, 1)], ["0.00", "-0.5", NOTHING]);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let text = wrap(&"word ".repeat(30));
        assert!(text.lines().all(|line| line.width() <= COLUMNS) && text.lines().count() == 2);
    }
}
