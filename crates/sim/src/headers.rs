//! Frames and packets as bytes: radiotap, 802.11 (IEEE 802.11-2020, 9.2 and 9.3), LLC and SNAP (RFC 1042), Ethernet,
//! IPv4 (RFC 791), UDP (RFC 768), RTP (RFC 3550) and TCP.
//!
//! The simulator keeps lengths and the fields that matter; the rest is made up here, always in the same way:
//!
//! - Node `n` has the IP address 10.0.0.0 + 65536 + `n` (node 4 is 10.1.0.4), the Internet host 192.0.2.1 (RFC 5737). The
//!   hosts of a wired network count from 10.2.0.1.
//! - Wireless interfaces have the locally administered address 02:00 and the node's number, wired ones 02:01 and the
//!   number. Frames are those of an independent network, so that addresses are receiver, transmitter, BSSID.
//! - Both ends of a flow use the same port, out of the dynamic range (RFC 6335) and where Wireshark expects no other
//!   protocol: even ones from 50000 for RTP, the odd ones above them for RTCP (RFC 3550 §11), from 61000 for TCP
//!   and other datagrams. The receiver of a session's pages has another port in each of its connections.
//! - Payload is zeros. Fragmentation is forbidden, so the identification of a packet is free (RFC 6864): the low bits
//!   of the sequence number of a datagram, a hash for a TCP segment, the same on every hop.

use fairhop_control::digest::{PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP};
use fairhop_model::checksum::{complement, sum_words};
use fairhop_model::headers;
use fairhop_model::phy::{Modulation, Preamble, Rate, Standard};
use fairhop_model::units::Nanos;
use fairhop_transport::aimd;
use fairhop_transport::tcp::{MAX_HEADER_BYTES, Segment};

use crate::ip;
use crate::mac::{BROADCAST, Frame, FrameKind};
use crate::packet::{Body, NodeId, Packet, PacketView, flow_of, is_back};

/// Where radios are: what a radiotap header says of the channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    frequency_mhz: u16,
    band: u16,
    short_preamble: bool,
}

impl Channel {
    /// Channel 36 for 802.11a, channel 1 for 802.11b and g.
    pub(crate) fn new(standard: Standard, preamble: Preamble) -> Self {
        const BAND_2_GHZ: u16 = 0x0080;
        const BAND_5_GHZ: u16 = 0x0100;
        let (frequency_mhz, band) = match standard {
            Standard::Dot11a => (5180, BAND_5_GHZ),
            Standard::Dot11b | Standard::Dot11g => (2412, BAND_2_GHZ),
        };
        Self { frequency_mhz, band, short_preamble: preamble == Preamble::Short }
    }
}

/// Appends a radiotap header (radiotap.org): timer, flags, rate, channel and, of a received frame, the signal.
pub(crate) fn radiotap(out: &mut Vec<u8>, channel: Channel, at: Nanos, rate: Rate, signal_dbm: Option<i8>) {
    const TSFT: u32 = 1 << 0;
    const FLAGS: u32 = 1 << 1;
    const RATE: u32 = 1 << 2;
    const CHANNEL: u32 = 1 << 3;
    const ANTENNA_SIGNAL: u32 = 1 << 5;
    const SHORT_PREAMBLE: u8 = 0x02;
    const FCS_AT_END: u8 = 0x10;
    const CCK: u16 = 0x0020;
    const OFDM: u16 = 0x0040;

    let (present, length) = match signal_dbm {
        None => (TSFT | FLAGS | RATE | CHANNEL, 22_u16),
        Some(_) => (TSFT | FLAGS | RATE | CHANNEL | ANTENNA_SIGNAL, 23),
    };
    let is_ofdm = matches!(rate.modulation(), Modulation::Ofdm { .. });
    let short = channel.short_preamble && !is_ofdm && rate != Rate::Dsss1;
    out.extend([0, 0]); // version, padding
    out.extend(length.to_le_bytes());
    out.extend(present.to_le_bytes());
    out.extend((at.0 / 1000).to_le_bytes());
    out.push(FCS_AT_END | if short { SHORT_PREAMBLE } else { 0 });
    out.push((rate.bit_rate().0 / 500_000) as u8);
    out.extend(channel.frequency_mhz.to_le_bytes());
    out.extend((channel.band | if is_ofdm { OFDM } else { CCK }).to_le_bytes());
    out.extend(signal_dbm.map(i8::to_le_bytes).iter().flatten());
}

/// The address of a wireless interface.
pub(crate) fn wireless_mac(node: NodeId) -> [u8; 6] {
    if node == BROADCAST { [0xff; 6] } else { mac(0, node) }
}

