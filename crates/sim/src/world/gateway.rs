//! A gateway node under control: it shows a controller what crosses it, and does what the controller asks.
//!
//! A packet crosses *into the mesh* when it came by wire, or was made at the gateway, and goes on by radio; and *out of
//! the mesh* when it came by radio and goes on by wire or stays. The gateway makes a [`Digest`] of the packet's headers, and
//! the controller learns nothing else; addresses and ports are those of captures. A packet that passes from node to node
//! through the gateway does not cross it.
//!
//! A packet into the mesh passes the pacers of [`fairhop_control::gateway`], then digest, clamp and the queue of the radio.
//! A packet out of the mesh passes digest and clamp, then the pacer and the wire. Shapers ([`super::shaper`]) replace all
//! pacers.

use fairhop_control::controller::CustomController;
use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP, Payload, Probe, RtpFields, TcpFields,
};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::gateway::{Arrival, Gateway as Pipeline, PacketKind, Verdict};
use fairhop_control::pacer::PacerConfig;
use fairhop_control::{Controller, ControllerConfig, Decision, Network, ObserverConfig};
use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{Flags, Segment};

use super::core::Core;
use super::network::Ingress;
use super::shaper::Shaper;
use crate::engine::{Event, EventKind, Purpose, Stream, Timer};
use crate::headers::{Addresses, ports};
use crate::packet::{Body, ImageId, NodeId, PacketView};
use crate::queue::Refused;
use crate::recorder::Loss;
use crate::routing::NextHop;
use crate::scenario::{HostOf, ShaperSetting};

/// Subjects of the random streams of shapers begin here, apart from those of stations and wires.
const SHAPER_SUBJECTS: u64 = 1 << 48;

/// Which way a packet crosses a gateway; none where it does not.
pub(super) const fn crossing(ingress: Ingress, next: NextHop) -> Option<Direction> {
    match (ingress, next) {
        (Ingress::Local | Ingress::Wire, NextHop::Radio(_) | NextHop::Routed(_)) => Some(Direction::ToMesh),
        (Ingress::Radio(_), NextHop::Wire(_) | NextHop::Local) => Some(Direction::FromMesh),
        _ => None,
    }
}

/// A node with observer, controller, actuators and shapers.
#[derive(Debug)]
pub(super) struct Gateway {
    node: NodeId,
    /// Its number among the gateways.
    index: u32,
    addresses: Addresses,
    pipeline: Pipeline<ImageId>,
    /// Shapers of everything into the mesh, and out of it, where they are asked for.
    down: Option<Shaper>,
    up: Option<Shaper>,
    timer: Timer,
    /// Packets that a full pacer or shaper has dropped, or that were late in it, warm-up excluded.
    dropped: u64,
}

