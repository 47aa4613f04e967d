//! The radio: who hears whom how strongly ([`Links`]), and what becomes of overlapping signals at a receiver
//! ([`Receiver`]).

mod config;
mod links;
mod params;
mod propagation;
mod receiver;

pub use config::{Capture, LinkRate, Propagation, Radio, Reception};
pub use links::{Link, Links};
pub use params::RadioParams;
pub use propagation::{LIGHT_M_PER_S, Position};
pub use receiver::{Airtime, Departure, FrameLoss, Outcome, Receiver, Signal};
