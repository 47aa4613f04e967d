//! Real IP packets: what the simulator reads out of their bytes, and what it writes into them.
//!
//! A router lowers the TTL (RFC 791 §3.1; the hop limit of RFC 8200 §3), a queue may set CE (RFC 3168 §5), and a gateway
//! may lower the window of a TCP segment. Checksums follow incrementally (RFC 1624). The simulator keeps the three fields in
//! the [`Header`] of each image; [`rewrite`] writes them into a copy of the bytes when the packet leaves the network.

use fairhop_control::digest::{Ip, PROTOCOL_TCP, PROTOCOL_UDP};
use fairhop_control::window::update_checksum;

use crate::packet::{Ecn, Header};

/// Where the window field is in a TCP header (RFC 9293 §3.1), and the checksum.
const TCP_WINDOW_AT: usize = 14;
const TCP_CHECKSUM_AT: usize = 16;
/// Where the checksum is in an IPv4 header.
const IPV4_CHECKSUM_AT: usize = 10;

/// The fields of a real packet that a simulated header has, and the length of its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) ttl: u8,
    pub(crate) ecn: Ecn,
    /// 0 where there is no TCP header.
    pub(crate) window: u16,
    /// Bytes before the application's data.
    pub(crate) headers: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

const fn ecn_of(traffic_class: u8) -> Ecn {
    match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Reads the fields of a packet whose IP header was read as `ip`.
pub(crate) fn fields(packet: &[u8], ip: &Ip) -> Fields {
    let transport = if ip.later_fragment { None } else { packet.get(ip.transport_at..) };
    let transport_bytes = match (ip.protocol, transport) {
        (PROTOCOL_TCP, Some(tcp)) => tcp.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4),
        (PROTOCOL_UDP, Some(_)) => 8,
        _ => 0,
    };
    let headers = (ip.transport_at + transport_bytes).min(packet.len());
    Fields {
        ttl: ip.ttl,
        ecn: ecn_of(ip.traffic_class),
        window: window_at(packet, ip).and_then(|at| u16_at(packet, at)).unwrap_or(0),
        headers: headers.min(usize::from(u16::MAX)) as u16,
    }
}

/// Where the window field of a packet is, if it has a whole TCP header.
fn window_at(packet: &[u8], ip: &Ip) -> Option<usize> {
    let is_tcp = ip.protocol == PROTOCOL_TCP && !ip.later_fragment;
    (is_tcp && packet.len() >= ip.transport_at + 20).then_some(ip.transport_at + TCP_WINDOW_AT)
}

/// Writes a 16-bit word, and the change into the checksum at another place.
fn replace_word(packet: &mut [u8], at: usize, to: u16, checksum_at: usize) {
    let (Some(from), Some(checksum)) = (u16_at(packet, at), u16_at(packet, checksum_at)) else { return };
    if from != to {
        packet[at..at + 2].copy_from_slice(&to.to_be_bytes());
        packet[checksum_at..checksum_at + 2]
            .copy_from_slice(&update_checksum(checksum, from, to).to_be_bytes());
    }
}

/// Writes TTL, ECN and window of a node's image into the bytes of the packet. Bytes without a whole IP header stay as they
/// are.
pub(crate) fn rewrite(packet: &mut [u8], header: &Header) {
    let Some(ip) = Ip::read(packet) else { return };
    let class = ip.traffic_class & !3 | header.ecn.bits();
    if packet[0] >> 4 == 4 {
        replace_word(packet, 0, u16::from_be_bytes([packet[0], class]), IPV4_CHECKSUM_AT);
        replace_word(packet, 8, u16::from_be_bytes([header.ttl, packet[9]]), IPV4_CHECKSUM_AT);
    } else {
        packet[0] = packet[0] & 0xf0 | class >> 4;
        packet[1] = packet[1] & 0x0f | class << 4;
        packet[7] = header.ttl;
    }
    if let Some(at) = window_at(packet, &ip) {
        replace_word(packet, at, header.window, ip.transport_at + TCP_CHECKSUM_AT);
    }
}

/// Bytes of an Ethernet header: destination, source and type.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// The IP packet in an Ethernet frame; none where the frame carries another protocol.
pub(crate) fn packet_of_frame(frame: &[u8]) -> Option<&[u8]> {
    let (IPV4 | IPV6) = u16_at(frame, ETHERNET_HEADER - 2)? else { return None };
    frame.get(ETHERNET_HEADER..)
}

