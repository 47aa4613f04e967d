//! The state of the flows that cross a gateway, from digests alone.
//!
//! | kind | how it is recognized | what is known |
//! |---|---|---|
//! | call | shape of its RTP ([`call`]) | loss, delay, jitter and MOS by direction |
//! | call of an unknown protocol | steady times of small packets (`opaque`), also in a tunnel with bulk data | the same, inferred from these times |
//! | probe | made by the gateway ([`crate::digest::Probe`]) | as a call, whose way out of the mesh is both ways |
//! | TCP | protocol | round trips of both sides, losses in the mesh, window scales ([`tcp`]) |
//! | interactive UDP, such as video of a call | as bulk UDP, and marked by DSCP ([`is_interactive`]); or a call with other sources on its ports | rate |
//! | bulk UDP, such as QUIC | large packets, or over 100 kb/s | rate |
//! | other | the rest | rate |
//!
//! **What a gateway cannot see.** A call's stream out of the mesh shows the mesh's loss and delay. The stream into the mesh does
//! not: its quality is known from the listener's RTCP reports, if there are any, every few seconds, or from what a listener with
//! video asks to be sent again ([`nack`]). Between reports it is
//! *inferred* ([`Observer::into_mesh`]): as that of its twin out of the mesh, or as the round trips of TCP through the mesh
//! indicate, whichever is worse. The inference misses loss in one direction without a queue.
//!
//! The absolute delay of a call is half of the round trips to its ends if both send RTCP. Otherwise it is not visible, and MOS
//! uses [`ObserverConfig::min_delay`] as that of the fastest packet.
//!
//! Memory is taken at the start, and the digest of a packet allocates nothing.

pub mod call;
mod meter;
mod nack;
mod opaque;
mod standing;
mod survey;
pub mod tcp;

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

pub use call::{CLOCK_SHOWN, Listening, Quality, Stream};
pub(crate) use meter::MAX_ACK_DELAY;
pub use meter::{Excess, MeshRoundTrip, Meter, OwnQueue, RoundTrip, UplinkRoundTrip, WindowedMin};
pub use opaque::SOUND_BYTES;
pub use survey::{ElasticFlow, MeshNode};
pub use tcp::TcpFlow;

use nack::Nacks;
use opaque::{Large, Opaque};
use standing::Standing;
use survey::Survey;

use crate::digest::{Digest, Direction, Payload, RtcpFields};
use crate::flow::{Address, FlowKey, FlowTable};
use crate::network::Network;

/// A call without packets for longer has ended.
const SILENT: Nanos = Nanos::from_secs(2);
/// Silence after which a flow is not surveyed: an upload may be made to wait for four seconds for an ACK.
const SURVEYED: Nanos = Nanos::from_secs(5);

/// UDP flows of which the times of packets are looked at. With half, it takes half as many flows of other kinds at the same time to hide a
/// call; each takes half a kilobyte.
const MAX_OPAQUE: usize = 512;

/// Time over which what elastic flows send is averaged: the meters' half second may hold few packets of each.
const SENT_OVER: Nanos = Nanos::from_secs(2);

/// Sizes and assumptions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObserverConfig {
    /// Maximum number of flows that are known at a time.
    pub flows: usize,
    /// Silence after which a flow is removed.
    pub idle: Nanos,
    /// Playout delay of listeners after the fastest packet.
    pub playout: Nanos,
    /// End-to-end delay of a call's fastest packet, for its MOS.
    pub min_delay: Nanos,
}

impl Default for ObserverConfig {
    /// 10,000 flows, removed after 60 s; a playout delay of 60 ms as in kim2010; a minimum delay of 50 ms, as across a
    /// continent, which costs 0.06 of MOS.
    fn default() -> Self {
        Self {
            flows: 10_000,
            idle: Nanos::from_secs(60),
            playout: Nanos::from_millis(60),
            min_delay: Nanos::from_millis(50),
        }
    }
}

/// What kind of flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// TCP.
    Tcp,
    /// A call.
    Call,
    /// UDP at a high rate or with large packets that is marked as interactive ([`is_interactive`]), or a call whose ports other
    /// sources share ([`Stream::has_other_sources`]): video of a call.
    Interactive,
    /// Other UDP at a high rate or with large packets that is no call.
    BulkUdp,
    /// Any other flow.
    Other,
}

/// How long a report of RTCP holds: half the usual interval of 5 s (RFC 3550 §6.2).
const FRESH: Nanos = Nanos::from_millis(2500);

/// Fraction of the packets that are taken for late where round trips say that the mean delay is over the playout delay.
const LATE_BY_EXCESS: f64 = 0.5;

/// Age from which the next report is overdue: the longest usual interval (RFC 3550 §6.3.1).
const OVERDUE: Nanos = Nanos::from_millis(7500);

