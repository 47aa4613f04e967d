//! One station's enhanced distributed channel access (IEEE 802.11-2020, 10.23.2): four access categories that contend
//! with each other and with other stations, each with its own queue, window, AIFS and TXOP limit.
//!
//! The station is a [`Dcf`] that never contends by itself. It senses the medium, keeps the NAV, responds, and carries out
//! the exchange of the category that has won, with that category's window and retry counters. This module adds the rest:
//!
//! - *Slot boundaries* (10.23.2.4). A category subtracts a slot from its backoff when the slot begins, the DCF when it is
//!   over. So every idle period of at least AIFS advances a category by one slot. After a long idle period both send at the
//!   same time.
//! - *Internal collision.* If several categories are due in the same slot, the highest one sends. The others count a failed
//!   attempt: their windows grow and their retries count, but nothing was on the air.
//! - *TXOP.* After an acknowledged frame, a category with a TXOP limit sends its next frame a SIFS later if the frame and
//!   its response fit in the limit. A failure ends the TXOP with a backoff.
//! - While the station waits for a response, no category counts slots. After the timeout all count from their AIFS.
//!
//! Left out: admission control, block acknowledgment, recovery of a TXOP after a PIFS, fragmentation of frames longer than
//! the limit (they are sent whole), duration fields that reserve more than the exchange, group addresses in a TXOP, and
//! lifetime limits per category.

use fairhop_model::units::Nanos;

use super::dcf::{Dcf, State};
use super::frame::{Context, Done, Frame, FrameKind, Received};
use super::outgoing::Outgoing;
use super::params::{CATEGORIES, EdcaParams, MacParams};
use crate::engine::{Event, EventKind, Stream};
use crate::queue::{Queue, Refused, Waiting};
use crate::radio::FrameLoss;

/// The category of each user priority (table 10-1): background, best effort, video, voice.
const CATEGORY_OF: [usize; 8] = [1, 0, 0, 1, 2, 2, 3, 3];

/// One access category.
#[derive(Clone, Debug)]
struct Category {
    queue: Queue,
    current: Option<Outgoing>,
    cw: u32,
    backoff: u32,
    /// A backoff has been drawn, possibly of 0 slots, and is not over.
    backing_off: bool,
    /// The end of AIFS; holds while the medium is idle.
    free_from: Nanos,
    /// The next slot boundary at which something is counted.
    counting_from: Nanos,
    next_sequence: u16,
}

impl Category {
    /// When it sends, if the medium stays idle.
    fn access_at(&self, slot: Nanos) -> Nanos {
        if self.current.is_none() {
            return Nanos::MAX;
        }
        self.counting_from + slot * u64::from(self.backoff)
    }

    /// Takes the slots off that have begun up to `now`, while the medium was idle.
    fn count_down(&mut self, slot: Nanos, now: Nanos) {
        if self.backing_off && now >= self.counting_from {
            let begun = ((now - self.counting_from).div_floor(slot) + 1).min(u64::from(self.backoff));
            self.backoff -= begun as u32;
            self.backing_off = self.backoff > 0;
            self.counting_from += slot * begun;
        }
    }
}

/// Medium access of one station with four access categories.
#[derive(Clone, Debug)]
pub struct Edca {
    station: Dcf,
    categories: [Category; CATEGORIES],
    /// The category whose exchange is in progress.
    holder: Option<usize>,
    txop_until: Nanos,
    /// The next frame of the TXOP is due a SIFS after the response to the last one.
    continues: bool,
    /// Packets dropped after internal collisions and not reported yet.
    dropped: Vec<Done>,
}

impl Edca {
    /// An idle station; `queue` makes the queue of each category, `random` draws the backoffs.
    pub fn new(
        params: &MacParams,
        edca: &EdcaParams,
        mut queue: impl FnMut() -> Queue,
        random: Stream,
    ) -> Self {
        let category = |index: usize| {
            let mac = &edca.categories[index].mac;
            Category {
                queue: queue(),
                current: None,
                cw: mac.cw_min,
                backoff: 0,
                backing_off: false,
                free_from: mac.difs,
                counting_from: mac.difs,
                next_sequence: 0,
            }
        };
        Self {
            categories: std::array::from_fn(category),
            station: Dcf::new(params, queue(), random),
            holder: None,
            txop_until: Nanos::ZERO,
            continues: false,
            dropped: Vec::with_capacity(CATEGORIES),
        }
    }

