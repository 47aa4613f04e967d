//! Packet format in UDP: short header (RFC 9000 §17.3.1) with a connection ID of eight bytes and a packet number
//! of two, frames (§19), and sixteen bytes for the AEAD tag.
//!
//! ```text
//! 0        1                 9         11                                              n − 16        n
//! | 0x41   | connection ID   | number  | ACK? MAX_DATA? DATA_BLOCKED? PING? STREAM? …  | tag: zeros  |
//! ```
//!
//! There is no encryption and no header protection: the tag is zeros, and packets with another tag are rejected. An encoded
//! packet has the length [`Datagram::wire_bytes`]. Integers have their minimum length; ACK Delay is in units of 8 µs
//! (§18.2). PADDING fills a packet whose frames are shorter than two bytes, so that header protection would have its
//! sample (RFC 9001 §5.4.2).
//!
//! Decoding accepts every form that RFC 9000 allows: integers of more than the minimum length, packet numbers of one to
//! four bytes, frames in any order, PADDING between them, STREAM without offset or length. Frames of other kinds are
//! rejected, and so is a second frame of any kind except PING and PADDING, because a [`Datagram`] holds one of each.

use std::fmt;

use super::packet::{AckFrame, Datagram, StreamFrame, TAG_BYTES, varint_bytes};

/// Maximum UDP payload (RFC 9000 §18.2, max_udp_payload_size).
pub const MAX_DATAGRAM: usize = 65_527;

/// One more than the largest variable-length integer (RFC 9000 §16).
const VARINT_END: u64 = 1 << 62;

/// Fixed bit, and a packet number of two bytes. Spin bit, reserved bits and key phase are zero.
const FIRST_BYTE: u8 = FIXED_BIT | 0x01;
const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const RESERVED_BITS: u8 = 0x18;
const KEY_PHASE: u8 = 0x04;
const NUMBER_LENGTH: u8 = 0x03;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const STREAM: u8 = 0x08;
const STREAM_LAST: u8 = 0x0f;
const STREAM_OFF: u8 = 0x04;
const STREAM_LEN: u8 = 0x02;
const STREAM_FIN: u8 = 0x01;
const MAX_DATA: u8 = 0x10;
const DATA_BLOCKED: u8 = 0x14;

/// ACK Delay is in units of two to the power of this, in µs (RFC 9000 §18.2, ack_delay_exponent).
const ACK_DELAY_EXPONENT: u32 = 3;

/// A packet without the payload of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Destination connection ID in network byte order.
    pub connection: u64,
    /// Number and frames.
    pub datagram: Datagram,
}

/// Why a packet cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is shorter than the packet.
    Room {
        /// Bytes of the packet.
        needed: usize,
    },
    /// The length of the payload differs from that in the STREAM frame.
    Payload {
        /// Length in the frame, in bytes.
        frame: u32,
        /// Length of the payload passed, in bytes.
        given: usize,
    },
    /// Longer than a UDP datagram.
    Long,
    /// A number or stream offset of 2⁶² or more.
    Large,
    /// More than 2¹⁵ packets since the largest one acknowledged (RFC 9000 §17.1).
    Number,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room { needed } => write!(f, "the packet has {needed} bytes; pass a longer buffer"),
            Self::Payload { frame, given } => {
                write!(f, "the STREAM frame has {frame} bytes of payload, but {given} were passed")
            }
            Self::Long => write!(f, "the packet is longer than the {MAX_DATAGRAM} bytes of a UDP datagram"),
            Self::Large => f.write_str("a number is larger than 2^62 - 1, the maximum of QUIC"),
            Self::Number => f.write_str(
                "the packet number is more than 2^15 past the largest acknowledged one and does not fit into two bytes",
            ),
        }
    }
}

