//! The physical layer of 802.11a, b and g in numbers: rates, frame durations, inter-frame spaces and error rates.
//!
//! Sources are sections of IEEE Std 802.11-2020. Left out: HT and later, 802.11b protection in 802.11g networks,
//! PBCC.

mod error_rate;
mod sensitivity;
mod timing;

pub use error_rate::{ErrorTable, chunk_success};
pub use sensitivity::noise_floor;
pub use timing::{Modulation, Phy, Preamble, Rate, Standard, frame};