/// The node whose wireless interface has this address.
pub(crate) fn node_of_mac(address: [u8; 6]) -> Option<NodeId> {
    let [0x02, 0, a, b, c, d] = address else { return None };
    Some(NodeId::from_be_bytes([a, b, c, d]))
}

fn mac(interface: u8, node: NodeId) -> [u8; 6] {
    let [a, b, c, d] = node.to_be_bytes();
    [0x02, interface, a, b, c, d]
}

/// The network's own address, as the station that started an independent network draws it.
const BSSID: [u8; 6] = [0x02, 0xff, 0, 0, 0, 0];

/// The type of an Ethernet frame that carries a packet (RFC 894, RFC 2464 §3).
pub(crate) fn ether_type(view: PacketView<'_>) -> [u8; 2] {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    match (view.packet.body, view.payload()) {
        (Body::Real { is_frame: true, .. }, Some(&[_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..])) => {
            [high, low]
        }
        (Body::Real { .. }, Some(&[first, ..])) if first >> 4 == 6 => IPV6,
        _ => IPV4,
    }
}

/// Appends an 802.11 frame with its check sequence; `ether_type` is that of the packet in a data frame, which `body` writes.
pub(crate) fn dot11(
    out: &mut Vec<u8>,
    frame: &Frame,
    from: NodeId,
    ether_type: [u8; 2],
    body: impl FnOnce(&mut Vec<u8>),
) {
    const RETRY: u8 = 0x08;
    const LLC_SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

    let start = out.len();
    // Version 0, then type and subtype (table 9-1).
    let control = match frame.kind {
        FrameKind::Data if frame.user_priority.is_some() => 0x88,
        FrameKind::Data => 0x08,
        FrameKind::Rts => 0xb4,
        FrameKind::Cts => 0xc4,
        FrameKind::Ack => 0xd4,
    };
    // A repeated RTS does not say so: the bit is for data and management frames (9.2.4.1.6).
    let retry = frame.retry && frame.kind == FrameKind::Data;
    out.extend([control, if retry { RETRY } else { 0 }]);
    // Whole microseconds, rounded up (9.2.5.1), in 15 bits.
    let duration = frame.nav.0.div_ceil(1000).min(0x7fff) as u16;
    out.extend(duration.to_le_bytes());
    out.extend(wireless_mac(frame.to));
    match frame.kind {
        FrameKind::Ack | FrameKind::Cts => {}
        FrameKind::Rts => out.extend(wireless_mac(from)),
        FrameKind::Data => {
            out.extend(wireless_mac(from));
            out.extend(BSSID);
            out.extend((frame.sequence << 4).to_le_bytes());
            // QoS control (9.2.4.5): the traffic identifier, normal acknowledgment.
            out.extend(frame.user_priority.map(|up| [up & 7, 0]).iter().flatten());
            out.extend(LLC_SNAP);
            out.extend(ether_type);
            body(out);
        }
    }
    let check = crc32fast::hash(&out[start..]);
    out.extend(check.to_le_bytes());
}

/// Appends the Ethernet header of a packet between two wired interfaces.
pub(crate) fn ethernet(out: &mut Vec<u8>, from: NodeId, to: NodeId, ether_type: [u8; 2]) {
    out.extend(mac(1, to));
    out.extend(mac(1, from));
    out.extend(ether_type);
}

/// Whose number is whose, for those who need to know addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// Nodes with a radio.
    pub(crate) nodes: NodeId,
    /// The first host after them is the Internet's.
    pub(crate) internet: bool,
}

impl Addresses {
    pub(crate) fn of(self, node: NodeId) -> [u8; 4] {
        if node == BROADCAST {
            [255; 4]
        } else if node < self.nodes {
            (0x0a01_0000_u32.wrapping_add(node)).to_be_bytes()
        } else if node == self.nodes && self.internet {
            [192, 0, 2, 1]
        } else {
            let host = node - self.nodes - NodeId::from(self.internet);
            (0x0a02_0001_u32.wrapping_add(host)).to_be_bytes()
        }
    }
}

