//! The mesh: stations, their receivers and links, and the frames on the air.
//!
//! The mesh carries a packet one hop. What it reports to the layer above are [`Output`]s, in the order in which they
//! happened: first all radios and stations learn of a frame's end, then the World moves packets, so that no station acts
//! on half of the picture.

use fairhop_model::units::Nanos;

use super::Tap;
use super::aodv::Routers;
use super::core::Core;
use crate::engine::{Event, EventKind, Stream, prefetch};
use crate::mac::{BROADCAST, Context, Data, Done, Frame, MacParams, Received, Stations, for_stations};
use crate::packet::{ImageId, NodeId, Packets};
use crate::queue::{Queue, Refused, Waiting};
use crate::radio::{
    Airtime, Departure, Link, Links, Moving, Outcome, Position, RadioParams, Receiver, Signal,
};
use crate::recorder::{Loss, NodeSample};

/// Up to this many stations, of about 1.5 kB each, fit in the caches of one core, and prefetching costs more than it
/// saves.
const MAX_CACHED_STATIONS: usize = 256;

/// What the mesh reports to the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A node received a packet that it had not received before. The image is still its sender's.
    Delivered {
        /// The receiver.
        node: NodeId,
        /// The sender's image.
        image: ImageId,
        /// It was sent to all neighbours.
        broadcast: bool,
    },
    /// A station is done with a packet that the next hop has acknowledged, or that was sent to all neighbours.
    Sent {
        /// The sender.
        node: NodeId,
        /// Its image.
        image: ImageId,
    },
    /// A station dropped a packet that it had accepted.
    Dropped {
        /// The station.
        node: NodeId,
        /// Its image.
        image: ImageId,
        /// Why.
        reason: Loss,
    },
}

impl Output {
    /// A station is done with a packet: it was acknowledged, or the retry limit was reached.
    #[inline]
    const fn done(node: NodeId, image: ImageId, acknowledged: bool) -> Self {
        if acknowledged {
            Self::Sent { node, image }
        } else {
            Self::Dropped { node, image, reason: Loss::RetryLimit }
        }
    }
}

/// Stations, receivers, links and frames on the air.
pub(super) struct Mesh {
    pub(super) radio: RadioParams,
    pub(super) mac: MacParams,
    links: Links,
    /// Links for the next frames, while frames that began over other links are still on the air.
    pending_links: Option<Links>,
    /// Nodes that move. The links of a sender are then computed when its frame begins, and `pending_links` are those of the
    /// whole network at the last [`Mesh::follow`].
    moving: Option<Box<Moving>>,
    receivers: Vec<Receiver>,
    stations: Stations,
    on_air: OnAirs,
    /// The state of all stations exceeds the inner caches, so that prefetching pays.
    prefetches: bool,
    outputs: Vec<Output>,
}

/// A transmission: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct OnAir {
    frame: Frame,
    start: Nanos,
    end: Nanos,
}

/// All transmissions. Slots are used again, so that few cache lines are touched however many nodes there are.
#[derive(Debug)]
struct OnAirs {
    slots: Vec<OnAir>,
    free: Vec<u32>,
    /// The slot of each node's transmission.
    of_node: Vec<u32>,
}

impl OnAirs {
    const NONE: u32 = u32::MAX;

    fn new(nodes: usize) -> Self {
        Self {
            slots: Vec::with_capacity(nodes),
            free: Vec::with_capacity(nodes),
            of_node: vec![Self::NONE; nodes],
        }
    }

    /// The transmission of a node, where it sends.
    fn of(&self, node: usize) -> Option<&OnAir> {
        self.slots.get(self.of_node[node] as usize)
    }

    #[inline]
    fn begin(&mut self, node: usize, on_air: OnAir) {
        self.of_node[node] = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = on_air;
                slot
            }
            None => {
                self.slots.push(on_air);
                (self.slots.len() - 1) as u32
            }
        };
    }

    #[inline]
    fn end(&mut self, node: usize) -> Option<OnAir> {
        let slot = std::mem::replace(&mut self.of_node[node], Self::NONE);
        let on_air = self.slots.get(slot as usize)?;
        self.free.push(slot);
        Some(*on_air)
    }
}

