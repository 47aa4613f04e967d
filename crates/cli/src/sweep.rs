//! `fairhop sweep`: runs the plan of a sweep, and keeps what was run. `fairhop query`, `fairhop plot` and `fairhop study`
//! hand their arguments to the Python package, which has a database and a plotting library.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use fairhop_study::cluster::{Cluster, ClusterError};
use fairhop_study::executor::{Executor, Local};
use fairhop_study::optimum;
use fairhop_study::plan::{PlanError, Sweep};
use fairhop_study::store::{Store, StoreError};
use fairhop_study::sweep::{self, Figure, Progress, Report, SweepError};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Value, json};

use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::progress::{bar, duration, significant};
use crate::table::{Cell, NOTHING, Table, fixed};
use crate::{found, ui};

/// Examples of `fairhop sweep`, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop sweep plan.toml                  make the runs of a plan, and keep them in plan.runs
  fairhop sweep plan.toml --into results   keep them in a folder that several plans may share
  fairhop sweep plan.toml --cluster tcp://10.0.0.1:8786    make them on a Dask cluster
  fairhop query plan.runs \"select label, avg(mos_mean) from runs group by all\"
  fairhop plot plan.runs --x traffic.0.count --y mos_mean

What is kept is not run again. Ctrl-C and kill lose the runs in progress alone: start the sweep again.
docs/guides/sweeps.md describes plans, and docs/guides/cluster.md how to start a cluster.";

/// Examples of `fairhop query`, for its help.
pub(crate) const QUERY_EXAMPLES: &str = "\
Examples:
  fairhop query plan.runs \"select label, avg(mos_mean) from runs group by all order by all\"
  fairhop query plan.runs \"select * from flows limit 5\" --format csv

Tables: `runs`, with the keys of the plan as columns; `flows` and the other kept ones, which have `key` in common with it.
The SQL is that of DuckDB, which comes with: pip install 'fairhop[studies]'";

/// Examples of `fairhop plot`, for its help.
pub(crate) const PLOT_EXAMPLES: &str = "\
Examples:
  fairhop plot plan.runs --x traffic.0.count --y mos_mean
  fairhop plot plan.runs --x traffic.0.count --y tcp_goodput_mbps --color radio.rate_mbps --out goodput.svg";

/// Examples of `fairhop study`, for its help.
pub(crate) const STUDY_EXAMPLES: &str = "\
Examples:
  fairhop study list                     the papers and their rows
  fairhop study all                      every row, with two seeds: about ten minutes
  fairhop study kim2010 --only K-REGION  one row, with its figure
  fairhop study all --full               with ten seeds and whole searches: hours
  fairhop study adaptive                 adaptive control against the best fixed setting

The report and its tables are in out/study. What was run is kept there: after Ctrl-C the same command goes on.
The figures need matplotlib, which comes with: pip install 'fairhop[studies]'";

/// Figures in the table at the end: name, heading, digits.
const SHOWN: [(&str, &str, usize); 3] =
    [("mos_mean", "MOS", 2), ("calls_ok", "calls ok", 1), ("tcp_goodput_mbps", "TCP Mb/s", 3)];
/// More points are not printed: `fairhop query` finds the interesting ones.
const MAX_ROWS: usize = 60;

/// Arguments of `fairhop sweep`.
#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// The plan, a file in TOML
    plan: PathBuf,
    /// Folder of kept runs, which several plans may share [default: the plan's name with .runs]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Number of runs at a time [default: one per core]; does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Make the runs on a Dask cluster: the address of its scheduler, as in tcp://10.0.0.1:8786
    #[arg(long, value_name = "ADDRESS", conflicts_with = "threads")]
    cluster: Option<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Arguments that are handed to Python.
#[derive(Args, Debug)]
pub(crate) struct PythonArgs {
    /// A folder of kept runs, and what to do with it; `--help` after it lists the options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "DIR")]
    pub(crate) arguments: Vec<OsString>,
}

/// Arguments of `fairhop study`, which are handed to Python.
#[derive(Args, Debug)]
pub(crate) struct StudyArgs {
    /// `list`, `all`, `adaptive` or a paper (`kim2010`); `--help` after it lists options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "STUDY")]
    pub(crate) arguments: Vec<OsString>,
}

