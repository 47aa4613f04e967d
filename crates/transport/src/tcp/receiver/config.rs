//! How a receiver behaves, and what it counts.

use fairhop_model::units::Nanos;

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Maximum segment size to announce, in bytes.
    pub mss: u32,
    /// Room for data in order that the application has not read, and past gaps, in bytes. The window scale follows.
    pub buffer: u32,
    /// An acknowledgment for every so many segments in order (RFC 5681 §4.2: 2); 1 acknowledges each.
    pub delayed_ack_segments: u32,
    /// An acknowledgment waits no longer than this (RFC 9293 §3.8.6.3: under 0.5 s).
    pub delayed_ack_timeout: Nanos,
    /// Take SACK where it is offered.
    pub sack: bool,
    /// Take timestamps where they are offered.
    pub timestamps: bool,
    /// Segments that are each acknowledged at once when the connection begins, after a duplicate, and where a mark or
    /// its end is seen two (Linux's quickack; 16 in Linux). 0: none.
    pub quick_acks: u32,
    /// After three acknowledgments past the same gap, further ones wait up to this long, or a twentieth of the
    /// handshake's round trip where that is less, and stand for all that came (Linux: 1 ms). None: they do not wait.
    pub compress_sacks: Option<Nanos>,
    /// Acknowledge each segment while Linux's window would grow (dynamic right-sizing), which is most of slow start.
    pub autotune: bool,
    /// Take ECN where it is offered (RFC 3168).
    pub ecn: bool,
    /// Sequence number of the SYN.
    pub initial_seq: u32,
    /// First timeout of the SYN and of the FIN; each further one is twice as long (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// SYN and FIN are repeated so many times (Linux: 5 for a SYN that answers).
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
    /// A receiver that acknowledges as Linux 6.1 does, with timestamps.
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

/// What a receiver has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Segments with payload that came.
    pub segments_received: u64,
    /// Payload bytes that came, duplicates included.
    pub bytes_received: u64,
    /// Segments that came past a gap.
    pub out_of_order: u64,
    /// Segments that brought octets a second time.
    pub duplicates: u64,
    /// Payload bytes dropped because they were past the window.
    pub bytes_past_window: u64,
    /// Segments dropped by PAWS.
    pub paws_drops: u64,
    /// Acknowledgments sent, SYN and FIN included.
    pub acks_sent: u64,
    /// Acknowledgments that the delay timer sent.
    pub delayed_acks: u64,
    /// Packets that the network marked (RFC 3168).
    pub marked: u64,
}
