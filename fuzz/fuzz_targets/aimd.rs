//! Bytes in, nothing but packets or refusals out.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../aimd.rs"]
mod aimd;

fuzz_target!(|bytes: &[u8]| aimd::check(bytes));
