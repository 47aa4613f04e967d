//! Wired links: rate, delay, and a queue at each end; and the time-slotted radio link of cai2005 in place of a wire.
//!
//! Links are full duplex; each direction is a [`Link`]. With a drop-tail queue, the arrival time of a packet is known when
//! it is queued, and one event at the far end is enough. The other disciplines choose the next packet when the one before
//! has left, which is an event too. A packet counts in the queue until its last bit has left. Transmission losses are
//! decided at the far end. Left out: Ethernet, except for the bytes that it adds to a packet.
//!
//! A slotted link begins to send at whole multiples of its slot. In each slot the Markov channel lets a frame through or
//! not, and the sender learns which before the next slot (cai2005, section IV). The chain takes its step in every slot,
//! used or not. Left out: sharing of slots with other links, and errors in the feedback.

use std::collections::VecDeque;

use fairhop_model::markov::Channel;
use fairhop_model::units::{BitRate, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{EventKind, Events, Stream};
use crate::packet::{ImageId, NodeId, Packets};
use crate::queue::{Discipline, Queue, QueueLimit, Refused, Waiting};

#[derive(Clone, Copy, Debug)]
struct OnWire {
    packet: ImageId,
    bytes: u32,
    /// When its last bit leaves the queue.
    sent: Nanos,
    /// The channel has lost it.
    lost: bool,
}

/// The parts of a World that a link uses.
pub struct LinkContext<'a> {
    /// The event queue.
    pub events: &'a mut Events,
    /// All packets.
    pub packets: &'a mut Packets,
    /// Nothing before this counts.
    pub warmup: Nanos,
    /// The link's number.
    pub link: u32,
}

/// How packets wait for the link.
#[derive(Clone, Debug)]
enum Wait {
    /// First come, first served: the departure of every packet is known when it is queued.
    DropTail { limit: QueueLimit, free_at: Nanos },
    /// Under a discipline, which chooses a packet when the sender is free.
    Discipline {
        queue: Queue,
        /// A packet is being sent.
        sending: bool,
    },
    /// In slots.
    Slots(Box<Slots>),
}

/// The sender of a slotted link.
#[derive(Clone, Debug)]
struct Slots {
    queue: Queue,
    /// The limit of a drop-tail queue, in which the packet being sent counts.
    limit: Option<QueueLimit>,
    /// Bytes in a drop-tail queue, those of the packet being sent included.
    bytes: u32,
    fading: Fading,
    slot: Nanos,
    slot_bytes: u32,
    arq: LinkArq,
    /// The packet being sent, and how many of its frames have not got through.
    current: Option<(Waiting, u32)>,
    /// Whether the frame of this slot gets through; none where no frame is sent.
    in_air: Option<bool>,
    /// The sender skips the next slot.
    pause: bool,
    /// An event at the start of the next slot is set.
    awake: bool,
}

/// A Markov channel and its state.
#[derive(Clone, Debug)]
struct Fading {
    channel: Channel,
    random: Stream,
    /// The state in the slot with this number.
    state: usize,
    slot: u64,
}

impl Fading {
    /// Whether a frame sent in a slot gets through.
    fn lets_through(&mut self, slot: u64) -> bool {
        while self.slot < slot {
            self.state = self.channel.draw_next(self.state, self.random.unit());
            self.slot += 1;
        }
        self.channel.draw_success(self.state, self.random.unit())
    }
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The packet.
    pub packet: ImageId,
    /// The link has lost it.
    pub lost: bool,
}

/// Transmission losses.
#[derive(Clone, Debug)]
pub enum Errors {
    /// None.
    Never,
    /// One in a fixed number of frames, counted over those larger than a size.
    Every {
        /// Frames per loss.
        every: u64,
        /// Larger than this.
        over_bytes: u32,
        /// Frames so far.
        seen: u64,
    },
    /// Independent losses of frames larger than a size.
    Random {
        /// Probability of a loss.
        probability: f64,
        /// Larger than this.
        over_bytes: u32,
        /// Draws.
        random: Stream,
    },
}

