//! The runs of a command, with its progress and its Ctrl-C.

use fairhop_model::units::Nanos;
use fairhop_sim::world::World;
use fairhop_study::campaign::{self, CampaignError};
pub(crate) use fairhop_study::campaign::{Job, Observer, Outcome};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// What all runs of a command share.
pub(crate) struct Campaign {
    /// Stops the runs.
    pub(crate) interrupt: Interrupt,
    /// Shows how far they are.
    pub(crate) progress: Progress,
    /// How many run at a time; one per core if `None`.
    pub(crate) threads: Option<usize>,
}

impl Campaign {
    /// Does `job` for 0, 1, …, `count` − 1: see [`campaign::Campaign::run_all`].
    ///
    /// # Errors
    /// The first job that failed, or no thread can be started.
    pub(crate) fn run_all<T: Send + 'static>(
        &self,
        count: usize,
        job: impl Fn(&Job) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<Outcome<T>, Failure> {
        let _polling = self.interrupt.poll();
        let interrupt = self.interrupt.clone();
        let runs = campaign::Campaign { stop: move || interrupt.is_requested(), threads: self.threads };
        runs.run_all(count, || {}, job).map_err(|error| match error {
            CampaignError::Job(failure) => failure,
            CampaignError::Thread(error) => Failure::new(
                format!("cannot start a thread: {error}"),
                "run fewer seeds at a time: --threads 1",
            ),
        })
    }

    /// Runs a network to its end or to an interrupt: see [`campaign::drive`].
    pub(crate) fn drive(&self, job: &Job, world: &mut World, observer: &mut impl Observer) -> bool {
        campaign::drive(
            job,
            world,
            || self.interrupt.is_requested(),
            &mut Watched { campaign: self, observer },
        )
    }
}

/// Shows the progress, and passes everything on.
struct Watched<'a, O> {
    campaign: &'a Campaign,
    observer: &'a mut O,
}

impl<O: Observer> Observer for Watched<'_, O> {
    fn interval(&self) -> Nanos {
        self.observer.interval()
    }

    fn sample(&mut self, world: &World, at: Nanos) {
        self.observer.sample(world, at);
    }

    fn after_slice(&mut self, now: Nanos, step: Nanos) {
        self.campaign.progress.advance(step);
        self.observer.after_slice(now, step);
    }
}