/// A listener's RTCP report about a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarReport {
    /// When the report passed.
    pub at: Nanos,
    /// Fraction lost; with an extended report, lost or late.
    pub loss: f64,
    /// Fraction that was missing already when the stream passed the gateway, since the report before.
    pub lost_before: f64,
    /// Jitter.
    pub jitter: Nanos,
}

impl FarReport {
    /// Fraction lost between the gateway and the listener, of what passed the gateway.
    pub fn lost_beyond(&self) -> f64 {
        ((self.loss - self.lost_before) / (1.0 - self.lost_before).max(0.01)).max(0.0)
    }
}

/// A UDP flow, which may be a call.
#[derive(Clone, Copy, Debug)]
pub struct UdpFlow {
    /// Into the mesh.
    pub down: Stream,
    /// Out of the mesh.
    pub up: Stream,
    /// The mesh end's report about the stream into the mesh.
    pub far_down: Option<FarReport>,
    /// The wired end's report about the stream out of the mesh.
    pub far_up: Option<FarReport>,
    /// What the mesh end asks to be sent again.
    nacks: Nacks,
    /// The delay out of the mesh that even the fastest packets have.
    standing: Standing,
    /// Packets received and lost of the stream into the mesh, and of that out of it, when the last report about it passed.
    counts_reported: [(u32, u32); 2],
    /// Round trip through the mesh by RTCP (RFC 3550 §6.4.1).
    pub mesh_rtt: MeshRoundTrip,
    /// The same between the gateway and the wired end: the shortest one, and the last one with its time.
    wired_rtt: WindowedMin<Nanos>,
    last_wired_rtt: Option<(Nanos, Nanos)>,
    /// Time stamp of the last sender report into the mesh, and out of it, 0 before the first one; when it passed.
    sender_reports: [(u32, Nanos); 2],
    /// Bytes into the mesh.
    pub down_meter: Meter,
    /// Bytes out of the mesh.
    pub up_meter: Meter,
    packets: u64,
    bytes: u64,
    /// Its protocol is not known, and its streams have inferred numbers.
    is_opaque: bool,
    /// It is such a call, in a tunnel with other data.
    is_beside_data: bool,
    /// It is a tunnel with other data, and may be found to be such a call.
    may_have_sound: bool,
    large: Large,
    /// DSCP of the last packet into the mesh and of the last one out of it: a provider may clear it on one way.
    dscp: [u8; 2],
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// When its first packet passed.
    pub began: Nanos,
    /// Hops in the mesh, estimated from the time to live of its packets out of the mesh; 0 before the first one.
    pub hops: u8,
    /// When its last packet out of the mesh passed; none before the first one.
    pub heard: Option<Nanos>,
    /// When the gateway's pace last held one of its packets: see [`Observer::on_held`].
    pub held: Option<Nanos>,
    /// By protocol.
    pub body: FlowBody,
}

/// The state by protocol.
#[derive(Clone, Copy, Debug)]
pub enum FlowBody {
    /// TCP.
    Tcp(TcpFlow),
    /// UDP and any other protocol.
    Udp(UdpFlow),
}

/// Sums over all flows since the start. The controller uses differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Digests taken.
    pub digests: u64,
    /// IP bytes of TCP data segments and bulk UDP into the mesh.
    pub elastic_down: u64,
    /// The same out of the mesh.
    pub elastic_up: u64,
    /// TCP payload bytes acknowledged, both directions.
    pub delivered: u64,
    /// Pure ACKs into the mesh.
    pub acks_down: AckTotals,
    /// TCP payload bytes lost in the mesh, both directions.
    pub lost_in_mesh: u64,
}

/// Sums over pure ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckTotals {
    /// Packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
    /// TCP payload bytes that they acknowledged: of each, at most [`AckTotals::MAX_STEP`].
    pub acknowledged: u64,
}

impl AckTotals {
    /// An ACK after a gap, or a forged one, says little about the others: a window without scaling (RFC 9293 §3.1).
    pub const MAX_STEP: u64 = 65_535;

    /// What has been added since earlier sums.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            acknowledged: self.acknowledged - earlier.acknowledged,
        }
    }
}

/// The present state of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallNow {
    /// Its flow.
    pub key: FlowKey,
    /// Quality of the stream out of the mesh, as measured; none without one.
    pub up: Option<Quality>,
    /// The same stream as the wired end hears it, by its last report; none if there is none, or if the next one is overdue.
    pub heard: Option<Quality>,
    /// Quality of the stream into the mesh, as reported or inferred; none if neither is possible.
    pub down: Option<Quality>,
    /// Whether `down` comes from the listener: its report, or what it asks to be sent again.
    pub down_is_reported: bool,
    /// Interval of the packets out of the mesh, and the offset within it at which undelayed ones arrive; none without any.
    pub cadence: Option<(Nanos, Nanos)>,
    /// Quality of the stream into the mesh as it arrives at the gateway; none without one.
    pub wired: Option<Quality>,
    /// More packets out of the mesh are expected: its speaker did not pause until now and has not been silent for long, and the
    /// wired end goes on.
    pub is_awaited: bool,
    /// When its first packet passed.
    pub began: Nanos,
    /// Nominal packets per second, both directions.
    pub packets_per_second: f64,
    /// Its protocol is not known: what is said of its packets is inferred from their times.
    pub is_opaque: bool,
    /// The codec whose impairments are used for MOS, and the time between its packets.
    pub codec: Codec,
    /// See [`CallNow::codec`].
    pub interval: Nanos,
    /// What MOS takes for the delay of the fastest packet, and for that of the playout buffer.
    pub listening: Listening,
    /// A speaker sends nothing while silent.
    pub suppresses_silence: bool,
    /// Mean size of its packets in IP bytes.
    pub packet_bytes: f64,
    /// See [`UdpFlow::wired_excess`].
    pub wired_excess: Option<(Nanos, bool)>,
}

