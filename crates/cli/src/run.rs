//! `fairhop run`: simulate a scenario, under one seed or several, and show what came of it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fairhop_model::units::Nanos;
use fairhop_sim::output::capture::Capture;
use fairhop_sim::output::tables::{self, Meta, RunTables};
use fairhop_sim::output::trace::Traced;
use fairhop_sim::output::{Directory, OutputError};
use fairhop_sim::results::{Replications, Summary};
use fairhop_sim::scenario::{Loaded, Override, Scenario};
use fairhop_sim::world::World;
use serde_json::Value;

use crate::campaign::Campaign;
use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, significant};
use crate::table::whole;
use crate::{choose, report, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop run k-mix                             five calls and three downloads over four hops
  fairhop run k-mix --set traffic.1.count=0     the calls alone
  fairhop run k-mix --set radio.capture=none    under another collision rule
  fairhop run k-mix --seeds 10                  means and 95 % confidence intervals
  fairhop run mesh.toml --out results/mesh      your own scenario; tables in Parquet
  fairhop run linux-path --trace cwnd           the window every 100 ms, in cwnd.csv
  fairhop run k-mix --json | jq .totals         for other programs

Ctrl-C ends the runs where they are and keeps what they measured; a second one ends at once.
Exit codes: 0 done, 1 something is wrong with the input, 2 with the command line, 130 ended by Ctrl-C.";

/// What `fairhop run` is asked to do.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A file in TOML, the name of a ready-made scenario (see `fairhop scenarios`), or - for standard input
    scenario: PathBuf,
    /// Change a value of the scenario by its dotted path; can be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Seed of all random draws, instead of the scenario's
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run N seeds, the scenario's and those after it; show means and 95 % confidence intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Write summary.json and Parquet tables into a new directory; nothing is ever overwritten
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: a capture of every node for Wireshark (pcapng); with --seeds, of every seed in a folder of its own
    #[arg(long)]
    pcap: bool,
    /// Print the results as one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Write how the windows of TCP and AIMD senders (cwnd.csv), the queues of nodes and wired links (queue.csv) or the
    /// quality of calls (mos.csv, every recording interval) move: with --out there, otherwise in the current folder; can be
    /// repeated
    #[arg(long, value_name = "WHAT", value_enum)]
    trace: Vec<Trace>,
    /// Milliseconds of simulated time between two samples of a trace
    #[arg(long, value_name = "MS", default_value_t = 100.0, value_parser = trace_interval, requires = "trace")]
    trace_interval_ms: f64,
    /// How many seeds run at a time [default: one a core]; changes nothing in the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// What can be traced. What the words mean is said with the option, so that the help stays short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Trace {
    Cwnd,
    Queue,
    Mos,
}

impl Trace {
    fn traced(self) -> Traced {
        match self {
            Self::Cwnd => Traced::Cwnd,
            Self::Queue => Traced::Queue,
            Self::Mos => Traced::Mos,
        }
    }
}

/// A sample each microsecond is the finest.
fn trace_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.001..=1e9).contains(&ms) => Ok(ms),
        _ => Err("a number of milliseconds, at least 0.001, is wanted".to_owned()),
    }
}

impl RunArgs {
    /// What the options lack, taken together.
    pub(crate) fn usage_error(&self) -> Option<&'static str> {
        (self.pcap && self.out.is_none()).then_some(
            "--pcap needs --out DIR: captures are files, one a node, and belong beside the other results",
        )
    }
}

