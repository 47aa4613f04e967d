//! The sending machine: RFC 9293's active opener with the loss recovery of RFC 6675 (with SACK) or RFC 6582
//! (without), limited transmit (RFC 3042), the timer of RFC 6298 and window probes (RFC 9293 §3.8.6.1).
//!
//! Where the standards leave a choice, the code follows Linux and says so. Limited transmit needs no code of its own: a
//! segment that is SACKed, or counted because of a duplicate acknowledgment, has left the network and makes room for
//! another. RACK-TLP (RFC 8985), PRR (RFC 6937), ECN (RFC 3168) and the undo of spurious reductions are options;
//! [`SenderConfig::linux`] has all of them. The parent module lists what is left out.
//!
//! Pacing, if a variant needs it, is Linux's without `fq` (`tcp_update_skb_after_send`). The first nine segments leave at
//! once. After each further one the next waits for the time that the payload takes at the pacing rate, less the delay of
//! this one, up to half.

mod ack;
mod config;
mod racktlp;
mod recovery;
mod transmit;
mod usage;

pub use config::{Recovery, SenderConfig, SenderStats};
use fairhop_model::units::Nanos;

use self::racktlp::RackTlp;
use self::usage::CwndUsage;
use super::congestion::{Congestion, CongestionControl, OpenEvent, Phase, Window};
use super::prr::Prr;
use super::rate::RateEstimator;
use super::rtt::{RttConfig, RttEstimator};
use super::scoreboard::Scoreboard;
use super::segment::{Flags, Segment, Timestamps};
use super::seq::Seq;
use super::{MAX_WINDOW_SCALE, TIMESTAMP_BYTES};

/// States of the sender (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderState {
    /// Not opened yet.
    Closed,
    /// The SYN is sent.
    SynSent,
    /// Data flow.
    Established,
    /// FIN is sent.
    FinWait1,
    /// FIN is acknowledged; the other side's is not received yet.
    FinWait2,
    /// The other side closed first; this side's FIN is not sent or not acknowledged yet.
    CloseWait,
    /// Both sides closed. The last acknowledgment is sent again if the other side retransmits its FIN.
    TimeWait,
    /// Aborted after too many timeouts, or reset by the other side.
    Failed,
}

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// RFC 9293 §3.8.6.1; also the override timeout of RFC 9293 §3.8.6.2.1 (silly windows).
    Persist,
    /// RFC 8985 §7: tail loss probe.
    Probe,
    /// RFC 8985 §6.2 step 5: the reordering window has passed.
    Reordering,
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    state: SenderState,
    /// Sequence number of stream offset 0, one after the SYN.
    origin: Seq,
    /// SND.UNA and SND.NXT as stream offsets; FIN takes the offset after the last octet.
    una: u64,
    nxt: u64,
    /// End of the data that the application offered; `u64::MAX` is an endless stream.
    offered: u64,
    closing: bool,
    fin_sent: bool,
    /// SND.WND, its maximum so far, and SND.WL1.
    peer_window: u64,
    max_peer_window: u64,
    /// End of the last pushed segment.
    pushed: u64,
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
    /// RFC 6582's `recover`, RFC 6675's RecoveryPoint: SND.NXT at the start of the last recovery.
    recovery_point: Option<u64>,
    duplicate_acks: u32,
    /// The first retransmission of a fast recovery is sent regardless of the window (RFC 6675 §5 step 4.3).
    retransmit_now: bool,
    rescue_left: bool,
    /// RFC 6582 §3.2 step 3: the first partial acknowledgment restarts the timer, later ones do not.
    partial_ack_seen: bool,
    /// ECN is negotiated; the next new segment must have CWR.
    ecn: bool,
    cwr_due: bool,
    /// The variant paces; the next packet waits for its time.
    paces: bool,
    pacing_wait: bool,
    /// Earliest time of the next packet.
    release: Nanos,
    prr: Prr,
    racktlp: Option<Box<RackTlp>>,
    rate: Option<Box<RateEstimator>>,
    usage: CwndUsage,
    last_data_sent: Nanos,
    delivered: u64,
    timer: Option<(Timer, Nanos)>,
    /// Consecutive timeouts without progress.
    retries: u32,
    syn_due: bool,
    ack_due: bool,
    probe_due: bool,
    stats: SenderStats,
}

