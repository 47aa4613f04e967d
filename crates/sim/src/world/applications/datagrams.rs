//! Datagrams by the clock: calls, constant rates and bursts, with the reports of calls ([`super::reports`]).

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use super::flow::payload_bytes;
use super::{AppContext, Application, Reporter};
use crate::packet::{Body, Ecn, Header, NodeId, Packet};

/// Datagrams at a steady interval, one or several at a time.
#[derive(Clone, Debug)]
pub struct DatagramSource {
    /// The stream.
    pub stream: u32,
    /// Where the packets come from.
    pub from: NodeId,
    /// Where they go.
    pub to: NodeId,
    /// Size of an IP packet.
    pub bytes: u32,
    /// Time from one burst to the next.
    pub interval: Interval,
    /// Packets that leave at once.
    pub burst: u32,
    /// It sends nothing from this time on.
    pub stop: Nanos,
    /// Packets sent so far.
    pub sequence: u32,
    /// The voice codec of a call.
    pub codec: Option<Codec>,
}

impl DatagramSource {
    /// The content of the next packet.
    fn next_body(&mut self) -> Body {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        match self.codec {
            None => Body::Udp { sequence },
            Some(codec) => {
                let profile = codec.profile();
                let samples = u64::from(profile.clock_hz) * profile.interval.0 / 1_000_000_000;
                Body::Rtp {
                    sequence,
                    timestamp: u64::from(sequence) * samples,
                    ssrc: self.stream + 1,
                    payload_type: profile.rtp_payload_type,
                }
            }
        }
    }
}

/// A period that need not be a whole number of nanoseconds; rounding does not add up to drift.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    start: Nanos,
    seconds: f64,
    count: u64,
}

impl Interval {
    /// A period of `seconds`, the first one from `start`.
    pub fn new(start: Nanos, seconds: f64) -> Self {
        Self { start, seconds, count: 0 }
    }

    /// When the next period begins.
    pub fn next_start(&mut self) -> Nanos {
        self.count += 1;
        self.start.saturating_add(Nanos::from_secs_f64(self.seconds * self.count as f64))
    }
}

/// A source of this application.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) enum DatagramEvent {
    /// The next packets of a source.
    Send(usize),
    /// The next report of an end of a call.
    Report(usize),
}

/// All sources of datagrams, and the ends of calls that report.
#[derive(Debug, Default)]
pub(in crate::world) struct Datagrams {
    pub(in crate::world) events: Vec<DatagramEvent>,
    pub(in crate::world) sources: Vec<DatagramSource>,
    /// By stream.
    pub(in crate::world) reporters: Vec<Reporter>,
}

impl Application for Datagrams {
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32) {
        match self.events[index] {
            DatagramEvent::Send(index) => self.send(ctx, index, source),
            DatagramEvent::Report(index) => self.report(ctx, index, source),
        }
    }

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, _header: &Header) {
        match packet.body {
            Body::Rtcp(report) => self.on_report(ctx.now(), packet.stream, &report),
            body => {
                ctx.delivered(packet.stream, u64::from(payload_bytes(packet)));
                if let Body::Rtp { ssrc, sequence, .. } = body {
                    self.on_rtp(ctx.now(), packet, ssrc, sequence);
                }
            }
        }
    }
}

impl Datagrams {
    fn send(&mut self, ctx: &mut AppContext<'_>, index: usize, event_source: u32) {
        let now = ctx.now();
        let source = &mut self.sources[index];
        if now >= source.stop {
            return;
        }
        let dscp = ctx.flow(super::flow_of(source.stream)).dscp;
        ctx.wake(source.interval.next_start(), event_source);
        for _ in 0..source.burst {
            let packet = Packet {
                created: now,
                stream: source.stream,
                source: source.from,
                destination: source.to,
                bytes: source.bytes,
                connection: 0,
                dscp,
                body: source.next_body(),
            };
            ctx.send(packet, Ecn::NotEct);
        }
    }
}
