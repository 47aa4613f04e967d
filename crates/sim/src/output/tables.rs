//! Tables: everything that was measured, as Parquet files with a row for every flow, node, interval or bucket, and
//! `summary.json` with the means over the seeds.
//!
//! Rows of several seeds follow each other; `seed` tells them apart. Times are seconds of simulated time; a row of a
//! series stands for the interval that ends at `t_s`, and a state in it is the one at `t_s`, so that series of one run
//! can be joined on `t_s`. Counts without the word "interval" in their description begin at the end of the warm-up.
//! What does not exist is null, never a zero or NaN.
//!
//! In every file's metadata: `fairhop.version`, `fairhop.scenario` (the resolved scenario as TOML), `fairhop.seeds`,
//! `fairhop.partial_seeds` (runs that were ended early), `fairhop.table` and `fairhop.columns` (what a row and the
//! columns are).

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use fairhop_control::policy::Reason;
use fairhop_model::units::{BitRate, Nanos};
use fairhop_model::voice::Codec;

pub use super::table::Seed;
use super::table::{self, Row, table};
use super::{Directory, OutputError};
use crate::mac::BROADCAST;
use crate::packet::NodeId;
use crate::radio::{Airtime, FrameLoss};
use crate::recorder::{Loss, StreamRecord};
use crate::results::{Replications, mos_of_direction, mos_of_interval, outage};
use crate::scenario::Scenario;
use crate::world::World;
use crate::world::control::Control;
use crate::world::traffic::{Flow, FlowKind, TransferCounts, stream};

