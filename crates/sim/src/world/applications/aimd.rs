//! AIMD(α, β) datagrams between two places: the machines of `fairhop_transport::aimd` and the packets that they send.
//!
//! The application always has a packet to send, from the start of the flow to its stop. Acknowledgments are packets of
//! their own.

use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::wire::{ACK_BYTES, DATA_HEADER};
use fairhop_transport::aimd::{Arrival, Receiver, Sender, SenderStats};

use super::flow::FlowKind;
use super::{AppContext, Application};
use crate::engine::{Event, EventKind, Timer};
use crate::packet::{Body, Ecn, Header, Packet, flow_of, stream};

/// Bytes of the headers of a data packet.
pub const DATA_HEADERS: u32 = headers::IP_UDP + DATA_HEADER as u32;
/// Bytes of an acknowledgment.
const ACK_PACKET: u32 = headers::IP_UDP + ACK_BYTES as u32;

/// The two ends of a stream of AIMD datagrams.
#[derive(Debug)]
pub struct AimdStream {
    /// The flow that it is.
    pub flow: usize,
    /// The end that sends data.
    pub sender: Sender,
    /// The end that receives data.
    pub receiver: Receiver,
    /// The sender's timer.
    pub timer: Timer,
    /// Size of an IP packet of data.
    pub packet_bytes: u32,
    /// Counters at the end of the warm-up.
    pub warmup: SenderStats,
    /// When the application stops, if it does.
    pub stop: Option<Nanos>,
    /// It has started.
    pub started: bool,
}

/// All streams of AIMD datagrams.
#[derive(Debug, Default)]
pub(in crate::world) struct AimdFlows {
    pub(in crate::world) streams: Vec<AimdStream>,
}

impl Application for AimdFlows {
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32) {
        let stream = &mut self.streams[index];
        if std::mem::replace(&mut stream.started, true) {
            stream.sender.withdraw(u64::MAX);
        } else {
            if let Some(stop) = stream.stop {
                ctx.wake(stop, source);
            }
            stream.sender.offer(u64::MAX);
        }
        self.pump(ctx, index);
    }

    fn on_timer(&mut self, ctx: &mut AppContext<'_>, event: Event) {
        let index = event.subject as usize;
        let AimdStream { sender, timer, .. } = &mut self.streams[index];
        if ctx.fires(timer, event) {
            sender.on_timer(event.at);
            self.pump(ctx, index);
        }
    }

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, _header: &Header) {
        let FlowKind::Aimd(index) = ctx.flow(flow_of(packet.stream)).kind else { return };
        let now = ctx.now();
        let stream = &mut self.streams[index];
        match packet.body {
            Body::Aimd(datagram) => {
                let (ack, arrival) = stream.receiver.on_datagram(now, &datagram);
                if matches!(arrival, Arrival::New { .. }) {
                    ctx.delivered(packet.stream, u64::from(packet.bytes - DATA_HEADERS));
                }
                let flow = stream.flow;
                send(ctx, flow, true, ACK_PACKET, Body::AimdAck(ack));
            }
            Body::AimdAck(ack) => {
                stream.sender.on_ack(now, &ack);
                self.pump(ctx, index);
            }
            _ => {}
        }
    }

    fn on_warmup_end(&mut self) {
        for stream in &mut self.streams {
            stream.warmup = *stream.sender.stats();
        }
    }
}

impl AimdFlows {
    /// Sends what a sender has to send and sets its timer.
    fn pump(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let AimdStream { flow, packet_bytes, sender, timer, .. } = &mut self.streams[index];
        while let Some(datagram) = sender.poll_transmit(now) {
            send(ctx, *flow, false, *packet_bytes, Body::Aimd(datagram));
        }
        ctx.set_timer(timer, sender.next_timer(), EventKind::AimdSender, index);
    }
}

fn send(ctx: &mut AppContext<'_>, index: usize, back: bool, bytes: u32, body: Body) {
    let flow = ctx.flow(index);
    let (source, destination) = if back { (flow.to, flow.from) } else { (flow.from, flow.to) };
    let packet = Packet {
        created: ctx.now(),
        stream: stream(index, back),
        source,
        destination,
        bytes,
        connection: 0,
        dscp: flow.dscp,
        body,
    };
    ctx.send(packet, Ecn::NotEct);
}
