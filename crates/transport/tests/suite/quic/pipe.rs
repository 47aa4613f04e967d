//! Both machines over a path that loses, reorders, duplicates and delays, in virtual time.
//!
//! Packets travel as bytes. The path records which bytes and packets reached the receiver, and checks every datagram
//! against them.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;
use fairhop_transport::quic::wire::Packet;
use fairhop_transport::quic::{Datagram, Receiver, ReceiverConfig, Sender, SenderConfig};
use fairhop_transport::tcp::CongestionKind;
use proptest::prelude::*;

use crate::impairments::{Arrived, Impairments, Reader, Rng, impairments, reader};

const CONNECTION: u64 = 7;

/// The stream's byte at an offset.
fn content(offset: u64) -> u8 {
    (offset ^ offset >> 8) as u8
}

/// Packet numbers known to one side.
#[derive(Default)]
struct Numbers {
    /// Its largest number acknowledged by the other side.
    acknowledged: Option<u64>,
    /// The largest number received from the other side.
    largest: Option<u64>,
}

struct Pipe {
    sender: Sender,
    receiver: Receiver,
    now: Nanos,
    impairments: Impairments,
    rng: Rng,
    /// In order of arrival; the flag is set for packets to the receiver.
    flying: BTreeMap<(Nanos, u64), (bool, Vec<u8>)>,
    /// Of the sender and of the receiver.
    numbers: [Numbers; 2],
    posted: u64,
    offered: u64,
    datagram_bytes: u32,
    /// End of the bytes sent, the highest limit that reached the sender, and the last packet number.
    sent: u64,
    limit: u64,
    last_number: Option<u64>,
    /// Packets and bytes that reached the receiver.
    packets: Arrived,
    bytes: Arrived,
}

impl Pipe {
    fn new(sender: SenderConfig, receiver: ReceiverConfig, offered: u64, impairments: Impairments) -> Self {
        let sender = SenderConfig { initial_max_data: receiver.buffer, ..sender };
        let mut pipe = Self {
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            now: Nanos::ZERO,
            impairments,
            rng: Rng(impairments.seed | 1),
            flying: BTreeMap::new(),
            numbers: Default::default(),
            posted: 0,
            offered,
            datagram_bytes: sender.datagram_bytes,
            sent: 0,
            limit: receiver.buffer,
            last_number: None,
            packets: Arrived::default(),
            bytes: Arrived::default(),
        };
        pipe.sender.offer(offered);
        pipe.sender.close();
        pipe
    }

    fn post(&mut self, to_receiver: bool, datagram: Datagram) {
        let mut bytes = vec![0; datagram.wire_bytes() as usize];
        let payload: Vec<_> =
            datagram.stream.map_or(0..0, |frame| frame.offset..frame.end()).map(content).collect();
        let acknowledged = self.numbers[usize::from(!to_receiver)].acknowledged;
        let length = Packet { connection: CONNECTION, datagram }.encode(acknowledged, &payload, &mut bytes);
        assert_eq!(length, Ok(bytes.len()), "{datagram:?}");
        for arrival in self.impairments.arrivals(&mut self.rng, self.now) {
            self.posted += 1;
            self.flying.insert((arrival, self.posted), (to_receiver, bytes.clone()));
        }
    }

    /// Decodes the bytes.
    fn read(&mut self, to_receiver: bool, bytes: &[u8]) -> Datagram {
        let numbers = &mut self.numbers[usize::from(to_receiver)];
        let (packet, payload) = Packet::decode(bytes, numbers.largest).expect("a packet");
        let datagram = packet.datagram;
        numbers.largest = numbers.largest.max(Some(datagram.number));
        numbers.acknowledged = numbers.acknowledged.max(datagram.ack.map(|ack| ack.largest()));
        let offset = datagram.stream.map_or(0, |frame| frame.offset);
        assert_eq!(packet.connection, CONNECTION);
        assert!((offset..).zip(payload).all(|(at, &byte)| byte == content(at)), "{datagram:?}");
        datagram
    }

    fn check_data(&mut self, datagram: &Datagram) {
        assert!(datagram.wire_bytes() <= self.datagram_bytes, "{datagram:?} is too long");
        assert!(
            self.last_number.is_none_or(|last| datagram.number > last),
            "{datagram:?} retransmits a number"
        );
        self.last_number = Some(datagram.number);
        if let Some(frame) = datagram.stream {
            assert!(frame.offset <= self.sent, "{datagram:?} leaves a gap after {}", self.sent);
            assert!(frame.end() <= self.limit.min(self.offered), "{datagram:?} is past {}", self.limit);
            assert!(!frame.fin || frame.end() == self.offered);
            self.sent = self.sent.max(frame.end());
        }
    }