impl std::error::Error for EncodeError {}

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end within the header, a frame or the tag.
    Short,
    /// Longer than a UDP datagram.
    Long,
    /// A long header, which belongs to a handshake.
    LongHeader,
    /// The fixed bit is zero: another protocol (RFC 9000 §17.3.1).
    FixedBit,
    /// Reserved bits are set, or the key phase, as keys are never updated here.
    Bits,
    /// The tag is not zeros: the packet is encrypted.
    Tag,
    /// The packet has no frame (RFC 9000 §12.4).
    Empty,
    /// A frame of a type that is not used here.
    Frame {
        /// The first byte of its type.
        kind: u8,
    },
    /// A second frame of a type that may occur once.
    Twice {
        /// Its type.
        kind: u8,
    },
    /// A stream other than 0.
    Stream {
        /// Stream ID.
        id: u64,
    },
    /// The stream's end is past 2⁶² − 1 (RFC 9000 §19.8).
    End,
    /// A range of an ACK frame begins below zero (RFC 9000 §19.3.1).
    Range,
    /// More ranges than [`AckFrame::MAX`], or one more than 2³² below the largest number.
    Ranges,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the packet is too short"),
            Self::Long => write!(f, "the packet is longer than the {MAX_DATAGRAM} bytes of a UDP datagram"),
            Self::LongHeader => f.write_str("the header is a long one, which belongs to a handshake"),
            Self::FixedBit => f.write_str("the fixed bit is zero; the packet is of another protocol"),
            Self::Bits => f.write_str("reserved bits or the key phase are set"),
            Self::Tag => f.write_str("the tag is not zeros; the packet is encrypted"),
            Self::Empty => f.write_str("the packet has no frame"),
            Self::Frame { kind } => write!(f, "frames of type {kind:#04x} are not supported"),
            Self::Twice { kind } => write!(f, "the packet has a second frame of type {kind:#04x}"),
            Self::Stream { id } => write!(f, "stream {id} is not supported; only stream 0 is"),
            Self::End => f.write_str("the stream's end is past 2^62 - 1"),
            Self::Range => f.write_str("a range of the ACK frame begins below zero"),
            Self::Ranges => {
                write!(f, "the ACK frame has more than {} ranges, or one that is too low", AckFrame::MAX)
            }
        }
    }
}

impl std::error::Error for DecodeError {}

impl Packet {
    /// Writes the packet to the beginning of `buffer` and returns its length. `acknowledged` is the largest number that the
    /// other side has acknowledged, `payload` the payload of the STREAM frame.
    ///
    /// # Errors
    /// [`EncodeError`] if the buffer is too short, the payload's length differs from the frame's, or a number is too large.
    pub fn encode(
        &self,
        acknowledged: Option<u64>,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let datagram = &self.datagram;
        let frame_len = datagram.stream.map_or(0, |frame| frame.len);
        if frame_len as usize != payload.len() {
            return Err(EncodeError::Payload { frame: frame_len, given: payload.len() });
        }
        if payload.len() > MAX_DATAGRAM || datagram.wire_bytes() as usize > MAX_DATAGRAM {
            return Err(EncodeError::Long);
        }
        let end = datagram.stream.map(|frame| frame.offset.saturating_add(u64::from(frame.len)));
        let largest = datagram.ack.map(|ack| ack.largest());
        let numbers = [Some(datagram.number), end, largest, datagram.max_data, datagram.data_blocked];
        if numbers.into_iter().flatten().any(|number| number >= VARINT_END) {
            return Err(EncodeError::Large);
        }
        let needed = datagram.wire_bytes() as usize;
        let bytes = buffer.get_mut(..needed).ok_or(EncodeError::Room { needed })?;
        // PADDING and the tag are zeros.
        bytes.fill(PADDING);
        let mut writer = Writer(bytes);
        writer.put(&[FIRST_BYTE]);
        writer.put(&self.connection.to_be_bytes());
        writer.put(&truncated(datagram.number, acknowledged).ok_or(EncodeError::Number)?.to_be_bytes());
        if let Some(ack) = &datagram.ack {
            writer.ack(ack);
        }
        for (kind, limit) in [(MAX_DATA, datagram.max_data), (DATA_BLOCKED, datagram.data_blocked)] {
            if let Some(limit) = limit {
                writer.put(&[kind]);
                writer.varint(limit);
            }
        }
        if datagram.ping {
            writer.put(&[PING]);
        }
        if let Some(frame) = &datagram.stream {
            let fin = if frame.fin { STREAM_FIN } else { 0 };
            writer.put(&[STREAM | STREAM_OFF | STREAM_LEN | fin]);
            writer.varint(0);
            writer.varint(frame.offset);
            writer.varint(u64::from(frame.len));
            writer.put(payload);
        }
        Ok(needed)
    }

