//! Results: what a run showed, and the means of several runs, in the form that `fairhop run --json` prints.
//!
//! Times are milliseconds, rates Mb/s, losses fractions of the packets sent whose fate is known. A call's quality is
//! the mean of its two directions; the worse one is given beside it.

use std::collections::BTreeMap;

use fairhop_control::policy::State;
use fairhop_model::stats;
use fairhop_model::units::{BitRate, Nanos};
use fairhop_model::voice::{self, Codec};
use fairhop_transport::quic::SenderStats as QuicStats;
use serde::{Deserialize, Serialize};

use crate::packet::stream;
use crate::radio::FrameLoss;
use crate::recorder::{FrameRecord, Loss, Recorder, StreamBin, StreamRecord, TransactionRecord};
use crate::wired::Link;
use crate::world::World;
use crate::world::applications::aimd::AimdStream;
use crate::world::applications::flow::FlowKind;
use crate::world::applications::quic::QuicTransfer;
use crate::world::applications::tcp::TransferCounts;
use crate::world::control::Control;

/// A call whose worse direction is at least this good is acceptable (kim2010).
pub const ACCEPTABLE_MOS: f64 = 3.6;

/// What one run showed, or, as means, several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the program.
    pub fairhop: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// True where the run was ended early; its figures are those up to then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Simulated seconds.
    pub sim_s: f64,
    /// Frames on the air.
    pub frames: f64,
    /// Calls.
    pub calls: Vec<CallSummary>,
    /// Other flows.
    pub flows: Vec<FlowSummary>,
    /// Over all flows.
    pub totals: Totals,
    /// Stations.
    pub nodes: Vec<NodeSummary>,
    /// Directions of wired links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSummary>,
    /// What the gateway's controller did, the first one's of several; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlSummary>,
    /// What the controllers of further gateways did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_control: Vec<ControlSummary>,
}

/// What a controller did, and what it asked for last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlSummary {
    /// The gateway: a node's number.
    pub gateway: String,
    /// The kind in force at the end, as in the scenario.
    pub kind: String,
    /// The last state: `off`, `learning`, `steady`, `protecting` or `starved`.
    pub state: String,
    /// Why, in words.
    pub reason: String,
    /// What held the budget last: `window`, `pacing` or `both`.
    pub means: String,
    /// The last budget, times hops; left out where none was sought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_mbps: Option<f64>,
    /// The last pace of elastic data into the mesh; left out where there was no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_mbps: Option<f64>,
    /// The last pace of what ACKs acknowledge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks_mbps: Option<f64>,
    /// The smallest clamp on a window at last, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<f64>,
    /// Mean number of packets that waited in the pacers, from tick to tick.
    pub pacer_mean: f64,
    /// Packets that found no place in a pacer.
    pub dropped: f64,
    /// Fraction of the ticks in each state, warm-up excluded.
    pub states: BTreeMap<String, f64>,
}

/// One direction of a wired link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Where it begins: a node's number or a host's name.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Fraction of time spent sending, repetitions included.
    pub utilization: f64,
    /// Packets sent.
    pub sent: f64,
    /// Mean number of packets that wait, the one being sent included.
    pub queue_mean: f64,
    /// Most packets that waited.
    pub queue_max: f64,
    /// Packets that found the queue full or made room in it.
    pub queue_drops: f64,
    /// Packets that the queue dropped early to stay short (RED, CoDel).
    pub queue_early_drops: f64,
    /// Packets lost on the way.
    pub lost: f64,
    /// Frames of a time-slotted link that did not get through.
    pub frames_failed: f64,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// Its name.
    pub name: String,
    /// Mean opinion score, mean of the directions.
    pub mos: f64,
    /// Mean opinion score of the worse direction.
    pub mos_worst: f64,
    /// Fraction of the recording intervals (seconds, where the scenario says nothing else) in which both directions had
    /// a score of at least 3.6; those that began in the warm-up or in which nothing was sent do not count. 1 where none
    /// counts.
    pub clear: f64,
    /// Fraction of packets lost on the way.
    pub loss: f64,
    /// Fraction of packets that came too late to be played.
    pub late: f64,
    /// Mean one-way delay.
    pub delay_ms: f64,
    /// Mean interarrival jitter (RFC 3550).
    pub jitter_ms: f64,
    /// The direction from `from` to `to`.
    pub forward: DirectionSummary,
    /// The direction back.
    pub backward: DirectionSummary,
}

