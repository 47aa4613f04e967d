//! The integration tests of the simulator, in one binary: linking one binary per file took longer than running them.
//!
//! `cargo test -p fairhop-sim --test suite` runs all of them, `… --test suite mac::` those of one module.
// All of it is for tests, though the lint knows only functions that are marked so.
#![allow(clippy::unwrap_used)]

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
mod images;
mod linux_path;
mod long_runs;
mod mac;
mod mobility;
mod modules;
mod network;
mod output_capture;
mod output_tables;
mod radio;
mod real;
mod results;
mod routing;
mod saturation;
mod scenario_corpus;
mod scenario_library;
mod scenario_malformed;
mod scenario_resolved;
mod setup;
mod traffic;
mod truth;
mod variants;
mod wired;
