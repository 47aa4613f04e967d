//! A datagram without its payload: the frames in use (RFC 9000 §19) and their lengths on the wire.

use super::intervals::Run;

/// Length of a variable-length integer (RFC 9000 §16).
pub(super) const fn varint_bytes(value: u64) -> u32 {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// The AEAD tag (RFC 9001 §5.3).
pub(super) const TAG_BYTES: u32 = 16;

/// Short header (RFC 9000 §17.3.1) with a connection ID of eight bytes and a packet number of two, which suffices for 2¹⁵
/// packets since the last one acknowledged (§17.1), and the tag.
pub(super) const HEADER_BYTES: u32 = 1 + 8 + 2 + TAG_BYTES;

/// Minimum bytes of frames after a packet number of two bytes, for the sample of header protection (RFC 9001 §5.4.2).
const MIN_FRAMES_BYTES: u32 = 2;

/// STREAM (RFC 9000 §19.8), of stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFrame {
    /// Offset of its first byte.
    pub offset: u64,
    /// Payload in bytes.
    pub len: u32,
    /// The stream ends with it.
    pub fin: bool,
}

impl StreamFrame {
    /// Past its last byte.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Type, stream ID, offset and length.
    pub(super) const fn header_bytes(&self) -> u32 {
        2 + varint_bytes(self.offset) + varint_bytes(self.len as u64)
    }
}

/// ACK (RFC 9000 §19.3): ranges of packet numbers that arrived, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrame {
    /// Time from the arrival of the largest number to this acknowledgment in microseconds; on the wire in units of 8 µs
    /// (RFC 9000 §18.2, ack_delay_exponent).
    pub delay_us: u32,
    largest: u64,
    /// Distance of the last and of the first number of each range from the largest number. Entries past `count` stay zero,
    /// so that equality compares the ranges in use.
    ranges: [(u32, u32); Self::MAX],
    count: u8,
}

impl AckFrame {
    /// Maximum number of ranges in a frame; the lowest are left out (RFC 9000 §13.2.3).
    pub const MAX: usize = 16;

    /// A frame with one range; `None` if the range is empty.
    pub fn of(first: u64, last: u64) -> Option<Self> {
        let len = u32::try_from(last.checked_sub(first)?).ok()?;
        let mut ranges = [(0, 0); Self::MAX];
        ranges[0] = (0, len);
        Some(Self { delay_us: 0, largest: last, ranges, count: 1 })
    }

    /// Adds the next lower range; returns whether it was added. Ranges must not be adjacent.
    pub fn push(&mut self, first: u64, last: u64) -> bool {
        let lowest = self.largest - u64::from(self.ranges[usize::from(self.count) - 1].1);
        let ends = (self.largest.checked_sub(last), self.largest.checked_sub(first));
        let (Some(near), Some(far)) = ends else { return false };
        let (Ok(near), Ok(far)) = (u32::try_from(near), u32::try_from(far)) else { return false };
        if usize::from(self.count) == Self::MAX || first > last || last.saturating_add(1) >= lowest {
            return false;
        }
        self.ranges[usize::from(self.count)] = (near, far);
        self.count += 1;
        true
    }

    /// From runs in ascending order; `None` if there are none.
    pub(super) fn from_runs(runs: &[Run]) -> Option<Self> {
        let (highest, lower) = runs.split_last()?;
        let lowest = highest.start.max(highest.end.saturating_sub(u64::from(u32::MAX)));
        let mut frame = Self::of(lowest, highest.end - 1)?;
        lower.iter().rev().take_while(|run| frame.push(run.start, run.end - 1)).count();
        Some(frame)
    }

