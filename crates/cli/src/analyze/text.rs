//! The tables for the terminal.

use std::fmt::Write as _;

use fairhop_capture::histogram::Histogram;
use fairhop_capture::rtp::{Ends, Stream};
use fairhop_capture::tcp::Direction;
use fairhop_capture::{Found, fairness};
use fairhop_control::Decision;
use fairhop_model::stats;
use fairhop_model::units::Nanos;
use fairhop_sim::results::ACCEPTABLE_MOS;

use super::{Reading, tables};
use crate::progress::{duration, size};
use crate::table::{BAD, Cell, FAINT, GOOD, NOTHING, TITLE, Table, fixed, whole, wrap};

/// Why the budget may be too low.
pub(super) const OPEN_LOOP: &str = "Nothing obeyed the controller: from its first cut on, it sees TCP that goes on as before, and \
                                    asks for less than it would of TCP that obeys.";
/// Decisions that are shown.
const DECISIONS: usize = 12;

/// The report.
pub(super) fn of(reading: &Reading<'_>) -> String {
    let found = &reading.found;
    let mut text = head(reading);
    if found.counts.packets == 0 {
        return text + "There is no IP packet in it.\n";
    }
    text += &calls(found, reading.top);
    text += &flows(found, reading.top);
    text += &between(found, reading.top);
    text += &decisions(found);
    text
}

/// What the capture is.
pub(super) fn summary(found: &Found) -> String {
    let counts = &found.counts;
    let seconds = found.began.map_or(0.0, |began| found.ended.saturating_sub(began).as_secs_f64());
    let mut text = format!(
        "{} packets in {}, {}: {} of TCP, {} of UDP",
        whole(counts.packets as f64),
        if seconds < 60.0 { format!("{} s", fixed(seconds, 1)) } else { duration(seconds) },
        size(counts.bytes as f64),
        whole(counts.tcp as f64),
        whole(counts.udp as f64)
    );
    if counts.copies > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "; {} copies do not count", whole(counts.copies as f64));
    }
    if counts.other > 0 {
        let _ = write!(text, "; {} frames without IP", whole(counts.other as f64));
    }
    text
}

fn head(reading: &Reading<'_>) -> String {
    format!("{TITLE}{}{TITLE:#}\n{}\n", reading.name, wrap(&summary(&reading.found)))
}

