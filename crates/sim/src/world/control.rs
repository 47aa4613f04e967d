//! Control in the World: the gateway node shows a controller what crosses it, and obeys; nodes throttle their own flows.
//!
//! The gateway sees a packet *into the mesh* that comes by wire, or is made at the gateway itself, and goes on by radio;
//! and one *out of the mesh* that came by radio and goes on by wire or stays. Of each it makes a [`Digest`] of what the
//! packet says on the wire, and nothing else: addresses and ports are those of captures. Digests into the mesh are made
//! when the packet leaves the gateway's pacer (docs/control.md). What passes from node to node by way of the gateway
//! does not cross it.
//!
//! The way of a packet into the mesh: data pacer (TCP data and UDP that the observer takes for bulk) or ACK pacer (ACKs
//! alone), digest, clamp, queue of the radio. Out of the mesh: digest, clamp, ACK pacer, wire. In the ACK pacer an ACK has
//! its clamped window already. Where there are shapers ([`super::shaper`]), they take the place of all pacers.
//!
//! Each of several gateways has its own observer, controller and actuators, and sees what crosses it alone: none knows of the
//! others. Left out: rates of ACKs by flow ([`fairhop_control::policy::Treatment::ack_rate`], which no controller asks for).

use fairhop_control::controller::TICK;
use fairhop_control::digest::{Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtpFields, TcpFields};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::observer::FlowKind as Observed;
use fairhop_control::pacer::{AckPacer, Pacer, PacerConfig};
use fairhop_control::policy::{Means, Policy, Reason, State};
use fairhop_control::window::Clamps;
use fairhop_control::{Controller, ControllerConfig, ObserverConfig};
use fairhop_model::units::{BitRate, Nanos};
use fairhop_transport::tcp::{Flags, Segment};

use super::World;
use super::shaper::Shaper;
use super::throttle::Throttle;
use super::traffic::{FlowKind, IP_HEADER, RTP_HEADER, UDP_HEADER, stream};
use crate::engine::{Event, EventKind, Events, Purpose, Stream, Timer};
use crate::mac::BROADCAST;
use crate::output::headers::{Addresses, FIRST_TTL, port};
use crate::packet::{Body, NodeId, Packet, PacketId};
use crate::queue::Refused;
use crate::recorder::Loss;
use crate::routing::{Routes, WIRE};
use crate::scenario::{ControlSetting, HostOf, Scenario};
use crate::wired::Link;

/// Flows that the gateway knows at a time, over those of the scenario: sessions open one connection after the other.
const SPARE_FLOWS: usize = 64;

/// Subjects of the random streams of shapers begin here, apart from those of stations and wires.
const SHAPER_SUBJECTS: u64 = 1 << 48;

/// Seconds whose decisions are kept before memory has to grow.
const LOGGED_S: f64 = 10_000.0;

/// All control of a World.
#[derive(Debug)]
pub struct Control {
    /// What holds from when on.
    stages: Vec<(Nanos, &'static str, ControlSetting)>,
    /// How many of them have begun.
    begun: usize,
    next_tick: Nanos,
    pub(super) gateways: Vec<Gateway>,
    pub(super) throttle: Option<Throttle>,
    decisions: Vec<Decision>,
}

/// A gateway's observer, controller and actuators.
#[derive(Debug)]
pub struct Gateway {
    node: NodeId,
    addresses: Addresses,
    /// How each stream crosses the gateway, and the time to live with which it comes.
    crossings: Vec<Option<(Direction, u8)>>,
    /// Flows that are known at a time.
    flows: usize,
    controller: Controller,
    clamps: Clamps,
    data: Pacer<PacketId>,
    /// ACKs out of the mesh, and into it.
    down_acks: AckPacer<PacketId>,
    up_acks: AckPacer<PacketId>,
    /// Shapers of everything out of the mesh, and into it, where they are asked for.
    up: Option<Shaper>,
    down: Option<Shaper>,
    timer: Timer,
    /// Packets that found no place in a pacer.
    dropped: u64,
}

/// What a controller asked for at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Nanos,
    /// At which gateway.
    pub gateway: NodeId,
    /// The kind of control, as in the scenario.
    pub kind: &'static str,
    /// Its state.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// What holds the budget.
    pub means: Means,
    /// The budget of all elastic flows in bits a second times hops, where one is sought.
    pub budget: Option<f64>,
    /// Pace of elastic data into the mesh.
    pub down: Option<BitRate>,
    /// Pace of what ACKs acknowledge, the slower direction.
    pub acks: Option<BitRate>,
    /// The smallest clamp on a window, in bytes.
    pub window: Option<u32>,
    /// Packets in the pacers.
    pub waiting: u32,
    /// The lowest opinion score of a call over the last second, as the gateway sees it.
    pub mos: Option<f64>,
}