    /// The largest number that arrived.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// First and last number of each range, the highest range first.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let largest = self.largest;
        self.ranges[..usize::from(self.count)].iter().map(move |&(near, far)| {
            (largest.saturating_sub(u64::from(far)), largest.saturating_sub(u64::from(near)))
        })
    }

    pub(super) fn wire_bytes(&self) -> u32 {
        let ranges = &self.ranges[..usize::from(self.count)];
        let mut bytes = 1
            + varint_bytes(self.largest)
            + varint_bytes(u64::from(self.delay_us / 8))
            + varint_bytes(ranges.len() as u64 - 1)
            + varint_bytes(u64::from(ranges[0].1));
        for pair in ranges.windows(2) {
            // RFC 9000 §19.3.1: the gap less two, and the length less one.
            bytes += varint_bytes(u64::from(pair[1].0 - pair[0].1).saturating_sub(2));
            bytes += varint_bytes(u64::from(pair[1].1 - pair[1].0));
        }
        bytes
    }
}

/// A UDP datagram with one packet. Each side has its own packet numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Packet number.
    pub number: u64,
    /// Data.
    pub stream: Option<StreamFrame>,
    /// Acknowledgment.
    pub ack: Option<AckFrame>,
    /// MAX_DATA (RFC 9000 §19.9): maximum end of the stream.
    pub max_data: Option<u64>,
    /// DATA_BLOCKED (RFC 9000 §19.12) at this limit.
    pub data_blocked: Option<u64>,
    /// PING (RFC 9000 §19.2).
    pub ping: bool,
}

impl Datagram {
    /// Whether the other side has to acknowledge it (RFC 9000 §13.2).
    pub fn is_ack_eliciting(&self) -> bool {
        self.stream.is_some() || self.max_data.is_some() || self.data_blocked.is_some() || self.ping
    }

    /// Payload of the UDP datagram in bytes: header, frames and AEAD tag, as encoded by [`super::wire`].
    pub fn wire_bytes(&self) -> u32 {
        let limit = |limit: Option<u64>| limit.map_or(0, |limit| 1 + varint_bytes(limit));
        let frames = self.stream.map_or(0, |frame| frame.header_bytes() + frame.len)
            + self.ack.map_or(0, |frame| frame.wire_bytes())
            + limit(self.max_data)
            + limit(self.data_blocked)
            + u32::from(self.ping);
        HEADER_BYTES + frames.max(MIN_FRAMES_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9000_16_and_19_frames_are_as_long_as_their_encodings() {
        assert_eq!([0, 63, 64, 16_383, 16_384, 1 << 30].map(varint_bytes), [1, 1, 2, 2, 4, 8]);
        let stream = StreamFrame { offset: 70_000, len: 1200, fin: false };
        assert_eq!(
            Datagram { stream: Some(stream), ..Datagram::default() }.wire_bytes(),
            27 + 1 + 1 + 4 + 2 + 1200
        );
        // Type, largest 100 (two bytes), delay 25 ms / 8 µs = 3125 (two), one more range, first range 4; gap, length.
        let mut ack = AckFrame::of(96, 100).expect("a range");
        ack.delay_us = 25_000;
        assert!(ack.push(20, 90));
        assert_eq!(ack.wire_bytes(), 1 + 2 + 2 + 1 + 1 + 1 + 2);
    }

    #[test]
    fn ranges_are_returned_highest_first_and_must_not_be_adjacent() {
        let mut ack = AckFrame::of(8, 10).expect("a range");
        assert!(!ack.push(5, 7), "adjacent to the one above");
        assert!(ack.push(5, 6) && ack.push(1, 1));
        assert!(!ack.push(3, 3), "above the last");
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [(8, 10), (5, 6), (1, 1)]);
        let runs: Vec<_> = (0..40).map(|i| Run { start: 10 * i, end: 10 * i + 5 }).collect();
        let ack = AckFrame::from_runs(&runs).expect("runs");
        assert_eq!((ack.largest(), ack.ranges().count(), ack.ranges().last()), (394, 16, Some((240, 244))));
        assert!(AckFrame::of(3, 2).is_none() && AckFrame::from_runs(&[]).is_none());
    }
}
