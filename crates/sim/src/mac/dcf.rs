//! One station's distributed coordination function (IEEE 802.11-2020, 10.3).
//!
//! The station is told when its medium becomes busy and idle, which frames it received or lost, and when its timers
//! fire; it says which frames to send. It never counts slots one by one: while the medium is idle the end of its backoff
//! is a point in time, and when the medium becomes busy the slots that have passed are subtracted.
//!
//! Readings of the standard that matter:
//! - A frame that finds the medium idle for a DIFS, with no backoff left over, is sent at once (10.3.4.2); otherwise
//!   after a backoff. After every transmission a backoff is drawn, whether or not a frame waits (10.3.4.3).
//! - Backoff slots are counted from a DIFS after the medium became idle; from an EIFS where the frame before was locked
//!   and lost (10.3.2.3.7).
//! - A station whose answer does not come counts its slots from a DIFS after the timeout. If the start of a frame was
//!   noticed before the timeout, it waits for the end of that frame (10.3.2.9).
//! - A station that is within its turnaround time of its slot cannot notice a carrier any more and sends (10.3.7, where
//!   the slot time is made up of the turnaround, the carrier-sense time and the air propagation time).
//!
//! Left out: fragmentation, power save, PCF, rate adaptation, and association; addresses are node numbers.

use fairhop_model::phy::{Rate, frame};
use fairhop_model::units::Nanos;
use smallvec::SmallVec;

use super::params::MacParams;
use crate::engine::{Event, EventKind, Events, Stream, Timer};
use crate::packet::{ImageId, Packets};
use crate::queue::{Queue, Refused, Waiting};

/// The receiver address of a frame for all neighbours.
pub const BROADCAST: u32 = u32::MAX;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A data frame.
    Data,
    /// An acknowledgment.
    Ack,
    /// A request to send.
    Rts,
    /// A clear to send.
    Cts,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// It is a repetition, which the header of a data frame says and that of an RTS does not (9.2.4.1.6).
    pub retry: bool,
    /// User priority of a QoS data frame.
    pub user_priority: Option<u8>,
    /// Sequence number of a data frame.
    pub sequence: u16,
    /// Receiver, or [`BROADCAST`].
    pub to: u32,
    /// The packet of a data frame.
    pub packet: ImageId,
    /// Size in bytes, header and check sequence included.
    pub bytes: u32,
    /// Rate.
    pub rate: Rate,
    /// Time on the air.
    pub time: Nanos,
    /// The duration field: how long the exchange goes on after this frame.
    pub nav: Nanos,
}

/// The data frame that a station is busy with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// The packet and where it goes.
    pub waiting: Waiting,
    sequence: u16,
    bytes: u32,
    rate: Rate,
    time: Nanos,
    protected: bool,
    sent_before: bool,
    short_retries: u32,
    long_retries: u32,
}

impl Outgoing {
    /// A packet as a frame that has not been sent; `next_sequence` is its number, and counts on.
    pub(super) fn new(params: &MacParams, node: u32, waiting: Waiting, next_sequence: &mut u16) -> Self {
        let bytes = frame::of_ip_packet(waiting.bytes) + params.header_bytes;
        let broadcast = waiting.next_hop == BROADCAST;
        let rate = if broadcast { params.broadcast_rate } else { params.rate_of_hop(node, waiting.next_hop) };
        let sequence = *next_sequence;
        *next_sequence = (sequence + 1) & 0x0fff;
        Self {
            waiting,
            sequence,
            bytes,
            rate,
            time: params.phy.frame_duration(rate, bytes),
            protected: !broadcast && bytes > params.rts_threshold,
            sent_before: false,
            short_retries: 0,
            long_retries: 0,
        }
    }