    /// Number of packets in the queues and in service.
    #[cold]
    pub fn backlog(&self) -> usize {
        let waiting: usize = self
            .categories
            .iter()
            .map(|category| category.queue.len() + usize::from(category.current.is_some()))
            .sum();
        waiting + usize::from(self.station.current.is_some()) + self.dropped.len()
    }

    /// Accepts a packet to send.
    ///
    /// # Errors
    /// The queue of its category refuses it. The packet remains the caller's.
    #[cold]
    pub fn enqueue(&mut self, ctx: &mut Context<'_>, packet: Waiting) -> Result<(), Refused> {
        let Some(edca) = ctx.params.edca.as_deref() else { return Err(Refused::Full) };
        let up = edca.user_priority(ctx.packets.get(packet.packet).dscp);
        let index = CATEGORY_OF[usize::from(up & 7)];
        let now = ctx.events.now();
        let category = &mut self.categories[index];
        if category.current.is_some() || self.holder == Some(index) {
            return category.queue.push(packet, now, ctx.packets);
        }
        let Some(packet) = category.queue.pass(packet, now, ctx.packets)? else { return Ok(()) };
        let params = &edca.categories[index].mac;
        category.current = Some(Outgoing::new(params, ctx.node, packet, &mut category.next_sequence));
        let idle = self.station.idle && self.holder.is_none();
        if idle {
            category.count_down(params.phy.slot, now);
        }
        let at_once = idle && now >= category.free_from;
        if !category.backing_off && !at_once {
            category.backoff = self.station.random.up_to(category.cw);
            category.backing_off = true;
        }
        self.set_access(ctx);
        Ok(())
    }

