//! The runs of one scenario as a picture: call quality and goodput over time, and a bar of airtime for each node.
//!
//! One run has a thin line for each call and flow. Several seeds have their mean, and a band from the lowest to the highest
//! seed at each time. Airtime is the mean of the seeds.

use std::collections::BTreeMap;

use super::{
    Column, FLOWS_TOP, HEADING, LEFT, Legend, MOS_SCALE, MOS_TOP, Means, Options, PANEL_HEIGHT, Panel,
    Picture, RIGHT, THIN, absent, figure, heading, mean_after, path,
};
use crate::output::svg::{
    BLUE, GREEN, GRID, INK, ORANGE, PALE_INK, SKY_BLUE, Svg, Text, VERMILLION, escaped,
};
use crate::results::{AirtimeSummary, NodeSummary};
use fairhop_model::stats;

/// Width of the panels.
const WIDTH: f64 = 640.0;
/// Top of the first bar.
const BARS_TOP: f64 = FLOWS_TOP + PANEL_HEIGHT + 96.0;
/// There is one column, which needs no title: what is above the headings moves down by this much.
const CUT: f64 = 44.0;
/// Below the last bar: labels of the axis.
const FOOT: f64 = 34.0;
/// A title of more letters is written smaller, and one of more than the second number is cut.
const LETTERS: [usize; 2] = [58, 84];
/// More nodes are not drawn: the busiest are.
pub const MAX_BARS: usize = 120;
/// Opacity of a band.
const BAND: &str = "0.22";

/// Kinds of airtime, in the order of a bar: name, colour and value.
type Kind = (&'static str, &'static str, fn(&AirtimeSummary) -> f64);
const KINDS: [Kind; 6] = [
    ("sent", VERMILLION, |airtime| airtime.own),
    ("received", BLUE, |airtime| airtime.received),
    ("overheard", SKY_BLUE, |airtime| airtime.overheard),
    ("collided", ORANGE, |airtime| airtime.collided),
    ("energy", "#999999", |airtime| airtime.energy),
    ("idle", "#EEEEEE", |airtime| airtime.idle),
];
/// The airtime of a node by kind.
type Parts = [f64; KINDS.len()];

/// The picture of the runs of one scenario: one of [`Column`] and the nodes for each seed.
pub fn own(runs: &[Column], nodes: &[&[NodeSummary]], options: &Options) -> String {
    let bars = bars(nodes);
    let mut picture = Picture { columns: 1, panel_width: WIDTH, ..Picture::new(runs) };
    if runs.iter().all(|run| run.flows.is_empty()) {
        // Any scale will do.
        (picture.max_mbps, picture.step_mbps) = (1.0, 0.5);
    }
    let mut svg = Svg::default();
    frame(&mut svg, runs.len() > 1, &bars, options);
    match runs {
        [run] => {
            let untitled = Column { title: String::new(), ..run.clone() };
            picture.column(&mut svg, 0, &untitled, options);
        }
        _ => seeds(&mut svg, &picture, runs, options),
    }
    airtime(&mut svg, &bars);
    svg.0.push_str("</svg>\n");
    svg.0
}

