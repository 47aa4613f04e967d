//! The sending machine: RFC 9293's active opener with the loss recovery of RFC 6675 (with SACK) or RFC 6582
//! (without), limited transmit (RFC 3042), the timer of RFC 6298 and window probes (RFC 9293 §3.8.6.1).
//!
//! Where the standards leave a choice, Linux is followed and the place says so. Limited transmit needs no code of its
//! own: a segment that is SACKed, or that a duplicate acknowledgment stands for, has left the network, and the room it
//! leaves is filled. RACK-TLP (RFC 8985), PRR (RFC 6937), ECN (RFC 3168) and the undoing of needless reductions are
//! options; [`SenderConfig::linux`] has them all. What is left out stands in the parent module.
//!
//! Pacing, where a variant asks for it, is Linux's without `fq` (`tcp_update_skb_after_send`): the first nine segments
//! leave at once; after each further one the next waits for its payload at the rate, less what this one came late, up
//! to half.

mod config;
mod racktlp;
mod recovery;
mod usage;

pub use config::{Recovery, SenderConfig, SenderStats};
use fairhop_model::units::Nanos;

use self::racktlp::{Facts, RackTlp};
use self::usage::CwndUsage;
use super::congestion::{AckEvent, Congestion, CongestionControl, OpenEvent, Phase, StartEvent, Window};
use super::prr::Prr;
use super::rate::RateEstimator;
use super::rtt::{RttConfig, RttEstimator};
use super::scoreboard::{Arrived, Newest, Range, Scoreboard, Sent};
use super::segment::{Ecn, Flags, Segment, Timestamps};
use super::seq::Seq;
use super::{MAX_WINDOW_SCALE, TIMESTAMP_BYTES, timestamp_clock};

/// Segments that leave before pacing begins, as in Linux and its `fq`.
const UNPACED_SEGMENTS: u64 = 10;

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

