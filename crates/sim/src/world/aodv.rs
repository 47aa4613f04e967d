//! AODV in the World: one machine of [`fairhop_routing::aodv`] at each node, and what it asks for.
//!
//! A packet that no wire takes on goes over the route that AODV finds to a node of the mesh: its destination, or the gateway
//! of a destination without radio ([`Overlay`]). Routing messages are packets of their own ([`Body::Routing`]), which wait in
//! the interface queue before data and are broadcast at the broadcast rate.
//!
//! The side tables know each image's next hop, which the station forgets with the packet.

use std::collections::{BTreeMap, VecDeque};

use fairhop_model::units::Nanos;
use fairhop_routing::aodv::{Aodv, Config, OnBreak};
use fairhop_routing::wire::IP_UDP;
use fairhop_routing::{Action, Address, Context, Datagram, Decision, DropReason, MessageKind, Random};

use super::World;
use super::core::Core;
use super::network::Ingress;
use crate::engine::{Event, EventKind, Purpose, Stream, Timer};
use crate::headers::Addresses;
use crate::mac::{BROADCAST, Frame, FrameKind};
use crate::packet::{Body, Dscp, Ecn, ImageId, NodeId, Packet};
use crate::queue::Waiting;
use crate::recorder::{Loss, MessageCount, RouteChange};
use crate::routing::NextHop;

/// The stream of packets that belong to no flow.
const NO_STREAM: u32 = u32::MAX;

/// Class selector 6, for routing protocols (RFC 2474 §4.2.2.2, RFC 4594 §3.2).
const CS6: u8 = 48;

/// Where packets leave the mesh on their way to places without radio.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    /// Nodes with radio have lower numbers.
    pub(super) nodes: NodeId,
    /// The gateway by the ends of a packet, of which one has no radio.
    pub(super) gateways: BTreeMap<(NodeId, NodeId), NodeId>,
}

impl Overlay {
    /// The node of the mesh to which a packet goes by radio.
    pub(super) fn next_hop(&self, node: NodeId, packet: &Packet) -> Option<NextHop> {
        if node >= self.nodes {
            return None;
        }
        let (_, exit) = self.ends(packet.source, packet.destination)?;
        (exit != node).then_some(NextHop::Routed(exit))
    }

    /// The nodes where the packets between two places enter the mesh and leave it; none for places that it does not join.
    pub(super) fn ends(&self, source: NodeId, destination: NodeId) -> Option<(NodeId, NodeId)> {
        let end = |place: NodeId| {
            if place < self.nodes {
                return Some(place);
            }
            self.gateways.get(&(source, destination)).copied()
        };
        Some((end(source)?, end(destination)?))
    }

    /// The node of the mesh where a packet enters it.
    fn entry(&self, packet: &Packet) -> NodeId {
        self.ends(packet.source, packet.destination).map_or(packet.source, |(entry, _)| entry)
    }
}

impl Random for Stream {
    fn up_to(&mut self, max: u32) -> u32 {
        Stream::up_to(self, max)
    }
}

/// One node's machine.
#[derive(Debug)]
struct Router {
    machine: Aodv,
    timer: Timer,
    /// For when the timer is set.
    armed: Nanos,
    random: Stream,
}

/// All machines.
#[derive(Debug)]
pub(super) struct Routers {
    routers: Vec<Router>,
    on_break: OnBreak,
    /// Broadcast messages with a signal too weak for the data rate are ignored.
    signal_threshold: bool,
    /// Next hop of each image that is at a station.
    next_hops: Vec<NodeId>,
    /// What is still to be done, and by whom.
    todo: VecDeque<(NodeId, Action)>,
    actions: Vec<Action>,
    withdrawn: Vec<Waiting>,
    /// The bytes of the message that a machine reads.
    message: Vec<u8>,
}

/// The address of a node in routing messages.
fn address(node: NodeId) -> Address {
    Address(u32::from_be_bytes(Addresses { nodes: NodeId::MAX, internet: false }.of(node)))
}

/// The node that has an address; a number that no node has where none does.
fn node_of(address: Address) -> NodeId {
    address.0.wrapping_sub(self::address(0).0)
}

