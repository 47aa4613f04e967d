//! What runs showed, as tables for the terminal: first what users of the network notice (calls, flows), then why
//! (losses, airtime, queues).
//!
//! Every figure is read from the object that `--json` prints, so that the two cannot disagree. Figures of several runs
//! are means ± half-widths of their 95 % confidence intervals.

use anstyle::Style;
use fairhop_sim::results::{ACCEPTABLE_MOS, Replications, Summary};
use fairhop_sim::scenario::Scenario;
use serde_json::Value;

use crate::table::{BAD, Cell, FAINT, NOTHING, TITLE, Table, fixed, whole, wrap};

/// Longer tables show the rows that matter most.
const MOST_ROWS: usize = 20;

/// A part of the results, with its intervals beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    mean: &'a Value,
    ci95: &'a Value,
}

/// A figure, and half the width of its confidence interval where there are several runs.
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

    /// The figure at a JSON pointer (`/totals/jain`).
    pub(crate) fn quantity(self, pointer: &str) -> Option<Quantity> {
        let number = |value: &Value| value.pointer(pointer).and_then(Value::as_f64);
        Some(Quantity { mean: number(self.mean)?, half_width: number(self.ci95) })
    }

    /// The mean at a JSON pointer; not a number where there is none.
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

    /// The figure as a cell: nothing where there is none.
    fn cell(self, pointer: &str, decimals: usize) -> Cell {
        self.scaled(pointer, 1.0, decimals)
    }

    /// A fraction as per cent.
    fn percent(self, pointer: &str, decimals: usize) -> Cell {
        self.scaled(pointer, 100.0, decimals)
    }

    /// A figure in milliseconds as seconds.
    fn seconds(self, pointer: &str) -> Cell {
        self.scaled(pointer, 1e-3, 3)
    }

    fn scaled(self, pointer: &str, factor: f64, decimals: usize) -> Cell {
        let shown = |q: Quantity| q.times(factor).show(decimals);
        self.quantity(pointer).map_or_else(|| NOTHING.to_owned(), shown).into()
    }

    /// A score, marked where it is too low.
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

/// Everything that is printed about runs of a scenario.
pub(crate) fn report(scenario: &Scenario, runs: &[Summary], results: &Replications) -> String {
    let all = View::of(results);
    let mut parts = vec![header(scenario, runs)];
    parts.extend(calls(&all.list("calls")));
    parts.extend(flows(&all.list("flows"), runs.len() > 1));
    parts.extend(transactions(&all.list("flows"), runs.len() > 1));
    parts.extend(video(&all.list("flows")));
    parts.extend(broadcasts(&all.list("flows")));
    parts.extend(totals(all));
    parts.extend(control(all));
    parts.extend(losses(&all.list("calls"), &all.list("flows")));
    parts.extend(nodes(&all.list("nodes")));
    parts.extend(frames(&all.list("nodes")));
    parts.extend(links(&all.list("links"), scenario.wired.is_some()));
    parts.join("\n")
}

/// What was run.
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
    let mut how = format!("{} s simulated", scenario.duration_s);
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
            &format!("{BAD}{}{BAD:#}\n", wrap(&format!("PARTIAL: {which}; figures are those up to then")));
    }
    text
}

/// The rows to show of a long list: those of the least `weight`, and a remark on the others.
fn most_telling<'a>(
    rows: &[View<'a>],
    weight: impl Fn(View<'a>) -> f64,
    which: &str,
) -> (Vec<View<'a>>, String) {
    if rows.len() <= MOST_ROWS {
        return (rows.to_vec(), String::new());
    }
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| weight(*a).total_cmp(&weight(*b)));
    sorted.truncate(MOST_ROWS);
    let remark =
        format!("{FAINT}the {MOST_ROWS} {which} of {}; --json and --out have all{FAINT:#}\n", rows.len());
    (sorted, remark)
}

