//! All integration tests of the crate in one binary: `cargo test -p fairhop-control --test suite [MODULE]`.

#![allow(clippy::print_stdout)]

mod adaptive;
mod gate;
mod gateway;
mod memory;
mod observing;
mod pacing;
mod packets;
mod plant;

#[path = "../../../../fuzz/check_packet.rs"]
mod check_packet;
#[path = "../../../../tests/counting.rs"]
mod counting;