/// One direction of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Mean opinion score.
    pub mos: f64,
    /// Packets sent.
    pub sent: f64,
    /// Fraction of packets lost on the way.
    pub loss: f64,
    /// Fraction of packets that came too late.
    pub late: f64,
    /// Packets lost, by reason.
    pub lost: BTreeMap<String, f64>,
    /// One-way delay.
    pub delay: DelaySummary,
    /// Mean interarrival jitter.
    pub jitter_ms: f64,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelaySummary {
    /// Shortest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

/// A flow that is not a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// `bulk`, `aimd`, `quic`, `cbr`, `burst`, `web`, `request` or `video`.
    pub kind: String,
    /// Payload delivered, in order and once.
    pub goodput_mbps: f64,
    /// Payload sent, repetitions included.
    pub sent_mbps: f64,
    /// Mean one-way delay of packets.
    pub delay_ms: f64,
    /// Fraction of packets lost.
    pub loss: f64,
    /// Packets sent.
    pub sent: f64,
    /// Packets lost, by reason.
    pub lost: BTreeMap<String, f64>,
    /// One-way delay of packets.
    pub delay: DelaySummary,
    /// Mean interarrival jitter.
    pub jitter_ms: f64,
    /// Fraction of the packets that arrived that came later than the flow's `delay_bound_ms` after the fastest one; left
    /// out where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<f64>,
    /// What its source may send at the end of the run, where it is throttled to its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_mbps: Option<f64>,
    /// What only AIMD datagrams have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aimd: Option<AimdSummary>,
    /// What only QUIC-like transfers have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicSummary>,
    /// What only TCP has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSummary>,
    /// Pages, or requests with their responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionSummary>,
    /// Frames of a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoSummary>,
}

/// Pages, or requests with their responses, that began after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactionSummary {
    /// How many were complete.
    pub finished: f64,
    /// How many were under way at the end.
    pub open: f64,
    /// How many the connection gave up.
    pub failed: f64,
    /// Times from the start of a connection, or request, to the last byte; left out where none was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<DelaySummary>,
}

/// Frames of a video that were made after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoSummary {
    /// Frames sent whose fate is known.
    pub frames: f64,
    /// Fraction of them that was complete in time.
    pub complete: f64,
    /// Fraction of them that was complete after the deadline.
    pub late: f64,
    /// Fraction of them that lost a packet.
    pub lost: f64,
}

/// The counters of a sender of AIMD datagrams, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AimdSummary {
    /// Times that the window fell by β.
    pub backoffs: f64,
    /// Timeouts.
    pub timeouts: f64,
}

/// The counters of a QUIC-like transfer, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuicSummary {
    /// Goodput over what was sent.
    pub efficiency: f64,
    /// Packets with data that had been sent before.
    pub retransmitted: f64,
    /// Times that the probe timer ran out.
    pub timeouts: f64,
    /// Congestion events.
    pub recoveries: f64,
    /// Packets taken to be lost that arrived after all.
    pub spurious: f64,
    /// When a finite transfer was complete, in seconds; left out where it was not or has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
}

/// TCP's own counters, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpSummary {
    /// Goodput over what was sent.
    pub efficiency: f64,
    /// Segments sent again.
    pub retransmitted: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
    /// Fast recoveries.
    pub recoveries: f64,
    /// Segments sent again that the receiver reported to have had already (RFC 2883).
    #[serde(default)]
    pub spurious: f64,
    /// Times that the window fell because the network marked a packet (RFC 3168).
    #[serde(default)]
    pub ecn_reductions: f64,
    /// Reductions that were taken back because nothing had been lost.
    #[serde(default)]
    pub undone: f64,
    /// When a finite transfer was complete, in seconds; left out where it was not or has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
}

