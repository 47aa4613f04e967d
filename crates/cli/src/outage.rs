//! `fairhop outage`: the largest window of AIMD datagrams that keeps late packets rare.

use clap::{Args, ValueEnum};
use fairhop_model::markov::{Channel, MAX_STATES};
use fairhop_model::outage::{Arq, Flow, Link, Shared, SharingError, Start};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::table::{Cell, FAINT, NOTHING, TITLE, Table, fixed, wrap};
use crate::ui;

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop outage                                          the table of cai2005: 1 % outage at 50 ms
  fairhop outage --arq optimal --states 3 --memory 0.35   a channel with memory, its ARQ
  fairhop outage --error 0.05,0.2 --delay-ms 100 --outage 0.001
  fairhop outage --flows 4 --rtt-ms 85,125                four flows that share the link
  fairhop outage --error 0.1 --json | jq '.rows[0].window'";

/// Maximum number of slots: more than any delay bound of calls or video needs. The cost grows with its square.
const MAX_SLOTS: u32 = 2_000;
/// Rows for a range of errors.
const RANGE_ROWS: u32 = 10;
/// Rounding error of a number of slots.
const ROUNDING: f64 = 1e-9;

/// Arguments of `fairhop outage`.
#[derive(Args, Debug)]
pub(crate) struct OutageArgs {
    /// Mean probability that a frame is lost: one, several separated by commas, or ten from A to B as A..B
    #[arg(long, value_name = "PROBABILITIES", default_value = "0.01..0.1", value_parser = errors)]
    error: Errors,
    /// ARQ of the base station after a loss: retransmit at once (persistent), or skip a slot (optimal)
    #[arg(long, value_name = "SCHEME", value_enum, default_value_t = Scheme::Persistent)]
    arq: Scheme,
    /// Memory of the channel, at least 0 and less than 1
    #[arg(long, value_name = "LAMBDA", default_value = "0", value_parser = memory, allow_negative_numbers = true)]
    memory: f64,
    /// Number of channel states, from one that loses every frame to one that loses none
    #[arg(long, value_name = "M", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=MAX_STATES as i64))]
    states: u32,
    /// Maximum delay of a packet above the round trip without queueing, in ms
    #[arg(long, value_name = "MS", default_value = "50", value_parser = milliseconds, allow_negative_numbers = true)]
    delay_ms: f64,
    /// Round trip without queueing, in ms; several separated by commas are used by the flows in turn
    #[arg(
        long,
        value_name = "MS",
        default_value = "85",
        value_parser = milliseconds,
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    rtt_ms: Vec<f64>,
    /// Transmission time of one packet on the link, in ms
    #[arg(long, value_name = "MS", default_value = "5", value_parser = milliseconds, allow_negative_numbers = true)]
    slot_ms: f64,
    /// Fraction of the packets that may exceed the maximum delay
    #[arg(long, value_name = "FRACTION", default_value = "0.01", value_parser = probability, allow_negative_numbers = true)]
    outage: f64,
    /// Number of flows that share the link in equal parts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    flows: u32,
    /// First slot of the count: any slot, as in cai2005, or the slot after a success, which is exact for channels with
    /// memory too
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = From::AnySlot)]
    start: From,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Probabilities of loss.
#[derive(Clone, Debug)]
struct Errors(Vec<f64>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheme {
    Persistent,
    Optimal,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    AnySlot,
    AfterSuccess,
}

impl Scheme {
    fn arq(self) -> Arq {
        match self {
            Self::Persistent => Arq::Persistent,
            Self::Optimal => Arq::Optimal,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Optimal => "optimal",
        }
    }
}

impl From {
    fn start(self) -> Start {
        match self {
            Self::AnySlot => Start::AnySlot,
            Self::AfterSuccess => Start::AfterSuccess,
        }
    }
}

fn errors(text: &str) -> Result<Errors, String> {
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (probability(low)?, probability(high)?);
        if low >= high {
            return Err("the first probability of a range must be less than the second".to_owned());
        }
        let step = (high - low) / f64::from(RANGE_ROWS - 1);
        // Rounded, so that 0.01..0.1 gives exact hundredths.
        let rounded = |error: f64| (error * 1e12).round() / 1e12;
        return Ok(Errors((0..RANGE_ROWS).map(|row| rounded(low + step * f64::from(row))).collect()));
    }
    text.split(',').map(probability).collect::<Result<_, _>>().map(Errors)
}

