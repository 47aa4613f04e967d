//! Ingress throttling (osipov2007 §4): every node spaces the packets of its own flows by their max-min share of C-load, and
//! serves them before what it forwards.
//!
//! Shares follow from the routes and from the reach of broadcasts ([`fairhop_model::share`]). A flow's Thr_max
//! is measured, or the airtime bound of its path. Flows count from their start to their stop in the scenario, and shares
//! are computed again whenever one starts or stops. Calls are served first and are not spaced.
//!
//! A node hands its station one packet at a time, so that the choice between its own and forwarded packets is made when
//! the station is free. A flow from a wired host belongs to the node where it enters the mesh.
//!
//! With static routes all nodes know the shares at once. Under AODV with the path density protocol
//! ([`fairhop_routing::pdp`]) a source spaces its packets by the share that it has learnt and by the hops of its route.
//! Packets wait here with a next hop, so that is looked up again when they leave.
//!
//! Left out: the end of a transfer of finite size, which counts until its stop in the scenario, and, under the path density
//! protocol, that a call takes less than an equal share.

use fairhop_control::throttle::{IngressThrottle, spacing};
use fairhop_model::airtime;
use fairhop_model::headers;
use fairhop_model::phy::Rate;
use fairhop_model::share::{Chain, Demand, ingress_rate, max_min, regions};
use fairhop_model::units::{BitRate, Nanos};

use super::applications::Applications;
use super::applications::aimd::DATA_HEADERS;
use super::applications::flow::{Flow, FlowKind, data_stream};
use super::applications::tcp::Transfer;
use super::core::Core;
use super::mesh::Mesh;
use super::network::Network;
use crate::engine::{Event, EventKind, Timer};
use crate::mac::BROADCAST;
use crate::packet::{Body, NodeId, is_back};
use crate::queue::{Refused, Waiting};
use crate::recorder::Loss;
use crate::scenario::{Capture, Scenario, Traffic};

/// How a flow loads the path, by the sizes of its packets in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// A call: packets a second in both directions together, and UDP payload.
    Call { per_second: f64, payload: u32 },
    /// TCP: segment, options, segments per ACK.
    Tcp { mss: u32, options: u32, segments_per_ack: f64 },
    /// Datagrams in one direction: UDP payload.
    Datagrams { payload: u32 },
}

/// A flow and the airtime that it takes.
#[derive(Clone, Debug)]
struct Association {
    start: Nanos,
    stop: Nanos,
    /// The nodes with radio that carry it; none where no hop is by radio.
    nodes: Vec<usize>,
    /// The lane of its data stream at the node where it enters the mesh.
    lane: Option<Lane>,
    /// Links in a row that cannot be in use at once.
    shared_links: u32,
    load: Load,
}

/// The place of a stream among those that enter the mesh at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    node: NodeId,
    lane: u32,
    /// Where its packets leave the mesh.
    exit: NodeId,
}

/// A node's two queues, and the timer of its own packets.
#[derive(Debug)]
struct NodeThrottle {
    queues: IngressThrottle<Waiting>,
    timer: Timer,
}

/// All nodes' throttles.
#[derive(Debug)]
pub struct Throttle {
    flows: Vec<Association>,
    /// By stream.
    lanes: Vec<Option<Lane>>,
    /// How many streams enter the mesh at each node.
    own: Vec<usize>,
    queue_packets: usize,
    basic: Vec<Rate>,
    /// Shares are those that nodes have learnt.
    learns: bool,
    /// Starts and stops of flows, in order.
    changes: Vec<Nanos>,
    changed: usize,
    /// In force.
    on: Option<InForce>,
    /// Rate of each flow now; none where it is not throttled.
    rates: Vec<Option<BitRate>>,
}

#[derive(Debug)]
struct InForce {
    nodes: Vec<NodeThrottle>,
    thr_max: Vec<BitRate>,
    calibration: f64,
}

impl InForce {
    /// Size of a flow's packets in bytes, and Thr_max of its path; none for calls.
    fn thr_max(&self, load: Load, chain: &Chain<'_>) -> Option<(u32, BitRate)> {
        let measured = self.thr_max.get(chain.rates.len().checked_sub(1)?).copied();
        match load {
            Load::Call { .. } => None,
            Load::Tcp { mss, options, segments_per_ack } => {
                let bound = || chain.thr_max(mss, options, segments_per_ack, self.calibration);
                Some((mss, measured.unwrap_or_else(bound)))
            }
            Load::Datagrams { payload } => {
                let bound = chain.thr_max(payload, 0, 2.0, self.calibration);
                let tcp = measured.unwrap_or(bound);
                let correction = chain.udp_correction(payload, 0, 2.0);
                Some((payload, BitRate((tcp.0 as f64 * correction) as u64)))
            }
        }
    }