impl Errors {
    fn strike(&mut self, frame_bytes: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Every { every, over_bytes, seen } => {
                if frame_bytes <= *over_bytes {
                    return false;
                }
                *seen += 1;
                *seen % *every == 0
            }
            Self::Random { probability, over_bytes, random } => {
                frame_bytes > *over_bytes && random.unit() < *probability
            }
        }
    }
}

/// What is counted at one direction of a link, warm-up excluded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkRecord {
    /// Packets sent.
    pub sent: u64,
    /// Time spent sending.
    pub busy: Nanos,
    /// Time integral of the backlog, in packet-nanoseconds.
    pub backlog_integral: u128,
    backlog: u32,
    backlog_since: Nanos,
    /// Largest backlog, in packets, the one being sent included.
    pub backlog_max: u32,
    /// Packets dropped because the queue was full: the arriving one, or one that made room for it.
    pub drops: u64,
    /// Packets that the discipline dropped early.
    pub early_drops: u64,
    /// Packets that the channel has lost.
    pub lost: u64,
    /// Frames of a slotted link that did not get through.
    pub failed: u64,
}

impl LinkRecord {
    fn set_backlog(&mut self, backlog: usize, now: Nanos, warmup: Nanos) {
        let since = self.backlog_since.max(warmup);
        if now > since {
            self.backlog_integral += u128::from(self.backlog) * u128::from((now - since).0);
        }
        self.backlog = backlog as u32;
        self.backlog_since = now;
        if now >= warmup {
            self.backlog_max = self.backlog_max.max(self.backlog);
        }
    }

    fn add_busy(&mut self, from: Nanos, to: Nanos, warmup: Nanos) {
        self.busy += to.saturating_sub(from.max(warmup));
    }

    /// The queue has refused or dropped a packet.
    pub fn dropped(&mut self, why: Refused, now: Nanos, warmup: Nanos) {
        if now >= warmup {
            match why {
                Refused::Full => self.drops += 1,
                Refused::Early => self.early_drops += 1,
            }
        }
    }
}

/// ARQ of a time-slotted link: what the sender does after a lost frame. The doc comments are the descriptions in the JSON
/// Schema of scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkArq {
    /// Retransmits in the next slot, until the frame gets through.
    #[default]
    Persistent,
    /// Leaves the next slot idle and retransmits in the slot after it.
    Optimal,
    /// Drops the packet.
    None,
}

/// Parameters of one direction of a link.
#[derive(Clone, Debug)]
pub struct LinkParams {
    /// The end that sends.
    pub from: NodeId,
    /// The end that receives.
    pub to: NodeId,
    /// Rate.
    pub rate: BitRate,
    /// Delay after the last bit has left.
    pub delay: Nanos,
    /// Bytes that the link adds to an IP packet.
    pub overhead: u32,
    /// Transmission losses.
    pub errors: Errors,
    /// The channel of a slotted link: the chain, how losses are repaired, and the bytes of a slot.
    pub channel: Option<(Channel, LinkArq, u32)>,
}

/// One direction of a wired link.
#[derive(Clone, Debug)]
pub struct Link {
    params: LinkParams,
    wait: Wait,
    under_way: VecDeque<OnWire>,
    /// How many packets at the front of `under_way` had left the queue at the last update.
    left: usize,
    queued_bytes: u64,
    record: LinkRecord,
}