/// Runs and reports; the exit code.
///
/// # Errors
/// The scenario cannot be read or simulated, or the results cannot be written.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let overrides: Vec<Override> = args.overrides.iter().map(Override::new).collect();
    let mut loaded = choose::load(&args.scenario, &overrides)?;
    if let Some(seed) = args.seed {
        loaded.scenario.seed = seed;
    }
    let seeds = seeds(loaded.scenario.seed, args.seeds.unwrap_or(1))?;
    let total = Nanos::from_secs_f64(loaded.scenario.duration_s);
    let campaign = Campaign {
        interrupt: Interrupt::listen(),
        progress: Progress::new(Nanos(total.0.saturating_mul(seeds.len() as u64))),
        threads: args.threads.map(usize::from),
    };
    let keep = match &args.out {
        Some(path) => {
            // A scenario that cannot be simulated leaves no directory behind.
            build(&loaded, seeds[0])?;
            Some(Keep { directory: Directory::create(path)?, captures: args.pcap, several: seeds.len() > 1 })
        }
        None => None,
    };
    let tracing = Tracing::new(args)?;
    let runs = campaign
        .run_all(seeds.len(), |index| one_run(&loaded, seeds[index], &campaign, keep.as_ref(), &tracing));
    campaign.progress.clear();
    let mut traces = vec![String::new(); tracing.what.len()];
    let (mut summaries, mut tables) = (Vec::new(), Vec::new());
    for run in runs?.into_iter().flatten().flatten() {
        summaries.push(run.summary);
        tables.extend(run.tables);
        for (all, lines) in traces.iter_mut().zip(run.traces) {
            all.push_str(&lines);
        }
    }
    let runs = summaries;
    let wall_s = campaign.progress.wall().as_secs_f64();

    let interrupted = campaign.interrupt.is_requested();
    let Ok(results) = Replications::of(&runs) else {
        ui::remark(&format!(
            "ended before anything was measured: the first {} s are warm-up and are not counted",
            loaded.scenario.warmup_s
        ));
        return Ok(exit::INTERRUPTED);
    };
    if interrupted && runs.len() < seeds.len() {
        ui::remark(&format!(
            "{} of {} seeds had measured nothing yet and are left out",
            seeds.len() - runs.len(),
            seeds.len()
        ));
    }
    if let Some(keep) = &keep {
        keep.write(&loaded.scenario, &results, &tables)?;
    }
    let traced = tracing.write(&traces, keep.as_ref())?;
    if args.json {
        let wall_s = Value::from(wall_s);
        let mut object = results.entries();
        let behind = object.0.iter().position(|(key, _)| *key == "sim_s").map_or(0, |at| at + 1);
        object.0.insert(behind, ("wall_s", &wall_s));
        let mut text =
            serde_json::to_string_pretty(&object).map_err(|error| Failure::new(error.to_string(), ""))?;
        text.push('\n');
        ui::print(&text)?;
    } else {
        ui::print(&report::report(&loaded.scenario, &runs, &results))?;
        ui::remark(&speed(&runs, wall_s));
    }
    if let Some(keep) = &keep {
        ui::remark(&format!("results are in {}", keep.directory.path().display()));
    }
    for path in traced {
        ui::remark(&format!("a trace is in {}", path.display()));
    }
    let partial = runs.iter().any(|run| run.partial) || runs.len() < seeds.len();
    Ok(if partial { exit::INTERRUPTED } else { 0 })
}

/// Consecutive seeds.
fn seeds(first: u64, count: u32) -> Result<Vec<u64>, Failure> {
    let last = first.checked_add(u64::from(count) - 1).ok_or_else(|| {
        Failure::new(
            format!("there are no {count} seeds from {first} on: the largest is {}", u64::MAX),
            "choose a smaller seed",
        )
    })?;
    Ok((first..=last).collect())
}

/// Where results are kept.
struct Keep {
    directory: Directory,
    captures: bool,
    several: bool,
}

impl Keep {
    /// Begins to capture what a world sends and receives: in `pcap`, or, with several seeds, in `pcap/seed-N`.
    fn capture(&self, world: &mut World) -> Result<Option<Capture>, OutputError> {
        if !self.captures {
            return Ok(None);
        }
        let mut folder = self.directory.path().join("pcap");
        if self.several {
            folder.push(format!("seed-{}", world.seed()));
        }
        let capture = Capture::create(&folder, world)?;
        world.set_tap(capture.tap());
        Ok(Some(capture))
    }