    fn space(&mut self, lane: Option<Lane>, packet: u32, rate: BitRate) {
        if let Some(Lane { node, lane, .. }) = lane {
            self.nodes[node as usize].queues.set_spacing(lane as usize, spacing(packet, rate));
        }
    }
}

/// The parts of a World that throttles are made from.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) applications: &'a Applications,
    pub(super) network: &'a Network,
    pub(super) mesh: &'a Mesh,
}

impl Throttle {
    /// Throttles that are not in force.
    pub(super) fn new(around: Surroundings<'_>) -> Self {
        let nodes = around.mesh.len();
        // Real flows come after those of the scenario, and are not throttled.
        let flows = &around.applications.flows;
        let simulated = flows.partition_point(|flow| !matches!(flow.kind, FlowKind::Real(_)));
        let flows_of_scenario = &flows[..simulated];
        let mut own = vec![0; nodes];
        let mut lanes = vec![None; 2 * flows_of_scenario.len()];
        let mut flows = Vec::with_capacity(flows_of_scenario.len());
        for (index, flow) in flows_of_scenario.iter().enumerate() {
            for (back, (from, to)) in [(flow.from, flow.to), (flow.to, flow.from)].into_iter().enumerate() {
                if to == BROADCAST || from == BROADCAST {
                    continue;
                }
                if let Some((node, exit)) = mesh_ends(around, from, to) {
                    let lane = Lane { node, lane: own[node as usize] as u32, exit };
                    lanes[2 * index + back] = Some(lane);
                    own[node as usize] += 1;
                }
            }
            let data = data_stream(flow.kind, index);
            let (from, to) = if is_back(data) { (flow.to, flow.from) } else { (flow.from, flow.to) };
            let nodes = if to == BROADCAST { Vec::new() } else { radio_nodes(around, from, to) };
            flows.push(Association {
                start: flow.start,
                stop: flow.stop,
                shared_links: shared_links(around, &nodes),
                nodes,
                lane: lanes[data as usize],
                load: load_of(around, flow, &around.scenario.traffic[flow.entry]),
            });
        }
        let mut changes: Vec<Nanos> = flows.iter().flat_map(|flow| [flow.start, flow.stop]).collect();
        changes.sort_unstable();
        changes.dedup();
        let (packets, bytes) = around.scenario.mac.queue.limits();
        let queue_packets = packets.or(bytes.map(|bytes| bytes / 1500)).unwrap_or(50).max(1) as usize;
        Self {
            rates: vec![None; flows.len()],
            flows,
            lanes,
            own,
            queue_packets,
            basic: around.mesh.mac.basic_rates().to_vec(),
            learns: around.network.overlay.is_some(),
            changes,
            changed: 0,
            on: None,
        }
    }

    /// When a flow starts or stops next, while throttles are in force.
    pub(super) fn next_change(&self) -> Nanos {
        match &self.on {
            Some(_) => self.changes.get(self.changed).copied().unwrap_or(Nanos::MAX),
            None => Nanos::MAX,
        }
    }
}

/// Where the packets between two places enter the mesh and leave it.
fn mesh_ends(around: Surroundings<'_>, from: NodeId, to: NodeId) -> Option<(NodeId, NodeId)> {
    if let Some(overlay) = &around.network.overlay {
        return overlay.ends(from, to);
    }
    let nodes = radio_nodes(around, from, to);
    Some((*nodes.first()? as NodeId, *nodes.last()? as NodeId))
}

/// The nodes of a path's radio hops, in order.
fn radio_nodes(around: Surroundings<'_>, from: NodeId, to: NodeId) -> Vec<usize> {
    let mut nodes = Vec::new();
    let mut at = from;
    for (next, by_wire) in around.network.path(from, to) {
        if !by_wire {
            if nodes.last() != Some(&(at as usize)) {
                nodes.push(at as usize);
            }
            nodes.push(next as usize);
        }
        at = next;
    }
    nodes
}

