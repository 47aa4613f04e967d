//! Ingress throttling (osipov2007 §4): every node spaces the packets of its own flows by their max-min share of C-load, and
//! serves them before what it forwards.
//!
//! Who shares what follows from the routes and from who hears whom at the slowest basic rate, as
//! [`fairhop_model::share`] has it; a flow's Thr_max is measured, or the airtime bound of its path. Flows count from their
//! start to their stop in the scenario, and shares are reckoned anew whenever one begins or ends. Calls are served first
//! and are not spaced.
//!
//! A node hands its station one packet at a time, so that the choice between its own and forwarded ones is made when the
//! station is free. A flow from a wired host is the own flow of the node where it enters the mesh.
//!
//! Left out: how nodes learn the shares of others (the path density protocol: here all know at once), and the end of a
//! transfer of finite size, which counts as long as it might have sent.

use fairhop_control::throttle::{IngressThrottle, spacing};
use fairhop_model::headers;
use fairhop_model::phy::Rate;
use fairhop_model::share::{Chain, Demand, ingress_rate, max_min, regions};
use fairhop_model::units::{BitRate, Nanos};

use super::control::{data_stream, path};
use super::traffic::{Flow, FlowKind, IP_HEADER, RTP_HEADER, Transfer, UDP_HEADER};
use super::{World, aimd};
use crate::engine::{Event, EventKind, Timer};
use crate::mac::BROADCAST;
use crate::packet::NodeId;
use crate::queue::{Refused, Waiting};
use crate::radio::{Links, RadioParams};
use crate::recorder::Loss;
use crate::routing::Routes;
use crate::scenario::{Capture, Scenario, Traffic};
use crate::wired::Link;

/// What a flow carries in a packet, and what a packet is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// A call: packets a second, both directions together, and bytes of UDP payload.
    Call { per_second: f64, payload: u32 },
    /// TCP: segment, options, segments for an ACK.
    Tcp { mss: u32, options: u32, segments_per_ack: f64 },
    /// Datagrams one way: payload.
    Datagrams { payload: u32 },
}

/// A flow as it takes airtime.
#[derive(Clone, Debug)]
struct Association {
    start: Nanos,
    stop: Nanos,
    /// The nodes with radio that carry it; none where no hop is by radio.
    nodes: Vec<usize>,
    /// Of its data stream, at the node where it enters the mesh.
    lane: Option<Lane>,
    /// Links in a row that cannot be in use at once.
    shared_links: u32,
    load: Load,
}

/// Where a stream is a node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    node: NodeId,
    lane: u32,
}

/// A node's two queues and the timer of its own.
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
    /// Streams that are a node's own.
    own: Vec<usize>,
    queue_packets: usize,
    basic: Vec<Rate>,
    /// Beginnings and ends of flows.
    changes: Vec<Nanos>,
    changed: usize,
    /// In force.
    on: Option<InForce>,
    /// What flows may send now, by flow; none where they are not throttled.
    rates: Vec<Option<BitRate>>,
}

#[derive(Debug)]
struct InForce {
    nodes: Vec<NodeThrottle>,
    thr_max: Vec<BitRate>,
    calibration: f64,
}

/// What the throttles of a World are made from.
pub(super) struct Surroundings<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) flows: &'a [Flow],
    pub(super) transfers: &'a [Transfer],
    /// The transfer of data of each session.
    pub(super) sessions: &'a [usize],
    pub(super) routes: &'a Routes,
    pub(super) wired: &'a [Link],
    pub(super) links: &'a Links,
    pub(super) radio: &'a RadioParams,
    pub(super) basic: &'a [Rate],
}

impl Throttle {
    /// Throttles that are not in force.
    pub(super) fn new(around: &Surroundings<'_>) -> Self {
        let nodes = around.links.positions().len();
        let mut own = vec![0; nodes];
        let mut lanes = vec![None; 2 * around.flows.len()];
        let mut flows = Vec::with_capacity(around.flows.len());
        for (index, flow) in around.flows.iter().enumerate() {
            for (back, (from, to)) in [(flow.from, flow.to), (flow.to, flow.from)].into_iter().enumerate() {
                if to == BROADCAST || from == BROADCAST {
                    continue;
                }
                if let Some(node) = radio_nodes(around, from, to).first().copied() {
                    let lane = Lane { node: node as NodeId, lane: own[node] as u32 };
                    lanes[2 * index + back] = Some(lane);
                    own[node] += 1;
                }
            }
            let data = data_stream(flow.kind, index);
            let (from, to) = if data.is_multiple_of(2) { (flow.from, flow.to) } else { (flow.to, flow.from) };
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
            basic: around.basic.to_vec(),
            changes,
            changed: 0,
            on: None,
        }
    }

