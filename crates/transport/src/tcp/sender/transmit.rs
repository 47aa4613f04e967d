//! Which segment is sent next: handshake, acknowledgments, retransmissions, new data, pacing and window probes.

use fairhop_model::units::Nanos;

use super::{Sender, SenderState, Timer};
use crate::tcp::congestion::{CongestionControl, Phase, StartEvent};
use crate::tcp::rate::RateEstimator;
use crate::tcp::scoreboard::Sent;
use crate::tcp::segment::{Ecn, Flags, Segment, Timestamps};
use crate::tcp::timestamp_clock;

/// Segments that leave before pacing begins, as in Linux and its `fq`.
const UNPACED_SEGMENTS: u64 = 10;

impl Sender {
    /// The next segment to send, if any. Call it after every other call until it returns none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        match self.state {
            SenderState::Closed | SenderState::Failed => None,
            SenderState::SynSent => self.poll_syn(now),
            _ => self.poll_synchronized(now),
        }
    }

    fn poll_syn(&mut self, now: Nanos) -> Option<Segment> {
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        self.last_data_sent = now;
        self.start_timer(Timer::Retransmission, now);
        Some(Segment {
            seq: self.origin - 1,
            // RFC 3168 §6.1.1. A retransmitted SYN has no ECN bits, because they may have caused the loss (§6.1.1.1).
            flags: Flags::SYN
                | if self.config.ecn && self.retries == 0 { Flags::ECE | Flags::CWR } else { Flags::NONE },
            window: u16::MAX,
            mss: Some(self.config.mss.min(u32::from(u16::MAX)) as u16),
            window_scale: Some(self.config.window_scale),
            sack_permitted: self.config.sack,
            timestamps: self.config.timestamps.then(|| Timestamps { value: timestamp_clock(now), echo: 0 }),
            ..Segment::default()
        })
    }

    fn poll_synchronized(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.ack_due) {
            return Some(self.segment(now, self.nxt, 0, false));
        }
        if std::mem::take(&mut self.probe_due) && self.board.is_empty() && self.offered > self.nxt {
            return Some(self.probe(now));
        }
        let segment = self.next_data(now);
        if segment.is_none() {
            self.watch_closed_window(now);
            self.note_app_limit();
        }
        segment
    }

    /// Linux's `tcp_rate_check_app_limited`: the window allows more, but there is nothing to send.
    fn note_app_limit(&mut self) {
        let limited = !self.pacing_wait
            && self.offered.saturating_sub(self.nxt) < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd;
        if let Some(rate) = self.rate.as_deref_mut().filter(|_| limited) {
            rate.limit(self.delivered, self.board.in_flight());
        }
    }

    /// Whether pacing delays the next packet.
    fn waits_for_pacing(&mut self, now: Nanos) -> bool {
        self.pacing_wait = false;
        if !self.paces || now >= self.release {
            return false;
        }
        self.pacing_wait = self.board.in_flight() < self.window.cwnd
            && (self.board.next_lost().is_some() || self.next_new_segment().is_some());
        true
    }

    /// Linux's `tcp_update_skb_after_send`.
    fn pace(&mut self, now: Nanos, len: u32) {
        let Some(rate) = self.congestion.pacing_rate().filter(|&rate| rate > 0) else { return };
        let late = now.saturating_sub(self.release);
        self.release = self.release.max(now);
        if self.stats.segments_sent >= UNPACED_SEGMENTS {
            let gap = u64::from(len).saturating_mul(1_000_000_000) / rate;
            self.release = self.release.saturating_add(Nanos(gap - late.0.min(gap / 2)));
        }
    }

    /// RFC 8985 §7.3: new data if there are any, regardless of the congestion window, else the last segment again.
    fn tail_probe(&mut self, now: Nanos) -> Option<Segment> {
        let racktlp = self.racktlp.as_deref_mut()?;
        if !std::mem::take(&mut racktlp.probe_due) {
            return None;
        }
        if let Some((len, fin)) = self.next_new_segment() {
            let segment = self.send_new(now, len, fin);
            self.note_probe(now, false);
            return Some(segment);
        }
        let number = self.board.unreported_tail()?;
        let segment = self.retransmit(now, number, true);
        self.note_probe(now, true);
        segment
    }

    /// RFC 5682 §3 step 2: after a timeout, new data are sent before retransmissions. The outer option is none if F-RTO
    /// does not decide what is sent.
    fn next_of_frto(&mut self, now: Nanos) -> Option<Option<Segment>> {
        if !self.racktlp.as_deref().is_some_and(|this| this.new_data_first) {
            return None;
        }
        if let Some((len, fin)) = self.next_new_segment() {
            return Some(Some(self.send_new(now, len, fin)));
        }
        if self.recovery_point.is_some_and(|point| self.nxt > point) {
            return Some(None);
        }
        self.cancel_frto();
        None
    }

    /// RFC 6675 §5 steps 4.3 and C, NextSeg of §4; new data otherwise (RFC 9293 §3.8.6.2.1).
    fn next_data(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.retransmit_now)
            && let Some(number) = self.board.next_lost()
        {
            return self.retransmit(now, number, false);
        }
        if self.racktlp.is_some()
            && let Some(segment) = self.tail_probe(now)
        {
            return Some(segment);
        }
        if self.waits_for_pacing(now) {
            return None;
        }
        if self.board.in_flight() >= self.window.cwnd {
            self.validate_cwnd(now, true);
            return None;
        }
        if self.racktlp.is_some()
            && let Some(segment) = self.next_of_frto(now)
        {
            return segment;
        }
        if let Some(number) = self.board.next_lost() {
            return self.retransmit(now, number, false);
        }
        if let Some((len, fin)) = self.next_new_segment() {
            return Some(self.send_new(now, len, fin));
        }
        if self.phase != Phase::Recovery || !self.sack || self.racktlp.is_some() {
            return None;
        }
        if let Some(number) = self.board.next_hole() {
            return self.retransmit(now, number, false);
        }
        if std::mem::take(&mut self.rescue_left)
            && let Some(number) = self.board.unreported_tail()
        {
            return self.retransmit(now, number, true);
        }
        None
    }

    /// Payload and FIN of the next new segment, if the receiver's window allows one without silly windows.
    pub(super) fn next_new_segment(&self) -> Option<(u32, bool)> {
        if self.fin_sent || self.config.max_window.is_some_and(|max| self.board.outstanding() >= max) {
            return None;
        }
        let queued = self.offered - self.nxt;
        let usable = self.usable_window();
        let len = queued.min(usable).min(u64::from(self.mss)) as u32;
        let all = u64::from(len) == queued;
        if len == 0 {
            // FIN occupies no buffer space.
            return (self.closing && all).then_some((0, true));
        }
        let worth_it = len == self.mss || all || 2 * u64::from(len) >= self.max_peer_window;
        worth_it.then_some((len, self.closing && all))
    }

    fn usable_window(&self) -> u64 {
        (self.una + self.peer_window).saturating_sub(self.nxt)
    }

    fn send_new(&mut self, now: Nanos, len: u32, fin: bool) -> Segment {
        self.restart_after_idle(now);
        let idle = self.board.is_empty();
        if self.board.in_flight() == 0 {
            self.start(now);
        }
        let start = self.nxt;
        let number = self.board.next_number();
        self.nxt += u64::from(len) + u64::from(fin);
        if fin {
            self.fin_sent = true;
            self.state = match self.state {
                SenderState::Established => SenderState::FinWait1,
                state => state,
            };
        }
        self.board.push(Sent {
            start,
            len,
            fin,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
            sent_at: now,
        });
        self.note_sent(now, number, len, idle);
        if self.racktlp.is_some() {
            if idle || matches!(self.timer, None | Some((Timer::Probe, _))) {
                self.rearm(now);
            }
            self.schedule_probe(now, false);
        } else if !matches!(self.timer, Some((Timer::Retransmission, _))) {
            // RFC 6298 §5.1.
            self.start_timer(Timer::Retransmission, now);
        }
        self.validate_cwnd(now, self.board.in_flight() >= self.window.cwnd);
        let mut segment = self.segment(now, start, len, fin);
        // RFC 9293 §3.9.1.2 leaves it to the sender where it pushes within a stream.
        let end = start + u64::from(len);
        if self.config.pushes && end > self.pushed + self.max_peer_window / 2 {
            segment.flags = segment.flags | Flags::PSH;
        }
        if segment.flags.has(Flags::PSH) {
            self.pushed = end;
        }
        if self.ecn && len > 0 {
            // RFC 3168 §6.1.4 and §6.1.5: new data are ECN-capable, retransmissions and pure acknowledgments are not.
            segment.ecn = Ecn::Ect0;
            if std::mem::take(&mut self.cwr_due) {
                segment.flags = segment.flags | Flags::CWR;
            }
        }
        segment
    }

    /// Data are sent after nothing was in flight.
    fn start(&mut self, now: Nanos) {
        let start = StartEvent {
            now,
            idle: now.saturating_sub(self.last_data_sent),
            app_limited: self.rate.as_deref().is_some_and(RateEstimator::is_limited),
            una: self.una,
            nxt: self.nxt,
        };
        self.congestion.on_start(&mut self.window, &start);
    }

    /// A segment is sent or retransmitted.
    fn note_sent(&mut self, now: Nanos, number: u64, len: u32, idle: bool) {
        self.stats.segments_sent += 1;
        self.stats.bytes_sent += u64::from(len);
        self.last_data_sent = now;
        if self.prr.is_active() {
            self.prr.on_sent();
        }
        if let Some(racktlp) = self.racktlp.as_deref_mut() {
            racktlp.rack.on_sent(number, now);
        }
        if let Some(rate) = self.rate.as_deref_mut() {
            rate.on_sent(number, now, self.delivered, idle);
        }
        if self.paces {
            self.pace(now, len);
        }
    }

    fn retransmit(&mut self, now: Nanos, number: u64, rescue: bool) -> Option<Segment> {
        let Sent { start, len, fin, .. } = self.board.retransmit(number, now, rescue)?;
        self.note_sent(now, number, len, false);
        self.stats.segments_retransmitted += 1;
        self.stats.bytes_retransmitted += u64::from(len);
        if self.racktlp.is_some() {
            self.note_retransmission(now);
            if self.board.is_first(number) && !matches!(self.timer, Some((Timer::Reordering, _))) {
                self.timer = None;
                self.rearm(now);
            }
            return Some(self.segment(now, start, len, fin));
        }
        // As in Linux, the fast retransmission of the oldest segment gets a whole timeout; but see `restart_timer`.
        let fresh = self.phase == Phase::Recovery
            && self.board.is_first(number)
            && (self.sack || !self.partial_ack_seen);
        if self.timer.is_none() || fresh {
            self.start_timer(Timer::Retransmission, now);
        }
        Some(self.segment(now, start, len, fin))
    }

    fn segment(&self, now: Nanos, start: u64, len: u32, fin: bool) -> Segment {
        let mut flags = Flags::ACK;
        if fin {
            flags = flags | Flags::FIN;
        }
        if len > 0 && start + u64::from(len) == self.offered {
            flags = flags | Flags::PSH;
        }
        Segment {
            seq: self.origin.at(start),
            ack: self.expected,
            flags,
            window: u16::MAX,
            len,
            timestamps: self
                .timestamps
                .then(|| Timestamps { value: timestamp_clock(now), echo: self.recent_timestamp }),
            ..Segment::default()
        }
    }

    /// Starts the persist timer if nothing is in flight and the window prevents sending (RFC 9293 §3.8.6.1).
    fn watch_closed_window(&mut self, now: Nanos) {
        let waiting = self.board.is_empty() && self.timer.is_none() && self.offered > self.nxt;
        if waiting && self.next_new_segment().is_none() {
            self.start_timer(Timer::Persist, now);
        }
    }

    /// Sends the data that fit, however few (RFC 9293 §3.8.6.2.1 (4)). If none fit, as in Linux, an empty segment that the
    /// receiver must answer because it is old (RFC 9293 §3.10.7.4); the standard sends an octet.
    pub(super) fn probe(&mut self, now: Nanos) -> Segment {
        let len = (self.offered - self.nxt).min(self.usable_window()).min(u64::from(self.mss)) as u32;
        self.stats.window_probes += 1;
        if len > 0 {
            let fin = self.closing && self.nxt + u64::from(len) == self.offered;
            return self.send_new(now, len, fin);
        }
        self.start_timer(Timer::Persist, now);
        Segment { seq: self.origin.at(self.nxt) - 1, ..self.segment(now, self.nxt, 0, false) }
    }
}
