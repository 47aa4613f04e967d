//! Sweeps: the runs of a plan that are not kept yet, and the runs that a cluster makes for a sweep elsewhere.

use std::path::PathBuf;

use fairhop_study::cluster::{self, Cluster, ClusterError};
use fairhop_study::executor::{Executor, Local};
use fairhop_study::optimum;
use fairhop_study::plan::{PlanError, Sweep};
use fairhop_study::source::{Source, SourceError};
use fairhop_study::store::{ENGINE, Store};
use fairhop_study::sweep::{self, SweepError};
use pyo3::exceptions::{PyConnectionError, PyFileNotFoundError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::scenario::{ScenarioError, impossible, wrong};
use crate::shared::Shared;

/// Makes the runs of a plan that are not kept in `into`. Returns the number of runs that exist, of all, and of those made
/// now; and what the plan's search has found, in JSON. `progress(done, total, made, left_s)` is called some times a second.
/// With `cluster`, an address and the path of this Python, the runs are made on a Dask cluster.
#[pyfunction]
#[pyo3(name = "sweep", signature = (name, text, folder, into, *, threads=None, cluster=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords of a function of Python")]
pub(crate) fn make_runs(
    py: Python<'_>,
    name: String,
    text: String,
    folder: PathBuf,
    into: PathBuf,
    threads: Option<usize>,
    cluster: Option<(String, PathBuf)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(usize, usize, usize, Option<String>)> {
    let source = Source { name: format!("{name}.toml"), text, folder };
    let plan = py.detach(|| Sweep::of(&source, name)).map_err(|error| no_plan(py, &error))?;
    let shared = Shared::default();
    let mut executor: Box<dyn Executor + Send> = match cluster {
        Some((address, python)) => {
            let stop = || {
                shared.watch(|_| Ok(()));
                shared.stop()()
            };
            let cluster = py.detach(|| Cluster::connect(&python, &address, stop));
            if let Some(error) = shared.take_error() {
                return Err(error);
            }
            Box::new(cluster.map_err(|error| unreachable(&error))?)
        }
        None => Box::new(Local { threads }),
    };
    let store = py
        .detach(|| Store::open(&into, &plan.tables))
        .map_err(|error| PyOSError::new_err(error.to_string()))?;
    let waiting = |now: sweep::Progress| {
        shared.watch(|py| {
            let Some(progress) = &progress else { return Ok(()) };
            let left_s = now.left().map(|left| left.as_secs_f64());
            progress.call1(py, (now.done, now.total, now.made, left_s)).map(drop)
        });
    };
    let report = py
        .detach(|| {
            let report = sweep::sweep(&plan, &store, &mut *executor, shared.stop(), waiting);
            drop(executor);
            report
        })
        .map_err(|error| failed(py, &error))?;
    match shared.take_error() {
        Some(error) => Err(error),
        None => {
            let found =
                plan.search.as_ref().map(|search| optimum::json(&plan, search, &report.found).to_string());
            Ok((report.progress.done, report.progress.total, report.progress.made, found))
        }
    }
}

fn unreachable(error: &ClusterError) -> PyErr {
    let help = if error.help.is_empty() { String::new() } else { format!("\n  help: {}", error.help) };
    PyConnectionError::new_err(format!("{error}{help}"))
}

fn no_plan(py: Python<'_>, error: &PlanError) -> PyErr {
    match error {
        PlanError::Source(SourceError::Wrong(errors)) => wrong(py, errors),
        PlanError::Source(SourceError::Unavailable(error)) => PyFileNotFoundError::new_err(error.to_string()),
        PlanError::Point { .. } => ScenarioError::new_err(error.to_string()),
    }
}

fn failed(py: Python<'_>, error: &SweepError) -> PyErr {
    match error {
        SweepError::Store(store) => PyOSError::new_err(format!("{error}\n  help: {}", store.help())),
        SweepError::Build { source, .. } => impossible(py, source),
        SweepError::Plan(error) => no_plan(py, error),
        SweepError::Cluster(error) => unreachable(error),
        SweepError::Panic { .. } | SweepError::Thread(_) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Makes the run of a job: the files of its tables, `runs` last.
#[pyfunction]
pub(crate) fn work<'py>(
    py: Python<'py>,
    scenario: &str,
    seed: u64,
    key: &str,
    tables: Vec<String>,
) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
    let files = py
        .detach(|| cluster::work(scenario, seed, key, &tables))
        .map_err(|error| ScenarioError::new_err(error.to_string()))?;
    Ok(files.tables.into_iter().map(|(table, bytes)| (table, PyBytes::new(py, &bytes))).collect())
}

/// The fingerprint of the engine: runs of equal fingerprints are equal.
#[pyfunction]
pub(crate) fn engine() -> &'static str {
    ENGINE
}
