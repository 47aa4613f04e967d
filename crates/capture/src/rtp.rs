//! Streams of RTP: loss, jitter, and call quality second by second.
//!
//! **Recognition.** A UDP flow's packets that look like RTP are kept until [`PROBATION`] of them have one SSRC, sequence numbers
//! that go on, and timestamps that never go back. Then all of them count, from the first on. Other UDP that looks like RTP by
//! chance never gets so far.
//!
//! **Loss** is what is missing between the first and the highest sequence number (RFC 3550 §A.3), duplicates not counted.
//! **Jitter** is that of RFC 3550 §6.4.1. **Delay** is relative, over the fastest packet of the last one to two minutes, since
//! clocks drift. A packet is **late** if its delay is over the playout delay. A **second** has the packets that were due in it:
//! those that arrived, and missing ones at the times at which their neighbours say that they were due.
//!
//! The clock of a static payload type is that of RFC 3551 table 4 and 5; that of a dynamic one is the usual clock which fits
//! the arrivals of the first [`CLOCK_SHOWN`] best: a queue that fills or empties can change the rate of the first few packets
//! several times over. Quality is known for speech, whose packets advance the timestamp by a constant step of 9 to 65 ms; the
//! codec of a dynamic type is taken as Opus with its clock, and as G.711 otherwise.
//!
//! What a capture shows is what has arrived at its place: beyond it, more may be lost.

use fairhop_control::digest::{Digest, RtpFields};
use fairhop_control::flow::Address;
use fairhop_control::observer::{CLOCK_SHOWN, WindowedMin};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec, Jitter};

use crate::histogram::Histogram;

/// Packets until a stream counts.
pub const PROBATION: usize = 8;
/// Packets that are kept of a stream on probation, with duplicates.
const MAX_KEPT: usize = 4 * PROBATION;
/// A stream that pauses for longer has ended.
const MAX_PAUSE: Nanos = Nanos::from_secs(60);
/// Larger gaps are another stream (RFC 3550 §A.1).
const MAX_DROPOUT: u16 = 3000;
/// Packets that come later are duplicates for all that is known (RFC 3550 §A.1 has 100).
const MEMORY: u64 = 1024;
/// Maximum number of packets that show the clock of a dynamic payload type: video has hundreds of packets a second.
const MAX_OPENING: usize = 1024;
/// Length of the entries of [`Stream::seconds`].
pub const SECOND: Nanos = Nanos::from_secs(1);

/// Both ends of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ends {
    /// Address of the sender.
    pub source: Address,
    /// Address of the receiver.
    pub destination: Address,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
}

impl Ends {
    /// The ends of a packet.
    pub(crate) const fn of(digest: &Digest) -> Self {
        Self {
            source: digest.source,
            destination: digest.destination,
            source_port: digest.source_port,
            destination_port: digest.destination_port,
        }
    }

    /// Those of the other direction.
    pub(crate) const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

/// What is assumed of the listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listener {
    /// Playout delay after the fastest packet.
    pub playout: Nanos,
    /// End-to-end delay of the fastest packet, which a capture does not show.
    pub min_delay: Nanos,
}

/// A second of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamSecond {
    /// Packets that were due.
    pub expected: u32,
    /// Packets that arrived, at whatever time.
    pub received: u32,
    /// Packets that arrived too late for playout.
    pub late: u32,
    /// Maximum delay over that of the fastest packet.
    pub delay_max: Nanos,
    delay_sum: Nanos,
}

impl StreamSecond {
    /// Fraction of the packets that a listener does not hear; none without packets.
    pub fn missing(&self) -> Option<f64> {
        let missing = self.expected.saturating_sub(self.received) + self.late;
        (self.expected > 0).then(|| (f64::from(missing) / f64::from(self.expected)).min(1.0))
    }

    /// Mean delay over that of the fastest packet; none without packets.
    pub fn delay(&self) -> Option<Nanos> {
        (self.received > 0).then(|| Nanos(self.delay_sum.0 / u64::from(self.received)))
    }
}