/// Figures over all flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Mean of the calls' scores; 0 where there is no call.
    pub mos_mean: f64,
    /// The worst direction of any call.
    pub mos_min: f64,
    /// Calls whose worse direction is at least 3.6.
    pub calls_ok: f64,
    /// Mean of the calls' `clear`; 1 where there is no call.
    pub calls_clear: f64,
    /// Goodput of all TCP flows.
    pub tcp_goodput_mbps: f64,
    /// Goodput of all datagram flows that are not calls.
    pub udp_goodput_mbps: f64,
    /// Jain's index of the goodputs of the flows that are not calls; 1 where there is none.
    pub jain: f64,
}

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its number.
    pub node: u32,
    /// Fractions of time.
    pub airtime: AirtimeSummary,
    /// Frames sent.
    pub frames_sent: f64,
    /// Data frames and RTS sent again.
    pub retries: f64,
    /// Frames meant for it that it did not receive, by reason.
    pub frames_lost: BTreeMap<String, f64>,
    /// Packets that found its queue full or made room in it.
    pub queue_drops: f64,
    /// Packets that its queue dropped early to stay short (RED, CoDel).
    #[serde(default)]
    pub queue_early_drops: f64,
    /// Mean number of packets that wait, the one in service included.
    pub queue_mean: f64,
    /// Most packets that waited.
    pub queue_max: f64,
}

/// How a station's time was spent, in fractions of the run after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AirtimeSummary {
    /// Its own frames.
    pub own: f64,
    /// Frames for it.
    pub received: f64,
    /// Frames for others.
    pub overheard: f64,
    /// Frames that it began to receive and lost.
    pub collided: f64,
    /// Energy that it did not lock on.
    pub energy: f64,
    /// Nothing.
    pub idle: f64,
}

/// The mean opinion score of one direction of a call that lost or missed the fraction `unheard` of its packets.
pub fn mos_of_direction(codec: Codec, record: &StreamRecord, unheard: f64) -> f64 {
    if record.delay_min == Nanos::MAX {
        return 1.0; // nothing was ever heard
    }
    voice::mos(codec, unheard, record.delay_min, record.playout)
}

/// The mean opinion score of one direction of a call, had all of it been as in a recording interval; none where it sent
/// nothing.
pub fn mos_of_interval(codec: Codec, record: &StreamRecord, bin: &StreamBin) -> Option<f64> {
    let unheard = fraction(u64::from(bin.sent.saturating_sub(bin.in_time)), u64::from(bin.sent));
    (bin.sent > 0).then(|| mos_of_direction(codec, record, unheard))
}

/// [`CallSummary::clear`] of a call with these directions.
fn clear(codec: Codec, [forward, backward]: [&StreamRecord; 2], recorder: &Recorder) -> f64 {
    let first = recorder.warmup.0.div_ceil(recorder.interval.0.max(1)) as usize;
    let (mut whole, mut clear) = (0, 0);
    for (to, back) in forward.bins.iter().zip(&backward.bins).skip(first) {
        let scores = [mos_of_interval(codec, forward, to), mos_of_interval(codec, backward, back)];
        let Some(worst) = scores.into_iter().flatten().reduce(f64::min) else { continue };
        whole += 1;
        clear += u64::from(worst >= ACCEPTABLE_MOS);
    }
    if whole == 0 { 1.0 } else { fraction(clear, whole) }
}

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn delays(record: &StreamRecord) -> DelaySummary {
    if record.arrived == 0 {
        return DelaySummary::default();
    }
    let quantile = |q| record.delays.quantile(q).unwrap_or_default().as_millis_f64();
    DelaySummary {
        min_ms: record.delay_min.as_millis_f64(),
        mean_ms: record.delay_sum.as_millis_f64() / record.arrived as f64,
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        max_ms: record.delay_max.as_millis_f64(),
    }
}

fn jitter_ms(record: &StreamRecord) -> f64 {
    if record.arrived == 0 { 0.0 } else { record.jitter_sum.as_millis_f64() / record.arrived as f64 }
}

fn losses(record: &StreamRecord) -> BTreeMap<String, f64> {
    Loss::ALL.iter().map(|&why| (why.name().to_owned(), record.lost[why as usize] as f64)).collect()
}