    /// Takes out all packets for a next hop that wait in the queues; those in service stay.
    pub fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        for category in &mut self.categories {
            category.queue.withdraw(next_hop, out);
        }
    }

    /// Sets the time of access to that of the first category.
    fn set_access(&mut self, ctx: &mut Context<'_>) {
        let slot = ctx.params.phy.slot;
        let first = self.categories.iter().map(|category| category.access_at(slot)).min();
        match first {
            Some(at) if self.station.idle && self.holder.is_none() && at != Nanos::MAX => {
                ctx.events.set_station(at.max(ctx.events.now()), EventKind::Access, ctx.node);
            }
            _ => ctx.events.cancel_station(EventKind::Access, ctx.node),
        }
    }

    /// Counts slots from an AIFS after `base`.
    fn count_from(&mut self, ctx: &Context<'_>, base: Nanos) {
        let Some(edca) = ctx.params.edca.as_deref() else { return };
        for (category, params) in self.categories.iter_mut().zip(&edca.categories) {
            category.free_from = base + params.mac.difs;
            category.counting_from = category.free_from;
        }
    }

    /// The medium becomes busy; see [`Dcf::medium_busy`].
    #[cold]
    pub fn medium_busy(&mut self, ctx: &mut Context<'_>, at: Nanos, locked: bool) {
        let (slot, noticed) = (ctx.params.phy.slot, at + ctx.params.turnaround);
        let contends = self.station.idle && self.holder.is_none();
        self.station.medium_busy(ctx, at, locked);
        if !contends || self.categories.iter().any(|category| category.access_at(slot) <= noticed) {
            return; // the station does not contend, or it is too late to be noticed
        }
        for category in &mut self.categories {
            category.count_down(slot, noticed);
        }
        ctx.events.cancel_station(EventKind::Access, ctx.node);
    }

    /// The medium became idle at `at`.
    #[cold]
    pub fn medium_idle(&mut self, ctx: &mut Context<'_>, at: Nanos) {
        self.station.medium_idle(ctx, at);
        // EIFS − DIFS + AIFS if the last frame was lost (10.23.2.4).
        let after_error = self.station.eifs_until.saturating_sub(ctx.params.difs);
        self.count_from(ctx, at.max(self.station.nav_until).max(after_error));
        self.set_access(ctx);
    }

    /// The backoff of a category is over. The result is the frame of the highest category that is due.
    #[cold]
    pub fn on_access(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        let edca = ctx.params.edca.as_deref()?;
        let (now, slot) = (ctx.events.now(), ctx.params.phy.slot);
        let due = |category: &Category| category.access_at(slot) <= now;
        let winner = self.categories.iter().rposition(due)?;
        for index in 0..CATEGORIES {
            if index == winner {
                continue;
            }
            if due(&self.categories[index]) {
                self.collide_within(ctx, &edca.categories[index].mac, index);
            } else {
                self.categories[index].count_down(slot, now);
            }
        }
        let (category, params) = (&mut self.categories[winner], &edca.categories[winner]);
        category.backoff = 0;
        category.backing_off = false;
        self.station.current = category.current.take();
        self.station.cw = category.cw;
        self.holder = Some(winner);
        self.txop_until = now + params.txop_limit;
        let frame = self.station.on_access(&mut ctx.with(&params.mac));
        self.tagged(ctx, frame)
    }

    /// Internal collision: a category loses the slot to a higher one of the same station.
    fn collide_within(&mut self, ctx: &mut Context<'_>, params: &MacParams, index: usize) {
        let category = &mut self.categories[index];
        let exhausted =
            category.current.as_mut().is_some_and(|outgoing| outgoing.count_failure(params, false));
        if exhausted {
            if let Some(outgoing) = category.current.take() {
                self.dropped.push(Done { packet: outgoing.waiting.packet, delivered: false });
            }
            category.cw = params.cw_min;
            category.take_next(ctx, params);
        } else {
            category.cw = (2 * category.cw + 1).min(params.cw_max);
        }
        category.backoff = self.station.random.up_to(category.cw);
        category.backing_off = true;
    }

    /// The frame with the user priority of its packet.
    fn tagged(&self, ctx: &Context<'_>, frame: Option<Frame>) -> Option<Frame> {
        let mut frame = frame?;
        if frame.kind == FrameKind::Data {
            let dscp = ctx.packets.get(frame.packet).dscp;
            frame.user_priority = ctx.params.edca.as_deref().map(|edca| edca.user_priority(dscp));
        }
        Some(frame)
    }

    /// A SIFS has passed since a received frame. The result is the response, the data frame after a CTS, or the next frame
    /// of the TXOP.
    #[cold]
    pub fn on_response(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        let edca = ctx.params.edca.as_deref()?;
        let params = self.holder.map_or(ctx.params, |holder| &edca.categories[holder].mac);
        let frame = if std::mem::take(&mut self.continues) {
            self.station.on_access(&mut ctx.with(params))
        } else {
            self.station.on_response(&mut ctx.with(params))
        };
        self.set_access(ctx);
        self.tagged(ctx, frame)
    }

    /// The station's own frame has ended.
    #[cold]
    pub fn on_sent(&mut self, ctx: &mut Context<'_>, frame: &Frame, end: Nanos) -> Option<Done> {
        let done = self.exchange(ctx, |station, ctx| station.on_sent(ctx, frame, end));
        self.after_exchange(ctx, done, None)
    }

    /// No response began in time; see [`Dcf::on_timeout`].
    #[cold]
    pub fn on_timeout(&mut self, ctx: &mut Context<'_>, arriving: Option<Nanos>) -> Option<Done> {
        let done = self.exchange(ctx, |station, ctx| station.on_timeout(ctx, arriving));
        self.after_exchange(ctx, done, None)
    }

    /// A frame was received; its last bit arrived at `at`.
    #[cold]
    pub fn on_received(&mut self, ctx: &mut Context<'_>, from: u32, frame: &Frame, at: Nanos) -> Received {
        let Received { data, done } =
            self.exchange(ctx, |station, ctx| station.on_received(ctx, from, frame, at));
        Received { data, done: self.after_exchange(ctx, done, Some(at)) }
    }

    /// The radio was locked on a frame and lost it.
    #[cold]
    pub fn on_lost(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        let done = self.exchange(ctx, Dcf::on_lost);
        self.after_exchange(ctx, done, None)
    }

    /// See [`Dcf::on_missed`].
    #[inline]
    pub fn on_missed(&mut self, ctx: &mut Context<'_>, why: FrameLoss, at: Nanos) -> Received {
        self.station.on_missed(ctx, why, at)
    }

    /// See [`Dcf::on_nav_check`].
    #[cold]
    pub fn on_nav_check(&mut self, ctx: &mut Context<'_>, event: Event, arriving: Option<Nanos>) {
        let before = self.station.nav_until;
        self.station.on_nav_check(ctx, event, arriving);
        if self.station.nav_until != before && self.station.idle {
            let after_error = self.station.eifs_until.saturating_sub(ctx.params.difs);
            self.count_from(ctx, event.at.max(after_error));
            self.set_access(ctx);
        }
    }

    /// Lets the station act with the parameters of the category whose exchange is in progress.
    #[inline]
    fn exchange<T>(&mut self, ctx: &mut Context<'_>, act: impl FnOnce(&mut Dcf, &mut Context<'_>) -> T) -> T {
        let params = match (self.holder, ctx.params.edca.as_deref()) {
            (Some(holder), Some(edca)) => &edca.categories[holder].mac,
            _ => ctx.params,
        };
        act(&mut self.station, &mut ctx.with(params))
    }

    /// If the exchange is over, its category continues with the next frame of its TXOP, when a response has ended at
    /// `answered`, or with a backoff.
    #[inline]
    fn after_exchange(
        &mut self,
        ctx: &mut Context<'_>,
        done: Option<Done>,
        answered: Option<Nanos>,
    ) -> Option<Done> {
        if let (Some(holder), Some(edca)) = (self.holder, ctx.params.edca.as_deref()) {
            let params = &edca.categories[holder];
            if let Some(Done { delivered, .. }) = done {
                self.categories[holder].take_next(ctx, &params.mac);
                match answered {
                    Some(at) if delivered && self.fits(&params.mac, holder, at) => {
                        self.continue_txop(ctx, holder, at);
                    }
                    _ => self.end_turn(ctx, holder),
                }
            } else if self.station.state == State::Contending {
                self.categories[holder].current = self.station.current.take();
                self.end_turn(ctx, holder);
            }
        }
        done.or_else(|| self.dropped.pop())
    }

    /// Whether the next frame of a category and its response fit in the TXOP, starting a SIFS after `at`.
    fn fits(&self, params: &MacParams, holder: usize, at: Nanos) -> bool {
        self.categories[holder].current.as_ref().is_some_and(|next| {
            !next.is_broadcast() && at + params.phy.sifs + next.exchange_time(params) <= self.txop_until
        })
    }

    fn continue_txop(&mut self, ctx: &mut Context<'_>, holder: usize, at: Nanos) {
        let category = &mut self.categories[holder];
        category.cw = self.station.cw;
        self.station.current = category.current.take();
        self.station.state = State::Cleared;
        self.continues = true;
        ctx.events.set_station(at + ctx.params.phy.sifs, EventKind::Response, ctx.node);
    }

    /// Ends the exchange: the category takes back its window, and the backoff that the station has drawn for it.
    fn end_turn(&mut self, ctx: &mut Context<'_>, holder: usize) {
        let category = &mut self.categories[holder];
        category.cw = self.station.cw;
        category.backoff = self.station.backoff;
        category.backing_off = true;
        self.station.state = State::Empty;
        self.station.backing_off = false;
        self.holder = None;
        self.count_from(ctx, ctx.events.now().max(self.station.nav_until));
        self.set_access(ctx);
    }
}

impl Category {
    /// The first packet of the queue becomes the current frame.
    fn take_next(&mut self, ctx: &mut Context<'_>, params: &MacParams) {
        let next = self.queue.pop(ctx.events.now(), ctx.packets);
        self.current = next.map(|next| Outgoing::new(params, ctx.node, next, &mut self.next_sequence));
    }
}