/// What the timer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// RFC 9293 §3.8.6.1; also the override of RFC 9293 §3.8.6.2.1 against silly windows.
    Persist,
    /// RFC 8985 §7: the tail may be lost.
    Probe,
    /// RFC 8985 §6.2 step 5: suspects have had their time.
    Reordering,
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
    /// ECN is agreed on; CWR is to be set in the next new segment.
    ecn: bool,
    cwr_due: bool,
    /// The variant paces; the next packet is being held back for it.
    paces: bool,
    held: bool,
    /// When the next packet may leave.
    release: Nanos,
    prr: Prr,
    racktlp: Option<Box<RackTlp>>,
    rate: Option<Box<RateEstimator>>,
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
            arithmetic: config.rtt_arithmetic,
        };
        let congestion = Congestion::new(config.congestion, config.tuning);
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
            rate: congestion.wants_rate().then(Box::default),
            congestion,
            rtt: RttEstimator::new(rtt),
            phase: Phase::Open,
            recovery_point: None,
            duplicate_acks: 0,
            repeat_at_once: false,
            rescue_left: false,
            partial_ack_seen: false,
            ecn: false,
            cwr_due: false,
            paces: false,
            held: false,
            release: Nanos::ZERO,
            prr: Prr::default(),
            racktlp: None,
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

    /// Bytes of payload per second at which packets are spaced, if they are.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.congestion.pacing_rate()
    }

    /// Payload of a full segment in bytes, as negotiated.
    pub fn effective_mss(&self) -> u32 {
        self.mss
    }

    /// When [`Sender::on_timer`] wants to be called, if at all. Ask after the last [`Sender::poll_transmit`].
    pub fn next_timer(&self) -> Option<Nanos> {
        let timer = self.timer.map(|(_, at)| at);
        if !self.held {
            return timer;
        }
        Some(timer.map_or(self.release, |at| at.min(self.release)))
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
            0 => {
                let rtt = now.saturating_sub(self.last_data_sent);
                self.sample_rtt(rtt);
                self.rtt.note_least(rtt);
            }
            _ => self.rtt.after_lost_syn(),
        }
        if repetitions > 1 {
            // RFC 6928 §2: one lost SYN may be a timer too short, two are congestion.
            self.window.cwnd = 1;
        }
        let open = OpenEvent { now, srtt: self.rtt.srtt(), mss: self.mss };
        self.congestion.on_open(&mut self.window, &open);
        self.paces = self.congestion.pacing_rate().is_some();
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
        self.racktlp = (self.sack && self.config.recovery == Recovery::RackTlp).then(Box::default);
        // RFC 3168 §6.1.1: ECE without CWR agrees to it.
        self.ecn = self.config.ecn && segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::CWR);
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
        let prior_losses = self.board.losses();
        let prior_in_flight = self.board.in_flight();
        let window_changed = self.update_peer_window(segment, ack);
        let prior_una = self.una;
        let advanced = ack > prior_una;
        let cwnd_limited = self.is_cwnd_limited();
        self.una = ack;
        let covered = self.board.acknowledge(ack);
        let (reported, dsack) = if self.sack { self.take_sack(segment) } else { (Arrived::default(), None) };
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
        let ece = self.ecn && segment.flags.has(Flags::ECE);
        if self.racktlp.is_some() {
            self.recover_by_time(
                now,
                &Facts {
                    advanced,
                    covered,
                    reported,
                    dsack,
                    echo: segment.timestamps.map(|times| times.echo).filter(|_| self.timestamps),
                    ece,
                    not_duplicate: segment.seq_len() > 0 || window_changed,
                },
            );
        } else {
            self.recover(now, advanced);
            if ece {
                self.on_ece(now);
            }
            if advanced {
                self.restart_timer(now);
            }
        }
        let newly_lost = (self.board.losses() - prior_losses) as u32;
        let rate = self.sample_rate(now, covered.newest, reported.newest, newly_delivered);
        self.apply_prr(newly_delivered, advanced, newly_lost);
        let event = AckEvent {
            now,
            newly_delivered,
            newly_acked: covered.removed,
            acked_bytes: ack - prior_una,
            newly_lost,
            growth_credit: if self.config.byte_counting { newly_delivered } else { newly_delivered.min(1) },
            delivered: self.delivered,
            lost: self.board.losses(),
            release: self.release,
            una: self.una,
            nxt: self.nxt,
            advanced,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            maybe_delayed: covered.removed == 1 && covered.delivered == 1 && self.board.is_empty(),
            rate,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            cwnd_limited,
            ece,
            mss: self.mss,
            phase: self.phase,
        };
        self.congestion.on_ack(&mut self.window, &event);
        if let Some(rate) = self.rate.as_deref_mut()
            && self.congestion.holds_back()
        {
            rate.limit(self.delivered, self.board.in_flight());
        }
    }

    fn sample_rate(
        &mut self,
        now: Nanos,
        covered: Option<Newest>,
        reported: Option<Newest>,
        newly_delivered: u32,
    ) -> Option<super::congestion::RateSample> {
        let rate = self.rate.as_deref_mut()?;
        let newest = match (covered, reported) {
            (Some(a), Some(b)) => Some(if (a.sent_at, a.end) > (b.sent_at, b.end) { a } else { b }),
            (a, b) => a.or(b),
        };
        let oldest = self.board.first();
        rate.on_ack(now, newest, newly_delivered, self.delivered, oldest, self.rtt.min_rtt())
    }

    /// RFC 6937, while the window is being reduced.
    fn apply_prr(&mut self, newly_delivered: u32, advanced: bool, newly_lost: u32) {
        if !self.prr.is_active() || !matches!(self.phase, Phase::Recovery | Phase::Cwr) {
            return;
        }
        let conserve = !advanced || newly_lost > 0;
        let in_flight = self.board.in_flight();
        if let Some(cwnd) = self.prr.on_ack(newly_delivered, in_flight, self.window.ssthresh, conserve) {
            self.window.cwnd = cwnd;
        }
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

    /// What the SACK blocks say to have arrived, and the end of a duplicate where they tell of one.
    fn take_sack(&mut self, segment: &Segment) -> (Arrived, Option<u64>) {
        let blocks = segment.sack.as_slice();
        let mut ranges = [Range::default(); 4];
        let mut count = 0;
        let mut dsack = None;
        for (i, block) in blocks.iter().enumerate() {
            let start = block.start.offset_in(self.origin, self.una);
            let end = block.end.offset_in(self.origin, self.una);
            let una = self.una as i64;
            // RFC 2883 §4: the first block tells of a duplicate if it is acknowledged already or lies in the second.
            let inside_next = i == 0
                && blocks.get(1).is_some_and(|b| !block.start.before(b.start) && !b.end.before(block.end));
            if i == 0 && start < end && (end <= una || inside_next) {
                self.stats.dsacks += 1;
                dsack = u64::try_from(end).ok();
                continue;
            }
            if start >= end || start < una || end > self.nxt as i64 {
                continue;
            }
            ranges[count] = Range { start: start as u64, end: end as u64 };
            count += 1;
        }
        (self.board.selectively_acknowledge(&ranges[..count]), dsack)
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
        let (smoothed, latest) = if let (Some(first), false) = (covered.first_sent_at, covered.ambiguous) {
            (since(first), covered.last_sent_at.map(since))
        } else if let Some(first) = reported.first_sent_at {
            (since(first), reported.last_sent_at.map(since))
        } else {
            let times = segment.timestamps.filter(|_| self.timestamps && advanced)?;
            let ticks = timestamp_clock(now).wrapping_sub(times.echo);
            if (ticks as i32) < 0 {
                return None;
            }
            // A tick is the least that this clock can tell.
            let rtt = Nanos::from_millis(u64::from(ticks.max(1)));
            (rtt, Some(rtt))
        };
        if let Some(latest) = latest {
            self.rtt.note_least(latest);
        }
        self.sample_rtt(smoothed);
        latest
    }

    fn sample_rtt(&mut self, rtt: Nanos) {
        self.stats.rtt_samples += 1;
        self.rtt.on_sample(rtt, self.una, self.nxt);
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
            // RFC 3168 §6.1.1; not when it is repeated, as the bits may be why it was lost (§6.1.1.1).
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

    /// Linux's `tcp_rate_check_app_limited`: the window would allow more, but there is nothing to send.
    fn note_app_limit(&mut self) {
        let limited = !self.held
            && self.offered.saturating_sub(self.nxt) < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd;
        if let Some(rate) = self.rate.as_deref_mut().filter(|_| limited) {
            rate.limit(self.delivered, self.board.in_flight());
        }
    }

    /// Whether the pacing rate keeps the next packet back.
    fn is_held(&mut self, now: Nanos) -> bool {
        self.held = false;
        if !self.paces || now >= self.release {
            return false;
        }
        self.held = self.board.in_flight() < self.window.cwnd
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

    /// RFC 8985 §7.3: new data if there are any, whatever the congestion window, else the last segment again.
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

    /// RFC 5682 §3 step 2: after a timeout new data are tried before repetitions. None: there are no news to it.
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
        self.give_up_frto();
        None
    }

    /// RFC 6675 §5 steps 4.3 and C, NextSeg of §4; new data otherwise (RFC 9293 §3.8.6.2.1).
    fn next_data(&mut self, now: Nanos) -> Option<Segment> {
        if std::mem::take(&mut self.repeat_at_once)
            && let Some(number) = self.board.next_lost()
        {
            return self.retransmit(now, number, false);
        }
        if self.racktlp.is_some()
            && let Some(segment) = self.tail_probe(now)
        {
            return Some(segment);
        }
        if self.is_held(now) {
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
        if self.ecn && len > 0 {
            // RFC 3168 §6.1.4 and §6.1.5: new data are ECN-capable, repetitions and bare acknowledgments are not.
            segment.ecn = Ecn::Ect0;
            if std::mem::take(&mut self.cwr_due) {
                segment.flags = segment.flags | Flags::CWR;
            }
        }
        segment
    }

    /// Nothing was in flight, and something goes out.
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

    /// A segment goes out, for the first time or again.
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
            self.note_repetition(now);
            if self.board.is_first(number) && !matches!(self.timer, Some((Timer::Reordering, _))) {
                self.timer = None;
                self.rearm(now);
            }
            return Some(self.segment(now, start, len, fin));
        }
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
}
