//! The IP packet in a captured frame.
//!
//! | link type | header |
//! |---|---|
//! | Ethernet | with VLAN tags (802.1Q, 802.1ad) and PPPoE sessions (RFC 2516) |
//! | raw IP, IPv4, IPv6 | none |
//! | null, loop | 4 bytes with the address family |
//! | Linux cooked v1, v2 | 16 and 20 bytes |
//! | 802.11, with or without radiotap | data frames that are not encrypted |
//!
//! Link types have the numbers of `tcpdump.org/linktypes.html`.

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// An IP packet, perhaps cut, perhaps with padding behind it.
    Ip(&'a [u8]),
    /// An IP packet in an 802.11 frame.
    Wireless(&'a [u8], Sent),
    /// A frame without IP: ARP, beacons, acknowledgments.
    Other,
    /// An 802.11 frame that is encrypted.
    Encrypted,
    /// An 802.11 frame with a wrong check sequence.
    Broken,
    /// A link type that is not known.
    Unknown,
}

/// What tells repetitions of an 802.11 frame (IEEE 802.11-2020 §10.3.2.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Address of the transmitter.
    pub transmitter: [u8; 6],
    /// Sequence control: number of frame and fragment.
    pub sequence: u16,
    /// The retry bit.
    pub is_retry: bool,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
/// QinQ before 802.1ad.
const OLD_QINQ: u16 = 0x9100;
const PPPOE_SESSION: u16 = 0x8864;
/// More tags than that are an error or an attack.
const MAX_TAGS: usize = 8;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Content<'a> {
    /// Reads a frame.
    pub fn of(link: i32, frame: &'a [u8]) -> Self {
        let ip = match link {
            1 => typed(frame, 12, 14),
            // Raw IP has three numbers, two of them of single systems.
            12 | 14 | 101 | 228 | 229 => raw(frame),
            0 | 108 => frame.get(4..).and_then(raw),
            113 => typed(frame, 14, 16),
            276 => typed(frame, 0, 20),
            105 => return dot11(frame),
            127 => return radiotap(frame),
            _ => return Self::Unknown,
        };
        ip.map_or(Self::Other, Self::Ip)
    }
}

fn raw(packet: &[u8]) -> Option<&[u8]> {
    matches!(packet.first()? >> 4, 4 | 6).then_some(packet)
}