table! {
    /// One row for each direction of a flow in which data flows.
    FlowRow = "flows" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow in the scenario, from 0.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `call`, `bulk`, `aimd`, `quic`, `cbr`, `burst`, `web`, `request` or `video`.
        kind: &'static str,
        /// `forward` (from `from` to `to` of the scenario) or `backward`.
        direction: &'static str,
        /// Sender: a node's number, a host's name or `internet`.
        sender: Arc<str>,
        /// Receiver: a node's number, a host's name, `internet` or `broadcast`.
        receiver: Arc<str>,
        /// Codec of a call.
        codec: Option<&'static str>,
        /// When the flow may start.
        start_s: f64,
        /// When it stops; null where that is at the end of the run.
        stop_s: Option<f64>,
        /// Seconds that are measured: from the end of the warm-up to the end of the run.
        measured_s: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Packets that arrived.
        arrived_packets: u64,
        /// Packets that arrived, or would have arrived, too late to be played.
        late_packets: u64,
        /// Packets lost for any reason.
        lost_packets: u64,
        /// Packets lost because a node's interface queue was full.
        lost_queue_full_packets: u64,
        /// Packets lost because a node gave up after its retry limit.
        lost_retry_limit_packets: u64,
        /// Packets lost because the queue of a wired link was full.
        lost_wired_queue_full_packets: u64,
        /// Packets that a queue dropped early to stay short (RED, CoDel).
        lost_aqm_packets: u64,
        /// Packets lost on a wired link.
        lost_link_packets: u64,
        /// Packets that found no place in a pacer of the gateway or in a node's throttle.
        lost_control_packets: u64,
        /// Packets under way at the end of the run that could still have been in time; they count for nothing else.
        in_flight_packets: u64,
        /// Fraction lost of the packets whose fate is known.
        loss: f64,
        /// Fraction that came too late of the packets whose fate is known.
        late: f64,
        /// Fraction of the packets that arrived that came later than the flow's `delay_bound_ms` after the fastest one; null
        /// where there is no bound.
        outage: Option<f64>,
        /// Payload sent, repetitions by TCP included.
        sent_bytes: u64,
        /// Payload delivered to the application, in order and once.
        delivered_bytes: u64,
        /// Payload sent, as a rate.
        sent_mbps: f64,
        /// Payload delivered, as a rate.
        goodput_mbps: f64,
        /// Shortest one-way delay of a packet, warm-up included; null where none arrived.
        delay_min_ms: Option<f64>,
        /// Mean one-way delay.
        delay_mean_ms: Option<f64>,
        /// Median of the one-way delays, as the middle of its bucket (1 % or 1 µs wide).
        delay_p50_ms: Option<f64>,
        /// 95th percentile of the one-way delays.
        delay_p95_ms: Option<f64>,
        /// 99th percentile of the one-way delays.
        delay_p99_ms: Option<f64>,
        /// Longest one-way delay.
        delay_max_ms: Option<f64>,
        /// Mean of the interarrival jitter (RFC 3550) after each packet.
        jitter_mean_ms: Option<f64>,
        /// Mean opinion score of this direction of a call.
        mos: Option<f64>,
        /// Segments that TCP sent again.
        tcp_retransmitted_segments: Option<u64>,
        /// Retransmission timeouts of TCP.
        tcp_timeouts: Option<u64>,
        /// Fast recoveries of TCP.
        tcp_recoveries: Option<u64>,
        /// Segments that TCP sent again though the receiver had them (RFC 2883).
        tcp_spurious_segments: Option<u64>,
        /// Times that TCP's window fell because the network marked a packet (RFC 3168).
        tcp_ecn_reductions: Option<u64>,
        /// Reductions that TCP took back because nothing had been lost.
        tcp_undone: Option<u64>,
        /// When a finite transfer was complete at its receiver; null where it was not or has no end.
        completed_s: Option<f64>,
        /// Pages, or requests with their responses, that were complete.
        transactions_finished: Option<u64>,
        /// Pages, or requests with their responses, that were under way at the end.
        transactions_open: Option<u64>,
        /// Pages, or requests with their responses, that the connection gave up.
        transactions_failed: Option<u64>,
        /// Mean time of a complete transaction, from the start of its connection, or its request, to the last byte.
        transaction_mean_ms: Option<f64>,
        /// Median of these times, as the middle of its bucket (1 % wide).
        transaction_p50_ms: Option<f64>,
        /// 95th percentile of these times.
        transaction_p95_ms: Option<f64>,
        /// 99th percentile of these times.
        transaction_p99_ms: Option<f64>,
        /// Video frames sent.
        video_frames: Option<u64>,
        /// Video frames that were complete in time.
        video_complete_frames: Option<u64>,
        /// Video frames that were complete after the deadline.
        video_late_frames: Option<u64>,
        /// Video frames that lost a packet.
        video_lost_frames: Option<u64>,
    }

    /// One row for each recording interval of each direction of a flow; the warm-up is in it.
    FlowSeriesRow = "flow_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `call`, `bulk`, `cbr`, `burst`, `web`, `request` or `video`.
        kind: &'static str,
        /// `forward` or `backward`.
        direction: &'static str,
        /// End of the interval.
        t_s: f64,
        /// Packets sent in the interval, without those whose fate was open at the end of the run.
        sent_packets: u32,
        /// Packets sent in the interval that arrived at all.
        arrived_packets: u32,
        /// Packets sent in the interval that arrived in time to be played.
        in_time_packets: u32,
        /// Mean one-way delay of the packets sent in the interval that arrived; null where none did.
        delay_mean_ms: Option<f64>,
        /// Payload delivered in the interval, whenever it was sent.
        delivered_bytes: u64,
        /// Payload delivered in the interval, as a rate.
        goodput_mbps: f64,
        /// Mean opinion score of this direction of a call, had all of it been as in this interval; null where it sent
        /// nothing.
        mos: Option<f64>,
    }

    /// One row for each recording interval of each TCP sender; the warm-up is in it.
    TcpSeriesRow = "tcp_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// When the sample was taken.
        t_s: f64,
        /// Congestion window.
        cwnd_bytes: u64,
        /// Slow-start threshold; null before the first loss.
        ssthresh_bytes: Option<u64>,
        /// Smoothed round-trip time; null before the first sample.
        srtt_ms: Option<f64>,
        /// Bytes sent and not known to have left the network.
        in_flight_bytes: u64,
        /// Segments sent again, since the start.
        retransmitted_segments: u64,
        /// Retransmission timeouts, since the start.
        timeouts: u64,
    }

    /// One row for each tick, 100 ms, of each gateway's controller; the warm-up is in it. None where there is none.
    ControlRow = "control" {
        /// Seed of the run.
        seed: Seed,
        /// When.
        t_s: f64,
        /// Node of the gateway.
        gateway: u32,
        /// Kind of control, as in the scenario; `none` before its start.
        kind: &'static str,
        /// `off`, `learning`, `steady`, `protecting` or `starved`.
        state: &'static str,
        /// Why, in words.
        reason: Arc<str>,
        /// What holds the budget: `window`, `pacing` or `both`.
        means: &'static str,
        /// The budget of all elastic flows together, times hops, that the controller seeks; null where it seeks none.
        budget_mbps: Option<f64>,
        /// Pace of elastic data into the mesh; null for no limit.
        down_mbps: Option<f64>,
        /// Pace of what ACKs acknowledge; null for no limit.
        acks_mbps: Option<f64>,
        /// The smallest clamp on a window; null for none.
        window_bytes: Option<u32>,
        /// Packets that wait in the pacers.
        pacer_packets: u32,
        /// The lowest opinion score of a call over the last second, as the gateway sees it; null where it sees none.
        mos_seen: Option<f64>,
    }

    /// One row for each wireless node.
    NodeRow = "nodes" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// Where it stands.
        x_m: f64,
        /// Where it stands.
        y_m: f64,
        /// Whether the Internet is attached here.
        gateway: bool,
        /// Fraction of time of its own frames.
        airtime_own: f64,
        /// Fraction of time of frames that it received and that were meant for it.
        airtime_received: f64,
        /// Fraction of time of frames that it received and that were meant for others.
        airtime_overheard: f64,
        /// Fraction of time of frames that it began to receive and lost.
        airtime_collided: f64,
        /// Fraction of time of energy that it sensed and did not lock on.
        airtime_energy: f64,
        /// Fraction of time in which its medium was idle.
        airtime_idle: f64,
        /// Frames sent, ACK, RTS and CTS included.
        sent_frames: u64,
        /// Frames sent again.
        retried_frames: u64,
        /// Frames meant for it that it did not receive, for any reason.
        lost_frames: u64,
        /// Packets that found its queue full or made room in it.
        queue_drops_packets: u64,
        /// Packets that its queue dropped early to stay short (RED, CoDel).
        queue_early_drops_packets: u64,
        /// Mean number of packets that wait, the one in service included.
        queue_mean_packets: f64,
        /// Most packets that waited.
        queue_max_packets: u32,
    }

    /// One row for each direction of a wired link.
    LinkRow = "links" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the direction.
        link: u32,
        /// Where it begins: a node's number, a host's name or `internet`.
        sender: Arc<str>,
        /// Where it ends.
        receiver: Arc<str>,
        /// Its rate.
        rate_mbps: f64,
        /// Fraction of time spent sending, repetitions included.
        utilization: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Mean number of packets that wait, the one being sent included.
        queue_mean_packets: f64,
        /// Most packets that waited.
        queue_max_packets: u32,
        /// Packets that found the queue full or made room in it.
        queue_drops_packets: u64,
        /// Packets that the queue dropped early to stay short (RED, CoDel).
        queue_early_drops_packets: u64,
        /// Packets lost on the way.
        lost_packets: u64,
        /// Frames of a time-slotted link that did not get through.
        failed_frames: u64,
    }

    /// One row for each reason for which a node did not receive frames that were meant for it.
    FrameLossRow = "frame_losses" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// The reason.
        reason: &'static str,
        /// Frames lost for it.
        lost_frames: u64,
    }

    /// One row for each recording interval of each wireless node; the warm-up is in it.
    NodeSeriesRow = "node_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// End of the interval.
        t_s: f64,
        /// Fraction of the interval of its own frames.
        airtime_own: f64,
        /// Fraction of the interval of frames that it received and that were meant for it.
        airtime_received: f64,
        /// Fraction of the interval of frames that it received and that were meant for others.
        airtime_overheard: f64,
        /// Fraction of the interval of frames that it began to receive and lost.
        airtime_collided: f64,
        /// Fraction of the interval of energy that it sensed and did not lock on.
        airtime_energy: f64,
        /// Fraction of the interval in which its medium was idle.
        airtime_idle: f64,
        /// Packets that wait at the end of the interval, the one in service included.
        queue_packets: u32,
    }

    /// One row for each bucket of one-way delays, of each direction of a flow, that is not empty.
    DelayRow = "delays" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `forward` or `backward`.
        direction: &'static str,
        /// Shortest delay in the bucket.
        from_ms: f64,
        /// Delays in the bucket are shorter than this.
        below_ms: f64,
        /// Packets with such delays.
        packets: u32,
    }
}

