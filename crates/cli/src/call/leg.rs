//! One end of a call, without socket and clock: the RTP stream that it sends, and what it hears of the other's.
//!
//! RTP and its reports share a port (RFC 5761). A packet is expected from the first to the highest sequence number that
//! came (RFC 3550 §A.3), and late where it took longer than the fastest one by more than the playout delay. Clocks of two
//! hosts differ, so that the delay of the fastest packet is taken as half of the fastest round trip, which sender reports
//! and their answers measure (§6.4.1).
//!
//! Left out: silence suppression, and streams of other generators that suppress silence.

use fairhop_control::digest::{Payload, ReceptionReport, RtpFields};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};
use fairhop_sim::engine::Stream;
use fairhop_sim::results::ACCEPTABLE_MOS;
use fairhop_sim::rtcp::{Reception, Report, SenderInfo, middle, ntp};

use crate::aimd::measure::Delays;

/// Types of RTCP packets (RFC 3550 §12.1).
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const BYE: u8 = 203;
/// Bytes of an RTP header without contributing sources and extensions.
pub(super) const RTP_HEADER: usize = 12;
/// A call that nobody answers for longer is over.
const UNANSWERED: Nanos = Nanos::from_secs(5);
/// An answered call without a packet for longer is over.
const SILENT: Nanos = Nanos::from_secs(15);
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Seconds that are scored one by one: a day. Sequence numbers come from outside.
const MAX_SECONDS: usize = 86_400;

/// What an end is configured with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) codec: Codec,
    pub(super) playout: Nanos,
    /// Mean time between reports; none are sent where it is 0.
    pub(super) report_interval: Nanos,
}

/// The RTP header of a datagram; none where it is something else, such as RTCP.
pub(super) fn read_rtp(datagram: &[u8]) -> Option<RtpFields> {
    match Payload::of_datagram(datagram, datagram.len() as u32) {
        Payload::Rtp(rtp) => Some(rtp),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The stream that an end hears.
#[derive(Clone, Debug)]
struct Heard {
    ssrc: u32,
    first: u32,
    highest: u32,
    received: u64,
    late: u64,
    /// The fastest transit time, by the two clocks.
    min_transit: i64,
    delays: Delays,
    /// Packets in time, by the second in which they were sent.
    in_time: Vec<u16>,
}

/// One end of a call.
#[derive(Debug)]
pub(super) struct Leg {
    config: Config,
    random: Stream,
    ssrc: u32,
    first_sequence: u16,
    start: Nanos,
    sent: u32,
    next_report: Nanos,
    heard: Option<Heard>,
    reception: Reception,
    latest: Nanos,
    min_round_trip: Option<Nanos>,
    /// What the other end reported to have lost.
    reported_lost: Option<i32>,
    is_over: bool,
}

/// The figures of a call at one end.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) codec: Codec,
    pub(super) seconds: f64,
    pub(super) sent: u64,
    pub(super) expected: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) jitter: Nanos,
    /// Delays above that of the fastest packet.
    pub(super) delays: Delays,
    pub(super) min_round_trip: Option<Nanos>,
    pub(super) reported_lost: Option<i32>,
    pub(super) mos: Option<f64>,
    /// Whole seconds of the other end's speech, and those of them whose score is not acceptable.
    pub(super) whole_seconds: usize,
    pub(super) bad_seconds: Vec<usize>,
}

impl Leg {
    /// An end that begins to send at a random phase of the codec's interval after `now`.
    pub(super) fn new(config: Config, now: Nanos, mut random: Stream) -> Self {
        let interval = config.codec.profile().interval;
        let start = now + Nanos((interval.0 as f64 * random.unit()) as u64);
        let mut leg = Self {
            config,
            ssrc: random.up_to(u32::MAX),
            first_sequence: random.up_to(u16::MAX.into()) as u16,
            random,
            start,
            sent: 0,
            next_report: Nanos::MAX,
            heard: None,
            reception: Reception::default(),
            latest: now,
            min_round_trip: None,
            reported_lost: None,
            is_over: false,
        };
        if config.report_interval > Nanos::ZERO {
            // Half the interval before the first one (RFC 3550 §6.2).
            leg.next_report = start + Nanos(leg.pause().0 / 2);
        }
        leg
    }

    fn pause(&mut self) -> Nanos {
        Nanos((self.config.report_interval.0 as f64 * (0.5 + self.random.unit())) as u64)
    }

