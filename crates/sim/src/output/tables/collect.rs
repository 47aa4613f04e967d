//! Collects the tables of a [`World`].

use std::sync::Arc;

use fairhop_control::policy::Reason;
use fairhop_model::stats;
use fairhop_model::units::{BitRate, Nanos};
use fairhop_model::voice::Codec;

use super::{
    ControlRow, DelayRow, FlowRow, FlowSeriesRow, FrameLossRow, LinkRow, NodeRow, NodeSeriesRow, ReceiverRow,
    RunTables, Seed, TcpSeriesRow,
};
use crate::mac::BROADCAST;
use crate::packet::NodeId;
use crate::packet::stream;
use crate::radio::{Airtime, FrameLoss};
use crate::recorder::{Loss, StreamRecord};
use crate::results::{mos_of_direction, mos_of_interval, outage};
use crate::world::applications::flow::{Flow, FlowKind};
use crate::world::applications::tcp::TransferCounts;
use crate::world::control::{Control, Decided};
use crate::world::{RealClass, World};

impl RunTables {
    /// The tables of a run that has ended, or was stopped early (`partial`).
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
            receivers: Vec::new(),
        };
        for (number, flow) in world.flows().iter().enumerate() {
            for back in [false, true] {
                if world.recorder().is_measured(stream(number, back)) {
                    tables.direction(&Direction::new(world, number, flow, back));
                }
            }
        }
        for (index, transfer) in world.transfers().iter().enumerate() {
            // The senders of requests are left out: nothing would distinguish their rows from those of responses.
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
        self.receivers.extend(direction.receivers());
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
        let position = world.place(node, world.end());
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

/// The decisions of the gateways' controllers.
fn control(world: &World) -> Vec<ControlRow> {
    let decisions = world.control().map_or(&[][..], Control::decisions);
    // A reason holds for many ticks, which share its text.
    let mut reason: (Option<Reason>, Arc<str>) = (None, "".into());
    decisions
        .iter()
        .map(|Decided { gateway, kind, decision }| {
            if reason.0 != Some(decision.reason) {
                reason = (Some(decision.reason), decision.reason.to_string().into());
            }
            ControlRow {
                seed: Seed(world.seed()),
                t_s: decision.at.as_secs_f64(),
                gateway: *gateway,
                kind,
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
            FlowKind::Real(index) => match self.world.real().get(index).class() {
                RealClass::Call(codec) => Some(codec),
                _ => None,
            },
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
        let is_broadcast = receiver == BROADCAST;
        let delivery =
            is_broadcast.then(|| record.delivery_ratios().map(|(_, ratio)| ratio).collect::<Vec<f64>>());
        let has_delay = record.arrived > 0;
        let ms = |time: Nanos| has_delay.then(|| time.as_millis_f64());
        let mean_ms = |sum: Nanos| has_delay.then(|| sum.as_millis_f64() / record.arrived as f64);
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
            | FlowKind::Ping
            | FlowKind::Video(_)
            | FlowKind::Real(_) => None,
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
            lost_no_route_packets: record.lost[Loss::NoRoute as usize],
            lost_ttl_packets: record.lost[Loss::Ttl as usize],
            lost_route_broken_packets: record.lost[Loss::RouteBroken as usize],
            lost_buffer_full_packets: record.lost[Loss::BufferFull as usize],
            lost_buffer_timeout_packets: record.lost[Loss::BufferTimeout as usize],
            in_flight_packets: record.in_flight,
            overdue_packets: record.overdue,
            loss: ratio(record.lost_total() as f64, decided),
            late: ratio(record.late as f64, decided),
            outage: flow.delay_bound.filter(|_| !self.back).map(|_| outage(record)),
            receivers: is_broadcast.then_some(record.receptions.len() as u64),
            delivery_mean: delivery.as_deref().and_then(stats::mean),
            delivery_min: delivery.and_then(|ratios| ratios.into_iter().reduce(f64::min)),
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
            mos: self.codec().and_then(|codec| mos_of_direction(codec, record)),
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

    fn receivers(&self) -> impl Iterator<Item = ReceiverRow> {
        let sent = self.record.decided();
        self.record.receptions.iter().map(move |at| ReceiverRow {
            seed: self.seed,
            flow: self.number,
            name: self.name.clone(),
            node: at.node,
            sent_packets: sent,
            received_packets: at.packets,
            delivery: (sent > 0).then(|| at.packets as f64 / sent as f64),
        })
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