impl Summary {
    /// What a world showed that has come to its end, or was stopped (`partial`).
    pub fn of(world: &World, partial: bool) -> Self {
        let recorder = world.recorder();
        let measured_s = world.end().saturating_sub(recorder.warmup).as_secs_f64();
        let mut calls = Vec::new();
        let mut flows = Vec::new();
        for (index, flow) in world.flows().iter().enumerate() {
            let forward = &recorder.streams[stream(index, false) as usize];
            let backward = &recorder.streams[stream(index, true) as usize];
            match flow.kind {
                FlowKind::Call(codec) => calls.push(CallSummary {
                    clear: clear(codec, [forward, backward], recorder),
                    ..call(&flow.name, codec, forward, backward)
                }),
                kind => {
                    // What a request flow is for comes back.
                    let data = if matches!(kind, FlowKind::Request(_)) { backward } else { forward };
                    let mut summary = FlowSummary {
                        outage: flow.delay_bound.map(|_| outage(data)),
                        limit_mbps: world.throttled_rate(index).map(BitRate::as_mbps),
                        ..flow_summary(&flow.name, kind.name(), data, measured_s)
                    };
                    match kind {
                        FlowKind::Bulk(tcp) => summary.tcp = Some(tcp_summary(world, tcp, data)),
                        FlowKind::Aimd(aimd) => {
                            summary.aimd = Some(aimd_summary(&world.aimd_streams()[aimd]));
                        }
                        FlowKind::Quic(quic) => {
                            summary.quic = Some(quic_summary(&world.quic_transfers()[quic], data));
                        }
                        FlowKind::Web(session) | FlowKind::Request(session) => {
                            let session = &world.sessions()[session];
                            summary.tcp = Some(tcp_summary(world, session.transfer, data));
                            summary.transactions = Some(transaction_summary(&session.record));
                        }
                        FlowKind::Video(video) => {
                            summary.video = Some(video_summary(&world.videos()[video].record));
                        }
                        FlowKind::Call(_) | FlowKind::Cbr | FlowKind::Burst => {}
                    }
                    flows.push(summary);
                }
            }
        }
        let mut control = world.control().into_iter().flat_map(|control| {
            let summary = |(node, dropped)| control_summary(control, node, dropped, recorder.warmup);
            control.gateways().filter_map(summary)
        });
        Self {
            fairhop: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: world.scenario().name.clone(),
            seeds: vec![world.seed()],
            partial,
            sim_s: world.end().as_secs_f64(),
            frames: recorder.frames as f64,
            totals: totals(&calls, &flows),
            calls,
            flows,
            nodes: (0..world.node_count()).map(|node| node_summary(world, node, measured_s)).collect(),
            links: world.wired().iter().map(|link| link_summary(world, link, measured_s)).collect(),
            control: control.next(),
            further_control: control.collect(),
        }
    }
}

fn call(name: &str, codec: Codec, forward: &StreamRecord, backward: &StreamRecord) -> CallSummary {
    let direction = |record: &StreamRecord| {
        let decided = record.decided();
        DirectionSummary {
            mos: mos_of_direction(codec, record, fraction(record.lost_total() + record.late, decided)),
            sent: record.sent as f64,
            loss: fraction(record.lost_total(), decided),
            late: fraction(record.late, decided),
            lost: losses(record),
            delay: delays(record),
            jitter_ms: jitter_ms(record),
        }
    };
    let (forward, backward) = (direction(forward), direction(backward));
    let mean = |pick: fn(&DirectionSummary) -> f64| (pick(&forward) + pick(&backward)) / 2.0;
    CallSummary {
        name: name.to_owned(),
        mos: mean(|d| d.mos),
        mos_worst: forward.mos.min(backward.mos),
        clear: 1.0,
        loss: mean(|d| d.loss),
        late: mean(|d| d.late),
        delay_ms: mean(|d| d.delay.mean_ms),
        jitter_ms: mean(|d| d.jitter_ms),
        forward,
        backward,
    }
}