impl CallNow {
    /// Whether it is a probe: nobody listens.
    pub const fn is_probe(&self) -> bool {
        self.key.is_of_probe()
    }

    /// MOS of the worse direction as the listeners hear it, of those that are known; none if none is.
    pub fn mos(&self) -> Option<f64> {
        worse(self.heard.or(self.up), self.down)
    }

    /// The same without what happens to packets out of the mesh beyond the gateway.
    pub fn mos_at_gateway(&self) -> Option<f64> {
        worse(self.up, self.down)
    }
}

fn worse(up: Option<Quality>, down: Option<Quality>) -> Option<f64> {
    [up, down].into_iter().flatten().map(|quality| quality.mos).reduce(f64::min)
}

/// The flows, by their digests.
#[derive(Debug)]
pub struct Observer {
    config: ObserverConfig,
    flows: FlowTable<Flow>,
    /// What the times of packets show of UDP flows whose protocol is not known.
    opaque: FlowTable<Opaque>,
    totals: Totals,
    own_queue: OwnQueue,
    survey: Survey,
    /// What elastic flows send in bits per second, in the mean of [`SENT_OVER`], and the last survey.
    sent: f64,
    sent_at: Nanos,
    local: Vec<Network>,
}

impl Observer {
    /// An observer that has seen no packet.
    pub fn new(config: ObserverConfig) -> Self {
        Self {
            config,
            flows: FlowTable::new(config.flows),
            opaque: FlowTable::new(config.flows.min(MAX_OPAQUE)),
            totals: Totals::default(),
            own_queue: OwnQueue::default(),
            survey: Survey::default(),
            sent: 0.0,
            sent_at: Nanos::ZERO,
            local: Vec::new(),
        }
    }

    /// Names the gateway's own addresses and the networks that are directly connected to its wired side. What passes between
    /// them and the mesh does not take the way to the Internet.
    pub fn set_local(&mut self, local: Vec<Network>) {
        self.local = local;
    }

    /// Whether packets to a wired host take the way to the Internet.
    pub fn is_remote(&self, wired: Address) -> bool {
        !self.local.iter().any(|network| network.contains(wired))
    }

    /// How far the round trips of uploads beyond the gateway certainly were over their base in the last second: the minimum of all
    /// uploads, which is a queue that they share. None without recent ones.
    pub fn uplink_excess(&self) -> Option<Nanos> {
        self.survey.uplink.map(Excess::certain)
    }

    /// Takes a digest. Times must not go back, except among packets of one instant.
    pub fn on_digest(&mut self, digest: &Digest) {
        let Digest { at, direction, bytes, .. } = *digest;
        self.totals.digests += 1;
        if direction == Direction::ToMesh {
            self.own_queue.enter(at, matches!(digest.payload, Payload::Rtp(_)));
        }
        let horizon = at.saturating_sub(self.config.idle);
        self.flows.expire(horizon);
        self.opaque.expire(horizon);
        let key = digest.flow();
        if let Payload::Rtcp(rtcp) = digest.payload
            && !self.flows.get(&key).is_some_and(Flow::is_opaque)
        {
            self.on_rtcp(at, direction, &key, &rtcp);
            return;
        }
        let playout = self.config.playout;
        let flow = self.flows.touch(&key, at, || Flow::new(at, &digest.payload));
        if direction == Direction::FromMesh {
            flow.hops = hops_from_ttl(digest.ttl).unwrap_or(flow.hops);
            flow.heard = Some(at);
        }
        match (&mut flow.body, &digest.payload) {
            (FlowBody::Tcp(tcp), Payload::Tcp(fields)) => {
                let progress = tcp.update(digest, fields);
                if fields.payload_bytes > 0 {
                    self.totals.add_elastic(direction, bytes);
                }
                self.totals.delivered += progress.acknowledged;
                if direction == Direction::ToMesh && fields.is_pure_ack() {
                    let acks = &mut self.totals.acks_down;
                    acks.packets += 1;
                    acks.bytes += u64::from(bytes);
                    acks.acknowledged += progress.acknowledged.min(AckTotals::MAX_STEP);
                }
                self.totals.lost_in_mesh += progress.lost_in_mesh;
            }
            (FlowBody::Udp(udp), _) => {
                udp.update(digest, playout);
                if udp.may_be_opaque(&key, digest) {
                    udp.look_at_times(digest, self.opaque.touch(&key, at, Opaque::default), playout);
                }
                if udp.kind(at) == FlowKind::BulkUdp {
                    self.totals.add_elastic(direction, bytes);
                }
            }
            _ => {}
        }
    }

