//! `fairhop gateway watch`: a live picture of calls, flows and decisions.
//!
//! The picture is drawn on the terminal's second screen, line by line in place, so that it neither flickers nor stays behind. It fits the
//! terminal: the screen would scroll, and the head of the picture would be lost.
//! `q`, Escape or Ctrl-C ends it.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};

use fairhop_gateway::status::{GatewayStatus, Status};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use unicode_width::UnicodeWidthStr;

use super::{fit, view};
use crate::failure::{Failure, reason};
use crate::progress::duration;
use crate::table::{BAD, FAINT, GOOD, TITLE};
use crate::ui::COLUMNS;
use crate::{table, ui};

/// Longest time between two looks at signals and the size of the terminal.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks for an answer.
const LOOK_FOR_ANSWER: Duration = Duration::from_millis(10);
/// Columns before the values.
const NAMES: usize = 11;
/// Rows of a gateway below which it is not shown: its head, a fault, the state, limits.
const MIN_ROWS: usize = 4;
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
        out.write_all(b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        out.flush()?;
        Ok(Self { before })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        let _ = out.write_all(b"\x1b[?7h\x1b[?25h\x1b[?1049l");
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

pub(super) fn watch(address: SocketAddr, every: Duration) -> Result<u8, Failure> {
    let mut status = super::status_of(address)?;
    if !io::stdout().is_terminal() {
        // Into a pipe: one picture.
        ui::print(&picture(&status, &[], None, (COLUMNS, 60)).join("\n"))?;
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
    let input = Input { ended, keys: screen.before.is_some().then(keys) };
    let mut fault: Option<String> = None;
    loop {
        remember(&mut histories, &status);
        let mut drawn = None;
        let redraw = || {
            let size = size();
            if drawn.replace(size) == Some(size) {
                Ok(())
            } else {
                draw(&status, &histories, fault.as_deref(), size)
            }
        };
        if input.ends_within(every, redraw).map_err(failed)? {
            break;
        }
        let answer = ask(address);
        let new = loop {
            match answer.try_recv() {
                Err(TryRecvError::Empty)
                    if input.ends_within(LOOK_FOR_ANSWER, || Ok(())).map_err(failed)? =>
                {
                    return Ok(0);
                }
                Err(TryRecvError::Empty) => {}
                Ok(new) => break Some(new),
                Err(TryRecvError::Disconnected) => break None,
            }
        };
        match new {
            Some(new) => (status, fault) = (new, None),
            None => fault = Some(format!("no answer from {address}; trying again")),
        }
    }
    drop(screen);
    Ok(0)
}

/// Asks for a status in a thread, since a gateway that hangs answers late and the keys work meanwhile. Without an answer, the sender is
/// dropped.
fn ask(address: SocketAddr) -> mpsc::Receiver<Status> {
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || super::status_of(address).map(|status| sender.send(status)));
    answer
}

/// What ends the watch.
struct Input {
    /// Ctrl-C.
    ended: Arc<AtomicBool>,
    /// None if standard input is not a terminal.
    keys: Option<mpsc::Receiver<u8>>,
}

impl Input {
    /// Waits for a time. Whether the watch was ended meanwhile; `look` is called now and then.
    fn ends_within(&self, time: Duration, mut look: impl FnMut() -> io::Result<()>) -> io::Result<bool> {
        let until = Instant::now() + time;
        loop {
            look()?;
            let step = until.saturating_duration_since(Instant::now()).min(LOOK);
            if self.is_over(step) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    fn is_over(&self, step: Duration) -> bool {
        match self.keys.as_ref().map(|keys| keys.recv_timeout(step)) {
            Some(Ok(b'q' | b'Q' | 27 | 3)) => return true,
            Some(Ok(_) | Err(RecvTimeoutError::Timeout)) => {}
            // Nothing will come: without the pause, requests would follow each other at once.
            None | Some(Err(RecvTimeoutError::Disconnected)) => std::thread::sleep(step),
        }
        self.ended.load(Ordering::Relaxed)
    }
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

/// Columns and rows of the terminal. One that does not know them, as over a serial line, has the usual ones.
fn size() -> (usize, usize) {
    let size = termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
}

fn draw(status: &Status, histories: &[History], fault: Option<&str>, size: (usize, usize)) -> io::Result<()> {
    let (columns, rows) = size;
    // The last column stays free: behind a character there, "erase to the end of the line" would erase it.
    let columns = columns.saturating_sub(1);
    let mut lines = picture(status, histories, fault, (columns, rows.saturating_sub(1).max(1)));
    if lines.len() < rows {
        let help = format!(" {FAINT}q ends · the same as data: fairhop gateway status --json{FAINT:#}");
        lines.push(fit::cut(&help, columns));
    }
    let mut text = String::from("\x1b[H");
    for (place, line) in lines.iter().enumerate() {
        let end = if place + 1 < rows { "\r\n" } else { "" };
        text += &format!("{line}\x1b[K{end}");
    }
    text += "\x1b[J";
    // Without colours, the places of the cursor are needed all the same.
    if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
        text = fit::without_colors(&text);
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The lines of a picture for so many columns and rows: none is longer, and there are no more. What matters most comes first.
fn picture(
    status: &Status,
    histories: &[History],
    fault: Option<&str>,
    (columns, rows): (usize, usize),
) -> Vec<String> {
    let mode = match status.mode.as_str() {
        "live" => format!("{GOOD}live{GOOD:#}"),
        other => format!("{TITLE}{other}{TITLE:#}"),
    };
    let up = duration(status.uptime_s);
    let mut lines = vec![format!(" {TITLE}fairhop gateway{TITLE:#}  {mode}  {FAINT}up {up}{FAINT:#}")];
    lines.extend(fault.map(|fault| format!(" {BAD}{fault}{BAD:#}")));
    let none = History::default();
    let shown = status.gateways.len().min((rows.saturating_sub(lines.len()) / MIN_ROWS).max(1));
    let hidden = status.gateways.len() - shown;
    let last = rows.saturating_sub(usize::from(hidden > 0));
    for (place, gateway) in status.gateways.iter().take(shown).enumerate() {
        let history = histories.get(place).unwrap_or(&none);
        // What one does not need is for those after it.
        let each = last.saturating_sub(lines.len()) / (shown - place);
        lines.extend(of_gateway(gateway, &status.mode, history, (columns, each)));
    }
    if hidden > 0 {
        lines.push(format!(" {FAINT}and {hidden} more gateways: fairhop gateway status{FAINT:#}"));
    }
    lines.truncate(rows);
    lines.iter().map(|line| fit::cut(line, columns)).collect()
}

/// A line of a gateway, by its name.
struct Fact {
    name: &'static str,
    value: String,
    /// Lines that it may have where there is room.
    max_lines: usize,
}

/// What is to be said about a gateway, in the order of its importance.
fn facts(gateway: &GatewayStatus, mode: &str, history: &History, columns: usize) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name, max_lines, value: String| facts.push(Fact { name, value, max_lines });
    if let Some(fault) = &gateway.fault {
        add("fault", 3, format!("packets pass untouched: {BAD}{fault}{BAD:#}"));
    }
    let state = match gateway.decision.state.as_str() {
        "protecting" => format!("{BAD}protecting{BAD:#}"),
        other => format!("{TITLE}{other}{TITLE:#}"),
    };
    add("state", 2, format!("{state}: {}", gateway.decision.why));
    add("limits", 2, view::limits(gateway, mode));
    add("calls", 1, view::calls_line(gateway));
    add("control", 1, view::control(gateway, mode));
    let width = columns.saturating_sub(34).min(HISTORY);
    if history.mos.iter().any(|mos| mos.is_finite()) {
        let bars = spark(&history.mos, 1.0, 4.4, width, true);
        add("worst MOS", 1, format!("{bars}  {FAINT}1 to 4.4{FAINT:#}"));
    }
    let peak = history.budget.iter().copied().filter(|kbps| kbps.is_finite()).fold(0.0, f64::max);
    if peak > 0.0 {
        let bars = spark(&history.budget, 0.0, peak, width, false);
        add("budget", 1, format!("{bars}  {FAINT}up to {} · hops{FAINT:#}", view::rate(peak)));
    }
    add("traffic", 2, traffic(gateway));
    for probe in gateway.probes.iter().take(MAX_LISTED) {
        add("probe", 1, view::probe_line(probe));
    }
    for flow in gateway.distrusted.iter().take(MAX_LISTED) {
        add("distrusts", 1, format!("{BAD}{}{BAD:#} → {}: {}", flow.mesh, flow.wired, flow.why));
    }
    facts
}

fn of_gateway(
    gateway: &GatewayStatus,
    mode: &str,
    history: &History,
    (columns, rows): (usize, usize),
) -> Vec<String> {
    let wired = gateway.wired.as_deref().map_or(String::new(), |wired| format!(" – {wired}"));
    let title = format!(" {} ({}{wired}) ", gateway.name, gateway.mesh);
    let rule = "─".repeat(columns.saturating_sub(title.width() + 2));
    let mut lines = vec![format!("{FAINT}──{FAINT:#}{TITLE}{title}{TITLE:#}{FAINT}{rule}{FAINT:#}")];
    let facts = facts(gateway, mode, history, columns);
    // Each has a line before one has more.
    let mut spare = rows.saturating_sub(lines.len() + facts.len());
    for fact in &facts {
        let value = fit::wrap(&fact.value, columns.saturating_sub(NAMES), fact.max_lines.min(1 + spare));
        spare = spare.saturating_sub(value.len() - 1);
        for (place, line) in value.iter().enumerate() {
            let name = if place == 0 { fact.name } else { "" };
            lines.push(format!(" {FAINT}{name:10}{FAINT:#}{line}"));
        }
    }
    // Two tables have an empty line and a head each, and there may be a line after them.
    let left = rows.saturating_sub(lines.len() + 5);
    let for_calls = gateway.calls.len().min(left.div_ceil(2).max(left.saturating_sub(gateway.flows.len())));
    let mut add = |table: table::Table| {
        lines.push(String::new());
        lines.extend(table.render_within(columns.saturating_sub(1)).lines().map(|line| format!(" {line}")));
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
    lines.truncate(rows);
    if more > 0 && lines.len() < rows {
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
    use fairhop_gateway::status::{
        CallStatus, ClassStatus, DecisionStatus, DirectionStatus, FlowStatus, ProbeStatus,
    };

    use super::*;

    /// A gateway about which there is much to say: 60 calls, 60 flows with IPv6, probes, all limits.
    fn gateway(fault: Option<&str>) -> GatewayStatus {
        let call = |n: u32| CallStatus {
            mesh: format!("10.1.0.{n}:4000"),
            wired: "198.51.100.200:16384".into(),
            mos: Some(4.1),
            codec: "G.711".into(),
            ..Default::default()
        };
        let flow = |n: u32| FlowStatus {
            mesh: format!("[2001:db8:1:2:3:4:5:{n}]:50000"),
            wired: "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:443".into(),
            kind: "tcp".into(),
            kbps: 12_345.0,
            ..Default::default()
        };
        let class = |direction: &str, class: &str| ClassStatus {
            direction: direction.into(),
            class: class.into(),
            kbps: 1234.0,
            ..Default::default()
        };
        let decision = DecisionStatus {
            state: "protecting".into(),
            why:
                "a call of 10.1.0.4 is degraded: MOS 3.12, 2.1 % lost and 4.4 % late, 31 ms over the fastest"
                    .into(),
            mos: Some(3.1),
            budget_kbps: Some(12_500.0),
            down_kbps: Some(4200.0),
            acks_kbps: Some(2100.0),
            window_bytes: Some(17_520),
            gate: true,
            waiting: 120,
            ..Default::default()
        };
        GatewayStatus {
            name: "roof".into(),
            mesh: "wlan0".into(),
            wired: Some("eth0".into()),
            control: "adaptive".into(),
            fault: fault.map(Into::into),
            calls: (0..60).map(call).collect(),
            flows: (0..60).map(flow).collect(),
            classes: ["to-mesh", "from-mesh"]
                .into_iter()
                .flat_map(|way| {
                    ["voice", "tcp", "tcp-control", "paced-udp", "other"].map(|name| class(way, name))
                })
                .collect(),
            decision,
            probes: (0..5)
                .map(|n| ProbeStatus { host: format!("10.1.0.{n}"), ..Default::default() })
                .collect(),
            ..Default::default()
        }
    }

    fn lines(gateways: Vec<GatewayStatus>, fault: Option<&str>, size: (usize, usize)) -> Vec<String> {
        let status = Status { mode: "dry-run".into(), gateways, ..Default::default() };
        let mut histories = Vec::new();
        (0..200).for_each(|_| remember(&mut histories, &status));
        let lines = picture(&status, &histories, fault, size);
        let plain: Vec<String> =
            lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert!(plain.len() <= size.1, "{size:?}: {plain:#?}");
        assert!(plain.iter().all(|line| line.width() <= size.0), "{size:?}: {plain:#?}");
        plain
    }

    fn has(lines: &[String], begins: &str) -> bool {
        lines.iter().any(|line| line.trim_start().starts_with(begins))
    }

    const FAULT: &str = "the kernel refuses the program fairhop_to_mesh: back-edge from insn 12 to 7\n\
        processed 1000001 insns (limit 1000000)\tmax_states_per_insn 4 total_states 30\npeak_states 30";

    #[test]
    fn a_picture_fits_every_terminal_and_begins_with_what_matters() {
        for columns in [0, 1, 5, 20, 39, 79, 99, 129, 300] {
            for rows in [1, 2, 5, 9, 23, 39, 80] {
                for gateways in [1, 2, 7] {
                    for (own, outer) in [(None, None), (Some(FAULT), Some("no answer from 127.0.0.1:9470"))] {
                        lines(vec![gateway(own); gateways], outer, (columns, rows));
                    }
                }
            }
        }
        // 40x10 without the last column, and with the line about the keys.
        for size in [(39, 9), (79, 23), (129, 39)] {
            let lines = lines(vec![gateway(Some(FAULT))], None, size);
            assert!(lines[0].contains("dry-run"), "{lines:#?}");
            for name in ["fault", "state", "limits", "calls"] {
                assert!(has(&lines, name), "{name} of {size:?}: {lines:#?}");
            }
        }
    }

    #[test]
    fn on_80x24_limits_are_whole_and_tables_say_what_they_leave_out() {
        let lines = lines(vec![gateway(None)], None, (79, 23));
        let text = lines.join(" ");
        assert!(text.contains("31 ms over the fastest") && text.contains("120 packets wait"), "{lines:#?}");
        assert!(has(&lines, "Calls") && has(&lines, "Flows") && text.contains(" MOS "), "{lines:#?}");
        assert!(lines.last().is_some_and(|line| line.contains(" more")), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.contains("does not answer")).count(), MAX_LISTED);
        // A fault has up to three lines, since the fix is at its end.
        let fix =
            "interface wlan0: it was removed; fix: nothing to do: the gateway starts again when it is back";
        let lines = self::lines(vec![gateway(Some(fix))], None, (79, 23));
        assert!(lines.join(" ").contains("when it is back"), "{lines:#?}");
    }

    #[test]
    fn what_is_inferred_of_calls_is_marked() {
        let call = |n: u32, down_is_reported: bool| CallStatus {
            mesh: format!("10.1.0.{n}:4000"),
            mos: Some(4.1),
            down: Some(DirectionStatus { loss: 0.012, ..Default::default() }),
            down_is_reported,
            ..Default::default()
        };
        let gateway = GatewayStatus { calls: vec![call(1, false), call(2, true)], ..gateway(None) };
        let status = Status { gateways: vec![gateway.clone()], ..Default::default() };
        let table = anstream::adapter::strip_str(&view::calls(&status)).to_string();
        assert!(table.contains("~1.2") && table.contains(" 1.2 "), "{table}");
        assert!(table.ends_with("~ inferred: no report tells how the call fares into the mesh\n"), "{table}");
        let line = view::calls_line(&gateway);
        assert!(line.ends_with(", 1 inferred into the mesh"), "{line}");
    }

    #[test]
    fn of_several_gateways_each_has_its_head_and_those_without_room_are_counted() {
        let heads = |lines: &[String]| lines.iter().filter(|line| line.starts_with("── roof")).count();
        let two = lines(vec![gateway(None), gateway(Some(FAULT))], None, (79, 23));
        assert_eq!(heads(&two), 2);
        assert!(has(&two, "fault") && two.iter().filter(|line| line.starts_with(" limits")).count() == 2);
        let many = lines(vec![gateway(None); 20], None, (79, 23));
        assert!(heads(&many) > 3, "{many:#?}");
        let said = format!(" and {} more gateways", 20 - heads(&many));
        assert!(many.last().is_some_and(|line| line.starts_with(&said)), "{many:#?}");
    }

    /// An end of the input, as of `/dev/null`, is no key: requests would follow each other at once.
    #[test]
    fn without_keys_the_pause_is_kept_and_ctrl_c_ends_it() {
        let pause = Duration::from_millis(120);
        let hour = Duration::from_secs(3600);
        let (sender, closed) = mpsc::channel();
        drop(sender);
        let (pressed, keys) = mpsc::channel();
        for keys in [None, Some(closed), Some(keys)] {
            let input = Input { ended: Arc::default(), keys };
            let began = Instant::now();
            let mut looks = 0;
            let ended = input.ends_within(pause, || {
                looks += 1;
                Ok(())
            });
            assert!(!ended.expect("no error") && began.elapsed() >= pause);
            assert!((1..10).contains(&looks), "{looks} looks");
            // Keys that mean nothing do not shorten it.
            if input.keys.is_some() {
                let _ = pressed.send(b'x');
            }
            assert!(!input.ends_within(pause, || Ok(())).expect("no error") && began.elapsed() >= 2 * pause);
            let of_signal = Arc::clone(&input.ended);
            let signal = || {
                of_signal.store(true, Ordering::Relaxed);
                Ok(())
            };
            assert!(input.ends_within(hour, signal).expect("no error"), "Ctrl-C");
        }
        let (pressed, keys) = mpsc::channel();
        pressed.send(b'q').expect("a key");
        let input = Input { ended: Arc::default(), keys: Some(keys) };
        assert!(input.ends_within(hour, || Ok(())).expect("no error"), "q");
    }
}
