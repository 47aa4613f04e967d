//! The network layer: routes, hosts without radio, and wired links.

use fairhop_model::units::Nanos;

use super::aodv::Overlay;
use super::core::Core;
use crate::packet::{ImageId, NodeId, Packet};
use crate::queue::Refused;
use crate::recorder::Loss;
use crate::routing::{NextHop, Routes, Wires};
use crate::wired::{Arrived, Link, LinkContext};

/// By which interface a packet has come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ingress {
    /// The node has made it.
    Local,
    /// By radio from this neighbour.
    Radio(NodeId),
    /// By wire.
    Wire,
}

/// Routes, hosts and wired links.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) routes: Routes,
    /// Names of the hosts without radio.
    pub(super) hosts: Vec<String>,
    /// Directions of wired links.
    pub(super) wired: Vec<Link>,
    /// Where a routing protocol takes packets; none where static routes lead everywhere.
    pub(super) overlay: Option<Box<Overlay>>,
}

impl Network {
    /// Where a node sends a packet.
    #[inline(always)]
    pub(super) fn next_hop(&self, node: NodeId, packet: &Packet) -> Option<NextHop> {
        match self.routes.next_hop(node, packet.source, packet.destination) {
            Some(hop) => Some(hop),
            None => self.overlay_hop(node, packet),
        }
    }

    #[inline(never)]
    fn overlay_hop(&self, node: NodeId, packet: &Packet) -> Option<NextHop> {
        self.overlay.as_deref()?.next_hop(node, packet)
    }

    #[inline]
    fn at_link<T>(
        &mut self,
        core: &mut Core,
        direction: usize,
        act: impl FnOnce(&mut Link, &mut LinkContext<'_>) -> T,
    ) -> T {
        let mut ctx = LinkContext {
            events: &mut core.events,
            packets: &mut core.packets,
            warmup: core.recorder.warmup,
            link: direction as u32,
        };
        act(&mut self.wired[direction], &mut ctx)
    }

    /// Puts a packet into the queue of a wired link.
    pub(super) fn send(&mut self, core: &mut Core, direction: usize, image: ImageId) {
        let bytes = core.packets.get(image).bytes;
        match self.at_link(core, direction, |link, ctx| link.send(ctx, image, bytes)) {
            Ok(()) => {
                let (link, now) = (&self.wired[direction], core.now());
                if let Some(tap) = &mut core.tap {
                    tap.wired(link.from(), link.to(), now, core.packets.view(image), false);
                }
            }
            Err(why) => self.refuse(core, direction, image, why),
        }
        self.drop_refused(core, direction);
    }

    /// The last bit of a packet has left for a wired link: the next one may follow.
    pub(super) fn link_free(&mut self, core: &mut Core, direction: usize) {
        self.at_link(core, direction, Link::free);
        self.drop_refused(core, direction);
    }

    /// Drops what the queue of a link has dropped of the packets that it had accepted.
    fn drop_refused(&mut self, core: &mut Core, direction: usize) {
        while let Some((image, why)) = core.packets.take_dropped() {
            self.refuse(core, direction, image, why);
        }
    }

    fn refuse(&mut self, core: &mut Core, direction: usize, image: ImageId, why: Refused) {
        let (now, warmup) = (core.now(), core.recorder.warmup);
        self.wired[direction].record_mut().dropped(why, now, warmup);
        let reason = match why {
            Refused::Full => Loss::WiredQueueFull,
            Refused::Early => Loss::Aqm,
        };
        core.drop_image(image, reason);
    }

    /// A packet arrives over a wired link: the node that it has come to, and its image there.
    pub(super) fn arrive(&mut self, core: &mut Core, direction: usize) -> Option<(NodeId, ImageId)> {
        let Arrived { packet: image, lost } = self.at_link(core, direction, Link::arrive)?;
        let (now, bytes) = (core.now(), core.packets.get(image).bytes);
        core.recorder.wire_crossed(now, direction as u32, bytes, lost);
        if lost {
            core.drop_image(image, Loss::Link);
            return None;
        }
        let (from, node) = (self.wired[direction].from(), self.wired[direction].to());
        core.packets.move_to(image, node);
        if let Some(tap) = &mut core.tap {
            tap.wired(node, from, now, core.packets.view(image), true);
        }
        Some((node, image))
    }

    /// The nodes and hosts on the path between two ends, without the first one, and whether each step goes by wire; empty
    /// where there is no route.
    pub(super) fn path(&self, from: NodeId, to: NodeId) -> Vec<(NodeId, bool)> {
        let mut steps = Vec::new();
        let mut at = from;
        loop {
            let (next, by_wire) = match self.routes.next_hop(at, from, to) {
                Some(NextHop::Radio(next)) => (next, false),
                Some(NextHop::Wire(direction)) => (self.wired[direction as usize].to(), true),
                Some(NextHop::Local) => return steps,
                Some(NextHop::Broadcast | NextHop::Routed(_)) | None => return Vec::new(),
            };
            steps.push((next, by_wire));
            at = next;
        }
    }

    /// How many wires the packets between two ends cross where a routing protocol takes them through the mesh: those to the
    /// node where they enter it, and those from the node where they leave it.
    pub(super) fn wires_beside_mesh(&self, source: NodeId, destination: NodeId) -> u64 {
        let from = |mut at: NodeId| {
            let mut wires = 0;
            while let Some(NextHop::Wire(direction)) = self.routes.next_hop(at, source, destination) {
                at = self.wired[direction as usize].to();
                wires += 1;
            }
            wires
        };
        let exit = self.overlay.as_deref().and_then(|overlay| overlay.ends(source, destination));
        from(source) + exit.filter(|&(_, exit)| exit != source).map_or(0, |(_, exit)| from(exit))
    }

    /// The wires as path finding wants them, with this many nodes that have a radio.
    pub(super) fn wires(&self, nodes: usize) -> Wires {
        wires(&self.wired, nodes + self.hosts.len())
    }

    /// Brings the records of all links up to the end of the run.
    pub(super) fn finish_records(&mut self, at: Nanos, warmup: Nanos) {
        for link in &mut self.wired {
            link.finish(at, warmup);
        }
    }
}

/// The wires between nodes and hosts.
pub(super) fn wires(links: &[Link], places: usize) -> Wires {
    let mut wires = Wires::new(places);
    for (direction, link) in links.iter().enumerate() {
        wires.add(link.from(), link.to(), link.delay(), direction as u32);
    }
    wires
}
