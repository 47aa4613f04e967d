//! The receiving machine: which packets came, which bytes of the stream, when to say so (RFC 9000 §13.2), and how far
//! the stream may reach (RFC 9000 §4).
//!
//! Every second packet is acknowledged, one that came out of order or past a gap at once, and none later than
//! `max_ack_delay` (§13.2.1, §13.2.2). Every so often a PING asks the sender to acknowledge an acknowledgment, and then
//! what that one said is forgotten (§13.2.4). MAX_DATA rides on acknowledgments and goes out by itself when the
//! application has read half a buffer; a sender that waits for a lost one asks again (§4.1). So what this side sends is
//! never repeated.

use fairhop_model::units::Nanos;

use super::intervals::{Intervals, Run};
use super::packet::{AckFrame, Datagram, StreamFrame};

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Credit: bytes that the sender may be ahead of what the application has read. The sender must know it
    /// ([`super::SenderConfig::initial_max_data`]).
    pub buffer: u64,
    /// An acknowledgment for every so many packets that ask for one (RFC 9000 §13.2.2: 2).
    pub ack_packets: u32,
    /// An acknowledgment waits no longer than this (RFC 9000 §18.2: 25 ms).
    pub max_ack_delay: Nanos,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { buffer: 4 << 20, ack_packets: 2, max_ack_delay: Nanos::from_millis(25) }
    }
}

/// What a receiver has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that came.
    pub packets_received: u64,
    /// Packets that came a second time, or after they had been given up.
    pub duplicate_packets: u64,
    /// Packets that were not the next by number.
    pub out_of_order: u64,
    /// Payload bytes that came, in packets of different numbers too.
    pub bytes_received: u64,
    /// Payload bytes that had come before.
    pub duplicate_bytes: u64,
    /// Payload bytes dropped because they were past the credit.
    pub bytes_past_limit: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
}

/// The receiving side of a transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// Packet numbers that came, from `floor` on.
    packets: Intervals,
    floor: u64,
    /// When the highest of them came.
    largest_at: Nanos,
    /// Bytes that came, and those that the application took.
    data: Intervals,
    read: u64,
    reading: bool,
    fin_at: Option<u64>,
    /// Highest MAX_DATA sent, or known from the beginning.
    max_data: u64,
    /// The sender says that it is blocked: the last MAX_DATA may have been lost.
    asked_for_credit: bool,
    unacknowledged: u32,
    ack_due: bool,
    ack_timer: Option<Nanos>,
    next_number: u64,
    /// The last PING, with the highest packet number that its acknowledgment told of.
    asked: Option<(u64, u64)>,
    acks_since_asked: u32,
    stats: ReceiverStats,
}

impl Receiver {
    /// Acknowledgments between two that ask to be acknowledged themselves.
    const ASK_EVERY: u32 = 32;
    /// Ranges of packet numbers kept; the lowest are forgotten (RFC 9000 §13.2.3).
    const MAX_RANGES: usize = 64;

    /// A receiver that waits for data.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config: ReceiverConfig { ack_packets: config.ack_packets.max(1), ..config },
            packets: Intervals::new(),
            floor: 0,
            largest_at: Nanos::ZERO,
            data: Intervals::new(),
            read: 0,
            reading: true,
            fin_at: None,
            max_data: config.buffer,
            asked_for_credit: false,
            unacknowledged: 0,
            ack_due: false,
            ack_timer: None,
            next_number: 0,
            asked: None,
            acks_since_asked: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// Bytes of the stream handed to the application, in order and each once.
    pub fn delivered(&self) -> u64 {
        self.read
    }

    /// Bytes that arrived in order and wait for the application.
    pub fn unread(&self) -> u64 {
        self.data.prefix().saturating_sub(self.read)
    }

    /// Whether the stream has ended and the application has all of it.
    pub fn is_finished(&self) -> bool {
        self.fin_at == Some(self.read)
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
        let worth_it = self.max_data.saturating_add((self.config.buffer / 2).max(1));
        if self.fin_at.is_none() && self.credit() >= worth_it {
            self.ack_due |= self.has_packets();
        }
        taken
    }

    fn has_packets(&self) -> bool {
        !self.packets.runs().is_empty()
    }

    fn credit(&self) -> u64 {
        self.read.saturating_add(self.config.buffer)
    }