    /// An attempt has failed, for want of an ACK or in any other way. True where it was the last one.
    pub(super) fn count_failure(&mut self, params: &MacParams, no_ack: bool) -> bool {
        if no_ack && self.protected {
            self.long_retries += 1;
            self.long_retries >= params.long_retry_limit
        } else {
            self.short_retries += 1;
            self.short_retries >= params.short_retry_limit
        }
    }

    /// Whether it is for all neighbours.
    pub(super) fn is_broadcast(&self) -> bool {
        self.waiting.next_hop == BROADCAST
    }

    /// Time from its first bit, or that of its RTS, to the last one of its ACK.
    pub(super) fn exchange_time(&self, params: &MacParams) -> Nanos {
        let data = self.time + params.nav_of_data(self.rate);
        if self.protected {
            let rts = params.phy.frame_duration(params.control_rate_of(self.rate), frame::RTS);
            rts + params.nav_of_rts(self.rate, self.time)
        } else {
            data
        }
    }
}

/// What a station sends a SIFS after a frame that it received: an ACK or a CTS.
#[derive(Clone, Copy, Debug)]
struct Answer {
    kind: FrameKind,
    /// Rate of what is answered.
    rate: Rate,
    to: u32,
    nav: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing to send.
    Empty,
    /// Waits for its turn.
    Contending,
    /// Its RTS or data frame is on the air.
    Sending,
    /// Waits for a CTS.
    AwaitingCts,
    /// Has received the CTS and sends data after a SIFS.
    Cleared,
    /// Waits for an ACK.
    AwaitingAck,
}

/// A packet that the station has done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The packet.
    pub packet: ImageId,
    /// Whether it was acknowledged, or broadcast.
    pub delivered: bool,
}

/// What a received frame means to the station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// It carries data for this station.
    pub data: Data,
    /// With it the station has done with a packet of its own.
    pub done: Option<Done>,
}

impl Received {
    /// Whether it means anything.
    #[inline]
    pub fn matters(&self) -> bool {
        self.data != Data::None || self.done.is_some()
    }
}

/// Whether a frame carries data for a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// It does not.
    #[default]
    None,
    /// It does.
    New,
    /// It does, but the station has had it before: the acknowledgment was lost.
    Duplicate,
}

/// What a station needs of its world when something happens to it.
pub struct Context<'a> {
    /// The event queue.
    pub events: &'a mut Events,
    /// The parameters of medium access.
    pub params: &'a MacParams,
    /// All packets.
    pub packets: &'a mut Packets,
    /// The station's number.
    pub node: u32,
}

impl Context<'_> {
    /// The same with other parameters.
    pub(super) fn with<'a>(&'a mut self, params: &'a MacParams) -> Context<'a> {
        Context { events: self.events, params, packets: self.packets, node: self.node }
    }
}

/// Medium access of one station.
///
/// The order of the fields matters: what every frame in the neighbourhood touches lies in the first cache line, what the
/// station's own exchanges touch in the next two.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Dcf {
    pub(super) state: State,
    /// The medium is idle, as far as the radio knows.
    pub(super) idle: bool,
    /// A frame was lost: EIFS follows when the medium becomes idle.
    after_error: bool,
    /// An answer can no longer begin, but a frame is arriving that may be it.
    overdue: bool,
    /// Slots of backoff that are left at `counting_from`.
    pub(super) backoff: u32,
    /// When the slots begin that are counted; holds while the medium is idle.
    counting_from: Nanos,
    /// The medium is reserved up to here.
    pub(super) nav_until: Nanos,
    /// The EIFS after a lost frame lasts up to here.
    pub(super) eifs_until: Nanos,
    /// When the station sends; holds while it contends and the medium is idle.
    access_at: Nanos,
    /// When it no longer waits for an answer.
    timeout_at: Nanos,
    pub(super) cw: u32,
    next_sequence: u16,
    /// A backoff, of no slots perhaps, has been drawn and is not over.
    pub(super) backing_off: bool,
    /// The NAV was last set by an RTS, and no frame has ended here since.
    rts_unanswered: bool,
    pub(super) current: Option<Outgoing>,
    answer: Option<Answer>,
    pub(super) random: Stream,
    /// The last sequence number from each neighbour; in place for the neighbours that most stations have on routes.
    last_heard: SmallVec<[(u32, u16); 4]>,
    /// Packets in the queue, which is looked at only where there are some.
    queued: u32,
    /// A packet that finds nothing else to do passes the queue by, and an empty queue need not be told that it is asked:
    /// there are no books to keep.
    passes_by: bool,
    nav_check: Timer,
    queue: Box<Queue>,
}

