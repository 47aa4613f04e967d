//! Ad hoc on-demand distance vector routing (RFC 3561).
//!
//! [`Aodv`] is one node. Where the RFC is silent or contradicts itself, these rules hold; each has a unit test with its
//! number:
//!
//! | rule | |
//! |---|---|
//! | 1 | Sequence numbers are compared by their signed difference; unknown is a state of its own, and not 0. |
//! | 2 | A destination answers with the newer of its own number and that of the request (§6.1, §6.6.1). |
//! | 3 | A reverse route changes only to a newer one, or to an equally new one if it is shorter or the old one is invalid; and then it is valid. §6.5 read literally overwrites always, which makes loops. |
//! | 4 | Hop counts are compared after the hop to here was added, once (§6.2, §6.7). |
//! | 5 | A reply that updates nothing is forwarded all the same, if the routes both ways are valid; the originator would wait in vain (§6.7 drops it). |
//! | 6 | A control packet makes its sender a neighbour without a known number, and leaves the number of a direct route as it is. |
//! | 7 | A number of a RERR is taken only if it is newer; otherwise the stored one goes up by one (a copy could go back: van Glabbeek et al. 2013). Only routes over the sender are affected. It is passed on to precursors only: to one by unicast, to several by one broadcast. |
//! | 8 | No route to the node itself. |
//! | 9 | A HELLO makes the direct route to its sender, or replaces the route by it: this shortens paths. |
//! | 10 | A node says HELLO only on an active route, unless it is asked to do so always. |
//! | 11 | Sending to a neighbour refreshes routes, never the neighbour; only a received frame does. |
//! | 12 | With G, an intermediate node that answers sends a reply to the destination as well (§6.6.3). |
//! | 13 | A reply that fails at the link layer, or whose acknowledgment does not come within NEXT_HOP_WAIT, puts the next hop on the blacklist. A is set when a HELLO of it is missing. |
//! | 14 | A route that expires becomes invalid, and its number goes up by one; no RERR. |
//!
//! Left out: local repair (§6.12), actions after reboot (§6.13), multicast, and aggregated networks.

mod config;
mod discovery;
mod links;
mod messages;
#[cfg(test)]
mod network;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use crate::neighbours::{HelloTimer, Neighbours};
use crate::pdp::Pdp;
use crate::wire::{DecodeError, Message};
use crate::{Action, Address, Context, Datagram, Decision, DropReason, MessageKind, Sequence};
pub use config::{Config, Hello, OnBreak};
use discovery::{Buffered, Discovery, RateLimit, SeenRequests};
use table::Table;
pub use table::{MAX_ROUTES, Route};

/// Messages that wait for their jitter to pass; further ones are not sent.
const MAX_DELAYED: usize = 1024;

/// What a node has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Discoveries begun.
    pub discoveries: u64,
    /// Discoveries that found a route.
    pub found: u64,
    /// Discoveries that were given up.
    pub given_up: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}

