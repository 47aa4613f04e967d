//! Digests: the fields of one packet that a gateway uses, and how they are read out of its first bytes.
//!
//! IPv4 (RFC 791), IPv6 with its extension headers (RFC 8200 §4), TCP (RFC 9293) with the options maximum segment size,
//! window scale, timestamps (RFC 7323) and SACK (RFC 2018), UDP (RFC 768), RTP and RTCP (RFC 3550), distinguished as in
//! RFC 5761 §4, the VoIP metrics of RTCP XR (RFC 3611 §4.7), and requests to repeat packets (RFC 4585 §6.2.1). A call that a relay
//! forwards (TURN, RFC 8656) has its packets in messages of a channel, which are opened.
//!
//! The bytes may end anywhere, since a kernel may pass on only the beginning of a packet; lengths are those of the headers.
//! Reading never panics and allocates nothing: a payload that cannot be read is [`Payload::Other`]; without a whole IP header
//! there is no digest. [`crate::raw::RawDigest`] is a digest with a fixed layout.
//!
//! Left out: the content of tunnels ([`crate::observer`] knows calls in them by the times of packets), encrypted RTCP (only its first
//! header is used), report blocks and fragments after the first; of relayed calls, the first packets, which come before the channel is
//! bound, and all that TCP carries.

use fairhop_model::units::Nanos;

use crate::flow::{Address, FlowKey};

/// Which way a packet crosses the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the wired side into the mesh: down.
    ToMesh,
    /// Out of the mesh: up.
    FromMesh,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::ToMesh => Self::FromMesh,
            Self::FromMesh => Self::ToMesh,
        }
    }
}

/// The fields of one packet. Plain data, filled by [`Digest::read`] or field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// When the packet crossed. For packets into the mesh: when it left the gateway's queues, or its wait there would count as
    /// the mesh's.
    pub at: Nanos,
    /// How long the gateway's own pace held it before that.
    pub waited: Nanos,
    /// The direction in which it crossed.
    pub direction: Direction,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Source port; 0 where there is none.
    pub source_port: u16,
    /// Destination port; 0 where there is none.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Time to live, or hop limit, as the packet came in; 0 where that was not seen.
    pub ttl: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// The transport's fields.
    pub payload: Payload,
}

/// The transport's fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// TCP.
    Tcp(TcpFields),
    /// UDP that looks like RTP.
    Rtp(RtpFields),
    /// UDP that looks like RTCP.
    Rtcp(RtcpFields),
    /// Other UDP.
    Udp,
    /// Anything else; also later fragments and cut headers.
    Other,
}

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits, from FIN (1) to CWR (0x80).
    pub flags: u8,
    /// Window field, unscaled.
    pub window: u16,
    /// Payload in bytes.
    pub payload_bytes: u32,
    /// Maximum segment size option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub window_scale: Option<u8>,
    /// SACK-permitted option.
    pub sack_permitted: bool,
    /// Whether there are SACK blocks.
    pub has_sack: bool,
    /// Timestamps option: value, echo.
    pub timestamps: Option<(u32, u32)>,
}

/// Bits of [`TcpFields::flags`].
pub mod tcp_flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push: hand the data over.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
}

impl TcpFields {
    /// Whether a control bit is set, or one of several.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the segment only acknowledges: no payload, and none of SYN, FIN, RST.
    pub const fn is_pure_ack(&self) -> bool {
        self.payload_bytes == 0
            && self.has(tcp_flag::ACK)
            && !self.has(tcp_flag::SYN | tcp_flag::FIN | tcp_flag::RST)
    }

    /// The sequence number after the segment (RFC 9293 §3.4).
    pub const fn seq_end(&self) -> u32 {
        let controls = self.has(tcp_flag::SYN) as u32 + self.has(tcp_flag::FIN) as u32;
        self.seq.wrapping_add(self.payload_bytes).wrapping_add(controls)
    }
}

/// The fields of an RTP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpFields {
    /// Payload type.
    pub payload_type: u8,
    /// Marker: in audio, the first packet after silence.
    pub marker: bool,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp in ticks of the codec's clock.
    pub timestamp: u32,
    /// Synchronization source.
    pub ssrc: u32,
    /// Bytes after the RTP header.
    pub payload_bytes: u32,
}

