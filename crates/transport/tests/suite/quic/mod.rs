//! The QUIC-like machines through their public interface.

mod pipe;
mod recovery;
mod wire;
