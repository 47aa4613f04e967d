//! Datagrams by the clock: calls, constant rates, bursts and pings, with the reports of calls ([`super::reports`]).

use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;

use super::flow::payload_bytes;
use super::{AppContext, Application, Reporter};
use crate::engine::Stream;
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
    /// What they are.
    pub content: Content,
    /// When a speaker talks whose silence is suppressed.
    pub speech: Option<Speech>,
}

/// What datagrams are.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Plain UDP.
    Plain,
    /// The voice of a call.
    Voice(Codec),
    /// Echo requests; with the time between them in ms if they are a probe, 0 if not.
    Echo {
        /// See [`Content::Echo`].
        probe_ms: u16,
    },
}

impl DatagramSource {
    /// The content of the packet of a period; `marker`: it is the first one after a pause.
    fn next_body(&mut self, period: u64, marker: bool) -> Body {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        match self.content {
            Content::Plain => Body::Udp { sequence },
            Content::Echo { probe_ms } => Body::Echo { sequence, is_reply: false, probe_ms },
            Content::Voice(codec) => {
                let profile = codec.profile();
                let samples = u64::from(profile.clock_hz) * profile.interval.0 / 1_000_000_000;
                Body::Rtp {
                    sequence,
                    timestamp: period * samples,
                    ssrc: self.stream + 1,
                    payload_type: profile.rtp_payload_type,
                    marker,
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
    timer: Option<Timer>,
}

/// A sender that sleeps until a coarse clock shows the time of its next packet.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// Step of the clock; above 0.
    step: Nanos,
    /// When the sender woke up last.
    woke: Nanos,
}

impl Timer {
    /// How much later than asked a sleep ends: sipp 3.6.1 in the emulator's Linux 6.1 returns to a step of 4 ms every 26 packets.
    const OVERSLEEP: Nanos = Nanos::from_micros(154);

    /// What the clock shows.
    const fn shown(self, at: Nanos) -> Nanos {
        Nanos(at.0 - at.0 % self.step.0)
    }

    /// Sleeps until the clock shows `due`.
    fn sleep(&mut self, due: Nanos) -> Nanos {
        let asked = self.shown(due).saturating_sub(self.shown(self.woke));
        self.woke = self.woke.saturating_add(asked).saturating_add(Self::OVERSLEEP);
        self.woke
    }
}

impl Interval {
    /// A period of `seconds`, the first one from `start`.
    pub fn new(start: Nanos, seconds: f64) -> Self {
        Self { start, seconds, count: 0, timer: None }
    }

    /// The same of a sender whose clock has steps of `step`; 0 means an exact clock.
    pub fn with_timer(mut self, step: Nanos) -> Self {
        self.timer = (step > Nanos::ZERO).then_some(Timer { step, woke: self.start });
        self
    }

    /// When the next period begins.
    pub fn next_start(&mut self) -> Nanos {
        self.count += 1;
        let due = self.start.saturating_add(Nanos::from_secs_f64(self.seconds * self.count as f64));
        self.timer.as_mut().map_or(due, |timer| timer.sleep(due))
    }
}

/// Talk-spurts and pauses of one speaker: exponential durations with the means of ITU-T P.59 (03/93), table 1. Its model
/// couples both speakers; here each talks and pauses by himself.
#[derive(Clone, Debug)]
pub struct Speech {
    random: Stream,
    talks: bool,
    /// End of this talk-spurt or pause.
    until: Nanos,
    /// No packet has been sent in this talk-spurt.
    begins: bool,
}

/// Mean durations of talk-spurts and of pauses in seconds.
const TALK_SPURT_S: f64 = 1.004;
const PAUSE_S: f64 = 1.587;

impl Speech {
    /// A speaker who talks or pauses at `start` with the probabilities of a long conversation.
    pub fn new(start: Nanos, mut random: Stream) -> Self {
        let talks = random.unit() < TALK_SPURT_S / (TALK_SPURT_S + PAUSE_S);
        let mut speech = Self { random, talks, until: start, begins: true };
        speech.until = start.saturating_add(speech.duration());
        speech
    }

    fn duration(&mut self) -> Nanos {
        let mean_s = if self.talks { TALK_SPURT_S } else { PAUSE_S };
        Nanos::from_secs_f64(mean_s * self.random.exponential())
    }

    /// Whether a packet is sent at `now`, and whether it is the first of its talk-spurt.
    fn packet(&mut self, now: Nanos) -> Option<bool> {
        while self.until <= now {
            self.talks = !self.talks;
            self.begins = true;
            self.until = self.until.saturating_add(self.duration().max(Nanos(1)));
        }
        self.talks.then(|| std::mem::take(&mut self.begins))
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
            Body::Echo { sequence, is_reply: false, probe_ms } => {
                // It keeps the time of the request, so that its delay is the round trip.
                let reply = Packet {
                    source: packet.destination,
                    destination: packet.source,
                    body: Body::Echo { sequence, is_reply: true, probe_ms },
                    ..*packet
                };
                ctx.send(reply, Ecn::NotEct);
            }
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
        let period = source.interval.count;
        ctx.wake(source.interval.next_start(), event_source);
        let Some(marker) = source.speech.as_mut().map_or(Some(false), |speech| speech.packet(now)) else {
            return;
        };
        for _ in 0..source.burst {
            let packet = Packet {
                created: now,
                stream: source.stream,
                source: source.from,
                destination: source.to,
                bytes: source.bytes,
                connection: 0,
                dscp,
                body: source.next_body(period, marker),
            };
            ctx.send(packet, Ecn::NotEct);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;

    #[test]
    fn a_coarse_clock_makes_packets_late_by_up_to_a_step_and_then_on_time_again() {
        let start = Nanos::from_micros(7_300);
        let mut interval = Interval::new(start, 0.02).with_timer(Nanos::from_millis(4));
        let late: Vec<u64> = (1..=10_000)
            .map(|count| interval.next_start().0 - Nanos::from_millis(4 + 20 * count).0)
            .collect();
        // 4 ms over 0.154 ms.
        let returns = late.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((384..=386).contains(&returns), "{returns}");
        assert!(late.iter().all(|&late| late < 4_000_000 + Timer::OVERSLEEP.0), "{:?}", late.iter().max());
    }

    #[test]
    fn a_speaker_talks_and_pauses_as_long_as_in_the_recommendation_and_marks_each_beginning() {
        const PERIODS: u64 = 5_000_000;
        let mut speech = Speech::new(Nanos::ZERO, Stream::new(1, 0, Purpose::Speech));
        let (mut packets, mut marked, mut silent) = (0_u32, 0_u32, true);
        for period in 0..PERIODS {
            let packet = speech.packet(Nanos(period * 20_000_000));
            packets += u32::from(packet.is_some());
            marked += u32::from(packet == Some(true));
            assert!(!silent || packet != Some(false), "the first packet after a pause is marked");
            silent = packet.is_none();
        }
        // A spurt without a packet, shorter than a period, is not seen: e^(−20 ms / mean) of the spurts are longer.
        let (seconds, seen) = (PERIODS as f64 * 0.02, libm::exp(-0.01 / TALK_SPURT_S));
        let spurts = seconds / (TALK_SPURT_S + PAUSE_S) * seen;
        assert!((f64::from(packets) * 0.02 / seconds - 0.3875).abs() < 0.005, "{packets}");
        assert!((f64::from(marked) / spurts - 1.0).abs() < 0.02, "{marked} of {spurts}");
    }
}
