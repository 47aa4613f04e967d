//! Runs side by side as a picture: call quality above goodput, both over time, one column a run, as an SVG.
//!
//! The picture is for first-time readers. Axes are shared, so that heights compare. The mean of each panel stands above
//! it, outside of the curves. The quality scale has the words of ITU-T P.800 and the threshold of acceptable calls (3.6,
//! kim2010). Line widths repeat the distinction of colours.

mod own;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairhop_model::stats;

use super::svg::{
    BLUE, GREEN, GRID, INK, ORANGE, PALE_INK, SKY_BLUE, Svg, Text, VERMILLION, escaped, nice_step, ticks,
};
use super::tables::RunTables;
use crate::results::ACCEPTABLE_MOS;

pub use own::{MAX_BARS, own};

/// A quantity over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name, shown as a tooltip of the line.
    pub name: String,
    /// Times in seconds, ascending, and values. A missing value interrupts the line.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A run, or the mean of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Title, a few words.
    pub title: String,
    /// Mean opinion score of each call, interval by interval.
    pub calls: Vec<Series>,
    /// Mean of the opinion scores of whole calls. It differs from the mean of the intervals, because the score is not linear
    /// in loss and delay.
    pub mos: Option<f64>,
    /// Goodput of each other flow in Mb/s.
    pub flows: Vec<Series>,
}

impl Column {
    /// A run: the mean of both directions of each call, and the goodput of every other flow.
    pub fn of(title: impl Into<String>, run: &RunTables) -> Self {
        let mut calls: BTreeMap<u32, (String, Means)> = BTreeMap::new();
        let mut flows: BTreeMap<u32, Series> = BTreeMap::new();
        for row in &run.flow_series {
            if row.kind == "call" {
                let call = calls.entry(row.flow).or_insert_with(|| (row.name.to_string(), Means::default()));
                call.1.add(row.t_s, row.mos);
            } else {
                let flow = flows
                    .entry(row.flow)
                    .or_insert_with(|| Series { name: row.name.to_string(), points: Vec::new() });
                flow.points.push((row.t_s, Some(row.goodput_mbps)));
            }
        }
        Self {
            title: title.into(),
            calls: calls.into_values().map(|(name, means)| Series { name, points: means.points() }).collect(),
            mos: stats::mean(&run.flows.iter().filter_map(|row| row.mos).collect::<Vec<_>>()),
            flows: flows.into_values().collect(),
        }
    }
}

/// Texts of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The title of the picture.
    pub title: String,
    /// The line below it: the setting.
    pub subtitle: String,
    /// Word for a flow that is not a call.
    pub flow_word: String,
    /// Warm-up in seconds, which means leave out.
    pub warmup_s: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            title: String::new(),
            subtitle: String::new(),
            flow_word: "download".to_owned(),
            warmup_s: 0.0,
        }
    }
}

/// Sums and counts by time.
#[derive(Default)]
struct Means(BTreeMap<u64, (f64, u32)>);

impl Means {
    // The bits of non-negative floats sort like the floats.
    fn add(&mut self, t_s: f64, value: Option<f64>) {
        let value = value.filter(|value| value.is_finite());
        let (sum, count) = self.0.entry(t_s.to_bits()).or_default();
        *sum += value.unwrap_or(0.0);
        *count += u32::from(value.is_some());
    }

    fn of(series: &[Series]) -> Self {
        let mut means = Self::default();
        series.iter().flat_map(|one| &one.points).for_each(|&(t_s, value)| means.add(t_s, value));
        means
    }

    fn points(&self) -> Vec<(f64, Option<f64>)> {
        let mean = |&(sum, count): &(f64, u32)| (count > 0).then(|| sum / f64::from(count));
        self.0.iter().map(|(&t, value)| (f64::from_bits(t), mean(value))).collect()
    }

    fn sums(&self) -> Vec<(f64, Option<f64>)> {
        let sum = |&(sum, count): &(f64, u32)| (count > 0).then_some(sum);
        self.0.iter().map(|(&t, value)| (f64::from_bits(t), sum(value))).collect()
    }
}

/// Line widths: one flow, all flows.
const THIN: f64 = 1.3;
const BOLD: f64 = 3.0;

/// Attribute of a dashed line.
const DASHES: &str = " stroke-dasharray=\"6 4\"";

