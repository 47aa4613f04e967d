//! From the engine and the datapath to a status.

use std::net::IpAddr;

use fairhop_control::Decision;
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::observer::{CallNow, Flow, FlowBody, FlowKind, Quality};
use fairhop_control::policy::Policy;
use fairhop_model::units::{BitRate, Nanos};

use super::{
    CallStatus, ClassStatus, CounterStatus, DatapathStatus, DecisionStatus, DirectionStatus,
    DistrustedStatus, FlowStatus, GatewayStatus, MAX_CALLS, MAX_FLOWS, ProbeStatus, QueueStatus,
};
use crate::datapath::{ByClass, Count, Counters, Features, Queue};
use crate::engine::{Engine, reason_name};

/// A flow without packets for that time is not shown.
const SHOWN: Nanos = Nanos::from_secs(5);
const SECOND: Nanos = Nanos::from_secs(1);

/// The status of a gateway, without its name and control. `counters` are those of the datapath; `before` is their state some time
/// earlier, with that time, for rates.
pub fn collect(
    engine: &Engine,
    now: Nanos,
    features: &Features,
    counters: &Counters,
    before: Option<&(Nanos, Counters)>,
    queues: Vec<Queue>,
) -> GatewayStatus {
    let observer = engine.controller().observer();
    let table = observer.table();
    GatewayStatus {
        datapath: DatapathStatus {
            attachment: features.attachment.name().to_owned(),
            pacing: features.pacing.name().to_owned(),
            gate: features.has_gate,
            notes: features.notes.clone(),
        },
        decision: decision(engine, now),
        calls: calls(engine, now),
        flows: flows(engine, now),
        known_flows: table.len() as u64,
        evicted_flows: table.evictions(),
        distrusted: engine
            .guard()
            .distrusted()
            .take(MAX_CALLS)
            .map(|flow| DistrustedStatus {
                mesh: end(flow.key.mesh, flow.key.mesh_port),
                wired: end(flow.key.wired, flow.key.wired_port),
                why: flow.why.to_string(),
                for_s: now.saturating_sub(flow.since).as_secs_f64(),
            })
            .collect(),
        distrusted_total: engine.guard().total(),
        classes: classes(counters, before),
        counters: counts(engine, counters),
        queues: queues.into_iter().map(queue).collect(),
        ..GatewayStatus::default()
    }
}

fn kbps(rate: BitRate) -> f64 {
    rate.0 as f64 / 1e3
}

/// An address and a port as they are usually written.
fn end(address: Address, port: u16) -> String {
    let text = address.to_string();
    if text.contains(':') { format!("[{text}]:{port}") } else { format!("{text}:{port}") }
}

/// The last decision; before the first tick, what the controller begins with.
pub fn decision(engine: &Engine, now: Nanos) -> DecisionStatus {
    let first = || Decision::of(engine.controller(), now, 0);
    let decision = engine.decision().copied().unwrap_or_else(first);
    DecisionStatus {
        state: decision.state.name().to_owned(),
        reason: reason_name(&decision.reason).to_owned(),
        why: decision.reason.to_string(),
        means: decision.means.name().to_owned(),
        budget_kbps: decision.budget.map(|budget| budget / 1e3),
        down_kbps: decision.down.map(kbps),
        acks_kbps: decision.acks.map(kbps),
        window_bytes: decision.window,
        waiting: decision.waiting,
        mos: decision.mos,
        gate: engine.policy().gate.is_some(),
    }
}

fn direction(quality: &Quality) -> DirectionStatus {
    DirectionStatus {
        mos: quality.mos,
        loss: quality.loss,
        late: quality.late,
        delay_ms: quality.delay.as_millis_f64(),
        jitter_ms: quality.jitter.as_millis_f64(),
    }
}

/// The calls, the worst first.
fn calls(engine: &Engine, now: Nanos) -> Vec<CallStatus> {
    let observer = engine.controller().observer();
    let mut calls: Vec<CallStatus> = observer
        .calls(now, SECOND)
        .filter(|call| !call.is_probe())
        .map(|call| CallStatus {
            mesh: end(call.key.mesh, call.key.mesh_port),
            wired: end(call.key.wired, call.key.wired_port),
            codec: if call.is_opaque { "unknown" } else { call.codec.profile().name }.to_owned(),
            age_s: now.saturating_sub(call.began).as_secs_f64(),
            mos: call.mos(),
            up: call.up.as_ref().map(direction),
            heard: call.heard.as_ref().map(direction),
            down: call.down.as_ref().map(direction),
            down_is_reported: call.down_is_reported,
        })
        .collect();
    if calls.len() > MAX_CALLS {
        let of = |call: &CallStatus| call.mos.unwrap_or(f64::INFINITY);
        calls.sort_by(|a, b| of(a).total_cmp(&of(b)));
        calls.truncate(MAX_CALLS);
    }
    calls
}

/// How the probes of these hosts fare.
pub fn probes(engine: &Engine, now: Nanos, hosts: &[IpAddr]) -> Vec<ProbeStatus> {
    let calls = engine.controller().observer().calls(now, SECOND);
    let known: Vec<CallNow> = calls.filter(CallNow::is_probe).collect();
    hosts
        .iter()
        .map(|&host| ProbeStatus {
            host: host.to_string(),
            round_trip: known
                .iter()
                .find(|call| call.key.mesh == host.into())
                .and_then(|call| call.up.as_ref())
                .map(direction),
        })
        .collect()
}

