//! What a node does with a message (RFC 3561 §6.5 to §6.9, §6.11).

use fairhop_model::units::Nanos;

use super::{Aodv, invalidate};
use crate::pdp::EXTENSION;
use crate::wire::{self, Message, Reply, Request};
use crate::{Action, Address, Context, MessageKind, Sequence};

/// TTL of messages to one neighbour, and of HELLO and RERR.
const ONE_HOP: u8 = 1;

/// A route that a message offers.
#[derive(Clone, Copy, Debug)]
struct Offer {
    destination: Address,
    sequence: Sequence,
    /// Hops from this node.
    hops: u8,
    next_hop: Address,
    until: Nanos,
}

impl Aodv {
    /// The sender of a control packet is a neighbour (§6.5, §6.7; rule 6).
    fn learn_neighbour(&mut self, ctx: &mut Context<'_>, from: Address) {
        let until = ctx.now + self.config.active_route_timeout;
        self.direct_route(ctx, from, None, until);
    }

    /// The direct route to a neighbour, which replaces any other. Of a known number, the newer one stays.
    fn direct_route(&mut self, ctx: &mut Context<'_>, to: Address, sequence: Option<Sequence>, until: Nanos) {
        if to == self.address || to == Address::BROADCAST {
            return; // rule 8
        }
        let now = ctx.now;
        let Some(route) = self.table.entry(to) else { return };
        let was_direct = route.is_valid(now) && route.hops == 1;
        route.sequence = match (route.sequence, sequence) {
            (Some(old), Some(new)) => Some(old.max(new)),
            (old, new) => old.or(new),
        };
        route.until = if route.is_valid(now) { route.until.max(until) } else { until };
        self.wake_at(until);
        if was_direct {
            return;
        }
        if let Some(route) = self.table.get_mut(to) {
            (route.valid, route.hops, route.next_hop) = (true, 1, to);
        }
        ctx.actions.push(Action::Route { destination: to, over: Some((to, 1)) });
        self.route_found(ctx, to);
    }

    /// Takes a route if it is newer than the one that there is, or equally new and either shorter or in place of an invalid
    /// one (rules 3, 4). True if it was taken.
    fn take(&mut self, ctx: &mut Context<'_>, offer: Offer) -> bool {
        let now = ctx.now;
        if offer.destination == self.address || offer.destination == Address::BROADCAST {
            return false; // rule 8
        }
        let Some(route) = self.table.entry(offer.destination) else { return false };
        let valid = route.is_valid(now);
        let better = match route.sequence {
            None => true,
            Some(known) if offer.sequence.is_newer_than(known) => true,
            Some(known) => offer.sequence == known && (!valid || offer.hops < route.hops),
        };
        if !better {
            return false;
        }
        let changed = !valid || route.next_hop != offer.next_hop || route.hops != offer.hops;
        route.until = if valid { route.until.max(offer.until) } else { offer.until };
        if !valid {
            route.precursors.clear();
        }
        route.sequence = Some(offer.sequence);
        (route.valid, route.hops, route.next_hop) = (true, offer.hops, offer.next_hop);
        self.wake_at(offer.until);
        if changed {
            let over = Some((offer.next_hop, offer.hops));
            ctx.actions.push(Action::Route { destination: offer.destination, over });
        }
        self.route_found(ctx, offer.destination);
        true
    }

    /// RREQ (§6.5).
    pub(super) fn on_request(&mut self, ctx: &mut Context<'_>, from: Address, ttl: u8, request: Request) {
        let now = ctx.now;
        if self.blacklist.iter().any(|&(neighbour, until)| neighbour == from && until > now) {
            return; // rule 13
        }
        self.learn_neighbour(ctx, from);
        let known_until = now + self.config.path_discovery_time();
        if request.originator == self.address
            || !self.seen.remember(now, known_until, request.originator, request.id)
        {
            return;
        }
        let Some(hops) = request.hops.checked_add(1) else { return };
        // MinimalLifetime, not below zero (§6.5).
        let spent = self.config.node_traversal_time * (2 * u64::from(hops));
        let until = now + (self.config.net_traversal_time() * 2).saturating_sub(spent);
        let back = Offer {
            destination: request.originator,
            sequence: request.originator_sequence,
            hops,
            next_hop: from,
            until,
        };
        self.take(ctx, back);
        self.table.refresh(now, request.originator, until);
        let request = Request { hops, ..request };
        if request.destination == self.address {
            self.answer_for_itself(ctx, &request);
        } else if !self.answer_for_another(ctx, from, &request) {
            self.forward_request(ctx, ttl, request);
        }
    }

