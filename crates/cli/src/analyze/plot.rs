//! A graph of lines over time, or of a distribution, as SVG.

use std::fmt::Write as _;

use fairhop_sim::output::svg::{GRID, PALE_INK, Svg, Text, escaped, nice_step, ticks};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;
/// A line has this many points at most: more than the picture has pixels would not be seen.
const MAX_POINTS: usize = 640;

/// A scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From the first number to the second.
    Linear(f64, f64),
    /// Powers of ten from the first number to the second.
    Logarithmic(f64, f64),
}

/// How points that are too many become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// Their mean.
    Mean,
    /// Their minimum.
    Min,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// A missing value interrupts the line.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// A graph.
#[derive(Clone, Debug)]
pub(super) struct Plot<'a> {
    /// Describes the picture to those who do not see it.
    pub(super) title: &'a str,
    pub(super) x: (&'a str, Scale),
    pub(super) y: (&'a str, Scale),
    pub(super) lines: Vec<Line>,
    /// Points that are marked, with their colour.
    pub(super) marks: Vec<(f64, f64, &'static str)>,
    /// A dashed line at this height.
    pub(super) threshold: Option<f64>,
}

impl Scale {
    /// A scale from zero to at least `max`.
    pub(super) fn up_to(max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let step = nice_step(max / 5.0);
        Self::Linear(0.0, (max / step * (1.0 - 1e-9)).ceil() * step)
    }

    /// The place of a value from 0 to 1.
    fn part(self, value: f64) -> f64 {
        let part = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Logarithmic(from, to) => (value.max(from) / from).ln() / (to / from).ln(),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            // A scale of nothing has no ticks.
            Self::Linear(from, to) | Self::Logarithmic(from, to) if from >= to => Vec::new(),
            Self::Linear(from, to) => {
                let step = nice_step((to - from) / 6.0);
                let first = (from / step).ceil() * step;
                ticks(to - first, step).map(|tick| first + tick).collect()
            }
            Self::Logarithmic(from, to) => {
                let powers = from.log10().ceil() as i32..=to.log10().floor() as i32;
                powers.map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

/// A number without needless zeros.
fn label(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Neighbouring points as one, if there are too many.
pub(super) fn thinned(points: &[(f64, Option<f64>)], merge: Merge) -> Vec<(f64, Option<f64>)> {
    let size = points.len().div_ceil(MAX_POINTS).max(1);
    let of = |chunk: &[(f64, Option<f64>)]| {
        let values: Vec<f64> = chunk.iter().filter_map(|(_, value)| *value).collect();
        let value = match merge {
            Merge::Mean => fairhop_model::stats::mean(&values),
            Merge::Min => values.into_iter().reduce(f64::min),
        };
        (chunk[0].0, value)
    };
    points.chunks(size).map(of).collect()
}

impl Plot<'_> {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let mut svg = Svg::default();
        svg.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">"
        ));
        svg.line(format_args!("<title>{}</title>", escaped(self.title)));
        self.axes(&mut svg);
        if let Some(value) = self.threshold {
            let y = self.y_of(value);
            svg.line(format_args!(
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{PALE_INK}\" stroke-dasharray=\"6 4\"/>",
                WIDTH - RIGHT
            ));
        }
        for line in &self.lines {
            svg.line(format_args!(
                "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"><title>{}</title></path>",
                self.path(&line.points),
                line.colour,
                line.width,
                escaped(&line.name)
            ));
        }
        for &(x, y, colour) in &self.marks {
            let (x, y) = (self.x_of(x), self.y_of(y));
            svg.line(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"));
        }
        svg.0.push_str("</svg>\n");
        svg.0
    }

    fn x_of(&self, value: f64) -> f64 {
        LEFT + self.x.1.part(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y_of(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.1.part(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut Svg) {
        for tick in self.y.1.ticks() {
            let y = self.y_of(tick);
            svg.rule(LEFT, WIDTH - RIGHT, y, GRID);
            svg.text(LEFT - 6.0, y + 4.0, Text { anchor: "end", ..Text::new(&label(tick)) });
        }
        let foot = HEIGHT - BOTTOM;
        svg.rule(LEFT, WIDTH - RIGHT, foot, PALE_INK);
        for tick in self.x.1.ticks() {
            let x = self.x_of(tick);
            svg.line(format_args!(
                "<line x1=\"{x:.1}\" y1=\"{foot:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{PALE_INK}\"/>",
                foot + 4.0
            ));
            svg.text(x, foot + 17.0, Text { anchor: "middle", ..Text::new(&label(tick)) });
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let style = Text { anchor: "middle", colour: PALE_INK, ..Text::new(self.x.0) };
        svg.text(middle, HEIGHT - 6.0, style);
        let y = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        svg.line(format_args!(
            "<text x=\"14\" y=\"{y:.1}\" font-size=\"12\" text-anchor=\"middle\" fill=\"{PALE_INK}\" \
             transform=\"rotate(-90 14 {y:.1})\">{}</text>",
            escaped(self.y.0)
        ));
    }

    fn path(&self, points: &[(f64, Option<f64>)]) -> String {
        let mut path = String::new();
        let mut pen_down = false;
        for (place, &(x, value)) in points.iter().enumerate() {
            let value = value.filter(|value| value.is_finite());
            if let Some(value) = value {
                let step = if pen_down { 'L' } else { 'M' };
                let (x, y) = (self.x_of(x), self.y_of(value));
                // Writing to a string does not fail.
                let _ = write!(path, "{step}{x:.1} {y:.1}");
                // A single point would not be seen.
                if !pen_down && points.get(place + 1).is_none_or(|(_, next)| next.is_none()) {
                    path.push_str("h2");
                }
            }
            pen_down = value.is_some();
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_at_round_numbers_and_any_values_give_finite_places() {
        assert_eq!(Scale::up_to(0.93), Scale::Linear(0.0, 1.0));
        assert_eq!(Scale::up_to(f64::NAN), Scale::Linear(0.0, 1.0));
        assert_eq!(
            Scale::Logarithmic(0.1, 1000.0).ticks(),
            [0.1, 1.0, 10.0, 100.0, 1000.0].map(|tick: f64| tick)
        );
        let line = Line {
            name: "a < b".to_owned(),
            colour: "red",
            width: 1.0,
            points: vec![(f64::NAN, Some(1.0)), (0.0, None), (2.0, Some(9.0))],
        };
        let plot = Plot {
            title: "t",
            x: ("x", Scale::Linear(0.0, 0.0)),
            y: ("y", Scale::Logarithmic(1.0, 10.0)),
            lines: vec![line],
            marks: vec![(f64::INFINITY, -1.0, "red")],
            threshold: Some(0.0),
        };
        let svg = plot.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("a &lt; b"));
    }

    #[test]
    fn a_long_line_keeps_its_worst_value() {
        let points: Vec<(f64, Option<f64>)> =
            (0..10_000).map(|at| (f64::from(at), Some(if at == 77 { 1.0 } else { 4.0 }))).collect();
        let thin = thinned(&points, Merge::Min);
        assert!(thin.len() <= MAX_POINTS && thin.iter().any(|(_, value)| *value == Some(1.0)));
    }
}
