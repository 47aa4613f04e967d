//! Runs of a scenario with several seeds, on all cores. The interpreter is released; Ctrl-C ends the runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairhop_model::units::Nanos;
use fairhop_sim::output::chart::{self, Column, Options};
use fairhop_sim::output::columns;
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::{Replications, Summary};
use fairhop_study::campaign::{Campaign, CampaignError, Job, Observer, drive};
use fairhop_study::source::{self, BuildError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::control::PyController;
use crate::scenario::{Scenario, impossible};
use crate::shared::Shared;
use crate::table::Table;

/// What runs left: all of it, or as much as there was at their end.
#[pyclass(module = "fairhop._native")]
pub(crate) struct Outcome {
    /// What `fairhop run --json` prints; none if nothing was measured.
    #[pyo3(get)]
    summary: Option<String>,
    tables: Option<BTreeMap<&'static str, Table>>,
    /// The picture of the first run as SVG.
    #[pyo3(get)]
    chart: Option<String>,
    /// Seeds of runs that reached their end.
    #[pyo3(get)]
    complete: Vec<u64>,
    /// Why the runs were ended early: a controller's exception, or KeyboardInterrupt.
    #[pyo3(get)]
    error: Option<Py<PyAny>>,
}

#[pymethods]
impl Outcome {
    /// The tables by name. They can be taken once.
    fn take_tables(&mut self) -> BTreeMap<&'static str, Table> {
        self.tables.take().unwrap_or_default()
    }
}

/// What one run left.
struct Done {
    summary: Summary,
    tables: Vec<columns::Table>,
    chart: Option<Column>,
    complete: bool,
}

/// Counts simulated time.
struct Progress(Arc<AtomicU64>);

impl Observer for Progress {
    fn after_slice(&mut self, _now: Nanos, step: Nanos) {
        self.0.fetch_add(step.0, Ordering::Relaxed);
    }
}

/// Runs a scenario with seeds. `progress(simulated_s, total_s)` is called some times a second.
#[pyfunction]
#[pyo3(signature = (scenario, seeds, *, threads=None, control=None, progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    seeds: Vec<u64>,
    threads: Option<usize>,
    control: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    if seeds.is_empty() || threads == Some(0) {
        return Err(PyValueError::new_err("seeds and threads must be at least 1"));
    }
    let loaded = match &control {
        // Its pacers carry out what the controller asks for.
        Some(_) => scenario.changed(py, "control={kind=\"adaptive\"}")?.loaded,
        None => scenario.loaded.clone(),
    };
    let shared = Shared::default();
    let simulated = Arc::new(AtomicU64::new(0));
    let total_s = loaded.scenario.duration_s * seeds.len() as f64;
    let job = {
        let (loaded, seeds, shared) = (loaded.clone(), seeds.clone(), shared.clone());
        let (simulated, control) = (simulated.clone(), control.map(Arc::new));
        move |job: &Job| one(job, &loaded, seeds[job.index], control.as_deref(), &shared, simulated.clone())
    };
    let waiting = || {
        shared.watch(|py| {
            let Some(progress) = &progress else { return Ok(()) };
            let simulated_s = Nanos(simulated.load(Ordering::Relaxed)).as_secs_f64();
            progress.call1(py, (simulated_s, total_s)).map(drop)
        });
    };
    let campaign = Campaign { stop: shared.stop(), threads };
    let done = py.detach(|| campaign.run_all(seeds.len(), waiting, job)).map_err(|error| match error {
        CampaignError::Job(error) => impossible(py, &error),
        CampaignError::Thread(_) => PyRuntimeError::new_err("cannot start a thread; try threads=1"),
    })?;
    if let Some((index, message)) = done.panics.first() {
        return Err(PyRuntimeError::new_err(format!(
            "the run of scenario {:?} with seed {} panicked: {message}\n  help: this is a bug in fairhop: please report \
             it, with the scenario and the seed",
            loaded.scenario.name, seeds[*index]
        )));
    }
    let error = shared.take_error().map(|error| error.into_value(py).into_any());
    let warmup_s = loaded.scenario.warmup_s;
    let name = loaded.scenario.name.clone();
    Ok(py.detach(move || {
        outcome(done.results.into_iter().flatten().flatten().collect(), name, warmup_s, error)
    }))
}

/// One run; none if it ended in its warm-up.
fn one(
    job: &Job,
    loaded: &fairhop_sim::scenario::Loaded,
    seed: u64,
    control: Option<&Py<PyAny>>,
    shared: &Shared,
    simulated: Arc<AtomicU64>,
) -> Result<Option<Done>, BuildError> {
    let mut world = source::build(loaded, seed)?;
    if let Some(given) = control {
        world.set_controllers(|node| Box::new(PyController::new(given, node, shared.clone())));
    }
    let complete = drive(job, &mut world, shared.stop(), &mut Progress(simulated));
    if !complete && world.end() <= world.recorder().warmup {
        return Ok(None);
    }
    let summary = Summary::of(&world, !complete);
    let tables = RunTables::collect(&world, !complete);
    drop(world);
    let chart = (job.index == 0).then(|| Column::of(format!("seed {seed}"), &tables));
    Ok(Some(Done { summary, tables: tables.into_columns(), chart, complete }))
}

fn outcome(done: Vec<Done>, title: String, warmup_s: f64, error: Option<Py<PyAny>>) -> Outcome {
    let complete = done.iter().filter(|run| run.complete).flat_map(|run| run.summary.seeds.clone()).collect();
    let (mut summaries, mut tables, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for run in done {
        summaries.push(run.summary);
        tables.push(run.tables);
        columns.extend(run.chart);
    }
    let summary =
        Replications::of(&summaries).ok().and_then(|all| serde_json::to_string(&all.entries()).ok());
    let options = Options { title, flow_word: "flow".to_owned(), warmup_s, ..Options::default() };
    let chart = (!columns.is_empty()).then(|| chart::comparison(&columns, &options));
    Outcome { summary, tables: Some(Table::all(tables)), chart, complete, error }
}