    /// The destination answers (§6.6.1; rule 2).
    fn answer_for_itself(&mut self, ctx: &mut Context<'_>, request: &Request) {
        if let Some(asked) = request.destination_sequence {
            self.sequence = self.sequence.max(asked);
        }
        let reply = Reply {
            ack_required: false,
            hops: 0,
            destination: self.address,
            destination_sequence: self.sequence,
            originator: request.originator,
            lifetime_ms: millis(self.config.my_route_timeout),
        };
        self.send_reply(ctx, reply);
    }

    /// A node with a route that is new enough answers for the destination (§6.6.2). True if it did.
    fn answer_for_another(&mut self, ctx: &mut Context<'_>, from: Address, request: &Request) -> bool {
        let now = ctx.now;
        if request.destination_only {
            return false;
        }
        let Some(route) = self.table.valid(now, request.destination) else { return false };
        let Some(sequence) = route.sequence else { return false };
        let new_enough = request.destination_sequence.is_none_or(|asked| !asked.is_newer_than(sequence));
        // A route over the node that asks has broken there.
        if !new_enough || route.next_hop == from {
            return false;
        }
        let forth = route.clone();
        let Some(back) = self.table.valid(now, request.originator).cloned() else { return false };
        self.send_reply(
            ctx,
            Reply {
                ack_required: false,
                hops: forth.hops,
                destination: request.destination,
                destination_sequence: sequence,
                originator: request.originator,
                lifetime_ms: millis(forth.until - now),
            },
        );
        self.add_precursor(request.destination, from);
        self.add_precursor(request.originator, forth.next_hop);
        if request.gratuitous {
            // Rule 12: the destination learns the way back (§6.6.3).
            let gratuitous = Reply {
                ack_required: false,
                hops: back.hops,
                destination: request.originator,
                destination_sequence: request.originator_sequence,
                originator: request.destination,
                lifetime_ms: millis(back.until - now),
            };
            let message = Message::Reply(gratuitous);
            Self::unicast(ctx, MessageKind::Reply, forth.next_hop, self.config.net_diameter, &message);
        }
        true
    }

    fn forward_request(&mut self, ctx: &mut Context<'_>, ttl: u8, request: Request) {
        let Some(ttl) = ttl.checked_sub(1).filter(|&ttl| ttl > 0) else { return };
        // The newest number that anybody on the way knows (§6.5).
        let own = self.table.get(request.destination).and_then(|route| route.sequence);
        let destination_sequence = match (request.destination_sequence, own) {
            (Some(asked), Some(own)) => Some(asked.max(own)),
            (asked, own) => asked.or(own),
        };
        let message = Message::Request(Request { destination_sequence, ..request });
        let jitter = self.config.broadcast_jitter;
        self.broadcast(ctx, MessageKind::RequestForwarded, ttl, &message, jitter);
    }

    fn add_precursor(&mut self, destination: Address, neighbour: Address) {
        if let Some(route) = self.table.get_mut(destination)
            && neighbour != self.address
        {
            route.add_precursor(neighbour);
        }
    }

    /// Sends a reply on its way to its originator, and asks for an acknowledgment where the link is doubtful (rule 13).
    fn send_reply(&mut self, ctx: &mut Context<'_>, reply: Reply) {
        let now = ctx.now;
        let Some(back) = self.table.valid(now, reply.originator) else { return };
        let next_hop = back.next_hop;
        let ack_required = self.neighbours.is_doubtful(now, next_hop);
        if ack_required {
            let until = now + self.config.next_hop_wait();
            self.unacknowledged.push((next_hop, until));
            self.wake_at(until);
        }
        let message = Message::Reply(Reply { ack_required, ..reply });
        Self::unicast(ctx, MessageKind::Reply, next_hop, self.config.net_diameter, &message);
    }

