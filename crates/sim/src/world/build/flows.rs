//! Flows, traffic sources and transport endpoints of a scenario's traffic.

use fairhop_model::headers;
use fairhop_model::units::Nanos;
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

use super::wired::number_of;
use crate::engine::{Purpose, Stream, Timer};
use crate::packet::{NodeId, stream};
use crate::recorder::TransactionRecord;
use crate::rtcp::Reception;
use crate::scenario::{
    self, Place, Scenario, SizeLaw, TcpHyStart, TcpProfile, TcpRecovery, TcpVariant, TimeLaw, Traffic,
};
use crate::world::applications::aimd::AimdStream;
use crate::world::applications::datagrams::{Content, DatagramEvent, DatagramSource, Interval, Speech};
use crate::world::applications::flow::{Flow, FlowKind};
use crate::world::applications::quic::QuicTransfer;
use crate::world::applications::sessions::Session;
use crate::world::applications::tcp::{TcpSource, Transfer};
use crate::world::applications::video::{FrameSizes, Video, VideoPlan};
use crate::world::applications::{Applications, Kind, Reporter, Source};

/// The applications of a scenario while they are built.
pub(super) struct Plan<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) seed: u64,
    pub(super) nodes: NodeId,
    /// Whether delay and loss of each stream are measured.
    pub(super) measured: Vec<bool>,
    /// When each source is due first.
    pub(super) starts: Vec<Nanos>,
    pub(super) applications: Applications,
}

