//! TCP against its standards: scripts named after RFC sections, both machines over an impaired path, and a golden trace.

mod ecn;
mod golden;
mod handshake;
mod pacing;
mod pipe;
mod pushes;
mod racktlp;
mod receiving;
mod recovery;
mod script;
mod timers;