const fn loss(reason: DropReason) -> Loss {
    match reason {
        DropReason::NoRoute => Loss::NoRoute,
        DropReason::BufferFull => Loss::BufferFull,
        DropReason::BufferTimeout => Loss::BufferTimeout,
    }
}

impl Routers {
    /// Machines that have been started.
    pub(super) fn new(config: &Config, signal_threshold: bool, nodes: usize, seed: u64) -> Self {
        let router = |node: usize| {
            let mut random = Stream::new(seed, node as u64, Purpose::Routing);
            let mut machine = Aodv::new(config.clone(), address(node as NodeId));
            machine.start(&mut Context { now: Nanos::ZERO, random: &mut random, actions: &mut Vec::new() });
            Router { machine, timer: Timer::default(), armed: Nanos::MAX, random }
        };
        Self {
            routers: (0..nodes).map(router).collect(),
            on_break: config.on_break,
            signal_threshold,
            next_hops: Vec::new(),
            todo: VecDeque::new(),
            actions: Vec::new(),
            withdrawn: Vec::new(),
            message: Vec::new(),
        }
    }

    /// Sets all timers, before the first event.
    pub(super) fn arm_all(&mut self, core: &mut Core) {
        for node in 0..self.routers.len() {
            self.arm(core, node as NodeId);
        }
    }

    /// The machine of a node.
    pub(super) fn machine(&self, node: NodeId) -> &Aodv {
        &self.routers[node as usize].machine
    }

    /// The share of airtime that the flow from one node to another may use, as its source knows it; none before its first
    /// packet, and without the path density protocol.
    pub(super) fn share(&self, from: NodeId, to: NodeId) -> Option<f64> {
        self.routers[from as usize].machine.share(address(to))
    }

    /// The next hop and the number of hops from one node to another; none without a route.
    pub(super) fn hop_towards(&self, now: Nanos, from: NodeId, to: NodeId) -> Option<(NodeId, u8)> {
        let route = self.routers[from as usize].machine.route(now, address(to))?;
        Some((node_of(route.next_hop), route.hops))
    }

    /// A node has received a frame: the sender of data and RTS frames is in their header, and who acknowledges or clears is
    /// known to the station that waits for it.
    #[inline]
    pub(super) fn heard(&mut self, at: Nanos, node: NodeId, from: NodeId, frame: &Frame) {
        if matches!(frame.kind, FrameKind::Data | FrameKind::Rts) || frame.to == node {
            self.routers[node as usize].machine.on_heard(at, address(from));
        }
    }

    pub(super) fn set_next_hop(&mut self, image: ImageId, next_hop: NodeId) {
        let index = image as usize;
        if self.next_hops.len() <= index {
            self.next_hops.resize(index + 1, BROADCAST);
        }
        self.next_hops[index] = next_hop;
    }

    fn next_hop(&self, image: ImageId) -> NodeId {
        self.next_hops.get(image as usize).copied().unwrap_or(BROADCAST)
    }

    /// Lets a node's machine act, and keeps what it asks for.
    fn act<T>(
        &mut self,
        core: &mut Core,
        node: NodeId,
        act: impl FnOnce(&mut Aodv, &mut Context<'_>) -> T,
    ) -> T {
        let Self { routers, actions, todo, .. } = self;
        let Router { machine, random, .. } = &mut routers[node as usize];
        let tried = machine.counters().discoveries;
        let result = act(machine, &mut Context { now: core.now(), random, actions });
        let tried = machine.counters().discoveries - tried;
        if tried > 0
            && core.is_measuring()
            && let Some(record) = &mut core.recorder.routing
        {
            record.tried += tried;
        }
        todo.extend(actions.drain(..).map(|action| (node, action)));
        self.arm(core, node);
        result
    }

    fn arm(&mut self, core: &mut Core, node: NodeId) {
        let Router { machine, timer, armed, .. } = &mut self.routers[node as usize];
        let next = machine.next_timer();
        if next == *armed {
            return;
        }
        *armed = next;
        if next == Nanos::MAX {
            timer.cancel();
        } else {
            timer.set(next.max(core.now()), &mut core.events, EventKind::Routing, node);
        }
    }

    /// Whether following next hops from a node to a destination leads to where it has been.
    fn loops(&self, now: Nanos, node: NodeId, destination: Address) -> bool {
        let mut at = node;
        for _ in 0..=self.routers.len() {
            let Some(router) = self.routers.get(at as usize) else { return false };
            match router.machine.route(now, destination) {
                Some(route) if route.next_hop != destination => at = node_of(route.next_hop),
                _ => return false,
            }
        }
        true
    }
}

impl World {
    /// The routing machine of a node; none without a routing protocol.
    pub fn router(&self, node: NodeId) -> Option<&Aodv> {
        self.core.routing.as_deref().map(|routing| routing.machine(node))
    }

