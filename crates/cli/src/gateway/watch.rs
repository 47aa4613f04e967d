//! `fairhop gateway watch`: a live picture of calls, flows and decisions.
//!
//! The picture is drawn on the terminal's second screen, line by line in place, so that it neither flickers nor stays behind.
//! `q`, Escape or Ctrl-C ends it.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fairhop_gateway::status::{GatewayStatus, Status};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use unicode_width::UnicodeWidthStr;

use super::view;
use crate::failure::{Failure, reason};
use crate::progress::duration;
use crate::table::{BAD, FAINT, GOOD, TITLE};
use crate::{table, ui};

/// Values in a history.
const HISTORY: usize = 120;
/// Probes, and flows that are not trusted, above the tables.
const MAX_LISTED: usize = 3;
/// Bars from empty to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The terminal as it was, which comes back at the end.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = termios::tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        }
        let mut out = io::stdout();
        out.write_all(b"\x1b[?1049h\x1b[?25l\x1b[2J")?;
        out.flush()?;
        Ok(Self { before })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        let _ = out.write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = out.flush();
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The recent past of a gateway.
#[derive(Default)]
struct History {
    mos: VecDeque<f64>,
    budget: VecDeque<f64>,
}

pub(super) fn watch(address: SocketAddr, every: f64) -> Result<u8, Failure> {
    let mut status = super::status_of(address)?;
    if !io::stdout().is_terminal() {
        // Into a pipe: one picture.
        ui::print(&picture(&status, &[], 100, 60).join("\n"))?;
        ui::print("\n")?;
        return Ok(0);
    }
    let failed =
        |error: io::Error| Failure::new(format!("cannot draw: {}", reason(&error)), "try another terminal");
    let ended = Arc::new(AtomicBool::new(false));
    let of_signal = Arc::clone(&ended);
    // Without it, Ctrl-C would leave the terminal as it is now.
    let _ = ctrlc::set_handler(move || of_signal.store(true, Ordering::Relaxed));
    let mut histories: Vec<History> = Vec::new();
    let screen = Screen::open().map_err(failed)?;
    let keys = keys();
    let pause = Duration::from_secs_f64(every.clamp(0.1, 60.0));
    let mut fault = None;
    while !ended.load(Ordering::Relaxed) {
        remember(&mut histories, &status);
        draw(&status, &histories, fault.as_deref()).map_err(failed)?;
        if let Ok(b'q' | b'Q' | 27 | 3) = keys.recv_timeout(pause) {
            break;
        }
        match super::status_of(address) {
            Ok(new) => (status, fault) = (new, None),
            Err(_) => fault = Some(format!("no answer from {address}; trying again")),
        }
    }
    drop(screen);
    Ok(0)
}

/// Keys as they are pressed.
fn keys() -> mpsc::Receiver<u8> {
    let (sender, keys) = mpsc::channel();
    std::thread::spawn(move || {
        let mut key = [0];
        while io::stdin().read_exact(&mut key).is_ok() && sender.send(key[0]).is_ok() {}
    });
    keys
}

fn remember(histories: &mut Vec<History>, status: &Status) {
    histories.resize_with(status.gateways.len(), History::default);
    for (history, gateway) in histories.iter_mut().zip(&status.gateways) {
        let push = |values: &mut VecDeque<f64>, value: Option<f64>| {
            values.push_back(value.unwrap_or(f64::NAN));
            while values.len() > HISTORY {
                values.pop_front();
            }
        };
        push(&mut history.mos, gateway.decision.mos);
        push(&mut history.budget, gateway.decision.budget_kbps);
    }
}

