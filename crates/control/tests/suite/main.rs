//! All integration tests of the crate in one binary: `cargo test -p fairhop-control --test suite [MODULE]`.

#![allow(clippy::print_stdout)]

mod adaptive;
mod connections;
mod documents;
mod fixed;
mod gate;
mod gateway;
mod layout;
mod memory;
mod observing;
mod opaque;
mod pacing;
mod packets;
mod plant;
mod routes;
mod voices;

#[path = "../../../../fuzz/check_packet.rs"]
mod check_packet;
#[path = "../../../../tests/counting.rs"]
mod counting;
