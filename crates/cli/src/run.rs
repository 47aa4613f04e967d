//! `fairhop run`: simulates a scenario with one seed or several, and reports the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use fairhop_model::units::Nanos;
use fairhop_sim::output::capture::Capture;
use fairhop_sim::output::chart::Column;
use fairhop_sim::output::tables::{self, Meta, RunTables};
use fairhop_sim::output::trace::Traced;
use fairhop_sim::output::{Directory, OutputError};
use fairhop_sim::results::{Replications, Summary};
use fairhop_sim::scenario::{Loaded, Override, Scenario};
use fairhop_sim::world::World;
use fairhop_study::source;
use serde_json::Value;

use crate::campaign::{Campaign, Job, Observer, Outcome};
use crate::chart::ChartFile;
use crate::failure::{Failure, exit};
use crate::folder::Folder;
use crate::interrupt::Interrupt;
use crate::progress::{Progress, significant, size};
use crate::table::whole;
use crate::{choose, report, ui};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop run k-mix                             five calls and three downloads over four hops
  fairhop run k-mix --set traffic.1.count=0     the calls alone
  fairhop run k-mix --set radio.capture=none    with another collision rule
  fairhop run k-mix --seeds 10                  means and 95 % confidence intervals
  fairhop run mesh.toml --out results/mesh      your own scenario, with tables in Parquet
  fairhop run k-mix --seeds 5 --chart mix.svg   a picture over time, with the range of the seeds
  fairhop run linux-path --trace cwnd           the window every 100 ms, in cwnd.csv
  fairhop run k-mix --json | jq .totals         for other programs

Ctrl-C ends the runs and keeps their results so far; a second Ctrl-C ends the program at once.
Exit codes: 0 success, 1 wrong input or failed output, 2 wrong command line, 101 a bug, 130 ended by Ctrl-C.";

/// Arguments of `fairhop run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A file in TOML, the name of a ready-made scenario (see `fairhop scenarios`), or - for standard input
    scenario: PathBuf,
    /// Change a value of the scenario by its dotted path; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Seed of all random numbers, instead of the scenario's
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run N consecutive seeds from the scenario's on; report means and 95 % confidence intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Draw call quality and goodput over time and the airtime of each node, with the range of the seeds, into a new file that
    /// ends in .svg, .png or .html
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    /// Number of seeds that run in parallel [default: one per core]; does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Where results go, and which.
#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// Write summary.json and Parquet tables into a new directory; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With --out: also write a capture of every node for Wireshark (pcapng), in one folder per seed
    #[arg(long)]
    pub(crate) pcap: bool,
    /// Print the results as one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a time series: windows of TCP and AIMD senders (cwnd.csv), queues of nodes and wired links (queue.csv),
    /// places of moving nodes (position.csv), quality of calls (mos.csv), goodput of flows (flow.csv) or their radio hops
    /// under a routing protocol (hops.csv) in every recording interval, decisions of controllers (control.csv), changes of
    /// routes (route.csv) or times without an arrival (interruption.csv), to the directory of --out or the current one;
    /// repeatable
    #[arg(long, value_name = "WHAT", value_enum)]
    trace: Vec<Trace>,
    /// Milliseconds of simulated time between two samples of a trace
    #[arg(long, value_name = "MS", default_value_t = 100.0, value_parser = trace_interval, requires = "trace")]
    trace_interval_ms: f64,
}

/// What can be traced. The help of the option describes the values, so that it stays short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Trace {
    Cwnd,
    Queue,
    Mos,
    Flow,
    Control,
    Position,
    Route,
    Hops,
    Interruption,
}

impl Trace {
    fn traced(self) -> Traced {
        match self {
            Self::Cwnd => Traced::Cwnd,
            Self::Queue => Traced::Queue,
            Self::Mos => Traced::Mos,
            Self::Flow => Traced::Flow,
            Self::Control => Traced::Control,
            Self::Position => Traced::Position,
            Self::Route => Traced::Route,
            Self::Hops => Traced::Hops,
            Self::Interruption => Traced::Interruption,
        }
    }
}