// `flows` has a column for every reason.
const _: () = assert!(Loss::ALL.len() == 6);

/// The tables of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTables {
    /// Seed of the run.
    pub seed: u64,
    /// The run was ended early.
    pub partial: bool,
    /// Rows of `control.parquet`.
    pub control: Vec<ControlRow>,
    /// Rows of `flows.parquet`.
    pub flows: Vec<FlowRow>,
    /// Rows of `flow_series.parquet`.
    pub flow_series: Vec<FlowSeriesRow>,
    /// Rows of `tcp_series.parquet`.
    pub tcp_series: Vec<TcpSeriesRow>,
    /// Rows of `nodes.parquet`.
    pub nodes: Vec<NodeRow>,
    /// Rows of `links.parquet`.
    pub links: Vec<LinkRow>,
    /// Rows of `frame_losses.parquet`.
    pub frame_losses: Vec<FrameLossRow>,
    /// Rows of `node_series.parquet`.
    pub node_series: Vec<NodeSeriesRow>,
    /// Rows of `delays.parquet`.
    pub delays: Vec<DelayRow>,
}

impl RunTables {
    /// What a world showed that has come to its end, or was stopped (`partial`).
    pub fn collect(world: &World, partial: bool) -> Self {
        let mut tables = Self {
            seed: world.seed(),
            partial,
            control: control(world),
            flows: Vec::new(),
            flow_series: Vec::new(),
            tcp_series: Vec::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            frame_losses: Vec::new(),
            node_series: Vec::new(),
            delays: Vec::new(),
        };
        for (number, flow) in world.flows().iter().enumerate() {
            for back in [false, true] {
                if world.recorder().is_measured(stream(number, back)) {
                    tables.direction(&Direction::new(world, number, flow, back));
                }
            }
        }
        for (index, transfer) in world.transfers().iter().enumerate() {
            // Requests, which nothing waits behind, would be told from responses by nothing.
            if world.recorder().is_measured(transfer.data_stream) {
                tables.tcp(world, index, transfer.flow);
            }
        }
        for node in 0..world.node_count() {
            tables.node(world, node);
        }
        for number in 0..world.wired().len() {
            tables.link(world, number);
        }
        tables
    }

