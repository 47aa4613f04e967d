//! Collects the results of a [`World`].

use fairhop_control::policy::State;
use fairhop_model::units::{BitRate, Nanos};
use fairhop_transport::quic::SenderStats as QuicStats;

use super::{
    AimdSummary, AirtimeSummary, ControlSummary, LinkSummary, NodeSummary, QuicSummary, Summary, TcpSummary,
    figures, routing,
};
use crate::mac::BROADCAST;
use crate::packet::stream;
use crate::radio::FrameLoss;
use crate::recorder::StreamRecord;
use crate::wired::Link;
use crate::world::applications::aimd::AimdStream;
use crate::world::applications::flow::FlowKind;
use crate::world::applications::quic::QuicTransfer;
use crate::world::applications::tcp::TransferCounts;
use crate::world::control::{Control, Decided};
use crate::world::{RealClass, World};

impl Summary {
    /// The results of a run that has ended, or was stopped early (`partial`).
    pub fn of(world: &World, partial: bool) -> Self {
        let recorder = world.recorder();
        let measured_s = world.end().saturating_sub(recorder.warmup).as_secs_f64();
        let mut calls = Vec::new();
        let mut flows = Vec::new();
        for (index, flow) in world.flows().iter().enumerate() {
            let forward = &recorder.streams[stream(index, false) as usize];
            let backward = &recorder.streams[stream(index, true) as usize];
            match flow.kind {
                FlowKind::Real(index) => match world.real().get(index).class() {
                    RealClass::Call(codec) => {
                        let mut call = figures::call(&flow.name, codec, [forward, backward], recorder);
                        let observed = world.real().get(index).observed();
                        call.observed = Some(figures::observed(codec, observed, forward.playout));
                        calls.push(call);
                    }
                    class => {
                        // The data of a real flow go the way of more bytes.
                        let back = backward.delivered_bytes > forward.delivered_bytes;
                        let data = if back { backward } else { forward };
                        let mut summary = figures::flow(&flow.name, real_kind(class), data, measured_s);
                        summary.broadcast = (flow.to == BROADCAST).then(|| figures::broadcast(data));
                        flows.push(summary);
                    }
                },
                FlowKind::Call(codec) => {
                    calls.push(figures::call(&flow.name, codec, [forward, backward], recorder));
                }
                kind => {
                    // The data of a request flow are the responses.
                    let data = if matches!(kind, FlowKind::Request(_)) { backward } else { forward };
                    let mut summary = figures::flow(&flow.name, kind.name(), data, measured_s);
                    summary.outage = flow.delay_bound.map(|_| figures::outage(data));
                    summary.limit_mbps = world.throttled_rate(index).map(BitRate::as_mbps);
                    summary.broadcast = (flow.to == BROADCAST).then(|| figures::broadcast(data));
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
                            summary.transactions = Some(figures::transactions(&session.record));
                        }
                        FlowKind::Video(video) => {
                            summary.video = Some(figures::video(&world.videos()[video].record));
                        }
                        FlowKind::Call(_)
                        | FlowKind::Cbr
                        | FlowKind::Burst
                        | FlowKind::Ping
                        | FlowKind::Real(_) => {}
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
            emulation: None,
            sim_s: world.end().as_secs_f64(),
            frames: recorder.frames as f64,
            totals: figures::totals(&calls, &flows),
            calls,
            flows,
            nodes: (0..world.node_count()).map(|node| node_summary(world, node, measured_s)).collect(),
            links: world.wired().iter().map(|link| link_summary(world, link, measured_s)).collect(),
            routing: routing::summary(world),
            control: control.next(),
            further_control: control.collect(),
        }
    }
}

/// The kind of a real flow that is no call, as in [`FlowSummary::kind`](super::FlowSummary::kind).
const fn real_kind(class: RealClass) -> &'static str {
    match class {
        RealClass::Tcp => figures::REAL_TCP,
        RealClass::Call(_) | RealClass::Udp => "real-udp",
        RealClass::Other => figures::REAL_OTHER,
    }
}

/// Goodput as a fraction of the payload sent.
fn efficiency(record: &StreamRecord) -> f64 {
    if record.sent_bytes > 0 { record.delivered_bytes as f64 / record.sent_bytes as f64 } else { 0.0 }
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
        efficiency: efficiency(record),
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
        efficiency: efficiency(record),
        retransmitted: since(|counts| counts.retransmitted),
        timeouts: since(|counts| counts.timeouts),
        recoveries: since(|counts| counts.recoveries),
        spurious: since(|counts| counts.spurious),
        ecn_reductions: since(|counts| counts.ecn_reductions),
        undone: since(|counts| counts.undone),
        completed_s: transfer.completed.map(Nanos::as_secs_f64),
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
    let decided = || control.decisions().iter().filter(move |decided| decided.gateway == node);
    let Decided { kind, decision: last, .. } = decided().next_back()?;
    let counted = || decided().map(|decided| decided.decision).filter(|decision| decision.at > warmup);
    let ticks = counted().count() as f64;
    let per_tick = |sum: f64| if ticks > 0.0 { sum / ticks } else { 0.0 };
    let states = [State::Off, State::Learning, State::Steady, State::Protecting, State::Starved];
    let part = |state: State| per_tick(counted().filter(|decision| decision.state == state).count() as f64);
    Some(ControlSummary {
        gateway: node.to_string(),
        kind: (*kind).to_owned(),
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
