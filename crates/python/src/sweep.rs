//! Sweeps: the runs of a plan that are not kept yet.

use std::path::PathBuf;
use std::sync::Arc;

use fairhop_study::plan::{PlanError, Sweep};
use fairhop_study::source::{Source, SourceError};
use fairhop_study::store::Store;
use fairhop_study::sweep::{self, SweepError};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::scenario::{ScenarioError, impossible, wrong};
use crate::shared::Shared;

/// Makes the runs of a plan that are not kept in `into`. Returns the number of runs that exist, of all, and of those made
/// now. `progress(done, total, made, left_s)` is called some times a second.
#[pyfunction]
#[pyo3(name = "sweep", signature = (name, text, folder, into, *, threads=None, progress=None))]
pub(crate) fn make_runs(
    py: Python<'_>,
    name: String,
    text: String,
    folder: PathBuf,
    into: PathBuf,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(usize, usize, usize)> {
    let source = Source { name: format!("{name}.toml"), text, folder };
    let plan = py.detach(|| Sweep::of(&source, name)).map_err(|error| no_plan(py, &error))?;
    let plan = Arc::new(plan);
    let store = py
        .detach(|| Store::open(&into, &plan.tables))
        .map_err(|error| PyOSError::new_err(error.to_string()))?;
    let shared = Shared::default();
    let waiting = |now: sweep::Progress| {
        shared.watch(|py| {
            let Some(progress) = &progress else { return Ok(()) };
            let left_s = now.left().map(|left| left.as_secs_f64());
            progress.call1(py, (now.done, now.total, now.made, left_s)).map(drop)
        });
    };
    let report = py
        .detach(|| sweep::sweep(&plan, &store, threads, shared.stop(), waiting))
        .map_err(|error| failed(py, &error))?;
    match shared.take_error() {
        Some(error) => Err(error),
        None => Ok((report.progress.done, report.progress.total, report.progress.made)),
    }
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
        SweepError::Panic { .. } | SweepError::Thread(_) => PyRuntimeError::new_err(error.to_string()),
    }
}
