//! Arbitrary bytes as a packet.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none packet fuzz/corpus/packet` on a stable toolchain. What it finds goes
//! into the corpus, which `cargo test` replays; `-merge=1 -set_cover_merge=1 -use_counters=0` keeps that small.
#![no_main]

use fairhop_model::units::Nanos;
use libfuzzer_sys::fuzz_target;

#[path = "../check_packet.rs"]
mod check_packet;

fuzz_target!(|bytes: &[u8]| check_packet::check(bytes, &mut check_packet::observer(), Nanos::from_secs(1)));
