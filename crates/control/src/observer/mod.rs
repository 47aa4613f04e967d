//! What a gateway knows of the flows that cross it, from digests alone.
//!
//! | kind | how it is told | what is known |
//! |---|---|---|
//! | call | by the shape of its RTP ([`call`]) | loss, delay, jitter and MOS by direction |
//! | TCP | protocol | round trips of both sides, losses in the mesh, window scales ([`tcp`]) |
//! | bulk UDP, such as QUIC | large packets, or over 100 kb/s | rate |
//! | other | the rest | rate |
//!
//! **What a gateway cannot see.** The stream of a call that comes out of the mesh has its loss and delay behind it. The one
//! that goes into the mesh has not: how it fares is known from the listener's RTCP reports, where they pass, every few
//! seconds. Between them it is *inferred* ([`Observer::into_mesh`]): it is taken to fare as its twin out of the mesh, or as
//! the round trips of TCP through the mesh say, whichever is worse. The inference misses loss that strikes one direction
//! alone without any queue.
//!
//! Absolute delays are not visible either: MOS takes that of the fastest packet from [`ObserverConfig::least_delay`].
//!
//! Memory is taken at the start, and the digest of a packet allocates nothing.

pub mod call;
mod meter;
pub mod tcp;

use fairhop_model::units::Nanos;
use fairhop_model::voice;

pub use call::{Listening, Quality, Stream};
pub use meter::{Excess, Meter, RoundTrip};
pub use tcp::TcpFlow;

use crate::digest::{Digest, Direction, Payload, RtcpFields};
use crate::flow::{Address, FlowKey, FlowTable};

/// Sizes and assumptions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObserverConfig {
    /// Most flows that are known at a time.
    pub flows: usize,
    /// Silence after which a flow is forgotten.
    pub idle: Nanos,
    /// Playout delay of listeners, after the fastest packet.
    pub playout: Nanos,
    /// End-to-end delay of a call's fastest packet, for its MOS.
    pub least_delay: Nanos,
}

impl Default for ObserverConfig {
    /// 10,000 flows, forgotten after 60 s; a playout delay of 60 ms as in kim2010; 50 ms of delay that cannot be seen, a
    /// call over the width of a continent: 0.06 of MOS less than without.
    fn default() -> Self {
        Self {
            flows: 10_000,
            idle: Nanos::from_secs(60),
            playout: Nanos::from_millis(60),
            least_delay: Nanos::from_millis(50),
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
    /// Much UDP that is no call.
    BulkUdp,
    /// All else.
    Other,
}

/// What a listener reported of a stream, by RTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarReport {
    /// When the report passed.
    pub at: Nanos,
    /// Fraction lost, and too late where an extended report tells.
    pub loss: f64,
    /// Jitter.
    pub jitter: Nanos,
}

/// A flow of UDP, which may be a call.
#[derive(Clone, Copy, Debug)]
pub struct UdpFlow {
    /// Into the mesh.
    pub down: Stream,
    /// Out of the mesh.
    pub up: Stream,
    /// What the mesh end reports of the stream into the mesh.
    pub far_down: Option<FarReport>,
    /// What the wired end reports of the stream out of the mesh.
    pub far_up: Option<FarReport>,
    /// Round trip through the mesh by RTCP (RFC 3550 §6.4.1).
    pub mesh_rtt: RoundTrip,
    sender_report: Option<(u32, Nanos)>,
    /// Bytes into the mesh.
    pub down_meter: Meter,
    /// Bytes out of the mesh.
    pub up_meter: Meter,
    packets: u64,
    bytes: u64,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Since when it is known.
    pub began: Nanos,
    /// Hops in the mesh, guessed from the time to live of what comes out of it; 0 before that.
    pub hops: u8,
    /// By protocol.
    pub body: FlowBody,
}

/// What is known by protocol.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "flows live in one table without allocation")]
pub enum FlowBody {
    /// TCP.
    Tcp(TcpFlow),
    /// UDP and all else.
    Udp(UdpFlow),
}

/// Sums over all flows since the start. The controller looks at differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Digests taken.
    pub digests: u64,
    /// IP bytes of TCP data segments and bulk UDP into the mesh.
    pub elastic_down: u64,
    /// The same out of the mesh.
    pub elastic_up: u64,
    /// TCP payload that was acknowledged, in both directions.
    pub delivered: u64,
    /// TCP payload that the mesh lost, both directions.
    pub lost_in_mesh: u64,
}

