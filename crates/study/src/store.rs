//! Kept runs: a folder of Parquet files that survives interruptions and is shared by any number of sweeps.
//!
//! ```text
//! DIR/runs/KEY.parquet        the figures of a run: one row
//! DIR/flows/KEY.parquet       its flows, and so for every other table that is kept
//! DIR/plans/NAME-HASH.parquet which runs a plan consists of, with the values of its keys
//! DIR/.unfinished/            files that are being written
//! ```
//! KEY is a hash of the resolved scenario, the seed and the engine ([`ENGINE`]): equal keys are equal runs. A file is
//! written under a name of its own, synchronized, and renamed: a reader sees all of it or nothing, and a process that is
//! killed leaves at most a file in `.unfinished`. The file in `runs` is the last one of a run: where it exists, the run
//! is complete. Two processes that write the same run write the same bytes, and one of them wins.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairhop_sim::output::columns::{Column, Table, Values};
use fairhop_sim::output::tables::{Meta, MetaError, RunTables};
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::Scenario;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::plan::{Point, Sweep, named};
use crate::source::reason;

/// Fingerprint of the engine: a hash of its sources.
pub const ENGINE: &str = env!("FAIRHOP_ENGINE");

/// The figures of the table `runs`, beside key, scenario and seed.
pub const FIGURES: [&str; 9] = [
    "sim_s",
    "frames",
    "mos_mean",
    "mos_min",
    "calls_ok",
    "calls_clear",
    "tcp_goodput_mbps",
    "udp_goodput_mbps",
    "jain",
];

/// Names the temporary files of this process apart.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

/// A run could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} {}: {}", path.display(), reason(source))]
    Io {
        /// What was tried, as in "write".
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The scenario cannot be written.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A table has no form as a Parquet file.
    #[error("cannot encode a table: {0}")]
    Encoding(io::Error),
}

impl StoreError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// How to fix it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and start the sweep again: the runs so far are kept"
            }
            Self::Io { .. } => "write to a folder that is yours; the runs so far are kept",
            Self::Meta(_) | Self::Encoding(_) => "",
        }
    }
}

/// The name of a run's files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of a scenario with a seed.
    ///
    /// # Errors
    /// The scenario has a number that TOML cannot represent.
    pub fn of(scenario: &Scenario, seed: u64) -> Result<Self, StoreError> {
        Ok(Self(hash(&[ENGINE, &resolved(scenario, seed)?])))
    }

    /// As text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// FNV-1a with 128 bits of texts and their lengths.
fn hash(texts: &[&str]) -> String {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for text in texts {
        for byte in (text.len() as u64).to_le_bytes().iter().chain(text.as_bytes()) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    format!("{hash:032x}")
}

/// The files of a run, which a [`Store`] keeps. Equal runs have equal files, wherever they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The name of the run's files.
    pub key: Key,
    /// Table and Parquet file; `runs` is the last one.
    pub tables: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// Those of a run: its figures, and of its tables those that are `wanted`.
    ///
    /// # Errors
    /// The scenario or a table cannot be written.
    pub fn of(
        key: &Key,
        scenario: &Scenario,
        summary: &Summary,
        tables: RunTables,
        wanted: &[String],
    ) -> Result<Self, StoreError> {
        let seed = tables.seed;
        let metadata = [
            ("fairhop.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("fairhop.engine", ENGINE.to_owned()),
            ("fairhop.scenario", resolved(scenario, seed)?),
        ];
        let mut files = Vec::new();
        for table in tables.into_columns() {
            if wanted.iter().any(|wanted| wanted == table.name) {
                files.push((table.name.to_owned(), encoded(&keyed(table, key), &metadata)?));
            }
        }
        files.push(("runs".to_owned(), encoded(&figures(key, seed, summary), &metadata)?));
        Ok(Self { key: key.clone(), tables: files })
    }
}

/// The scenario of a run with all defaults, as TOML.
///
/// # Errors
/// It has a number that TOML cannot represent.
pub fn resolved(scenario: &Scenario, seed: u64) -> Result<String, StoreError> {
    Ok(Meta::new(&Scenario { seed, ..scenario.clone() })?.scenario().to_owned())
}

/// A table as a Parquet file.
fn encoded(table: &Table, metadata: &[(&str, String)]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    table.write_parquet(&mut bytes, metadata).map_err(StoreError::Encoding)?;
    Ok(bytes)
}

/// A folder of kept runs.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    tables: Vec<String>,
}