impl Control {
    /// The control of a scenario; none where it has none, or none that needs anything of the World.
    pub(super) fn new(
        scenario: &Scenario,
        addresses: Addresses,
        crossings: impl Iterator<Item = (NodeId, Vec<Option<(Direction, u8)>>)>,
        throttle: Throttle,
    ) -> Option<Box<Self>> {
        let control = scenario.control.as_ref()?;
        let stages: Vec<_> = control
            .stages()
            .into_iter()
            .map(|(from_s, kind, setting)| (Nanos::from_secs_f64(from_s), kind, setting))
            .collect();
        let at_gateway =
            stages.iter().any(|(_, _, setting)| matches!(setting, ControlSetting::Gateway { .. }));
        let throttles =
            stages.iter().any(|(_, _, setting)| matches!(setting, ControlSetting::Throttle { .. }));
        if stages.iter().all(|(_, _, setting)| *setting == ControlSetting::Priority) {
            return None; // it is in the queues
        }
        let flows = scenario.traffic.iter().map(|entry| entry.count() as usize).sum::<usize>();
        let playout = Nanos::from_millis_f64(scenario.voice.playout_ms);
        let gateways: Vec<Gateway> = crossings
            .filter(|_| at_gateway)
            .map(|(node, crossings)| {
                Gateway::new(node, addresses, crossings, 4 * flows + SPARE_FLOWS, playout)
            })
            .collect();
        let next_tick = if at_gateway { TICK } else { Nanos::MAX };
        let throttle = throttles.then_some(throttle);
        let ticks = (scenario.duration_s.min(LOGGED_S) / TICK.as_secs_f64()) as usize + 2;
        let decisions = Vec::with_capacity(ticks * gateways.len());
        Some(Box::new(Self { stages, begun: 0, next_tick, gateways, throttle, decisions }))
    }

    /// When something is due next; never is [`Nanos::MAX`].
    pub(super) fn next_time(&self) -> Nanos {
        let stage = self.stages.get(self.begun).map_or(Nanos::MAX, |(from, ..)| *from);
        let flows = self.throttle.as_ref().map_or(Nanos::MAX, Throttle::next_change);
        stage.min(self.next_tick).min(flows)
    }

    /// What is in force.
    pub(super) fn setting(&self) -> Option<&ControlSetting> {
        Some(&self.stages[self.begun.checked_sub(1)?].2)
    }

    /// The kind in force, as in the scenario.
    pub fn kind(&self) -> &'static str {
        self.begun.checked_sub(1).map_or("none", |last| self.stages[last].1)
    }

    /// What the controllers asked for, tick by tick, at every tick in the order of the gateways.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The controller of the first gateway, where there is one.
    pub fn controller(&self) -> Option<&Controller> {
        self.gateways.first().map(|gateway| &gateway.controller)
    }

    /// The gateways with a controller: their nodes, and how many packets found no place in their pacers.
    pub fn gateways(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.gateways.iter().map(|gateway| (gateway.node, gateway.dropped))
    }

    /// Packets that found no place in a pacer of a gateway.
    pub fn dropped(&self) -> u64 {
        self.gateways.iter().map(|gateway| gateway.dropped).sum()
    }
}