impl Gateway {
    pub(super) fn new(node: NodeId, index: u32, addresses: Addresses, observer: ObserverConfig) -> Self {
        let mut pipeline = Pipeline::new(observer);
        pipeline.set_local(vec![Network::host(Address::v4(addresses.of(node)))]);
        Self { node, index, addresses, pipeline, down: None, up: None, timer: Timer::default(), dropped: 0 }
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn controller(&self) -> &Controller {
        self.pipeline.controller()
    }

    /// Lets a controller from outside decide.
    pub(super) fn set_custom(&mut self, custom: Box<dyn CustomController>) {
        self.pipeline.set_custom(custom);
    }

    /// The queue of its station has dropped a packet of voice.
    pub(super) fn own_drop(&mut self, now: Nanos) {
        self.pipeline.own_drop(now);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins a control; none may be in force ([`Gateway::release`]).
    pub(super) fn set(
        &mut self,
        now: Nanos,
        config: ControllerConfig,
        pacer: PacerConfig,
        shaper: Option<&ShaperSetting>,
        seed: u64,
    ) {
        let subject = SHAPER_SUBJECTS + 2 * u64::from(self.index);
        let shaped = |setting, rate, host, way| {
            Shaper::new(setting, rate, host, Stream::new(seed, subject + way, Purpose::Queue))
        };
        self.down = shaper.map(|setting| shaped(setting, setting.down, HostOf::Destination, 0));
        self.up = shaper.and_then(|setting| Some(shaped(setting, setting.up?, HostOf::Source, 1)));
        self.pipeline.set(now, config, pacer);
    }

    /// Lifts all limits: [`Gateway::poll`] gives everything that waits.
    pub(super) fn release(&mut self) {
        self.pipeline.release();
        for shaper in [&mut self.down, &mut self.up].into_iter().flatten() {
            shaper.release();
        }
    }

    /// Removes the shapers, in which nothing waits any more.
    pub(super) fn remove_shapers(&mut self) {
        (self.down, self.up) = (None, None);
    }

    /// Lets the controller decide; `backlog` packets wait at the gateway's station.
    pub(super) fn tick(&mut self, now: Nanos, backlog: usize) {
        self.pipeline.own_queue(now, backlog as u32);
        self.pipeline.tick(now);
    }

    /// What the controller asks for now.
    pub(super) fn decision(&self, now: Nanos) -> Decision {
        let shapers = [&self.down, &self.up].into_iter().flatten();
        let decision = self.pipeline.decision(now);
        Decision {
            down: decision.down.or(self.down.as_ref().and_then(Shaper::rate)),
            waiting: decision.waiting + shapers.map(Shaper::len).sum::<usize>() as u32,
            ..decision
        }
    }

    /// A packet is about to cross; `backlog` packets wait at the gateway's station. True where it goes on now; otherwise it waits here, or is dropped.
    pub(super) fn cross(
        &mut self,
        core: &mut Core,
        image: ImageId,
        direction: Direction,
        backlog: usize,
    ) -> bool {
        let now = core.now();
        let verdict = match direction {
            Direction::ToMesh if self.down.is_some() => Verdict::Pass(image),
            Direction::ToMesh => {
                let arrival = self.arrival(core.packets.view(image));
                self.pipeline.to_mesh(now, image, &arrival)
            }
            Direction::FromMesh => {
                let digest = self.digest(now, core.packets.view(image), direction);
                let (window, verdict) = self.pipeline.from_mesh(image, &digest);
                set_window(core, image, window);
                verdict
            }
        };
        let shaper = match direction {
            Direction::ToMesh => &mut self.down,
            Direction::FromMesh => &mut self.up,
        };
        match (verdict, shaper) {
            (Verdict::Pass(_), Some(shaper)) => {
                let bytes = core.packets.get(image).bytes;
                if shaper.offer(now, image, bytes, &mut core.packets).is_err() {
                    self.refuse(core, image);
                }
                false
            }
            (Verdict::Pass(_), None) => {
                if direction == Direction::ToMesh {
                    self.enter_mesh(core, image, Nanos::ZERO, backlog);
                }
                true
            }
            (Verdict::Held, _) => false,
            (Verdict::Refused(refused), _) => {
                self.refuse(core, refused);
                false
            }
        }
    }

    /// The next packet that may leave a pacer or shaper now; `backlog` packets wait at the gateway's station. Sets the timer where there is none.
    pub(super) fn poll(&mut self, core: &mut Core, backlog: usize) -> Option<ImageId> {
        let now = core.now();
        let shaped = self.poll_shapers(core);
        self.drop_refused(core);
        if let Some((image, direction)) = shaped {
            if direction == Direction::ToMesh {
                self.enter_mesh(core, image, Nanos::ZERO, backlog);
            }
            return Some(image);
        }
        while let Some(late) = self.pipeline.poll_late(now) {
            self.refuse(core, late);
        }
        let Some(released) = self.pipeline.poll(now) else {
            self.set_timer(core);
            return None;
        };
        if released.mark {
            core.packets.mark(released.packet);
        }
        if released.direction == Direction::ToMesh {
            self.enter_mesh(core, released.packet, released.waited, backlog);
        }
        Some(released.packet)
    }

    fn poll_shapers(&mut self, core: &mut Core) -> Option<(ImageId, Direction)> {
        let Core { events, packets, .. } = core;
        let mut poll = |shaper: &mut Option<Shaper>, direction| {
            let image = shaper.as_mut()?.poll(events.now(), packets)?;
            Some((image, direction))
        };
        poll(&mut self.down, Direction::ToMesh).or_else(|| poll(&mut self.up, Direction::FromMesh))
    }

    /// Whether an event of the gateway's timer fires it.
    pub(super) fn fires(&mut self, core: &mut Core, event: Event) -> bool {
        self.timer.fires(event, &mut core.events)
    }

    fn set_timer(&mut self, core: &mut Core) {
        let now = core.now();
        let shaped = [&self.down, &self.up].into_iter().flatten().filter_map(Shaper::next_time);
        match self.pipeline.next_time(now).into_iter().chain(shaped).min() {
            Some(at) if at < Nanos::MAX => {
                self.timer.set(at.max(now), &mut core.events, EventKind::Pace, self.index);
            }
            _ => self.timer.cancel(),
        }
    }

    /// A packet leaves for the mesh: the controller learns of it, and its window may become smaller.
    fn enter_mesh(&mut self, core: &mut Core, image: ImageId, waited: Nanos, backlog: usize) {
        let digest = self.digest(core.now(), core.packets.view(image), Direction::ToMesh);
        let digest = Digest { waited, ..digest };
        if matches!(digest.payload, Payload::Rtp(_)) {
            self.pipeline.own_queue(core.now(), backlog as u32);
        }
        let window = self.pipeline.crossing(&digest);
        set_window(core, image, window);
    }

    fn refuse(&mut self, core: &mut Core, image: ImageId) {
        self.dropped += u64::from(core.is_measuring());
        core.drop_image(image, Loss::Control);
    }

    /// Drops what the discipline of a shaper has dropped of the packets that it had accepted.
    fn drop_refused(&mut self, core: &mut Core) {
        while let Some((image, why)) = core.packets.take_dropped() {
            match why {
                Refused::Full => self.refuse(core, image),
                Refused::Early => core.drop_image(image, Loss::Aqm),
            }
        }
    }

    fn digest(&self, at: Nanos, packet: PacketView<'_>, direction: Direction) -> Digest {
        if let Some(digest) = real_digest(at, packet, direction) {
            return digest;
        }
        if let Body::Echo { sequence, probe_ms, .. } = packet.body
            && let Some(probe) = self.probe(packet, direction, probe_ms)
        {
            return probe.digest(at, direction, sequence, packet.header.ttl);
        }
        let (source_port, destination_port) =
            if let Body::Echo { .. } = packet.body { (0, 0) } else { ports(packet.packet) };
        let payload = match packet.body {
            Body::Tcp(segment) => {
                Payload::Tcp(TcpFields { window: packet.header.window, ..fields(&segment) })
            }
            Body::Rtp { sequence, timestamp, ssrc, payload_type, marker } => Payload::Rtp(RtpFields {
                payload_type,
                marker,
                sequence: sequence as u16,
                timestamp: timestamp as u32,
                ssrc,
                payload_bytes: packet.bytes - headers::IP_UDP_RTP,
            }),
            Body::Rtcp(report) => Payload::Rtcp(report.fields()),
            Body::Echo { .. } => Payload::Other,
            Body::Udp { .. }
            | Body::Aimd(_)
            | Body::AimdAck(_)
            | Body::Quic { .. }
            | Body::Real { .. }
            | Body::Routing => Payload::Udp,
        };
        Digest {
            at,
            waited: Nanos::ZERO,
            direction,
            source: Address::v4(self.addresses.of(packet.source)),
            destination: Address::v4(self.addresses.of(packet.destination)),
            source_port,
            destination_port,
            protocol: protocol(&packet.body),
            ttl: packet.header.ttl,
            traffic_class: packet.dscp.value() << 2 | packet.header.ecn as u8,
            bytes: packet.bytes,
            payload,
        }
    }

    /// The probe of this gateway to which an echo belongs; none if it belongs to none.
    fn probe(&self, packet: PacketView<'_>, direction: Direction, interval_ms: u16) -> Option<Probe> {
        let (gateway, host) = match direction {
            Direction::ToMesh => (packet.source, packet.destination),
            Direction::FromMesh => (packet.destination, packet.source),
        };
        let of = |node| Address::v4(self.addresses.of(node));
        (interval_ms > 0 && gateway == self.node).then(|| Probe {
            gateway: of(gateway),
            host: of(host),
            identifier: ports(packet.packet).0,
            interval_ms,
            bytes: packet.bytes,
        })
    }

    /// What the pacers need to know of a packet into the mesh.
    fn arrival(&self, packet: PacketView<'_>) -> Arrival {
        if let Some(digest) = real_digest(Nanos::ZERO, packet, Direction::ToMesh) {
            return Arrival::from(&digest);
        }
        if let Body::Echo { .. } = packet.body {
            return Arrival::from(&self.digest(Nanos::ZERO, packet, Direction::ToMesh));
        }
        let (wired_port, mesh_port) = ports(packet.packet);
        let key = FlowKey {
            mesh: Address::v4(self.addresses.of(packet.destination)),
            wired: Address::v4(self.addresses.of(packet.source)),
            mesh_port,
            wired_port,
            protocol: protocol(&packet.body),
        };
        let kind = match packet.body {
            Body::Tcp(segment) if segment.len > 0 => PacketKind::TcpData,
            Body::Tcp(segment) if is_pure_ack(&segment) => PacketKind::TcpAck { ack: segment.ack.0 },
            Body::Tcp(_) => PacketKind::TcpControl,
            Body::Rtcp(_) => PacketKind::Rtcp,
            Body::Rtp { .. }
            | Body::Udp { .. }
            | Body::Echo { .. }
            | Body::Aimd(_)
            | Body::AimdAck(_)
            | Body::Quic { .. }
            | Body::Real { .. }
            | Body::Routing => PacketKind::Datagram,
        };
        Arrival { key, bytes: packet.bytes, kind }
    }
}

/// The digest of a real packet with the fields that this node sees; none for a simulated one.
fn real_digest(at: Nanos, packet: PacketView<'_>, direction: Direction) -> Option<Digest> {
    let header = packet.header;
    let mut digest = Digest::read(at, direction, packet.payload()?)?;
    digest.ttl = header.ttl;
    digest.traffic_class = digest.traffic_class & !3 | header.ecn.bits();
    if let Payload::Tcp(tcp) = &mut digest.payload {
        tcp.window = header.window;
    }
    Some(digest)
}

fn set_window(core: &mut Core, image: ImageId, window: Option<u16>) {
    if let Some(window) = window {
        core.packets.header_mut(image).window = window;
    }
}

const fn protocol(body: &Body) -> u8 {
    match body {
        Body::Tcp(_) => PROTOCOL_TCP,
        Body::Echo { .. } => PROTOCOL_ICMP,
        _ => PROTOCOL_UDP,
    }
}

/// A segment that only acknowledges.
fn is_pure_ack(segment: &Segment) -> bool {
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

#[cfg(test)]
mod tests {
    use fairhop_control::digest::ReceptionReport;
    use fairhop_transport::tcp::SenderConfig;

    use super::*;
    use crate::headers::ipv4;
    use crate::packet::{Dscp, Ecn, Header, Packet};
    use crate::rtcp::{Report, SenderInfo, ntp};

    /// Every packet of a handshake, data, ACKs, RTP, RTCP and datagrams: the digest made of its fields is the one that is
    /// read out of the bytes that a capture has of it.
    #[test]
    fn a_digest_is_what_is_read_out_of_the_bytes_of_the_packet() {
        use fairhop_transport::tcp::{Receiver, ReceiverConfig, Sender};

        let addresses = Addresses { nodes: 5, internet: true };
        let observer = ObserverConfig { flows: 8, ..ObserverConfig::default() };
        let gateway = Gateway::new(0, 0, addresses, observer);
        let mut bodies = vec![
            Body::Rtp {
                sequence: 70_000,
                timestamp: 1 << 33 | 160,
                ssrc: 7,
                payload_type: 18,
                marker: false,
            },
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
        bodies.push(Body::Rtp {
            sequence: 70_001,
            timestamp: 1 << 34,
            ssrc: 7,
            payload_type: 18,
            marker: true,
        });
        bodies.push(Body::Echo { sequence: 70_000, is_reply: false, probe_ms: 0 });
        // The probe of another gateway.
        bodies.push(Body::Echo { sequence: 1, is_reply: true, probe_ms: 40 });
        let has = |wanted: fn(&Segment) -> bool| {
            bodies.iter().any(|body| matches!(body, Body::Tcp(segment) if wanted(segment)))
        };
        assert!(has(|s| s.flags.has(Flags::SYN)) && has(|s| !s.sack.is_empty()) && bodies.len() > 100);
        for (index, body) in bodies.into_iter().enumerate() {
            let bytes = match body {
                Body::Tcp(segment) => headers::IP + segment.header_bytes() + segment.len,
                Body::Rtcp(report) => headers::IP_UDP + report.bytes(),
                _ => 60,
            };
            let packet = Packet {
                stream: 6,
                connection: 2,
                source: 5,
                destination: 4,
                bytes,
                created: Nanos::ZERO,
                dscp: Dscp::EXPEDITED,
                body,
            };
            let mut wire = Vec::new();
            let header = Header::new(&packet.body, 61, Ecn::Ect0);
            let view = PacketView::plain(&packet, &header);
            ipv4(&mut wire, view, addresses);
            let at = Nanos(index as u64);
            let made = gateway.digest(at, view, Direction::ToMesh);
            assert_eq!(Some(made), Digest::read(at, Direction::ToMesh, &wire), "{:?}", packet.body);
            assert_eq!(Arrival::from(&made), gateway.arrival(view));
        }
    }
}
