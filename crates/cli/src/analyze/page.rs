//! The page with graphs.

use std::fmt::Write as _;

use fairhop_capture::histogram::Histogram;
use fairhop_capture::rtp::{Ends, Stream};
use fairhop_capture::tcp::Direction;
use fairhop_capture::{Found, fairness};
use fairhop_control::Decision;
use fairhop_sim::output::PROGRAM;
use fairhop_sim::output::svg::{BLUE, GREEN, ORANGE, PALE_INK, SKY_BLUE, VERMILLION, escaped};
use fairhop_sim::results::ACCEPTABLE_MOS;

use super::plot::{Line, Merge, Plot, Scale, thinned};
use super::text::{ms, percent};
use super::{Reading, tables, text};
use crate::html;
use crate::table::{NOTHING, fixed, whole};

/// Lines that can be told apart; calls beyond that are drawn alike.
const COLOURS: [&str; 6] = [BLUE, VERMILLION, GREEN, ORANGE, SKY_BLUE, "#CC79A7"];
/// Calls that are drawn, the worst ones.
const CALLS: usize = 40;
/// Flows whose sequence numbers are drawn, the largest ones.
const SEQUENCES: usize = 4;

const STYLE: &str = "\
body { margin: 1rem auto; max-width: 62rem; padding: 0 1rem; background: #fff; color: #222; line-height: 1.45;
  font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
svg { display: block; width: 100%; min-width: 32rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e3e3e3; }
th:first-child, td:first-child, td:has(.left) { text-align: left; }
.bad { color: #b00000; font-weight: 600; } .good { color: #006b4e; }
.key { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; font-size: 0.85rem; }
.key span::before { content: ''; display: inline-block; width: 1.4em; height: 0.25em; margin-right: 0.4em;
  vertical-align: middle; background: var(--of); }
.note { color: #666; font-size: 0.85rem; }
@media print { body { max-width: none; } h2, h3, svg, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } }";

/// The page.
pub(super) fn of(reading: &Reading<'_>) -> String {
    let found = &reading.found;
    let mut body =
        format!("<h1>{}</h1>\n<p>{}.</p>\n", escaped(reading.name), escaped(&text::summary(found)));
    for remark in &reading.remarks {
        body += &format!("<p class=\"bad\">{}</p>\n", escaped(remark));
    }
    let end_s = found.began.map_or(1.0, |began| found.ended.saturating_sub(began).as_secs_f64()).max(1e-3);
    let time = ("seconds since the beginning", Scale::Linear(0.0, end_s));
    body += &calls(found, time);
    body += &flows(found, time, reading.top);
    body += &between(found);
    body += &decisions(found, time);
    body += &notes(found);
    html::page(reading.name, STYLE, &body)
}

fn key(lines: &[(String, &str)]) -> String {
    let entry =
        |(name, colour): &(String, &str)| format!("<span style=\"--of:{colour}\">{}</span>", escaped(name));
    format!("<p class=\"key\">{}</p>\n", lines.iter().map(entry).collect::<String>())
}

/// A table; the cells are HTML.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut html = String::from("<div class=\"wide\"><table>\n<tr>");
    heads.iter().for_each(|head| html += &format!("<th>{}</th>", escaped(head)));
    html += "</tr>\n";
    for row in rows {
        html += "<tr>";
        row.iter().for_each(|cell| html += &format!("<td>{cell}</td>"));
        html += "</tr>\n";
    }
    html + "</table></div>\n"
}

/// A graph, which scrolls on a narrow screen, so that its labels can be read.
fn picture(plot: &Plot<'_>) -> String {
    format!("<div class=\"wide\">\n{}</div>\n", plot.svg())
}

fn score(mos: Option<f64>) -> String {
    mos.map_or_else(
        || NOTHING.to_owned(),
        |mos| {
            let class = if mos >= ACCEPTABLE_MOS { "good" } else { "bad" };
            format!("<span class=\"{class}\">{}</span>", fixed(mos, 2))
        },
    )
}

fn name_of(ends: &Ends) -> String {
    format!("{} → {}", text::source(ends), text::destination(ends))
}