    /// The share of airtime that the node where a flow enters the mesh has learnt for it, as a fraction; none without the path
    /// density protocol, and where the flow has not sent for long.
    pub fn learnt_share(&self, flow: usize) -> Option<f64> {
        let flow = self.flows().get(flow)?;
        let (entry, exit) = self.network.overlay.as_deref()?.ends(flow.from, flow.to)?;
        let routing = self.core.routing.as_deref()?;
        routing.share(entry, exit).or_else(|| routing.share(exit, entry))
    }

    /// Lets the machine of a node act, and does what it asks for.
    fn at_router<T>(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Aodv, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut routing = self.core.routing.take()?;
        let result = routing.act(&mut self.core, node, act);
        self.core.routing = Some(routing);
        self.do_routing();
        Some(result)
    }

    /// Does what machines have asked for, in order.
    fn do_routing(&mut self) {
        while let Some((node, action)) =
            self.core.routing.as_mut().and_then(|routing| routing.todo.pop_front())
        {
            match action {
                Action::Send { kind, to, ttl, bytes } => self.send_message(node, kind, to, ttl, bytes),
                Action::Release { token, next_hop } => self.send_over(node, token, node_of(next_hop)),
                Action::Drop { token, reason } => self.core.drop_image(token, loss(reason)),
                Action::LinkBroken { neighbour, in_use, .. } => {
                    self.link_broken(node, node_of(neighbour), in_use);
                }
                Action::Route { destination, over } => self.route_changed(node, destination, over),
                Action::Discovered { latency, found, .. } => {
                    if self.core.is_measuring()
                        && let Some(record) = &mut self.core.recorder.routing
                    {
                        if found {
                            record.found += 1;
                            record.latencies.add(latency);
                        } else {
                            record.given_up += 1;
                        }
                    }
                }
            }
        }
    }

    fn send_message(&mut self, node: NodeId, kind: MessageKind, to: Address, ttl: u8, bytes: Vec<u8>) {
        let to = if to == Address::BROADCAST { BROADCAST } else { node_of(to) };
        if to != BROADCAST && to as usize >= self.mesh.len() {
            return; // an address that no node has
        }
        let core = &mut self.core;
        let packet = Packet {
            created: core.now(),
            stream: NO_STREAM,
            source: node,
            destination: to,
            bytes: IP_UDP + bytes.len() as u32,
            connection: 0,
            dscp: Dscp::new(CS6).unwrap_or_default(),
            body: Body::Routing,
        };
        if core.is_measuring()
            && let Some(record) = &mut core.recorder.routing
        {
            let MessageCount { sent, bytes } = &mut record.messages[kind as usize];
            *sent += 1;
            *bytes += u64::from(packet.bytes);
        }
        let image = core.packets.insert(packet, Ecn::NotEct, node);
        core.packets.header_mut(image).ttl = ttl;
        core.packets.attach_payload(image, bytes.into_boxed_slice());
        self.send_over(node, image, to);
    }

    /// Gives a packet to the station of a node.
    #[inline(never)]
    fn send_over(&mut self, node: NodeId, image: ImageId, next_hop: NodeId) {
        if let Some(routing) = &mut self.core.routing {
            routing.set_next_hop(image, next_hop);
        }
        self.enqueue(node, image, next_hop);
    }