    /// Reads a packet; returns it with the payload of its stream. `largest` is the largest packet number received so far.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a valid packet of such a transfer.
    pub fn decode(bytes: &[u8], largest: Option<u64>) -> Result<(Self, &[u8]), DecodeError> {
        if bytes.len() > MAX_DATAGRAM {
            return Err(DecodeError::Long);
        }
        let mut reader = Reader(bytes);
        let [first] = reader.array()?;
        if first & LONG_HEADER != 0 {
            return Err(DecodeError::LongHeader);
        }
        if first & FIXED_BIT == 0 {
            return Err(DecodeError::FixedBit);
        }
        if first & (RESERVED_BITS | KEY_PHASE) != 0 {
            return Err(DecodeError::Bits);
        }
        let connection = u64::from_be_bytes(reader.array()?);
        let length = usize::from(first & NUMBER_LENGTH) + 1;
        let number = reader.take(length)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let number = expanded(number, 8 * length as u32, largest);
        let (frames, tag) =
            reader.0.split_last_chunk::<{ TAG_BYTES as usize }>().ok_or(DecodeError::Short)?;
        if tag.iter().any(|&byte| byte != 0) {
            return Err(DecodeError::Tag);
        }
        if frames.is_empty() {
            return Err(DecodeError::Empty);
        }
        let mut datagram = Datagram { number, ..Datagram::default() };
        let payload = Reader(frames).frames(&mut datagram)?;
        Ok((Self { connection, datagram }, payload))
    }
}

/// A packet number in two bytes (RFC 9000 §17.1 and A.2); none if the other side could decode another number.
fn truncated(number: u64, acknowledged: Option<u64>) -> Option<u16> {
    let unacknowledged = acknowledged.map_or(number + 1, |largest| number.saturating_sub(largest));
    (unacknowledged <= 1 << 15).then_some(number as u16)
}

/// The number whose last `bits` bits are `low` and that is nearest to the next expected one (RFC 9000 §17.1 and A.3).
fn expanded(low: u64, bits: u32, largest: Option<u64>) -> u64 {
    let expected = largest.map_or(0, |largest| largest.saturating_add(1).min(VARINT_END - 1));
    let window = 1 << bits;
    let half = window / 2;
    let candidate = expected & !(window - 1) | low;
    if candidate + half <= expected && candidate < VARINT_END - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// The rest of the output buffer. Its length is that of [`Datagram::wire_bytes`].
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }

    /// RFC 9000 §16: the first two bits encode the length.
    fn varint(&mut self, value: u64) {
        match varint_bytes(value) {
            1 => self.put(&[value as u8]),
            2 => self.put(&(value as u16 | 1 << 14).to_be_bytes()),
            4 => self.put(&(value as u32 | 2 << 30).to_be_bytes()),
            _ => self.put(&(value | 3 << 62).to_be_bytes()),
        }
    }

    /// RFC 9000 §19.3: each range is encoded relative to the one above.
    fn ack(&mut self, ack: &AckFrame) {
        self.put(&[ACK]);
        self.varint(ack.largest());
        self.varint(u64::from(ack.delay_us >> ACK_DELAY_EXPONENT));
        self.varint(ack.ranges().count() as u64 - 1);
        let mut above = None;
        for (first, last) in ack.ranges() {
            if let Some(above) = above {
                self.varint(above - last - 2);
            }
            self.varint(last - first);
            above = Some(first);
        }
    }
}

