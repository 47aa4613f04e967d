//! A small model of a mesh behind a gateway, for tests of controllers: one shared channel that serves one packet at a time, a
//! queue of 50 packets on either side, and losses that grow when both sides contend. TCP is that of the transport crate, calls
//! are G.729A. Like a mesh, it breaks down abruptly at overload; it models nothing else of one. The simulator's tests show
//! what a controller does in a mesh.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fairhop_control::controller::TICK;
use fairhop_control::digest::{Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtpFields, TcpFields};
use fairhop_control::flow::Address;
use fairhop_control::gateway::{Arrival, Gateway, Verdict};
use fairhop_control::pacer::PacerConfig;
use fairhop_control::policy::{Reason, State};
use fairhop_control::{ControllerConfig, ObserverConfig};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};
use fairhop_transport::tcp::{Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

const MESH: Address = Address::v4([10, 1, 0, 4]);
const WIRED: Address = Address::v4([192, 0, 2, 1]);
const CALL_PORT: u16 = 5000;
const TCP_PORT: u16 = 6000;
const VOICE_BYTES: u32 = 60;
const INTERVAL: Nanos = Nanos::from_millis(20);
const PLAYOUT: Nanos = Nanos::from_millis(60);
const QUEUE: usize = 50;

/// What a packet is.
#[derive(Clone, Copy, Debug)]
enum Body {
    Voice { call: usize, number: u32, sent: Nanos },
    Tcp { flow: usize, segment: Segment },
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    body: Body,
    direction: Direction,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// At the gateway from the wired side, or at the host from the gateway.
    AtGateway(Packet),
    AtHost(Packet),
    Served(Packet, bool),
    Pace,
    Voice(usize),
    Sender(usize),
    Receiver(usize),
    Tick,
}

struct Call {
    until: Nanos,
    number: u32,
    /// By direction: time of sending, and delay if the packet arrived.
    packets: [Vec<(Nanos, Option<Nanos>)>; 2],
}

struct Transfer {
    from: Nanos,
    sender: Sender,
    receiver: Receiver,
    delivered: Vec<(Nanos, u64)>,
    /// Expiry of the timers of sender and receiver.
    timers: [Option<Nanos>; 2],
}

/// The mesh, its traffic and the gateway.
pub(crate) struct Plant {
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    slab: Vec<Event>,
    free: Vec<usize>,
    sequence: u64,
    random: u64,
    /// From a time on: airtime of a packet in µs, fixed part and per byte.
    airtime: Vec<(Nanos, f64, f64)>,
    /// From a time on: loss that does not depend on the load.
    noise: Vec<(Nanos, f64)>,
    /// From a time on: time to live of packets out of the mesh.
    ttl: Vec<(Nanos, u8)>,
    wired: Nanos,
    busy: bool,
    queues: [VecDeque<Packet>; 2],
    calls: Vec<Call>,
    flows: Vec<Transfer>,
    gateway: Gateway<u64>,
    /// Packets at the gateway.
    held: BTreeMap<u64, Packet>,
    pace_at: Option<Nanos>,
    /// State, reason and pace at each tick.
    pub(crate) log: Vec<(Nanos, State, Reason, u64)>,
}

fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::FromMesh)
}

impl Packet {
    fn set_window(&mut self, window: Option<u16>) {
        if let (Body::Tcp { segment, .. }, Some(window)) = (&mut self.body, window) {
            segment.window = window;
        }
    }
}

impl Plant {
    /// About four hops at 12 Mb/s: 0.7 ms per packet and 3.6 µs per byte; capacity for 11 calls, or 1.6 Mb/s.
    pub(crate) fn new(config: ControllerConfig, wired_ms: u64, seed: u64) -> Self {
        let observer = ObserverConfig { flows: 200, ..ObserverConfig::default() };
        let mut plant = Self {
            now: Nanos::ZERO,
            events: BinaryHeap::new(),
            slab: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            random: seed,
            airtime: vec![(Nanos::ZERO, 700.0, 3.6)],
            noise: vec![(Nanos::ZERO, 0.0005)],
            ttl: vec![(Nanos::ZERO, 61)],
            wired: Nanos::from_millis(wired_ms),
            busy: false,
            queues: [VecDeque::new(), VecDeque::new()],
            calls: Vec::new(),
            flows: Vec::new(),
            gateway: Gateway::new(observer),
            held: BTreeMap::new(),
            pace_at: None,
            log: Vec::new(),
        };
        plant.gateway.set(Nanos::ZERO, config, PacerConfig { packets: 300, flows: 64, mark_after: None });
        plant.at(TICK, Event::Tick);
        plant
    }