/// What follows an EtherType at `at` and begins at `body`.
fn typed(frame: &[u8], at: usize, body: usize) -> Option<&[u8]> {
    let (mut kind, mut rest) = (u16_at(frame, at)?, frame.get(body..)?);
    for _ in 0..MAX_TAGS {
        match kind {
            IPV4 | IPV6 => return raw(rest),
            VLAN | SERVICE_VLAN | OLD_QINQ => (kind, rest) = (u16_at(rest, 2)?, rest.get(4..)?),
            // 6 bytes of PPPoE, and the PPP protocol: 0x0021 is IPv4, 0x0057 IPv6 (RFC 5072).
            PPPOE_SESSION => {
                return match u16_at(rest, 6)? {
                    0x0021 | 0x0057 => raw(rest.get(8..)?),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
    None
}

/// A radiotap header (radiotap.org) and an 802.11 frame.
fn radiotap(frame: &[u8]) -> Content<'_> {
    const EXTENDED: u32 = 1 << 31;
    const TSFT: u32 = 1;
    const FLAGS: u32 = 1 << 1;
    const HAS_CHECK_SEQUENCE: u8 = 0x10;
    const BAD_CHECK_SEQUENCE: u8 = 0x40;
    let word = |at: usize| Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?));
    let length = frame.get(2..4).map(|bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    let (Some(length), Some(present)) = (length, word(4)) else { return Content::Other };
    let mut at = 8;
    let mut last = present;
    while last & EXTENDED != 0 && at < length {
        let Some(next) = word(at) else { return Content::Other };
        (last, at) = (next, at + 4);
    }
    if present & TSFT != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if present & FLAGS != 0 { frame.get(at).copied().unwrap_or(0) } else { 0 };
    if flags & BAD_CHECK_SEQUENCE != 0 {
        return Content::Broken;
    }
    let check = if flags & HAS_CHECK_SEQUENCE != 0 { 4 } else { 0 };
    // A cut frame has lost its check sequence, which is behind the IP packet anyway.
    let end = frame.len().saturating_sub(check);
    frame.get(length..end).map_or(Content::Other, dot11)
}

/// An 802.11 frame (IEEE 802.11-2020 §9.2 and §9.3.2).
fn dot11(frame: &[u8]) -> Content<'_> {
    const DATA: u8 = 2;
    const NO_DATA: u8 = 0x40;
    const QOS: u8 = 0x80;
    const TO_AND_FROM: u8 = 3;
    const RETRY: u8 = 0x08;
    const PROTECTED: u8 = 0x40;
    const ORDER: u8 = 0x80;
    /// Of QoS control: several packets in one frame.
    const AGGREGATE: u8 = 0x80;
    let Some(&[kind, flags, ..]) = frame.first_chunk::<24>() else { return Content::Other };
    if (kind >> 2) & 3 != DATA || kind & NO_DATA != 0 {
        return Content::Other;
    }
    if flags & PROTECTED != 0 {
        return Content::Encrypted;
    }
    let mut at = 24 + if flags & TO_AND_FROM == TO_AND_FROM { 6 } else { 0 };
    if kind & QOS != 0 {
        if frame.get(at).is_none_or(|control| control & AGGREGATE != 0) {
            return Content::Other;
        }
        at += 2 + if flags & ORDER != 0 { 4 } else { 0 };
    }
    let mut transmitter = [0; 6];
    transmitter.copy_from_slice(&frame[10..16]);
    let sequence = u16::from_le_bytes([frame[22], frame[23]]);
    let sent = Sent { transmitter, sequence, is_retry: flags & RETRY != 0 };
    // LLC with SNAP (RFC 1042): AA AA 03, 00 00 00, EtherType.
    match frame.get(at..at + 6) {
        Some([0xaa, 0xaa, 3, 0, 0, 0]) => {
            typed(frame, at + 6, at + 8).map_or(Content::Other, |ip| Content::Wireless(ip, sent))
        }
        _ => Content::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first bytes of an IPv4 packet.
    const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

    fn with(header: &[u8]) -> Vec<u8> {
        [header, &IP].concat()
    }

    #[test]
    fn the_ip_packet_is_found_behind_the_headers_of_each_link_type() {
        let ethernet = |kinds: &[u8]| [&[2_u8; 12], kinds].concat();
        let sll = [&[0_u8; 14], &[8_u8, 0][..]].concat();
        let sll2 = [&[8_u8, 0], &[0_u8; 18][..]].concat();
        for (link, header) in [
            (1, ethernet(&[8, 0])),
            (1, ethernet(&[0x81, 0, 0, 5, 8, 0])),
            (1, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0])),
            (1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21])),
            (101, vec![]),
            (0, vec![2, 0, 0, 0]),
            (113, sll),
            (276, sll2),
        ] {
            assert_eq!(Content::of(link, &with(&header)), Content::Ip(&IP), "{link} {header:?}");
        }
        assert_eq!(Content::of(1, &with(&ethernet(&[8, 6]))), Content::Other, "ARP");
        assert_eq!(Content::of(147, &IP), Content::Unknown);
    }

    #[test]
    fn an_802_11_frame_has_its_packet_behind_radiotap_qos_and_llc_unless_it_is_encrypted_or_broken() {
        let mut dot11 = vec![0x88, 0x0b, 0, 0];
        dot11.extend([1; 6]);
        dot11.extend([7; 6]);
        dot11.extend([3; 6]);
        dot11.extend(0x1230_u16.to_le_bytes());
        dot11.extend([4; 6]);
        dot11.extend([6, 0]);
        dot11.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let sent = Sent { transmitter: [7; 6], sequence: 0x1230, is_retry: true };
        assert_eq!(Content::of(105, &with(&dot11)), Content::Wireless(&IP, sent));

        // Time and flags; two words of fields; the frame ends in a check sequence.
        let radiotap = |flags: u8| {
            let mut header = vec![0, 0, 25, 0];
            header.extend((1_u32 << 31 | 3).to_le_bytes());
            header.extend(0_u32.to_le_bytes());
            header.extend([0; 12]);
            header.push(flags);
            [header, dot11.clone(), IP.to_vec(), vec![9; 4]].concat()
        };
        assert_eq!(Content::of(127, &radiotap(0x10)), Content::Wireless(&IP, sent));
        assert_eq!(Content::of(127, &radiotap(0x50)), Content::Broken);
        dot11[1] |= 0x40;
        assert_eq!(Content::of(105, &with(&dot11)), Content::Encrypted);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(
            link in prop::sample::select(vec![0, 1, 101, 105, 113, 127, 276]),
            frame in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            Content::of(link, &frame);
        }
    }
}
