//! A table of the results of several runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairhop_sim::output::columns;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Batch, Form, STREAM, Stream};

/// A table: one batch of columns a run. Libraries take it over the Arrow PyCapsule interface, without a copy.
#[pyclass(frozen, module = "fairhop._native")]
pub(crate) struct Table {
    name: &'static str,
    about: &'static str,
    descriptions: BTreeMap<String, String>,
    form: Arc<Form>,
    batches: Vec<Arc<Batch>>,
}

impl Table {
    /// The tables of runs, by name. Each run has the same tables.
    pub(crate) fn all(runs: Vec<Vec<columns::Table>>) -> BTreeMap<&'static str, Self> {
        let mut tables: BTreeMap<&'static str, Self> = BTreeMap::new();
        for table in runs.into_iter().flatten() {
            let entry = tables.entry(table.name).or_insert_with(|| Self {
                name: table.name,
                about: table.about,
                descriptions: table
                    .columns
                    .iter()
                    .map(|column| (column.name.to_string(), column.about.to_string()))
                    .collect(),
                form: Arc::new(Form::of(&table)),
                batches: Vec::new(),
            });
            entry.batches.push(Arc::new(Batch::of(table)));
        }
        tables
    }
}

#[pymethods]
impl Table {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.name
    }

    /// What a row is.
    #[getter]
    fn about(&self) -> &str {
        self.about
    }

    /// What the columns are, by name.
    #[getter]
    fn descriptions(&self) -> BTreeMap<String, String> {
        self.descriptions.clone()
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows()).sum()
    }

    /// The rows as an Arrow stream. Another schema is not offered: the request is ignored, as the interface permits.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new_with_value(py, Stream::new(self.form.clone(), self.batches.clone()), STREAM)
    }
}