/// Title, and headings with their legends.
fn frame(svg: &mut Svg, several: bool, bars: &Bars, options: &Options) {
    let (width, height) = (LEFT + WIDTH + RIGHT, BARS_TOP + bars.height() + FOOT - CUT);
    svg.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {CUT:.0} {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, \
         'DejaVu Sans', sans-serif\">"
    ));
    svg.line(format_args!("<title>{}</title>", escaped(&options.title)));
    svg.line(format_args!("<rect y=\"{CUT:.0}\" width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>"));
    let [wide, longest] = LETTERS;
    let letters = options.title.chars().count();
    let mut title = options.title.clone();
    if letters > longest {
        title = title.chars().take(longest - 1).chain(['…']).collect();
    }
    let size = if letters > wide { 15 } else { 20 };
    svg.text(LEFT, CUT + 34.0, Text { size, bold: true, ..Text::new(&title) });
    svg.text(LEFT, CUT + 56.0, Text { size: 13, colour: PALE_INK, ..Text::new(&options.subtitle) });

    let all = format!("all {}s together", options.flow_word);
    let one = format!("one {}", options.flow_word);
    let line = |colour, width, text| Legend { colour, width, dashed: false, text };
    let limit = Legend { colour: GREEN, width: 1.5, dashed: true, text: "acceptable" };
    let (calls, flows) = if several {
        (
            vec![line(BLUE, 3.0, "mean of calls"), line(BAND_BLUE, 10.0, "range of seeds"), limit],
            vec![line(VERMILLION, 3.0, all.as_str()), line(BAND_VERMILLION, 10.0, "range of seeds")],
        )
    } else {
        (
            vec![line(SKY_BLUE, THIN, "one call"), line(BLUE, 3.0, "mean of the calls"), limit],
            vec![line(ORANGE, THIN, one.as_str()), line(VERMILLION, 3.0, all.as_str())],
        )
    };
    heading(svg, MOS_TOP, "Call quality", "MOS", &calls);
    heading(svg, FLOWS_TOP, "Goodput", "Mb/s", &flows);
}

/// The colours of bands as they look on white.
const BAND_BLUE: &str = "#C7E0EE";
const BAND_VERMILLION: &str = "#F6DBC7";

/// Both panels with the mean of the seeds and their range.
fn seeds(svg: &mut Svg, picture: &Picture, runs: &[Column], options: &Options) {
    let quality = picture.panel(0, MOS_TOP, MOS_SCALE);
    picture.quality_background(svg, 0, &quality);
    picture.time_axis(svg, &quality, options.warmup_s, false);
    if runs.iter().all(|run| run.calls.is_empty()) {
        absent(svg, &quality, "no calls");
    } else {
        let each: Vec<_> = runs.iter().map(|run| Means::of(&run.calls).points()).collect();
        band(svg, &quality, &each, BLUE, "mean of the calls");
        if let Some(mos) = stats::mean(&runs.iter().filter_map(|run| run.mos).collect::<Vec<_>>()) {
            figure(svg, &quality, BLUE, &format!("{mos:.1}"), "over whole calls, mean of the seeds");
        }
    }

    let goodput = picture.panel(0, FLOWS_TOP, (0.0, picture.max_mbps));
    picture.goodput_background(svg, 0, &goodput);
    picture.time_axis(svg, &goodput, options.warmup_s, true);
    if runs.iter().all(|run| run.flows.is_empty()) {
        absent(svg, &goodput, &format!("no {}s", options.flow_word));
    } else {
        let each: Vec<_> = runs.iter().map(|run| Means::of(&run.flows).sums()).collect();
        band(svg, &goodput, &each, VERMILLION, &format!("all {}s together", options.flow_word));
        let means: Vec<f64> = each.iter().filter_map(|points| mean_after(points, options.warmup_s)).collect();
        if let Some(mbps) = stats::mean(&means) {
            figure(svg, &goodput, VERMILLION, &format!("{mbps:.2}"), "Mb/s on average, mean of the seeds");
        }
    }
}

/// The range of several series, and their mean as a line.
fn band(svg: &mut Svg, panel: &Panel, each: &[Vec<(f64, Option<f64>)>], colour: &str, name: &str) {
    let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for &(t_s, value) in each.iter().flatten() {
        // The bits of non-negative floats sort like the floats.
        at.entry(t_s.to_bits()).or_default().extend(value.filter(|value| value.is_finite()));
    }
    let ranges: Vec<(f64, Vec<f64>)> =
        at.into_iter().map(|(t, values)| (f64::from_bits(t), values)).collect();
    // A time without a value divides the band.
    for part in ranges.split(|(_, values)| values.is_empty()) {
        let edge = |t_s: f64, value: f64| format!("{:.1},{:.1}", panel.x_of(t_s), panel.y_of(value));
        let highest =
            part.iter().map(|(t_s, values)| edge(*t_s, values.iter().copied().fold(f64::MIN, f64::max)));
        let lowest = part
            .iter()
            .rev()
            .map(|(t_s, values)| edge(*t_s, values.iter().copied().fold(f64::MAX, f64::min)));
        let points: Vec<String> = highest.chain(lowest).collect();
        if !points.is_empty() {
            svg.line(format_args!(
                "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"{BAND}\"><title>range of the seeds</title></polygon>",
                points.join(" ")
            ));
        }
    }
    let means: Vec<(f64, Option<f64>)> =
        ranges.iter().map(|(t_s, values)| (*t_s, stats::mean(values))).collect();
    svg.line(format_args!(
        "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"3\" stroke-linejoin=\"round\"><title>{}</title></path>",
        path(panel, &means),
        escaped(name)
    ));
}