    /// RREP (§6.7).
    pub(super) fn on_reply(&mut self, ctx: &mut Context<'_>, from: Address, reply: Reply) {
        let now = ctx.now;
        self.learn_neighbour(ctx, from);
        if reply.ack_required {
            Self::unicast(ctx, MessageKind::ReplyAck, from, ONE_HOP, &Message::ReplyAck);
        }
        let Some(hops) = reply.hops.checked_add(1) else { return };
        if reply.destination == self.address {
            return; // rule 8
        }
        let forth = Offer {
            destination: reply.destination,
            sequence: reply.destination_sequence,
            hops,
            next_hop: from,
            until: now + Nanos::from_millis(u64::from(reply.lifetime_ms)),
        };
        self.take(ctx, forth);
        if reply.originator == self.address {
            return;
        }
        // Rule 5: though it may have changed nothing here. A route over a node without one is no use to anybody.
        let Some(next_hop) = self.table.valid(now, reply.destination).map(|route| route.next_hop) else {
            return;
        };
        let Some(back) = self.table.valid(now, reply.originator) else { return };
        let towards = back.next_hop;
        if towards == from {
            return; // it came the way on which it would go back
        }
        self.send_reply(ctx, Reply { hops, ..reply });
        self.add_precursor(reply.destination, towards);
        self.add_precursor(next_hop, towards);
        self.table.refresh(now, reply.originator, now + self.config.active_route_timeout);
    }

    /// HELLO (§6.9; rule 9).
    pub(super) fn on_hello(
        &mut self,
        ctx: &mut Context<'_>,
        from: Address,
        reply: &Reply,
        extensions: &[u8],
    ) {
        if reply.destination != from {
            return;
        }
        self.on_extensions(ctx.now, from, extensions);
        if self.neighbours.hello(ctx.now, from) >= self.config.hello_needed {
            let until = ctx.now + Nanos::from_millis(u64::from(reply.lifetime_ms));
            self.direct_route(ctx, from, Some(reply.destination_sequence), until);
        }
        self.wake_at(ctx.now + self.config.neighbour_timeout());
    }

    /// Takes what the path density protocol announces.
    fn on_extensions(&mut self, now: Nanos, from: Address, extensions: &[u8]) {
        let Some(pdp) = &mut self.pdp else { return };
        for (kind, data) in wire::extensions(extensions).flatten() {
            if kind == EXTENSION {
                pdp.on_extension(now, from, data);
            }
        }
    }

    /// A HELLO of a node to which no link is wanted, since its signal is weak: only what it announces counts.
    pub fn on_weak_hello(&mut self, now: Nanos, from: Address, bytes: &[u8]) {
        if let Ok((Message::Reply(reply), extensions)) = Message::decode(bytes)
            && from != self.address
            && reply.destination == from
        {
            self.on_extensions(now, from, extensions);
        }
    }

    /// Sends a HELLO.
    pub(super) fn send_hello(&mut self, ctx: &mut Context<'_>) {
        let hello = Reply {
            ack_required: false,
            hops: 0,
            destination: self.address,
            destination_sequence: self.sequence,
            originator: self.address,
            lifetime_ms: millis(self.config.neighbour_timeout()),
        };
        let mut bytes = Vec::with_capacity(20);
        Message::Reply(hello).encode(&mut bytes);
        if let Some(pdp) = &mut self.pdp {
            pdp.on_hello(ctx.now, &mut bytes);
        }
        let jitter = self.config.broadcast_jitter;
        self.broadcast_bytes(ctx, MessageKind::Hello, ONE_HOP, bytes, jitter);
    }

    /// RERR (§6.11; rule 7).
    pub(super) fn on_error(
        &mut self,
        ctx: &mut Context<'_>,
        from: Address,
        unreachable: &[(Address, Sequence)],
    ) {
        let (now, deletion) = (ctx.now, ctx.now + self.config.delete_period());
        let mut lost = Vec::new();
        for &(destination, reported) in unreachable {
            let Some(route) = self.table.valid_mut(now, destination) else { continue };
            if route.next_hop != from {
                continue;
            }
            invalidate(ctx.actions, route, deletion);
            route.sequence = Some(route.sequence.map_or(reported, |own| own.max(reported)));
            lost.push(destination);
        }
        self.wake_at(deletion);
        self.report_lost(ctx, &lost, None);
    }
}

fn millis(time: Nanos) -> u32 {
    u32::try_from(time.0 / 1_000_000).unwrap_or(u32::MAX)
}
