//! The engine: the order of events, timers that are cheap to postpone, random streams, and interruption of long work.

mod events;
mod interrupt;
mod prefetch;
mod random;

pub use events::{Event, EventKind, Events, MAX_SUBJECTS, Timer};
pub use interrupt::{Interrupt, Interrupted};
pub use prefetch::prefetch;
pub use random::{Purpose, Stream};