fn probability(text: &str) -> Result<f64, String> {
    const MEANT: &str = "must be a probability from 0 to 1";
    match text.trim().parse::<f64>() {
        Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        Ok(percent) if (0.0..=100.0).contains(&percent) => {
            Err(format!("{MEANT}: for {percent} % write {}", percent / 100.0))
        }
        _ => Err(format!("{MEANT}: for 1 % write 0.01")),
    }
}

fn memory(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(memory) if (0.0..1.0).contains(&memory) => Ok(memory),
        _ => Err("must be at least 0 and less than 1; 0 is a channel without memory".to_owned()),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    const MAX: f64 = 100_000.0;
    match text.parse::<f64>() {
        Ok(ms) if (0.0..=MAX).contains(&ms) => Ok(ms),
        Ok(_) => Err(format!("must be 0 to {MAX} ms")),
        Err(_) => Err("must be a number of milliseconds, without a unit".to_owned()),
    }
}

/// Prints the table.
///
/// # Errors
/// The times contradict each other, or the output cannot be written.
pub(crate) fn outage(args: &OutageArgs) -> Result<u8, Failure> {
    let times = Times::of(args)?;
    let rows: Vec<Row> =
        args.error.0.iter().map(|&error| Row::of(args, &times, error)).collect::<Result<_, _>>()?;
    ui::print(&if args.json {
        format!("{:#}\n", json_of(args, &times, &rows))
    } else {
        text_of(args, &times, &rows)
    })?;
    Ok(0)
}

/// Times in slots.
struct Times {
    /// R of each flow.
    rtts: Vec<u32>,
    /// D.
    delay: u32,
}

impl Times {
    fn of(args: &OutageArgs) -> Result<Self, Failure> {
        if args.slot_ms <= 0.0 {
            return Err(Failure::new(
                "--slot-ms: must be more than 0",
                "a slot is the size of a packet divided by the rate of the link: 125 bytes at 200 kb/s take 5 ms",
            ));
        }
        let slots = |option: &str, ms: f64, round: fn(f64) -> f64| {
            let slots = round(ms / args.slot_ms);
            if slots > f64::from(MAX_SLOTS) {
                return Err(Failure::new(
                    format!("--{option}: {ms} ms are {slots} slots of {} ms", args.slot_ms),
                    format!("the limit is {MAX_SLOTS} slots"),
                ));
            }
            Ok(slots as u32)
        };
        // A round trip is rounded up to whole slots, a delay is rounded down.
        let rtts: Vec<u32> = (0..args.flows as usize)
            .map(|flow| {
                let ms = args.rtt_ms[flow % args.rtt_ms.len()];
                slots("rtt-ms", ms, |slots| (slots - ROUNDING).ceil())
            })
            .collect::<Result<_, _>>()?;
        let delay = slots("delay-ms", args.delay_ms, |slots| (slots + ROUNDING).floor())?;
        if rtts.contains(&0) {
            return Err(Failure::new(
                "--rtt-ms: must be more than 0",
                "a round trip includes the slot of the packet itself",
            ));
        }
        Ok(Self { rtts, delay })
    }
}

/// The results for one probability of loss.
struct Row {
    error: f64,
    /// Packets per slot.
    throughput: f64,
    figures: Figures,
}

enum Figures {
    /// W_max, the outage with it, and the outage with one packet more.
    Alone { window: u32, outage: f64, one_more: f64 },
    /// By equation 4; none if the bound is too strict.
    Shared(Option<Shared>),
}

impl Row {
    fn of(args: &OutageArgs, times: &Times, error: f64) -> Result<Self, Failure> {
        let refused = |reason: &dyn std::fmt::Display| {
            Failure::new(
                format!("the channel is impossible: {reason}"),
                "change --states, --memory or --error",
            )
        };
        let channel =
            Channel::multi_state(args.states as usize, error, args.memory).map_err(|e| refused(&e))?;
        let link = Link::new(channel, args.arq.arq()).map_err(|e| refused(&e))?;
        let start = args.start.start();
        let figures = if let [rtt] = times.rtts[..] {
            let slots = rtt + times.delay;
            let window = link.max_window(slots, args.outage, start);
            let outage = |window| link.delay_outage(slots, window, start);
            Figures::Alone { window, outage: outage(window), one_more: outage(window + 1) }
        } else {
            let share = 1.0 / f64::from(args.flows);
            let flows: Vec<Flow> = times.rtts.iter().map(|&rtt_slots| Flow { rtt_slots, share }).collect();
            match link.shared_windows(&flows, times.delay, args.outage, start) {
                Ok(shared) => Figures::Shared(Some(shared)),
                Err(SharingError::TooStrict) => Figures::Shared(None),
                Err(error) => return Err(Failure::new(error.to_string(), "change --flows or --rtt-ms")),
            }
        };
        Ok(Self { error, throughput: link.throughput(), figures })
    }
}

