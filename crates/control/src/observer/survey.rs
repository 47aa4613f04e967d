//! One pass over the flows at each tick: which of them are calls, and what the flows of a mesh node have in common.

use std::hash::{BuildHasher, RandomState};

use fairhop_model::units::Nanos;
use hashbrown::HashTable;

use super::meter::{Excess, MeshRoundTrip, WindowedMin};
use super::{Flow, FlowBody, FlowKind};
use crate::digest::Direction;
use crate::flow::{Active, Address, FlowKey, FlowTable};

/// How long a flow counts as held after its last packet that was: the span of the meters of rates.
const HELD_FOR: Nanos = Nanos::from_millis(500);

/// What the flows that end at a mesh node show of the path to it.
#[derive(Clone, Copy, Debug)]
pub struct MeshNode {
    /// The node.
    pub address: Address,
    /// A flow has shown hops or a round trip.
    is_known: bool,
    /// Hops to it; 0 if not known.
    pub hops: u8,
    /// How far the round trips of all its flows are over the shortest one; none without recent ones. A queue is common to
    /// all flows; the excess of one flow may be its own.
    pub excess: Option<Excess>,
    /// The part of the round trips over the shortest one that the data in flight certainly shows; none where it shows nothing.
    pub standing: Option<Nanos>,
    /// That data as time at the present rate, at the last surveys.
    backlogs: [Nanos; Self::BACKLOGS],
    /// When the last packet of any of its flows passed out of the mesh; none before the first one.
    pub heard: Option<Nanos>,
    /// The hops of that packet; 0 before the first one. [`MeshNode::hops`] is the maximum over the flows.
    pub last_hops: u8,
    /// Shortest round trip of the last one to two minutes, of any flow.
    base: WindowedMin<Nanos>,
    seen: Nanos,
}

impl MeshNode {
    /// How far round trips to it certainly are over the shortest one, by their times and by the data in flight; none where
    /// neither shows it.
    pub(super) fn certain_excess(&self) -> Option<Nanos> {
        self.excess.map(Excess::certain).max(self.standing)
    }

    /// Shortest round trip through the mesh, of any flow; none before the first one.
    pub fn base(&self) -> Option<Nanos> {
        self.base.value()
    }
}

/// A flow whose data waits for others: TCP, or UDP that is bulk or interactive.
#[derive(Clone, Copy, Debug)]
pub struct ElasticFlow {
    /// The flow.
    pub key: FlowKey,
    /// [`FlowKind::Tcp`], [`FlowKind::BulkUdp`] or [`FlowKind::Interactive`].
    pub kind: FlowKind,
    /// Its data comes out of the mesh, and it is TCP.
    pub is_upload: bool,
    /// Its present rate in bits per second, of TCP in the direction of its data; of UDP both ways, without the sound of a call.
    pub rate: f64,
    /// Rate into the mesh of the sound of a call that shares its ports.
    pub sound: f64,
    /// See [`UdpFlow::may_have_sound_beside_data`](super::UdpFlow::may_have_sound_beside_data).
    pub may_have_sound: bool,
    /// The rate at which the mesh carries it: of downloads what leaves the mesh, otherwise [`ElasticFlow::rate`].
    pub carried: f64,
    /// Size of its data packets in bits.
    pub packet_bits: f64,
    /// When its first and its last packet passed.
    pub began: Nanos,
    /// See [`ElasticFlow::began`].
    pub last: Nanos,
    /// Hops in the mesh; 0 if not known.
    pub hops: u8,
    /// Hops to its mesh node by all flows of that node ([`MeshNode::hops`]); 0 if not known.
    pub node_hops: u8,
    /// Shortest round trip through the mesh.
    pub base: Option<Nanos>,
    /// The pace holds its packets: [`Observer::on_held`](super::Observer::on_held).
    pub is_held: bool,
}

