//! What makes runs: the cores of this machine ([`Local`]), or others ([`crate::cluster`]).

use std::sync::Arc;

use fairhop_sim::output::tables::RunTables;
use fairhop_sim::results::Summary;

use crate::campaign::{Campaign, CampaignError, Job, drive};
use crate::keeper::Keeper;
use crate::plan::{Point, named};
use crate::source;
use crate::store::{Files, Key};
use crate::sweep::SweepError;

/// Whether an end was requested. It is polled from all threads.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario.
    pub point: Arc<Point>,
    /// The seed.
    pub seed: u64,
    /// The name of its files.
    pub key: Key,
}

/// Makes runs.
pub trait Executor {
    /// Makes `runs` in any order, and hands each to `keeper` unless it finds it there. `waiting` is called by this thread
    /// several times a second. Returns when all runs have been handed over, or soon after `stop` or a failure of the
    /// keeper; runs in progress are dropped then.
    ///
    /// # Errors
    /// A run cannot be made.
    fn make(
        &mut self,
        runs: &Arc<[Run]>,
        keeper: &Keeper,
        stop: &Stop,
        waiting: &mut dyn FnMut(),
    ) -> Result<(), SweepError>;
}

/// The cores of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    /// How many runs are made at a time; one per core if `None`.
    pub threads: Option<usize>,
}

impl Executor for Local {
    fn make(
        &mut self,
        runs: &Arc<[Run]>,
        keeper: &Keeper,
        stop: &Stop,
        waiting: &mut dyn FnMut(),
    ) -> Result<(), SweepError> {
        let stop = {
            let (stop, keeper) = (stop.clone(), keeper.clone());
            move || stop() || keeper.has_failed()
        };
        let job = {
            let (runs, keeper, stop) = (runs.clone(), keeper.clone(), stop.clone());
            move |job: &Job| one(job, &runs[job.index], &keeper, &stop)
        };
        let campaign = Campaign { stop, threads: self.threads };
        let outcome = campaign.run_all(runs.len(), waiting, job).map_err(|error| match error {
            CampaignError::Job(error) => error,
            CampaignError::Thread(error) => SweepError::Thread(error),
        })?;
        match outcome.panics.into_iter().next() {
            Some((index, message)) => {
                let Run { point, seed, .. } = &runs[index];
                Err(SweepError::Panic { point: named(&point.keys), seed: *seed, message })
            }
            None => Ok(()),
        }
    }
}

/// Makes one run, and hands it to the keeper.
fn one(job: &Job, run: &Run, keeper: &Keeper, stop: &impl Fn() -> bool) -> Result<(), SweepError> {
    if keeper.finds(&run.key) {
        return Ok(());
    }
    let loaded = &run.point.loaded;
    let mut world = source::build(loaded, run.seed)
        .map_err(|source| SweepError::Build { point: named(&run.point.keys), source })?;
    if drive(job, &mut world, stop, &mut ()) {
        let (summary, tables) = (Summary::of(&world, false), RunTables::collect(&world, false));
        drop(world);
        keeper.hand(Files::of(&run.key, &loaded.scenario, &summary, tables, keeper.tables())?);
    }
    Ok(())
}