/// The fields of an RTCP packet that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtcpFields {
    /// SSRC of its sender.
    pub ssrc: u32,
    /// The middle 32 bits of the NTP timestamp of a sender report.
    pub sender_report: Option<u32>,
    /// The first report block.
    pub report: Option<ReceptionReport>,
    /// The VoIP metrics of an extended report.
    pub voip: Option<VoipMetrics>,
    /// Entries of generic NACKs (RFC 4585 §6.2.1): each asks for one to 17 packets again. They are counted by the length of their part,
    /// which can be read in encrypted packets, too (RFC 3711 §3.4), if no other part is before it.
    pub nack_entries: u32,
}

/// A report block (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionReport {
    /// SSRC of the stream that it reports on.
    pub ssrc: u32,
    /// Fraction lost since the last report, in units of 1/256.
    pub fraction_lost: u8,
    /// Packets lost since the beginning; negative if there were more duplicates.
    pub cumulative_lost: i32,
    /// Highest sequence number, extended.
    pub highest_sequence: u32,
    /// Jitter in ticks of the codec's clock.
    pub jitter: u32,
    /// Middle 32 bits of the last sender report's NTP timestamp; 0 without one.
    pub last_sender_report: u32,
    /// Delay since that report, in units of 1/65536 s.
    pub delay_since: u32,
}

/// The fields of the VoIP metrics block (RFC 3611 §4.7) that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoipMetrics {
    /// SSRC of the stream that it reports on.
    pub ssrc: u32,
    /// Fraction lost in the network since the beginning, in units of 1/256.
    pub loss_rate: u8,
    /// Fraction discarded as too late or too early, in units of 1/256.
    pub discard_rate: u8,
    /// Conversational MOS in tenths; 127 if unknown.
    pub mos_cq: u8,
}

/// IP protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// The IP header, and the place of the transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Protocol number of what follows the IP headers.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// Where the transport header begins, in bytes.
    pub transport_at: usize,
    /// A fragment after the first: it has no transport header.
    pub later_fragment: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Ip {
    /// Reads the IP header of a packet that may be cut; none if the header is cut or invalid.
    pub fn read(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::read_v4(packet),
            6 => Self::read_v6(packet),
            _ => None,
        }
    }

    fn read_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<20>()?;
        let transport_at = usize::from(header[0] & 0x0f) * 4;
        let bytes = u32::from(u16_at(header, 2)?);
        if transport_at < 20 || (bytes as usize) < transport_at {
            return None;
        }
        Some(Self {
            source: Address::v4(*header[12..].first_chunk()?),
            destination: Address::v4(*header[16..].first_chunk()?),
            protocol: header[9],
            ttl: header[8],
            traffic_class: header[1],
            bytes,
            transport_at,
            later_fragment: u16_at(header, 6)? & 0x1fff != 0,
        })
    }

    fn read_v6(packet: &[u8]) -> Option<Self> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const DESTINATION: u8 = 60;
        let header = packet.first_chunk::<40>()?;
        let mut ip = Self {
            source: Address::v6(*header[8..].first_chunk()?),
            destination: Address::v6(*header[24..].first_chunk()?),
            protocol: header[6],
            ttl: header[7],
            traffic_class: (header[0] << 4) | (header[1] >> 4),
            bytes: 40 + u32::from(u16_at(header, 4)?),
            transport_at: 40,
            later_fragment: false,
        };
        loop {
            let length = match ip.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => 8 + 8 * usize::from(*packet.get(ip.transport_at + 1)?),
                FRAGMENT => {
                    ip.later_fragment |= u16_at(packet, ip.transport_at + 2)? & 0xfff8 != 0;
                    8
                }
                _ => break,
            };
            ip.protocol = *packet.get(ip.transport_at)?;
            ip.transport_at += length;
            if ip.later_fragment {
                break;
            }
        }
        (ip.transport_at <= ip.bytes as usize).then_some(ip)
    }

    /// Bytes of the packet after its IP headers.
    fn transport_bytes(&self) -> u32 {
        self.bytes - self.transport_at as u32
    }
}

