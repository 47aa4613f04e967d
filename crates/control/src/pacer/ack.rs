//! Pacing of ACKs by the bytes that they acknowledge.

use std::collections::VecDeque;

use fairhop_model::units::{BitRate, Nanos};

use super::departure::Spacing;
use crate::flow::{FlowKey, FlowTable};

/// Holds ACKs, in order, so that the bytes that they acknowledge come no faster than the rate.
///
/// After an ACK that acknowledges B new bytes of its flow, the next one leaves B·8/R later. An ACK without new bytes (a
/// duplicate, a window update) costs nothing, but keeps its place in the queue. Spacing ACKs by their number would bound
/// nothing, since one ACK may acknowledge a whole window. Each ACK may still widen the window; a clamp beside the pacer
/// bounds the bursts. A full queue drops the oldest ACK: later ones repeat what it said (RFC 9293 §3.10.7.4), and its bytes
/// count with the next ACK that leaves.
#[derive(Debug)]
pub struct AckPacer<P> {
    spacing: Spacing,
    queue: VecDeque<Waiting<P>>,
    packets: usize,
    /// Highest acknowledgment that has left, by flow.
    left: FlowTable<u32>,
}

/// An ACK that waits.
#[derive(Debug)]
struct Waiting<P> {
    key: FlowKey,
    ack: u32,
    packet: P,
    since: Nanos,
}

impl<P> AckPacer<P> {
    /// A pacer without a rate, for at most `packets` waiting ACKs and `flows` flows.
    pub fn new(packets: usize, flows: usize) -> Self {
        let packets = packets.max(1);
        Self {
            spacing: Spacing::default(),
            queue: VecDeque::with_capacity(packets + 1),
            packets,
            left: FlowTable::new(flows),
        }
    }

    /// Sets the rate at which all flows together acknowledge; none for no limit.
    pub const fn set_rate(&mut self, rate: Option<BitRate>) {
        self.spacing.set_rate(rate);
    }

    /// Number of waiting ACKs.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no ACK waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes an ACK. If the queue is full, returns the ACK that is dropped.
    pub fn offer(&mut self, now: Nanos, key: &FlowKey, ack: u32, packet: P) -> Option<P> {
        self.queue.push_back(Waiting { key: *key, ack, packet, since: now });
        if self.queue.len() <= self.packets {
            return None;
        }
        self.queue.pop_front().map(|first| first.packet)
    }

    /// When the first ACK may leave; none if none waits. May be in the past.
    pub fn next_time(&self) -> Option<Nanos> {
        (!self.queue.is_empty()).then(|| self.spacing.next())
    }

    /// An ACK that may leave now, and how long it has waited.
    pub fn poll(&mut self, now: Nanos) -> Option<(P, Nanos)> {
        if self.spacing.next() > now {
            return None;
        }
        let Waiting { key, ack, packet, since } = self.queue.pop_front()?;
        let left = self.left.touch(&key, now, || ack);
        let step = ack.wrapping_sub(*left).cast_signed();
        if step > 0 {
            *left = ack;
            self.spacing.record(now, u64::from(step.cast_unsigned()), Nanos::ZERO);
        }
        Some((packet, now.saturating_sub(since)))
    }
}
