//! TCP connections: goodput, round trips, retransmissions, and how sequence numbers go on.
//!
//! **Goodput** is payload that was not seen before. **Round trips** are the times from a segment to the first ACK of exactly its
//! end, for segments that were sent once (Karn's rule), as Wireshark's `tcp.analysis.ack_rtt`. They are those between the
//! capture and the receiver of the data.
//!
//! A segment with payload below the highest sequence number is
//!
//! | bytes | it came | it is |
//! |---|---|---|
//! | seen before | | a retransmission: lost behind the capture, or needless |
//! | missing so far | within a round trip of the handshake, or 3 ms without one | reordered |
//! | missing so far | later | a retransmission of what was lost before the capture |
//!
//! The probe of a keep-alive, one byte before the highest number, is none of these. 3 ms are Wireshark's threshold as well.

use std::collections::VecDeque;

use fairhop_control::digest::{TcpFields, tcp_flag};
use fairhop_model::units::Nanos;

use crate::histogram::{Detail, Histogram};
use crate::rtp::{Ends, SECOND};

/// Segments of a direction that wait for an ACK; of more, the oldest are forgotten.
const MAX_OUTSTANDING: usize = 4096;
/// The same before the first ACK: a capture may hold one direction alone.
const MAX_UNANSWERED: usize = 64;
/// Ranges of missing bytes that are remembered.
const MAX_HOLES: usize = 64;
/// A segment that is later than that by its neighbours has been sent again, if the round trip is not known.
const REORDERED_WITHIN: Nanos = Nanos::from_millis(3);
/// Points of a graph of sequence numbers, in full detail and in coarse.
const POINTS: [usize; 2] = [512, 24];
/// Time between its points at the beginning.
const FIRST_STEP: Nanos = Nanos::from_millis(2);
/// A flow that pauses for longer is idle, in seconds.
const MAX_PAUSE_S: u32 = 60;

/// A point of the graph of sequence numbers: the last state within a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Nanos,
    /// Bytes sent so far, by the highest sequence number.
    pub sent: u64,
    /// Bytes acknowledged so far.
    pub acknowledged: u64,
    /// Retransmissions within the time.
    pub retransmitted: u32,
}

/// How sequence numbers go on, at a resolution that falls with time.
#[derive(Clone, Debug)]
pub struct Sequence {
    points: Vec<Point>,
    step: Nanos,
    max_points: usize,
}

impl Sequence {
    const fn new(detail: Detail) -> Self {
        Self { points: Vec::new(), step: FIRST_STEP, max_points: POINTS[detail as usize] }
    }

    fn add(&mut self, began: Nanos, new: Point) {
        append(&mut self.points, began, self.step, new);
        while self.points.len() > self.max_points {
            self.step = Nanos(2 * self.step.0);
            let mut merged = Vec::with_capacity(self.max_points);
            for point in self.points.drain(..) {
                append(&mut merged, began, self.step, point);
            }
            self.points = merged;
        }
    }

    /// The points in the order of time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

/// Adds a point, which replaces the last one if both are within one step since `began`.
fn append(points: &mut Vec<Point>, began: Nanos, step: Nanos, new: Point) {
    let slot = |at: Nanos| at.saturating_sub(began).div_floor(step);
    match points.last_mut() {
        Some(last) if slot(last.at) == slot(new.at) => {
            *last = Point { retransmitted: last.retransmitted + new.retransmitted, ..new };
        }
        _ => points.push(new),
    }
}

/// A segment that waits for an ACK.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    end: u64,
    at: Nanos,
    is_repeated: bool,
}

