//! The stations of a network: all with one queue, or all with four access categories.

use fairhop_model::units::Nanos;

use super::dcf::Dcf;
use super::edca::Edca;
use super::frame::{Context, Done, Frame};
use super::params::MacParams;
use crate::engine::{Event, Stream};
use crate::queue::{Queue, Refused, Waiting};

/// Medium access of all stations, by number. All are of one kind, so that a loop over the neighbours of a station
/// distinguishes the kinds once (see [`for_stations`]) and not for each neighbour.
#[derive(Clone, Debug)]
pub enum Stations {
    /// One queue each.
    Dcf(Vec<Dcf>),
    /// Four access categories each.
    Edca(Vec<Edca>),
}

/// Evaluates an expression with the slice of stations of either kind: `for_stations!(stations, slice => expression)`.
macro_rules! for_stations {
    ($stations:expr, $slice:ident => $act:expr) => {
        match $stations {
            $crate::mac::Stations::Dcf($slice) => $act,
            $crate::mac::Stations::Edca($slice) => $act,
        }
    };
}
pub(crate) use for_stations;

impl Stations {
    /// `count` idle stations of the kind that the parameters define; `queue` makes the queues of a station, `random` the
    /// stream of its backoffs.
    pub fn new(
        params: &MacParams,
        count: usize,
        mut queue: impl FnMut(usize) -> Queue,
        random: impl Fn(usize) -> Stream,
    ) -> Self {
        match &params.edca {
            None => Self::Dcf((0..count).map(|node| Dcf::new(params, queue(node), random(node))).collect()),
            Some(edca) => Self::Edca(
                (0..count).map(|node| Edca::new(params, edca, || queue(node), random(node))).collect(),
            ),
        }
    }

    /// Number of stations.
    pub fn len(&self) -> usize {
        for_stations!(self, stations => stations.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of packets at a station, queued and in service.
    #[inline]
    pub fn backlog(&self, node: usize) -> usize {
        for_stations!(self, stations => stations[node].backlog())
    }

    /// Accepts a packet to send at the station of the context.
    ///
    /// # Errors
    /// The queue refuses it. The packet remains the caller's.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut Context<'_>, packet: Waiting) -> Result<(), Refused> {
        for_stations!(self, stations => stations[ctx.node as usize].enqueue(ctx, packet))
    }

    /// Takes out all packets for a next hop that wait in the queues of a station.
    pub fn withdraw(&mut self, node: usize, next_hop: u32, out: &mut Vec<Waiting>) {
        for_stations!(self, stations => stations[node].withdraw(next_hop, out));
    }

    /// See [`Dcf::medium_idle`].
    #[inline]
    pub fn medium_idle(&mut self, ctx: &mut Context<'_>, at: Nanos) {
        for_stations!(self, stations => stations[ctx.node as usize].medium_idle(ctx, at));
    }

    /// See [`Dcf::on_access`].
    #[inline]
    pub fn on_access(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        for_stations!(self, stations => stations[ctx.node as usize].on_access(ctx))
    }

    /// See [`Dcf::on_response`].
    #[inline]
    pub fn on_response(&mut self, ctx: &mut Context<'_>) -> Option<Frame> {
        for_stations!(self, stations => stations[ctx.node as usize].on_response(ctx))
    }

    /// See [`Dcf::on_sent`].
    #[inline]
    pub fn on_sent(&mut self, ctx: &mut Context<'_>, frame: &Frame, end: Nanos) -> Option<Done> {
        for_stations!(self, stations => stations[ctx.node as usize].on_sent(ctx, frame, end))
    }

    /// See [`Dcf::on_timeout`].
    #[inline]
    pub fn on_timeout(&mut self, ctx: &mut Context<'_>, arriving: Option<Nanos>) -> Option<Done> {
        for_stations!(self, stations => stations[ctx.node as usize].on_timeout(ctx, arriving))
    }

    /// See [`Dcf::on_nav_check`].
    pub fn on_nav_check(&mut self, ctx: &mut Context<'_>, event: Event, arriving: Option<Nanos>) {
        for_stations!(self, stations => stations[ctx.node as usize].on_nav_check(ctx, event, arriving));
    }
}
