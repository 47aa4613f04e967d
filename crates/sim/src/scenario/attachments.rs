//! The attached places of a scenario, with their default names and addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::attach::{AttachKind, Attachment, parse_address};
use super::place::{Endpoint, Place};
use super::sections::Scenario;
use super::traffic::Traffic;

/// First octets of the default addresses of nodes, and of hosts without radio.
const NODES: [u8; 2] = [10, 77];
const HOSTS: [u8; 2] = [10, 78];

/// The default addresses of the place with this number among those of its sort.
fn default_addresses([high, low]: [u8; 2], number: u32) -> Vec<(IpAddr, u8)> {
    let [.., c, d] = number.to_be_bytes();
    let v4 = Ipv4Addr::new(high, low, c, d);
    // 77 and 78 as they are written, not as numbers.
    let prefix = if low == NODES[1] { 0xfd77 } else { 0xfd78 };
    let v6 = Ipv6Addr::new(prefix, 0, 0, 0, 0, 0, (number >> 16) as u16, number as u16);
    vec![(v4.into(), 32), (v6.into(), 128)]
}

impl Scenario {
    /// The attached places, in the order of their numbers: those of `[[attach]]`, and the ends of real traffic.
    pub fn attachments(&self) -> Vec<Attachment> {
        let mut taken = BTreeSet::new();
        let mut found = Vec::new();
        let named = self.attach.iter().filter_map(|attach| Some((attach, attach.node?)));
        for (attach, place) in named {
            let Some(node) = self.place_number(place).filter(|node| taken.insert(*node)) else { continue };
            let addresses: Vec<_> = attach.addresses.iter().filter_map(|text| parse_address(text)).collect();
            found.push(self.attachment(node, attach.kind, attach.name.clone(), addresses));
        }
        if let Some(all) = self.attach.iter().find(|attach| attach.node.is_none()) {
            for node in (0..self.topology.node_count() as u32).filter(|node| !taken.contains(node)) {
                found.push(self.attachment(node, all.kind, None, Vec::new()));
            }
            taken.extend(0..self.topology.node_count() as u32);
        }
        let real = self.traffic.iter().filter(|entry| matches!(entry, Traffic::Real(_)) && entry.count() > 0);
        for place in real.flat_map(|entry| [entry.from(), entry.to()]) {
            if let Some(node) = self.place_number(place).filter(|node| taken.insert(*node)) {
                found.push(self.attachment(node, AttachKind::Edge, None, Vec::new()));
            }
        }
        found.sort_by_key(|attachment| attachment.node);
        found
    }

    /// The number of a place, as in [`Attachment::node`]; none for all neighbours, and for unknown places.
    pub fn place_number(&self, place: Place) -> Option<u32> {
        let nodes = self.topology.node_count() as u32;
        let internet = u32::from(self.internet.is_some());
        match self.resolve_place(place) {
            Endpoint::Node(node) => (node < nodes).then_some(node),
            Endpoint::Internet => (internet > 0).then_some(nodes),
            Endpoint::Host(host) => {
                (host < self.wired_hosts().len()).then_some(nodes + internet + host as u32)
            }
            Endpoint::Broadcast => None,
        }
    }

    fn attachment(
        &self,
        node: u32,
        kind: AttachKind,
        name: Option<String>,
        addresses: Vec<(IpAddr, u8)>,
    ) -> Attachment {
        let nodes = self.topology.node_count() as u32;
        let (default_name, defaults) = match node.checked_sub(nodes) {
            None => (node.to_string(), default_addresses(NODES, node)),
            Some(host) => {
                let internet = u32::from(self.internet.is_some());
                let wired = host.checked_sub(internet).and_then(|host| self.wired_hosts().get(host as usize));
                let name = wired.map_or_else(|| "internet".to_owned(), |host| host.name.to_string());
                // Wired hosts come after the Internet host, whether there is one or not.
                (name, default_addresses(HOSTS, 1 + host + (1 - internet)))
            }
        };
        Attachment {
            node,
            kind,
            name: name.unwrap_or(default_name),
            addresses: if addresses.is_empty() { defaults } else { addresses },
        }
    }
}