    /// Packets have passed unseen, as while a datapath is replaced. They are no losses.
    pub fn on_blind(&mut self) {
        for flow in self.flows.values_mut() {
            match &mut flow.body {
                FlowBody::Tcp(tcp) => tcp.on_blind(),
                FlowBody::Udp(udp) => {
                    udp.down.on_blind();
                    udp.up.on_blind();
                }
            }
        }
    }

    fn on_rtcp(&mut self, at: Nanos, direction: Direction, key: &FlowKey, rtcp: &RtcpFields) {
        // On the ports of its RTP (RFC 5761), or on the next higher ones (RFC 3550 §11).
        let beside = FlowKey {
            mesh_port: key.mesh_port.wrapping_sub(1),
            wired_port: key.wired_port.wrapping_sub(1),
            ..*key
        };
        let place = if self.flows.get(key).is_some() { *key } else { beside };
        if let Some(Flow { body: FlowBody::Udp(udp), heard, .. }) = self.flows.get_mut(&place) {
            if direction == Direction::FromMesh {
                *heard = Some(at);
            }
            udp.on_rtcp(at, direction, rtcp);
        }
    }

    /// A flow.
    pub fn flow(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(key)
    }

    /// Flows with a packet since `horizon`, the latest first.
    pub fn active(&self, horizon: Nanos) -> impl Iterator<Item = (&FlowKey, &Flow)> {
        self.flows.active(horizon)
    }

    /// The table of flows, for its size.
    pub const fn table(&self) -> &FlowTable<Flow> {
        &self.flows
    }

    /// The pace held a packet of this flow. Due only from gateways that give packets their departure times as they arrive:
    /// there a flow may leave its new, higher rate unused while its packets wait by the old one.
    pub fn on_held(&mut self, now: Nanos, key: &FlowKey) {
        if let Some(flow) = self.flows.get_mut(key) {
            flow.held = Some(now);
        }
    }

    /// The gateway's own queue into the mesh holds `packets` at a time that does not depend on elastic traffic: at a tick,
    /// or when a packet of a call enters it.
    pub fn on_own_queue(&mut self, now: Nanos, packets: u32) {
        self.own_queue.look(now, packets);
    }

    /// The gateway's own queue into the mesh drops a packet of voice.
    pub fn on_own_drop(&mut self, now: Nanos) {
        self.own_queue.drop(now);
    }

    /// The gateway's own queue into the mesh.
    pub const fn own_queue(&self) -> &OwnQueue {
        &self.own_queue
    }

    /// Sums.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The assumptions about listeners.
    pub const fn listening(&self) -> Listening {
        Listening { playout: self.config.playout, min_delay: self.config.min_delay }
    }

    /// Those about a call, with its own delay where RTCP shows it.
    pub fn listening_to(&self, call: &UdpFlow) -> Listening {
        let assumed = self.listening();
        Listening { min_delay: call.min_delay().unwrap_or(assumed.min_delay), ..assumed }
    }

    /// Finds the calls and what the flows of a node have in common. [`Observer::calls`] and [`Observer::mesh_excess`] answer
    /// from the last survey; a controller makes one at each tick.
    pub fn survey(&mut self, now: Nanos) {
        self.survey.update(now, now.saturating_sub(SURVEYED), now.saturating_sub(SILENT), &self.flows);
        let sent = self.survey.elastic.iter().map(|flow| flow.rate).sum::<f64>();
        let part = now.saturating_sub(self.sent_at).as_secs_f64() / SENT_OVER.as_secs_f64();
        self.sent += (sent - self.sent) * part.min(1.0);
        self.sent_at = now;
        for key in &self.survey.calls {
            if let Some(Flow { body: FlowBody::Udp(udp), .. }) = self.flows.get_mut(key) {
                let delay = udp.up.standing_delay();
                if delay.is_some_and(|delay| udp.standing.follow(now, delay, self.sent)) {
                    udp.up.forget_minimum(now);
                }
            }
        }
    }

    /// The elastic flows of the last survey, those with the latest packets first.
    pub fn elastic(&self) -> &[ElasticFlow] {
        &self.survey.elastic
    }

    /// Those of UDP among them.
    pub fn elastic_datagrams(&self) -> impl Iterator<Item = &ElasticFlow> {
        self.survey.datagrams.iter().map(|place| &self.survey.elastic[*place as usize])
    }

    /// What the flows of a mesh node show of the path to it, at the last survey.
    pub fn node(&self, mesh: Address) -> Option<&MeshNode> {
        self.survey.node(mesh)
    }

