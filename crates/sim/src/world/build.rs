//! From a scenario to a World that is ready to run.

use fairhop_model::markov::Channel;
use fairhop_model::phy::Rate;
use fairhop_model::units::{BitRate, Nanos};
use fairhop_model::voice::Codec;
use fairhop_transport::aimd::{
    Receiver as AimdReceiver, ReceiverConfig as AimdReceiverConfig, Sender as AimdSender,
    SenderConfig as AimdSenderConfig, SenderStats as AimdSenderStats,
};
use fairhop_transport::quic::{
    Receiver as QuicReceiver, ReceiverConfig as QuicReceiverConfig, Sender as QuicSender,
    SenderConfig as QuicSenderConfig, SenderStats as QuicSenderStats,
};
use fairhop_transport::tcp::rtt::RttConfig;
use fairhop_transport::tcp::{CongestionKind, HyStart, ReceiverConfig, Recovery, SenderConfig};

use super::aimd::AimdStream;
use super::changes::{Changes, NEXT, both_ways, closed, in_order, make, paths, wires};
use super::control::{Control, crossings};
use super::quic::QuicTransfer;
use super::reports::Reporter;
use super::sessions::Session;
use super::throttle::{Surroundings, Throttle};
use super::traffic::{
    DatagramSource, Flow, FlowKind, IP_HEADER, Interval, RTP_HEADER, Source, Transfer, UDP_HEADER, stream,
};
use super::video::{FrameSizes, Video, VideoPlan};
use super::{OnAirs, World};
use crate::engine::{EventKind, Events, Purpose, Stream, Timer};
use crate::mac::{BROADCAST, MacParams, Stations};
use crate::output::headers::Addresses;
use crate::packet::{NodeId, Packets};
use crate::queue::Queue;
use crate::radio::{LIGHT_M_PER_S, Links, Position, RadioParams, Receiver as RadioReceiver};
use crate::recorder::{Recorder, TransactionRecord};
use crate::routing::{PathFinder, Routes, Wires};
use crate::rtcp::Reception;
use crate::scenario::{
    self, Change, CodecName, Endpoint, Finding, LinkDirection, LinkLoss, NamedPlace, Place, Scenario,
    SizeLaw, SlottedChannel, TcpHyStart, TcpProfile, TcpRecovery, TcpVariant, TimeLaw, Traffic, WiredLink,
};
use crate::wired::{Errors, Link, LinkParams};

impl World {
    /// A World that is ready to run, with every random draw fixed by `seed`. The scenario must have passed
    /// [`Scenario::findings`].
    ///
    /// # Errors
    /// What only the placed network can tell: flows without a route, paths set by hand over links that do not work,
    /// random nodes that cannot be connected, radios that reach farther than the timing of 802.11 allows.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Vec<Finding>> {
        let radio = RadioParams::new(&scenario.radio);
        let standard = scenario.radio.standard;
        let data_rate = standard.rate(scenario.radio.rate_mbps).unwrap_or(standard.rates()[0]);
        let basic_rates: Vec<Rate> = match &scenario.radio.basic_rates_mbps {
            Some(rates) => rates.iter().filter_map(|&mbps| standard.rate(mbps)).collect(),
            None => standard.mandatory_rates().to_vec(),
        };
        let mac = MacParams::new(&scenario.radio, &scenario.mac, data_rate, &basic_rates);
        let links = place(scenario, &radio, data_rate, seed)?;
        check_reach(&links, &mac)?;

        let nodes = links.positions().len();
        let hosts = hosts(scenario);
        let wired = wire(scenario, seed, nodes as NodeId);
        let wires = wires(&wired, nodes + hosts.len());
        let mut plan = Plan::new(scenario, seed, nodes as NodeId);
        for (entry, (traffic, names)) in scenario.traffic.iter().zip(scenario.flow_names()).enumerate() {
            for name in names {
                plan.add(entry, traffic, name);
            }
        }
        let routes = Routes::new(&plan.paths_from_start(&links, &wires, &radio, &mac)?, &wires);
        plan.check_changes(&links, &wires, &radio, &mac)?;