/// A message that waits for its jitter to pass.
#[derive(Clone, Debug)]
struct Delayed {
    at: Nanos,
    send: Action,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Aodv {
    config: Config,
    address: Address,
    /// The node's own number.
    sequence: Sequence,
    request_id: u32,
    table: Table,
    neighbours: Neighbours,
    hello: HelloTimer,
    seen: SeenRequests,
    discoveries: Vec<Discovery>,
    buffered: VecDeque<Buffered>,
    request_limit: RateLimit,
    error_limit: RateLimit,
    delayed: Vec<Delayed>,
    /// Neighbours that have not acknowledged a reply, with the end of the wait.
    unacknowledged: Vec<(Address, Nanos)>,
    /// Neighbours whose requests are ignored, with the end of that.
    blacklist: Vec<(Address, Nanos)>,
    /// Packets in a row that the link layer has given up, by neighbour.
    failures: Vec<(Address, u32)>,
    /// When data was last sent, forwarded or received.
    data: Option<Nanos>,
    /// Shares of airtime, if the node takes part in the path density protocol.
    pdp: Option<Box<Pdp>>,
    /// Nothing is due before.
    wake: Nanos,
    counters: Counters,
}

impl Aodv {
    /// A node that knows nobody. [`Aodv::start`] follows.
    pub fn new(config: Config, address: Address) -> Self {
        Self {
            neighbours: Neighbours::new(config.hello_interval, config.neighbour_timeout()),
            hello: HelloTimer::new(config.hello_interval, Nanos::MAX),
            request_limit: RateLimit::new(config.rreq_ratelimit),
            error_limit: RateLimit::new(config.rerr_ratelimit),
            pdp: config.pdp.then(|| {
                let (interval, loss) = (config.hello_interval, config.allowed_hello_loss);
                Box::new(Pdp::new(interval, loss, config.active_route_timeout))
            }),
            config,
            address,
            sequence: Sequence(0),
            request_id: 0,
            table: Table::default(),
            seen: SeenRequests::default(),
            discoveries: Vec::new(),
            buffered: VecDeque::new(),
            delayed: Vec::new(),
            unacknowledged: Vec::new(),
            blacklist: Vec::new(),
            failures: Vec::new(),
            data: None,
            wake: Nanos::MAX,
            counters: Counters::default(),
        }
    }