/// What the flows of a mesh node add up to. The order of flows does not matter.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    hops: u8,
    /// When the last packet out of the mesh passed of a flow with known hops, and these hops.
    heard: Option<(Nanos, u8)>,
    base: Option<Nanos>,
    /// The shortest round trip now, in place of its excess.
    round_trip: Option<Excess>,
    /// See [`MeshRoundTrip::evidence`], of the flows with samples in the last second: the sum, and the shortest.
    spans: usize,
    last: Option<Nanos>,
    /// Payload bytes in the mesh and its queues, their rate in bits per second, and the longest time that one is there: see
    /// [`standing()`].
    standing: (u64, u64, Nanos),
}

/// The result of the last pass. Its memory grows to the number of calls and nodes, and stays.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) calls: Vec<FlowKey>,
    pub(super) elastic: Vec<ElasticFlow>,
    /// Places of UDP among them.
    pub(super) datagrams: Vec<u32>,
    pub(super) nodes: Vec<MeshNode>,
    /// Sums of the nodes in this pass, and where a node is by its address.
    sums: Vec<Sum>,
    places: HashTable<u32>,
    hasher: RandomState,
    /// Where a flow's node was in the pass before, by the flow's place in the table. It may be another node by now.
    hints: Vec<u32>,
    /// Places of the nodes of the elastic flows.
    places_of_elastic: Vec<u32>,
    /// How far the round trips of all uploads beyond the gateway are over their bases.
    pub(super) uplink: Option<Excess>,
}

impl Survey {
    /// Looks at the flows with a packet since `horizon`, and for calls at those since `calls_horizon`.
    pub(super) fn update(
        &mut self,
        now: Nanos,
        horizon: Nanos,
        calls_horizon: Nanos,
        flows: &FlowTable<Flow>,
    ) {
        self.calls.clear();
        self.elastic.clear();
        self.datagrams.clear();
        self.places_of_elastic.clear();
        self.uplink = None;
        self.forget_nodes(now);
        self.sums.fill(Sum::default());
        for Active { place: slot, last, key, value: flow } in flows.active_since(horizon) {
            let place = self.place_of(now, key.mesh, slot);
            let kind = flow.kind(now);
            let mut sound = 0.0;
            let (is_upload, rate, carried, packet_bytes, rtt) = match &flow.body {
                FlowBody::Tcp(tcp) => {
                    let is_upload = tcp.is_upload();
                    let rate = if is_upload { &tcp.up } else { &tcp.down }.rate(now).0 as f64;
                    let carried = if is_upload { rate } else { tcp.left_rate(now) };
                    (is_upload, rate, carried, tcp.packet_bytes(), &tcp.mesh_rtt)
                }
                FlowBody::Udp(udp) => {
                    if udp.is_call(calls_horizon) {
                        self.calls.push(*key);
                    }
                    let [down, up] = udp.sound_beside_others(calls_horizon);
                    sound = down;
                    let rate = (udp.rate(now) as f64 - down - up).max(0.0);
                    (false, rate, rate, udp.packet_bytes(), &udp.mesh_rtt)
                }
            };
            if let FlowBody::Tcp(tcp) = &flow.body
                && is_upload
            {
                let excess = tcp.uplink.excess(now, tcp.wired_rtt.handshake());
                self.uplink = self.uplink.into_iter().chain(excess).reduce(Excess::common);
            }
            let is_elastic = match kind {
                FlowKind::Tcp => !flow.is_closed(),
                FlowKind::BulkUdp | FlowKind::Interactive => true,
                FlowKind::Call | FlowKind::Other => false,
            };
            if is_elastic {
                if kind != FlowKind::Tcp {
                    self.datagrams.push(self.elastic.len() as u32);
                }
                self.places_of_elastic.push(place as u32);
                self.elastic.push(ElasticFlow {
                    key: *key,
                    kind,
                    is_upload,
                    rate,
                    sound,
                    may_have_sound: flow.may_have_sound_beside_data(),
                    carried,
                    packet_bits: 8.0 * f64::from(packet_bytes),
                    began: flow.began,
                    last,
                    hops: flow.hops,
                    node_hops: 0,
                    base: rtt.base(),
                    is_held: flow.held.is_some_and(|held| now.saturating_sub(held) < HELD_FOR),
                });
            }
            self.sums[place].add(now, flow, rtt);
        }
        // The order of flows by their last packets is not that of anything else.
        self.calls.sort_unstable();
        for (node, sum) in self.nodes.iter_mut().zip(&self.sums) {
            node.merge(now, sum);
        }
        for (flow, place) in self.elastic.iter_mut().zip(&self.places_of_elastic) {
            flow.node_hops = self.nodes[*place as usize].hops;
        }
    }