    /// When [`Receiver::on_timer`] wants to be called, if at all. Ask after the last [`Receiver::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        self.ack_timer
    }

    /// Time has come to `now`; without effect before the time that [`Receiver::next_timer`] says.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.ack_timer.is_some_and(|at| now >= at) {
            self.ack_timer = None;
            self.ack_due = true;
        }
    }

    /// A datagram came from the sender.
    pub fn on_datagram(&mut self, now: Nanos, datagram: &Datagram) {
        let number = datagram.number;
        if number >= 1 << 62 {
            // RFC 9000 §12.3: there are no such numbers.
            return;
        }
        self.stats.packets_received += 1;
        if let Some(ack) = datagram.ack {
            self.on_ack(&ack);
        }
        if number < self.floor || self.packets.contains(number) {
            self.stats.duplicate_packets += 1;
            // The acknowledgment may have been lost.
            self.ack_due |= datagram.is_ack_eliciting() && self.has_packets();
            return;
        }
        let expected = self.packets.runs().last().map_or(self.floor, |run| run.end);
        self.packets.insert(Run { start: number, end: number + 1 });
        if number >= expected {
            self.largest_at = now;
        }
        if self.packets.runs().len() > Self::MAX_RANGES {
            self.floor = self.packets.runs()[1].start;
            self.packets.forget_before(self.floor);
        }
        if let Some(frame) = datagram.stream {
            self.on_stream(&frame);
        }
        self.asked_for_credit |= datagram.data_blocked.is_some();
        if datagram.is_ack_eliciting() {
            self.unacknowledged += 1;
            // RFC 9000 §13.2.1: out of order, or past a gap.
            let disordered = number != expected;
            self.stats.out_of_order += u64::from(disordered);
            let due = disordered || self.unacknowledged >= self.config.ack_packets || self.is_finished();
            if due || datagram.data_blocked.is_some() {
                self.ack_due = true;
            } else if self.ack_timer.is_none() {
                self.ack_timer = Some(now.saturating_add(self.config.max_ack_delay));
            }
        }
    }

    /// The sender has an acknowledgment of this side: what it told of needs no telling (RFC 9000 §13.2.4).
    fn on_ack(&mut self, ack: &AckFrame) {
        let Some((number, largest)) = self.asked else { return };
        if ack.ranges().any(|(first, last)| (first..=last).contains(&number)) {
            self.asked = None;
            // The highest stays, so that there is something to acknowledge.
            self.floor = self.floor.max(largest);
            self.packets.forget_before(largest);
        }
    }

    fn on_stream(&mut self, frame: &StreamFrame) {
        let end = frame.offset.saturating_add(u64::from(frame.len));
        self.stats.bytes_received += u64::from(frame.len);
        let end_of_stream = self.fin_at.unwrap_or(u64::MAX);
        let past = end.saturating_sub(frame.offset.max(self.max_data.min(end_of_stream)));
        self.stats.bytes_past_limit += past;
        let kept = end - past;
        let new = self.data.insert(Run { start: frame.offset.min(kept), end: kept });
        self.stats.duplicate_bytes += u64::from(frame.len) - past - new;
        // A stream ends once (RFC 9000 §4.5).
        if frame.fin
            && past == 0
            && self.fin_at.is_none()
            && end >= self.data.runs().last().map_or(0, |run| run.end)
        {
            self.fin_at = Some(end);
        }
        if self.reading {
            self.read(u64::MAX);
        }
    }

    /// The next datagram to send, if there is one. To be called until there is none, after every other call.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Datagram> {
        if !std::mem::take(&mut self.ack_due) {
            return None;
        }
        self.ack_timer = None;
        self.unacknowledged = 0;
        let mut ack = AckFrame::from_runs(self.packets.runs())?;
        // As it is said on the wire, in units of 8 µs.
        ack.delay_us = u32::try_from(now.saturating_sub(self.largest_at).0 / 1000).unwrap_or(u32::MAX) & !7;
        let number = self.next_number;
        self.next_number += 1;
        self.stats.datagrams_sent += 1;
        self.acks_since_asked += 1;
        let ping = self.acks_since_asked >= Self::ASK_EVERY;
        if ping {
            self.acks_since_asked = 0;
            self.asked = Some((number, ack.largest()));
        }
        // When half a buffer has been read, or less than half of it is left, or the sender waits for it. RFC 9000 §4.2 leaves
        // it open.
        let half = (self.config.buffer / 2).max(1);
        let used = self.data.runs().last().map_or(0, |run| run.end);
        let tell = std::mem::take(&mut self.asked_for_credit)
            || (self.fin_at.is_none()
                && (self.credit() >= self.max_data.saturating_add(half)
                    || self.max_data < used.saturating_add(half)));
        if tell {
            self.max_data = self.max_data.max(self.credit());
        }
        Some(Datagram {
            number,
            ack: Some(ack),
            max_data: tell.then_some(self.max_data),
            ping,
            ..Datagram::default()
        })
    }
}
