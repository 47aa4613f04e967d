//! Elements of pictures in SVG, and scales of axes.
//!
//! Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart. Pictures contain plain text, no scripts
//! and no links, so that every viewer shows them.

use std::fmt::{self, Write as _};

/// Blue.
pub const BLUE: &str = "#0072B2";
/// Sky blue.
pub const SKY_BLUE: &str = "#56B4E9";
/// Vermillion.
pub const VERMILLION: &str = "#D55E00";
/// Orange.
pub const ORANGE: &str = "#E69F00";
/// Bluish green.
pub const GREEN: &str = "#009E73";

/// Texts.
pub const INK: &str = "#222222";
/// Labels and axes.
pub const PALE_INK: &str = "#666666";
/// Lines of the grid.
pub const GRID: &str = "#E3E3E3";

/// The smallest of 1, 2 and 5 times a power of ten that is at least `min`.
pub fn nice_step(min: f64) -> f64 {
    let power = libm::exp10(libm::floor(libm::log10(min)));
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= min * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Multiples of `step` from zero to `end`.
pub fn ticks(end: f64, step: f64) -> impl Iterator<Item = f64> {
    let count = (end / step * (1.0 + 1e-9)).floor().min(100.0) as u32;
    (0..=count).map(move |index| f64::from(index) * step)
}

/// A text for SVG and HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML forbids control characters.
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// A text and its style.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// What it says.
    pub content: &'a str,
    /// Size of its letters.
    pub size: u32,
    /// Whether it is bold.
    pub bold: bool,
    /// Its place: `start`, `middle` or `end`.
    pub anchor: &'a str,
    /// Its colour.
    pub colour: &'a str,
}

impl<'a> Text<'a> {
    /// A text in the usual style.
    pub const fn new(content: &'a str) -> Self {
        Self { content, size: 12, bold: false, anchor: "start", colour: INK }
    }
}

/// An SVG under construction, one element per line.
#[derive(Clone, Debug, Default)]
pub struct Svg(pub String);

impl Svg {
    /// Adds an element.
    pub fn line(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// Adds a text at its baseline.
    pub fn text(&mut self, x: f64, y: f64, text: Text<'_>) {
        let Text { content, size, bold, anchor, colour } = text;
        let weight = if bold { " font-weight=\"600\"" } else { "" };
        let content = escaped(content);
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\"{weight} text-anchor=\"{anchor}\" \
             fill=\"{colour}\">{content}</text>"
        ));
    }

    /// Adds a horizontal line.
    pub fn rule(&mut self, from: f64, to: f64, y: f64, colour: &str) {
        self.line(format_args!(
            "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_axes_are_one_two_or_five() {
        for (min, step) in [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (6.0, 10.0), (0.03, 0.05)] {
            assert!((nice_step(min) / step - 1.0).abs() < 1e-9, "{min}: {}", nice_step(min));
        }
        assert_eq!(ticks(60.0, 20.0).collect::<Vec<_>>(), [0.0, 20.0, 40.0, 60.0]);
    }
}
