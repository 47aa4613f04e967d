//! Bulk transfers over QUIC-like datagrams: the machines of `fairhop_transport::quic` and the packets that they send.
//!
//! Nodes on the path see UDP: numbers, acknowledgments and credit are encrypted, and no window can be read or changed. The
//! content of a datagram is stored apart ([`crate::packet::Packets::insert_quic`]), since it is larger than that of other
//! packets.

use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_transport::quic::{Datagram, Receiver, Sender, SenderStats};

use super::flow::FlowKind;
use super::{AppContext, Application};
use crate::engine::{Event, EventKind, Timer};
use crate::packet::{Body, Ecn, Header, Packet, flow_of, stream};

/// The two ends of a transfer.
#[derive(Debug)]
pub struct QuicTransfer {
    /// The flow that it is.
    pub flow: usize,
    /// The end that sends data.
    pub sender: Sender,
    /// The end that receives data.
    pub receiver: Receiver,
    /// The sender's timer.
    pub sender_timer: Timer,
    /// The receiver's timer.
    pub receiver_timer: Timer,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes that make it complete; none for one without end.
    pub size: Option<u64>,
    /// When a finite transfer was complete at the receiver.
    pub completed: Option<Nanos>,
    /// Counters at the end of the warm-up.
    pub warmup: SenderStats,
    /// When the application stops, if it does.
    pub stop: Option<Nanos>,
    /// It has started.
    pub started: bool,
}

/// All transfers over QUIC-like datagrams.
#[derive(Debug, Default)]
pub(in crate::world) struct QuicFlows {
    pub(in crate::world) transfers: Vec<QuicTransfer>,
}

impl Application for QuicFlows {
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32) {
        let transfer = &mut self.transfers[index];
        let begins = !std::mem::replace(&mut transfer.started, true);
        if begins {
            if let Some(stop) = transfer.stop {
                ctx.wake(stop, source);
            }
            transfer.sender.offer(transfer.size.unwrap_or(u64::MAX));
        }
        if !begins || transfer.size.is_some() {
            transfer.sender.close();
        }
        self.pump(ctx, index, false);
    }

    fn on_timer(&mut self, ctx: &mut AppContext<'_>, event: Event) {
        let index = event.subject as usize;
        let transfer = &mut self.transfers[index];
        let back = event.kind == EventKind::QuicReceiver;
        let timer = if back { &mut transfer.receiver_timer } else { &mut transfer.sender_timer };
        if !ctx.fires(timer, event) {
            return;
        }
        if back {
            transfer.receiver.on_timer(event.at);
        } else {
            transfer.sender.on_timer(event.at);
        }
        self.pump(ctx, index, back);
    }

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, _header: &Header) {
        let flow = flow_of(packet.stream);
        let (FlowKind::Quic(index), Body::Quic { at, .. }) = (ctx.flow(flow).kind, packet.body) else {
            return;
        };
        let now = ctx.now();
        let datagram = ctx.core.packets.quic(at);
        let transfer = &mut self.transfers[index];
        let back = packet.stream == stream(flow, true);
        if back {
            transfer.sender.on_datagram(now, datagram);
        } else {
            transfer.receiver.on_datagram(now, datagram);
            let delivered = transfer.receiver.delivered();
            let fresh = delivered - transfer.delivered;
            transfer.delivered = delivered;
            if transfer.completed.is_none() && transfer.size.is_some_and(|size| delivered >= size) {
                transfer.completed = Some(now);
            }
            if fresh > 0 {
                ctx.delivered(packet.stream, fresh);
            }
        }
        self.pump(ctx, index, !back);
    }

    fn on_warmup_end(&mut self) {
        for transfer in &mut self.transfers {
            transfer.warmup = *transfer.sender.stats();
        }
    }
}

impl QuicFlows {
    /// Sends what an end has to send and sets its timer.
    fn pump(&mut self, ctx: &mut AppContext<'_>, index: usize, back: bool) {
        let now = ctx.now();
        let QuicTransfer { flow, sender, receiver, sender_timer, receiver_timer, .. } =
            &mut self.transfers[index];
        loop {
            let next = if back { receiver.poll_transmit(now) } else { sender.poll_transmit(now) };
            let Some(datagram) = next else { break };
            send(ctx, *flow, back, datagram);
        }
        if back {
            ctx.set_timer(receiver_timer, receiver.next_timer(), EventKind::QuicReceiver, index);
        } else {
            ctx.set_timer(sender_timer, sender.next_timer(), EventKind::QuicSender, index);
        }
    }
}

fn send(ctx: &mut AppContext<'_>, index: usize, back: bool, datagram: Datagram) {
    let flow = ctx.flow(index);
    let (source, destination) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
    let packet = Packet {
        created: ctx.now(),
        stream: stream(index, back),
        source,
        destination,
        bytes: headers::IP_UDP + datagram.wire_bytes(),
        connection: 0,
        dscp: flow.dscp,
        body: Body::Quic {
            number: datagram.number as u32,
            data: datagram.stream.map_or(0, |frame| frame.len),
            at: ctx.core.packets.insert_quic(datagram),
        },
    };
    ctx.send(packet, Ecn::NotEct);
}
