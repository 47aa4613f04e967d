//! The ends of calls that report by RTCP ([`crate::rtcp`]): when they do, and what they know.
//!
//! The interval between reports is drawn anew each time from 0.5 to 1.5 times what the scenario says, and is half of that
//! before the first (RFC 3550 §6.2 and §6.3.5). An end reports as long as it may speak.

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use super::World;
use super::traffic::{IP_HEADER, Source, UDP_HEADER, flow_of};
use crate::engine::{EventKind, Stream};
use crate::packet::{Body, Ecn, NodeId, Packet};
use crate::rtcp::{Reception, Report, SenderInfo, ntp};

/// One end of a call: the one that sends a stream and hears the other stream of its flow.
#[derive(Debug)]
pub(super) struct Reporter {
    /// The stream that it sends.
    pub(super) stream: u32,
    /// Its source among the sources.
    pub(super) source: usize,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// When its stream begins, by which its timestamps count.
    pub(super) start: Nanos,
    pub(super) stop: Nanos,
    pub(super) codec: Codec,
    /// Mean time between reports.
    pub(super) interval_s: f64,
    pub(super) random: Stream,
    pub(super) heard: Reception,
}

impl Reporter {
    /// From one report to the next.
    pub(super) fn pause(&mut self) -> Nanos {
        Nanos::from_secs_f64(self.interval_s * (0.5 + self.random.unit()))
    }

    /// From the beginning to the first report.
    pub(super) fn first_pause(&mut self) -> Nanos {
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
            block: self.heard.report(now, profile.clock_hz),
        }
    }
}

impl World {
    /// An end of a call reports.
    pub(super) fn report(&mut self, reporter: usize, source: u32) {
        let now = self.events.now();
        let reporter = &mut self.reporters[reporter];
        if now >= reporter.stop {
            return;
        }
        let packets = match &self.sources[reporter.source] {
            Source::Datagrams(datagrams) => datagrams.sequence,
            _ => 0,
        };
        let report = reporter.report(now, packets);
        let packet = Packet {
            stream: reporter.stream,
            connection: 0,
            source: reporter.from,
            destination: reporter.to,
            bytes: IP_HEADER + UDP_HEADER + report.bytes(),
            created: now,
            at: reporter.from,
            settled: false,
            dscp: self.flows[flow_of(reporter.stream)].dscp,
            ecn: Ecn::NotEct,
            body: Body::Rtcp(report),
        };
        let (from, next) = (reporter.from, now.saturating_add(reporter.pause()));
        self.events.push(next, EventKind::Source, source);
        let id = self.packets.insert(packet);
        self.towards_mesh(from, id);
    }

    /// The end that hears a stream, where it reports.
    fn listener(&mut self, stream: u32) -> Option<&mut Reporter> {
        let twin = stream ^ 1;
        let place = self.reporters.binary_search_by_key(&twin, |reporter| reporter.stream).ok()?;
        Some(&mut self.reporters[place])
    }

    /// A voice packet has come to the end that hears its stream.
    pub(super) fn heard_rtp(&mut self, packet: &Packet, ssrc: u32, sequence: u32) {
        let now = self.events.now();
        if let Some(listener) = self.listener(packet.stream) {
            listener.heard.on_rtp(now, packet.created, ssrc, sequence);
        }
    }

    /// A report has come to the end that hears its stream.
    pub(super) fn heard_report(&mut self, stream: u32, report: &Report) {
        let now = self.events.now();
        if let Some(listener) = self.listener(stream) {
            listener.heard.on_report(now, report);
        }
    }
}