impl Store {
    /// Opens a folder, or makes it. Each run keeps `tables` beside its figures. What processes left that were killed is
    /// removed.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path, tables: &[String]) -> Result<Self, StoreError> {
        let names = ["runs", "plans", ".unfinished"].into_iter().chain(tables.iter().map(String::as_str));
        for name in names {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(StoreError::io("make the folder", &path))?;
        }
        let store = Self { folder: folder.to_owned(), tables: tables.to_vec() };
        store.remove_leftovers();
        Ok(store)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The tables that are kept of each run beside its figures.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    fn file(&self, table: &str, key: &Key) -> PathBuf {
        self.folder.join(table).join(format!("{}.parquet", key.0))
    }

    /// Whether a run is there with all tables.
    pub fn has(&self, key: &Key) -> bool {
        self.file("runs", key).exists() && self.tables.iter().all(|table| self.file(table, key).exists())
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// A file cannot be written. The run is then not there.
    pub fn keep(&self, run: &Files) -> Result<(), StoreError> {
        run.tables.iter().try_for_each(|(table, bytes)| self.write(table, &run.key.0, bytes))
    }

    /// Keeps which runs a plan consists of: one row for each point and seed. A search adds points to those of the plan.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_plan(
        &self,
        sweep: &Sweep,
        points: &[Arc<Point>],
        runs: &[(usize, u64, Key)],
    ) -> Result<(), StoreError> {
        let table = plan_table(sweep, points, runs);
        let name = format!("{}-{}", sweep.name, &hash(&[ENGINE, &sweep.text])[..16]);
        self.write("plans", &name, &encoded(&table, &[("fairhop.plan", sweep.text.clone())])?)
    }

    /// Figures of a run by their names; none for those that it lacks, and for all if it cannot be read.
    pub fn figures(&self, key: &Key, names: &[&str]) -> Vec<Option<f64>> {
        let read = || -> Option<_> {
            let reader = SerializedFileReader::new(File::open(self.file("runs", key)).ok()?).ok()?;
            let row = reader.get_row_iter(None).ok()?.next()?.ok()?;
            let figure = |wanted: &&str| match row.get_column_iter().find(|(name, _)| name == wanted)?.1 {
                Field::Double(value) => Some(*value),
                Field::Long(value) => Some(*value as f64),
                _ => None,
            };
            Some(names.iter().map(figure).collect())
        };
        read().unwrap_or_else(|| vec![None; names.len()])
    }

    /// Writes a file completely or not at all.
    fn write(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.join(folder).join(format!("{name}.parquet"));
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.folder.join(".unfinished").join(format!("{}-{number}", process::id()));
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| {
            // The first error is the one to report.
            let _ = fs::remove_file(&unfinished);
            StoreError::io("write", &path)(error)
        })
    }

    /// Removes the unfinished files of processes that do not exist any more.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(self.folder.join(".unfinished")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_string_lossy().split('-').next().and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_none_or(|pid| pid != process::id() && !Path::new(&format!("/proc/{pid}")).exists()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A table with the run's key as its first column.
fn keyed(mut table: Table, key: &Key) -> Table {
    let text = key.as_str().into();
    let keys = vec![text; table.rows()];
    table.columns.insert(0, Column::new("key", "Key of the run.", Values::Text(keys)));
    table
}

