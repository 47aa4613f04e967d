//! Ctrl-C, and the other signals that ask a program to end.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::failure::exit;

/// Whether the user asked the program to end.
///
/// A command that polls [`Interrupt::is_requested`] holds a [`Polling`] guard meanwhile: the first signal then only sets
/// the flag, so that the command can keep what it measured. At any other time, and on the second signal, the program ends
/// at once. So parsing, setup and writing need no checks of their own.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    requested: AtomicBool,
    /// How many guards there are.
    polling: AtomicUsize,
    /// Runs before the program ends at once.
    cleanup: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Interrupt {
    /// Installs the signal handler. If the system refuses, signals end the program as they do by default.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let handler = interrupt.clone();
        let _ = ctrlc::set_handler(move || {
            let again = handler.0.requested.swap(true, Ordering::SeqCst);
            if again || handler.0.polling.load(Ordering::SeqCst) == 0 {
                if let Some(cleanup) = &*handler.0.cleanup.lock().unwrap_or_else(PoisonError::into_inner) {
                    cleanup();
                }
                process::exit(exit::INTERRUPTED.into());
            }
        });
        interrupt
    }

    /// Whether a signal has arrived.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// Until the guard is dropped, the first signal only sets the flag. The caller has to poll it.
    pub(crate) fn poll(&self) -> Polling<'_> {
        self.0.polling.fetch_add(1, Ordering::SeqCst);
        Polling(&self.0)
    }

    /// Sets what runs before a signal ends the program at once.
    pub(crate) fn before_exit(&self, cleanup: impl Fn() + Send + 'static) {
        *self.0.cleanup.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(cleanup));
    }
}

/// The guard of [`Interrupt::poll`].
pub(crate) struct Polling<'a>(&'a Shared);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.polling.fetch_sub(1, Ordering::SeqCst);
    }
}
