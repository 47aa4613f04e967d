//! The QUIC-like machines from outside.

#[path = "../common/weather.rs"]
mod weather;

mod pipe;
mod recovery;
mod wire;
