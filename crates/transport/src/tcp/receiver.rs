//! The receiving machine: RFC 9293's passive opener, with delayed acknowledgments (RFC 9293 §3.8.6.3, RFC 5681 §4.2),
//! SACK (RFC 2018) and reports of duplicates (RFC 2883), a window whose right edge never goes back, silly-window
//! avoidance (RFC 9293 §3.8.6.2.2), and PAWS (RFC 7323 §5) where timestamps are on.
//!
//! ECN (RFC 3168 §6.1.3) echoes a mark until the sender says that it has answered.
//!
//! It takes one connection, never gives up data that it has SACKed, and closes once the sender has and the application
//! has read everything. [`ReceiverConfig::linux`] acknowledges as Linux 6.1 does: each segment at the start of a
//! connection and after trouble ("quickack"), and after three duplicates no more often than once a millisecond
//! (`tcp_comp_sack_delay_ns`). Neither ns-2 nor ns-3 has those, and they are off by default. Left out: growth of the
//! buffer, and the adaptation of Linux's delayed-ACK time to the sender's pace, which for bulk data stays at 40 ms.

use fairhop_model::units::Nanos;

use super::autotune::Autotune;
use super::segment::{Ecn, Flags, SackBlock, SackBlocks, Segment, Timestamps};
use super::seq::Seq;
use super::{MAX_WINDOW_SCALE, TIMESTAMP_BYTES, timestamp_clock};

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

/// States of the receiver (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverState {
    /// Waits for a SYN.
    Listen,
    /// Answered a SYN.
    SynReceived,
    /// Data flow.
    Established,
    /// The sender closed, the application has not read everything.
    CloseWait,
    /// Both sides closed, the acknowledgment of this side's FIN is awaited.
    LastAck,
    /// Over, or given up after too many repetitions.
    Closed,
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

/// Offsets from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    start: u64,
    end: u64,
}

