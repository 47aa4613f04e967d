//! The sending machine: RFC 9293's active opener with the loss recovery of RFC 6675 (with SACK) or RFC 6582
//! (without), limited transmit (RFC 3042), the timer of RFC 6298 and window probes (RFC 9293 §3.8.6.1).
//!
//! Where the standards leave a choice, Linux is followed and the place says so. Limited transmit needs no code of its
//! own: a segment that is SACKed, or that a duplicate acknowledgment stands for, has left the network, and the room it
//! leaves is filled. What is left out stands in the parent module.

use fairhop_model::units::Nanos;

use super::congestion::{
    AckEvent, Congestion, CongestionControl, CongestionKind, LossEvent, Phase, Reason, Tuning, Window,
};
use super::rtt::{RttConfig, RttEstimator};
use super::scoreboard::{Arrived, DUP_THRESH, Range, Scoreboard, Sent};
use super::segment::{Flags, Segment, Timestamps};
use super::seq::Seq;
use super::{MAX_WINDOW_SCALE, TIMESTAMP_BYTES, timestamp_clock};

/// How a sender behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Largest segment in bytes of payload; timestamps, where they are used, take 12 of them (RFC 9293 §3.7.1).
    pub mss: u32,
    /// Segments of the first flight (RFC 6928: 10).
    pub initial_window: u32,
    /// Congestion control.
    pub congestion: CongestionKind,
    /// Its details.
    pub tuning: Tuning,
    /// The window grows with the data that an acknowledgment covers (RFC 3465), not with acknowledgments.
    pub byte_counting: bool,
    /// Offer SACK (RFC 2018).
    pub sack: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Most segments between the oldest unacknowledged one and the newest, as if the receiver's window were that
    /// small. None: no limit but the receiver's.
    pub max_window: Option<u32>,
    /// Shortest retransmission timeout (RFC 6298 §2.4: 1 s).
    pub min_rto: Nanos,
    /// Retransmission timeout before the first round-trip time (RFC 6298 §2.1: 1 s).
    pub initial_rto: Nanos,
    /// Longest retransmission timeout and longest time between window probes.
    pub max_rto: Nanos,
    /// G of RFC 6298 §2.3.
    pub clock_granularity: Nanos,
    /// The connection is given up after so many repetitions of the SYN (Linux: 6).
    pub syn_retries: u32,
    /// The connection is given up when the timer has run out so many times in a row and once more (Linux: 15).
    pub data_retries: u32,
    /// The shift that is announced for windows of this side, which receives nothing.
    pub window_scale: u8,
    /// Sequence number of the SYN.
    pub initial_seq: u32,
}

impl Default for SenderConfig {
    fn default() -> Self {
        let rtt = RttConfig::default();
        Self {
            mss: 1460,
            initial_window: 10,
            congestion: CongestionKind::NewReno,
            tuning: Tuning::default(),
            byte_counting: true,
            sack: true,
            timestamps: false,
            max_window: None,
            min_rto: rtt.min_rto,
            initial_rto: rtt.initial_rto,
            max_rto: rtt.max_rto,
            clock_granularity: rtt.clock_granularity,
            syn_retries: 6,
            data_retries: 15,
            window_scale: 7,
            initial_seq: 0,
        }
    }
}

/// States of the sender (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderState {
    /// Not opened yet.
    Closed,
    /// The SYN is out.
    SynSent,
    /// Data flow.
    Established,
    /// FIN is out.
    FinWait1,
    /// FIN is acknowledged, the other side's is awaited.
    FinWait2,
    /// The other side closed first; this side's FIN is still to come or to be acknowledged.
    CloseWait,
    /// Both sides closed. The last acknowledgment is repeated if the other side asks for it.
    TimeWait,
    /// Given up after too many timeouts, or reset by the other side.
    Failed,
}

