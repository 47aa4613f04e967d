//! How the packets of AIMD datagrams look in UDP between two hosts. cai2005 fixes the number of 24 bits and the vector of
//! 8 bits of an acknowledgment; the rest is this program's. Big-endian; the first byte has the version in its upper half
//! and the kind in its lower.
//!
//! ```text
//!          0         1                    4                   8                   12                  16
//! data     | 1 · 0   | seq                | flow              | sent_us           | payload …
//! ack      | 1 · 1   | seq                | flow              | vector | 0 | rwnd | transit_us        |
//! end      | 1 · 2   | end                | flow              |
//! report   | 1 · 3   | 0                  | flow              | received          |
//! busy     | 1 · 4   | 0                  | flow              |
//! ```
//!
//! `flow` is a number that the sender draws, so that packets of an earlier stream between the same ports are told apart.
//! `end` closes a stream and is the number that the next packet would have had; it is repeated until a `report` answers
//! with the count of packets received. A receiver that serves another sender answers `busy`. No answer is longer than 16
//! bytes, so that nobody gains by having answers sent to somebody else.
//!
//! What is decoded is encoded to the same bytes again: unused bits are zero or the packet is refused.

use std::fmt;

use super::{Ack, Datagram, Seq};

/// The version of the format.
const VERSION: u8 = 1;
/// Bytes of a data packet before its payload.
pub const DATA_HEADER: usize = 12;
/// Bytes of an acknowledgment.
pub const ACK_BYTES: usize = 16;
/// Bytes of the longest packet but for payload.
pub const MAX_HEADER: usize = ACK_BYTES;

const DATA: u8 = 0;
const ACK: u8 = 1;
const END: u8 = 2;
const REPORT: u8 = 3;
const BUSY: u8 = 4;

/// A packet, but for the payload of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which stream it belongs to.
    pub flow: u32,
    /// What it says.
    pub body: Body,
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Data; the payload follows.
    Data(Datagram),
    /// An acknowledgment.
    Ack(Ack),
    /// The stream is over.
    End {
        /// The number that the next packet would have had.
        end: Seq,
    },
    /// Answer to the end of a stream.
    Report {
        /// Packets received, each once, modulo 2³².
        received: u32,
    },
    /// The receiver serves somebody else.
    Busy,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Shorter than its kind.
    Short,
    /// Longer than its kind; data alone may be as long as they like.
    Long,
    /// A version that is not 1: something else altogether, most likely.
    Version,
    /// A kind that does not exist.
    Kind,
    /// Bits that have no meaning are set.
    Reserved,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the packet is too short",
            Self::Long => "the packet is too long",
            Self::Version => "the packet is of another protocol or version",
            Self::Kind => "the packet is of a kind that does not exist",
            Self::Reserved => "bits without a meaning are set",
        })
    }
}

impl std::error::Error for WireError {}

impl Packet {
    /// Writes the packet to the beginning of `buffer` and gives its length; none if it does not fit. The payload of data
    /// goes behind it.
    pub fn encode(&self, buffer: &mut [u8]) -> Option<usize> {
        let mut bytes = [0; MAX_HEADER];
        let (kind, seq, length) = match self.body {
            Body::Data(datagram) => {
                bytes[8..12].copy_from_slice(&datagram.sent_us.to_be_bytes());
                (DATA, datagram.seq, DATA_HEADER)
            }
            Body::Ack(ack) => {
                bytes[8] = ack.vector;
                bytes[10..12].copy_from_slice(&ack.rwnd.to_be_bytes());
                bytes[12..16].copy_from_slice(&ack.transit_us.to_be_bytes());
                (ACK, ack.seq, ACK_BYTES)
            }
            Body::End { end } => (END, end, 8),
            Body::Report { received } => {
                bytes[8..12].copy_from_slice(&received.to_be_bytes());
                (REPORT, Seq::of(0), 12)
            }
            Body::Busy => (BUSY, Seq::of(0), 8),
        };
        bytes[..4].copy_from_slice(&seq.get().to_be_bytes());
        bytes[0] = VERSION << 4 | kind;
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        buffer.get_mut(..length)?.copy_from_slice(&bytes[..length]);
        Some(length)
    }

    /// Reads a packet, and gives the payload with it.
    ///
    /// # Errors
    /// The bytes are no packet of this version.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let (&[first, number @ ..], rest) = bytes.split_first_chunk::<4>().ok_or(WireError::Short)?;
        if first >> 4 != VERSION {
            return Err(WireError::Version);
        }
        let [high, middle, low] = number;
        let seq = Seq::of(u64::from(u32::from_be_bytes([0, high, middle, low])));
        let (flow, rest) = word(rest)?;
        let (body, payload) = match first & 0xf {
            DATA => {
                let (sent_us, payload) = word(rest)?;
                return Ok((Self { flow, body: Body::Data(Datagram { seq, sent_us }) }, payload));
            }
            ACK => {
                let (&[vector, reserved, high, low], rest) =
                    rest.split_first_chunk().ok_or(WireError::Short)?;
                let (transit_us, rest) = word(rest)?;
                if reserved != 0 {
                    return Err(WireError::Reserved);
                }
                (Body::Ack(Ack { seq, vector, rwnd: u16::from_be_bytes([high, low]), transit_us }), rest)
            }
            END => (Body::End { end: seq }, rest),
            REPORT => {
                let (received, rest) = word(rest)?;
                (Body::Report { received }, rest)
            }
            BUSY => (Body::Busy, rest),
            _ => return Err(WireError::Kind),
        };
        if matches!(body, Body::Report { .. } | Body::Busy) && seq != Seq::of(0) {
            return Err(WireError::Reserved);
        }
        if payload.is_empty() { Ok((Self { flow, body }, payload)) } else { Err(WireError::Long) }
    }
}

fn word(bytes: &[u8]) -> Result<(u32, &[u8]), WireError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(WireError::Short)?;
    Ok((u32::from_be_bytes(*word), rest))
}
