//! Runs on all cores, each in slices, so that they can be watched and ended.

use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use fairhop_sim::world::World;
use rayon::prelude::*;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// The wall time that a slice should take: short enough that Ctrl-C is obeyed at once and the bar moves, long enough
/// that slicing costs nothing.
const SLICE: Duration = Duration::from_millis(20);

/// What all runs of a command share.
#[derive(Debug)]
pub(crate) struct Campaign {
    /// Ends the runs.
    pub(crate) interrupt: Interrupt,
    /// Is told how far they are.
    pub(crate) progress: Progress,
    /// How many run at a time; all cores where it is not said.
    pub(crate) threads: Option<usize>,
}

impl Campaign {
    /// Does `job` for 0, 1, …, `count` − 1, several at a time. The results are in this order, whatever the threads did;
    /// those that were not begun before an interrupt are missing (`None`).
    ///
    /// # Errors
    /// That of the first job that failed; the others are not begun any more.
    pub(crate) fn run_all<T: Send>(
        &self,
        count: usize,
        job: impl Fn(usize) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<Option<T>>, Failure> {
        let one = |index| if self.interrupt.is_requested() { Ok(None) } else { job(index).map(Some) };
        let all = || (0..count).into_par_iter().map(one).collect();
        match rayon::ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0)).build() {
            Ok(pool) => pool.install(all),
            Err(_) => (0..count).map(one).collect(),
        }
    }

    /// Runs a world to its end, or to the moment of an interrupt; tells whether it came to its end. Slices change
    /// nothing in what the world does.
    pub(crate) fn drive(&self, world: &mut World) -> bool {
        self.drive_watched(world, Nanos::MAX, |_, _| {})
    }

    /// As [`Campaign::drive`], and lets somebody look at the world every `interval`.
    pub(crate) fn drive_watched(
        &self,
        world: &mut World,
        interval: Nanos,
        mut look: impl FnMut(&World, Nanos),
    ) -> bool {
        let mut next_look = Nanos::ZERO.saturating_add(interval);
        let end = world.end();
        let mut now = Nanos::ZERO;
        let mut slice = Nanos::from_millis(10);
        while now < end {
            if self.interrupt.is_requested() {
                world.stop(now);
                return false;
            }
            let began = Instant::now();
            let until = now.saturating_add(slice).min(end);
            while next_look <= until {
                world.run_until(next_look);
                look(world, next_look);
                next_look = next_look.saturating_add(interval);
            }
            world.run_until(until);
            self.progress.advance(until - now);
            now = until;
            slice =
                if began.elapsed() < SLICE { slice.saturating_add(slice) } else { Nanos(slice.0 / 2 + 1) };
        }
        world.run();
        true
    }
}