/// The finest interval is a microsecond.
fn trace_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.001..=1e9).contains(&ms) => Ok(ms),
        _ => Err("must be a number of milliseconds, at least 0.001".to_owned()),
    }
}

impl RunArgs {
    /// What is wrong with the combination of options.
    pub(crate) fn usage_error(&self) -> Option<&'static str> {
        self.output.usage_error()
    }
}

impl OutputArgs {
    /// What is wrong with the combination of options.
    pub(crate) fn usage_error(&self) -> Option<&'static str> {
        (self.pcap && self.out.is_none())
            .then_some("--pcap needs --out DIR: captures are files, one per node, next to the other results")
    }
}

/// Runs and reports; returns the exit code.
///
/// # Errors
/// The scenario cannot be read or simulated, or the results cannot be written.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let overrides: Vec<Override> = args.overrides.iter().map(Override::new).collect();
    let mut loaded = choose::load(&args.scenario, &overrides)?;
    if let Some(seed) = args.seed {
        loaded.scenario.seed = seed;
    }
    choose::remark_on_real_traffic(&loaded);
    let seeds = seeds(loaded.scenario.seed, args.seeds.unwrap_or(1))?;
    let tracing = Tracing::new(&args.output)?;
    let chart = args.chart.as_deref().map(ChartFile::claim).transpose()?;
    let folder = args.output.out.as_deref().map(Folder::claim).transpose()?.map(Arc::new);
    if let Some(folder) = folder.clone() {
        interrupt.before_exit(move || folder.tidy());
    }
    let total = Nanos::from_secs_f64(loaded.scenario.duration_s);
    let replications = Arc::new(Replicating {
        campaign: Campaign {
            interrupt,
            progress: Progress::new(Nanos(total.0.saturating_mul(seeds.len() as u64))),
            threads: args.threads.map(usize::from),
        },
        keep: folder.map(|folder| Keep { folder, captures: args.output.pcap, several: seeds.len() > 1 }),
        tracing,
        chart,
        loaded,
        seeds,
        announced: AtomicBool::new(false),
    });
    let shared = replications.clone();
    let outcome = replications.campaign.run_all(replications.seeds.len(), move |job| shared.run(job));
    replications.campaign.progress.clear();
    let code = outcome.and_then(|outcome| replications.finish(outcome, args.output.json));
    replications.keep.iter().for_each(|keep| keep.folder.tidy());
    code
}

/// Consecutive seeds.
pub(crate) fn seeds(first: u64, count: u32) -> Result<Vec<u64>, Failure> {
    source::seeds(first, count).ok_or_else(|| {
        Failure::new(
            format!("there are no {count} seeds from {first} on: the largest is {}", u64::MAX),
            "choose a smaller seed",
        )
    })
}

/// Where results are kept.
pub(crate) struct Keep {
    pub(crate) folder: Arc<Folder>,
    pub(crate) captures: bool,
    pub(crate) several: bool,
}

impl Keep {
    /// Starts to capture what a network sends and receives: in `pcap`, or, with several seeds, in `pcap/seed-N`.
    pub(crate) fn capture(&self, world: &mut World) -> Result<Option<Capture>, OutputError> {
        if !self.captures {
            return Ok(None);
        }
        let mut folder = self.folder.directory()?.path().join("pcap");
        if self.several {
            folder.push(format!("seed-{}", world.seed()));
        }
        let capture = Capture::create(&folder, world)?;
        world.set_tap(capture.tap());
        Ok(Some(capture))
    }

    /// Writes the tables and the summary.
    pub(crate) fn write(
        &self,
        scenario: &Scenario,
        results: &Replications,
        runs: &[RunTables],
    ) -> Result<(), Failure> {
        let meta = Meta::new(scenario).map_err(|error| Failure::new(error.to_string(), ""))?;
        let directory = self.folder.directory()?;
        tables::write(&directory, runs, &meta)?;
        tables::write_summary(&directory, results, &meta)?;
        Ok(())
    }
}

