//! Runs on a Dask cluster.
//!
//! Dask's protocol is Python's. A process of the package `fairhop` (`python -m fairhop.bridge`) is the client of the
//! scheduler, and this module talks with it over pipes: lines of JSON, and after some lines bytes. The driver sends jobs, and
//! gets the files of runs:
//!
//! ```text
//! → {"job": 7, "point": "traffic.0.count=4", "seed": 1, "key": "…", "engine": "…", "tables": ["flows"], "scenario": "…"}
//! ← {"slots": 4}                                             jobs in the tasks that the cluster makes at a time; also when it changes
//! ← {"job": 7, "key": "…", "files": [["flows", 5120], ["runs", 2044]]}     and the bytes of these files
//! ← {"error": "…", "help": "…"}                               the end
//! ```
//! A job holds all that a worker needs, and the files come back: workers share no disk with the driver. The plan, the stop
//! rule and the search are the driver's, as for local runs. End of file on its standard input ends the bridge, and with it
//! its jobs, however this process ends.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::{self, ScenarioErrors};
use serde::Deserialize;
use serde_json::json;

use crate::campaign::message_of;
use crate::executor::{Executor, Run, Stop};
use crate::keeper::Keeper;
use crate::plan::named;
use crate::source::{self, BuildError};
use crate::store::{ENGINE, Files, Key, StoreError, resolved};
use crate::sweep::SweepError;

/// Jobs on their way for each that is being made: the second one hides the latency of the cluster.
const IN_FLIGHT: usize = 2;
/// How often the calling thread looks for an interrupt.
const CHECK: Duration = Duration::from_millis(50);
/// How long the bridge may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is wrong with a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClusterError {
    /// What is wrong.
    pub message: String,
    /// How to fix it; may be empty.
    pub help: String,
}

/// A Dask cluster.
#[derive(Debug)]
pub struct Cluster {
    bridge: Child,
    /// Closed to end the bridge.
    send: Option<ChildStdin>,
    receive: Receiver<Result<Message, io::Error>>,
    /// Jobs in the tasks that the cluster makes at a time: the bridge bundles short runs.
    slots: usize,
    /// Number of the first job of these runs: a number is not used twice.
    first: usize,
}

/// What the bridge says.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Slots { slots: usize },
    Done { job: usize, key: String, files: Vec<(String, usize)> },
    Error { error: String, help: String },
}

#[derive(Debug)]
enum Message {
    Slots(usize),
    Done { job: usize, key: String, tables: Vec<(String, Vec<u8>)> },
    Error(ClusterError),
}

impl Cluster {
    /// Connects with the scheduler at `address`, by a bridge in this Python. Returns once workers are there.
    ///
    /// # Errors
    /// There is no Python with the package and `distributed`, nobody answers, or the workers cannot make runs.
    pub fn connect(python: &Path, address: &str, stop: impl Fn() -> bool) -> Result<Self, ClusterError> {
        let mut command = Command::new(python);
        command.args(["-m", "fairhop.bridge", address, "--engine", ENGINE]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bridge = command.spawn().map_err(|error| ClusterError {
            message: format!("cannot start {}: {}", python.display(), source::reason(&error)),
            help: "a cluster needs Python: pip install 'fairhop[cluster]'".to_owned(),
        })?;
        let send = bridge.stdin.take();
        let (forward, receive) = mpsc::channel();
        if let Some(out) = bridge.stdout.take() {
            thread::spawn(move || listen(BufReader::new(out), &forward));
        }
        let mut cluster = Self { bridge, send, receive, slots: 0, first: 0 };
        while cluster.slots == 0 && !stop() {
            match cluster.next()? {
                Some(Message::Slots(slots)) => cluster.slots = slots,
                Some(Message::Error(error)) => return Err(error),
                Some(Message::Done { .. }) | None => {}
            }
        }
        Ok(cluster)
    }

    /// What the bridge says next; none for a while.
    fn next(&self) -> Result<Option<Message>, ClusterError> {
        let ended = |why: String| ClusterError {
            message: format!("the connection with the cluster has ended{why}"),
            help: "start the sweep again: the runs so far are kept".to_owned(),
        };
        match self.receive.recv_timeout(CHECK) {
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(error)) => Err(ended(format!(": {}", source::reason(&error)))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ended(String::new())),
        }
    }

    fn submit(&mut self, job: usize, run: &Run, tables: &[String]) -> Result<(), SweepError> {
        let text = json!({
            "job": job,
            "point": named(&run.point.keys),
            "seed": run.seed,
            "key": run.key.as_str(),
            "engine": ENGINE,
            "tables": tables,
            "scenario": resolved(&run.point.loaded.scenario, run.seed)?,
        });
        if let Some(send) = &mut self.send {
            // A bridge that has ended has said why, which is read next.
            let _ = writeln!(send, "{text}").and_then(|()| send.flush());
        }
        Ok(())
    }
}

