//! The World: a simulated network, and the loop that handles one event after the other.
//!
//! | module | what it is |
//! |---|---|
//! | [`mesh`] | stations, receivers, links and frames on the air: carries a packet one hop |
//! | [`network`] | routes, hosts and wired links |
//! | [`aodv`] | a routing protocol, where the scenario has one |
//! | [`applications`] | the kinds of traffic, behind one interface |
//! | [`control`], [`gateway`], [`throttle`], [`shaper`] | what holds packets back where they enter the mesh |
//! | [`real`] | packets from outside |
//! | [`changes`] | what becomes of the network during the run |
//! | [`build`] | from a scenario to a World |
//!
//! The path of a packet: an application sends it; [`World::forward`] finds its next hop, and a gateway may hold it; the
//! station contends ([`crate::mac`]) and [`Mesh::transmit`] puts its frame on the air, which reaches every receiver in
//! range ([`crate::radio`]); at the frame's end [`Mesh::frame_end`] asks each of them what it received, and reports it as
//! [`Output`]. The receiver acknowledges and forwards, until the packet reaches its application.

mod aodv;
pub mod applications;
mod build;
mod changes;
pub mod control;
mod core;
mod gateway;
mod mesh;
mod network;
mod real;
pub mod shaper;
mod tap;
pub mod throttle;

use fairhop_model::units::{BitRate, Nanos};

use crate::engine::{Event, EventKind, prefetch};
use crate::mac::{BROADCAST, Frame, FrameKind};
use crate::packet::{Body, ImageId, NodeId, Packet};
use crate::queue::Waiting;
use crate::radio::{Airtime, Links, Position};
use crate::recorder::{Loss, Recorder};
use crate::routing::NextHop;
use crate::scenario::Scenario;
use crate::wired::Link;
use applications::aimd::AimdStream;
use applications::flow::Flow;
use applications::quic::QuicTransfer;
pub use applications::real::{Delivered, Observed, RealClass, RealCounts, RealFlow, Rejected};
use applications::sessions::Session;
use applications::tcp::Transfer;
use applications::video::Video;
use applications::{Applications, Kind};
pub use build::SetupError;
use changes::Changes;
use control::Control;
use core::Core;
use gateway::crossing;
use mesh::{Mesh, Output};
use network::{Ingress, Network};
pub use real::MAX_REAL_BYTES;
pub use tap::Tap;

/// A simulated network and everything in it.
pub struct World {
    scenario: Scenario,
    seed: u64,
    core: Core,
    mesh: Mesh,
    network: Network,
    applications: Applications,
    control: Option<Box<Control>>,
    changes: Option<Box<Changes>>,
    end: Nanos,
    finished: bool,
}

impl World {
    /// The scenario that it was built from.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The seed that it was built with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The simulated time.
    pub fn now(&self) -> Nanos {
        self.core.now()
    }

    /// When the run ends.
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// Events handled so far.
    pub fn events_handled(&self) -> u64 {
        self.core.events.handled()
    }

    /// What was measured so far.
    pub fn recorder(&self) -> &Recorder {
        &self.core.recorder
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.applications.flows
    }

    /// The TCP transfers.
    pub fn transfers(&self) -> &[Transfer] {
        &self.applications.tcp.transfers
    }

    /// The sessions of web and request flows.
    pub fn sessions(&self) -> &[Session] {
        &self.applications.tcp.sessions
    }

    /// The streams of video.
    pub fn videos(&self) -> &[Video] {
        &self.applications.videos.streams
    }

    /// The streams of AIMD datagrams.
    pub fn aimd_streams(&self) -> &[AimdStream] {
        &self.applications.aimd.streams
    }

    /// The transfers over QUIC-like datagrams.
    pub fn quic_transfers(&self) -> &[QuicTransfer] {
        &self.applications.quic.transfers
    }

    /// The radio links between nodes.
    pub fn links(&self) -> &Links {
        self.mesh.links()
    }