fn percent(probability: f64) -> String {
    fixed(100.0 * probability, 3)
}

/// A list, truncated to a few entries.
fn list(items: impl Iterator<Item = String>) -> String {
    const MAX: usize = 6;
    let items: Vec<String> = items.collect();
    let shown = items.iter().take(MAX).cloned().collect::<Vec<_>>().join(" ");
    if items.len() > MAX { shown + " …" } else { shown }
}

fn text_of(args: &OutageArgs, times: &Times, rows: &[Row]) -> String {
    let channel = match (args.states, args.memory) {
        (1, _) => "a channel without memory".to_owned(),
        (states, memory) => format!("a channel of {states} states with memory {memory}"),
    };
    let rtts = list(times.rtts.iter().map(u32::to_string));
    let mut text = format!(
        "{TITLE}Windows{TITLE:#} for {} % of packets more than {} slots late\n\
         over {channel}, {} ARQ\n\
         R = {rtts} slots of {} ms without queueing, D = {} slots\n\n",
        100.0 * args.outage,
        times.delay,
        args.arq.name(),
        args.slot_ms,
        times.delay,
    );
    let shared = times.rtts.len() > 1;
    let mut table = Table::new("loss %").column(if shared { "rwnd" } else { "W_max" }, 9);
    if shared {
        table = table.column("shares %", 8).column("worst outage %", 7).column("buffer", 6);
    } else {
        table = table.column("outage %", 8).column("with one more %", 5).column("R or more", 4);
    }
    table = table.column("packets/slot", 3);
    for row in rows {
        let mut cells: Vec<Cell> = match &row.figures {
            Figures::Alone { window, outage, one_more } => {
                let enough = if *window >= times.rtts[0] { "yes" } else { "no" };
                vec![
                    window.to_string().into(),
                    percent(*outage).into(),
                    percent(*one_more).into(),
                    enough.into(),
                ]
            }
            Figures::Shared(Some(shared)) => {
                let worst = shared.flows.iter().map(|flow| flow.outage).fold(0.0, f64::max);
                vec![
                    list(shared.flows.iter().map(|flow| flow.window.to_string())).into(),
                    list(shared.flows.iter().map(|flow| fixed(100.0 * flow.share, 1))).into(),
                    percent(worst).into(),
                    shared.buffer.to_string().into(),
                ]
            }
            Figures::Shared(None) => vec![NOTHING.into(); 4],
        };
        cells.push(fixed(row.throughput, 4).into());
        table.row(&fixed(100.0 * row.error, 2), cells);
    }
    text += &table.render();
    let remark = if shared {
        "Windows by equation 4 of cai2005: all flows get equal parts of the link, and none exceeds the outage. A buffer of \
         the sum of the windows at the base station never overflows. A dash: not even one packet per flow is allowed."
    } else {
        "W_max is the largest window that keeps the bound (cai2005, equation 3). Use it as rwnd of the receiver and as buffer \
         of the base station: packets are in time and none is dropped. With R or more the link is never idle."
    };
    text + &format!("{FAINT}{}{FAINT:#}\n", wrap(remark))
}

fn json_of(args: &OutageArgs, times: &Times, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut object = json!({"error": row.error, "throughput_per_slot": row.throughput});
            match &row.figures {
                Figures::Alone { window, outage, one_more } => {
                    object["window"] = (*window).into();
                    object["outage"] = (*outage).into();
                    object["outage_of_one_more"] = (*one_more).into();
                    object["buffer"] = (*window).into();
                }
                Figures::Shared(shared) => {
                    object["buffer"] = shared.as_ref().map_or(Value::Null, |shared| shared.buffer.into());
                    let flows = shared.iter().flat_map(|shared| &shared.flows).zip(&times.rtts);
                    object["flows"] = flows
                        .map(|(flow, rtt)| {
                            json!({
                                "rtt_slots": rtt,
                                "window": flow.window,
                                "window_exact": flow.exact,
                                "share": flow.share,
                                "outage": flow.outage,
                            })
                        })
                        .collect();
                }
            }
            object
        })
        .collect();
    json!({
        "arq": args.arq.name(),
        "states": args.states,
        "memory": args.memory,
        "start": match args.start {
            From::AnySlot => "any-slot",
            From::AfterSuccess => "after-success",
        },
        "slot_ms": args.slot_ms,
        "rtt_slots": times.rtts,
        "delay_slots": times.delay,
        "outage": args.outage,
        "rows": rows,
    })
}