impl Executor for Cluster {
    fn make(
        &mut self,
        runs: &Arc<[Run]>,
        keeper: &Keeper,
        stop: &Stop,
        waiting: &mut dyn FnMut(),
    ) -> Result<(), SweepError> {
        // From the end: another sweep in the same folder may make runs on its own cores, from the beginning on.
        let mut left = runs.len();
        let mut in_flight = 0;
        let mut waited = Instant::now();
        while !stop() && !keeper.has_failed() {
            while left > 0 && in_flight < IN_FLIGHT * self.slots {
                left -= 1;
                if !keeper.finds(&runs[left].key) {
                    self.submit(self.first + left, &runs[left], keeper.tables())?;
                    in_flight += 1;
                }
            }
            if in_flight == 0 {
                break;
            }
            match self.next()? {
                Some(Message::Done { job, key, tables }) => {
                    in_flight -= 1;
                    let run = job.checked_sub(self.first).and_then(|index| runs.get(index));
                    match run.filter(|run| run.key.as_str() == key) {
                        Some(run) => keeper.hand(Files { key: run.key.clone(), tables }),
                        None => return Err(mixed_up(job, &key).into()),
                    }
                }
                Some(Message::Slots(slots)) => self.slots = slots,
                Some(Message::Error(error)) => return Err(error.into()),
                None => {}
            }
            if waited.elapsed() >= CHECK {
                waiting();
                waited = Instant::now();
            }
        }
        self.first += runs.len();
        Ok(())
    }
}

/// The files of another run.
fn mixed_up(job: usize, key: &str) -> ClusterError {
    ClusterError {
        message: format!("the cluster has returned the run {key} for job {job}, which is another one"),
        help: "this is a bug in fairhop: please report it; the runs so far are kept".to_owned(),
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.send.take());
        let began = Instant::now();
        while began.elapsed() < PATIENCE && matches!(self.bridge.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // It has ended, or does not react.
        let _ = self.bridge.kill();
        let _ = self.bridge.wait();
    }
}

/// Reads what the bridge says to its end.
fn listen(mut out: BufReader<ChildStdout>, forward: &Sender<Result<Message, io::Error>>) {
    loop {
        let message = match message(&mut out) {
            Ok(None) => break,
            Ok(Some(message)) => Ok(message),
            Err(error) => Err(error),
        };
        let failed = message.is_err();
        if forward.send(message).is_err() || failed {
            break;
        }
    }
}

/// The next message; none at the end.
fn message(out: &mut BufReader<ChildStdout>) -> io::Result<Option<Message>> {
    let mut line = String::new();
    if out.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(match serde_json::from_str(&line)? {
        Line::Slots { slots } => Message::Slots(slots),
        Line::Error { error, help } => Message::Error(ClusterError { message: error, help }),
        Line::Done { job, key, files } => {
            let mut tables = Vec::new();
            for (table, length) in files {
                let mut bytes = vec![0; length];
                out.read_exact(&mut bytes)?;
                tables.push((table, bytes));
            }
            Message::Done { job, key, tables }
        }
    }))
}

/// Why a worker has not made a run.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The text is no scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioErrors),
    /// It cannot be simulated.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Its files cannot be made.
    #[error(transparent)]
    Files(#[from] StoreError),
    /// The run has another key than the driver expects.
    #[error("the worker reads the scenario differently: its key is {0}")]
    Key(String),
    /// It panicked, which is a bug.
    #[error("it panicked: {0}")]
    Panic(String),
}

/// Makes a run from what a job holds: the resolved scenario, the seed, the key and the tables to keep.
///
/// # Errors
/// The scenario cannot be simulated, or is another one here.
pub fn work(text: &str, seed: u64, key: &str, tables: &[String]) -> Result<Files, WorkError> {
    let loaded = scenario::load("resolved.toml", text, &[])?;
    let own = Key::of(&loaded.scenario, seed)?;
    if own.as_str() != key {
        return Err(WorkError::Key(own.as_str().to_owned()));
    }
    let make = || -> Result<Files, WorkError> {
        let mut world = source::build(&loaded, seed)?;
        world.run();
        let (summary, of_run) = (Summary::of(&world, false), RunTables::collect(&world, false));
        drop(world);
        Ok(Files::of(&own, &loaded.scenario, &summary, of_run, tables)?)
    };
    panic::catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|payload| Err(WorkError::Panic(message_of(&*payload))))
}
