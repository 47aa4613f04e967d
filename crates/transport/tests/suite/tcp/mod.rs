//! TCP against its standards: scripts named after RFC sections, a pair of machines over a hostile pipe, a golden trace.

mod ecn;
mod golden;
mod handshake;
mod pacing;
mod pipe;
mod racktlp;
mod receiving;
mod recovery;
mod script;
mod timers;
