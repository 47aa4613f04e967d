//! The format of AIMD datagrams in UDP, version 2. cai2005 fixes the 24-bit number and the 8-bit vector of an
//! acknowledgment; the rest is specific to this program. Big-endian. The upper half of the first byte is the version, the
//! lower half the kind.
//!
//! ```text
//!          0       1        4        8              12             16       20
//! hello    | 2 · 0 | 0      | id                    | cookie                |
//! cookie   | 2 · 1 | 0      | id                    | cookie                |
//! accept   | 2 · 2 | 0      | id                    |
//! busy     | 2 · 3 | 0      | id                    |
//! data     | 2 · 4 | seq    | tag    | sent_us      | payload …
//! ack      | 2 · 5 | seq    | tag    | vector·0·rwnd | transit_us |
//! end      | 2 · 6 | end    | tag    |
//! report   | 2 · 7 | 0      | tag    | received     |
//! ```
//!
//! - `id` identifies a stream. The sender draws it at random, 64 bits. `tag`, its lower 32 bits, is in every packet of the
//!   stream. The receiver accepts a tag only from the address that opened the stream.
//! - `cookie` proves that the sender receives at its address. It is 0 in the first hello ([`super::handshake`]).
//! - `end` closes a stream: it is the number that the next packet would have. The sender repeats it until a `report`
//!   answers with the count of packets received.
//! - `busy` refuses a stream while the receiver serves another one.
//!
//! No answer is longer than the packet it answers, except an acknowledgment or report to a packet of an open stream,
//! whose sender has proved its address. So the receiver cannot be used to amplify traffic to a third host.
//!
//! Decoding and encoding give the same bytes: a packet with unused bits set is refused.
//!
//! Version 1 had no handshake: its first data packet opened a stream, so that any stray datagram could.

use std::fmt;

use super::{Ack, Datagram, Seq};

/// The version of the format.
pub const VERSION: u8 = 2;
/// Bytes of a data packet before its payload.
pub const DATA_HEADER: usize = 12;
/// Bytes of an acknowledgment.
pub const ACK_BYTES: usize = 16;
/// Bytes of the longest packet, payload not counted.
pub const MAX_HEADER: usize = 20;

const HELLO: u8 = 0;
const COOKIE: u8 = 1;
const ACCEPT: u8 = 2;
const BUSY: u8 = 3;
const DATA: u8 = 4;
const ACK: u8 = 5;
const END: u8 = 6;
const REPORT: u8 = 7;

/// The part of a stream's id that its packets carry.
pub const fn tag_of(id: u64) -> u32 {
    id as u32
}

/// A packet, without the payload of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Asks to open a stream.
    Hello {
        /// Identifies the stream.
        id: u64,
        /// As in the receiver's cookie packet; 0 in the first hello.
        cookie: u64,
    },
    /// Answers a hello without a valid cookie.
    Cookie {
        /// As in the hello.
        id: u64,
        /// To be repeated in the next hello.
        cookie: u64,
    },
    /// The stream is open.
    Accept {
        /// As in the hello.
        id: u64,
    },
    /// The receiver serves another stream.
    Busy {
        /// As in the hello.
        id: u64,
    },
    /// Data; the payload follows.
    Data {
        /// Of the stream.
        tag: u32,
        /// Number and time.
        datagram: Datagram,
    },
    /// An acknowledgment.
    Ack {
        /// Of the stream.
        tag: u32,
        /// What has arrived.
        ack: Ack,
    },
    /// The stream is over.
    End {
        /// Of the stream.
        tag: u32,
        /// The number that the next packet would have.
        end: Seq,
    },
    /// Answers the end of a stream.
    Report {
        /// Of the stream.
        tag: u32,
        /// Distinct packets received, modulo 2³².
        received: u32,
    },
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Shorter than its kind.
    Short,
    /// Longer than its kind. Only data may have any length.
    Long,
    /// Another version, or another protocol.
    Version,
    /// A kind that does not exist.
    Kind,
    /// Unused bits are set.
    Reserved,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the packet is too short",
            Self::Long => "the packet is too long",
            Self::Version => "the packet is of another protocol or version",
            Self::Kind => "the packet is of a kind that does not exist",
            Self::Reserved => "unused bits of the packet are set",
        })
    }
}

impl std::error::Error for WireError {}

