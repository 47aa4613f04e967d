//! How a gateway keeps calls clear and TCP shares fair in the mesh behind it: packets come in as digests, decisions go out
//! as policies.
//!
//! Sans-IO: no clock, socket, thread or random number. Time comes with every digest and tick. The simulator's gateway node,
//! or a daemon in front of a kernel, feeds the digests and obeys the policies. The crate uses only what a gateway can see.
//!
//! | module | what it does | source |
//! |---|---|---|
//! | [`gateway`] | the whole pipeline of one gateway | – |
//! | [`digest`] | what is read out of a packet | RFC 791, 8200, 9293, 3550, 3611 |
//! | [`flow`] | flow keys, and a table of flows of bounded size | – |
//! | [`network`] | networks of hosts by prefix | – |
//! | [`observer`] | flows, calls and their quality, round trips, losses | RFC 3550, ITU-T G.107, pping |
//! | [`controller`] | `fixed` and `adaptive` | kim2010; own work |
//! | [`allocate`] | splits a budget by shares of C-load | osipov2007 |
//! | [`decision`] | what was decided at a tick, in short | – |
//! | [`policy`] | what the controller asks the gateway to do | – |
//! | [`window`] | clamps the advertised window | RFC 9293, 7323, 1624; kim2010 |
//! | [`pacer`] | paces data, or ACKs | kim2010 |
//! | [`gate`] | times at which data enters the mesh | IEEE 802.1Qbv |
//! | [`throttle`] | paces a mesh node's own traffic | osipov2007 |
//! | [`raw`] | digests and clamps with a fixed layout | – |
//!
//! docs/control.md explains how they fit together.

pub mod allocate;
pub mod controller;
pub mod decision;
pub mod digest;
pub mod flow;
pub mod gate;
pub mod gateway;
pub mod network;
pub mod observer;
pub mod pacer;
pub mod policy;
pub mod raw;
pub mod throttle;
pub mod window;

pub use controller::{AdaptiveConfig, Controller, ControllerConfig, FixedConfig};
pub use decision::Decision;
pub use digest::{Digest, Direction};
pub use flow::{Address, FlowKey};
pub use gateway::Gateway;
pub use network::Network;
pub use observer::{Observer, ObserverConfig};
pub use policy::Policy;