/// A stream of RTP in one direction.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Both ends.
    pub ends: Ends,
    /// Synchronization source.
    pub ssrc: u32,
    /// Payload type of the first packet.
    pub payload_type: u8,
    /// Ticks of the timestamps per second.
    pub clock_hz: u32,
    /// The codec whose impairments are used; none for anything but speech.
    pub codec: Option<Codec>,
    /// Time between packets.
    pub interval: Nanos,
    /// When the first packet arrived.
    pub began: Nanos,
    /// When the last packet arrived.
    pub ended: Nanos,
    /// Packets that arrived, without duplicates.
    pub received: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// IP bytes that arrived, without duplicates.
    pub bytes: u64,
    /// Times between packets.
    pub gaps: Histogram,
    /// The seconds, from [`Stream::began`] on.
    pub seconds: Vec<StreamSecond>,
    /// Mean over the packets after the first, and maximum, of the jitter.
    pub jitter_mean: Nanos,
    /// See [`Stream::jitter_mean`].
    pub jitter_max: Nanos,
    jitter: Jitter,
    jitter_sum: f64,
    first: u64,
    highest: u64,
    /// Which of the last sequence numbers have arrived.
    seen: Box<[u64; (MEMORY / 64) as usize]>,
    timestamp: u32,
    ticks: i64,
    transit_min: WindowedMin<i64>,
    /// The packets of a dynamic payload type until they have shown its clock.
    opening: Vec<Arrival>,
}

/// A packet of a stream.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    bytes: u32,
    rtp: RtpFields,
}

/// A stream on probation.
#[derive(Debug)]
pub(crate) struct Candidate {
    ends: Ends,
    arrivals: Vec<Arrival>,
    /// Arrivals that went on from the one before.
    steps: usize,
}

impl Candidate {
    pub(crate) fn new(ends: Ends) -> Self {
        Self { ends, arrivals: Vec::new(), steps: 0 }
    }

    /// When the last packet arrived.
    pub(crate) fn ended(&self) -> Nanos {
        self.arrivals.last().map_or(Nanos::ZERO, |arrival| arrival.at)
    }

    /// Takes a packet; returns the stream as soon as it is one.
    pub(crate) fn add(
        &mut self,
        at: Nanos,
        bytes: u32,
        rtp: &RtpFields,
        listener: Listener,
    ) -> Option<Stream> {
        if let Some(last) = self.arrivals.last() {
            let gap = rtp.sequence.wrapping_sub(last.rtp.sequence);
            let is_later = rtp.timestamp.wrapping_sub(last.rtp.timestamp) < 1 << 31;
            // A packet that came late or twice says nothing for the stream, and nothing against it.
            let is_behind = gap.wrapping_neg() < 16 && self.arrivals.len() < MAX_KEPT;
            let is_over = at.saturating_sub(last.at) > MAX_PAUSE;
            if gap > 0 && gap < MAX_DROPOUT && is_later && !is_over {
                self.steps += 1;
            } else if !is_behind || is_over {
                (self.arrivals, self.steps) = (Vec::new(), 0);
            }
        }
        self.arrivals.push(Arrival { at, bytes, rtp: *rtp });
        if self.steps + 1 < PROBATION {
            return None;
        }
        let mut stream = Stream::of(self.ends, &self.arrivals, listener);
        if rtp.payload_type >= 96 {
            stream.opening = std::mem::take(&mut self.arrivals);
        }
        Some(stream)
    }
}

/// Clock, codec and interval, by the first packets.
fn kind(arrivals: &[Arrival]) -> (u32, Option<Codec>, Nanos) {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return (8000, None, Nanos::ZERO);
    };
    let type_ = first.rtp.payload_type;
    let span = last.at.saturating_sub(first.at).as_secs_f64().max(1e-9);
    let ticks = f64::from(last.rtp.timestamp.wrapping_sub(first.rtp.timestamp));
    let clock = match type_ {
        // L16, MPEG audio, JPEG, CelB, nv, H.261, MPEG video, MPEG-2 and H.263 (RFC 3551 tables 4 and 5).
        10 | 11 => 44_100,
        6 => 16_000,
        16 => 11_025,
        17 => 22_050,
        14 | 25..=34 => 90_000,
        0..=18 => 8000,
        _ => {
            let off = |hz: &u32| libm::fabs(libm::log(ticks.max(1.0) / f64::from(*hz) / span));
            let clocks = [48_000, 8000, 16_000, 90_000];
            clocks.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(8000)
        }
    };
    // Speech: each packet advances the timestamp by the same step.
    let steps = arrivals.windows(2).filter_map(|pair| {
        let packets = pair[1].rtp.sequence.wrapping_sub(pair[0].rtp.sequence);
        let step = pair[1].rtp.timestamp.wrapping_sub(pair[0].rtp.timestamp);
        (packets == 1).then_some(step)
    });
    let steps: Vec<u32> = steps.collect();
    // Most steps: a pause of the speaker is longer.
    let step = steps.iter().copied().min().unwrap_or(0);
    let is_steady = 2 * steps.iter().filter(|&&other| other == step).count() > steps.len();
    let interval = Nanos(u64::from(step) * 1_000_000_000 / u64::from(clock));
    let is_speech = is_steady && (Nanos::from_millis(9)..=Nanos::from_millis(65)).contains(&interval);
    let codec = match type_ {
        _ if !is_speech || clock == 90_000 => None,
        4 => Some(Codec::G7231),
        18 => Some(Codec::G729a),
        96.. if clock == 48_000 => Some(Codec::Opus),
        _ => Some(Codec::G711),
    };
    let apart = Nanos((span * 1e9) as u64 / (arrivals.len() as u64 - 1).max(1));
    (clock, codec, if is_speech { interval } else { apart })
}

