//! The interface queue: drop-tail, limited in packets or bytes.

use std::collections::VecDeque;

use crate::packet::PacketId;
use crate::scenario::QueueLimit;

/// A packet that waits for its turn at a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The packet.
    pub packet: PacketId,
    /// The neighbour that gets it.
    pub next_hop: u32,
    /// Size of the IP packet in bytes.
    pub bytes: u32,
}

/// A drop-tail queue. The frame that the MAC is busy with has left it.
#[derive(Clone, Debug)]
pub struct DropTail {
    waiting: VecDeque<Waiting>,
    bytes: u32,
    limit: QueueLimit,
}

impl DropTail {
    /// An empty queue.
    pub fn new(limit: QueueLimit) -> Self {
        let room = match limit {
            QueueLimit::Packets(packets) => packets.min(64),
            QueueLimit::Bytes(_) => 64,
        };
        Self { waiting: VecDeque::with_capacity(room as usize), bytes: 0, limit }
    }

    /// Adds a packet at the end; false where there is no room.
    #[inline]
    pub fn push(&mut self, packet: Waiting) -> bool {
        let fits = match self.limit {
            QueueLimit::Packets(packets) => self.waiting.len() < packets as usize,
            QueueLimit::Bytes(bytes) => self.bytes + packet.bytes <= bytes,
        };
        if fits {
            self.bytes += packet.bytes;
            self.waiting.push_back(packet);
        }
        fits
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Waiting> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.bytes;
        Some(packet)
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: u32) -> Waiting {
        Waiting { packet: 0, next_hop: 0, bytes }
    }

    #[test]
    fn a_queue_of_packets_counts_packets_and_a_queue_of_bytes_counts_bytes() {
        let mut packets = DropTail::new(QueueLimit::Packets(2));
        assert!(packets.push(packet(1500)) && packets.push(packet(40)) && !packets.push(packet(1)));
        let mut bytes = DropTail::new(QueueLimit::Bytes(1540));
        assert!(bytes.push(packet(1500)) && !bytes.push(packet(41)) && bytes.push(packet(40)));
        assert_eq!(bytes.pop(), Some(packet(1500)));
        assert!(bytes.push(packet(1500)), "what leaves makes room");
    }
}
