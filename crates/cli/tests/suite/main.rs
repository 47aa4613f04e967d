//! The program from outside: what it prints, what it writes, how it ends. One binary, so that it links once.

mod advise;
mod aimd;
mod analyze;
mod chart;
mod compare;
mod demo;
#[cfg(target_os = "linux")]
mod emulate;
mod errors;
#[cfg(unix)]
mod interrupts;
mod runs;
mod support;
mod texts;
#[cfg(target_os = "linux")]
mod virtual_time;
