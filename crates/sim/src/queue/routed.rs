//! Messages of a routing protocol before everything else, as the interface queue of ns-2 has them: a route breaks or is found
//! while the queue is full, and waiting behind data would make both later.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::{Queue, Refused, Waiting};
use crate::packet::{Body, Packets};

/// Maximum number of routing messages that wait.
const MAX_MESSAGES: usize = 64;

/// A queue behind the messages of a routing protocol.
#[derive(Clone, Debug)]
pub struct Routed {
    messages: VecDeque<Waiting>,
    data: Queue,
}

impl Routed {
    /// Messages go before what `data` holds.
    pub fn new(data: Queue) -> Self {
        Self { messages: VecDeque::with_capacity(MAX_MESSAGES), data }
    }

    pub(super) fn push(&mut self, packet: Waiting, now: Nanos, packets: &mut Packets) -> Result<(), Refused> {
        if !matches!(packets.get(packet.packet).body, Body::Routing) {
            return self.data.push(packet, now, packets);
        }
        if self.messages.len() >= MAX_MESSAGES {
            return Err(Refused::Full);
        }
        self.messages.push_back(packet);
        Ok(())
    }

    pub(super) fn pop(&mut self, now: Nanos, packets: &mut Packets) -> Option<Waiting> {
        self.messages.pop_front().or_else(|| self.data.pop(now, packets))
    }

    pub(super) fn is_passed_by(&self) -> bool {
        self.data.is_passed_by()
    }

    /// Takes out all packets and messages for a next hop.
    pub(super) fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        self.messages.retain(|message| {
            let stays = message.next_hop != next_hop;
            if !stays {
                out.push(*message);
            }
            stays
        });
        self.data.withdraw(next_hop, out);
    }

    /// Number of messages and packets.
    pub fn len(&self) -> usize {
        self.messages.len() + self.data.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::engine::{Purpose, Stream};
    use crate::packet::Ecn;
    use crate::queue::Discipline;

    fn fill(discipline: &Discipline, packets: &mut Packets) -> Queue {
        let random = Stream::new(1, 0, Purpose::Queue);
        let inner = Queue::new(discipline, fairhop_model::units::BitRate(1_000_000), random);
        let mut queue = Queue::Routed(Box::new(Routed::new(inner)));
        for (stream, next_hop) in [(0, 7), (1, 8), (0, 8), (2, 7)] {
            let waiting = Waiting { next_hop, ..packet(packets, stream, 100 + stream, Ecn::NotEct) };
            assert_eq!(queue.push(waiting, Nanos::ZERO, packets), Ok(()));
        }
        queue
    }

    #[test]
    fn a_message_goes_before_data_that_came_earlier() {
        let mut packets = Packets::new(8, 64);
        let mut queue = fill(&Discipline::DropTail { packets: Some(50), bytes: None }, &mut packets);
        let message = packet(&mut packets, 9, 52, Ecn::NotEct);
        packets.get_mut(message.packet).body = Body::Routing;
        assert_eq!(queue.push(message, Nanos::ZERO, &mut packets), Ok(()));
        assert_eq!(queue.pop(Nanos::ZERO, &mut packets), Some(message));
        assert_eq!(queue.len(), 4);
    }

    #[test]
    fn every_discipline_gives_back_the_packets_for_a_next_hop_and_keeps_the_others() {
        let kinds = ["drop-tail", "red", "codel", "fq-codel", "cake", "drr"];
        for kind in kinds {
            let json = serde_json::json!({ "discipline": kind, "packets": 50 });
            let discipline: Discipline = serde_json::from_value(json).expect(kind);
            let mut packets = Packets::new(8, 64);
            let mut queue = fill(&discipline, &mut packets);
            let mut out = Vec::new();
            queue.withdraw(7, &mut out);
            assert_eq!(out.len(), 2, "{kind}");
            assert!(out.iter().all(|waiting| waiting.next_hop == 7));
            assert_eq!(queue.len(), 2, "{kind}");
            let rest: Vec<_> = std::iter::from_fn(|| queue.pop(Nanos::ZERO, &mut packets)).collect();
            assert_eq!(rest.len(), 2, "{kind}");
            assert!(rest.iter().all(|waiting| waiting.next_hop == 8));
        }
    }
}
