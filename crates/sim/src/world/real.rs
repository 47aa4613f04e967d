//! Packets from outside: how they enter a World and leave it.
//!
//! The caller lets the time of the World follow a clock ([`World::next_time`], [`World::advance_to`]), injects packets
//! when they come ([`World::inject`], [`World::inject_frame`]), and takes those that have arrived
//! ([`World::take_delivered`]). An IP packet is routed by its destination address between the attached places of the
//! scenario. An Ethernet frame goes one radio hop: to the node that owns the destination address, with acknowledgment and
//! retries, or to all neighbours at the basic rate.

use fairhop_control::digest::Ip;
use fairhop_control::{Address, Digest};
use fairhop_model::headers;

use super::World;
use super::applications::RealFlows;
use super::applications::real::{Delivered, Incoming, Rejected, digest_of};
use super::network::Ingress;
use crate::headers::{node_of_mac, wireless_mac};
use crate::ip::{self, ETHERNET_HEADER};
use crate::mac::BROADCAST;
use crate::packet::{Dscp, Ecn, NodeId};
use crate::routing::NextHop;

/// The largest IP packet that fits into an MSDU of 2304 bytes (IEEE 802.11-2020, 9.2.4.7.1) with LLC and SNAP headers.
pub const MAX_REAL_BYTES: usize = (2304 - headers::LLC_SNAP) as usize;

/// Whether a packet is for several hosts: IPv4 multicast and limited broadcast (RFC 1112, RFC 919), IPv6 multicast.
fn is_multicast(destination: &Address) -> bool {
    let v4_prefix = &Address::v4([0; 4]).0[..12];
    match destination.0 {
        bytes if bytes[..12] == *v4_prefix => bytes[12] >= 224,
        bytes => bytes[0] == 0xff,
    }
}

impl World {
    /// An IP packet enters the network at a place, now. It goes to the place that has its destination address, or to the
    /// attached Internet host.
    ///
    /// # Errors
    /// Why it does not enter. [`World::real`] counts it.
    pub fn inject(&mut self, at: NodeId, packet: &[u8]) -> Result<(), Rejected> {
        let result = self.check(at, packet).and_then(|(ip, digest)| {
            if is_multicast(&ip.destination) {
                return Err(Rejected::Multicast);
            }
            let to = self.applications.real.owner(&ip.destination);
            Ok((to.filter(|to| *to != at).ok_or(Rejected::UnknownDestination)?, ip, digest))
        });
        let result = result.map(|(to, ip, digest)| self.enter(at, to, packet, &ip, &digest));
        self.count(result)
    }

    /// The same, to a place of the caller's choice, whatever the destination address.
    ///
    /// # Errors
    /// Those of [`World::inject`]; a place that does not exist is [`Rejected::UnknownDestination`].
    pub fn inject_to(&mut self, at: NodeId, to: NodeId, packet: &[u8]) -> Result<(), Rejected> {
        let result = self.check(at, packet).and_then(|parts| {
            if to == at || !self.is_place(to) { Err(Rejected::UnknownDestination) } else { Ok(parts) }
        });
        let result = result.map(|(ip, digest)| self.enter(at, to, packet, &ip, &digest));
        self.count(result)
    }

    /// An Ethernet frame of a node goes one radio hop.
    ///
    /// # Errors
    /// Why it is not sent. [`World::real`] counts it.
    pub fn inject_frame(&mut self, at: NodeId, frame: &[u8]) -> Result<(), Rejected> {
        let result = self.check_frame(at, frame).map(|to| {
            let payload = &frame[ETHERNET_HEADER..];
            let ip = ip::packet_of_frame(frame).and_then(Ip::read);
            let other = ip::Fields { ttl: u8::MAX, ecn: Ecn::NotEct, window: 0, headers: 0 };
            let fields = ip.map_or(other, |ip| ip::fields(payload, &ip));
            let dscp = ip.and_then(|ip| Dscp::new(ip.traffic_class >> 2)).unwrap_or_default();
            let incoming =
                Incoming { from: at, to, bytes: payload.len() as u32, fields, dscp, is_frame: true };
            let image = self.applications.insert_real(&mut self.core, incoming, None, frame);
            let next = if to == BROADCAST { NextHop::Broadcast } else { NextHop::Radio(to) };
            self.send(at, image, next, Ingress::Local);
            self.handle_outputs();
        });
        self.count(result)
    }

    /// The next packet that has arrived at an attached place, in the order of arrival.
    pub fn take_delivered(&mut self) -> Option<Delivered> {
        self.applications.real.take_delivered()
    }

    /// Real traffic so far.
    pub fn real(&self) -> &RealFlows {
        &self.applications.real
    }

    fn is_place(&self, node: NodeId) -> bool {
        (node as usize) < self.mesh.len() + self.network.hosts.len()
    }

    fn check(&self, at: NodeId, packet: &[u8]) -> Result<(Ip, Digest), Rejected> {
        if !self.is_place(at) {
            return Err(Rejected::UnknownSource);
        }
        if packet.len() > MAX_REAL_BYTES {
            return Err(Rejected::Oversized);
        }
        let ip = Ip::read(packet).filter(|ip| ip.bytes as usize == packet.len());
        let digest = digest_of(self.now(), packet);
        let (Some(ip), Some(digest)) = (ip, digest) else { return Err(Rejected::Malformed) };
        if ip.ttl == 0 { Err(Rejected::Ttl) } else { Ok((ip, digest)) }
    }

    /// The receiver of a frame.
    fn check_frame(&self, at: NodeId, frame: &[u8]) -> Result<NodeId, Rejected> {
        if at as usize >= self.mesh.len() {
            return Err(Rejected::UnknownSource);
        }
        let (Some(destination), Some(source)) = (frame.first_chunk::<6>(), frame.get(6..12)) else {
            return Err(Rejected::Malformed);
        };
        if frame.len() <= ETHERNET_HEADER {
            return Err(Rejected::Malformed);
        }
        if frame.len() > ETHERNET_HEADER + MAX_REAL_BYTES {
            return Err(Rejected::Oversized);
        }
        if source != wireless_mac(at) {
            return Err(Rejected::ForeignSource);
        }
        // The group bit (IEEE 802-2014, 8.2.2).
        if destination[0] & 1 != 0 {
            return Ok(BROADCAST);
        }
        let to = node_of_mac(*destination).filter(|to| (*to as usize) < self.mesh.len() && *to != at);
        to.ok_or(Rejected::UnknownDestination)
    }

    fn enter(&mut self, from: NodeId, to: NodeId, packet: &[u8], ip: &Ip, digest: &Digest) {
        let fields = ip::fields(packet, ip);
        let dscp = Dscp::new(ip.traffic_class >> 2).unwrap_or_default();
        let incoming = Incoming { from, to, bytes: packet.len() as u32, fields, dscp, is_frame: false };
        let image = self.applications.insert_real(&mut self.core, incoming, Some(digest), packet);
        self.forward(from, image, Ingress::Local);
        self.handle_outputs();
    }

    fn count(&mut self, result: Result<(), Rejected>) -> Result<(), Rejected> {
        match result {
            Ok(()) => self.applications.real.count_injected(),
            Err(why) => self.applications.real.count_rejected(why),
        }
        result
    }
}
