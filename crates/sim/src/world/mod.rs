//! The World: stations, links and flows, and the loop that takes one event after the other.
//!
//! The way of a packet: a source makes it ([`traffic`]); [`World::forward`] finds its next hop and puts it into a
//! station's queue; the station contends ([`crate::mac`]) and [`World::transmit`] puts its frame on the air, which tells
//! every receiver in reach ([`crate::radio`]); at the frame's end [`World::frame_end`] asks each of them what it got.
//! Who received it acknowledges and forwards, until [`World::arrived`] hands the packet to its flow.

pub mod aimd;
mod build;
mod changes;
pub mod control;
pub mod quic;
mod reports;
pub mod sessions;
pub mod shaper;
pub mod throttle;
pub mod traffic;
pub mod video;

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{Segment, SenderState};

use crate::engine::{Event, EventKind, Events, fetch_ahead};
use crate::mac::{
    BROADCAST, Context, Data, Done, Frame, FrameKind, MacParams, Received, Stations, for_stations,
};
use crate::packet::{Body, Ecn, NodeId, Packet, PacketId, Packets};
use crate::queue::{Refused, Waiting};
use crate::radio::{Airtime, Departure, Links, Outcome, RadioParams, Receiver, Signal};
use crate::recorder::{Loss, NodeSample, Recorder, TcpSample};
use crate::routing::{Routes, WIRE};
use crate::scenario::Scenario;
use crate::wired::{Arrived, Link, LinkContext};
use changes::Changes;
use control::Control;
use reports::Reporter;
use sessions::Session;
use traffic::{Flow, FlowKind, IP_HEADER, RTP_HEADER, Source, Transfer, UDP_HEADER, flow_of};
use video::Video;

/// Somebody who watches packets and frames go by, to write them down.
pub trait Tap {
    /// A station has sent (`received` false) or received a frame that began at `at` on its antenna.
    fn frame(
        &mut self,
        node: NodeId,
        at: Nanos,
        frame: &Frame,
        from: NodeId,
        packet: Option<&Packet>,
        received: bool,
    );
    /// Nodes have moved, or rates have changed: from `at` on, what is sent is heard over these links.
    fn network_changed(&mut self, _at: Nanos, _links: &Links) {}
    /// A packet enters (`arrived` false) or leaves a wired link at one of its ends; `peer` is the other one.
    fn wired(&mut self, node: NodeId, peer: NodeId, at: Nanos, packet: &Packet, arrived: bool);
}

/// A simulated network and everything in it.
pub struct World {
    scenario: Scenario,
    seed: u64,
    events: Events,
    radio: RadioParams,
    mac: MacParams,
    links: Links,
    receivers: Vec<Receiver>,
    stations: Stations,
    on_air: OnAirs,
    /// The network is so large that its state is not in the nearer caches: what is needed soon is fetched ahead.
    fetches: bool,
    /// What the end of a frame means to those who received it; empty between events.
    consequences: Vec<(NodeId, Received)>,
    routes: Routes,
    /// Names of the hosts without radio.
    hosts: Vec<String>,
    /// Directions of wired links.
    wired: Vec<Link>,
    packets: Packets,
    flows: Vec<Flow>,
    sources: Vec<Source>,
    transfers: Vec<Transfer>,
    sessions: Vec<Session>,
    videos: Vec<Video>,
    aimd: Vec<aimd::AimdStream>,
    quic: Vec<quic::QuicTransfer>,
    /// Ends of calls that report, by stream.
    reporters: Vec<Reporter>,
    changes: Option<Box<Changes>>,
    control: Option<Box<Control>>,
    recorder: Recorder,
    end: Nanos,
    finished: bool,
    tap: Option<Box<dyn Tap>>,
}

/// A transmission: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct OnAir {
    frame: Frame,
    start: Nanos,
    end: Nanos,
}

/// All transmissions. Their places are used again, so that however many nodes there are, few lines are touched.
#[derive(Debug)]
struct OnAirs {
    slots: Vec<OnAir>,
    free: Vec<u32>,
    /// Where the transmission of each node is.
    of_node: Vec<u32>,
}