impl Sender {
    /// A closed sender. An MSS or a window of zero counts as one.
    pub fn new(config: SenderConfig) -> Self {
        let config = SenderConfig {
            mss: config.mss.max(1),
            initial_window: config.initial_window.max(1),
            window_scale: config.window_scale.min(MAX_WINDOW_SCALE),
            max_window: config.max_window.map(|max| max.max(1)),
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
            max_peer_window: 0,
            pushed: 0,
            window_update_seq: Seq(0),
            mss: config.mss,
            peer_shift: 0,
            sack: false,
            timestamps: false,
            recent_timestamp: 0,
            expected: Seq(0),
            board: Scoreboard::default(),
            window: Window { cwnd: config.initial_window, ssthresh: Window::UNKNOWN },
            rate: congestion.needs_rate().then(Box::default),
            congestion,
            rtt: RttEstimator::new(rtt),
            phase: Phase::Open,
            recovery_point: None,
            duplicate_acks: 0,
            retransmit_now: false,
            rescue_left: false,
            partial_ack_seen: false,
            ecn: false,
            cwr_due: false,
            paces: false,
            pacing_wait: false,
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

    /// Opens the connection: the next segment is a SYN. Later calls have no effect.
    pub fn open(&mut self, now: Nanos) {
        if self.state == SenderState::Closed {
            self.state = SenderState::SynSent;
            self.last_data_sent = now;
            self.syn_due = true;
        }
    }

    /// The application has `bytes` more to send; `u64::MAX` is an endless stream. No effect after [`Sender::close`].
    pub fn offer(&mut self, bytes: u64) {
        if !self.closing {
            self.offered = self.offered.saturating_add(bytes);
        }
    }

    /// Ends the stream after the offered data; an endless stream ends after the data already sent.
    pub fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.offered == u64::MAX {
            self.offered = self.nxt;
        }
    }

    /// Whether the connection is over: both sides closed and acknowledged it, or it failed.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, SenderState::TimeWait | SenderState::Failed)
    }

    /// The state.
    pub fn state(&self) -> SenderState {
        self.state
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        u64::from(self.window.cwnd) * u64::from(self.mss)
    }

    /// Congestion window in segments, as in Linux's TCP_INFO.
    pub fn cwnd_segments(&self) -> u32 {
        self.window.cwnd
    }

    /// Slow-start threshold in bytes; none before the first loss.
    pub fn ssthresh(&self) -> Option<u64> {
        (self.window.ssthresh != Window::UNKNOWN)
            .then(|| u64::from(self.window.ssthresh) * u64::from(self.mss))
    }

    /// Smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt()
    }

    /// Retransmission timeout with backoff.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// Bytes of the stream acknowledged by the other side.
    pub fn bytes_acked(&self) -> u64 {
        self.una - u64::from(self.fin_sent && self.una == self.nxt)
    }

    /// Segments in flight (RFC 6675's pipe).
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// State of loss recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Pacing rate in bytes of payload per second, if the variant paces.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.congestion.pacing_rate()
    }

    /// Negotiated payload of a full segment in bytes.
    pub fn effective_mss(&self) -> u32 {
        self.mss
    }

    /// Time at which to call [`Sender::on_timer`], if any. Valid after [`Sender::poll_transmit`] has returned none.
    pub fn next_timer(&self) -> Option<Nanos> {
        let timer = self.timer.map(|(_, at)| at);
        if !self.pacing_wait {
            return timer;
        }
        Some(timer.map_or(self.release, |at| at.min(self.release)))
    }

    /// A segment arrived from the other side.
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
        let retransmissions = self.retries;
        match retransmissions {
            0 => {
                let rtt = now.saturating_sub(self.last_data_sent);
                self.sample_rtt(rtt);
                self.rtt.note_min(rtt);
            }
            _ => self.rtt.after_lost_syn(),
        }
        if retransmissions > 1 {
            // RFC 6928 §2: one lost SYN may be due to a short timer, two indicate congestion.
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
        // RFC 3168 §6.1.1: ECE without CWR accepts ECN.
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

    /// RFC 7323 §5.3; updates TS.Recent (§4.3). A segment without the option is dropped (§3.2). An old segment is dropped
    /// without an answer: this side receives only acknowledgments, and answering them would cause loops.
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
        // A retransmitted FIN too: the acknowledgment was lost.
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
}