fn calls(found: &Found, time: (&str, Scale)) -> String {
    let listener = found.settings.listener;
    let mut html = "<h2>Calls</h2>\n".to_owned();
    if found.streams.is_empty() {
        return html + "<p>There is no stream of RTP.</p>\n";
    }
    let worst = text::worst_streams(found);
    let speech: Vec<&&Stream> = worst.iter().filter(|stream| stream.codec.is_some()).take(CALLS).collect();
    let are_told_apart = speech.len() <= COLOURS.len();
    // The worst one is drawn on top.
    let lines = speech.iter().enumerate().rev().map(|(number, stream)| {
        let point = |(second, counts)| {
            (found.since(stream.began) + second as f64 + 0.5, stream.mos_of(counts, listener))
        };
        let points: Vec<_> = stream.seconds.iter().enumerate().map(point).collect();
        Line {
            name: name_of(&stream.ends),
            colour: if are_told_apart { COLOURS[number] } else { SKY_BLUE },
            width: if are_told_apart { 1.6 } else { 1.0 },
            points: thinned(&points, Merge::Min),
        }
    });
    let plot = Plot {
        title: "Call quality over time",
        x: time,
        y: ("MOS", Scale::Linear(1.0, 4.5)),
        lines: lines.collect(),
        marks: Vec::new(),
        threshold: Some(ACCEPTABLE_MOS),
    };
    if !speech.is_empty() {
        html += "<h3>Quality, second by second</h3>\n";
        html += &picture(&plot);
        if are_told_apart {
            let entries: Vec<_> =
                speech.iter().enumerate().map(|(n, stream)| (name_of(&stream.ends), COLOURS[n])).collect();
            html += &key(&entries);
        }
        html += &format!("<p class=\"note\">Dashed: {ACCEPTABLE_MOS}, the threshold of acceptable calls.");
        if speech.len() < found.streams.len() {
            html += &format!(" The {} worst of {} streams are drawn.", speech.len(), found.streams.len());
        }
        html += "</p>\n";
    }
    let heads = [
        "From",
        "to",
        "codec",
        "s",
        "packets",
        "lost %",
        "late %",
        "jitter ms",
        "max",
        "MOS",
        "worst second",
    ];
    let rows = worst.iter().take(CALLS).map(|stream| {
        let codec = tables::codec(stream);
        vec![
            escaped(&text::source(&stream.ends)),
            escaped(&text::destination(&stream.ends)),
            if codec.is_empty() { format!("type {}", stream.payload_type) } else { codec },
            fixed(stream.duration().as_secs_f64(), 1),
            whole(stream.expected() as f64),
            percent(stream.lost(), stream.expected()),
            percent(stream.late(), stream.expected()),
            fixed(stream.jitter_mean.as_millis_f64(), 2),
            fixed(stream.jitter_max.as_millis_f64(), 2),
            score(stream.mos(listener)),
            score(tables::worst(stream, listener)),
        ]
    });
    html + &table(&heads, rows)
}

