//! Both machines over a path that loses, reorders, duplicates and delays, in virtual time.
//!
//! The path records which octets reached the receiver and checks every segment against them: exactly the stream is
//! delivered, only octets that arrived are SACKed, the window's right edge never moves back, nothing is sent past it.

use std::collections::{BTreeMap, BTreeSet};

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{
    CongestionKind, Ecn, Flags, MAX_HEADER_BYTES, Receiver, ReceiverConfig, Recovery, SackBlock, SackBlocks,
    Segment, Sender, SenderConfig, Seq, Timestamps,
};
use proptest::prelude::*;

use super::script::ms;
use crate::impairments::{Arrived, Impairments, Reader, Rng, impairments, reader};

struct Pipe {
    sender: Sender,
    receiver: Receiver,
    sender_seq: Seq,
    receiver_seq: Seq,
    now: Nanos,
    impairments: Impairments,
    /// Probability in per cent that an ECN-capable packet is marked (RFC 3168).
    marking: u64,
    rng: Rng,
    /// In order of arrival; the flag is set for segments to the receiver.
    flying: BTreeMap<(Nanos, u64), (bool, Segment)>,
    posted: u64,
    offered: u64,
    /// Octets that reached the receiver.
    arrived: Arrived,
    shift: u8,
    announced_edge: u64,
    known_edge: u64,
    last_ack: u64,
}

impl Pipe {
    fn new(sender: SenderConfig, receiver: ReceiverConfig, offered: u64, impairments: Impairments) -> Self {
        let mut pipe = Self {
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            sender_seq: Seq(sender.initial_seq) + 1,
            receiver_seq: Seq(receiver.initial_seq) + 1,
            now: Nanos::ZERO,
            impairments,
            marking: 0,
            rng: Rng(impairments.seed | 1),
            flying: BTreeMap::new(),
            posted: 0,
            offered,
            arrived: Arrived::default(),
            shift: 0,
            announced_edge: 0,
            known_edge: 65_535,
            last_ack: 0,
        };
        pipe.sender.offer(offered);
        pipe.sender.close();
        pipe.sender.open(pipe.now);
        pipe
    }

    fn post(&mut self, to_receiver: bool, segment: Segment) {
        let mut segment = segment;
        if segment.ecn.is_capable() && self.rng.below(100) < self.marking {
            segment.ecn = Ecn::Ce;
        }
        for arrival in self.impairments.arrivals(&mut self.rng, self.now) {
            self.posted += 1;
            self.flying.insert((arrival, self.posted), (to_receiver, segment));
        }
    }

    /// Offset of the first octet that has not arrived.
    fn prefix(&self) -> u64 {
        self.arrived.prefix()
    }

    fn check_data(&self, segment: &Segment) {
        if segment.flags.has(Flags::SYN) {
            return;
        }
        let start = segment.seq.offset_in(self.sender_seq, self.prefix());
        let end = start + i64::from(segment.len);
        assert!(
            start >= -1 && end <= self.offered as i64 + i64::from(segment.len == 0),
            "{segment:?} is not of the stream"
        );
        assert!(segment.len == 0 || end <= self.known_edge as i64, "{segment:?} is past {}", self.known_edge);
        assert!(segment.header_bytes() as usize <= MAX_HEADER_BYTES);
    }

