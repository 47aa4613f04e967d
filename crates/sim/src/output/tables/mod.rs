//! Tables: all measurements as Parquet files with a row for each flow, node, interval or bucket, and `summary.json` with
//! the means over the seeds.
//!
//! The rows of several seeds follow each other; the column `seed` distinguishes them. Times are seconds of simulated time.
//! A row of a series covers the interval that ends at `t_s`; a state in it is the state at `t_s`, so that series of one run
//! can be joined on `t_s`. Counts begin at the end of the warm-up unless their description says "interval". A value that
//! does not exist is null, never zero or NaN.
//!
//! The metadata of every file: `fairhop.version`, `fairhop.scenario` (the resolved scenario as TOML), `fairhop.seeds`,
//! `fairhop.partial_seeds` (runs that were ended early), `fairhop.table` and `fairhop.columns` (descriptions of the rows
//! and columns).

mod collect;
mod rows;

use std::io::Write as _;
use std::path::PathBuf;

pub use super::table::Seed;
use super::table::{self, Row};
use super::{Directory, OutputError};
use crate::results::Replications;
use crate::scenario::Scenario;
pub use rows::{
    ControlRow, DelayRow, FlowRow, FlowSeriesRow, FrameLossRow, LinkRow, NodeRow, NodeSeriesRow, ReceiverRow,
    TcpSeriesRow,
};

/// The tables of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTables {
    /// Seed of the run.
    pub seed: u64,
    /// Whether the run was ended early.
    pub partial: bool,
    /// Rows of `control.parquet`.
    pub control: Vec<ControlRow>,
    /// Rows of `flows.parquet`.
    pub flows: Vec<FlowRow>,
    /// Rows of `flow_series.parquet`.
    pub flow_series: Vec<FlowSeriesRow>,
    /// Rows of `tcp_series.parquet`.
    pub tcp_series: Vec<TcpSeriesRow>,
    /// Rows of `nodes.parquet`.
    pub nodes: Vec<NodeRow>,
    /// Rows of `links.parquet`.
    pub links: Vec<LinkRow>,
    /// Rows of `frame_losses.parquet`.
    pub frame_losses: Vec<FrameLossRow>,
    /// Rows of `node_series.parquet`.
    pub node_series: Vec<NodeSeriesRow>,
    /// Rows of `delays.parquet`.
    pub delays: Vec<DelayRow>,
    /// Rows of `receivers.parquet`.
    pub receivers: Vec<ReceiverRow>,
}

/// Metadata of every file: the scenario of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    scenario: String,
    resolved: serde_json::Value,
    /// Messages of [`Scenario::warnings`]; `null` if there are none.
    warnings: serde_json::Value,
}

impl Meta {
    /// Metadata for runs of this scenario.
    ///
    /// # Errors
    /// The scenario has a number that TOML or JSON cannot represent.
    pub fn new(scenario: &Scenario) -> Result<Self, MetaError> {
        Ok(Self {
            scenario: toml::to_string(scenario).map_err(|error| MetaError(error.to_string()))?,
            resolved: serde_json::to_value(scenario).map_err(|error| MetaError(error.to_string()))?,
            warnings: match &scenario.warnings()[..] {
                [] => serde_json::Value::Null,
                warnings => warnings.iter().map(|warning| warning.message.as_str()).collect(),
            },
        })
    }

    /// The resolved scenario as TOML.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }
}

/// The error of a scenario that cannot be serialized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scenario cannot be written into results: {0}")]
pub struct MetaError(String);

/// Writes the tables of runs of one scenario, one file per table. Returns the files in the order of their names.
///
/// # Errors
/// A file exists or cannot be written.
pub fn write(directory: &Directory, runs: &[RunTables], meta: &Meta) -> Result<Vec<PathBuf>, OutputError> {
    let seeds = |runs: &mut dyn Iterator<Item = &RunTables>| {
        serde_json::Value::from(runs.map(|run| run.seed).collect::<Vec<_>>()).to_string()
    };
    let mut metadata = vec![
        ("fairhop.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("fairhop.scenario", meta.scenario.clone()),
        ("fairhop.seeds", seeds(&mut runs.iter())),
        ("fairhop.partial_seeds", seeds(&mut runs.iter().filter(|run| run.partial))),
    ];
    if !meta.warnings.is_null() {
        metadata.push(("fairhop.warnings", meta.warnings.to_string()));
    }
    fn file<'a, R: Row>(
        directory: &Directory,
        rows: impl Iterator<Item = &'a R>,
        metadata: &[(&str, String)],
    ) -> Result<PathBuf, OutputError> {
        directory.write(&format!("{}.parquet", R::TABLE), |out| table::write(out, rows, metadata))
    }
    Ok(vec![
        file(directory, runs.iter().flat_map(|run| &run.control), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.delays), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.flow_series), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.flows), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.frame_losses), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.links), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.node_series), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.nodes), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.receivers), &metadata)?,
        file(directory, runs.iter().flat_map(|run| &run.tcp_series), &metadata)?,
    ])
}

/// Writes `summary.json`: the means over the seeds and their intervals as `--json` prints them, without wall-clock times,
/// the resolved scenario under `resolved_scenario`, and its warnings, if there are any, under `warnings`.
///
/// # Errors
/// The file exists or cannot be written.
pub fn write_summary(
    directory: &Directory,
    replications: &Replications,
    meta: &Meta,
) -> Result<PathBuf, OutputError> {
    let mut summary = replications.entries();
    summary.0.push(("resolved_scenario", &meta.resolved));
    if !meta.warnings.is_null() {
        summary.0.push(("warnings", &meta.warnings));
    }
    directory.write("summary.json", |file| {
        serde_json::to_writer_pretty(&mut *file, &summary)?;
        file.write_all(b"\n")
    })
}