fn calls(calls: &[View<'_>]) -> Option<String> {
    let (shown, remark) = most_telling(calls, |call| call.mean("/mos_worst"), "worst");
    shown.first()?;
    let mut table = Table::new("Calls")
        .column("MOS", 9)
        .column("worst", 9)
        .column("loss %", 8)
        .column("late %", 8)
        .column("delay ms", 7)
        .column("p95 ms", 5)
        .column("jitter ms", 6);
    for call in shown {
        // The direction that hears worse.
        let p95 = ["/forward/delay/p95_ms", "/backward/delay/p95_ms"]
            .into_iter()
            .max_by(|a, b| call.mean(a).total_cmp(&call.mean(b)))
            .unwrap_or_default();
        table.row(
            call.text("name"),
            [
                call.score("/mos"),
                call.score("/mos_worst"),
                call.percent("/loss", 2),
                call.percent("/late", 2),
                call.cell("/delay_ms", 1),
                call.cell(p95, 1),
                call.cell("/jitter_ms", 1),
            ],
        );
    }
    Some(table.render() + &remark)
}

/// Where the counters of a flow are that repeats what was lost.
fn of_transport(flow: &View<'_>) -> Option<&'static str> {
    ["tcp", "quic"].into_iter().find(|key| flow.mean.get(key).is_some())
}

fn flows(flows: &[View<'_>], several: bool) -> Option<String> {
    let (shown, remark) = most_telling(flows, |flow| flow.mean("/goodput_mbps"), "slowest");
    shown.first()?;
    let told = |flow: &View<'_>, key: &str| flow.quantity(&format!("/{}/{key}", of_transport(flow)?));
    let reliable = shown.iter().any(|flow| of_transport(flow).is_some());
    let bounded = shown.iter().any(|flow| flow.quantity("/outage").is_some());
    let finite = shown.iter().any(|flow| told(flow, "completed_s").is_some());
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
    // Only where there is something to tell.
    let needless = shown.iter().any(|flow| told(flow, "spurious").is_some_and(|q| q.mean > 0.0));
    if needless {
        table = table.column("needless", 5);
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
        let pointer = |key: &str| format!("/{}/{key}", of_transport(&flow).unwrap_or("tcp"));
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
        if needless {
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

/// Pages and responses: how many, and how long one waits for them.
fn transactions(flows: &[View<'_>], several: bool) -> Option<String> {
    let with: Vec<View<'_>> =
        flows.iter().copied().filter(|flow| flow.mean.get("transactions").is_some()).collect();
    let (shown, remark) = most_telling(&with, |flow| -flow.mean("/transactions/time/mean_ms"), "slowest");
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

/// What became of the frames of videos.
fn video(flows: &[View<'_>]) -> Option<String> {
    let with: Vec<View<'_>> = flows.iter().copied().filter(|flow| flow.mean.get("video").is_some()).collect();
    let (shown, remark) = most_telling(&with, |flow| flow.mean("/video/complete"), "worst");
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
    let (shown, remark) = most_telling(&with, |flow| flow.mean("/broadcast/delivery_min"), "worst");
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
    let has = |tcp: bool| flows.iter().any(|flow| flow.mean.get("tcp").is_some() == tcp);
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

/// What the controllers of the gateways asked for last, and how long they were in which state.
fn control(all: View<'_>) -> Option<String> {
    let further = all.mean.pointer("/further_control").and_then(Value::as_array).map_or(0, Vec::len);
    let places = (0..further).map(|index| format!("/further_control/{index}"));
    let lines = [String::from("/control")].into_iter().chain(places);
    let lines: String = lines.filter_map(|place| control_at(all, &place, further > 0)).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The same of one gateway, which is named where there are several.
fn control_at(all: View<'_>, place: &str, named: bool) -> Option<String> {
    let text = |key: &str| all.mean.pointer(&format!("{place}/{key}")).and_then(Value::as_str);
    let kind = text("kind")?;
    let mut asked = Vec::new();
    let mut ask = |name: &str, pointer: &str, decimals, unit: &str| {
        if let Some(quantity) = all.quantity(pointer) {
            asked.push(format!("{name} {} {unit}", quantity.show(decimals)));
        }
    };
    ask("budget", &format!("{place}/budget_mbps"), 2, "Mb/s · hops");
    ask("pace", &format!("{place}/down_mbps"), 3, "Mb/s");
    ask("pace of what ACKs acknowledge", &format!("{place}/acks_mbps"), 3, "Mb/s");
    ask("smallest window", &format!("{place}/window_bytes"), 0, "bytes");
    let asked = if asked.is_empty() { "nothing asked for".to_owned() } else { asked.join(", ") };
    let states: Vec<String> = ["learning", "steady", "protecting", "starved", "off"]
        .into_iter()
        .filter_map(|state| {
            let part = all.mean(&format!("{place}/states/{state}"));
            (part > 0.0).then(|| format!("{state} {} %", fixed(100.0 * part, 0)))
        })
        .collect();
    let mut line = format!(
        "Control{}: {kind}, {} at the end: {}; {asked}",
        text("gateway").filter(|_| named).map_or_else(String::new, |node| format!(" at node {node}")),
        text("state").unwrap_or(NOTHING),
        text("reason").unwrap_or(NOTHING)
    );
    if all.mean(&format!("{place}/pacer_mean")) > 0.0 {
        line += &format!(
            "; {} packets wait in the pacer on average, {} found no place",
            fixed(all.mean(&format!("{place}/pacer_mean")), 1),
            whole(all.mean(&format!("{place}/dropped")))
        );
    }
    if states.len() > 1 {
        line += &format!(" ({})", states.join(", "));
    }
    Some(wrap(&line) + "\n")
}

/// Why packets were lost, by kind of traffic.
fn losses(calls: &[View<'_>], flows: &[View<'_>]) -> Option<String> {
    let direction = |key: &'static str| {
        calls.iter().map(move |call| View { mean: &call.mean[key], ci95: &Value::Null }).collect::<Vec<_>>()
    };
    let mut groups =
        vec![("calls, from → to", direction("forward")), ("calls, to → from", direction("backward"))];
    for kind in ["bulk", "quic", "aimd", "web", "request", "cbr", "burst", "video"] {
        groups.push((kind, flows.iter().copied().filter(|flow| flow.text("kind") == kind).collect()));
    }
    groups.retain(|(_, streams)| !streams.is_empty());
    let mut reasons = groups.first()?.1.first()?.keys("lost");
    // Most networks have no queue that drops early, no link that loses packets and no control.
    let happened = |why: &str| {
        groups
            .iter()
            .flat_map(|(_, streams)| streams)
            .any(|stream| stream.mean(&format!("/lost/{why}")) > 0.0)
    };
    reasons.retain(|why| !["aqm", "link", "control", "no_route", "ttl"].contains(why) || happened(why));

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
        let late = streams.iter().map(|stream| stream.mean("/late") * stream.mean("/sent")).sum::<f64>();
        cells.push(if late.is_nan() { NOTHING.into() } else { share(late).into() });
        table.row(name, cells);
    }
    let tcp = flows.iter().any(|flow| flow.mean.get("tcp").is_some());
    let remark = format!("{FAINT}without the ACKs of TCP, which queues (below) drop too{FAINT:#}\n");
    Some(table.render() + if tcp { &remark } else { "" })
}

/// How the stations spent their time, and what waited at them.
fn nodes(nodes: &[View<'_>]) -> Option<String> {
    let (shown, remark) = most_telling(nodes, |node| node.mean("/airtime/idle"), "busiest");
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
        .column("most", 7)
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

/// Why frames did not reach the stations that they were for.
fn frames(nodes: &[View<'_>]) -> Option<String> {
    let lost = |node: View<'_>| {
        node.keys("frames_lost").iter().map(|why| node.mean(&format!("/frames_lost/{why}"))).sum::<f64>()
    };
    let losers: Vec<View<'_>> = nodes.iter().copied().filter(|&node| lost(node) > 0.0).collect();
    let (shown, remark) = most_telling(&losers, |node| -lost(node), "hit worst");
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

/// How wired links were used; that of the Internet alone is told of only where it dropped something.
fn links(links: &[View<'_>], wired: bool) -> Option<String> {
    let drops = |link: View<'_>| link.mean("/queue_drops") + link.mean("/queue_early_drops");
    if !wired && links.iter().all(|&link| drops(link) == 0.0) {
        return None;
    }
    let (shown, remark) = most_telling(links, |link| -link.mean("/utilization"), "busiest");
    shown.first()?;
    let mut table = Table::new("Wired links")
        .column("used %", 9)
        .column("sent", 5)
        .column("queue", 9)
        .column("most", 7)
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
mod tests {
    use super::*;
    use fairhop_sim::scenario;
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    /// Results made by hand: figures that grow with `step`, the same for every call, flow and node but for its name.
    fn run(seed: u64, step: f64, calls: usize) -> Summary {
        let delay = json!({
            "min_ms": 1.0, "mean_ms": 20.0 + step, "p50_ms": 18.0, "p95_ms": 80.0 + step, "p99_ms": 90.0, "max_ms": 99.0,
        });
        let lost = json!({"queue_full": 10.0, "retry_limit": 5.0 + step, "wired_queue_full": 0.0});
        let direction = |mos: f64| {
            json!({
                "mos": mos, "sent": 1000.0, "loss": 0.015, "late": 0.2, "lost": lost, "delay": delay, "jitter_ms": 3.0,
            })
        };
        let call = |index: usize| {
            json!({
                "name": format!("call-{index}"), "mos": 3.7 - 0.1 * step, "mos_worst": 3.5 - 0.01 * index as f64, "clear": 0.9,
                "loss": 0.015, "late": 0.2, "delay_ms": 20.0 + step, "jitter_ms": 3.0,
                "forward": direction(3.9), "backward": direction(3.5),
            })
        };
        let flow = |name: &str, kind: &str, tcp: Value| {
            let mut flow = json!({
                "name": name, "kind": kind, "goodput_mbps": 1.25 + step, "sent_mbps": 1.5 + step, "delay_ms": 20.0,
                "loss": 0.01, "sent": 5000.0, "lost": lost, "delay": delay, "jitter_ms": 2.0,
            });
            if !tcp.is_null() {
                flow["tcp"] = tcp;
            }
            flow
        };
        let tcp = json!({
            "efficiency": 0.95, "retransmitted": 12.0 + step, "timeouts": 1.0, "recoveries": 3.0, "completed_s": 8.5,
        });
        let node = |index: u32| {
            json!({
                "node": index, "frames_sent": 123_456.0, "retries": 789.0, "queue_drops": 15.0, "queue_mean": 4.5,
                "queue_max": 50.0,
                "airtime": {
                    "own": 0.2, "received": 0.1, "overheard": 0.15, "collided": 0.05, "energy": 0.0, "idle": 0.5,
                },
                "frames_lost": {"collision": 1000.0, "transmitting": 20.0, "busy": 0.0},
            })
        };
        serde_json::from_value(json!({
            "fairhop": "0.1.0", "scenario": "made by hand", "seeds": [seed], "partial": seed == 3, "sim_s": 10.0,
            "frames": 200_000.0,
            "calls": (0..calls).map(call).collect::<Vec<_>>(),
            "flows": [
                flow("a download with a long name of its own", "bulk", tcp),
                flow("cbr-0", "cbr", Value::Null),
            ],
            "totals": {
                "mos_mean": 3.7 - 0.1 * step, "mos_min": 3.5, "calls_ok": 1.0, "calls_clear": 0.9, "tcp_goodput_mbps": 1.25 + step,
                "udp_goodput_mbps": 1.25 + step, "jain": 1.0,
            },
            "nodes": [node(0), node(1)],
        }))
        .expect("a summary")
    }

    fn printed(runs: &[Summary]) -> String {
        let scenario = scenario::load(
            "test",
            "name = \"made by hand\"\nduration_s = 10\nwarmup_s = 1\n[topology]\nkind = \"ring\"\nnodes = 3\nspacing_m = 100",
            &[],
        );
        let results = Replications::of(runs).expect("runs");
        anstream::adapter::strip_str(&report(&scenario.expect("a scenario").scenario, runs, &results))
            .to_string()
    }

    #[test]
    fn reports_look_like_this() {
        let cases = [
            ("one", vec![run(1, 0.0, 2)]),
            ("three-one-partial", vec![run(1, 0.0, 2), run(2, 0.5, 2), run(3, 1.0, 2)]),
        ];
        for (name, runs) in cases {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/report-{name}.txt"));
            let text = printed(&runs);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&path, &text).expect("a golden file");
            }
            assert_eq!(text, fs::read_to_string(&path).unwrap_or_default(), "{name}");
        }
    }

    #[test]
    fn broadcasts_show_the_mean_and_minimum_of_their_receivers_delivery_ratios() {
        let mut run = run(1, 0.0, 0);
        let broadcast = json!({"delivery_mean": 0.75, "delivery_min": 0.5, "delivery": {"1": 1.0, "2": 0.5}});
        run.flows[1].broadcast = Some(serde_json::from_value(broadcast).expect("a broadcast"));
        let text = printed(&[run]);
        let row =
            text.split("Broadcasts received").nth(1).and_then(|table| table.lines().nth(1)).expect("a row");
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells, ["cbr-0", "2", "75.00", "50.00"], "{text}");
    }

    #[test]
    fn of_many_rows_the_worst_are_shown() {
        let text = printed(&[run(1, 0.0, 100)]);
        assert!(
            text.contains("call-99 ") && text.contains("call-80 ") && !text.contains("call-79 "),
            "{text}"
        );
        assert!(text.contains("the 20 worst of 100"), "{text}");
    }
}