    /// How far round trips through the mesh certainly were over their base at the last survey: those of the node `mesh`, or
    /// the minimum of all nodes if `mesh` is none, which is the queue at the gateway's end.
    pub fn mesh_excess(&self, mesh: Option<Address>) -> Option<Nanos> {
        match mesh {
            Some(address) => self.node(address)?.certain_excess(),
            None => self.mesh_excess_of(|_| true),
        }
    }

    /// As [`Observer::mesh_excess`] of all nodes, of those alone that `counts` accepts.
    pub fn mesh_excess_of(&self, counts: impl Fn(Address) -> bool) -> Option<Nanos> {
        let nodes = || self.survey.nodes.iter().filter(|node| counts(node.address));
        let timed = nodes().filter_map(|node| node.excess).reduce(Excess::common).map(Excess::certain);
        timed.max(nodes().filter_map(|node| node.standing).min())
    }

    /// The flows of the calls of the last survey, in the order of their keys.
    pub fn call_flows(&self) -> impl Iterator<Item = (&FlowKey, &Flow)> {
        self.survey.calls.iter().filter_map(|key| Some((key, self.flow(key)?)))
    }

    /// The calls of the last survey that are alive, with their quality over the last `span`, in the order of their keys.
    pub fn calls(&self, now: Nanos, span: Nanos) -> impl Iterator<Item = CallNow> {
        /// A wired end that is silent for longer has hung up: five packets of 20 ms.
        const HUNG_UP: Nanos = Nanos::from_millis(100);
        /// A mesh end that is silent for longer holds the call: a routing protocol finds a route again within seconds.
        const HOLDS: Nanos = Nanos::from_secs(10);
        let horizon = now.saturating_sub(SILENT);
        self.survey.calls.iter().filter_map(move |key| {
            let flow = self.flow(key)?;
            let FlowBody::Udp(udp) = &flow.body else { return None };
            // A host that does not answer tells nothing.
            if !udp.is_call(horizon) || (key.is_of_probe() && !udp.up.is_alive(horizon)) {
                return None;
            }
            let listening = self.listening_to(udp);
            // A call that ends becomes silent both ways; if the mesh is the cause, the wired end continues.
            let goes_on = !udp.down.is_recognised() || udp.down.is_alive(now.saturating_sub(HUNG_UP));
            let up =
                udp.up.is_alive(horizon).then(|| udp.up.quality(now, span, listening, goes_on)).flatten();
            let (down, down_is_reported) = self.into_mesh(now, key, udp, up.as_ref());
            let rate = |stream: &Stream| {
                if stream.is_alive(horizon) { 1.0 / stream.interval().as_secs_f64().max(0.001) } else { 0.0 }
            };
            let wired = udp
                .down
                .is_alive(horizon)
                .then(|| udp.down.quality(now, span, listening, false))
                .flatten()
                .filter(|quality| quality.expected > 0);
            let stream = if udp.up.is_alive(horizon) { &udp.up } else { &udp.down };
            Some(CallNow {
                key: *key,
                up,
                heard: up.and_then(|up| self.beyond_gateway(now, udp, up, wired.as_ref())),
                down,
                down_is_reported,
                cadence: udp
                    .up
                    .phase()
                    .filter(|_| udp.up.is_alive(horizon))
                    .map(|phase| (udp.up.interval(), phase)),
                wired,
                is_awaited: goes_on && udp.up.is_continuous() && udp.up.is_heard(now.saturating_sub(HOLDS)),
                began: flow.began,
                packets_per_second: rate(&udp.up) + rate(&udp.down),
                is_opaque: udp.is_opaque,
                codec: stream.codec(),
                interval: stream.interval(),
                listening,
                suppresses_silence: udp.up.suppresses_silence() || udp.down.suppresses_silence(),
                packet_bytes: udp.voice_bytes(),
                wired_excess: udp.wired_excess(now),
            })
        })
    }

    /// The stream out of the mesh, of which the gateway has seen `up`, as the wired end hears it: with the losses of its last report,
    /// and with the part of the excess of round trips by RTCP that `wired`, the stream that comes from there, does not explain.
    fn beyond_gateway(
        &self,
        now: Nanos,
        udp: &UdpFlow,
        up: Quality,
        wired: Option<&Quality>,
    ) -> Option<Quality> {
        let report = udp.far_up.filter(|report| now.saturating_sub(report.at) <= OVERDUE)?;
        let mut quality = up;
        quality.loss = 1.0 - (1.0 - up.loss) * (1.0 - report.lost_beyond());
        quality.jitter = up.jitter.max(report.jitter);
        let excess = udp.wired_excess(now).map_or(Nanos::ZERO, |(excess, _)| excess);
        let beyond = excess.saturating_sub(wired.map_or(Nanos::ZERO, |wired| wired.delay));
        quality.delay = up.delay.saturating_add(beyond);
        quality.delay_max = up.delay_max.saturating_add(beyond);
        if beyond > self.config.playout {
            quality.late = quality.late.max(LATE_BY_EXCESS);
        }
        quality.mos = self.listening_to(udp).mos(udp.up.codec(), quality.loss + quality.late);
        Some(quality)
    }