impl<'a> Plan<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64, nodes: NodeId) -> Self {
        Self {
            scenario,
            seed,
            nodes,
            measured: Vec::new(),
            starts: Vec::new(),
            applications: Applications::default(),
        }
    }

    pub(super) fn add(&mut self, entry: usize, traffic: &Traffic, name: String) {
        if let Traffic::Real(_) = traffic {
            return; // its programs are not simulated
        }
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
        let index = self.applications.flows.len();
        match traffic {
            Traffic::Call(scenario::Call {
                codec,
                rtcp_interval_s,
                silence_suppression,
                drift_ppm,
                timer_ms,
                opaque,
                ..
            }) => {
                let codec = *codec;
                flow.kind = FlowKind::Call(codec);
                let profile = codec.profile();
                let bytes = headers::IP_UDP_RTP + profile.payload_bytes;
                let nominal = profile.interval.as_secs_f64();
                let content = if *opaque { Content::Plain } else { Content::Voice(codec) };
                let voice = [false, true].map(|back| {
                    let seconds = if back { nominal } else { nominal / (1.0 + drift_ppm * 1e-6) };
                    let (place, start) = self.datagrams(index, &flow, back, bytes, seconds, 1, content);
                    let source = &mut self.applications.datagrams.sources[place];
                    source.interval = source.interval.with_timer(Nanos::from_millis_f64(*timer_ms));
                    if *silence_suppression {
                        let random = Stream::new(self.seed, u64::from(stream(index, back)), Purpose::Speech);
                        source.speech = Some(Speech::new(start, random));
                    }
                    (place, start)
                });
                if *rtcp_interval_s > 0.0 {
                    for (back, voice) in [false, true].into_iter().zip(voice) {
                        self.reports(index, &flow, back, codec, voice, *rtcp_interval_s);
                    }
                }
            }
            Traffic::Bulk(bulk) => {
                flow.kind = FlowKind::Bulk(self.applications.tcp.transfers.len());
                self.transfer(index, &flow, bulk);
            }
            Traffic::Aimd(aimd) => {
                flow.kind = FlowKind::Aimd(self.applications.aimd.streams.len());
                self.aimd(index, &flow, aimd);
            }
            Traffic::Quic(quic) => {
                flow.kind = FlowKind::Quic(self.applications.quic.transfers.len());
                self.quic(index, &flow, quic);
            }
            Traffic::Cbr(scenario::Cbr { rate_kbps, payload_bytes, .. }) => {
                let bytes = headers::IP_UDP + payload_bytes;
                let seconds = f64::from(*payload_bytes) * 8.0 / (rate_kbps * 1000.0);
                self.datagrams(index, &flow, false, bytes, seconds, 1, Content::Plain);
            }
            Traffic::Burst(scenario::Burst { rate_kbps, packet_bytes, burst_packets, .. }) => {
                flow.kind = FlowKind::Burst;
                let seconds =
                    f64::from(*packet_bytes) * 8.0 * f64::from(*burst_packets) / (rate_kbps * 1000.0);
                self.datagrams(index, &flow, false, *packet_bytes, seconds, *burst_packets, Content::Plain);
            }
            Traffic::Ping(scenario::Ping { interval_ms, packet_bytes, probe, .. }) => {
                flow.kind = FlowKind::Ping;
                let content = Content::Echo { probe_ms: if *probe { *interval_ms as u16 } else { 0 } };
                self.datagrams(index, &flow, false, *packet_bytes, interval_ms / 1e3, 1, content);
            }
            Traffic::Web(web) => {
                flow.kind = FlowKind::Web(self.applications.tcp.sessions.len());
                let options = TcpOptions::of_web(web);
                self.session(index, &flow, web.size, web.think, None, options.configs());
            }
            Traffic::Request(request) => {
                flow.kind = FlowKind::Request(self.applications.tcp.sessions.len());
                let options = TcpOptions::of_request(request);
                let bytes = Some(request.request_bytes);
                self.session(index, &flow, request.response, request.think, bytes, options.configs());
            }
            Traffic::Real(_) => {}
            Traffic::Video(video) => {
                flow.kind = FlowKind::Video(self.applications.videos.streams.len());
                self.video(index, &flow, video);
            }
        }
        // The measured data of a request flow are the responses.
        self.measured.push(!matches!(flow.kind, FlowKind::Request(_)));
        self.measured.push(matches!(flow.kind, FlowKind::Call(_) | FlowKind::Request(_)));
        self.applications.flows.push(flow);
    }

    /// Adds a source that is due first at `start`; `index` counts those of its kind.
    fn source(&mut self, start: Nanos, kind: Kind, index: usize) {
        self.starts.push(start);
        self.applications.sources.push(Source { kind, index: index as u32 });
    }

    fn datagram_source(&mut self, start: Nanos, event: DatagramEvent) {
        self.source(start, Kind::Datagrams, self.applications.datagrams.events.len());
        self.applications.datagrams.events.push(event);
    }

    fn tcp_source(&mut self, start: Nanos, source: TcpSource) {
        self.source(start, Kind::Tcp, self.applications.tcp.sources.len());
        self.applications.tcp.sources.push(source);
    }

    /// Seed of the random choices of a stream's congestion control.
    fn congestion_seed(&self, stream: u32) -> u64 {
        Stream::new(self.seed, u64::from(stream), Purpose::Congestion).seed()
    }

    fn node(&self, place: Place) -> NodeId {
        number_of(self.scenario, self.nodes, place)
    }

    /// Adds a source of datagrams. Its place among them, and when it starts.
    #[allow(clippy::too_many_arguments)]
    fn datagrams(
        &mut self,
        index: usize,
        flow: &Flow,
        back: bool,
        bytes: u32,
        seconds: f64,
        burst: u32,
        content: Content,
    ) -> (usize, Nanos) {
        let stream = stream(index, back);
        let phase = Stream::new(self.seed, u64::from(stream), Purpose::Source).unit() * seconds;
        let start = flow.start.saturating_add(Nanos::from_secs_f64(phase));
        let (from, to) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let place = self.applications.datagrams.sources.len();
        self.datagram_source(start, DatagramEvent::Send(place));
        self.applications.datagrams.sources.push(DatagramSource {
            stream,
            from,
            to,
            bytes,
            interval: Interval::new(start, seconds),
            burst,
            stop: flow.stop,
            sequence: 0,
            content,
            speech: None,
        });
        (place, start)
    }

    /// Adds reports of the end of a call whose voice comes from `source`, given by place and start.
    fn reports(
        &mut self,
        index: usize,
        flow: &Flow,
        back: bool,
        codec: Codec,
        (source, start): (usize, Nanos),
        interval_s: f64,
    ) {
        let stream = stream(index, back);
        let (from, to) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let mut reporter = Reporter {
            stream,
            source,
            from,
            to,
            start,
            stop: flow.stop,
            codec,
            interval_s,
            random: Stream::new(self.seed, u64::from(stream), Purpose::Report),
            reception: Reception::default(),
        };
        let first = start.saturating_add(reporter.first_pause());
        let place = self.applications.datagrams.reporters.len();
        self.datagram_source(first, DatagramEvent::Report(place));
        self.applications.datagrams.reporters.push(reporter);
    }

    fn aimd(&mut self, index: usize, flow: &Flow, aimd: &scenario::Aimd) {
        let scenario::Aimd {
            alpha,
            beta,
            packet_bytes,
            rwnd_packets,
            initial_window_packets,
            rto_min_ms,
            stop_s,
            ..
        } = aimd;
        let friendly = AimdSenderConfig::tcp_friendly(*beta);
        let sender = AimdSenderConfig {
            alpha: alpha.unwrap_or(friendly.alpha),
            initial_window: *initial_window_packets,
            rtt: RttConfig { min_rto: Nanos::from_millis_f64(*rto_min_ms), ..friendly.rtt },
            ..friendly
        };
        let rwnd = rwnd_packets.map_or(u16::MAX, |packets| packets.min(u32::from(u16::MAX)) as u16);
        let stream = self.applications.aimd.streams.len();
        self.applications.aimd.streams.push(AimdStream {
            flow: index,
            sender: AimdSender::new(sender),
            receiver: AimdReceiver::new(AimdReceiverConfig { rwnd, ..AimdReceiverConfig::default() }),
            timer: Timer::default(),
            packet_bytes: *packet_bytes,
            warmup: AimdSenderStats::default(),
            stop: stop_s.map(Nanos::from_secs_f64),
            started: false,
        });
        self.source(flow.start, Kind::Aimd, stream);
    }

    fn quic(&mut self, index: usize, flow: &Flow, quic: &scenario::Quic) {
        let scenario::Quic {
            controller,
            hystart,
            size_bytes,
            datagram_bytes,
            receive_buffer_bytes,
            initial_window_packets,
            stop_s,
            ..
        } = quic;
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
        let transfer = self.applications.quic.transfers.len();
        self.applications.quic.transfers.push(QuicTransfer {
            flow: index,
            sender: QuicSender::new(sender),
            receiver: QuicReceiver::new(QuicReceiverConfig { buffer, ..QuicReceiverConfig::default() }),
            sender_timer: Timer::default(),
            receiver_timer: Timer::default(),
            delivered: 0,
            size: *size_bytes,
            completed: None,
            warmup: QuicSenderStats::default(),
            stop: stop_s.map(Nanos::from_secs_f64),
            started: false,
        });
        self.source(flow.start, Kind::Quic, transfer);
    }

    fn transfer(&mut self, index: usize, flow: &Flow, bulk: &scenario::Bulk) {
        let scenario::Bulk { size_bytes, stop_s, .. } = bulk;
        let (mut sender, receiver) = bulk_configs(bulk);
        sender.tuning.seed = self.congestion_seed(stream(index, false));
        let tcp = self.applications.tcp.transfers.len();
        self.applications.tcp.transfers.push(Transfer {
            size: *size_bytes,
            ..Transfer::new(index, (flow.from, flow.to), sender, receiver)
        });
        self.tcp_source(
            flow.start,
            TcpSource::Transfer {
                transfer: tcp,
                stop: stop_s.map(Nanos::from_secs_f64),
                offer: size_bytes.unwrap_or(u64::MAX),
                started: false,
            },
        );
    }

    /// A session of pages (`request_bytes` is `None`), or of requests and responses.
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
        let session = self.applications.tcp.sessions.len();
        let ends = if request_bytes.is_some() { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let mut data = Transfer { session: Some(session), ..Transfer::new(index, ends, sender, receiver) };
        let mut requests = None;
        if request_bytes.is_some() {
            let ask = Transfer {
                session: Some(session),
                ack_stream: stream(index, false),
                ..Transfer::new(index, (flow.from, flow.to), sender, receiver)
            };
            requests = Some(self.applications.tcp.transfers.len());
            self.applications.tcp.transfers.push(ask);
            (data.connection, data.data_stream, data.ack_stream) =
                (1, stream(index, true), stream(index, false));
        }
        let transfer = self.applications.tcp.transfers.len();
        self.applications.tcp.transfers.push(data);
        let mut session = Session {
            transfer,
            requests,
            request_bytes: request_bytes.unwrap_or_default(),
            size,
            think,
            stop: flow.stop,
            source: self.applications.sources.len() as u32,
            random: Stream::new(self.seed, u64::from(stream(index, false)), Purpose::Source),
            began: None,
            asking: false,
            awaited: 0,
            asked: 0,
            answered: 0,
            record: TransactionRecord::default(),
        };
        let first = flow.start.saturating_add(session.pause());
        let place = self.applications.tcp.sessions.len();
        self.tcp_source(first, TcpSource::Session(place));
        self.applications.tcp.sessions.push(session);
    }

    fn video(&mut self, index: usize, flow: &Flow, video: &scenario::Video) {
        let scenario::Video {
            rate_kbps,
            frames_per_s,
            group_frames,
            i_to_p,
            variation,
            packet_bytes,
            deadline_ms,
            ..
        } = video;
        let mut random = Stream::new(self.seed, u64::from(stream(index, false)), Purpose::Source);
        let seconds = 1.0 / frames_per_s;
        let start = flow.start.saturating_add(Nanos::from_secs_f64(random.unit() * seconds));
        let frame_bytes = rate_kbps * 125.0 * seconds;
        self.source(start, Kind::Video, self.applications.videos.streams.len());
        self.applications.videos.streams.push(Video::new(VideoPlan {
            stream: stream(index, false),
            from: flow.from,
            to: flow.to,
            sizes: FrameSizes::new(frame_bytes, *group_frames, *i_to_p, *variation),
            packet_bytes: *packet_bytes,
            headers: headers::IP_UDP,
            dscp: flow.dscp,
            interval: Interval::new(start, seconds),
            stop: flow.stop,
            deadline: deadline_ms.map_or(Nanos::MAX, Nanos::from_millis_f64),
            random,
        }));
    }
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

