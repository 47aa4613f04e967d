//! Bytes as routing messages and as events of a machine.

#![no_main]

#[path = "../check_routing.rs"]
mod check_routing;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check_routing::check(bytes));