impl OnAirs {
    const NONE: u32 = u32::MAX;

    fn new(nodes: usize) -> Self {
        Self {
            slots: Vec::with_capacity(nodes),
            free: Vec::with_capacity(nodes),
            of_node: vec![Self::NONE; nodes],
        }
    }

    /// The transmission of a node, where it sends.
    fn of(&self, node: usize) -> Option<&OnAir> {
        self.slots.get(self.of_node[node] as usize)
    }

    #[inline]
    fn begin(&mut self, node: usize, on_air: OnAir) {
        self.of_node[node] = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = on_air;
                slot
            }
            None => {
                self.slots.push(on_air);
                (self.slots.len() - 1) as u32
            }
        };
    }

    #[inline]
    fn end(&mut self, node: usize) -> Option<OnAir> {
        let slot = std::mem::replace(&mut self.of_node[node], Self::NONE);
        let on_air = self.slots.get(slot as usize)?;
        self.free.push(slot);
        Some(*on_air)
    }
}

/// Why a packet is lost that a station's queue drops.
const fn loss_at_station(why: Refused) -> Loss {
    match why {
        Refused::Full => Loss::QueueFull,
        Refused::Early => Loss::Aqm,
    }
}

impl World {
    /// So many stations, with some 1.5 kB each, fit the caches that a core has to itself.
    const FEW: usize = 256;

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
        self.events.now()
    }

    /// When the run ends.
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// Events handled so far.
    pub fn events_handled(&self) -> u64 {
        self.events.handled()
    }

    /// What was measured so far.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The TCP transfers.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The sessions of web and request flows.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The streams of video.
    pub fn videos(&self) -> &[Video] {
        &self.videos
    }

    /// Who hears whom.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// How many wireless nodes there are; hosts without radio have the numbers after them, the Internet host first.
    pub fn node_count(&self) -> usize {
        self.stations.len()
    }

    /// The names of the hosts without radio, in the order of their numbers.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// What a node or host is called: its number, or its name.
    pub fn name_of(&self, node: NodeId) -> String {
        match (node as usize).checked_sub(self.stations.len()).and_then(|host| self.hosts.get(host)) {
            Some(name) => name.clone(),
            None => node.to_string(),
        }
    }

    /// Directions of wired links: of the Internet towards it and from it, of each gateway, then of the others forward and backward, in the
    /// order of the scenario.
    pub fn wired(&self) -> &[Link] {
        &self.wired
    }

    /// Packets that wait at a station, the one in service included.
    pub fn backlog(&self, node: usize) -> usize {
        self.stations.backlog(node)
    }

    /// Lets somebody watch.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// Handles all events up to and including `until`, or the end of the scenario.
    pub fn run_until(&mut self, until: Nanos) {
        let until = until.min(self.end);
        while let Some(event) = self.events.pop_until(until) {
            self.handle(event);
        }
        if until == self.end {
            self.finish_at(self.end);
        }
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
        for node in 0..self.stations.len() {
            self.recorder.nodes[node].set_backlog(self.stations.backlog(node), at, self.recorder.warmup);
        }
        for link in &mut self.wired {
            link.finish(at, self.recorder.warmup);
        }
        let unfinished: Vec<Packet> =
            self.packets.alive().filter(|packet| !packet.settled && packet.is_counted()).copied().collect();
        for packet in unfinished {
            self.recorder.packet_unfinished(&packet, at);
        }
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        let node = event.subject as usize;
        match event.kind {
            EventKind::FrameEnd => self.frame_end(event.subject),
            EventKind::Access => {
                if let Some(frame) = self.at_station(node, Stations::on_access) {
                    self.transmit(event.subject, frame);
                }
            }
            EventKind::Response => {
                if let Some(frame) = self.at_station(node, Stations::on_response) {
                    self.transmit(event.subject, frame);
                }
            }
            EventKind::ResponseTimeout => {
                let arriving = self.receivers[node].locked_since();
                let done = self.at_station(node, |stations, ctx| stations.on_timeout(ctx, arriving));
                self.settle(event.subject, done);
            }
            _ => self.handle_rarer(event),
        }
    }

    /// What does not happen at every frame. Apart, so that the loop over events stays small.
    #[inline(never)]
    fn handle_rarer(&mut self, event: Event) {
        let node = event.subject as usize;
        match event.kind {
            // Handled where it is most frequent.
            EventKind::FrameEnd | EventKind::Access | EventKind::Response | EventKind::ResponseTimeout => {}
            EventKind::NavCheck => {
                let arriving = self.receivers[node].locked_since();
                self.at_station(node, |stations, ctx| stations.on_nav_check(ctx, event, arriving));
            }
            EventKind::WiredArrival => self.wired_arrival(node),
            EventKind::LinkFree => {
                self.at_link(node, Link::free);
                self.bury_given_up_at_link(node);
            }
            EventKind::Change => self.change_event(event),
            EventKind::Control => self.control_event(),
            EventKind::Pace => self.pace_timer(event),
            EventKind::Throttle => self.throttle_timer(event),
            EventKind::Source => self.source(node),
            EventKind::TcpSender => {
                let transfer = &mut self.transfers[node];
                if transfer.sender_timer.fires(event, &mut self.events) {
                    transfer.sender.on_timer(event.at);
                    let session = transfer.session;
                    self.pump_sender(node);
                    if let Some(session) = session
                        && self.transfers[node].sender.state() == SenderState::Failed
                    {
                        self.session_failed(session);
                    }
                }
            }
            EventKind::TcpReceiver => {
                let transfer = &mut self.transfers[node];
                if transfer.receiver_timer.fires(event, &mut self.events) {
                    transfer.receiver.on_timer(event.at);
                    self.pump_receiver(node);
                }
            }
            EventKind::AimdSender => {
                if self.aimd[node].timer.fires(event, &mut self.events) {
                    self.aimd_timer(node, event.at);
                }
            }
            EventKind::QuicSender => {
                if self.quic[node].sender_timer.fires(event, &mut self.events) {
                    self.quic_timer(node, false, event.at);
                }
            }
            EventKind::QuicReceiver => {
                if self.quic[node].receiver_timer.fires(event, &mut self.events) {
                    self.quic_timer(node, true, event.at);
                }
            }
            EventKind::Sample => self.sample(),
        }
    }

    #[inline]
    fn at_station<T>(&mut self, node: usize, act: impl FnOnce(&mut Stations, &mut Context<'_>) -> T) -> T {
        let mut ctx = Context {
            events: &mut self.events,
            params: &self.mac,
            packets: &mut self.packets,
            node: node as u32,
        };
        act(&mut self.stations, &mut ctx)
    }

    // ---- frames ----

    /// Puts a frame on the air.
    fn transmit(&mut self, node: NodeId, frame: Frame) {
        let index = node as usize;
        let start = self.events.now();
        let end = start + frame.time;
        if self.fetches && frame.kind == FrameKind::Data && frame.to != BROADCAST {
            self.fetch_for_receiving(frame.to, frame.packet);
        }
        self.recorder.frame_sent(start, node, frame.kind as u32, frame.bytes, frame.retry);
        self.receivers[index].begin_transmission(start, end);
        let Self { links, receivers, stations, events, mac, radio, packets, .. } = self;
        for_stations!(stations, stations => for link in links.from(index) {
            let arrive = start + link.delay();
            let signal =
                Signal { from: node, rate: frame.rate, power: link.power, arrive, end: arrive + frame.time };
            let peer = link.to as usize;
            if let Some(locked) = receivers[peer].arrive(radio, signal) {
                let ctx = &mut Context { events, params: mac, packets, node: link.to };
                stations[peer].medium_busy(ctx, arrive, locked);
            }
        });
        self.on_air.begin(index, OnAir { frame, start, end });
        self.events.set_station(end + self.links.longest_delay(index), EventKind::FrameEnd, node);
        if let Some(tap) = &mut self.tap {
            let packet = (frame.packet != PacketId::MAX).then(|| self.packets.get(frame.packet));
            tap.frame(node, start, &frame, node, packet, false);
        }
    }

    /// A node will send soon: what it needs for that is fetched meanwhile.
    #[inline]
    fn fetch_for_sending(&self, node: NodeId) {
        let node = node as usize;
        fetch_ahead(self.links.from(node));
        fetch_ahead(&self.recorder.nodes[node]);
        for_stations!(&self.stations, stations => fetch_ahead(&stations[node]));
    }

    /// A node will receive a packet soon, acknowledge it, and forward it or hand it to its flow.
    #[inline]
    fn fetch_for_receiving(&self, node: NodeId, packet: PacketId) {
        self.fetch_for_sending(node);
        let packet = self.packets.get(packet);
        if packet.destination == node {
            fetch_ahead(&self.recorder.streams[packet.stream as usize]);
        } else {
            self.routes.fetch_hop(node);
        }
    }

    /// A frame has ended at everybody who hears it: first the radios and stations learn of it, then packets move.
    fn frame_end(&mut self, node: NodeId) {
        let index = node as usize;
        let Some(OnAir { frame, start, end }) = self.on_air.end(index) else { return };
        let done = self.at_station(index, |stations, ctx| stations.on_sent(ctx, &frame, end));
        let idle_since = self.receivers[index].end_transmission(&self.radio);
        if idle_since != Nanos::MAX {
            self.at_station(index, |stations, ctx| stations.medium_idle(ctx, idle_since));
        }

        let Self { links, receivers, stations, events, mac, radio, recorder, consequences, packets, .. } =
            self;
        for_stations!(stations, stations => for link in links.from(index) {
            let peer = link.to as usize;
            let for_me = frame.to == link.to || frame.to == BROADCAST;
            let Departure { outcome, idle_since } = receivers[peer].depart(radio, node, for_me);
            let station = &mut stations[peer];
            let ctx = &mut Context { events, params: mac, packets, node: link.to };
            let ended = end + link.delay();
            let received = match outcome {
                Outcome::Received => station.on_received(ctx, node, &frame, ended),
                Outcome::Lost(_) => Received { data: Data::None, done: station.on_lost(ctx) },
                Outcome::Missed(_) => Received::default(),
            };
            if idle_since != Nanos::MAX {
                station.medium_idle(ctx, idle_since);
            }
            if received.matters() {
                consequences.push((link.to, received));
            }
            if for_me && let Outcome::Lost(why) | Outcome::Missed(why) = outcome {
                recorder.frame_lost(ended, link.to, why);
            }
            if let Some(tap) = &mut self.tap
                && outcome == Outcome::Received
            {
                let packet = (frame.packet != PacketId::MAX).then(|| packets.get(frame.packet));
                tap.frame(link.to, start + link.delay(), &frame, node, packet, true);
            }
        });

        for position in 0..self.consequences.len() {
            let (peer, Received { data, done }) = self.consequences[position];
            self.settle(peer, done);
            if data == Data::New {
                self.received(peer, &frame);
            }
        }
        self.consequences.clear();
        self.settle(node, done);
    }

    /// A station has done with a packet.
    fn settle(&mut self, node: NodeId, done: Option<Done>) {
        let Some(Done { packet, delivered }) = done else { return };
        if !delivered {
            self.drop_packet(node, packet, Loss::RetryLimit);
        } else {
            self.packets.release(packet);
        }
        self.bury_given_up();
        if self.control.is_some() {
            self.feed(node);
        }
        self.note_backlog(node);
    }

    /// Sees to packets that queues have dropped. A packet that waits has got no further than there.
    #[inline]
    fn bury_given_up(&mut self) {
        while let Some((id, why)) = self.packets.take_given_up() {
            let node = self.packets.get(id).at;
            self.note_refusal(node, why);
            self.drop_packet(node, id, loss_at_station(why));
        }
    }

    fn note_refusal(&mut self, node: NodeId, why: Refused) {
        if self.events.now() >= self.recorder.warmup {
            let record = &mut self.recorder.nodes[node as usize];
            match why {
                Refused::Full => record.queue_drops += 1,
                Refused::Early => record.early_drops += 1,
            }
        }
    }

    /// A holder of a packet gives it up. It is lost unless somebody nearer to its destination has it.
    fn drop_packet(&mut self, node: NodeId, id: PacketId, why: Loss) {
        let packet = self.packets.get_mut(id);
        if packet.at == node && !std::mem::replace(&mut packet.settled, true) {
            if packet.is_counted() {
                self.recorder.packet_lost(packet, why);
            }
            if let (Body::Udp { sequence }, FlowKind::Video(video)) =
                (packet.body, self.flows[flow_of(packet.stream)].kind)
            {
                self.video_packet(video, sequence, false);
            }
        }
        self.packets.release(id);
    }

    #[inline(always)]
    fn note_backlog(&mut self, node: NodeId) {
        let backlog = self.stations.backlog(node as usize);
        self.recorder.nodes[node as usize].set_backlog(backlog, self.events.now(), self.recorder.warmup);
    }

    // ---- packets ----

    /// A station has received a data frame that it had not had.
    fn received(&mut self, node: NodeId, frame: &Frame) {
        if frame.to == BROADCAST {
            let packet = *self.packets.get(frame.packet);
            self.recorder.broadcast_received(&packet, node, self.events.now());
            self.recorder.delivered(packet.stream, u64::from(Self::payload(&packet)), self.events.now());
            return;
        }
        if self.control.is_some() && self.out_of_mesh(node, frame.packet) {
            return;
        }
        let packet = self.packets.get(frame.packet);
        if packet.destination == node {
            self.arrived(frame.packet);
        } else {
            self.packets.hold(frame.packet);
            self.forward(node, frame.packet);
        }
    }

    /// Sends a packet that `node` holds on its way.
    fn forward(&mut self, node: NodeId, id: PacketId) {
        let packet = self.packets.get_mut(id);
        packet.at = node;
        let &mut Packet { source, destination, bytes, .. } = packet;
        let next_hop = if destination == BROADCAST {
            Some(BROADCAST)
        } else {
            self.routes.next_hop(node, source, destination)
        };
        // Every flow was given its route when the World was built.
        let Some(next_hop) = next_hop else { return self.drop_packet(node, id, Loss::NoRoute) };
        if next_hop & WIRE != 0 && next_hop != BROADCAST {
            return self.send_wired((next_hop & !WIRE) as usize, id);
        }
        let waiting = Waiting { packet: id, next_hop, bytes };
        if self.control.is_some() && self.is_throttled() {
            return self.throttled(node, waiting);
        }
        self.enqueue(node, waiting);
    }

    /// Puts a packet into the queue of a station.
    #[inline]
    fn enqueue(&mut self, node: NodeId, waiting: Waiting) {
        match self.at_station(node as usize, |stations, ctx| stations.enqueue(ctx, waiting)) {
            Ok(()) => {
                self.bury_given_up();
                self.note_backlog(node);
            }
            Err(why) => self.refused(node, waiting.packet, why),
        }
    }

    /// The queue of a node does not take a packet.
    fn refused(&mut self, node: NodeId, id: PacketId, why: Refused) {
        self.note_refusal(node, why);
        self.drop_packet(node, id, loss_at_station(why));
    }

    fn send_wired(&mut self, direction: usize, id: PacketId) {
        let bytes = self.packets.get(id).bytes;
        match self.at_link(direction, |link, ctx| link.send(ctx, id, bytes)) {
            Ok(()) => {
                if let Some(tap) = &mut self.tap {
                    let link = &self.wired[direction];
                    tap.wired(link.from(), link.to(), self.events.now(), self.packets.get(id), false);
                }
            }
            Err(why) => self.drop_at_link(direction, id, why),
        }
        self.bury_given_up_at_link(direction);
    }

    #[inline]
    fn at_link<T>(&mut self, link: usize, act: impl FnOnce(&mut Link, &mut LinkContext<'_>) -> T) -> T {
        let mut ctx = LinkContext {
            events: &mut self.events,
            packets: &mut self.packets,
            warmup: self.recorder.warmup,
            link: link as u32,
        };
        act(&mut self.wired[link], &mut ctx)
    }

    fn bury_given_up_at_link(&mut self, link: usize) {
        while let Some((id, why)) = self.packets.take_given_up() {
            self.drop_at_link(link, id, why);
        }
    }

    fn drop_at_link(&mut self, link: usize, id: PacketId, why: Refused) {
        let now = self.events.now();
        self.wired[link].record_mut().dropped(why, now, self.recorder.warmup);
        let node = self.wired[link].from();
        self.drop_packet(
            node,
            id,
            match why {
                Refused::Full => Loss::WiredQueueFull,
                Refused::Early => Loss::Aqm,
            },
        );
    }

    fn wired_arrival(&mut self, direction: usize) {
        let Some(Arrived { packet: id, lost }) = self.at_link(direction, Link::arrive) else { return };
        self.recorder.wire_crossed(self.events.now(), direction as u32, self.packets.get(id).bytes, lost);
        if lost {
            return self.drop_packet(self.wired[direction].from(), id, Loss::Link);
        }
        let (from, node) = (self.wired[direction].from(), self.wired[direction].to());
        if let Some(tap) = &mut self.tap {
            tap.wired(node, from, self.events.now(), self.packets.get(id), true);
        }
        if self.packets.get(id).destination == node {
            self.arrived(id);
            self.packets.release(id);
        } else {
            self.towards_mesh(node, id);
        }
    }

    /// A packet has arrived where it goes.
    fn arrived(&mut self, id: PacketId) {
        let now = self.events.now();
        let packet = self.packets.get_mut(id);
        packet.settled = true;
        let packet = *packet;
        if self.recorder.is_measured(packet.stream) && packet.is_counted() {
            self.recorder.packet_arrived(&packet, now);
        }
        match packet.body {
            // The field of the IP header goes up with the segment.
            Body::Tcp(segment) => self.segment_arrived(&packet, &Segment { ecn: packet.ecn, ..segment }),
            Body::Aimd(datagram) => self.aimd_datagram(&packet, &datagram),
            Body::AimdAck(ack) => self.aimd_ack(&packet, &ack),
            Body::Quic { at, .. } => {
                let datagram = *self.packets.quic(at);
                self.quic_datagram(&packet, &datagram);
            }
            Body::Rtcp(report) => self.heard_report(packet.stream, &report),
            Body::Rtp { .. } | Body::Udp { .. } => {
                let payload = Self::payload(&packet);
                self.recorder.delivered(packet.stream, u64::from(payload), now);
                if let Body::Rtp { ssrc, sequence, .. } = packet.body
                    && !self.reporters.is_empty()
                {
                    self.heard_rtp(&packet, ssrc, sequence);
                }
                if let (Body::Udp { sequence }, FlowKind::Video(video)) =
                    (packet.body, self.flows[flow_of(packet.stream)].kind)
                {
                    self.video_packet(video, sequence, true);
                }
            }
        }
    }

    fn payload(packet: &Packet) -> u32 {
        match packet.body {
            Body::Tcp(segment) => segment.len,
            Body::Rtp { .. } => packet.bytes - IP_HEADER - UDP_HEADER - RTP_HEADER,
            Body::Udp { .. } => packet.bytes - IP_HEADER - UDP_HEADER,
            Body::Aimd(_) => packet.bytes - aimd::DATA_HEADERS,
            Body::AimdAck(_) | Body::Rtcp(_) => 0,
            Body::Quic { data, .. } => data,
        }
    }

    /// Makes a packet at `node` and sends it on its way.
    fn originate(&mut self, node: NodeId, packet: Packet) {
        if self.recorder.is_measured(packet.stream) {
            let payload = Self::payload(&packet);
            self.recorder.packet_sent(&packet, payload);
        }
        if self.fetches && (node as usize) < self.stations.len() {
            self.fetch_for_sending(node);
        }
        let id = self.packets.insert(packet);
        self.towards_mesh(node, id);
    }

    // ---- sources ----

    #[inline(never)]
    fn source(&mut self, index: usize) {
        let now = self.events.now();
        match &mut self.sources[index] {
            Source::Datagrams(source) => {
                if now >= source.stop {
                    return;
                }
                let next = source.interval.next_start();
                let (from, burst) = (source.from, source.burst);
                let mut packet = Packet {
                    stream: source.stream,
                    connection: 0,
                    source: from,
                    destination: source.to,
                    bytes: source.bytes,
                    created: now,
                    at: from,
                    settled: false,
                    dscp: self.flows[flow_of(source.stream)].dscp,
                    ecn: Ecn::NotEct,
                    body: Body::Udp { sequence: 0 },
                };
                self.events.push(next.max(now), EventKind::Source, index as u32);
                for _ in 0..burst {
                    if let Source::Datagrams(source) = &mut self.sources[index] {
                        packet.body = source.next_body();
                    }
                    self.originate(from, packet);
                }
            }
            Source::Aimd { index: stream, stop, started } => {
                let (stream, begins) = (*stream, !std::mem::replace(started, true));
                if begins && let Some(stop) = *stop {
                    self.events.push(stop.max(now), EventKind::Source, index as u32);
                }
                self.aimd_source(stream, begins);
            }
            Source::Quic { index: transfer, stop, started } => {
                let (transfer, begins) = (*transfer, !std::mem::replace(started, true));
                if begins && let Some(stop) = *stop {
                    self.events.push(stop.max(now), EventKind::Source, index as u32);
                }
                self.quic_source(transfer, begins);
            }
            Source::Transfer { tcp, stop, offer } => {
                let (tcp, offer) = (*tcp, *offer);
                if offer > 0 {
                    let stop = *stop;
                    self.sources[index] = Source::Transfer { tcp, stop, offer: 0 };
                    let transfer = &mut self.transfers[tcp];
                    transfer.sender.open(now);
                    transfer.sender.offer(offer);
                    if offer != u64::MAX {
                        transfer.sender.close();
                    }
                    if let Some(stop) = stop {
                        self.events.push(stop.max(now), EventKind::Source, index as u32);
                    }
                } else {
                    self.transfers[tcp].sender.close();
                }
                self.pump_sender(tcp);
            }
            Source::Report(reporter) => {
                let reporter = *reporter;
                self.report(reporter, index as u32);
            }
            Source::Session(session) => {
                let session = *session;
                self.begin_transaction(session);
            }
            Source::Video(video) => {
                let video = *video;
                self.video_frame(video, index as u32);
            }
        }
    }

    // ---- TCP ----

    #[inline(never)]
    fn segment_arrived(&mut self, packet: &Packet, segment: &Segment) {
        let now = self.events.now();
        let Some(tcp) = self.transfer_of(packet) else { return };
        let transfer = &mut self.transfers[tcp];
        if packet.connection != transfer.connection {
            return; // nobody listens on its port any more
        }
        if packet.source != transfer.from {
            transfer.sender.on_segment(now, segment);
            self.pump_sender(tcp);
        } else {
            transfer.receiver.on_segment(now, segment);
            let delivered = transfer.receiver.delivered();
            let fresh = delivered - transfer.delivered;
            transfer.delivered = delivered;
            if transfer.completed.is_none() && transfer.size.is_some_and(|size| delivered >= size) {
                transfer.completed = Some(now);
            }
            let session = transfer.session;
            if fresh > 0 {
                self.recorder.delivered(packet.stream, fresh, now);
            }
            self.pump_receiver(tcp);
            if let Some(session) = session
                && fresh > 0
            {
                self.session_delivered(session, tcp);
            }
        }
    }

    fn transfer_of(&self, packet: &Packet) -> Option<usize> {
        match self.flows[flow_of(packet.stream)].kind {
            FlowKind::Bulk(tcp) => Some(tcp),
            FlowKind::Web(session) => Some(self.sessions[session].transfer),
            // Requests have even connections and responses odd ones.
            FlowKind::Request(session) if packet.connection.is_multiple_of(2) => {
                self.sessions[session].requests
            }
            FlowKind::Request(session) => Some(self.sessions[session].transfer),
            FlowKind::Call(_)
            | FlowKind::Aimd(_)
            | FlowKind::Quic(_)
            | FlowKind::Cbr
            | FlowKind::Burst
            | FlowKind::Video(_) => None,
        }
    }

    /// Sends what a TCP sender has to send and sets its timer.
    fn pump_sender(&mut self, tcp: usize) {
        let now = self.events.now();
        while let Some(segment) = self.transfers[tcp].sender.poll_transmit(now) {
            let Transfer { data_stream, connection, from, to, .. } = self.transfers[tcp];
            self.originate_segment(data_stream, connection, (from, to), segment);
        }
        let transfer = &mut self.transfers[tcp];
        match transfer.sender.next_timer() {
            Some(at) => {
                transfer.sender_timer.set(at.max(now), &mut self.events, EventKind::TcpSender, tcp as u32);
            }
            None => transfer.sender_timer.cancel(),
        }
    }

    /// Sends what a TCP receiver has to send and sets its timer.
    fn pump_receiver(&mut self, tcp: usize) {
        let now = self.events.now();
        while let Some(segment) = self.transfers[tcp].receiver.poll_transmit(now) {
            let Transfer { ack_stream, connection, from, to, .. } = self.transfers[tcp];
            self.originate_segment(ack_stream, connection, (to, from), segment);
        }
        let transfer = &mut self.transfers[tcp];
        match transfer.receiver.next_timer() {
            Some(at) => {
                transfer.receiver_timer.set(
                    at.max(now),
                    &mut self.events,
                    EventKind::TcpReceiver,
                    tcp as u32,
                );
            }
            None => transfer.receiver_timer.cancel(),
        }
    }

    fn originate_segment(
        &mut self,
        stream: u32,
        connection: u16,
        (source, destination): (NodeId, NodeId),
        segment: Segment,
    ) {
        let packet = Packet {
            stream,
            connection,
            source,
            destination,
            bytes: IP_HEADER + segment.header_bytes() + segment.len,
            created: self.events.now(),
            at: source,
            settled: false,
            dscp: self.flows[flow_of(stream)].dscp,
            ecn: segment.ecn,
            body: Body::Tcp(segment),
        };
        self.originate(source, packet);
    }

    // ---- samples ----

    #[inline(never)]
    fn sample(&mut self) {
        let now = self.events.now();
        let end_of_warmup = now == self.recorder.warmup;
        for (index, transfer) in self.transfers.iter_mut().enumerate() {
            let counts = transfer.counts();
            if end_of_warmup {
                transfer.warmup = counts;
            }
            if self.recorder.is_bin_edge(now) {
                let segments = u64::from(transfer.sender.cwnd_segments());
                let segment_bytes = transfer.sender.cwnd() / segments.max(1);
                self.recorder.tcp[index].push(TcpSample {
                    at: now,
                    cwnd_bytes: transfer.sender.cwnd(),
                    ssthresh_bytes: transfer.sender.ssthresh(),
                    srtt: transfer.sender.srtt(),
                    in_flight_bytes: u64::from(transfer.sender.in_flight()) * segment_bytes,
                    retransmitted: counts.retransmitted,
                    timeouts: counts.timeouts,
                });
            }
        }
        if end_of_warmup {
            for stream in &mut self.aimd {
                stream.warmup = *stream.sender.stats();
            }
            for transfer in &mut self.quic {
                transfer.warmup = *transfer.sender.stats();
            }
        }
        for node in 0..self.stations.len() {
            let airtime = self.receivers[node].airtime(now);
            if end_of_warmup {
                self.recorder.nodes[node].airtime_warmup = airtime;
            }
            if self.recorder.is_bin_edge(now) {
                let backlog = self.stations.backlog(node) as u32;
                self.recorder.node_samples[node].push(NodeSample { at: now, backlog, airtime });
            }
        }
        let next = self.recorder.next_sample(now);
        if next <= self.end {
            self.events.push(next, EventKind::Sample, 0);
        }
    }

    /// Airtime of a station from the end of the warm-up to the end of the run, or to now.
    pub fn airtime(&self, node: usize) -> Airtime {
        let until = if self.finished { self.end } else { self.now() };
        self.receivers[node].airtime(until).since(&self.recorder.nodes[node].airtime_warmup)
    }
}
