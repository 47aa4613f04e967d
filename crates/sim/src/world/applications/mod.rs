//! Applications: the kinds of traffic. Each kind owns its state and implements [`Application`].
//!
//! An application never reaches into the network: it sends packets through its [`AppContext`], and the World forwards them
//! when the application has returned.

pub mod aimd;
pub mod datagrams;
pub mod flow;
pub mod quic;
pub mod real;
mod reports;
pub mod sessions;
pub mod tcp;
pub mod video;

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::core::Core;
use crate::engine::{Event, EventKind, Timer};
use crate::packet::{Ecn, Header, ImageId, NodeId, Packet, flow_of};
use aimd::AimdFlows;
use datagrams::Datagrams;
use flow::{Flow, FlowKind, payload_bytes};
use quic::QuicFlows;
pub use real::RealFlows;
pub(super) use reports::Reporter;
use tcp::TcpFlows;
use video::Videos;

/// What an application may use while it handles something.
pub(super) struct AppContext<'a> {
    core: &'a mut Core,
    flows: &'a [Flow],
    outbox: &'a mut VecDeque<ImageId>,
}

impl AppContext<'_> {
    #[inline]
    fn now(&self) -> Nanos {
        self.core.now()
    }

    fn flow(&self, index: usize) -> &Flow {
        &self.flows[index]
    }

    /// When the warm-up ends; nothing before counts.
    fn warmup(&self) -> Nanos {
        self.core.recorder.warmup
    }

    /// Sends a packet from its source as soon as the application returns.
    #[inline]
    fn send(&mut self, packet: Packet, ecn: Ecn) {
        let Core { packets, recorder, .. } = &mut *self.core;
        if packet.counts_sent() && recorder.is_measured(packet.stream) {
            recorder.packet_sent(&packet, payload_bytes(&packet));
            if let Some(routing) = &mut recorder.routing {
                routing.sent(packet.stream, packet.created);
            }
        }
        self.outbox.push_back(packets.insert(packet, ecn, packet.source));
    }

    /// Payload of a stream was delivered, in order and once.
    fn delivered(&mut self, stream: u32, bytes: u64) {
        let now = self.now();
        self.core.recorder.delivered(stream, bytes, now);
    }

    /// Wakes a source at a time, or now where that has passed.
    fn wake(&mut self, at: Nanos, source: u32) {
        let at = at.max(self.now());
        self.core.events.push(at, EventKind::Source, source);
    }

    /// Sets a timer to what a machine asks for.
    #[inline]
    fn set_timer(&mut self, timer: &mut Timer, at: Option<Nanos>, kind: EventKind, subject: usize) {
        match at {
            Some(at) => timer.set(at.max(self.now()), &mut self.core.events, kind, subject as u32),
            None => timer.cancel(),
        }
    }

    /// Whether an event of a timer fires it.
    #[inline]
    fn fires(&mut self, timer: &mut Timer, event: Event) -> bool {
        timer.fires(event, &mut self.core.events)
    }
}

/// A kind of traffic.
pub(super) trait Application {
    /// A source is due: to start, to send, to stop. `index` counts the sources of this kind, `source` all of them.
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32);

    /// An event of one of its timers.
    fn on_timer(&mut self, _ctx: &mut AppContext<'_>, _event: Event) {}

    /// A packet of one of its flows has arrived at its destination.
    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, header: &Header);

    /// A packet of one of its flows was lost.
    fn on_loss(&mut self, _ctx: &mut AppContext<'_>, _packet: &Packet) {}

    /// The warm-up is over: what was counted so far does not count.
    fn on_warmup_end(&mut self) {}
}

/// Which application a source belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Datagrams,
    Video,
    Tcp,
    Aimd,
    Quic,
    Real,
}

impl Kind {
    const fn of(flow: FlowKind) -> Self {
        match flow {
            FlowKind::Call(_) | FlowKind::Cbr | FlowKind::Burst | FlowKind::Ping => Self::Datagrams,
            FlowKind::Video(_) => Self::Video,
            FlowKind::Bulk(_) | FlowKind::Web(_) | FlowKind::Request(_) => Self::Tcp,
            FlowKind::Aimd(_) => Self::Aimd,
            FlowKind::Quic(_) => Self::Quic,
            FlowKind::Real(_) => Self::Real,
        }
    }
}

/// A source among all: its kind, and its number among those of the kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) kind: Kind,
    pub(super) index: u32,
}

