//! Configuration and counters of a receiver.

use fairhop_model::units::Nanos;

/// Configuration of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Maximum segment size to announce, in bytes.
    pub mss: u32,
    /// Buffer in bytes for data that the application has not read and for data past holes. Determines the window scale.
    pub buffer: u32,
    /// Segments in order per acknowledgment (RFC 5681 §4.2: 2); 1 acknowledges each.
    pub delayed_ack_segments: u32,
    /// Maximum delay of an acknowledgment (RFC 9293 §3.8.6.3: under 0.5 s).
    pub delayed_ack_timeout: Nanos,
    /// Accept SACK if offered.
    pub sack: bool,
    /// Accept timestamps if offered.
    pub timestamps: bool,
    /// Number of segments that are acknowledged at once at the start of the connection and after a duplicate (Linux's
    /// quickack; 16 in Linux); two of them after a mark or CWR. 0: none.
    pub quick_acks: u32,
    /// After three acknowledgments past the same hole, further ones are merged and delayed by this time, or by a twentieth
    /// of the handshake's round trip if that is less (Linux: 1 ms). None: no delay.
    pub compress_sacks: Option<Nanos>,
    /// Acknowledge each segment while Linux's receive window grows (dynamic right-sizing), which covers most of slow start.
    pub autotune: bool,
    /// Accept ECN if offered (RFC 3168).
    pub ecn: bool,
    /// Sequence number of the SYN.
    pub initial_seq: u32,
    /// First timeout of SYN and FIN; each further one is twice as long (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Maximum retransmissions of SYN and FIN (Linux: 5 for a SYN with ACK).
    pub retries: u32,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            buffer: 4 << 20,
            delayed_ack_segments: 2,
            delayed_ack_timeout: Nanos::from_millis(200),
            sack: true,
            timestamps: false,
            quick_acks: 0,
            compress_sacks: None,
            autotune: false,
            ecn: false,
            initial_seq: 0,
            initial_rto: Nanos::from_secs(1),
            retries: 6,
        }
    }
}

impl ReceiverConfig {
    /// Acknowledges as Linux 6.1, with timestamps.
    pub fn linux() -> Self {
        Self {
            delayed_ack_timeout: Nanos::from_millis(40),
            timestamps: true,
            quick_acks: 16,
            compress_sacks: Some(Nanos::from_millis(1)),
            autotune: true,
            ..Self::default()
        }
    }
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Segments with payload received.
    pub segments_received: u64,
    /// Payload bytes received, including duplicates.
    pub bytes_received: u64,
    /// Segments received past a hole.
    pub out_of_order: u64,
    /// Segments with octets received before.
    pub duplicates: u64,
    /// Payload bytes dropped past the window.
    pub bytes_past_window: u64,
    /// Segments dropped by PAWS.
    pub paws_drops: u64,
    /// Acknowledgments sent, including SYN and FIN.
    pub acks_sent: u64,
    /// Acknowledgments sent by the delay timer.
    pub delayed_acks: u64,
    /// Packets marked by the network (RFC 3168).
    pub marked: u64,
}
