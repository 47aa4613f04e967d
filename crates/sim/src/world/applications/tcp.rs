//! TCP: transfers, each of two machines of [`fairhop_transport::tcp`], alone or in the service of a session
//! ([`super::sessions`]).

use fairhop_model::headers;
use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{
    Receiver, ReceiverConfig, Segment, Sender, SenderConfig, SenderState, SenderStats,
};

use super::flow::FlowKind;
use super::sessions::Session;
use super::{AppContext, Application};
use crate::engine::{Event, EventKind, Timer};
use crate::packet::{Body, Header, NodeId, Packet, flow_of, stream};
use crate::recorder::TcpSample;
use crate::world::core::Core;

/// The two ends of a TCP transfer, or of one connection after the other.
#[derive(Debug)]
pub struct Transfer {
    /// The flow that it is.
    pub flow: usize,
    /// The session that it serves.
    pub session: Option<usize>,
    /// Which of the flow's connections it is.
    pub connection: u16,
    /// Where data comes from.
    pub from: NodeId,
    /// Where data goes.
    pub to: NodeId,
    /// The stream of data.
    pub data_stream: u32,
    /// The stream of acknowledgments.
    pub ack_stream: u32,
    /// How its senders behave.
    pub sender_config: SenderConfig,
    /// How its receivers behave.
    pub receiver_config: ReceiverConfig,
    /// Counters of the connections before this one.
    pub past: TransferCounts,
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
    /// Counters at the end of the warm-up: bytes sent and segments retransmitted.
    pub warmup: TransferCounts,
    /// When a finite transfer was complete at the receiver.
    pub completed: Option<Nanos>,
    /// Bytes that make it complete; none for one without end.
    pub size: Option<u64>,
}

impl Transfer {
    /// A transfer of `flow` from its one end to the other, that waits to be opened.
    pub fn new(flow: usize, ends: (NodeId, NodeId), sender: SenderConfig, receiver: ReceiverConfig) -> Self {
        Self {
            flow,
            session: None,
            connection: 0,
            from: ends.0,
            to: ends.1,
            data_stream: stream(flow, false),
            ack_stream: stream(flow, true),
            sender_config: sender,
            receiver_config: receiver,
            past: TransferCounts::default(),
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            sender_timer: Timer::default(),
            receiver_timer: Timer::default(),
            delivered: 0,
            warmup: TransferCounts::default(),
            completed: None,
            size: None,
        }
    }

    /// Connections of a flow differ by this much: two may be open at a time, one a direction.
    const CONNECTION_STEP: u16 = 2;

    /// Puts a new connection into the place of the last one, which is forgotten.
    pub fn renew(&mut self) {
        if self.sender.state() == SenderState::Closed {
            return; // the first one
        }
        self.past = self.counts();
        self.sender = Sender::new(self.sender_config);
        self.receiver = Receiver::new(self.receiver_config);
        self.sender_timer.cancel();
        self.receiver_timer.cancel();
        self.delivered = 0;
        self.connection = self.connection.wrapping_add(Self::CONNECTION_STEP);
    }

    /// The sender's counters, with those of the connections before.
    pub fn counts(&self) -> TransferCounts {
        self.past.plus(&TransferCounts::of(self.sender.stats()))
    }
}

/// Counters of a TCP sender at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferCounts {
    /// Bytes of data sent, repetitions included.
    pub bytes_sent: u64,
    /// Segments with data sent, repetitions included.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Repetitions that were reported to be needless (RFC 2883).
    pub spurious: u64,
    /// Reductions for a mark of the network (RFC 3168).
    pub ecn_reductions: u64,
    /// Reductions taken back.
    pub undone: u64,
}

impl TransferCounts {
    fn plus(&self, other: &Self) -> Self {
        Self {
            bytes_sent: self.bytes_sent + other.bytes_sent,
            segments_sent: self.segments_sent + other.segments_sent,
            retransmitted: self.retransmitted + other.retransmitted,
            timeouts: self.timeouts + other.timeouts,
            recoveries: self.recoveries + other.recoveries,
            spurious: self.spurious + other.spurious,
            ecn_reductions: self.ecn_reductions + other.ecn_reductions,
            undone: self.undone + other.undone,
        }
    }

    /// The counters as they stand.
    pub fn of(stats: &SenderStats) -> Self {
        Self {
            bytes_sent: stats.bytes_sent,
            segments_sent: stats.segments_sent,
            retransmitted: stats.segments_retransmitted,
            timeouts: stats.timeouts,
            recoveries: stats.fast_recoveries,
            spurious: stats.dsacks,
            ecn_reductions: stats.ecn_reductions,
            undone: stats.undone,
        }
    }
}

/// A source of this application.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) enum TcpSource {
    /// The start, and later the stop, of a transfer.
    Transfer {
        /// Index of the transfer.
        transfer: usize,
        /// When the application stops, if it does.
        stop: Option<Nanos>,
        /// Bytes that the application offers at the start; `u64::MAX` is no end.
        offer: u64,
        /// It has started.
        started: bool,
    },
    /// The end of a pause of a session; its index.
    Session(usize),
}

/// All transfers and sessions.
#[derive(Debug, Default)]
pub(in crate::world) struct TcpFlows {
    pub(in crate::world) sources: Vec<TcpSource>,
    pub(in crate::world) transfers: Vec<Transfer>,
    pub(in crate::world) sessions: Vec<Session>,
}

