//! What was found as tables: Parquet files, and the rows of the JSON object.

use std::sync::Arc;

use fairhop_capture::fairness;
use fairhop_capture::histogram::Histogram;
use fairhop_capture::rtp::{Ends, Stream};
use fairhop_capture::{Found, rtp};
use fairhop_model::units::Nanos;
use fairhop_sim::output::PROGRAM;
use fairhop_sim::output::columns::{Column, Table, Values};
use serde_json::{Map, Value, json};

use super::Reading;

/// Tables that only graphs need; they are not in the JSON object.
const GRAPHS: [&str; 2] = ["flow_sequence", "times_between"];

/// A table whose columns are filled row by row.
struct Rows<R> {
    name: &'static str,
    about: &'static str,
    rows: Vec<R>,
    columns: Vec<Column>,
}

impl<R> Rows<R> {
    fn new(name: &'static str, about: &'static str, rows: impl IntoIterator<Item = R>) -> Self {
        Self { name, about, rows: rows.into_iter().collect(), columns: Vec::new() }
    }

    fn integer(mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> u64) -> Self {
        let values = self.rows.iter().map(|row| i64::try_from(of(row)).unwrap_or(i64::MAX)).collect();
        self.columns.push(Column::new(name, about, Values::Integer(values)));
        self
    }

    fn real(mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> f64) -> Self {
        self.columns.push(Column::new(name, about, Values::Real(self.rows.iter().map(of).collect())));
        self
    }

    /// A column whose values may be absent.
    fn perhaps(mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> Option<f64>) -> Self {
        let values: Vec<Option<f64>> =
            self.rows.iter().map(|row| of(row).filter(|value| value.is_finite())).collect();
        let present = Some(values.iter().map(Option::is_some).collect());
        let values = Values::Real(values.into_iter().map(Option::unwrap_or_default).collect());
        self.columns.push(Column { present, ..Column::new(name, about, values) });
        self
    }

    fn text(mut self, name: &'static str, about: &'static str, of: impl Fn(&R) -> String) -> Self {
        let values = self.rows.iter().map(|row| Arc::from(of(row))).collect();
        self.columns.push(Column::new(name, about, Values::Text(values)));
        self
    }

    /// Addresses and ports.
    fn ends(self, of: impl Fn(&R) -> Ends + Copy) -> Self {
        self.text("source", "address of the sender", move |row| of(row).source.to_string())
            .integer("source_port", "port of the sender", move |row| of(row).source_port.into())
            .text("destination", "address of the receiver", move |row| of(row).destination.to_string())
            .integer("destination_port", "port of the receiver", move |row| of(row).destination_port.into())
    }

    /// Quantiles of times in milliseconds.
    fn quantiles(
        mut self,
        names: [(&'static str, &'static str, f64); 3],
        of: impl Fn(&R) -> &Histogram,
    ) -> Self {
        for (name, about, part) in names {
            self = self.perhaps(name, about, |row| of(row).quantile(part).map(Nanos::as_millis_f64));
        }
        self
    }

    fn done(self) -> Table {
        Table { name: self.name, about: self.about, columns: self.columns }
    }
}

/// All tables of a capture.
pub(super) fn of(found: &Found) -> Vec<Table> {
    vec![
        streams(found),
        stream_seconds(found),
        flows(found),
        flow_seconds(found),
        flow_sequence(found),
        times_between(found),
        fairness_seconds(found),
        decisions(found),
    ]
}

const NUMBER: &str = "number of the row in the table of all";