/// The nodes that are drawn.
struct Bars {
    nodes: Vec<(u32, Parts)>,
    /// How many nodes there are.
    all: usize,
}

impl Bars {
    /// Distance of two bars, height of a bar, and size of their labels.
    fn sizes(&self) -> (f64, f64, u32) {
        match self.nodes.len() {
            0..=20 => (20.0, 14.0, 12),
            21..=60 => (14.0, 10.0, 10),
            _ => (10.0, 7.0, 8),
        }
    }

    fn height(&self) -> f64 {
        self.sizes().0 * self.nodes.len().max(1) as f64
    }
}

/// The mean airtime of the nodes over the seeds; of many nodes, the busiest.
fn bars(runs: &[&[NodeSummary]]) -> Bars {
    let mut sums: BTreeMap<u32, (Parts, f64)> = BTreeMap::new();
    for node in runs.iter().copied().flatten() {
        let (sum, count) = sums.entry(node.node).or_default();
        for (sum, (.., of)) in sum.iter_mut().zip(KINDS) {
            *sum += of(&node.airtime);
        }
        *count += 1.0;
    }
    let all = sums.len();
    let mut nodes: Vec<(u32, Parts)> =
        sums.into_iter().map(|(node, (sum, count))| (node, sum.map(|sum| sum / count))).collect();
    if all > MAX_BARS {
        nodes.sort_by(|(_, [.., idle]), (_, [.., other])| idle.total_cmp(other));
        nodes.truncate(MAX_BARS);
        nodes.sort_by_key(|(node, _)| *node);
    }
    Bars { nodes, all }
}