impl Link {
    /// An idle link, with the random streams of its queue and of its channel.
    pub fn new(params: LinkParams, queue: &Discipline, random: Stream, mut fading: Stream) -> Self {
        let limit = queue.limit();
        let wait = match (Queue::new(queue, params.rate, random), &params.channel) {
            (queue, Some((channel, arq, slot_bytes))) => {
                let state = channel.draw_initial(fading.unit());
                let fading = Fading { channel: channel.clone(), random: fading, state, slot: 0 };
                Wait::Slots(Box::new(Slots {
                    limit: matches!(queue, Queue::DropTail(_)).then_some(limit),
                    bytes: 0,
                    queue,
                    fading,
                    // At any rate a slot takes some time, so that time advances.
                    slot: params.rate.time_for(u64::from(*slot_bytes)).max(Nanos(1)),
                    slot_bytes: (*slot_bytes).max(1),
                    arq: *arq,
                    current: None,
                    in_air: None,
                    pause: false,
                    awake: false,
                }))
            }
            (Queue::DropTail(_), None) => Wait::DropTail { limit, free_at: Nanos::ZERO },
            (queue, None) => Wait::Discipline { queue, sending: false },
        };
        let under_way = VecDeque::with_capacity(256);
        Self { params, wait, under_way, left: 0, queued_bytes: 0, record: LinkRecord::default() }
    }

    /// The end that sends.
    pub fn from(&self) -> NodeId {
        self.params.from
    }

    /// The end that receives.
    pub fn to(&self) -> NodeId {
        self.params.to
    }

    /// Delay after the last bit has left.
    pub fn delay(&self) -> Nanos {
        self.params.delay
    }

    /// Rate.
    pub fn rate(&self) -> BitRate {
        self.params.rate
    }

    /// Counters.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// Counters, for drops that the caller finds out about.
    pub fn record_mut(&mut self) -> &mut LinkRecord {
        &mut self.record
    }

    /// Brings the record up to the end of the run.
    pub fn finish(&mut self, at: Nanos, warmup: Nanos) {
        self.note_departures(at, warmup);
        self.record.set_backlog(self.backlog(), at, warmup);
        // The packet being sent has used a part of its time.
        if let Some(next) = self.under_way.get(self.left) {
            let began = next.sent.saturating_sub(self.time_for(next.bytes));
            self.record.add_busy(began.min(at), at, warmup);
        }
        if let Wait::Slots(slots) = &self.wait
            && slots.in_air.is_some()
        {
            self.record.add_busy(Nanos(at.0 - at.0 % slots.slot.0), at, warmup);
        }
    }

    fn time_for(&self, bytes: u32) -> Nanos {
        self.params.rate.time_for(u64::from(bytes + self.params.overhead))
    }

    /// Packets that wait, the one being sent included.
    fn backlog(&self) -> usize {
        let sending = self.under_way.len() - self.left;
        match &self.wait {
            Wait::DropTail { .. } => sending,
            Wait::Discipline { queue, .. } => sending + queue.len(),
            Wait::Slots(slots) => slots.queue.len() + usize::from(slots.current.is_some()),
        }
    }

    /// Packets that wait at `now`, which must not be before the last event; the one being sent included.
    pub fn backlog_at(&self, now: Nanos) -> usize {
        let gone = self.under_way.iter().skip(self.left).take_while(|packet| packet.sent <= now).count();
        self.backlog() - gone
    }

    /// Records the packets whose last bit has left by now.
    fn note_departures(&mut self, now: Nanos, warmup: Nanos) {
        while let Some(first) = self.under_way.get(self.left).copied()
            && first.sent <= now
        {
            self.queued_bytes -= u64::from(first.bytes);
            self.left += 1;
            if !matches!(self.wait, Wait::Slots(_)) {
                let began = first.sent.saturating_sub(self.time_for(first.bytes));
                self.record.add_busy(began, first.sent, warmup);
            }
            self.record.sent += u64::from(first.sent >= warmup);
            self.record.set_backlog(self.backlog(), first.sent, warmup);
        }
    }

