//! One station's distributed coordination function (IEEE 802.11-2020, 10.3).
//!
//! The inputs of a station are changes of its medium to busy and idle, frames that it received or lost, and its timers;
//! the outputs are frames to send. It never counts slots one by one: while the medium is idle, the end of the backoff is a
//! point in time; when the medium becomes busy, the slots that have passed are subtracted.
//!
//! Interpretations of the standard that affect results:
//! - A frame that finds the medium idle for a DIFS, with no backoff pending, is sent at once (10.3.4.2), otherwise after a
//!   backoff. A backoff is drawn after every transmission, even if no frame is queued (10.3.4.3).
//! - Backoff slots are counted from a DIFS after the medium became idle, or from an EIFS if the receiver was locked on the
//!   previous frame and lost it (10.3.2.3.7).
//! - A station that gets no response counts its slots from a DIFS after the timeout. If it noticed the start of a frame
//!   before the timeout, it waits for the end of that frame (10.3.2.9).
//! - Within its turnaround time before a slot, a station cannot notice a carrier any more and sends (10.3.7: the slot time
//!   consists of turnaround, carrier-sense time and air propagation time).
//!
//! Left out: fragmentation, power save, PCF, rate adaptation, and association; addresses are node numbers.

use fairhop_model::phy::{Rate, frame};
use fairhop_model::units::Nanos;
use smallvec::SmallVec;

use super::frame::{BROADCAST, Context, Data, Done, Frame, FrameKind, Received};
use super::outgoing::Outgoing;
use super::params::MacParams;
use crate::engine::{Event, EventKind, Stream, Timer};
use crate::packet::ImageId;
use crate::queue::{Queue, Refused, Waiting};
use crate::radio::FrameLoss;

/// The ACK or CTS that a station sends a SIFS after a received frame.
#[derive(Clone, Copy, Debug)]
struct Response {
    kind: FrameKind,
    /// Rate of the received frame.
    rate: Rate,
    to: u32,
    nav: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing to send.
    Empty,
    /// Waits for access to the medium.
    Contending,
    /// Its RTS or data frame is on the air.
    Sending,
    /// Waits for a CTS.
    AwaitingCts,
    /// Has received the CTS; the data frame follows after a SIFS.
    Cleared,
    /// Waits for an ACK.
    AwaitingAck,
}