/// Ports of the source and of the destination of a packet; twice the identifier of an echo, which has none.
pub(crate) fn ports(packet: &Packet) -> (u16, u16) {
    const FIRST: u16 = 61_000;
    const NUMBER: usize = 4_000;
    let flow = flow_of(packet.stream);
    let port = match packet.body {
        Body::Rtp { .. } => 50_000 + 2 * (flow % 2_000) as u16,
        Body::Rtcp(_) => 50_001 + 2 * (flow % 2_000) as u16,
        Body::Echo { .. } => (flow + 1) as u16,
        Body::Routing => fairhop_routing::wire::PORT,
        Body::Tcp(_)
        | Body::Aimd(_)
        | Body::AimdAck(_)
        | Body::Quic { .. }
        | Body::Udp { .. }
        | Body::Real { .. } => FIRST + (flow % NUMBER) as u16,
    };
    // One of the ports tells flows apart, and the other one the connections of a flow.
    let later = match packet.body {
        Body::Tcp(_) => FIRST + ((flow + usize::from(packet.connection)) % NUMBER) as u16,
        _ => port,
    };
    if is_back(packet.stream) { (later, port) } else { (port, later) }
}

/// Appends an IP packet of exactly its simulated size, with the header that one node sees. Simulated packets are IPv4; a
/// real one has its own bytes.
pub(crate) fn packet(out: &mut Vec<u8>, view: PacketView<'_>, addresses: Addresses) {
    let Some(payload) = view.payload().filter(|_| !matches!(view.packet.body, Body::Routing)) else {
        return ipv4(out, view, addresses);
    };
    let mut bytes = payload.to_vec();
    if let Body::Real { is_frame: true, .. } = view.packet.body {
        ip::rewrite_frame(&mut bytes, view.header);
        out.extend_from_slice(bytes.get(ip::ETHERNET_HEADER..).unwrap_or_default());
    } else {
        ip::rewrite(&mut bytes, view.header);
        out.extend_from_slice(&bytes);
    }
}

/// Appends a simulated packet.
pub(crate) fn ipv4(out: &mut Vec<u8>, view: PacketView<'_>, addresses: Addresses) {
    const VERSION_4_HEADER_OF_5_WORDS: u8 = 0x45;
    const DO_NOT_FRAGMENT: [u8; 2] = [0x40, 0];

    let PacketView { packet, header: fields, .. } = view;
    let start = out.len();
    let source = addresses.of(packet.source);
    let destination = addresses.of(packet.destination);
    let protocol = match packet.body {
        Body::Tcp(_) => PROTOCOL_TCP,
        Body::Echo { .. } => PROTOCOL_ICMP,
        _ => PROTOCOL_UDP,
    };
    out.extend([VERSION_4_HEADER_OF_5_WORDS, packet.dscp.value() << 2 | fields.ecn as u8]);
    out.extend((packet.bytes as u16).to_be_bytes());
    out.extend(identification(packet).to_be_bytes());
    out.extend(DO_NOT_FRAGMENT);
    out.extend([fields.ttl, protocol, 0, 0]);
    out.extend(source);
    out.extend(destination);
    let check = complement(sum_words(&out[start..]));
    out[start + 10..start + 12].copy_from_slice(&check.to_be_bytes());

    let transport = out.len();
    let length = packet.bytes - headers::IP;
    let check_at = match packet.body {
        Body::Tcp(segment) => {
            let mut header = [0; MAX_HEADER_BYTES];
            let segment = Segment { window: fields.window, ..segment };
            let (source_port, destination_port) = ports(packet);
            let bytes = segment.encode_header(&mut header, source_port, destination_port);
            out.extend_from_slice(&header[..bytes]);
            16
        }
        // What a QUIC packet carries is encrypted; zeros here.
        Body::Real { .. } | Body::Udp { .. } | Body::Quic { .. } => {
            udp(out, packet, length);
            6
        }
        Body::Aimd(datagram) => {
            udp(out, packet, length);
            aimd(out, |tag| aimd::wire::Packet::Data { tag, datagram }, packet);
            6
        }
        Body::AimdAck(ack) => {
            udp(out, packet, length);
            aimd(out, |tag| aimd::wire::Packet::Ack { tag, ack }, packet);
            6
        }
        Body::Rtp { sequence, timestamp, ssrc, payload_type, marker } => {
            udp(out, packet, length);
            out.extend([0x80, u8::from(marker) << 7 | payload_type]);
            out.extend((sequence as u16).to_be_bytes());
            out.extend((timestamp as u32).to_be_bytes());
            out.extend(ssrc.to_be_bytes());
            6
        }
        Body::Rtcp(report) => {
            udp(out, packet, length);
            report.encode(out);
            6
        }
        Body::Echo { sequence, is_reply, .. } => {
            const REPLY: u8 = 0;
            const REQUEST: u8 = 8;
            out.extend([if is_reply { REPLY } else { REQUEST }, 0, 0, 0]);
            out.extend(ports(packet).0.to_be_bytes());
            out.extend((sequence as u16).to_be_bytes());
            2
        }
        Body::Routing => {
            udp(out, packet, length);
            out.extend_from_slice(view.payload().unwrap_or_default());
            6
        }
    };
    // The payload of zeros adds nothing to the sum, which takes the pseudo-header in.
    let pseudo = match protocol {
        PROTOCOL_ICMP => 0,
        _ => sum_words(&source) + sum_words(&destination) + u32::from(protocol) + length,
    };
    let check = complement(sum_words(&out[transport..]) + pseudo);
    // A UDP checksum of zero would mean that there is none.
    let check = if check == 0 && protocol == PROTOCOL_UDP { 0xffff } else { check };
    out[transport + check_at..transport + check_at + 2].copy_from_slice(&check.to_be_bytes());
    out.resize(start + packet.bytes as usize, 0);
}

