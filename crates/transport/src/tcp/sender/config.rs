//! How a sender behaves, and what it counts.

use fairhop_model::units::Nanos;

use crate::tcp::congestion::{CongestionKind, Tuning};
use crate::tcp::rtt::{RttArithmetic, RttConfig};

/// How losses are found and repaired with SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// RFC 6675: three segments SACKed past a hole. Lost repetitions wait for the timer.
    #[default]
    Rfc6675,
    /// RFC 8985: by time, repetitions included, and a probe where the tail may be lost.
    RackTlp,
}

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Largest segment in bytes of payload; timestamps, where they are used, take 12 of them (RFC 9293 §3.7.1).
    pub mss: u32,
    /// Segments of the first flight (RFC 6928: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// Its details.
    pub tuning: Tuning,
    /// The window grows with the data that an acknowledgment covers (RFC 3465), not with acknowledgments.
    pub byte_counting: bool,
    /// Offer SACK (RFC 2018).
    pub sack: bool,
    /// How losses are found where both sides have SACK. Without it RFC 6582 holds.
    pub recovery: Recovery,
    /// Spread a reduction of the window over a round trip (RFC 6937), where the variant leaves the window to the sender.
    pub prr: bool,
    /// Take a reduction back when the loss proves to have been none: all repetitions reported as duplicates (RFC 2883),
    /// an echoed timestamp of before them (RFC 3522), or F-RTO with SACK (RFC 5682 §3). As in Linux, with RACK-TLP.
    pub undo: bool,
    /// Offer ECN (RFC 3168).
    pub ecn: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Most segments between the oldest unacknowledged one and the newest, as if the receiver's window were that
    /// small. None: no limit but the receiver's.
    pub max_window: Option<u32>,
    /// Shortest retransmission timeout (RFC 6298 §2.4: 1 s).
    pub min_rto: Nanos,
    /// Retransmission timeout before the first round-trip time (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Longest retransmission timeout and longest time between window probes.
    pub max_rto: Nanos,
    /// G of RFC 6298 §2.3.
    pub clock_granularity: Nanos,
    /// How the timeout follows from round-trip times.
    pub rtt_arithmetic: RttArithmetic,
    /// The connection is given up after so many repetitions of the SYN (Linux: 6).
    pub syn_retries: u32,
    /// The connection is given up when the timer has run out so many times in a row and once more (Linux: 15).
    pub data_retries: u32,
    /// The shift that is announced for windows of this side, which receives nothing.
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
            syn_retries: 6,
            data_retries: 15,
            window_scale: 7,
            initial_seq: 0,
        }
    }
}

impl SenderConfig {
    /// A sender that does as Linux 6.1: timestamps, RACK-TLP, PRR, undo with F-RTO, and timeouts of at least 200 ms over
    /// SRTT. ECN is off, as Linux only answers it by default.
    pub fn linux() -> Self {
        Self {
            timestamps: true,
            recovery: Recovery::RackTlp,
            prr: true,
            undo: true,
            min_rto: Nanos::from_millis(200),
            max_rto: Nanos::from_secs(120),
            rtt_arithmetic: RttArithmetic::Linux,
            ..Self::default()
        }
    }
}

/// What a sender has done. Counts of segments leave out the handshake and bare acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, repetitions included.
    pub segments_sent: u64,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Data segments sent again.
    pub segments_retransmitted: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Times that fast recovery began.
    pub fast_recoveries: u64,
    /// Times that the retransmission timer ran out, for the SYN too.
    pub timeouts: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Acknowledgments taken in.
    pub acks_received: u64,
    /// Duplicate acknowledgments among them.
    pub duplicate_acks: u64,
    /// Reports that a segment had arrived twice (RFC 2883): as many repetitions were needless.
    pub dsacks: u64,
    /// Times that the window was reduced because the network marked a packet (RFC 3168).
    pub ecn_reductions: u64,
    /// Reductions taken back because nothing had been lost.
    pub undone: u64,
    /// Probes of the tail (RFC 8985 §7).
    pub loss_probes: u64,
    /// Repetitions that were lost as well, as RACK found.
    pub lost_retransmissions: u64,
    /// Round-trip times measured.
    pub rtt_samples: u64,
}
