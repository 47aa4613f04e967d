//! The wired link between the gateway and the Internet host: rate, delay, and a drop-tail queue at each end.
//!
//! Full duplex and without errors. Since packets leave in the order in which they came, the time at which each arrives
//! is known when it is queued; one event a direction is enough.

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

use crate::packet::PacketId;
use crate::scenario::QueueLimit;

#[derive(Clone, Copy, Debug)]
struct OnWire {
    packet: PacketId,
    bytes: u32,
    /// When its last bit leaves the queue.
    sent: Nanos,
}

/// One direction of a wired link.
#[derive(Clone, Debug)]
pub struct WiredLink {
    rate: BitRate,
    delay: Nanos,
    limit: QueueLimit,
    under_way: VecDeque<OnWire>,
    /// How many of `under_way`, from the front, had left the queue when last looked at.
    left: usize,
    queued_bytes: u64,
    free_at: Nanos,
}

impl WiredLink {
    /// An empty link.
    pub fn new(rate: BitRate, delay: Nanos, limit: QueueLimit) -> Self {
        let under_way = VecDeque::with_capacity(256);
        Self { rate, delay, limit, under_way, left: 0, queued_bytes: 0, free_at: Nanos::ZERO }
    }

    /// Queues a packet. Its arrival time, where it is the first under way and needs an event; an error where the queue
    /// is full. A packet on its way out counts until its last bit has left.
    pub fn send(&mut self, packet: PacketId, bytes: u32, now: Nanos) -> Result<Option<Nanos>, QueueFull> {
        while let Some(first) = self.under_way.get(self.left)
            && first.sent <= now
        {
            self.queued_bytes -= u64::from(first.bytes);
            self.left += 1;
        }
        let fits = match self.limit {
            QueueLimit::Packets(packets) => self.under_way.len() - self.left < packets as usize,
            QueueLimit::Bytes(limit) => self.queued_bytes + u64::from(bytes) <= u64::from(limit),
        };
        if !fits {
            return Err(QueueFull);
        }
        let sent = self.free_at.max(now).saturating_add(self.rate.time_for(u64::from(bytes)));
        self.free_at = sent;
        self.queued_bytes += u64::from(bytes);
        self.under_way.push_back(OnWire { packet, bytes, sent });
        Ok((self.under_way.len() == 1).then(|| sent.saturating_add(self.delay)))
    }

    /// The packet that arrives now, and when the next one does.
    pub fn arrive(&mut self) -> Option<(PacketId, Option<Nanos>)> {
        let arrived = self.under_way.pop_front()?;
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.queued_bytes -= u64::from(arrived.bytes),
        }
        let next = self.under_way.front().map(|next| next.sent.saturating_add(self.delay));
        Some((arrived.packet, next))
    }
}

/// There was no room in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Mb/s: 1250 bytes take 10 ms.
    fn link(limit: QueueLimit) -> WiredLink {
        WiredLink::new(BitRate(1_000_000), Nanos::from_millis(30), limit)
    }

    #[test]
    fn packets_arrive_one_after_the_other_after_rate_and_delay() {
        let mut link = link(QueueLimit::Packets(10));
        assert_eq!(link.send(7, 1250, Nanos::ZERO), Ok(Some(Nanos::from_millis(40))));
        assert_eq!(link.send(8, 1250, Nanos::ZERO), Ok(None));
        assert_eq!(link.arrive(), Some((7, Some(Nanos::from_millis(50)))));
        assert_eq!(link.arrive(), Some((8, None)));
        assert_eq!(link.arrive(), None);
        assert_eq!(link.send(9, 1250, Nanos::from_millis(60)), Ok(Some(Nanos::from_millis(100))));
    }

    #[test]
    fn the_queue_holds_what_has_not_left_and_not_what_is_on_the_wire() {
        let mut packets = link(QueueLimit::Packets(2));
        assert!(packets.send(0, 1250, Nanos::ZERO).is_ok() && packets.send(1, 1250, Nanos::ZERO).is_ok());
        assert_eq!(packets.send(2, 1250, Nanos::from_millis(9)), Err(QueueFull));
        assert!(packets.send(2, 1250, Nanos::from_millis(10)).is_ok(), "the first has left");
        let mut bytes = link(QueueLimit::Bytes(2500));
        assert!(bytes.send(0, 1250, Nanos::ZERO).is_ok() && bytes.send(1, 1250, Nanos::ZERO).is_ok());
        assert_eq!(bytes.send(2, 1, Nanos::from_millis(9)), Err(QueueFull));
        assert!(bytes.send(2, 1250, Nanos::from_millis(10)).is_ok());
        for _ in 0..3 {
            assert!(bytes.arrive().is_some());
        }
        assert_eq!(bytes.queued_bytes, 0);
    }
}
