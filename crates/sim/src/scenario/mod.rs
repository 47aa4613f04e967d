//! Scenarios: reading, checking, and what they resolve to.

mod types;

pub use types::*;
