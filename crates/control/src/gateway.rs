//! One gateway from end to end: digest → observer → controller → policy → actuators.
//!
//! ```text
//!  wired side                                                        mesh
//!     ──▶ to_mesh ──▶ data pacer or ACK pacer ──▶ poll ──▶ crossing ──▶
//!     ◀── poll ◀── ACK pacer ◀──────────────────────────── from_mesh ◀──
//! ```
//!
//! [`Gateway`] is sans-IO. The caller owns the packets and hands in a handle `P` for each; the gateway returns the handle
//! when the packet may go on, or when it found no place in a queue. A caller without packets in user space (a daemon in
//! front of kernel queues) uses the parts on their own: [`Controller`], [`Clamps`], [`crate::pacer`].
//!
//! A packet into the mesh crosses when it *leaves* the pacers, so that its wait there does not count as the mesh's: the
//! caller makes its digest then and calls [`Gateway::crossing`]. A packet out of the mesh crosses when it comes in. Its
//! window is clamped before it waits in the ACK pacer.
//!
//! Left out: ACK rates of single flows ([`crate::policy::Treatment::ack_rate`] is a hint for other actuators; the pacers of
//! ACKs keep the sum, [`Policy::up_acks`] and [`Policy::down_acks`]).

use fairhop_model::units::Nanos;

use crate::controller::{Controller, ControllerConfig, CustomController};
use crate::decision::Decision;
use crate::digest::{Digest, Direction, Payload, tcp_flag};
use crate::flow::FlowKey;
use crate::observer::{FlowKind, Observer, ObserverConfig, SOUND_BYTES};
use crate::pacer::{self, AckPacer, Pacer, PacerConfig};
use crate::policy::Policy;
use crate::window::Clamps;

/// What the pacers have to know of a packet; far less than a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its flow.
    pub key: FlowKey,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// What it carries.
    pub kind: PacketKind,
}

/// What a packet carries, as far as the pacers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// A TCP segment with payload.
    TcpData,
    /// A TCP segment that only acknowledges.
    TcpAck {
        /// Acknowledgment number.
        ack: u32,
    },
    /// Any other TCP segment without payload: SYN, FIN, RST.
    TcpControl,
    /// RTCP.
    Rtcp,
    /// All else. The observer decides whether its flow is elastic.
    Datagram,
}

impl PacketKind {
    /// The kind of a packet with this payload.
    pub const fn of(payload: &Payload) -> Self {
        match payload {
            Payload::Tcp(tcp) if tcp.payload_bytes > 0 => Self::TcpData,
            Payload::Tcp(tcp) if tcp.is_pure_ack() => Self::TcpAck { ack: tcp.ack },
            Payload::Tcp(_) => Self::TcpControl,
            Payload::Rtcp(_) => Self::Rtcp,
            Payload::Rtp(_) | Payload::Udp | Payload::Other => Self::Datagram,
        }
    }
}

impl From<&Digest> for Arrival {
    fn from(digest: &Digest) -> Self {
        Self { key: digest.flow(), bytes: digest.bytes, kind: PacketKind::of(&digest.payload) }
    }
}

/// What the data pacer does with a packet into the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// It is paced.
    Elastic,
    /// It is paced ahead of elastic packets.
    Interactive,
    /// It passes.
    Free,
}

/// What becomes of a packet that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that passes or is refused is the caller's again"]
pub enum Verdict<P> {
    /// It goes on at once.
    Pass(P),
    /// The gateway keeps it; [`Gateway::poll`] returns it when its time has come, which may be now.
    Held,
    /// A queue was full: this packet, the offered one or another that waited, has to be dropped. If it is another one, the
    /// offered packet is held.
    Refused(P),
}

impl<P> Verdict<P> {
    fn of(refused: Option<P>) -> Self {
        refused.map_or(Self::Held, Self::Refused)
    }
}

/// A packet that leaves a pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<P> {
    /// The packet.
    pub packet: P,
    /// Which way it goes on. One into the mesh crosses now: the caller must call [`Gateway::crossing`].
    pub direction: Direction,
    /// It waited longer than [`PacerConfig::mark_after`]: mark it with ECN if it allows that.
    pub mark: bool,
    /// How long it waited: its [`Digest::waited`].
    pub waited: Nanos,
}

/// Observer, controller and actuators of one gateway.
#[derive(Debug)]
pub struct Gateway<P> {
    controller: Controller,
    clamps: Clamps,
    data: Pacer<P>,
    up_acks: AckPacer<P>,
    down_acks: AckPacer<P>,
    /// Flows that the actuators know at a time.
    flows: usize,
    /// The policy in force paces data.
    paces_data: bool,
}

