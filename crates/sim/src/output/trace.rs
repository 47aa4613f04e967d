//! Traces of windows, queues and call quality over time, as comma-separated values with one line per sample. The run advances in
//! slices and is sampled between them, which does not affect it. Call quality is known only once the last packets have
//! arrived or are late, so it is written at the end, one line per recording interval.

use std::fmt::Write as _;

use fairhop_model::units::Nanos;

use crate::packet::stream;
use crate::results::mos_of_interval;
use crate::world::World;
use crate::world::applications::flow::FlowKind;

/// The quantity that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traced {
    /// Windows of senders: TCP, QUIC-like and AIMD datagrams.
    Cwnd,
    /// Queue lengths of nodes and wired links.
    Queue,
    /// Mean opinion scores of calls in each recording interval.
    Mos,
}

impl Traced {
    /// The first line of the file.
    ///
    /// Windows are in packets; for TCP, in segments of the maximum size. A value that does not exist yet is empty.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Cwnd => "seed,t_s,flow,cwnd_packets,ssthresh_packets,srtt_ms,in_flight_packets\n",
            Self::Queue => "seed,t_s,queue,packets\n",
            Self::Mos => "seed,t_s,flow,forward_mos,backward_mos\n",
        }
    }

    /// The name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Cwnd => "cwnd.csv",
            Self::Queue => "queue.csv",
            Self::Mos => "mos.csv",
        }
    }

    /// Appends the lines of a sample at time `at`, up to which the run has advanced.
    pub fn sample(self, world: &World, at: Nanos, lines: &mut String) {
        let (seed, t_s) = (world.seed(), at.as_secs_f64());
        // Writing to a string cannot fail.
        match self {
            Self::Cwnd => {
                for flow in world.flows() {
                    if let Some(window) = Window::of(world, flow.kind) {
                        let some = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
                        let _ = writeln!(
                            lines,
                            "{seed},{t_s},{},{},{},{},{}",
                            quoted(&flow.name),
                            window.cwnd,
                            some(window.ssthresh),
                            some(window.srtt.map(Nanos::as_millis_f64)),
                            window.in_flight,
                        );
                    }
                }
            }
            Self::Queue => {
                for node in 0..world.node_count() {
                    let _ = writeln!(lines, "{seed},{t_s},node {node},{}", world.backlog(node));
                }
                for link in world.wired() {
                    let (from, to) = (world.name_of(link.from()), world.name_of(link.to()));
                    let name = quoted(&format!("{from} -> {to}"));
                    let _ = writeln!(lines, "{seed},{t_s},{name},{}", link.backlog_at(at));
                }
            }
            Self::Mos => {}
        }
    }

    /// Appends the lines that are written at the end of a run: for each call one per recording interval, warm-up included, with
    /// the end of the interval as its time.
    pub fn finish(self, world: &World, lines: &mut String) {
        if self != Self::Mos {
            return;
        }
        let recorder = world.recorder();
        let starts = (0_u64..).map(|number| recorder.interval * number).take_while(|&at| at < world.end());
        for (index, flow) in world.flows().iter().enumerate() {
            let FlowKind::Call(codec) = flow.kind else { continue };
            let [forward, backward] =
                [false, true].map(|back| &recorder.streams[stream(index, back) as usize]);
            for ((start, to), back) in starts.clone().zip(&forward.bins).zip(&backward.bins) {
                let score = |record, bin| {
                    mos_of_interval(codec, record, bin).map_or_else(String::new, |mos| mos.to_string())
                };
                let _ = writeln!(
                    lines,
                    "{},{},{},{},{}",
                    world.seed(),
                    start.saturating_add(recorder.interval).min(world.end()).as_secs_f64(),
                    quoted(&flow.name),
                    score(forward, to),
                    score(backward, back),
                );
            }
        }
    }
}

/// A sender's window in packets.
struct Window {
    cwnd: f64,
    ssthresh: Option<f64>,
    srtt: Option<Nanos>,
    in_flight: f64,
}

impl Window {
    fn of(world: &World, kind: FlowKind) -> Option<Self> {
        match kind {
            FlowKind::Bulk(tcp) => {
                let sender = &world.transfers()[tcp].sender;
                let cwnd = f64::from(sender.cwnd_segments());
                let segment = sender.cwnd() as f64 / cwnd.max(1.0);
                let packets = |bytes: u64| if segment > 0.0 { bytes as f64 / segment } else { 0.0 };
                Some(Self {
                    cwnd,
                    ssthresh: sender.ssthresh().map(packets),
                    srtt: sender.srtt(),
                    in_flight: f64::from(sender.in_flight()),
                })
            }
            FlowKind::Aimd(stream) => {
                let sender = &world.aimd_streams()[stream].sender;
                Some(Self {
                    cwnd: sender.cwnd(),
                    ssthresh: sender.ssthresh(),
                    srtt: sender.srtt(),
                    in_flight: f64::from(sender.outstanding()),
                })
            }
            FlowKind::Quic(transfer) => {
                let sender = &world.quic_transfers()[transfer].sender;
                Some(Self {
                    cwnd: f64::from(sender.cwnd_packets()),
                    ssthresh: sender.ssthresh_packets().map(f64::from),
                    srtt: sender.srtt(),
                    in_flight: f64::from(sender.in_flight()),
                })
            }
            _ => None,
        }
    }
}

/// A name as a CSV field, quoted where necessary (RFC 4180).
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}
