//! Strict priority by DSCP class (RFC 2474 §4.2.2: a class selector of greater value is served no later).
//!
//! A class is the upper three bits of the codepoint, so that EF (RFC 3246) is in class 5 with CS5, and AF*xy* (RFC 2597) in
//! class *x*; drop precedence within a class is left out. Class 1 and the lower-effort codepoint (RFC 8622) come after
//! best effort, as RFC 4594 has CS1. Each class has a drop-tail queue of its own, so that what is less urgent never takes
//! the room of what is more.

use super::{DropTail, QueueLimit, Refused, Waiting};
use crate::packet::{Dscp, Packets};

/// How many classes there are.
const CLASSES: usize = 8;

/// Queues in the order in which they are served.
#[derive(Clone, Debug)]
pub struct Priority {
    bands: [DropTail; CLASSES],
    waiting: usize,
}

/// The place of a codepoint in the order of service, 0 first.
pub(super) fn band(dscp: Dscp) -> usize {
    match (dscp, dscp.class()) {
        (Dscp::LOWER_EFFORT, _) | (_, 1) => 7,
        (_, 0) => 6,
        (_, class) => 7 - usize::from(class),
    }
}

impl Priority {
    /// Empty queues, each of which holds up to `limit`.
    pub fn new(limit: QueueLimit) -> Self {
        Self { bands: std::array::from_fn(|_| DropTail::new(limit)), waiting: 0 }
    }

    /// Adds a packet to its class.
    ///
    /// # Errors
    /// The class has no room.
    pub fn push(&mut self, packet: Waiting, packets: &Packets) -> Result<(), Refused> {
        self.bands[band(packets.get(packet.packet).dscp)].push(packet)?;
        self.waiting += 1;
        Ok(())
    }

    /// Takes the first packet of the first class that has one.
    pub fn pop(&mut self) -> Option<Waiting> {
        let packet = self.bands.iter_mut().find_map(DropTail::pop)?;
        self.waiting -= 1;
        Some(packet)
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;

    #[test]
    fn the_higher_class_goes_first_and_lower_effort_last() {
        let mut packets = Packets::default();
        let mut queue = Priority::new(QueueLimit::Packets(2));
        // CS7, CS6, EF, AF41, AF31, AF21, BE, CS1, LE.
        let order = [56, 48, 46, 34, 26, 18, 0, 8, 1].map(|value| Dscp::new(value).expect("6 bits"));
        for dscp in order.iter().rev() {
            let waiting = packet(&mut packets, 0, 100, Ecn::NotEct);
            packets.get_mut(waiting.packet).dscp = *dscp;
            assert_eq!(queue.push(waiting, &packets), Ok(()));
        }
        let served: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|waiting| packets.get(waiting.packet).dscp).collect();
        assert_eq!(served[..7], order[..7]);
        // CS1 and LE share the last class: first come, first served.
        assert_eq!(served[7..], [order[8], order[7]]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_class_leaves_the_others_their_room() {
        let mut packets = Packets::default();
        let mut queue = Priority::new(QueueLimit::Packets(2));
        let best_effort = packet(&mut packets, 0, 1500, Ecn::NotEct);
        let urgent = packet(&mut packets, 1, 60, Ecn::NotEct);
        packets.get_mut(urgent.packet).dscp = Dscp::EXPEDITED;
        assert!(queue.push(best_effort, &packets).is_ok() && queue.push(best_effort, &packets).is_ok());
        assert_eq!(queue.push(best_effort, &packets), Err(Refused::Full));
        assert_eq!(queue.push(urgent, &packets), Ok(()));
        assert_eq!(queue.pop(), Some(urgent));
    }
}
