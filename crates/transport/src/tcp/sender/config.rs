//! Configuration and counters of a sender.

use fairhop_model::units::Nanos;

use crate::tcp::congestion::{CongestionKind, Tuning};
use crate::tcp::rtt::{RttArithmetic, RttConfig};

/// Loss detection with SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// RFC 6675: three segments SACKed past a hole. Lost retransmissions wait for the timer.
    #[default]
    Rfc6675,
    /// RFC 8985: by time, including retransmissions, with a tail loss probe.
    RackTlp,
}

/// Configuration of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Maximum segment in bytes of payload; timestamps, if used, reduce it by 12 (RFC 9293 §3.7.1).
    pub mss: u32,
    /// Segments of the first flight (RFC 6928: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// Options of the congestion control.
    pub tuning: Tuning,
    /// The window grows with the data that an acknowledgment covers (RFC 3465), not with acknowledgments.
    pub byte_counting: bool,
    /// Offer SACK (RFC 2018).
    pub sack: bool,
    /// Loss detection if both sides have SACK. Without SACK RFC 6582 applies.
    pub recovery: Recovery,
    /// Spread a reduction of the window over a round trip (RFC 6937), unless the variant sets the window itself.
    pub prr: bool,
    /// Undo a reduction if the loss was spurious: all retransmissions reported as duplicates (RFC 2883), an echoed timestamp
    /// from before them (RFC 3522), or F-RTO with SACK (RFC 5682 §3). Only with RACK-TLP, as in Linux.
    pub undo: bool,
    /// Offer ECN (RFC 3168).
    pub ecn: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Maximum number of segments between the oldest unacknowledged one and the newest, like a receiver's window of that
    /// size. None: only the receiver's window applies.
    pub max_window: Option<u32>,
    /// Minimum retransmission timeout (RFC 6298 §2.4: 1 s).
    pub min_rto: Nanos,
    /// Retransmission timeout before the first sample (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Maximum retransmission timeout and maximum time between window probes.
    pub max_rto: Nanos,
    /// G of RFC 6298 §2.3.
    pub clock_granularity: Nanos,
    /// Computation of the timeout from round-trip times.
    pub rtt_arithmetic: RttArithmetic,
    /// Whether a segment is pushed (PSH) after every half of the largest window that was offered, as Linux does. The last
    /// segment of what the application has written always is.
    pub pushes: bool,
    /// Number of SYN retransmissions after which the connection fails (Linux: 6).
    pub syn_retries: u32,
    /// Number of consecutive timeouts that the connection survives; it fails at the next one (Linux: 15).
    pub data_retries: u32,
    /// Window scale announced by this side, which receives no data.
    pub window_scale: u8,
    /// Sequence number of the SYN.
    pub initial_seq: u32,
}

impl Default for SenderConfig {
    fn default() -> Self {
        let rtt = RttConfig::default();
        Self {
            mss: 1460,
            initial_window: 10,
            congestion: CongestionKind::NewReno,
            tuning: Tuning::default(),
            byte_counting: true,
            sack: true,
            recovery: Recovery::Rfc6675,
            prr: false,
            undo: false,
            ecn: false,
            timestamps: false,
            max_window: None,
            min_rto: rtt.min_rto,
            initial_rto: rtt.initial_rto,
            max_rto: rtt.max_rto,
            clock_granularity: rtt.clock_granularity,
            rtt_arithmetic: rtt.arithmetic,
            pushes: false,
            syn_retries: 6,
            data_retries: 15,
            window_scale: 7,
            initial_seq: 0,
        }
    }
}

impl SenderConfig {
    /// Linux 6.1: timestamps, RACK-TLP, PRR, undo with F-RTO, pushes, and timeouts of at least 200 ms over SRTT. ECN is off, because
    /// Linux accepts but does not request it by default.
    pub fn linux() -> Self {
        Self {
            timestamps: true,
            recovery: Recovery::RackTlp,
            prr: true,
            undo: true,
            min_rto: Nanos::from_millis(200),
            max_rto: Nanos::from_secs(120),
            rtt_arithmetic: RttArithmetic::Linux,
            pushes: true,
            ..Self::default()
        }
    }
}

/// Counters of a sender. Segment counts exclude the handshake and pure acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, including retransmissions.
    pub segments_sent: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Data segments retransmitted.
    pub segments_retransmitted: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Fast recoveries begun.
    pub fast_recoveries: u64,
    /// Retransmission timeouts, including those of the SYN.
    pub timeouts: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Acknowledgments received.
    pub acks_received: u64,
    /// Duplicate acknowledgments among them.
    pub duplicate_acks: u64,
    /// Reports of a segment that arrived twice (RFC 2883), that is, of a spurious retransmission.
    pub dsacks: u64,
    /// Window reductions because of a mark (RFC 3168).
    pub ecn_reductions: u64,
    /// Reductions undone because the loss was spurious.
    pub undone: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub loss_probes: u64,
    /// Retransmissions that RACK declared lost.
    pub lost_retransmissions: u64,
    /// Round-trip times measured.
    pub rtt_samples: u64,
}
