//! The loss of a call into the mesh, by what its listener asks to be sent again.
//!
//! The reports of an encrypted call cannot be read (SRTCP), but those who watch video ask for each missing packet with a generic NACK
//! (RFC 4585 §6.2.1). It goes alone as soon as the packet is missed (RFC 5506), and its header is in the clear (RFC 3711 §3.4), so that
//! its entries can be counted. An entry asks for one to 17 packets in a row. The sound shares its path with the video, and is lost about as often.
//!
//! What was missing before the gateway, or was dropped by it, is asked for as well, and several times. It shows in the sequence numbers,
//! as an observer sees packets behind the gateway's queues. Such a span and the next one tell nothing.
//!
//! Blind also where the listener has never asked, where little video goes into the mesh, and with more than [`SOURCES`] sources at a time.
//! A packet that is missing twice is asked for twice.

use fairhop_model::units::Nanos;

use super::FRESH;
use crate::digest::RtpFields;

/// Time over which packets and entries are counted: that over which calls are judged.
const SPAN: Nanos = Nanos::from_secs(1);
/// Packets within it from which their loss says something: some ten pictures of a packet each.
const ENOUGH: u32 = 10;
/// Sources that are known at a time: video and what is sent again of it, of two cameras.
const SOURCES: usize = 4;

/// The sequence numbers of a source.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    highest: u16,
}

/// Counts of the packets into the mesh that are no sound, and of the entries that ask for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nacks {
    /// The sources, the one with the latest packet first. Those after the first `known` are none.
    sources: [Source; SOURCES],
    known: u8,
    /// Packets were missing before the mesh, or may have been: since `since`, and in the span before.
    are_missing: [bool; 2],
    /// The listener has asked for something.
    has_asked: bool,
    since: Nanos,
    sent: u32,
    asked: u32,
    /// Loss in the mesh in the span that ended at `since`.
    loss: Option<f32>,
}

impl Nacks {
    pub(super) const fn new() -> Self {
        Self {
            sources: [Source { ssrc: 0, highest: 0 }; SOURCES],
            known: 0,
            are_missing: [false; 2],
            has_asked: false,
            since: Nanos::ZERO,
            sent: 0,
            asked: 0,
            loss: None,
        }
    }

    /// A packet of another source than the sound goes into the mesh.
    pub(super) fn on_packet(&mut self, rtp: &RtpFields) {
        self.sent += 1;
        let known = usize::from(self.known);
        let found = self.sources[..known].iter().position(|source| source.ssrc == rtp.ssrc);
        let place = found.unwrap_or_else(|| {
            let place = known.min(SOURCES - 1);
            // What is missing of a source that is forgotten is not seen.
            self.are_missing[0] |= known == SOURCES;
            self.known = place as u8 + 1;
            self.sources[place] = Source { ssrc: rtp.ssrc, highest: rtp.sequence };
            place
        });
        self.sources[..=place].rotate_right(1);
        let source = &mut self.sources[0];
        let ahead = rtp.sequence.wrapping_sub(source.highest);
        if ahead < 0x8000 {
            self.are_missing[0] |= ahead > 1;
            source.highest = rtp.sequence;
        }
    }

    /// The listener has sent RTCP, with so many entries.
    pub(super) fn on_rtcp(&mut self, at: Nanos, entries: u32) {
        self.has_asked |= entries > 0;
        self.asked += entries;
        if at.saturating_sub(self.since) < SPAN {
            return;
        }
        let tells = self.has_asked && self.are_missing == [false; 2] && self.sent >= ENOUGH;
        let loss = self.asked as f32 / self.sent.max(1) as f32;
        self.loss = tells.then_some(loss.min(1.0));
        self.are_missing = [false, self.are_missing[0]];
        (self.since, self.sent, self.asked) = (at, 0, 0);
    }

    /// Fraction lost between the gateway and the listener; none where nothing tells.
    pub(super) fn loss(&self, now: Nanos) -> Option<f64> {
        self.loss.filter(|_| now.saturating_sub(self.since) <= FRESH).map(f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(nacks: &mut Nacks, ssrc: u32, sequences: impl IntoIterator<Item = u16>) {
        for sequence in sequences {
            nacks.on_packet(&RtpFields { ssrc, sequence, ..RtpFields::default() });
        }
    }

    /// The loss in percent after RTCP with so many entries.
    fn loss(nacks: &mut Nacks, ms: u64, entries: u32) -> Option<f64> {
        nacks.on_rtcp(Nanos::from_millis(ms), entries);
        nacks.loss(Nanos::from_millis(ms)).map(|loss| (1000.0 * loss).round() / 10.0)
    }

    #[test]
    fn entries_over_packets_are_the_loss_once_the_listener_has_asked() {
        let mut nacks = Nacks::new();
        loss(&mut nacks, 10_000, 0);
        send(&mut nacks, 1, (65_500..=65_535).chain(0..14));
        assert_eq!(loss(&mut nacks, 11_000, 0), None, "a listener that never asks");
        send(&mut nacks, 1, 14..64);
        loss(&mut nacks, 11_500, 1);
        assert_eq!(loss(&mut nacks, 12_100, 1), Some(4.0));
        send(&mut nacks, 1, 64..114);
        assert_eq!(loss(&mut nacks, 13_100, 0), Some(0.0));
        assert_eq!(nacks.loss(Nanos::from_secs(16)), None, "no RTCP for longer than reports hold");
        assert_eq!(loss(&mut nacks, 17_000, 0), None, "no video");
    }

    #[test]
    fn where_packets_are_missing_before_the_mesh_a_span_and_the_next_one_tell_nothing() {
        let mut nacks = Nacks::new();
        loss(&mut nacks, 1000, 1);
        send(&mut nacks, 1, (0..10).chain(11..50));
        // In another order, nothing is missing.
        send(&mut nacks, 2, [100, 101, 103]);
        assert_eq!(loss(&mut nacks, 2000, 1), None);
        send(&mut nacks, 1, 50..100);
        assert_eq!(loss(&mut nacks, 3000, 2), None);
        send(&mut nacks, 1, 100..150);
        send(&mut nacks, 2, [102, 101]);
        assert_eq!(loss(&mut nacks, 4000, 2), Some(3.8));
    }

    #[test]
    fn more_sources_than_are_known_tell_nothing() {
        let mut nacks = Nacks::new();
        let mut each = |count: u32, ms, entries| {
            for sequence in 0..20 {
                let sequence = (ms / 1000) as u16 * 20 + sequence;
                (0..count).for_each(|ssrc| send(&mut nacks, ssrc, [sequence]));
            }
            loss(&mut nacks, ms, entries)
        };
        assert_eq!(each(5, 1000, 1), None);
        assert_eq!(each(4, 2000, 1), None, "the fifth was forgotten");
        assert_eq!(each(4, 3000, 4), None);
        assert_eq!(each(4, 4000, 4), Some(5.0));
    }
}