    /// Writes the tables and the summary.
    fn write(&self, scenario: &Scenario, results: &Replications, runs: &[RunTables]) -> Result<(), Failure> {
        let meta = Meta::new(scenario).map_err(|error| Failure::new(error.to_string(), ""))?;
        tables::write(&self.directory, runs, &meta)?;
        tables::write_summary(&self.directory, results, &meta)?;
        Ok(())
    }
}

/// What is traced, and how finely.
struct Tracing {
    what: Vec<Traced>,
    interval: Nanos,
}

impl Tracing {
    /// Traces that have their place: nothing is overwritten, and that is known before anything is run.
    fn new(args: &RunArgs) -> Result<Self, Failure> {
        let mut what = args.trace.clone();
        what.sort();
        what.dedup();
        let what: Vec<Traced> = what.into_iter().map(Trace::traced).collect();
        if args.out.is_none() {
            for traced in &what {
                if Path::new(traced.file_name()).exists() {
                    return Err(Failure::new(
                        format!("{} is already there, and nothing is overwritten", traced.file_name()),
                        "move it away, or choose a directory with --out DIR",
                    ));
                }
            }
        }
        let interval =
            if what.is_empty() { Nanos::MAX } else { Nanos::from_millis_f64(args.trace_interval_ms) };
        Ok(Self { what, interval })
    }

    /// Writes the lines of all seeds; the files.
    fn write(&self, traces: &[String], keep: Option<&Keep>) -> Result<Vec<PathBuf>, OutputError> {
        let here = Directory::current();
        let directory = keep.map_or(&here, |keep| &keep.directory);
        self.what
            .iter()
            .zip(traces)
            .map(|(what, lines)| directory.write_text(what.file_name(), &format!("{}{lines}", what.header())))
            .collect()
    }
}

/// What came of one run.
struct OneRun {
    summary: Summary,
    tables: Option<RunTables>,
    traces: Vec<String>,
}

/// One world from start to end; nothing where it was ended in its warm-up. Tables are made where they will be kept.
fn one_run(
    loaded: &Loaded,
    seed: u64,
    campaign: &Campaign,
    keep: Option<&Keep>,
    tracing: &Tracing,
) -> Result<Option<OneRun>, Failure> {
    let mut world = build(loaded, seed)?;
    let capture = keep.map(|keep| keep.capture(&mut world)).transpose()?.flatten();
    let mut traces = vec![String::new(); tracing.what.len()];
    let complete = campaign.drive_watched(&mut world, tracing.interval, |world, at| {
        for (what, lines) in tracing.what.iter().zip(&mut traces) {
            what.sample(world, at, lines);
        }
    });
    for (what, lines) in tracing.what.iter().zip(&mut traces) {
        what.finish(&world, lines);
    }
    if let Some(capture) = capture {
        capture.finish()?;
    }
    let measured = complete || world.end() > world.recorder().warmup;
    Ok(measured.then(|| OneRun {
        summary: Summary::of(&world, !complete),
        tables: keep.map(|_| RunTables::collect(&world, !complete)),
        traces,
    }))
}

/// A world; what only the placed network can tell is told at its place in the scenario.
///
/// # Errors
/// It cannot be built: no route, nodes that cannot be connected.
pub(crate) fn build(loaded: &Loaded, seed: u64) -> Result<World, Failure> {
    World::new(&loaded.scenario, seed).map_err(|findings| {
        let told = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        match loaded.locate(findings) {
            Some(errors) => errors.into(),
            None => Failure::new(format!("the scenario cannot be simulated: {told}"), ""),
        }
    })
}

fn speed(runs: &[Summary], wall_s: f64) -> String {
    let simulated: f64 = runs.iter().map(|run| run.sim_s).sum();
    let frames: f64 = runs.iter().map(|run| run.frames).sum();
    format!(
        "{simulated:.1} s simulated in {wall_s:.2} s, {} times real time; {} frames on the air",
        significant(simulated / wall_s),
        whole(frames)
    )
}
