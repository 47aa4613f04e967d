//! Sans-IO transport machines: they own no clock, socket, thread or random source. Time and packets come in,
//! packets and the time of the next timer go out.

pub mod aimd;
pub mod quic;
pub mod tcp;