    /// Queues a packet.
    ///
    /// # Errors
    /// The queue does not accept it. The packet is still the caller's.
    pub fn send(&mut self, ctx: &mut LinkContext<'_>, packet: ImageId, bytes: u32) -> Result<(), Refused> {
        let now = ctx.events.now();
        self.note_departures(now, ctx.warmup);
        let waiting = Waiting { packet, next_hop: self.params.to, bytes };
        match &mut self.wait {
            Wait::DropTail { limit, free_at } => {
                let fits = match *limit {
                    QueueLimit::Packets(packets) => self.under_way.len() - self.left < packets as usize,
                    QueueLimit::Bytes(limit) => self.queued_bytes + u64::from(bytes) <= u64::from(limit),
                };
                if !fits {
                    return Err(Refused::Full);
                }
                let time = self.params.rate.time_for(u64::from(bytes + self.params.overhead));
                *free_at = (*free_at).max(now).saturating_add(time);
                let sent = *free_at;
                self.put_on_wire(ctx, waiting, sent, false);
            }
            Wait::Discipline { queue, sending: true } => queue.push(waiting, now, ctx.packets)?,
            Wait::Discipline { queue, .. } => {
                if let Some(first) = queue.pass(waiting, now, ctx.packets)? {
                    self.begin(ctx, first);
                }
            }
            Wait::Slots(slots) => {
                if let Some(limit) = slots.limit {
                    let packets = slots.queue.len() + usize::from(slots.current.is_some());
                    if !limit.has_room(packets, slots.bytes, bytes) {
                        return Err(Refused::Full);
                    }
                    slots.bytes += bytes;
                }
                slots.queue.push(waiting, now, ctx.packets)?;
                if !slots.awake {
                    slots.awake = true;
                    let slot = Nanos(now.0.div_ceil(slots.slot.0).saturating_mul(slots.slot.0));
                    ctx.events.push(slot, EventKind::LinkFree, ctx.link);
                }
            }
        }
        let backlog = self.backlog();
        self.record.set_backlog(backlog, now, ctx.warmup);
        Ok(())
    }

    /// Begins to send the packet that the discipline has chosen.
    fn begin(&mut self, ctx: &mut LinkContext<'_>, first: Waiting) {
        if let Wait::Discipline { sending, .. } = &mut self.wait {
            *sending = true;
        }
        let sent = ctx.events.now().saturating_add(self.time_for(first.bytes));
        ctx.events.push(sent, EventKind::LinkFree, ctx.link);
        self.put_on_wire(ctx, first, sent, false);
    }

    fn put_on_wire(&mut self, ctx: &mut LinkContext<'_>, waiting: Waiting, sent: Nanos, lost: bool) {
        let Waiting { packet, bytes, .. } = waiting;
        self.queued_bytes += u64::from(bytes);
        self.under_way.push_back(OnWire { packet, bytes, sent, lost });
        if self.under_way.len() == 1 {
            ctx.events.push(sent.saturating_add(self.params.delay), EventKind::WiredArrival, ctx.link);
        }
    }

    /// The packet being sent has left, and the discipline chooses the next one; or a slot begins.
    pub fn free(&mut self, ctx: &mut LinkContext<'_>) {
        let now = ctx.events.now();
        self.note_departures(now, ctx.warmup);
        match &mut self.wait {
            Wait::DropTail { .. } => {}
            Wait::Discipline { queue, sending } => {
                *sending = false;
                if let Some(next) = queue.pop(now, ctx.packets) {
                    self.begin(ctx, next);
                }
            }
            Wait::Slots(_) => {
                self.end_slot(ctx);
                self.begin_slot(ctx);
            }
        }
        let backlog = self.backlog();
        self.record.set_backlog(backlog, now, ctx.warmup);
    }

    /// The sender learns whether the frame of the slot that ends now got through.
    fn end_slot(&mut self, ctx: &mut LinkContext<'_>) {
        let now = ctx.events.now();
        let Wait::Slots(slots) = &mut self.wait else { return };
        let (Some(through), Some((waiting, frames))) = (slots.in_air.take(), slots.current) else { return };
        self.record.add_busy(now.saturating_sub(slots.slot), now, ctx.warmup);
        self.record.failed += u64::from(!through && now >= ctx.warmup);
        let done = if through {
            slots.current = Some((waiting, frames - 1));
            frames == 1
        } else {
            slots.pause = slots.arq == LinkArq::Optimal;
            slots.arq == LinkArq::None
        };
        if done {
            slots.current = None;
            slots.bytes = slots.bytes.saturating_sub(waiting.bytes);
            self.put_on_wire(ctx, waiting, now, !through);
            self.note_departures(now, ctx.warmup);
        }
    }