    /// From `from` on, packets take `factor` times the airtime.
    pub(crate) fn set_slowdown(&mut self, from: Nanos, factor: f64) {
        self.airtime.push((from, 700.0 * factor, 3.6 * factor));
    }

    /// From `from` on, the fraction `loss` of packets is lost at any load.
    pub(crate) fn set_noise(&mut self, from: Nanos, loss: f64) {
        self.noise.push((from, loss));
    }

    /// The route breaks: all packets are lost from `from` until `until`, and make `hops` hops from then on.
    pub(crate) fn break_route(&mut self, from: Nanos, until: Nanos, hops: u8) {
        let noise = self.noise[self.noise.len() - 1].1;
        self.noise.extend([(from, 1.0), (until, noise)]);
        self.ttl.push((until, 65 - hops));
    }

    pub(crate) fn call(&mut self, from: Nanos, until: Nanos) {
        let call = self.calls.len();
        // Calls do not begin at one instant.
        let from = from + Nanos(call as u64 * 1_830_000);
        self.calls.push(Call { until, number: 0, packets: [Vec::new(), Vec::new()] });
        self.at(from, Event::Voice(call));
    }

    pub(crate) fn transfer(&mut self, from: Nanos) {
        self.transfer_of(from, u64::MAX);
    }

    pub(crate) fn transfer_of(&mut self, from: Nanos, bytes: u64) {
        let flow = self.flows.len();
        let mut sender = Sender::new(SenderConfig::default());
        sender.offer(bytes);
        let receiver = Receiver::new(ReceiverConfig { buffer: 1 << 20, ..ReceiverConfig::default() });
        self.flows.push(Transfer { from, sender, receiver, delivered: Vec::new(), timers: [None; 2] });
        self.at(from, Event::Sender(flow));
    }