    /// Sends a packet over the route to a node of the mesh. Like the other functions here that the event loop calls, it is not
    /// inlined: in the loop, its code would slow down worlds without a routing protocol.
    #[inline(never)]
    pub(super) fn send_routed(&mut self, node: NodeId, image: ImageId, target: NodeId, ingress: Ingress) {
        let packet = self.core.packets.get(image);
        let source = self.network.overlay.as_ref().map_or(packet.source, |overlay| overlay.entry(packet));
        let datagram = Datagram {
            token: image,
            source: address(source),
            destination: address(target),
            previous: match ingress {
                Ingress::Radio(from) => Some(address(from)),
                Ingress::Local | Ingress::Wire => None,
            },
        };
        match self.at_router(node, |machine, ctx| machine.on_data(ctx, datagram)) {
            Some(Decision::Send(next_hop)) => self.send_over(node, image, node_of(next_hop)),
            Some(Decision::Drop(reason)) => self.core.drop_image(image, loss(reason)),
            Some(Decision::Buffered) | None => {}
        }
    }

    /// A node has received a packet by radio that is not a broadcast of an application.
    #[inline(never)]
    pub(super) fn received_routed(&mut self, node: NodeId, image: ImageId, broadcast: bool) {
        let from = self.core.packets.node(image);
        let packet = *self.core.packets.get(image);
        if let Body::Routing = packet.body {
            return self.received_message(node, image, from, broadcast);
        }
        let next = self.network.next_hop(node, &packet);
        if !matches!(next, Some(NextHop::Routed(_))) {
            // It leaves the mesh here.
            let source =
                self.network.overlay.as_ref().map_or(packet.source, |overlay| overlay.entry(&packet));
            if let Some(routing) = &mut self.core.routing {
                let machine = &mut routing.routers[node as usize].machine;
                machine.on_delivered(self.core.events.now(), address(source), address(from));
            }
        }
        let copy = self.core.packets.copy(image, node);
        self.forward(node, copy, Ingress::Radio(from));
    }

    /// A node has received a routing message.
    fn received_message(&mut self, node: NodeId, image: ImageId, from: NodeId, broadcast: bool) {
        let Core { routing: Some(routing), packets, events, .. } = &mut self.core else { return };
        let (view, now) = (packets.view(image), events.now());
        let bytes = view.payload().unwrap_or_default();
        if broadcast && routing.signal_threshold && !self.mesh.decodes_data(from, node, now) {
            return routing.routers[node as usize].machine.on_weak_hello(now, address(from), bytes);
        }
        // A copy, since the machine may send packets. The memory is used again.
        let mut message = std::mem::take(&mut routing.message);
        message.clear();
        message.extend_from_slice(bytes);
        let ttl = view.header.ttl;
        // What is malformed is counted by the machine.
        let _ = self
            .at_router(node, |machine, ctx| machine.on_message(ctx, address(from), broadcast, ttl, &message));
        if let Some(routing) = &mut self.core.routing {
            routing.message = message;
        }
    }

    /// A packet has arrived at the place for which it was sent.
    #[inline(never)]
    pub(super) fn record_path(&mut self, node: NodeId, image: ImageId) {
        let Core { packets, recorder, events, .. } = &mut self.core;
        let Some(record) = &mut recorder.routing else { return };
        let view = packets.view(image);
        if !view.packet.counts_arrived() {
            return;
        }
        // Each node and host on the way has lowered the time to live.
        let between = self.scenario.routing.ttl.saturating_sub(view.header.ttl);
        let is_host = |place: NodeId| place as usize >= self.mesh.len();
        let source = view.packet.source;
        let wires =
            if is_host(node) || is_host(source) { self.network.wires_beside_mesh(source, node) } else { 0 };
        let hops = (u64::from(between) + 1).saturating_sub(wires);
        record.arrived(view.packet.stream, view.packet.created, events.now(), hops);
    }

    /// A timer of a machine.
    pub(super) fn routing_timer(&mut self, event: Event) {
        let Core { routing: Some(routing), events, .. } = &mut self.core else { return };
        let router = &mut routing.routers[event.subject as usize];
        if router.timer.fires(event, events) {
            router.armed = Nanos::MAX;
            self.at_router(event.subject, Aodv::on_timer);
            self.learn_shares(event.subject);
        }
    }

    /// Throttles follow the shares and routes that a node knows now.
    fn learn_shares(&mut self, node: NodeId) {
        if let Self { core, mesh, control: Some(control), .. } = self
            && let Some(throttle) = &mut control.throttle
        {
            throttle.learn(core, mesh, node);
        }
    }