impl Dcf {
    /// An idle station; `random` draws its backoffs.
    pub fn new(params: &MacParams, queue: Queue, random: Stream) -> Self {
        Self {
            state: State::Empty,
            idle: true,
            after_error: false,
            eifs_until: Nanos::ZERO,
            overdue: false,
            cw: params.cw_min,
            backoff: 0,
            backing_off: false,
            rts_unanswered: false,
            counting_from: params.difs,
            nav_until: Nanos::ZERO,
            access_at: Nanos::MAX,
            timeout_at: Nanos::MAX,
            nav_check: Timer::default(),
            answer: None,
            current: None,
            passes_by: queue.is_passed_by(),
            queue: Box::new(queue),
            queued: 0,
            next_sequence: 0,
            last_heard: SmallVec::new(),
            random,
        }
    }

    /// Packets that wait, the one in service included.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.queued as usize + usize::from(self.current.is_some())
    }

    /// A packet to send.
    ///
    /// # Errors
    /// The queue does not take it. The packet is still the caller's.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut Context<'_>, packet: Waiting) -> Result<(), Refused> {
        let now = ctx.events.now();
        if self.current.is_some() {
            let taken = self.queue.push(packet, now, ctx.packets);
            self.queued = self.queue.len() as u32;
            return taken;
        }
        let packet = if self.passes_by {
            packet
        } else {
            let passed = self.queue.pass(packet, now, ctx.packets);
            self.queued = self.queue.len() as u32;
            let Some(packet) = passed? else { return Ok(()) };
            packet
        };
        self.current = Some(Outgoing::new(ctx.params, ctx.node, packet, &mut self.next_sequence));
        if self.idle {
            self.count_down(ctx.params, now);
        }
        let at_once = self.idle && now >= self.counting_from;
        if !self.backing_off && !at_once {
            self.draw_backoff();
        }
        self.contend(ctx);
        Ok(())
    }

    fn draw_backoff(&mut self) {
        self.backoff = self.random.up_to(self.cw);
        self.backing_off = true;
    }

    /// Waits for the station's turn, or for the medium to become idle.
    #[inline]
    fn contend(&mut self, ctx: &mut Context<'_>) {
        self.state = State::Contending;
        if self.idle {
            let at = self.counting_from + ctx.params.phy.slot * u64::from(self.backoff);
            self.access_at = at.max(ctx.events.now());
            ctx.events.set_station(self.access_at, EventKind::Access, ctx.node);
        }
    }

    /// Takes the slots off that have passed up to `now`, while the medium was idle.
    #[inline]
    fn count_down(&mut self, params: &MacParams, now: Nanos) {
        if self.backing_off && now >= self.counting_from {
            let passed = (now - self.counting_from).div_floor(params.phy.slot).min(u64::from(self.backoff));
            self.backoff -= passed as u32;
            self.backing_off = self.backoff > 0;
            self.counting_from += params.phy.slot * passed;
        }
    }

    /// The medium becomes busy at `at` with somebody else's signal; `locked` says whether it is a frame that the radio
    /// begins to receive.
    #[inline(always)]
    pub fn medium_busy(&mut self, ctx: &mut Context<'_>, at: Nanos, locked: bool) {
        self.idle = false;
        let noticed = at + ctx.params.turnaround;
        match self.state {
            State::Contending => {
                if self.access_at <= noticed {
                    return; // too late to notice
                }
                ctx.events.cancel_station(EventKind::Access, ctx.node);
            }
            State::AwaitingAck | State::AwaitingCts => {
                if locked && at + ctx.params.phy.rx_start_delay <= self.timeout_at {
                    self.overdue = true;
                    ctx.events.cancel_station(EventKind::ResponseTimeout, ctx.node);
                }
            }
            State::Empty | State::Sending | State::Cleared => {}
        }
        self.count_down(ctx.params, noticed);
    }

    /// The medium is idle from `at` on.
    #[inline(always)]
    pub fn medium_idle(&mut self, ctx: &mut Context<'_>, at: Nanos) {
        self.idle = true;
        // EIFS follows the lost frame, not energy that comes later, and runs beside the NAV (10.3.2.3.7).
        if std::mem::take(&mut self.after_error) {
            self.eifs_until = at + ctx.params.eifs;
        }
        self.counting_from = (at.max(self.nav_until) + ctx.params.difs).max(self.eifs_until);
        if self.state == State::Contending {
            self.contend(ctx);
        }
    }

    /// The backoff is over: the frame to send.
    #[inline(always)]
    pub fn on_access(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        let outgoing = self.current?;
        self.backoff = 0;
        self.backing_off = false;
        self.start_sending();
        Some(if outgoing.protected { Self::rts(ctx.params, &outgoing) } else { self.data(ctx.params)? })
    }

    fn start_sending(&mut self) {
        self.state = State::Sending;
        self.idle = false;
        self.after_error = false;
    }

    fn rts(params: &MacParams, outgoing: &Outgoing) -> Frame {
        let rate = params.control_rate_of(outgoing.rate);
        Frame {
            kind: FrameKind::Rts,
            retry: outgoing.short_retries > 0,
            user_priority: None,
            sequence: 0,
            to: outgoing.waiting.next_hop,
            packet: outgoing.waiting.packet,
            bytes: frame::RTS,
            rate,
            time: params.phy.frame_duration(rate, frame::RTS),
            nav: params.nav_of_rts(outgoing.rate, outgoing.time),
        }
    }

    fn data(&mut self, params: &MacParams) -> Option<Frame> {
        let outgoing = self.current.as_mut()?;
        let broadcast = outgoing.waiting.next_hop == BROADCAST;
        let retry = std::mem::replace(&mut outgoing.sent_before, true);
        Some(Frame {
            kind: FrameKind::Data,
            retry,
            user_priority: None,
            sequence: outgoing.sequence,
            to: outgoing.waiting.next_hop,
            packet: outgoing.waiting.packet,
            bytes: outgoing.bytes,
            rate: outgoing.rate,
            time: outgoing.time,
            nav: if broadcast { Nanos::ZERO } else { params.nav_of_data(outgoing.rate) },
        })
    }

    /// What is due a SIFS after a received frame.
    #[inline(always)]
    pub fn on_response(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        if self.state == State::Cleared {
            self.start_sending();
            return self.data(ctx.params);
        }
        let Answer { kind, rate, to, nav } = self.answer.take()?;
        // The slots stand still while it answers; the medium was idle for less than a DIFS.
        self.idle = false;
        self.after_error = false;
        if self.state == State::Contending {
            ctx.events.cancel_station(EventKind::Access, ctx.node);
        }
        let (bytes, time) = match kind {
            FrameKind::Cts => (frame::CTS, ctx.params.cts_time_of(rate)),
            _ => (frame::ACK, ctx.params.ack_time_of(rate)),
        };
        let rate = ctx.params.control_rate_of(rate);
        Some(Frame {
            kind,
            retry: false,
            user_priority: None,
            sequence: 0,
            to,
            packet: ImageId::MAX,
            bytes,
            rate,
            time,
            nav,
        })
    }

    /// The station's own frame has ended. A broadcast is done with that.
    #[inline(always)]
    pub fn on_sent(&mut self, ctx: &mut Context<'_>, frame: &Frame, end: Nanos) -> Option<Done> {
        match frame.kind {
            FrameKind::Ack | FrameKind::Cts => None,
            FrameKind::Data if frame.to == BROADCAST => self.done(ctx, true),
            FrameKind::Data => {
                self.await_answer(ctx, State::AwaitingAck, frame, end);
                None
            }
            FrameKind::Rts => {
                self.await_answer(ctx, State::AwaitingCts, frame, end);
                None
            }
        }
    }

    fn await_answer(&mut self, ctx: &mut Context<'_>, state: State, frame: &Frame, end: Nanos) {
        self.state = state;
        self.overdue = false;
        self.timeout_at = end + ctx.params.response_timeout_of(frame.rate);
        ctx.events.set_station(self.timeout_at, EventKind::ResponseTimeout, ctx.node);
    }

    /// The time for an answer is up. `arriving` says since when a frame is being received, if one is.
    pub fn on_timeout(&mut self, ctx: &mut Context<'_>, arriving: Option<Nanos>) -> Option<Done> {
        if arriving.is_some_and(|since| since + ctx.params.phy.rx_start_delay <= self.timeout_at) {
            self.overdue = true;
            return None;
        }
        self.fail(ctx)
    }

    /// The wait for an answer is over.
    #[inline]
    fn end_wait(&mut self, ctx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.overdue, false) {
            ctx.events.cancel_station(EventKind::ResponseTimeout, ctx.node);
        }
    }

    /// The exchange has failed: again with a wider window, or never.
    fn fail(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        let waited_for = self.state;
        self.end_wait(ctx);
        let outgoing = self.current.as_mut()?;
        let exhausted = outgoing.count_failure(ctx.params, waited_for == State::AwaitingAck);
        self.counting_from = self.counting_from.max(ctx.events.now() + ctx.params.difs);
        if exhausted {
            return self.done(ctx, false);
        }
        self.cw = (2 * self.cw + 1).min(ctx.params.cw_max);
        self.draw_backoff();
        self.contend(ctx);
        None
    }

    /// The station has done with its frame and goes on to the next one, after a backoff.
    fn done(&mut self, ctx: &mut Context<'_>, delivered: bool) -> Option<Done> {
        let outgoing = self.current.take()?;
        self.cw = ctx.params.cw_min;
        self.draw_backoff();
        self.state = State::Empty;
        if self.queued > 0 || !self.passes_by {
            let next = self.queue.pop(ctx.events.now(), ctx.packets);
            self.queued = self.queue.len() as u32;
            if let Some(next) = next {
                self.current = Some(Outgoing::new(ctx.params, ctx.node, next, &mut self.next_sequence));
                self.contend(ctx);
            }
        }
        Some(Done { packet: outgoing.waiting.packet, delivered })
    }

    /// A frame from `from` was received whole; its last bit arrived at `at`.
    #[inline(always)]
    pub fn on_received(&mut self, ctx: &mut Context<'_>, from: u32, frame: &Frame, at: Nanos) -> Received {
        self.after_error = false;
        self.rts_unanswered = false;
        self.eifs_until = Nanos::ZERO;
        let done = match (frame.kind, self.state) {
            (FrameKind::Ack, State::AwaitingAck) if frame.to == ctx.node => {
                self.end_wait(ctx);
                self.done(ctx, true)
            }
            (FrameKind::Cts, State::AwaitingCts) if frame.to == ctx.node => {
                self.end_wait(ctx);
                self.state = State::Cleared;
                ctx.events.set_station(at + ctx.params.phy.sifs, EventKind::Response, ctx.node);
                None
            }
            _ => self.on_unexpected(ctx),
        };
        let data = match frame.kind {
            FrameKind::Data if frame.to == BROADCAST => Data::New,
            _ if frame.to != ctx.node => {
                self.reserve(ctx, frame, at);
                Data::None
            }
            FrameKind::Data => {
                self.answer_with(ctx, FrameKind::Ack, frame.rate, from, Nanos::ZERO, at);
                if self.seen_before(from, frame) { Data::Duplicate } else { Data::New }
            }
            FrameKind::Rts if self.nav_until <= at => {
                let nav = ctx.params.nav_of_cts(frame.rate, frame.nav);
                self.answer_with(ctx, FrameKind::Cts, frame.rate, from, nav, at);
                Data::None
            }
            FrameKind::Rts | FrameKind::Cts | FrameKind::Ack => Data::None,
        };
        Received { data, done }
    }

    /// Virtual carrier sense (10.3.2.4): a frame for others reserves the medium.
    #[inline]
    fn reserve(&mut self, ctx: &mut Context<'_>, frame: &Frame, at: Nanos) {
        let until = at + frame.nav;
        if until <= self.nav_until {
            return;
        }
        self.nav_until = until;
        if frame.kind == FrameKind::Rts {
            self.rts_unanswered = true;
            self.nav_check.set(
                at + reservation_check(ctx.params, frame.rate),
                ctx.events,
                EventKind::NavCheck,
                ctx.node,
            );
        }
    }

    /// The reservation of an RTS ends early where no frame has begun since: where PHY-RXSTART, which follows the
    /// preamble, was not heard up to now (10.3.2.4). `arriving` says since when a frame is being received, if one is.
    pub fn on_nav_check(&mut self, ctx: &mut Context<'_>, event: Event, arriving: Option<Nanos>) {
        if !self.nav_check.fires(event, ctx.events) || !self.rts_unanswered {
            return;
        }
        let begun = arriving.is_some_and(|since| since + ctx.params.phy.rx_start_delay <= event.at);
        if begun || self.nav_until <= event.at {
            return;
        }
        self.nav_until = event.at;
        if self.idle {
            self.counting_from = (event.at + ctx.params.difs).max(self.eifs_until);
            if self.state == State::Contending {
                self.contend(ctx);
            }
        }
    }

    /// A frame that is not the awaited answer ends the wait for it, if the time for it is up.
    #[inline]
    fn on_unexpected(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        if self.overdue { self.fail(ctx) } else { None }
    }

    /// A frame was locked on and lost.
    #[inline(always)]
    pub fn on_lost(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        self.after_error = true;
        self.rts_unanswered = false;
        self.on_unexpected(ctx)
    }

    fn answer_with(
        &mut self,
        ctx: &mut Context<'_>,
        kind: FrameKind,
        rate: Rate,
        to: u32,
        nav: Nanos,
        at: Nanos,
    ) {
        self.answer = Some(Answer { kind, rate, to, nav });
        ctx.events.set_station(at + ctx.params.phy.sifs, EventKind::Response, ctx.node);
    }

    /// Duplicate detection (10.3.2.14): a repetition of the last frame from this neighbour.
    fn seen_before(&mut self, from: u32, frame: &Frame) -> bool {
        // Numbers are counted by user priority, which is known of a QoS frame.
        let from = from | frame.user_priority.map_or(0, |up| (u32::from(up) + 1) << 28);
        match self.last_heard.iter_mut().find(|(neighbour, _)| *neighbour == from) {
            Some((_, last)) => {
                let duplicate = frame.retry && *last == frame.sequence;
                *last = frame.sequence;
                duplicate
            }
            None => {
                self.last_heard.push((from, frame.sequence));
                false
            }
        }
    }
}

/// How long after an RTS for others a station looks whether anything followed it (10.3.2.4).
fn reservation_check(params: &MacParams, rate: Rate) -> Nanos {
    params.phy.sifs * 2 + params.cts_time_of(rate) + params.phy.rx_start_delay + params.phy.slot * 2
}
