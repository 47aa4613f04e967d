//! Broken links: how they are noticed, and who is informed (RFC 3561 §6.8, §6.11).

use fairhop_model::units::Nanos;
use smallvec::SmallVec;

use super::{Aodv, invalidate};
use crate::wire::{MAX_UNREACHABLE, Message};
use crate::{Action, Address, BreakCause, Context, MessageKind, Sequence};

/// Destinations in one RERR at most: 4 + 8 · 128 bytes fit into a frame.
const MAX_IN_ERROR: usize = if MAX_UNREACHABLE < 128 { MAX_UNREACHABLE } else { 128 };

impl Aodv {
    /// The link layer has given up a packet to a neighbour at its retry limit; `reply` if it was a RREP.
    ///
    /// A full queue, or a packet that was dropped to keep a queue short, is no broken link and not reported here.
    pub fn on_given_up(&mut self, ctx: &mut Context<'_>, neighbour: Address, reply: bool) {
        if reply {
            self.blacklist(ctx.now, neighbour); // rule 13
        }
        if !self.config.link_feedback {
            return;
        }
        let failures = match self.failures.iter_mut().find(|(at, _)| *at == neighbour) {
            Some((_, failures)) => {
                *failures += 1;
                *failures
            }
            None => {
                self.failures.push((neighbour, 1));
                1
            }
        };
        if failures >= self.config.breaks_after {
            self.on_acknowledged(neighbour);
            self.link_broken(ctx, neighbour, BreakCause::Feedback);
        }
    }

    /// A neighbour has acknowledged a packet.
    #[inline]
    pub fn on_acknowledged(&mut self, neighbour: Address) {
        if !self.failures.is_empty() {
            self.failures.retain(|&(at, _)| at != neighbour);
        }
    }

    fn blacklist(&mut self, now: Nanos, neighbour: Address) {
        let until = now + self.config.blacklist_timeout();
        self.blacklist.retain(|&(at, until)| at != neighbour && until > now);
        self.blacklist.push((neighbour, until));
    }

    /// All routes over a neighbour are invalid, and those who use them are informed.
    fn link_broken(&mut self, ctx: &mut Context<'_>, neighbour: Address, cause: BreakCause) {
        let (now, deletion) = (ctx.now, ctx.now + self.config.delete_period());
        let active = self.config.active_route_timeout;
        self.neighbours.remove(neighbour);
        let (mut lost, mut in_use) = (Vec::new(), false);
        for route in &mut self.table.routes {
            if route.is_valid(now) && route.next_hop == neighbour {
                let used = route.used.is_some_and(|used| now.saturating_sub(used) < active);
                in_use |= used || !route.precursors.is_empty();
                invalidate(ctx.actions, route, deletion);
                lost.push(route.destination);
            }
        }
        if lost.is_empty() {
            return;
        }
        self.wake_at(deletion);
        ctx.actions.push(Action::LinkBroken { neighbour, cause, in_use });
        self.report_lost(ctx, &lost, Some(neighbour));
    }

    /// Informs the precursors of routes that have become invalid, but for the neighbour that is not reached any more.
    pub(super) fn report_lost(&mut self, ctx: &mut Context<'_>, lost: &[Address], gone: Option<Address>) {
        if let Some(pdp) = &mut self.pdp {
            pdp.withdraw(lost);
        }
        let mut unreachable = Vec::new();
        let mut receivers: SmallVec<[Address; 4]> = SmallVec::new();
        for &destination in lost {
            let Some(route) = self.table.get_mut(destination) else { continue };
            let precursors = std::mem::take(&mut route.precursors);
            let mut used = false;
            for precursor in precursors.into_iter().filter(|&precursor| Some(precursor) != gone) {
                used = true;
                if !receivers.contains(&precursor) {
                    receivers.push(precursor);
                }
            }
            if used {
                unreachable.push((destination, route.sequence.unwrap_or_default()));
            }
        }
        self.send_error(ctx, &unreachable, &receivers);
    }

    /// A neighbour has sent a packet for which there is no route.
    pub(super) fn no_route_error(&mut self, ctx: &mut Context<'_>, destination: Address, previous: Address) {
        let sequence = self.table.get(destination).and_then(|route| route.sequence);
        let unreachable = [(destination, sequence.unwrap_or(Sequence(0)))];
        self.send_error(ctx, &unreachable, &[previous]);
    }

    /// To one neighbour by unicast, to several by one broadcast.
    fn send_error(
        &mut self,
        ctx: &mut Context<'_>,
        unreachable: &[(Address, Sequence)],
        receivers: &[Address],
    ) {
        for part in unreachable.chunks(MAX_IN_ERROR) {
            if receivers.is_empty() || self.error_limit.take(ctx.now).is_err() {
                return;
            }
            let message = Message::Error(part.to_vec());
            match receivers {
                [only] => Self::unicast(ctx, MessageKind::Error, *only, 1, &message),
                _ => {
                    let jitter = self.config.broadcast_jitter;
                    self.broadcast(ctx, MessageKind::Error, 1, &message, jitter);
                }
            }
        }
    }

    /// Neighbours that have been silent for too long, and acknowledgments that have not come. Returns when the next is due.
    pub(super) fn link_timers(&mut self, ctx: &mut Context<'_>) -> Nanos {
        while let Some(silent) = self.neighbours.take_silent(ctx.now) {
            self.link_broken(ctx, silent, BreakCause::Silence);
        }
        let now = ctx.now;
        while let Some(index) = self.unacknowledged.iter().position(|&(_, until)| until <= now) {
            let (neighbour, _) = self.unacknowledged.swap_remove(index);
            self.blacklist(now, neighbour);
        }
        let waits = self.unacknowledged.iter().map(|&(_, until)| until);
        waits.min().unwrap_or(Nanos::MAX).min(self.neighbours.next_silence())
    }
}