    /// Quality of the stream into the mesh, and whether it comes from the listener: its report if that is at most 2.5 s old, or what it
    /// asks to be sent again; made worse by what is inferred. See the module's documentation.
    pub fn into_mesh(
        &self,
        now: Nanos,
        key: &FlowKey,
        udp: &UdpFlow,
        twin: Option<&Quality>,
    ) -> (Option<Quality>, bool) {
        if !udp.down.is_recognised() {
            return (None, false);
        }
        let report = udp.far_down.filter(|report| now.saturating_sub(report.at) <= FRESH);
        let asked = udp.nacks.loss(now);
        let excess = self.mesh_excess(Some(key.mesh));
        if report.is_none() && asked.is_none() && twin.is_none() && excess.is_none() {
            return (None, false);
        }
        let mut quality = twin.copied().unwrap_or_default();
        if let Some(report) = report {
            (quality.loss, quality.late, quality.jitter) = (report.lost_beyond(), 0.0, report.jitter);
        } else if let Some(loss) = asked {
            (quality.loss, quality.late) = (loss, 0.0);
        }
        // The part of a round trip's excess that the way out of the mesh does not explain is that of the way in.
        if let Some(excess) = excess {
            let down = excess.saturating_sub(twin.map_or(Nanos::ZERO, |twin| twin.delay));
            quality.delay = quality.delay.max(down);
            quality.delay_max = quality.delay_max.max(down);
            if down > self.config.playout {
                quality.late = quality.late.max(LATE_BY_EXCESS);
            }
        }
        // The listener hears what was lost before the gateway, too.
        let heard = report.map_or(quality.loss, |report| report.loss);
        quality.mos = self.listening_to(udp).mos(udp.down.codec(), heard + quality.late);
        (Some(quality), report.is_some() || asked.is_some())
    }
}

impl Totals {
    fn add_elastic(&mut self, direction: Direction, bytes: u32) {
        match direction {
            Direction::ToMesh => self.elastic_down += u64::from(bytes),
            Direction::FromMesh => self.elastic_up += u64::from(bytes),
        }
    }
}

impl Flow {
    fn new(at: Nanos, payload: &Payload) -> Self {
        let body = match payload {
            Payload::Tcp(_) => FlowBody::Tcp(TcpFlow::new()),
            _ => FlowBody::Udp(UdpFlow::new()),
        };
        Self { began: at, hops: 0, heard: None, held: None, body }
    }

    /// See [`TcpFlow::is_closed`].
    pub const fn is_closed(&self) -> bool {
        matches!(&self.body, FlowBody::Tcp(tcp) if tcp.is_closed())
    }

    /// Whether it is a call of an unknown protocol.
    const fn is_opaque(&self) -> bool {
        matches!(&self.body, FlowBody::Udp(udp) if udp.is_opaque)
    }

    /// See [`UdpFlow::may_have_sound_beside_data`].
    pub const fn may_have_sound_beside_data(&self) -> bool {
        matches!(&self.body, FlowBody::Udp(udp) if udp.may_have_sound_beside_data())
    }

    /// Its present kind.
    pub fn kind(&self, now: Nanos) -> FlowKind {
        match &self.body {
            FlowBody::Tcp(_) => FlowKind::Tcp,
            FlowBody::Udp(udp) => udp.kind(now),
        }
    }
}

impl UdpFlow {
    /// Packets before their mean size counts.
    const ENOUGH_PACKETS: u64 = 20;

    const fn new() -> Self {
        Self {
            down: Stream::new(),
            up: Stream::new(),
            far_down: None,
            far_up: None,
            nacks: Nacks::new(),
            standing: Standing::new(),
            counts_reported: [(0, 0); 2],
            mesh_rtt: MeshRoundTrip::new(),
            wired_rtt: WindowedMin::new(),
            last_wired_rtt: None,
            sender_reports: [(0, Nanos::ZERO); 2],
            down_meter: Meter::NONE,
            up_meter: Meter::NONE,
            packets: 0,
            bytes: 0,
            is_opaque: false,
            is_beside_data: false,
            may_have_sound: false,
            large: Large::NONE,
            dscp: [0; 2],
        }
    }

    fn update(&mut self, digest: &Digest, playout: Nanos) {
        let Digest { at, direction, bytes, ref payload, .. } = *digest;
        self.dscp[usize::from(direction == Direction::FromMesh)] = digest.traffic_class >> 2;
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.large.add(at, bytes);
        let (stream, meter) = match direction {
            Direction::ToMesh => (&mut self.down, &mut self.down_meter),
            Direction::FromMesh => (&mut self.up, &mut self.up_meter),
        };
        meter.add(at, u64::from(bytes));
        if let Payload::Rtp(rtp) = payload
            && !self.is_opaque
        {
            stream.update(at, rtp, playout);
            if direction == Direction::ToMesh && self.down.is_recognised() && rtp.ssrc != self.down.ssrc() {
                self.nacks.on_packet(rtp);
            }
        }
    }