const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
/// Between columns; wide enough for the last time of one axis and the first of the next.
const GAP: f64 = 44.0;
const PANEL_HEIGHT: f64 = 170.0;
/// Baselines of the heading and of the figures, above the top of a panel.
const HEADING: f64 = 44.0;
const FIGURES: f64 = 12.0;
const COLUMN_TITLES: f64 = 98.0;
const MOS_TOP: f64 = 180.0;
const FLOWS_TOP: f64 = MOS_TOP + PANEL_HEIGHT + 92.0;
const HEIGHT: f64 = FLOWS_TOP + PANEL_HEIGHT + 54.0;

/// Ends of the scale: the lowest score, and the highest of the E-model.
const MOS_SCALE: (f64, f64) = (1.0, 4.5);

/// The picture of several runs.
pub fn comparison(columns: &[Column], options: &Options) -> String {
    let picture = Picture::new(columns);
    let mut svg = Svg::default();
    picture.frame(&mut svg, options);
    for (index, column) in columns.iter().enumerate() {
        picture.column(&mut svg, index, column, options);
    }
    svg.0.push_str("</svg>\n");
    svg.0
}

/// Layout and scales that all panels share.
struct Picture {
    columns: usize,
    panel_width: f64,
    end_s: f64,
    max_mbps: f64,
    step_s: f64,
    step_mbps: f64,
}

/// One panel: its place and vertical scale.
struct Panel {
    x: f64,
    y: f64,
    width: f64,
    end_s: f64,
    scale: (f64, f64),
}

impl Panel {
    fn x_of(&self, t_s: f64) -> f64 {
        self.x + t_s / self.end_s * self.width
    }

    fn y_of(&self, value: f64) -> f64 {
        let (from, to) = self.scale;
        self.y + PANEL_HEIGHT - (value.clamp(from, to) - from) / (to - from) * PANEL_HEIGHT
    }
}

impl Picture {
    fn new(columns: &[Column]) -> Self {
        let points = |column: &Column| -> Vec<(f64, Option<f64>)> {
            column.calls.iter().chain(&column.flows).flat_map(|series| series.points.clone()).collect()
        };
        let end_s = columns.iter().flat_map(points).map(|(t_s, _)| t_s).fold(0.0, f64::max);
        let end_s = if end_s > 0.0 { end_s } else { 1.0 };
        let max = columns
            .iter()
            .flat_map(|column| Means::of(&column.flows).sums())
            .filter_map(|(_, value)| value)
            .fold(0.0, f64::max);
        let step_mbps = nice_step(max.max(1e-3) / 5.0);
        Self {
            columns: columns.len().max(1),
            panel_width: match columns.len() {
                0 | 1 => 680.0,
                2 => 400.0,
                _ => 300.0,
            },
            end_s,
            max_mbps: (max / step_mbps).ceil().max(1.0) * step_mbps,
            step_s: nice_step(end_s / 4.0),
            step_mbps,
        }
    }

    fn width(&self) -> f64 {
        LEFT + self.columns as f64 * self.panel_width + (self.columns - 1) as f64 * GAP + RIGHT
    }

    fn panel(&self, column: usize, y: f64, scale: (f64, f64)) -> Panel {
        let x = LEFT + column as f64 * (self.panel_width + GAP);
        Panel { x, y, width: self.panel_width, end_s: self.end_s, scale }
    }