/// A call now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallNow {
    /// Its flow.
    pub key: FlowKey,
    /// The stream out of the mesh, as measured; none where there is none.
    pub up: Option<Quality>,
    /// The stream into the mesh, as reported or inferred; none where nothing tells.
    pub down: Option<Quality>,
    /// Whether `down` comes from the listener's own report.
    pub down_is_reported: bool,
    /// Interval of the packets out of the mesh, and when within it they come that nothing delays; none where none come.
    pub cadence: Option<(Nanos, Nanos)>,
    /// Since when it is known.
    pub began: Nanos,
    /// IP bytes and packets a second of it, both ways, roughly.
    pub packets_per_second: f64,
}

impl CallNow {
    /// The worse of the directions that are known; none where none is.
    pub fn mos(&self) -> Option<f64> {
        let of = |quality: Option<Quality>| quality.map(|quality| quality.mos);
        match (of(self.up), of(self.down)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Knows the flows.
#[derive(Debug)]
pub struct Observer {
    config: ObserverConfig,
    flows: FlowTable<Flow>,
    totals: Totals,
}

impl Observer {
    /// Knows nobody yet.
    pub fn new(config: ObserverConfig) -> Self {
        Self { config, flows: FlowTable::new(config.flows), totals: Totals::default() }
    }

    /// Takes a digest. Times must not go back by more than packets of one instant do.
    pub fn on_digest(&mut self, digest: &Digest) {
        let Digest { at, direction, bytes, .. } = *digest;
        self.totals.digests += 1;
        self.flows.expire(at.saturating_sub(self.config.idle));
        let key = digest.flow();
        if let Payload::Rtcp(rtcp) = digest.payload {
            self.on_rtcp(at, direction, &key, &rtcp);
            return;
        }
        let playout = self.config.playout;
        let flow = self.flows.touch(&key, at, || Flow::new(at, &digest.payload));
        if direction == Direction::FromMesh {
            flow.hops = hops_from_ttl(digest.ttl);
        }
        match (&mut flow.body, &digest.payload) {
            (FlowBody::Tcp(tcp), Payload::Tcp(fields)) => {
                let progress = tcp.update(at, direction, bytes, fields);
                if fields.payload_bytes > 0 {
                    self.totals.add_elastic(direction, bytes);
                }
                self.totals.delivered += progress.acknowledged;
                self.totals.lost_in_mesh += progress.lost_in_mesh;
            }
            (FlowBody::Udp(udp), payload) => {
                udp.update(at, direction, bytes, payload, playout);
                if udp.kind(at) == FlowKind::BulkUdp {
                    self.totals.add_elastic(direction, bytes);
                }
            }
            _ => {}
        }
    }

    fn on_rtcp(&mut self, at: Nanos, direction: Direction, key: &FlowKey, rtcp: &RtcpFields) {
        // On the ports of its RTP (RFC 5761), or on the ones above (RFC 3550 §11).
        let beside = FlowKey {
            mesh_port: key.mesh_port.wrapping_sub(1),
            wired_port: key.wired_port.wrapping_sub(1),
            ..*key
        };
        let place = if self.flows.get(key).is_some() { *key } else { beside };
        if let Some(Flow { body: FlowBody::Udp(udp), .. }) = self.flows.get_mut(&place) {
            udp.on_rtcp(at, direction, rtcp);
        }
    }

    /// A flow.
    pub fn flow(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(key)
    }

    /// Flows heard of since `horizon`, the latest first.
    pub fn active(&self, horizon: Nanos) -> impl Iterator<Item = (&FlowKey, &Flow)> {
        self.flows.active(horizon)
    }

    /// The table of flows, for its size.
    pub const fn table(&self) -> &FlowTable<Flow> {
        &self.flows
    }

    /// Sums.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What listeners are taken to have.
    pub const fn listening(&self) -> Listening {
        Listening { playout: self.config.playout, least_delay: self.config.least_delay }
    }

    /// How far the round trips of TCP through the mesh are over their base now: the least excess of the flows that end at
    /// `mesh`, or of all if none does. What is common to them is a queue; what one has alone may be its own, and a few that
    /// may have been held back by their receivers tell nothing.
    pub fn mesh_excess(&self, now: Nanos, mesh: Option<Address>) -> Option<Nanos> {
        let horizon = now.saturating_sub(Nanos::from_secs(1));
        let all = self
            .active(horizon)
            .filter(|(key, _)| mesh.is_none_or(|address| key.mesh == address))
            .filter_map(|(_, flow)| match &flow.body {
                FlowBody::Tcp(tcp) => tcp.mesh_rtt.excess(now),
                FlowBody::Udp(_) => None,
            })
            .reduce(|a, b| Excess {
                over_base: a.over_base.min(b.over_base),
                samples: a.samples + b.samples,
                is_sure: a.is_sure || b.is_sure,
            })?;
        (all.is_sure || all.samples >= RoundTrip::FEW).then_some(all.over_base)
    }

    /// Calls that are alive, over the last `span`.
    pub fn calls(&self, now: Nanos, span: Nanos) -> impl Iterator<Item = CallNow> {
        const SILENT: Nanos = Nanos::from_secs(2);
        const HUNG_UP: Nanos = Nanos::from_millis(100);
        let horizon = now.saturating_sub(SILENT);
        self.active(horizon).filter_map(move |(key, flow)| {
            let FlowBody::Udp(udp) = &flow.body else { return None };
            if !udp.is_call(horizon) {
                return None;
            }
            // Who hangs up is silent both ways; if the mesh is the cause, the wired end speaks on.
            let goes_on = !udp.down.is_recognised() || udp.down.is_alive(now.saturating_sub(HUNG_UP));
            let up = udp
                .up
                .is_alive(horizon)
                .then(|| udp.up.quality(now, span, self.listening(), goes_on))
                .flatten();
            let (down, down_is_reported) = self.into_mesh(now, key, udp, up.as_ref());
            let rate = |stream: &Stream| {
                if stream.is_alive(horizon) { 1.0 / stream.interval().as_secs_f64().max(0.001) } else { 0.0 }
            };
            Some(CallNow {
                key: *key,
                up,
                down,
                down_is_reported,
                cadence: udp
                    .up
                    .phase()
                    .filter(|_| udp.up.is_alive(horizon))
                    .map(|phase| (udp.up.interval(), phase)),
                began: flow.began,
                packets_per_second: rate(&udp.up) + rate(&udp.down),
            })
        })
    }

    /// How the stream into the mesh fares, and whether the listener said so: the report if it is under 2.5 s old, made worse
    /// by what is inferred since. See the module's head.
    pub fn into_mesh(
        &self,
        now: Nanos,
        key: &FlowKey,
        udp: &UdpFlow,
        twin: Option<&Quality>,
    ) -> (Option<Quality>, bool) {
        const FRESH: Nanos = Nanos::from_millis(2500);
        if !udp.down.is_recognised() {
            return (None, false);
        }
        let report = udp.far_down.filter(|report| now.saturating_sub(report.at) <= FRESH);
        let excess = self.mesh_excess(now, Some(key.mesh));
        if report.is_none() && twin.is_none() && excess.is_none() {
            return (None, false);
        }
        let mut quality = twin.copied().unwrap_or_default();
        if let Some(report) = report {
            (quality.loss, quality.late, quality.jitter) = (report.loss, 0.0, report.jitter);
        }
        // Of a round trip's excess, what the way up does not explain is the way down's.
        if let Some(excess) = excess {
            let down = excess.saturating_sub(twin.map_or(Nanos::ZERO, |twin| twin.delay));
            quality.delay = quality.delay.max(down);
            quality.delay_max = quality.delay_max.max(down);
            if down > self.config.playout {
                quality.late = quality.late.max(0.5);
            }
        }
        let listening = self.listening();
        quality.mos = voice::mos(
            udp.down.codec(),
            (quality.loss + quality.late).min(1.0),
            listening.least_delay,
            listening.playout,
        );
        (Some(quality), report.is_some())
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
        Self { began: at, hops: 0, body }
    }

    /// What kind it is now.
    pub fn kind(&self, now: Nanos) -> FlowKind {
        match &self.body {
            FlowBody::Tcp(_) => FlowKind::Tcp,
            FlowBody::Udp(udp) => udp.kind(now),
        }
    }
}

impl UdpFlow {
    const fn new() -> Self {
        Self {
            down: Stream::new(),
            up: Stream::new(),
            far_down: None,
            far_up: None,
            mesh_rtt: RoundTrip::new(),
            sender_report: None,
            down_meter: Meter::NONE,
            up_meter: Meter::NONE,
            packets: 0,
            bytes: 0,
        }
    }

    fn update(&mut self, at: Nanos, direction: Direction, bytes: u32, payload: &Payload, playout: Nanos) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
        let (stream, meter) = match direction {
            Direction::ToMesh => (&mut self.down, &mut self.down_meter),
            Direction::FromMesh => (&mut self.up, &mut self.up_meter),
        };
        meter.add(at, u64::from(bytes));
        if let Payload::Rtp(rtp) = payload {
            stream.update(at, rtp, playout);
        }
    }

    /// Whether a call's stream has been heard since `horizon`.
    pub fn is_call(&self, horizon: Nanos) -> bool {
        self.up.is_alive(horizon) || self.down.is_alive(horizon)
    }

    /// What kind it is now.
    pub fn kind(&self, now: Nanos) -> FlowKind {
        const BULK_BYTES: u64 = 600;
        const BULK_RATE: u64 = 100_000;
        const ENOUGH_PACKETS: u64 = 20;
        if self.up.is_recognised() || self.down.is_recognised() {
            return FlowKind::Call;
        }
        let large = self.packets >= ENOUGH_PACKETS && self.bytes / self.packets >= BULK_BYTES;
        let fast = self.down_meter.rate(now).0 + self.up_meter.rate(now).0 >= BULK_RATE;
        if large || fast { FlowKind::BulkUdp } else { FlowKind::Other }
    }

    fn on_rtcp(&mut self, at: Nanos, direction: Direction, rtcp: &RtcpFields) {
        if let (Direction::ToMesh, Some(ntp)) = (direction, rtcp.sender_report) {
            self.sender_report = Some((ntp, at));
        }
        // A report that goes one way is about the stream that goes the other.
        let stream = match direction {
            Direction::FromMesh => self.down,
            Direction::ToMesh => self.up,
        };
        if let Some(report) =
            rtcp.report.filter(|report| report.ssrc == stream.ssrc() && stream.is_recognised())
        {
            let mut loss = f64::from(report.fraction_lost) / 256.0;
            if let Some(voip) = rtcp.voip.filter(|voip| voip.ssrc == stream.ssrc()) {
                // Rates since the beginning; what was thrown away of late is under-reported, and that is all there is.
                loss += f64::from(voip.discard_rate) / 256.0;
            }
            let ticks = u64::from(report.jitter);
            let jitter = Nanos(ticks * 1_000_000_000 / u64::from(stream.clock_hz().max(1)));
            let far = Some(FarReport { at, loss: loss.min(1.0), jitter });
            match direction {
                Direction::FromMesh => self.far_down = far,
                Direction::ToMesh => self.far_up = far,
            }
        }
        if let (Direction::FromMesh, Some(report), Some((ntp, sent))) =
            (direction, rtcp.report, self.sender_report)
            && report.last_sender_report == ntp
            && ntp != 0
        {
            let held = Nanos(u64::from(report.delay_since) * 1_000_000_000 / 65_536);
            self.mesh_rtt.update(at, at.saturating_sub(sent).saturating_sub(held), true);
        }
    }
}

/// Hops from a time to live, if the sender began with 32, 64, 128 or 255 as systems do: a packet that comes to the gateway
/// after one hop has not been counted down yet.
fn hops_from_ttl(ttl: u8) -> u8 {
    let began = [32, 64, 128, 255].into_iter().find(|&began| began >= ttl).unwrap_or(255);
    (began - ttl).saturating_add(1)
}
