//! The gateway on Linux: what the laboratory proved, with real packets.
//!
//! | module | what it is |
//! |---|---|
//! | [`datapath`] | what the kernel does with packets: digests out, policies in |
//! | [`config`] | the config, in the words of a scenario |
//! | [`engine`] | observer, bounds of voice and controller of one gateway |
//! | [`probe`] | echo requests that stand for calls which do not pass the gateway |
//! | [`voice`] | what counts as a call, and bounds for hosts that fake calls |
//! | [`daemon`] | the loop, its modes, reload, failures |
//! | [`status`], [`api`] | what is known, as data, metrics and over HTTP |
//! | [`journal`] | decisions that survive a restart |
//! | [`record`] | recordings, and their replay |
//! | [`doctor`] | what is missing on this machine, and what to do |
//! | [`log`], [`notify`], [`privileges`] | the surroundings of a daemon |
//!
//! The crate is empty on other systems than Linux, since nothing else has these queues and hooks; the program says so.

#![cfg(target_os = "linux")]

pub mod api;
pub mod config;
pub mod daemon;
pub mod datapath;
pub mod doctor;
pub mod engine;
pub mod journal;
pub mod log;
pub mod notify;
pub mod privileges;
pub mod probe;
pub mod record;
pub mod status;
pub mod voice;