fn draw(status: &Status, histories: &[History], fault: Option<&str>) -> io::Result<()> {
    let size = termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map_or(100, |size| usize::from(size.ws_col).max(40));
    let rows = size.map_or(40, |size| usize::from(size.ws_row).max(8));
    let mut lines = picture(status, histories, columns, rows - 1);
    if let Some(fault) = fault {
        lines.insert(1.min(lines.len()), format!(" {BAD}{fault}{BAD:#}"));
    }
    lines.truncate(rows - 1);
    lines.push(format!(" {FAINT}q ends · the same as data: fairhop gateway status --json{FAINT:#}"));
    let mut text = String::from("\x1b[H");
    for (place, line) in lines.iter().enumerate() {
        let end = if place + 1 < rows { "\r\n" } else { "" };
        text += &format!("{line}\x1b[K{end}");
    }
    text += "\x1b[J";
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    if std::env::var_os("NO_COLOR").is_some() {
        // The places of the cursor are needed even without colours.
        let plain: String = strip_colors(&text);
        let mut out = io::stdout().lock();
        out.write_all(plain.as_bytes())?;
        return out.flush();
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The text without colours, with everything else.
fn strip_colors(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, code) = rest.split_at(at);
        plain += before;
        let end = code[2..].find(|c: char| c.is_ascii_alphabetic()).map_or(code.len(), |end| end + 3);
        if !code[..end].ends_with('m') {
            plain += &code[..end];
        }
        rest = &code[end..];
    }
    plain + rest
}

/// The lines of a picture.
fn picture(status: &Status, histories: &[History], columns: usize, rows: usize) -> Vec<String> {
    let mode = match status.mode.as_str() {
        "live" => format!("{GOOD}live{GOOD:#}"),
        other => format!("{TITLE}{other}{TITLE:#}"),
    };
    let up = duration(status.uptime_s);
    let mut lines = vec![format!(" {TITLE}fairhop gateway{TITLE:#}  {mode}  {FAINT}up {up}{FAINT:#}")];
    let none = History::default();
    let each = rows.saturating_sub(1) / status.gateways.len().max(1);
    for (place, gateway) in status.gateways.iter().enumerate() {
        let history = histories.get(place).unwrap_or(&none);
        lines.extend(of_gateway(gateway, &status.mode, history, columns, each));
    }
    lines
}

fn of_gateway(
    gateway: &GatewayStatus,
    mode: &str,
    history: &History,
    columns: usize,
    rows: usize,
) -> Vec<String> {
    let wired = gateway.wired.as_deref().map_or(String::new(), |wired| format!(" – {wired}"));
    let title = format!(" {} ({}{wired}) ", gateway.name, gateway.mesh);
    let rule = "─".repeat(columns.saturating_sub(title.width() + 3));
    let mut lines = vec![format!("{FAINT}──{FAINT:#}{TITLE}{title}{TITLE:#}{FAINT}{rule}{FAINT:#}")];
    let mut line = |name: &str, value: String| lines.push(format!(" {FAINT}{name:9}{FAINT:#}{value}"));
    if let Some(fault) = &gateway.fault {
        line("fault", format!("{BAD}{fault}{BAD:#}; packets pass untouched"));
    }
    let state = match gateway.decision.state.as_str() {
        "protecting" => format!("{BAD}protecting{BAD:#}"),
        other => format!("{TITLE}{other}{TITLE:#}"),
    };
    line("state", format!("{state}: {}", gateway.decision.why));
    line("control", format!("{}; {}", view::control(gateway, mode), view::limits(gateway)));
    line("calls", view::calls_line(gateway));
    let width = columns.saturating_sub(34).min(HISTORY);
    if history.mos.iter().any(|mos| mos.is_finite()) {
        line(
            "worst MOS",
            format!("{}  {FAINT}1 to 4.4{FAINT:#}", spark(&history.mos, 1.0, 4.4, width, true)),
        );
    }
    let peak = history.budget.iter().copied().filter(|kbps| kbps.is_finite()).fold(0.0, f64::max);
    if peak > 0.0 {
        let label = format!("up to {} · hops", view::rate(peak));
        line(
            "budget",
            format!("{}  {FAINT}{label}{FAINT:#}", spark(&history.budget, 0.0, peak, width, false)),
        );
    }
    line("traffic", traffic(gateway));
    for probe in gateway.probes.iter().take(MAX_LISTED) {
        line("probe", view::probe_line(probe));
    }
    for flow in gateway.distrusted.iter().take(MAX_LISTED) {
        line("distrusts", format!("{BAD}{}{BAD:#} → {}: {}", flow.mesh, flow.wired, flow.why));
    }
    let left = rows.saturating_sub(lines.len() + 5);
    let for_calls = gateway.calls.len().min(left.div_ceil(2).max(left.saturating_sub(gateway.flows.len())));
    let mut add = |table: table::Table| {
        lines.push(String::new());
        lines.extend(table.render().lines().map(|line| format!(" {line}")));
    };
    if for_calls > 0 {
        let mut calls = gateway.calls.clone();
        let of = |mos: Option<f64>| mos.unwrap_or(f64::INFINITY);
        calls.sort_by(|a, b| of(a.mos).total_cmp(&of(b.mos)).then_with(|| a.mesh.cmp(&b.mesh)));
        add(view::call_table(&calls, for_calls));
    }
    let for_flows = gateway.flows.len().min(left - for_calls);
    if for_flows > 0 {
        add(view::flow_table(&gateway.flows, for_flows));
    }
    let more = (gateway.calls.len() - for_calls) + (gateway.flows.len() - for_flows);
    if more > 0 {
        lines.push(format!(" {FAINT}and {more} more{FAINT:#}"));
    }
    lines
}