/// Types of Ethernet frames (RFC 894, RFC 2464 §3).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// [`rewrite`] for the IP packet in an Ethernet frame.
pub(crate) fn rewrite_frame(frame: &mut [u8], header: &Header) {
    if packet_of_frame(frame).is_some() {
        rewrite(&mut frame[ETHERNET_HEADER..], header);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A sum of 16-bit words without its complement (RFC 1071): 0xffff over data with a right checksum.
    fn sum(bytes: &[u8]) -> u16 {
        let mut sum: u32 =
            bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| b.into())).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn set_checksum(bytes: &mut [u8], at: usize, pseudo: &[u8]) {
        bytes[at..at + 2].fill(0);
        let check = !sum(&[pseudo, bytes].concat());
        bytes[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }

    /// An IPv4 packet with a TCP header and some data, with right checksums.
    fn tcp_packet(ttl: u8, tos: u8, window: u16, data: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 0, 0, 1, 0x40, 0, ttl, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        packet.extend([0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10]);
        packet.extend(window.to_be_bytes());
        packet.extend([0, 0, 0, 0]);
        packet.extend(data);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        set_checksum(&mut packet[..20], 10, &[]);
        let pseudo = pseudo(&packet);
        set_checksum(&mut packet[20..], 16, &pseudo);
        packet
    }

    fn pseudo(packet: &[u8]) -> Vec<u8> {
        let length = (packet.len() as u16 - 20).to_be_bytes();
        [&packet[12..20], &[0, 6], &length].concat()
    }

    fn header(ttl: u8, ecn: Ecn, window: u16) -> Header {
        Header { ttl, ecn, window, payload: None }
    }

    proptest! {
        #[test]
        fn after_a_rewrite_fields_are_the_headers_and_checksums_are_right(
            ttl: u8, new_ttl: u8, tos: u8, window: u16, new_window: u16, data in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut packet = tcp_packet(ttl, tos, window, &data);
            rewrite(&mut packet, &header(new_ttl, Ecn::Ce, new_window));
            let ip = Ip::read(&packet).expect("a header");
            let read = fields(&packet, &ip);
            prop_assert_eq!((read.ttl, read.ecn, read.window, read.headers), (new_ttl, Ecn::Ce, new_window, 40));
            prop_assert_eq!(ip.traffic_class >> 2, tos >> 2);
            prop_assert_eq!(sum(&packet[..20]), 0xffff);
            prop_assert_eq!(sum(&[pseudo(&packet), packet[20..].to_vec()].concat()), 0xffff);
        }

        #[test]
        fn nothing_panics_on_random_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..128), version in 4_u8..=6) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x0f | version << 4;
            }
            if let Some(ip) = Ip::read(&bytes) {
                let read = fields(&bytes, &ip);
                prop_assert!(usize::from(read.headers) <= bytes.len());
            }
            rewrite(&mut bytes, &header(3, Ecn::Ce, 7));
        }
    }

    #[test]
    fn a_rewrite_with_the_fields_of_the_packet_changes_nothing() {
        let packet = tcp_packet(64, 0x02, 501, b"data");
        let read = fields(&packet, &Ip::read(&packet).expect("a header"));
        let mut same = packet.clone();
        rewrite(&mut same, &header(read.ttl, read.ecn, read.window));
        assert_eq!(same, packet);
    }

    #[test]
    fn hop_limit_and_ecn_of_ipv6_are_rewritten_and_its_other_bits_stay() {
        let mut packet = vec![0x6a, 0xb1, 0x23, 0x45, 0, 0, 59, 64];
        packet.extend([0; 32]);
        rewrite(&mut packet, &header(61, Ecn::Ce, 0));
        // Traffic class ab with CE is ab (1010 1011): ECN bits were 11 already; flow label 1:2345 stays.
        assert_eq!(packet[..8], [0x6a, 0xb1, 0x23, 0x45, 0, 0, 59, 61]);
        rewrite(&mut packet, &header(61, Ecn::Ect0, 0));
        assert_eq!(packet[..2], [0x6a, 0xa1]);
    }
}
