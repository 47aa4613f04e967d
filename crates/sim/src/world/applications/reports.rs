//! RTCP reports of the ends of calls ([`crate::rtcp`]): when they are sent, and what goes into them.
//!
//! Each interval between reports is drawn from 0.5 to 1.5 times the scenario's mean, and is half of that before the first
//! report (RFC 3550 §6.2 and §6.3.5). An end reports until its stream stops.

use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use super::AppContext;
use super::datagrams::Datagrams;
use crate::engine::Stream;
use crate::packet::{Body, Ecn, NodeId, Packet, flow_of};
use crate::rtcp::{Reception, Report, SenderInfo, ntp};

/// One end of a call: it sends a stream and receives the other stream of its flow.
#[derive(Debug)]
pub(in crate::world) struct Reporter {
    /// The stream that it sends.
    pub(in crate::world) stream: u32,
    /// The source of its stream, among those of datagrams.
    pub(in crate::world) source: usize,
    pub(in crate::world) from: NodeId,
    pub(in crate::world) to: NodeId,
    /// When its stream begins: its timestamps count from here.
    pub(in crate::world) start: Nanos,
    pub(in crate::world) stop: Nanos,
    pub(in crate::world) codec: Codec,
    /// Mean time between reports.
    pub(in crate::world) interval_s: f64,
    pub(in crate::world) random: Stream,
    pub(in crate::world) reception: Reception,
}

impl Reporter {
    /// Time from one report to the next.
    pub(in crate::world) fn pause(&mut self) -> Nanos {
        Nanos::from_secs_f64(self.interval_s * (0.5 + self.random.unit()))
    }

    /// Time from the start to the first report.
    pub(in crate::world) fn first_pause(&mut self) -> Nanos {
        Nanos(self.pause().0 / 2)
    }

    fn report(&mut self, now: Nanos, packets: u32) -> Report {
        let profile = self.codec.profile();
        let ticks = u128::from(now.saturating_sub(self.start).0) * u128::from(profile.clock_hz);
        let sender = SenderInfo {
            ntp: ntp(now),
            timestamp: (ticks / 1_000_000_000) as u32,
            packets,
            bytes: packets.wrapping_mul(profile.payload_bytes),
        };
        Report {
            ssrc: self.stream + 1,
            sender: (packets > 0).then_some(sender),
            block: self.reception.report(now, profile.clock_hz),
        }
    }
}

impl Datagrams {
    /// An end of a call reports.
    pub(super) fn report(&mut self, ctx: &mut AppContext<'_>, reporter: usize, event_source: u32) {
        let now = ctx.now();
        let reporter = &mut self.reporters[reporter];
        if now >= reporter.stop {
            return;
        }
        let report = reporter.report(now, self.sources[reporter.source].sequence);
        let packet = Packet {
            created: now,
            stream: reporter.stream,
            source: reporter.from,
            destination: reporter.to,
            bytes: headers::IP_UDP + report.bytes(),
            connection: 0,
            dscp: ctx.flow(flow_of(reporter.stream)).dscp,
            body: Body::Rtcp(report),
        };
        ctx.wake(now.saturating_add(reporter.pause()), event_source);
        ctx.send(packet, Ecn::NotEct);
    }

    /// The end that receives a stream, where it reports.
    fn receiver_of(&mut self, stream: u32) -> Option<&mut Reporter> {
        let other_direction = stream ^ 1;
        let place = self.reporters.binary_search_by_key(&other_direction, |reporter| reporter.stream).ok()?;
        Some(&mut self.reporters[place])
    }

    /// A voice packet has arrived.
    pub(super) fn on_rtp(&mut self, now: Nanos, packet: &Packet, ssrc: u32, sequence: u32) {
        if let Some(receiver) = self.receiver_of(packet.stream) {
            receiver.reception.on_rtp(now, packet.created, ssrc, sequence);
        }
    }

    /// A report has arrived.
    pub(super) fn on_report(&mut self, now: Nanos, stream: u32, report: &Report) {
        if let Some(receiver) = self.receiver_of(stream) {
            receiver.reception.on_report(now, report);
        }
    }
}
