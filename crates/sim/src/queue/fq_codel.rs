//! FQ-CoDel: flow queuing with CoDel (RFC 8290).
//!
//! Flows are hashed into queues; each queue has a CoDel state and a credit in bytes. New queues are served before old ones,
//! in rounds (§4.2), so that a flow that sends less than a quantum per round never waits behind the others. At the limit,
//! packets are dropped from the head of the queue with the most bytes, up to half of it and at most 64 (§4.1.3). The hash
//! is of the stream, which stands for the five-tuple, with a random key per queue.
//!
//! **Host fairness** is that of CAKE's `dual-srchost` and `dual-dsthost` (Høiland-Jørgensen, Täht and Morton 2018): the quantum
//! of a flow is divided by the number of backlogged flows of its host, so that hosts have equal shares whatever their number
//! of flows, and so have the flows of a host. Left out of CAKE: BLUE beside CoDel, tins by DSCP, set-associative hashing (a
//! queue shared by flows of two hosts counts for the host whose packet arrived first), and ACK filtering.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::codel::{Params, State};
use super::{Fifo, HostOf, QueueLimit, Refused, Waiting};
use crate::engine::Stream;
use crate::packet::Packets;

/// Maximum number of packets dropped at once.
const DROP_BATCH: usize = 64;

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Fifo,
    state: State,
    /// In [`CREDIT_OF_BYTE`]s.
    credit: i64,
    /// Whether it is in the list of new or of old queues.
    active: bool,
    /// Whether it has used up a quantum since it became active.
    bulk: bool,
    /// Index of its host.
    host: u32,
}

/// Credit is counted in fractions of a byte, so that a quantum can be divided.
const CREDIT_OF_BYTE: i64 = 1 << 16;

/// Hosts, identified by one of the ends of their packets.
#[derive(Clone, Debug)]
struct Hosts {
    by: HostOf,
    /// Numbers of hosts, sorted, and their indices in `bulk`.
    known: Vec<(u32, u32)>,
    /// For each host, the number of its backlogged flows that have used up a quantum.
    bulk: Vec<u32>,
}

impl Hosts {
    fn place(&mut self, host: u32) -> u32 {
        match self.known.binary_search_by_key(&host, |entry| entry.0) {
            Ok(index) => self.known[index].1,
            Err(index) => {
                let place = self.bulk.len() as u32;
                self.bulk.push(0);
                self.known.insert(index, (host, place));
                place
            }
        }
    }
}

/// Queues of flows under FQ-CoDel.
#[derive(Clone, Debug)]
pub struct FqCoDel {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    params: Params,
    quantum: u32,
    limit: QueueLimit,
    packets: usize,
    bytes: u32,
    hash_key: u64,
    hosts: Option<Hosts>,
}

impl FqCoDel {
    pub(super) fn new(
        limit: QueueLimit,
        params: Params,
        quantum: u32,
        flows: u32,
        mut random: Stream,
    ) -> Self {
        let hash_key = u64::from(random.up_to(u32::MAX)) << 32 | u64::from(random.up_to(u32::MAX));
        Self {
            flows: vec![Flow::default(); flows.max(1) as usize],
            new: VecDeque::with_capacity(16),
            old: VecDeque::with_capacity(16),
            params,
            quantum: quantum.max(1),
            limit,
            packets: 0,
            bytes: 0,
            hash_key,
            hosts: None,
        }
    }

    /// The same queue, fair to hosts first and then to flows.
    pub(super) fn fair_to_hosts(mut self, by: HostOf) -> Self {
        let hosts = Hosts { by, known: Vec::with_capacity(8), bulk: Vec::with_capacity(8) };
        self.hosts = Some(hosts);
        self
    }

    /// The quantum of a flow.
    fn grant(&self, flow: usize) -> i64 {
        let whole = i64::from(self.quantum) * CREDIT_OF_BYTE;
        match &self.hosts {
            None => whole,
            Some(hosts) => whole / i64::from(hosts.bulk[self.flows[flow].host as usize].max(1)),
        }
    }

    /// The queue of a stream: multiplicative hashing of the keyed stream, scaled to the number of queues.
    fn flow_of(&self, stream: u32) -> usize {
        let mut mixed = self.hash_key ^ u64::from(stream);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (((mixed >> 32) * self.flows.len() as u64) >> 32) as usize
    }

    /// Adds a packet to the queue of its flow. Beyond the limit, drops packets of the flow with the most bytes.
    ///
    /// # Errors
    /// The packet alone exceeds the limit.
    pub fn push(&mut self, packet: Waiting, now: Nanos, packets: &mut Packets) -> Result<(), Refused> {
        if !self.limit.has_room(0, 0, packet.bytes) {
            return Err(Refused::Full);
        }
        let known = packets.get(packet.packet);
        let index = self.flow_of(known.stream);
        let flow = &mut self.flows[index];
        flow.state.saw(packet.bytes);
        flow.queue.push(packet, now);
        self.packets += 1;
        self.bytes += packet.bytes;
        if !flow.active {
            flow.active = true;
            if let Some(hosts) = &mut self.hosts {
                flow.host = hosts.place(match hosts.by {
                    HostOf::Source => known.source,
                    HostOf::Destination => known.destination,
                });
            }
            self.flows[index].credit = self.grant(index);
            self.new.push_back(index as u32);
        }
        while self.limit.is_exceeded(self.packets, self.bytes) {
            self.drop_from_largest(packets);
        }
        Ok(())
    }

