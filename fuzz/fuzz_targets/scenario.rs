//! Arbitrary text as a scenario with overrides.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none scenario fuzz/corpus/scenario scenarios crates/sim/tests/malformed`
//! on a stable toolchain. Inputs that it finds are added to the corpus, which `cargo test` replays; `-merge=1 -set_cover_merge=1
//! -use_counters=0` minimizes it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

fuzz_target!(|text: &str| check::check(text));