    /// Starts the HELLO clock, at a random phase.
    pub fn start(&mut self, ctx: &mut Context<'_>) {
        if self.config.hello != Hello::Off {
            let phase = random_up_to(ctx, self.config.hello_interval);
            self.hello = HelloTimer::new(self.config.hello_interval, ctx.now + phase);
            self.wake_at(self.hello.at);
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Its own sequence number.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Sets its own sequence number, for tests of numbers that wrap around.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        self.sequence = sequence;
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All routes in ascending order of destinations, invalid ones included.
    pub fn routes(&self) -> &[Route] {
        &self.table.routes
    }

    /// The route to a destination that packets can use.
    pub fn route(&self, now: Nanos, destination: Address) -> Option<&Route> {
        self.table.valid(now, destination)
    }

    /// The neighbours that have said HELLO.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// The share of airtime that the node's own flow to a destination may use, as a fraction, by the path density protocol;
    /// none without that, or if the flow has sent nothing for long.
    pub fn share(&self, destination: Address) -> Option<f64> {
        self.pdp.as_ref()?.share(self.address, destination)
    }

    /// Sum of the shares that the node knows of the flows in its L-region, as a fraction; 0 without the path density
    /// protocol.
    pub fn region_load(&self) -> f64 {
        self.pdp.as_ref().map_or(0.0, |pdp| pdp.load())
    }

    /// Packets that wait for a route.
    pub fn buffered(&self) -> usize {
        self.buffered.len()
    }

    /// When [`Aodv::on_timer`] must be called; [`Nanos::MAX`] for never. It may turn out that nothing is due then.
    pub fn next_timer(&self) -> Nanos {
        self.wake
    }

    fn wake_at(&mut self, at: Nanos) {
        self.wake = self.wake.min(at);
    }

    /// A data packet needs a next hop: one of the node's own, or one to forward.
    pub fn on_data(&mut self, ctx: &mut Context<'_>, datagram: Datagram) -> Decision {
        let Datagram { source, destination, previous, .. } = datagram;
        self.data = Some(ctx.now);
        if let Some(next_hop) = self.use_route(ctx.now, destination) {
            if let Some(previous) = previous {
                self.refresh_back(ctx.now, source, previous);
            }
            self.on_path(ctx.now, source, destination, previous);
            return Decision::Send(next_hop);
        }
        match previous {
            None if destination == self.address => Decision::Drop(DropReason::NoRoute),
            None => {
                self.buffer(ctx, datagram);
                Decision::Buffered
            }
            Some(previous) => {
                self.no_route_error(ctx, destination, previous);
                Decision::Drop(DropReason::NoRoute)
            }
        }
    }

    /// A data packet has arrived at this node, its destination, from a neighbour.
    pub fn on_delivered(&mut self, now: Nanos, source: Address, previous: Address) {
        self.data = Some(now);
        self.refresh_back(now, source, previous);
        if let Some(pdp) = &mut self.pdp {
            pdp.on_data(now, (source, self.address), Some(previous), None, 0);
        }
    }

    /// The node carries a packet that it sends on over its route.
    #[inline]
    fn on_path(&mut self, now: Nanos, source: Address, destination: Address, previous: Option<Address>) {
        if let Some(pdp) = &mut self.pdp
            && let Some(route) = self.table.valid(now, destination)
        {
            pdp.on_data(now, (source, destination), previous, Some(route.next_hop), route.hops);
        }
    }

    /// The next hop to a destination. The route, and the one to the next hop, live on (§6.2).
    fn use_route(&mut self, now: Nanos, destination: Address) -> Option<Address> {
        let until = now + self.config.active_route_timeout;
        let route = self.table.valid_mut(now, destination)?;
        route.until = route.until.max(until);
        route.used = Some(now);
        let next_hop = route.next_hop;
        if next_hop != destination {
            self.table.refresh(now, next_hop, until);
        }
        // A next hop carries data, so it says HELLO or sends requests in their place, and acknowledges frames.
        if self.config.hello != Hello::Off && self.neighbours.get(next_hop).is_none() {
            self.neighbours.watch(now, next_hop);
            self.wake_at(now + self.config.neighbour_timeout());
        }
        Some(next_hop)
    }

    /// The way back is expected to be the same: it lives on as well (§6.2).
    fn refresh_back(&mut self, now: Nanos, source: Address, previous: Address) {
        let until = now + self.config.active_route_timeout;
        self.table.refresh(now, source, until);
        if previous != source {
            self.table.refresh(now, previous, until);
        }
    }

    /// A frame from a neighbour was received, of whatever kind.
    #[inline]
    pub fn on_heard(&mut self, now: Nanos, from: Address) {
        self.neighbours.heard(now, from);
    }

    /// A routing message was received from a neighbour: sent to all (`broadcast`) or to this node, in an IP packet with
    /// this time to live.
    ///
    /// # Errors
    /// Why the bytes are no message; they are counted and ignored.
    pub fn on_message(
        &mut self,
        ctx: &mut Context<'_>,
        from: Address,
        broadcast: bool,
        ttl: u8,
        bytes: &[u8],
    ) -> Result<(), DecodeError> {
        let (message, extensions) = match Message::decode(bytes) {
            Ok(parts) => parts,
            Err(error) => {
                self.counters.malformed += 1;
                return Err(error);
            }
        };
        if from == self.address {
            return Ok(());
        }
        self.neighbours.heard(ctx.now, from);
        match message {
            Message::Request(request) => self.on_request(ctx, from, ttl, request),
            Message::Reply(reply) if broadcast => self.on_hello(ctx, from, &reply, extensions),
            Message::Reply(reply) => self.on_reply(ctx, from, reply),
            Message::Error(unreachable) => self.on_error(ctx, from, &unreachable),
            Message::ReplyAck => self.unacknowledged.retain(|&(neighbour, _)| neighbour != from),
        }
        Ok(())
    }

    /// Something may be due.
    pub fn on_timer(&mut self, ctx: &mut Context<'_>) {
        self.wake = Nanos::MAX;
        let links = self.link_timers(ctx);
        let expiry = self.expire(ctx);
        let discovery = self.discovery_timer(ctx);
        self.say_hello(ctx);
        let delayed = self.send_delayed(ctx);
        for at in [links, expiry, discovery, self.hello.at, delayed] {
            self.wake_at(at);
        }
    }

    /// Routes that have expired become invalid (rule 14), and invalid ones are deleted. Returns when the next is due.
    fn expire(&mut self, ctx: &mut Context<'_>) -> Nanos {
        let (now, delete_period) = (ctx.now, self.config.delete_period());
        let mut next = Nanos::MAX;
        self.table.routes.retain_mut(|route| {
            if route.until <= now {
                if !route.valid {
                    return false;
                }
                invalidate(ctx.actions, route, now + delete_period);
            }
            next = next.min(route.until);
            true
        });
        next
    }

    /// Sends the HELLO that is due (rule 10).
    fn say_hello(&mut self, ctx: &mut Context<'_>) {
        let Some(silent) = self.hello.poll(ctx.now) else { return };
        let wanted = match self.config.hello {
            Hello::Off => false,
            Hello::Active => self.is_active(ctx.now),
            Hello::Always => true,
        };
        // What shares it has is said every interval, though a request has announced the node.
        let is_centre = self.pdp.as_ref().is_some_and(|pdp| pdp.has_region());
        if wanted && silent || is_centre {
            self.send_hello(ctx);
        }
    }

    /// Whether the node is on an active route.
    fn is_active(&self, now: Nanos) -> bool {
        self.data.is_some_and(|last| now.saturating_sub(last) < self.config.active_route_timeout)
    }

    /// Sends a message to all neighbours, after up to `jitter`.
    fn broadcast(
        &mut self,
        ctx: &mut Context<'_>,
        kind: MessageKind,
        ttl: u8,
        message: &Message,
        jitter: Nanos,
    ) {
        let mut bytes = Vec::with_capacity(24);
        message.encode(&mut bytes);
        self.broadcast_bytes(ctx, kind, ttl, bytes, jitter);
    }

    fn broadcast_bytes(
        &mut self,
        ctx: &mut Context<'_>,
        kind: MessageKind,
        ttl: u8,
        bytes: Vec<u8>,
        jitter: Nanos,
    ) {
        let wait = if jitter == Nanos::ZERO { Nanos::ZERO } else { random_up_to(ctx, jitter) };
        let send = Action::Send { kind, to: Address::BROADCAST, ttl, bytes };
        let at = ctx.now + wait;
        // A request announces this node as a HELLO does. A HELLO does not take the place of the next one.
        if matches!(kind, MessageKind::RequestOriginated | MessageKind::RequestForwarded) {
            self.hello.on_broadcast(at);
        }
        if wait == Nanos::ZERO {
            ctx.actions.push(send);
        } else if self.delayed.len() < MAX_DELAYED {
            self.delayed.push(Delayed { at, send });
            self.wake_at(at);
        }
    }

    /// Sends a message to one neighbour.
    fn unicast(ctx: &mut Context<'_>, kind: MessageKind, to: Address, ttl: u8, message: &Message) {
        let mut bytes = Vec::with_capacity(24);
        message.encode(&mut bytes);
        ctx.actions.push(Action::Send { kind, to, ttl, bytes });
    }

    /// Sends messages whose jitter has passed. Returns when the next is due.
    fn send_delayed(&mut self, ctx: &mut Context<'_>) -> Nanos {
        let due = |delayed: &Delayed| delayed.at <= ctx.now;
        if self.delayed.iter().any(due) {
            self.delayed.sort_by_key(|delayed| delayed.at);
            let count = self.delayed.partition_point(due);
            ctx.actions.extend(self.delayed.drain(..count).map(|delayed| delayed.send));
        }
        self.delayed.iter().map(|delayed| delayed.at).min().unwrap_or(Nanos::MAX)
    }
}

/// A route does not work any more: its number goes up, so that no older route takes its place (§6.11).
fn invalidate(actions: &mut Vec<Action>, route: &mut Route, until: Nanos) {
    route.valid = false;
    route.sequence = route.sequence.map(Sequence::next);
    route.until = until;
    actions.push(Action::Route { destination: route.destination, over: None });
}

/// A uniform time from zero up to `max`, in whole microseconds.
fn random_up_to(ctx: &mut Context<'_>, max: Nanos) -> Nanos {
    let micros = u32::try_from(max.0 / 1000).unwrap_or(u32::MAX);
    Nanos::from_micros(u64::from(ctx.random.up_to(micros)))
}