        let duration = Nanos::from_secs_f64(scenario.duration_s);
        let mut events = Events::new(nodes, 2 * (plan.sources.len() + 2 * plan.transfers.len()) + nodes + 64);
        for (index, start) in plan.starts.iter().enumerate() {
            events.push(*start, EventKind::Source, index as u32);
        }
        let control = control(scenario, &plan, &routes, &wired, &links, &radio, &basic_rates);
        if let Some(control) = control.as_deref().filter(|control| control.next_time() <= duration) {
            events.push(control.next_time(), EventKind::Control, 0);
        }
        let changes = Changes::new(scenario);
        for at in changes.iter().flat_map(|changes| changes.times()) {
            events.push(at, EventKind::Change, NEXT);
        }
        let mut recorder = Recorder::new(
            Nanos::from_secs_f64(scenario.warmup_s),
            Nanos::from_secs_f64(scenario.record.interval_s),
            duration,
            Nanos::from_millis_f64(scenario.voice.playout_ms),
            &plan.measured,
            plan.transfers.len(),
            nodes,
        );
        for (index, flow) in plan.flows.iter().enumerate() {
            if let Some(bound) = flow.delay_bound {
                recorder.streams[stream(index, false) as usize].playout = bound;
            }
        }
        let first_sample =
            if recorder.warmup == Nanos::ZERO { Nanos::ZERO } else { recorder.next_sample(Nanos::ZERO) };
        if first_sample <= duration {
            events.push(first_sample, EventKind::Sample, 0);
        }
        // What a station's queue needs to know of its radio: how long a packet takes at best.
        let rate = mac.data_rate.bit_rate();
        let queue = station_queue(scenario);
        // Each queue of a station has its own stream.
        let mut queues = vec![0_u64; nodes];
        let station_queues = |node: usize| {
            let subject = node as u64 | queues[node] << 32;
            queues[node] += 1;
            Queue::new(&queue, rate, Stream::new(seed, subject, Purpose::Queue))
        };
        Ok(Self {
            receivers: (0..nodes)
                .map(|n| RadioReceiver::new(Stream::new(seed, n as u64, Purpose::Reception)))
                .collect(),
            stations: Stations::new(&mac, nodes, station_queues, |n| {
                Stream::new(seed, n as u64, Purpose::Backoff)
            }),
            on_air: OnAirs::new(nodes),
            fetches: nodes > World::FEW,
            consequences: Vec::with_capacity(nodes),
            hosts,
            scenario: scenario.clone(),
            seed,
            events,
            radio,
            mac,
            links,
            routes,
            wired,
            packets: Packets::with_capacity(1024),
            flows: plan.flows,
            sources: plan.sources,
            transfers: plan.transfers,
            sessions: plan.sessions,
            videos: plan.videos,
            aimd: plan.aimd,
            quic: plan.quic,
            reporters: plan.reporters,
            changes,
            control,
            recorder,
            end: duration,
            finished: false,
            tap: None,
        })
    }
}

/// The control of a scenario, with what it needs to know of the network.
#[allow(clippy::too_many_arguments)]
fn control(
    scenario: &Scenario,
    plan: &Plan<'_>,
    routes: &Routes,
    wired: &[Link],
    links: &Links,
    radio: &RadioParams,
    basic: &[Rate],
) -> Option<Box<Control>> {
    scenario.control.as_ref()?;
    let sessions: Vec<usize> = plan.sessions.iter().map(|session| session.transfer).collect();
    let throttle = Throttle::new(&Surroundings {
        scenario,
        flows: &plan.flows,
        transfers: &plan.transfers,
        sessions: &sessions,
        routes,
        wired,
        links,
        radio,
        basic,
    });
    let ends = || plan.flows.iter().map(|flow| (flow.from, flow.to));
    let gateways = scenario.topology.gateways().iter();
    let crossings = gateways.map(|&node| (node, crossings(ends(), node, routes, wired)));
    let addresses = Addresses { nodes: plan.nodes, internet: scenario.internet.is_some() };
    Control::new(scenario, addresses, crossings, throttle)
}

/// The queue of every station.
fn station_queue(scenario: &Scenario) -> scenario::Queue {
    match (&scenario.control, &scenario.mac.queue) {
        (Some(scenario::Control::Priority { .. }), queue) => {
            let (packets, bytes) = queue.limits();
            scenario::Queue::Priority { packets, bytes }
        }
        (_, queue) => queue.clone(),
    }
}

/// The names of the hosts without radio, in the order of their numbers after the nodes'.
fn hosts(scenario: &Scenario) -> Vec<String> {
    let internet = scenario.internet.iter().map(|_| "internet".to_owned());
    internet.chain(scenario.wired_hosts().iter().map(|host| host.name.to_string())).collect()
}

/// The number of a place; `nodes` is how many have a radio.
fn number_of(scenario: &Scenario, nodes: NodeId, place: Place) -> NodeId {
    let internet = NodeId::from(scenario.internet.is_some());
    match scenario.resolve_place(place) {
        Endpoint::Node(node) => node,
        Endpoint::Internet => nodes,
        Endpoint::Host(host) => nodes + internet + host as NodeId,
        Endpoint::Broadcast => BROADCAST,
    }
}