impl Packet {
    /// Writes the packet to the start of `buffer`; returns its length, or none if it does not fit. The payload of data
    /// follows it.
    pub fn encode(&self, buffer: &mut [u8]) -> Option<usize> {
        let mut bytes = [0; MAX_HEADER];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let (kind, seq, length) = match *self {
            Self::Hello { id, cookie } | Self::Cookie { id, cookie } => {
                put(4, &id.to_be_bytes());
                put(12, &cookie.to_be_bytes());
                (if matches!(self, Self::Hello { .. }) { HELLO } else { COOKIE }, Seq::of(0), 20)
            }
            Self::Accept { id } | Self::Busy { id } => {
                put(4, &id.to_be_bytes());
                (if matches!(self, Self::Accept { .. }) { ACCEPT } else { BUSY }, Seq::of(0), 12)
            }
            Self::Data { tag, datagram } => {
                put(4, &tag.to_be_bytes());
                put(8, &datagram.sent_us.to_be_bytes());
                (DATA, datagram.seq, DATA_HEADER)
            }
            Self::Ack { tag, ack } => {
                put(4, &tag.to_be_bytes());
                put(8, &[ack.vector, 0]);
                put(10, &ack.rwnd.to_be_bytes());
                put(12, &ack.transit_us.to_be_bytes());
                (ACK, ack.seq, ACK_BYTES)
            }
            Self::End { tag, end } => {
                put(4, &tag.to_be_bytes());
                (END, end, 8)
            }
            Self::Report { tag, received } => {
                put(4, &tag.to_be_bytes());
                put(8, &received.to_be_bytes());
                (REPORT, Seq::of(0), 12)
            }
        };
        bytes[..4].copy_from_slice(&seq.get().to_be_bytes());
        bytes[0] = VERSION << 4 | kind;
        buffer.get_mut(..length)?.copy_from_slice(&bytes[..length]);
        Some(length)
    }

    /// Reads a packet; returns the payload with it.
    ///
    /// # Errors
    /// The bytes are no packet of this version.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let (&[first, high, middle, low], rest) = bytes.split_first_chunk::<4>().ok_or(WireError::Short)?;
        if first >> 4 != VERSION {
            return Err(WireError::Version);
        }
        let number = u32::from_be_bytes([0, high, middle, low]);
        let seq = Seq::of(u64::from(number));
        let kind = first & 0xf;
        if !matches!(kind, DATA | ACK | END) && number != 0 {
            return Err(if kind > REPORT { WireError::Kind } else { WireError::Reserved });
        }
        let (packet, rest) = match kind {
            HELLO | COOKIE => {
                let (id, rest) = word64(rest)?;
                let (cookie, rest) = word64(rest)?;
                (if kind == HELLO { Self::Hello { id, cookie } } else { Self::Cookie { id, cookie } }, rest)
            }
            ACCEPT | BUSY => {
                let (id, rest) = word64(rest)?;
                (if kind == ACCEPT { Self::Accept { id } } else { Self::Busy { id } }, rest)
            }
            DATA => {
                let (tag, rest) = word(rest)?;
                let (sent_us, payload) = word(rest)?;
                return Ok((Self::Data { tag, datagram: Datagram { seq, sent_us } }, payload));
            }
            ACK => {
                let (tag, rest) = word(rest)?;
                let (&[vector, reserved, high, low], rest) =
                    rest.split_first_chunk().ok_or(WireError::Short)?;
                let (transit_us, rest) = word(rest)?;
                if reserved != 0 {
                    return Err(WireError::Reserved);
                }
                let rwnd = u16::from_be_bytes([high, low]);
                (Self::Ack { tag, ack: Ack { seq, vector, rwnd, transit_us } }, rest)
            }
            END => {
                let (tag, rest) = word(rest)?;
                (Self::End { tag, end: seq }, rest)
            }
            REPORT => {
                let (tag, rest) = word(rest)?;
                let (received, rest) = word(rest)?;
                (Self::Report { tag, received }, rest)
            }
            _ => return Err(WireError::Kind),
        };
        if rest.is_empty() { Ok((packet, rest)) } else { Err(WireError::Long) }
    }
}

fn word(bytes: &[u8]) -> Result<(u32, &[u8]), WireError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(WireError::Short)?;
    Ok((u32::from_be_bytes(*word), rest))
}

fn word64(bytes: &[u8]) -> Result<(u64, &[u8]), WireError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(WireError::Short)?;
    Ok((u64::from_be_bytes(*word), rest))
}