    fn check_ack(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::SYN) {
            self.shift = segment.window_scale.unwrap_or(0);
            return;
        }
        let fin = u64::from(segment.ack.offset_in(self.sender_seq, self.prefix()) > self.offered as i64);
        let ack = segment.ack.offset_in(self.sender_seq, self.prefix()) as u64 - fin;
        assert!(ack >= self.last_ack && ack <= self.prefix(), "acknowledged {ack} of {}", self.prefix());
        self.last_ack = ack;
        let edge = ack + (u64::from(segment.window) << self.shift);
        assert!(edge >= self.announced_edge, "right edge {edge} after {}", self.announced_edge);
        self.announced_edge = edge;
        for block in segment.sack.as_slice() {
            let start = block.start.offset_in(self.sender_seq, ack) as u64;
            let end = block.end.offset_in(self.sender_seq, ack) as u64;
            assert!(start < end && self.arrived.has(start, end), "SACKed {start}..{end}");
        }
    }

    fn learn_edge(&mut self, segment: &Segment) {
        if !segment.flags.has(Flags::SYN) {
            let ack = segment.ack.offset_in(self.sender_seq, self.prefix()) as u64;
            self.known_edge = self.known_edge.max(ack + (u64::from(segment.window) << self.shift));
        }
    }

    fn flush(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            self.check_data(&segment);
            assert_eq!(segment.flags.any(Flags::ACK), !segment.flags.has(Flags::SYN));
            self.post(true, segment);
        }
        while let Some(segment) = self.receiver.poll_transmit(self.now) {
            self.check_ack(&segment);
            assert!(segment.seq == self.receiver_seq || segment.seq.since(self.receiver_seq).abs() == 1);
            self.post(false, segment);
        }
    }

    fn deliver(&mut self, to_receiver: bool, segment: &Segment) {
        if !to_receiver {
            self.learn_edge(segment);
            self.sender.on_segment(self.now, segment);
            return;
        }
        if segment.len > 0 {
            let start = segment.seq.offset_in(self.sender_seq, self.prefix()) as u64;
            self.arrived.note(start, start + u64::from(segment.len));
        }
        self.receiver.on_segment(self.now, segment);
        let taken = self.receiver.delivered() + self.receiver.unread();
        assert!(taken <= self.prefix());
        let stats = self.receiver.stats();
        if stats.bytes_past_window == 0 && stats.paws_drops == 0 {
            assert_eq!(taken, self.prefix(), "all octets in order were delivered");
        }
    }

    /// Runs until both sides are finished; panics if they never are.
    fn run(mut self, reader: Reader) -> Self {
        let mut next_read = reader.first();
        self.receiver.set_reading(next_read.is_none());
        for _ in 0..2_000_000 {
            self.flush();
            if self.sender.is_finished() && self.receiver.is_finished() {
                assert_eq!(self.receiver.delivered(), self.offered);
                assert_eq!(self.sender.bytes_acked(), self.offered);
                return self;
            }
            let arrival = self.flying.keys().next().map(|&(at, _)| at);
            let times = [arrival, self.sender.next_timer(), self.receiver.next_timer(), next_read];
            let next = times.into_iter().flatten().min().unwrap_or(Nanos::MAX);
            assert!(next < Nanos::MAX, "deadlock: {:?} {:?}", self.sender, self.receiver);
            assert!(next >= self.now, "a timer in the past");
            assert!(
                self.sender.in_flight() == 0 || self.sender.next_timer().is_some(),
                "no timer for data in flight"
            );
            self.now = next;
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= next) {
                let (to_receiver, segment) = entry.remove();
                self.deliver(to_receiver, &segment);
            }
            self.sender.on_timer(self.now);
            self.receiver.on_timer(self.now);
            if next_read.is_some_and(|at| self.now >= at) {
                let (bytes, again) = reader.act(self.now);
                self.receiver.read(bytes);
                next_read = Some(again);
            }
        }
        panic!("never finished: {:?} {:?}", self.sender, self.receiver);
    }
}

/// Every variant, with every loss detection and recovery.
fn sender() -> impl Strategy<Value = SenderConfig> {
    let window = prop::option::of(1..20_u32);
    let congestion = prop::sample::select(CongestionKind::ALL.to_vec());
    let recovery = prop_oneof![Just(Recovery::Rfc6675), Just(Recovery::RackTlp)];
    let repair = (any::<bool>(), recovery, any::<bool>(), any::<bool>(), any::<bool>());
    (50..1500_u32, 1..12_u32, congestion, repair, any::<(bool, bool)>(), window, any::<u32>()).prop_map(
        |(mss, initial_window, congestion, repair, (timestamps, byte_counting), max_window, initial_seq)| {
            let (sack, recovery, prr, undo, ecn) = repair;
            SenderConfig {
                mss,
                initial_window,
                congestion,
                byte_counting,
                sack,
                recovery,
                prr,
                undo,
                ecn,
                timestamps,
                max_window,
                initial_seq,
                min_rto: ms(200),
                max_rto: Nanos::from_secs(5),
                syn_retries: u32::MAX,
                data_retries: u32::MAX,
                ..SenderConfig::default()
            }
        },
    )
}

