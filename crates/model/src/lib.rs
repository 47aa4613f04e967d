//! Pure arithmetic of calls and TCP that share an 802.11 multihop network: no state, no clock, no input or output.
//!
//! | module | what it computes | source |
//! |---|---|---|
//! | [`units`] | time, rate and power as types | – |
//! | [`phy`] | frame durations, inter-frame spaces and error rates of 802.11a, b and g | IEEE 802.11-2020 |

pub mod phy;
pub mod units;