    fn direction(&mut self, direction: &Direction<'_>) {
        self.flows.push(direction.summary());
        self.flow_series.extend(direction.series());
        self.delays.extend(direction.record.delays.buckets().map(|(from, below, packets)| DelayRow {
            seed: direction.seed,
            flow: direction.number,
            name: direction.name.clone(),
            direction: direction.word(),
            from_ms: from.as_millis_f64(),
            below_ms: below.as_millis_f64(),
            packets,
        }));
    }

    fn tcp(&mut self, world: &World, index: usize, flow: usize) {
        let name: Arc<str> = world.flows()[flow].name.as_str().into();
        self.tcp_series.extend(world.recorder().tcp[index].iter().map(|sample| TcpSeriesRow {
            seed: Seed(world.seed()),
            flow: flow as u32,
            name: name.clone(),
            t_s: sample.at.as_secs_f64(),
            cwnd_bytes: sample.cwnd_bytes,
            ssthresh_bytes: sample.ssthresh_bytes,
            srtt_ms: sample.srtt.map(Nanos::as_millis_f64),
            in_flight_bytes: sample.in_flight_bytes,
            retransmitted_segments: sample.retransmitted,
            timeouts: sample.timeouts,
        }));
    }

    fn link(&mut self, world: &World, number: usize) {
        let link = &world.wired()[number];
        let record = link.record();
        let seconds = measured(world).as_secs_f64();
        self.links.push(LinkRow {
            seed: Seed(world.seed()),
            link: number as u32,
            sender: world.name_of(link.from()).into(),
            receiver: world.name_of(link.to()).into(),
            rate_mbps: link.rate().as_mbps(),
            utilization: ratio(record.busy.as_secs_f64(), seconds),
            sent_packets: record.sent,
            queue_mean_packets: ratio(record.backlog_integral as f64 * 1e-9, seconds),
            queue_max_packets: record.backlog_max,
            queue_drops_packets: record.drops,
            queue_early_drops_packets: record.early_drops,
            lost_packets: record.lost,
            failed_frames: record.failed,
        });
    }