fn receiver() -> impl Strategy<Value = ReceiverConfig> {
    let buffer = prop_oneof![1..500_u32, 500..5_000_u32, 5_000..100_000_u32, 100_000..4_000_000_u32];
    let acks = (1..4_u32, 0..20_u32, prop::option::of(Just(ms(1))), any::<bool>(), any::<bool>());
    (50..1500_u32, buffer, acks, any::<(bool, bool)>(), any::<u32>()).prop_map(
        |(
            mss,
            buffer,
            (delayed_ack_segments, quick_acks, compress_sacks, autotune, ecn),
            (sack, timestamps),
            initial_seq,
        )| {
            ReceiverConfig {
                mss,
                buffer,
                delayed_ack_segments,
                quick_acks,
                compress_sacks,
                autotune,
                ecn,
                sack,
                timestamps,
                initial_seq,
                retries: u32::MAX,
                ..ReceiverConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_arrives_whole_and_in_order_through_any_impairments(
        impairments in impairments(), marking in 0..30_u64, sender in sender(), receiver in receiver(), reader in reader(),
        offered in 0..60_000_u64,
    ) {
        Pipe { marking, ..Pipe::new(sender, receiver, offered, impairments) }.run(reader);
    }

    #[test]
    fn without_loss_and_reordering_nothing_is_sent_twice(
        delay_ms in 1..80_u64, sender in sender(), receiver in receiver(), offered in 1..200_000_u64,
    ) {
        let impairments = Impairments::fair(delay_ms);
        let sender = SenderConfig { min_rto: Nanos::from_secs(1), ..sender };
        let pipe = Pipe::new(sender, receiver, offered, impairments).run(Reader::Eager);
        // Except tail loss probes (RFC 8985 §7), if acknowledgments are delayed for long.
        let stats = pipe.sender.stats();
        prop_assert!(stats.segments_retransmitted <= stats.loss_probes);
        prop_assert!(pipe.receiver.stats().duplicates <= stats.loss_probes);
        prop_assert_eq!(stats.fast_recoveries + stats.timeouts, 0);
        prop_assert_eq!(pipe.receiver.stats().bytes_past_window, 0);
    }

    #[test]
    fn a_header_decodes_to_what_was_encoded(
        numbers in any::<(u32, u32, u16, u8)>(), mss in any::<Option<u16>>(), scale in any::<Option<u8>>(),
        sack_permitted in any::<bool>(), blocks in prop::collection::vec(any::<(u32, u32)>(), 0..5),
        times in any::<Option<(u32, u32)>>(), ports in any::<(u16, u16)>(), len in 0..65_000_u32,
    ) {
        let mut sack = SackBlocks::NONE;
        for &(start, end) in &blocks {
            sack.push(SackBlock { start: Seq(start), end: Seq(end) });
        }
        let segment = Segment {
            seq: Seq(numbers.0), ack: Seq(numbers.1), window: numbers.2, flags: Flags(numbers.3), len, mss,
            window_scale: scale, sack_permitted, sack,
            timestamps: times.map(|(value, echo)| Timestamps { value, echo }), ..Segment::default()
        };
        let mut out = [0; MAX_HEADER_BYTES];
        let length = segment.encode_header(&mut out, ports.0, ports.1);
        prop_assert_eq!(length, segment.header_bytes() as usize);
        let read = Segment::decode_header(&out[..length], len).expect("what was written");
        // As many blocks as fit.
        let kept = read.segment.sack.as_slice();
        prop_assert_eq!(kept, &sack.as_slice()[..kept.len()]);
        prop_assert_eq!(Segment { sack, ..read.segment }, segment);
        prop_assert_eq!((read.src_port, read.dst_port, read.header_bytes as usize), (ports.0, ports.1, length));
    }

    #[test]
    fn decoding_a_header_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = Segment::decode_header(&bytes, 0);
    }

    #[test]
    fn no_segment_makes_a_machine_panic(
        headers in prop::collection::vec(
            (any::<(i16, i16, u16, u8)>(), 0..3000_u32, prop::collection::vec(any::<(i16, i16)>(), 0..5), any::<Option<(u8, u8)>>()),
            1..60,
        ),
        sender in sender(), receiver in receiver(),
    ) {
        let mut sender = Sender::new(SenderConfig { initial_seq: 0, ..sender });
        let mut receiver = Receiver::new(ReceiverConfig { initial_seq: 0, ..receiver });
        sender.offer(100_000);
        let mut now = Nanos::ZERO;
        sender.open(now);
        let mut seen = BTreeSet::new();
        for ((seq, ack, window, flags), len, blocks, times) in headers {
            let mut segment = Segment {
                seq: Seq(seq as u32), ack: Seq(ack as u32), window, flags: Flags(flags), len, mss: Some(window),
                window_scale: Some(flags), sack_permitted: len % 2 == 0,
                timestamps: times.map(|(value, echo)| Timestamps { value: value.into(), echo: echo.into() }),
                ..Segment::default()
            };
            for (start, end) in blocks {
                segment.sack.push(SackBlock { start: Seq(start as u32), end: Seq(end as u32) });
            }
            sender.on_segment(now, &segment);
            receiver.on_segment(now, &segment);
            for _ in 0..1000 {
                let (a, b) = (sender.poll_transmit(now), receiver.poll_transmit(now));
                seen.extend(a.map(|s| s.seq.0));
                if a.is_none() && b.is_none() {
                    break;
                }
            }
            now += ms(100);
            sender.on_timer(now);
            receiver.on_timer(now);
        }
    }
}

#[test]
fn a_stream_longer_than_the_sequence_space_arrives_whole() {
    let impairments = Impairments::fair(5);
    let sender = SenderConfig { mss: 65_000, initial_seq: u32::MAX - 10, ..SenderConfig::default() };
    let receiver = ReceiverConfig { mss: 65_000, buffer: 64 << 20, ..ReceiverConfig::default() };
    let offered = (1 << 32) + (1 << 31) + 12_345;
    let pipe = Pipe::new(sender, receiver, offered, impairments).run(Reader::Eager);
    assert_eq!(pipe.receiver.delivered(), offered);
}