/// What the end of a frame means to one of its receivers. Apart from the loop over all receivers, in which few have
/// something to report.
#[inline]
fn report_reception(outputs: &mut Vec<Output>, node: NodeId, frame: &Frame, received: Received) {
    if let Some(Done { packet: image, delivered }) = received.done {
        outputs.push(Output::done(node, image, delivered));
    }
    if received.data == Data::New {
        outputs.push(Output::Delivered { node, image: frame.packet, broadcast: frame.to == BROADCAST });
    }
}

/// Who is informed of every frame that a station decodes.
struct Observers<'a> {
    tap: &'a mut Option<Box<dyn Tap>>,
    routing: &'a mut Option<Box<Routers>>,
}

impl Observers<'_> {
    /// A frame that began at `start` has ended at the receiver of `link`. Not inlined, so that the loop over receivers stays
    /// small.
    #[inline(never)]
    fn received(
        &mut self,
        packets: &Packets,
        from: NodeId,
        link: &Link,
        frame: &Frame,
        start: Nanos,
        ended: Nanos,
    ) {
        if let Some(routing) = self.routing {
            routing.heard(ended, link.to, from, frame);
        }
        if let Some(tap) = self.tap {
            let packet = (frame.packet != ImageId::MAX).then(|| packets.view(frame.packet));
            tap.frame(link.to, start + link.delay(), frame, from, packet, true);
        }
    }
}

/// The reason of a loss at a station's queue.
const fn loss_at_station(why: Refused) -> Loss {
    match why {
        Refused::Full => Loss::QueueFull,
        Refused::Early => Loss::Aqm,
    }
}

impl Mesh {
    /// An idle mesh. `queue` makes the queues of a station; `reception` and `backoff` are its random streams.
    pub(super) fn new(
        radio: RadioParams,
        mac: MacParams,
        links: Links,
        queue: impl FnMut(usize) -> Queue,
        reception: impl Fn(usize) -> Stream,
        backoff: impl Fn(usize) -> Stream,
    ) -> Self {
        let nodes = links.positions().len();
        Self {
            receivers: (0..nodes).map(|node| Receiver::new(reception(node))).collect(),
            stations: Stations::new(&mac, nodes, queue, backoff),
            on_air: OnAirs::new(nodes),
            prefetches: nodes > MAX_CACHED_STATIONS,
            outputs: Vec::with_capacity(nodes + 1),
            pending_links: None,
            moving: None,
            radio,
            mac,
            links,
        }
    }

    /// The links over which frames go that begin now.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// How many nodes have a radio.
    pub(super) fn len(&self) -> usize {
        self.stations.len()
    }

    /// The neighbours of a node that can decode its broadcasts where nothing disturbs them.
    pub(super) fn broadcast_receivers(&self, from: NodeId) -> impl Iterator<Item = NodeId> {
        let rate = self.mac.broadcast_rate;
        let decodes = move |link: &&Link| self.radio.decodes(rate, link.power);
        self.links.from(from as usize).iter().filter(decodes).map(|link| link.to)
    }

    /// Packets that wait at a station, the one in service included.
    #[inline]
    pub(super) fn backlog(&self, node: usize) -> usize {
        self.stations.backlog(node)
    }

    /// Airtime of a station since the start.
    pub(super) fn airtime(&self, node: usize, until: Nanos) -> Airtime {
        self.receivers[node].airtime(until)
    }

    /// The output at a position, counted from the last [`Mesh::clear_outputs`].
    #[inline]
    pub(super) fn output(&self, position: usize) -> Option<&Output> {
        self.outputs.get(position)
    }

    #[inline]
    pub(super) fn clear_outputs(&mut self) {
        self.outputs.clear();
    }