/// Sender and receiver of a profile.
fn profile_configs(profile: TcpProfile) -> (SenderConfig, ReceiverConfig) {
    match profile {
        TcpProfile::Standard => (SenderConfig::default(), ReceiverConfig::default()),
        TcpProfile::Linux => (SenderConfig::linux(), ReceiverConfig::linux()),
    }
}

/// Options of TCP that `bulk`, `web` and `request` share.
struct TcpOptions {
    tcp: TcpVariant,
    profile: TcpProfile,
    mss_bytes: u32,
    initial_window_packets: u32,
    rto_min_ms: Option<f64>,
}

impl TcpOptions {
    fn of_bulk(bulk: &scenario::Bulk) -> Self {
        let &scenario::Bulk { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. } = bulk;
        Self { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms }
    }

    fn of_web(web: &scenario::Web) -> Self {
        let &scenario::Web { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. } = web;
        Self { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms }
    }

    fn of_request(request: &scenario::Request) -> Self {
        let &scenario::Request { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms, .. } = request;
        Self { tcp, profile, mss_bytes, initial_window_packets, rto_min_ms }
    }

    /// Sender and receiver of the profile with these options.
    fn configs(&self) -> (SenderConfig, ReceiverConfig) {
        let (mut sender, mut receiver) = profile_configs(self.profile);
        sender.congestion = congestion_of(self.tcp);
        (sender.mss, receiver.mss) = (self.mss_bytes, self.mss_bytes);
        sender.initial_window = self.initial_window_packets;
        sender.min_rto = self.rto_min_ms.map_or(sender.min_rto, Nanos::from_millis_f64);
        (sender, receiver)
    }
}

