//! Acknowledged and lost packets: RFC 9002 §6 and §7.6.

use fairhop_model::units::Nanos;

use super::{Fate, Sender};
use crate::quic::intervals::Run;
use crate::quic::packet::AckFrame;
use crate::tcp::congestion::{CongestionControl, LossEvent, Phase, Reason};

/// Packets newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newly {
    pub(super) packets: u32,
    pub(super) bytes: u64,
    /// Packets that had been declared lost.
    pub(super) late: u32,
    pub(super) largest: Option<u64>,
    pub(super) largest_sent_at: Option<Nanos>,
}

impl Sender {
    /// Marks acknowledged packets. Ranges of the last acknowledgment are skipped.
    pub(super) fn take_ranges(&mut self, ack: &AckFrame) -> Newly {
        let mut newly = Newly::default();
        let known = std::mem::replace(&mut self.known_ranges, [(1, 0); AckFrame::MAX]);
        for (i, (first, last)) in ack.ranges().enumerate() {
            self.known_ranges[i] = (first, last);
            match known.iter().find(|old| old.0 <= old.1 && first <= old.0 && old.1 <= last) {
                Some(&(old_first, old_last)) => {
                    self.take_range(old_last + 1, last, &mut newly);
                    if old_first > first {
                        self.take_range(first, old_first - 1, &mut newly);
                    }
                }
                None => self.take_range(first, last, &mut newly),
            }
        }
        self.forget_decided();
        newly
    }

