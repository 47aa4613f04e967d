//! Ctrl-C, and the other signals that ask a program to end.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::exit;

/// Whether the user wants the runs to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on: the first signal asks the runs to end and to keep what they measured, the second ends the
    /// program at once. Where the system lets nobody listen, signals end the program as they always do.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let requested = interrupt.0.clone();
        let _ = ctrlc::set_handler(move || {
            if requested.swap(true, Ordering::Relaxed) {
                process::exit(exit::INTERRUPTED.into());
            }
        });
        interrupt
    }

    /// Whether the runs are to end.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
