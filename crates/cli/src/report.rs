//! Results as tables for the terminal: first what users of the network notice (calls, flows), then the causes (losses,
//! airtime, queues).
//!
//! Every figure is read from the object that `--json` prints, so that both agree. A figure that is absent there (null) is
//! shown as a dash. Figures of several runs are means ± half-widths of their 95 % confidence intervals.

use anstyle::Style;
use fairhop_sim::results::{ACCEPTABLE_MOS, Replications, Summary};
use fairhop_sim::scenario::Scenario;
use serde_json::Value;

use crate::table::{BAD, Cell, FAINT, NOTHING, TITLE, Table, fixed, whole, wrap};

/// Longer tables show the worst rows only.
const MAX_ROWS: usize = 20;

/// A part of the results, with its confidence intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    mean: &'a Value,
    ci95: &'a Value,
}

/// A figure, and with several runs half the width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantity {
    mean: f64,
    half_width: Option<f64>,
}

impl<'a> View<'a> {
    /// All results.
    pub(crate) fn of(results: &'a Replications) -> Self {
        Self { mean: &results.mean, ci95: &results.ci95 }
    }

    /// The figure at a JSON pointer (`/totals/jain`), if it is a number.
    pub(crate) fn quantity(self, pointer: &str) -> Option<Quantity> {
        let number = |value: &Value| value.pointer(pointer).and_then(Value::as_f64);
        Some(Quantity { mean: number(self.mean)?, half_width: number(self.ci95) })
    }

    /// The mean at a JSON pointer; NaN if it is absent.
    pub(crate) fn mean(self, pointer: &str) -> f64 {
        self.quantity(pointer).map_or(f64::NAN, |quantity| quantity.mean)
    }

    /// The entries of a list.
    pub(crate) fn list(self, key: &str) -> Vec<Self> {
        let entries = self.mean.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let ci95 = |index| self.ci95.get(key).and_then(|list| list.get(index)).unwrap_or(&Value::Null);
        entries.iter().enumerate().map(|(index, mean)| Self { mean, ci95: ci95(index) }).collect()
    }

    fn text(self, key: &str) -> &'a str {
        self.mean.get(key).and_then(Value::as_str).unwrap_or(NOTHING)
    }

    fn keys(self, key: &str) -> Vec<&'a str> {
        let object = self.mean.get(key).and_then(Value::as_object);
        object.into_iter().flat_map(|object| object.keys().map(String::as_str)).collect()
    }

    /// The figure as a cell; a dash if it is absent.
    fn cell(self, pointer: &str, decimals: usize) -> Cell {
        self.scaled(pointer, 1.0, decimals)
    }

    /// A fraction in per cent.
    fn percent(self, pointer: &str, decimals: usize) -> Cell {
        self.scaled(pointer, 100.0, decimals)
    }

    /// A figure in milliseconds, shown in seconds.
    fn seconds(self, pointer: &str) -> Cell {
        self.scaled(pointer, 1e-3, 3)
    }

    fn scaled(self, pointer: &str, factor: f64, decimals: usize) -> Cell {
        let shown = |q: Quantity| q.times(factor).show(decimals);
        self.quantity(pointer).map_or_else(|| NOTHING.to_owned(), shown).into()
    }

    /// A score, highlighted if it is too low.
    fn score(self, pointer: &str) -> Cell {
        match self.quantity(pointer) {
            Some(q) => Cell::styled(q.show(2), if q.mean < ACCEPTABLE_MOS { BAD } else { Style::new() }),
            None => NOTHING.into(),
        }
    }
}

impl Quantity {
    fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, half_width: self.half_width.map(|half| half * factor) }
    }

    /// The figure with this many decimals, and its interval.
    pub(crate) fn show(self, decimals: usize) -> String {
        match self.half_width {
            Some(half) => format!("{} ±{}", fixed(self.mean, decimals), fixed(half, decimals)),
            None => fixed(self.mean, decimals),
        }
    }
}

