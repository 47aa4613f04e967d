//! Packets that a capture holds more than once.
//!
//! A capture on the air has each attempt of a frame, and the packet again after each hop. A capture on all interfaces of a
//! router has each forwarded packet twice. Only the first copy counts, or every hop would look like a duplicate or a
//! retransmission.
//!
//! | what repeats | how it is told |
//! |---|---|
//! | attempts of an 802.11 frame | the retry bit, and the number of the transmitter's last frame |
//! | the packet after a hop | equal but for a lower time to live |
//! | the packet on another interface | equal, with an identification (RFC 6864: unique unless 0 or not to be fragmented) |
//!
//! IPv6 has no identification: there, equal packets with an equal hop limit count each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use fairhop_control::digest::PROTOCOL_TCP;
use fairhop_model::units::Nanos;

use crate::link::Sent;

/// Packets that are remembered, in sets of [`WAYS`].
const MEMORY: usize = 1 << 15;
/// Packets of a set; a new one replaces the oldest.
const WAYS: usize = 4;
/// A copy comes within that time: a packet may wait in queues of several hops.
const WITHIN: Nanos = Nanos::from_secs(5);
/// Bytes of a packet that are compared.
const COMPARED: usize = 96;
/// Maximum number of transmitters.
const MAX_TRANSMITTERS: usize = 4096;

/// A packet that was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    fingerprint: u64,
    at: Nanos,
    ttl: u8,
}

/// What was seen lately.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Sets by the low bits of the fingerprint.
    seen: Vec<[Seen; WAYS]>,
    /// The last frame of each transmitter.
    frames: HashMap<[u8; 6], u16>,
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self { seen: vec![[Seen::default(); WAYS]; MEMORY / WAYS], frames: HashMap::new() }
    }

    /// Whether an 802.11 frame repeats the transmitter's last one.
    pub(crate) fn is_repeated(&mut self, sent: Sent) -> bool {
        if self.frames.len() >= MAX_TRANSMITTERS && !self.frames.contains_key(&sent.transmitter) {
            self.frames.clear();
        }
        let last = self.frames.insert(sent.transmitter, sent.sequence);
        sent.is_retry && last == Some(sent.sequence)
    }

    /// Whether a packet is a copy of one that was seen.
    pub(crate) fn is_copy(&mut self, at: Nanos, packet: &[u8]) -> bool {
        let Some((fingerprint, ttl, is_identified)) = fingerprint(packet) else { return false };
        let set = &mut self.seen[fingerprint as usize % (MEMORY / WAYS)];
        let known = set
            .iter_mut()
            .find(|seen| seen.fingerprint == fingerprint && at.saturating_sub(seen.at) < WITHIN);
        let new = Seen { fingerprint, at, ttl };
        match known {
            Some(seen) if ttl < seen.ttl || (ttl == seen.ttl && is_identified) => return true,
            Some(seen) => *seen = new,
            None => {
                if let Some(oldest) = set.iter_mut().min_by_key(|seen| seen.at) {
                    *oldest = new;
                }
            }
        }
        false
    }
}

/// What copies of a packet share, its time to live, and whether its identification tells packets apart.
fn fingerprint(packet: &[u8]) -> Option<(u64, u8, bool)> {
    let mut hasher = DefaultHasher::new();
    let packet = &packet[..packet.len().min(COMPARED)];
    // Routers change the time to live, the checksum of IPv4, and marks.
    let (addresses_at, transport_at, protocol, ttl, is_identified) = match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<20>()?;
            hasher.write(&header[2..8]);
            (12, usize::from(header[0] & 0x0f) * 4, header[9], header[8], header[4..6] != [0, 0])
        }
        6 => {
            let header = packet.first_chunk::<40>()?;
            hasher.write(&header[4..6]);
            (8, 40, header[6], header[7], false)
        }
        _ => return None,
    };
    hasher.write_u8(protocol);
    let (addresses, transport) = (packet.get(addresses_at..transport_at)?, packet.get(transport_at..)?);
    hasher.write(addresses);
    match transport {
        // Gateways such as Fairhop's change the window, and with it the checksum.
        _ if protocol == PROTOCOL_TCP && transport.len() >= 18 => {
            hasher.write(&transport[..14]);
            hasher.write(&transport[18..]);
        }
        _ => hasher.write(transport),
    }
    Some((hasher.finish(), ttl, is_identified))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(identification: u8, ttl: u8, byte: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, identification, 0x40, 0, ttl, 17, ttl, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, byte, 0, 0, 0, 0, 8, 0, 0]);
        packet
    }

    #[test]
    fn a_packet_after_a_hop_is_a_copy_and_an_equal_one_only_if_it_is_identified() {
        let mut copies = Copies::new();
        let mut is_copy = |ms: u64, packet: &[u8]| copies.is_copy(Nanos::from_millis(ms), packet);
        assert!(!is_copy(0, &packet(0, 64, 1)));
        assert!(is_copy(5, &packet(0, 63, 1)), "after a hop");
        assert!(is_copy(9, &packet(0, 62, 1)), "after another hop");
        assert!(!is_copy(10, &packet(0, 64, 1)), "sent again");
        assert!(!is_copy(11, &packet(0, 64, 2)), "another packet");
        assert!(!is_copy(12, &packet(7, 64, 1)));
        assert!(is_copy(12, &packet(7, 64, 1)), "on another interface");
        assert!(!is_copy(6000, &packet(7, 63, 1)), "too late");
    }

    #[test]
    fn an_attempt_repeats_the_last_frame_of_its_transmitter_and_has_the_retry_bit() {
        let mut copies = Copies::new();
        let sent = |node, sequence, is_retry| Sent { transmitter: [node; 6], sequence, is_retry };
        assert!(!copies.is_repeated(sent(1, 16, false)));
        assert!(copies.is_repeated(sent(1, 16, true)));
        assert!(
            !copies.is_repeated(sent(2, 16, true)),
            "another transmitter, whose first attempt was not heard"
        );
        assert!(!copies.is_repeated(sent(1, 32, false)));
    }
}
