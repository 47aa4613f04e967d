//! Runs on all cores, each in slices, so that they can be watched and interrupted.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use fairhop_sim::world::World;

/// Wall time that a slice should take: short enough for Ctrl-C and the progress bar, long enough that slicing costs
/// nothing.
const SLICE: Duration = Duration::from_millis(20);
/// First slice, in simulated time. A large network may need more than [`SLICE`] for a millisecond.
const FIRST_SLICE: Nanos = Nanos::from_micros(10);
/// Longest slice, in simulated time. A quiet network may become busy within a slice.
const LONGEST_SLICE: Nanos = Nanos::from_millis(100);
/// How often the calling thread checks for an interrupt while it waits for results.
const CHECK: Duration = Duration::from_millis(50);

/// How a campaign runs.
pub struct Campaign<S> {
    /// Whether an end was requested. It is polled from all threads.
    pub stop: S,
    /// How many jobs run at a time; one per core if `None`.
    pub threads: Option<usize>,
}

/// Why a campaign ended before its jobs were done.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError<E> {
    /// The system refuses to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A job failed.
    #[error(transparent)]
    Job(E),
}

/// What several jobs returned, in the order of their numbers.
#[derive(Debug)]
pub struct Outcome<T> {
    /// `None`: not begun before an interrupt, interrupted during setup, or panicked.
    pub results: Vec<Option<T>>,
    /// Numbers of the jobs that panicked, with the message of the panic.
    pub panics: Vec<(usize, String)>,
}

/// One job of [`Campaign::run_all`], from the inside.
#[derive(Debug)]
pub struct Job {
    /// Number of the job, from 0.
    pub index: usize,
    progress: Arc<Vec<AtomicBool>>,
}

impl Job {
    /// Setup is done. An interrupt now waits for the job's result; before, it abandons the job.
    fn begin(&self) {
        self.progress[self.index].store(true, Ordering::SeqCst);
    }
}

/// What observes a run from slice to slice.
pub trait Observer {
    /// Simulated time between two calls of [`Observer::sample`].
    fn interval(&self) -> Nanos {
        Nanos::MAX
    }

    /// The run is at `at`, a multiple of the interval.
    fn sample(&mut self, _world: &World, _at: Nanos) {}

    /// A slice of `step` has ended at `now`.
    fn after_slice(&mut self, _now: Nanos, _step: Nanos) {}
}

impl Observer for () {}

