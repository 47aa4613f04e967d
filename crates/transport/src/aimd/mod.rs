//! AIMD(α, β) datagrams: a congestion-controlled stream of packets without retransmission, after L. Cai, X. Shen,
//! J. W. Mark and J. Pan, "QoS support for multimedia traffic in wireless/IP networks using AIMD protocols" (cai2005,
//! section II). A [`Sender`] numbers packets and keeps at most min(cwnd, rwnd) of them outstanding. A [`Receiver`]
//! answers each packet with an acknowledgment: the largest number received, and a vector of the eight numbers before it.
//! Neither data nor acknowledgments are retransmitted: the next acknowledgments repeat what a lost one said.
//!
//! The window doubles every round trip in slow start and grows by α packets a round trip in congestion avoidance. A
//! packet is lost when an acknowledgment shows it missing and three later ones received; the window then falls to β times
//! the outstanding packets. A timeout starts slow start again. TCP's rule is AIMD(1, 1/2).
//!
//! The machines never touch payload. Every call takes the time. [`Sender::poll_transmit`] returns packets to send until
//! it returns none; then [`Sender::next_timer`] says when to call [`Sender::on_timer`]. [`wire`] is the format between two
//! hosts, [`handshake`] how a stream is opened there.
//!
//! ```
//! use fairhop_model::units::Nanos;
//! use fairhop_transport::aimd::{Receiver, ReceiverConfig, Sender, SenderConfig};
//!
//! let mut sender = Sender::new(SenderConfig::default());
//! let mut receiver = Receiver::new(ReceiverConfig { rwnd: 20, ..ReceiverConfig::default() });
//! let mut now = Nanos::ZERO;
//! sender.offer(1_000);
//! while !sender.is_idle() {
//!     while let Some(datagram) = sender.poll_transmit(now) {
//!         let (ack, _) = receiver.on_datagram(now, &datagram);
//!         sender.on_ack(now, &ack);
//!     }
//!     now += Nanos::from_millis(1);
//!     sender.on_timer(now);
//! }
//! assert_eq!(receiver.stats().received, 1_000);
//! ```
//!
//! Where the paper leaves a choice:
//!
//! - *Small value* of cwnd at the start, after a timeout and after an idle time: [`SenderConfig::initial_window`]. A sender
//!   is idle if it has sent nothing for a retransmission timeout (as RFC 5681 §4.1).
//! - *Timeout*: RFC 6298, by the acknowledgment of the newest packet. Without retransmissions no sample is ambiguous, and
//!   late acknowledgments count too. After a timeout every outstanding packet counts as lost.
//! - *Halve ssthresh*: half of the window while there is no ssthresh, or if cwnd is below it.
//! - One backoff for all losses among the packets that were outstanding at the first loss (RFC 6582's `recover`).
//! - *Outstanding* at a backoff: the packets outstanding when the sender could last send, including the lost one.
//! - A packet beyond the reach of every acknowledgment, because more acknowledgments in a row were lost than the vector
//!   has bits, is no longer outstanding. It is not a sign of congestion.
//! - cwnd grows only while the window, min(cwnd, rwnd), is fully used. An rwnd of 0 counts as 1, since no later packet
//!   would announce a larger one.
//!
//! Left out: ECN, pacing, delayed acknowledgments, path MTU discovery, mobility of addresses, encryption.

pub mod handshake;
mod packet;
mod receiver;
mod sender;
mod seq;
pub mod wire;

pub use packet::{Ack, Datagram, RelativeDelay};
pub use receiver::{Arrival, Receiver, ReceiverConfig, ReceiverStats};
pub use sender::{LOSS_THRESHOLD, Sender, SenderConfig, SenderStats, VECTOR_BITS};
pub use seq::Seq;