/// The rates of the classes, into the mesh and out of it.
fn traffic(gateway: &GatewayStatus) -> String {
    let of = |direction: &str| {
        let classes =
            gateway.classes.iter().filter(|class| class.direction == direction && class.kbps >= 0.5);
        let parts: Vec<String> =
            classes.map(|class| format!("{} {}", class.class, view::rate(class.kbps))).collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    };
    format!("↓ {}  {FAINT}│{FAINT:#}  ↑ {}", of("to-mesh"), of("from-mesh"))
}

/// The last values as bars from `min` to `max`; a value that is not known is a gap.
fn spark(values: &VecDeque<f64>, min: f64, max: f64, width: usize, is_mos: bool) -> String {
    let mut text = String::new();
    for &value in values.iter().skip(values.len().saturating_sub(width)) {
        if !value.is_finite() {
            text.push(' ');
            continue;
        }
        let part = ((value - min) / (max - min).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let bar = BARS[((part * BARS.len() as f64) as usize).min(BARS.len() - 1)];
        let style = if is_mos { view::mos_style(value) } else { TITLE };
        text += &format!("{style}{bar}{style:#}");
    }
    text
}

#[cfg(test)]
mod tests {
    use fairhop_gateway::status::{CallStatus, DecisionStatus, FlowStatus, ProbeStatus};

    use super::*;

    fn status() -> Status {
        let call =
            |n: u32| CallStatus { mesh: format!("10.1.0.{n}:4000"), mos: Some(4.1), ..Default::default() };
        let flow =
            |n: u32| FlowStatus { mesh: format!("10.1.0.{n}:80"), kind: "tcp".into(), ..Default::default() };
        let decision = DecisionStatus { state: "steady".into(), mos: Some(3.1), ..Default::default() };
        let gateway = GatewayStatus {
            name: "roof".into(),
            mesh: "wlan0".into(),
            calls: (0..60).map(call).collect(),
            flows: (0..60).map(flow).collect(),
            decision,
            probes: (0..5)
                .map(|n| ProbeStatus { host: format!("10.1.0.{n}"), ..Default::default() })
                .collect(),
            ..Default::default()
        };
        Status { mode: "live".into(), gateways: vec![gateway], ..Default::default() }
    }

    #[test]
    fn a_picture_fits_the_terminal_and_says_what_it_leaves_out() {
        let mut histories = Vec::new();
        (0..200).for_each(|_| remember(&mut histories, &status()));
        for rows in [8, 24, 40, 60] {
            let lines = picture(&status(), &histories, 100, rows);
            assert!(lines.len() <= rows + 6, "{} lines of {rows}", lines.len());
            assert!(lines.iter().all(|line| anstream::adapter::strip_str(line).to_string().width() <= 101));
            assert!(lines.iter().any(|line| line.contains(" more")));
            assert_eq!(lines.iter().filter(|line| line.contains("does not answer")).count(), MAX_LISTED);
        }
    }

    #[test]
    fn without_colours_the_places_of_the_cursor_stay() {
        assert_eq!(strip_colors("\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\n"), "\x1b[Ha\x1b[K\r\n");
    }
}
