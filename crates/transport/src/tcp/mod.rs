//! TCP as two machines for a one-way transfer: a [`Sender`] that opens the connection and sends a stream, and a
//! [`Receiver`] that accepts it, acknowledges and closes when the sender does.
//!
//! The machines never touch payload: a segment carries the length of its payload, and octets are identified by their
//! offset. Every call passes the time. The caller calls `poll_transmit` until it returns nothing, and then `on_timer` at
//! the time that `next_timer` returns. Streams have 64-bit offsets inside; sequence numbers on the wire wrap.
//!
//! ```
//! use fairhop_model::units::Nanos;
//! use fairhop_transport::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig};
//!
//! let mut sender = Sender::new(SenderConfig::default());
//! let mut receiver = Receiver::new(ReceiverConfig::default());
//! let mut now = Nanos::ZERO;
//! sender.offer(1_000_000);
//! sender.close();
//! sender.open(now);
//! while !sender.is_finished() {
//!     while let Some(segment) = sender.poll_transmit(now) {
//!         receiver.on_segment(now, &segment);
//!     }
//!     while let Some(segment) = receiver.poll_transmit(now) {
//!         sender.on_segment(now, &segment);
//!     }
//!     now += Nanos::from_millis(1);
//!     sender.on_timer(now);
//!     receiver.on_timer(now);
//! }
//! assert_eq!(receiver.delivered(), 1_000_000);
//! ```
//!
//! Left out: data both ways, simultaneous open, RST generation and the wait of TIME-WAIT (ports are not reused here),
//! urgent data, Nagle's algorithm (applications here write what is to be sent), path MTU discovery, fast open,
//! accurate ECN, the ageing of timestamps after 24 idle days (RFC 7323 §5.5).

mod autotune;
pub mod congestion;
mod prr;
mod rack;
mod rate;
mod receiver;
pub mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod seq;

pub use congestion::{CongestionKind, HyStart, Tuning};
pub(crate) use rate::RateEstimator;
pub use receiver::{Receiver, ReceiverConfig, ReceiverState, ReceiverStats};
pub(crate) use scoreboard::Newest;
pub use segment::{
    Decoded, Ecn, Flags, HeaderError, MAX_HEADER_BYTES, SackBlock, SackBlocks, Segment, Timestamps, checksum,
};
pub use sender::{Recovery, Sender, SenderConfig, SenderState, SenderStats};
pub use seq::Seq;

use fairhop_model::units::Nanos;

/// The timestamp clock has ticks of 1 ms (RFC 7323 §5.4: 1 ms to 1 s), as in Linux.
fn timestamp_clock(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// Bytes of the timestamps option, which reduce every segment's payload (RFC 9293 §3.7.1, RFC 7323 Appendix A).
const TIMESTAMP_BYTES: u32 = 12;

/// Maximum shift of a window (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;