    /// The parts that all columns share: title, headings and legends of the rows.
    fn frame(&self, svg: &mut Svg, options: &Options) {
        let (width, title) = (self.width(), escaped(&options.title));
        svg.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {HEIGHT:.0}\" width=\"{width:.0}\" \
             height=\"{HEIGHT:.0}\" role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, \
             'DejaVu Sans', sans-serif\">"
        ));
        svg.line(format_args!("<title>{title}</title>"));
        svg.line(format_args!("<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>"));
        svg.text(LEFT, 34.0, Text { size: 20, bold: true, ..Text::new(&options.title) });
        svg.text(LEFT, 56.0, Text { size: 13, colour: PALE_INK, ..Text::new(&options.subtitle) });

        let word = &options.flow_word;
        let (one, all) = (format!("one {word}"), format!("all {word}s together"));
        let acceptable = format!("acceptable: {ACCEPTABLE_MOS} or more");
        let calls = [
            Legend { colour: SKY_BLUE, width: THIN, dashed: false, text: "one call" },
            Legend { colour: BLUE, width: BOLD, dashed: false, text: "mean of the calls" },
            Legend { colour: GREEN, width: 1.5, dashed: true, text: &acceptable },
        ];
        let flows = [
            Legend { colour: ORANGE, width: THIN, dashed: false, text: &one },
            Legend { colour: VERMILLION, width: BOLD, dashed: false, text: &all },
        ];
        heading(svg, MOS_TOP, "Call quality", "MOS", &calls);
        heading(svg, FLOWS_TOP, "Goodput", "Mb/s", &flows);
    }

    fn column(&self, svg: &mut Svg, index: usize, column: &Column, options: &Options) {
        let centre = LEFT + index as f64 * (self.panel_width + GAP) + self.panel_width / 2.0;
        svg.text(
            centre,
            COLUMN_TITLES,
            Text { size: 16, bold: true, anchor: "middle", ..Text::new(&column.title) },
        );

        let quality = self.panel(index, MOS_TOP, MOS_SCALE);
        self.quality_background(svg, index, &quality);
        self.time_axis(svg, &quality, options.warmup_s, false);
        let mean = Means::of(&column.calls).points();
        lines(svg, &quality, &column.calls, SKY_BLUE, &mean, BLUE, "mean of the calls");
        if column.calls.is_empty() {
            absent(svg, &quality, "no calls");
        } else if let Some(mos) = column.mos {
            figure(svg, &quality, BLUE, &format!("{mos:.1}"), "over whole calls");
        }

        let goodput = self.panel(index, FLOWS_TOP, (0.0, self.max_mbps));
        self.goodput_background(svg, index, &goodput);
        self.time_axis(svg, &goodput, options.warmup_s, true);
        let total = Means::of(&column.flows).sums();
        let all = format!("all {}s together", options.flow_word);
        lines(svg, &goodput, &column.flows, ORANGE, &total, VERMILLION, &all);
        if column.flows.is_empty() {
            absent(svg, &goodput, &format!("no {}s", options.flow_word));
        } else if let Some(mbps) = mean_after(&total, options.warmup_s) {
            figure(svg, &goodput, VERMILLION, &format!("{mbps:.2}"), "Mb/s on average");
        }
    }

    fn quality_background(&self, svg: &mut Svg, index: usize, panel: &Panel) {
        let (x, y, width) = (panel.x, panel.y, panel.width);
        let line = panel.y_of(ACCEPTABLE_MOS);
        svg.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{GREEN}\" \
             fill-opacity=\"0.10\"/>",
            line - y
        ));
        for (mos, word) in [(1.0, "bad"), (2.0, "poor"), (3.0, "fair"), (4.0, "good")] {
            let y = panel.y_of(mos);
            svg.rule(x, x + width, y, GRID);
            if index == 0 {
                let label = format!("{word}  {mos:.0}");
                svg.text(x - 8.0, y + 4.0, Text { anchor: "end", ..Text::new(&label) });
            }
        }
        svg.line(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{line:.1}\" x2=\"{:.1}\" y2=\"{line:.1}\" stroke=\"{GREEN}\" \
             stroke-width=\"1.5\"{DASHES}/>",
            x + width
        ));
        if index == 0 {
            let label = format!("{ACCEPTABLE_MOS}");
            let style = Text { anchor: "end", bold: true, colour: GREEN, ..Text::new(&label) };
            svg.text(x - 8.0, line + 4.0, style);
        }
    }

    fn goodput_background(&self, svg: &mut Svg, index: usize, panel: &Panel) {
        let decimals = if self.step_mbps < 0.1 { 2 } else { usize::from(self.step_mbps < 1.0) };
        for mbps in ticks(self.max_mbps, self.step_mbps) {
            let y = panel.y_of(mbps);
            svg.rule(panel.x, panel.x + panel.width, y, GRID);
            if index == 0 {
                let label = format!("{mbps:.decimals$}");
                svg.text(panel.x - 8.0, y + 4.0, Text { anchor: "end", ..Text::new(&label) });
            }
        }
    }

    fn time_axis(&self, svg: &mut Svg, panel: &Panel, warmup_s: f64, labels: bool) {
        let (x, y, width, foot) = (panel.x, panel.y, panel.width, panel.y + PANEL_HEIGHT);
        if warmup_s > 0.0 {
            let covered = panel.x_of(warmup_s.min(panel.end_s)) - x;
            svg.line(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{covered:.1}\" height=\"{PANEL_HEIGHT:.1}\" \
                 fill=\"#000000\" fill-opacity=\"0.06\"><title>warm-up: not counted</title></rect>"
            ));
        }
        svg.rule(x, x + width, foot, PALE_INK);
        let decimals = usize::from(self.step_s < 1.0);
        for t_s in ticks(panel.end_s, self.step_s) {
            let at = panel.x_of(t_s);
            svg.line(format_args!(
                "<line x1=\"{at:.1}\" y1=\"{foot:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"{PALE_INK}\"/>",
                foot + 4.0
            ));
            if labels {
                let label = format!("{t_s:.decimals$}");
                svg.text(at, foot + 18.0, Text { anchor: "middle", ..Text::new(&label) });
            }
        }
        if labels {
            let style = Text { anchor: "middle", colour: PALE_INK, ..Text::new("time in seconds") };
            svg.text(x + width / 2.0, foot + 38.0, style);
        }
    }
}

