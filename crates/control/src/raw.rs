//! Digests and clamps with a fixed layout, for memory that is shared with a kernel (BPF maps and ring buffers).
//!
//! All fields have a fixed width and the byte order of the machine, there is no padding between them, and every bit pattern
//! is a value of its type: variants are numbers, options are bits of a field `present`. A C struct with the same fields in the
//! same order has the same layout; sizes and offsets are asserted in the crate's tests and change together with it.
//!
//! A conversion from the Rust types and back is lossless. The way in from outside checks: [`Digest::try_from`] refuses
//! unknown variants. Bits that no option uses are ignored.

use std::fmt;

use fairhop_model::units::Nanos;

use crate::digest::{
    Digest, Direction, Payload, ReceptionReport, RtcpFields, RtpFields, TcpFields, VoipMetrics,
};
use crate::flow::Address;
use crate::window::Clamp;

/// Values of [`RawDigest::direction`].
pub mod direction {
    /// [`super::Direction::ToMesh`].
    pub const TO_MESH: u8 = 0;
    /// [`super::Direction::FromMesh`].
    pub const FROM_MESH: u8 = 1;
}

/// Values of [`RawDigest::payload`].
pub mod payload {
    /// [`super::Payload::Other`].
    pub const OTHER: u8 = 0;
    /// [`super::Payload::Tcp`].
    pub const TCP: u8 = 1;
    /// [`super::Payload::Rtp`].
    pub const RTP: u8 = 2;
    /// [`super::Payload::Rtcp`].
    pub const RTCP: u8 = 3;
    /// [`super::Payload::Udp`].
    pub const UDP: u8 = 4;
}

/// Bits of [`RawDigest::present`]. Which of them have a meaning depends on the payload.
pub mod present {
    /// TCP: maximum segment size option.
    pub const TCP_MSS: u8 = 1;
    /// TCP: window scale option.
    pub const TCP_WINDOW_SCALE: u8 = 1 << 1;
    /// TCP: SACK-permitted option.
    pub const TCP_SACK_PERMITTED: u8 = 1 << 2;
    /// TCP: SACK blocks.
    pub const TCP_SACK: u8 = 1 << 3;
    /// TCP: timestamps option.
    pub const TCP_TIMESTAMPS: u8 = 1 << 4;
    /// RTP: marker bit.
    pub const RTP_MARKER: u8 = 1;
    /// RTCP: a sender report.
    pub const RTCP_SENDER_REPORT: u8 = 1;
    /// RTCP: a report block.
    pub const RTCP_REPORT: u8 = 1 << 1;
    /// RTCP: VoIP metrics.
    pub const RTCP_VOIP: u8 = 1 << 2;
}

/// Unit of [`RawDigest::waited`], about 1 ms: [`Digest::waited`] is rounded down to it.
pub const WAITED_UNIT: Nanos = Nanos(1 << 20);

/// A [`Digest`] with a fixed layout of 104 bytes.
///
/// | field | TCP | RTP | RTCP |
/// |---|---|---|---|
/// | `octets[0]` | control bits | payload type | fraction lost of the report |
/// | `octets[1]` | window scale | – | loss rate of the VoIP metrics |
/// | `octets[2]` | – | – | discard rate of the VoIP metrics |
/// | `octets[3]` | – | – | MOS-CQ of the VoIP metrics |
/// | `halves[0]` | window | sequence number | – |
/// | `halves[1]` | maximum segment size | – | – |
/// | `words[0]` | sequence number | timestamp | SSRC |
/// | `words[1]` | acknowledgment number | SSRC | NTP timestamp of the sender report |
/// | `words[2]` | payload bytes | payload bytes | SSRC of the report |
/// | `words[3]` | timestamp value | – | cumulative lost, two's complement |
/// | `words[4]` | timestamp echo | – | highest sequence number |
/// | `words[5]` | – | – | jitter |
/// | `words[6]` | – | – | last sender report |
/// | `words[7]` | – | – | delay since then |
/// | `words[8]` | – | – | SSRC of the VoIP metrics |
/// | `words[9]` | – | – | entries of NACKs |
///
/// Units are those of [`Digest`]. Fields without a meaning are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawDigest {
    /// [`Digest::at`] in nanoseconds.
    pub at: u64,
    /// [`Digest::source`].
    pub source: [u8; 16],
    /// [`Digest::destination`].
    pub destination: [u8; 16],
    /// [`Digest::bytes`].
    pub bytes: u32,
    /// [`Digest::source_port`].
    pub source_port: u16,
    /// [`Digest::destination_port`].
    pub destination_port: u16,
    /// [`Digest::direction`], one of [`direction`].
    pub direction: u8,
    /// [`Digest::protocol`].
    pub protocol: u8,
    /// [`Digest::ttl`].
    pub ttl: u8,
    /// [`Digest::traffic_class`].
    pub traffic_class: u8,
    /// Kind of the payload, one of [`payload`].
    pub payload: u8,
    /// Options that are there, bits of [`present`].
    pub present: u8,
    /// See the table.
    pub octets: [u8; 4],
    /// [`Digest::waited`] in units of [`WAITED_UNIT`].
    pub waited: u16,
    /// See the table.
    pub halves: [u16; 2],
    /// See the table.
    pub words: [u32; 10],
}