/// The rest of the input.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (here, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(here)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (here, rest) = self.0.split_first_chunk().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*here)
    }

    /// RFC 9000 §16 and A.1.
    fn varint(&mut self) -> Result<u64, DecodeError> {
        let [first] = self.array()?;
        let more = self.take((1 << (first >> 6)) - 1)?;
        Ok(more.iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Reads all frames; returns the payload of the stream.
    fn frames(mut self, datagram: &mut Datagram) -> Result<&'a [u8], DecodeError> {
        let mut payload: &[u8] = &[];
        while !self.0.is_empty() {
            let [kind] = self.array()?;
            let twice = match kind {
                PADDING => false,
                PING => {
                    datagram.ping = true;
                    false
                }
                ACK => datagram.ack.replace(self.ack()?).is_some(),
                STREAM..=STREAM_LAST => {
                    let (frame, data) = self.stream(kind)?;
                    payload = data;
                    datagram.stream.replace(frame).is_some()
                }
                MAX_DATA => datagram.max_data.replace(self.varint()?).is_some(),
                DATA_BLOCKED => datagram.data_blocked.replace(self.varint()?).is_some(),
                _ => return Err(DecodeError::Frame { kind }),
            };
            if twice {
                return Err(DecodeError::Twice { kind });
            }
        }
        Ok(payload)
    }

    /// RFC 9000 §19.8.
    fn stream(&mut self, kind: u8) -> Result<(StreamFrame, &'a [u8]), DecodeError> {
        let id = self.varint()?;
        if id != 0 {
            return Err(DecodeError::Stream { id });
        }
        let offset = if kind & STREAM_OFF == 0 { 0 } else { self.varint()? };
        let length = if kind & STREAM_LEN == 0 { self.0.len() as u64 } else { self.varint()? };
        let data = self.take(usize::try_from(length).map_err(|_| DecodeError::Short)?)?;
        // A datagram is shorter than 2¹⁶ bytes.
        let frame = StreamFrame { offset, len: data.len() as u32, fin: kind & STREAM_FIN != 0 };
        if frame.end() >= VARINT_END { Err(DecodeError::End) } else { Ok((frame, data)) }
    }

    /// RFC 9000 §19.3.
    fn ack(&mut self) -> Result<AckFrame, DecodeError> {
        let largest = self.varint()?;
        let delay = self.varint()?;
        let more = self.varint()?;
        let below = |number: u64, by: u64| number.checked_sub(by).ok_or(DecodeError::Range);
        let mut first = below(largest, self.varint()?)?;
        let mut frame = AckFrame::of(first, largest).ok_or(DecodeError::Ranges)?;
        // A delay that does not fit into a u32 of microseconds is over an hour and is clamped.
        frame.delay_us = u32::try_from(delay).unwrap_or(u32::MAX).min(u32::MAX >> ACK_DELAY_EXPONENT)
            << ACK_DELAY_EXPONENT;
        for _ in 0..more {
            let last = below(first, self.varint()? + 2)?;
            first = below(last, self.varint()?)?;
            if !frame.push(first, last) {
                return Err(DecodeError::Ranges);
            }
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9000_a_1_integers() {
        let samples: [(u64, &[u8]); 4] = [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ];
        for (value, bytes) in samples {
            let mut written = vec![0; bytes.len()];
            Writer(&mut written).varint(value);
            assert_eq!(written, bytes);
            assert_eq!(Reader(bytes).varint(), Ok(value));
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).varint(), Err(DecodeError::Short));
        }
        // Not of minimum length.
        assert_eq!(Reader(&[0x40, 0x25]).varint(), Ok(37));
    }

    #[test]
    fn rfc9000_a_2_two_bytes_tell_a_number_29_519_after_the_last_acknowledged_one_but_not_one_65_611_after_it()
     {
        assert_eq!(truncated(0xac_5c02, Some(0xab_e8b3)), Some(0x5c02));
        assert_eq!(truncated(0xac_e8fe, Some(0xab_e8b3)), None);
    }

    #[test]
    fn rfc9000_a_3_a_number_is_the_one_that_is_nearest_to_the_next() {
        assert_eq!(expanded(0x9b32, 16, Some(0xa82f_30ea)), 0xa82f_9b32);
        // No window below zero and none past the last number.
        assert_eq!(expanded(0xffff, 16, Some(3)), 0xffff);
        assert_eq!(expanded(0x0001, 16, Some(VARINT_END - 2)), VARINT_END - 0xffff);
        assert_eq!(expanded(0xffff, 16, Some(u64::MAX)), VARINT_END - 1);
    }
}
