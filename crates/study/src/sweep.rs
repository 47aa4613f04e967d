//! Sweeps: the runs of a plan that are not kept yet, on all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_model::stats;
use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::Summary;
use fairhop_sim::scenario::Loaded;

use crate::campaign::{Campaign, CampaignError, Job, drive};
use crate::plan::{Sweep, named};
use crate::source::{self, BuildError};
use crate::store::{Key, Store, StoreError};

/// Runs that are written at a time. File systems synchronize several files together.
const WRITERS: usize = 8;
/// How often the calling thread looks whether all runs are kept, at the end.
const CHECK: Duration = Duration::from_millis(5);

/// Why a sweep ended early. What was kept before stays.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A run cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A point cannot be simulated.
    #[error("the point {point} cannot be simulated: {source}")]
    Build {
        /// Its keys.
        point: String,
        /// Why.
        source: BuildError,
    },
    /// A run panicked, which is a bug.
    #[error("the point {point} with seed {seed} panicked: {message}")]
    Panic {
        /// Its keys.
        point: String,
        /// The seed.
        seed: u64,
        /// The message of the panic.
        message: String,
    },
    /// The system refuses to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Runs that exist, now.
    pub done: usize,
    /// Runs of the plan. A stop rule may add some.
    pub total: usize,
    /// Runs that this sweep has made.
    pub made: usize,
    /// Wall time of this sweep.
    pub wall: Duration,
}

impl Progress {
    /// Runs a second; none before the first.
    pub fn rate(&self) -> Option<f64> {
        (self.made > 0).then(|| self.made as f64 / self.wall.as_secs_f64().max(1e-9))
    }

    /// Time left at this rate.
    pub fn left(&self) -> Option<Duration> {
        let seconds = (self.total - self.done.min(self.total)) as f64 / self.rate()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// A sweep that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How far it got.
    pub progress: Progress,
    /// Runs of the plan by number of the point, seed and key.
    pub runs: Vec<(usize, u64, Key)>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Figures of one point: mean, half-width of the 95 % interval, number of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Mean.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval; none for one run.
    pub ci95: Option<f64>,
    /// Number of runs that have the figure.
    pub runs: usize,
}

/// What the runs of a point say.
#[derive(Clone, Debug, PartialEq)]
pub struct PointFigures<const N: usize> {
    /// Number of runs, with those that do not exist.
    pub runs: u32,
    /// The figures that were asked for; none where no run has it.
    pub figures: [Option<Figure>; N],
}

impl Figure {
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        Some(Self { mean: stats::mean(samples)?, ci95: stats::ci95_half_width(samples), runs: samples.len() })
    }
}

impl Report {
    /// Figures by their names, of the first `points` points that have runs, by number of the point.
    pub fn figures<const N: usize>(
        &self,
        store: &Store,
        names: [&str; N],
        points: usize,
    ) -> BTreeMap<usize, PointFigures<N>> {
        let mut samples: BTreeMap<usize, (u32, [Vec<f64>; N])> = BTreeMap::new();
        for (point, _, key) in self.runs.iter().filter(|(point, ..)| *point < points) {
            let (runs, of_point) =
                samples.entry(*point).or_insert_with(|| (0, std::array::from_fn(|_| Vec::new())));
            *runs += 1;
            for (list, figure) in of_point.iter_mut().zip(store.figures(key, names)) {
                list.extend(figure);
            }
        }
        let figures = |(runs, lists): (u32, [Vec<f64>; N])| PointFigures {
            runs,
            figures: lists.map(|samples| Figure::of(&samples)),
        };
        samples.into_iter().map(|(point, samples)| (point, figures(samples))).collect()
    }
}

/// Makes the runs of a plan that are not kept yet. `waiting` is called by this thread several times a second, and once at
/// the end. `stop` ends the sweep: runs in progress are dropped.
///
/// # Errors
/// A run cannot be made or kept. Those that were kept before stay.
pub fn sweep(
    sweep: &Arc<Sweep>,
    store: &Store,
    threads: Option<usize>,
    stop: impl Fn() -> bool + Clone + Send + Sync + 'static,
    mut waiting: impl FnMut(Progress),
) -> Result<Report, SweepError> {
    let began = Instant::now();
    let mut runs: Vec<(usize, u64, Key)> = Vec::new();
    let mut wanted: Vec<(usize, u64)> = (0..sweep.points.len())
        .flat_map(|point| seeds(sweep, 0, sweep.seeds).map(move |seed| (point, seed)))
        .collect();
    let made = Arc::new(AtomicUsize::new(0));
    loop {
        for &(point, seed) in &wanted {
            runs.push((point, seed, Key::of(&sweep.points[point].loaded.scenario, seed)?));
        }
        // Readers can see which runs belong together before all are there.
        store.keep_plan(sweep, &runs)?;
        let mut missing: Vec<(usize, u64, Key)> =
            runs.iter().filter(|(.., key)| !store.has(key)).cloned().collect();
        let present = runs.len() - missing.len();
        if !missing.is_empty() {
            // Two sweeps of one plan at a time begin at different places, and so share the work.
            let start = std::process::id() as usize % missing.len();
            missing.rotate_left(start);
        }
        let missing = Arc::new(missing);
        let round = Arc::new(AtomicUsize::new(0));
        let progress = {
            let (made, round, total) = (made.clone(), round.clone(), runs.len());
            move || Progress {
                done: present + round.load(Ordering::Relaxed),
                total,
                made: made.load(Ordering::Relaxed),
                wall: began.elapsed(),
            }
        };
        let writers = Writers::start(store, [&made, &round])?;
        let job = {
            let (missing, sweep, store, stop) = (missing.clone(), sweep.clone(), store.clone(), stop.clone());
            let (writers, round) = (writers.clone(), round.clone());
            move |job: &Job| one(job, &missing[job.index], &sweep, &store, &stop, &writers, &round)
        };
        let campaign = {
            let (stop, writers) = (stop.clone(), writers.clone());
            Campaign { stop: move || stop() || writers.has_failed(), threads }
        };
        let outcome = campaign.run_all(missing.len(), || waiting(progress()), job);
        while writers.are_busy() {
            thread::sleep(CHECK);
            waiting(progress());
        }
        let outcome = outcome.map_err(|error| match error {
            CampaignError::Job(error) => error,
            CampaignError::Thread(error) => SweepError::Thread(error),
        })?;
        if let Some(error) = writers.take_failure() {
            return Err(error.into());
        }
        waiting(progress());
        if let Some((index, message)) = outcome.panics.into_iter().next() {
            let (point, seed, _) = missing[index];
            return Err(SweepError::Panic { point: named(&sweep.points[point].keys), seed, message });
        }
        let report = Report { progress: progress(), runs: runs.clone(), interrupted: stop() };
        wanted = if report.interrupted { Vec::new() } else { further(sweep, store, &report) };
        if wanted.is_empty() {
            return Ok(report);
        }
    }
}

