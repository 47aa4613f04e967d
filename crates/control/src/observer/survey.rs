//! One pass over the flows at each tick: which of them are calls, and what the flows of a mesh node have in common.

use fairhop_model::units::Nanos;

use super::meter::{Excess, MeshRoundTrip, WindowedMin};
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
    /// Its present rate in bits per second, of TCP in the direction of its data.
    pub rate: f64,
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
    /// Payload bytes in the mesh and its queues, and their rate in bits per second: see [`standing()`].
    standing: Option<(u32, u64)>,
}

/// The result of the last pass. Its memory grows to the number of calls and nodes, and stays.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) calls: Vec<FlowKey>,
    pub(super) elastic: Vec<ElasticFlow>,
    /// In the order of addresses.
    pub(super) nodes: Vec<MeshNode>,
    before: Vec<MeshNode>,
    /// How far the round trips of all uploads beyond the gateway are over their bases.
    pub(super) uplink: Option<Excess>,
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
        self.uplink = None;
        for (last, key, flow) in flows.active_since(horizon) {
            let kind = flow.kind(now);
            let (is_upload, rate, carried, packet_bytes, rtt) = match &flow.body {
                FlowBody::Tcp(tcp) => {
                    let is_upload = tcp.data_direction() == Direction::FromMesh;
                    let rate = if is_upload { &tcp.up } else { &tcp.down }.rate(now).0 as f64;
                    let carried = if is_upload { rate } else { tcp.left_rate(now) };
                    (is_upload, rate, carried, tcp.packet_bytes(), &tcp.mesh_rtt)
                }
                FlowBody::Udp(udp) => {
                    if udp.is_call(calls_horizon) {
                        self.calls.push(*key);
                    }
                    let rate = (udp.down_meter.rate(now).0 + udp.up_meter.rate(now).0) as f64;
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
                self.elastic.push(ElasticFlow {
                    key: *key,
                    kind,
                    is_upload,
                    rate,
                    carried,
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
                    standing: standing(now, flow),
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
                standing: None,
                backlogs: [Nanos::ZERO; _],
                heard: None,
                last_hops: 0,
                base: WindowedMin::new(),
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
    /// What is in flight to a node that is silent for longer may be lost: ten packets of a call.
    const SILENT: Nanos = Nanos::from_millis(300);
    /// Surveys of which the one with the least data in flight counts: a burst is on its way for less than 300 ms.
    const BACKLOGS: usize = 4;

    /// The node without recent flows; none if it is forgotten.
    fn silent(&self, now: Nanos) -> Option<Self> {
        (now.saturating_sub(self.seen) < Self::FORGOTTEN).then_some(Self {
            excess: None,
            standing: None,
            backlogs: [Nanos::ZERO; _],
            ..*self
        })
    }

    fn merge(&mut self, now: Nanos, samples: &[Sample]) {
        self.seen = now;
        let hops = samples.iter().map(|sample| sample.hops).max().filter(|&hops| hops > 0);
        self.hops = hops.unwrap_or(self.hops);
        if let Some(last) = samples
            .iter()
            .filter(|sample| sample.hops > 0 && sample.heard > self.heard)
            .max_by_key(|sample| sample.heard)
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
        self.backlogs.rotate_left(1);
        let is_heard = self.heard.is_some_and(|heard| now.saturating_sub(heard) < Self::SILENT);
        self.standing = backlog(samples).filter(|_| is_heard).map(|backlog| {
            self.backlogs[Self::BACKLOGS - 1] = backlog;
            self.backlogs.iter().fold(backlog, |min, &backlog| min.min(backlog)).saturating_sub(base)
        });
    }
}

/// The data that stands in the mesh, as time at its rate; none where that is not known.
fn backlog(samples: &[Sample]) -> Option<Nanos> {
    /// One packet more or less is chance: at a few packets a second it is longer than any queue that matters.
    const CHANCE: u64 = 1460;
    let known = samples.iter().filter_map(|sample| sample.standing);
    let (bytes, rate) =
        known.fold((0, 0), |(bytes, rate), (of_flow, its)| (bytes + u64::from(of_flow), rate + its));
    (rate > 0).then(|| Nanos::from_secs_f64(8.0 * bytes.saturating_sub(CHANCE) as f64 / rate as f64))
}

/// What a download shows of it. While a queue grows, it is sent faster than it is acknowledged; while it shrinks, more slowly.
fn standing(now: Nanos, flow: &Flow) -> Option<(u32, u64)> {
    let FlowBody::Tcp(tcp) = &flow.body else { return None };
    let is_download = tcp.data_direction() == Direction::ToMesh;
    let rate = tcp.down.rate(now).0.max(tcp.left.rate(now).0);
    tcp.standing(now).filter(|_| is_download).map(|bytes| (bytes, rate))
}

/// The base of round trips, and how far they are over it now.
fn round_trip(now: Nanos, rtt: &MeshRoundTrip) -> Option<(Nanos, Excess)> {
    let base = rtt.base()?;
    Some((base, rtt.excess(now, base)?))
}