impl<P> Gateway<P> {
    /// A gateway without control: everything passes, and the observer watches. Clamps and pacers know as many flows at a
    /// time as the observer.
    pub fn new(observer: ObserverConfig) -> Self {
        Self {
            controller: Controller::new(observer, ControllerConfig::None),
            clamps: Clamps::new(observer.flows),
            data: Pacer::new(PacerConfig { packets: 1, ..PacerConfig::default() }),
            up_acks: AckPacer::new(1, 1),
            down_acks: AckPacer::new(1, 1),
            flows: observer.flows,
            paces_data: false,
        }
    }

    /// See [`Observer::set_local`](crate::Observer::set_local).
    pub fn set_local(&mut self, local: Vec<crate::Network>) {
        self.controller.set_local(local);
    }

    /// Begins a control. Its policy is in force from now on, not from the next tick. What the observer and the clamps know
    /// of flows stays.
    ///
    /// The pacers are made anew: no packet may wait in them. Before another control begins, call [`Gateway::release`], and
    /// [`Gateway::poll`] until it returns none.
    pub fn set(&mut self, now: Nanos, controller: ControllerConfig, pacer: PacerConfig) {
        debug_assert_eq!(self.waiting(), 0, "packets in the pacers would be lost");
        self.data = Pacer::new(pacer);
        self.up_acks = AckPacer::new(pacer.packets, self.flows);
        self.down_acks = AckPacer::new(pacer.packets, self.flows);
        self.controller.set(controller);
        self.tick(now);
    }

    /// Lets a controller from outside decide: see [`Controller::set_custom`].
    pub fn set_custom(&mut self, custom: Box<dyn CustomController>) {
        self.controller.set_custom(custom);
    }

    /// Ends the control: no limits any more. [`Gateway::poll`] returns everything that waits.
    pub fn release(&mut self) {
        self.controller.set(ControllerConfig::None);
        self.paces_data = false;
        self.data.set_aggregate(None);
        self.data.set_gate(None);
        self.data.set_each_flow(None);
        self.up_acks.set_rate(None);
        self.down_acks.set_rate(None);
    }

    /// Lets the controller decide, and puts its policy in force. Due every [`crate::controller::TICK`]. Times must not go
    /// back. Packets may be due after it: call [`Gateway::poll`].
    pub fn tick(&mut self, now: Nanos) {
        let waiting = self.data.len();
        let policy = self.controller.tick(now, waiting);
        self.paces_data = policy.paces_data();
        self.data.set_aggregate(policy.down);
        self.data.set_urgent(policy.interactive);
        self.data.set_gate(policy.gate);
        self.data.set_each_flow(policy.others.rate);
        for flow in &policy.flows {
            self.data.set_flow(&flow.key, flow.treatment.rate);
        }
        self.up_acks.set_rate(policy.up_acks);
        self.down_acks.set_rate(policy.down_acks);
    }

    /// Takes a packet that is to enter the mesh. If it passes, it crosses now: the caller must call [`Gateway::crossing`]
    /// before it sends the packet on.
    pub fn to_mesh(&mut self, now: Nanos, packet: P, arrival: &Arrival) -> Verdict<P> {
        match arrival.kind {
            PacketKind::TcpAck { ack } if self.policy().up_acks.is_some() || !self.up_acks.is_empty() => {
                Verdict::of(self.up_acks.offer(now, &arrival.key, ack, packet))
            }
            // While data waits, more queues up behind it, or packets of one flow would overtake each other.
            kind if self.paces_data || !self.data.is_empty() => match self.class(now, kind, arrival) {
                Class::Free => Verdict::Pass(packet),
                class => {
                    // A policy without such a rate treats interactive packets as elastic ones.
                    let is_urgent = class == Class::Interactive && self.policy().interactive.is_some();
                    Verdict::of(self.data.offer(now, &arrival.key, arrival.bytes, is_urgent, packet))
                }
            },
            _ => Verdict::Pass(packet),
        }
    }

