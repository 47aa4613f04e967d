//! AIMD(α, β) datagrams (cai2005, section II): the machines by script, over random networks, and over a link of fixed
//! capacity.

mod friendliness;
mod handshake;
mod network;
mod outage;
mod properties;
mod script;
mod utilization;
mod wire;