/// Runs the plan; returns the exit code.
///
/// # Errors
/// The plan is wrong, or a run cannot be made or kept.
pub(crate) fn sweep(args: &SweepArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let plan = Sweep::load(&args.plan)?;
    let folder = args.into.clone().unwrap_or_else(|| args.plan.with_extension("runs"));
    let stop = {
        let interrupt = interrupt.clone();
        move || interrupt.is_requested()
    };
    let _polling = interrupt.poll();
    let mut executor: Box<dyn Executor> = match &args.cluster {
        Some(address) => {
            let python = with_package("sweep --cluster", "pip install 'fairhop[cluster]'")?;
            Box::new(Cluster::connect(&python, address, &stop).map_err(SweepError::from)?)
        }
        None => Box::new(Local { threads: args.threads.map(usize::from) }),
    };
    let store = Store::open(&folder, &plan.tables)?;
    let bar = Bar::new();
    let report = sweep::sweep(&plan, &store, &mut *executor, stop, |progress| bar.show(&progress));
    bar.0.finish_and_clear();
    let report = report?;
    drop(executor);
    let text = match &plan.search {
        _ if args.json => format!("{:#}\n", json_of(&plan, &store, &report)),
        Some(search) => found::report(&plan, search, &report),
        None => table_of(&plan, &store, &report),
    };
    ui::print(&text)?;
    ui::remark(&remark(&report, &folder, plan.search.is_some()));
    Ok(if report.interrupted { exit::INTERRUPTED } else { 0 })
}

fn remark(report: &Report, folder: &Path, search: bool) -> String {
    let Progress { done, total, made, wall } = report.progress;
    let kept = done - made;
    let rate =
        report.progress.rate().map_or(String::new(), |rate| format!(", {} a second", significant(rate)));
    let missing = match total - done {
        0 => String::new(),
        missing => {
            format!("; {}{missing} are missing: start the sweep again", if search { "up to " } else { "" })
        }
    };
    format!(
        "{made} runs in {:.1} s{rate}; {kept} were there already{missing}. They are in {}",
        wall.as_secs_f64(),
        folder.display()
    )
}

/// The progress bar, shown if standard error is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let target =
            if ui::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(bar(None, target))
    }

    fn show(&self, progress: &Progress) {
        self.0.set_length(progress.total as u64);
        self.0.set_position(progress.done as u64);
        let mut text = format!("{} of {} runs", progress.done, progress.total);
        if let (Some(rate), Some(left)) = (progress.rate(), progress.left()) {
            text += &format!(", {} a second, {} left", significant(rate), duration(left.as_secs_f64()));
        }
        self.0.set_message(text);
    }
}

fn table_of(plan: &Sweep, store: &Store, report: &Report) -> String {
    // The first key heads the table, the others are columns.
    let keys: Vec<&str> =
        plan.points.first().into_iter().flat_map(|point| &point.keys).map(|(key, _)| &**key).collect();
    let mut table = Table::new(keys.first().copied().unwrap_or("Scenario"));
    for key in keys.iter().skip(1) {
        table = table.column(*key, 2);
    }
    table = table.column("runs", 1);
    for (_, heading, _) in SHOWN {
        table = table.column(heading, 1).column("±", 1);
    }
    for (index, of_point) in report.figures(store, &SHOWN.map(|(name, ..)| name), MAX_ROWS) {
        let point = &plan.points[index];
        let mut values = point.keys.iter().map(|(_, value)| plain(value));
        let head = values.next().unwrap_or_else(|| plan.points[0].loaded.scenario.name.clone());
        let mut cells: Vec<Cell> = values.map(Cell::from).collect();
        cells.push(of_point.runs.to_string().into());
        for ((.., digits), figure) in SHOWN.iter().zip(of_point.figures) {
            let cell = |value: Option<f64>| {
                value.map_or_else(|| NOTHING.into(), |value| fixed(value, *digits).into())
            };
            cells.push(cell(figure.map(|figure| figure.mean)));
            cells.push(cell(figure.and_then(|figure| figure.ci95)));
        }
        table.row(&head, cells);
    }
    let mut text = table.render();
    if plan.points.len() > MAX_ROWS {
        text += &format!("… and {} points more; `fairhop query` shows all\n", plan.points.len() - MAX_ROWS);
    }
    text
}

