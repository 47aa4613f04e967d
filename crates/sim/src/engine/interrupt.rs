//! Stopping long work before it is done.

use std::fmt;

/// A request to stop, checked by work that can take long: the setup of a large network.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use fairhop_sim::engine::{Interrupt, Interrupted};
///
/// let stop = AtomicBool::new(false);
/// let requested = || stop.load(Ordering::Relaxed);
/// let interrupt = Interrupt::new(&requested);
/// assert_eq!(interrupt.check(), Ok(()));
/// stop.store(true, Ordering::Relaxed);
/// assert_eq!(interrupt.check(), Err(Interrupted));
/// ```
#[derive(Clone, Copy)]
pub struct Interrupt<'a>(Option<&'a dyn Fn() -> bool>);

impl<'a> Interrupt<'a> {
    /// Work is never stopped.
    pub const NEVER: Self = Self(None);

    /// Work stops once `requested` returns true. It is called every millisecond or so and must be cheap.
    pub fn new(requested: &'a dyn Fn() -> bool) -> Self {
        Self(Some(requested))
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// A stop was requested.
    #[inline]
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.0 {
            Some(requested) if requested() => Err(Interrupted),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Interrupt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interrupt").field(&self.0.is_some()).finish()
    }
}

/// Work was stopped by an [`Interrupt`] and has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;
