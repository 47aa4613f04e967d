//! The rows of all tables. Their comments become the descriptions in the files.

use std::sync::Arc;

use super::Seed;
use crate::output::table::table;
use crate::recorder::Loss;

table! {
    /// One row for each direction of a flow that carries data.
    FlowRow = "flows" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow in the scenario, from 0.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `call`, `bulk`, `aimd`, `quic`, `cbr`, `burst`, `ping`, `web`, `request` or `video`.
        kind: &'static str,
        /// `forward` (from `from` to `to` of the scenario) or `backward`.
        direction: &'static str,
        /// Sender: a node's number, a host's name or `internet`.
        sender: Arc<str>,
        /// Receiver: a node's number, a host's name, `internet` or `broadcast`.
        receiver: Arc<str>,
        /// Codec of a call.
        codec: Option<&'static str>,
        /// Start of the flow.
        start_s: f64,
        /// Stop of the flow; null where that is the end of the run.
        stop_s: Option<f64>,
        /// Measured seconds: from the end of the warm-up to the end of the run.
        measured_s: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Packets that arrived; of a broadcast, receptions at all nodes.
        arrived_packets: u64,
        /// Packets that arrived too late to be played, and `overdue_packets`.
        late_packets: u64,
        /// Packets lost for any reason.
        lost_packets: u64,
        /// Packets lost because a node's interface queue was full.
        lost_queue_full_packets: u64,
        /// Packets dropped by a node at its retry limit.
        lost_retry_limit_packets: u64,
        /// Packets lost because the queue of a wired link was full.
        lost_wired_queue_full_packets: u64,
        /// Packets dropped early by a queue discipline (RED, CoDel).
        lost_aqm_packets: u64,
        /// Packets lost on a wired link.
        lost_link_packets: u64,
        /// Packets dropped by a full pacer of the gateway or a full throttle of a node.
        lost_control_packets: u64,
        /// Packets lost at a node that had no route to their destination.
        lost_no_route_packets: u64,
        /// Packets whose time to live ran out on the way.
        lost_ttl_packets: u64,
        /// Packets lost while they waited for a neighbour to which the link broke.
        lost_route_broken_packets: u64,
        /// Packets lost because the buffer for packets without a route was full.
        lost_buffer_full_packets: u64,
        /// Packets lost because they waited too long for a route.
        lost_buffer_timeout_packets: u64,
        /// Packets in the network at the end of the run whose playout time had not come: their fate is unknown.
        in_flight_packets: u64,
        /// Packets in the network at the end of the run whose playout time had passed. But for broadcasts, sent = arrived + lost +
        /// in flight + overdue.
        overdue_packets: u64,
        /// Lost packets as a fraction of those whose fate is known. A broadcast is lost only where it never reaches the air; see
        /// `delivery_mean`.
        loss: f64,
        /// Late packets as a fraction of those whose fate is known.
        late: f64,
        /// Fraction of the packets not lost that exceeded the delay of the fastest one by more than the flow's
        /// `delay_bound_ms`; null where there is no bound.
        outage: Option<f64>,
        /// Number of receivers of a broadcast, one row each in the table `receivers`; null for other flows.
        receivers: Option<u64>,
        /// Mean of the receivers' delivery ratios; null where there is no receiver or nothing was sent.
        delivery_mean: Option<f64>,
        /// Smallest delivery ratio of a receiver.
        delivery_min: Option<f64>,
        /// Payload sent, retransmissions by TCP included.
        sent_bytes: u64,
        /// Payload delivered to the application, in order and once.
        delivered_bytes: u64,
        /// Payload sent, as a rate.
        sent_mbps: f64,
        /// Payload delivered, as a rate.
        goodput_mbps: f64,
        /// Shortest one-way delay of a packet, warm-up included; null where none arrived.
        delay_min_ms: Option<f64>,
        /// Mean one-way delay.
        delay_mean_ms: Option<f64>,
        /// Median of the one-way delays, as the middle of its bucket (1 % or 1 µs wide).
        delay_p50_ms: Option<f64>,
        /// 95th percentile of the one-way delays.
        delay_p95_ms: Option<f64>,
        /// 99th percentile of the one-way delays.
        delay_p99_ms: Option<f64>,
        /// Longest one-way delay.
        delay_max_ms: Option<f64>,
        /// Mean of the interarrival jitter (RFC 3550) after each packet.
        jitter_mean_ms: Option<f64>,
        /// Mean opinion score of this direction of a call; null where no packet's fate is known.
        mos: Option<f64>,
        /// Segments that TCP retransmitted.
        tcp_retransmitted_segments: Option<u64>,
        /// Retransmission timeouts of TCP.
        tcp_timeouts: Option<u64>,
        /// Fast recoveries of TCP.
        tcp_recoveries: Option<u64>,
        /// Spurious retransmissions of TCP, reported by DSACK (RFC 2883).
        tcp_spurious_segments: Option<u64>,
        /// Window reductions of TCP in response to congestion marks (RFC 3168).
        tcp_ecn_reductions: Option<u64>,
        /// Window reductions that TCP undid because nothing had been lost.
        tcp_undone: Option<u64>,
        /// Completion time of a finite transfer at its receiver; null where it did not complete or has no end.
        completed_s: Option<f64>,
        /// Pages, or requests with their responses, that finished.
        transactions_finished: Option<u64>,
        /// Pages, or requests with their responses, in progress at the end of the run.
        transactions_open: Option<u64>,
        /// Pages, or requests with their responses, whose connection failed.
        transactions_failed: Option<u64>,
        /// Mean time of a finished transaction, from the start of its connection, or its request, to the last byte.
        transaction_mean_ms: Option<f64>,
        /// Median of these times, as the middle of its bucket (1 % wide).
        transaction_p50_ms: Option<f64>,
        /// 95th percentile of these times.
        transaction_p95_ms: Option<f64>,
        /// 99th percentile of these times.
        transaction_p99_ms: Option<f64>,
        /// Video frames sent.
        video_frames: Option<u64>,
        /// Video frames complete by their deadline.
        video_complete_frames: Option<u64>,
        /// Video frames complete after their deadline.
        video_late_frames: Option<u64>,
        /// Video frames that lost a packet.
        video_lost_frames: Option<u64>,
    }

    /// One row for each recording interval of each direction of a flow, warm-up included.
    FlowSeriesRow = "flow_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `call`, `bulk`, `aimd`, `quic`, `cbr`, `burst`, `ping`, `web`, `request` or `video`.
        kind: &'static str,
        /// `forward` or `backward`.
        direction: &'static str,
        /// End of the interval.
        t_s: f64,
        /// Packets sent in the interval, without those in flight at the end of the run.
        sent_packets: u32,
        /// Packets sent in the interval that arrived.
        arrived_packets: u32,
        /// Packets sent in the interval that arrived before their playout time.
        in_time_packets: u32,
        /// Mean one-way delay of the packets sent in the interval that arrived; null where none arrived.
        delay_mean_ms: Option<f64>,
        /// Payload delivered in the interval, whenever it was sent.
        delivered_bytes: u64,
        /// Payload delivered in the interval, as a rate.
        goodput_mbps: f64,
        /// Mean opinion score that this direction of a call would have if the whole call had been like this interval; null
        /// where it sent nothing.
        mos: Option<f64>,
    }

    /// One row for each recording interval of each TCP sender, warm-up included.
    TcpSeriesRow = "tcp_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// Time of the sample.
        t_s: f64,
        /// Congestion window.
        cwnd_bytes: u64,
        /// Slow-start threshold; null before the first loss.
        ssthresh_bytes: Option<u64>,
        /// Smoothed round-trip time; null before the first sample.
        srtt_ms: Option<f64>,
        /// Bytes sent that have neither been acknowledged nor declared lost.
        in_flight_bytes: u64,
        /// Segments retransmitted since the start.
        retransmitted_segments: u64,
        /// Retransmission timeouts since the start.
        timeouts: u64,
    }

    /// One row for each tick (100 ms) of each gateway's controller, warm-up included.
    ControlRow = "control" {
        /// Seed of the run.
        seed: Seed,
        /// Time of the tick.
        t_s: f64,
        /// Node of the gateway.
        gateway: u32,
        /// Kind of control, as in the scenario; `none` before its start.
        kind: &'static str,
        /// `off`, `learning`, `steady`, `protecting` or `starved`.
        state: &'static str,
        /// Reason for the state, in words.
        reason: Arc<str>,
        /// What enforces the budget: `window`, `pacing` or `both`.
        means: &'static str,
        /// Budget of all elastic flows together, times hops; null where the controller sets none.
        budget_mbps: Option<f64>,
        /// Rate of elastic data into the mesh; null for no limit.
        down_mbps: Option<f64>,
        /// Rate of bytes that released ACKs acknowledge; null for no limit.
        acks_mbps: Option<f64>,
        /// Smallest window clamp; null for none.
        window_bytes: Option<u32>,
        /// Packets queued in the pacers.
        pacer_packets: u32,
        /// Lowest mean opinion score of a call over the last second, as the gateway estimates it; null where it sees no call.
        mos_seen: Option<f64>,
    }

    /// One row for each wireless node.
    NodeRow = "nodes" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// Position.
        x_m: f64,
        /// Position.
        y_m: f64,
        /// Whether it is a gateway to the Internet.
        gateway: bool,
        /// Fraction of time taken by own frames.
        airtime_own: f64,
        /// Fraction of time taken by received frames addressed to it.
        airtime_received: f64,
        /// Fraction of time taken by received frames addressed to others.
        airtime_overheard: f64,
        /// Fraction of time taken by frames that it locked on and lost.
        airtime_collided: f64,
        /// Fraction of time taken by energy above the carrier-sense threshold that it did not lock on.
        airtime_energy: f64,
        /// Fraction of time in which its medium was idle.
        airtime_idle: f64,
        /// Frames sent, ACK, RTS and CTS included.
        sent_frames: u64,
        /// Frames retransmitted.
        retried_frames: u64,
        /// Frames addressed to it that it did not receive, for any reason.
        lost_frames: u64,
        /// Packets dropped because its queue was full.
        queue_drops_packets: u64,
        /// Packets dropped early by its queue discipline (RED, CoDel).
        queue_early_drops_packets: u64,
        /// Mean number of packets in the queue, the one in service included.
        queue_mean_packets: f64,
        /// Maximum number of packets in the queue.
        queue_max_packets: u32,
    }

    /// One row for each direction of a wired link.
    LinkRow = "links" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the direction.
        link: u32,
        /// Sending end: a node's number, a host's name or `internet`.
        sender: Arc<str>,
        /// Receiving end.
        receiver: Arc<str>,
        /// Rate of the link.
        rate_mbps: f64,
        /// Fraction of time spent sending, repetitions included.
        utilization: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Mean number of packets in the queue, the one being sent included.
        queue_mean_packets: f64,
        /// Maximum number of packets in the queue.
        queue_max_packets: u32,
        /// Packets dropped because the queue was full.
        queue_drops_packets: u64,
        /// Packets dropped early by the queue discipline (RED, CoDel).
        queue_early_drops_packets: u64,
        /// Packets lost on the link.
        lost_packets: u64,
        /// Failed frames of a time-slotted link.
        failed_frames: u64,
    }

    /// One row for each node and reason for which it did not receive frames addressed to it.
    FrameLossRow = "frame_losses" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// Reason.
        reason: &'static str,
        /// Frames lost for this reason.
        lost_frames: u64,
    }

    /// One row for each recording interval of each wireless node, warm-up included.
    NodeSeriesRow = "node_series" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the node.
        node: u32,
        /// End of the interval.
        t_s: f64,
        /// Fraction of the interval taken by own frames.
        airtime_own: f64,
        /// Fraction of the interval taken by received frames addressed to it.
        airtime_received: f64,
        /// Fraction of the interval taken by received frames addressed to others.
        airtime_overheard: f64,
        /// Fraction of the interval taken by frames that it locked on and lost.
        airtime_collided: f64,
        /// Fraction of the interval taken by energy above the carrier-sense threshold that it did not lock on.
        airtime_energy: f64,
        /// Fraction of the interval in which its medium was idle.
        airtime_idle: f64,
        /// Packets in the queue at the end of the interval, the one in service included.
        queue_packets: u32,
    }

    /// One row for each bucket of one-way delays of each direction of a flow that is not empty.
    DelayRow = "delays" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// `forward` or `backward`.
        direction: &'static str,
        /// Lower bound of the bucket, included.
        from_ms: f64,
        /// Upper bound of the bucket, excluded.
        below_ms: f64,
        /// Packets in the bucket.
        packets: u32,
    }

    /// One row for each receiver of a broadcast flow: each node in reach of the sender at the start of the run, and each
    /// node that received a packet later.
    ReceiverRow = "receivers" {
        /// Seed of the run.
        seed: Seed,
        /// Number of the flow.
        flow: u32,
        /// Name of the flow.
        name: Arc<str>,
        /// Number of the receiving node.
        node: u32,
        /// Packets sent by the flow whose fate is known.
        sent_packets: u64,
        /// Packets that the node received.
        received_packets: u64,
        /// Delivery ratio: packets received as a fraction of those sent; null where nothing was sent.
        delivery: Option<f64>,
    }
}

// The table `flows` has a column for every reason.
const _: () = assert!(Loss::ALL.len() == 11);