/// A value without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn json_of(plan: &Sweep, store: &Store, report: &Report) -> Value {
    let names = SHOWN.map(|(name, ..)| name);
    let points = report.figures(store, &names, report.points.len()).into_iter().map(|(index, of_point)| {
        let figures: serde_json::Map<String, Value> = names
            .iter()
            .zip(of_point.figures)
            .filter_map(|(name, figure)| {
                let Figure { mean, ci95, runs } = figure?;
                Some(((*name).to_owned(), json!({"mean": mean, "ci95": ci95, "runs": runs})))
            })
            .collect();
        let keys: serde_json::Map<String, Value> = report.points[index].keys.iter().cloned().collect();
        json!({"keys": keys, "figures": figures})
    });
    let mut json = json!({
        "folder": store.folder(),
        "made": report.progress.made,
        "done": report.progress.done,
        "total": report.progress.total,
        "interrupted": report.interrupted,
        "points": points.collect::<Vec<_>>(),
    });
    if let Some(search) = &plan.search {
        json["search"] = optimum::json(plan, search, &report.found);
    }
    json
}

/// Runs a command of the Python package, in place of this process where the system can do that, so that Ctrl-C reaches
/// the command alone; otherwise returns its exit code. `FAIRHOP` in its environment is the path of this program, as for
/// commands of an emulation.
///
/// # Errors
/// There is no Python with the package.
pub(crate) fn python(command: &str, arguments: &[OsString]) -> Result<u8, Failure> {
    let install = "pip install 'fairhop[studies]'";
    let python = with_package(command, install)?;
    let mut process = Command::new(&python);
    process.args(["-m", "fairhop", command]).args(arguments);
    if let Ok(program) = env::current_exe() {
        process.env("FAIRHOP", program);
    }
    replace_by(process).map_err(|error| no_package(command, &error.to_string(), install))
}

/// The Python that has the package.
///
/// # Errors
/// There is none; `install` gets it.
fn with_package(command: &str, install: &str) -> Result<PathBuf, Failure> {
    let python = interpreter();
    let probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('fairhop') is None)";
    match Command::new(&python).args(["-c", probe]).output() {
        Ok(output) if output.status.success() => Ok(python),
        Ok(_) => Err(no_package(command, &format!("{} does not have it", python.display()), install)),
        Err(_) => Err(no_package(command, "there is no python3", install)),
    }
}

fn no_package(command: &str, why: &str, install: &str) -> Failure {
    Failure::new(
        format!("`fairhop {command}` needs the Python package fairhop: {why}"),
        format!("{install} (from a clone: make wheel, then pip install with the wheel's path)"),
    )
}

/// Becomes another process; returns only if that fails.
#[cfg(unix)]
fn replace_by(mut process: Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt as _;

    Err(process.exec())
}

/// Runs another process; returns its exit code.
#[cfg(not(unix))]
fn replace_by(mut process: Command) -> std::io::Result<u8> {
    let status = process.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::INPUT))
}

/// The Python of the environment in which this program is installed, or else the one in the path.
fn interpreter() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let sibling = program.with_file_name("python3");
    if sibling.exists() { sibling } else { PathBuf::from("python3") }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Source(error) => error.into(),
            PlanError::Point { .. } => Self::new(error.to_string(), ""),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error.to_string(), error.help())
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Store(error) => error.into(),
            SweepError::Plan(error) => error.into(),
            SweepError::Cluster(ClusterError { message, help }) => Self::new(message, help),
            SweepError::Build { .. } => Self::new(error.to_string(), ""),
            SweepError::Panic { .. } => Self::bug(error.to_string()),
            SweepError::Thread(_) => Self::new(error.to_string(), "run fewer at a time: --threads 1"),
        }
    }
}