/// Medium access of one station.
///
/// The order of the fields matters: those that every frame in the neighbourhood uses are in the first cache line, those
/// of the station's own exchanges in the next two.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Dcf {
    pub(super) state: State,
    /// The radio senses an idle medium.
    pub(super) idle: bool,
    /// The last frame was lost: EIFS follows when the medium becomes idle.
    after_error: bool,
    /// The response timeout has passed, but a frame is arriving that may be the response.
    overdue: bool,
    /// Remaining backoff slots at `counting_from`.
    pub(super) backoff: u32,
    /// Start of the remaining slots; valid while the medium is idle.
    counting_from: Nanos,
    /// End of the NAV.
    pub(super) nav_until: Nanos,
    /// End of the EIFS after a lost frame.
    pub(super) eifs_until: Nanos,
    /// Time of the next transmission; valid while the station contends and the medium is idle.
    access_at: Nanos,
    /// End of the wait for a response.
    timeout_at: Nanos,
    pub(super) cw: u32,
    next_sequence: u16,
    /// A backoff has been drawn, possibly of 0 slots, and is not over.
    pub(super) backing_off: bool,
    /// The NAV was last set by an RTS, and no frame has ended at this station since.
    rts_unanswered: bool,
    pub(super) current: Option<Outgoing>,
    response: Option<Response>,
    pub(super) random: Stream,
    /// The last sequence number from each neighbour; inline for the few neighbours that most stations have on routes.
    last_sequence: SmallVec<[(u32, u16); 4]>,
    /// Number of packets in the queue. The queue itself is used only if this is not zero, to save cache misses.
    queued: u32,
    /// Packets for an idle station bypass the queue, which keeps no statistics of them.
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
            response: None,
            current: None,
            passes_by: queue.is_passed_by(),
            queue: Box::new(queue),
            queued: 0,
            next_sequence: 0,
            last_sequence: SmallVec::new(),
            random,
        }
    }

    /// Number of packets in the queue and in service.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.queued as usize + usize::from(self.current.is_some())
    }

    /// Accepts a packet to send.
    ///
    /// # Errors
    /// The queue refuses it. The packet remains the caller's.
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

    /// Takes out all packets for a next hop that wait in the queue; the one in service stays.
    pub fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        self.queue.withdraw(next_hop, out);
        self.queued = self.queue.len() as u32;
    }

    fn draw_backoff(&mut self) {
        self.backoff = self.random.up_to(self.cw);
        self.backing_off = true;
    }

    /// Contends for the medium: sets the time of access if the medium is idle.
    #[inline]
    fn contend(&mut self, ctx: &mut Context<'_>) {
        self.state = State::Contending;
        if self.idle {
            let at = self.counting_from + ctx.params.phy.slot * u64::from(self.backoff);
            self.access_at = at.max(ctx.events.now());
            ctx.events.set_station(self.access_at, EventKind::Access, ctx.node);
        }
    }

    /// Subtracts the slots that have passed up to `now` while the medium was idle.
    #[inline]
    fn count_down(&mut self, params: &MacParams, now: Nanos) {
        if self.backing_off && now >= self.counting_from {
            let passed = (now - self.counting_from).div_floor(params.phy.slot).min(u64::from(self.backoff));
            self.backoff -= passed as u32;
            self.backing_off = self.backoff > 0;
            self.counting_from += params.phy.slot * passed;
        }
    }

    /// The medium becomes busy at `at` with another station's signal; `locked` if the radio begins to receive it.
    #[inline(always)]
    pub fn medium_busy(&mut self, ctx: &mut Context<'_>, at: Nanos, locked: bool) {
        self.idle = false;
        let noticed = at + ctx.params.turnaround;
        match self.state {
            State::Contending => {
                if self.access_at <= noticed {
                    return; // too late to be noticed
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

    /// The medium became idle at `at`.
    #[inline(always)]
    pub fn medium_idle(&mut self, ctx: &mut Context<'_>, at: Nanos) {
        self.idle = true;
        // EIFS follows the lost frame, not later energy, and runs in parallel to the NAV (10.3.2.3.7).
        if std::mem::take(&mut self.after_error) {
            if ctx.params.follows_ns2() {
                self.nav_until = self.nav_until.max(at + ctx.params.eifs);
            } else {
                self.eifs_until = at + ctx.params.eifs;
            }
        }
        self.counting_from = (at.max(self.nav_until) + ctx.params.difs).max(self.eifs_until);
        if self.state == State::Contending {
            self.contend(ctx);
        }
    }

    /// The backoff is over. The result is the frame to send.
    #[inline(always)]
    pub fn on_access(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        self.backoff = 0;
        self.backing_off = false;
        self.start_sending();
        let outgoing = self.current.as_mut()?;
        Some(if outgoing.protected { outgoing.rts(ctx.params) } else { outgoing.data(ctx.params) })
    }

    fn start_sending(&mut self) {
        self.state = State::Sending;
        self.idle = false;
        self.after_error = false;
    }

    /// A SIFS has passed since a received frame. The result is the response to it, or the data frame after a CTS.
    #[inline(always)]
    pub fn on_response(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        if self.state == State::Cleared {
            self.start_sending();
            return Some(self.current.as_mut()?.data(ctx.params));
        }
        let Response { kind, rate, to, nav } = self.response.take()?;
        let busy = !self.idle || self.nav_until > ctx.events.now();
        if ctx.params.follows_ns2() && kind == FrameKind::Cts && busy {
            return None;
        }
        // Slots are not counted during the response; the medium was idle for less than a DIFS.
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

    /// The station's own frame has ended. A broadcast is finished with that.
    #[inline(always)]
    pub fn on_sent(&mut self, ctx: &mut Context<'_>, frame: &Frame, end: Nanos) -> Option<Done> {
        match frame.kind {
            FrameKind::Ack | FrameKind::Cts => None,
            FrameKind::Data if frame.to == BROADCAST => self.done(ctx, true),
            FrameKind::Data => {
                self.await_response(ctx, State::AwaitingAck, frame, end);
                None
            }
            FrameKind::Rts => {
                self.await_response(ctx, State::AwaitingCts, frame, end);
                None
            }
        }
    }

    fn await_response(&mut self, ctx: &mut Context<'_>, state: State, frame: &Frame, end: Nanos) {
        self.state = state;
        self.overdue = false;
        self.timeout_at = end + ctx.params.response_timeout_of(frame.rate);
        ctx.events.set_station(self.timeout_at, EventKind::ResponseTimeout, ctx.node);
    }

    /// No response began in time. `arriving` is the start of the frame that is being received, if there is one.
    pub fn on_timeout(&mut self, ctx: &mut Context<'_>, arriving: Option<Nanos>) -> Option<Done> {
        if arriving.is_some_and(|since| since + ctx.params.phy.rx_start_delay <= self.timeout_at) {
            self.overdue = true;
            return None;
        }
        self.fail(ctx)
    }

    /// Ends the wait for a response.
    #[inline]
    fn end_wait(&mut self, ctx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.overdue, false) {
            ctx.events.cancel_station(EventKind::ResponseTimeout, ctx.node);
        }
    }

    /// The exchange has failed. It is repeated with a larger window, or the packet is dropped at the retry limit.
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

    /// Finishes the current frame and goes on to the next one, after a backoff.
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

    /// A frame from `from` was received; its last bit arrived at `at`.
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
                self.respond_with(ctx, FrameKind::Ack, frame.rate, from, Nanos::ZERO, at);
                if self.seen_before(from, frame) { Data::Duplicate } else { Data::New }
            }
            FrameKind::Rts if self.nav_until <= at => {
                let nav = ctx.params.nav_of_cts(frame.rate, frame.nav);
                self.respond_with(ctx, FrameKind::Cts, frame.rate, from, nav, at);
                Data::None
            }
            FrameKind::Rts | FrameKind::Cts | FrameKind::Ack => Data::None,
        };
        Received { data, done }
    }

    /// Virtual carrier sense (10.3.2.4): a frame to another station reserves the medium.
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

    /// Ends the reservation of an RTS early if no frame has followed it: if there was no PHY-RXSTART, which comes after the
    /// preamble, up to now (10.3.2.4). `arriving` is the start of the frame that is being received, if there is one.
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

    /// A frame that is not the awaited response ends the wait for it if the timeout has passed.
    #[inline]
    fn on_unexpected(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        if self.overdue { self.fail(ctx) } else { None }
    }

    /// The radio was locked on a frame and lost it.
    #[inline(always)]
    pub fn on_lost(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        self.after_error = true;
        self.rts_unanswered = false;
        self.on_unexpected(ctx)
    }

    /// A frame has ended at `at` that the radio was not locked on. The standard's rules ignore it: it was energy.
    #[inline]
    pub fn on_missed(&mut self, ctx: &mut Context<'_>, why: FrameLoss, at: Nanos) -> Received {
        if ctx.params.follows_ns2() && why == FrameLoss::Busy {
            self.nav_until = self.nav_until.max(at + ctx.params.eifs);
        }
        Received::default()
    }

    fn respond_with(
        &mut self,
        ctx: &mut Context<'_>,
        kind: FrameKind,
        rate: Rate,
        to: u32,
        nav: Nanos,
        at: Nanos,
    ) {
        self.response = Some(Response { kind, rate, to, nav });
        ctx.events.set_station(at + ctx.params.phy.sifs, EventKind::Response, ctx.node);
    }

    /// Duplicate detection (10.3.2.14): a retransmission of the last frame from this neighbour.
    fn seen_before(&mut self, from: u32, frame: &Frame) -> bool {
        // QoS frames have a sequence number space per user priority.
        let from = from | frame.user_priority.map_or(0, |up| (u32::from(up) + 1) << 28);
        match self.last_sequence.iter_mut().find(|(neighbour, _)| *neighbour == from) {
            Some((_, last)) => {
                let duplicate = frame.retry && *last == frame.sequence;
                *last = frame.sequence;
                duplicate
            }
            None => {
                self.last_sequence.push((from, frame.sequence));
                false
            }
        }
    }
}

/// NAVTimeout: the time after an RTS to another station at which its reservation ends if no frame followed (10.3.2.4).
fn reservation_check(params: &MacParams, rate: Rate) -> Nanos {
    params.phy.sifs * 2 + params.cts_time_of(rate) + params.phy.rx_start_delay + params.phy.slot * 2
}