/// What is traced, and how finely.
pub(crate) struct Tracing {
    pub(crate) what: Vec<Traced>,
    pub(crate) interval: Nanos,
}

impl Tracing {
    /// Traces and their interval.
    ///
    /// # Errors
    /// A file of a trace exists. This is checked before anything runs.
    pub(crate) fn new(args: &OutputArgs) -> Result<Self, Failure> {
        let mut what = args.trace.clone();
        what.sort();
        what.dedup();
        let what: Vec<Traced> = what.into_iter().map(Trace::traced).collect();
        if args.out.is_none() {
            for traced in &what {
                if Path::new(traced.file_name()).exists() {
                    return Err(Failure::new(
                        format!("{} exists, and files are never overwritten", traced.file_name()),
                        "move it away, or choose a directory with --out DIR",
                    ));
                }
            }
        }
        let interval =
            if what.is_empty() { Nanos::MAX } else { Nanos::from_millis_f64(args.trace_interval_ms) };
        Ok(Self { what, interval })
    }

    /// Writes the lines of all seeds; returns the files.
    pub(crate) fn write(&self, traces: &[String], keep: Option<&Keep>) -> Result<Vec<PathBuf>, OutputError> {
        if self.what.is_empty() {
            return Ok(Vec::new());
        }
        let directory = match keep {
            Some(keep) => keep.folder.directory()?,
            None => Directory::current(),
        };
        self.what
            .iter()
            .zip(traces)
            .map(|(what, lines)| directory.write_text(what.file_name(), &format!("{}{lines}", what.header())))
            .collect()
    }
}

/// The results of one run.
struct OneRun {
    summary: Summary,
    tables: Option<RunTables>,
    /// The run in the chart.
    column: Option<Column>,
    traces: Vec<String>,
    /// Why its captures are incomplete.
    capture_error: Option<OutputError>,
}

/// All runs of a scenario.
struct Replicating {
    loaded: Loaded,
    seeds: Vec<u64>,
    campaign: Campaign,
    keep: Option<Keep>,
    tracing: Tracing,
    chart: Option<ChartFile>,
    /// Whether the size of captures has been announced.
    announced: AtomicBool,
}

impl Replicating {
    /// One run from start to end; `None` if it was interrupted in its warm-up. Tables are made only if they are kept.
    fn run(&self, job: &Job) -> Result<Option<OneRun>, Failure> {
        let mut world = build(&self.loaded, self.seeds[job.index])?;
        if self.campaign.interrupt.is_requested() {
            return Ok(None);
        }
        if let Some(keep) = &self.keep {
            // A folder that cannot be made is an error before the run, not after it.
            keep.folder.directory()?;
        }
        let capture = self.keep.as_ref().map(|keep| keep.capture(&mut world)).transpose()?.flatten();
        let mut observed = Observed {
            replications: self,
            traces: vec![String::new(); self.tracing.what.len()],
            capture: capture.as_ref().map(Capturing::new),
        };
        let complete = self.campaign.drive(job, &mut world, &mut observed);
        let mut traces = observed.traces;
        for (what, lines) in self.tracing.what.iter().zip(&mut traces) {
            what.finish(&world, lines);
        }
        let capture_error = capture.and_then(|capture| capture.finish().err());
        let measured = complete || world.end() > world.recorder().warmup;
        Ok(measured.then(|| {
            let needed = self.keep.is_some() || self.chart.is_some();
            let tables = needed.then(|| RunTables::collect(&world, !complete));
            let title = format!("seed {}", world.seed());
            OneRun {
                summary: Summary::of(&world, !complete),
                column: tables.as_ref().filter(|_| self.chart.is_some()).map(|run| Column::of(title, run)),
                tables: tables.filter(|_| self.keep.is_some()),
                traces,
                capture_error,
            }
        }))
    }

