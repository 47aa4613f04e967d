//! Scenarios: reading, checking, and what they resolve to.

mod error;
mod topology;
mod types;

pub use error::{Finding, Problem};
pub use topology::Endpoint;
pub use types::*;
