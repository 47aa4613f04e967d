//! The radio: which nodes receive signals from which ([`Links`]), and the outcome of overlapping signals at a receiver
//! ([`Receiver`]).

mod config;
mod grid;
mod limits;
mod links;
mod moving;
mod params;
mod propagation;
mod receiver;

pub use config::{Capture, LinkRate, Propagation, Radio, RateReach, Reception};
pub(crate) use grid::Grid;
pub use limits::decode_limit_m;
pub use links::{Link, Links, LinksError, MAX_LINKS};
pub use moving::Moving;
pub use params::RadioParams;
pub(crate) use propagation::reach_m;
pub use propagation::{LIGHT_M_PER_S, Position};
pub use receiver::{Airtime, Departure, FrameLoss, Outcome, Receiver, Signal};