/// What a sender has done. Counts of segments leave out the handshake and bare acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, repetitions included.
    pub segments_sent: u64,
    /// Payload bytes sent, repetitions included.
    pub bytes_sent: u64,
    /// Data segments sent again.
    pub segments_retransmitted: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Times that fast recovery began.
    pub fast_recoveries: u64,
    /// Times that the retransmission timer ran out, for the SYN too.
    pub timeouts: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Acknowledgments taken in.
    pub acks_received: u64,
    /// Duplicate acknowledgments among them.
    pub duplicate_acks: u64,
    /// Reports that a segment had arrived twice (RFC 2883): as many repetitions were needless.
    pub dsacks: u64,
    /// Round-trip times measured.
    pub rtt_samples: u64,
}

/// What the timer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// RFC 9293 §3.8.6.1; also the override of RFC 9293 §3.8.6.2.1 against silly windows.
    Persist,
}

/// Linux's `tcp_cwnd_validate`: whether the congestion window was what held transmission back.
#[derive(Clone, Copy, Debug, Default)]
struct CwndUsage {
    limited: bool,
    /// Most segments outstanding in the current window of data while not limited.
    most_outstanding: u32,
    /// The current window of data ends here.
    window_end: u64,
    /// When the window was last in full use, and the most that was in use since.
    full_at: Nanos,
    used: u32,
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    state: SenderState,
    /// Number of stream offset 0: the SYN is one before it.
    origin: Seq,
    /// SND.UNA and SND.NXT as stream offsets; FIN takes the offset after the last octet.
    una: u64,
    nxt: u64,
    /// End of what the application offered; `u64::MAX` is an endless stream.
    offered: u64,
    closing: bool,
    fin_sent: bool,
    /// SND.WND, the largest it has been, and SND.WL1.
    peer_window: u64,
    largest_peer_window: u64,
    window_update_seq: Seq,
    /// Negotiated.
    mss: u32,
    peer_shift: u8,
    sack: bool,
    timestamps: bool,
    /// TS.Recent (RFC 7323 §4.3).
    recent_timestamp: u32,
    /// RCV.NXT.
    expected: Seq,
    board: Scoreboard,
    window: Window,
    congestion: Congestion,
    rtt: RttEstimator,
    phase: Phase,
    /// RFC 6582's `recover`, RFC 6675's RecoveryPoint: SND.NXT when recovery last began.
    recovery_point: Option<u64>,
    duplicate_acks: u32,
    /// The first repetition of a fast recovery goes out whatever the window (RFC 6675 §5 step 4.3).
    repeat_at_once: bool,
    rescue_left: bool,
    /// RFC 6582 §3.2 step 3: the first partial acknowledgment restarts the timer, later ones do not.
    partial_ack_seen: bool,
    usage: CwndUsage,
    last_data_sent: Nanos,
    delivered: u64,
    timer: Option<(Timer, Nanos)>,
    /// Timeouts in a row without progress.
    retries: u32,
    syn_due: bool,
    ack_due: bool,
    probe_due: bool,
    stats: SenderStats,
}

impl Sender {
    /// A sender that waits to be opened. An MSS or a window of zero is taken as one.
    pub fn new(config: SenderConfig) -> Self {
        let config = SenderConfig {
            mss: config.mss.max(1),
            initial_window: config.initial_window.max(1),
            window_scale: config.window_scale.min(MAX_WINDOW_SCALE),
            max_window: config.max_window.map(|most| most.max(1)),
            ..config
        };
        let rtt = RttConfig {
            initial_rto: config.initial_rto,
            min_rto: config.min_rto,
            max_rto: config.max_rto,
            clock_granularity: config.clock_granularity,
        };
        Self {
            config,
            state: SenderState::Closed,
            origin: Seq(config.initial_seq) + 1,
            una: 0,
            nxt: 0,
            offered: 0,
            closing: false,
            fin_sent: false,
            peer_window: 0,
            largest_peer_window: 0,
            window_update_seq: Seq(0),
            mss: config.mss,
            peer_shift: 0,
            sack: false,
            timestamps: false,
            recent_timestamp: 0,
            expected: Seq(0),
            board: Scoreboard::default(),
            window: Window { cwnd: config.initial_window, ssthresh: Window::UNKNOWN },
            congestion: Congestion::new(config.congestion, config.tuning),
            rtt: RttEstimator::new(rtt),
            phase: Phase::Open,
            recovery_point: None,
            duplicate_acks: 0,
            repeat_at_once: false,
            rescue_left: false,
            partial_ack_seen: false,
            usage: CwndUsage::default(),
            last_data_sent: Nanos::ZERO,
            delivered: 0,
            timer: None,
            retries: 0,
            syn_due: false,
            ack_due: false,
            probe_due: false,
            stats: SenderStats::default(),
        }
    }