/// An active probe: the gateway sends echo requests to a mesh host at a steady interval, and the host answers each one (RFC 792,
/// RFC 4443 §4).
///
/// To the observer it is a call of which both directions are one: a packet into the mesh is a request, one out of the mesh its
/// reply, which has seen the loss and the delay of both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The gateway.
    pub gateway: Address,
    /// The mesh host.
    pub host: Address,
    /// Identifier of its packets.
    pub identifier: u16,
    /// Time between requests, in whole milliseconds from [`Probe::MIN_INTERVAL_MS`] to [`Probe::MAX_INTERVAL_MS`].
    pub interval_ms: u16,
    /// IP bytes of a packet.
    pub bytes: u32,
}

impl Probe {
    /// Shortest interval, in ms: that of the packets of a call.
    pub const MIN_INTERVAL_MS: u16 = 10;
    /// Longest interval, in ms: that of the packets of a call.
    pub const MAX_INTERVAL_MS: u16 = 60;
    /// IP bytes of a packet that is as large as one of a G.729A call.
    pub const VOICE_BYTES: u32 = 60;
    /// Type of service, or traffic class, of its packets: that of calls, DSCP EF (RFC 4594 §4.1).
    pub const TRAFFIC_CLASS: u8 = 46 << 2;

    /// The digest of request number `count`, or of its reply, which arrived with that time to live.
    pub fn digest(&self, at: Nanos, direction: Direction, count: u32, ttl: u8) -> Digest {
        /// As of G.729A: a payload type of RFC 3551 and its clock.
        const PAYLOAD_TYPE: u8 = 18;
        const TICKS_PER_MS: u32 = 8;
        let (source, destination) = match direction {
            Direction::ToMesh => (self.gateway, self.host),
            Direction::FromMesh => (self.host, self.gateway),
        };
        Digest {
            at,
            waited: Nanos::ZERO,
            direction,
            source,
            destination,
            source_port: self.identifier,
            destination_port: self.identifier,
            protocol: PROTOCOL_ICMP,
            ttl,
            traffic_class: Self::TRAFFIC_CLASS,
            bytes: self.bytes,
            payload: Payload::Rtp(RtpFields {
                payload_type: PAYLOAD_TYPE,
                marker: false,
                sequence: count as u16,
                timestamp: count.wrapping_mul(TICKS_PER_MS * u32::from(self.interval_ms)),
                ssrc: u32::from(self.identifier),
                payload_bytes: self.bytes.saturating_sub(28),
            }),
        }
    }
}

impl Digest {
    /// Reads the digest of an IP packet, or of its first bytes; none without a whole IP header.
    pub fn read(at: Nanos, direction: Direction, packet: &[u8]) -> Option<Self> {
        let ip = Ip::read(packet)?;
        let mut digest = Self {
            at,
            waited: Nanos::ZERO,
            direction,
            source: ip.source,
            destination: ip.destination,
            source_port: 0,
            destination_port: 0,
            protocol: ip.protocol,
            ttl: ip.ttl,
            traffic_class: ip.traffic_class,
            bytes: ip.bytes,
            payload: Payload::Other,
        };
        let transport = packet.get(ip.transport_at..).unwrap_or_default();
        if !ip.later_fragment
            && matches!(ip.protocol, PROTOCOL_TCP | PROTOCOL_UDP)
            && let (Some(source), Some(destination)) = (u16_at(transport, 0), u16_at(transport, 2))
        {
            digest.source_port = source;
            digest.destination_port = destination;
            digest.payload = match ip.protocol {
                PROTOCOL_TCP => {
                    TcpFields::read(transport, ip.transport_bytes()).map_or(Payload::Other, Payload::Tcp)
                }
                _ => read_udp(transport, ip.transport_bytes()),
            };
        }
        Some(digest)
    }