/// Both directions of every wired link: first those of the Internet, towards it and from it, of each gateway, then the others in the order
/// of the scenario.
fn wire(scenario: &Scenario, seed: u64, nodes: NodeId) -> Vec<Link> {
    let gateways = || scenario.topology.gateways().iter().copied();
    let ends = scenario.internet.iter().flat_map(|internet| gateways().map(move |node| (node, internet)));
    let internet = ends.map(|(gateway, internet)| WiredLink {
        between: vec![Place::Node(gateway), Place::Named(NamedPlace::Internet)],
        rate_mbps: internet.rate_mbps,
        delay_ms: internet.delay_ms,
        queue: internet.queue.clone(),
        overhead_bytes: 0,
        loss: None,
        channel: None,
        forward: None,
        backward: None,
    });
    let mut links = Vec::new();
    for link in internet.chain(scenario.wired.iter().flat_map(|wired| wired.links.iter().cloned())) {
        let [first, second] = [0, 1].map(|end| number_of(scenario, nodes, link.between[end]));
        for (from, to, other) in [(first, second, &link.forward), (second, first, &link.backward)] {
            let subject = links.len() as u64;
            links.push(direction(&link, from, to, other.as_ref(), seed, subject));
        }
    }
    links
}

/// One direction of a link, with what is different in it.
fn direction(
    link: &WiredLink,
    from: NodeId,
    to: NodeId,
    other: Option<&LinkDirection>,
    seed: u64,
    subject: u64,
) -> Link {
    let loss = other.and_then(|other| other.loss).or(link.loss);
    let channel = other.and_then(|other| other.channel).or(link.channel);
    let random = |what| Stream::new(seed, WIRED_SUBJECTS + 2 * subject + what, Purpose::Channel);
    let params = LinkParams {
        from,
        to,
        rate: BitRate::from_mbps(other.and_then(|other| other.rate_mbps).unwrap_or(link.rate_mbps)),
        delay: Nanos::from_millis_f64(other.and_then(|other| other.delay_ms).unwrap_or(link.delay_ms)),
        overhead: link.overhead_bytes,
        errors: match loss {
            Some(LinkLoss { every: Some(every), over_bytes, .. }) => {
                Errors::Every { every: u64::from(every), over_bytes, seen: 0 }
            }
            Some(LinkLoss { probability: Some(probability), over_bytes, .. }) => {
                Errors::Random { probability, over_bytes, random: random(0) }
            }
            _ => Errors::Never,
        },
        channel: channel.and_then(|SlottedChannel { error, memory, states, arq, slot_bytes }| {
            let channel = Channel::multi_state(states as usize, error, memory).ok()?;
            Some((channel, arq, slot_bytes))
        }),
    };
    let queue = other.and_then(|other| other.queue.as_ref()).unwrap_or(&link.queue);
    Link::new(params, queue, Stream::new(seed, WIRED_SUBJECTS + subject, Purpose::Queue), random(1))
}

/// Subjects of the random streams of wired links begin here, apart from those of stations.
const WIRED_SUBJECTS: u64 = 1 << 32;

/// Places the nodes and computes who hears whom.
fn place(
    scenario: &Scenario,
    radio: &RadioParams,
    data_rate: Rate,
    seed: u64,
) -> Result<Links, Vec<Finding>> {
    let mut draws = Stream::new(seed, 0, Purpose::Placement);
    let model = &scenario.radio.propagation;
    let linked = |at: &[(f64, f64)], from: usize, to: usize| {
        let power =
            Links::power_between(model, radio, seed, (from, to), position(at[from]), position(at[to]));
        radio.decodes(data_rate, power)
    };
    let at = scenario.topology.positions(|| draws.unit(), linked).map_err(|finding| vec![finding])?;
    Ok(Links::new(model, radio, seed, at.into_iter().map(position).collect()))
}

fn position((x_m, y_m): (f64, f64)) -> Position {
    Position { x_m, y_m }
}

/// A signal must reach everybody before an answer to it can begin: the timing of the standard supposes so.
fn check_reach(links: &Links, mac: &MacParams) -> Result<(), Vec<Finding>> {
    let longest =
        (0..links.positions().len()).map(|node| links.longest_delay(node)).max().unwrap_or_default();
    if longest < mac.phy.sifs {
        return Ok(());
    }
    let most_m = (mac.phy.sifs.as_secs_f64() * LIGHT_M_PER_S).floor();
    Err(vec![Finding::new(
        "radio.propagation",
        format!(
            "signals are heard over {:.0} m, but the inter-frame spaces of 802.11 bridge {most_m:.0} m at most",
            longest.as_secs_f64() * LIGHT_M_PER_S
        ),
        "reaches too far",
        "place the nodes closer together, lower tx_power_dbm, or shorten the radii of the range model",
    )])
}

