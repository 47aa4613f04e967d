//! What holds for all bytes that are read as a packet of AIMD datagrams. Used by the fuzz target and by the test that
//! replays the corpus.

use std::hash::{BuildHasherDefault, DefaultHasher};

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::handshake::{Admission, Listener, Opening};
use fairhop_transport::aimd::wire::{MAX_HEADER, Packet};
use fairhop_transport::aimd::{Receiver, ReceiverConfig, Sender, SenderConfig};

/// Reads `bytes` as a packet. Encoding gives the same bytes, and no machine breaks on the packet.
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
    match packet {
        Packet::Data { datagram, .. } => {
            let (ack, _) = receiver.on_datagram(now, &datagram);
            sender.on_ack(now, &ack);
        }
        Packet::Ack { ack, .. } => sender.on_ack(now, &ack),
        Packet::End { end, .. } => receiver.on_end(end),
        _ => {}
    }
    assert!(sender.window() >= 1 && sender.outstanding() <= 64);
    assert!(receiver.stats().received <= receiver.stats().expected);
    // A single packet opens a stream only with the right cookie.
    let mut listener = Listener::new(BuildHasherDefault::<DefaultHasher>::default());
    let admission = listener.on_packet(7_u8, &packet);
    let opened = matches!(admission, Admission::Opened(_));
    assert_eq!(opened, listener.current().is_some());
    assert!(!opened || matches!(packet, Packet::Hello { cookie, .. } if cookie != 0));
    if let Admission::Reply(answer) = admission {
        assert!(answer.encode(&mut buffer).expect("every packet fits") <= bytes.len(), "no amplification");
    }
    let _ = Opening::new(1).on_packet(now, &packet);
}