/// One direction of a connection: the data that one end sends.
#[derive(Clone, Debug)]
pub struct Direction {
    /// Both ends, of the data.
    pub ends: Ends,
    /// Packets, with and without payload.
    pub packets: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Payload in bytes, with what was sent again.
    pub payload: u64,
    /// Payload in bytes that was not seen before.
    pub goodput_bytes: u64,
    /// IP bytes.
    pub bytes: u64,
    /// Segments that were sent again: see the module.
    pub retransmissions: u64,
    /// Those of them that fill a hole: the segment was lost before the capture.
    pub lost_before: u64,
    /// Segments that were overtaken.
    pub reordered: u64,
    /// Packets with a window of zero.
    pub zero_windows: u64,
    /// Maximum payload in flight between the capture and the receiver, in bytes.
    pub flight_max: u64,
    /// Round trips between the capture and the receiver.
    pub round_trips: Histogram,
    /// Times between packets with payload.
    pub gaps: Histogram,
    /// When the first packet with payload passed.
    pub began: Option<Nanos>,
    /// When the last packet with payload passed.
    pub ended: Nanos,
    /// Seconds with payload, counted from [`Direction::began`], and their new bytes.
    seconds: Vec<(u32, u32)>,
    /// How sequence numbers went on.
    pub sequence: Sequence,
    /// The first sequence number, and the highest one after that, unwrapped.
    first: Option<u32>,
    highest: u64,
    acknowledged: u64,
    outstanding: VecDeque<Outstanding>,
    /// Ranges that are missing, and when they were left out.
    holes: Vec<(u64, u64, Nanos)>,
}

impl Direction {
    fn new(ends: Ends, detail: Detail) -> Self {
        Self {
            ends,
            packets: 0,
            data_packets: 0,
            payload: 0,
            goodput_bytes: 0,
            bytes: 0,
            retransmissions: 0,
            lost_before: 0,
            reordered: 0,
            zero_windows: 0,
            flight_max: 0,
            round_trips: Histogram::new(detail),
            gaps: Histogram::new(detail),
            began: None,
            ended: Nanos::ZERO,
            seconds: Vec::new(),
            sequence: Sequence::new(detail),
            first: None,
            highest: 0,
            acknowledged: 0,
            outstanding: VecDeque::new(),
            holes: Vec::new(),
        }
    }

    /// The number of bytes since the first sequence number. Packets from before it count as the first.
    fn unwrapped(&mut self, number: u32) -> u64 {
        let first = *self.first.get_or_insert(number);
        let low = number.wrapping_sub(first);
        let ahead = low.wrapping_sub(self.highest as u32).cast_signed();
        self.highest.saturating_add_signed(i64::from(ahead))
    }

