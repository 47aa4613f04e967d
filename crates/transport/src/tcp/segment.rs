//! A segment without its payload, and its header on the wire: RFC 9293 §3.1, options of RFC 9293 §3.2 (maximum
//! segment size), RFC 7323 (window scale, timestamps) and RFC 2018 (SACK).
//!
//! Options have Linux's layout, padded with no-operations so that each group fills whole words: maximum segment size;
//! SACK-permitted and timestamps (together three words); window scale; SACK blocks. Left out: urgent data, ports (they
//! belong to the flow) and all other options, which decoding skips.

use std::fmt;
use std::ops::BitOr;

use fairhop_model::checksum::{complement, sum_words};

use super::seq::Seq;

/// Maximum TCP header in bytes.
pub const MAX_HEADER_BYTES: usize = 60;

/// Room for options in a header, in bytes.
const MAX_OPTION_BYTES: u32 = 40;

/// The control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push: the sender had nothing more to send.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is valid.
    pub const ACK: Self = Self(0x10);
    /// The network marked a packet (RFC 3168 §6.1).
    pub const ECE: Self = Self(0x40);
    /// The sender has reduced its window because of a mark (RFC 3168 §6.1).
    pub const CWR: Self = Self(0x80);

    /// Whether every bit of `bits` is set.
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Whether a bit of `bits` is set.
    pub const fn any(self, bits: Self) -> bool {
        self.0 & bits.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in "FSRP.UEW".chars().enumerate() {
            if self.0 >> bit & 1 == 1 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// The ECN field of the IP header (RFC 3168 §5). It is not part of the TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not understand marks: a router must drop instead.
    #[default]
    NotEct = 0,
    /// ECN-capable transport, codepoint ECT(1).
    Ect1 = 1,
    /// ECN-capable transport, codepoint ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Whether a router may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// The two bits of the IP header.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// From the two low bits of the IP header's traffic-class byte.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A run of octets that arrived: `start` inclusive, `end` exclusive (RFC 2018 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First octet.
    pub start: Seq,
    /// Past the last octet.
    pub end: Seq,
}

/// Up to four SACK blocks, as many as a header holds.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    // Blocks past `count` stay zero, so that equality compares the blocks in use.
    blocks: [SackBlock; Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// Maximum number of blocks in a header: 40 bytes of options less 4 for kind, length and padding.
    pub const MAX: usize = 4;

    /// No block.
    pub const NONE: Self = Self { blocks: [SackBlock { start: Seq(0), end: Seq(0) }; Self::MAX], count: 0 };

    /// Appends a block; a fifth is dropped.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// The blocks, in the order of the option.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Number of blocks.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no block.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|b| (b.start, b.end))).finish()
    }
}

/// The timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Clock of the sender of this segment.
    pub value: u32,
    /// Last value received from the other side.
    pub echo: u32,
}

/// A segment without its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of the first octet, or of SYN or FIN if there is no payload.
    pub seq: Seq,
    /// Next octet expected from the other side, if the ACK bit is set.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Receive window as on the wire, without scaling.
    pub window: u16,
    /// Payload in bytes.
    pub len: u32,
    /// Maximum segment size that the sender accepts, in bytes.
    pub mss: Option<u16>,
    /// Shift of later windows.
    pub window_scale: Option<u8>,
    /// SACK may be used.
    pub sack_permitted: bool,
    /// Data that arrived past the acknowledgment.
    pub sack: SackBlocks,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// The ECN field of the packet that carries it.
    pub ecn: Ecn,
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than the header's length or the standard's minimum.
    Truncated,
    /// The data offset is under five words.
    BadOffset,
    /// An option's length is invalid or exceeds the header.
    BadOption,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "TCP header is truncated",
            Self::BadOffset => "TCP data offset is under 5 words",
            Self::BadOption => "TCP option has an impossible length",
        })
    }
}

impl std::error::Error for HeaderError {}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The segment.
    pub segment: Segment,
    /// Port of its sender.
    pub src_port: u16,
    /// Port of its receiver.
    pub dst_port: u16,
    /// Length of the header in bytes.
    pub header_bytes: u32,
}

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

impl Segment {
    /// Octets of sequence space: payload, SYN and FIN (RFC 9293 §3.4).
    pub const fn seq_len(&self) -> u32 {
        self.len + self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32
    }

