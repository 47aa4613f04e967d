//! The receiving machine: what has arrived, and the acknowledgment that says so.

use fairhop_model::units::Nanos;

use super::{Ack, Datagram, RelativeDelay, Seq, clock_us};

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The window that is advertised, in packets: the buffer of the connection, or what the delay-outage bound allows.
    pub rwnd: u16,
    /// The number of the first packet.
    pub first: Seq,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { rwnd: u16::MAX, first: Seq::of(0) }
    }
}

/// What a receiver has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets received, each once.
    pub received: u64,
    /// Packets that had been received before.
    pub duplicates: u64,
    /// Packets, of those received, that came after a later one.
    pub reordered: u64,
    /// Packets that came so late that nobody remembers whether they had come before.
    pub too_late: u64,
    /// Packets up to the latest one, received or not.
    pub expected: u64,
}

impl ReceiverStats {
    /// Packets that have not come, of those up to the latest one.
    pub fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// What a packet was to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A new one.
    New {
        /// Its place in the stream; the first packet has 0.
        index: u64,
        /// Its time on the way over the shortest so far.
        delay: Nanos,
    },
    /// It had come before.
    Duplicate,
    /// It is too far behind the latest one for anybody to know.
    TooLate,
}

/// The receiving side.
#[derive(Clone, Debug)]
pub struct Receiver {
    rwnd: u16,
    first: u64,
    /// The largest number received.
    latest: Option<u64>,
    /// Bit i − 1: whether the packet `latest` − i has been received.
    before: u64,
    delay: RelativeDelay,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that has received nothing.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            rwnd: config.rwnd,
            first: u64::from(config.first.get()),
            latest: None,
            before: 0,
            delay: RelativeDelay::default(),
            stats: ReceiverStats::default(),
        }
    }

    /// A packet came. Every packet is answered, one that had come before too: its first answer may have been lost.
    pub fn on_datagram(&mut self, now: Nanos, datagram: &Datagram) -> (Ack, Arrival) {
        let transit_us = clock_us(now).wrapping_sub(datagram.sent_us);
        let arrival = match datagram.seq.nearest(self.latest.unwrap_or(self.first)) {
            Some(number) if number >= self.first => self.take(number, transit_us),
            _ => Arrival::TooLate,
        };
        match arrival {
            Arrival::New { .. } => self.stats.received += 1,
            Arrival::Duplicate => self.stats.duplicates += 1,
            Arrival::TooLate => self.stats.too_late += 1,
        }
        let ack = Ack {
            // Where even the first packet made no sense, what it said is all there is to answer.
            seq: self.latest.map_or(datagram.seq, Seq::of),
            vector: self.before as u8,
            rwnd: self.rwnd,
            transit_us,
        };
        (ack, arrival)
    }

    fn take(&mut self, number: u64, transit_us: u32) -> Arrival {
        match self.latest {
            Some(latest) if number == latest => return Arrival::Duplicate,
            Some(latest) if number < latest => {
                let back = latest - number - 1;
                if back >= u64::from(u64::BITS) {
                    return Arrival::TooLate;
                }
                if self.before >> back & 1 == 1 {
                    return Arrival::Duplicate;
                }
                self.before |= 1 << back;
                self.stats.reordered += 1;
            }
            Some(latest) => {
                let ahead = number - latest;
                self.before = shifted(self.before, ahead) | shifted(1, ahead - 1);
                self.latest = Some(number);
            }
            None => self.latest = Some(number),
        }
        self.stats.expected = self.stats.expected.max(number - self.first + 1);
        Arrival::New { index: number - self.first, delay: self.delay.on_transit(transit_us) }
    }

    /// Changes the window that is advertised from now on, in packets.
    pub fn set_rwnd(&mut self, rwnd: u16) {
        self.rwnd = rwnd;
    }

    /// The sender says that the number of its next packet would have been `end`: what is missing up to there counts.
    pub fn on_end(&mut self, end: Seq) {
        if let Some(end) = end.nearest(self.latest.unwrap_or(self.first)) {
            self.stats.expected = self.stats.expected.max(end.saturating_sub(self.first));
        }
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}

/// `bits` shifted left, by any distance.
fn shifted(bits: u64, by: u64) -> u64 {
    u32::try_from(by).ok().and_then(|by| bits.checked_shl(by)).unwrap_or(0)
}