/// A kind of line, and its meaning.
struct Legend<'a> {
    colour: &'a str,
    width: f64,
    dashed: bool,
    text: &'a str,
}

/// The title of a row, with its unit and legend.
fn heading(svg: &mut Svg, top: f64, title: &str, unit: &str, legend: &[Legend<'_>]) {
    let y = top - HEADING;
    svg.line(format_args!(
        "<text x=\"{LEFT:.1}\" y=\"{y:.1}\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">{title} \
         <tspan font-size=\"13\" font-weight=\"400\" fill=\"{PALE_INK}\">in {unit}</tspan></text>"
    ));
    let mut x = LEFT + 190.0;
    for &Legend { colour, width, dashed, text } in legend {
        let (to, middle) = (x + 26.0, y - 5.0);
        let dashes = if dashed { DASHES } else { "" };
        svg.line(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"{dashes}/>"
        ));
        svg.text(to + 7.0, y, Text { colour: PALE_INK, ..Text::new(text) });
        x = to + 40.0 + 7.0 * text.chars().count() as f64;
    }
}

/// The mean of a panel, above its left edge.
fn figure(svg: &mut Svg, panel: &Panel, colour: &str, number: &str, words: &str) {
    let (x, y) = (panel.x, panel.y - FIGURES);
    svg.line(format_args!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"22\" font-weight=\"600\" text-anchor=\"start\" \
         fill=\"{colour}\">{number} <tspan font-size=\"13\" font-weight=\"400\">{words}</tspan></text>"
    ));
}

fn absent(svg: &mut Svg, panel: &Panel, text: &str) {
    let style = Text { size: 14, anchor: "middle", colour: PALE_INK, ..Text::new(text) };
    svg.text(panel.x + panel.width / 2.0, panel.y + PANEL_HEIGHT / 2.0 + 5.0, style);
}

/// One thin line for each series, and the bold one on top.
fn lines(
    svg: &mut Svg,
    panel: &Panel,
    each: &[Series],
    thin: &str,
    together: &[(f64, Option<f64>)],
    bold: &str,
    name: &str,
) {
    // Many lines are drawn pale, so that the bold one stands out.
    let opacity = (6.0 / each.len().max(1) as f64).clamp(0.25, 0.9);
    for series in each {
        let title = escaped(&series.name);
        svg.line(format_args!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{thin}\" stroke-width=\"{THIN}\" stroke-opacity=\"{opacity:.2}\">\
             <title>{title}</title></path>",
            path(panel, &series.points)
        ));
    }
    if !together.is_empty() {
        let name = escaped(name);
        svg.line(format_args!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{bold}\" stroke-width=\"{BOLD}\" stroke-linejoin=\"round\">\
             <title>{name}</title></path>",
            path(panel, together)
        ));
    }
}

fn path(panel: &Panel, points: &[(f64, Option<f64>)]) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for &(t_s, value) in points {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let step = if pen_down { 'L' } else { 'M' };
            // Writing to a string does not fail.
            let _ = write!(path, "{step}{:.1} {:.1}", panel.x_of(t_s), panel.y_of(value));
        }
        pen_down = value.is_some_and(f64::is_finite);
    }
    path
}

