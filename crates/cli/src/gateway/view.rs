//! A gateway's status as tables.

use anstyle::Style;
use fairhop_gateway::status::{
    CallStatus, DirectionStatus, FlowStatus, GatewayStatus, ProbeStatus, QueueStatus, Status,
};
use fairhop_sim::results::ACCEPTABLE_MOS;

use crate::progress::duration;
use crate::table::{self, BAD, Cell, FAINT, GOOD, NOTHING, TITLE, Table, fixed};

/// Flows in a table; `--json` has more.
const MAX_ROWS: usize = 30;

/// A rate in the unit that suits it.
pub(super) fn rate(kbps: f64) -> String {
    if kbps >= 10_000.0 {
        format!("{} Mb/s", fixed(kbps / 1e3, 1))
    } else if kbps >= 1000.0 {
        format!("{} Mb/s", fixed(kbps / 1e3, 2))
    } else {
        format!("{} kb/s", fixed(kbps, 0))
    }
}

/// The style of a MOS.
pub(super) fn mos_style(mos: f64) -> Style {
    if mos >= ACCEPTABLE_MOS { GOOD } else { BAD }
}

fn mos_cell(mos: Option<f64>) -> Cell {
    mos.map_or_else(|| NOTHING.into(), |mos| Cell::styled(fixed(mos, 2), mos_style(mos)))
}

/// Everything but single calls and flows.
pub(super) fn status(status: &Status) -> String {
    let mut text = format!(
        "{TITLE}fairhop gateway{TITLE:#} {}, {}, up {}\n",
        status.version,
        status.mode,
        duration(status.uptime_s)
    );
    for gateway in &status.gateways {
        text.push('\n');
        text += &one(gateway, &status.mode);
    }
    text
}

fn one(gateway: &GatewayStatus, mode: &str) -> String {
    let wired = gateway.wired.as_deref().map_or(String::new(), |wired| format!(" – {wired}"));
    let mut text = format!("{TITLE}{}{TITLE:#}  {}{wired}\n", gateway.name, gateway.mesh);
    let mut line = |name: &str, value: &str| text += &format!("  {FAINT}{name:10}{FAINT:#}{value}\n");
    if let Some(fault) = &gateway.fault {
        line("fault", &format!("{BAD}{fault}{BAD:#}; packets pass untouched"));
    }
    line("control", &control(gateway, mode));
    line("state", &format!("{}: {}", gateway.decision.state, gateway.decision.why));
    line("limits", &limits(gateway, mode));
    line("calls", &calls_line(gateway));
    let total = |direction: &str| -> f64 {
        gateway.classes.iter().filter(|class| class.direction == direction).map(|class| class.kbps).sum()
    };
    line(
        "traffic",
        &format!("{} into the mesh, {} out of it", rate(total("to-mesh")), rate(total("from-mesh"))),
    );
    line("flows", &format!("{} known, {} evicted", gateway.known_flows, gateway.evicted_flows));
    for probe in &gateway.probes {
        line("probe", &probe_line(probe));
    }
    let datapath = &gateway.datapath;
    let gate = if datapath.gate { "with" } else { "without" };
    let pacing = match datapath.pacing.as_str() {
        "off" => "no pacing".to_owned(),
        pacing => format!("pacing by {pacing}, {gate} gate"),
    };
    line("datapath", &format!("{}, {pacing}", datapath.attachment));
    let counters = &gateway.counters;
    line(
        "digests",
        &format!(
            "{}, {} lost, {} invalid",
            counters.digests, counters.digests_lost, counters.digests_invalid
        ),
    );
    for note in &datapath.notes {
        line("note", note);
    }
    for flow in &gateway.distrusted {
        line("distrusts", &format!("{BAD}{}{BAD:#} → {}: {}", flow.mesh, flow.wired, flow.why));
    }
    // Most classes are for flows that may come.
    let is_used = |queue: &QueueStatus| queue.kind != "tbf" || queue.sent > 0 || queue.waiting > 0;
    for queue in gateway.queues.iter().filter(|queue| is_used(queue)) {
        let limit = queue.kbps.map_or_else(|| "no limit".to_owned(), rate);
        let dropped = if queue.dropped > 0 { format!(", {} dropped", queue.dropped) } else { String::new() };
        line(
            "queue",
            &format!(
                "{} {} {} {}, {limit}, {} waiting{dropped}",
                queue.interface, queue.kind, queue.handle, queue.purpose, queue.waiting
            ),
        );
    }
    let unused: Vec<&QueueStatus> = gateway.queues.iter().filter(|queue| !is_used(queue)).collect();
    if let [first, ..] = unused.as_slice() {
        line("queue", &format!("{} tbf, {} below it for flows to come", first.interface, unused.len()));
    }
    text
}

/// A host that is probed, and how its replies fare.
pub(super) fn probe_line(probe: &ProbeStatus) -> String {
    match &probe.round_trip {
        Some(found) => format!(
            "{}: {} % lost, {} % late, {} ms over the fastest",
            probe.host,
            fixed(100.0 * found.loss, 1),
            fixed(100.0 * found.late, 1),
            fixed(found.delay_ms, 1)
        ),
        None => format!("{}: {BAD}does not answer{BAD:#}", probe.host),
    }
}

/// The control and whether it has an effect.
pub(super) fn control(gateway: &GatewayStatus, mode: &str) -> String {
    match mode {
        "live" => gateway.control.clone(),
        "observe" => "none: it observes".to_owned(),
        _ => format!("{}, without effect ({mode})", gateway.control),
    }
}

