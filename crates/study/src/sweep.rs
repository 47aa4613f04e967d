//! Sweeps: the runs of a plan that are not kept yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fairhop_model::stats;
use serde::Serialize;

use crate::cluster::ClusterError;
use crate::executor::{Executor, Run, Stop};
use crate::keeper::Keeper;
use crate::optimum::{self, Found};
use crate::plan::{PlanError, Point, Sweep};
use crate::source::BuildError;
use crate::store::{Key, Store, StoreError};

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
    /// A value between those of the plan is no scenario.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The system refuses to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The cluster, or a run on it.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Runs that exist, now.
    pub done: usize,
    /// Runs of the plan. A stop rule may add some; a search may need fewer.
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
#[derive(Clone, Debug)]
pub struct Report {
    /// How far it got.
    pub progress: Progress,
    /// The points of the plan, and those that its search has added.
    pub points: Vec<Arc<Point>>,
    /// Runs of the plan by number of the point, seed and key.
    pub runs: Vec<(usize, u64, Key)>,
    /// What the search of the plan has found at each point of its other keys; empty without one, or if it was
    /// interrupted.
    pub found: Vec<Found>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Figures of one point: mean, half-width of the 95 % interval, number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
pub struct PointFigures {
    /// Number of runs, with those that do not exist.
    pub runs: u32,
    /// The figures that were asked for; none where no run has it.
    pub figures: Vec<Option<Figure>>,
}

impl Figure {
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        Some(Self { mean: stats::mean(samples)?, ci95: stats::ci95_half_width(samples), runs: samples.len() })
    }
}

impl Report {
    /// Figures by their names, of the first `points` points that have runs, by number of the point.
    pub fn figures(&self, store: &Store, names: &[&str], points: usize) -> BTreeMap<usize, PointFigures> {
        figures(&self.runs, store, names, points)
    }
}

fn figures(
    runs: &[(usize, u64, Key)],
    store: &Store,
    names: &[&str],
    points: usize,
) -> BTreeMap<usize, PointFigures> {
    let mut samples: BTreeMap<usize, (u32, Vec<Vec<f64>>)> = BTreeMap::new();
    for (point, _, key) in runs.iter().filter(|(point, ..)| *point < points) {
        let (runs, of_point) = samples.entry(*point).or_insert_with(|| (0, vec![Vec::new(); names.len()]));
        *runs += 1;
        for (list, figure) in of_point.iter_mut().zip(store.figures(key, names)) {
            list.extend(figure);
        }
    }
    let figures = |(runs, lists): (u32, Vec<Vec<f64>>)| PointFigures {
        runs,
        figures: lists.iter().map(|samples| Figure::of(samples)).collect(),
    };
    samples.into_iter().map(|(point, samples)| (point, figures(samples))).collect()
}

/// Makes the runs of a plan that are not kept yet, on `executor`. `waiting` is called by this thread several times a second,
/// and once at the end. `stop` ends the sweep: runs in progress are dropped.
///
/// # Errors
/// A run cannot be made or kept. Those that were kept before stay.
pub fn sweep(
    sweep: &Sweep,
    store: &Store,
    executor: &mut dyn Executor,
    stop: impl Fn() -> bool + Send + Sync + 'static,
    mut waiting: impl FnMut(Progress),
) -> Result<Report, SweepError> {
    let mut session = Session {
        sweep,
        store,
        executor,
        stop: Arc::new(stop),
        waiting: &mut waiting,
        keeper: Keeper::start(store).map_err(SweepError::Thread)?,
        began: Instant::now(),
        points: sweep.points.clone(),
        runs: Vec::new(),
        further: 0,
    };
    let found = match &sweep.search {
        Some(search) => optimum::find(&mut session, search)?,
        None => {
            session.all_points()?;
            Vec::new()
        }
    };
    let progress = session.progress();
    (session.waiting)(progress);
    let interrupted = session.is_interrupted();
    Ok(Report { progress, points: session.points, runs: session.runs, found, interrupted })
}