/// Sender and receiver of a `bulk` entry.
fn bulk_configs(bulk: &scenario::Bulk) -> (SenderConfig, ReceiverConfig) {
    let (mut sender, mut receiver) = TcpOptions::of_bulk(bulk).configs();
    sender.byte_counting = bulk.byte_counting;
    sender.max_window = bulk.max_window_packets;
    receiver.buffer = bulk.receive_buffer_bytes;
    receiver.delayed_ack_segments = bulk.delayed_ack_segments;
    receiver.delayed_ack_timeout =
        bulk.delayed_ack_ms.map_or(receiver.delayed_ack_timeout, Nanos::from_millis_f64);
    (sender.sack, receiver.sack) = (bulk.sack, bulk.sack);
    (sender.ecn, receiver.ecn) = (bulk.ecn, bulk.ecn);
    sender.timestamps = bulk.timestamps.unwrap_or(sender.timestamps);
    receiver.timestamps = sender.timestamps;
    sender.recovery = bulk.recovery.map_or(sender.recovery, |recovery| match recovery {
        TcpRecovery::Rfc6675 => Recovery::Rfc6675,
        TcpRecovery::RackTlp => Recovery::RackTlp,
    });
    sender.prr = bulk.prr.unwrap_or(sender.prr);
    sender.undo = bulk.undo.unwrap_or(sender.undo);
    sender.tuning.hystart = bulk.hystart.map_or(sender.tuning.hystart, hystart_of);
    (sender, receiver)
}
