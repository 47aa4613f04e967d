//! Real network stacks and programs on the radio of the simulator.
//!
//! | module | what it is |
//! |---|---|
//! | [`namespaces`] | network namespaces with TUN or TAP devices, and their removal |
//! | [`realtime`] | the loop that lets a World follow the wall clock and moves packets between it and the devices |
//! | `gate` | holds frames back in the kernel until a station takes them |
//! | [`commands`] | programs in namespaces |
//! | [`guest`] | the same in a guest whose clock counts instructions |
//!
//! A program of the same machine, in a namespace, sends packets into the device of its namespace. The loop reads them and
//! injects them into the [`World`](fairhop_sim::world::World) at the time at which they came. What arrives there is written
//! into the device of its destination. Nothing is needed of the machine but `/dev/net/tun`, `ip` of iproute2, and the right
//! to make namespaces.

#![cfg(target_os = "linux")]

pub mod commands;
mod error;
mod gate;
pub mod guest;
pub mod namespaces;
pub mod realtime;
mod sys;

pub use error::EmulateError;
pub use gate::Gate;