    pub(super) fn node(&self, address: Address) -> Option<&MeshNode> {
        self.find(address).map(|place| &self.nodes[place]).filter(|node| node.is_known)
    }

    fn find(&self, address: Address) -> Option<usize> {
        let is_it = |place: &u32| self.nodes[*place as usize].address == address;
        self.places.find(self.hasher.hash_one(address), is_it).map(|place| *place as usize)
    }

    /// Where the node and its sum are of a flow with that place in the table; the node is added if it is new.
    fn place_of(&mut self, now: Nanos, address: Address, slot: usize) -> usize {
        if slot >= self.hints.len() {
            self.hints.resize(slot + 1, 0);
        }
        let hint = self.hints[slot] as usize;
        if self.nodes.get(hint).is_some_and(|node| node.address == address) {
            return hint;
        }
        let place = self.find(address).unwrap_or_else(|| {
            self.nodes.push(MeshNode::new(now, address));
            self.sums.push(Sum::default());
            self.index(self.nodes.len() - 1);
            self.nodes.len() - 1
        });
        self.hints[slot] = place as u32;
        place
    }

    /// Makes the node at a place known by its address.
    fn index(&mut self, place: usize) {
        let Self { nodes, places, hasher, .. } = self;
        let hash_of = |place: &u32| hasher.hash_one(nodes[*place as usize].address);
        places.insert_unique(hash_of(&(place as u32)), place as u32, hash_of);
    }

    fn forget_nodes(&mut self, now: Nanos) {
        if !self.nodes.iter().any(|node| node.is_forgotten(now)) {
            return;
        }
        self.nodes.retain(|node| !node.is_forgotten(now));
        self.sums.truncate(self.nodes.len());
        self.places.clear();
        for place in 0..self.nodes.len() {
            self.index(place);
        }
    }
}

impl Sum {
    fn add(&mut self, now: Nanos, flow: &Flow, rtt: &MeshRoundTrip) {
        let round_trip = round_trip(now, rtt);
        if flow.hops == 0 && round_trip.is_none() {
            return;
        }
        self.hops = self.hops.max(flow.hops);
        let heard = flow.heard.filter(|_| flow.hops > 0).map(|heard| (heard, flow.hops));
        self.heard = self.heard.max(heard);
        if let Some((base, excess)) = round_trip {
            let whole = Excess { over_base: base.saturating_add(excess.over_base), ..excess };
            self.base = Some(self.base.map_or(base, |least| least.min(base)));
            self.round_trip = Some(self.round_trip.map_or(whole, |other| other.common(whole)));
            let (spans, last) = rtt.evidence(now);
            self.spans += spans;
            self.last = self.last.into_iter().chain([last]).min();
        }
        if let Some((bytes, rate, age)) = standing(now, flow) {
            let (all, rates, oldest) = self.standing;
            self.standing = (all + u64::from(bytes), rates + rate, oldest.max(age));
        }
    }

    /// The round trip now. One packet that waits for retries on the air is late, and a queue delays all. So where a second has few
    /// samples, the last two have to agree. Otherwise a slow flow, with a packet or two a second, shows a queue whenever a packet is
    /// late, and becomes slower still.
    fn round_trip(&self) -> Option<Excess> {
        /// Spans of 100 ms of a second, with which 300 to 400 ms have more than one in the mean.
        const ENOUGH: usize = 4;
        let whole = self.round_trip?;
        let confirmed = self.last.filter(|_| self.spans < ENOUGH);
        Some(Excess { over_base: confirmed.into_iter().chain([whole.over_base]).min()?, ..whole })
    }