/// A bar for each node.
fn airtime(svg: &mut Svg, bars: &Bars) {
    let y = BARS_TOP - HEADING / 2.0;
    let about = match bars.all {
        all if all > bars.nodes.len() => format!("in %, the {} busiest of {all} nodes", bars.nodes.len()),
        _ => "in %".to_owned(),
    };
    svg.line(format_args!(
        "<text x=\"{LEFT:.1}\" y=\"{y:.1}\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">Airtime \
         <tspan font-size=\"13\" font-weight=\"400\" fill=\"{PALE_INK}\">{about}</tspan></text>"
    ));
    // With many nodes, the heading is longer and the legend goes above it.
    let legend_y = if bars.all > bars.nodes.len() { y - 22.0 } else { y };
    let mut x = LEFT + 150.0;
    for (name, colour, _) in KINDS {
        svg.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"10\" fill=\"{colour}\"/>",
            legend_y - 9.0
        ));
        svg.text(x + 19.0, legend_y, Text { colour: PALE_INK, ..Text::new(name) });
        x += 36.0 + 7.0 * name.chars().count() as f64;
    }
    if bars.nodes.is_empty() {
        let style = Text { size: 14, anchor: "middle", colour: PALE_INK, ..Text::new("no radio nodes") };
        svg.text(LEFT + WIDTH / 2.0, BARS_TOP + 14.0, style);
        return;
    }
    let (pitch, height, size) = bars.sizes();
    let foot = BARS_TOP + bars.height();
    for percent in [0, 20, 40, 60, 80, 100] {
        let at = LEFT + f64::from(percent) / 100.0 * WIDTH;
        svg.line(format_args!(
            "<line x1=\"{at:.1}\" y1=\"{BARS_TOP:.1}\" x2=\"{at:.1}\" y2=\"{foot:.1}\" stroke=\"{GRID}\"/>"
        ));
        svg.text(at, foot + 16.0, Text { anchor: "middle", ..Text::new(&percent.to_string()) });
    }
    for (index, (node, parts)) in bars.nodes.iter().enumerate() {
        let top = BARS_TOP + index as f64 * pitch + (pitch - height) / 2.0;
        let label = format!("node {node}");
        svg.text(LEFT - 8.0, top + height - 1.5, Text { anchor: "end", size, ..Text::new(&label) });
        let named: Vec<String> = KINDS
            .iter()
            .zip(parts)
            .map(|((name, ..), part)| format!("{name} {:.1} %", 100.0 * part))
            .collect();
        svg.line(format_args!("<g class=\"airtime\"><title>{label}: {}</title>", named.join(", ")));
        let mut from = 0.0;
        for ((_, colour, _), part) in KINDS.into_iter().zip(parts) {
            let part = part.clamp(0.0, 1.0 - from);
            svg.line(format_args!(
                "<rect x=\"{:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                LEFT + from * WIDTH,
                part * WIDTH
            ));
            from += part;
        }
        svg.line(format_args!("</g>"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;

    fn node(node: u32, own: f64) -> NodeSummary {
        NodeSummary {
            node,
            airtime: AirtimeSummary { own, idle: 1.0 - own, ..AirtimeSummary::default() },
            frames_sent: 0.0,
            retries: 0.0,
            frames_lost: BTreeMap::new(),
            queue_drops: 0.0,
            queue_early_drops: 0.0,
            queue_mean: 0.0,
            queue_max: 0.0,
        }
    }

    fn run(values: &[Option<f64>]) -> Column {
        let points = values.iter().enumerate().map(|(index, &value)| (index as f64 + 1.0, value)).collect();
        let series = vec![Series { name: "a < b".to_owned(), points }];
        Column { title: String::new(), calls: series.clone(), mos: Some(4.0), flows: series }
    }

    #[test]
    fn seeds_have_a_band_with_their_mean_and_a_gap_divides_it() {
        let runs =
            [run(&[Some(1.0), Some(2.0), None, Some(4.0)]), run(&[Some(3.0), Some(2.0), None, Some(2.0)])];
        let nodes = [node(0, 0.2), node(1, 0.4)];
        let svg = own(&runs, &[&nodes, &nodes], &Options::default());
        assert_eq!(svg.matches("<polygon").count(), 4, "two parts of a band in each panel");
        assert_eq!(svg.matches("class=\"airtime\"").count(), 2);
        assert!(svg.contains("node 1: sent 40.0 %, received 0.0 %"));
        assert!(!svg.contains("one call") && svg.contains("range of seeds"));
        let one = own(&runs[..1], &[&nodes], &Options::default());
        assert!(one.contains("one call") && !one.contains("<polygon"));
    }

    #[test]
    fn a_network_without_calls_flows_or_nodes_has_a_picture_and_of_many_nodes_the_busiest_have_bars() {
        let nothing = Column { title: String::new(), calls: Vec::new(), mos: None, flows: Vec::new() };
        for runs in [vec![], vec![nothing.clone()], vec![nothing; 3]] {
            let svg = own(&runs, &[], &Options { title: "x".repeat(500), ..Options::default() });
            for absent in ["no calls", "no downloads", "no radio nodes"] {
                assert!(svg.contains(absent), "{absent}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
            let long = "x".repeat(90);
            assert!(svg.lines().filter(|line| line.starts_with("<text")).all(|line| !line.contains(&long)));
        }
        let many: Vec<NodeSummary> =
            (0..400).map(|number| node(number, f64::from(number) / 1000.0)).collect();
        let svg = own(&[run(&[Some(1.0)])], &[&many], &Options::default());
        assert_eq!(svg.matches("class=\"airtime\"").count(), MAX_BARS);
        assert!(
            svg.contains(">node 399<")
                && !svg.contains(">node 279<")
                && svg.contains("the 120 busiest of 400")
        );
    }
}
