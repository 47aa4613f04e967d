//! Bulk transfers over QUIC-like datagrams: the machines of `fairhop_transport::quic` and the packets that they send.
//!
//! To everybody on the way they are UDP: numbers, acknowledgments and credit are encrypted, and no window can be read or
//! changed. What a datagram says is kept aside ([`crate::packet::Packets::insert_quic`]), since it is larger than what
//! other packets carry.

use fairhop_model::units::Nanos;
use fairhop_transport::quic::{Datagram, Receiver, Sender, SenderStats};

use super::World;
use super::traffic::{FlowKind, IP_HEADER, UDP_HEADER, flow_of, stream};
use crate::engine::{EventKind, Timer};
use crate::packet::{Body, Ecn, Packet};

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
}

impl World {
    /// The transfers over QUIC-like datagrams.
    pub fn quic_transfers(&self) -> &[QuicTransfer] {
        &self.quic
    }

    /// The application begins to offer data, or ends.
    #[inline(never)]
    pub(super) fn quic_source(&mut self, index: usize, begins: bool) {
        let transfer = &mut self.quic[index];
        if begins {
            transfer.sender.offer(transfer.size.unwrap_or(u64::MAX));
        }
        if !begins || transfer.size.is_some() {
            transfer.sender.close();
        }
        self.pump_quic(index, false);
    }

    /// Sends what an end has to send and sets its timer.
    fn pump_quic(&mut self, index: usize, back: bool) {
        let now = self.events.now();
        loop {
            let transfer = &mut self.quic[index];
            let next =
                if back { transfer.receiver.poll_transmit(now) } else { transfer.sender.poll_transmit(now) };
            let Some(datagram) = next else { break };
            let flow = transfer.flow;
            self.originate_quic(flow, back, datagram);
        }
        let QuicTransfer { sender, receiver, sender_timer, receiver_timer, .. } = &mut self.quic[index];
        let (at, timer, kind) = if back {
            (receiver.next_timer(), receiver_timer, EventKind::QuicReceiver)
        } else {
            (sender.next_timer(), sender_timer, EventKind::QuicSender)
        };
        match at {
            Some(at) => timer.set(at.max(now), &mut self.events, kind, index as u32),
            None => timer.cancel(),
        }
    }

    /// The time of an end's timer has come.
    #[inline(never)]
    pub(super) fn quic_timer(&mut self, index: usize, back: bool, now: Nanos) {
        let transfer = &mut self.quic[index];
        if back {
            transfer.receiver.on_timer(now);
        } else {
            transfer.sender.on_timer(now);
        }
        self.pump_quic(index, back);
    }

    #[inline(never)]
    pub(super) fn quic_datagram(&mut self, packet: &Packet, datagram: &Datagram) {
        let flow = flow_of(packet.stream);
        let FlowKind::Quic(index) = self.flows[flow].kind else { return };
        let now = self.events.now();
        let transfer = &mut self.quic[index];
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
                self.recorder.delivered(packet.stream, fresh, now);
            }
        }
        self.pump_quic(index, !back);
    }

    fn originate_quic(&mut self, flow: usize, back: bool, datagram: Datagram) {
        let (from, to, dscp) = (self.flows[flow].from, self.flows[flow].to, self.flows[flow].dscp);
        let (source, destination) = if back { (to, from) } else { (from, to) };
        let packet = Packet {
            stream: stream(flow, back),
            connection: 0,
            source,
            destination,
            bytes: IP_HEADER + UDP_HEADER + datagram.wire_bytes(),
            created: self.events.now(),
            at: source,
            settled: false,
            dscp,
            ecn: Ecn::NotEct,
            body: Body::Quic {
                number: datagram.number as u32,
                data: datagram.stream.map_or(0, |frame| frame.len),
                at: self.packets.insert_quic(datagram),
            },
        };
        self.originate(source, packet);
    }
}