    /// Whether a node moves along a trajectory.
    pub fn moves(&self, node: usize) -> bool {
        self.mesh.moves(node)
    }

    /// The place of a node with radio at a time that is not before the last event.
    pub fn place(&self, node: usize, at: Nanos) -> Position {
        self.mesh.place(node, at)
    }

    /// How many wireless nodes there are; hosts without radio have the numbers after them, the Internet host first.
    pub fn node_count(&self) -> usize {
        self.mesh.len()
    }

    /// The names of the hosts without radio, in the order of their numbers.
    pub fn hosts(&self) -> &[String] {
        &self.network.hosts
    }

    /// The name of a host, or the number of a node.
    pub fn name_of(&self, node: NodeId) -> String {
        match (node as usize).checked_sub(self.mesh.len()).and_then(|host| self.network.hosts.get(host)) {
            Some(name) => name.clone(),
            None => node.to_string(),
        }
    }

    /// Directions of wired links: of the Internet, to it and from it, of each gateway, then of the others forward and
    /// backward, in the order of the scenario.
    pub fn wired(&self) -> &[Link] {
        &self.network.wired
    }

    /// Packets that wait at a station, the one in service included; 0 at a host without radio.
    pub fn backlog(&self, node: usize) -> usize {
        if node < self.mesh.len() { self.mesh.backlog(node) } else { 0 }
    }

    /// Airtime of a station from the end of the warm-up to the end of the run, or to now.
    pub fn airtime(&self, node: usize) -> Airtime {
        let until = if self.finished { self.end } else { self.now() };
        self.mesh.airtime(node, until).since(&self.recorder().nodes[node].airtime_warmup)
    }

    /// The rate that throttling allows a flow now, in b/s of payload; none where it is not throttled.
    pub fn throttled_rate(&self, flow: usize) -> Option<BitRate> {
        self.control.as_deref()?.throttle.as_ref()?.rate(flow)
    }