/// Flows, sources and transfers in the making.
struct Plan<'a> {
    scenario: &'a Scenario,
    seed: u64,
    nodes: NodeId,
    flows: Vec<Flow>,
    measured: Vec<bool>,
    sources: Vec<Source>,
    starts: Vec<Nanos>,
    transfers: Vec<Transfer>,
    sessions: Vec<Session>,
    videos: Vec<Video>,
    aimd: Vec<AimdStream>,
    quic: Vec<QuicTransfer>,
    reporters: Vec<Reporter>,
}

impl<'a> Plan<'a> {
    fn new(scenario: &'a Scenario, seed: u64, nodes: NodeId) -> Self {
        Self {
            scenario,
            seed,
            nodes,
            flows: Vec::new(),
            measured: Vec::new(),
            sources: Vec::new(),
            starts: Vec::new(),
            transfers: Vec::new(),
            sessions: Vec::new(),
            videos: Vec::new(),
            aimd: Vec::new(),
            quic: Vec::new(),
            reporters: Vec::new(),
        }
    }

    fn add(&mut self, entry: usize, traffic: &Traffic, name: String) {
        let (start_s, stop_s) = traffic.times();
        let mut flow = Flow {
            name,
            entry,
            kind: FlowKind::Cbr,
            from: self.node(traffic.from()),
            to: self.node(traffic.to()),
            dscp: traffic.dscp(),
            delay_bound: traffic.delay_bound_ms().map(Nanos::from_millis_f64),
            start: Nanos::from_secs_f64(start_s),
            stop: stop_s.map_or(Nanos::MAX, Nanos::from_secs_f64),
        };
        let index = self.flows.len();
        match traffic {
            Traffic::Call { codec, rtcp_interval_s, .. } => {
                let codec = codec_of(*codec);
                flow.kind = FlowKind::Call(codec);
                let profile = codec.profile();
                let bytes = IP_HEADER + UDP_HEADER + RTP_HEADER + profile.payload_bytes;
                let seconds = profile.interval.as_secs_f64();
                self.datagrams(index, &flow, false, bytes, seconds, 1, Some(codec));
                self.datagrams(index, &flow, true, bytes, seconds, 1, Some(codec));
                if *rtcp_interval_s > 0.0 {
                    let first = self.sources.len() - 2;
                    self.reports(index, &flow, false, codec, first, *rtcp_interval_s);
                    self.reports(index, &flow, true, codec, first + 1, *rtcp_interval_s);
                }
            }
            Traffic::Bulk { .. } => {
                flow.kind = FlowKind::Bulk(self.transfers.len());
                self.transfer(index, &flow, traffic);
            }
            Traffic::Aimd { .. } => {
                flow.kind = FlowKind::Aimd(self.aimd.len());
                self.aimd(index, &flow, traffic);
            }
            Traffic::Quic { .. } => {
                flow.kind = FlowKind::Quic(self.quic.len());
                self.quic(index, &flow, traffic);
            }
            Traffic::Cbr { rate_kbps, payload_bytes, .. } => {
                let bytes = IP_HEADER + UDP_HEADER + payload_bytes;
                let seconds = f64::from(*payload_bytes) * 8.0 / (rate_kbps * 1000.0);
                self.datagrams(index, &flow, false, bytes, seconds, 1, None);
            }
            Traffic::Burst { rate_kbps, packet_bytes, burst_packets, .. } => {
                flow.kind = FlowKind::Burst;
                let seconds =
                    f64::from(*packet_bytes) * 8.0 * f64::from(*burst_packets) / (rate_kbps * 1000.0);
                self.datagrams(index, &flow, false, *packet_bytes, seconds, *burst_packets, None);
            }
            Traffic::Web { size, think, .. } => {
                flow.kind = FlowKind::Web(self.sessions.len());
                let configs = tcp_configs(traffic);
                self.session(index, &flow, *size, *think, None, configs);
            }
            Traffic::Request { request_bytes, response, think, .. } => {
                flow.kind = FlowKind::Request(self.sessions.len());
                let configs = tcp_configs(traffic);
                self.session(index, &flow, *response, *think, Some(*request_bytes), configs);
            }
            Traffic::Video { .. } => {
                flow.kind = FlowKind::Video(self.videos.len());
                self.video(index, &flow, traffic);
            }
        }
        // The data of a request flow is what comes back.
        self.measured.push(!matches!(flow.kind, FlowKind::Request(_)));
        self.measured.push(matches!(flow.kind, FlowKind::Call(_) | FlowKind::Request(_)));
        self.flows.push(flow);
    }

