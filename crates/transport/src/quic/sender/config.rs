//! Configuration and counters of a sender.

use fairhop_model::units::Nanos;

use crate::tcp::congestion::{CongestionKind, Tuning};

/// Configuration of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Maximum UDP payload in bytes (RFC 9000 §14: at least 1200).
    pub datagram_bytes: u32,
    /// Packets of the first flight (RFC 9002 §7.2: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// Options of the congestion control.
    pub tuning: Tuning,
    /// Pace packets at 5/4 of the window per round trip (RFC 9002 §7.7), unless the controller paces itself; an initial
    /// window of packets may be sent at once.
    pub pacing: bool,
    /// Initial credit of the receiver in bytes ([`crate::quic::ReceiverConfig::buffer`]).
    pub initial_max_data: u64,
    /// The receiver's max_ack_delay (RFC 9000 §18.2: 25 ms).
    pub max_ack_delay: Nanos,
    /// Maximum probe timeout with backoff. RFC 9002 relies on the idle timeout instead.
    pub max_probe_timeout: Nanos,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            datagram_bytes: 1472,
            initial_window: 10,
            congestion: CongestionKind::NewReno,
            tuning: Tuning::default(),
            pacing: true,
            initial_max_data: 4 << 20,
            max_ack_delay: Nanos::from_millis(25),
            max_probe_timeout: Nanos::from_secs(60),
        }
    }
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Ack-eliciting packets sent.
    pub packets_sent: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Packets with payload sent before.
    pub packets_retransmitted: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that arrived.
    pub spurious_losses: u64,
    /// Congestion events, that is, recovery periods begun.
    pub recoveries: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Persistent congestion events (RFC 9002 §7.6).
    pub persistent_congestion: u64,
    /// Packets with DATA_BLOCKED.
    pub blocked_sent: u64,
    /// Acknowledgments received.
    pub acks_received: u64,
}