    /// Sets the observer of frames and packets.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.core.tap = Some(tap);
    }

    /// Handles all events up to and including `until`, or the end of the scenario.
    pub fn run_until(&mut self, until: Nanos) {
        let until = until.min(self.end);
        while let Some(event) = self.core.events.pop_until(until) {
            self.handle(event);
        }
        if until == self.end {
            self.finish_at(self.end);
        }
    }

    /// When the next event is due; none where none remains.
    pub fn next_time(&mut self) -> Option<Nanos> {
        self.core.events.next_time()
    }

    /// Handles all events up to and including `at`, and lets the time be `at`, though no event may be due then: for input
    /// from outside at a wall-clock time. `at` must not be before [`World::now`]; times after the end stand for the end.
    pub fn advance_to(&mut self, at: Nanos) {
        let at = at.min(self.end);
        self.run_until(at);
        self.core.events.advance_to(at);
    }

    /// Runs to the end of the scenario.
    pub fn run(&mut self) {
        self.run_until(self.end);
    }

    /// Ends the run early: what was measured up to `at` counts.
    pub fn stop(&mut self, at: Nanos) {
        self.finish_at(at);
    }

    fn finish_at(&mut self, at: Nanos) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.end = at;
        let Self { core, mesh, network, .. } = self;
        mesh.finish_records(core, at);
        let Core { packets, recorder, .. } = core;
        network.finish_records(at, recorder.warmup);
        if let Some(routing) = &mut recorder.routing {
            let stops = self.applications.flows.iter().flat_map(|flow| [flow.stop; 2]);
            routing.finish(at, stops);
        }
        for packet in packets.unsettled().filter(|packet| packet.is_counted()) {
            recorder.packet_unfinished(packet, at);
        }
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        let Self { core, mesh, .. } = self;
        match event.kind {
            EventKind::FrameEnd => mesh.frame_end(core, event.subject),
            EventKind::Access => {
                if let Some(frame) = mesh.access(core, event.subject) {
                    self.transmit(event.subject, frame);
                }
                return; // nothing for the layers above
            }
            EventKind::Response => {
                if let Some(frame) = mesh.response(core, event.subject) {
                    self.transmit(event.subject, frame);
                }
                return;
            }
            EventKind::ResponseTimeout => mesh.response_timeout(core, event.subject),
            _ => self.handle_rarer(event),
        }
        self.handle_outputs();
    }

    /// Events that do not belong to a frame. Apart, so that the event loop stays small.
    #[inline(never)]
    fn handle_rarer(&mut self, event: Event) {
        let Self { core, mesh, network, applications, .. } = self;
        match event.kind {
            // Handled by the caller.
            EventKind::FrameEnd | EventKind::Access | EventKind::Response | EventKind::ResponseTimeout => {}
            EventKind::NavCheck => mesh.nav_check(core, event),
            EventKind::WiredArrival => {
                if let Some((node, image)) = network.arrive(core, event.subject as usize) {
                    self.forward(node, image, Ingress::Wire);
                }
            }
            EventKind::LinkFree => network.link_free(core, event.subject as usize),
            EventKind::Change => self.change_event(event),
            EventKind::Control => self.control_event(),
            EventKind::Pace => self.pace_timer(event),
            EventKind::Throttle => {
                if let Some(throttle) = self.control.as_mut().and_then(|control| control.throttle.as_mut()) {
                    throttle.on_timer(core, mesh, event);
                }
            }
            EventKind::Source => {
                applications.on_source(core, event.subject);
                self.originate();
            }
            EventKind::TcpSender | EventKind::TcpReceiver => self.application_timer(Kind::Tcp, event),
            EventKind::AimdSender => self.application_timer(Kind::Aimd, event),
            EventKind::QuicSender | EventKind::QuicReceiver => self.application_timer(Kind::Quic, event),
            EventKind::Routing => self.routing_timer(event),
            EventKind::Sample => self.sample(),
        }
    }

    fn application_timer(&mut self, kind: Kind, event: Event) {
        self.applications.on_timer(&mut self.core, kind, event);
        self.originate();
    }

    /// Puts a frame on the air.
    #[inline]
    fn transmit(&mut self, node: NodeId, frame: Frame) {
        if self.mesh.prefetches() && frame.kind == FrameKind::Data && frame.to != BROADCAST {
            self.prefetch_for_receiving(frame.to, frame.packet);
        }
        self.mesh.transmit(&mut self.core, node, frame);
    }

    /// A node will receive a packet, acknowledge it, and forward it or hand it to its application: prefetches what that
    /// needs.
    #[inline]
    fn prefetch_for_receiving(&self, node: NodeId, image: ImageId) {
        self.mesh.prefetch_for_sending(&self.core, node);
        let packet = self.core.packets.get(image);
        if packet.destination == node {
            // Routing messages belong to no stream.
            if let Some(stream) = self.core.recorder.streams.get(packet.stream as usize) {
                prefetch(stream);
            }
        } else {
            self.network.routes.prefetch_hop(node);
        }
    }

    /// Moves packets as the mesh has reported. Moving one may make a queue drop another, which is output too.
    #[inline(always)]
    fn handle_outputs(&mut self) {
        let mut position = 0;
        while let Some(output) = self.mesh.output(position) {
            position += 1;
            match *output {
                Output::Delivered { node, image, broadcast } => self.received(node, image, broadcast),
                Output::Sent { node, image } => {
                    if self.core.routing.is_some() {
                        self.hop_acknowledged(node, image);
                    }
                    self.core.packets.release(image);
                    self.mesh.record_backlog(&mut self.core, node);
                    self.feed(node);
                }
                Output::Dropped { node, image, reason } => {
                    let failure = if reason == Loss::RetryLimit && self.core.routing.is_some() {
                        self.hop_failed(node, image)
                    } else {
                        None
                    };
                    self.core.drop_image(image, reason);
                    self.mesh.record_backlog(&mut self.core, node);
                    if let Some(failure) = failure {
                        self.report_failure(node, failure);
                    }
                    self.feed(node);
                }
            }
        }
        if position > 0 {
            self.mesh.clear_outputs();
        }
        if !self.core.lost.is_empty() {
            self.applications.on_losses(&mut self.core);
        }
    }

    /// A station may take another packet from the throttle of its node.
    #[inline]
    fn feed(&mut self, node: NodeId) {
        if let Some(throttle) = self.control.as_mut().and_then(|control| control.throttle.as_mut()) {
            throttle.feed(&mut self.core, &mut self.mesh, node);
        }
    }

    /// A station has received a packet that is new to it; the image is its sender's.
    #[inline]
    fn received(&mut self, node: NodeId, image: ImageId, broadcast: bool) {
        let arrived = self.core.packets.get(image).destination == node;
        if self.core.routing.is_some() && !self.is_application_broadcast(image, broadcast) {
            self.received_routed(node, image, broadcast);
        } else if broadcast {
            self.applications.on_broadcast(&mut self.core, node, image);
            self.originate();
        } else if arrived && self.control.is_none() {
            // No gateway looks at it: it needs no image here.
            self.core.packets.settle(image);
            self.deliver(image);
        } else {
            let from = self.core.packets.node(image);
            let copy = self.core.packets.copy(image, node);
            self.forward(node, copy, Ingress::Radio(from));
        }
    }

    /// Whether an application has sent a packet to all neighbours.
    fn is_application_broadcast(&self, image: ImageId, broadcast: bool) -> bool {
        broadcast && !matches!(self.core.packets.get(image).body, Body::Routing)
    }

    /// A node has a packet, from outside or of its own, and decides what becomes of it.
    fn forward(&mut self, node: NodeId, image: ImageId, ingress: Ingress) {
        let packet = self.core.packets.get(image);
        let Some(next) = self.network.next_hop(node, packet) else {
            return self.core.drop_image(image, Loss::NoRoute);
        };
        if let Some(control) = &mut self.control
            && let Some(direction) = crossing(ingress, next)
            && let Some(index) = control.gateway_at(node)
            && let backlog = self.mesh.backlog(node as usize)
            && !control.gateway_mut(index).cross(&mut self.core, image, direction, backlog)
        {
            return self.poll_gateway(index);
        }
        self.send(node, image, next, ingress);
    }

    /// Sends on a packet that has waited at a gateway.
    fn send_on(&mut self, node: NodeId, image: ImageId) {
        // Routes may have changed meanwhile.
        match self.network.next_hop(node, self.core.packets.get(image)) {
            // Gateways hold back only what enters the mesh or leaves it.
            Some(next) => self.send(node, image, next, Ingress::Wire),
            None => self.core.drop_image(image, Loss::NoRoute),
        }
    }

    /// Sends a packet to its next hop.
    #[inline]
    fn send(&mut self, node: NodeId, image: ImageId, next: NextHop, ingress: Ingress) {
        let &Packet { source, .. } = self.core.packets.get(image);
        if next == NextHop::Local {
            self.core.packets.settle(image);
            if self.core.routing.is_some() {
                self.record_path(node, image);
            }
            self.deliver(image);
            return self.core.packets.release(image);
        }
        if source != node {
            let header = self.core.packets.header_mut(image);
            header.ttl -= 1;
            if header.ttl == 0 {
                return self.core.drop_image(image, Loss::Ttl);
            }
        }
        let receiver = match next {
            NextHop::Wire(direction) => return self.network.send(&mut self.core, direction as usize, image),
            NextHop::Radio(neighbour) => neighbour,
            NextHop::Routed(target) => return self.send_routed(node, image, target, ingress),
            NextHop::Broadcast | NextHop::Local => BROADCAST,
        };
        self.enqueue(node, image, receiver);
    }

    /// Gives a packet to the throttle or the station of a node.
    #[inline(always)]
    fn enqueue(&mut self, node: NodeId, image: ImageId, receiver: NodeId) {
        let bytes = self.core.packets.get(image).bytes;
        let waiting = Waiting { packet: image, next_hop: receiver, bytes };
        let Self { core, mesh, control, .. } = self;
        if let Some(throttle) = control.as_mut().and_then(|control| control.throttle.as_mut())
            && throttle.is_on()
        {
            throttle.offer(core, mesh, node, waiting);
        } else if let Err(reason) = mesh.enqueue(core, node, waiting) {
            let is_voice = matches!(core.packets.view(image).packet.body, Body::Rtp { .. });
            core.drop_image(image, reason);
            if let Some(control) = control.as_mut().filter(|_| is_voice) {
                control.own_drop(node, core.now());
            }
        }
    }

    /// Hands a packet to its application. The image remains.
    fn deliver(&mut self, image: ImageId) {
        self.applications.on_packet(&mut self.core, image);
        self.originate();
    }

    /// Forwards what applications have sent.
    fn originate(&mut self) {
        while let Some(image) = self.applications.take_sent() {
            let node = self.core.packets.node(image);
            if self.mesh.prefetches() && (node as usize) < self.mesh.len() {
                self.mesh.prefetch_for_sending(&self.core, node);
            }
            self.forward(node, image, Ingress::Local);
        }
    }

    #[inline(never)]
    fn sample(&mut self) {
        let Self { core, mesh, applications, .. } = self;
        applications.sample(core);
        mesh.sample(core);
        let next = core.recorder.next_sample(core.now());
        if next <= self.end {
            core.events.push(next, EventKind::Sample, 0);
        }
    }
}