    fn drop_from_largest(&mut self, packets: &mut Packets) {
        // Ties go to the lowest number, so that the order of the lists does not matter.
        let largest = self.new.iter().chain(&self.old).copied();
        let largest = largest.max_by_key(|&flow| (self.flows[flow as usize].queue.bytes, u32::MAX - flow));
        let Some(flow) = largest.map(|flow| &mut self.flows[flow as usize]) else { return };
        let half = flow.queue.bytes / 2;
        for _ in 0..DROP_BATCH {
            let Some(first) = flow.queue.pop() else { return };
            self.packets -= 1;
            self.bytes -= first.waiting.bytes;
            packets.drop_queued(first.waiting.packet, Refused::Full);
            if flow.queue.bytes <= half {
                return;
            }
        }
    }

    /// Takes the packet to send. CoDel may drop packets before it.
    pub fn pop(&mut self, now: Nanos, packets: &mut Packets) -> Option<Waiting> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                if let Some(hosts) = &mut self.hosts
                    && !std::mem::replace(&mut flow.bulk, true)
                {
                    hosts.bulk[flow.host as usize] += 1;
                }
                list.pop_front();
                let grant = self.grant(index as usize);
                self.flows[index as usize].credit += grant;
                self.old.push_back(index);
                continue;
            }
            let (packets_before, bytes_before) = (flow.queue.len(), flow.queue.bytes);
            let next = flow.state.dequeue(&mut flow.queue, now, &self.params, packets);
            self.packets -= packets_before - flow.queue.len();
            self.bytes -= bytes_before - flow.queue.bytes;
            match next {
                Some(first) => {
                    flow.credit -= i64::from(first.waiting.bytes) * CREDIT_OF_BYTE;
                    return Some(first.waiting);
                }
                None => {
                    list.pop_front();
                    // An empty new queue becomes an old one. Otherwise a flow could return as new at once (§4.2).
                    if is_new {
                        self.old.push_back(index);
                    } else {
                        flow.active = false;
                        if let Some(hosts) = &mut self.hosts
                            && std::mem::take(&mut flow.bulk)
                        {
                            hosts.bulk[flow.host as usize] -= 1;
                        }
                    }
                }
            }
        }
    }

    /// Takes out all packets for a next hop.
    pub(super) fn withdraw(&mut self, next_hop: u32, out: &mut Vec<Waiting>) {
        let before = out.len();
        for flow in &mut self.flows {
            flow.queue.withdraw(next_hop, out);
        }
        self.packets -= out.len() - before;
        self.bytes -= out[before..].iter().map(|waiting| waiting.bytes).sum::<u32>();
    }

    /// Number of packets in the queue.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::engine::Purpose;
    use crate::packet::Ecn;

    const MS: u64 = 1_000_000;

    fn fq(limit: u32, flows: u32) -> FqCoDel {
        let params = Params::from_millis(5.0, 100.0, false);
        let random = Stream::new(1, 0, Purpose::Queue);
        FqCoDel::new(QueueLimit::Packets(limit), params, 1514, flows, random)
    }

    /// Streams hashed into different queues.
    fn apart(queue: &FqCoDel, count: usize) -> Vec<u32> {
        let mut seen = std::collections::BTreeSet::new();
        (0..).filter(|&stream| seen.insert(queue.flow_of(stream))).take(count).collect()
    }

    #[test]
    fn a_sparse_flow_is_served_before_any_backlog() {
        let mut packets = Packets::new(0, 64);
        let mut queue = fq(1000, 1024);
        let [bulk, other, sparse] = apart(&queue, 3)[..] else { panic!("three streams") };
        for _ in 0..100 {
            queue.push(packet(&mut packets, bulk, 1500, Ecn::NotEct), Nanos(0), &mut packets).expect("room");
            queue.push(packet(&mut packets, other, 1500, Ecn::NotEct), Nanos(0), &mut packets).expect("room");
        }
        for round in 1..=20_u64 {
            let now = Nanos(round * 100_000);
            for _ in 0..4 {
                queue.pop(now, &mut packets).expect("a packet");
            }
            let call = packet(&mut packets, sparse, 60, Ecn::NotEct);
            queue.push(call, now, &mut packets).expect("room");
            assert_eq!(queue.pop(now, &mut packets), Some(call), "round {round}");
        }
    }

    /// Three flows with packets of 1500, 500 and 100 bytes, always backlogged: after many rounds each has sent the same
    /// number of bytes to within a quantum and a packet.
    #[test]
    fn backlogged_flows_have_equal_shares_of_bytes_not_of_packets() {
        let mut packets = Packets::new(0, 64);
        let mut queue = fq(100_000, 1024);
        let streams = apart(&queue, 3);
        let sizes = [1500, 500, 100];
        for (&stream, bytes) in streams.iter().zip(sizes) {
            for _ in 0..20_000 {
                let waiting = packet(&mut packets, stream, bytes, Ecn::NotEct);
                queue.push(waiting, Nanos(0), &mut packets).expect("room");
            }
        }
        let mut sent = [0_u32; 3];
        for _ in 0..5_000 {
            // At time zero CoDel drops nothing.
            let waiting = queue.pop(Nanos(0), &mut packets).expect("a packet");
            let stream = packets.get(waiting.packet).stream;
            sent[streams.iter().position(|&s| s == stream).expect("known")] += waiting.bytes;
        }
        let max = sent.iter().max().expect("three");
        assert!(sent.iter().all(|bytes| max - bytes <= 2 * 1514), "{sent:?}");
    }

    /// One flow of a host and nine of another, all backlogged.
    #[test]
    fn with_host_fairness_one_flow_has_the_share_of_nine() {
        let mut packets = Packets::new(0, 64);
        let mut queue = fq(1_000_000, 1024).fair_to_hosts(HostOf::Destination);
        let streams = apart(&queue, 10);
        for (&stream, number) in streams.iter().zip(0..) {
            for _ in 0..3_000 {
                let waiting = packet(&mut packets, stream, 1000, Ecn::NotEct);
                packets.get_mut(waiting.packet).destination = u32::from(number > 0);
                queue.push(waiting, Nanos(0), &mut packets).expect("room");
            }
        }
        let mut sent = [0_u32; 10];
        for _ in 0..5_000 {
            let waiting = queue.pop(Nanos(0), &mut packets).expect("a packet");
            let stream = packets.get(waiting.packet).stream;
            sent[streams.iter().position(|&s| s == stream).expect("known")] += 1;
        }
        assert!(sent[0].abs_diff(2_500) <= 10, "{sent:?}");
        assert!(sent[1..].iter().all(|&flow| flow.abs_diff(2_500 / 9) <= 3), "{sent:?}");
        // Once the nine are done, the one has the whole rate, and they no longer count.
        while sent[0] < 3_000 {
            let waiting = queue.pop(Nanos(0), &mut packets).expect("a packet");
            sent[0] += u32::from(packets.get(waiting.packet).stream == streams[0]);
        }
        while queue.pop(Nanos(0), &mut packets).is_some() {}
        assert!(queue.hosts.is_some_and(|hosts| hosts.bulk == [0, 0]));
    }

    #[test]
    fn at_the_limit_the_largest_flow_loses_half_of_its_queue() {
        let mut packets = Packets::new(0, 64);
        let mut queue = fq(100, 1024);
        let [small, large] = apart(&queue, 2)[..] else { panic!("two streams") };
        for _ in 0..10 {
            queue.push(packet(&mut packets, small, 1500, Ecn::NotEct), Nanos(0), &mut packets).expect("room");
        }
        for _ in 0..90 {
            queue.push(packet(&mut packets, large, 1500, Ecn::NotEct), Nanos(0), &mut packets).expect("room");
        }
        assert_eq!(packets.take_dropped(), None);
        queue.push(packet(&mut packets, small, 1500, Ecn::NotEct), Nanos(0), &mut packets).expect("room");
        let lost: Vec<_> = std::iter::from_fn(|| packets.take_dropped()).collect();
        // Half of 90 packets.
        assert_eq!((lost.len(), queue.len()), (45, 56));
        assert!(lost.iter().all(|(id, why)| packets.get(*id).stream == large && *why == Refused::Full));
    }

    #[test]
    fn each_flow_has_its_own_codel_state() {
        let mut packets = Packets::new(0, 64);
        let mut queue = fq(100_000, 1024);
        let [bulk, sparse] = apart(&queue, 2)[..] else { panic!("two streams") };
        for ms in 1..500_u64 {
            let now = Nanos(ms * MS);
            for _ in 0..5 {
                queue.push(packet(&mut packets, bulk, 1000, Ecn::NotEct), now, &mut packets).expect("room");
            }
            queue.pop(now, &mut packets);
            if ms % 20 == 0 {
                queue.push(packet(&mut packets, sparse, 60, Ecn::NotEct), now, &mut packets).expect("room");
                queue.pop(now, &mut packets);
            }
        }
        let lost: Vec<_> = std::iter::from_fn(|| packets.take_dropped()).collect();
        assert!(
            lost.len() > 4 && lost.iter().all(|(id, _)| packets.get(*id).stream == bulk),
            "{}",
            lost.len()
        );
    }
}