    /// Opens the connection: the next segment is a SYN. Without effect after the first call.
    pub fn open(&mut self, now: Nanos) {
        if self.state == SenderState::Closed {
            self.state = SenderState::SynSent;
            self.last_data_sent = now;
            self.syn_due = true;
        }
    }

    /// The application has `bytes` more to send; `u64::MAX` is a stream without end. Without effect after
    /// [`Sender::close`].
    pub fn offer(&mut self, bytes: u64) {
        if !self.closing {
            self.offered = self.offered.saturating_add(bytes);
        }
    }

    /// No more comes after what was offered; a stream without end stops at what has been sent.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.offered == u64::MAX {
            self.offered = self.nxt;
        }
    }

    /// Whether nothing is left to be done: both sides closed and said so, or the connection failed.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, SenderState::TimeWait | SenderState::Failed)
    }

    /// The state.
    pub fn state(&self) -> SenderState {
        self.state
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        u64::from(self.window.cwnd) * u64::from(self.mss)
    }

    /// Congestion window in segments, as Linux shows it.
    pub fn cwnd_segments(&self) -> u32 {
        self.window.cwnd
    }

    /// Slow-start threshold in bytes; none until the first loss.
    pub fn ssthresh(&self) -> Option<u64> {
        (self.window.ssthresh != Window::UNKNOWN)
            .then(|| u64::from(self.window.ssthresh) * u64::from(self.mss))
    }

    /// Smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt()
    }

    /// Retransmission timeout, backed off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// Bytes of the stream that the other side has acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.una - u64::from(self.fin_sent && self.una == self.nxt)
    }

    /// Segments in flight (RFC 6675's pipe).
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// Where loss recovery stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Payload of a full segment in bytes, as negotiated.
    pub fn effective_mss(&self) -> u32 {
        self.mss
    }

    /// When [`Sender::on_timer`] wants to be called, if at all. Ask after the last [`Sender::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timer.map(|(_, at)| at)
    }

    /// A segment came from the other side.
    pub fn on_segment(&mut self, now: Nanos, segment: &Segment) {
        match self.state {
            SenderState::Closed | SenderState::Failed => {}
            SenderState::SynSent => self.on_syn_ack(now, segment),
            _ => self.on_synchronized(now, segment),
        }
    }

    /// RFC 9293 §3.10.7.3 and the options of a SYN.
    fn on_syn_ack(&mut self, now: Nanos, segment: &Segment) {
        if !segment.flags.has(Flags::ACK) || segment.ack != self.origin {
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.fail();
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.negotiate(segment);
        self.expected = segment.seq + 1;
        self.window_update_seq = segment.seq;
        // RFC 7323 §2.2: the window of a SYN is not scaled.
        self.set_peer_window(u64::from(segment.window));
        let repetitions = self.retries;
        match repetitions {
            0 => self.sample_rtt(now.saturating_sub(self.last_data_sent)),
            _ => self.rtt.after_lost_syn(),
        }
        if repetitions > 1 {
            // RFC 6928 §2: one lost SYN may be a timer too short, two are congestion.
            self.window.cwnd = 1;
        }
        self.retries = 0;
        self.timer = None;
        self.syn_due = false;
        self.ack_due = true;
        self.usage.full_at = now;
        self.state = SenderState::Established;
    }

    fn negotiate(&mut self, segment: &Segment) {
        /// RFC 9293 §3.7.1.
        const DEFAULT_MSS: u32 = 536;
        self.timestamps = self.config.timestamps && segment.timestamps.is_some();
        self.sack = self.config.sack && segment.sack_permitted;
        self.peer_shift = segment.window_scale.unwrap_or(0).min(MAX_WINDOW_SCALE);
        self.recent_timestamp = segment.timestamps.map_or(0, |t| t.value);
        let options = if self.timestamps { TIMESTAMP_BYTES } else { 0 };
        self.mss =
            self.config.mss.min(segment.mss.map_or(DEFAULT_MSS, u32::from)).saturating_sub(options).max(1);
    }

    /// RFC 9293 §3.10.7.4.
    fn on_synchronized(&mut self, now: Nanos, segment: &Segment) {
        if self.timestamps && !self.passes_paws(segment) {
            return;
        }
        if segment.flags.has(Flags::RST) {
            if segment.seq == self.expected {
                self.fail();
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            // The acknowledgment of the handshake was lost.
            self.ack_due = true;
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.on_ack(now, segment);
        }
        if segment.flags.has(Flags::FIN) {
            self.on_fin(segment);
        }
        self.advance_state();
    }

    /// RFC 7323 §5.3; takes TS.Recent over (§4.3). A segment without the option is dropped (§3.2). What is late is
    /// dropped without an answer: this side is only ever sent acknowledgments, and answering those makes loops.
    fn passes_paws(&mut self, segment: &Segment) -> bool {
        let Some(Timestamps { value, .. }) = segment.timestamps else {
            return segment.flags.has(Flags::RST);
        };
        if Seq(value).before(Seq(self.recent_timestamp)) {
            return segment.flags.has(Flags::RST);
        }
        if !self.expected.before(segment.seq) {
            self.recent_timestamp = value;
        }
        true
    }

    fn on_fin(&mut self, segment: &Segment) {
        if segment.seq + segment.len == self.expected {
            self.expected = self.expected + 1;
            self.state = match self.state {
                SenderState::Established => SenderState::CloseWait,
                SenderState::FinWait1 if self.una < self.nxt => SenderState::CloseWait,
                SenderState::FinWait1 | SenderState::FinWait2 => SenderState::TimeWait,
                state => state,
            };
        }
        // Also a repeated one: the acknowledgment was lost.
        self.ack_due = true;
    }

    fn advance_state(&mut self) {
        if !self.fin_sent || self.una < self.nxt {
            return;
        }
        self.state = match self.state {
            SenderState::FinWait1 => SenderState::FinWait2,
            SenderState::CloseWait => SenderState::TimeWait,
            state => state,
        };
    }

    fn fail(&mut self) {
        self.state = SenderState::Failed;
        self.timer = None;
        self.board = Scoreboard::default();
        (self.syn_due, self.ack_due, self.probe_due) = (false, false, false);
    }

    /// The acknowledgment field, the window and the SACK blocks.
    fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let ack = segment.ack.offset_in(self.origin, self.una);
        let Ok(ack) = u64::try_from(ack) else { return };
        if ack > self.nxt || ack < self.una {
            return;
        }
        self.stats.acks_received += 1;
        let prior_in_flight = self.board.in_flight();
        let window_changed = self.update_peer_window(segment, ack);
        let prior_una = self.una;
        let advanced = ack > prior_una;
        let cwnd_limited = self.is_cwnd_limited();
        self.una = ack;
        let covered = self.board.acknowledge(ack);
        let reported = if self.sack { self.take_sack(segment) } else { Arrived::default() };
        let rtt = self.measure_rtt(now, segment, advanced, covered, reported);
        if advanced {
            self.duplicate_acks = 0;
            self.retries = 0;
        }
        let duplicate = !advanced
            && !self.board.is_empty()
            && match self.sack {
                // RFC 6675 §2.
                true => reported.delivered > 0,
                // RFC 5681 §2.
                false => segment.seq_len() == 0 && !window_changed,
            };
        if duplicate {
            self.duplicate_acks += 1;
            self.stats.duplicate_acks += 1;
        }
        let newly_delivered = match self.sack {
            true => covered.delivered + reported.delivered,
            false => self.assume_delivered(covered.removed, duplicate),
        };
        self.delivered += u64::from(newly_delivered);
        self.recover(now, advanced);
        if advanced {
            self.restart_timer(now);
        }
        let event = AckEvent {
            now,
            newly_delivered,
            newly_acked: covered.removed,
            acked_bytes: ack - prior_una,
            newly_lost: 0,
            growth_credit: if self.config.byte_counting { newly_delivered } else { newly_delivered.min(1) },
            delivered: self.delivered,
            una: self.una,
            nxt: self.nxt,
            advanced,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            maybe_delayed: covered.removed == 1 && self.board.is_empty(),
            rate: None,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            cwnd_limited,
            ece: false,
            mss: self.mss,
            phase: self.phase,
        };
        self.congestion.on_ack(&mut self.window, &event);
    }

    /// RFC 9293 §3.10.7.4, SND.WND; like Linux also a larger window of an acknowledgment that brings nothing else, and
    /// no smaller one, which may be late. Returns whether the window is another.
    fn update_peer_window(&mut self, segment: &Segment, ack: u64) -> bool {
        let window = u64::from(segment.window) << self.peer_shift;
        let newer = ack > self.una || self.window_update_seq.before(segment.seq);
        if !newer && (segment.seq != self.window_update_seq || window < self.peer_window) {
            return false;
        }
        let changed = window != self.peer_window;
        self.window_update_seq = segment.seq;
        self.set_peer_window(window);
        if matches!(self.timer, Some((Timer::Persist, _))) {
            // RFC 1122 §4.2.2.17: a window that is answered for stays open for ever.
            self.retries = 0;
            if self.next_new_segment().is_some() {
                self.timer = None;
                self.rtt.end_backoff();
            }
        }
        changed
    }

    fn set_peer_window(&mut self, window: u64) {
        self.peer_window = window;
        self.largest_peer_window = self.largest_peer_window.max(window);
    }

    fn take_sack(&mut self, segment: &Segment) -> Arrived {
        let blocks = segment.sack.as_slice();
        let mut ranges = [Range::default(); 4];
        let mut count = 0;
        for (i, block) in blocks.iter().enumerate() {
            let start = block.start.offset_in(self.origin, self.una);
            let end = block.end.offset_in(self.origin, self.una);
            let una = self.una as i64;
            // RFC 2883 §4: the first block tells of a duplicate if it is acknowledged already or lies in the second.
            let inside_next = i == 0
                && blocks.get(1).is_some_and(|b| !block.start.before(b.start) && !b.end.before(block.end));
            if i == 0 && start < end && (end <= una || inside_next) {
                self.stats.dsacks += 1;
                continue;
            }
            if start >= end || start < una || end > self.nxt as i64 {
                continue;
            }
            ranges[count] = Range { start: start as u64, end: end as u64 };
            count += 1;
        }
        self.board.selectively_acknowledge(&ranges[..count])
    }

    /// RFC 6298 §3 (Karn) by the time each segment left, as Linux does: the first segment that a cumulative
    /// acknowledgment covers, else the first that a SACK block does, else the echoed timestamp (RFC 7323 §4.1).
    /// Returns the time of the last segment covered, for congestion control.
    fn measure_rtt(
        &mut self,
        now: Nanos,
        segment: &Segment,
        advanced: bool,
        covered: Arrived,
        reported: Arrived,
    ) -> Option<Nanos> {
        let since = |sent: Nanos| now.saturating_sub(sent);
        if let (Some(first), false) = (covered.first_sent_at, covered.ambiguous) {
            self.sample_rtt(since(first));
            return covered.last_sent_at.map(since);
        }
        if let Some(first) = reported.first_sent_at {
            self.sample_rtt(since(first));
            return reported.last_sent_at.map(since);
        }
        if let (true, true, Some(times)) = (self.timestamps, advanced, segment.timestamps) {
            let ticks = timestamp_clock(now).wrapping_sub(times.echo);
            if (ticks as i32) >= 0 {
                // A tick is the least that this clock can tell.
                let rtt = Nanos::from_millis(u64::from(ticks.max(1)));
                self.sample_rtt(rtt);
                return Some(rtt);
            }
        }
        None
    }

    fn sample_rtt(&mut self, rtt: Nanos) {
        self.stats.rtt_samples += 1;
        self.rtt.on_sample(rtt);
    }

    /// Segments delivered, without SACK: a duplicate stands for one, and a cumulative acknowledgment brings those that
    /// no duplicate stood for, at least the hole (Linux's `tcp_add_reno_sack` and `tcp_remove_reno_sacks`). Duplicates
    /// after a timeout stand for nothing. Linux forgets those of before it as well, so that one acknowledgment of data
    /// that had left the network long ago can open the window by far; here they are remembered (RFC 3465 §2.3's
    /// reason for L = 1 after a timeout).
    fn assume_delivered(&mut self, removed: u32, duplicate: bool) -> u32 {
        match removed {
            0 if duplicate && self.phase != Phase::Loss => u32::from(self.board.assume_arrival()),
            0 => 0,
            _ => self.board.settle_assumed(removed),
        }
    }

    /// RFC 6675 §5 with SACK, RFC 6582 §3.2 without.
    fn recover(&mut self, now: Nanos, advanced: bool) {
        let reached = self.recovery_point.is_none_or(|point| self.una >= point);
        match self.phase {
            Phase::Recovery if reached => self.exit_recovery(now),
            Phase::Recovery if !self.sack && advanced => {
                self.board.lose_head();
                self.repeat_at_once = true;
            }
            Phase::Loss if reached => self.phase = Phase::Open,
            _ => {}
        }
        if self.sack {
            self.board.judge();
        } else if advanced && self.phase != Phase::Recovery {
            self.board.forget_assumed();
        }
        if self.phase == Phase::Open && self.loss_is_evident() {
            self.enter_recovery(now);
        }
    }

    /// RFC 6675 §5 steps 1 and 2; RFC 6582 §3.2 step 2, where duplicates of what was sent before the last recovery
    /// ended say nothing.
    fn loss_is_evident(&self) -> bool {
        if self.sack {
            return self.board.has_lost() || self.duplicate_acks >= DUP_THRESH;
        }
        self.duplicate_acks >= DUP_THRESH && self.recovery_point.is_none_or(|point| self.una > point)
    }

    fn enter_recovery(&mut self, now: Nanos) {
        self.stats.fast_recoveries += 1;
        self.phase = Phase::Recovery;
        self.recovery_point = Some(self.nxt);
        let loss = self.loss_event(now);
        self.congestion.on_enter_recovery(&mut self.window, &loss);
        if !self.board.has_lost() {
            self.board.lose_head();
        }
        self.board.restart_holes();
        self.repeat_at_once = true;
        self.rescue_left = self.sack;
        self.partial_ack_seen = false;
    }

    fn exit_recovery(&mut self, now: Nanos) {
        self.phase = Phase::Open;
        self.repeat_at_once = false;
        self.rescue_left = false;
        self.board.forget_assumed();
        self.congestion.on_exit_recovery(&mut self.window, now);
    }

    fn loss_event(&self, now: Nanos) -> LossEvent {
        LossEvent {
            now,
            reason: Reason::Loss,
            flight: self.board.outstanding(),
            in_flight: self.board.in_flight(),
            delivered: self.delivered,
            una: self.una,
            nxt: self.nxt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            mss: self.mss,
            phase: self.phase,
        }
    }

    /// RFC 6298 §5.2 and §5.3; without SACK only the first partial acknowledgment restarts the timer (RFC 6582 §4,
    /// the impatient variant), with SACK each does, as in Linux.
    fn restart_timer(&mut self, now: Nanos) {
        if self.board.is_empty() {
            self.timer = None;
            return;
        }
        if self.phase == Phase::Recovery && !self.sack {
            if self.partial_ack_seen {
                return;
            }
            self.partial_ack_seen = true;
        }
        self.start_timer(Timer::Retransmission, now);
    }

    fn start_timer(&mut self, timer: Timer, now: Nanos) {
        self.timer = Some((timer, now.saturating_add(self.rtt.rto())));
    }

    /// Time has come to `now`; without effect before the time that [`Sender::next_timer`] says.
    pub fn on_timer(&mut self, now: Nanos) {
        let Some((timer, at)) = self.timer else { return };
        if now < at {
            return;
        }
        self.timer = None;
        let most = if self.state == SenderState::SynSent {
            self.config.syn_retries
        } else {
            self.config.data_retries
        };
        if self.retries >= most {
            self.fail();
            return;
        }
        self.retries += 1;
        match timer {
            Timer::Retransmission => self.on_retransmission_timeout(now),
            Timer::Persist => self.probe_due = true,
        }
        self.rtt.back_off();
    }

    /// RFC 6298 §5.4 to §5.6, RFC 5681 §3.1, RFC 6675 §5.1.
    fn on_retransmission_timeout(&mut self, now: Nanos) {
        self.stats.timeouts += 1;
        if self.state == SenderState::SynSent {
            self.syn_due = true;
            return;
        }
        // As in Linux, the threshold falls once for a window of data: not again when the repetition is lost (RFC 5681
        // §3.1), nor when fast recovery had already answered for it.
        let answered_for = match self.phase {
            Phase::Open => false,
            Phase::Cwr | Phase::Recovery => true,
            Phase::Loss => self.retries > 1,
        };
        if answered_for {
            self.window.cwnd = 1;
        } else {
            let loss = self.loss_event(now);
            self.congestion.on_timeout(&mut self.window, &loss);
        }
        self.phase = Phase::Loss;
        self.recovery_point = Some(self.nxt);
        self.duplicate_acks = 0;
        self.repeat_at_once = false;
        self.rescue_left = false;
        self.board.lose_all();
    }

    /// The next segment to send, if there is one. To be called until there is none, after every other call.
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
            flags: Flags::SYN,
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
        }
        segment
    }

    /// RFC 6675 §5 steps 4.3 and C, NextSeg of §4; new data otherwise (RFC 9293 §3.8.6.2.1).
    fn next_data(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.repeat_at_once)
            && let Some(number) = self.board.next_lost()
        {
            return self.retransmit(now, number, false);
        }
        if self.board.in_flight() >= self.window.cwnd {
            self.validate_cwnd(now, true);
            return None;
        }
        if let Some(number) = self.board.next_lost() {
            return self.retransmit(now, number, false);
        }
        if let Some((len, fin)) = self.next_new_segment() {
            return Some(self.send_new(now, len, fin));
        }
        if self.phase != Phase::Recovery || !self.sack {
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

    /// Payload and FIN of the next new segment, if the receiver's window lets one out without being silly about it.
    fn next_new_segment(&self) -> Option<(u32, bool)> {
        if self.fin_sent || self.config.max_window.is_some_and(|most| self.board.outstanding() >= most) {
            return None;
        }
        let queued = self.offered - self.nxt;
        let usable = self.usable_window();
        let len = queued.min(usable).min(u64::from(self.mss)) as u32;
        let all = u64::from(len) == queued;
        if len == 0 {
            // FIN takes no room in the receiver's buffer.
            return (self.closing && all).then_some((0, true));
        }
        let worth_it = len == self.mss || all || 2 * u64::from(len) >= self.largest_peer_window;
        worth_it.then_some((len, self.closing && all))
    }

    fn usable_window(&self) -> u64 {
        (self.una + self.peer_window).saturating_sub(self.nxt)
    }

    fn send_new(&mut self, now: Nanos, len: u32, fin: bool) -> Segment {
        self.restart_after_idle(now);
        let start = self.nxt;
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
        self.stats.segments_sent += 1;
        self.stats.bytes_sent += u64::from(len);
        self.last_data_sent = now;
        if !matches!(self.timer, Some((Timer::Retransmission, _))) {
            // RFC 6298 §5.1.
            self.start_timer(Timer::Retransmission, now);
        }
        self.validate_cwnd(now, self.board.in_flight() >= self.window.cwnd);
        self.segment(now, start, len, fin)
    }

    fn retransmit(&mut self, now: Nanos, number: u64, rescue: bool) -> Option<Segment> {
        let Sent { start, len, fin, .. } = self.board.retransmit(number, now, rescue)?;
        self.stats.segments_sent += 1;
        self.stats.bytes_sent += u64::from(len);
        self.stats.segments_retransmitted += 1;
        self.stats.bytes_retransmitted += u64::from(len);
        self.last_data_sent = now;
        // Like Linux, the fast retransmission of the oldest segment gets a whole timeout; but see `restart_timer`.
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

    /// Nothing is in flight whose loss would be noticed, and the window forbids to send: RFC 9293 §3.8.6.1.
    fn watch_closed_window(&mut self, now: Nanos) {
        let waiting = self.board.is_empty() && self.timer.is_none() && self.offered > self.nxt;
        if waiting && self.next_new_segment().is_none() {
            self.start_timer(Timer::Persist, now);
        }
    }

    /// What fits goes out however little it is (RFC 9293 §3.8.6.2.1 (4)). Else, as in Linux, an empty segment that the
    /// receiver must answer because it is old (RFC 9293 §3.10.7.4); the standard would send an octet.
    fn probe(&mut self, now: Nanos) -> Segment {
        let len = (self.offered - self.nxt).min(self.usable_window()).min(u64::from(self.mss)) as u32;
        self.stats.window_probes += 1;
        if len > 0 {
            let fin = self.closing && self.nxt + u64::from(len) == self.offered;
            return self.send_new(now, len, fin);
        }
        self.start_timer(Timer::Persist, now);
        Segment { seq: self.origin.at(self.nxt) - 1, ..self.segment(now, self.nxt, 0, false) }
    }

    /// Linux's `tcp_is_cwnd_limited`: in slow start the window may be up to twice what is in use.
    fn is_cwnd_limited(&self) -> bool {
        self.usage.limited
            || (self.window.in_slow_start()
                && self.window.cwnd < self.usage.most_outstanding.saturating_mul(2))
    }

    /// Linux's `tcp_cwnd_validate` and, where the window was not filled for a whole timeout,
    /// `tcp_cwnd_application_limited` (RFC 2861).
    fn validate_cwnd(&mut self, now: Nanos, limited: bool) {
        let outstanding = self.board.outstanding();
        let usage = &mut self.usage;
        let new_window = self.una >= usage.window_end;
        if new_window || limited || (!usage.limited && outstanding > usage.most_outstanding) {
            usage.limited = limited;
            usage.most_outstanding = outstanding;
            usage.window_end = self.nxt;
        }
        if self.is_cwnd_limited() {
            self.usage.used = 0;
            self.usage.full_at = now;
            return;
        }
        self.usage.used = self.usage.used.max(outstanding);
        if now.saturating_sub(self.usage.full_at) >= self.rtt.rto() && self.phase == Phase::Open {
            let used = self.usage.used.max(self.config.initial_window);
            if used < self.window.cwnd {
                self.keep_three_quarters();
                self.window.cwnd = self.window.cwnd.midpoint(used);
                self.congestion.on_restart(&mut self.window, now);
            }
            self.usage.used = 0;
            self.usage.full_at = now;
        }
    }

    /// RFC 5681 §4.1, halving per timeout of silence as Linux's `tcp_cwnd_restart` (RFC 2861).
    fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.last_data_sent);
        let rto = self.rtt.rto();
        if !self.board.is_empty() || idle <= rto || self.window.cwnd <= self.config.initial_window {
            return;
        }
        self.keep_three_quarters();
        let halvings = idle.div_floor(rto).min(31) as u32;
        self.window.cwnd = (self.window.cwnd >> halvings).max(self.config.initial_window);
        self.usage = CwndUsage { full_at: now, ..CwndUsage::default() };
        self.congestion.on_restart(&mut self.window, now);
    }

    /// Linux's `tcp_current_ssthresh`: the way back up is short.
    fn keep_three_quarters(&mut self) {
        let three_quarters = (self.window.cwnd >> 1) + (self.window.cwnd >> 2);
        self.window.ssthresh = self.window.ssthresh.max(three_quarters);
    }
}