    /// Counts a packet that this end sent. `handshake` is the round trip of the handshake.
    fn send(&mut self, at: Nanos, bytes: u32, tcp: &TcpFields, handshake: Option<Nanos>) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.zero_windows += u64::from(tcp.window == 0 && !tcp.has(tcp_flag::RST));
        if tcp.has(tcp_flag::RST) {
            return;
        }
        let numbered = self.unwrapped(tcp.seq);
        // A SYN and a FIN are acknowledged as a byte each (RFC 9293 §3.4), one before the payload, one after it.
        let (syn, fin) = (u64::from(tcp.has(tcp_flag::SYN)), u64::from(tcp.has(tcp_flag::FIN)));
        let begin = numbered + syn;
        let payload = u64::from(tcp.payload_bytes);
        let end = begin + payload;
        if payload == 0 {
            if syn + fin > 0 {
                if self.outstanding.iter().any(|segment| segment.end == end + fin) {
                    self.sent_again(end + fin);
                } else {
                    self.wait_for_ack(end + fin, at);
                }
                self.highest = self.highest.max(begin);
            }
            return;
        }
        let is_keep_alive = payload == 1 && end == self.highest && self.data_packets > 0;
        if is_keep_alive {
            return;
        }
        if self.data_packets > 0 {
            self.gaps.add(at.saturating_sub(self.ended));
        }
        self.data_packets += 1;
        self.payload += payload;
        self.began.get_or_insert(at);
        self.ended = at.max(self.ended);
        let retransmissions = self.retransmissions;
        let new = if end > self.highest {
            if begin > self.highest && self.data_packets > 1 {
                self.leave_out(self.highest, begin, at);
            }
            let new = end - begin.max(self.highest);
            self.highest = end;
            self.wait_for_ack(end + fin, at);
            new
        } else {
            self.repeat(at, begin, end, handshake)
        };
        self.goodput_bytes += new;
        self.count_second(at, new);
        self.flight_max = self.flight_max.max(self.highest - self.acknowledged.min(self.highest));
        self.note(at, (self.retransmissions - retransmissions) as u32);
    }

    /// A segment below the highest number; returns its bytes that were missing.
    fn repeat(&mut self, at: Nanos, begin: u64, end: u64, handshake: Option<Nanos>) -> u64 {
        let (filled, missing_since) = self.fill(begin, end);
        let threshold = handshake.unwrap_or(REORDERED_WITHIN);
        let is_reordered = missing_since.is_some_and(|since| at.saturating_sub(since) < threshold);
        // Bytes that were all missing pass here for the first time: their ACK is theirs.
        if filled == end - begin {
            self.wait_for_ack(end, at);
        } else {
            self.sent_again(end);
        }
        if is_reordered {
            self.reordered += 1;
        } else {
            self.retransmissions += 1;
            self.lost_before += u64::from(missing_since.is_some());
        }
        filled
    }

    fn leave_out(&mut self, begin: u64, end: u64, at: Nanos) {
        if self.holes.len() >= MAX_HOLES {
            self.holes.remove(0);
        }
        self.holes.push((begin, end, at));
    }

    /// Takes a range out of the holes: the bytes that were missing, and since when.
    fn fill(&mut self, begin: u64, end: u64) -> (u64, Option<Nanos>) {
        let mut filled = 0;
        let mut since = None;
        let mut rest = Vec::new();
        self.holes.retain(|&(from, to, at)| {
            let (low, high) = (from.max(begin), to.min(end));
            if low >= high {
                return true;
            }
            filled += high - low;
            since = Some(since.map_or(at, |other: Nanos| other.min(at)));
            rest.extend([(from, low, at), (high, to, at)].into_iter().filter(|(from, to, _)| from < to));
            false
        });
        self.holes.extend(rest);
        (filled, since)
    }

    /// Which of the segments with this end is acknowledged cannot be known (Karn's rule).
    fn sent_again(&mut self, end: u64) {
        self.outstanding
            .iter_mut()
            .filter(|other| other.end == end)
            .for_each(|other| other.is_repeated = true);
    }

    fn wait_for_ack(&mut self, end: u64, at: Nanos) {
        let most = if self.acknowledged > 0 { MAX_OUTSTANDING } else { MAX_UNANSWERED };
        if self.outstanding.len() >= most {
            self.outstanding.pop_front();
        }
        // In the order of their ends: a segment that comes late is before others.
        let place = self.outstanding.iter().rposition(|other| other.end <= end).map_or(0, |place| place + 1);
        self.outstanding.insert(place, Outstanding { end, at, is_repeated: false });
    }

    /// The other end acknowledged all bytes below `number`.
    fn acknowledge(&mut self, at: Nanos, number: u32) {
        if self.first.is_none() {
            return;
        }
        let number = self.unwrapped(number);
        if number <= self.acknowledged || number > self.highest + 1 {
            return;
        }
        self.acknowledged = number;
        while let Some(segment) = self.outstanding.front().filter(|segment| segment.end <= number) {
            if segment.end == number && !segment.is_repeated {
                self.round_trips.add(at.saturating_sub(segment.at));
            }
            self.outstanding.pop_front();
        }
        if self.data_packets > 0 {
            self.note(at, 0);
        }
    }

    fn note(&mut self, at: Nanos, retransmitted: u32) {
        if let Some(began) = self.began {
            let acknowledged = self.acknowledged.min(self.highest);
            self.sequence.add(began, Point { at, sent: self.highest, acknowledged, retransmitted });
        }
    }

    fn count_second(&mut self, at: Nanos, bytes: u64) {
        let Some(began) = self.began else { return };
        let second = u32::try_from(at.saturating_sub(began).div_floor(SECOND)).unwrap_or(u32::MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.seconds.last_mut() {
            // Captures of several interfaces may be a little out of order.
            Some((last, sum)) if second <= *last => *sum = sum.saturating_add(bytes),
            _ => self.seconds.push((second, bytes)),
        }
    }

    /// New bytes of each second from [`Direction::began`] on, with the seconds without payload between them, but without pauses
    /// of over a minute.
    pub fn seconds(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut next = 0;
        self.seconds.iter().flat_map(move |&(second, bytes)| {
            let idle = if second - next > MAX_PAUSE_S { second..second } else { next..second };
            next = second.saturating_add(1);
            idle.map(|second| (second, 0)).chain([(second, bytes)])
        })
    }

    /// Time from the first packet with payload to the last.
    pub fn duration(&self) -> Nanos {
        self.began.map_or(Nanos::ZERO, |began| self.ended.saturating_sub(began))
    }

    /// Goodput in bits per second; none where all payload came at once.
    pub fn goodput(&self) -> Option<f64> {
        let seconds = self.duration().as_secs_f64();
        (seconds > 0.0).then(|| 8.0 * self.goodput_bytes as f64 / seconds)
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The direction of the first packet seen, and the other one.
    pub directions: [Direction; 2],
    /// When its last packet passed.
    pub ended: Nanos,
    /// Round trip of the handshake: from the SYN to the ACK of its answer.
    pub handshake: Option<Nanos>,
    /// Whether its end was seen.
    is_closed: bool,
    syn: Option<(u32, Nanos)>,
    /// The end of the answer to the SYN.
    answered: Option<u32>,
}

impl Connection {
    /// A connection whose first packet goes this way, in this detail.
    pub(crate) fn new(ends: Ends, detail: Detail) -> Self {
        Self {
            directions: [Direction::new(ends, detail), Direction::new(ends.reversed(), detail)],
            ended: Nanos::ZERO,
            handshake: None,
            is_closed: false,
            syn: None,
            answered: None,
        }
    }

    /// Whether a SYN opens another connection between the same ports.
    pub(crate) fn is_reopened_by(&self, tcp: &TcpFields) -> bool {
        let opens = tcp.has(tcp_flag::SYN) && !tcp.has(tcp_flag::ACK);
        let is_same = self.syn.is_some_and(|(number, _)| number == tcp.seq);
        opens && !is_same && (self.is_closed || self.directions.iter().any(|way| way.data_packets > 0))
    }

    /// Counts a packet.
    pub(crate) fn add(&mut self, at: Nanos, bytes: u32, source: &Ends, tcp: &TcpFields) {
        self.ended = at.max(self.ended);
        self.is_closed |= tcp.has(tcp_flag::FIN | tcp_flag::RST);
        self.watch_handshake(at, tcp);
        let way = usize::from(*source != self.directions[0].ends);
        self.directions[way].send(at, bytes, tcp, self.handshake);
        if tcp.has(tcp_flag::ACK) {
            self.directions[1 - way].acknowledge(at, tcp.ack);
        }
    }

    fn watch_handshake(&mut self, at: Nanos, tcp: &TcpFields) {
        if tcp.has(tcp_flag::SYN) {
            if tcp.has(tcp_flag::ACK) {
                self.answered = Some(tcp.seq_end());
            } else if self.syn.is_none() {
                self.syn = Some((tcp.seq, at));
            }
        } else if let (Some(end), Some((_, sent)), None) = (self.answered, self.syn, self.handshake)
            && tcp.has(tcp_flag::ACK)
            && tcp.ack == end
        {
            self.handshake = Some(at.saturating_sub(sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use fairhop_control::flow::Address;
    use proptest::prelude::*;

    use super::*;

    const DATA: Ends =
        Ends { source: Address([0; 16]), destination: Address([1; 16]), source_port: 1, destination_port: 2 };
    const BACK: Ends =
        Ends { source: Address([1; 16]), destination: Address([0; 16]), source_port: 2, destination_port: 1 };

    fn data(seq: u32) -> TcpFields {
        TcpFields { seq, flags: tcp_flag::ACK, window: 1000, payload_bytes: 1000, ..TcpFields::default() }
    }

    fn ack(ack: u32) -> TcpFields {
        TcpFields { ack, flags: tcp_flag::ACK, window: 1000, ..TcpFields::default() }
    }

    fn ms(number: u64) -> Nanos {
        Nanos::from_millis(number)
    }

    #[test]
    fn segments_are_retransmitted_or_reordered_and_only_what_was_sent_once_gives_a_round_trip() {
        let mut connection = Connection::new(DATA, Detail::Full);
        let first = u32::MAX - 1500;
        let mut send =
            |at, number: u32| connection.add(ms(at), 1040, &DATA, &data(first.wrapping_add(1000 * number)));
        send(0, 0);
        send(1, 1);
        // 2 is missing, and comes 2 ms after its successor.
        send(2, 3);
        send(4, 2);
        // 4 is missing, and comes much later; 0 comes again.
        send(5, 5);
        send(50, 4);
        send(60, 0);
        connection.add(ms(70), 40, &BACK, &ack(first.wrapping_add(2000)));
        connection.add(ms(72), 40, &BACK, &ack(first.wrapping_add(5000)));
        let [way, _] = &connection.directions;
        assert_eq!((way.retransmissions, way.lost_before, way.reordered), (2, 1, 1));
        assert_eq!((way.payload, way.goodput_bytes), (7000, 6000));
        let round_trips = (way.round_trips.count(), way.round_trips.mean());
        assert_eq!(round_trips, (2, Some(Nanos::from_micros(45_500))), "of the segments 1 and 4");
        assert_eq!(way.flight_max, 6000);
    }

    #[test]
    fn a_connection_between_the_same_ports_is_another_one_after_the_first_has_ended() {
        let syn = |seq| TcpFields { seq, flags: tcp_flag::SYN, window: 1000, ..TcpFields::default() };
        let mut connection = Connection::new(DATA, Detail::Full);
        connection.add(ms(0), 40, &DATA, &syn(5));
        let answer =
            TcpFields { seq: 90, ack: 6, flags: tcp_flag::SYN | tcp_flag::ACK, ..TcpFields::default() };
        connection.add(ms(30), 40, &BACK, &answer);
        assert!(!connection.is_reopened_by(&syn(5)), "a SYN that is sent again");
        connection.add(ms(40), 40, &DATA, &ack(91));
        assert_eq!(connection.handshake, Some(ms(40)));
        connection.add(ms(41), 1040, &DATA, &data(6));
        assert!(connection.is_reopened_by(&syn(77)));
    }

    proptest! {
        #[test]
        fn whatever_the_order_goodput_is_what_was_seen_and_the_graph_is_bounded(
            segments in prop::collection::vec((0_u32..300, 0_u64..50), 1..2000),
        ) {
            let mut connection = Connection::new(DATA, Detail::Full);
            let mut at = Nanos::ZERO;
            let mut seen = std::collections::BTreeSet::new();
            connection.add(at, 1040, &DATA, &data(0));
            seen.insert(0);
            let mut most_holes = 0;
            for (number, wait) in segments {
                at = at.saturating_add(ms(wait));
                let number = number.min(seen.last().copied().unwrap_or(0) + 2);
                connection.add(at, 1040, &DATA, &data(1000 * number));
                seen.insert(number);
                most_holes = most_holes.max(seen.last().map_or(0, |&last| last as usize + 1 - seen.len()));
            }
            let [way, _] = &connection.directions;
            // Of more holes than are remembered, what fills the oldest counts as seen.
            if most_holes <= MAX_HOLES {
                prop_assert_eq!(way.goodput_bytes, 1000 * seen.len() as u64);
            }
            prop_assert!(way.sequence.points().len() <= POINTS[0]);
            let summed: u64 = way.seconds().map(|(_, bytes)| u64::from(bytes)).sum();
            prop_assert_eq!(summed, way.goodput_bytes);
        }
    }
}