    #[inline]
    fn at_station<T>(
        &mut self,
        core: &mut Core,
        node: NodeId,
        act: impl FnOnce(&mut Stations, &mut Context<'_>) -> T,
    ) -> T {
        let mut ctx =
            Context { events: &mut core.events, params: &self.mac, packets: &mut core.packets, node };
        act(&mut self.stations, &mut ctx)
    }

    /// A station's backoff is over. The frame that it sends now, which is for [`Mesh::transmit`].
    #[inline]
    pub(super) fn access(&mut self, core: &mut Core, node: NodeId) -> Option<Frame> {
        self.at_station(core, node, Stations::on_access)
    }

    /// A SIFS has passed since the frame that a station answers. The answer, which is for [`Mesh::transmit`].
    #[inline]
    pub(super) fn response(&mut self, core: &mut Core, node: NodeId) -> Option<Frame> {
        self.at_station(core, node, Stations::on_response)
    }

    /// No answer came in time.
    #[inline]
    pub(super) fn response_timeout(&mut self, core: &mut Core, node: NodeId) {
        let arriving = self.receivers[node as usize].locked_since();
        let done = self.at_station(core, node, |stations, ctx| stations.on_timeout(ctx, arriving));
        if let Some(Done { packet: image, delivered }) = done {
            self.outputs.push(Output::done(node, image, delivered));
        }
        self.report_drops(core);
    }

    /// A station checks whether a reservation was followed by a frame.
    pub(super) fn nav_check(&mut self, core: &mut Core, event: Event) {
        let arriving = self.receivers[event.subject as usize].locked_since();
        self.at_station(core, event.subject, |stations, ctx| stations.on_nav_check(ctx, event, arriving));
    }

    /// Puts a packet into the queue of a station.
    ///
    /// # Errors
    /// The queue does not accept it. The image is still the caller's.
    #[inline]
    pub(super) fn enqueue(&mut self, core: &mut Core, node: NodeId, waiting: Waiting) -> Result<(), Loss> {
        match self.at_station(core, node, |stations, ctx| stations.enqueue(ctx, waiting)) {
            Ok(()) => {
                self.report_drops(core);
                self.record_backlog(core, node);
                Ok(())
            }
            Err(why) => Err(self.refuse(core, node, why)),
        }
    }

    /// Takes out all packets for a next hop that wait at a station.
    pub(super) fn withdraw(
        &mut self,
        core: &mut Core,
        node: NodeId,
        next_hop: NodeId,
        out: &mut Vec<Waiting>,
    ) {
        self.stations.withdraw(node as usize, next_hop, out);
        self.record_backlog(core, node);
    }

    /// Whether a packet and its ACK can be decoded between two nodes where nothing disturbs them.
    pub(super) fn works(&mut self, from: NodeId, to: NodeId, now: Nanos) -> bool {
        self.decodes_data(from, to, now) && self.decodes_data(to, from, now)
    }

    /// Whether a frame at the rate of data can be decoded where nothing disturbs it.
    pub(super) fn decodes_data(&mut self, from: NodeId, to: NodeId, now: Nanos) -> bool {
        let rate = self.mac.rate_of_hop(from, to);
        self.link_now(from, to, now).is_some_and(|link| self.radio.decodes(rate, link.power))
    }

    /// Records that a queue in front of a station did not accept a packet, or dropped it.
    pub(super) fn refuse(&self, core: &mut Core, node: NodeId, why: Refused) -> Loss {
        if core.is_measuring() {
            let record = &mut core.recorder.nodes[node as usize];
            match why {
                Refused::Full => record.queue_drops += 1,
                Refused::Early => record.early_drops += 1,
            }
        }
        loss_at_station(why)
    }

    /// Reports what queues of stations have dropped of the packets that they had accepted.
    #[inline]
    fn report_drops(&mut self, core: &mut Core) {
        if core.packets.has_dropped() {
            self.report_each_drop(core);
        }
    }

    #[cold]
    fn report_each_drop(&mut self, core: &mut Core) {
        while let Some((image, why)) = core.packets.take_dropped() {
            let node = core.packets.node(image);
            let reason = self.refuse(core, node, why);
            self.outputs.push(Output::Dropped { node, image, reason });
        }
    }

    /// Records how many packets wait at a station, after it has taken one or is done with one.
    #[inline(always)]
    pub(super) fn record_backlog(&self, core: &mut Core, node: NodeId) {
        let (backlog, now) = (self.stations.backlog(node as usize), core.events.now());
        core.recorder.nodes[node as usize].set_backlog(backlog, now, core.recorder.warmup);
    }

    /// Puts a frame on the air.
    pub(super) fn transmit(&mut self, core: &mut Core, node: NodeId, frame: Frame) {
        let index = node as usize;
        let start = core.now();
        let end = start + frame.time;
        core.recorder.frame_sent(start, node, frame.kind as u32, frame.bytes, frame.retry);
        self.receivers[index].begin_transmission(start, end);
        if let Some(moving) = &mut self.moving {
            moving.update(index, start, &mut self.links);
        }
        let Self { links, receivers, stations, mac, radio, .. } = self;
        let Core { events, packets, .. } = core;
        for_stations!(stations, stations => for link in links.from(index) {
            let arrive = start + link.delay();
            let signal =
                Signal { from: node, rate: frame.rate, power: link.power, arrive, end: arrive + frame.time };
            let peer = link.to as usize;
            if let Some(locked) = receivers[peer].arrive(radio, signal) {
                let ctx = &mut Context { events, params: mac, packets, node: link.to };
                stations[peer].medium_busy(ctx, arrive, locked);
            }
        });
        self.on_air.begin(index, OnAir { frame, start, end });
        core.events.set_station(end + self.links.longest_delay(index), EventKind::FrameEnd, node);
        if let Some(tap) = &mut core.tap {
            let packet = (frame.packet != ImageId::MAX).then(|| core.packets.view(frame.packet));
            tap.frame(node, start, &frame, node, packet, false);
        }
    }

    /// A frame has ended at all its receivers. Radios and stations learn of it here; what follows for packets is output.
    #[inline(always)]
    pub(super) fn frame_end(&mut self, core: &mut Core, node: NodeId) {
        let index = node as usize;
        let Some(OnAir { frame, start, end }) = self.on_air.end(index) else { return };
        let done = self.at_station(core, node, |stations, ctx| stations.on_sent(ctx, &frame, end));
        let idle_since = self.receivers[index].end_transmission(&self.radio);
        if idle_since != Nanos::MAX {
            self.at_station(core, node, |stations, ctx| stations.medium_idle(ctx, idle_since));
        }

        let Self { links, receivers, stations, mac, radio, outputs, .. } = self;
        let Core { events, packets, recorder, tap, routing, .. } = core;
        let mut observers = (tap.is_some() || routing.is_some()).then_some(Observers { tap, routing });
        for_stations!(stations, stations => for link in links.from(index) {
            let peer = link.to as usize;
            let for_me = frame.to == link.to || frame.to == BROADCAST;
            let Departure { outcome, idle_since } = receivers[peer].depart(radio, node, for_me);
            let station = &mut stations[peer];
            let ctx = &mut Context { events, params: mac, packets, node: link.to };
            let ended = end + link.delay();
            let received = match outcome {
                Outcome::Received => station.on_received(ctx, node, &frame, ended),
                Outcome::Lost(_) => Received { data: Data::None, done: station.on_lost(ctx) },
                Outcome::Missed(why) => station.on_missed(ctx, why, ended),
            };
            if idle_since != Nanos::MAX {
                station.medium_idle(ctx, idle_since);
            }
            if received.matters() {
                report_reception(outputs, link.to, &frame, received);
            }
            if for_me && let Outcome::Lost(why) | Outcome::Missed(why) = outcome {
                recorder.frame_lost(ended, link.to, why);
            }
            if let Some(observers) = &mut observers
                && outcome == Outcome::Received
            {
                observers.received(packets, node, link, &frame, start, ended);
            }
        });
        if let Some(Done { packet: image, delivered }) = done {
            self.outputs.push(Output::done(node, image, delivered));
        }
        self.report_drops(core);
    }

    /// Changes links and rates. Frames on the air keep the links over which they began until they end; the
    /// subjects of [`EventKind::Change`] events say when ([`Mesh::adopt_links`]).
    pub(super) fn change(
        &mut self,
        core: &mut Core,
        first_subject: u32,
        change: impl FnOnce(&mut Links, &mut MacParams),
    ) {
        let mut links = self.pending_links.take().unwrap_or_else(|| self.links.clone());
        change(&mut links, &mut self.mac);
        if let Some(moving) = &mut self.moving {
            moving.adopt(&links);
        }
        for node in 0..self.len() {
            if let Some(on_air) = self.on_air.of(node) {
                let end = on_air.end + self.links.longest_delay(node);
                core.events.push(end, EventKind::Change, first_subject + node as u32);
            }
        }
        let on_air = &self.on_air;
        self.links.take_from(&links, |node| on_air.of(node).is_none());
        self.pending_links = Some(links);
    }

    /// The links of the network as it is since the last change, those of nodes on the air included.
    pub(super) fn current_links(&self) -> &Links {
        self.pending_links.as_ref().unwrap_or(&self.links)
    }

    /// A frame that began before a change has ended: its sender takes its new links.
    pub(super) fn adopt_links(&mut self, node: NodeId) {
        let Self { pending_links: Some(pending), links, on_air, .. } = self else { return };
        links.take_from(pending, |other| other == node as usize || on_air.of(other).is_none());
    }

    /// Lets nodes move.
    pub(super) fn set_moving(&mut self, moving: Option<Moving>) {
        self.pending_links = moving.as_ref().map(|_| self.links.clone());
        self.moving = moving.map(Box::new);
    }

    /// Brings [`Mesh::current_links`] up to date where nodes move.
    pub(super) fn follow(&mut self, now: Nanos) {
        if let (Some(moving), Some(links)) = (&mut self.moving, &mut self.pending_links) {
            moving.update_all(now, links);
        }
    }

    /// The links for decisions about the whole network, which nodes on the air may not have yet.
    pub(super) fn known_links(&self) -> &Links {
        if self.moving.is_some() { self.current_links() } else { &self.links }
    }

    /// The link between two nodes now, if there is one.
    fn link_now(&mut self, from: NodeId, to: NodeId, now: Nanos) -> Option<Link> {
        match &mut self.moving {
            Some(moving) => moving.between(from as usize, to as usize, now),
            None => self.current_links().between(from as usize, to as usize).copied(),
        }
    }

    /// Whether nodes move.
    pub(super) fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Whether a node is on a trajectory.
    pub(super) fn moves(&self, node: usize) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.moves(node))
    }

    /// The place of a node at a time that is not before the last event.
    pub(super) fn place(&self, node: usize, at: Nanos) -> Position {
        match &self.moving {
            Some(moving) => moving.place(node, at),
            None => self.links.positions()[node],
        }
    }

    /// Whether the network is so large that prefetching pays.
    #[inline]
    pub(super) fn prefetches(&self) -> bool {
        self.prefetches
    }

    /// Prefetches what a node needs to send.
    #[inline]
    pub(super) fn prefetch_for_sending(&self, core: &Core, node: NodeId) {
        let node = node as usize;
        prefetch(self.links.from(node));
        prefetch(&core.recorder.nodes[node]);
        for_stations!(&self.stations, stations => prefetch(&stations[node]));
    }

    /// Records airtime and backlog of all stations at the end of a recording interval or of the warm-up.
    pub(super) fn sample(&self, core: &mut Core) {
        let now = core.now();
        let (end_of_warmup, bin_edge) = (now == core.recorder.warmup, core.recorder.is_bin_edge(now));
        for node in 0..self.len() {
            let airtime = self.receivers[node].airtime(now);
            if end_of_warmup {
                core.recorder.nodes[node].airtime_warmup = airtime;
            }
            if bin_edge {
                let backlog = self.stations.backlog(node) as u32;
                core.recorder.node_samples[node].push(NodeSample { at: now, backlog, airtime });
            }
        }
    }

    /// Brings the records of all stations up to the end of the run.
    pub(super) fn finish_records(&self, core: &mut Core, at: Nanos) {
        for node in 0..self.len() {
            let warmup = core.recorder.warmup;
            core.recorder.nodes[node].set_backlog(self.stations.backlog(node), at, warmup);
        }
    }
}