/// The whole report on runs of a scenario.
pub(crate) fn report(scenario: &Scenario, runs: &[Summary], results: &Replications) -> String {
    let all = View::of(results);
    let mut parts: Vec<String> = runs.iter().filter_map(late).collect();
    parts.push(header(scenario, runs));
    parts.extend(emulation(runs));
    parts.extend(calls(&all.list("calls")));
    parts.extend(flows(&all.list("flows"), runs.len() > 1));
    parts.extend(transactions(&all.list("flows"), runs.len() > 1));
    parts.extend(video(&all.list("flows")));
    parts.extend(broadcasts(&all.list("flows")));
    parts.extend(totals(all));
    parts.extend(control(all));
    parts.extend(routing(all));
    parts.extend(losses(&all.list("calls"), &all.list("flows")));
    parts.extend(nodes(&all.list("nodes")));
    parts.extend(frames(&all.list("nodes")));
    parts.extend(links(&all.list("links"), scenario.wired.is_some()));
    parts.join("\n")
}

/// The warning of an emulation that did not keep up with the clock.
fn late(run: &Summary) -> Option<String> {
    let emulation = run.emulation.as_ref().filter(|emulation| emulation.too_late)?;
    let text = format!(
        "TOO LATE: 1 % of the events came {:.1} ms late or more, so that these figures cannot be trusted. The machine was too \
         slow or too busy: end other programs, use fewer nodes or less traffic, or run with --virtual",
        emulation.lateness_p99_ms
    );
    Some(format!("{BAD}{}{BAD:#}\n", wrap(&text)))
}

/// How an emulation kept up with the clock, and its packets.
fn emulation(runs: &[Summary]) -> Option<String> {
    let emulation = runs.first()?.emulation.as_ref()?;
    let rejected: Vec<String> = emulation
        .rejected
        .iter()
        .filter(|(_, packets)| **packets > 0.0)
        .map(|(why, packets)| format!("{} {}", whole(*packets), why.replace('_', " ")))
        .collect();
    let mut text = format!(
        "real packets: {} sent, {} arrived; events late by {} ms (median), {} ms (p99), {} ms (max), of which the machine's \
         wake-up {} ms (p99)",
        whole(emulation.injected),
        whole(emulation.delivered),
        fixed(emulation.lateness_p50_ms, 3),
        fixed(emulation.lateness_p99_ms, 3),
        fixed(emulation.lateness_max_ms, 3),
        fixed(emulation.wakeup_p99_ms, 3),
    );
    if !rejected.is_empty() {
        text += &format!("; not sent: {}", rejected.join(", "));
    }
    if emulation.unwritten > 0.0 {
        text += &format!("; not taken by an interface: {}", whole(emulation.unwritten));
    }
    Some(format!("{FAINT}{}{FAINT:#}\n", wrap(&text)))
}

