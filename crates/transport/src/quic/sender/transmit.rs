//! Which datagram is sent next: probes, lost data, new data, acknowledgments; pacing.

use fairhop_model::units::Nanos;

use super::{Fate, Sender, Sent};
use crate::quic::intervals::Run;
use crate::quic::packet::{AckFrame, Datagram, HEADER_BYTES, StreamFrame};
use crate::quic::rtt::GRANULARITY;
use crate::tcp::RateEstimator;
use crate::tcp::congestion::{CongestionControl, OpenEvent, StartEvent};

impl Sender {
    /// The next datagram to send, if any. Call it after every other call until it returns none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Datagram> {
        if !self.opened {
            self.opened = true;
            let open = OpenEvent { now, srtt: None, mss: self.config.datagram_bytes };
            self.congestion.on_open(&mut self.window, &open);
        }
        self.pacing_timer = None;
        if self.probes_due > 0 {
            self.probes_due -= 1;
            return Some(self.send_probe(now));
        }
        if self.in_flight >= self.window.cwnd {
            self.limited = true;
            return self.send_bare_ack(now);
        }
        if now < self.release && self.has_data() {
            self.pacing_timer = Some(self.release);
            return self.send_bare_ack(now);
        }
        let frame = self
            .next_lost_data()
            .map(|frame| (frame, true))
            .or_else(|| self.next_new_data().map(|frame| (frame, false)));
        if let Some((frame, again)) = frame {
            return Some(self.send_stream(now, frame, again));
        }
        self.limited = false;
        if let Some(rate) = self.rate.as_deref_mut() {
            rate.limit(self.delivered, self.in_flight);
        }
        if self.is_blocked() && self.blocked_at != Some(self.max_data) {
            self.blocked_at = Some(self.max_data);
            self.blocked_count = (self.blocked_count + 1).min(u64::BITS - 1);
            self.stats.blocked_sent += 1;
            let blocked = Datagram { data_blocked: Some(self.max_data), ..Datagram::default() };
            return Some(self.send(now, blocked));
        }
        self.send_bare_ack(now)
    }

    fn has_data(&self) -> bool {
        !self.lost_data.is_empty() || self.next_new_data().is_some()
    }

    /// Data are offered beyond the receiver's credit.
    fn is_blocked(&self) -> bool {
        self.next == self.max_data && self.offered > self.next
    }

    /// Payload bytes at `offset` that fit into a packet.
    fn room(&self, offset: u64) -> u32 {
        let frame = StreamFrame { offset, len: self.config.datagram_bytes, fin: false };
        let ack = self.ack_frame().map_or(0, |ack| ack.wire_bytes());
        self.config.datagram_bytes.saturating_sub(HEADER_BYTES + ack + frame.header_bytes()).max(1)
    }

    fn ack_frame(&self) -> Option<AckFrame> {
        self.ack_due.and_then(|number| AckFrame::of(number, number))
    }

    /// The oldest lost bytes that have not arrived late.
    fn next_lost_data(&mut self) -> Option<StreamFrame> {
        while let Some(frame) = self.lost_data.front_mut() {
            let run = Run { start: frame.offset, end: frame.end() };
            let missing = self.delivered_data.first_missing(run);
            if missing.is_none() && (!frame.fin || self.fin_acked) {
                self.lost_data.pop_front();
                continue;
            }
            // An end of stream without payload keeps its offset.
            let missing = missing.unwrap_or(Run { start: run.end, end: run.end });
            let frame = *frame;
            let len = u64::from(self.room(missing.start)).min(missing.end - missing.start) as u32;
            let end = missing.start + u64::from(len);
            let fin = frame.fin && end == frame.end();
            if end == frame.end() {
                self.lost_data.pop_front();
            } else if let Some(rest) = self.lost_data.front_mut() {
                rest.len = (frame.end() - end) as u32;
                rest.offset = end;
            }
            return Some(StreamFrame { offset: missing.start, len, fin });
        }
        None
    }

    fn next_new_data(&self) -> Option<StreamFrame> {
        let open = self.offered.min(self.max_data).saturating_sub(self.next);
        let len = open.min(u64::from(self.room(self.next))) as u32;
        let fin = self.closing && !self.fin_sent && self.next + u64::from(len) == self.offered;
        (len > 0 || fin).then_some(StreamFrame { offset: self.next, len, fin })
    }

    fn send_stream(&mut self, now: Nanos, frame: StreamFrame, again: bool) -> Datagram {
        self.stats.bytes_sent += u64::from(frame.len);
        if again {
            self.stats.bytes_retransmitted += u64::from(frame.len);
            self.stats.packets_retransmitted += 1;
        } else {
            self.next = frame.end();
            self.fin_sent |= frame.fin;
        }
        self.send(now, Datagram { stream: Some(frame), ..Datagram::default() })
    }

    /// RFC 9002 §6.2.4: lost or new data if there are any, else those of the oldest packet in flight, else a PING. Neither
    /// the window nor pacing delays it.
    fn send_probe(&mut self, now: Nanos) -> Datagram {
        if let Some(frame) = self.next_lost_data() {
            return self.send_stream(now, frame, true);
        }
        if let Some(frame) = self.next_new_data() {
            return self.send_stream(now, frame, false);
        }
        let oldest = self.packets.iter().find(|packet| packet.fate == Fate::InFlight);
        match oldest.and_then(|packet| packet.stream) {
            Some(frame) => self.send_stream(now, frame, true),
            None => self.send(now, Datagram { ping: true, ..Datagram::default() }),
        }
    }

    /// Sends an ack-eliciting packet.
    fn send(&mut self, now: Nanos, datagram: Datagram) -> Datagram {
        if self.in_flight == 0 {
            let start = StartEvent {
                now,
                idle: now.saturating_sub(self.last_sent_at),
                app_limited: self.rate.as_deref().is_some_and(RateEstimator::is_limited),
                una: self.delivered_bytes,
                nxt: self.delivered_bytes,
            };
            self.congestion.on_start(&mut self.window, &start);
        }
        let datagram = self.numbered(now, datagram);
        let bytes = datagram.wire_bytes();
        self.packets.push_back(Sent { stream: datagram.stream, bytes, sent_at: now, fate: Fate::InFlight });
        self.in_flight += 1;
        self.bytes_in_flight += u64::from(bytes);
        self.last_sent_at = now;
        self.stats.packets_sent += 1;
        self.limited = self.in_flight >= self.window.cwnd;
        self.pace(now, bytes);
        self.set_recovery_timer(now);
        datagram
    }

    fn numbered(&mut self, now: Nanos, datagram: Datagram) -> Datagram {
        let ack = self.ack_frame();
        self.ack_due = None;
        let number = self.first + self.packets.len() as u64;
        if let Some(rate) = self.rate.as_deref_mut() {
            rate.on_sent(number, now, self.delivered, self.in_flight == 0);
        }
        Datagram { number, ack, ..datagram }
    }

    /// An acknowledgment without data.
    fn send_bare_ack(&mut self, now: Nanos) -> Option<Datagram> {
        self.ack_due?;
        let datagram = self.numbered(now, Datagram::default());
        // It uses a number, but its arrival is not tracked.
        self.packets.push_back(Sent { stream: None, bytes: 0, sent_at: Nanos::ZERO, fate: Fate::Untracked });
        Some(datagram)
    }

    /// RFC 9002 §7.7, or the controller's pacing rate.
    fn pace(&mut self, now: Nanos, bytes: u32) {
        let own = self.congestion.pacing_rate();
        let burst = if own.is_some() { 1 } else { u64::from(self.config.initial_window) };
        let default = || {
            let srtt = self.rtt.smoothed().filter(|srtt| *srtt > GRANULARITY && self.config.pacing)?;
            let window = u128::from(self.window.cwnd) * u128::from(self.config.datagram_bytes);
            u64::try_from(window * 1_000_000_000 * 5 / 4 / u128::from(srtt.0)).ok()
        };
        let Some(rate) = own.or_else(default).filter(|&rate| rate > 0) else {
            self.release = Nanos::ZERO;
            return;
        };
        let time = |bytes: u64| {
            Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)).min(u128::from(u64::MAX)) as u64)
        };
        let allowance = time(u64::from(self.config.datagram_bytes) * (burst - 1));
        self.release = self.release.max(now.saturating_sub(allowance)).saturating_add(time(u64::from(bytes)));
    }
}