/// The flows with the highest rates. Only these cost text: there may be many thousands more.
fn flows(engine: &Engine, now: Nanos) -> Vec<FlowStatus> {
    let observer = engine.controller().observer();
    let horizon = now.saturating_sub(SHOWN);
    let mut flows: Vec<Shown<'_>> = observer
        .active(horizon)
        .filter_map(|(key, flow)| {
            let kind = match flow.kind(now) {
                FlowKind::Tcp => "tcp",
                FlowKind::BulkUdp => "bulk-udp",
                FlowKind::Interactive => "interactive",
                FlowKind::Other => "other",
                FlowKind::Call if engine.guard().is_distrusted(key) => "distrusted",
                FlowKind::Call => return None,
            };
            let (rate, upload) = rate(now, flow);
            Some(Shown { rate, upload, kind, key, flow })
        })
        .collect();
    let order = |a: &Shown<'_>, b: &Shown<'_>| b.rate.cmp(&a.rate).then_with(|| a.key.cmp(b.key));
    if flows.len() > MAX_FLOWS {
        flows.select_nth_unstable_by(MAX_FLOWS, order);
        flows.truncate(MAX_FLOWS);
    }
    flows.sort_unstable_by(order);
    flows.iter().map(|flow| flow_status(now, flow, engine.policy())).collect()
}

/// A flow that may be shown.
struct Shown<'e> {
    /// In bits per second.
    rate: u64,
    upload: bool,
    kind: &'static str,
    key: &'e FlowKey,
    flow: &'e Flow,
}

/// The rate of a flow in bits per second, and whether its data comes out of the mesh.
fn rate(now: Nanos, flow: &Flow) -> (u64, bool) {
    match &flow.body {
        FlowBody::Tcp(tcp) => {
            let upload = tcp.is_upload();
            let meter = if upload { &tcp.up } else { &tcp.down };
            (meter.rate(now).0, upload)
        }
        FlowBody::Udp(udp) => {
            let (down, up) = (udp.down_meter.rate(now).0, udp.up_meter.rate(now).0);
            (down + up, up > down)
        }
    }
}

fn flow_status(now: Nanos, shown: &Shown<'_>, policy: &Policy) -> FlowStatus {
    let &Shown { rate, upload, kind, key, flow } = shown;
    let treatment = policy.treatment(now, key);
    let base = match &flow.body {
        FlowBody::Tcp(tcp) => tcp.mesh_rtt.base(),
        FlowBody::Udp(udp) => udp.mesh_rtt.base(),
    };
    let is_limited = kind == "tcp";
    FlowStatus {
        kind: kind.to_owned(),
        mesh: end(key.mesh, key.mesh_port),
        wired: end(key.wired, key.wired_port),
        upload,
        kbps: rate as f64 / 1e3,
        window_bytes: treatment.window.filter(|_| is_limited),
        limit_kbps: treatment.rate.or(treatment.ack_rate).filter(|_| kind != "other").map(kbps),
        hops: flow.hops,
        rtt_ms: base.map(Nanos::as_millis_f64),
        age_s: now.saturating_sub(flow.began).as_secs_f64(),
    }
}

/// The classes of a direction with their names.
fn by_class(counts: &ByClass) -> [(&'static str, Count); 5] {
    [
        ("voice", counts.voice),
        ("tcp", counts.tcp),
        ("tcp-control", counts.tcp_control),
        ("paced-udp", counts.paced_udp),
        ("other", counts.other),
    ]
}

fn classes(counters: &Counters, before: Option<&(Nanos, Counters)>) -> Vec<ClassStatus> {
    let zero = Counters::default();
    let (span, old) = before.map_or((Nanos::ZERO, &zero), |(span, old)| (*span, old));
    let seconds = span.as_secs_f64();
    let directions =
        [("to-mesh", &counters.to_mesh, &old.to_mesh), ("from-mesh", &counters.from_mesh, &old.from_mesh)];
    let mut classes = Vec::with_capacity(10);
    for (direction, new, old) in directions {
        for ((class, count), (_, old)) in by_class(new).into_iter().zip(by_class(old)) {
            let bits = 8.0 * count.bytes.saturating_sub(old.bytes) as f64;
            classes.push(ClassStatus {
                direction: direction.to_owned(),
                class: class.to_owned(),
                bytes: count.bytes,
                packets: count.packets,
                kbps: if seconds > 0.0 { bits / seconds / 1e3 } else { 0.0 },
            });
        }
    }
    classes
}

fn counts(engine: &Engine, counters: &Counters) -> CounterStatus {
    let totals = engine.controller().observer().totals();
    CounterStatus {
        digests: counters.digests,
        digests_lost: counters.digests_lost,
        digests_invalid: engine.invalid(),
        clamped: counters.clamped,
        dropped: counters.dropped,
        unparsed: counters.unparsed,
        unlimited: counters.unlimited,
        super_packets: counters.super_packets,
        flows_refused: counters.flows_refused,
        run_s: counters.run_time_ns as f64 / 1e9,
        runs: counters.runs,
        delivered_bytes: totals.delivered,
        lost_bytes: totals.lost_in_mesh,
    }
}

fn queue(queue: Queue) -> QueueStatus {
    QueueStatus {
        interface: queue.interface,
        purpose: queue.purpose,
        kind: queue.kind,
        handle: queue.handle,
        kbps: queue.rate.map(|rate| rate as f64 / 1e3),
        sent: queue.sent.packets,
        dropped: queue.dropped,
        waiting: queue.waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_time_between_two_looks_at_the_counters() {
        let (mut before, mut now) = (Counters::default(), Counters::default());
        (before.to_mesh.tcp.bytes, now.to_mesh.tcp.bytes) = (10_000, 60_000);
        let shown = classes(&now, Some(&(Nanos::from_millis(500), before)));
        let tcp = shown.iter().find(|class| class.direction == "to-mesh" && class.class == "tcp");
        assert_eq!(tcp.map(|tcp| tcp.kbps), Some(800.0));
        assert!(classes(&now, None).iter().all(|class| class.kbps == 0.0));
    }
}