/// How many links of a path in a row cannot be in use at once: where one sender senses the other, or disturbs the other's
/// receiver more than it can bear. On a line of equal hops it is [`fairhop_model::airtime::shared_links`].
fn shared_links(around: Surroundings<'_>, nodes: &[usize]) -> u32 {
    let (links, radio) = (around.mesh.current_links(), &around.mesh.radio);
    let disturbs = |from: usize, (sender, receiver): (usize, usize)| {
        let Some(noise) = links.between(from, receiver) else { return from == receiver };
        let Some(signal) = links.between(sender, receiver) else { return true };
        radio.capture == Capture::None || signal.power.ratio(noise.power) < radio.capture_ratio
    };
    let conflict = |a: (usize, usize), b: (usize, usize)| {
        a.0 == b.1 || a.1 == b.0 || links.between(a.0, b.0).is_some() || disturbs(a.0, b) || disturbs(b.0, a)
    };
    let hops: Vec<(usize, usize)> = nodes.windows(2).map(|hop| (hop[0], hop[1])).collect();
    let run = |first: usize| {
        let mut end = first + 1;
        while end < hops.len() && (first..end).all(|earlier| conflict(hops[earlier], hops[end])) {
            end += 1;
        }
        (end - first) as u32
    };
    (0..hops.len()).map(run).max().unwrap_or(1)
}

fn load_of(around: Surroundings<'_>, flow: &Flow, entry: &Traffic) -> Load {
    const TIMESTAMPS: u32 = 12;
    let machines = &around.applications.tcp;
    let tcp = |transfer: &Transfer| Load::Tcp {
        mss: transfer.sender_config.mss,
        options: if transfer.sender_config.timestamps { TIMESTAMPS } else { 0 },
        segments_per_ack: f64::from(transfer.receiver_config.delayed_ack_segments),
    };
    match flow.kind {
        FlowKind::Call(codec) => {
            let profile = codec.profile();
            Load::Call {
                per_second: 2.0 / profile.interval.as_secs_f64(),
                payload: profile.payload_bytes + headers::RTP,
            }
        }
        FlowKind::Bulk(transfer) => tcp(&machines.transfers[transfer]),
        FlowKind::Web(session) | FlowKind::Request(session) => {
            tcp(&machines.transfers[machines.sessions[session].transfer])
        }
        // Acknowledged as TCP is, about every second packet; what matters is the size of the packets.
        FlowKind::Quic(_) => Load::Tcp {
            mss: entry.largest_packet_bytes().saturating_sub(headers::IP_TCP),
            options: 0,
            segments_per_ack: 2.0,
        },
        FlowKind::Aimd(_) => {
            Load::Datagrams { payload: entry.largest_packet_bytes().saturating_sub(DATA_HEADERS) }
        }
        FlowKind::Cbr | FlowKind::Burst | FlowKind::Ping | FlowKind::Video(_) | FlowKind::Real(_) => {
            Load::Datagrams { payload: entry.largest_packet_bytes().saturating_sub(headers::IP_UDP) }
        }
    }
}

impl Throttle {
    /// Whether throttles are in force: stations then get their packets from them.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Puts throttles in force; shares follow with [`Throttle::update_shares`].
    pub(super) fn begin(&mut self, thr_max: &[BitRate], calibration: f64) {
        let nodes = self
            .own
            .iter()
            .map(|&own| NodeThrottle {
                queues: IngressThrottle::new(own, self.queue_packets),
                timer: Timer::default(),
            })
            .collect();
        self.on = Some(InForce { nodes, thr_max: thr_max.to_vec(), calibration });
        self.changed = 0;
    }

    /// Ends throttling; waiting packets go to the stations.
    pub(super) fn stop(&mut self, core: &mut Core, mesh: &mut Mesh) {
        let Some(in_force) = self.on.take() else { return };
        self.rates.fill(None);
        for (node, mut throttle) in in_force.nodes.into_iter().enumerate() {
            while let Some(waiting) = throttle.queues.poll(Nanos::MAX) {
                enqueue(core, mesh, node as NodeId, waiting);
            }
        }
    }

    /// Takes over the paths of `new`, which was made after routes have changed, and keeps what is in force.
    pub(super) fn replace(&mut self, new: Self, core: &mut Core, mesh: &mut Mesh) {
        let in_force = self.on.as_ref().map(|on| (on.thr_max.clone(), on.calibration));
        self.stop(core, mesh);
        *self = new;
        if let Some((thr_max, calibration)) = in_force {
            self.begin(&thr_max, calibration);
            self.update_shares(core, mesh);
        }
    }

