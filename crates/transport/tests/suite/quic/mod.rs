//! The QUIC-like machines from outside.

mod pipe;
mod recovery;
mod wire;