/// The receiving side of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    state: ReceiverState,
    /// Number of the sender's stream offset 0.
    origin: Seq,
    /// Negotiated.
    sack: bool,
    timestamps: bool,
    scaling: bool,
    shift: u8,
    /// RCV.NXT as a stream offset, without the FIN.
    next: u64,
    /// Where the stream ends, once a FIN has come.
    fin_at: Option<u64>,
    /// Handed to the application.
    read: u64,
    reading: bool,
    /// Right edge of the announced window, as an offset.
    edge: u64,
    /// Arrived past gaps: sorted, apart from each other.
    islands: Vec<Interval>,
    /// Islands in the order in which they last grew, newest first (RFC 2018 §4).
    recent: [Interval; SackBlocks::MOST],
    recent_count: usize,
    /// A duplicate to report in the next acknowledgment (RFC 2883 §4).
    duplicate: Option<Interval>,
    /// TS.Recent and Last.ACK.sent (RFC 7323 §4.3).
    recent_timestamp: u32,
    last_ack_sent: u64,
    /// Segments in order since the last acknowledgment.
    unacknowledged: u32,
    /// Acknowledgments still to be sent at once (Linux's `icsk_ack.quick`).
    quick: u32,
    /// Acknowledgments sent past the same gap, for the compression of SACKs, and where that gap begins.
    past_gap: u32,
    gap_at: u64,
    compress: Nanos,
    /// When the answer to the SYN went out; afterwards of no meaning.
    syn_ack_sent_at: Nanos,
    autotune: Option<Box<Autotune>>,
    /// ECN is agreed on; a packet marked as capable has been seen; marks are to be echoed (RFC 3168 §6.1.3).
    ecn: bool,
    ecn_seen: bool,
    echo: bool,
    ack_due: bool,
    ack_timer: Option<Nanos>,
    syn_due: bool,
    fin_due: bool,
    fin_sent: bool,
    repeat_timer: Option<Nanos>,
    repeats: u32,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that listens.
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
            islands: Vec::with_capacity(16),
            recent: [Interval { start: 0, end: 0 }; SackBlocks::MOST],
            recent_count: 0,
            duplicate: None,
            recent_timestamp: 0,
            last_ack_sent: 0,
            unacknowledged: 0,
            quick: config.quick_acks,
            past_gap: 0,
            gap_at: 0,
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
            repeat_timer: None,
            repeats: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// The state.
    pub fn state(&self) -> ReceiverState {
        self.state
    }

    /// Whether both sides closed and said so, or this side gave up.
    pub fn is_finished(&self) -> bool {
        self.state == ReceiverState::Closed
    }

    /// Bytes of the stream handed to the application, in order and each once.
    pub fn delivered(&self) -> u64 {
        self.read
    }

    /// Bytes that arrived in order and wait for the application.
    pub fn unread(&self) -> u64 {
        self.next - self.read
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Whether the application takes everything as it arrives (as it does at first) or only what [`Receiver::read`]
    /// asks for.
    pub fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
        if reading {
            self.read(u64::MAX);
        }
    }

    /// The application takes up to `bytes` of what waits; returns how many there were.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread());
        self.read += taken;
        // Like Linux's `tcp_cleanup_rbuf`: worth a segment of its own when the window at least doubles.
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

    /// When [`Receiver::on_timer`] wants to be called, if at all. Ask after the last [`Receiver::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        match (self.ack_timer, self.repeat_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Time has come to `now`; without effect before the time that [`Receiver::next_timer`] says.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.ack_timer.is_some_and(|at| now >= at) {
            self.ack_timer = None;
            self.ack_due = true;
            self.stats.delayed_acks += 1;
        }
        if self.repeat_timer.is_some_and(|at| now >= at) {
            self.repeat_timer = None;
            if self.repeats >= self.config.retries {
                self.state = ReceiverState::Closed;
                self.ack_timer = None;
                self.ack_due = false;
                return;
            }
            self.repeats += 1;
            self.syn_due = self.state == ReceiverState::SynReceived;
            self.fin_due = self.state == ReceiverState::LastAck;
        }
    }

    /// A segment came from the sender.
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
        // RFC 3168 §6.1.1: a SYN with both bits asks for ECN.
        self.ecn = self.config.ecn && segment.flags.has(Flags::ECE | Flags::CWR);
        self.scaling = segment.window_scale.is_some();
        self.shift = if self.scaling { Self::shift_for(self.config.buffer) } else { 0 };
        self.edge = u64::from(self.config.buffer.min(u32::from(u16::MAX)));
        self.syn_due = true;
        self.state = ReceiverState::SynReceived;
    }

    /// The smallest shift that lets 16 bits hold the buffer (RFC 7323 §2.3).
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
                (self.ack_timer, self.repeat_timer) = (None, None);
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
        let late = segment.timestamps.is_none_or(|t| Seq(t.value).before(Seq(self.recent_timestamp)));
        if late && !segment.flags.has(Flags::RST) {
            self.stats.paws_drops += 1;
            // A bare acknowledgment that is late needs no answer.
            self.ack_due |= segment.timestamps.is_some() && segment.seq_len() > 0;
            return false;
        }
        if let Some(t) = segment.timestamps.filter(|_| !late && start <= self.last_ack_sent as i64) {
            self.recent_timestamp = t.value;
        }
        true
    }

    /// Only SYN and FIN of this side can be acknowledged.
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
                if self.repeats == 0 {
                    self.compress = self.compress.min(Nanos(now.saturating_sub(self.syn_ack_sent_at).0 / 20));
                }
            }
            ReceiverState::LastAck if self.fin_sent && segment.ack == own + 2 => {
                self.state = ReceiverState::Closed;
                self.fin_due = false;
            }
            _ => return,
        }
        self.repeat_timer = None;
        self.repeats = 0;
    }

    /// RFC 3168 §6.1.3: a mark is echoed from here on, until the sender has answered to it. Like Linux, what follows a
    /// mark, its answer, or a packet of an ECN connection that may not be marked and is thus a repetition, is
    /// acknowledged at once: the sender may have very little in flight.
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

    fn on_payload(&mut self, now: Nanos, segment: &Segment, start: i64) {
        if self.state == ReceiverState::SynReceived {
            return;
        }
        let end = start + i64::from(segment.len);
        let fin = segment.flags.has(Flags::FIN);
        if segment.seq_len() == 0 {
            // Anything but a plain acknowledgment in the window is answered: window probes live on it.
            self.ack_due |= start < self.last_ack_sent as i64 || start > self.edge as i64 + 1;
            return;
        }
        if segment.len > 0 {
            self.stats.segments_received += 1;
            self.stats.bytes_received += u64::from(segment.len);
        }
        if fin && self.fin_at.is_none() && end >= self.next as i64 && end <= self.edge as i64 {
            self.fin_at = Some(end as u64);
        }
        // RFC 9293 §3.10.7.4: what is before RCV.NXT or past the window is cut off.
        let from = start.max(self.next as i64) as u64;
        let to = end.min(self.edge as i64).max(0) as u64;
        self.stats.bytes_past_window += (end - start.max(self.edge as i64)).max(0) as u64;
        self.note_duplicate(start, end);
        if fin || from >= to {
            self.ack_due = true;
        }
        if from >= to {
            self.acknowledge_quickly(self.config.quick_acks);
            return;
        }
        if self.autotune.is_some() {
            self.grow_window(now, segment);
        }
        if from == self.next {
            self.take_in_order(now, to);
            // Linux's `tcp_cleanup_rbuf`: the other side has nothing more for now, and the application has read all.
            self.ack_due |= self.config.autotune && segment.flags.has(Flags::PSH) && self.unread() == 0;
            if let Some(autotune) = self.autotune.as_deref_mut() {
                autotune.on_read(now, self.read);
            }
        } else {
            self.stats.out_of_order += 1;
            self.keep(Interval { start: from, end: to });
            self.acknowledge_past_gap(now);
        }
    }

    /// Linux's `tcp_grow_window`.
    fn grow_window(&mut self, now: Nanos, segment: &Segment) {
        let echo = segment
            .timestamps
            .filter(|_| self.timestamps)
            .map(|times| (times.echo, timestamp_clock(now).wrapping_sub(times.echo)));
        if self.autotune.as_deref_mut().is_some_and(|autotune| autotune.on_segment(echo)) {
            self.quick |= 1;
        }
    }

    /// RFC 2883 §4: the part that arrived a second time, below the acknowledgment or in an island.
    fn note_duplicate(&mut self, start: i64, end: i64) {
        let next = self.next as i64;
        let duplicate = if start < next {
            Some(Interval { start: start.max(0) as u64, end: end.min(next).max(0) as u64 })
        } else {
            let (start, end) = (start as u64, end as u64);
            let island = self.islands.partition_point(|island| island.end <= start);
            self.islands
                .get(island)
                .filter(|island| island.start < end)
                .map(|island| Interval { start: island.start.max(start), end: island.end.min(end) })
        };
        if let Some(duplicate) = duplicate.filter(|d| d.start < d.end) {
            self.stats.duplicates += 1;
            self.duplicate = Some(duplicate);
        }
    }

    /// RFC 5681 §4.2: at once. Linux's `__tcp_ack_snd_check` lets acknowledgments wait that tell of more and more past
    /// the same gap.
    fn acknowledge_past_gap(&mut self, now: Nanos) {
        if self.config.compress_sacks.is_none() || !self.sack || self.quick > 0 {
            self.ack_due = true;
            return;
        }
        if self.gap_at != self.next {
            self.gap_at = self.next;
            self.past_gap = 0;
        }
        if self.past_gap < 3 {
            self.past_gap += 1;
            self.ack_due = true;
            return;
        }
        let at = now.saturating_add(self.compress);
        self.ack_timer = Some(self.ack_timer.map_or(at, |timer| timer.min(at)));
    }

    fn take_in_order(&mut self, now: Nanos, to: u64) {
        let had_gap = !self.islands.is_empty();
        self.next = to;
        self.join_islands();
        if self.reading {
            self.read = self.next;
        }
        self.unacknowledged += 1;
        let many = self.quick > 0 || self.unacknowledged >= self.config.delayed_ack_segments;
        if had_gap && !many && self.config.compress_sacks.is_some() && !self.islands.is_empty() {
            self.acknowledge_past_gap(now);
            return;
        }
        // RFC 5681 §4.2: at once while there is a gap, or when it has just been filled.
        let due = had_gap || many;
        // A sender that has no room for another segment would wait for the delayed acknowledgment.
        let stuck = self.edge - self.next < u64::from(self.config.mss) && self.new_edge() > self.edge;
        if due || stuck {
            self.ack_due = true;
        } else if self.ack_timer.is_none() {
            self.ack_timer = Some(now.saturating_add(self.config.delayed_ack_timeout));
        }
    }

    /// Islands that the stream has reached become part of it.
    fn join_islands(&mut self) {
        let reached = self.islands.partition_point(|island| island.start <= self.next);
        if reached == 0 {
            return;
        }
        self.next = self.next.max(self.islands[reached - 1].end);
        self.islands.drain(..reached);
        let next = self.next;
        self.retain_recent(|block| block.end > next);
    }

    /// Adds an island and makes it the most recent.
    fn keep(&mut self, mut new: Interval) {
        let first = self.islands.partition_point(|island| island.end < new.start);
        let last = self.islands.partition_point(|island| island.start <= new.end);
        if first < last {
            new.start = new.start.min(self.islands[first].start);
            new.end = new.end.max(self.islands[last - 1].end);
            self.islands[first] = new;
            self.islands.drain(first + 1..last);
        } else {
            self.islands.insert(first, new);
        }
        self.retain_recent(|block| block.end < new.start || block.start > new.end);
        let count = (self.recent_count + 1).min(SackBlocks::MOST);
        self.recent.copy_within(..count - 1, 1);
        self.recent[0] = new;
        self.recent_count = count;
    }

    fn retain_recent(&mut self, keep: impl Fn(&Interval) -> bool) {
        let mut kept = 0;
        for i in 0..self.recent_count {
            if keep(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_count = kept;
    }

    /// Once the stream has ended and been read, this side closes too.
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

    /// The offset to acknowledge: RCV.NXT with the FIN.
    fn ack_offset(&self) -> u64 {
        self.next + u64::from(self.fin_at == Some(self.next))
    }

    /// Right edge of the window to announce: as far as the buffer reaches in steps of the window scale, but only if it
    /// moves by a segment or half the buffer (RFC 9293 §3.8.6.2.2), and never back (RFC 9293 §3.8.6.2). What an
    /// announced window is not a whole number of steps, it is rounded up, as in Linux: under one step over the buffer.
    fn new_edge(&self) -> u64 {
        let step = 1_u64 << self.shift;
        let free = (self.read + u64::from(self.config.buffer)).saturating_sub(self.next);
        let largest = u64::from(u16::MAX) << self.shift;
        let open = self.next + (free & !(step - 1)).min(largest);
        let worth_it = u64::from((self.config.buffer / 2).min(self.config.mss));
        if open >= self.edge + worth_it {
            return open;
        }
        self.next + self.edge.saturating_sub(self.next).next_multiple_of(step).min(largest)
    }

    /// The next segment to send, if there is one. To be called until there is none, after every other call.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.syn_due) {
            self.syn_ack_sent_at = now;
            self.start_repeat_timer(now);
            return Some(self.syn_ack(now));
        }
        if !self.ack_due && !self.fin_due {
            return None;
        }
        let fin = std::mem::take(&mut self.fin_due);
        self.ack_due = false;
        self.ack_timer = None;
        self.unacknowledged = 0;
        self.quick = self.quick.saturating_sub(1);
        if fin {
            self.fin_sent = true;
            self.start_repeat_timer(now);
        }
        self.edge = self.new_edge();
        self.last_ack_sent = self.ack_offset();
        self.stats.acks_sent += 1;
        Some(Segment {
            seq: Seq(self.config.initial_seq) + 1 + u32::from(self.fin_sent && !fin),
            ack: self.origin.at(self.last_ack_sent),
            flags: self.flags(fin),
            window: ((self.edge - self.next) >> self.shift) as u16,
            sack: self.sack_blocks(),
            timestamps: self.timestamps(now),
            ..Segment::default()
        })
    }

    fn syn_ack(&mut self, now: Nanos) -> Segment {
        self.stats.acks_sent += 1;
        Segment {
            seq: Seq(self.config.initial_seq),
            ack: self.origin,
            // RFC 3168 §6.1.1: ECE alone in the answer agrees to ECN.
            flags: Flags::SYN | Flags::ACK | if self.ecn { Flags::ECE } else { Flags::NONE },
            window: self.config.buffer.min(u32::from(u16::MAX)) as u16,
            mss: Some(self.config.mss.min(u32::from(u16::MAX)) as u16),
            window_scale: self.scaling.then_some(self.shift),
            sack_permitted: self.sack,
            timestamps: self.timestamps(now),
            ..Segment::default()
        }
    }

    fn flags(&self, fin: bool) -> Flags {
        let fin = if fin { Flags::FIN } else { Flags::NONE };
        let echo = if self.echo { Flags::ECE } else { Flags::NONE };
        Flags::ACK | fin | echo
    }

    fn timestamps(&self, now: Nanos) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps { value: timestamp_clock(now), echo: self.recent_timestamp })
    }

    fn start_repeat_timer(&mut self, now: Nanos) {
        let backed_off = self.config.initial_rto.0.saturating_mul(1 << self.repeats.min(6));
        self.repeat_timer = Some(now.saturating_add(Nanos(backed_off)));
    }

    /// RFC 2883 §4 and RFC 2018 §4: a duplicate first, then the islands that grew last; what room is left tells of the
    /// oldest gaps again.
    fn sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if !self.sack {
            return blocks;
        }
        let wire = |i: Interval| SackBlock { start: self.origin.at(i.start), end: self.origin.at(i.end) };
        if let Some(duplicate) = self.duplicate.take() {
            blocks.push(wire(duplicate));
        }
        let recent = &self.recent[..self.recent_count];
        recent.iter().for_each(|&island| blocks.push(wire(island)));
        let others = self.islands.iter().filter(|island| !recent.contains(island));
        others.take(SackBlocks::MOST - self.recent_count).for_each(|&island| blocks.push(wire(island)));
        blocks
    }
}
