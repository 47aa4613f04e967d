//! Threads that keep runs while others are made: a disk may take 100 ms to synchronize a file, in which a core can simulate.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use crate::store::{Files, Key, Store, StoreError};

/// Runs that are written at a time. File systems synchronize several files together.
const WRITERS: usize = 8;

/// Keeps runs, and counts them. Clones share the threads, which end with the last clone.
#[derive(Clone, Debug)]
pub struct Keeper {
    store: Store,
    send: SyncSender<Files>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Runs that were found or kept.
    done: AtomicUsize,
    /// Runs that were kept.
    made: AtomicUsize,
    /// Runs that have been handed over and are not kept yet.
    pending: AtomicUsize,
    failed: AtomicBool,
    failure: Mutex<Option<StoreError>>,
}

impl Keeper {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system refuses to start one.
    pub fn start(store: &Store) -> io::Result<Self> {
        let (send, receive) = mpsc::sync_channel::<Files>(WRITERS);
        let receive = Arc::new(Mutex::new(receive));
        let keeper = Self { store: store.clone(), send, counts: Arc::default() };
        for _ in 0..WRITERS {
            let (store, receive, counts) = (store.clone(), receive.clone(), keeper.counts.clone());
            let work = move || {
                loop {
                    let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(files) = next else { break };
                    match store.keep(&files) {
                        Ok(()) => {
                            counts.done.fetch_add(1, Ordering::Relaxed);
                            counts.made.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            let mut failure = counts.failure.lock().unwrap_or_else(PoisonError::into_inner);
                            failure.get_or_insert(error);
                            counts.failed.store(true, Ordering::SeqCst);
                        }
                    }
                    counts.pending.fetch_sub(1, Ordering::SeqCst);
                }
            };
            thread::Builder::new().name("keep".to_owned()).spawn(work)?;
        }
        Ok(keeper)
    }

    /// The tables that are kept of each run beside its figures.
    pub fn tables(&self) -> &[String] {
        self.store.tables()
    }

    /// Whether a run is there; if it is, it counts as done. Another sweep may have made it meanwhile.
    pub fn finds(&self, key: &Key) -> bool {
        let found = self.store.has(key);
        if found {
            self.counts.done.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Hands over a run; waits where many are waiting to be kept.
    pub fn hand(&self, run: Files) {
        self.counts.pending.fetch_add(1, Ordering::SeqCst);
        if self.send.send(run).is_err() {
            self.counts.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Runs that were found or kept.
    pub fn done(&self) -> usize {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// Runs that were kept.
    pub fn made(&self) -> usize {
        self.counts.made.load(Ordering::Relaxed)
    }

    /// Whether runs are still to be kept.
    pub fn is_busy(&self) -> bool {
        self.counts.pending.load(Ordering::SeqCst) > 0
    }

    /// Whether a run could not be kept.
    pub fn has_failed(&self) -> bool {
        self.counts.failed.load(Ordering::SeqCst)
    }

    /// Why.
    pub fn take_failure(&self) -> Option<StoreError> {
        self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