fn flows(found: &Found, time: (&str, Scale), top: usize) -> String {
    let mut html = "<h2>TCP</h2>\n".to_owned();
    let flows: Vec<&Direction> = found.flows().into_iter().map(|(_, flow)| flow).collect();
    if flows.is_empty() {
        return html + "<p>There is no TCP data.</p>\n";
    }
    let drawn = &flows[..flows.len().min(COLOURS.len())];
    let line = |(number, flow): (usize, &&Direction)| {
        let began = flow.began.map_or(0.0, |began| found.since(began));
        let mut points: Vec<(f64, Option<f64>)> = Vec::new();
        for (second, bytes) in flow.seconds() {
            let at = began + f64::from(second) + 0.5;
            // A pause interrupts the line.
            if points.last().is_some_and(|(last, _)| at - last > 1.5) {
                points.push((at, None));
            }
            points.push((at, Some(8e-6 * f64::from(bytes))));
        }
        Line {
            name: name_of(&flow.ends),
            colour: COLOURS[number],
            width: 1.6,
            points: thinned(&points, Merge::Mean),
        }
    };
    let lines: Vec<Line> = drawn.iter().enumerate().map(line).collect();
    let max = lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let plot = Plot {
        title: "Goodput over time",
        x: time,
        y: ("Mb/s", Scale::up_to(max)),
        lines,
        marks: Vec::new(),
        threshold: None,
    };
    html += "<h3>Goodput, second by second</h3>\n";
    html += &picture(&plot);
    html += &key(&drawn
        .iter()
        .enumerate()
        .map(|(n, flow)| (name_of(&flow.ends), COLOURS[n]))
        .collect::<Vec<_>>());
    if drawn.len() < flows.len() {
        html += &format!(
            "<p class=\"note\">The {} largest of {} flows are drawn.</p>\n",
            drawn.len(),
            flows.len()
        );
    }
    let heads = [
        "Data from",
        "to",
        "MB",
        "s",
        "Mb/s",
        "RTT ms",
        "95 %",
        "sent again %",
        "of it lost before",
        "overtaken",
        "in flight kB",
    ];
    let rows = flows.iter().take(top.max(1)).map(|flow| {
        vec![
            escaped(&text::source(&flow.ends)),
            escaped(&text::destination(&flow.ends)),
            fixed(flow.goodput_bytes as f64 / 1e6, 2),
            fixed(flow.duration().as_secs_f64(), 1),
            flow.goodput().map_or_else(|| NOTHING.to_owned(), |rate| fixed(rate / 1e6, 3)),
            ms(flow.round_trips.quantile(0.5)),
            ms(flow.round_trips.quantile(0.95)),
            percent(flow.retransmissions, flow.data_packets),
            whole(flow.lost_before as f64),
            whole(flow.reordered as f64),
            fixed(flow.flight_max as f64 / 1e3, 0),
        ]
    });
    html += &table(&heads, rows);
    html += &sequences(found, &flows);
    html + &fairness_of(found, time)
}

/// Time-sequence graphs, as tcptrace drew them.
fn sequences(found: &Found, flows: &[&Direction]) -> String {
    let mut html = "<h3>Sequence numbers</h3>\n".to_owned();
    html += &key(&[
        ("sent".to_owned(), BLUE),
        ("acknowledged".to_owned(), GREEN),
        ("sent again".to_owned(), VERMILLION),
    ]);
    for flow in flows.iter().take(SEQUENCES) {
        let points = flow.sequence.points();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let line = |name: &str, colour, of: &dyn Fn(&fairhop_capture::tcp::Point) -> u64| Line {
            name: name.to_owned(),
            colour,
            width: 1.3,
            points: points
                .iter()
                .map(|point| (found.since(point.at), Some(of(point) as f64 / 1e6)))
                .collect(),
        };
        let marks = points.iter().filter(|point| point.retransmitted > 0);
        let plot = Plot {
            title: &format!("Sequence numbers of {}", name_of(&flow.ends)),
            x: (
                "seconds since the beginning",
                Scale::Linear(found.since(first.at), found.since(last.at).max(found.since(first.at) + 1e-3)),
            ),
            y: ("MB", Scale::up_to(last.sent as f64 / 1e6)),
            lines: vec![
                line("acknowledged", GREEN, &|point| point.acknowledged),
                line("sent", BLUE, &|point| point.sent),
            ],
            marks: marks.map(|point| (found.since(point.at), point.sent as f64 / 1e6, VERMILLION)).collect(),
            threshold: None,
        };
        html += &format!("<p class=\"note\">{}</p>\n{}", escaped(&name_of(&flow.ends)), picture(&plot));
    }
    html
}

fn fairness_of(found: &Found, time: (&str, Scale)) -> String {
    let seconds = fairness::seconds(found);
    if seconds.is_empty() {
        return String::new();
    }
    let points: Vec<_> = seconds.iter().map(|second| (second.at_s + 0.5, Some(second.index))).collect();
    let plot = Plot {
        title: "Fairness over time",
        x: time,
        y: ("Jain's index", Scale::Linear(0.0, 1.0)),
        lines: vec![Line {
            name: "Jain's index".to_owned(),
            colour: BLUE,
            width: 1.6,
            points: thinned(&points, Merge::Mean),
        }],
        marks: Vec::new(),
        threshold: None,
    };
    format!(
        "<h3>Fairness, second by second</h3>\n{}<p>{}</p>\n",
        picture(&plot),
        escaped(text::fairness(found).trim_end())
    )
}

