//! A station with one queue or with four access categories.

use fairhop_model::units::Nanos;

use super::dcf::{Context, Dcf, Done, Frame, Received};
use super::edca::Edca;
use super::params::MacParams;
use crate::engine::{Event, Stream};
use crate::queue::{Queue, Refused, Waiting};

/// Medium access of one station. A station with one queue is as large as its [`Dcf`], and costs one comparison more: what
/// it does at every frame is put in line here, what the access categories do is not.
// The large one is the common one, and lies in place.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Station {
    /// One queue.
    Dcf(Dcf),
    /// Four access categories.
    Edca(Box<Edca>),
}

const _: () = assert!(size_of::<Station>() == size_of::<Dcf>());

macro_rules! either {
    ($station:expr, $inner:ident => $act:expr) => {
        match $station {
            Station::Dcf($inner) => $act,
            Station::Edca($inner) => $act,
        }
    };
}

impl Station {
    /// An idle station, of the kind that the parameters ask for; `queue` makes its queues, `random` draws its backoffs.
    pub fn new(params: &MacParams, mut queue: impl FnMut() -> Queue, random: Stream) -> Self {
        match &params.edca {
            None => Self::Dcf(Dcf::new(params, queue(), random)),
            Some(edca) => Self::Edca(Box::new(Edca::new(params, edca, queue, random))),
        }
    }

    /// Packets that wait, those in service included.
    #[inline]
    pub fn backlog(&self) -> usize {
        either!(self, inner => inner.backlog())
    }

    /// A packet to send.
    ///
    /// # Errors
    /// The queue does not take it. The packet is still the caller's.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut Context<'_>, packet: Waiting) -> Result<(), Refused> {
        either!(self, inner => inner.enqueue(ctx, packet))
    }

    /// See [`Dcf::medium_busy`].
    #[inline]
    pub fn medium_busy(&mut self, ctx: &mut Context<'_>, at: Nanos, locked: bool) {
        either!(self, inner => inner.medium_busy(ctx, at, locked));
    }

    /// See [`Dcf::medium_idle`].
    #[inline]
    pub fn medium_idle(&mut self, ctx: &mut Context<'_>, at: Nanos) {
        either!(self, inner => inner.medium_idle(ctx, at));
    }

    /// See [`Dcf::on_access`].
    #[inline]
    pub fn on_access(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        either!(self, inner => inner.on_access(ctx))
    }

    /// See [`Dcf::on_response`].
    #[inline]
    pub fn on_response(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        either!(self, inner => inner.on_response(ctx))
    }

    /// See [`Dcf::on_sent`].
    #[inline]
    pub fn on_sent(&mut self, ctx: &mut Context<'_>, frame: &Frame, end: Nanos) -> Option<Done> {
        either!(self, inner => inner.on_sent(ctx, frame, end))
    }

    /// See [`Dcf::on_timeout`].
    #[inline]
    pub fn on_timeout(&mut self, ctx: &mut Context<'_>, arriving: Option<Nanos>) -> Option<Done> {
        either!(self, inner => inner.on_timeout(ctx, arriving))
    }

    /// See [`Dcf::on_received`].
    #[inline]
    pub fn on_received(&mut self, ctx: &mut Context<'_>, from: u32, frame: &Frame, at: Nanos) -> Received {
        either!(self, inner => inner.on_received(ctx, from, frame, at))
    }

    /// See [`Dcf::on_lost`].
    #[inline]
    pub fn on_lost(&mut self, ctx: &mut Context<'_>) -> Option<Done> {
        either!(self, inner => inner.on_lost(ctx))
    }

    /// See [`Dcf::on_nav_check`].
    #[inline]
    pub fn on_nav_check(&mut self, ctx: &mut Context<'_>, event: Event, arriving: Option<Nanos>) {
        either!(self, inner => inner.on_nav_check(ctx, event, arriving));
    }
}
