//! Route discovery: the buffer of packets without a route, and the expanding ring of requests (RFC 3561 §6.3, §6.4).

use std::collections::{BTreeSet, VecDeque};

use fairhop_model::units::Nanos;

use super::{Aodv, Config};
use crate::wire::{Message, Request};
use crate::{Action, Address, Context, Datagram, DropReason, MessageKind, Token};

/// Requests that are remembered at most; the oldest is forgotten first.
const MAX_REQUESTS: usize = 1 << 16;

/// A packet that waits for a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffered {
    token: Token,
    pub(super) destination: Address,
    expires: Nanos,
}

/// A search for a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovery {
    pub(super) destination: Address,
    began: Nanos,
    /// TTL of the last request.
    ttl: u8,
    /// Requests with the full diameter so far.
    full: u32,
    /// When the next step is due.
    pub(super) due: Nanos,
}

/// Requests that were seen: duplicates have the same originator and identity.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenRequests {
    known: BTreeSet<(Address, u32)>,
    in_order: VecDeque<(Nanos, Address, u32)>,
}

impl SeenRequests {
    /// Remembers a request until a time. False if it was known.
    pub(super) fn remember(&mut self, now: Nanos, until: Nanos, originator: Address, id: u32) -> bool {
        while let Some(&(expires, originator, id)) = self.in_order.front()
            && (expires <= now || self.in_order.len() >= MAX_REQUESTS)
        {
            self.known.remove(&(originator, id));
            self.in_order.pop_front();
        }
        let is_new = self.known.insert((originator, id));
        if is_new {
            self.in_order.push_back((until, originator, id));
        }
        is_new
    }
}

/// At most this number of messages in any second.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    per_second: usize,
    sent: VecDeque<Nanos>,
}

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second: per_second.max(1) as usize, sent: VecDeque::new() }
    }

    /// Counts a message, or says when the next one may be sent.
    pub(super) fn take(&mut self, now: Nanos) -> Result<(), Nanos> {
        let second = Nanos::from_secs(1);
        while self.sent.front().is_some_and(|&sent| sent + second <= now) {
            self.sent.pop_front();
        }
        match self.sent.front() {
            Some(&oldest) if self.sent.len() >= self.per_second => Err(oldest + second),
            _ => {
                self.sent.push_back(now);
                Ok(())
            }
        }
    }
}

/// The TTL after `ttl` in the expanding ring.
fn next_ttl(config: &Config, ttl: u8) -> u8 {
    let next = ttl.saturating_add(config.ttl_increment.max(1));
    if next > config.ttl_threshold { config.net_diameter } else { next.min(config.net_diameter) }
}

impl Aodv {
    /// Keeps a packet until there is a route, and looks for one.
    pub(super) fn buffer(&mut self, ctx: &mut Context<'_>, datagram: Datagram) {
        if self.buffered.len() >= self.config.buffer_packets.max(1)
            && let Some(oldest) = self.buffered.pop_front()
        {
            ctx.actions.push(Action::Drop { token: oldest.token, reason: DropReason::BufferFull });
        }
        let expires = ctx.now + self.config.buffer_time;
        let Datagram { token, destination, .. } = datagram;
        self.buffered.push_back(Buffered { token, destination, expires });
        self.wake_at(expires);
        self.discover(ctx, destination);
    }

    /// Begins a discovery, if none is under way. It starts with the ring in which the destination was last (§6.4).
    fn discover(&mut self, ctx: &mut Context<'_>, destination: Address) {
        if self.discoveries.iter().any(|discovery| discovery.destination == destination) {
            return;
        }
        let config = &self.config;
        let known = self.table.get(destination).map(|route| route.hops).filter(|&hops| hops > 0);
        let first = known.map_or(config.ttl_start, |hops| hops.saturating_add(config.ttl_increment));
        let first = if first > config.ttl_threshold { config.net_diameter } else { first };
        self.discoveries.push(Discovery {
            destination,
            began: ctx.now,
            ttl: first.max(1),
            full: 0,
            due: ctx.now,
        });
        self.counters.discoveries += 1;
        self.discovery_step(ctx, destination);
    }