fn between(found: &Found) -> String {
    let streams = text::worst_streams(found).into_iter().map(|stream| (name_of(&stream.ends), &stream.gaps));
    let flows = found.flows().into_iter().map(|(_, flow)| (name_of(&flow.ends), &flow.gaps));
    let half = COLOURS.len() / 2;
    let drawn: Vec<(String, &Histogram)> =
        streams.take(half).chain(flows.take(half)).filter(|(_, gaps)| gaps.count() > 1).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let lines = drawn.iter().enumerate().map(|(number, (name, gaps))| Line {
        name: name.clone(),
        colour: COLOURS[number],
        width: 1.6,
        points: gaps.distribution().map(|(time, part)| (time.as_millis_f64(), Some(part))).collect(),
    });
    let plot = Plot {
        title: "Times between packets",
        x: ("milliseconds", Scale::Logarithmic(0.01, 10_000.0)),
        y: ("part of the packets", Scale::Linear(0.0, 1.0)),
        lines: lines.collect(),
        marks: Vec::new(),
        threshold: None,
    };
    let entries: Vec<_> = drawn.iter().enumerate().map(|(n, (name, _))| (name.clone(), COLOURS[n])).collect();
    format!(
        "<h2>Times between packets</h2>\n{}{}<p class=\"note\">Part of the packets that came at most so long after the one \
         before. A steep line is an even flow; a step at the left is a burst.</p>\n",
        picture(&plot),
        key(&entries)
    )
}

fn decisions(found: &Found, time: (&str, Scale)) -> String {
    let Some(decisions) = found.decisions.as_deref().filter(|_| found.crossed.0 > 0) else {
        return String::new();
    };
    let line = |name: &str, colour, of: &dyn Fn(&Decision) -> Option<f64>| Line {
        name: name.to_owned(),
        colour,
        width: 1.6,
        points: thinned(
            &decisions
                .iter()
                .map(|one| (found.since(one.at), of(one).map(|bits| bits / 1e6)))
                .collect::<Vec<_>>(),
            Merge::Mean,
        ),
    };
    let lines = vec![
        line("budget (Mb/s · hops)", BLUE, &|one| one.budget),
        line("pace into the mesh (Mb/s)", ORANGE, &|one| one.down.map(|rate| rate.0 as f64)),
    ];
    let max = lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let entries: Vec<_> = lines.iter().map(|line| (line.name.clone(), line.colour)).collect();
    let plot = Plot {
        title: "What the controller would have asked for",
        x: time,
        y: ("Mb/s", Scale::up_to(max)),
        lines,
        marks: Vec::new(),
        threshold: None,
    };
    let rows = text::changes(decisions).into_iter().map(|one| {
        vec![
            fixed(found.since(one.at), 1),
            one.state.name().to_owned(),
            one.budget.map_or_else(|| NOTHING.to_owned(), |bits| whole(bits / 1e3)),
            one.down.map_or_else(|| NOTHING.to_owned(), |rate| whole(rate.0 as f64 / 1e3)),
            one.window.map_or_else(|| NOTHING.to_owned(), |bytes| whole(f64::from(bytes))),
            score(one.mos),
            format!("<span class=\"left\">{}</span>", escaped(&one.reason.to_string())),
        ]
    });
    let mut html = String::from("<h2>What adaptive control would have asked for</h2>\n");
    // Writing to a string does not fail.
    let _ = write!(html, "{}{}", picture(&plot), key(&entries));
    html += &format!("<p class=\"note\">{}</p>\n", text::OPEN_LOOP);
    html + &table(
        &["s", "state", "budget kb/s · hops", "into mesh kb/s", "window bytes", "worst MOS", "why"],
        rows,
    )
}

fn notes(found: &Found) -> String {
    let listener = found.settings.listener;
    format!(
        "<h2>How to read this</h2>\n<p class=\"note\">Figures are those of the place of the capture: what is lost beyond it does \
         not show. Lost: missing sequence numbers. Late: over {} ms after the fastest packet of the last minutes. MOS: E-model \
         with a delay of {} ms for the fastest packet. RTT: from a segment to the ACK of its end, between this place and the \
         receiver. Sent again: segments below the highest sequence number; overtaken ones are not among them. Made by \
         <span style=\"color:{PALE_INK}\">{PROGRAM}</span>.</p>\n",
        fixed(listener.playout.as_millis_f64(), 0),
        fixed(listener.min_delay.as_millis_f64(), 0)
    )
}