    /// When it sends next.
    pub(super) fn next_time(&self) -> Nanos {
        self.next_packet().min(self.next_report)
    }

    fn next_packet(&self) -> Nanos {
        self.start + Nanos(self.config.codec.profile().interval.0 * u64::from(self.sent))
    }

    /// Writes the datagram that is due at `now` into `out`; false where none is.
    pub(super) fn transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.next_report <= now {
            let pause = self.pause();
            self.next_report = now + pause;
            self.report(now).encode(out);
            return true;
        }
        if self.next_packet() > now {
            return false;
        }
        let profile = self.config.codec.profile();
        let samples = u64::from(profile.clock_hz) * profile.interval.0 / 1_000_000_000;
        let timestamp = u64::from(self.sent) * samples;
        let marker = u8::from(self.sent == 0) << 7;
        out.extend([0x80, marker | profile.rtp_payload_type]);
        out.extend(self.first_sequence.wrapping_add(self.sent as u16).to_be_bytes());
        out.extend((timestamp as u32).to_be_bytes());
        out.extend(self.ssrc.to_be_bytes());
        out.resize(RTP_HEADER + profile.payload_bytes as usize, 0x55);
        self.sent += 1;
        true
    }

    fn report(&mut self, now: Nanos) -> Report {
        let profile = self.config.codec.profile();
        let ticks = u128::from(now.saturating_sub(self.start).0) * u128::from(profile.clock_hz);
        let sender = SenderInfo {
            ntp: ntp(now),
            timestamp: (ticks / 1_000_000_000) as u32,
            packets: self.sent,
            bytes: self.sent.wrapping_mul(profile.payload_bytes),
        };
        Report {
            ssrc: self.ssrc,
            sender: (self.sent > 0).then_some(sender),
            block: self.reception.report(now, profile.clock_hz),
        }
    }

    /// Writes a last report with BYE (RFC 3550 §6.6).
    pub(super) fn hang_up(&mut self, now: Nanos, out: &mut Vec<u8>) {
        out.clear();
        self.report(now).encode(out);
        out.extend([0x81, BYE, 0, 1]);
        out.extend(self.ssrc.to_be_bytes());
        self.is_over = true;
    }

    /// Takes a datagram of the other end. What is neither RTP of the call nor RTCP is ignored.
    pub(super) fn receive(&mut self, now: Nanos, datagram: &[u8]) {
        match read_rtp(datagram) {
            Some(rtp) if rtp.payload_type == self.config.codec.profile().rtp_payload_type => {
                self.latest = now;
                self.hear(now, rtp);
            }
            Some(_) => {}
            None => self.receive_reports(now, datagram),
        }
    }

    fn hear(&mut self, now: Nanos, rtp: RtpFields) {
        let interval = self.config.codec.profile().interval.0;
        let Some(heard) = &mut self.heard else {
            // Room for packets that were sent before the first one that came.
            let first = 0x1_0000 + u32::from(rtp.sequence);
            let transit = now.0 as i64 - (u64::from(first) * interval) as i64;
            let mut delays = Delays::default();
            delays.record(Nanos::ZERO);
            let ssrc = rtp.ssrc;
            self.heard = Some(Heard {
                ssrc,
                first,
                highest: first,
                received: 1,
                late: 0,
                min_transit: transit,
                delays,
                in_time: vec![1],
            });
            return self.reception.on_rtp(now, Nanos(u64::from(first) * interval), ssrc, first);
        };
        if rtp.ssrc != heard.ssrc {
            return;
        }
        // The extended number nearest to the highest one.
        let ahead = rtp.sequence.wrapping_sub(heard.highest as u16) as i16;
        let sequence = heard.highest.wrapping_add_signed(i32::from(ahead));
        if sequence < heard.first {
            return;
        }
        let sent = u64::from(sequence) * interval;
        let transit = now.0 as i64 - sent as i64;
        heard.highest = heard.highest.max(sequence);
        heard.received += 1;
        heard.min_transit = heard.min_transit.min(transit);
        let delay = Nanos(transit.abs_diff(heard.min_transit));
        heard.delays.record(delay);
        let is_late = delay > self.config.playout;
        heard.late += u64::from(is_late);
        let second = (u64::from(sequence - heard.first) * interval / SECOND) as usize;
        if second < MAX_SECONDS && !is_late {
            let length = heard.in_time.len().max(second + 1);
            heard.in_time.resize(length, 0);
            heard.in_time[second] = heard.in_time[second].saturating_add(1);
        }
        self.reception.on_rtp(now, Nanos(sent), rtp.ssrc, sequence);
    }

    fn receive_reports(&mut self, now: Nanos, mut compound: &[u8]) {
        while let Some(&[first, kind, high, low]) = compound.first_chunk()
            && first >> 6 == 2
        {
            let length = (usize::from(u16::from_be_bytes([high, low])) + 1) * 4;
            let Some(packet) = compound.get(..length) else { return };
            compound = &compound[length..];
            let blocks_at = match kind {
                SENDER_REPORT => 28,
                RECEIVER_REPORT => 8,
                BYE => {
                    self.is_over = true;
                    continue;
                }
                _ => continue,
            };
            if kind == SENDER_REPORT
                && let (Some(high), Some(low)) = (word(packet, 8), word(packet, 12))
            {
                let sender = SenderInfo {
                    ntp: u64::from(high) << 32 | u64::from(low),
                    timestamp: 0,
                    packets: 0,
                    bytes: 0,
                };
                self.reception.on_report(now, &Report { ssrc: 0, sender: Some(sender), block: None });
            }
            for at in (0..usize::from(first & 31)).map(|block| blocks_at + 24 * block) {
                if let Some(block) = packet.get(at..).and_then(ReceptionReport::read)
                    && block.ssrc == self.ssrc
                {
                    self.take_block(now, &block);
                }
            }
        }
    }

    fn take_block(&mut self, now: Nanos, block: &ReceptionReport) {
        self.reported_lost = Some(block.cumulative_lost);
        if block.last_sender_report != 0 {
            // Units of 2⁻¹⁶ s.
            let units =
                middle(ntp(now)).wrapping_sub(block.last_sender_report).wrapping_sub(block.delay_since);
            // More than half of the range is a clock that went back.
            if units < 1 << 31 {
                let round_trip = Nanos((u64::from(units) * 1_000_000_000) >> 16);
                self.min_round_trip = Some(self.min_round_trip.map_or(round_trip, |min| min.min(round_trip)));
            }
        }
    }

    /// Whether the other end has hung up or is silent.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let patience = if self.heard.is_some() { SILENT } else { UNANSWERED };
        self.is_over || now.saturating_sub(self.latest) > patience
    }

    /// The figures so far.
    pub(super) fn figures(&self, now: Nanos) -> Figures {
        let Config { codec, playout, .. } = self.config;
        let (expected, received, late) = self.heard.as_ref().map_or((0, 0, 0), |heard| {
            (u64::from(heard.highest - heard.first) + 1, heard.received, heard.late)
        });
        let lost = expected.saturating_sub(received);
        let score = |missing: f64| {
            let delay = Nanos(self.min_round_trip.unwrap_or_default().0 / 2);
            voice::mos(codec, missing.clamp(0.0, 1.0), delay, playout)
        };
        let mos = (expected > 0).then(|| score((lost + late) as f64 / expected as f64));
        let interval = codec.profile().interval.0;
        let whole_seconds = ((expected * interval / SECOND) as usize).min(MAX_SECONDS);
        let in_time = self.heard.as_ref().map_or(&[][..], |heard| &heard.in_time);
        let is_bad = |second: usize| {
            // Packets whose sending falls into this second: intervals such as 30 ms do not divide it.
            let before = |second: usize| (second as u64 * SECOND).div_ceil(interval);
            let sent = (before(second + 1) - before(second)) as f64;
            let heard = f64::from(in_time.get(second).copied().unwrap_or(0));
            score(1.0 - heard / sent) < ACCEPTABLE_MOS
        };
        let bad_seconds = (0..whole_seconds).filter(|&second| is_bad(second)).collect();
        Figures {
            codec,
            seconds: now.saturating_sub(self.start).as_secs_f64(),
            sent: self.sent.into(),
            expected,
            lost,
            late,
            jitter: self.reception.jitter(),
            delays: self.heard.as_ref().map(|heard| heard.delays.clone()).unwrap_or_default(),
            min_round_trip: self.min_round_trip,
            reported_lost: self.reported_lost,
            mos,
            whole_seconds,
            bad_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use fairhop_sim::engine::Purpose;

    use super::*;

    const CONFIG: Config =
        Config { codec: Codec::G729a, playout: Nanos::from_millis(60), report_interval: Nanos::from_secs(5) };

    fn random(seed: u64) -> Stream {
        Stream::new(seed, 0, Purpose::Source)
    }

    /// Two ends whose clocks differ by 7 s. The path takes 30 ms each way; from `a` to `b` every 50th packet is lost, and
    /// every 100th takes 100 ms more.
    #[test]
    fn both_ends_measure_loss_lateness_and_round_trip_whatever_their_clocks_say() {
        let skew = Nanos::from_secs(7);
        let mut a = Leg::new(CONFIG, Nanos::ZERO, random(1));
        let mut b = Leg::new(CONFIG, skew, random(2));
        let mut on_air: Vec<(Nanos, bool, Vec<u8>)> = Vec::new();
        let (mut out, mut packets) = (Vec::new(), 0);
        for now in (0..60_000).map(Nanos::from_millis) {
            while a.transmit(now, &mut out) {
                let is_rtp = read_rtp(&out).is_some();
                packets += u32::from(is_rtp);
                if !is_rtp || packets % 50 != 7 {
                    let more = if is_rtp && packets % 100 == 3 { 100 } else { 0 };
                    on_air.push((now + Nanos::from_millis(30 + more), true, out.clone()));
                }
            }
            while b.transmit(now + skew, &mut out) {
                on_air.push((now + Nanos::from_millis(30), false, out.clone()));
            }
            on_air.sort_by_key(|(at, ..)| *at);
            while let Some((_, to_b, datagram)) = on_air.first().filter(|(at, ..)| *at <= now).cloned() {
                on_air.remove(0);
                if to_b { b.receive(now + skew, &datagram) } else { a.receive(now, &datagram) }
            }
        }
        let (at_a, at_b) = (a.figures(Nanos::from_secs(60)), b.figures(Nanos::from_secs(60) + skew));
        assert_eq!((at_a.lost, at_a.late, at_a.bad_seconds.len()), (0, 0, 0));
        // One missing packet of 50 is acceptable, and two are not.
        assert!(at_b.whole_seconds >= 59 && (29..=30).contains(&at_b.bad_seconds.len()), "{at_b:?}");
        assert!((59..=60).contains(&at_b.lost) && (29..=30).contains(&at_b.late), "{at_b:?}");
        let round_trip = at_a.min_round_trip.expect("reports came").as_millis_f64();
        assert!((round_trip - 60.0).abs() < 1.1, "{round_trip} ms");
        let expected = voice::mos(Codec::G729a, 0.03, Nanos::from_millis(30), Nanos::from_millis(60));
        assert!((at_b.mos.expect("a score") - expected).abs() < 0.02, "{at_b:?}");
        assert!(at_a.reported_lost.is_some_and(|lost| lost > 40), "{at_a:?}");
    }

    #[test]
    fn sequence_numbers_wrap_and_duplicates_and_other_streams_do_not_count_as_lost() {
        let mut leg = Leg::new(CONFIG, Nanos::ZERO, random(1));
        let packet = |sequence: u16, ssrc: u32| {
            let mut bytes = vec![0x80, 18];
            bytes.extend(sequence.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(ssrc.to_be_bytes());
            bytes
        };
        for index in 0..100_u16 {
            let now = Nanos::from_millis(20 * u64::from(index));
            leg.receive(now, &packet(65_500_u16.wrapping_add(index), 9));
            leg.receive(now, &packet(index, 10));
        }
        let figures = leg.figures(Nanos::from_secs(2));
        assert_eq!((figures.expected, figures.lost, figures.late), (100, 0, 0));
    }

    #[test]
    fn an_end_hears_the_other_hang_up_and_notices_silence_and_survives_garbage() {
        let mut leg = Leg::new(CONFIG, Nanos::ZERO, random(1));
        let mut other = Leg::new(CONFIG, Nanos::ZERO, random(2));
        for length in 0..64 {
            leg.receive(Nanos(1), &vec![0x9f; length]);
            leg.receive(Nanos(1), &[&[0x9f, 200, 0, 6][..], &vec![0xff; length]].concat());
        }
        assert!(!leg.is_over(Nanos::from_secs(4)) && leg.is_over(Nanos::from_secs(6)));
        let mut out = Vec::new();
        other.hang_up(Nanos::from_secs(1), &mut out);
        leg.receive(Nanos::from_secs(1), &out);
        assert!(leg.is_over(Nanos::from_secs(1)));
    }
}