    /// Sends the request that is due.
    fn discovery_step(&mut self, ctx: &mut Context<'_>, destination: Address) {
        let Some(index) = self.discoveries.iter().position(|found| found.destination == destination) else {
            return;
        };
        let discovery = self.discoveries[index];
        let full = discovery.ttl >= self.config.net_diameter;
        if full && discovery.full > self.config.rreq_retries {
            self.discoveries.remove(index);
            self.counters.given_up += 1;
            self.drop_buffered(ctx, destination);
            let latency = ctx.now - discovery.began;
            return ctx.actions.push(Action::Discovered { destination, latency, found: false });
        }
        if let Err(at) = self.request_limit.take(ctx.now) {
            self.discoveries[index].due = at;
            return self.wake_at(at);
        }
        // Binary exponential backoff of the requests with the full diameter (§6.3).
        let wait = if full {
            self.config.net_traversal_time() * (1 << discovery.full.min(16))
        } else {
            self.config.ring_traversal_time(discovery.ttl)
        };
        let due = ctx.now + wait;
        let next = &mut self.discoveries[index];
        next.due = due;
        if full {
            next.full += 1;
        } else {
            next.ttl = next_ttl(&self.config, discovery.ttl);
        }
        self.wake_at(due);
        self.request(ctx, destination, discovery.ttl);
    }

    /// Originates a request. The node's own number goes up before it (§6.1).
    fn request(&mut self, ctx: &mut Context<'_>, destination: Address, ttl: u8) {
        self.sequence = self.sequence.next();
        self.request_id = self.request_id.wrapping_add(1);
        let until = ctx.now + self.config.path_discovery_time();
        self.seen.remember(ctx.now, until, self.address, self.request_id);
        // The old number must not be forgotten while an answer may come (§6.4).
        let keep = ctx.now + self.config.net_traversal_time() * 2;
        let known = self.table.get_mut(destination).and_then(|route| {
            route.until = route.until.max(keep);
            route.sequence
        });
        let request = Request {
            gratuitous: self.config.gratuitous,
            destination_only: self.config.destination_only,
            hops: 0,
            id: self.request_id,
            destination,
            destination_sequence: known,
            originator: self.address,
            originator_sequence: self.sequence,
        };
        self.broadcast(ctx, MessageKind::RequestOriginated, ttl, &Message::Request(request), Nanos::ZERO);
    }

    /// There is a valid route now: the discovery has ended, and packets leave the buffer in the order in which they came.
    pub(super) fn route_found(&mut self, ctx: &mut Context<'_>, destination: Address) {
        if let Some(index) = self.discoveries.iter().position(|found| found.destination == destination) {
            let discovery = self.discoveries.swap_remove(index);
            self.counters.found += 1;
            let latency = ctx.now - discovery.began;
            ctx.actions.push(Action::Discovered { destination, latency, found: true });
        }
        if !self.buffered.iter().any(|waiting| waiting.destination == destination) {
            return;
        }
        let Some(next_hop) = self.use_route(ctx.now, destination) else { return };
        // Only the node's own packets are buffered.
        self.on_path(ctx.now, self.address, destination, None);
        self.buffered.retain(|waiting| {
            if waiting.destination == destination {
                ctx.actions.push(Action::Release { token: waiting.token, next_hop });
            }
            waiting.destination != destination
        });
    }

    fn drop_buffered(&mut self, ctx: &mut Context<'_>, destination: Address) {
        self.buffered.retain(|waiting| {
            if waiting.destination == destination {
                ctx.actions.push(Action::Drop { token: waiting.token, reason: DropReason::NoRoute });
            }
            waiting.destination != destination
        });
    }

    /// What is due: packets that have waited too long, and the next requests. Returns when the next is due.
    pub(super) fn discovery_timer(&mut self, ctx: &mut Context<'_>) -> Nanos {
        while let Some(&Buffered { token, expires, .. }) = self.buffered.front()
            && expires <= ctx.now
        {
            self.buffered.pop_front();
            ctx.actions.push(Action::Drop { token, reason: DropReason::BufferTimeout });
        }
        while let Some(due) = self.discoveries.iter().find(|found| found.due <= ctx.now) {
            let destination = due.destination;
            self.discovery_step(ctx, destination);
        }
        let next = self.discoveries.iter().map(|discovery| discovery.due);
        next.chain(self.buffered.front().map(|oldest| oldest.expires)).min().unwrap_or(Nanos::MAX)
    }
}
