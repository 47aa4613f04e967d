//! Scenarios: text with changes, checked. A change is what `--set` of the program takes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairhop_sim::output::tables::Meta;
use fairhop_sim::scenario::{self, Loaded, Override, Problem, ScenarioErrors};
use fairhop_study::source::{BuildError, Source, Unavailable};
use pyo3::create_exception;
use pyo3::exceptions::{PyFileNotFoundError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

create_exception!(
    fairhop,
    ScenarioError,
    PyValueError,
    "A scenario that is wrong or cannot be simulated. `problems` lists what is wrong and where."
);

/// A checked scenario: a text and changes to it.
#[pyclass(frozen, module = "fairhop._native")]
pub(crate) struct Scenario {
    source: Source,
    overrides: Vec<Override>,
    pub(crate) loaded: Arc<Loaded>,
}

impl Scenario {
    fn new(py: Python<'_>, source: Source, overrides: Vec<Override>) -> PyResult<Self> {
        let loaded = py.detach(|| source.load(&overrides)).map_err(|errors| wrong(py, &errors))?;
        Ok(Self { source, overrides, loaded: Arc::new(loaded) })
    }

    /// The scenario with one more change.
    pub(crate) fn changed(&self, py: Python<'_>, change: &str) -> PyResult<Self> {
        let mut overrides = self.overrides.clone();
        overrides.push(Override::new(change));
        Self::new(py, self.source.clone(), overrides)
    }
}

#[pymethods]
impl Scenario {
    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let source = py.detach(|| Source::file(&path)).map_err(|error| unavailable(&error))?;
        Self::new(py, source, Vec::new())
    }

    /// A ready-made scenario.
    #[staticmethod]
    fn ready(py: Python<'_>, name: &str) -> PyResult<Self> {
        let source = Source::ready_made(name).map_err(|error| unavailable(&error))?;
        Self::new(py, source, Vec::new())
    }

    /// Reads a text. `folder` is what paths in it are relative to.
    #[staticmethod]
    fn from_text(py: Python<'_>, name: String, text: String, folder: PathBuf) -> PyResult<Self> {
        Self::new(py, Source { name, text, folder }, Vec::new())
    }

    /// The scenario with more changes, each as in `--set PATH=VALUE`.
    fn with_changes(&self, py: Python<'_>, changes: Vec<String>) -> PyResult<Self> {
        let overrides =
            self.overrides.iter().cloned().chain(changes.into_iter().map(Override::new)).collect();
        Self::new(py, self.source.clone(), overrides)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.scenario.name
    }

    /// The first seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.loaded.scenario.seed
    }

    /// Duration of a run in seconds.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.loaded.scenario.duration_s
    }

    /// Warm-up in seconds, which is not measured.
    #[getter]
    fn warmup_s(&self) -> f64 {
        self.loaded.scenario.warmup_s
    }

    /// The name of the text in errors.
    #[getter]
    fn source(&self) -> &str {
        &self.source.name
    }

    /// The folder to which paths in the text are relative.
    #[getter]
    fn folder(&self) -> &Path {
        &self.source.folder
    }

    /// The text without the changes.
    #[getter]
    fn text(&self) -> &str {
        &self.source.text
    }

    /// The changes.
    #[getter]
    fn changes(&self) -> Vec<&str> {
        self.overrides.iter().map(Override::text).collect()
    }

    /// What to check before results are trusted.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.loaded.warnings().iter().map(describe).collect()
    }

    /// The scenario with its changes and all defaults, as TOML.
    fn resolved(&self) -> PyResult<String> {
        let meta =
            Meta::new(&self.loaded.scenario).map_err(|error| ScenarioError::new_err(error.to_string()))?;
        Ok(meta.scenario().to_owned())
    }
}

/// Names and titles of the ready-made scenarios.
#[pyfunction]
pub(crate) fn ready_made() -> Vec<(&'static str, &'static str)> {
    scenario::library().iter().map(|ready| (ready.name, ready.title())).collect()
}

/// One line, and the help below it.
fn describe(problem: &Problem) -> String {
    let (line, column) = problem.line_column();
    let help =
        if problem.help().is_empty() { String::new() } else { format!("\n  help: {}", problem.help()) };
    format!("{}:{line}:{column}: {}{help}", problem.source_name(), problem.message())
}

/// The exception for errors at places in the text.
pub(crate) fn wrong(py: Python<'_>, errors: &ScenarioErrors) -> PyErr {
    let exception = ScenarioError::new_err(errors.to_string());
    let attach = || -> PyResult<()> {
        let problems = PyList::empty(py);
        for problem in errors.problems() {
            let (line, column) = problem.line_column();
            let entry = PyDict::new(py);
            entry.set_item("message", problem.message())?;
            entry.set_item("help", problem.help())?;
            entry.set_item("source", problem.source_name())?;
            entry.set_item("line", line)?;
            entry.set_item("column", column)?;
            problems.append(entry)?;
        }
        exception.value(py).setattr("problems", problems)
    };
    attach().err().unwrap_or(exception)
}

fn unavailable(error: &Unavailable) -> PyErr {
    PyFileNotFoundError::new_err(error.to_string())
}

/// The exception for a network that cannot be built.
pub(crate) fn impossible(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Wrong(errors) => wrong(py, errors),
        BuildError::Other(_) => ScenarioError::new_err(error.to_string()),
    }
}
