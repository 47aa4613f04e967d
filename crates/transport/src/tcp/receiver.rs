//! The receiving machine: RFC 9293's passive opener, with delayed acknowledgments (RFC 9293 §3.8.6.3, RFC 5681 §4.2),
//! SACK (RFC 2018) and reports of duplicates (RFC 2883), a window whose right edge never moves back, silly-window
//! avoidance (RFC 9293 §3.8.6.2.2), and PAWS (RFC 7323 §5) with timestamps.
//!
//! With ECN (RFC 3168 §6.1.3) it echoes a mark until the sender has set CWR.
//!
//! The receiver accepts one connection, never discards SACKed data, and closes after the sender has closed and the
//! application has read everything. [`ReceiverConfig::linux`] acknowledges as Linux 6.1: each segment at the start of a
//! connection and after duplicates ("quickack"), and after three acknowledgments past a hole at most once per millisecond
//! (`tcp_comp_sack_delay_ns`). ns-2 and ns-3 have neither, and both are off by default. Left out: growth of the buffer,
//! and the adaptation of Linux's delayed-ACK time to the sender's rate; for bulk data it stays at 40 ms.

mod config;
mod payload;
mod transmit;

pub use config::{ReceiverConfig, ReceiverStats};
use fairhop_model::units::Nanos;

use self::payload::Interval;

use super::autotune::Autotune;
use super::segment::{Ecn, Flags, SackBlocks, Segment};
use super::seq::Seq;
use super::{MAX_WINDOW_SCALE, TIMESTAMP_BYTES};

/// States of the receiver (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverState {
    /// Waits for a SYN.
    Listen,
    /// SYN received and answered.
    SynReceived,
    /// Data flow.
    Established,
    /// The sender closed; the application has not read everything.
    CloseWait,
    /// Both sides closed; this side's FIN is not acknowledged yet.
    LastAck,
    /// Closed, or aborted after too many retransmissions.
    Closed,
}

/// The receiving side of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    state: ReceiverState,
    /// Sequence number of the sender's stream offset 0.
    origin: Seq,
    /// Negotiated.
    sack: bool,
    timestamps: bool,
    scaling: bool,
    shift: u8,
    /// RCV.NXT as a stream offset, without the FIN.
    next: u64,
    /// End of the stream, once a FIN has arrived.
    fin_at: Option<u64>,
    /// Bytes read by the application.
    read: u64,
    reading: bool,
    /// Right edge of the announced window as an offset.
    edge: u64,
    /// Data past holes: sorted, not adjacent.
    out_of_order: Vec<Interval>,
    /// Blocks of `out_of_order` in the order in which they last grew, newest first (RFC 2018 §4).
    recent: [Interval; SackBlocks::MAX],
    recent_count: usize,
    /// A duplicate to report in the next acknowledgment (RFC 2883 §4).
    duplicate: Option<Interval>,
    /// TS.Recent and Last.ACK.sent (RFC 7323 §4.3).
    recent_timestamp: u32,
    last_ack_sent: u64,
    /// Segments in order since the last acknowledgment.
    unacknowledged: u32,
    /// Number of further acknowledgments to send at once (Linux's `icsk_ack.quick`).
    quick: u32,
    /// Acknowledgments sent past the same hole, for the compression of SACKs, and the start of that hole.
    past_hole: u32,
    hole_at: u64,
    compress: Nanos,
    /// When the answer to the SYN was sent; unused after the handshake.
    syn_ack_sent_at: Nanos,
    autotune: Option<Box<Autotune>>,
    /// ECN is negotiated; an ECN-capable packet has arrived; marks must be echoed (RFC 3168 §6.1.3).
    ecn: bool,
    ecn_seen: bool,
    echo: bool,
    ack_due: bool,
    ack_timer: Option<Nanos>,
    syn_due: bool,
    fin_due: bool,
    fin_sent: bool,
    retransmission_timer: Option<Nanos>,
    retransmissions: u32,
    stats: ReceiverStats,
}