fn streams(found: &Found) -> Table {
    let listener = found.settings.listener;
    let gaps = [
        ("between_p50_ms", "median time between packets", 0.5),
        ("between_p95_ms", "time between packets that 5 % exceed", 0.95),
        ("between_p99_ms", "time between packets that 1 % exceed", 0.99),
    ];
    Rows::new("streams", "A stream of RTP in one direction.", &found.streams)
        .ends(|stream| stream.ends)
        .text("ssrc", "synchronization source, hexadecimal", |stream| format!("{:08x}", stream.ssrc))
        .integer("payload_type", "payload type of the first packet", |stream| stream.payload_type.into())
        .text("codec", "codec whose impairments MOS uses; empty for anything but speech", codec)
        .integer("clock_hz", "ticks of the timestamps per second", |stream| stream.clock_hz.into())
        .real("interval_ms", "time between packets as sent", |stream| stream.interval.as_millis_f64())
        .real("began_s", "arrival of the first packet, since the beginning of the capture", |stream| {
            found.since(stream.began)
        })
        .real("duration_s", "time from the first packet to the last", |stream| {
            stream.duration().as_secs_f64()
        })
        .integer("expected", "packets from the first to the highest sequence number", |stream| {
            stream.expected()
        })
        .integer("received", "packets that arrived, without duplicates", |stream| stream.received)
        .integer("lost", "packets that did not arrive", |stream| stream.lost())
        .integer("late", "packets that arrived too late for playout", |stream| stream.late())
        .integer("duplicates", "packets that arrived again", |stream| stream.duplicates)
        .integer("reordered", "packets that arrived after a later one", |stream| stream.reordered)
        .integer("bytes", "IP bytes that arrived", |stream| stream.bytes)
        .real("jitter_ms", "jitter after the last packet (RFC 3550)", |stream| {
            stream.jitter().as_millis_f64()
        })
        .real("jitter_mean_ms", "mean of the jitter over the packets", |stream| {
            stream.jitter_mean.as_millis_f64()
        })
        .real("jitter_max_ms", "maximum of the jitter", |stream| stream.jitter_max.as_millis_f64())
        .quantiles(gaps, |stream| &stream.gaps)
        .perhaps("between_max_ms", "maximum time between packets", |stream| {
            stream.gaps.max().map(Nanos::as_millis_f64)
        })
        .perhaps("mos", "MOS over the whole stream", |stream| stream.mos(listener))
        .perhaps("mos_min", "MOS of the worst second", |stream| worst(stream, listener))
        .done()
}

/// MOS of the worst second.
pub(super) fn worst(stream: &Stream, listener: rtp::Listener) -> Option<f64> {
    stream.seconds.iter().filter_map(|second| stream.mos_of(second, listener)).reduce(f64::min)
}

/// The codec's name.
pub(super) fn codec(stream: &&Stream) -> String {
    stream.codec.map_or_else(String::new, |codec| codec.profile().name.to_owned())
}

fn stream_seconds(found: &Found) -> Table {
    let listener = found.settings.listener;
    let seconds = found.streams.iter().enumerate().flat_map(|(number, stream)| {
        let of = move |(second, counts)| (number, stream, second, counts);
        stream.seconds.iter().enumerate().map(of)
    });
    Rows::new("stream_seconds", "A second of a stream of RTP.", seconds)
        .integer("stream", NUMBER, |(number, ..)| *number as u64)
        .real(
            "t_s",
            "beginning of the second, since the beginning of the capture",
            |(_, stream, second, _)| found.since(stream.began) + *second as f64,
        )
        .integer("expected", "packets that were due", |(.., second)| second.expected.into())
        .integer("received", "packets that arrived", |(.., second)| second.received.into())
        .integer("late", "packets that arrived too late for playout", |(.., second)| second.late.into())
        .perhaps("delay_ms", "mean delay over that of the fastest packet", |(.., second)| {
            second.delay().map(Nanos::as_millis_f64)
        })
        .real("delay_max_ms", "maximum delay over that of the fastest packet", |(.., second)| {
            second.delay_max.as_millis_f64()
        })
        .perhaps("mos", "MOS", |(_, stream, _, second)| stream.mos_of(second, listener))
        .done()
}