/// The row of a run: its key, scenario and seed, and the figures over all of its calls and flows.
fn figures(key: &Key, seed: u64, summary: &Summary) -> Table {
    let text = |text: &str| Values::Text(vec![text.into()]);
    let mut columns = vec![
        Column::new("key", "Key of the run: a hash of scenario, seed and engine.", text(key.as_str())),
        Column::new("scenario", "Name of the scenario.", text(&summary.scenario)),
        Column::new("seed", "Seed of the run.", Values::Unsigned(vec![seed])),
        Column::new("sim_s", "Simulated seconds.", Values::Real(vec![summary.sim_s])),
        Column::new("frames", "Frames sent over the air.", Values::Real(vec![summary.frames])),
    ];
    let totals = serde_json::to_value(&summary.totals).unwrap_or_default();
    for (name, value) in totals.as_object().into_iter().flatten() {
        let value = value.as_f64();
        columns.push(Column {
            present: Some(vec![value.is_some()]),
            ..Column::new(
                name.clone(),
                "Figure over all calls and flows, as in `totals` of `fairhop run --json`.",
                Values::Real(vec![value.unwrap_or_default()]),
            )
        });
    }
    Table { name: "runs", about: "One row: the figures of a run.", columns }
}

fn plan_table(sweep: &Sweep, points: &[Arc<Point>], runs: &[(usize, u64, Key)]) -> Table {
    let mut columns = vec![
        Column::new("plan", "Name of the plan.", Values::Text(vec![sweep.name.as_str().into(); runs.len()])),
        Column::new(
            "point",
            "Number of the point in the plan, from 0.",
            Values::Integer(runs.iter().map(|(point, ..)| *point as i64).collect()),
        ),
        Column::new(
            "point_seed",
            "Seed of the run.",
            Values::Unsigned(runs.iter().map(|(_, seed, _)| *seed).collect()),
        ),
        Column::new(
            "key",
            "Key of the run.",
            Values::Text(runs.iter().map(|(.., key)| key.as_str().into()).collect()),
        ),
        Column::new(
            "label",
            "The values of the point as text.",
            Values::Text(runs.iter().map(|(point, ..)| named(&points[*point].keys).into()).collect()),
        ),
    ];
    if sweep.search.is_some() {
        let part = |seed: u64| if sweep.is_judging(seed) { "judge" } else { "search" };
        columns.push(Column::new(
            "part",
            "Whether the run was used to `search` for the best value, or to `judge` it.",
            Values::Text(runs.iter().map(|(_, seed, _)| part(*seed).into()).collect()),
        ));
    }
    let keys = points.first().map(|point| point.keys.iter().map(|(key, _)| key.clone()));
    for (index, key) in keys.into_iter().flatten().enumerate() {
        let values: Vec<&Value> = runs.iter().map(|(point, ..)| &points[*point].keys[index].1).collect();
        columns.push(Column::new(key, "Value of this key.", typed(&values)));
    }
    Table { name: "plans", about: "One row for each run of a plan.", columns }
}

/// Values in the narrowest type that all of them have: whole numbers, numbers, booleans, texts.
fn typed(values: &[&Value]) -> Values {
    fn all<T>(values: &[&Value], of: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
        values.iter().map(|value| of(value)).collect()
    }
    let text = |value: &&Value| match value {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    all(values, Value::as_i64)
        .map(Values::Integer)
        .or_else(|| all(values, Value::as_f64).map(Values::Real))
        .or_else(|| all(values, Value::as_bool).map(Values::Truth))
        .unwrap_or_else(|| Values::Text(values.iter().map(text).collect()))
}

#[cfg(test)]
mod tests {
    use fairhop_sim::scenario;
    use fairhop_sim::world::World;

    use super::*;

    #[test]
    fn the_figures_are_those_of_the_table() {
        let ready = scenario::ready_made("k-mix").expect("ready-made");
        let changes = ["duration_s=0.5", "warmup_s=0"].map(scenario::Override::new);
        let loaded = scenario::load("x.toml", ready.text, &changes).expect("a scenario");
        let mut world = World::new(&loaded.scenario, 1).expect("a network");
        world.run();
        let key = Key::of(&loaded.scenario, 1).expect("a key");
        let table = figures(&key, 1, &Summary::of(&world, false));
        let names: Vec<&str> = table.columns.iter().skip(3).map(|column| &*column.name).collect();
        assert_eq!(names, FIGURES);
    }
}