    fn take_range(&mut self, first: u64, last: u64, newly: &mut Newly) {
        for number in (first.max(self.first)..=last).rev() {
            let Some(packet) = self.packets.get_mut((number - self.first) as usize) else { continue };
            let fate = std::mem::replace(&mut packet.fate, Fate::Acknowledged);
            let packet = *packet;
            if matches!(fate, Fate::Acknowledged | Fate::Untracked) {
                continue;
            }
            if let Some(frame) = packet.stream {
                self.delivered_data.insert(Run { start: frame.offset, end: frame.end() });
                self.fin_acked |= frame.fin;
            }
            if fate == Fate::Lost {
                self.stats.spurious_losses += 1;
                newly.late += 1;
            } else {
                self.in_flight -= 1;
                self.bytes_in_flight -= u64::from(packet.bytes);
                newly.packets += 1;
                newly.bytes += u64::from(packet.bytes);
            }
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.bytes);
            if newly.largest.is_none() {
                newly.largest = Some(number);
                newly.largest_sent_at = Some(packet.sent_at);
            }
        }
    }

    /// Removes packets whose fate is known. Lost packets stay for a while, because they may be late.
    fn forget_decided(&mut self) {
        const KEPT_LOST: u64 = 64;
        while let Some(packet) = self.packets.front() {
            let late = packet.fate == Fate::Lost && self.first + KEPT_LOST >= self.undecided;
            if packet.fate == Fate::InFlight || late {
                break;
            }
            if packet.fate == Fate::Acknowledged && self.first >= self.undecided {
                self.loss_run = None;
            }
            self.packets.pop_front();
            self.first += 1;
        }
        self.undecided = self.undecided.max(self.first);
    }

    /// RFC 9002 §6.1; returns the number of newly lost packets.
    pub(super) fn detect_losses(&mut self, now: Nanos) -> u32 {
        self.loss_timer = None;
        let Some(largest) = self.largest_acked else { return 0 };
        let threshold = self.rtt.time_threshold();
        let (mut lost, mut persistent, mut newest) = (0, false, None);
        while self.undecided < largest {
            let Some(packet) = self.packets.get((self.undecided - self.first) as usize).copied() else {
                break;
            };
            match packet.fate {
                Fate::InFlight => {
                    let due = packet.sent_at.saturating_add(threshold);
                    if self.undecided + Self::PACKET_THRESHOLD > largest && now < due {
                        self.loss_timer = Some(due);
                        break;
                    }
                    lost += 1;
                    newest = Some(self.undecided);
                    persistent |= self.lose(self.undecided);
                }
                Fate::Acknowledged => self.loss_run = None,
                Fate::Lost | Fate::Untracked => {}
            }
            self.undecided += 1;
        }
        if let Some(newest) = newest {
            self.react_to_loss(now, newest, persistent);
        }
        self.forget_decided();
        lost
    }

    /// Declares a packet lost. Returns whether all packets over the period of persistent congestion have been lost (RFC 9002
    /// §7.6.1 and §7.6.2).
    fn lose(&mut self, number: u64) -> bool {
        let Some(packet) = self.packets.get_mut((number - self.first) as usize) else { return false };
        packet.fate = Fate::Lost;
        let packet = *packet;
        self.in_flight -= 1;
        self.bytes_in_flight -= u64::from(packet.bytes);
        self.stats.packets_lost += 1;
        if let Some(frame) = packet.stream {
            self.lost_data.push_back(frame);
        } else {
            self.blocked_at = None;
        }
        // Only packets sent after the first sample count.
        if self.rtt.first_at().is_none_or(|at| packet.sent_at <= at) {
            return false;
        }
        let begin = *self.loss_run.get_or_insert(packet.sent_at);
        let long = self.rtt.probe_timeout(self.config.max_ack_delay) * Self::PERSISTENT_THRESHOLD;
        packet.sent_at.saturating_sub(begin) >= long
    }

    /// RFC 9002 §7.3.1 and §7.6.2.
    fn react_to_loss(&mut self, now: Nanos, newest: u64, persistent: bool) {
        let event = LossEvent {
            now,
            reason: Reason::Loss,
            // RFC 9002 §7.3.2 reduces the window and not the data in flight.
            flight: self.in_flight.max(self.window.cwnd),
            in_flight: self.in_flight,
            delivered: self.delivered,
            lost: self.stats.packets_lost,
            una: self.delivered_bytes,
            nxt: self.delivered_bytes + self.bytes_in_flight,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min_rtt(),
            mss: self.config.datagram_bytes,
            phase: self.phase,
        };
        let fresh = newest >= self.recovery_from;
        if fresh {
            self.stats.recoveries += 1;
            self.recovery_from = self.first + self.packets.len() as u64;
        }
        if persistent {
            self.stats.persistent_congestion += 1;
            self.loss_run = None;
            let ssthresh = self.window.ssthresh;
            self.congestion.on_timeout(&mut self.window, &event);
            if !fresh {
                // The threshold is already reduced.
                self.window.ssthresh = ssthresh;
            }
            self.window.cwnd = Self::MINIMUM_WINDOW;
            self.phase = Phase::Loss;
        } else if fresh {
            self.congestion.on_enter_recovery(&mut self.window, &event);
            self.window.cwnd = self.window.cwnd.max(Self::MINIMUM_WINDOW);
            self.phase = Phase::Recovery;
        }
    }

    /// RFC 9002 §6.2.1: the timer starts at the last packet sent. With nothing in flight it runs while the sender is blocked
    /// by missing credit (RFC 9000 §4.1).
    pub(super) fn set_recovery_timer(&mut self, now: Nanos) {
        self.probe_timer = None;
        let waiting = self.in_flight == 0 && self.blocked_at.is_some();
        if self.in_flight == 0 && !waiting {
            return;
        }
        let timeout = self.rtt.probe_timeout(self.config.max_ack_delay);
        let backoff = if waiting { self.blocked_count } else { self.probe_count };
        let backed_off = u128::from(timeout.0) << backoff;
        let timeout = Nanos(u64::try_from(backed_off).unwrap_or(u64::MAX)).min(self.config.max_probe_timeout);
        let from = if waiting { now } else { self.last_sent_at };
        self.probe_timer = Some(from.saturating_add(timeout).max(now));
    }
}