fn flows(found: &Found) -> Table {
    let round_trips = [
        ("rtt_p50_ms", "median round trip between capture and receiver", 0.5),
        ("rtt_p95_ms", "round trip that 5 % exceed", 0.95),
        ("rtt_p99_ms", "round trip that 1 % exceed", 0.99),
    ];
    let gaps = [
        ("between_p50_ms", "median time between packets with payload", 0.5),
        ("between_p95_ms", "time between packets that 5 % exceed", 0.95),
        ("between_p99_ms", "time between packets that 1 % exceed", 0.99),
    ];
    Rows::new("flows", "The data of one end of a TCP connection.", found.flows())
        .ends(|(_, flow)| flow.ends)
        .perhaps("began_s", "first packet with payload, since the beginning of the capture", |(_, flow)| {
            flow.began.map(|began| found.since(began))
        })
        .real("duration_s", "time from the first packet with payload to the last", |(_, flow)| {
            flow.duration().as_secs_f64()
        })
        .integer("packets", "packets", |(_, flow)| flow.packets)
        .integer("data_packets", "packets with payload", |(_, flow)| flow.data_packets)
        .integer("bytes", "IP bytes", |(_, flow)| flow.bytes)
        .integer("payload_bytes", "payload, with what was sent again", |(_, flow)| flow.payload)
        .integer("goodput_bytes", "payload that was not seen before", |(_, flow)| flow.goodput_bytes)
        .perhaps("goodput_mbps", "goodput", |(_, flow)| flow.goodput().map(|rate| rate / 1e6))
        .integer("retransmissions", "segments that were sent again", |(_, flow)| flow.retransmissions)
        .integer("lost_before", "those of them that were lost before the capture", |(_, flow)| {
            flow.lost_before
        })
        .integer("reordered", "segments that were overtaken", |(_, flow)| flow.reordered)
        .integer("zero_windows", "packets with a window of zero", |(_, flow)| flow.zero_windows)
        .integer("flight_max_bytes", "maximum payload in flight behind the capture", |(_, flow)| {
            flow.flight_max
        })
        .integer("rtt_samples", "round trips that were measured", |(_, flow)| flow.round_trips.count())
        .perhaps("rtt_mean_ms", "mean round trip between capture and receiver", |(_, flow)| {
            flow.round_trips.mean().map(Nanos::as_millis_f64)
        })
        .quantiles(round_trips, |(_, flow)| &flow.round_trips)
        .perhaps("handshake_ms", "round trip of the handshake, between both ends", |(connection, _)| {
            connection.handshake.map(Nanos::as_millis_f64)
        })
        .quantiles(gaps, |(_, flow)| &flow.gaps)
        .perhaps("between_max_ms", "maximum time between packets with payload", |(_, flow)| {
            flow.gaps.max().map(Nanos::as_millis_f64)
        })
        .done()
}

fn flow_seconds(found: &Found) -> Table {
    let flows = found.flows();
    let seconds = flows.iter().enumerate().flat_map(|(number, &(_, flow))| {
        let began = flow.began.map_or(0.0, |began| found.since(began));
        flow.seconds().map(move |(second, bytes)| (number, began + f64::from(second), bytes))
    });
    Rows::new("flow_seconds", "A second of a flow.", seconds)
        .integer("flow", NUMBER, |(number, ..)| *number as u64)
        .real("t_s", "beginning of the second, since the beginning of the capture", |(_, at, _)| *at)
        .real("goodput_mbps", "payload that was not seen before", |(.., bytes)| 8e-6 * f64::from(*bytes))
        .done()
}

fn flow_sequence(found: &Found) -> Table {
    let flows = found.flows();
    let points = flows
        .iter()
        .enumerate()
        .flat_map(|(number, (_, flow))| flow.sequence.points().iter().map(move |point| (number, *point)));
    Rows::new("flow_sequence", "How the sequence numbers of a flow went on.", points)
        .integer("flow", NUMBER, |(number, _)| *number as u64)
        .real("t_s", "time since the beginning of the capture", |(_, point)| found.since(point.at))
        .integer("sent", "bytes sent so far", |(_, point)| point.sent)
        .integer("acknowledged", "bytes acknowledged so far", |(_, point)| point.acknowledged)
        .integer("retransmitted", "retransmissions since the last point", |(_, point)| {
            point.retransmitted.into()
        })
        .done()
}

