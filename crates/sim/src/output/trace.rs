//! Traces of windows, queues, places, call quality, goodput and decisions over time, as comma-separated values with one line per
//! sample. The run advances in slices and is sampled between them, which does not affect it. Call quality is known only once the
//! last packets have arrived or are late, so it is written at the end, one line per recording interval; so are goodput, the
//! gateways' decisions, and what a routing protocol has done.

use std::fmt::Write as _;

use fairhop_model::units::{BitRate, Nanos};

use crate::packet::stream;
use crate::recorder::{PathRecord, StreamBin};
use crate::results::mos_of_interval;
use crate::world::World;
use crate::world::applications::flow::FlowKind;
use crate::world::control::{Control, Decided};

/// The quantity that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traced {
    /// Windows of senders: TCP, QUIC-like and AIMD datagrams.
    Cwnd,
    /// Queue lengths of nodes and wired links.
    Queue,
    /// Mean opinion scores of calls in each recording interval.
    Mos,
    /// Goodput of flows in each recording interval.
    Flow,
    /// Decisions of gateways' controllers.
    Control,
    /// Places of nodes that move.
    Position,
    /// Changes of routes of a routing protocol.
    Route,
    /// Radio hops of flows' packets in each recording interval.
    Hops,
    /// Times of more than 1 s without an arrival, of each flow.
    Interruption,
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
            Self::Flow => "seed,t_s,flow,kind,forward_mbps,backward_mbps\n",
            Self::Position => "seed,t_s,node,x_m,y_m\n",
            Self::Route => "seed,t_s,node,destination,next_hop,hops\n",
            Self::Hops => "seed,t_s,flow,direction,packets,hops\n",
            Self::Interruption => "seed,t_s,flow,direction,length_s\n",
            Self::Control => {
                "seed,t_s,gateway,kind,state,reason,means,budget_mbps,down_mbps,acks_mbps,window_bytes,pacer_packets,mos\n"
            }
        }
    }

    /// The name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Cwnd => "cwnd.csv",
            Self::Queue => "queue.csv",
            Self::Mos => "mos.csv",
            Self::Flow => "flow.csv",
            Self::Control => "control.csv",
            Self::Position => "position.csv",
            Self::Route => "route.csv",
            Self::Hops => "hops.csv",
            Self::Interruption => "interruption.csv",
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
            Self::Position => {
                for node in (0..world.node_count()).filter(|&node| world.moves(node)) {
                    let place = world.place(node, at);
                    let _ = writeln!(lines, "{seed},{t_s},{node},{},{}", place.x_m, place.y_m);
                }
            }
            Self::Mos | Self::Flow | Self::Control | Self::Route | Self::Hops | Self::Interruption => {}
        }
    }

    /// Appends the lines that are written at the end of a run. For each call (`mos`) or flow (`flow`): one per recording
    /// interval, warm-up included, with the end of the interval as its time. `control`: one per decision.
    pub fn finish(self, world: &World, lines: &mut String) {
        match self {
            Self::Cwnd | Self::Queue | Self::Position => {}
            Self::Mos => quality(world, lines),
            Self::Flow => goodput(world, lines),
            Self::Control => decisions(world, lines),
            Self::Route => routes(world, lines),
            Self::Hops => hops(world, lines),
            Self::Interruption => interruptions(world, lines),
        }
    }
}

/// Mean opinion scores of calls.
fn quality(world: &World, lines: &mut String) {
    let recorder = world.recorder();
    for (index, flow) in world.flows().iter().enumerate() {
        let FlowKind::Call(codec) = flow.kind else { continue };
        let [forward, backward] = [false, true].map(|back| &recorder.streams[stream(index, back) as usize]);
        for (((_, until), to), back) in intervals(world).zip(&forward.bins).zip(&backward.bins) {
            let score = |record, bin| some(mos_of_interval(codec, record, bin));
            // Writing to a string cannot fail.
            let _ = writeln!(
                lines,
                "{},{},{},{},{}",
                world.seed(),
                until.as_secs_f64(),
                quoted(&flow.name),
                score(forward, to),
                score(backward, back),
            );
        }
    }
}