    /// Prints the results and writes those that are kept; returns the exit code. What cannot be written does not keep
    /// the rest from being printed and written.
    fn finish(&self, outcome: Outcome<Option<OneRun>>, as_json: bool) -> Result<u8, Failure> {
        let Outcome { results: runs, panics } = outcome;
        let scenario = &self.loaded.scenario;
        let mut failures: Vec<Failure> =
            panics.iter().map(|(index, text)| bug(&scenario.name, self.seeds[*index], text)).collect();
        let mut traces = vec![String::new(); self.tracing.what.len()];
        let (mut summaries, mut tables, mut capture_error) = (Vec::new(), Vec::new(), None);
        let mut columns = Vec::new();
        for run in runs.into_iter().flatten().flatten() {
            summaries.push(run.summary);
            tables.extend(run.tables);
            columns.extend(run.column);
            capture_error = capture_error.or(run.capture_error);
            for (all, lines) in traces.iter_mut().zip(run.traces) {
                all.push_str(&lines);
            }
        }
        let runs = summaries;
        let wall_s = self.campaign.progress.wall().as_secs_f64();
        let interrupted = self.campaign.interrupt.is_requested();
        let Ok(results) = Replications::of(&runs) else {
            if failures.is_empty() {
                ui::remark(&format!(
                    "interrupted before the end of the warm-up ({} s): no results",
                    scenario.warmup_s
                ));
            }
            return Ok(end(&failures, exit::INTERRUPTED));
        };
        let missing = self.seeds.len() - runs.len() - panics.len();
        if interrupted && missing > 0 {
            ui::remark(&format!(
                "{missing} of {} seeds had no results yet and are left out",
                self.seeds.len()
            ));
        }

        failures.extend(
            if as_json { print_json(&results, wall_s) } else { self.print_report(&runs, &results) }.err(),
        );
        if !as_json {
            ui::remark(&speed(&runs, wall_s));
        }
        if let Some(error) = capture_error {
            ui::remark("the captures are incomplete; all other results count the whole run");
            failures.push(error.into());
        }
        if let Some(keep) = &self.keep {
            match keep.write(scenario, &results, &tables) {
                Ok(()) => ui::remark(&format!("results are in {}", keep.folder.path().display())),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some(chart) = &self.chart {
            match chart.write(scenario, &columns, &runs, || report::report(scenario, &runs, &results)) {
                Ok(()) => ui::remark(&format!("a chart is in {}", chart.path().display())),
                Err(failure) => failures.push(failure),
            }
        }
        match self.tracing.write(&traces, self.keep.as_ref()) {
            Ok(paths) => {
                for path in paths {
                    ui::remark(&format!("a trace is in {}", path.display()));
                }
            }
            Err(error) => failures.push(error.into()),
        }
        let partial = runs.iter().any(|run| run.partial) || missing > 0;
        Ok(end(&failures, if partial { exit::INTERRUPTED } else { 0 }))
    }

    fn print_report(&self, runs: &[Summary], results: &Replications) -> Result<(), Failure> {
        ui::print(&report::report(&self.loaded.scenario, runs, results))
    }
}

/// Prints the failures; returns their exit code, or `otherwise` if there are none.
pub(crate) fn end(failures: &[Failure], otherwise: u8) -> u8 {
    failures.iter().for_each(ui::complain);
    failures.iter().map(Failure::code).max().unwrap_or(otherwise)
}

/// What a panic in one run is reported as.
pub(crate) fn bug(scenario: &str, seed: u64, text: &str) -> Failure {
    Failure::bug(format!("the run of scenario \"{scenario}\" with seed {seed} panicked: {text}"))
}

pub(crate) fn print_json(results: &Replications, wall_s: f64) -> Result<(), Failure> {
    let wall_s = Value::from(wall_s);
    let mut object = results.entries();
    let behind = object.0.iter().position(|(key, _)| *key == "sim_s").map_or(0, |at| at + 1);
    object.0.insert(behind, ("wall_s", &wall_s));
    let mut text =
        serde_json::to_string_pretty(&object).map_err(|error| Failure::new(error.to_string(), ""))?;
    text.push('\n');
    ui::print(&text)
}

/// Traces and the size of captures, from slice to slice.
struct Observed<'a> {
    replications: &'a Replicating,
    traces: Vec<String>,
    capture: Option<Capturing<'a>>,
}

impl Observer for Observed<'_> {
    fn interval(&self) -> Nanos {
        self.replications.tracing.interval
    }