impl Gateway {
    fn new(
        node: NodeId,
        addresses: Addresses,
        crossings: Vec<Option<(Direction, u8)>>,
        flows: usize,
        playout: Nanos,
    ) -> Self {
        let observer = ObserverConfig { flows, playout, ..ObserverConfig::default() };
        Self {
            node,
            addresses,
            crossings,
            flows,
            controller: Controller::new(observer, ControllerConfig::None),
            clamps: Clamps::new(flows),
            data: Pacer::new(PacerConfig { packets: 1, ..PacerConfig::default() }),
            down_acks: AckPacer::new(1, 1),
            up_acks: AckPacer::new(1, 1),
            up: None,
            down: None,
            timer: Timer::default(),
            dropped: 0,
        }
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Streams cross the gateway in other ways than before.
    pub(super) fn set_crossings(&mut self, crossings: Vec<Option<(Direction, u8)>>) {
        self.crossings = crossings;
    }

    fn digest(&self, at: Nanos, packet: &Packet, direction: Direction, ttl: u8) -> Digest {
        let port = port(packet);
        let (protocol, payload) = match packet.body {
            Body::Tcp(segment) => (PROTOCOL_TCP, Payload::Tcp(fields(&segment))),
            Body::Rtp { sequence, timestamp, ssrc, payload_type } => {
                let rtp = RtpFields {
                    payload_type,
                    marker: false,
                    sequence: sequence as u16,
                    timestamp: timestamp as u32,
                    ssrc,
                    payload_bytes: packet.bytes - IP_HEADER - UDP_HEADER - RTP_HEADER,
                };
                (PROTOCOL_UDP, Payload::Rtp(rtp))
            }
            Body::Rtcp(report) => (PROTOCOL_UDP, Payload::Rtcp(report.fields())),
            Body::Udp { .. } | Body::Aimd(_) | Body::AimdAck(_) | Body::Quic { .. } => {
                (PROTOCOL_UDP, Payload::Udp)
            }
        };
        Digest {
            at,
            direction,
            source: Address::v4(self.addresses.of(packet.source)),
            destination: Address::v4(self.addresses.of(packet.destination)),
            source_port: port,
            destination_port: port,
            protocol,
            ttl,
            traffic_class: packet.dscp.value() << 2 | packet.ecn as u8,
            bytes: packet.bytes,
            payload,
        }
    }

    /// The flow of a packet into the mesh.
    fn key(&self, packet: &Packet) -> FlowKey {
        let port = port(packet);
        FlowKey {
            mesh: Address::v4(self.addresses.of(packet.destination)),
            wired: Address::v4(self.addresses.of(packet.source)),
            mesh_port: port,
            wired_port: port,
            protocol: if matches!(packet.body, Body::Tcp(_)) { PROTOCOL_TCP } else { PROTOCOL_UDP },
        }
    }

    /// A packet crosses now: the observer learns of it, and its window may become smaller.
    fn cross(&mut self, now: Nanos, packet: &mut Packet, direction: Direction, ttl: u8) -> FlowKey {
        let digest = self.digest(now, packet, direction, ttl);
        let key = digest.flow();
        self.controller.on_digest(&digest);
        if let (Body::Tcp(segment), Payload::Tcp(fields)) = (&mut packet.body, &digest.payload) {
            let limit = self.controller.policy().treatment(now, &key).window;
            segment.window = self.clamps.on_segment(now, &key, direction, fields, limit);
        }
        key
    }

    /// Whether the pacer of data is for a packet into the mesh.
    fn is_elastic(&self, now: Nanos, packet: &Packet) -> bool {
        match packet.body {
            Body::Tcp(segment) => segment.len > 0,
            Body::Rtcp(_) => false,
            Body::Rtp { .. } | Body::Udp { .. } | Body::Aimd(_) | Body::AimdAck(_) | Body::Quic { .. } => {
                let flow = self.controller.observer().flow(&self.key(packet));
                flow.is_some_and(|flow| flow.kind(now) == Observed::BulkUdp)
            }
        }
    }

    fn paces_data(&self, policy: &Policy) -> bool {
        !self.data.is_empty()
            || policy.down.is_some()
            || policy.others.rate.is_some()
            || policy.flows.iter().any(|flow| flow.treatment.rate.is_some())
    }

    /// Hands the policy to the pacers.
    fn obey(&mut self) {
        let policy = self.controller.policy();
        self.data.set_aggregate(policy.down);
        self.data.set_gate(policy.gate);
        self.data.set_each_flow(policy.others.rate);
        for flow in &policy.flows {
            self.data.set_flow(&flow.key, flow.treatment.rate);
        }
        self.down_acks.set_rate(policy.down_acks);
        self.up_acks.set_rate(policy.up_acks);
    }

    /// Nothing is held any more; the pacers are made anew once they are empty.
    fn let_go(&mut self) {
        self.data.set_aggregate(None);
        self.data.set_gate(None);
        self.data.set_each_flow(None);
        self.down_acks.set_rate(None);
        self.up_acks.set_rate(None);
        for shaper in [&mut self.down, &mut self.up].into_iter().flatten() {
            shaper.let_go();
        }
    }

    fn shapers(&self) -> impl Iterator<Item = &Shaper> {
        [&self.down, &self.up].into_iter().flatten()
    }

    fn decision(&self, now: Nanos, kind: &'static str) -> Decision {
        let policy = self.controller.policy();
        let windows = policy.flows.iter().map(|flow| flow.treatment.window).chain([policy.others.window]);
        let scores = self.controller.observer().calls(now, Nanos::from_secs(1));
        Decision {
            at: now,
            gateway: self.node,
            kind,
            state: policy.state,
            reason: policy.reason,
            means: policy.means,
            budget: self.controller.budget(),
            down: policy.down.or(self.down.as_ref().and_then(Shaper::rate)),
            acks: policy.down_acks.into_iter().chain(policy.up_acks).min(),
            window: windows.flatten().min(),
            waiting: (self.data.len()
                + self.down_acks.len()
                + self.up_acks.len()
                + self.shapers().map(Shaper::len).sum::<usize>()) as u32,
            mos: scores.filter_map(|call| call.mos()).reduce(f64::min),
        }
    }

    fn set_timer(&mut self, now: Nanos, events: &mut Events, index: u32) {
        let times = [self.data.next_time(now), self.down_acks.next_time(), self.up_acks.next_time()];
        let shaped = self.shapers().filter_map(Shaper::next_time);
        match times.into_iter().flatten().chain(shaped).min() {
            Some(at) if at < Nanos::MAX => self.timer.set(at.max(now), events, EventKind::Pace, index),
            _ => self.timer.cancel(),
        }
    }
}

/// A segment that only acknowledges.
fn is_ack_alone(segment: &Segment) -> bool {
    segment.len == 0
        && segment.flags.has(Flags::ACK)
        && !segment.flags.any(Flags::SYN | Flags::FIN | Flags::RST)
}

fn fields(segment: &Segment) -> TcpFields {
    TcpFields {
        seq: segment.seq.0,
        ack: segment.ack.0,
        flags: segment.flags.0,
        window: segment.window,
        payload_bytes: segment.len,
        mss: segment.mss,
        window_scale: segment.window_scale,
        sack_permitted: segment.sack_permitted,
        has_sack: !segment.sack.is_empty(),
        timestamps: segment.timestamps.map(|stamps| (stamps.value, stamps.echo)),
    }
}

/// The nodes and hosts from one end to the other, and whether each step goes by wire.
pub(super) fn path(routes: &Routes, wired: &[Link], from: NodeId, to: NodeId) -> Vec<(NodeId, bool)> {
    let mut steps = Vec::new();
    let mut at = from;
    while at != to {
        let Some(next) = routes.next_hop(at, from, to) else { return Vec::new() };
        let (next, by_wire) = match next & WIRE {
            0 => (next, false),
            _ => (wired[(next & !WIRE) as usize].to(), true),
        };
        steps.push((next, by_wire));
        at = next;
    }
    steps
}

/// How each stream of flows between these ends crosses the gateway.
pub(super) fn crossings(
    ends: impl Iterator<Item = (NodeId, NodeId)>,
    gateway: NodeId,
    routes: &Routes,
    wired: &[Link],
) -> Vec<Option<(Direction, u8)>> {
    ends.flat_map(|(from, to)| [(from, to), (to, from)])
        .map(|(from, to)| {
            if to == BROADCAST || from == BROADCAST {
                return None;
            }
            let steps = path(routes, wired, from, to);
            // Steps before the gateway, and the one by which it is left.
            let before =
                if from == gateway { 0 } else { 1 + steps.iter().position(|(node, _)| *node == gateway)? };
            let came_by_radio = before > 0 && !steps[before - 1].1;
            let goes_by_radio = steps.get(before).is_some_and(|(_, by_wire)| !by_wire);
            let ttl = FIRST_TTL.saturating_sub(before.saturating_sub(1).min(63) as u8);
            match (came_by_radio, goes_by_radio) {
                (false, true) => Some((Direction::ToMesh, ttl)),
                (true, false) => Some((Direction::FromMesh, ttl)),
                _ => None,
            }
        })
        .collect()
}

impl World {
    /// The control of the scenario; none where there is none, or it is all in the queues.
    pub fn control(&self) -> Option<&Control> {
        self.control.as_deref()
    }

