//! Arbitrary bytes as a packet of a QUIC-like transfer.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none quic fuzz/corpus/quic` on a stable toolchain. What it finds goes into
//! the corpus, which `cargo test` replays; `-merge=1 -set_cover_merge=1 -use_counters=0` keeps that small.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check_quic.rs"]
mod check_quic;

fuzz_target!(|bytes: &[u8]| check_quic::check(bytes));