/// All applications.
#[derive(Debug, Default)]
pub(super) struct Applications {
    pub(super) flows: Vec<Flow>,
    pub(super) sources: Vec<Source>,
    pub(super) datagrams: Datagrams,
    pub(super) videos: Videos,
    pub(super) tcp: TcpFlows,
    pub(super) aimd: AimdFlows,
    pub(super) quic: QuicFlows,
    pub(super) real: RealFlows,
    outbox: VecDeque<ImageId>,
}

/// Does the same with the application of a kind, without dynamic dispatch:
/// `for_kind!(applications, core, kind, (app, ctx) => what to do)`.
macro_rules! for_kind {
    ($applications:expr, $core:expr, $kind:expr, ($app:ident, $ctx:ident) => $act:expr) => {{
        let Applications { flows, datagrams, videos, tcp, aimd, quic, real, outbox, .. } = $applications;
        let $ctx = &mut AppContext { core: $core, flows, outbox };
        match $kind {
            Kind::Datagrams => {
                let $app = datagrams;
                $act
            }
            Kind::Video => {
                let $app = videos;
                $act
            }
            Kind::Tcp => {
                let $app = tcp;
                $act
            }
            Kind::Aimd => {
                let $app = aimd;
                $act
            }
            Kind::Quic => {
                let $app = quic;
                $act
            }
            Kind::Real => {
                let $app = real;
                $act
            }
        }
    }};
}

impl Applications {
    /// A source is due.
    pub(super) fn on_source(&mut self, core: &mut Core, source: u32) {
        let Source { kind, index } = self.sources[source as usize];
        for_kind!(self, core, kind, (app, ctx) => app.on_source(ctx, index as usize, source));
    }

    /// An event of an application's timer.
    pub(super) fn on_timer(&mut self, core: &mut Core, kind: Kind, event: Event) {
        for_kind!(self, core, kind, (app, ctx) => app.on_timer(ctx, event));
    }

    /// A packet has arrived; it is recorded and handed to its application.
    pub(super) fn on_packet(&mut self, core: &mut Core, image: ImageId) {
        let packet = core.packets.get(image);
        if packet.counts_arrived() && core.recorder.is_measured(packet.stream) {
            core.recorder.packet_arrived(packet, core.events.now());
        }
        self.deliver(core, image);
    }

    /// One of several nodes has received a broadcast; it is recorded for that node and handed to its application.
    pub(super) fn on_broadcast(&mut self, core: &mut Core, node: NodeId, image: ImageId) {
        core.recorder.broadcast_received(core.packets.get(image), node, core.events.now());
        let view = core.packets.view(image);
        let (packet, header) = (*view.packet, *view.header);
        if let FlowKind::Real(_) = self.flows[flow_of(packet.stream)].kind {
            let ctx = &mut AppContext { core, flows: &self.flows, outbox: &mut self.outbox };
            return self.real.arrive(ctx, node, &packet, &header);
        }
        self.deliver(core, image);
    }

    #[inline]
    fn deliver(&mut self, core: &mut Core, image: ImageId) {
        let view = core.packets.view(image);
        let (packet, header) = (*view.packet, *view.header);
        let kind = Kind::of(self.flows[flow_of(packet.stream)].kind);
        for_kind!(self, core, kind, (app, ctx) => app.on_packet(ctx, &packet, &header));
    }

    /// Informs the applications of lost packets.
    pub(super) fn on_losses(&mut self, core: &mut Core) {
        while let Some(packet) = core.lost.pop() {
            let kind = Kind::of(self.flows[flow_of(packet.stream)].kind);
            for_kind!(self, core, kind, (app, ctx) => app.on_loss(ctx, &packet));
        }
    }

    /// Takes samples at the end of a recording interval or of the warm-up.
    pub(super) fn sample(&mut self, core: &mut Core) {
        if core.now() == core.recorder.warmup {
            self.datagrams.on_warmup_end();
            self.videos.on_warmup_end();
            self.tcp.on_warmup_end();
            self.aimd.on_warmup_end();
            self.quic.on_warmup_end();
        }
        self.tcp.sample(core);
    }

    /// The next packet that the applications have sent and that has not entered the network, in the order of sending.
    #[inline]
    pub(super) fn take_sent(&mut self) -> Option<ImageId> {
        self.outbox.pop_front()
    }
}