    /// Where the congestion control of a stream begins its random choices.
    fn congestion_seed(&self, stream: u32) -> u64 {
        Stream::new(self.seed, u64::from(stream), Purpose::Congestion).seed()
    }

    fn node(&self, place: Place) -> NodeId {
        number_of(self.scenario, self.nodes, place)
    }

    #[allow(clippy::too_many_arguments)]
    fn datagrams(
        &mut self,
        index: usize,
        flow: &Flow,
        back: bool,
        bytes: u32,
        seconds: f64,
        burst: u32,
        codec: Option<Codec>,
    ) {
        let stream = stream(index, back);
        let phase = Stream::new(self.seed, u64::from(stream), Purpose::Source).unit() * seconds;
        let start = flow.start.saturating_add(Nanos::from_secs_f64(phase));
        let (from, to) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
        self.starts.push(start);
        self.sources.push(Source::Datagrams(DatagramSource {
            stream,
            from,
            to,
            bytes,
            interval: Interval::new(start, seconds),
            burst,
            stop: flow.stop,
            sequence: 0,
            codec,
        }));
    }

    /// The end of a call whose voice is the source with this number reports.
    fn reports(
        &mut self,
        index: usize,
        flow: &Flow,
        back: bool,
        codec: Codec,
        source: usize,
        interval_s: f64,
    ) {
        let stream = stream(index, back);
        let (from, to) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let mut reporter = Reporter {
            stream,
            source,
            from,
            to,
            start: self.starts[source],
            stop: flow.stop,
            codec,
            interval_s,
            random: Stream::new(self.seed, u64::from(stream), Purpose::Report),
            heard: Reception::default(),
        };
        self.starts.push(reporter.start.saturating_add(reporter.first_pause()));
        self.sources.push(Source::Report(self.reporters.len()));
        self.reporters.push(reporter);
    }

    fn aimd(&mut self, index: usize, flow: &Flow, traffic: &Traffic) {
        let Traffic::Aimd {
            alpha,
            beta,
            packet_bytes,
            rwnd_packets,
            initial_window_packets,
            rto_min_ms,
            stop_s,
            ..
        } = traffic
        else {
            return;
        };
        let friendly = AimdSenderConfig::tcp_friendly(*beta);
        let sender = AimdSenderConfig {
            alpha: alpha.unwrap_or(friendly.alpha),
            initial_window: *initial_window_packets,
            rtt: RttConfig { min_rto: Nanos::from_millis_f64(*rto_min_ms), ..friendly.rtt },
            ..friendly
        };
        let rwnd = rwnd_packets.map_or(u16::MAX, |packets| packets.min(u32::from(u16::MAX)) as u16);
        let stream = self.aimd.len();
        self.aimd.push(AimdStream {
            flow: index,
            sender: AimdSender::new(sender),
            receiver: AimdReceiver::new(AimdReceiverConfig { rwnd, ..AimdReceiverConfig::default() }),
            timer: Timer::default(),
            packet_bytes: *packet_bytes,
            warmup: AimdSenderStats::default(),
        });
        self.starts.push(flow.start);
        let stop = stop_s.map(Nanos::from_secs_f64);
        self.sources.push(Source::Aimd { index: stream, stop, started: false });
    }

    fn quic(&mut self, index: usize, flow: &Flow, traffic: &Traffic) {
        let Traffic::Quic {
            controller,
            hystart,
            size_bytes,
            datagram_bytes,
            receive_buffer_bytes,
            initial_window_packets,
            stop_s,
            ..
        } = traffic
        else {
            return;
        };
        let buffer = u64::from(*receive_buffer_bytes);
        let mut sender = QuicSenderConfig {
            datagram_bytes: *datagram_bytes,
            initial_window: *initial_window_packets,
            congestion: congestion_of(*controller),
            initial_max_data: buffer,
            ..QuicSenderConfig::default()
        };
        sender.tuning.seed = self.congestion_seed(stream(index, false));
        sender.tuning.hystart = hystart.map_or(sender.tuning.hystart, hystart_of);
        let transfer = self.quic.len();
        self.quic.push(QuicTransfer {
            flow: index,
            sender: QuicSender::new(sender),
            receiver: QuicReceiver::new(QuicReceiverConfig { buffer, ..QuicReceiverConfig::default() }),
            sender_timer: Timer::default(),
            receiver_timer: Timer::default(),
            delivered: 0,
            size: *size_bytes,
            completed: None,
            warmup: QuicSenderStats::default(),
        });
        self.starts.push(flow.start);
        let stop = stop_s.map(Nanos::from_secs_f64);
        self.sources.push(Source::Quic { index: transfer, stop, started: false });
    }