/// `count` seeds after the first `skip`.
fn seeds(sweep: &Sweep, skip: u32, count: u32) -> impl Iterator<Item = u64> + use<> {
    let first = sweep.first_seed.saturating_add(u64::from(skip));
    (0..u64::from(count)).filter_map(move |index| first.checked_add(index))
}

/// More seeds for the points whose interval is too wide.
fn further(sweep: &Sweep, store: &Store, report: &Report) -> Vec<(usize, u64)> {
    let Some(stop) = &sweep.stop else { return Vec::new() };
    let mut wanted = Vec::new();
    for (point, PointFigures { runs: have, figures: [figure] }) in
        report.figures(store, [stop.figure.as_str()], usize::MAX)
    {
        let wide = match figure {
            Some(Figure { ci95: Some(ci95), .. }) => ci95 > stop.ci95,
            // One run has no interval. A figure that no run has will not appear with more.
            Some(Figure { ci95: None, .. }) => true,
            None => false,
        };
        if wide {
            // The width shrinks with the root of the number: half as many again is one step closer.
            let more = (have / 2).max(1).min(stop.max_seeds.saturating_sub(have));
            wanted.extend(seeds(sweep, have, more).map(|seed| (point, seed)));
        }
    }
    wanted
}

/// Makes one run, and hands it to the writers.
fn one(
    job: &Job,
    (point, seed, key): &(usize, u64, Key),
    sweep: &Sweep,
    store: &Store,
    stop: &impl Fn() -> bool,
    writers: &Writers,
    round: &AtomicUsize,
) -> Result<(), SweepError> {
    // Another sweep may have made it meanwhile.
    if store.has(key) {
        round.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let point = &sweep.points[*point];
    let mut world = source::build(&point.loaded, *seed)
        .map_err(|source| SweepError::Build { point: named(&point.keys), source })?;
    if drive(job, &mut world, || stop() || writers.has_failed(), &mut ()) {
        let (summary, tables) = (Summary::of(&world, false), RunTables::collect(&world, false));
        writers.hand(Made { key: key.clone(), loaded: point.loaded.clone(), summary, tables });
    }
    Ok(())
}

/// A run that is to be kept.
struct Made {
    key: Key,
    loaded: Arc<Loaded>,
    summary: Summary,
    tables: RunTables,
}

/// Threads that keep runs. A disk may take 100 ms to synchronize a file, in which a core can simulate.
#[derive(Clone)]
struct Writers {
    send: SyncSender<Made>,
    /// Runs that have been handed over and are not kept yet.
    pending: Arc<AtomicUsize>,
    failed: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Writers {
    /// Starts the threads. They count the runs that they keep, and end when nobody can hand them any more.
    fn start(store: &Store, counters: [&Arc<AtomicUsize>; 2]) -> Result<Self, SweepError> {
        let (send, receive) = mpsc::sync_channel::<Made>(WRITERS);
        let receive = Arc::new(Mutex::new(receive));
        let writers = Self { send, pending: Arc::default(), failed: Arc::default(), failure: Arc::default() };
        for _ in 0..WRITERS {
            let (store, receive, counters) = (store.clone(), receive.clone(), counters.map(Arc::clone));
            let Self { pending, failed, failure, .. } = writers.clone();
            let work = move || {
                loop {
                    let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Made { key, loaded, summary, tables }) = next else { break };
                    match store.keep(&key, &loaded.scenario, &summary, tables) {
                        Ok(()) => counters.iter().for_each(|counter| {
                            counter.fetch_add(1, Ordering::Relaxed);
                        }),
                        Err(error) => {
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                            failed.store(true, Ordering::SeqCst);
                        }
                    }
                    pending.fetch_sub(1, Ordering::SeqCst);
                }
            };
            thread::Builder::new().name("keep".to_owned()).spawn(work).map_err(SweepError::Thread)?;
        }
        Ok(writers)
    }

    /// Hands over a run; waits where many are waiting to be kept.
    fn hand(&self, made: Made) {
        self.pending.fetch_add(1, Ordering::SeqCst);
        if self.send.send(made).is_err() {
            self.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn are_busy(&self) -> bool {
        self.pending.load(Ordering::SeqCst) > 0
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    fn take_failure(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