    /// Computes the shares again where a flow has started or stopped.
    pub(super) fn update_shares(&mut self, core: &mut Core, mesh: &mut Mesh) {
        let now = core.now();
        if self.changes.get(self.changed).is_some_and(|change| *change <= now) {
            self.compute_shares(core, mesh);
        }
    }

    /// Computes the shares again: a flow has started or stopped, or nodes have moved.
    pub(super) fn compute_shares(&mut self, core: &mut Core, mesh: &mut Mesh) {
        let now = core.now();
        let Self { flows, changes, changed, on: Some(in_force), rates, basic, .. } = self else { return };
        *changed = changes.partition_point(|change| *change <= now);
        if self.learns {
            return (0..mesh.len() as NodeId).for_each(|node| self.learn(core, mesh, node));
        }
        let (links, radio, mac) = (mesh.known_links(), &mesh.radio, &mesh.mac);
        let hears = |from: usize, to: usize| {
            links.between(to, from).is_some_and(|link| radio.decodes(mac.broadcast_rate, link.power))
        };
        // Flows that send now.
        let active: Vec<usize> = (0..flows.len())
            .filter(|&flow| flows[flow].start <= now && now < flows[flow].stop && flows[flow].nodes.len() > 1)
            .collect();
        let paths: Vec<Vec<usize>> = active.iter().map(|&flow| flows[flow].nodes.clone()).collect();
        let regions = regions(in_force.nodes.len(), hears, &paths);
        let rates_of = |path: &Vec<usize>| -> Vec<Rate> {
            path.windows(2).map(|hop| mac.rate_of_hop(hop[0] as u32, hop[1] as u32)).collect()
        };
        let hops: Vec<Vec<Rate>> = paths.iter().map(rates_of).collect();
        let chain = |place: usize| Chain {
            phy: mac.phy,
            rates: &hops[place],
            basic,
            rts_threshold: (mac.rts_threshold < u32::MAX).then_some(mac.rts_threshold),
            shared_links: flows[active[place]].shared_links,
        };
        let demands: Vec<Demand> = (0..active.len())
            .map(|place| match flows[active[place]].load {
                Load::Call { per_second, payload } => Demand::Call {
                    load: chain(place).datagram_load(payload, per_second, in_force.calibration),
                },
                Load::Tcp { .. } | Load::Datagrams { .. } => Demand::EQUAL,
            })
            .collect();
        rates.fill(None);
        // Every path has a node, and every node a region: there is an allocation.
        let Ok(allocation) = max_min(&regions, &demands) else { return };
        for (place, &flow) in active.iter().enumerate() {
            let chain = chain(place);
            let Some((packet, thr_max)) = in_force.thr_max(flows[flow].load, &chain) else { continue };
            let rate = ingress_rate(allocation.shares[place], thr_max);
            rates[flow] = Some(rate);
            in_force.space(flows[flow].lane, packet, rate);
        }
        for node in 0..mesh.len() as NodeId {
            self.feed(core, mesh, node);
        }
    }

    /// Spaces the flows of a node by the shares and the routes that it knows now. While a flow has no route, it keeps its rate.
    pub(super) fn learn(&mut self, core: &mut Core, mesh: &mut Mesh, node: NodeId) {
        let Self { flows, learns: true, on: Some(in_force), rates, basic, .. } = self else { return };
        let Some(routing) = core.routing.as_deref() else { return };
        let (now, mac) = (core.now(), &mesh.mac);
        // On a line of hops near the radio's reach, two hops are sensed.
        let shared_links = airtime::shared_links(2, mesh.radio.capture != Capture::None);
        let mut changed = false;
        for (flow, rate) in flows.iter().zip(rates) {
            let Some(lane) = flow.lane.filter(|lane| lane.node == node) else { continue };
            let sends = flow.start <= now && now < flow.stop;
            let Some(share) = routing.share(node, lane.exit).filter(|_| sends) else {
                changed |= rate.take().is_some();
                in_force.nodes[node as usize].queues.set_spacing(lane.lane as usize, Nanos::ZERO);
                continue;
            };
            let Some((next_hop, hops)) = routing.hop_towards(now, node, lane.exit) else { continue };
            let rates = vec![mac.rate_of_hop(node, next_hop); usize::from(hops.max(1))];
            let rts_threshold = (mac.rts_threshold < u32::MAX).then_some(mac.rts_threshold);
            let chain = Chain { phy: mac.phy, rates: &rates, basic, rts_threshold, shared_links };
            let Some((packet, thr_max)) = in_force.thr_max(flow.load, &chain) else { continue };
            let new = ingress_rate(share, thr_max);
            if rate.replace(new) != Some(new) {
                changed = true;
                in_force.space(Some(lane), packet, new);
            }
        }
        if changed {
            self.feed(core, mesh, node);
        }
    }