fn flow_summary(name: &str, kind: &str, record: &StreamRecord, measured_s: f64) -> FlowSummary {
    let mbps = |bytes: u64| if measured_s > 0.0 { bytes as f64 * 8e-6 / measured_s } else { 0.0 };
    let delay = delays(record);
    FlowSummary {
        name: name.to_owned(),
        kind: kind.to_owned(),
        goodput_mbps: mbps(record.delivered_bytes),
        sent_mbps: mbps(record.sent_bytes),
        delay_ms: delay.mean_ms,
        loss: fraction(record.lost_total(), record.decided()),
        sent: record.sent as f64,
        lost: losses(record),
        delay,
        jitter_ms: jitter_ms(record),
        outage: None,
        limit_mbps: None,
        aimd: None,
        quic: None,
        tcp: None,
        transactions: None,
        video: None,
    }
}

fn transaction_summary(record: &TransactionRecord) -> TransactionSummary {
    let quantile = |q| record.times.quantile(q).unwrap_or_default().as_millis_f64();
    TransactionSummary {
        finished: record.finished as f64,
        open: record.begun.saturating_sub(record.finished + record.failed) as f64,
        failed: record.failed as f64,
        time: (record.finished > 0).then(|| DelaySummary {
            min_ms: record.time_min.as_millis_f64(),
            mean_ms: record.time_sum.as_millis_f64() / record.finished as f64,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: record.time_max.as_millis_f64(),
        }),
    }
}

fn video_summary(record: &FrameRecord) -> VideoSummary {
    let decided = record.complete + record.late + record.lost;
    VideoSummary {
        frames: decided as f64,
        complete: fraction(record.complete, decided),
        late: fraction(record.late, decided),
        lost: fraction(record.lost, decided),
    }
}

/// The part of the packets that were not lost that came too late.
pub fn outage(record: &StreamRecord) -> f64 {
    fraction(record.late, record.decided().saturating_sub(record.lost_total()))
}

fn aimd_summary(stream: &AimdStream) -> AimdSummary {
    let (now, before) = (stream.sender.stats(), &stream.warmup);
    AimdSummary {
        backoffs: now.backoffs.saturating_sub(before.backoffs) as f64,
        timeouts: now.timeouts.saturating_sub(before.timeouts) as f64,
    }
}

fn quic_summary(transfer: &QuicTransfer, record: &StreamRecord) -> QuicSummary {
    let since = |pick: fn(&QuicStats) -> u64| {
        pick(transfer.sender.stats()).saturating_sub(pick(&transfer.warmup)) as f64
    };
    QuicSummary {
        efficiency: fraction(record.delivered_bytes, record.sent_bytes),
        retransmitted: since(|stats| stats.packets_retransmitted),
        timeouts: since(|stats| stats.probe_timeouts),
        recoveries: since(|stats| stats.recoveries),
        spurious: since(|stats| stats.spurious_losses),
        completed_s: transfer.completed.map(Nanos::as_secs_f64),
    }
}

fn tcp_summary(world: &World, index: usize, record: &StreamRecord) -> TcpSummary {
    let transfer = &world.transfers()[index];
    let now = transfer.counts();
    let since = |pick: fn(&TransferCounts) -> u64| pick(&now).saturating_sub(pick(&transfer.warmup)) as f64;
    TcpSummary {
        efficiency: fraction(record.delivered_bytes, record.sent_bytes),
        retransmitted: since(|counts| counts.retransmitted),
        timeouts: since(|counts| counts.timeouts),
        recoveries: since(|counts| counts.recoveries),
        spurious: since(|counts| counts.spurious),
        ecn_reductions: since(|counts| counts.ecn_reductions),
        undone: since(|counts| counts.undone),
        completed_s: transfer.completed.map(Nanos::as_secs_f64),
    }
}

fn totals(calls: &[CallSummary], flows: &[FlowSummary]) -> Totals {
    let scores: Vec<f64> = calls.iter().map(|call| call.mos).collect();
    let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_mbps).collect();
    // Not `sum`, which makes -0.0 of nothing.
    let sum = |tcp: bool| {
        flows.iter().filter(|flow| flow.tcp.is_some() == tcp).fold(0.0, |sum, flow| sum + flow.goodput_mbps)
    };
    Totals {
        mos_mean: stats::mean(&scores).unwrap_or(0.0),
        mos_min: calls.iter().map(|call| call.mos_worst).reduce(f64::min).unwrap_or(0.0),
        calls_clear: stats::mean(&calls.iter().map(|call| call.clear).collect::<Vec<_>>()).unwrap_or(1.0),
        calls_ok: calls.iter().filter(|call| call.mos_worst >= ACCEPTABLE_MOS).count() as f64,
        tcp_goodput_mbps: sum(true),
        udp_goodput_mbps: sum(false),
        jain: stats::jain_index(&goodputs).unwrap_or(1.0),
    }
}