fn udp(out: &mut Vec<u8>, packet: &Packet, length: u32) {
    debug_assert!(length >= headers::UDP);
    let (source, destination) = ports(packet);
    out.extend(source.to_be_bytes());
    out.extend(destination.to_be_bytes());
    out.extend((length as u16).to_be_bytes());
    out.extend([0, 0]);
}

/// Appends an AIMD header; the number of the flow stands for the random tag of the stream.
fn aimd(out: &mut Vec<u8>, tagged: impl Fn(u32) -> aimd::wire::Packet, packet: &Packet) {
    let mut header = [0; aimd::wire::MAX_HEADER];
    let bytes = tagged(flow_of(packet.stream) as u32).encode(&mut header).unwrap_or(0);
    out.extend_from_slice(&header[..bytes]);
}

fn identification(packet: &Packet) -> u16 {
    match packet.body {
        Body::Rtp { sequence, .. } | Body::Udp { sequence } | Body::Echo { sequence, .. } => sequence as u16,
        Body::Rtcp(report) => report.sender.map_or(0, |sender| sender.packets as u16),
        Body::Aimd(datagram) => datagram.seq.get() as u16,
        Body::AimdAck(ack) => ack.seq.get() as u16,
        Body::Real { .. } | Body::Routing => 0,
        Body::Quic { number, .. } => number as u16,
        Body::Tcp(segment) => {
            let numbers = u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0);
            ((packet.created.0 ^ numbers).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use fairhop_model::phy::Phy;

    use super::*;
    use crate::packet::tests::packet;
    use crate::packet::{Dscp, Ecn, Header, ImageId, stream};

    fn frame(kind: FrameKind, bytes: u32) -> Frame {
        let phy = Phy::new(Standard::Dot11a, Preamble::Long);
        Frame {
            kind,
            retry: false,
            user_priority: None,
            sequence: 0,
            to: 1,
            packet: ImageId::MAX,
            bytes,
            rate: Rate::Ofdm12,
            time: phy.frame_duration(Rate::Ofdm12, bytes),
            nav: Nanos::ZERO,
        }
    }

    /// A G.729 packet from node 2 to node 1, sent again with sequence number 3 while 44.5 µs are reserved for the ACK.
    /// Every field by its section; checksums and check sequence reckoned apart (RFC 1071 by hand, CRC-32 by zlib).
    #[test]
    fn a_data_frame_is_the_standards_byte_for_byte() {
        let packet = Packet {
            stream: 0,
            connection: 0,
            source: 2,
            destination: 1,
            bytes: 60,
            created: Nanos::ZERO,
            dscp: Dscp::EXPEDITED,
            body: Body::Rtp { sequence: 258, timestamp: 41_280, ssrc: 1, payload_type: 18, marker: false },
        };
        let data = Frame { retry: true, sequence: 3, nav: Nanos(44_500), ..frame(FrameKind::Data, 96) };
        let mut out = Vec::new();
        let channel = Channel::new(Standard::Dot11a, Preamble::Long);
        radiotap(&mut out, channel, Nanos(5_000_999), data.rate, Some(-63));
        let header = Header::new(&packet.body, 63, Ecn::NotEct);
        let view = PacketView::plain(&packet, &header);
        dot11(&mut out, &data, 2, [8, 0], |out| ipv4(out, view, Addresses { nodes: 9, internet: true }));
        #[rustfmt::skip]
        let expected = [
            // Radiotap: 23 bytes, TSFT, flags, rate, channel and signal; 5000 µs, FCS at end, 12 Mb/s, 5180 MHz
            // OFDM in the 5 GHz band, −63 dBm.
            0, 0, 23, 0, 0x2f, 0, 0, 0, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 0x10, 24, 0x3c, 0x14, 0x40, 0x01, 0xc1,
            // 802.11 data: retry, duration 45 µs, receiver, transmitter, BSSID, sequence 3 fragment 0.
            0x08, 0x08, 45, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0xff, 0, 0, 0, 0, 0x30, 0,
            // LLC and SNAP for IPv4.
            0xaa, 0xaa, 3, 0, 0, 0, 8, 0,
            // IPv4: 60 bytes, identification 258, DF, TTL 63, UDP, 10.1.0.2 to 10.1.0.1.
            // EF is 46, a byte of b8 with the two bits of ECN.
            // 45b8 + 003c + 0102 + 4000 + 3f11 + 0a01 + 0002 + 0a01 + 0001 = da0c, complement 25f3.
            0x45, 0xb8, 0, 60, 1, 2, 0x40, 0, 63, 17, 0x25, 0xf3, 10, 1, 0, 2, 10, 1, 0, 1,
            // UDP: port 50000 (c350) both ends, 40 bytes.
            // Pseudo 0a01 + 0002 + 0a01 + 0001 + 0011 + 0028, header c350 + c350 + 0028,
            // RTP 8012 + 0102 + 0000 + a140 + 0000 + 0001 = 2 bd5b, folded bd5d, complement 42a2.
            0xc3, 0x50, 0xc3, 0x50, 0, 40, 0x42, 0xa2,
            // RTP: version 2, G.729, 258, 258 · 160, source 1.
            0x80, 18, 1, 2, 0, 0, 0xa1, 0x40, 0, 0, 0, 1,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(out.len(), 23 + 96);
        assert_eq!(out[..expected.len()], expected);
        assert_eq!(out[expected.len()..], DATA_FCS.to_le_bytes());
    }

    /// `zlib.crc32` of the data frame above from frame control to payload.
    const DATA_FCS: u32 = 0x4114_2379;

    #[test]
    fn only_a_repeated_data_frame_has_the_retry_bit() {
        for (kind, bytes, flags) in [(FrameKind::Data, 28, 0x08), (FrameKind::Rts, 20, 0)] {
            let mut out = Vec::new();
            dot11(&mut out, &Frame { retry: true, ..frame(kind, bytes) }, 2, [8, 0], |_| {});
            assert_eq!(out[1], flags, "{kind:?}");
        }
    }

    #[test]
    fn an_acknowledgment_is_ten_bytes_and_its_check_sequence() {
        let mut out = Vec::new();
        let channel = Channel::new(Standard::Dot11b, Preamble::Short);
        radiotap(&mut out, channel, Nanos(1_000), Rate::Cck11, None);
        dot11(&mut out, &frame(FrameKind::Ack, 14), 2, [8, 0], |_| {});
        #[rustfmt::skip]
        let expected = [
            // Radiotap: 22 bytes; 1 µs, FCS and short preamble, 11 Mb/s, 2412 MHz CCK in the 2.4 GHz band.
            0, 0, 22, 0, 0x0f, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x12, 22, 0x6c, 0x09, 0xa0, 0,
            // 802.11 ACK to node 1 and `zlib.crc32` of it.
            0xd4, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0xd8, 0xd6, 0xbf, 0x8f,
        ];
        assert_eq!(out, expected);
    }

    fn packet_of(flow: usize, back: bool, connection: u16, body: Body) -> Packet {
        Packet { connection, body, ..packet(stream(flow, back)) }
    }

    #[test]
    fn ports_stay_in_their_ranges_and_rtp_has_even_ones() {
        for flow in [0, 1, 1_999, 2_000, 99_999] {
            let (source, destination) = ports(&packet_of(flow, true, 0, Body::Udp { sequence: 0 }));
            assert!((61_000..65_000).contains(&source) && source == destination);
            let rtp = Body::Rtp { sequence: 0, timestamp: 0, ssrc: 0, payload_type: 0, marker: false };
            let (source, destination) = ports(&packet_of(flow, true, 0, rtp));
            assert!((50_000..54_000).contains(&source) && source.is_multiple_of(2) && source == destination);
        }
    }

    /// A page of a reader must not end the connection of a download between the same hosts.
    #[test]
    fn connections_of_other_flows_and_later_ones_of_the_same_have_other_ports() {
        let mut seen = std::collections::HashSet::new();
        for flow in 0..30 {
            for connection in 0..1_000 {
                let body = || Body::Tcp(Segment::default());
                let (source, destination) = ports(&packet_of(flow, false, connection, body()));
                assert!(seen.insert((source, destination)), "flow {flow}, connection {connection}");
                assert_eq!(ports(&packet_of(flow, true, connection, body())), (destination, source));
            }
        }
    }
}