    fn gateway(&mut self, index: usize) -> Option<&mut Gateway> {
        self.control.as_deref_mut()?.gateways.get_mut(index)
    }

    /// The gateway at a node that a packet crosses in this direction.
    fn crossed(&self, node: NodeId, id: PacketId, direction: Direction) -> Option<usize> {
        let gateways = &self.control.as_deref()?.gateways;
        let index = gateways.iter().position(|gateway| gateway.node == node)?;
        let crossing = gateways[index].crossings[self.packets.get(id).stream as usize];
        crossing.is_some_and(|(way, _)| way == direction).then_some(index)
    }

    /// A packet that came by wire or was made at `node` goes on. Where that is a gateway and it goes into the mesh, it may
    /// have to wait.
    pub(super) fn towards_mesh(&mut self, node: NodeId, id: PacketId) {
        if self.control.is_none() {
            return self.forward(node, id);
        }
        let Some(index) = self.crossed(node, id, Direction::ToMesh) else { return self.forward(node, id) };
        let now = self.events.now();
        let Self { control, packets, .. } = self;
        let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index)) else {
            return;
        };
        if gateway.down.is_some() {
            return self.shape(index, id, Direction::ToMesh);
        }
        let packet = packets.get_mut(id);
        let policy = gateway.controller.policy();
        let refused = match packet.body {
            Body::Tcp(segment)
                if is_ack_alone(&segment) && (policy.up_acks.is_some() || !gateway.up_acks.is_empty()) =>
            {
                packet.at = node;
                let key = gateway.key(packet);
                gateway.up_acks.offer(&key, segment.ack.0, id)
            }
            _ if gateway.paces_data(policy) && gateway.is_elastic(now, packet) => {
                packet.at = node;
                let key = gateway.key(packet);
                gateway.data.offer(now, &key, packet.bytes, id)
            }
            _ => return self.enter_mesh(index, id),
        };
        if let Some(refused) = refused {
            self.refused_by_pacer(index, refused);
        }
        self.pace(index);
    }

    fn refused_by_pacer(&mut self, index: usize, id: PacketId) {
        let counts = self.events.now() >= self.recorder.warmup;
        let Some(gateway) = self.gateway(index) else { return };
        gateway.dropped += u64::from(counts);
        let node = gateway.node;
        self.drop_packet(node, id, Loss::Control);
    }

    /// A packet leaves a gateway for the mesh.
    fn enter_mesh(&mut self, index: usize, id: PacketId) {
        let now = self.events.now();
        let Self { control, packets, .. } = self;
        let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index)) else {
            return;
        };
        let node = gateway.node;
        let packet = packets.get_mut(id);
        if let Some((direction, ttl)) = gateway.crossings[packet.stream as usize] {
            gateway.cross(now, packet, direction, ttl);
        }
        self.forward(node, id);
    }

    /// A packet has come by radio. True where a gateway has taken it into its hands.
    pub(super) fn out_of_mesh(&mut self, node: NodeId, id: PacketId) -> bool {
        let Some(index) = self.crossed(node, id, Direction::FromMesh) else { return false };
        let now = self.events.now();
        let Self { control, packets, .. } = self;
        let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index)) else {
            return false;
        };
        let packet = packets.get_mut(id);
        let Some((direction, ttl)) = gateway.crossings[packet.stream as usize] else { return false };
        let key = gateway.cross(now, packet, direction, ttl);
        if gateway.up.is_some() {
            packets.hold(id);
            self.shape(index, id, Direction::FromMesh);
            return true;
        }
        let policy = gateway.controller.policy();
        let Body::Tcp(segment) = packet.body else { return false };
        if !is_ack_alone(&segment) || (policy.down_acks.is_none() && gateway.down_acks.is_empty()) {
            return false;
        }
        packet.at = node;
        let refused = gateway.down_acks.offer(&key, segment.ack.0, id);
        packets.hold(id);
        if let Some(refused) = refused {
            self.refused_by_pacer(index, refused);
        }
        self.pace(index);
        true
    }

    /// Hands a packet to a shaper.
    fn shape(&mut self, index: usize, id: PacketId, direction: Direction) {
        let now = self.events.now();
        let Self { control, packets, .. } = self;
        let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index)) else {
            return;
        };
        let shaper = match direction {
            Direction::ToMesh => &mut gateway.down,
            Direction::FromMesh => &mut gateway.up,
        };
        let Some(shaper) = shaper else { return };
        let packet = packets.get_mut(id);
        packet.at = gateway.node;
        let bytes = packet.bytes;
        if shaper.offer(now, id, bytes, packets).is_err() {
            self.refused_by_pacer(index, id);
        }
        self.pace(index);
    }

    /// Sees to packets that a shaper has dropped.
    fn bury_shaped(&mut self, index: usize) {
        while let Some((id, why)) = self.packets.take_given_up() {
            match why {
                Refused::Full => self.refused_by_pacer(index, id),
                Refused::Early => self.drop_packet(self.packets.get(id).at, id, Loss::Aqm),
            }
        }
    }

    /// A packet out of the mesh goes on from a gateway.
    fn leave_mesh(&mut self, node: NodeId, id: PacketId) {
        if self.packets.get(id).destination == node {
            self.arrived(id);
            self.packets.release(id);
        } else {
            self.forward(node, id);
        }
    }

    /// Lets go what may leave the pacers and shapers of a gateway now, and sets their timer.
    fn pace(&mut self, index: usize) {
        let now = self.events.now();
        loop {
            let Self { control, packets, .. } = self;
            let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index))
            else {
                return;
            };
            let node = gateway.node;
            let mut shaped = |shaper: &mut Option<Shaper>| shaper.as_mut()?.poll(now, packets);
            let (down, up) = (shaped(&mut gateway.down), shaped(&mut gateway.up));
            if down.is_some() || up.is_some() {
                self.bury_shaped(index);
                if let Some(id) = down {
                    self.enter_mesh(index, id);
                }
                if let Some(id) = up {
                    self.leave_mesh(node, id);
                }
                continue;
            }
            if let Some(released) = gateway.data.poll(now) {
                if released.mark {
                    self.packets.mark(released.packet);
                }
                self.enter_mesh(index, released.packet);
            } else if let Some(id) = gateway.up_acks.poll(now) {
                self.enter_mesh(index, id);
            } else if let Some(id) = gateway.down_acks.poll(now) {
                self.leave_mesh(node, id);
            } else {
                gateway.set_timer(now, &mut self.events, index as u32);
                return self.bury_shaped(index);
            }
        }
    }

    /// The timer of a gateway's pacers.
    pub(super) fn pace_timer(&mut self, event: Event) {
        let index = event.subject as usize;
        let Self { control, events, .. } = self;
        let Some(gateway) = control.as_deref_mut().and_then(|control| control.gateways.get_mut(index)) else {
            return;
        };
        if gateway.timer.fires(event, events) {
            self.pace(index);
        }
    }

    fn gateways(&self) -> usize {
        self.control.as_deref().map_or(0, |control| control.gateways.len())
    }

    /// A tick, the beginning of a stage, or the beginning or end of a flow that is throttled.
    pub(super) fn control_event(&mut self) {
        let now = self.events.now();
        while let Some(control) = self.control.as_deref_mut()
            && let Some((from, _, setting)) = control.stages.get(control.begun)
            && *from <= now
        {
            let setting = setting.clone();
            control.begun += 1;
            self.begin_stage(&setting);
        }
        self.share_among_flows();
        if let Some(control) = self.control.as_deref_mut()
            && control.next_tick <= now
        {
            control.next_tick = now + TICK;
            let kind = control.kind();
            for gateway in &mut control.gateways {
                gateway.controller.tick(now);
                gateway.obey();
                control.decisions.push(gateway.decision(now, kind));
            }
            for index in 0..self.gateways() {
                self.pace(index);
            }
        }
        let next = self.control.as_deref().map_or(Nanos::MAX, Control::next_time);
        if next <= self.end {
            self.events.push(next.max(now), EventKind::Control, 0);
        }
    }

    /// What the stage before held is let go, and another control begins.
    fn begin_stage(&mut self, setting: &ControlSetting) {
        let now = self.events.now();
        for index in 0..self.gateways() {
            if let Some(gateway) = self.gateway(index) {
                gateway.controller.set(ControllerConfig::None);
                gateway.let_go();
            }
            self.pace(index);
            if let Some(gateway) = self.gateway(index) {
                (gateway.down, gateway.up) = (None, None);
            }
        }
        self.stop_throttling();
        match setting {
            ControlSetting::Gateway { config, pacer, shaper } => {
                let seed = self.seed;
                for index in 0..self.gateways() {
                    let Some(gateway) = self.gateway(index) else { continue };
                    let flows = gateway.flows;
                    gateway.data = Pacer::new(*pacer);
                    gateway.down_acks = AckPacer::new(pacer.packets, flows);
                    gateway.up_acks = AckPacer::new(pacer.packets, flows);
                    let made = |setting, rate, host, way: u64| {
                        let subject = SHAPER_SUBJECTS + 2 * index as u64 + way;
                        Shaper::new(setting, rate, host, Stream::new(seed, subject, Purpose::Queue))
                    };
                    let setting = shaper.as_ref();
                    gateway.down = setting.map(|setting| made(setting, setting.down, HostOf::Destination, 0));
                    gateway.up =
                        setting.and_then(|setting| Some(made(setting, setting.up?, HostOf::Source, 1)));
                    gateway.controller.set(*config);
                    // In force from now on, not from the next tick.
                    gateway.controller.tick(now);
                    gateway.obey();
                }
            }
            ControlSetting::Throttle { thr_max, calibration } => self.begin_throttling(thr_max, *calibration),
            ControlSetting::Priority => {}
        }
    }
}

