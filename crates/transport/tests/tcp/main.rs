//! TCP against its standards: scripts named after RFC sections, a pair of machines over a hostile pipe, a golden trace.

#[path = "../common/weather.rs"]
mod weather;

mod golden;
mod handshake;
mod pipe;
mod receiving;
mod recovery;
mod script;
mod timers;
