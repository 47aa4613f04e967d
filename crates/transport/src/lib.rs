//! Sans-IO transport machines without clock, socket, thread or random source. Inputs are time and packets; outputs are
//! packets and the time of the next timer.

pub mod aimd;
pub mod quic;
pub mod tcp;
