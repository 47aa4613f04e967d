//! What a gateway does so that calls stay clear and TCP shares stay fair in the mesh behind it: packets in as digests,
//! decisions out as policies.
//!
//! Sans-IO: no clock, socket, thread or random number. Time comes with every digest and tick; who feeds the digests and
//! obeys the policies is the simulator's gateway node or a kernel's. Nothing here knows more than a gateway can see.
//!
//! | module | what it does | source |
//! |---|---|---|
//! | [`digest`] | the few bytes that are learnt from a packet, and how they are read out of it | RFC 791, 8200, 9293, 3550, 3611 |
//! | [`flow`] | the name of a flow, and a table of flows of bounded size | – |
//! | [`observer`] | flows, calls and their quality, round trips, losses | RFC 3550, ITU-T G.107, pping |
//! | [`window`] | clamps the advertised window | RFC 9293, 7323, 1624; kim2010 |
//! | [`pacer`] | paces data, or ACKs | kim2010 |
//! | [`throttle`] | paces a mesh node's own traffic | osipov2007 |
//! | [`policy`] | what the gateway is asked to do | – |
//! | [`allocate`] | splits a budget by shares of C-load | osipov2007 |
//! | [`controller`] | `fixed` and `adaptive` | kim2010; own work |
//!
//! docs/control.md tells how it fits together.

pub mod allocate;
pub mod controller;
pub mod digest;
pub mod flow;
pub mod gate;
pub mod gateway;
pub mod observer;
pub mod pacer;
pub mod policy;
pub mod throttle;
pub mod window;

pub use controller::{AdaptiveConfig, Controller, ControllerConfig, FixedConfig};
pub use digest::{Digest, Direction};
pub use flow::{Address, FlowKey};
pub use gateway::Gateway;
pub use observer::{Observer, ObserverConfig};
pub use policy::Policy;