/// A raw digest with an unknown variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidDigest {
    /// [`RawDigest::direction`] is none of [`direction`].
    Direction(u8),
    /// [`RawDigest::payload`] is none of [`payload`].
    Payload(u8),
}

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direction(value) => {
                write!(f, "digest with direction {value}: 0 (to mesh) and 1 (from mesh) are known")
            }
            Self::Payload(value) => write!(f, "digest with payload kind {value}: 0 to 4 are known"),
        }
    }
}

impl std::error::Error for InvalidDigest {}

/// `bit` if `value` is there.
const fn bit_if(is_there: bool, bit: u8) -> u8 {
    if is_there { bit } else { 0 }
}

impl From<&Digest> for RawDigest {
    fn from(digest: &Digest) -> Self {
        let mut raw = Self {
            at: digest.at.0,
            source: digest.source.0,
            destination: digest.destination.0,
            bytes: digest.bytes,
            source_port: digest.source_port,
            destination_port: digest.destination_port,
            direction: match digest.direction {
                Direction::ToMesh => direction::TO_MESH,
                Direction::FromMesh => direction::FROM_MESH,
            },
            protocol: digest.protocol,
            ttl: digest.ttl,
            traffic_class: digest.traffic_class,
            waited: u16::try_from(digest.waited.div_floor(WAITED_UNIT)).unwrap_or(u16::MAX),
            ..Self::default()
        };
        match &digest.payload {
            Payload::Tcp(tcp) => raw.set_tcp(tcp),
            Payload::Rtp(rtp) => raw.set_rtp(rtp),
            Payload::Rtcp(rtcp) => raw.set_rtcp(rtcp),
            Payload::Udp => raw.payload = payload::UDP,
            Payload::Other => raw.payload = payload::OTHER,
        }
        raw
    }
}

impl RawDigest {
    fn set_tcp(&mut self, tcp: &TcpFields) {
        self.payload = payload::TCP;
        self.present = bit_if(tcp.mss.is_some(), present::TCP_MSS)
            | bit_if(tcp.window_scale.is_some(), present::TCP_WINDOW_SCALE)
            | bit_if(tcp.sack_permitted, present::TCP_SACK_PERMITTED)
            | bit_if(tcp.has_sack, present::TCP_SACK)
            | bit_if(tcp.timestamps.is_some(), present::TCP_TIMESTAMPS);
        self.octets = [tcp.flags, tcp.window_scale.unwrap_or(0), 0, 0];
        self.halves = [tcp.window, tcp.mss.unwrap_or(0)];
        let (value, echo) = tcp.timestamps.unwrap_or((0, 0));
        self.words[..5].copy_from_slice(&[tcp.seq, tcp.ack, tcp.payload_bytes, value, echo]);
    }

    fn set_rtp(&mut self, rtp: &RtpFields) {
        self.payload = payload::RTP;
        self.present = bit_if(rtp.marker, present::RTP_MARKER);
        self.octets[0] = rtp.payload_type;
        self.halves[0] = rtp.sequence;
        self.words[..3].copy_from_slice(&[rtp.timestamp, rtp.ssrc, rtp.payload_bytes]);
    }

    fn set_rtcp(&mut self, rtcp: &RtcpFields) {
        self.payload = payload::RTCP;
        self.present = bit_if(rtcp.sender_report.is_some(), present::RTCP_SENDER_REPORT)
            | bit_if(rtcp.report.is_some(), present::RTCP_REPORT)
            | bit_if(rtcp.voip.is_some(), present::RTCP_VOIP);
        let report = rtcp.report.unwrap_or_default();
        let voip = rtcp.voip.unwrap_or_default();
        self.octets = [report.fraction_lost, voip.loss_rate, voip.discard_rate, voip.mos_cq];
        self.words = [
            rtcp.ssrc,
            rtcp.sender_report.unwrap_or(0),
            report.ssrc,
            report.cumulative_lost.cast_unsigned(),
            report.highest_sequence,
            report.jitter,
            report.last_sender_report,
            report.delay_since,
            voip.ssrc,
            rtcp.nack_entries,
        ];
    }

    const fn has(&self, bit: u8) -> bool {
        self.present & bit != 0
    }