/// The mean of the values after the warm-up.
fn mean_after(points: &[(f64, Option<f64>)], warmup_s: f64) -> Option<f64> {
    let counted: Vec<f64> =
        points.iter().filter(|(t_s, _)| *t_s > warmup_s).filter_map(|(_, value)| *value).collect();
    fairhop_model::stats::mean(&counted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn series(values: &[Option<f64>]) -> Series {
        let points = values.iter().enumerate().map(|(index, &value)| (index as f64 + 1.0, value)).collect();
        Series { name: "a < b".to_owned(), points }
    }

    #[test]
    fn a_panel_shows_the_score_of_the_calls_and_the_mean_goodput_after_the_warm_up_and_keeps_gaps() {
        let column = Column {
            title: "both".to_owned(),
            calls: vec![series(&[Some(1.0), Some(4.0), None, Some(3.0)]), series(&[Some(1.0), Some(2.0)])],
            mos: Some(2.9),
            flows: vec![series(&[Some(9.0), Some(0.5), Some(0.25)]), series(&[Some(9.0), Some(0.5)])],
        };
        let svg = comparison(&[column], &Options { warmup_s: 1.0, ..Options::default() });
        assert!(svg.contains(">2.9 <tspan"), "the score of the whole calls");
        assert!(svg.contains(">0.62 <tspan"), "mean of 0.5 + 0.5 and 0.25");
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
        let broken = svg.lines().find(|line| line.contains("mean of the calls</title>")).unwrap();
        assert_eq!((broken.matches('M').count(), broken.matches('L').count()), (2, 1));
    }

    /// Places of all texts: x, y, anchor and content.
    fn texts(svg: &str) -> Vec<(f64, f64, &str, &str)> {
        svg.lines()
            .filter(|line| line.starts_with("<text"))
            .map(|line| {
                let attribute = |name: &str| {
                    let start = line.find(&format!(" {name}=\"")).expect("the attribute") + name.len() + 3;
                    line[start..].split('"').next().expect("a value")
                };
                let number = |name| attribute(name).parse().expect("a number");
                let anchor = if line.contains("text-anchor") { attribute("text-anchor") } else { "start" };
                let content =
                    line.split('>').nth(1).and_then(|rest| rest.split('<').next()).expect("content");
                (number("x"), number("y"), anchor, content)
            })
            .collect()
    }

    #[test]
    fn figures_stand_outside_of_the_panels_and_times_of_neighbouring_axes_do_not_touch() {
        let column = Column {
            title: "x".to_owned(),
            calls: vec![series(&[Some(4.0); 60])],
            mos: Some(4.0),
            flows: vec![series(&[Some(0.7); 60])],
        };
        let svg = comparison(&vec![column; 4], &Options::default());
        let texts = texts(&svg);
        let inside = |y: f64| [MOS_TOP, FLOWS_TOP].iter().any(|&top| (top..top + PANEL_HEIGHT).contains(&y));
        for &(x, y, anchor, content) in &texts {
            assert!(!inside(y) || (x < LEFT && anchor == "end"), "{content} stands in a panel");
        }
        let mut times: Vec<(f64, usize)> = texts
            .iter()
            .filter(|(x, y, anchor, _)| *x >= LEFT && *anchor == "middle" && *y > FLOWS_TOP + PANEL_HEIGHT)
            .filter(|(.., content)| content.chars().all(|c| c.is_ascii_digit()))
            .map(|&(x, .., content)| (x, content.len()))
            .collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(times.len(), 16);
        for pair in times.windows(2) {
            // A digit of this size is 8 wide at most.
            let needed = 4.0 * (pair[0].1 + pair[1].1) as f64 + 8.0;
            assert!(pair[1].0 - pair[0].0 >= needed, "{pair:?}");
        }
    }

    proptest! {
        #[test]
        fn all_numbers_in_the_picture_are_finite_for_any_data(
            columns in 0_usize..4,
            values in prop::collection::vec(
                prop_oneof![Just(None), Just(Some(f64::NAN)), Just(Some(f64::INFINITY)), (-1e9..1e9).prop_map(Some)],
                0..20,
            ),
        ) {
            let column = Column { title: String::new(), calls: vec![series(&values)], mos: None, flows: vec![series(&values)] };
            let svg = comparison(&vec![column; columns], &Options::default());
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
            prop_assert!(svg.ends_with("</svg>\n"));
        }
    }
}