    fn flush(&mut self) {
        while let Some(datagram) = self.sender.poll_transmit(self.now) {
            self.check_data(&datagram);
            self.post(true, datagram);
        }
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            for (first, last) in datagram.ack.iter().flat_map(fairhop_transport::quic::AckFrame::ranges) {
                assert!(self.packets.has(first, last + 1), "{datagram:?}");
            }
            self.post(false, datagram);
        }
    }

    fn deliver(&mut self, to_receiver: bool, bytes: &[u8]) {
        let datagram = &self.read(to_receiver, bytes);
        if !to_receiver {
            self.limit = self.limit.max(datagram.max_data.unwrap_or(0));
            self.sender.on_datagram(self.now, datagram);
            return;
        }
        self.packets.note(datagram.number, datagram.number + 1);
        let forgotten = self.receiver.stats().duplicate_packets;
        self.receiver.on_datagram(self.now, datagram);
        if let (Some(frame), true) = (datagram.stream, self.receiver.stats().duplicate_packets == forgotten) {
            self.bytes.note(frame.offset, frame.end());
        }
        assert_eq!(self.receiver.delivered() + self.receiver.unread(), self.bytes.prefix());
        assert_eq!(self.receiver.stats().bytes_past_limit, 0);
    }

    /// Runs until the whole stream is acknowledged; panics if it never is.
    fn run(mut self, reader: Reader) -> Self {
        let mut next_read = reader.first();
        self.receiver.set_reading(next_read.is_none());
        for _ in 0..2_000_000 {
            self.flush();
            if self.sender.is_finished() {
                self.receiver.set_reading(true);
                assert!(self.receiver.is_finished());
                assert_eq!(self.receiver.delivered(), self.offered);
                return self;
            }
            let arrival = self.flying.keys().next().map(|&(at, _)| at);
            let times = [arrival, self.sender.next_timer(), self.receiver.next_timer(), next_read];
            let next = times.into_iter().flatten().min().expect("something");
            assert!(next < Nanos::MAX, "deadlock: {:?} {:?}", self.sender, self.receiver);
            assert!(next >= self.now, "a timer in the past");
            assert!(
                self.sender.in_flight() == 0 || self.sender.next_timer().is_some(),
                "no timer for data in flight"
            );
            self.now = next;
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= next) {
                let (to_receiver, bytes) = entry.remove();
                self.deliver(to_receiver, &bytes);
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

fn congestion() -> impl Strategy<Value = CongestionKind> {
    prop::sample::select(CongestionKind::ALL.to_vec())
}

fn sender() -> impl Strategy<Value = SenderConfig> {
    (200..1500_u32, 1..12_u32, any::<bool>(), congestion()).prop_map(
        |(datagram_bytes, initial_window, pacing, congestion)| SenderConfig {
            datagram_bytes,
            initial_window,
            pacing,
            congestion,
            max_probe_timeout: Nanos::from_secs(5),
            ..SenderConfig::default()
        },
    )
}

fn receiver() -> impl Strategy<Value = ReceiverConfig> {
    let buffer = prop_oneof![1..500_u64, 500..5_000_u64, 5_000..4_000_000_u64];
    (buffer, 1..4_u32).prop_map(|(buffer, ack_packets)| ReceiverConfig {
        buffer,
        ack_packets,
        ..ReceiverConfig::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_arrives_whole_and_in_order_through_any_impairments(
        impairments in impairments(), sender in sender(), receiver in receiver(), reader in reader(), offered in 0..20_000_u64,
    ) {
        Pipe::new(sender, receiver, offered, impairments).run(reader);
    }

    #[test]
    fn without_loss_and_reordering_nothing_is_sent_twice(
        delay_ms in 1..80_u64, sender in sender(), ack_packets in 1..4_u32, offered in 1..60_000_u64,
    ) {
        let receiver = ReceiverConfig { ack_packets, ..ReceiverConfig::default() };
        let pipe = Pipe::new(sender, receiver, offered, Impairments::fair(delay_ms)).run(Reader::Eager);
        prop_assert_eq!(pipe.sender.stats().packets_lost, 0);
        prop_assert_eq!(pipe.sender.stats().bytes_sent, offered);
        prop_assert_eq!(pipe.receiver.stats().duplicate_bytes, 0);
    }

    #[test]
    fn no_datagram_makes_a_machine_panic(
        frames in prop::collection::vec(
            (any::<(u16, bool)>(), any::<Option<(u32, u16, bool)>>(), any::<Option<(u8, u8)>>(), any::<Option<u64>>()), 1..60,
        ),
        sender in sender(), receiver in receiver(),
    ) {
        use fairhop_transport::quic::{AckFrame, StreamFrame};
        let (mut sender, mut receiver) = (Sender::new(sender), Receiver::new(receiver));
        sender.offer(50_000);
        let mut now = Nanos::ZERO;
        for ((number, high), stream, ack, limit) in frames {
            let datagram = Datagram {
                number: u64::from(number) | u64::from(high) << 63,
                stream: stream.map(|(offset, len, fin)| StreamFrame { offset: offset.into(), len: len.into(), fin }),
                ack: ack.and_then(|(first, last)| AckFrame::of(first.into(), last.into())),
                max_data: limit,
                data_blocked: limit,
                ping: high,
            };
            sender.on_datagram(now, &datagram);
            receiver.on_datagram(now, &datagram);
            for _ in 0..1000 {
                if sender.poll_transmit(now).is_none() && receiver.poll_transmit(now).is_none() {
                    break;
                }
            }
            now += Nanos::from_millis(100);
            sender.on_timer(now);
            receiver.on_timer(now);
        }
    }
}