    fn sample(&mut self, world: &World, at: Nanos) {
        for (what, lines) in self.replications.tracing.what.iter().zip(&mut self.traces) {
            what.sample(world, at, lines);
        }
    }

    fn after_slice(&mut self, now: Nanos, _step: Nanos) {
        let Some(capture) = &mut self.capture else { return };
        let Replicating { campaign, loaded, seeds, announced, .. } = self.replications;
        campaign.progress.captured(capture.step());
        if let Some(text) = capture.estimate(now, &loaded.scenario, seeds.len())
            && !announced.swap(true, Ordering::Relaxed)
        {
            campaign.progress.remark(&text);
        }
    }
}

/// The size of a capture.
struct Capturing<'a> {
    capture: &'a Capture,
    bytes: u64,
    /// Bytes before the first traffic, and when that was.
    quiet: Option<(u64, Nanos)>,
    estimated: bool,
}

/// Simulated time with traffic from which the size of captures is estimated.
const ESTIMATE_FROM: Nanos = Nanos::from_secs(1);
/// Smaller captures are not announced.
const ANNOUNCED_BYTES: f64 = 50e6;

impl<'a> Capturing<'a> {
    fn new(capture: &'a Capture) -> Self {
        Self { capture, bytes: 0, quiet: None, estimated: false }
    }

    /// Bytes captured since the last call.
    fn step(&mut self) -> u64 {
        let bytes = self.capture.captured_bytes();
        bytes - std::mem::replace(&mut self.bytes, bytes)
    }

    /// What to say about the size of the captures of all `runs`: once, after the first second with traffic, and only if
    /// they become large.
    fn estimate(&mut self, now: Nanos, scenario: &Scenario, runs: usize) -> Option<String> {
        if self.estimated {
            return None;
        }
        let starts = scenario.traffic.iter().map(|traffic| traffic.times().0).fold(f64::INFINITY, f64::min);
        let (before, since) = *self.quiet.get_or_insert((self.bytes, Nanos::ZERO));
        if now.as_secs_f64() < starts {
            self.quiet = Some((self.bytes, now));
            return None;
        }
        let span = now.saturating_sub(since);
        if span < ESTIMATE_FROM {
            return None;
        }
        self.estimated = true;
        let rate = (self.bytes - before) as f64 / span.as_secs_f64();
        let left = scenario.duration_s - since.as_secs_f64();
        announcement(rate, left * runs as f64)
    }
}

/// The remark on captures that grow by `rate` bytes a second for `seconds`.
fn announcement(rate: f64, seconds: f64) -> Option<String> {
    let bytes = rate * seconds;
    (bytes >= ANNOUNCED_BYTES).then(|| {
        format!("--pcap: the captures will take about {} ({} per simulated second)", size(bytes), size(rate))
    })
}

/// The network of a scenario.
///
/// # Errors
/// It cannot be built: no route, nodes that cannot be connected.
pub(crate) fn build(loaded: &Loaded, seed: u64) -> Result<World, Failure> {
    Ok(source::build(loaded, seed)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_captures_are_announced_with_their_size_and_small_ones_are_not() {
        assert_eq!(announcement(4e6, 10.0), None);
        assert_eq!(
            announcement(65e6, 20.0).as_deref(),
            Some("--pcap: the captures will take about 1.3 GB (65 MB per simulated second)")
        );
    }

    #[test]
    fn a_panic_is_reported_with_scenario_and_seed_and_has_its_own_exit_code() {
        let failure = bug("mesh", 7, "index out of bounds");
        let text = failure.diagnostics().next().map(ToString::to_string);
        let expected = "the run of scenario \"mesh\" with seed 7 panicked: index out of bounds";
        assert_eq!((text.as_deref(), failure.code()), (Some(expected), exit::BUG));
    }
}