    /// Bytes of options before the SACK blocks.
    const fn fixed_option_bytes(&self) -> u32 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let rest = match (self.timestamps.is_some(), self.sack_permitted) {
            (true, _) => 12,
            (false, true) => 4,
            (false, false) => 0,
        };
        mss + scale + rest
    }

    /// Number of SACK blocks that fit with the other options.
    fn sack_blocks_on_wire(&self) -> u32 {
        let room = MAX_OPTION_BYTES - self.fixed_option_bytes();
        (self.sack.len() as u32).min(room.saturating_sub(4) / 8)
    }

    /// Length of the header in bytes: 20 plus the options as written by [`Segment::encode_header`].
    pub fn header_bytes(&self) -> u32 {
        let sack = match self.sack_blocks_on_wire() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        20 + self.fixed_option_bytes() + sack
    }

    /// Writes the header and returns its length. The checksum field is zero: see [`checksum`].
    pub fn encode_header(&self, out: &mut [u8; MAX_HEADER_BYTES], src_port: u16, dst_port: u16) -> usize {
        let length = self.header_bytes();
        let mut at = Writer { out, at: 0 };
        at.put(&src_port.to_be_bytes());
        at.put(&dst_port.to_be_bytes());
        at.put(&self.seq.0.to_be_bytes());
        at.put(&self.ack.0.to_be_bytes());
        at.put(&[(length as u8 / 4) << 4, self.flags.0]);
        at.put(&self.window.to_be_bytes());
        at.put(&[0; 4]);
        if let Some(mss) = self.mss {
            at.put(&[MAXIMUM_SEGMENT_SIZE, 4]);
            at.put(&mss.to_be_bytes());
        }
        match (self.timestamps.is_some(), self.sack_permitted) {
            (false, true) => at.put(&[NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]),
            (true, true) => at.put(&[SACK_PERMITTED, 2]),
            (true, false) => at.put(&[NO_OPERATION, NO_OPERATION]),
            (false, false) => {}
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            at.put(&[TIMESTAMPS, 10]);
            at.put(&value.to_be_bytes());
            at.put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            at.put(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack_blocks_on_wire();
        if blocks > 0 {
            at.put(&[NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks as u8]);
            for block in &self.sack.as_slice()[..blocks as usize] {
                at.put(&block.start.0.to_be_bytes());
                at.put(&block.end.0.to_be_bytes());
            }
        }
        at.at
    }

    /// Reads a header at the start of `bytes`; `payload_len` is the length of the payload that follows. Unknown options are
    /// skipped; known ones of a wrong length are errors.
    ///
    /// # Errors
    /// [`HeaderError`] if the header is truncated or invalid.
    pub fn decode_header(bytes: &[u8], payload_len: u32) -> Result<Decoded, HeaderError> {
        let fixed: &[u8; 20] = bytes.first_chunk().ok_or(HeaderError::Truncated)?;
        let length = usize::from(fixed[12] >> 4) * 4;
        if length < 20 {
            return Err(HeaderError::BadOffset);
        }
        let options = bytes.get(20..length).ok_or(HeaderError::Truncated)?;
        let mut segment = Self {
            seq: Seq(be32(&fixed[4..8])),
            ack: Seq(be32(&fixed[8..12])),
            flags: Flags(fixed[13]),
            window: be16(&fixed[14..16]),
            len: payload_len,
            ..Self::default()
        };
        segment.decode_options(options)?;
        Ok(Decoded {
            segment,
            src_port: be16(&fixed[0..2]),
            dst_port: be16(&fixed[2..4]),
            header_bytes: length as u32,
        })
    }

    fn decode_options(&mut self, mut options: &[u8]) -> Result<(), HeaderError> {
        while let Some((&kind, rest)) = options.split_first() {
            match kind {
                END_OF_OPTIONS => return Ok(()),
                NO_OPERATION => {
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let length = usize::from(*rest.first().ok_or(HeaderError::BadOption)?);
            if length < 2 || length > options.len() {
                return Err(HeaderError::BadOption);
            }
            let value = &options[2..length];
            match (kind, value.len()) {
                (MAXIMUM_SEGMENT_SIZE, 2) => self.mss = Some(be16(value)),
                (WINDOW_SCALE, 1) => self.window_scale = Some(value[0]),
                (SACK_PERMITTED, 0) => self.sack_permitted = true,
                (SACK, 8 | 16 | 24 | 32) => {
                    for block in value.chunks_exact(8) {
                        self.sack
                            .push(SackBlock { start: Seq(be32(&block[..4])), end: Seq(be32(&block[4..])) });
                    }
                }
                (TIMESTAMPS, 8) => {
                    self.timestamps = Some(Timestamps { value: be32(&value[..4]), echo: be32(&value[4..]) });
                }
                (MAXIMUM_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => {
                    return Err(HeaderError::BadOption);
                }
                _ => {}
            }
            options = &options[length..];
        }
        Ok(())
    }
}

fn be16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &b| sum << 8 | u16::from(b))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &b| sum << 8 | u32::from(b))
}

struct Writer<'a> {
    out: &'a mut [u8; MAX_HEADER_BYTES],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// The checksum of a segment over IPv4 (RFC 9293 §3.1): pseudo-header, header (checksum field zero) and payload. The
/// payload is given by its length and its one's-complement sum (zero for a payload of zeros).
pub fn checksum(src: [u8; 4], dst: [u8; 4], header: &[u8], payload_len: u32, payload_sum: u16) -> u16 {
    const PROTOCOL_TCP: u32 = 6;
    let tcp_length = header.len() as u32 + payload_len;
    let pseudo =
        sum_words(&src) + sum_words(&dst) + PROTOCOL_TCP + (tcp_length & 0xffff) + (tcp_length >> 16);
    complement(pseudo + sum_words(header) + u32::from(payload_sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_stays_small_enough_to_copy() {
        assert!(size_of::<Segment>() <= 72, "{} bytes", size_of::<Segment>());
    }

    #[test]
    fn a_syn_of_a_linux_host_has_its_options_in_the_same_bytes() {
        let syn = Segment {
            seq: Seq(0x0102_0304),
            flags: Flags::SYN,
            window: 64240,
            mss: Some(1460),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 0x0a0b_0c0d, echo: 0 }),
            window_scale: Some(7),
            ..Segment::default()
        };
        let mut out = [0xff; MAX_HEADER_BYTES];
        let length = syn.encode_header(&mut out, 0x1234, 80);
        let expected = [
            0x12, 0x34, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, // fixed
            2, 4, 0x05, 0xb4, // maximum segment size 1460
            4, 2, 8, 10, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 0, // SACK permitted, timestamps
            1, 3, 3, 7, // window scale
        ];
        assert_eq!(&out[..length], &expected);
        assert_eq!(syn.header_bytes() as usize, length);
    }

    #[test]
    fn four_sack_blocks_fit_alone_and_three_beside_timestamps() {
        let mut ack = Segment { flags: Flags::ACK, ..Segment::default() };
        for i in 0..4 {
            ack.sack.push(SackBlock { start: Seq(i), end: Seq(i + 1) });
        }
        assert_eq!(ack.header_bytes(), 56);
        ack.timestamps = Some(Timestamps::default());
        assert_eq!(ack.header_bytes(), 60);
    }

    #[test]
    fn the_checksum_makes_a_segment_sum_to_all_ones() {
        // RFC 1071 §1: a receiver that sums everything, the checksum field included, finds 0xffff. Worked by hand:
        // 0a00+0001+0a00+0002+0006+0018 (pseudo-header, 20 + 4 bytes)
        // +0400+0050+0000+0001+0000+0002+5010+0064 (header) + payload sum 1234 = 8b16, complement 74e9.
        let ack = Segment {
            seq: Seq(1),
            ack: Seq(2),
            flags: Flags::ACK,
            window: 100,
            len: 4,
            ..Segment::default()
        };
        let mut out = [0; MAX_HEADER_BYTES];
        let length = ack.encode_header(&mut out, 1024, 80);
        let sum = checksum([10, 0, 0, 1], [10, 0, 0, 2], &out[..length], 4, 0x1234);
        let words: [u32; 15] = [0x0a00, 1, 0x0a00, 2, 6, 0x18, 0x400, 0x50, 0, 1, 0, 2, 0x5010, 0x64, 0x1234];
        assert_eq!(u32::from(sum), !words.iter().sum::<u32>() & 0xffff);
    }
}
