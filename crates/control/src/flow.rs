//! Flow keys, and a table of flows of bounded size.
//!
//! [`FlowTable`] takes all of its memory when it is made. In a full table, a new flow replaces the one that has been silent
//! longest: a flood of new flows evicts idle flows, and its own, before one that keeps sending.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use fairhop_model::units::Nanos;
use hashbrown::HashTable;

use crate::digest::PROTOCOL_ICMP;

/// An IPv6 address, or an IPv4 one mapped into it (RFC 4291 §2.5.5.2).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub [u8; 16]);

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl Address {
    /// An IPv4 address.
    pub const fn v4([a, b, c, d]: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// An IPv6 address.
    pub const fn v6(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::v4(address.octets()),
            IpAddr::V6(address) => Self::v6(address.octets()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        Self::V6(Ipv6Addr::from(address.0)).to_canonical()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Both ends and the protocol: the same for both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// The end in the mesh.
    pub mesh: Address,
    /// The other end.
    pub wired: Address,
    /// Port in the mesh.
    pub mesh_port: u16,
    /// Port at the other end.
    pub wired_port: u16,
    /// IP protocol number.
    pub protocol: u8,
}

impl Hash for FlowKey {
    /// All bytes in one call of the hasher, and not one call or two for each field.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; 37];
        bytes[..16].copy_from_slice(&self.mesh.0);
        bytes[16..32].copy_from_slice(&self.wired.0);
        bytes[32..34].copy_from_slice(&self.mesh_port.to_ne_bytes());
        bytes[34..36].copy_from_slice(&self.wired_port.to_ne_bytes());
        bytes[36] = self.protocol;
        state.write(&bytes);
    }
}

impl FlowKey {
    /// Whether it is that of a [`Probe`](crate::digest::Probe), if the flow is a call: no other call has ICMP's number.
    pub const fn is_of_probe(&self) -> bool {
        self.protocol == PROTOCOL_ICMP
    }
}

const NONE: u32 = u32::MAX;

/// Links of a flow in the order of last packets.
#[derive(Clone, Copy, Debug)]
struct Link {
    last: Nanos,
    /// Neighbours in the list.
    newer: u32,
    older: u32,
}

/// A flow with a recent packet.
#[derive(Clone, Copy, Debug)]
pub struct Active<'t, V> {
    /// Where it is in the table: below the capacity, and the same until the flow is removed. A later flow may have it then.
    pub place: usize,
    /// When its last packet passed.
    pub last: Nanos,
    /// The flow.
    pub key: &'t FlowKey,
    /// Its value.
    pub value: &'t V,
}

/// A value for each flow, of bounded size.
///
/// Index and order of flows are stored apart from the values, with few bytes per flow: an update touches them for other flows
/// than its own, and they fit into the cache, where the values do not.
#[derive(Debug)]
pub struct FlowTable<V> {
    index: HashTable<u32>,
    hasher: RandomState,
    links: Vec<Link>,
    flows: Vec<(FlowKey, V)>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: u32,
    evictions: u64,
}

impl<V> FlowTable<V> {
    /// A table for `capacity` flows, at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, NONE as usize - 1);
        Self {
            // Twice the capacity: a hash table that is at most half full removes tombstones in place and never grows.
            index: HashTable::with_capacity(2 * capacity),
            hasher: RandomState::new(),
            links: Vec::with_capacity(capacity),
            flows: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            newest: NONE,
            oldest: NONE,
            capacity: capacity as u32,
            evictions: 0,
        }
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Number of flows that were replaced by others.
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The value of a flow.
    pub fn get(&self, key: &FlowKey) -> Option<&V> {
        Some(&self.flows[self.place_of(key)? as usize].1)
    }

    /// The value of a flow; does not change its place in the order.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut V> {
        let place = self.place_of(key)?;
        Some(&mut self.flows[place as usize].1)
    }

    /// All values, those of removed flows among them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.flows.iter_mut().map(|(_, value)| value)
    }

    /// The value of a flow with a packet at `now`; `new` makes it if the flow is new.
    pub fn touch(&mut self, key: &FlowKey, now: Nanos, new: impl FnOnce() -> V) -> &mut V {
        let place = match self.place_of(key) {
            Some(place) => {
                self.unlink(place);
                place
            }
            None => self.place_for(key, now, new),
        };
        self.link_newest(place, now);
        &mut self.flows[place as usize].1
    }

    fn place_of(&self, key: &FlowKey) -> Option<u32> {
        let same = |place: &u32| self.flows[*place as usize].0 == *key;
        self.index.find(self.hasher.hash_one(key), same).copied()
    }

    fn place_for(&mut self, key: &FlowKey, now: Nanos, new: impl FnOnce() -> V) -> u32 {
        if self.len() as u32 >= self.capacity {
            self.remove_at(self.oldest);
            self.evictions += 1;
        }
        let flow = (*key, new());
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = flow;
                place
            }
            None => {
                self.flows.push(flow);
                self.links.push(Link { last: now, newer: NONE, older: NONE });
                self.flows.len() as u32 - 1
            }
        };
        let Self { index, hasher, flows, .. } = self;
        index.insert_unique(hasher.hash_one(key), place, |place| hasher.hash_one(flows[*place as usize].0));
        place
    }

    /// Removes a flow.
    pub fn remove(&mut self, key: &FlowKey) {
        if let Some(place) = self.place_of(key) {
            self.remove_at(place);
        }
    }

    /// Removes flows without a packet since `horizon`.
    pub fn expire(&mut self, horizon: Nanos) {
        while self.oldest != NONE && self.links[self.oldest as usize].last < horizon {
            self.remove_at(self.oldest);
        }
    }

    /// Flows with a packet at or after `horizon`, the latest first.
    pub fn active(&self, horizon: Nanos) -> impl Iterator<Item = (&FlowKey, &V)> {
        self.active_since(horizon).map(|Active { key, value, .. }| (key, value))
    }

    /// As [`FlowTable::active`], with the time of each flow's last packet and its place.
    pub fn active_since(&self, horizon: Nanos) -> impl Iterator<Item = Active<'_, V>> {
        let mut next = self.newest;
        std::iter::from_fn(move || {
            let place = next as usize;
            let link = self.links.get(place).filter(|link| link.last >= horizon)?;
            let (key, value) = &self.flows[place];
            next = link.older;
            Some(Active { place, last: link.last, key, value })
        })
    }

    fn remove_at(&mut self, place: u32) {
        self.unlink(place);
        let hash = self.hasher.hash_one(self.flows[place as usize].0);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == place) {
            entry.remove();
        }
        self.free.push(place);
    }

    fn unlink(&mut self, place: u32) {
        let Link { newer, older, .. } = self.links[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32, now: Nanos) {
        let before = self.newest;
        self.links[place as usize] = Link { last: now, newer: NONE, older: before };
        match before {
            NONE => self.oldest = place,
            before => self.links[before as usize].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey { mesh_port: port, ..FlowKey::default() }
    }

    proptest! {
        /// Compared with a map of times: the flow that has been silent longest is replaced, and no other.
        #[test]
        fn a_full_table_evicts_the_flow_that_was_silent_longest(steps in proptest::collection::vec((0_u16..12, 0_u8..12), 1..300)) {
            let mut table = FlowTable::new(5);
            let mut model: BTreeMap<u16, (u64, u32)> = BTreeMap::new();
            for (now, (port, what)) in steps.into_iter().enumerate() {
                let now = now as u64;
                match what {
                    0 => {
                        table.remove(&key(port));
                        model.remove(&port);
                    }
                    1 => {
                        let horizon = now.saturating_sub(u64::from(port) * 2);
                        table.expire(Nanos(horizon));
                        model.retain(|_, (last, _)| *last >= horizon);
                    }
                    _ => {
                        *table.touch(&key(port), Nanos(now), || 0) += 1;
                        if !model.contains_key(&port) && model.len() == 5 {
                            let oldest = model.iter().min_by_key(|(_, (last, _))| *last).map(|(&port, _)| port);
                            model.remove(&oldest.expect("five flows"));
                        }
                        let entry = model.entry(port).or_insert((now, 0));
                        *entry = (now, entry.1 + 1);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                let mut expected: Vec<_> = model.iter().map(|(&port, &(last, count))| (last, key(port), count)).collect();
                expected.sort_by(|a, b| b.cmp(a));
                let found: Vec<_> = table.active(Nanos::ZERO).map(|(&key, &count)| (key, count)).collect();
                prop_assert_eq!(found, expected.into_iter().map(|(_, key, count)| (key, count)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn addresses_print_in_their_usual_form() {
        assert_eq!(Address::v4([10, 1, 0, 4]).to_string(), "10.1.0.4");
        let mut bytes = [0; 16];
        (bytes[0], bytes[1], bytes[15]) = (0x20, 0x01, 1);
        assert_eq!(format!("{:?}", Address::v6(bytes)), "2001::1");
    }
}