fn node_summary(world: &World, node: usize, measured_s: f64) -> NodeSummary {
    let record = &world.recorder().nodes[node];
    let airtime = world.airtime(node);
    let share = |time: Nanos| if measured_s > 0.0 { time.as_secs_f64() / measured_s } else { 0.0 };
    let known = airtime.own + airtime.received + airtime.overheard + airtime.collided;
    NodeSummary {
        node: node as u32,
        airtime: AirtimeSummary {
            own: share(airtime.own),
            received: share(airtime.received),
            overheard: share(airtime.overheard),
            collided: share(airtime.collided),
            energy: share(airtime.busy.saturating_sub(known)),
            idle: 1.0 - share(airtime.busy),
        },
        frames_sent: record.frames_sent as f64,
        retries: record.retries as f64,
        frames_lost: FrameLoss::ALL
            .iter()
            .map(|&why| (why.name().to_owned(), record.frames_lost[why as usize] as f64))
            .collect(),
        queue_drops: record.queue_drops as f64,
        queue_early_drops: record.early_drops as f64,
        queue_mean: if measured_s > 0.0 { record.backlog_integral as f64 * 1e-9 / measured_s } else { 0.0 },
        queue_max: f64::from(record.backlog_max),
    }
}

fn link_summary(world: &World, link: &Link, measured_s: f64) -> LinkSummary {
    let record = link.record();
    let per_second = |seconds: f64| if measured_s > 0.0 { seconds / measured_s } else { 0.0 };
    LinkSummary {
        from: world.name_of(link.from()),
        to: world.name_of(link.to()),
        utilization: per_second(record.busy.as_secs_f64()),
        sent: record.sent as f64,
        queue_mean: per_second(record.backlog_integral as f64 * 1e-9),
        queue_max: f64::from(record.backlog_max),
        queue_drops: record.drops as f64,
        queue_early_drops: record.early_drops as f64,
        lost: record.lost as f64,
        frames_failed: record.failed as f64,
    }
}

fn control_summary(control: &Control, node: u32, dropped: u64, warmup: Nanos) -> Option<ControlSummary> {
    let decisions = || control.decisions().iter().filter(move |decision| decision.gateway == node);
    let last = decisions().next_back()?;
    let counted = || decisions().filter(|decision| decision.at > warmup);
    let ticks = counted().count() as f64;
    let per_tick = |sum: f64| if ticks > 0.0 { sum / ticks } else { 0.0 };
    let states = [State::Off, State::Learning, State::Steady, State::Protecting, State::Starved];
    let part = |state: State| per_tick(counted().filter(|decision| decision.state == state).count() as f64);
    Some(ControlSummary {
        gateway: node.to_string(),
        kind: last.kind.to_owned(),
        state: last.state.name().to_owned(),
        reason: last.reason.to_string(),
        means: last.means.name().to_owned(),
        budget_mbps: last.budget.map(|budget| budget * 1e-6),
        down_mbps: last.down.map(BitRate::as_mbps),
        acks_mbps: last.acks.map(BitRate::as_mbps),
        window_bytes: last.window.map(f64::from),
        pacer_mean: per_tick(counted().map(|decision| f64::from(decision.waiting)).sum()),
        dropped: dropped as f64,
        states: states.map(|state| (state.name().to_owned(), part(state))).into(),
    })
}

/// Several runs of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Replications {
    /// Means over the seeds.
    pub mean: serde_json::Value,
    /// Half-widths of the 95 % confidence intervals (Student t), in the same form; empty for one run.
    pub ci95: serde_json::Value,
}

