//! What a routing protocol does during a run, and what flows notice of it.

use fairhop_model::units::Nanos;
use fairhop_routing::MessageKind;

use super::Histogram;
use crate::packet::NodeId;

/// Without an arrival for longer than this, a flow is interrupted.
pub const INTERRUPTION: Nanos = Nanos::from_secs(1);

/// A time without arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The last arrival before it, or when the first packet was sent.
    pub from: Nanos,
    /// The first arrival after it, or the end of the run.
    pub to: Nanos,
}

/// A change of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// When.
    pub at: Nanos,
    /// Whose route.
    pub node: NodeId,
    /// Where it goes.
    pub destination: NodeId,
    /// Next hop and hop count; none if it does not work any more.
    pub over: Option<(NodeId, u8)>,
}

/// What one direction of a flow notices of routes.
#[derive(Clone, Debug, Default)]
pub struct PathRecord {
    /// When its first packet was sent; none before.
    pub first_sent: Option<Nanos>,
    /// Delay of the first packet that arrived, from the time at which the first packet was sent.
    pub first_delay: Option<Nanos>,
    last_arrival: Option<Nanos>,
    /// Sum of the radio hops of the packets that arrived, and their number, by recording interval.
    pub hops: Vec<(u64, u64)>,
    /// Times without arrivals.
    pub interruptions: Vec<Interruption>,
}

impl PathRecord {
    /// Mean radio hops of the packets that arrived in intervals from `first` on; none where none did.
    pub fn mean_hops(&self, first: usize) -> Option<f64> {
        let counted = self.hops.iter().skip(first);
        let (hops, packets) = counted.fold((0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
        (packets > 0).then(|| hops as f64 / packets as f64)
    }

    fn silence(&mut self, to: Nanos) {
        if let Some(from) = self.last_arrival.or(self.first_sent)
            && to.saturating_sub(from) > INTERRUPTION
        {
            self.interruptions.push(Interruption { from, to });
        }
    }
}

/// Transmissions of messages of one kind, warm-up excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCount {
    /// Messages; each hop counts, retries of the link layer do not.
    pub sent: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
}

/// What a routing protocol does during a run. Counters leave the warm-up out; interruptions and route changes do not.
#[derive(Clone, Debug)]
pub struct RoutingRecord {
    /// By kind of message.
    pub messages: [MessageCount; MessageKind::ALL.len()],
    /// Discoveries that found a route.
    pub found: u64,
    /// Discoveries that were given up.
    pub given_up: u64,
    /// Discoveries that have begun.
    pub tried: u64,
    /// Latencies of discoveries that found a route.
    pub latencies: Histogram,
    /// Links that were broken while in use: both ends could not decode each other at the data rate.
    pub true_breaks: u64,
    /// Links that were taken for broken while in use, though nothing but other transmissions disturbed them.
    pub false_breaks: u64,
    /// Routes that were new, changed next hop or length, or became invalid.
    pub route_changes: u64,
    /// Changes of a route after which following next hops led back to its node. Always 0.
    pub loops: u64,
    /// Each change of a route, warm-up included.
    pub changes: Vec<RouteChange>,
    /// By stream.
    pub paths: Vec<PathRecord>,
    interval: Nanos,
}

impl RoutingRecord {
    /// Nothing has happened; `streams` directions of flows.
    pub fn new(streams: usize, interval: Nanos) -> Self {
        Self {
            messages: [MessageCount::default(); MessageKind::ALL.len()],
            found: 0,
            given_up: 0,
            tried: 0,
            latencies: Histogram::new(),
            true_breaks: 0,
            false_breaks: 0,
            route_changes: 0,
            loops: 0,
            changes: Vec::new(),
            paths: (0..streams).map(|_| PathRecord::default()).collect(),
            interval,
        }
    }

    fn path(&mut self, stream: u32) -> &mut PathRecord {
        let index = stream as usize;
        if self.paths.len() <= index {
            self.paths.resize_with(index + 1, PathRecord::default);
        }
        &mut self.paths[index]
    }

    /// A packet of a stream was sent.
    pub fn sent(&mut self, stream: u32, at: Nanos) {
        self.path(stream).first_sent.get_or_insert(at);
    }

    /// A packet of a stream has arrived over this many radio hops.
    pub fn arrived(&mut self, stream: u32, created: Nanos, now: Nanos, hops: u64) {
        let bin = (now.0 / self.interval.0.max(1)) as usize;
        let path = self.path(stream);
        let first_sent = *path.first_sent.get_or_insert(created);
        path.first_delay.get_or_insert(now.saturating_sub(first_sent));
        path.silence(now);
        path.last_arrival = Some(now);
        if path.hops.len() <= bin {
            path.hops.resize(bin + 1, (0, 0));
        }
        path.hops[bin].0 += hops;
        path.hops[bin].1 += 1;
    }

    /// The run has ended; `stops` has the time at which each stream stops sending.
    pub fn finish(&mut self, end: Nanos, stops: impl Iterator<Item = Nanos>) {
        for (path, stop) in self.paths.iter_mut().zip(stops) {
            path.silence(end.min(stop));
        }
    }

    /// Messages sent, of all kinds.
    pub fn total(&self) -> MessageCount {
        let sum = |sum: MessageCount, count: &MessageCount| MessageCount {
            sent: sum.sent + count.sent,
            bytes: sum.bytes + count.bytes,
        };
        self.messages.iter().fold(MessageCount::default(), sum)
    }
}
