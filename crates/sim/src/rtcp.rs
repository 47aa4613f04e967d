//! RTCP (RFC 3550 §6): reports of the two ends of a call on the packets that they sent and received.
//!
//! A compound packet is a sender report, or a receiver report of an end that has not sent yet, with a report block once a
//! packet has been received, and a source description with the canonical name (§6.1). NTP times are simulated times: §6.4.1
//! allows the time since the start of the session.
//!
//! Left out: BYE, APP, extended reports (RFC 3611), encryption, and timer reconsideration (§6.3.6), which matters to groups.

use fairhop_control::digest::{ReceptionReport, RtcpFields};
use fairhop_model::units::Nanos;
use fairhop_model::voice::Jitter;

/// A compound packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// SSRC of the end that reports.
    pub ssrc: u32,
    /// Sender information; none in a receiver report.
    pub sender: Option<SenderInfo>,
    /// Report block; none before the first packet received.
    pub block: Option<ReceptionReport>,
}

/// Sender information of a sender report (§6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// Time of the report in 2⁻³² s.
    pub ntp: u64,
    /// Time of the report in units of the stream's timestamps.
    pub timestamp: u32,
    /// Packets sent.
    pub packets: u32,
    /// Payload bytes sent.
    pub bytes: u32,
}

const HEADER_AND_SSRC: u32 = 8;
const SENDER_INFO: u32 = 20;
const REPORT_BLOCK: u32 = 24;
/// Header, SSRC, an item of 16 bytes with its header, and padding.
const DESCRIPTION: u32 = 4 + 4 + 2 + 16 + 2;

/// A time as an NTP timestamp: units of 2⁻³² s.
pub fn ntp(time: Nanos) -> u64 {
    (u128::from(time.0) << 32).div_euclid(1_000_000_000) as u64
}

/// The middle 32 bits of an NTP timestamp, which identify a sender report (§6.4.1, LSR).
pub const fn middle(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

impl Report {
    /// Bytes of UDP payload.
    pub fn bytes(&self) -> u32 {
        self.first_bytes() + DESCRIPTION
    }

    fn first_bytes(&self) -> u32 {
        let sender = if self.sender.is_some() { SENDER_INFO } else { 0 };
        let block = if self.block.is_some() { REPORT_BLOCK } else { 0 };
        HEADER_AND_SSRC + sender + block
    }

    /// Appends the packet. The canonical name has 16 bytes, like those of RFC 7022.
    pub fn encode(&self, out: &mut Vec<u8>) {
        const VERSION: u8 = 2 << 6;
        const SENDER_REPORT: u8 = 200;
        const RECEIVER_REPORT: u8 = 201;
        const SOURCE_DESCRIPTION: u8 = 202;
        const CANONICAL_NAME: u8 = 1;
        let words = |bytes: u32| (bytes as u16 / 4 - 1).to_be_bytes();

        let kind = if self.sender.is_some() { SENDER_REPORT } else { RECEIVER_REPORT };
        out.extend([VERSION | u8::from(self.block.is_some()), kind]);
        out.extend(words(self.first_bytes()));
        out.extend(self.ssrc.to_be_bytes());
        if let Some(sender) = self.sender {
            out.extend(sender.ntp.to_be_bytes());
            for word in [sender.timestamp, sender.packets, sender.bytes] {
                out.extend(word.to_be_bytes());
            }
        }
        if let Some(block) = self.block {
            let lost = block.cumulative_lost.cast_unsigned() & 0x00ff_ffff;
            for word in [
                block.ssrc,
                u32::from(block.fraction_lost) << 24 | lost,
                block.highest_sequence,
                block.jitter,
                block.last_sender_report,
                block.delay_since,
            ] {
                out.extend(word.to_be_bytes());
            }
        }
        out.extend([VERSION | 1, SOURCE_DESCRIPTION]);
        out.extend(words(DESCRIPTION));
        out.extend(self.ssrc.to_be_bytes());
        let name = format!("{:08x}@fairhop", self.ssrc);
        out.extend([CANONICAL_NAME, name.len() as u8]);
        out.extend(name.as_bytes());
        out.extend([0, 0]);
    }

    /// The fields that a gateway reads.
    pub fn fields(&self) -> RtcpFields {
        RtcpFields {
            ssrc: self.ssrc,
            sender_report: self.sender.map(|sender| middle(sender.ntp)),
            report: self.block,
            ..RtcpFields::default()
        }
    }
}

/// Reception statistics of one end (RFC 3550 §6.4.1 and A.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reception {
    /// SSRC and first sequence number of the stream.
    first: Option<(u32, u32)>,
    highest: u32,
    received: u32,
    expected_before: u32,
    received_before: u32,
    jitter: Jitter,
    /// Middle bits of the last sender report, and its arrival time.
    last_report: Option<(u32, Nanos)>,
}