impl Replications {
    /// Means and intervals of runs of the same scenario.
    ///
    /// # Errors
    /// There is no run.
    pub fn of(runs: &[Summary]) -> Result<Self, NoRuns> {
        let mut values: Vec<serde_json::Value> =
            runs.iter().filter_map(|run| serde_json::to_value(run).ok()).collect();
        let (mut mean, mut ci95) = match values.as_slice() {
            [] => return Err(NoRuns),
            // The mean of one is itself, and a large network's is not to be there twice.
            [_] => (values.remove(0), serde_json::json!({})),
            [first, ..] => {
                let all: Vec<&serde_json::Value> = values.iter().collect();
                let mean_of = |samples: &[f64]| stats::mean(samples).unwrap_or(f64::NAN);
                let ci95_of = |samples: &[f64]| stats::ci95_half_width(samples).unwrap_or(f64::NAN);
                (combine(first, &all, Whole::Keep, &mean_of), combine(first, &all, Whole::LeaveOut, &ci95_of))
            }
        };
        if let Some(object) = mean.as_object_mut() {
            let seeds: Vec<u64> = runs.iter().flat_map(|run| run.seeds.clone()).collect();
            object.insert("seeds".into(), seeds.into());
            if runs.iter().any(|run| run.partial) {
                object.insert("partial".into(), true.into());
            }
        }
        if let Some(object) = ci95.as_object_mut() {
            for key in ["fairhop", "scenario", "seeds", "partial", "sim_s"] {
                object.remove(key);
            }
        }
        Ok(Self { mean, ci95 })
    }

    /// What stands in one object: the means, and the intervals under `ci95`.
    pub fn entries(&self) -> Entries<'_> {
        let mean = self.mean.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value));
        Entries(mean.chain([("ci95", &self.ci95)]).collect())
    }
}

/// An object to be written, of values that stand elsewhere: those of a large network are not copied.
#[derive(Clone, Debug)]
pub struct Entries<'a>(pub Vec<(&'a str, &'a serde_json::Value)>);

impl Serialize for Entries<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// There was no run to take a mean of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no run was completed")]
pub struct NoRuns;

/// What becomes of whole numbers, which name things (a node, a seed) and are not measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Keep,
    LeaveOut,
}

/// Combines the numbers of values of the same form; what is not a number is that of the first. What some runs lack
/// (a transfer that was not completed) is combined over those that have it.
fn combine(
    form: &serde_json::Value,
    values: &[&serde_json::Value],
    whole: Whole,
    with: &impl Fn(&[f64]) -> f64,
) -> serde_json::Value {
    use serde_json::Value;
    match form {
        Value::Object(_) => {
            let keys: Vec<&String> =
                values.iter().filter_map(|value| value.as_object()).flat_map(|o| o.keys()).collect();
            let mut combined = serde_json::Map::new();
            for key in keys {
                let parts: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
                let named = parts.iter().any(|part| part.is_u64()) && whole == Whole::LeaveOut;
                if let Some(first) = parts.first()
                    && !named
                    && !combined.contains_key(key)
                {
                    combined.insert(key.clone(), combine(first, &parts, whole, with));
                }
            }
            Value::Object(combined)
        }
        Value::Array(items) => (0..items.len())
            .map(|index| {
                let parts: Vec<&Value> = values.iter().filter_map(|value| value.get(index)).collect();
                combine(&items[index], &parts, whole, with)
            })
            .collect(),
        Value::Number(number) if number.is_f64() => {
            let samples: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
            serde_json::Number::from_f64(with(&samples)).map_or(Value::Null, Value::Number)
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => form.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn means_go_leaf_by_leaf_and_over_the_runs_that_have_a_leaf() {
        let runs = [
            json!({"name": "a", "node": 3, "x": 1.0, "deep": [{"y": 2.0}]}),
            json!({"name": "a", "node": 3, "x": 3.0, "deep": [{"y": 4.0, "done_s": 7.0}]}),
        ];
        let runs: Vec<_> = runs.iter().collect();
        let mean = combine(runs[0], &runs, Whole::Keep, &|s| stats::mean(s).unwrap());
        assert_eq!(mean, json!({"name": "a", "node": 3, "x": 2.0, "deep": [{"y": 3.0, "done_s": 7.0}]}));
        let count = combine(runs[0], &runs, Whole::LeaveOut, &|s| s.len() as f64);
        assert_eq!(count, json!({"name": "a", "x": 2.0, "deep": [{"y": 2.0, "done_s": 1.0}]}));
    }
}