fn times_between(found: &Found) -> Table {
    fn of<'a>(
        kind: &'static str,
        number: usize,
        gaps: &'a Histogram,
    ) -> impl Iterator<Item = (&'static str, usize, f64, f64)> + 'a {
        gaps.distribution().map(move |(time, part)| (kind, number, time.as_millis_f64(), part))
    }
    let streams =
        found.streams.iter().enumerate().flat_map(|(number, stream)| of("stream", number, &stream.gaps));
    let flows = found.flows();
    let flows = flows.iter().enumerate().flat_map(|(number, (_, flow))| of("flow", number, &flow.gaps));
    Rows::new("times_between", "The distribution of times between packets.", streams.chain(flows))
        .text("kind", "stream or flow", |(kind, ..)| (*kind).to_owned())
        .integer("number", NUMBER, |(_, number, ..)| *number as u64)
        .real("ms", "time between packets", |(_, _, ms, _)| *ms)
        .real("part", "part of the times that do not exceed it", |(.., part)| *part)
        .done()
}

fn fairness_seconds(found: &Found) -> Table {
    Rows::new("fairness", "Jain's index of a second with at least two flows.", fairness::seconds(found))
        .real("t_s", "beginning of the second, since the beginning of the capture", |second| second.at_s)
        .integer("flows", "flows with data before and after it", |second| second.flows as u64)
        .real("jain", "Jain's index of their goodput", |second| second.index)
        .done()
}

fn decisions(found: &Found) -> Table {
    let decisions = found.decisions.iter().flatten();
    Rows::new("decisions", "What the adaptive controller would have decided.", decisions)
        .real("t_s", "time since the beginning of the capture", |decision| found.since(decision.at))
        .text("state", "state of the controller", |decision| decision.state.name().to_owned())
        .text("reason", "why", |decision| decision.reason.to_string())
        .perhaps("budget_kbps", "budget, times hops", |decision| decision.budget.map(|bits| bits / 1e3))
        .perhaps("into_mesh_kbps", "pace of all elastic packets into the mesh", |decision| {
            decision.down.map(|rate| rate.0 as f64 / 1e3)
        })
        .perhaps("window_bytes", "smallest window of a flow", |decision| decision.window.map(f64::from))
        .perhaps("mos", "lowest MOS of the calls", |decision| decision.mos)
        .done()
}

/// The JSON object.
pub(super) fn json(read: &Reading<'_>) -> Value {
    let Found { counts, began, ended, settings, crossed, .. } = &read.found;
    let mut object = json!({
        "program": PROGRAM,
        "capture": read.name,
        "remarks": read.remarks,
        "began_unix_s": began.map(Nanos::as_secs_f64),
        "duration_s": began.map(|began| ended.saturating_sub(began).as_secs_f64()),
        "frames": counts.frames,
        "packets": counts.packets,
        "bytes": counts.bytes,
        "copies": counts.copies,
        "tcp_packets": counts.tcp,
        "udp_packets": counts.udp,
        "playout_ms": settings.listener.playout.as_millis_f64(),
        "min_delay_ms": settings.listener.min_delay.as_millis_f64(),
        "crossed_the_edge_of_the_mesh": crossed.0,
    });
    if let Value::Object(object) = &mut object {
        for table in of(&read.found).into_iter().filter(|table| !GRAPHS.contains(&table.name)) {
            object.insert(table.name.to_owned(), rows(&table));
        }
    }
    object
}

/// A table as a list of objects. Absent values are null.
fn rows(table: &Table) -> Value {
    let cell = |column: &Column, row: usize| -> Value {
        if column.present.as_ref().is_some_and(|present| !present[row]) {
            return Value::Null;
        }
        match &column.values {
            Values::Integer(values) => values[row].into(),
            Values::Unsigned(values) => values[row].into(),
            Values::Real(values) => values[row].into(),
            Values::Text(values) => (*values[row]).into(),
            Values::Truth(values) => values[row].into(),
        }
    };
    let row = |row: usize| -> Map<String, Value> {
        table.columns.iter().map(|column| (column.name.to_string(), cell(column, row))).collect()
    };
    (0..table.rows()).map(row).collect()
}