// Replications run on threads of their own.
const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<World>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packets;
    use crate::routing::Routes;
    use crate::scenario::{Override, load, ready_made};

    fn k_mix(duration_s: u32) -> World {
        let ready = ready_made("k-mix").expect("ready-made");
        let overrides = [Override::new(format!("duration_s={duration_s}")), Override::new("warmup_s=0")];
        let loaded = load("k-mix.toml", ready.text, &overrides).expect("a scenario");
        World::new(&loaded.scenario, 1).expect("a network")
    }

    #[test]
    fn a_packet_without_a_route_is_lost_for_that_reason_and_not_for_the_radio() {
        let mut world = k_mix(1);
        world.network.routes = Routes::default();
        world.run();
        let lost =
            |why: Loss| world.recorder().streams.iter().map(|stream| stream.lost[why as usize]).sum::<u64>();
        assert!(lost(Loss::NoRoute) > 400, "{}", lost(Loss::NoRoute));
        assert_eq!((lost(Loss::RetryLimit), world.recorder().frames), (0, 0));
    }

    #[test]
    fn a_packet_whose_time_to_live_runs_out_is_lost_for_that_reason() {
        let mut world = k_mix(1);
        // Shorter than any scenario with these paths may have it.
        world.core.packets = Packets::new(16, 3);
        world.run();
        let streams = &world.recorder().streams;
        assert!(streams.iter().all(|stream| stream.arrived == 0));
        // Both directions of the calls; no download gets as far as an ACK.
        assert!(streams[..10].iter().all(|stream| stream.lost[Loss::Ttl as usize] > 0));
        assert!(streams.iter().all(|stream| stream.lost[Loss::NoRoute as usize] == 0));
    }

    #[test]
    fn time_from_outside_changes_nothing_in_what_happens() {
        let (mut alone, mut clocked) = (k_mix(2), k_mix(2));
        alone.run();
        let mut at = Nanos::ZERO;
        while at < clocked.end() {
            at += Nanos(700_001);
            clocked.advance_to(at);
            assert_eq!(clocked.now(), at.min(clocked.end()));
            assert!(clocked.next_time().is_none_or(|next| next > at || at > clocked.end()));
        }
        assert_eq!(alone.recorder().fingerprint, clocked.recorder().fingerprint);
        assert_eq!(alone.events_handled(), clocked.events_handled());
    }
}