/// What is in force, in a line; in a dry run, what would be.
pub(super) fn limits(gateway: &GatewayStatus, mode: &str) -> String {
    let decision = &gateway.decision;
    let mut parts = Vec::new();
    if gateway.fault.is_some() {
        return "none".to_owned();
    }
    let is_live = mode == "live";
    let has_pace = !is_live || gateway.datapath.pacing != "off";
    parts.extend(decision.budget_kbps.map(|kbps| format!("budget {} · hops", rate(kbps))));
    parts.extend(decision.down_kbps.filter(|_| has_pace).map(|kbps| format!("into the mesh {}", rate(kbps))));
    parts.extend(decision.acks_kbps.filter(|_| has_pace).map(|kbps| format!("ACKs for {}", rate(kbps))));
    parts.extend(decision.window_bytes.map(|bytes| format!("windows from {bytes} bytes")));
    if decision.gate && (!is_live || gateway.datapath.gate) {
        parts.push("gate".to_owned());
    }
    if decision.waiting > 0 {
        parts.push(format!("{} packets wait", decision.waiting));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// How the calls are, in a line.
pub(super) fn calls_line(gateway: &GatewayStatus) -> String {
    let known: Vec<f64> = gateway.calls.iter().filter_map(|call| call.mos).collect();
    let good = known.iter().filter(|mos| **mos >= ACCEPTABLE_MOS).count();
    match known.iter().copied().reduce(f64::min) {
        None if gateway.calls.is_empty() => "none".to_owned(),
        None => format!("{}", gateway.calls.len()),
        Some(worst) => {
            let style = mos_style(worst);
            let unknown = match gateway.inferred_calls() {
                0 => String::new(),
                number => format!(", {number} inferred into the mesh"),
            };
            format!("{}, {good} good, worst MOS {style}{worst:.2}{style:#}{unknown}", gateway.calls.len())
        }
    }
}

/// The calls of all gateways.
pub(super) fn calls(status: &Status) -> String {
    per_gateway(status, "no calls", |gateway| {
        if gateway.calls.is_empty() {
            return None;
        }
        let mut text = call_table(&gateway.calls, usize::MAX).render();
        if gateway.inferred_calls() > 0 {
            text +=
                &format!("{FAINT}~ inferred: no report tells how the call fares into the mesh{FAINT:#}\n");
        }
        Some(text)
    })
}

/// The flows of all gateways.
pub(super) fn flows(status: &Status) -> String {
    per_gateway(status, "no flows", |gateway| {
        (!gateway.flows.is_empty()).then(|| flow_table(&gateway.flows, MAX_ROWS).render())
    })
}

fn per_gateway(status: &Status, nothing: &str, of: impl Fn(&GatewayStatus) -> Option<String>) -> String {
    let mut text = String::new();
    for gateway in &status.gateways {
        if status.gateways.len() > 1 {
            text += &format!("{TITLE}{}{TITLE:#}\n", gateway.name);
        }
        text += &of(gateway).unwrap_or_else(|| format!("{nothing}\n"));
    }
    text
}

pub(super) fn call_table(calls: &[CallStatus], rows: usize) -> Table {
    let mut table = Table::new("Calls")
        .column("with", 3)
        .column("MOS", 9)
        .column("loss % up", 6)
        .column("down", 6)
        .column("late % up", 5)
        .column("down", 5)
        .column("jitter ms", 4)
        .column("codec", 2)
        .column("for", 1);
    for call in calls.iter().take(rows) {
        let percent = |side: &Option<DirectionStatus>, of: fn(&DirectionStatus) -> f64| {
            side.as_ref().map_or_else(|| NOTHING.to_owned(), |side| fixed(100.0 * of(side), 1))
        };
        let into_mesh = |of: fn(&DirectionStatus) -> f64| {
            let mark = if call.is_inferred() { "~" } else { "" };
            format!("{mark}{}", percent(&call.down, of))
        };
        // As the listener hears it, where it reports.
        let up = call.heard.or(call.up);
        let jitter = up.as_ref().map_or_else(|| NOTHING.to_owned(), |up| fixed(up.jitter_ms, 1));
        let cells = [
            call.wired.clone().into(),
            mos_cell(call.mos),
            percent(&up, |side| side.loss).into(),
            into_mesh(|side| side.loss).into(),
            percent(&up, |side| side.late).into(),
            into_mesh(|side| side.late).into(),
            jitter.into(),
            call.codec.clone().into(),
            duration(call.age_s).into(),
        ];
        table.row(&call.mesh, cells);
    }
    table
}

pub(super) fn flow_table(flows: &[FlowStatus], rows: usize) -> Table {
    let mut table = Table::new("Flows")
        .column("with", 4)
        .column("kind", 5)
        .column("", 6)
        .column("rate", 9)
        .column("limit", 8)
        .column("window", 7)
        .column("hops", 2)
        .column("RTT ms", 3)
        .column("for", 1);
    let nothing = || NOTHING.to_owned();
    for flow in flows.iter().take(rows) {
        let cells = [
            flow.wired.clone().into(),
            flow.kind.clone().into(),
            (if flow.upload { "up" } else { "down" }).into(),
            rate(flow.kbps).into(),
            flow.limit_kbps.map_or_else(nothing, rate).into(),
            flow.window_bytes.map_or_else(nothing, |bytes| table::whole(f64::from(bytes))).into(),
            (if flow.hops == 0 { nothing() } else { flow.hops.to_string() }).into(),
            flow.rtt_ms.map_or_else(nothing, |ms| fixed(ms, 1)).into(),
            duration(flow.age_s).into(),
        ];
        table.row(&flow.mesh, cells);
    }
    table
}
