//! AIMD(α, β) datagrams between two places: the machines of `fairhop_transport::aimd` and the packets that they send.
//!
//! The application always has a packet to send, from the start of the flow to its stop. Acknowledgments are packets of
//! their own.

use fairhop_model::units::Nanos;
use fairhop_transport::aimd::wire::{ACK_BYTES, DATA_HEADER};
use fairhop_transport::aimd::{Ack, Arrival, Datagram, Receiver, Sender, SenderStats};

use super::World;
use super::traffic::{IP_HEADER, UDP_HEADER, flow_of, stream};
use crate::engine::{EventKind, Timer};
use crate::packet::{Body, Ecn, Packet};

/// Bytes of the headers of a data packet.
pub const DATA_HEADERS: u32 = IP_HEADER + UDP_HEADER + DATA_HEADER as u32;
/// Bytes of an acknowledgment.
const ACK_PACKET: u32 = IP_HEADER + UDP_HEADER + ACK_BYTES as u32;

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
}

impl World {
    /// The streams of AIMD datagrams.
    pub fn aimd_streams(&self) -> &[AimdStream] {
        &self.aimd
    }

    /// The application begins to offer packets, or ends.
    #[inline(never)]
    pub(super) fn aimd_source(&mut self, index: usize, begins: bool) {
        let sender = &mut self.aimd[index].sender;
        if begins {
            sender.offer(u64::MAX);
        } else {
            sender.withdraw(u64::MAX);
        }
        self.pump_aimd(index);
    }

    /// Sends what a sender has to send and sets its timer.
    pub(super) fn pump_aimd(&mut self, index: usize) {
        let now = self.events.now();
        while let Some(datagram) = self.aimd[index].sender.poll_transmit(now) {
            let AimdStream { flow, packet_bytes, .. } = self.aimd[index];
            self.originate_aimd(flow, false, packet_bytes, Body::Aimd(datagram));
        }
        let AimdStream { sender, timer, .. } = &mut self.aimd[index];
        match sender.next_timer() {
            Some(at) => timer.set(at.max(now), &mut self.events, EventKind::AimdSender, index as u32),
            None => timer.cancel(),
        }
    }

    #[inline(never)]
    pub(super) fn aimd_timer(&mut self, index: usize, now: Nanos) {
        self.aimd[index].sender.on_timer(now);
        self.pump_aimd(index);
    }

    #[inline(never)]
    pub(super) fn aimd_datagram(&mut self, packet: &Packet, datagram: &Datagram) {
        let Some(index) = self.aimd_stream_of(packet.stream) else { return };
        let now = self.events.now();
        let (ack, arrival) = self.aimd[index].receiver.on_datagram(now, datagram);
        if matches!(arrival, Arrival::New { .. }) {
            self.recorder.delivered(packet.stream, u64::from(packet.bytes - DATA_HEADERS), now);
        }
        self.originate_aimd(self.aimd[index].flow, true, ACK_PACKET, Body::AimdAck(ack));
    }

    #[inline(never)]
    pub(super) fn aimd_ack(&mut self, packet: &Packet, ack: &Ack) {
        let Some(index) = self.aimd_stream_of(packet.stream) else { return };
        self.aimd[index].sender.on_ack(self.events.now(), ack);
        self.pump_aimd(index);
    }

    fn aimd_stream_of(&self, stream: u32) -> Option<usize> {
        match self.flows[flow_of(stream)].kind {
            super::traffic::FlowKind::Aimd(index) => Some(index),
            _ => None,
        }
    }

    fn originate_aimd(&mut self, flow: usize, back: bool, bytes: u32, body: Body) {
        let (from, to, dscp) = (self.flows[flow].from, self.flows[flow].to, self.flows[flow].dscp);
        let (source, destination) = if back { (to, from) } else { (from, to) };
        let packet = Packet {
            stream: stream(flow, back),
            connection: 0,
            source,
            destination,
            bytes,
            created: self.events.now(),
            at: source,
            settled: false,
            dscp,
            ecn: Ecn::NotEct,
            body,
        };
        self.originate(source, packet);
    }
}
