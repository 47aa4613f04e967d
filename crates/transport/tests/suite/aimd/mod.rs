//! AIMD(α, β) datagrams (cai2005, section II): the machines by script, under everything that a network does to packets,
//! and over a link of fixed capacity.

mod friendliness;
mod network;
mod outage;
mod properties;
mod script;
mod utilization;
mod wire;
