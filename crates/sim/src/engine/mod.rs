//! The engine: the order of events, timers that can be put off for nothing, and random streams.

mod ahead;
mod events;
mod random;

pub use ahead::fetch_ahead;
pub use events::{Event, EventKind, Events, MAX_SUBJECTS, Timer};
pub use random::{Purpose, Stream};