    fn begin_slot(&mut self, ctx: &mut LinkContext<'_>) {
        let now = ctx.events.now();
        let overhead = self.params.overhead;
        let Wait::Slots(slots) = &mut self.wait else { return };
        slots.awake = false;
        if slots.current.is_none() {
            let next = slots.queue.pop(now, ctx.packets);
            let frames = |bytes: u32| (bytes + overhead).div_ceil(slots.slot_bytes).max(1);
            slots.current = next.map(|waiting| (waiting, frames(waiting.bytes)));
        }
        if slots.current.is_none() {
            return;
        }
        if !std::mem::take(&mut slots.pause) {
            let number = now.div_floor(slots.slot);
            slots.in_air = Some(slots.fading.lets_through(number));
        }
        slots.awake = true;
        ctx.events.push(now.saturating_add(slots.slot), EventKind::LinkFree, ctx.link);
    }

    /// The packet that arrives now.
    pub fn arrive(&mut self, ctx: &mut LinkContext<'_>) -> Option<Arrived> {
        let now = ctx.events.now();
        self.note_departures(now, ctx.warmup);
        let arrived = self.under_way.pop_front()?;
        self.left = self.left.saturating_sub(1);
        if let Some(next) = self.under_way.front() {
            ctx.events.push(next.sent.saturating_add(self.params.delay), EventKind::WiredArrival, ctx.link);
        }
        let lost = self.params.errors.strike(arrived.bytes + self.params.overhead) || arrived.lost;
        self.record.lost += u64::from(lost && now >= ctx.warmup);
        Some(Arrived { packet: arrived.packet, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;

    /// 1 Mb/s: 1250 bytes take 10 ms.
    struct Bench {
        link: Link,
        events: Events,
        packets: Packets,
    }

    impl Bench {
        fn new(limit: QueueLimit) -> Self {
            Self::with(&limit.into(), Errors::Never, 0)
        }

        fn with(queue: &Discipline, errors: Errors, overhead: u32) -> Self {
            let rate = BitRate(1_000_000);
            let delay = Nanos::from_millis(30);
            let params = LinkParams { from: 0, to: 1, rate, delay, overhead, errors, channel: None };
            Self {
                link: Link::new(
                    params,
                    queue,
                    Stream::new(1, 0, Purpose::Queue),
                    Stream::new(1, 0, Purpose::Channel),
                ),
                events: Events::new(0, 16),
                packets: Packets::new(0, 64),
            }
        }

        fn ctx(&mut self) -> (&mut Link, LinkContext<'_>) {
            let Self { link, events, packets } = self;
            (link, LinkContext { events, packets, warmup: Nanos::ZERO, link: 0 })
        }

        fn send(&mut self, packet: ImageId, bytes: u32) -> Result<(), Refused> {
            let (link, mut ctx) = self.ctx();
            link.send(&mut ctx, packet, bytes)
        }

        /// Runs up to a time; the packets that arrived, when, and whether they were lost.
        fn until(&mut self, ms: u64) -> Vec<(ImageId, f64, bool)> {
            let mut arrivals = Vec::new();
            // A mark in the queue of events, so that the clock gets there.
            self.events.push(Nanos::from_millis(ms), EventKind::Sample, 0);
            while let Some(event) = self.events.pop_until(Nanos::from_millis(ms)) {
                let (link, mut ctx) = self.ctx();
                match event.kind {
                    EventKind::LinkFree => link.free(&mut ctx),
                    EventKind::WiredArrival => {
                        let Arrived { packet, lost } = link.arrive(&mut ctx).expect("a packet");
                        arrivals.push((packet, event.at.as_millis_f64(), lost));
                    }
                    _ => {}
                }
            }
            arrivals
        }
    }

    #[test]
    fn packets_arrive_one_after_the_other_after_rate_and_delay() {
        let mut bench = Bench::new(QueueLimit::Packets(10));
        assert!(bench.send(7, 1250).is_ok() && bench.send(8, 1250).is_ok());
        assert_eq!(bench.until(60), [(7, 40.0, false), (8, 50.0, false)]);
        assert!(bench.send(9, 1250).is_ok());
        assert_eq!(bench.until(200), [(9, 100.0, false)]);
        bench.link.finish(Nanos::from_millis(200), Nanos::ZERO);
        let record = bench.link.record();
        // 10 ms with two, 10 ms with one, 10 ms with one.
        assert_eq!(record.backlog_integral, 40_000_000);
        assert_eq!((record.busy, record.backlog_max, record.sent), (Nanos::from_millis(30), 2, 3));
    }

    #[test]
    fn the_queue_holds_what_has_not_left_and_not_what_is_on_the_wire() {
        let mut packets = Bench::new(QueueLimit::Packets(2));
        assert!(packets.send(0, 1250).is_ok() && packets.send(1, 1250).is_ok());
        packets.until(9);
        assert_eq!(packets.send(2, 1250), Err(Refused::Full));
        packets.until(10);
        assert!(packets.send(2, 1250).is_ok(), "the first has left");
        let mut bytes = Bench::new(QueueLimit::Bytes(2500));
        assert!(bytes.send(0, 1250).is_ok() && bytes.send(1, 1250).is_ok());
        bytes.until(9);
        assert_eq!(bytes.send(2, 1), Err(Refused::Full));
        bytes.until(10);
        assert!(bytes.send(2, 1250).is_ok());
        assert_eq!(bytes.until(100).len(), 3);
        assert_eq!(bytes.link.queued_bytes, 0);
    }

    /// A priority queue that never has to choose sends as a drop-tail queue does, to the nanosecond.
    #[test]
    fn a_discipline_keeps_the_times_of_drop_tail() {
        let times = |text: &str| {
            let queue: Discipline = toml::from_str(text).expect("a queue");
            let mut bench = Bench::with(&queue, Errors::Never, 14);
            let mut arrivals = Vec::new();
            for (at, count) in [(0, 3), (5, 1), (37, 2), (120, 1)] {
                arrivals.extend(bench.until(at));
                for _ in 0..count {
                    let waiting = crate::queue::testing::packet(
                        &mut bench.packets,
                        0,
                        1250,
                        crate::packet::Ecn::NotEct,
                    );
                    bench.send(waiting.packet, 1250).expect("room");
                }
            }
            arrivals.extend(bench.until(400));
            bench.link.finish(Nanos::from_millis(400), Nanos::ZERO);
            let record = bench.link.record();
            (arrivals, record.busy, record.backlog_integral, record.backlog_max, record.sent)
        };
        let drop_tail = times("discipline = \"drop-tail\"\npackets = 10");
        assert_eq!(drop_tail.0.len(), 7);
        for other in ["priority", "codel", "fq-codel", "cake", "drr", "red"] {
            assert_eq!(times(&format!("discipline = \"{other}\"\npackets = 10")), drop_tail, "{other}");
        }
    }

    #[test]
    fn every_nth_large_frame_is_lost_and_overhead_counts() {
        let errors = Errors::Every { every: 3, over_bytes: 200, seen: 0 };
        let mut bench = Bench::with(&QueueLimit::Packets(100).into(), errors, 14);
        for packet in 0..8 {
            // Packets 3 and 7 make frames of exactly 200 bytes: they do not count.
            bench.send(packet, if packet % 4 == 3 { 186 } else { 187 }).expect("room");
        }
        let lost: Vec<_> = bench.until(1000).into_iter().filter(|(_, _, lost)| *lost).map(|a| a.0).collect();
        assert_eq!(lost, [2, 6]);
        // 201 bytes at 1 Mb/s.
        assert_eq!(bench.link.time_for(187), Nanos::from_micros(1608));
    }
}
