//! One pass over the flows at each tick: which of them are calls, and what the flows of a mesh node have in common.

use fairhop_model::units::Nanos;

use super::meter::{Excess, RoundTrip, WindowedMin};
use super::{Flow, FlowBody, FlowKind};
use crate::digest::Direction;
use crate::flow::{Address, FlowKey, FlowTable};

/// How long a flow counts as held after its last packet that was: the span of the meters of rates.
const HELD_FOR: Nanos = Nanos::from_millis(500);

/// What the flows that end at a mesh node show of the path to it.
#[derive(Clone, Copy, Debug)]
pub struct MeshNode {
    /// The node.
    pub address: Address,
    /// Hops to it; 0 if not known.
    pub hops: u8,
    /// How far the round trips of all its flows are over the shortest one; none without recent ones. A queue is common to
    /// all flows; the excess of one flow may be its own.
    pub excess: Option<Excess>,
    /// When the last packet of any of its flows passed out of the mesh; none before the first one.
    pub heard: Option<Nanos>,
    /// The hops of that packet; 0 before the first one. [`MeshNode::hops`] is the maximum over the flows.
    pub last_hops: u8,
    /// Shortest round trip of the last one to two minutes, of any flow.
    base: WindowedMin<Nanos>,
    seen: Nanos,
}

impl MeshNode {
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
    /// Its present rate in bits per second, of TCP in the direction of its data.
    pub rate: f64,
    /// Size of its data packets in bits.
    pub packet_bits: f64,
    /// When its first and its last packet passed.
    pub began: Nanos,
    /// See [`ElasticFlow::began`].
    pub last: Nanos,
    /// Hops in the mesh; 0 if not known.
    pub hops: u8,
    /// Shortest round trip through the mesh.
    pub base: Option<Nanos>,
    /// The pace holds its packets: [`Observer::on_held`](super::Observer::on_held).
    pub is_held: bool,
}

/// What one flow adds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    address: Address,
    hops: u8,
    heard: Option<Nanos>,
    round_trip: Option<(Nanos, Excess)>,
}

/// The result of the last pass. Its memory grows to the number of calls and nodes, and stays.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) calls: Vec<FlowKey>,
    pub(super) elastic: Vec<ElasticFlow>,
    /// In the order of addresses.
    pub(super) nodes: Vec<MeshNode>,
    before: Vec<MeshNode>,
    samples: Vec<Sample>,
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
        self.samples.clear();
        for (last, key, flow) in flows.active_since(horizon) {
            let kind = flow.kind(now);
            let (is_upload, rate, packet_bytes, rtt) = match &flow.body {
                FlowBody::Tcp(tcp) => {
                    let is_upload = tcp.data_direction() == Direction::FromMesh;
                    let meter = if is_upload { &tcp.up } else { &tcp.down };
                    (is_upload, meter.rate(now).0, tcp.packet_bytes(), &tcp.mesh_rtt)
                }
                FlowBody::Udp(udp) => {
                    if udp.is_call(calls_horizon) {
                        self.calls.push(*key);
                    }
                    let rate = udp.down_meter.rate(now).0 + udp.up_meter.rate(now).0;
                    (false, rate, udp.packet_bytes(), &udp.mesh_rtt)
                }
            };
            let is_elastic = match kind {
                FlowKind::Tcp => !flow.is_closed(),
                FlowKind::BulkUdp | FlowKind::Interactive => true,
                FlowKind::Call | FlowKind::Other => false,
            };
            if is_elastic {
                self.elastic.push(ElasticFlow {
                    key: *key,
                    kind,
                    is_upload,
                    rate: rate as f64,
                    packet_bits: 8.0 * f64::from(packet_bytes),
                    began: flow.began,
                    last,
                    hops: flow.hops,
                    base: rtt.base(),
                    is_held: flow.held.is_some_and(|held| now.saturating_sub(held) < HELD_FOR),
                });
            }
            let round_trip = round_trip(now, rtt);
            if flow.hops > 0 || round_trip.is_some() {
                self.samples.push(Sample {
                    address: key.mesh,
                    hops: flow.hops,
                    heard: flow.heard,
                    round_trip,
                });
            }
        }
        // The order of flows by their last packets is not that of anything else.
        self.calls.sort_unstable();
        self.samples.sort_unstable_by_key(|sample| sample.address);
        std::mem::swap(&mut self.nodes, &mut self.before);
        self.nodes.clear();
        let mut known = self.before.iter().peekable();
        for samples in self.samples.chunk_by(|a, b| a.address == b.address) {
            let address = samples[0].address;
            while let Some(node) = known.next_if(|node| node.address < address) {
                self.nodes.extend(node.silent(now));
            }
            let mut node = known.next_if(|node| node.address == address).copied().unwrap_or(MeshNode {
                address,
                hops: 0,
                excess: None,
                heard: None,
                last_hops: 0,
                base: WindowedMin::new(RoundTrip::GENERATION),
                seen: now,
            });
            node.merge(now, samples);
            self.nodes.push(node);
        }
        self.nodes.extend(known.filter_map(|node| node.silent(now)));
    }

    pub(super) fn node(&self, address: Address) -> Option<&MeshNode> {
        self.nodes.binary_search_by_key(&address, |node| node.address).ok().map(|place| &self.nodes[place])
    }
}

impl MeshNode {
    /// A node without flows is forgotten after that time, as flows are.
    const FORGOTTEN: Nanos = Nanos::from_secs(60);

    /// The node without recent flows; none if it is forgotten.
    fn silent(&self, now: Nanos) -> Option<Self> {
        (now.saturating_sub(self.seen) < Self::FORGOTTEN).then_some(Self { excess: None, ..*self })
    }

    fn merge(&mut self, now: Nanos, samples: &[Sample]) {
        self.seen = now;
        let hops = samples.iter().map(|sample| sample.hops).max().filter(|&hops| hops > 0);
        self.hops = hops.unwrap_or(self.hops);
        if let Some(last) =
            samples.iter().filter(|sample| sample.heard > self.heard).max_by_key(|sample| sample.heard)
        {
            (self.heard, self.last_hops) = (last.heard, last.hops);
        }
        let round_trips = || samples.iter().filter_map(|sample| sample.round_trip);
        if let Some(base) = round_trips().map(|(base, _)| base).min() {
            self.base.update(now, base);
        }
        let base = self.base.value().unwrap_or(Nanos::ZERO);
        // The excess of a flow over its own base, moved to the base of all.
        let over = |(own, excess): (Nanos, Excess)| Excess {
            over_base: (own + excess.over_base).saturating_sub(base),
            ..excess
        };
        self.excess = round_trips().map(over).reduce(Excess::common);
    }
}

/// The base of round trips, and how far they are over it now.
fn round_trip(now: Nanos, rtt: &RoundTrip) -> Option<(Nanos, Excess)> {
    let base = rtt.base()?;
    Some((base, rtt.excess(now, base)?))
}
