//! What holds for all bytes that are read as a packet of AIMD datagrams. Used by the fuzz target and by the test that
//! replays the corpus.

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::wire::{Body, MAX_HEADER, Packet};
use fairhop_transport::aimd::{Receiver, ReceiverConfig, Sender, SenderConfig};

/// Reads `bytes` as a packet. What is read is written to the same bytes again, and neither machine is put out by it.
pub(crate) fn check(bytes: &[u8]) {
    let Ok((packet, payload)) = Packet::decode(bytes) else { return };
    let mut buffer = [0; MAX_HEADER];
    let length = packet.encode(&mut buffer).expect("every packet fits");
    assert_eq!(&buffer[..length], &bytes[..length]);
    assert_eq!(payload, &bytes[length..]);
    let now = Nanos::from_millis(7);
    let mut sender = Sender::new(SenderConfig { max_window: 64, ..SenderConfig::default() });
    sender.offer(u64::MAX);
    while sender.poll_transmit(Nanos::ZERO).is_some() {}
    let mut receiver = Receiver::new(ReceiverConfig::default());
    match packet.body {
        Body::Data(datagram) => {
            let (ack, _) = receiver.on_datagram(now, &datagram);
            sender.on_ack(now, &ack);
        }
        Body::Ack(ack) => sender.on_ack(now, &ack),
        Body::End { end } => receiver.on_end(end),
        Body::Report { .. } | Body::Busy => {}
    }
    assert!(sender.window() >= 1 && sender.outstanding() <= 64);
    assert!(receiver.stats().received <= receiver.stats().expected);
}
