//! Every integration test of the crate in one binary, which links once: `cargo test -p fairhop-transport --test suite`.

#[path = "../../../../tests/counting.rs"]
mod counting;
mod impairments;

mod aimd;
mod linux;
mod no_allocation;
mod pftk;
mod quic;
mod send;
mod tcp;
