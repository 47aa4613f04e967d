//! A bulk transfer as QUIC makes it: one stream in numbered packets, acknowledged by ranges, repaired under new numbers
//! (RFC 9000, RFC 9002), with the congestion controllers of [`crate::tcp::congestion`].
//!
//! Two machines for a one-way transfer, driven as those of [`crate::tcp`] are: a [`Sender`] and a [`Receiver`]. Payload
//! is never touched. [`wire`] is how packets look between two hosts, but for encryption. What a gateway sees of it are
//! datagrams of certain lengths: packet numbers, acknowledgments and the receiver's credit are encrypted, and there is
//! no window to clamp.
//!
//! ```
//! use fairhop_model::units::Nanos;
//! use fairhop_transport::quic::{Receiver, ReceiverConfig, Sender, SenderConfig};
//!
//! let mut sender = Sender::new(SenderConfig::default());
//! let mut receiver = Receiver::new(ReceiverConfig::default());
//! let mut now = Nanos::ZERO;
//! sender.offer(1_000_000);
//! sender.close();
//! while !sender.is_finished() {
//!     while let Some(datagram) = sender.poll_transmit(now) {
//!         receiver.on_datagram(now, &datagram);
//!     }
//!     while let Some(datagram) = receiver.poll_transmit(now) {
//!         sender.on_datagram(now, &datagram);
//!     }
//!     now += Nanos::from_millis(1);
//!     sender.on_timer(now);
//!     receiver.on_timer(now);
//! }
//! assert_eq!(receiver.delivered(), 1_000_000);
//! ```
//!
//! Modelled: packet-number spaces of one level (RFC 9000 §12.3), ACK ranges and their pruning (§13.2), credit and
//! DATA_BLOCKED (§4.1), round-trip times (RFC 9002 §5), loss by packet and time threshold (§6.1), probe timeout
//! (§6.2), congestion control as RFC 9002 §7 lays it around the controller, persistent congestion (§7.6) and pacing
//! (§7.7).
//!
//! Left out: the handshake (a transfer begins like one with 0-RTT keys and remembered limits), encryption, more than
//! one stream, data both ways, the acknowledgment-frequency extension, ECN, path migration, path MTU discovery, closing
//! and idle timeout of the connection.

mod intervals;
mod packet;
mod receiver;
mod rtt;
mod sender;
pub mod wire;

pub use packet::{AckFrame, Datagram, StreamFrame};
pub use receiver::{Receiver, ReceiverConfig, ReceiverStats};
pub use sender::{Sender, SenderConfig, SenderStats};
