//! What all parts of a World share: the clock with its events, packets, records, and the tap.

use fairhop_model::units::Nanos;

use super::Tap;
use super::aodv::Routers;
use crate::engine::Events;
use crate::packet::{Body, ImageId, Packet, Packets};
use crate::recorder::{Loss, Recorder};

/// The state that mesh, network and applications all work on.
pub(super) struct Core {
    pub(super) events: Events,
    pub(super) packets: Packets,
    pub(super) recorder: Recorder,
    pub(super) tap: Option<Box<dyn Tap>>,
    /// The machines of a routing protocol, where there is one.
    pub(super) routing: Option<Box<Routers>>,
    /// Packets lost since the applications were last informed.
    pub(super) lost: Vec<Packet>,
}

impl Core {
    pub(super) fn new(events: Events, recorder: Recorder, ttl: u8) -> Self {
        let packets = Packets::new(1024, ttl);
        Self { events, packets, recorder, tap: None, routing: None, lost: Vec::with_capacity(64) }
    }

    #[inline]
    pub(super) fn now(&self) -> Nanos {
        self.events.now()
    }

    /// Whether the warm-up is over.
    pub(super) fn is_measuring(&self) -> bool {
        self.now() >= self.recorder.warmup
    }

    /// A node drops its image of a packet. The packet is lost unless a node nearer to its destination has one.
    pub(super) fn drop_image(&mut self, image: ImageId, why: Loss) {
        if self.packets.is_lost_with(image) {
            let packet = self.packets.get(image);
            if packet.is_counted() {
                self.recorder.packet_lost(packet, why);
            }
            if !matches!(packet.body, Body::Routing) {
                self.lost.push(*packet);
            }
        }
        self.packets.release(image);
    }
}