    fn node(&mut self, world: &World, node: usize) {
        let seed = Seed(world.seed());
        let record = &world.recorder().nodes[node];
        let measured = measured(world);
        let position = world.links().positions()[node];
        let airtime = Shares::of(&world.airtime(node), measured);
        let per_second = |packet_ns: f64| ratio(packet_ns * 1e-9, measured.as_secs_f64());
        self.nodes.push(NodeRow {
            seed,
            node: node as u32,
            x_m: position.x_m,
            y_m: position.y_m,
            gateway: world.scenario().topology.gateways().contains(&(node as NodeId)),
            airtime_own: airtime.own,
            airtime_received: airtime.received,
            airtime_overheard: airtime.overheard,
            airtime_collided: airtime.collided,
            airtime_energy: airtime.energy,
            airtime_idle: airtime.idle,
            sent_frames: record.frames_sent,
            retried_frames: record.retries,
            lost_frames: record.frames_lost.iter().sum(),
            queue_drops_packets: record.queue_drops,
            queue_early_drops_packets: record.early_drops,
            queue_mean_packets: per_second(record.backlog_integral as f64),
            queue_max_packets: record.backlog_max,
        });
        self.frame_losses.extend(FrameLoss::ALL.iter().map(|&why| FrameLossRow {
            seed,
            node: node as u32,
            reason: why.name(),
            lost_frames: record.frames_lost[why as usize],
        }));
        let mut before = (Nanos::ZERO, Airtime::default());
        for sample in &world.recorder().node_samples[node] {
            let airtime = Shares::of(&sample.airtime.since(&before.1), sample.at - before.0);
            before = (sample.at, sample.airtime);
            self.node_series.push(NodeSeriesRow {
                seed,
                node: node as u32,
                t_s: sample.at.as_secs_f64(),
                airtime_own: airtime.own,
                airtime_received: airtime.received,
                airtime_overheard: airtime.overheard,
                airtime_collided: airtime.collided,
                airtime_energy: airtime.energy,
                airtime_idle: airtime.idle,
                queue_packets: sample.backlog,
            });
        }
    }
}

/// What the gateways' controllers decided.
fn control(world: &World) -> Vec<ControlRow> {
    let decisions = world.control().map_or(&[][..], Control::decisions);
    // Reasons repeat for seconds: the text of one tick serves the next.
    let mut reason: (Option<Reason>, Arc<str>) = (None, "".into());
    decisions
        .iter()
        .map(|decision| {
            if reason.0 != Some(decision.reason) {
                reason = (Some(decision.reason), decision.reason.to_string().into());
            }
            ControlRow {
                seed: Seed(world.seed()),
                t_s: decision.at.as_secs_f64(),
                gateway: decision.gateway,
                kind: decision.kind,
                state: decision.state.name(),
                reason: reason.1.clone(),
                means: decision.means.name(),
                budget_mbps: decision.budget.map(|budget| budget * 1e-6),
                down_mbps: decision.down.map(BitRate::as_mbps),
                acks_mbps: decision.acks.map(BitRate::as_mbps),
                window_bytes: decision.window,
                pacer_packets: decision.waiting,
                mos_seen: decision.mos,
            }
        })
        .collect()
}