impl Receiver {
    /// A listening receiver.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config: ReceiverConfig {
                mss: config.mss.max(1),
                delayed_ack_segments: config.delayed_ack_segments.max(1),
                ..config
            },
            state: ReceiverState::Listen,
            origin: Seq(0),
            sack: false,
            timestamps: false,
            scaling: false,
            shift: 0,
            next: 0,
            fin_at: None,
            read: 0,
            reading: true,
            edge: 0,
            out_of_order: Vec::with_capacity(16),
            recent: [Interval { start: 0, end: 0 }; SackBlocks::MAX],
            recent_count: 0,
            duplicate: None,
            recent_timestamp: 0,
            last_ack_sent: 0,
            unacknowledged: 0,
            quick: config.quick_acks,
            past_hole: 0,
            hole_at: 0,
            compress: config.compress_sacks.unwrap_or(Nanos::ZERO),
            syn_ack_sent_at: Nanos::ZERO,
            autotune: None,
            ecn: false,
            ecn_seen: false,
            echo: false,
            ack_due: false,
            ack_timer: None,
            syn_due: false,
            fin_due: false,
            fin_sent: false,
            retransmission_timer: None,
            retransmissions: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// The state.
    pub fn state(&self) -> ReceiverState {
        self.state
    }

    /// Whether both sides closed and acknowledged it, or this side aborted.
    pub fn is_finished(&self) -> bool {
        self.state == ReceiverState::Closed
    }

    /// Bytes of the stream delivered to the application, in order and each once.
    pub fn delivered(&self) -> u64 {
        self.read
    }

    /// Bytes in order that the application has not read.
    pub fn unread(&self) -> u64 {
        self.next - self.read
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Whether the application reads all data as they arrive (the default) or only through [`Receiver::read`].
    pub fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
        if reading {
            self.read(u64::MAX);
        }
    }

    /// The application reads up to `bytes`; returns how many were available.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread());
        self.read += taken;
        // Linux's `tcp_cleanup_rbuf`: an acknowledgment is sent if the window at least doubles.
        let window = self.edge - self.next;
        let opened = self.new_edge() - self.next;
        if taken > 0 && self.fin_at.is_none() && opened > window && opened >= 2 * window {
            self.ack_due |= self.is_receiving();
        }
        self.close_if_read();
        taken
    }

    fn is_receiving(&self) -> bool {
        matches!(self.state, ReceiverState::Established | ReceiverState::CloseWait)
    }

    /// Time at which to call [`Receiver::on_timer`], if any. Valid after [`Receiver::poll_transmit`] has returned none.
    pub fn next_timer(&self) -> Option<Nanos> {
        match (self.ack_timer, self.retransmission_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The time is `now`. No effect before [`Receiver::next_timer`].
    pub fn on_timer(&mut self, now: Nanos) {
        if self.ack_timer.is_some_and(|at| now >= at) {
            self.ack_timer = None;
            self.ack_due = true;
            self.stats.delayed_acks += 1;
        }
        if self.retransmission_timer.is_some_and(|at| now >= at) {
            self.retransmission_timer = None;
            if self.retransmissions >= self.config.retries {
                self.state = ReceiverState::Closed;
                self.ack_timer = None;
                self.ack_due = false;
                return;
            }
            self.retransmissions += 1;
            self.syn_due = self.state == ReceiverState::SynReceived;
            self.fin_due = self.state == ReceiverState::LastAck;
        }
    }

    /// A segment arrived from the sender.
    pub fn on_segment(&mut self, now: Nanos, segment: &Segment) {
        match self.state {
            ReceiverState::Listen => self.on_syn(segment),
            ReceiverState::Closed => {}
            _ => self.on_synchronized(now, segment),
        }
    }

    /// RFC 9293 §3.10.7.2 and the options of a SYN.
    fn on_syn(&mut self, segment: &Segment) {
        if !segment.flags.has(Flags::SYN) || segment.flags.any(Flags::ACK | Flags::RST) {
            return;
        }
        self.origin = segment.seq + 1;
        self.sack = self.config.sack && segment.sack_permitted;
        self.timestamps = self.config.timestamps && segment.timestamps.is_some();
        self.recent_timestamp = segment.timestamps.map_or(0, |t| t.value);
        // RFC 3168 §6.1.1: a SYN with both bits requests ECN.
        self.ecn = self.config.ecn && segment.flags.has(Flags::ECE | Flags::CWR);
        self.scaling = segment.window_scale.is_some();
        self.shift = if self.scaling { Self::shift_for(self.config.buffer) } else { 0 };
        self.edge = u64::from(self.config.buffer.min(u32::from(u16::MAX)));
        self.syn_due = true;
        self.state = ReceiverState::SynReceived;
    }

    /// Minimum shift with which 16 bits hold the buffer (RFC 7323 §2.3).
    fn shift_for(buffer: u32) -> u8 {
        (0..MAX_WINDOW_SCALE).find(|shift| buffer >> shift <= u32::from(u16::MAX)).unwrap_or(MAX_WINDOW_SCALE)
    }

    /// RFC 9293 §3.10.7.4.
    fn on_synchronized(&mut self, now: Nanos, segment: &Segment) {
        if segment.flags.has(Flags::SYN) {
            if self.state == ReceiverState::SynReceived && segment.seq + 1 == self.origin {
                self.syn_due = true;
            } else {
                self.ack_due = true;
            }
            return;
        }
        let start = segment.seq.offset_in(self.origin, self.next);
        if self.timestamps && !self.passes_paws(segment, start) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            if start == self.ack_offset() as i64 {
                self.state = ReceiverState::Closed;
                (self.ack_timer, self.retransmission_timer) = (None, None);
                (self.ack_due, self.fin_due) = (false, false);
            }
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.on_ack(now, segment);
        if self.ecn && segment.len > 0 {
            self.on_ecn(segment);
        }
        self.on_payload(now, segment, start);
        self.close_if_read();
    }

    /// RFC 7323 §5.3, §4.3. A segment without the option is dropped (§3.2).
    fn passes_paws(&mut self, segment: &Segment, start: i64) -> bool {
        let old = segment.timestamps.is_none_or(|t| Seq(t.value).before(Seq(self.recent_timestamp)));
        if old && !segment.flags.has(Flags::RST) {
            self.stats.paws_drops += 1;
            // An old pure acknowledgment needs no answer.
            self.ack_due |= segment.timestamps.is_some() && segment.seq_len() > 0;
            return false;
        }
        if let Some(t) = segment.timestamps.filter(|_| !old && start <= self.last_ack_sent as i64) {
            self.recent_timestamp = t.value;
        }
        true
    }

    /// Processes the acknowledgment of this side's SYN or FIN.
    fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let own = Seq(self.config.initial_seq);
        match self.state {
            ReceiverState::SynReceived if segment.ack == own + 1 => {
                self.state = ReceiverState::Established;
                self.syn_due = false;
                if self.config.autotune {
                    let mss = self.config.mss - if self.timestamps { TIMESTAMP_BYTES } else { 0 };
                    self.autotune = Some(Box::new(Autotune::new(mss, self.config.buffer, now)));
                }
                if self.retransmissions == 0 {
                    self.compress = self.compress.min(Nanos(now.saturating_sub(self.syn_ack_sent_at).0 / 20));
                }
            }
            ReceiverState::LastAck if self.fin_sent && segment.ack == own + 2 => {
                self.state = ReceiverState::Closed;
                self.fin_due = false;
            }
            _ => return,
        }
        self.retransmission_timer = None;
        self.retransmissions = 0;
    }

    /// RFC 3168 §6.1.3: a mark is echoed until the sender has set CWR. As in Linux, the next segments are acknowledged at once
    /// after a mark, after CWR, and after a packet that is not ECN-capable and thus a retransmission, because the sender
    /// may have little in flight.
    fn on_ecn(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::CWR) {
            self.echo = false;
            self.ack_due |= self.config.quick_acks > 0;
        }
        match segment.ecn {
            Ecn::Ce => {
                self.stats.marked += 1;
                self.ecn_seen = true;
                if !self.echo {
                    self.acknowledge_quickly(2);
                }
                self.echo = true;
            }
            Ecn::NotEct if self.ecn_seen => self.acknowledge_quickly(2),
            Ecn::NotEct => {}
            Ecn::Ect0 | Ecn::Ect1 => self.ecn_seen = true,
        }
    }

    fn acknowledge_quickly(&mut self, segments: u32) {
        self.quick = self.quick.max(segments.min(self.config.quick_acks));
    }

    /// Closes this side once the stream has ended and the application has read it.
    fn close_if_read(&mut self) {
        if self.fin_at != Some(self.next) || !self.is_receiving() {
            return;
        }
        self.state = ReceiverState::CloseWait;
        if self.read == self.next {
            self.state = ReceiverState::LastAck;
            self.fin_due = true;
        }
    }
}
