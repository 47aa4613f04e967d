//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng): section header, interface description with nanosecond timestamps, and
//! enhanced packet. Little-endian, one section per file, appended to a buffer.

/// Link type of Ethernet frames.
pub(super) const LINKTYPE_ETHERNET: u16 = 1;
/// Link type of 802.11 frames after a radiotap header.
pub(super) const LINKTYPE_IEEE802_11_RADIOTAP: u16 = 127;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION_TEXT: u16 = 3;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// Bytes of an enhanced packet block besides the packet: 32 for header and trailer, 12 for the flags option.
#[cfg(test)]
pub(super) const PACKET_OVERHEAD: usize = 44;

/// Direction of a packet in the packet flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Received.
    Inbound = 1,
    /// Sent.
    Outbound = 2,
}

/// Appends a block. `content` writes its body, which must be a multiple of 4 bytes.
fn block(out: &mut Vec<u8>, kind: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    content(out);
    let length = (out.len() - start + 4) as u32;
    out.extend(length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

fn pad(out: &mut Vec<u8>, bytes: usize) {
    out.extend_from_slice(&[0; 3][..bytes.wrapping_neg() & 3]);
}

/// Appends an option, unless its length exceeds 16 bits.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    if let Ok(length) = u16::try_from(value.len()) {
        out.extend(code.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend_from_slice(value);
        pad(out, value.len());
    }
}

/// Appends the section header, which starts the file. Readers show the comment.
pub(super) fn section_header(out: &mut Vec<u8>, application: &str, comment: &str) {
    block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend(1_u16.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        out.extend(u64::MAX.to_le_bytes()); // section length: unspecified
        option(out, COMMENT, comment.as_bytes());
        option(out, SECTION_APPLICATION, application.as_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends the description of the next interface, numbered from 0. There is no limit on the captured length.
pub(super) fn interface(out: &mut Vec<u8>, link_type: u16, name: &str, description: &str) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(link_type.to_le_bytes());
        out.extend([0; 2]);
        out.extend(0_u32.to_le_bytes());
        option(out, INTERFACE_NAME, name.as_bytes());
        option(out, INTERFACE_DESCRIPTION_TEXT, description.as_bytes());
        option(out, INTERFACE_TIME_RESOLUTION, &[9]);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends a packet. `content` writes its bytes.
pub(super) fn packet(
    out: &mut Vec<u8>,
    interface: u32,
    at_ns: u64,
    direction: Direction,
    content: impl FnOnce(&mut Vec<u8>),
) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend(interface.to_le_bytes());
        out.extend(((at_ns >> 32) as u32).to_le_bytes());
        out.extend((at_ns as u32).to_le_bytes());
        let lengths = out.len();
        out.extend([0; 8]);
        content(out);
        let length = out.len() - lengths - 8;
        for field in [lengths, lengths + 4] {
            out[field..field + 4].copy_from_slice(&(length as u32).to_le_bytes());
        }
        pad(out, length);
        option(out, PACKET_FLAGS, &(direction as u32).to_le_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Moves the last packet of the buffer before all packets of a later time in the buffer. It walks backwards over the block
/// lengths at the ends of blocks.
pub(super) fn put_last_packet_in_order(buffer: &mut [u8]) {
    let word = |at: usize| buffer.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let start_of_block = |end: usize| {
        let length = word(end.checked_sub(4)?)?;
        end.checked_sub(length as usize)
    };
    let time = |start: usize| {
        let is_packet = word(start)? == ENHANCED_PACKET;
        is_packet.then_some((word(start + 12)?, word(start + 16)?))
    };
    let Some(last) = start_of_block(buffer.len()) else { return };
    let at = time(last);
    let mut place = last;
    while let Some(before) = start_of_block(place)
        && time(before) > at
    {
        place = before;
    }
    buffer[place..].rotate_left(last - place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_layout_of_the_draft() {
        let mut out = Vec::new();
        section_header(&mut out, "fh", "c");
        interface(&mut out, LINKTYPE_ETHERNET, "eth0", "");
        packet(&mut out, 0, 0x0001_0002_0003_0004, Direction::Outbound, |out| out.extend([1, 2, 3, 4, 5]));
        #[rustfmt::skip]
        let expected = [
            // Section header: type, length 48, magic, version 1.0, unknown length, comment, application, end.
            0x0a, 0x0d, 0x0d, 0x0a, 48, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            1, 0, 1, 0, b'c', 0, 0, 0, 4, 0, 2, 0, b'f', b'h', 0, 0, 0, 0, 0, 0, 48, 0, 0, 0,
            // Interface description: type, length 44, link type, no limit, name, description, 10⁻⁹ s, end.
            1, 0, 0, 0, 44, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 4, 0, b'e', b't', b'h', b'0', 3, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 44, 0, 0, 0,
            // Enhanced packet: type, length 52, interface, time high and low, 5 bytes of 5, padding, flags, end.
            6, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 4, 0, 3, 0, 5, 0, 0, 0, 5, 0, 0, 0,
            1, 2, 3, 4, 5, 0, 0, 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0,
        ];
        assert_eq!(out, expected);
        assert_eq!(52, PACKET_OVERHEAD + 8);
    }

    #[test]
    fn packets_are_sorted_by_time() {
        let file = |times: &[u64]| {
            let mut out = Vec::new();
            section_header(&mut out, "", "");
            for &at in times {
                packet(&mut out, 0, at, Direction::Inbound, |out| out.resize(out.len() + at as usize % 7, 0));
                put_last_packet_in_order(&mut out);
            }
            out
        };
        assert_eq!(file(&[5, 1 << 33, 7, 6, 6, 9]), file(&[5, 6, 6, 7, 9, 1 << 33]));
        assert_eq!(file(&[3, 2, 1]), file(&[1, 2, 3]));
    }

    #[test]
    fn a_comment_that_is_too_long_is_left_out() {
        let mut out = Vec::new();
        section_header(&mut out, "fh", &"x".repeat(70_000));
        assert_eq!(out.len(), 40);
    }
}