fn measured(world: &World) -> Nanos {
    world.end().saturating_sub(world.recorder().warmup)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn mbps(bytes: u64, time: Nanos) -> f64 {
    ratio(bytes as f64 * 8e-6, time.as_secs_f64())
}

/// Airtime as fractions of a time.
struct Shares {
    own: f64,
    received: f64,
    overheard: f64,
    collided: f64,
    energy: f64,
    idle: f64,
}

impl Shares {
    fn of(airtime: &Airtime, whole: Nanos) -> Self {
        let share = |time: Nanos| ratio(time.as_secs_f64(), whole.as_secs_f64());
        let known = airtime.own + airtime.received + airtime.overheard + airtime.collided;
        Self {
            own: share(airtime.own),
            received: share(airtime.received),
            overheard: share(airtime.overheard),
            collided: share(airtime.collided),
            energy: share(airtime.busy.saturating_sub(known)),
            idle: share(whole.saturating_sub(airtime.busy)),
        }
    }
}

/// One direction of a flow.
struct Direction<'a> {
    world: &'a World,
    seed: Seed,
    number: u32,
    name: Arc<str>,
    flow: &'a Flow,
    back: bool,
    record: &'a StreamRecord,
}

impl<'a> Direction<'a> {
    fn new(world: &'a World, number: usize, flow: &'a Flow, back: bool) -> Self {
        Self {
            world,
            seed: Seed(world.seed()),
            number: number as u32,
            name: flow.name.as_str().into(),
            flow,
            back,
            record: &world.recorder().streams[stream(number, back) as usize],
        }
    }