    /// When a flow begins or ends next, if that matters now.
    pub(super) fn next_change(&self) -> Nanos {
        match &self.on {
            Some(_) => self.changes.get(self.changed).copied().unwrap_or(Nanos::MAX),
            None => Nanos::MAX,
        }
    }
}

/// The nodes of a path's radio hops, in order.
fn radio_nodes(around: &Surroundings<'_>, from: NodeId, to: NodeId) -> Vec<usize> {
    let mut nodes = Vec::new();
    let mut at = from;
    for (next, by_wire) in path(around.routes, around.wired, from, to) {
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
fn shared_links(around: &Surroundings<'_>, nodes: &[usize]) -> u32 {
    let Surroundings { links, radio, .. } = around;
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

fn load_of(around: &Surroundings<'_>, flow: &Flow, entry: &Traffic) -> Load {
    const TIMESTAMPS: u32 = 12;
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
                payload: profile.payload_bytes + RTP_HEADER,
            }
        }
        FlowKind::Bulk(transfer) => tcp(&around.transfers[transfer]),
        FlowKind::Web(session) | FlowKind::Request(session) => {
            tcp(&around.transfers[around.sessions[session]])
        }
        // Acknowledged as TCP is, about every second packet; what matters is the size of the packets.
        FlowKind::Quic(_) => Load::Tcp {
            mss: entry.largest_packet_bytes().saturating_sub(headers::IP_TCP),
            options: 0,
            segments_per_ack: 2.0,
        },
        FlowKind::Aimd(_) => {
            Load::Datagrams { payload: entry.largest_packet_bytes().saturating_sub(aimd::DATA_HEADERS) }
        }
        FlowKind::Cbr | FlowKind::Burst | FlowKind::Video(_) => {
            Load::Datagrams { payload: entry.largest_packet_bytes().saturating_sub(IP_HEADER + UDP_HEADER) }
        }
    }
}

impl World {
    /// Whether a station has its packets from the node's throttle.
    #[inline]
    pub(super) fn is_throttled(&self) -> bool {
        self.control
            .as_deref()
            .and_then(|control| control.throttle.as_ref())
            .is_some_and(|throttle| throttle.on.is_some())
    }

    fn throttle(&mut self) -> Option<&mut Throttle> {
        self.control.as_deref_mut()?.throttle.as_mut()
    }

    pub(super) fn begin_throttling(&mut self, thr_max: &[BitRate], calibration: f64) {
        let Some(throttle) = self.throttle() else { return };
        let packets = throttle.queue_packets;
        let nodes = throttle
            .own
            .iter()
            .map(|&own| NodeThrottle { queues: IngressThrottle::new(own, packets), timer: Timer::default() })
            .collect();
        throttle.on = Some(InForce { nodes, thr_max: thr_max.to_vec(), calibration });
        throttle.changed = 0;
    }

    /// What waits goes to the stations.
    pub(super) fn stop_throttling(&mut self) {
        let Some(throttle) = self.throttle() else { return };
        let Some(in_force) = throttle.on.take() else { return };
        throttle.rates.fill(None);
        for (node, mut throttle) in in_force.nodes.into_iter().enumerate() {
            while let Some(waiting) = throttle.queues.poll(Nanos::MAX) {
                self.enqueue(node as NodeId, waiting);
            }
        }
    }