    /// Whether the time of this packet counts for telling whether the flow is a call of an unknown protocol.
    fn may_be_opaque(&self, key: &FlowKey, digest: &Digest) -> bool {
        /// Maximum rate in bits per second: both ways, with the longest packets and the shortest interval.
        const MAX_RATE: u64 = 2 * 8 * 100 * opaque::MAX_BYTES as u64;
        // Encrypted bytes may look like RTP and RTCP.
        let is_datagram = matches!(digest.payload, Payload::Udp | Payload::Rtp(_) | Payload::Rtcp(_))
            && !key.is_of_probe()
            && Opaque::counts(digest.bytes, self.is_looked_at_beside_data());
        let is_known =
            self.up.is_recognised() || self.down.is_recognised() || self.dscp.into_iter().any(is_video);
        let is_fast = || self.rate(digest.at) > MAX_RATE && !self.large.are_many();
        is_datagram && (self.is_opaque || (!is_known && self.packets >= Self::ENOUGH_PACKETS && !is_fast()))
    }

    /// Whether only packets that may be sound beside other data are looked at. A call that is known stays what it is.
    const fn is_looked_at_beside_data(&self) -> bool {
        if self.is_opaque { self.is_beside_data } else { self.large.are_many() }
    }

    fn look_at_times(&mut self, digest: &Digest, opaque: &mut Opaque, playout: Nanos) {
        let is_beside_data = self.is_looked_at_beside_data();
        opaque.look_beside_data(is_beside_data);
        if !self.is_opaque {
            opaque.begin();
        }
        let streams = (&mut self.down, &mut self.up);
        let to_mesh = digest.direction == Direction::ToMesh;
        // The time at which it came: the gateway's own pace is no jitter.
        let at = digest.at.saturating_sub(digest.waited);
        let is_call = opaque.update(at, digest.bytes, to_mesh, streams, playout);
        self.may_have_sound = opaque.may_have_sound().unwrap_or(self.may_have_sound && is_beside_data);
        if self.is_opaque && !is_call {
            (self.down, self.up) = (Stream::new(), Stream::new());
        }
        (self.is_opaque, self.is_beside_data) = (is_call, is_call && is_beside_data);
    }

    /// Bits per second, both ways.
    fn rate(&self, now: Nanos) -> u64 {
        self.down_meter.rate(now).0 + self.up_meter.rate(now).0
    }

    /// Delay of the fastest packet from end to end: half of the shortest round trips of both sides. None until reports of
    /// both ends have shown them.
    pub fn min_delay(&self) -> Option<Nanos> {
        let both = self.mesh_rtt.base()?.saturating_add(self.wired_rtt.value()?);
        Some(Nanos(both.0 / 2))
    }

    /// How far the round trip to the wired end by the last report was over the shortest one, and whether that report still holds; none
    /// if the next one is overdue.
    pub fn wired_excess(&self, now: Nanos) -> Option<(Nanos, bool)> {
        let (at, last) = self.last_wired_rtt?;
        let base = self.wired_rtt.value()?;
        let age = now.saturating_sub(at);
        (age <= OVERDUE).then(|| (last.saturating_sub(base), age <= FRESH))
    }

    /// Mean size of its packets in IP bytes.
    pub fn packet_bytes(&self) -> u32 {
        u32::try_from(self.bytes / self.packets.max(1)).unwrap_or(u32::MAX)
    }

    /// Mean size of the call's packets in IP bytes; where others share its ports, that of G.711 with 20 ms.
    fn voice_bytes(&self) -> f64 {
        const USUAL: f64 = 200.0;
        if self.has_other_packets() { USUAL } else { self.bytes as f64 / self.packets.max(1) as f64 }
    }

    /// Whether it is a call whose ports other sources share, such as its video.
    pub const fn has_other_sources(&self) -> bool {
        self.up.has_other_sources() || self.down.has_other_sources()
    }

    /// Whether it is a tunnel with data, whose packets of [`SOUND_BYTES`] may be sound. They may pass data that waits: tunnels number
    /// their packets and accept them in another order (RFC 4303, section 3.4.3).
    pub const fn may_have_sound_beside_data(&self) -> bool {
        self.is_beside_data || self.may_have_sound
    }

    const fn has_other_packets(&self) -> bool {
        self.is_beside_data || self.has_other_sources()
    }

    /// Rate of the sound, into the mesh and out of it, of a call whose ports others share; zero for other flows.
    fn sound_beside_others(&self, horizon: Nanos) -> [f64; 2] {
        let of = |stream: &Stream| {
            let is_counted = self.has_other_packets() && stream.is_alive(horizon);
            if is_counted {
                8.0 * self.voice_bytes() / stream.interval().as_secs_f64().max(0.001)
            } else {
                0.0
            }
        };
        [of(&self.down), of(&self.up)]
    }

