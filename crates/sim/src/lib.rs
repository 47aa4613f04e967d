//! The World: a packet-level simulator of 802.11 multihop networks that carry calls and TCP.
//!
//! | module | what it is |
//! |---|---|
//! | [`scenario`] | what is simulated, as written in TOML |
//! | [`world`] | stations, links, flows and the event loop |
//! | [`engine`] | event order, timers, random streams |
//! | [`radio`] | who hears whom, and the fate of overlapping signals |
//! | [`mobility`] | where moving nodes are |
//! | [`mac`] | the 802.11 DCF |
//! | [`queue`], [`wired`], [`routing`], [`packet`], [`rtcp`] | between the MAC and the flows |
//! | [`recorder`], [`results`] | what is measured, and what it amounts to |
//! | [`output`] | tables, captures and pictures on disk |

pub mod engine;
mod headers;
mod ip;
pub mod mac;
pub mod mobility;
pub mod output;
pub mod packet;
pub mod queue;
pub mod radio;
pub mod recorder;
pub mod results;
pub mod routing;
pub mod rtcp;
pub mod scenario;
pub mod wired;
pub mod world;