impl Stream {
    fn of(ends: Ends, arrivals: &[Arrival], listener: Listener) -> Self {
        let first = arrivals[0];
        let (clock_hz, codec, interval) = kind(arrivals);
        // Room below for packets that overtook the first one.
        let sequence = (1 << 16) + u64::from(first.rtp.sequence);
        let mut stream = Self {
            ends,
            ssrc: first.rtp.ssrc,
            payload_type: first.rtp.payload_type,
            clock_hz,
            codec,
            interval,
            began: first.at,
            ended: first.at,
            received: 0,
            duplicates: 0,
            reordered: 0,
            bytes: 0,
            gaps: Histogram::default(),
            seconds: Vec::new(),
            jitter_mean: Nanos::ZERO,
            jitter_max: Nanos::ZERO,
            jitter: Jitter::NONE,
            jitter_sum: 0.0,
            first: sequence,
            highest: sequence - 1,
            seen: Box::default(),
            timestamp: first.rtp.timestamp,
            ticks: 0,
            transit_min: WindowedMin::new(),
            opening: Vec::new(),
        };
        for arrival in arrivals {
            stream.count(arrival.at, arrival.bytes, &arrival.rtp, listener);
        }
        stream
    }

    /// Counts the first packets again if they show another clock than those on probation did; also where a stream ends.
    pub(crate) fn settle(&mut self, listener: Listener) {
        let opening = std::mem::take(&mut self.opening);
        if !opening.is_empty() && kind(&opening).0 != self.clock_hz {
            *self = Self::of(self.ends, &opening, listener);
        }
    }

    /// Whether a packet belongs to this stream, and not to a new one with the same SSRC.
    pub(crate) fn continues(&self, at: Nanos, rtp: &RtpFields) -> bool {
        if at.saturating_sub(self.ended) > MAX_PAUSE {
            return false;
        }
        let ahead = rtp.sequence.wrapping_sub(self.highest as u16);
        ahead < MAX_DROPOUT || u64::from(ahead.wrapping_neg()) < MEMORY
    }

    /// Counts a packet; the first ones again once they have shown the clock.
    pub(crate) fn add(&mut self, at: Nanos, bytes: u32, rtp: &RtpFields, listener: Listener) {
        self.count(at, bytes, rtp, listener);
        if !self.opening.is_empty() {
            self.opening.push(Arrival { at, bytes, rtp: *rtp });
            if at.saturating_sub(self.began) >= CLOCK_SHOWN || self.opening.len() >= MAX_OPENING {
                self.settle(listener);
            }
        }
    }

    fn count(&mut self, at: Nanos, bytes: u32, rtp: &RtpFields, listener: Listener) {
        let ahead = rtp.sequence.wrapping_sub(self.highest as u16);
        let is_new = ahead != 0 && ahead < 0x8000;
        let sequence = if is_new {
            self.highest + u64::from(ahead)
        } else {
            self.highest - u64::from(ahead.wrapping_neg())
        };
        if !is_new && self.is_seen(sequence) {
            self.duplicates += 1;
            return;
        }
        let previous = self.ended;
        if self.received > 0 {
            self.gaps.add(at.saturating_sub(self.ended));
        }
        self.ended = at.max(self.ended);
        self.received += 1;
        self.bytes += u64::from(bytes);
        let ticks = i64::from(rtp.timestamp.wrapping_sub(self.timestamp).cast_signed());
        let due = self.ticks + ticks;
        if is_new {
            (self.timestamp, self.ticks) = (rtp.timestamp, due);
            self.expect(previous, at, u64::from(ahead));
            self.forget(sequence);
            self.highest = sequence;
        } else {
            self.reordered += 1;
            if sequence < self.first {
                self.first = sequence;
                self.second(at).expected += 1;
            }
        }
        self.set_seen(sequence);
        let delay = self.delay(at, due);
        let second = self.second(at);
        second.received += 1;
        second.late += u32::from(delay > listener.playout);
        second.delay_sum = second.delay_sum.saturating_add(delay);
        second.delay_max = second.delay_max.max(delay);
    }