    fn at(&mut self, time: Nanos, event: Event) {
        let place = match self.free.pop() {
            Some(place) => {
                self.slab[place] = event;
                place
            }
            None => {
                self.slab.push(event);
                self.slab.len() - 1
            }
        };
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, place)));
    }

    fn chance(&mut self, probability: f64) -> bool {
        // PCG-XSH-RR's constants, upper bits.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as f64) < probability * 2_147_483_648.0
    }

    pub(crate) fn run(&mut self, until: Nanos) {
        while let Some(&Reverse((time, _, place))) = self.events.peek() {
            if time > until {
                break;
            }
            self.events.pop();
            self.now = time;
            let event = self.slab[place];
            self.free.push(place);
            self.handle(event);
        }
        self.now = until;
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Tick => {
                self.gateway.tick(now);
                let policy = self.gateway.policy();
                self.log.push((now, policy.state, policy.reason, policy.down.map_or(0, |rate| rate.0)));
                self.pace();
                self.at(now + TICK, Event::Tick);
            }
            Event::Voice(call) => self.speak(call),
            Event::Sender(flow) => {
                let Transfer { from, sender, timers, .. } = &mut self.flows[flow];
                fired(&mut timers[0], now);
                if now == *from {
                    sender.open(now);
                }
                sender.on_timer(now);
                self.pump_sender(flow);
            }
            Event::Receiver(flow) => {
                fired(&mut self.flows[flow].timers[1], now);
                self.flows[flow].receiver.on_timer(now);
                self.pump_receiver(flow);
            }
            Event::AtGateway(packet) => self.at_gateway(packet),
            Event::Pace => {
                fired(&mut self.pace_at, now);
                self.pace();
            }
            Event::AtHost(packet) => {
                let Body::Tcp { flow, segment } = packet.body else { return };
                self.flows[flow].sender.on_segment(now, &segment);
                self.pump_sender(flow);
            }
            Event::Served(packet, lost) => {
                self.busy = false;
                if !lost {
                    self.leave_mesh(packet);
                }
                self.serve();
            }
        }
    }

    /// A packet from the wired side wants to enter the mesh.
    fn at_gateway(&mut self, packet: Packet) {
        let arrival = Arrival::from(&self.digest(&packet));
        let handle = self.hold(packet);
        match self.gateway.to_mesh(self.now, handle, &arrival) {
            Verdict::Pass(handle) => self.enter_mesh(handle),
            Verdict::Held => {}
            Verdict::Refused(handle) => drop(self.held.remove(&handle)),
        }
        self.pace();
    }

    fn pace(&mut self) {
        while let Some(released) = self.gateway.poll(self.now) {
            match released.direction {
                Direction::ToMesh => self.enter_mesh(released.packet),
                Direction::FromMesh => self.leave_gateway(released.packet),
            }
        }
        if let Some(next) = set_earlier(&mut self.pace_at, self.gateway.next_time(self.now), self.now) {
            self.at(next, Event::Pace);
        }
    }

    fn speak(&mut self, call: usize) {
        let now = self.now;
        let Call { until, number, packets, .. } = &mut self.calls[call];
        if now >= *until {
            return;
        }
        *number += 1;
        let number = *number;
        for sent in packets {
            sent.push((now, None));
        }
        let body = Body::Voice { call, number, sent: now };
        self.at_gateway(Packet { body, direction: Direction::ToMesh, bytes: VOICE_BYTES });
        self.queue(Packet { body, direction: Direction::FromMesh, bytes: VOICE_BYTES });
        self.at(now + INTERVAL, Event::Voice(call));
    }

    fn pump_sender(&mut self, flow: usize) {
        let now = self.now;
        while let Some(segment) = self.flows[flow].sender.poll_transmit(now) {
            let packet = Packet {
                body: Body::Tcp { flow, segment },
                direction: Direction::ToMesh,
                bytes: 20 + segment.header_bytes() + segment.len,
            };
            self.at(now + self.wired, Event::AtGateway(packet));
        }
        let Transfer { sender, timers, .. } = &mut self.flows[flow];
        if let Some(next) = set_earlier(&mut timers[0], sender.next_timer(), now) {
            self.at(next, Event::Sender(flow));
        }
    }

    fn pump_receiver(&mut self, flow: usize) {
        let now = self.now;
        while let Some(segment) = self.flows[flow].receiver.poll_transmit(now) {
            let packet = Packet {
                body: Body::Tcp { flow, segment },
                direction: Direction::FromMesh,
                bytes: 20 + segment.header_bytes(),
            };
            self.queue(packet);
        }
        let delivered = self.flows[flow].receiver.delivered();
        self.flows[flow].delivered.push((now, delivered));
        let Transfer { receiver, timers, .. } = &mut self.flows[flow];
        if let Some(next) = set_earlier(&mut timers[1], receiver.next_timer(), now) {
            self.at(next, Event::Receiver(flow));
        }
    }

    fn digest(&self, packet: &Packet) -> Digest {
        let (_, ttl) = *self.ttl.iter().rfind(|(from, _)| *from <= self.now).expect("from the start");
        digest(self.now, ttl, packet)
    }

    fn hold(&mut self, packet: Packet) -> u64 {
        self.sequence += 1;
        self.held.insert(self.sequence, packet);
        self.sequence
    }

    /// A packet crosses the gateway and queues for the air.
    fn enter_mesh(&mut self, handle: u64) {
        let Some(mut packet) = self.held.remove(&handle) else { return };
        let window = self.gateway.crossing(&self.digest(&packet));
        packet.set_window(window);
        self.queue(packet);
    }

    fn queue(&mut self, packet: Packet) {
        let queue = &mut self.queues[index(packet.direction)];
        if queue.len() < QUEUE {
            queue.push_back(packet);
        }
        self.serve();
    }

    fn serve(&mut self) {
        if self.busy {
            return;
        }
        let contended = self.queues.iter().all(|queue| !queue.is_empty());
        let side =
            if contended { usize::from(self.chance(0.5)) } else { usize::from(self.queues[0].is_empty()) };
        let Some(packet) = self.queues[side].pop_front() else { return };
        let (_, fixed, by_byte) =
            *self.airtime.iter().rfind(|(from, ..)| *from <= self.now).expect("from the start");
        let (_, noise) = *self.noise.iter().rfind(|(from, _)| *from <= self.now).expect("from the start");
        let backlog: usize = self.queues.iter().map(VecDeque::len).sum();
        let lost = self.chance(noise + if contended { 0.002 * backlog.min(10) as f64 } else { 0.0 });
        let micros = fixed + by_byte * f64::from(packet.bytes);
        self.busy = true;
        self.at(self.now + Nanos((micros * 1e3) as u64), Event::Served(packet, lost));
    }

    /// A packet has crossed the mesh.
    fn leave_mesh(&mut self, packet: Packet) {
        if packet.direction == Direction::ToMesh {
            return self.arrive(packet);
        }
        let handle = self.hold(packet);
        let (window, verdict) = self.gateway.from_mesh(handle, &self.digest(&packet));
        if let Some(packet) = self.held.get_mut(&handle) {
            packet.set_window(window);
        }
        match verdict {
            Verdict::Pass(handle) => self.leave_gateway(handle),
            Verdict::Held => {}
            Verdict::Refused(handle) => drop(self.held.remove(&handle)),
        }
        self.pace();
    }

    /// A packet goes on from the gateway to its host.
    fn leave_gateway(&mut self, handle: u64) {
        let Some(packet) = self.held.remove(&handle) else { return };
        match packet.body {
            Body::Voice { .. } => self.arrive(packet),
            Body::Tcp { .. } => self.at(self.now + self.wired, Event::AtHost(packet)),
        }
    }

    /// A packet arrives at its receiver.
    fn arrive(&mut self, packet: Packet) {
        let now = self.now;
        match packet.body {
            Body::Voice { call, number, sent } => {
                self.calls[call].packets[index(packet.direction)][number as usize - 1].1 = Some(now - sent);
            }
            Body::Tcp { flow, segment } => {
                self.flows[flow].receiver.on_segment(now, &segment);
                self.pump_receiver(flow);
            }
        }
    }

    /// The fraction of one-second windows of all calls with a MOS of at least 3.6 in the worse direction.
    pub(crate) fn good_seconds(&self, from: u64, until: u64) -> f64 {
        let (mut good, mut all) = (0, 0);
        for second in from..until {
            for call in &self.calls {
                let window = |packet: &&(Nanos, Option<Nanos>)| {
                    packet.0 >= Nanos::from_secs(second) && packet.0 < Nanos::from_secs(second + 1)
                };
                let mos = |packets: &Vec<(Nanos, Option<Nanos>)>| {
                    let min = packets.iter().filter_map(|packet| packet.1).min()?;
                    let sent: Vec<_> = packets.iter().filter(window).collect();
                    let lost_or_late = sent
                        .iter()
                        .filter(|packet| packet.1.is_none_or(|delay| voice::is_late(delay, min, PLAYOUT)));
                    let part = lost_or_late.count() as f64 / sent.len() as f64;
                    (sent.len() >= 45)
                        .then(|| voice::mos(Codec::G729a, part, Nanos::from_millis(40), PLAYOUT))
                };
                if let (Some(down), Some(up)) = (mos(&call.packets[0]), mos(&call.packets[1])) {
                    all += 1;
                    good += usize::from(down.min(up) >= 3.6);
                }
            }
        }
        if all == 0 { 1.0 } else { good as f64 / all as f64 }
    }

    /// Goodput of all transfers in bits per second.
    pub(crate) fn goodput(&self, from: u64, until: u64) -> f64 {
        let (from, until) = (Nanos::from_secs(from), Nanos::from_secs(until));
        let at = |flow: &Transfer, time: Nanos| {
            flow.delivered.iter().rfind(|(at, _)| *at <= time).map_or(0, |(_, bytes)| *bytes)
        };
        let bytes: u64 = self.flows.iter().map(|flow| at(flow, until) - at(flow, from)).sum();
        bytes as f64 * 8.0 / (until - from).as_secs_f64()
    }
}

