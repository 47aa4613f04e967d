//! The receiving machine: received packets and bytes, acknowledgments (RFC 9000 §13.2) and flow control (RFC 9000 §4).
//!
//! Every second packet is acknowledged; a packet out of order or past a gap at once, and any other within
//! `max_ack_delay` (§13.2.1, §13.2.2). An occasional PING makes the sender acknowledge an acknowledgment, whose ranges the
//! receiver then forgets (§13.2.4). MAX_DATA is sent with acknowledgments, and at once when the application has read half a
//! buffer. A sender that waits for a lost MAX_DATA requests it again (§4.1), so this side never retransmits.

use fairhop_model::units::Nanos;

use super::intervals::{Intervals, Run};
use super::packet::{AckFrame, Datagram, StreamFrame};

/// Configuration of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Credit: maximum bytes that the sender may be ahead of the application. The sender needs the same value
    /// ([`super::SenderConfig::initial_max_data`]).
    pub buffer: u64,
    /// Ack-eliciting packets per acknowledgment (RFC 9000 §13.2.2: 2).
    pub ack_packets: u32,
    /// Maximum delay of an acknowledgment (RFC 9000 §18.2: 25 ms).
    pub max_ack_delay: Nanos,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { buffer: 4 << 20, ack_packets: 2, max_ack_delay: Nanos::from_millis(25) }
    }
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets received.
    pub packets_received: u64,
    /// Packets received twice, or with a number below the ranges kept.
    pub duplicate_packets: u64,
    /// Packets whose number was not the next one.
    pub out_of_order: u64,
    /// Payload bytes received, including duplicates under different packet numbers.
    pub bytes_received: u64,
    /// Payload bytes received before.
    pub duplicate_bytes: u64,
    /// Payload bytes dropped past the credit.
    pub bytes_past_limit: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
}

/// The receiving side of a transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// Packet numbers received, from `floor` on.
    packets: Intervals,
    floor: u64,
    /// Arrival time of the largest of them.
    largest_at: Nanos,
    /// Bytes received, and the number read by the application.
    data: Intervals,
    read: u64,
    reading: bool,
    fin_at: Option<u64>,
    /// Maximum MAX_DATA sent, initially the buffer.
    max_data: u64,
    /// The sender reported that it is blocked: the last MAX_DATA may have been lost.
    credit_requested: bool,
    unacknowledged: u32,
    ack_due: bool,
    ack_timer: Option<Nanos>,
    next_number: u64,
    /// The last PING, with the largest packet number in its acknowledgment.
    ping: Option<(u64, u64)>,
    acks_since_ping: u32,
    stats: ReceiverStats,
}

impl Receiver {
    /// Acknowledgments per PING.
    const PING_INTERVAL: u32 = 32;
    /// Maximum ranges of packet numbers kept; the lowest are removed (RFC 9000 §13.2.3).
    const MAX_RANGES: usize = 64;

    /// A receiver without data.
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
            credit_requested: false,
            unacknowledged: 0,
            ack_due: false,
            ack_timer: None,
            next_number: 0,
            ping: None,
            acks_since_ping: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// Bytes of the stream delivered to the application, in order and each once.
    pub fn delivered(&self) -> u64 {
        self.read
    }

    /// Bytes in order that the application has not read.
    pub fn unread(&self) -> u64 {
        self.data.prefix().saturating_sub(self.read)
    }

    /// Whether the stream has ended and the application has read all of it.
    pub fn is_finished(&self) -> bool {
        self.fin_at == Some(self.read)
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

    /// Time at which to call [`Receiver::on_timer`], if any. Valid after [`Receiver::poll_transmit`] has returned none.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.ack_timer
    }

    /// The time is `now`. No effect before [`Receiver::next_timer`].
    pub fn on_timer(&mut self, now: Nanos) {
        if self.ack_timer.is_some_and(|at| now >= at) {
            self.ack_timer = None;
            self.ack_due = true;
        }
    }

    /// A datagram arrived from the sender.
    pub fn on_datagram(&mut self, now: Nanos, datagram: &Datagram) {
        let number = datagram.number;
        if number >= 1 << 62 {
            // RFC 9000 §12.3: packet numbers are below 2⁶².
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
        self.credit_requested |= datagram.data_blocked.is_some();
        if datagram.is_ack_eliciting() {
            self.unacknowledged += 1;
            // RFC 9000 §13.2.1: out of order, or past a gap.
            let out_of_order = number != expected;
            self.stats.out_of_order += u64::from(out_of_order);
            let due = out_of_order || self.unacknowledged >= self.config.ack_packets || self.is_finished();
            if due || datagram.data_blocked.is_some() {
                self.ack_due = true;
            } else if self.ack_timer.is_none() {
                self.ack_timer = Some(now.saturating_add(self.config.max_ack_delay));
            }
        }
    }

    /// The sender has received an acknowledgment, whose ranges need not be sent again (RFC 9000 §13.2.4).
    fn on_ack(&mut self, ack: &AckFrame) {
        let Some((number, largest)) = self.ping else { return };
        if ack.ranges().any(|(first, last)| (first..=last).contains(&number)) {
            self.ping = None;
            // The largest number stays, so that an acknowledgment is never empty.
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

    /// The next datagram to send, if any. Call it after every other call until it returns none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Datagram> {
        if !std::mem::take(&mut self.ack_due) {
            return None;
        }
        self.ack_timer = None;
        self.unacknowledged = 0;
        let mut ack = AckFrame::from_runs(self.packets.runs())?;
        // In units of 8 µs, as on the wire.
        ack.delay_us = u32::try_from(now.saturating_sub(self.largest_at).0 / 1000).unwrap_or(u32::MAX) & !7;
        let number = self.next_number;
        self.next_number += 1;
        self.stats.datagrams_sent += 1;
        self.acks_since_ping += 1;
        let ping = self.acks_since_ping >= Self::PING_INTERVAL;
        if ping {
            self.acks_since_ping = 0;
            self.ping = Some((number, ack.largest()));
        }
        // MAX_DATA is sent if half a buffer has been read, if less than half of the credit is left, or if the sender requests
        // it. RFC 9000 §4.2 leaves the choice open.
        let half = (self.config.buffer / 2).max(1);
        let used = self.data.runs().last().map_or(0, |run| run.end);
        let send_max_data = std::mem::take(&mut self.credit_requested)
            || (self.fin_at.is_none()
                && (self.credit() >= self.max_data.saturating_add(half)
                    || self.max_data < used.saturating_add(half)));
        if send_max_data {
            self.max_data = self.max_data.max(self.credit());
        }
        Some(Datagram {
            number,
            ack: Some(ack),
            max_data: send_max_data.then_some(self.max_data),
            ping,
            ..Datagram::default()
        })
    }
}
