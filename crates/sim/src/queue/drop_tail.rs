//! Drop-tail: a FIFO queue limited in packets or bytes.

use std::collections::VecDeque;

use super::{QueueLimit, Refused, Waiting};

/// A drop-tail queue. It does not hold the frame in service.
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

    /// Adds a packet at the end.
    ///
    /// # Errors
    /// The queue is full.
    #[inline]
    pub fn push(&mut self, packet: Waiting) -> Result<(), Refused> {
        if !self.limit.has_room(self.waiting.len(), self.bytes, packet.bytes) {
            return Err(Refused::Full);
        }
        self.bytes += packet.bytes;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Waiting> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.bytes;
        Some(packet)
    }

    /// Takes out all packets for a next hop.
    pub(super) fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        let before = out.len();
        self.waiting.retain(|waiting| {
            let stays = waiting.next_hop != next_hop;
            if !stays {
                out.push(*waiting);
            }
            stays
        });
        self.bytes -= out[before..].iter().map(|waiting| waiting.bytes).sum::<u32>();
    }

    /// Number of packets in the queue.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the queue is empty.
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
        assert!(packets.push(packet(1500)).is_ok() && packets.push(packet(40)).is_ok());
        assert_eq!(packets.push(packet(1)), Err(Refused::Full));
        let mut bytes = DropTail::new(QueueLimit::Bytes(1540));
        assert!(
            bytes.push(packet(1500)).is_ok()
                && bytes.push(packet(41)).is_err()
                && bytes.push(packet(40)).is_ok()
        );
        assert_eq!(bytes.pop(), Some(packet(1500)));
        assert!(bytes.push(packet(1500)).is_ok(), "a packet that leaves makes room");
    }
}