    /// Takes a packet that a node sends on by radio.
    pub(super) fn offer(&mut self, core: &mut Core, mesh: &mut Mesh, node: NodeId, waiting: Waiting) {
        let packet = core.packets.get(waiting.packet);
        if matches!(packet.body, Body::Routing) {
            return enqueue(core, mesh, node, waiting);
        }
        let stream = packet.stream;
        if self.learns && self.rates.get(stream as usize / 2).is_some_and(Option::is_none) {
            self.learn(core, mesh, node); // the first packet of a flow
        }
        // Real flows, which begin during the run, have no lane.
        let lane = self.lanes.get(stream as usize).copied().flatten().filter(|lane| lane.node == node);
        let Some(in_force) = &mut self.on else { return enqueue(core, mesh, node, waiting) };
        let queues = &mut in_force.nodes[node as usize].queues;
        match lane {
            Some(Lane { lane, .. }) => {
                if queues.offer_own(lane as usize, waiting).is_some() {
                    core.drop_image(waiting.packet, Loss::Control);
                }
            }
            None => {
                if queues.offer_forwarded(waiting).is_some() {
                    let reason = mesh.refuse(core, node, Refused::Full);
                    core.drop_image(waiting.packet, reason);
                }
            }
        }
        self.feed(core, mesh, node);
    }

    /// Gives the station of a throttled node its next packet, if it is free and a packet is due.
    pub(super) fn feed(&mut self, core: &mut Core, mesh: &mut Mesh, node: NodeId) {
        let Self { on: Some(in_force), lanes, learns, .. } = self else { return };
        let NodeThrottle { queues, timer } = &mut in_force.nodes[node as usize];
        let now = core.now();
        while mesh.backlog(node as usize) == 0 {
            let Some(waiting) = queues.poll(now) else {
                match queues.next_time() {
                    Some(at) if at < Nanos::MAX => {
                        timer.set(at.max(now), &mut core.events, EventKind::Throttle, node);
                    }
                    _ => timer.cancel(),
                }
                return;
            };
            match if *learns { redirected(core, lanes, node, waiting) } else { Some(waiting) } {
                Some(waiting) => enqueue(core, mesh, node, waiting),
                None => core.drop_image(waiting.packet, Loss::RouteBroken),
            }
        }
    }

    /// An own packet of a node is due.
    pub(super) fn on_timer(&mut self, core: &mut Core, mesh: &mut Mesh, event: Event) {
        let Some(in_force) = &mut self.on else { return };
        if in_force.nodes[event.subject as usize].timer.fires(event, &mut core.events) {
            self.feed(core, mesh, event.subject);
        }
    }

    /// The rate of a flow now, in b/s of payload; none where it is not throttled.
    pub(super) fn rate(&self, flow: usize) -> Option<BitRate> {
        *self.rates.get(flow)?
    }
}

/// A packet with the next hop of the route that there is now; none where there is none any more.
fn redirected(core: &mut Core, lanes: &[Option<Lane>], node: NodeId, waiting: Waiting) -> Option<Waiting> {
    let now = core.now();
    let stream = core.packets.get(waiting.packet).stream;
    let (Some(lane), Some(routing)) = (lanes.get(stream as usize).copied().flatten(), &mut core.routing)
    else {
        return Some(waiting);
    };
    let (next_hop, _) = routing.hop_towards(now, node, lane.exit)?;
    routing.set_next_hop(waiting.packet, next_hop);
    Some(Waiting { next_hop, ..waiting })
}

fn enqueue(core: &mut Core, mesh: &mut Mesh, node: NodeId, waiting: Waiting) {
    if let Err(reason) = mesh.enqueue(core, node, waiting) {
        core.drop_image(waiting.packet, reason);
    }
}
