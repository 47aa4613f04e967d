//! Observers of frames and packets, such as captures.

use fairhop_model::units::Nanos;

use crate::mac::Frame;
use crate::packet::{NodeId, PacketView};
use crate::radio::Links;

/// An observer of all frames and packets.
pub trait Tap: Send {
    /// A station has sent (`received` false) or received a frame that began at `at` on its antenna.
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<PacketView<'_>>,
        received: bool,
    );
    /// Nodes have moved, or rates have changed: frames that begin at `at` or later go over these links.
    fn network_changed(&mut self, _at: Nanos, _links: &Links) {}
    /// A packet enters (`arrived` false) or leaves a wired link at one of its ends; `peer` is the other one.
    fn wired(&mut self, node: NodeId, peer: NodeId, at: Nanos, packet: PacketView<'_>, arrived: bool);
}
