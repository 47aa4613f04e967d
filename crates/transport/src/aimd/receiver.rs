//! The receiving machine: which packets have arrived, and the acknowledgments.

use fairhop_model::units::Nanos;

use super::packet::clock_us;
use super::{Ack, Datagram, RelativeDelay, Seq};

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Advertised window in packets: the buffer of the connection, or the bound on delay outage.
    pub rwnd: u16,
    /// The number of the first packet.
    pub first: Seq,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { rwnd: u16::MAX, first: Seq::of(0) }
    }
}

/// Counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Distinct packets received.
    pub received: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// Received packets that came after a later one.
    pub reordered: u64,
    /// Packets too far behind the latest one to be told from duplicates.
    pub too_late: u64,
    /// Packets up to the latest one, received or not.
    pub expected: u64,
}

impl ReceiverStats {
    /// Packets up to the latest one that have not arrived.
    pub fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// What the receiver made of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A new one.
    New {
        /// Its place in the stream; the first packet has 0.
        index: u64,
        /// Its one-way delay above the minimum so far.
        delay: Nanos,
    },
    /// Received before.
    Duplicate,
    /// Too far behind the latest one to be told from a duplicate.
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

    /// A packet came. Duplicates are acknowledged too: the first acknowledgment may have been lost.
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
            // Before the first packet in range, the acknowledgment repeats the packet's own number.
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

    /// Sets the advertised window, in packets.
    pub fn set_rwnd(&mut self, rwnd: u16) {
        self.rwnd = rwnd;
    }

    /// The stream has ended: its next packet would have had the number `end`. Missing packets up to there count.
    pub fn on_end(&mut self, end: Seq) {
        if let Some(end) = end.nearest(self.latest.unwrap_or(self.first)) {
            self.stats.expected = self.stats.expected.max(end.saturating_sub(self.first));
        }
    }

    /// Counts since the start.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}

/// `bits` shifted left, by any distance.
fn shifted(bits: u64, by: u64) -> u64 {
    u32::try_from(by).ok().and_then(|by| bits.checked_shl(by)).unwrap_or(0)
}