/// A sweep that is being made.
pub(crate) struct Session<'s> {
    pub(crate) sweep: &'s Sweep,
    pub(crate) store: &'s Store,
    executor: &'s mut dyn Executor,
    stop: Stop,
    waiting: &'s mut dyn FnMut(Progress),
    keeper: Keeper,
    began: Instant,
    /// The points of the plan, and those that a search has added.
    pub(crate) points: Vec<Arc<Point>>,
    /// The runs so far, by number of the point, seed and key.
    pub(crate) runs: Vec<(usize, u64, Key)>,
    /// Runs that may follow, at most.
    further: usize,
}

impl Session<'_> {
    /// The runs of all points, and those that the stop rule adds.
    fn all_points(&mut self) -> Result<(), SweepError> {
        let sweep = self.sweep;
        let mut wanted: Vec<(usize, u64)> = (0..self.points.len())
            .flat_map(|point| sweep.seeds(0, sweep.seeds).map(move |seed| (point, seed)))
            .collect();
        while !wanted.is_empty() && self.make(&wanted, 0)? {
            wanted = further(sweep, self.store, &self.runs);
        }
        Ok(())
    }

    /// Makes runs, of which there are none yet in this sweep, or finds them in the store. `further` may follow, at most.
    /// Returns whether all are there; otherwise the sweep was interrupted.
    pub(crate) fn make(&mut self, wanted: &[(usize, u64)], further: usize) -> Result<bool, SweepError> {
        let mut missing = Vec::new();
        for &(point, seed) in wanted {
            let key = Key::of(&self.points[point].loaded.scenario, seed)?;
            if !self.keeper.finds(&key) {
                missing.push(Run { point: self.points[point].clone(), seed, key: key.clone() });
            }
            self.runs.push((point, seed, key));
        }
        self.further = further;
        // Readers can see which runs belong together before all are there.
        self.store.keep_plan(self.sweep, &self.points, &self.runs)?;
        if !missing.is_empty() {
            // Two sweeps of one plan at a time begin at different places, and so share the work.
            let start = std::process::id() as usize % missing.len();
            missing.rotate_left(start);
        }
        let (began, further, total) = (self.began, self.further, self.runs.len());
        let Self { executor, keeper, stop, waiting, .. } = self;
        let mut waiting = || waiting(progress(keeper, total + further, began));
        let made = executor.make(&missing.into(), keeper, stop, &mut waiting);
        while keeper.is_busy() {
            thread::sleep(CHECK);
            waiting();
        }
        if let Some(error) = keeper.take_failure() {
            return Err(error.into());
        }
        made?;
        Ok(!self.is_interrupted())
    }

    fn is_interrupted(&self) -> bool {
        (self.stop)()
    }

    fn progress(&self) -> Progress {
        progress(&self.keeper, self.runs.len() + self.further, self.began)
    }
}

fn progress(keeper: &Keeper, total: usize, began: Instant) -> Progress {
    Progress { done: keeper.done(), total, made: keeper.made(), wall: began.elapsed() }
}

/// More seeds for the points whose interval is too wide.
fn further(sweep: &Sweep, store: &Store, runs: &[(usize, u64, Key)]) -> Vec<(usize, u64)> {
    let Some(stop) = &sweep.stop else { return Vec::new() };
    let mut wanted = Vec::new();
    for (point, PointFigures { runs: have, figures }) in figures(runs, store, &[&stop.figure], usize::MAX) {
        let wide = match figures.first().copied().flatten() {
            Some(Figure { ci95: Some(ci95), .. }) => ci95 > stop.ci95,
            // One run has no interval. A figure that no run has will not appear with more.
            Some(Figure { ci95: None, .. }) => true,
            None => false,
        };
        if wide {
            // The width shrinks with the root of the number: half as many again is one step closer.
            let more = (have / 2).max(1).min(stop.max_seeds.saturating_sub(have));
            wanted.extend(sweep.seeds(have, more).map(|seed| (point, seed)));
        }
    }
    wanted
}
