//! AIMD(α, β) datagrams: a congestion-controlled stream of packets that nobody sends again, as L. Cai, X. Shen,
//! J. W. Mark and J. Pan describe it in "QoS support for multimedia traffic in wireless/IP networks using AIMD protocols"
//! (cai2005, section II). A [`Sender`] numbers packets and keeps at most min(cwnd, rwnd) of them outstanding; a
//! [`Receiver`] answers each with an acknowledgment of the largest number that it has and a vector of the eight before
//! it. Neither data nor acknowledgments are repeated: what an acknowledgment would have said stands in the next ones.
//!
//! The window doubles every round trip in slow start, grows by α packets a round trip in congestion avoidance, and falls
//! to β times the outstanding packets where an acknowledgment shows one missing and three later ones received. A timeout
//! begins with slow start again. TCP's rule is AIMD(1, 1/2).
//!
//! Payload is never touched. Time comes in with every call; what goes out is fetched with [`Sender::poll_transmit`] until
//! it gives nothing, and then [`Sender::next_timer`] says when to call [`Sender::on_timer`]. [`wire`] is how packets look
//! between two hosts.
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
//! - *Small value* of cwnd at the start, after a timeout and after an idle time: [`SenderConfig::initial_window`]. Idle is
//!   who has sent nothing for a retransmission timeout (as RFC 5681 §4.1).
//! - *Timeout*: RFC 6298, by the acknowledgment of the newest packet; without repetitions no sample is ambiguous, and late
//!   acknowledgments count too. After it every outstanding packet is taken as lost.
//! - *Halve ssthresh*: while there is none, or cwnd is less, half of the window.
//! - One backoff for all losses among the packets that were outstanding at the first (RFC 6582's `recover`).
//! - *Outstanding* at a backoff are the packets that were so when the sender could last send, the lost one among them.
//! - A packet that no acknowledgment tells anything of, because more of them were lost in a row than the vector has
//!   bits, is no longer outstanding, and no sign of congestion.
//! - cwnd grows only while the window, min(cwnd, rwnd), is in full use. An rwnd of 0 counts as 1, since nobody would tell
//!   when it opens.
//!
//! Left out: ECN, pacing, delayed acknowledgments, a handshake (the first packet is data), path MTU discovery, mobility of
//! addresses, authentication.

mod receiver;
mod sender;
mod seq;
pub mod wire;

pub use receiver::{Arrival, Receiver, ReceiverConfig, ReceiverStats};
pub use sender::{Sender, SenderConfig, SenderStats};
pub use seq::Seq;

use fairhop_model::units::Nanos;

/// Bits of the vector of an acknowledgment.
pub const VECTOR_BITS: u32 = 8;

/// A packet is lost when so many later ones have arrived.
pub const LOSS_THRESHOLD: usize = 3;

/// What a data packet says beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The number of the packet, modulo 2²⁴.
    pub seq: Seq,
    /// The sender's clock when it was sent, in µs modulo 2³².
    pub sent_us: u32,
}

/// An acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The largest number received.
    pub seq: Seq,
    /// Bit i − 1, from the lowest: whether the packet with the number `seq` − i has been received.
    pub vector: u8,
    /// How many packets may be outstanding as far as the receiver is concerned.
    pub rwnd: u16,
    /// The receiver's clock less the sender's when the packet came that this answers, in µs modulo 2³²: its time on the
    /// way, but for the difference of the clocks.
    pub transit_us: u32,
}

/// One-way delays by clocks whose difference nobody knows: each over the shortest so far. What the shortest one is in
/// itself stays unknown, and so does a drift of the clocks against each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelativeDelay {
    /// The first difference, and the least since in µs over it.
    base: Option<(u32, i64)>,
}

impl RelativeDelay {
    /// Takes a difference of clocks and gives the delay over the shortest so far. Differences are within 2³¹ µs (half
    /// an hour) of the first.
    pub fn on_transit(&mut self, transit_us: u32) -> Nanos {
        let (first, least) = self.base.unwrap_or((transit_us, 0));
        let over = i64::from(transit_us.wrapping_sub(first) as i32);
        let least = least.min(over);
        self.base = Some((first, least));
        Nanos::from_micros(over.abs_diff(least))
    }
}

/// The clock that is sent along: microseconds modulo 2³².
fn clock_us(now: Nanos) -> u32 {
    (now.0 / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_relative_to_the_shortest_so_far_whatever_the_clocks_and_across_their_wrap() {
        for offset in [0_u32, 5, u32::MAX - 10, 1 << 31] {
            let mut delay = RelativeDelay::default();
            let delays = [100_u32, 150, 90, 90, 95].map(|us| delay.on_transit(offset.wrapping_add(us)));
            assert_eq!(delays.map(|delay| delay.0 / 1_000), [0, 50, 0, 0, 5]);
        }
    }
}