    /// The flow that the packet belongs to.
    pub const fn flow(&self) -> FlowKey {
        match self.direction {
            Direction::ToMesh => FlowKey {
                mesh: self.destination,
                wired: self.source,
                mesh_port: self.destination_port,
                wired_port: self.source_port,
                protocol: self.protocol,
            },
            Direction::FromMesh => FlowKey {
                mesh: self.source,
                wired: self.destination,
                mesh_port: self.source_port,
                wired_port: self.destination_port,
                protocol: self.protocol,
            },
        }
    }
}

impl TcpFields {
    /// Reads a TCP header; `bytes` is the length of header and payload. None if the header is cut or its length invalid.
    pub(crate) fn read(tcp: &[u8], bytes: u32) -> Option<Self> {
        let fixed = tcp.first_chunk::<20>()?;
        let header_bytes = u32::from(fixed[12] >> 4) * 4;
        if header_bytes < 20 || header_bytes > bytes {
            return None;
        }
        let mut fields = Self {
            seq: u32_at(fixed, 4)?,
            ack: u32_at(fixed, 8)?,
            flags: fixed[13],
            window: u16_at(fixed, 14)?,
            payload_bytes: bytes - header_bytes,
            ..Self::default()
        };
        // Options that are cut off count as absent.
        let options = tcp.get(20..tcp.len().min(header_bytes as usize)).unwrap_or_default();
        fields.read_options(options);
        Some(fields)
    }

    fn read_options(&mut self, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            match kind {
                0 => return,
                1 => options = rest,
                _ => {
                    let Some(length) = rest.first().map(|&l| usize::from(l)) else { return };
                    let Some(body) = options.get(2..length) else { return };
                    match (kind, body) {
                        (2, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
                        // RFC 7323 §2.3: more than 14 counts as 14.
                        (3, &[shift]) => self.window_scale = Some(shift.min(14)),
                        (4, []) => self.sack_permitted = true,
                        (5, [_, ..]) => self.has_sack = true,
                        (8, body) => {
                            if let (8, Some(value), Some(echo)) =
                                (body.len(), u32_at(body, 0), u32_at(body, 4))
                            {
                                self.timestamps = Some((value, echo));
                            }
                        }
                        _ => {}
                    }
                    options = &options[length..];
                }
            }
        }
    }
}

fn read_udp(udp: &[u8], transport_bytes: u32) -> Payload {
    let (Some(length), Some(payload)) = (u16_at(udp, 4), udp.get(8..)) else { return Payload::Udp };
    // A length of zero is a jumbogram's (RFC 2675), whose length is in the IP header.
    let length = if length == 0 { transport_bytes } else { u32::from(length).min(transport_bytes) };
    let Some(bytes) = length.checked_sub(8) else { return Payload::Udp };
    let (payload, bytes) = of_channel(payload, bytes).unwrap_or((payload, bytes));
    Payload::of_datagram(payload, bytes)
}

/// What a message of a TURN channel carries (RFC 8656 §12.4); none if the payload is no such message. A short header of QUIC may begin
/// with the same byte (RFC 9443), but hardly ever has the length in its place.
fn of_channel(payload: &[u8], bytes: u32) -> Option<(&[u8], u32)> {
    /// Over UDP, padding to four bytes is optional (§12.5).
    const MAX_PADDING: u32 = 3;
    let &[0x40..=0x4f, _, high, low, ref carried @ ..] = payload else { return None };
    let length = u32::from(u16::from_be_bytes([high, low]));
    let padding = bytes.checked_sub(4)?.checked_sub(length)?;
    (padding <= MAX_PADDING).then_some((carried, length))
}

impl Payload {
    /// What a UDP datagram of `bytes` bytes carries: RTP, RTCP or something else. `payload` is its start.
    pub fn of_datagram(payload: &[u8], bytes: u32) -> Self {
        match payload {
            // RFC 5761 §4: RTCP packet types are those of RTP payload types 64 to 95 with the marker.
            [first, 192..=223, ..] if first >> 6 == 2 => {
                RtcpFields::read(payload, bytes).map_or(Self::Udp, Self::Rtcp)
            }
            [first, ..] if first >> 6 == 2 => RtpFields::read(payload, bytes).map_or(Self::Udp, Self::Rtp),
            _ => Self::Udp,
        }
    }
}