    /// Whether it is a call with a packet since `horizon`.
    pub fn is_call(&self, horizon: Nanos) -> bool {
        self.up.is_alive(horizon) || self.down.is_alive(horizon)
    }

    /// Its present kind.
    pub fn kind(&self, now: Nanos) -> FlowKind {
        /// Mean size of bulk packets in bytes: calls and games have smaller ones.
        const BULK_BYTES: u64 = 600;
        /// Rate of bulk flows in bits per second: more than a narrowband call.
        const BULK_RATE: u64 = 100_000;
        if self.has_other_sources() {
            return FlowKind::Interactive;
        }
        let is_recognised = self.up.is_recognised() || self.down.is_recognised();
        if is_recognised && !(self.is_beside_data && self.large.are_many()) {
            return FlowKind::Call;
        }
        let large = self.packets >= Self::ENOUGH_PACKETS && self.bytes / self.packets >= BULK_BYTES;
        let fast = self.rate(now) >= BULK_RATE;
        match large || fast {
            true if self.dscp.into_iter().any(is_interactive) => FlowKind::Interactive,
            true => FlowKind::BulkUdp,
            false => FlowKind::Other,
        }
    }

    fn on_rtcp(&mut self, at: Nanos, direction: Direction, rtcp: &RtcpFields) {
        let (own, other) = match direction {
            Direction::ToMesh => (0, 1),
            Direction::FromMesh => (1, 0),
        };
        if direction == Direction::FromMesh {
            self.nacks.on_rtcp(at, rtcp.nack_entries);
        }
        if let Some(ntp) = rtcp.sender_report {
            self.sender_reports[own] = (ntp, at);
        }
        // A report is about the stream in the other direction.
        let (stream, far) = match direction {
            Direction::FromMesh => (&self.down, &mut self.far_down),
            Direction::ToMesh => (&self.up, &mut self.far_up),
        };
        if let Some(report) = rtcp.report
            && report.ssrc == stream.ssrc()
            && stream.is_recognised()
        {
            let mut loss = f64::from(report.fraction_lost) / 256.0;
            if let Some(voip) = rtcp.voip.filter(|voip| voip.ssrc == stream.ssrc()) {
                // A rate since the beginning, which underestimates recent discards; there is no other source.
                loss += f64::from(voip.discard_rate) / 256.0;
            }
            let ticks = u64::from(report.jitter);
            let jitter = Nanos(ticks * 1_000_000_000 / u64::from(stream.clock_hz().max(1)));
            let counts = stream.counts();
            let lost_before =
                fraction_lost(std::mem::replace(&mut self.counts_reported[other], counts), counts);
            *far = Some(FarReport { at, loss: loss.min(1.0), lost_before, jitter });
        }
        let (ntp, sent) = self.sender_reports[other];
        if let Some(report) = rtcp.report
            && report.last_sender_report == ntp
            && ntp != 0
        {
            let held = Nanos(u64::from(report.delay_since) * 1_000_000_000 / 65_536);
            let round_trip = at.saturating_sub(sent).saturating_sub(held);
            match direction {
                Direction::FromMesh => self.mesh_rtt.update(at, round_trip, true),
                Direction::ToMesh => {
                    self.wired_rtt.update(at, round_trip);
                    self.last_wired_rtt = Some((at, round_trip));
                }
            }
        }
    }
}

/// Fraction lost between two counts of packets received and lost. A packet that arrives late lowers the count of lost ones.
fn fraction_lost(before: (u32, u32), now: (u32, u32)) -> f64 {
    let (received, lost) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
    f64::from(lost) / (f64::from(received) + f64::from(lost)).max(1.0)
}

/// Whether a DSCP says that it is video or a conference (RFC 4594 §4.3, §4.4: CS4, AF41 to AF43), of which pictures may be as regular as sound.
const fn is_video(dscp: u8) -> bool {
    matches!(dscp, 32 | 34 | 36 | 38)
}

/// Whether a DSCP asks for the low delay that people need who see each other: telephony, interactive video, conferences and
/// their signalling (RFC 4594 §4.1 to §4.4: EF, CS5, CS4, AF41 to AF43).
pub const fn is_interactive(dscp: u8) -> bool {
    matches!(dscp, 46 | 40 | 32 | 34 | 36 | 38)
}

/// Hops from a time to live, assuming an initial value of 32, 64, 128 or 255. After one hop, a packet still has its initial
/// value. None for 0, which stands for a value that was not seen, and where there would be too many: programs that trace a path
/// begin with 1, 2, 3.
fn hops_from_ttl(ttl: u8) -> Option<u8> {
    /// More hops than any mesh has that carries a call.
    const MAX_HOPS: u8 = 16;
    let began = [32, 64, 128, 255].into_iter().find(|&began| began >= ttl)?;
    Some((began - ttl).saturating_add(1)).filter(|&hops| ttl > 0 && hops <= MAX_HOPS)
}