    /// `count` packets were due up to now; the last packet arrived at `previous`.
    fn expect(&mut self, previous: Nanos, at: Nanos, count: u64) {
        let missing = count - 1;
        if missing > 0 {
            let between = at.saturating_sub(previous).0;
            for number in 1..=missing {
                // A second may have lost all of its packets.
                let due =
                    Nanos(previous.0 + (u128::from(between) * u128::from(number) / u128::from(count)) as u64);
                self.second(due).expected += 1;
            }
        }
        self.second(at).expected += 1;
    }

    /// Delay over that of the fastest packet, of one whose stream time is `due` ticks.
    fn delay(&mut self, at: Nanos, due: i64) -> Nanos {
        let due = i128::from(due) * 1_000_000_000 / i128::from(self.clock_hz);
        let transit = i128::from(at.0) - i128::from(self.began.0) - due;
        let transit = i64::try_from(transit).unwrap_or(i64::MAX);
        self.transit_min.update(at, transit);
        let sent = i128::from(self.began.0) + due;
        self.jitter.update(Nanos(u64::try_from(sent.max(0)).unwrap_or(u64::MAX)), at);
        let jitter = self.jitter.value();
        self.jitter_max = self.jitter_max.max(jitter);
        self.jitter_sum += jitter.0 as f64;
        // The first packet has no jitter.
        self.jitter_mean = Nanos((self.jitter_sum / (self.received - 1).max(1) as f64).round() as u64);
        let min = self.transit_min.value().unwrap_or(transit);
        Nanos(transit.saturating_sub(min).max(0).cast_unsigned())
    }

    fn second(&mut self, at: Nanos) -> &mut StreamSecond {
        let index = at.saturating_sub(self.began).div_floor(SECOND) as usize;
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, StreamSecond::default());
        }
        &mut self.seconds[index]
    }

    fn place(sequence: u64) -> (usize, u64) {
        ((sequence % MEMORY / 64) as usize, 1 << (sequence % 64))
    }

    /// Numbers that are too old to know count as seen.
    fn is_seen(&self, sequence: u64) -> bool {
        let (word, bit) = Self::place(sequence);
        self.highest - sequence >= MEMORY || self.seen[word] & bit != 0
    }

    fn set_seen(&mut self, sequence: u64) {
        let (word, bit) = Self::place(sequence);
        self.seen[word] |= bit;
    }

    /// Makes room for the numbers up to `sequence`, which is above the highest.
    fn forget(&mut self, sequence: u64) {
        for number in (self.highest + 1).max(sequence.saturating_sub(MEMORY - 1))..=sequence {
            let (word, bit) = Self::place(number);
            self.seen[word] &= !bit;
        }
    }

    /// Packets that should have arrived.
    pub const fn expected(&self) -> u64 {
        self.highest - self.first + 1
    }

    /// Packets that did not arrive.
    pub const fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Packets that arrived too late for playout.
    pub fn late(&self) -> u64 {
        self.seconds.iter().map(|second| u64::from(second.late)).sum()
    }

    /// Time from the first packet to the last.
    pub const fn duration(&self) -> Nanos {
        self.ended.saturating_sub(self.began)
    }

    /// Jitter after the last packet, as its receiver would report it.
    pub fn jitter(&self) -> Nanos {
        self.jitter.value()
    }

    /// MOS over the whole stream; none for anything but speech.
    pub fn mos(&self, listener: Listener) -> Option<f64> {
        let missing = (self.lost() + self.late()) as f64 / self.expected() as f64;
        self.codec.map(|codec| mos(codec, missing.min(1.0), listener))
    }

    /// MOS of a second; none without packets, and for anything but speech.
    pub fn mos_of(&self, second: &StreamSecond, listener: Listener) -> Option<f64> {
        Some(mos(self.codec?, second.missing()?, listener))
    }
}