    fn transfer(&mut self, index: usize, flow: &Flow, traffic: &Traffic) {
        let Traffic::Bulk { size_bytes, stop_s, .. } = traffic else { return };
        let (mut sender, receiver) = tcp_configs(traffic);
        sender.tuning.seed = self.congestion_seed(stream(index, false));
        let tcp = self.transfers.len();
        self.transfers.push(Transfer {
            size: *size_bytes,
            ..Transfer::new(index, (flow.from, flow.to), sender, receiver)
        });
        self.starts.push(flow.start);
        let offer = size_bytes.unwrap_or(u64::MAX);
        self.sources.push(Source::Transfer { tcp, stop: stop_s.map(Nanos::from_secs_f64), offer });
    }

    /// A session of pages from one end, or of requests from one end that the other answers.
    fn session(
        &mut self,
        index: usize,
        flow: &Flow,
        size: SizeLaw,
        think: TimeLaw,
        request_bytes: Option<u32>,
        (mut sender, receiver): (SenderConfig, ReceiverConfig),
    ) {
        sender.tuning.seed = self.congestion_seed(stream(index, false));
        let session = self.sessions.len();
        let ends = if request_bytes.is_some() { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let mut data = Transfer { session: Some(session), ..Transfer::new(index, ends, sender, receiver) };
        let mut requests = None;
        if request_bytes.is_some() {
            let ask = Transfer {
                session: Some(session),
                ack_stream: stream(index, false),
                ..Transfer::new(index, (flow.from, flow.to), sender, receiver)
            };
            requests = Some(self.transfers.len());
            self.transfers.push(ask);
            (data.connection, data.data_stream, data.ack_stream) =
                (1, stream(index, true), stream(index, false));
        }
        let transfer = self.transfers.len();
        self.transfers.push(data);
        let mut session = Session {
            transfer,
            requests,
            request_bytes: request_bytes.unwrap_or_default(),
            size,
            think,
            stop: flow.stop,
            source: self.sources.len() as u32,
            random: Stream::new(self.seed, u64::from(stream(index, false)), Purpose::Source),
            began: None,
            asking: false,
            awaited: 0,
            asked: 0,
            answered: 0,
            record: TransactionRecord::default(),
        };
        self.starts.push(flow.start.saturating_add(session.pause()));
        self.sources.push(Source::Session(self.sessions.len()));
        self.sessions.push(session);
    }

    fn video(&mut self, index: usize, flow: &Flow, traffic: &Traffic) {
        let Traffic::Video {
            rate_kbps,
            frames_per_s,
            group_frames,
            i_to_p,
            variation,
            packet_bytes,
            deadline_ms,
            ..
        } = traffic
        else {
            return;
        };
        let mut random = Stream::new(self.seed, u64::from(stream(index, false)), Purpose::Source);
        let seconds = 1.0 / frames_per_s;
        let start = flow.start.saturating_add(Nanos::from_secs_f64(random.unit() * seconds));
        let frame_bytes = rate_kbps * 125.0 * seconds;
        self.starts.push(start);
        self.sources.push(Source::Video(self.videos.len()));
        self.videos.push(Video::new(VideoPlan {
            stream: stream(index, false),
            from: flow.from,
            to: flow.to,
            sizes: FrameSizes::new(frame_bytes, *group_frames, *i_to_p, *variation),
            packet_bytes: *packet_bytes,
            headers: IP_HEADER + UDP_HEADER,
            dscp: flow.dscp,
            interval: Interval::new(start, seconds),
            stop: flow.stop,
            deadline: deadline_ms.map_or(Nanos::MAX, Nanos::from_millis_f64),
            random,
        }));
    }

    /// Paths for every flow, both ways, as the network is at the start.
    fn paths_from_start(
        &self,
        links: &Links,
        wires: &Wires,
        radio: &RadioParams,
        mac: &MacParams,
    ) -> Result<Vec<Vec<u32>>, Vec<Finding>> {
        let until = in_order(self.scenario).next().map_or(Nanos::MAX, |(_, at, _)| at);
        self.paths(links, wires, radio, mac, (Nanos::ZERO, until))
    }

    /// Paths for every flow, both ways, where those who may send at some time from `during.0` to `during.1` need one.
    fn paths(
        &self,
        links: &Links,
        wires: &Wires,
        radio: &RadioParams,
        mac: &MacParams,
        during: (Nanos, Nanos),
    ) -> Result<Vec<Vec<u32>>, Vec<Finding>> {
        let mut finder = PathFinder::new(links, wires, radio, &self.scenario.routing, mac)
            .past(closed(self.scenario, self.nodes));
        let mut findings = Vec::new();
        for (index, path) in self.scenario.routing.paths.iter().enumerate() {
            if let Some(hop) = path.windows(2).find(|hop| !finder.usable(hop[0], hop[1])) {
                findings.push(Finding::new(
                    format!("routing.paths.{index}"),
                    format!("nodes {} and {} cannot hear each other well enough for a hop", hop[0], hop[1]),
                    "this path does not work",
                    distance_hint(links, hop[0], hop[1]),
                ));
            }
        }
        let mut told = None;
        let mut found = Vec::new();
        for (flow, path) in paths(&self.flows, &mut finder) {
            let sends = flow.start < during.1 && during.0 < flow.stop;
            if path.is_none() && sends && told != Some(flow.entry) {
                told = Some(flow.entry);
                findings.push(self.no_route(flow.entry, flow, links));
            }
            found.extend(path);
        }
        if findings.is_empty() { Ok(both_ways(found.into_iter())) } else { Err(findings) }
    }

    /// Whether the network holds together whatever happens to it.
    fn check_changes(
        &self,
        links: &Links,
        wires: &Wires,
        radio: &RadioParams,
        mac: &MacParams,
    ) -> Result<(), Vec<Finding>> {
        let changes: Vec<_> = in_order(self.scenario).collect();
        let Some(_) = changes.first() else { return Ok(()) };
        let (mut links, mut mac) = (links.clone(), mac.clone());
        for (number, (place, at, change)) in changes.iter().enumerate() {
            make(change, self.scenario.radio.standard, &mut links, &mut mac);
            let until = changes.get(number + 1).map_or(Nanos::MAX, |&(_, next, _)| next);
            if until == *at {
                continue; // with the next one
            }
            let path = format!("change.{place}");
            check_change(&path, change, &links)?;
            let after = |findings: Vec<Finding>| -> Vec<Finding> {
                let told = |finding: Finding| Finding {
                    path: path.clone(),
                    message: format!("after this change, {}", finding.message),
                    ..finding
                };
                findings.into_iter().map(told).collect()
            };
            check_reach(&links, &mac).map_err(after)?;
            self.paths(&links, wires, radio, &mac, (*at, until)).map_err(after)?;
        }
        Ok(())
    }
}

/// Whether a change makes sense among the links that there are then.
fn check_change(path: &str, change: &Change, links: &Links) -> Result<(), Vec<Finding>> {
    let at = links.positions();
    let finding = match *change {
        Change::Move { node, .. } => {
            let mut others = (0..at.len()).filter(|&other| other != node as usize);
            let near = |other: &usize| at[node as usize].distance_m(at[*other]) < scenario::MIN_DISTANCE_M;
            others.find(near).map(|other| {
                Finding::new(
                    path,
                    format!("node {node} moves to the place of node {other}"),
                    "taken",
                    "choose another place: path loss has no meaning at distance 0",
                )
            })
        }
        Change::Rate { from, to: Some(to), .. } if links.between(from as usize, to as usize).is_none() => {
            Some(Finding::new(
                format!("{path}.to"),
                format!(
                    "nodes {from} and {to} cannot hear each other: there is no hop whose rate could change"
                ),
                "not a neighbour",
                distance_hint(links, from, to),
            ))
        }
        Change::Rate { .. } => None,
    };
    finding.map_or(Ok(()), |finding| Err(vec![finding]))
}

impl Plan<'_> {
    /// A flow has no path. The one from or to the Internet misses the way to the gateway.
    fn no_route(&self, entry: usize, flow: &Flow, links: &Links) -> Finding {
        let gateway = self.scenario.topology.gateway();
        let mesh_end = |node: NodeId| {
            if node == self.nodes && self.scenario.internet.is_some() { gateway } else { node }
        };
        let (from, to) = (mesh_end(flow.from), mesh_end(flow.to));
        if from < self.nodes && to < self.nodes {
            return Finding::no_route(entry, from, to, &distance_hint(links, from, to));
        }
        let names = hosts(self.scenario);
        let name = |node: NodeId| match names.get(node.wrapping_sub(self.nodes) as usize) {
            Some(name) if node >= self.nodes => format!("\"{name}\""),
            _ => format!("node {node}"),
        };
        Finding::new(
            format!("traffic.{entry}.to"),
            format!("no route from {} to {}", name(flow.from), name(flow.to)),
            "cannot be reached",
            "join them with `[[wired.links]]`: hosts have no radio and need a link each; radio hops need nodes that hear \
             each other",
        )
    }
}