impl RtpFields {
    fn read(rtp: &[u8], bytes: u32) -> Option<Self> {
        let fixed = rtp.first_chunk::<12>()?;
        let mut header_bytes = 12 + 4 * u32::from(fixed[0] & 0x0f);
        if fixed[0] & 0x10 != 0 {
            // The length of an extension that is cut off cannot be read and counts as zero.
            let words = u16_at(rtp, header_bytes as usize + 2).unwrap_or(0);
            header_bytes += 4 + 4 * u32::from(words);
        }
        Some(Self {
            payload_type: fixed[1] & 0x7f,
            marker: fixed[1] & 0x80 != 0,
            sequence: u16_at(fixed, 2)?,
            timestamp: u32_at(fixed, 4)?,
            ssrc: u32_at(fixed, 8)?,
            payload_bytes: bytes.checked_sub(header_bytes)?,
        })
    }
}

impl RtcpFields {
    /// Reads the parts of a compound packet up to the first invalid one.
    fn read(rtcp: &[u8], bytes: u32) -> Option<Self> {
        const SENDER_REPORT: u8 = 200;
        const RECEIVER_REPORT: u8 = 201;
        const TRANSPORT_FEEDBACK: u8 = 205;
        const EXTENDED_REPORT: u8 = 207;
        const GENERIC_NACK: u8 = 1;
        /// Of a part with feedback, before its entries.
        const FEEDBACK_HEAD: usize = 12;
        let mut fields = Self { ssrc: u32_at(rtcp, 4)?, ..Self::default() };
        let mut rest = rtcp.get(..rtcp.len().min(bytes as usize))?;
        while let (&[first, kind, ..], Some(words)) = (rest, u16_at(rest, 2)) {
            let length = 4 * (usize::from(words) + 1);
            if first >> 6 != 2 {
                break;
            }
            let packet = rest.get(..length).unwrap_or(rest);
            let has_report = first & 0x1f > 0;
            let block_at = |at| packet.get(at..).filter(|_| has_report).and_then(ReceptionReport::read);
            match kind {
                SENDER_REPORT => {
                    fields.sender_report = u32_at(packet, 10);
                    fields.report = fields.report.or_else(|| block_at(28));
                }
                RECEIVER_REPORT => fields.report = fields.report.or_else(|| block_at(8)),
                TRANSPORT_FEEDBACK if first & 0x1f == GENERIC_NACK => {
                    fields.nack_entries += (packet.len().saturating_sub(FEEDBACK_HEAD) / 4) as u32;
                }
                EXTENDED_REPORT => fields.voip = fields.voip.or_else(|| voip_metrics(packet)),
                _ => {}
            }
            let Some(next) = rest.get(length..) else { break };
            rest = next;
        }
        Some(fields)
    }
}

impl ReceptionReport {
    /// The report block at the start of `bytes` (RFC 3550 §6.4.1); none where it is cut off.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let lost = u32_at(bytes, 4)?;
        Some(Self {
            ssrc: u32_at(bytes, 0)?,
            fraction_lost: bytes[4],
            // Signed 24 bits.
            cumulative_lost: (lost << 8).cast_signed() >> 8,
            highest_sequence: u32_at(bytes, 8)?,
            jitter: u32_at(bytes, 12)?,
            last_sender_report: u32_at(bytes, 16)?,
            delay_since: u32_at(bytes, 20)?,
        })
    }
}

fn voip_metrics(packet: &[u8]) -> Option<VoipMetrics> {
    const VOIP_METRICS: u8 = 7;
    let mut rest = packet.get(8..)?;
    loop {
        let length = 4 * (usize::from(u16_at(rest, 2)?) + 1);
        if rest[0] == VOIP_METRICS && length == 36 {
            let block = rest.get(..36)?;
            return Some(VoipMetrics {
                ssrc: u32_at(block, 4)?,
                loss_rate: block[8],
                discard_rate: block[9],
                mos_cq: block[27],
            });
        }
        rest = rest.get(length..)?;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_small() {
        assert!(size_of::<super::Digest>() <= 120, "{}", size_of::<super::Digest>());
    }
}
