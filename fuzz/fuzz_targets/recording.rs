//! Arbitrary bytes as the frames of a gateway's recording.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none recording` on a stable toolchain.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check_recording.rs"]
mod check_recording;

fuzz_target!(|frames: &[u8]| drop(check_recording::check(frames)));