impl Application for TcpFlows {
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32) {
        match &mut self.sources[index] {
            TcpSource::Transfer { transfer, stop, offer, started } => {
                let (transfer, stop, offer) = (*transfer, *stop, *offer);
                let sender = &mut self.transfers[transfer].sender;
                if std::mem::replace(started, true) {
                    sender.close();
                } else {
                    sender.open(ctx.now());
                    sender.offer(offer);
                    if offer != u64::MAX {
                        sender.close();
                    }
                    if let Some(stop) = stop {
                        ctx.wake(stop, source);
                    }
                }
                self.pump_sender(ctx, transfer);
            }
            TcpSource::Session(session) => {
                let session = *session;
                self.begin_transaction(ctx, session);
            }
        }
    }

    fn on_timer(&mut self, ctx: &mut AppContext<'_>, event: Event) {
        let index = event.subject as usize;
        let transfer = &mut self.transfers[index];
        if event.kind == EventKind::TcpReceiver {
            if ctx.fires(&mut transfer.receiver_timer, event) {
                transfer.receiver.on_timer(event.at);
                self.pump_receiver(ctx, index);
            }
        } else if ctx.fires(&mut transfer.sender_timer, event) {
            transfer.sender.on_timer(event.at);
            let session = transfer.session;
            self.pump_sender(ctx, index);
            if let Some(session) = session
                && self.transfers[index].sender.state() == SenderState::Failed
            {
                self.session_failed(ctx, session);
            }
        }
    }

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, header: &Header) {
        let Body::Tcp(segment) = packet.body else { return };
        let segment = &Segment { ecn: header.ecn, window: header.window, ..segment };
        let now = ctx.now();
        let Some(index) = self.transfer_of(ctx, packet) else { return };
        let transfer = &mut self.transfers[index];
        if packet.connection != transfer.connection {
            return; // its port is closed
        }
        if packet.source != transfer.from {
            transfer.sender.on_segment(now, segment);
            self.pump_sender(ctx, index);
            return;
        }
        transfer.receiver.on_segment(now, segment);
        let delivered = transfer.receiver.delivered();
        let fresh = delivered - transfer.delivered;
        transfer.delivered = delivered;
        if transfer.completed.is_none() && transfer.size.is_some_and(|size| delivered >= size) {
            transfer.completed = Some(now);
        }
        let session = transfer.session;
        if fresh > 0 {
            ctx.delivered(packet.stream, fresh);
        }
        self.pump_receiver(ctx, index);
        if let Some(session) = session
            && fresh > 0
        {
            self.session_delivered(ctx, session, index);
        }
    }

    fn on_warmup_end(&mut self) {
        for transfer in &mut self.transfers {
            transfer.warmup = transfer.counts();
        }
    }
}

impl TcpFlows {
    fn transfer_of(&self, ctx: &AppContext<'_>, packet: &Packet) -> Option<usize> {
        match ctx.flow(flow_of(packet.stream)).kind {
            FlowKind::Bulk(transfer) => Some(transfer),
            FlowKind::Web(session) => Some(self.sessions[session].transfer),
            // Requests have even connections and responses odd ones.
            FlowKind::Request(session) if packet.connection.is_multiple_of(2) => {
                self.sessions[session].requests
            }
            FlowKind::Request(session) => Some(self.sessions[session].transfer),
            FlowKind::Call(_)
            | FlowKind::Aimd(_)
            | FlowKind::Quic(_)
            | FlowKind::Cbr
            | FlowKind::Burst
            | FlowKind::Ping
            | FlowKind::Video(_)
            | FlowKind::Real(_) => None,
        }
    }

    /// Sends what a sender has to send and sets its timer.
    pub(super) fn pump_sender(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let transfer = &mut self.transfers[index];
        let Transfer { data_stream, connection, from, to, .. } = *transfer;
        while let Some(segment) = transfer.sender.poll_transmit(now) {
            send_segment(ctx, data_stream, connection, (from, to), segment);
        }
        let next = transfer.sender.next_timer();
        ctx.set_timer(&mut transfer.sender_timer, next, EventKind::TcpSender, index);
    }

    /// Sends what a receiver has to send and sets its timer.
    fn pump_receiver(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let transfer = &mut self.transfers[index];
        let Transfer { ack_stream, connection, from, to, .. } = *transfer;
        while let Some(segment) = transfer.receiver.poll_transmit(now) {
            send_segment(ctx, ack_stream, connection, (to, from), segment);
        }
        let next = transfer.receiver.next_timer();
        ctx.set_timer(&mut transfer.receiver_timer, next, EventKind::TcpReceiver, index);
    }

    /// Samples all senders at the end of a recording interval.
    pub(super) fn sample(&self, core: &mut Core) {
        let now = core.now();
        if !core.recorder.is_bin_edge(now) {
            return;
        }
        for (transfer, samples) in self.transfers.iter().zip(&mut core.recorder.tcp) {
            let counts = transfer.counts();
            let segments = u64::from(transfer.sender.cwnd_segments());
            let segment_bytes = transfer.sender.cwnd() / segments.max(1);
            samples.push(TcpSample {
                at: now,
                cwnd_bytes: transfer.sender.cwnd(),
                ssthresh_bytes: transfer.sender.ssthresh(),
                srtt: transfer.sender.srtt(),
                in_flight_bytes: u64::from(transfer.sender.in_flight()) * segment_bytes,
                retransmitted: counts.retransmitted,
                timeouts: counts.timeouts,
            });
        }
    }
}

fn send_segment(
    ctx: &mut AppContext<'_>,
    stream: u32,
    connection: u16,
    (source, destination): (NodeId, NodeId),
    segment: Segment,
) {
    let packet = Packet {
        created: ctx.now(),
        stream,
        source,
        destination,
        bytes: headers::IP + segment.header_bytes() + segment.len,
        connection,
        dscp: ctx.flow(flow_of(stream)).dscp,
        body: Body::Tcp(segment),
    };
    ctx.send(packet, segment.ecn);
}