    fn word(&self) -> &'static str {
        if self.back { "backward" } else { "forward" }
    }

    fn codec(&self) -> Option<Codec> {
        match self.flow.kind {
            FlowKind::Call(codec) => Some(codec),
            _ => None,
        }
    }

    fn place(&self, node: NodeId) -> Arc<str> {
        if node == BROADCAST { "broadcast".into() } else { self.world.name_of(node).into() }
    }

    fn summary(&self) -> FlowRow {
        let (record, flow) = (self.record, self.flow);
        let (sender, receiver) = if self.back { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let decided = record.decided() as f64;
        let unheard = ratio((record.lost_total() + record.late) as f64, decided);
        let some = record.arrived > 0;
        let ms = |time: Nanos| some.then(|| time.as_millis_f64());
        let mean_ms = |sum: Nanos| some.then(|| sum.as_millis_f64() / record.arrived as f64);
        let quantile_ms = |q| record.delays.quantile(q).map(Nanos::as_millis_f64);
        let measured = measured(self.world);
        let transfer = match flow.kind {
            FlowKind::Bulk(index) => Some(&self.world.transfers()[index]),
            FlowKind::Web(session) | FlowKind::Request(session) => {
                Some(&self.world.transfers()[self.world.sessions()[session].transfer])
            }
            FlowKind::Call(_)
            | FlowKind::Aimd(_)
            | FlowKind::Quic(_)
            | FlowKind::Cbr
            | FlowKind::Burst
            | FlowKind::Video(_) => None,
        };
        let completed = match flow.kind {
            FlowKind::Quic(index) => self.world.quic_transfers()[index].completed,
            _ => transfer.and_then(|transfer| transfer.completed),
        };
        let tcp = |pick: fn(&TransferCounts) -> u64| {
            let counts = transfer?.counts();
            Some(pick(&counts).saturating_sub(pick(&transfer?.warmup)))
        };
        let transactions = match flow.kind {
            FlowKind::Web(session) | FlowKind::Request(session) => {
                Some(&self.world.sessions()[session].record)
            }
            _ => None,
        };
        let transaction_ms = |q| transactions?.times.quantile(q).map(Nanos::as_millis_f64);
        let video = match flow.kind {
            FlowKind::Video(video) => Some(&self.world.videos()[video].record),
            _ => None,
        };
        FlowRow {
            seed: self.seed,
            flow: self.number,
            name: self.name.clone(),
            kind: flow.kind.name(),
            direction: self.word(),
            sender: self.place(sender),
            receiver: self.place(receiver),
            codec: self.codec().map(|codec| codec.profile().name),
            start_s: flow.start.as_secs_f64(),
            stop_s: (flow.stop != Nanos::MAX).then(|| flow.stop.as_secs_f64()),
            measured_s: measured.as_secs_f64(),
            sent_packets: record.sent,
            arrived_packets: record.arrived,
            late_packets: record.late,
            lost_packets: record.lost_total(),
            lost_queue_full_packets: record.lost[Loss::QueueFull as usize],
            lost_retry_limit_packets: record.lost[Loss::RetryLimit as usize],
            lost_wired_queue_full_packets: record.lost[Loss::WiredQueueFull as usize],
            lost_aqm_packets: record.lost[Loss::Aqm as usize],
            lost_link_packets: record.lost[Loss::Link as usize],
            lost_control_packets: record.lost[Loss::Control as usize],
            in_flight_packets: record.in_flight,
            loss: ratio(record.lost_total() as f64, decided),
            late: ratio(record.late as f64, decided),
            outage: flow.delay_bound.filter(|_| !self.back).map(|_| outage(record)),
            sent_bytes: record.sent_bytes,
            delivered_bytes: record.delivered_bytes,
            sent_mbps: mbps(record.sent_bytes, measured),
            goodput_mbps: mbps(record.delivered_bytes, measured),
            delay_min_ms: (record.delay_min != Nanos::MAX).then(|| record.delay_min.as_millis_f64()),
            delay_mean_ms: mean_ms(record.delay_sum),
            delay_p50_ms: quantile_ms(0.5),
            delay_p95_ms: quantile_ms(0.95),
            delay_p99_ms: quantile_ms(0.99),
            delay_max_ms: ms(record.delay_max),
            jitter_mean_ms: mean_ms(record.jitter_sum),
            mos: self.codec().map(|codec| mos_of_direction(codec, record, unheard)),
            tcp_retransmitted_segments: tcp(|counts| counts.retransmitted),
            tcp_timeouts: tcp(|counts| counts.timeouts),
            tcp_recoveries: tcp(|counts| counts.recoveries),
            tcp_spurious_segments: tcp(|counts| counts.spurious),
            tcp_ecn_reductions: tcp(|counts| counts.ecn_reductions),
            tcp_undone: tcp(|counts| counts.undone),
            completed_s: completed.map(Nanos::as_secs_f64),
            transactions_finished: transactions.map(|record| record.finished),
            transactions_open: transactions
                .map(|record| record.begun.saturating_sub(record.finished + record.failed)),
            transactions_failed: transactions.map(|record| record.failed),
            transaction_mean_ms: transactions
                .filter(|record| record.finished > 0)
                .map(|record| record.time_sum.as_millis_f64() / record.finished as f64),
            transaction_p50_ms: transaction_ms(0.5),
            transaction_p95_ms: transaction_ms(0.95),
            transaction_p99_ms: transaction_ms(0.99),
            video_frames: video.map(|record| record.frames),
            video_complete_frames: video.map(|record| record.complete),
            video_late_frames: video.map(|record| record.late),
            video_lost_frames: video.map(|record| record.lost),
        }
    }

    fn series(&self) -> impl Iterator<Item = FlowSeriesRow> {
        let (interval, end) = (self.world.recorder().interval, self.world.end());
        let starts = (0_u64..).map(move |index| interval * index).take_while(move |start| *start < end);
        self.record.bins.iter().zip(starts).map(move |(bin, start)| {
            let until = start.saturating_add(interval).min(end);
            FlowSeriesRow {
                seed: self.seed,
                flow: self.number,
                name: self.name.clone(),
                kind: self.flow.kind.name(),
                direction: self.word(),
                t_s: until.as_secs_f64(),
                sent_packets: bin.sent,
                arrived_packets: bin.arrived,
                in_time_packets: bin.in_time,
                delay_mean_ms: (bin.arrived > 0)
                    .then(|| bin.delay_sum.as_millis_f64() / f64::from(bin.arrived)),
                delivered_bytes: bin.delivered_bytes,
                goodput_mbps: mbps(bin.delivered_bytes, until - start),
                mos: self.codec().and_then(|codec| mos_of_interval(codec, self.record, bin)),
            }
        })
    }
}

