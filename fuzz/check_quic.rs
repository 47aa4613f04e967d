//! What holds for all bytes that are read as a packet of a QUIC-like transfer. Used by the fuzz target and by the test
//! that replays the corpus.

use fairhop_model::units::Nanos;
use fairhop_transport::quic::wire::{EncodeError, MAX_DATAGRAM, Packet};
use fairhop_transport::quic::{Receiver, ReceiverConfig, Sender, SenderConfig};

/// The second byte of a packet number, and offset and length of a stream, or a byte of PADDING.
const MAY_LACK: usize = 1 + 1 + 4;

/// Reads `bytes` as a packet, as the first of a transfer and as one of the middle. What is read is written with the length
/// that the machines count with, and means the same; it is no longer than it was, but for what may be left out. Neither
/// machine is put out by it.
pub(crate) fn check(bytes: &[u8]) {
    for largest in [None, Some(20), Some(0xa82f_30ea), Some((1 << 62) - 1)] {
        let Ok((packet, payload)) = Packet::decode(bytes, largest) else { continue };
        let mut buffer = vec![0; packet.datagram.wire_bytes() as usize];
        let before = packet.datagram.number.checked_sub(1);
        assert!(buffer.len() <= bytes.len() + MAY_LACK);
        match packet.encode(before, payload, &mut buffer) {
            Ok(length) => {
                assert_eq!(length, buffer.len());
                assert_eq!(Packet::decode(&buffer, before), Ok((packet, payload)));
            }
            Err(error) => assert!(buffer.len() > MAX_DATAGRAM && error == EncodeError::Long, "{error}"),
        }
        let mut sender = Sender::new(SenderConfig::default());
        sender.offer(1_000_000);
        while sender.poll_transmit(Nanos::ZERO).is_some() {}
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let mut now = Nanos::from_millis(7);
        receiver.on_datagram(now, &packet.datagram);
        sender.on_datagram(now, &packet.datagram);
        for _ in 0..4 {
            while let Some(datagram) = sender.poll_transmit(now) {
                receiver.on_datagram(now, &datagram);
            }
            while let Some(datagram) = receiver.poll_transmit(now) {
                sender.on_datagram(now, &datagram);
            }
            now += Nanos::from_millis(30);
            sender.on_timer(now);
            receiver.on_timer(now);
        }
        assert!(sender.cwnd_packets() >= 1 && sender.bytes_acked() <= 1_000_000);
        assert!(receiver.delivered() <= receiver.stats().bytes_received);
    }
}