impl Reception {
    /// Records the arrival of a packet. Sequence numbers are extended beyond 16 bits.
    pub fn on_rtp(&mut self, now: Nanos, sent: Nanos, ssrc: u32, sequence: u32) {
        let (_, first) = *self.first.get_or_insert((ssrc, sequence));
        if sequence >= first {
            self.highest = self.highest.max(sequence);
            self.received += 1;
            self.jitter.update(sent, now);
        }
    }

    /// Records the arrival of a report.
    pub fn on_report(&mut self, now: Nanos, report: &Report) {
        if let Some(sender) = report.sender {
            self.last_report = Some((middle(sender.ntp), now));
        }
    }

    /// The jitter so far.
    pub fn jitter(&self) -> Nanos {
        self.jitter.value()
    }

    /// The report block to send now. It starts the next interval of `fraction_lost`. `clock_hz` is the frequency of the
    /// stream's timestamps.
    pub fn report(&mut self, now: Nanos, clock_hz: u32) -> Option<ReceptionReport> {
        const MAX_LOST: i64 = 0x7f_ffff;
        let (ssrc, first) = self.first?;
        let expected = self.highest - first + 1;
        let lost = i64::from(expected) - i64::from(self.received);
        let expected_now = expected - self.expected_before;
        let received_now = self.received - self.received_before;
        let lost_now = u64::from(expected_now.saturating_sub(received_now));
        (self.expected_before, self.received_before) = (expected, self.received);
        let ticks = u128::from(self.jitter.value().0) * u128::from(clock_hz) / 1_000_000_000;
        let (last_sender_report, delay_since) = self.last_report.map_or((0, 0), |(ntp, arrived)| {
            (ntp, ((u128::from(now.saturating_sub(arrived).0) << 16) / 1_000_000_000) as u32)
        });
        Some(ReceptionReport {
            ssrc,
            fraction_lost: (lost_now * 256).checked_div(u64::from(expected_now)).unwrap_or(0).min(255) as u8,
            cumulative_lost: lost.clamp(-MAX_LOST - 1, MAX_LOST) as i32,
            highest_sequence: self.highest,
            jitter: ticks as u32,
            last_sender_report,
            delay_since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Packets every 20 ms with a delay of 10 ms, but one of 26 ms. By hand: the jitter becomes 16/16 = 1 ms with that packet,
    /// then grows by (|−16| − 1)/16 = 15/16 ms.
    #[test]
    fn a_report_block_has_the_loss_since_the_last_one_and_in_total() {
        let mut reception = Reception::default();
        assert_eq!(reception.report(Nanos(0), 8000), None, "no packet has arrived");
        for sequence in (5..25).filter(|sequence| !(10..15).contains(sequence)) {
            let sent = Nanos(u64::from(sequence) * 20 * MS);
            reception.on_rtp(sent + Nanos(10 * MS), sent, 7, sequence);
        }
        let block = reception.report(Nanos(500 * MS), 8000).expect("a block");
        // 5 of 20: 64 of 256.
        assert_eq!((block.ssrc, block.fraction_lost, block.cumulative_lost), (7, 64, 5));
        assert_eq!((block.highest_sequence, block.jitter, block.last_sender_report), (24, 0, 0));

        let sender = SenderInfo { ntp: ntp(Nanos(480 * MS)), timestamp: 0, packets: 0, bytes: 0 };
        reception.on_report(Nanos(500 * MS), &Report { ssrc: 7, sender: Some(sender), block: None });
        for (sequence, late) in [(25, 16), (26, 0)] {
            let sent = Nanos(u64::from(sequence) * 20 * MS);
            reception.on_rtp(sent + Nanos((10 + late) * MS), sent, 7, sequence);
        }
        let block = reception.report(Nanos(1000 * MS), 8000).expect("a block");
        assert_eq!((block.fraction_lost, block.cumulative_lost), (0, 5));
        // 1.9375 ms at 8 kHz.
        assert_eq!(block.jitter, 15);
        // 0.48 s is 31457.28 of 65536; half a second is 32768.
        assert_eq!((block.last_sender_report, block.delay_since), (31_457, 32_768));
    }
}