/// The stream of a flow's data. That of a request flow is what comes back.
pub(super) fn data_stream(kind: FlowKind, flow: usize) -> u32 {
    stream(flow, matches!(kind, FlowKind::Request(_)))
}

#[cfg(test)]
mod tests {
    use fairhop_control::digest::ReceptionReport;
    use fairhop_transport::tcp::{Ecn, SenderConfig};

    use super::*;
    use crate::output::headers::ipv4;
    use crate::packet::Dscp;
    use crate::rtcp::{Report, SenderInfo, ntp};

    /// Every packet of a handshake, data, ACKs, RTP, RTCP and datagrams: the digest made of its fields is the one that is
    /// read out of the bytes that a capture has of it.
    #[test]
    fn a_digest_is_what_is_read_out_of_the_bytes_of_the_packet() {
        use fairhop_transport::tcp::{Receiver, ReceiverConfig, Sender};

        let addresses = Addresses { nodes: 5, internet: true };
        let gateway = Gateway::new(0, addresses, Vec::new(), 8, Nanos::ZERO);
        let mut bodies = vec![
            Body::Rtp { sequence: 70_000, timestamp: 1 << 33 | 160, ssrc: 7, payload_type: 18 },
            Body::Udp { sequence: 3 },
        ];
        for timestamps in [false, true] {
            let mut sender = Sender::new(SenderConfig { timestamps, ..SenderConfig::default() });
            let mut receiver = Receiver::new(ReceiverConfig { timestamps, ..ReceiverConfig::default() });
            sender.open(Nanos::ZERO);
            sender.offer(100_000);
            sender.close();
            for round in 0..20_u64 {
                let now = Nanos::from_millis(round);
                while let Some(segment) = sender.poll_transmit(now) {
                    bodies.push(Body::Tcp(segment));
                    // Every seventh is lost, so that there is SACK.
                    if bodies.len() % 7 != 0 {
                        receiver.on_segment(now, &segment);
                    }
                }
                while let Some(segment) = receiver.poll_transmit(now) {
                    bodies.push(Body::Tcp(segment));
                    sender.on_segment(now, &segment);
                }
            }
        }
        let sender = SenderInfo { ntp: ntp(Nanos(1_234_567_890)), timestamp: 160, packets: 9, bytes: 180 };
        let block = ReceptionReport {
            ssrc: 8,
            fraction_lost: 31,
            cumulative_lost: -2,
            highest_sequence: 70_001,
            jitter: 17,
            last_sender_report: 0x0102_0304,
            delay_since: 65_536,
        };
        for (sender, block) in
            [(Some(sender), Some(block)), (Some(sender), None), (None, Some(block)), (None, None)]
        {
            bodies.push(Body::Rtcp(Report { ssrc: 7, sender, block }));
        }
        let has = |wanted: fn(&Segment) -> bool| {
            bodies.iter().any(|body| matches!(body, Body::Tcp(segment) if wanted(segment)))
        };
        assert!(has(|s| s.flags.has(Flags::SYN)) && has(|s| !s.sack.is_empty()) && bodies.len() > 100);
        for (index, body) in bodies.into_iter().enumerate() {
            let bytes = match body {
                Body::Tcp(segment) => IP_HEADER + segment.header_bytes() + segment.len,
                Body::Rtcp(report) => IP_HEADER + UDP_HEADER + report.bytes(),
                _ => 60,
            };
            let packet = Packet {
                stream: 6,
                connection: 2,
                source: 5,
                destination: 4,
                bytes,
                created: Nanos::ZERO,
                at: 0,
                settled: false,
                dscp: Dscp::EXPEDITED,
                ecn: Ecn::Ect0,
                body,
            };
            let mut wire = Vec::new();
            ipv4(&mut wire, &packet, addresses, 61);
            let at = Nanos(index as u64);
            let made = gateway.digest(at, &packet, Direction::ToMesh, 61);
            assert_eq!(Some(made), Digest::read(at, Direction::ToMesh, &wire), "{:?}", packet.body);
            assert_eq!(made.flow(), gateway.key(&packet));
        }
    }
}