    /// The data that stands in the mesh, as time at its rate, which is no longer than any of it has been there; none where that is
    /// not known.
    fn backlog(&self) -> Option<Nanos> {
        /// One packet more or less is chance: at a few packets a second it is longer than any queue that matters.
        const CHANCE: u64 = 1460;
        let (bytes, rate, oldest) = self.standing;
        let seconds = 8.0 * bytes.saturating_sub(CHANCE) as f64 / rate as f64;
        (rate > 0).then(|| Nanos::from_secs_f64(seconds).min(oldest))
    }
}

impl MeshNode {
    /// A node without flows is forgotten after that time, as flows are.
    const FORGOTTEN: Nanos = Nanos::from_secs(60);
    /// What is in flight to a node that is silent for longer may be lost: ten packets of a call.
    const SILENT: Nanos = Nanos::from_millis(300);
    /// Surveys of which the one with the least data in flight counts: a burst is on its way for less than 300 ms.
    const BACKLOGS: usize = 4;

    const fn new(now: Nanos, address: Address) -> Self {
        Self {
            address,
            is_known: false,
            hops: 0,
            excess: None,
            standing: None,
            backlogs: [Nanos::ZERO; _],
            heard: None,
            last_hops: 0,
            base: WindowedMin::new(),
            seen: now,
        }
    }

    fn is_forgotten(&self, now: Nanos) -> bool {
        now.saturating_sub(self.seen) >= Self::FORGOTTEN
    }

    fn merge(&mut self, now: Nanos, sum: &Sum) {
        if sum.hops == 0 && sum.round_trip.is_none() {
            // No recent flows.
            (self.excess, self.standing, self.backlogs) = (None, None, [Nanos::ZERO; _]);
            return;
        }
        (self.seen, self.is_known) = (now, true);
        if sum.hops > 0 {
            self.hops = sum.hops;
        }
        if let Some((heard, hops)) = sum.heard.filter(|(heard, _)| Some(*heard) > self.heard) {
            (self.heard, self.last_hops) = (Some(heard), hops);
        }
        if let Some(base) = sum.base {
            self.base.update(now, base);
        }
        let base = self.base.value().unwrap_or(Nanos::ZERO);
        let over_base = |whole: Excess| Excess { over_base: whole.over_base.saturating_sub(base), ..whole };
        self.excess = sum.round_trip().map(over_base);
        self.backlogs.rotate_left(1);
        let is_heard = self.heard.is_some_and(|heard| now.saturating_sub(heard) < Self::SILENT);
        self.standing = sum.backlog().filter(|_| is_heard).map(|backlog| {
            self.backlogs[Self::BACKLOGS - 1] = backlog;
            self.backlogs.iter().fold(backlog, |min, &backlog| min.min(backlog)).saturating_sub(base)
        });
    }
}

/// What a download shows of it. While a queue grows, it is sent faster than it is acknowledged; while it shrinks, more slowly.
fn standing(now: Nanos, flow: &Flow) -> Option<(u32, u64, Nanos)> {
    let FlowBody::Tcp(tcp) = &flow.body else { return None };
    let is_download = tcp.data_direction() == Direction::ToMesh;
    let rate = tcp.down.rate(now).0.max(tcp.left.rate(now).0);
    tcp.standing(now).filter(|_| is_download).map(|(bytes, age)| (bytes, rate, age))
}

/// The base of round trips, and how far they are over it now.
fn round_trip(now: Nanos, rtt: &MeshRoundTrip) -> Option<(Nanos, Excess)> {
    let base = rtt.base()?;
    Some((base, rtt.excess(now, base)?))
}