    /// Reckons the shares anew where a flow has begun or ended.
    pub(super) fn share_among_flows(&mut self) {
        let now = self.events.now();
        let Self { control, links, radio, mac, .. } = self;
        let Some(throttle) = control.as_deref_mut().and_then(|control| control.throttle.as_mut()) else {
            return;
        };
        let Throttle { flows, changes, changed, on: Some(in_force), rates, basic, .. } = throttle else {
            return;
        };
        if changes.get(*changed).is_none_or(|change| *change > now) {
            return;
        }
        *changed = changes.partition_point(|change| *change <= now);
        let slowest = basic.iter().copied().min().unwrap_or(mac.control_rate);
        let hears = |from: usize, to: usize| {
            links.between(to, from).is_some_and(|link| radio.decodes(slowest, link.power))
        };
        // Flows that are there, as associations.
        let here: Vec<usize> = (0..flows.len())
            .filter(|&flow| flows[flow].start <= now && now < flows[flow].stop && flows[flow].nodes.len() > 1)
            .collect();
        let paths: Vec<Vec<usize>> = here.iter().map(|&flow| flows[flow].nodes.clone()).collect();
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
            shared_links: flows[here[place]].shared_links,
        };
        let demands: Vec<Demand> = (0..here.len())
            .map(|place| match flows[here[place]].load {
                Load::Call { per_second, payload } => Demand::Call {
                    load: chain(place).datagram_load(payload, per_second, in_force.calibration),
                },
                Load::Tcp { .. } | Load::Datagrams { .. } => Demand::EQUAL,
            })
            .collect();
        rates.fill(None);
        // Every path has a node, and every node a region: there is an allocation.
        let Ok(allocation) = max_min(&regions, &demands) else { return };
        for (place, &flow) in here.iter().enumerate() {
            let chain = chain(place);
            let measured = in_force.thr_max.get(hops[place].len() - 1).copied();
            let (packet, thr_max) = match flows[flow].load {
                Load::Call { .. } => continue,
                Load::Tcp { mss, options, segments_per_ack } => {
                    let bound = || chain.thr_max(mss, options, segments_per_ack, in_force.calibration);
                    (mss, measured.unwrap_or_else(bound))
                }
                Load::Datagrams { payload } => {
                    let bound = chain.thr_max(payload, 0, 2.0, in_force.calibration);
                    let tcp = measured.unwrap_or(bound);
                    let correction = chain.udp_correction(payload, 0, 2.0);
                    (payload, BitRate((tcp.0 as f64 * correction) as u64))
                }
            };
            let rate = ingress_rate(allocation.shares[place], thr_max);
            rates[flow] = Some(rate);
            if let Some(Lane { node, lane }) = flows[flow].lane {
                let queues = &mut in_force.nodes[node as usize].queues;
                queues.set_spacing(lane as usize, spacing(packet, rate));
            }
        }
        for node in 0..self.stations.len() as NodeId {
            self.feed(node);
        }
    }

    /// A packet that a throttled node sends on by radio.
    pub(super) fn throttled(&mut self, node: NodeId, waiting: Waiting) {
        let id = waiting.packet;
        let stream = self.packets.get(id).stream;
        let Some(throttle) = self.throttle() else { return };
        let lane = throttle.lanes[stream as usize].filter(|lane| lane.node == node);
        let Some(in_force) = &mut throttle.on else { return };
        let queues = &mut in_force.nodes[node as usize].queues;
        match lane {
            Some(Lane { lane, .. }) => {
                if queues.offer_own(lane as usize, waiting).is_some() {
                    self.drop_packet(node, id, Loss::Control);
                }
            }
            None => {
                if queues.offer_forwarded(waiting).is_some() {
                    self.refused(node, id, Refused::Full);
                }
            }
        }
        self.feed(node);
    }

    /// Gives the station of a throttled node its next packet, if it is free and there is one.
    pub(super) fn feed(&mut self, node: NodeId) {
        let now = self.events.now();
        while self.stations.backlog(node as usize) == 0 {
            let Self { control, events, .. } = self;
            let throttle = control.as_deref_mut().and_then(|control| control.throttle.as_mut());
            let Some(in_force) = throttle.and_then(|throttle| throttle.on.as_mut()) else { return };
            let NodeThrottle { queues, timer } = &mut in_force.nodes[node as usize];
            let Some(waiting) = queues.poll(now) else {
                match queues.next_time() {
                    Some(at) if at < Nanos::MAX => timer.set(at.max(now), events, EventKind::Throttle, node),
                    _ => timer.cancel(),
                }
                return;
            };
            self.enqueue(node, waiting);
        }
    }

    /// A packet of a node's own is due.
    pub(super) fn throttle_timer(&mut self, event: Event) {
        let Self { control, events, .. } = self;
        let throttle = control.as_deref_mut().and_then(|control| control.throttle.as_mut());
        let Some(in_force) = throttle.and_then(|throttle| throttle.on.as_mut()) else { return };
        if in_force.nodes[event.subject as usize].timer.fires(event, events) {
            self.feed(event.subject);
        }
    }

    /// What a flow may send now under throttling, in b/s of payload; none where nothing holds it.
    pub fn throttled_rate(&self, flow: usize) -> Option<BitRate> {
        *self.control.as_deref()?.throttle.as_ref()?.rates.get(flow)?
    }
}