/// What would bring two nodes together.
fn distance_hint(links: &Links, from: u32, to: u32) -> String {
    let at = links.positions();
    let nearest = |node: u32| {
        (0..at.len())
            .filter(|&other| other != node as usize)
            .map(|other| at[node as usize].distance_m(at[other]))
            .fold(f64::INFINITY, f64::min)
    };
    format!(
        "they are {:.0} m apart; the nearest node to {from} is {:.0} m away, the nearest to {to} {:.0} m; place nodes \
         between them, or raise the reach of the radio (receive_m, tx_power_dbm, or a slower rate_mbps)",
        at[from as usize].distance_m(at[to as usize]),
        nearest(from),
        nearest(to),
    )
}

fn congestion_of(tcp: TcpVariant) -> CongestionKind {
    match tcp {
        TcpVariant::Reno => CongestionKind::Reno,
        TcpVariant::Newreno => CongestionKind::NewReno,
        TcpVariant::Vegas => CongestionKind::Vegas,
        TcpVariant::Veno => CongestionKind::Veno,
        TcpVariant::Westwood => CongestionKind::Westwood,
        TcpVariant::WestwoodPlus => CongestionKind::WestwoodPlus,
        TcpVariant::Cubic => CongestionKind::Cubic,
        TcpVariant::Compound => CongestionKind::Compound,
        TcpVariant::Bbr => CongestionKind::Bbr,
    }
}

