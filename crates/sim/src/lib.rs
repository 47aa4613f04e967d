//! The World: a packet-level simulator of 802.11 multihop networks that carry calls and TCP.

pub mod scenario;