fn mos(codec: Codec, missing: f64, listener: Listener) -> f64 {
    voice::mos(codec, missing, listener.min_delay, listener.playout)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LISTENER: Listener =
        Listener { playout: Nanos::from_millis(60), min_delay: Nanos::from_millis(50) };

    const ENDS: Ends =
        Ends { source: Address([0; 16]), destination: Address([1; 16]), source_port: 1, destination_port: 2 };

    /// The stream of packets with these sequence numbers, each `delay` late, of G.729A.
    fn stream(packets: impl IntoIterator<Item = (u32, Nanos)>) -> Option<Stream> {
        stream_of(18, packets)
    }

    fn stream_of(payload_type: u8, packets: impl IntoIterator<Item = (u32, Nanos)>) -> Option<Stream> {
        let mut candidate = Candidate::new(ENDS);
        let mut found: Option<Stream> = None;
        let mut packets: Vec<(u32, Nanos)> = packets
            .into_iter()
            .map(|(number, delay)| (number, Nanos::from_millis(20 * u64::from(number)).saturating_add(delay)))
            .collect();
        packets.sort_by_key(|(_, at)| *at);
        for (number, at) in packets {
            let rtp = RtpFields {
                payload_type,
                sequence: (65_500 + number) as u16,
                timestamp: (u32::MAX - 5000).wrapping_add(160 * number),
                ssrc: 7,
                ..RtpFields::default()
            };
            match &mut found {
                Some(stream) => stream.add(at, 60, &rtp, LISTENER),
                None => found = candidate.add(at, 60, &rtp, LISTENER),
            }
        }
        found
    }

    #[test]
    fn a_second_without_any_packet_is_lost_as_a_whole_and_its_neighbours_are_not() {
        // 3 s, of which the second one is missing; numbers and timestamps wrap.
        let packets = (0..150).filter(|number| !(50..100).contains(number));
        let stream = stream(packets.map(|number| (number, Nanos::ZERO))).expect("a stream");
        assert_eq!((stream.expected(), stream.lost()), (150, 50));
        let missing: Vec<_> = stream.seconds.iter().map(StreamSecond::missing).collect();
        assert_eq!(missing, [Some(0.0), Some(1.0), Some(0.0)]);
        let mos = |second: usize| stream.mos_of(&stream.seconds[second], LISTENER).expect("speech");
        assert!(mos(0) > 4.0 && mos(1) < 1.1);
        assert_eq!((stream.codec, stream.interval), (Some(Codec::G729a), Nanos::from_millis(20)));
    }

    #[test]
    fn a_packet_that_comes_over_the_playout_delay_after_the_fastest_is_late_and_not_lost() {
        let delay = |number: u32| Nanos::from_millis(if number == 30 { 61 } else { 0 });
        let stream = stream((0..100).map(|number| (number, delay(number)))).expect("a stream");
        assert_eq!((stream.lost(), stream.late(), stream.reordered), (0, 1, 1));
        assert_eq!(stream.seconds[0].delay_max, Nanos::from_millis(61));
    }

    #[test]
    fn packets_that_a_queue_releases_at_once_do_not_set_the_clock_of_a_stream() {
        // The first twelve waited for each other, 3 ms apart; 160 ticks in 3 ms look like 48 kHz. Number 20 is lost.
        let delay = |number: u32| Nanos::from_millis(u64::from(17 * 12_u32.saturating_sub(number)));
        for packets in [60, 400] {
            let arrived = (0..packets).filter(|number| *number != 20);
            let mut stream = stream_of(97, arrived.map(|number| (number, delay(number)))).expect("a stream");
            stream.settle(LISTENER);
            assert_eq!((stream.clock_hz, stream.codec), (8000, Some(Codec::G711)));
            assert_eq!(stream.interval, Nanos::from_millis(20));
            assert_eq!((stream.received, stream.lost()), (u64::from(packets) - 1, 1));
            let expected: u64 = stream.seconds.iter().map(|second| u64::from(second.expected)).sum();
            assert_eq!(expected, u64::from(packets));
        }
    }

    proptest! {
        #[test]
        fn losses_are_the_missing_numbers_and_duplicates_count_once(
            arrives in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 1, 1, 1, 2]), 40..400),
        ) {
            // The first ones make it a stream.
            let copies = |number: u32| if number < 8 { 1 } else { arrives[number as usize] };
            let numbers = 0..arrives.len() as u32;
            let packets = numbers.clone().flat_map(|number| (0..copies(number)).map(move |_| (number, Nanos::ZERO)));
            let stream = stream(packets).expect("a stream");
            let last = numbers.clone().filter(|&number| copies(number) > 0).max().expect("packets");
            let lost = (0..=last).filter(|&number| copies(number) == 0).count() as u64;
            let duplicates = numbers.filter(|&number| copies(number) == 2).count() as u64;
            prop_assert_eq!((stream.lost(), stream.duplicates), (lost, duplicates));
            let expected: u64 = stream.seconds.iter().map(|second| u64::from(second.expected)).sum();
            prop_assert_eq!(expected, stream.expected());
        }
    }
}
