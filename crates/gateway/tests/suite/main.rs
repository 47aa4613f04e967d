//! The gateway on the kernel of this machine.
//!
//! Tests that need rights or clang say so and pass without them, except under CI.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

#[path = "../../../../fuzz/check_recording.rs"]
mod check_recording;
mod cost;
mod daemon;
mod differential;
mod engine;
mod failures;
mod frames;
mod namespaces;
mod network;
mod pacing;
mod spacing;
mod support;
mod tables;