/// An address and its port.
pub(super) fn end(address: fairhop_control::Address, port: u16) -> String {
    let address = address.to_string();
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

pub(super) fn source(ends: &Ends) -> String {
    end(ends.source, ends.source_port)
}

pub(super) fn destination(ends: &Ends) -> String {
    end(ends.destination, ends.destination_port)
}

/// A part of a whole in percent.
pub(super) fn percent(part: u64, of: u64) -> String {
    fixed(100.0 * part as f64 / of.max(1) as f64, 2)
}

/// A time in milliseconds.
pub(super) fn ms(time: Option<Nanos>) -> String {
    time.map_or_else(|| NOTHING.to_owned(), |time| fixed(time.as_millis_f64(), 1))
}

/// A score in the colour of its meaning.
fn score(mos: Option<f64>) -> Cell {
    match mos {
        Some(mos) if mos >= ACCEPTABLE_MOS => Cell::styled(fixed(mos, 2), GOOD),
        Some(mos) => Cell::styled(fixed(mos, 2), BAD),
        None => NOTHING.into(),
    }
}

/// The streams, the worst first.
pub(super) fn worst_streams(found: &Found) -> Vec<&Stream> {
    let listener = found.settings.listener;
    let mut streams: Vec<&Stream> = found.streams.iter().collect();
    let mos = |stream: &Stream| stream.mos(listener).unwrap_or(f64::INFINITY);
    streams.sort_by(|a, b| mos(a).total_cmp(&mos(b)));
    streams
}

fn calls(found: &Found, top: usize) -> String {
    let listener = found.settings.listener;
    if found.streams.is_empty() {
        return "\nNo calls: no stream of RTP.\n".to_owned();
    }
    let streams = worst_streams(found);
    let mut table = Table::new("Calls from")
        .column("to", 4)
        .column("codec", 3)
        .column("s", 2)
        .column("packets", 3)
        .column("lost %", 8)
        .column("late %", 7)
        .column("jitter ms", 6)
        .column("MOS", 9)
        .column("worst s", 5);
    for stream in streams.iter().take(top) {
        let codec = tables::codec(stream);
        let cells = [
            destination(&stream.ends).into(),
            if codec.is_empty() { format!("type {}", stream.payload_type).into() } else { codec.into() },
            fixed(stream.duration().as_secs_f64(), 0).into(),
            whole(stream.expected() as f64).into(),
            percent(stream.lost(), stream.expected()).into(),
            percent(stream.late(), stream.expected()).into(),
            fixed(stream.jitter_mean.as_millis_f64(), 2).into(),
            score(stream.mos(listener)),
            score(tables::worst(stream, listener)),
        ];
        table.row(&source(&stream.ends), cells);
    }
    let more = streams.len().saturating_sub(top);
    format!("\n{}{}", table.render(), remaining(more))
}

fn remaining(more: usize) -> String {
    if more > 0 { format!("and {more} more (--top N)\n") } else { String::new() }
}

fn flows(found: &Found, top: usize) -> String {
    let flows = found.flows();
    if flows.is_empty() {
        return "\nNo TCP data.\n".to_owned();
    }
    let mut table = Table::new("TCP data from")
        .column("to", 4)
        .column("MB", 6)
        .column("s", 3)
        .column("Mb/s", 9)
        .column("RTT ms", 8)
        .column("95 %", 5)
        .column("sent again %", 7)
        .column("overtaken", 2)
        .column("handshake ms", 3)
        .column("in flight kB", 1);
    for (connection, flow) in flows.iter().take(top) {
        let cells = [
            destination(&flow.ends),
            fixed(flow.goodput_bytes as f64 / 1e6, 2),
            fixed(flow.duration().as_secs_f64(), 1),
            flow.goodput().map_or_else(|| NOTHING.to_owned(), |rate| fixed(rate / 1e6, 3)),
            ms(flow.round_trips.quantile(0.5)),
            ms(flow.round_trips.quantile(0.95)),
            percent(flow.retransmissions, flow.data_packets),
            flow.reordered.to_string(),
            ms(connection.handshake),
            fixed(flow.flight_max as f64 / 1e3, 0),
        ];
        table.row(&source(&flow.ends), cells.map(Cell::from));
    }
    let more = flows.len().saturating_sub(top);
    format!("\n{}{}{}", table.render(), remaining(more), fairness(found))
}

/// How equally flows share.
pub(super) fn fairness(found: &Found) -> String {
    let seconds = fairness::seconds(found);
    let indices: Vec<f64> = seconds.iter().map(|second| second.index).collect();
    let flows = seconds.iter().map(|second| second.flows).max();
    match (stats::mean(&indices), flows) {
        (Some(mean), Some(flows)) => format!(
            "Fairness (Jain's index): {} in the mean of {} seconds with two or more flows, {flows} at most\n",
            fixed(mean, 2),
            seconds.len()
        ),
        _ => String::new(),
    }
}

fn between(found: &Found, top: usize) -> String {
    let mut table = Table::new("Between packets, ms")
        .column("to", 3)
        .column("5 %", 2)
        .column("median", 9)
        .column("95 %", 8)
        .column("99 %", 7)
        .column("longest", 6);
    let mut row = |ends: &Ends, gaps: &Histogram| {
        let quantile = |part| ms(gaps.quantile(part));
        let cells = [
            destination(ends),
            quantile(0.05),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            ms(gaps.max()),
        ];
        table.row(&source(ends), cells.map(Cell::from));
    };
    // Half of the rows for each, or what the others leave.
    let (streams, flows) = (worst_streams(found), found.flows());
    let half = top.div_ceil(2);
    let of_streams = streams.len().min(top - flows.len().min(top - half.min(top)));
    streams.iter().take(of_streams).for_each(|stream| row(&stream.ends, &stream.gaps));
    let rest = top.saturating_sub(of_streams);
    let flows: Vec<&Direction> =
        flows.into_iter().map(|(_, flow)| flow).filter(|flow| flow.gaps.count() > 0).collect();
    flows.iter().take(rest).for_each(|flow| row(&flow.ends, &flow.gaps));
    if of_streams + flows.len().min(rest) == 0 { String::new() } else { format!("\n{}", table.render()) }
}

/// Decisions at which state or kind of reason changed.
pub(super) fn changes(decisions: &[Decision]) -> Vec<&Decision> {
    let mut changes: Vec<&Decision> = Vec::new();
    for decision in decisions {
        if changes.last().is_none_or(|last| !last.is_like(decision)) {
            changes.push(decision);
        }
    }
    changes
}

/// Median and last budget in kb/s times hops; none without any.
pub(super) fn budgets(decisions: &[Decision]) -> Option<(f64, f64)> {
    let budgets: Vec<f64> = decisions.iter().filter_map(|decision| Some(decision.budget? / 1e3)).collect();
    let mut sorted = budgets.clone();
    sorted.sort_by(f64::total_cmp);
    Some((*sorted.get(sorted.len() / 2)?, *budgets.last()?))
}

fn decisions(found: &Found) -> String {
    let Some(decisions) = &found.decisions else {
        return format!(
            "\n{FAINT}{}{FAINT:#}\n",
            wrap(
                "With --mesh NETWORK, the adaptive controller looks on, and says what it would have asked for."
            )
        );
    };
    let (crossed, elsewhere) = found.crossed;
    let mut text = format!("\n{TITLE}Adaptive control would have asked for{TITLE:#}\n");
    if crossed == 0 {
        return text
            + &wrap(&format!("nothing: none of {elsewhere} packets crossed the edge of this mesh"))
            + "\n";
    }
    match budgets(decisions) {
        Some((median, last)) => {
            let line = format!(
                "a budget of {} kb/s · hops for TCP in the median, {} at the end ({} packets crossed the edge of the mesh, {} did not)",
                whole(median),
                whole(last),
                whole(crossed as f64),
                whole(elsewhere as f64)
            );
            text += &(wrap(&line) + "\n");
        }
        None => text += "no budget: there was no TCP beside calls\n",
    }
    text += &(wrap(OPEN_LOOP) + "\n");
    let changes = changes(decisions);
    let began = found.began.unwrap_or(Nanos::ZERO);
    for decision in changes.iter().take(DECISIONS) {
        let at = decision.at.saturating_sub(began).as_secs_f64();
        let budget = decision.budget.map_or_else(|| NOTHING.to_owned(), |bits| whole(bits / 1e3));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>8} s  {:<10}{budget:>7}  {}",
            fixed(at, 1),
            decision.state.name(),
            decision.reason
        );
    }
    let more = changes.len().saturating_sub(DECISIONS);
    if more > 0 {
        let _ = writeln!(text, "and {more} more changes (--json, --out)");
    }
    text
}
