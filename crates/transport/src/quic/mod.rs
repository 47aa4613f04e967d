//! A bulk transfer over QUIC: one stream in numbered packets that are acknowledged by ranges; lost data are sent under new
//! numbers (RFC 9000, RFC 9002). The congestion controllers are those of [`crate::tcp::congestion`].
//!
//! A [`Sender`] and a [`Receiver`] make a one-way transfer and are driven as those of [`crate::tcp`]. They never touch
//! payload. [`wire`] is the packet format without encryption. A gateway sees only datagrams and their lengths: packet
//! numbers, acknowledgments and the receiver's credit are encrypted, and there is no window to clamp.
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
//! (§6.2), the rules of RFC 9002 §7 around the controller, persistent congestion (§7.6) and pacing (§7.7).
//!
//! Left out: the handshake (a transfer starts as if with 0-RTT keys and remembered limits), encryption, more than one
//! stream, data both ways, the acknowledgment-frequency extension, ECN, path migration, path MTU discovery, closing
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
