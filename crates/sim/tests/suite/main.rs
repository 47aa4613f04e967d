//! The integration tests of the simulator, in one binary: linking one binary per file took longer than running them.
//!
//! `cargo test -p fairhop-sim --test suite` runs all of them, `… --test suite mac::` those of one module.

#[path = "../../../../tests/counting.rs"]
mod counting;
mod support;

mod adaptive;
mod allocation;
mod changes;
mod conservation;
mod control;
mod determinism;
mod edca;
mod linux_path;
mod mac;
mod network;
mod output_capture;
mod output_tables;
mod radio;
mod results;
mod saturation;
mod scenario_corpus;
mod scenario_library;
mod scenario_malformed;
mod traffic;
mod variants;
mod wired;
