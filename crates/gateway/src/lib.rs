//! The gateway on Linux: what the laboratory proved, with real packets.
//!
//! | module | what it is |
//! |---|---|
//! | [`datapath`] | what the kernel does with packets: digests out, policies in |
//!
//! The crate is empty on other systems than Linux, since nothing else has these queues and hooks; the program says so.

#![cfg(target_os = "linux")]

pub mod datapath;