/// Sets a timer to `wanted` if that is earlier than its expiry; returns the time for the new event.
fn set_earlier(timer: &mut Option<Nanos>, wanted: Option<Nanos>, now: Nanos) -> Option<Nanos> {
    let wanted = wanted?.max(now + Nanos(1));
    if timer.is_some_and(|set| set <= wanted) {
        return None;
    }
    *timer = Some(wanted);
    Some(wanted)
}

fn fired(timer: &mut Option<Nanos>, now: Nanos) {
    if timer.is_some_and(|set| set <= now) {
        *timer = None;
    }
}

fn digest(at: Nanos, ttl: u8, packet: &Packet) -> Digest {
    let (protocol, port, payload) = match packet.body {
        Body::Voice { call, number, .. } => {
            let rtp = RtpFields {
                payload_type: 18,
                marker: false,
                sequence: number as u16,
                timestamp: number.wrapping_mul(160),
                ssrc: (2 * call + index(packet.direction)) as u32,
                payload_bytes: 20,
            };
            (PROTOCOL_UDP, CALL_PORT + 2 * call as u16, Payload::Rtp(rtp))
        }
        Body::Tcp { flow, segment } => {
            let fields = TcpFields {
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
            };
            (PROTOCOL_TCP, TCP_PORT + flow as u16, Payload::Tcp(fields))
        }
    };
    let (source, destination) = match packet.direction {
        Direction::ToMesh => (WIRED, MESH),
        Direction::FromMesh => (MESH, WIRED),
    };
    Digest {
        at,
        waited: Nanos::ZERO,
        direction: packet.direction,
        source,
        destination,
        source_port: port,
        destination_port: port,
        protocol,
        ttl,
        traffic_class: 0,
        bytes: packet.bytes,
        payload,
    }
}