    /// A neighbour has acknowledged a packet.
    #[inline(never)]
    pub(super) fn hop_acknowledged(&mut self, node: NodeId, image: ImageId) {
        let Some(routing) = &mut self.core.routing else { return };
        let next_hop = routing.next_hop(image);
        if next_hop != BROADCAST {
            routing.routers[node as usize].machine.on_acknowledged(address(next_hop));
        }
    }

    /// A station has given up a packet at the retry limit. The image still exists.
    #[inline(never)]
    pub(super) fn hop_failed(&mut self, node: NodeId, image: ImageId) -> Option<(NodeId, bool)> {
        const RREP: u8 = 2;
        let next_hop = self.core.routing.as_ref()?.next_hop(image);
        let view = self.core.packets.view(image);
        let is_reply = matches!(view.packet.body, Body::Routing)
            && view.payload().and_then(<[u8]>::first) == Some(&RREP);
        debug_assert_eq!(self.core.packets.node(image), node);
        (next_hop != BROADCAST).then_some((next_hop, is_reply))
    }

    /// The machine of a node learns that a packet was given up.
    pub(super) fn report_failure(&mut self, node: NodeId, (next_hop, is_reply): (NodeId, bool)) {
        self.at_router(node, |machine, ctx| machine.on_given_up(ctx, address(next_hop), is_reply));
    }

    /// Packets for a neighbour leave the queue of a node.
    fn link_broken(&mut self, node: NodeId, neighbour: NodeId, in_use: bool) {
        let Some(routing) = &mut self.core.routing else { return };
        let on_break = routing.on_break;
        let mut withdrawn = std::mem::take(&mut routing.withdrawn);
        if in_use && self.core.is_measuring() {
            let now = self.core.now();
            let works = (neighbour as usize) < self.mesh.len() && self.mesh.works(node, neighbour, now);
            if let Some(record) = &mut self.core.recorder.routing {
                if works {
                    record.false_breaks += 1;
                } else {
                    record.true_breaks += 1;
                }
            }
        }
        self.mesh.withdraw(&mut self.core, node, neighbour, &mut withdrawn);
        for Waiting { packet: image, .. } in withdrawn.drain(..) {
            let packet = *self.core.packets.get(image);
            let own = packet.source == node && !matches!(packet.body, Body::Routing);
            match self.network.next_hop(node, &packet) {
                Some(NextHop::Routed(target)) if own && on_break == OnBreak::Rebuffer => {
                    self.rebuffer(node, image, target);
                }
                _ => self.core.drop_image(image, Loss::RouteBroken),
            }
        }
        if let Some(routing) = &mut self.core.routing {
            routing.withdrawn = withdrawn;
        }
    }

    /// A packet goes back to the buffer. What the machine asks for comes after what it has asked for before.
    fn rebuffer(&mut self, node: NodeId, image: ImageId, target: NodeId) {
        let Some(mut routing) = self.core.routing.take() else { return };
        let own = address(node);
        let datagram = Datagram { token: image, source: own, destination: address(target), previous: None };
        let decision = routing.act(&mut self.core, node, |machine, ctx| machine.on_data(ctx, datagram));
        self.core.routing = Some(routing);
        match decision {
            Decision::Send(next_hop) => self.send_over(node, image, node_of(next_hop)),
            Decision::Drop(reason) => self.core.drop_image(image, loss(reason)),
            Decision::Buffered => {}
        }
    }

    fn route_changed(&mut self, node: NodeId, destination: Address, over: Option<(Address, u8)>) {
        let Core { routing: Some(routing), recorder, events, .. } = &mut self.core else { return };
        let (now, measuring) = (events.now(), events.now() >= recorder.warmup);
        let looped = over.is_some() && routing.loops(now, node, destination);
        let Some(record) = &mut recorder.routing else { return };
        record.loops += u64::from(looped);
        record.route_changes += u64::from(measuring);
        record.changes.push(RouteChange {
            at: now,
            node,
            destination: node_of(destination),
            over: over.map(|(next_hop, hops)| (node_of(next_hop), hops)),
        });
        self.learn_shares(node);
    }
}