impl<S: Fn() -> bool + Clone + Send + Sync + 'static> Campaign<S> {
    /// Does `job` for 0, 1, …, `count` − 1, several at a time. Results are in this order, whatever the threads did.
    /// `waiting` is called by this thread several times a second until all are done.
    ///
    /// A job that panics does not stop the others. After an interrupt no job begins, jobs that are being driven return
    /// what they have, and jobs in setup are abandoned: their threads end with the process.
    ///
    /// # Errors
    /// The first job that failed; no further jobs begin, and running ones are abandoned. Or no thread can be started.
    pub fn run_all<T: Send + 'static, E: Send + 'static>(
        &self,
        count: usize,
        mut waiting: impl FnMut(),
        job: impl Fn(&Job) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Outcome<T>, CampaignError<E>> {
        let job = Arc::new(job);
        let next = Arc::new(AtomicUsize::new(0));
        let begun: Arc<Vec<AtomicBool>> = Arc::new((0..count).map(|_| AtomicBool::new(false)).collect());
        let (send, receive) = mpsc::channel();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..self.threads.unwrap_or(cores).min(count) {
            let (job, next, begun, send) = (job.clone(), next.clone(), begun.clone(), send.clone());
            let stop = self.stop.clone();
            let work = move || {
                while !stop() {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    if index >= count {
                        break;
                    }
                    let one = Job { index, progress: begun.clone() };
                    // A caught job shares nothing mutable with the others but counters.
                    let result = panic::catch_unwind(AssertUnwindSafe(|| job(&one)));
                    if send.send((index, result)).is_err() {
                        break;
                    }
                }
            };
            thread::Builder::new().name("run".to_owned()).spawn(work).map_err(CampaignError::Thread)?;
        }
        drop(send);

        let mut outcome = Outcome { results: (0..count).map(|_| None).collect(), panics: Vec::new() };
        let mut received = vec![false; count];
        let mut next_check = Instant::now() + CHECK;
        loop {
            match receive.recv_timeout(next_check.saturating_duration_since(Instant::now())) {
                Ok((index, result)) => {
                    received[index] = true;
                    match result {
                        Ok(result) => outcome.results[index] = Some(result.map_err(CampaignError::Job)?),
                        Err(payload) => outcome.panics.push((index, message_of(&*payload))),
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    waiting();
                    next_check = Instant::now() + CHECK;
                }
            }
            let driven =
                || begun.iter().zip(&received).any(|(begun, got)| begun.load(Ordering::SeqCst) && !got);
            if (self.stop)() && !driven() {
                break;
            }
        }
        outcome.panics.sort();
        Ok(outcome)
    }
}

/// Runs a network to its end or until `stop`. Returns whether it reached its end. Slices do not change what the network
/// does.
pub fn drive(job: &Job, world: &mut World, stop: impl Fn() -> bool, observer: &mut impl Observer) -> bool {
    job.begin();
    let interval = observer.interval();
    let mut next_sample = Nanos::ZERO.saturating_add(interval);
    let end = world.end();
    let mut now = Nanos::ZERO;
    let mut slice = FIRST_SLICE;
    while now < end {
        if stop() {
            world.stop(now);
            return false;
        }
        let began = Instant::now();
        let until = now.saturating_add(slice).min(end);
        while next_sample <= until {
            world.run_until(next_sample);
            observer.sample(world, next_sample);
            next_sample = next_sample.saturating_add(interval);
        }
        world.run_until(until);
        let step = until - now;
        now = until;
        observer.after_slice(now, step);
        slice = next_slice(slice, began.elapsed());
    }
    world.run();
    true
}

/// The length of the next slice, from that of the last one and the wall time it took.
fn next_slice(slice: Nanos, took: Duration) -> Nanos {
    let ratio = SLICE.as_secs_f64() / took.as_secs_f64().max(1e-9);
    Nanos((slice.0 as f64 * ratio.min(2.0)) as u64).max(Nanos(1)).min(LONGEST_SLICE)
}

/// The text of a panic.
pub(crate) fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_panics_does_not_stop_the_others() {
        for threads in [1, 3] {
            let campaign = Campaign { stop: || false, threads: Some(threads) };
            let job = |job: &Job| {
                assert!(job.index != 2, "job {} fails", job.index);
                Ok::<_, ()>(job.index * 10)
            };
            let outcome = campaign.run_all(5, || {}, job).expect("no failure");
            assert_eq!(outcome.results, [Some(0), Some(10), None, Some(30), Some(40)]);
            assert_eq!(outcome.panics, [(2, "job 2 fails".to_owned())]);
        }
    }

    #[test]
    fn an_interrupt_abandons_a_job_in_setup_and_waits_for_one_that_is_driven() {
        let requested = Arc::new(AtomicBool::new(false));
        let (polled, request) = (requested.clone(), requested.clone());
        let campaign = Campaign { stop: move || polled.load(Ordering::SeqCst), threads: Some(2) };
        let began = Instant::now();
        let job = move |job: &Job| {
            if job.index == 0 {
                // A setup that takes for ever.
                thread::sleep(Duration::from_secs(60));
            }
            job.begin();
            request.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(200));
            Ok::<_, ()>(job.index)
        };
        let outcome = campaign.run_all(3, || {}, job).expect("no failure");
        assert_eq!(outcome.results, [None, Some(1), None], "the third one does not begin");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn slices_approach_their_wall_time_and_have_bounds() {
        let ms = Nanos::from_millis;
        assert_eq!(next_slice(ms(1), Duration::from_millis(40)), Nanos::from_micros(500));
        assert_eq!(next_slice(ms(1), Duration::from_micros(1)), ms(2));
        assert_eq!(next_slice(LONGEST_SLICE, Duration::ZERO), LONGEST_SLICE);
        assert_eq!(next_slice(Nanos(1), Duration::from_secs(3600)), Nanos(1));
    }
}