    fn tcp(&self) -> TcpFields {
        let [seq, ack, payload_bytes, value, echo, ..] = self.words;
        let [flags, window_scale, ..] = self.octets;
        let [window, mss] = self.halves;
        TcpFields {
            seq,
            ack,
            flags,
            window,
            payload_bytes,
            mss: self.has(present::TCP_MSS).then_some(mss),
            window_scale: self.has(present::TCP_WINDOW_SCALE).then_some(window_scale),
            sack_permitted: self.has(present::TCP_SACK_PERMITTED),
            has_sack: self.has(present::TCP_SACK),
            timestamps: self.has(present::TCP_TIMESTAMPS).then_some((value, echo)),
        }
    }

    fn rtp(&self) -> RtpFields {
        let [timestamp, ssrc, payload_bytes, ..] = self.words;
        RtpFields {
            payload_type: self.octets[0],
            marker: self.has(present::RTP_MARKER),
            sequence: self.halves[0],
            timestamp,
            ssrc,
            payload_bytes,
        }
    }

    fn rtcp(&self) -> RtcpFields {
        let [ssrc, ntp, report_ssrc, lost, highest, jitter, last_report, delay, voip_ssrc, nack_entries] =
            self.words;
        let [fraction_lost, loss_rate, discard_rate, mos_cq] = self.octets;
        let report = ReceptionReport {
            ssrc: report_ssrc,
            fraction_lost,
            cumulative_lost: lost.cast_signed(),
            highest_sequence: highest,
            jitter,
            last_sender_report: last_report,
            delay_since: delay,
        };
        RtcpFields {
            ssrc,
            sender_report: self.has(present::RTCP_SENDER_REPORT).then_some(ntp),
            report: self.has(present::RTCP_REPORT).then_some(report),
            voip: self.has(present::RTCP_VOIP).then_some(VoipMetrics {
                ssrc: voip_ssrc,
                loss_rate,
                discard_rate,
                mos_cq,
            }),
            nack_entries,
        }
    }
}

impl TryFrom<&RawDigest> for Digest {
    type Error = InvalidDigest;

    fn try_from(raw: &RawDigest) -> Result<Self, InvalidDigest> {
        Ok(Self {
            at: Nanos(raw.at),
            waited: WAITED_UNIT * u64::from(raw.waited),
            direction: match raw.direction {
                direction::TO_MESH => Direction::ToMesh,
                direction::FROM_MESH => Direction::FromMesh,
                other => return Err(InvalidDigest::Direction(other)),
            },
            source: Address(raw.source),
            destination: Address(raw.destination),
            source_port: raw.source_port,
            destination_port: raw.destination_port,
            protocol: raw.protocol,
            ttl: raw.ttl,
            traffic_class: raw.traffic_class,
            bytes: raw.bytes,
            payload: match raw.payload {
                payload::TCP => Payload::Tcp(raw.tcp()),
                payload::RTP => Payload::Rtp(raw.rtp()),
                payload::RTCP => Payload::Rtcp(raw.rtcp()),
                payload::UDP => Payload::Udp,
                payload::OTHER => Payload::Other,
                other => return Err(InvalidDigest::Payload(other)),
            },
        })
    }
}

/// A [`Clamp`] with a fixed layout of 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawClamp {
    /// Right edge of the window that has been offered to the sender, if [`RawClamp::HAS_EDGE`].
    pub edge: u32,
    /// Maximum segment size in bytes.
    pub mss: u16,
    /// Window scale, if [`RawClamp::HAS_SCALE`]; more than 14 counts as 14 (RFC 7323 §2.3).
    pub scale: u8,
    /// Bits [`RawClamp::HAS_EDGE`] and [`RawClamp::HAS_SCALE`].
    pub present: u8,
}

impl RawClamp {
    /// The right edge is known.
    pub const HAS_EDGE: u8 = 1;
    /// The scale is known.
    pub const HAS_SCALE: u8 = 1 << 1;
}

impl From<&Clamp> for RawClamp {
    fn from(clamp: &Clamp) -> Self {
        Self {
            edge: clamp.edge.unwrap_or(0),
            mss: clamp.mss,
            scale: clamp.scale.unwrap_or(0),
            present: bit_if(clamp.edge.is_some(), Self::HAS_EDGE)
                | bit_if(clamp.scale.is_some(), Self::HAS_SCALE),
        }
    }
}

impl From<&RawClamp> for Clamp {
    fn from(raw: &RawClamp) -> Self {
        Self {
            scale: (raw.present & RawClamp::HAS_SCALE != 0).then_some(raw.scale.min(Self::MAX_SCALE)),
            mss: raw.mss,
            edge: (raw.present & RawClamp::HAS_EDGE != 0).then_some(raw.edge),
        }
    }
}