fn hystart_of(hystart: TcpHyStart) -> HyStart {
    match hystart {
        TcpHyStart::Off => HyStart::Off,
        TcpHyStart::Classic => HyStart::Classic,
        TcpHyStart::PlusPlus => HyStart::PlusPlus,
    }
}

/// The machines of a profile.
fn profile_configs(profile: TcpProfile) -> (SenderConfig, ReceiverConfig) {
    match profile {
        TcpProfile::Standard => (SenderConfig::default(), ReceiverConfig::default()),
        TcpProfile::Linux => (SenderConfig::linux(), ReceiverConfig::linux()),
    }
}

/// How the TCP machines of an entry behave: its profile, and what it says beside.
fn tcp_configs(traffic: &Traffic) -> (SenderConfig, ReceiverConfig) {
    let (Traffic::Bulk { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. }
    | Traffic::Web { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. }
    | Traffic::Request { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. }) = traffic
    else {
        return profile_configs(TcpProfile::Standard);
    };
    let (mut sender, mut receiver) = profile_configs(*profile);
    sender.congestion = congestion_of(*tcp);
    (sender.mss, receiver.mss) = (*mss_bytes, *mss_bytes);
    sender.initial_window = *initial_window_packets;
    sender.min_rto = rto_min_ms.map_or(sender.min_rto, Nanos::from_millis_f64);
    let Traffic::Bulk {
        byte_counting,
        receive_buffer_bytes,
        max_window_packets,
        delayed_ack_segments,
        delayed_ack_ms,
        sack,
        ecn,
        timestamps,
        recovery,
        prr,
        undo,
        hystart,
        ..
    } = traffic
    else {
        return (sender, receiver);
    };
    sender.byte_counting = *byte_counting;
    sender.max_window = *max_window_packets;
    receiver.buffer = *receive_buffer_bytes;
    receiver.delayed_ack_segments = *delayed_ack_segments;
    receiver.delayed_ack_timeout =
        delayed_ack_ms.map_or(receiver.delayed_ack_timeout, Nanos::from_millis_f64);
    (sender.sack, receiver.sack) = (*sack, *sack);
    (sender.ecn, receiver.ecn) = (*ecn, *ecn);
    sender.timestamps = timestamps.unwrap_or(sender.timestamps);
    receiver.timestamps = sender.timestamps;
    sender.recovery = recovery.map_or(sender.recovery, |recovery| match recovery {
        TcpRecovery::Rfc6675 => Recovery::Rfc6675,
        TcpRecovery::RackTlp => Recovery::RackTlp,
    });
    sender.prr = prr.unwrap_or(sender.prr);
    sender.undo = undo.unwrap_or(sender.undo);
    sender.tuning.hystart = hystart.map_or(sender.tuning.hystart, hystart_of);
    (sender, receiver)
}

fn codec_of(name: CodecName) -> Codec {
    match name {
        CodecName::G729a => Codec::G729a,
        CodecName::G711 => Codec::G711,
        CodecName::G7231 => Codec::G7231,
        CodecName::Opus => Codec::Opus,
    }
}