/// What every file says of the runs that it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    scenario: String,
    resolved: serde_json::Value,
    /// Messages of [`Scenario::warnings`]; `null` if there are none.
    warnings: serde_json::Value,
}

impl Meta {
    /// Of runs of this scenario.
    ///
    /// # Errors
    /// The scenario holds a number that its file format lacks.
    pub fn new(scenario: &Scenario) -> Result<Self, MetaError> {
        Ok(Self {
            scenario: toml::to_string(scenario).map_err(|error| MetaError(error.to_string()))?,
            resolved: serde_json::to_value(scenario).map_err(|error| MetaError(error.to_string()))?,
            warnings: match &scenario.warnings()[..] {
                [] => serde_json::Value::Null,
                warnings => warnings.iter().map(|warning| warning.message.as_str()).collect(),
            },
        })
    }

    /// The resolved scenario as TOML.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }
}

/// A scenario cannot be written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scenario cannot be written into results: {0}")]
pub struct MetaError(String);

/// Writes the tables of runs of one scenario, one file a table. The files, in the order of their names.
///
/// # Errors
/// A file exists or cannot be written.
pub fn write(directory: &Directory, runs: &[RunTables], meta: &Meta) -> Result<Vec<PathBuf>, OutputError> {
    let seeds = |runs: &mut dyn Iterator<Item = &RunTables>| {
        serde_json::Value::from(runs.map(|run| run.seed).collect::<Vec<_>>()).to_string()
    };
    let mut metadata = vec![
        ("fairhop.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("fairhop.scenario", meta.scenario.clone()),
        ("fairhop.seeds", seeds(&mut runs.iter())),
        ("fairhop.partial_seeds", seeds(&mut runs.iter().filter(|run| run.partial))),
    ];
    if !meta.warnings.is_null() {
        metadata.push(("fairhop.warnings", meta.warnings.to_string()));
    }
    fn file<'a, R: Row>(
        directory: &Directory,
        rows: impl Iterator<Item = &'a R>,
        metadata: &[(&str, String)],
    ) -> Result<PathBuf, OutputError> {
        directory.write(&format!("{}.parquet", R::TABLE), |out| table::write(out, rows, metadata))
    }
    Ok(vec![
        file(directory, runs.iter().flat_map(|run| &run.control), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.delays), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.flow_series), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.flows), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.frame_losses), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.links), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.node_series), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.nodes), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.tcp_series), &metadata)?,
    ])
}

/// Writes `summary.json`: the means over the seeds and their intervals as `--json` prints them, without anything that
/// the wall clock says, the resolved scenario under `resolved_scenario`, and its warnings, if any, under `warnings`.
///
/// # Errors
/// The file exists or cannot be written.
pub fn write_summary(
    directory: &Directory,
    replications: &Replications,
    meta: &Meta,
) -> Result<PathBuf, OutputError> {
    let mut summary = replications.entries();
    summary.0.push(("resolved_scenario", &meta.resolved));
    if !meta.warnings.is_null() {
        summary.0.push(("warnings", &meta.warnings));
    }
    directory.write("summary.json", |file| {
        serde_json::to_writer_pretty(&mut *file, &summary)?;
        file.write_all(b"\n")
    })
}