/// Scenario, duration and seeds.
fn header(scenario: &Scenario, runs: &[Summary]) -> String {
    let mut text = format!("{TITLE}{}{TITLE:#}\n", wrap(&scenario.name));
    if !scenario.description.is_empty() {
        text += &format!("{}\n", wrap(&scenario.description));
    }
    let seeds: Vec<u64> = runs.iter().flat_map(|run| run.seeds.iter().copied()).collect();
    let seeds = match seeds.as_slice() {
        [one] => format!("seed {one}"),
        [first, .., last] if last - first == seeds.len() as u64 - 1 => format!("seeds {first} to {last}"),
        _ => format!("seeds {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    // An emulation without an end ends with its command, or by Ctrl-C.
    let emulated = runs.iter().find(|run| run.emulation.is_some());
    let mut how = match emulated {
        Some(run) => format!("{:.1} s emulated", run.sim_s),
        None => format!("{} s simulated", scenario.duration_s),
    };
    if scenario.warmup_s > 0.0 {
        how += &format!(", of which the first {} s are not counted", scenario.warmup_s);
    }
    how += &format!("; {seeds}");
    if runs.len() > 1 {
        how += "; means ± half-widths of 95 % confidence intervals";
    }
    text += &format!("{FAINT}{}{FAINT:#}\n", wrap(&how));
    let ended: Vec<String> =
        runs.iter().filter(|run| run.partial).map(|run| format!("{:.1} s", run.sim_s)).collect();
    if !ended.is_empty() {
        let which = if runs.len() == 1 {
            format!("ended at {}", ended[0])
        } else {
            format!("{} of {} runs ended early, the first at {}", ended.len(), runs.len(), ended[0])
        };
        text +=
            &format!("{BAD}{}{BAD:#}\n", wrap(&format!("PARTIAL: {which}; the figures count until then")));
    }
    text
}

/// The rows of a long list with the lowest `weight`, and a remark on the others.
fn worst_rows<'a>(
    rows: &[View<'a>],
    weight: impl Fn(View<'a>) -> f64,
    which: &str,
) -> (Vec<View<'a>>, String) {
    if rows.len() <= MAX_ROWS {
        return (rows.to_vec(), String::new());
    }
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| weight(*a).total_cmp(&weight(*b)));
    sorted.truncate(MAX_ROWS);
    let remark =
        format!("{FAINT}the {MAX_ROWS} {which} of {}; --json and --out have all{FAINT:#}\n", rows.len());
    (sorted, remark)
}

fn calls(calls: &[View<'_>]) -> Option<String> {
    let (shown, remark) = worst_rows(calls, |call| call.mean("/mos_worst"), "worst");
    shown.first()?;
    let mut table = Table::new("Calls")
        .column("MOS", 9)
        .column("worst", 9)
        .column("loss %", 8)
        .column("late %", 8)
        .column("delay ms", 7)
        .column("p95 ms", 5)
        .column("jitter ms", 6);
    let is_observed = shown.iter().any(|call| call.mean.get("observed").is_some());
    if is_observed {
        table = table.column("seen", 7);
    }
    for call in shown {
        // The worse direction.
        let p95 = ["/forward/delay/p95_ms", "/backward/delay/p95_ms"]
            .into_iter()
            .max_by(|a, b| call.mean(a).total_cmp(&call.mean(b)))
            .unwrap_or_default();
        let mut cells = vec![
            call.score("/mos"),
            call.score("/mos_worst"),
            call.percent("/loss", 2),
            call.percent("/late", 2),
            call.cell("/delay_ms", 1),
            call.cell(p95, 1),
            call.cell("/jitter_ms", 1),
        ];
        if is_observed {
            cells.push(call.score("/observed/mos"));
        }
        table.row(call.text("name"), cells);
    }
    let remark = match is_observed {
        true => format!(
            "{remark}{FAINT}seen: MOS as a gateway's observer computes it from the packets{FAINT:#}\n"
        ),
        false => remark,
    };
    Some(table.render() + &remark)
}

/// The key of the counters of a flow with retransmissions.
fn transport_of(flow: &View<'_>) -> Option<&'static str> {
    ["tcp", "quic"].into_iter().find(|key| flow.mean.get(key).is_some())
}

fn flows(flows: &[View<'_>], several: bool) -> Option<String> {
    let (shown, remark) = worst_rows(flows, |flow| flow.mean("/goodput_mbps"), "slowest");
    shown.first()?;
    let counter = |flow: &View<'_>, key: &str| flow.quantity(&format!("/{}/{key}", transport_of(flow)?));
    let reliable = shown.iter().any(|flow| transport_of(flow).is_some());
    let bounded = shown.iter().any(|flow| flow.quantity("/outage").is_some());
    let finite = shown.iter().any(|flow| counter(flow, "completed_s").is_some());
    let mut table = Table::new("Flows")
        .column("kind", 3)
        .column("Mb/s", 9)
        .column("sent", 5)
        .column("loss %", 8)
        .column("delay ms", 7)
        .column("p95 ms", 4);
    if bounded {
        table = table.column("outage %", 8);
    }
    if reliable {
        table = table.column("useful %", 8).column("resent", 6).column("timeouts", 6);
    }
    // Columns without any count are left out.
    let spurious = shown.iter().any(|flow| counter(flow, "spurious").is_some_and(|q| q.mean > 0.0));
    if spurious {
        table = table.column("spurious", 5);
    }
    let marked = shown.iter().any(|flow| flow.quantity("/tcp/ecn_reductions").is_some_and(|q| q.mean > 0.0));
    if marked {
        table = table.column("marked", 5);
    }
    if finite {
        table = table.column("done s", 9);
    }
    let counts = usize::from(several);
    for flow in shown {
        let pointer = |key: &str| format!("/{}/{key}", transport_of(&flow).unwrap_or("tcp"));
        let mut cells = vec![
            flow.text("kind").into(),
            flow.cell("/goodput_mbps", 3),
            flow.cell("/sent_mbps", 3),
            flow.percent("/loss", 2),
            flow.cell("/delay_ms", 1),
            flow.cell("/delay/p95_ms", 1),
        ];
        if bounded {
            cells.push(flow.percent("/outage", 2));
        }
        if reliable {
            cells.push(flow.percent(&pointer("efficiency"), 1));
            cells.push(flow.cell(&pointer("retransmitted"), counts));
            cells.push(flow.cell(&pointer("timeouts"), counts));
        }
        if spurious {
            cells.push(flow.cell(&pointer("spurious"), counts));
        }
        if marked {
            cells.push(flow.cell("/tcp/ecn_reductions", counts));
        }
        if finite {
            cells.push(flow.cell(&pointer("completed_s"), 2));
        }
        table.row(flow.text("name"), cells);
    }
    Some(table.render() + &remark)
}

/// Pages and responses: counts and times.
fn transactions(flows: &[View<'_>], several: bool) -> Option<String> {
    let with: Vec<View<'_>> =
        flows.iter().copied().filter(|flow| flow.mean.get("transactions").is_some()).collect();
    let (shown, remark) = worst_rows(&with, |flow| -flow.mean("/transactions/time/mean_ms"), "slowest");
    shown.first()?;
    let mut table = Table::new("Pages, responses")
        .column("done", 6)
        .column("open", 4)
        .column("failed", 4)
        .column("mean s", 8)
        .column("median s", 8)
        .column("p95 s", 7)
        .column("p99 s", 7);
    let counts = usize::from(several);
    for flow in shown {
        table.row(
            flow.text("name"),
            [
                flow.cell("/transactions/finished", counts),
                flow.cell("/transactions/open", counts),
                flow.cell("/transactions/failed", counts),
                flow.seconds("/transactions/time/mean_ms"),
                flow.seconds("/transactions/time/p50_ms"),
                flow.seconds("/transactions/time/p95_ms"),
                flow.seconds("/transactions/time/p99_ms"),
            ],
        );
    }
    Some(table.render() + &remark)
}

/// Frames of videos.
fn video(flows: &[View<'_>]) -> Option<String> {
    let with: Vec<View<'_>> = flows.iter().copied().filter(|flow| flow.mean.get("video").is_some()).collect();
    let (shown, remark) = worst_rows(&with, |flow| flow.mean("/video/complete"), "worst");
    shown.first()?;
    let mut table = Table::new("Video frames")
        .column("sent", 7)
        .column("in time %", 8)
        .column("late %", 8)
        .column("lost %", 8);
    for flow in shown {
        table.row(
            flow.text("name"),
            [
                whole(flow.mean("/video/frames")).into(),
                flow.percent("/video/complete", 2),
                flow.percent("/video/late", 2),
                flow.percent("/video/lost", 2),
            ],
        );
    }
    Some(table.render() + &remark)
}

/// Delivery ratios of broadcasts over their receivers.
fn broadcasts(flows: &[View<'_>]) -> Option<String> {
    let with: Vec<View<'_>> =
        flows.iter().copied().filter(|flow| flow.mean.get("broadcast").is_some()).collect();
    let (shown, remark) = worst_rows(&with, |flow| flow.mean("/broadcast/delivery_min"), "worst");
    shown.first()?;
    let mut table =
        Table::new("Broadcasts received").column("receivers", 9).column("mean %", 8).column("min %", 8);
    for flow in shown {
        let receivers = flow.mean.pointer("/broadcast/delivery").and_then(Value::as_object);
        table.row(
            flow.text("name"),
            [
                receivers.map_or(0, serde_json::Map::len).to_string().into(),
                flow.percent("/broadcast/delivery_mean", 2),
                flow.percent("/broadcast/delivery_min", 2),
            ],
        );
    }
    Some(table.render() + &remark)
}

fn totals(all: View<'_>) -> Option<String> {
    let calls = all.list("calls").len();
    let flows = all.list("flows");
    let mut table = Table::new("Totals").column("", 1);
    if calls > 0 {
        table.row("mean MOS", [all.score("/totals/mos_mean")]);
        table.row("worst direction's MOS", [all.score("/totals/mos_min")]);
        let ok = all.quantity("/totals/calls_ok")?;
        let decimals = usize::from(ok.half_width.is_some());
        table.row("calls ≥ 3.6 both ways", [format!("{} of {calls}", ok.show(decimals)).into()]);
    }
    let is_tcp = |flow: &View<'_>| flow.mean.get("tcp").is_some() || flow.text("kind") == "real-tcp";
    let has = |tcp: bool| flows.iter().any(|flow| flow.text("kind") != "real" && is_tcp(flow) == tcp);
    if has(true) {
        table.row("TCP goodput, Mb/s", [all.cell("/totals/tcp_goodput_mbps", 3)]);
    }
    if has(false) {
        table.row("UDP goodput, Mb/s", [all.cell("/totals/udp_goodput_mbps", 3)]);
    }
    if flows.len() > 1 {
        table.row("fairness (Jain)", [all.cell("/totals/jain", 3)]);
    }
    (calls + flows.len() > 0).then(|| table.render())
}

/// The last limits of the gateways' controllers, and the part of the time in each state.
fn control(all: View<'_>) -> Option<String> {
    let further = all.mean.pointer("/further_control").and_then(Value::as_array).map_or(0, Vec::len);
    let places = (0..further).map(|index| format!("/further_control/{index}"));
    let lines = [String::from("/control")].into_iter().chain(places);
    let lines: String = lines.filter_map(|place| control_at(all, &place, further > 0)).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The same for one gateway, with its node if there are several.
fn control_at(all: View<'_>, place: &str, named: bool) -> Option<String> {
    let text = |key: &str| all.mean.pointer(&format!("{place}/{key}")).and_then(Value::as_str);
    let kind = text("kind")?;
    let mut limits = Vec::new();
    let mut limit = |name: &str, pointer: &str, decimals, unit: &str| {
        if let Some(quantity) = all.quantity(pointer) {
            limits.push(format!("{name} {} {unit}", quantity.show(decimals)));
        }
    };
    limit("budget", &format!("{place}/budget_mbps"), 2, "Mb/s · hops");
    limit("pace", &format!("{place}/down_mbps"), 3, "Mb/s");
    limit("pace of acknowledged data", &format!("{place}/acks_mbps"), 3, "Mb/s");
    limit("smallest window", &format!("{place}/window_bytes"), 0, "bytes");
    let limits = if limits.is_empty() { "no limits".to_owned() } else { limits.join(", ") };
    let states: Vec<String> = ["learning", "steady", "protecting", "starved", "off"]
        .into_iter()
        .filter_map(|state| {
            let part = all.mean(&format!("{place}/states/{state}"));
            (part > 0.0).then(|| format!("{state} {} %", fixed(100.0 * part, 0)))
        })
        .collect();
    let mut line = format!(
        "Control{}: {kind}, {} at the end: {}; {limits}",
        text("gateway").filter(|_| named).map_or_else(String::new, |node| format!(" at node {node}")),
        text("state").unwrap_or(NOTHING),
        text("reason").unwrap_or(NOTHING)
    );
    if all.mean(&format!("{place}/pacer_mean")) > 0.0 {
        line += &format!(
            "; the pacer held {} packets on average and dropped {}",
            fixed(all.mean(&format!("{place}/pacer_mean")), 1),
            whole(all.mean(&format!("{place}/dropped")))
        );
    }
    if states.len() > 1 {
        line += &format!(" ({})", states.join(", "));
    }
    Some(wrap(&line) + "\n")
}

/// Reasons of loss that are shown only where they happened.
const LATE_REASONS: [&str; 8] =
    ["aqm", "link", "control", "no_route", "ttl", "route_broken", "buffer_full", "buffer_timeout"];

/// What a routing protocol did, and what flows noticed of it.
fn routing(all: View<'_>) -> Option<String> {
    let value = all.mean.get("routing")?;
    let ci95 = all.ci95.get("routing").unwrap_or(&Value::Null);
    let routing = View { mean: value, ci95 };
    let figure = |pointer: &str, decimals: usize| {
        routing.quantity(pointer).map_or_else(|| NOTHING.to_owned(), |quantity| quantity.show(decimals))
    };
    let messages: Vec<String> = routing
        .keys("messages")
        .iter()
        .map(|kind| (kind, routing.mean(&format!("/messages/{kind}"))))
        .filter(|&(_, count)| count > 0.0)
        .map(|(kind, count)| format!("{} {}", kind.replace('_', " "), whole(count)))
        .collect();
    let lines = [
        format!("{TITLE}Routing{TITLE:#}"),
        format!("Messages: {} ({} per data packet).", messages.join(", "), figure("/load", 2)),
        format!(
            "Discoveries: {} found, {} given up; median {} ms, 95 % within {} ms.",
            figure("/discoveries/found", 0),
            figure("/discoveries/given_up", 0),
            figure("/discoveries/latency_p50_ms", 0),
            figure("/discoveries/latency_p95_ms", 0),
        ),
        format!(
            "Broken links: {} true, {} false (both ends in reach). Route changes: {}.",
            figure("/true_breaks", 0),
            figure("/false_breaks", 0),
            figure("/route_changes", 0),
        ),
    ];
    let mut text = lines.map(|line| wrap(&line) + "\n").concat();
    let paths = routing.list("paths");
    let (shown, remark) = worst_rows(&paths, |path| -path.mean("/interrupted_s"), "most interrupted");
    if !shown.is_empty() {
        let mut table = Table::new("Paths")
            .column("hops", 8)
            .column("first packet ms", 15)
            .column("interruptions", 13)
            .column("longest s", 9)
            .column("sum s", 8);
        for path in shown {
            table.row(
                path.text("name"),
                vec![
                    path.cell("/hops", 2),
                    path.cell("/first_packet_ms", 1),
                    path.cell("/interruptions", 0),
                    path.cell("/longest_interruption_s", 1),
                    path.cell("/interrupted_s", 1),
                ],
            );
        }
        text += "\n";
        text += &(table.render() + &remark);
    }
    Some(text)
}

/// Lost packets by reason and kind of traffic.
fn losses(calls: &[View<'_>], flows: &[View<'_>]) -> Option<String> {
    let direction = |key: &'static str| {
        calls.iter().map(move |call| View { mean: &call.mean[key], ci95: &Value::Null }).collect::<Vec<_>>()
    };
    let mut groups =
        vec![("calls, from → to", direction("forward")), ("calls, to → from", direction("backward"))];
    for kind in ["bulk", "quic", "aimd", "web", "request", "cbr", "burst", "ping", "video"] {
        groups.push((kind, flows.iter().copied().filter(|flow| flow.text("kind") == kind).collect()));
    }
    groups.retain(|(_, streams)| !streams.is_empty());
    let mut reasons = groups.first()?.1.first()?.keys("lost");
    // Reasons that most networks do not have are left out.
    let happened = |why: &str| {
        groups
            .iter()
            .flat_map(|(_, streams)| streams)
            .any(|stream| stream.mean(&format!("/lost/{why}")) > 0.0)
    };
    reasons.retain(|why| !LATE_REASONS.contains(why) || happened(why));

    let mut table = Table::new("Packets lost, %").column("sent", 9);
    for reason in &reasons {
        table = table.column(reason.replace('_', " "), 8);
    }
    table = table.column("too late", 7);
    for (name, streams) in groups {
        let sum = |pointer: &str| streams.iter().map(|stream| stream.mean(pointer)).sum::<f64>();
        let sent = sum("/sent");
        let share =
            |packets: f64| if sent > 0.0 { fixed(100.0 * packets / sent, 2) } else { NOTHING.to_owned() };
        let mut cells = vec![Cell::from(whole(sent))];
        cells.extend(reasons.iter().map(|reason| share(sum(&format!("/lost/{reason}"))).into()));
        let sending = streams.iter().filter(|stream| stream.mean("/sent") > 0.0);
        let late = sending.map(|stream| stream.mean("/late") * stream.mean("/sent")).sum::<f64>();
        cells.push(if late.is_nan() { NOTHING.into() } else { share(late).into() });
        table.row(name, cells);
    }
    let tcp = flows.iter().any(|flow| flow.mean.get("tcp").is_some());
    let remark = format!("{FAINT}without TCP ACKs; the queues below count them too{FAINT:#}\n");
    Some(table.render() + if tcp { &remark } else { "" })
}

/// Airtime and queues of the stations.
fn nodes(nodes: &[View<'_>]) -> Option<String> {
    let (shown, remark) = worst_rows(nodes, |node| node.mean("/airtime/idle"), "busiest");
    shown.first()?;
    let mut table = Table::new("Airtime, %");
    const AIRTIME: [&str; 6] = ["own", "received", "overheard", "collided", "energy", "idle"];
    for kind in AIRTIME {
        table = table.column(kind, 8);
    }
    table = table
        .column("frames", 5)
        .column("resent", 6)
        .column("queue", 9)
        .column("max", 7)
        .column("dropped", 9);
    for node in shown {
        let figure = |pointer: &str, decimals| Cell::from(fixed(node.mean(pointer), decimals));
        let mut cells: Vec<Cell> = AIRTIME
            .iter()
            .map(|kind| fixed(100.0 * node.mean(&format!("/airtime/{kind}")), 1).into())
            .collect();
        cells.extend([
            whole(node.mean("/frames_sent")).into(),
            whole(node.mean("/retries")).into(),
            figure("/queue_mean", 1),
            figure("/queue_max", 0),
            whole(node.mean("/queue_drops")).into(),
        ]);
        table.row(&format!("node {}", fixed(node.mean("/node"), 0)), cells);
    }
    Some(table.render() + &remark)
}

/// Frames that did not reach their receiver, by reason.
fn frames(nodes: &[View<'_>]) -> Option<String> {
    let lost = |node: View<'_>| {
        node.keys("frames_lost").iter().map(|why| node.mean(&format!("/frames_lost/{why}"))).sum::<f64>()
    };
    let affected: Vec<View<'_>> = nodes.iter().copied().filter(|&node| lost(node) > 0.0).collect();
    let (shown, remark) = worst_rows(&affected, |node| -lost(node), "most affected");
    let mut reasons = shown.first()?.keys("frames_lost");
    reasons.retain(|why| shown.iter().any(|node| node.mean(&format!("/frames_lost/{why}")) > 0.0));
    let mut table = Table::new("Frames missed");
    for why in &reasons {
        table = table.column(*why, 5);
    }
    for node in shown {
        let cells = reasons.iter().map(|why| whole(node.mean(&format!("/frames_lost/{why}"))).into());
        table.row(&format!("node {}", fixed(node.mean("/node"), 0)), cells);
    }
    Some(table.render() + &remark)
}

/// Wired links. The Internet link alone is shown only if it dropped packets.
fn links(links: &[View<'_>], wired: bool) -> Option<String> {
    let drops = |link: View<'_>| link.mean("/queue_drops") + link.mean("/queue_early_drops");
    if !wired && links.iter().all(|&link| drops(link) == 0.0) {
        return None;
    }
    let (shown, remark) = worst_rows(links, |link| -link.mean("/utilization"), "busiest");
    shown.first()?;
    let mut table = Table::new("Wired links")
        .column("used %", 9)
        .column("sent", 5)
        .column("queue", 9)
        .column("max", 7)
        .column("dropped", 9)
        .column("early", 8)
        .column("lost", 8);
    let slots = shown.iter().any(|link| link.mean("/frames_failed") > 0.0);
    if slots {
        table = table.column("failed", 6);
    }
    for link in shown {
        let count = |pointer: &str| Cell::from(whole(link.mean(pointer)));
        let mut cells = vec![
            fixed(100.0 * link.mean("/utilization"), 1).into(),
            count("/sent"),
            fixed(link.mean("/queue_mean"), 1).into(),
            count("/queue_max"),
            count("/queue_drops"),
            count("/queue_early_drops"),
            count("/lost"),
        ];
        if slots {
            cells.push(count("/frames_failed"));
        }
        table.row(&format!("{} → {}", link.text("from"), link.text("to")), cells);
    }
    Some(table.render() + &remark)
}

#[cfg(test)]
mod tests;
