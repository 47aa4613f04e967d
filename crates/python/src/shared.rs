//! What all runs of a call from Python share: an exception ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

/// The first exception, which ends all runs.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// Ends all runs.
    pub(crate) stop: Arc<AtomicBool>,
    error: Arc<Mutex<Option<PyErr>>>,
}

impl Shared {
    /// Keeps the first exception, and ends all runs.
    pub(crate) fn fail(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// The first exception.
    pub(crate) fn take_error(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the runs are to end, as a campaign asks.
    pub(crate) fn stop(&self) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        let stop = self.stop.clone();
        move || stop.load(Ordering::SeqCst)
    }

    /// Lets Python handle its signals, and tells it the progress.
    pub(crate) fn watch(&self, tell: impl FnOnce(Python<'_>) -> PyResult<()>) {
        if self.stop.load(Ordering::SeqCst) {
            return;
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            tell(py)
        });
        if let Err(error) = told {
            self.fail(error);
        }
    }
}