/// Goodput of all flows in each direction.
fn goodput(world: &World, lines: &mut String) {
    for (index, flow) in world.flows().iter().enumerate() {
        let [forward, backward] =
            [false, true].map(|back| &world.recorder().streams[stream(index, back) as usize].bins);
        for (number, (start, until)) in intervals(world).enumerate().take(forward.len().max(backward.len())) {
            let mbps = |bins: &[StreamBin]| {
                let bytes = bins.get(number).map_or(0, |bin| bin.delivered_bytes);
                bytes as f64 * 8e-6 / (until - start).as_secs_f64()
            };
            let _ = writeln!(
                lines,
                "{},{},{},{},{},{}",
                world.seed(),
                until.as_secs_f64(),
                quoted(&flow.name),
                flow.kind.name(),
                mbps(forward),
                mbps(backward),
            );
        }
    }
}

/// Decisions of gateways' controllers.
fn decisions(world: &World, lines: &mut String) {
    for Decided { gateway, kind, decision } in world.control().map_or(&[][..], Control::decisions) {
        let _ = writeln!(
            lines,
            "{},{},{},{},{},{},{},{},{},{},{},{},{}",
            world.seed(),
            decision.at.as_secs_f64(),
            gateway,
            kind,
            decision.state.name(),
            quoted(&decision.reason.to_string()),
            decision.means.name(),
            some(decision.budget.map(|budget| budget * 1e-6)),
            some(decision.down.map(BitRate::as_mbps)),
            some(decision.acks.map(BitRate::as_mbps)),
            some(decision.window),
            decision.waiting,
            some(decision.mos),
        );
    }
}

/// Changes of routes. An empty next hop: the route does not work any more.
fn routes(world: &World, lines: &mut String) {
    let Some(record) = &world.recorder().routing else { return };
    for change in &record.changes {
        let _ = writeln!(
            lines,
            "{},{},{},{},{},{}",
            world.seed(),
            change.at.as_secs_f64(),
            change.node,
            change.destination,
            some(change.over.map(|(next_hop, _)| next_hop)),
            some(change.over.map(|(_, hops)| hops)),
        );
    }
}

/// The records of all directions of flows that a routing protocol carries.
fn paths(world: &World) -> impl Iterator<Item = (&str, &'static str, &PathRecord)> {
    let record = world.recorder().routing.as_deref();
    let flows = world.flows().iter().enumerate();
    let directions = flows.flat_map(|(index, flow)| [(index, flow, false), (index, flow, true)]);
    directions.filter_map(move |(index, flow, back)| {
        let path = record?.paths.get(stream(index, back) as usize)?;
        Some((flow.name.as_str(), if back { "backward" } else { "forward" }, path))
    })
}

/// Mean radio hops of the packets that arrived in each recording interval; nothing for an interval without one.
fn hops(world: &World, lines: &mut String) {
    for (name, direction, path) in paths(world) {
        for ((_, until), &(hops, packets)) in intervals(world).zip(&path.hops) {
            if packets > 0 {
                let (seed, t_s, name) = (world.seed(), until.as_secs_f64(), quoted(name));
                let mean = hops as f64 / packets as f64;
                let _ = writeln!(lines, "{seed},{t_s},{name},{direction},{packets},{mean}");
            }
        }
    }
}

/// Interruptions, with the last arrival before each as its time.
fn interruptions(world: &World, lines: &mut String) {
    for (name, direction, path) in paths(world) {
        for silence in &path.interruptions {
            let (seed, t_s, name) = (world.seed(), silence.from.as_secs_f64(), quoted(name));
            let length_s = (silence.to - silence.from).as_secs_f64();
            let _ = writeln!(lines, "{seed},{t_s},{name},{direction},{length_s}");
        }
    }
}

/// The start and the end of each recording interval.
fn intervals(world: &World) -> impl Iterator<Item = (Nanos, Nanos)> + Clone {
    let (interval, end) = (world.recorder().interval, world.end());
    (0_u64..)
        .map(move |number| interval * number)
        .take_while(move |&start| start < end)
        .map(move |start| (start, start.saturating_add(interval).min(end)))
}

/// The number, or an empty field.
fn some(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
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