    /// What becomes of a packet that is not an ACK.
    fn class(&self, now: Nanos, kind: PacketKind, arrival: &Arrival) -> Class {
        match kind {
            PacketKind::TcpData => Class::Elastic,
            PacketKind::TcpAck { .. } | PacketKind::TcpControl | PacketKind::Rtcp => Class::Free,
            PacketKind::Datagram => {
                match self.observer().flow(&arrival.key).map(|flow| (flow, flow.kind(now))) {
                    Some((flow, FlowKind::BulkUdp))
                        if flow.may_have_sound_beside_data() && SOUND_BYTES.contains(&arrival.bytes) =>
                    {
                        Class::Free
                    }
                    Some((_, FlowKind::BulkUdp)) => Class::Elastic,
                    Some((_, FlowKind::Interactive)) => Class::Interactive,
                    _ => Class::Free,
                }
            }
        }
    }

    /// A packet into the mesh crosses at [`Digest::at`]. Returns the window field with which it goes on, unscaled, if it is a
    /// TCP segment.
    pub fn crossing(&mut self, digest: &Digest) -> Option<u16> {
        self.cross(digest, &digest.flow())
    }

    /// The gateway's own queue into the mesh, a radio's for example, holds `packets` ([`Observer::on_own_queue`]): due before
    /// each tick and when a packet of a call enters. An owner that does not know the queue leaves this out: then it is seen by
    /// round trips only.
    pub fn own_queue(&mut self, now: Nanos, packets: u32) {
        self.controller.on_own_queue(now, packets);
    }

    /// The gateway's own queue into the mesh drops a packet of voice.
    pub fn own_drop(&mut self, now: Nanos) {
        self.controller.on_own_drop(now);
    }

    fn cross(&mut self, digest: &Digest, key: &FlowKey) -> Option<u16> {
        self.controller.on_digest(digest);
        let Payload::Tcp(fields) = &digest.payload else { return None };
        if digest.direction == Direction::ToMesh && fields.has(tcp_flag::SYN) {
            self.up_acks.restart(key);
            self.down_acks.restart(key);
        }
        let limit = self.controller.policy().treatment(digest.at, key).window;
        Some(self.clamps.on_segment(digest.at, key, digest.direction, fields, limit))
    }

    /// Takes a packet that came out of the mesh at [`Digest::at`]. Returns the window field with which it goes on, unscaled,
    /// if it is a TCP segment, and what becomes of it.
    pub fn from_mesh(&mut self, packet: P, digest: &Digest) -> (Option<u16>, Verdict<P>) {
        let key = digest.flow();
        let window = self.cross(digest, &key);
        let verdict = match PacketKind::of(&digest.payload) {
            PacketKind::TcpAck { ack } if self.policy().down_acks.is_some() || !self.down_acks.is_empty() => {
                Verdict::of(self.down_acks.offer(digest.at, &key, ack, packet))
            }
            _ => Verdict::Pass(packet),
        };
        (window, verdict)
    }

    /// A packet that has waited too long in a pacer to be of use: the caller drops it. Due before [`Gateway::poll`].
    pub fn poll_late(&mut self, now: Nanos) -> Option<P> {
        self.data.poll_late(now)
    }

    /// A packet that may leave a pacer now: data first, then ACKs into the mesh, then ACKs out of it.
    pub fn poll(&mut self, now: Nanos) -> Option<Released<P>> {
        if let Some(released) = self.data.poll(now) {
            let pacer::Released { packet, mark, waited } = released;
            return Some(Released { packet, direction: Direction::ToMesh, mark, waited });
        }
        let ack = |direction| move |(packet, waited)| Released { packet, direction, mark: false, waited };
        let up = self.up_acks.poll(now).map(ack(Direction::ToMesh));
        up.or_else(|| self.down_acks.poll(now).map(ack(Direction::FromMesh)))
    }

    /// When to call [`Gateway::poll`] again, `now` at the earliest; none while no packet waits, or none will ever be due as
    /// things are.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        let times = [self.data.next_time(now), self.up_acks.next_time(), self.down_acks.next_time()];
        times.into_iter().flatten().min().filter(|&at| at < Nanos::MAX).map(|at| at.max(now))
    }

    /// Packets in the pacers.
    pub fn waiting(&self) -> usize {
        self.data.len() + self.up_acks.len() + self.down_acks.len()
    }

    /// What the controller asks for.
    pub const fn policy(&self) -> &Policy {
        self.controller.policy()
    }

    /// The controller.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// What is known of flows.
    pub const fn observer(&self) -> &Observer {
        self.controller.observer()
    }

    /// The budget of all elastic flows in bits per second times price, if the controller seeks one.
    pub fn budget(&self) -> Option<f64> {
        self.controller.budget()
    }

    /// What is asked for and how calls are now.
    pub fn decision(&self, now: Nanos) -> Decision {
        Decision::of(&self.controller, now, self.waiting())
    }
}
