//! The engine: the order of events, timers that can be put off for nothing, and random streams.

mod events;
mod random;

pub use events::{Event, EventKind, Events, MAX_SUBJECTS, Timer};
pub use random::{Purpose, Stream};
