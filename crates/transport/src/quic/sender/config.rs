//! How a sender behaves, and what it counts.

use fairhop_model::units::Nanos;

use crate::tcp::congestion::{CongestionKind, Tuning};

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Largest UDP payload in bytes (RFC 9000 §14: at least 1200).
    pub datagram_bytes: u32,
    /// Packets of the first flight (RFC 9002 §7.2: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// What congestion control is told beside its name.
    pub tuning: Tuning,
    /// Space packets at 5/4 of the window a round trip (RFC 9002 §7.7) where the controller does not say how; an
    /// initial window of packets may go out at once.
    pub pacing: bool,
    /// The receiver's credit at the beginning, in bytes ([`super::ReceiverConfig::buffer`]).
    pub initial_max_data: u64,
    /// The receiver's promise (RFC 9000 §18.2: 25 ms).
    pub max_ack_delay: Nanos,
    /// Longest time between probes, backed off. RFC 9002 leaves it to the idle timeout.
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

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent that ask for an acknowledgment.
    pub packets_sent: u64,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Packets with payload that had been sent before.
    pub packets_retransmitted: u64,
    /// Packets taken to be lost.
    pub packets_lost: u64,
    /// Packets taken to be lost that arrived after all.
    pub spurious_losses: u64,
    /// Congestion events: times that a recovery period began.
    pub recoveries: u64,
    /// Times that the probe timer ran out.
    pub probe_timeouts: u64,
    /// Times that congestion was persistent (RFC 9002 §7.6).
    pub persistent_congestion: u64,
    /// Packets that told of a closed window (DATA_BLOCKED).
    pub blocked_sent: u64,
    /// Acknowledgments taken in.
    pub acks_received: u64,
}
