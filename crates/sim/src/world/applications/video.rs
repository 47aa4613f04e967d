//! Video: frames by the clock, each split into datagrams.
//!
//! Sizes come in groups: one frame coded by itself (I), then those coded from the one before (P), with a mean ratio and
//! log-normal variation of each kind; or all alike. The mean over a group is the rate. A frame's packets leave at once. A
//! frame is complete when its last packet has arrived, late where that is after the deadline, and lost with any packet.
//! Left out: frames coded from later ones (B), scenes, correlation between sizes, repair, and the errors that a lost
//! frame spreads over its group.

use std::collections::VecDeque;

use fairhop_model::units::Nanos;

use super::datagrams::Interval;
use super::flow::{FlowKind, payload_bytes};
use super::{AppContext, Application};
use crate::engine::Stream;
use crate::packet::{Body, Dscp, Ecn, Header, NodeId, Packet, flow_of};
use crate::recorder::FrameRecord;

/// No frame is larger.
const MOST_FRAME_BYTES: f64 = 1e8;

/// What sizes the frames of a stream have.
#[derive(Clone, Copy, Debug)]
pub struct FrameSizes {
    /// Frames of a group.
    pub group: u32,
    /// Mean size of an I frame in bytes.
    i_bytes: f64,
    /// Mean size of a P frame in bytes.
    p_bytes: f64,
    /// Standard deviation of a size's logarithm.
    sigma: f64,
}

impl FrameSizes {
    /// Groups of `group` frames with a mean of `bytes` a frame, where an I frame has `i_to_p` times the mean size of a P
    /// frame, and the standard deviation of sizes is `variation` times their mean.
    pub fn new(bytes: f64, group: u32, i_to_p: f64, variation: f64) -> Self {
        let others = f64::from(group.max(1)) - 1.0;
        let p_bytes = bytes * (others + 1.0) / (i_to_p + others);
        // Log-normal: (deviation / mean)² = exp(σ²) − 1.
        let sigma = libm::sqrt(libm::log(1.0 + variation * variation));
        Self { group: group.max(1), i_bytes: i_to_p * p_bytes, p_bytes, sigma }
    }

    /// The size of frame `number`, from 0.
    fn draw(&self, number: u64, random: &mut Stream) -> u32 {
        let mean = if number.is_multiple_of(u64::from(self.group)) { self.i_bytes } else { self.p_bytes };
        let size = if self.sigma > 0.0 {
            mean * libm::exp(self.sigma * random.normal() - self.sigma * self.sigma / 2.0)
        } else {
            mean
        };
        size.round().clamp(1.0, MOST_FRAME_BYTES) as u32
    }
}

/// A frame whose fate is open.
#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    /// Number of its first packet.
    first: u32,
    packets: u32,
    arrived: u32,
    lost: u32,
    created: Nanos,
}

/// One stream of video.
#[derive(Debug)]
pub struct Video {
    stream: u32,
    from: NodeId,
    to: NodeId,
    sizes: FrameSizes,
    /// Most bytes of payload in a packet, and the headers before it.
    payload: u32,
    headers: u32,
    dscp: Dscp,
    interval: Interval,
    stop: Nanos,
    deadline: Nanos,
    frames: u64,
    sequence: u32,
    random: Stream,
    /// From the oldest frame whose fate is open; frames behind it may be settled.
    open: VecDeque<OpenFrame>,
    /// What is counted.
    pub record: FrameRecord,
}

/// What a stream of video is made from.
#[derive(Debug)]
pub struct VideoPlan {
    /// The stream of packets.
    pub stream: u32,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Sizes of frames.
    pub sizes: FrameSizes,
    /// Most bytes of an IP packet.
    pub packet_bytes: u32,
    /// Bytes of its headers.
    pub headers: u32,
    /// How urgent it is.
    pub dscp: Dscp,
    /// When frames are made.
    pub interval: Interval,
    /// No frame from here on.
    pub stop: Nanos,
    /// A frame is late after this.
    pub deadline: Nanos,
    /// Draws of sizes.
    pub random: Stream,
}

impl Video {
    /// A stream that has sent nothing.
    pub fn new(plan: VideoPlan) -> Self {
        Self {
            stream: plan.stream,
            from: plan.from,
            to: plan.to,
            sizes: plan.sizes,
            payload: plan.packet_bytes.saturating_sub(plan.headers).max(1),
            headers: plan.headers,
            dscp: plan.dscp,
            interval: plan.interval,
            stop: plan.stop,
            deadline: plan.deadline,
            frames: 0,
            sequence: 0,
            random: plan.random,
            open: VecDeque::with_capacity(64),
            record: FrameRecord::default(),
        }
    }

    /// The fate of packet `sequence`.
    fn packet(&mut self, sequence: u32, arrived: bool, now: Nanos, warmup: Nanos) {
        let Some(front) = self.open.front() else { return };
        let origin = front.first;
        let place = sequence.wrapping_sub(origin);
        let after = self.open.partition_point(|frame| frame.first.wrapping_sub(origin) <= place);
        let Some(frame) = after.checked_sub(1).and_then(|index| self.open.get_mut(index)) else { return };
        if arrived {
            frame.arrived += 1;
        } else {
            frame.lost += 1;
        }
        if frame.arrived + frame.lost == frame.packets {
            let counts = frame.created >= warmup;
            self.record.settled(frame.lost > 0, now - frame.created, self.deadline, counts);
        }
        while self.open.front().is_some_and(|frame| frame.arrived + frame.lost >= frame.packets) {
            self.open.pop_front();
        }
    }
}

/// All streams of video.
#[derive(Debug, Default)]
pub(in crate::world) struct Videos {
    pub(in crate::world) streams: Vec<Video>,
}

impl Application for Videos {
    /// Sends the next frame of a stream.
    fn on_source(&mut self, ctx: &mut AppContext<'_>, index: usize, source: u32) {
        let now = ctx.now();
        let video = &mut self.streams[index];
        if now >= video.stop {
            return;
        }
        ctx.wake(video.interval.next_start(), source);
        let mut left = video.sizes.draw(video.frames, &mut video.random);
        let packets = left.div_ceil(video.payload);
        let mut sequence = video.sequence;
        video.open.push_back(OpenFrame { first: sequence, packets, arrived: 0, lost: 0, created: now });
        video.frames += 1;
        video.sequence = sequence.wrapping_add(packets);
        if now >= ctx.warmup() {
            video.record.frames += 1;
        }
        while left > 0 {
            let payload = left.min(video.payload);
            left -= payload;
            let packet = Packet {
                created: now,
                stream: video.stream,
                source: video.from,
                destination: video.to,
                bytes: video.headers + payload,
                connection: 0,
                dscp: video.dscp,
                body: Body::Udp { sequence },
            };
            ctx.send(packet, Ecn::NotEct);
            sequence = sequence.wrapping_add(1);
        }
    }

    fn on_packet(&mut self, ctx: &mut AppContext<'_>, packet: &Packet, _header: &Header) {
        ctx.delivered(packet.stream, u64::from(payload_bytes(packet)));
        self.settle(ctx, packet, true);
    }

    fn on_loss(&mut self, ctx: &mut AppContext<'_>, packet: &Packet) {
        self.settle(ctx, packet, false);
    }
}

impl Videos {
    /// The fate of a packet is known.
    fn settle(&mut self, ctx: &AppContext<'_>, packet: &Packet, arrived: bool) {
        if let (FlowKind::Video(index), Body::Udp { sequence }) =
            (ctx.flow(flow_of(packet.stream)).kind, packet.body)
        {
            self.streams[index].packet(sequence, arrived, ctx.now(), ctx.warmup());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;

    #[test]
    fn a_group_has_the_mean_and_the_ratio_that_were_asked_for() {
        let mut random = Stream::new(1, 1, Purpose::Source);
        let sizes = FrameSizes::new(2000.0, 12, 5.0, 0.0);
        let group: Vec<u32> = (0..12).map(|n| sizes.draw(n, &mut random)).collect();
        // P = 2000 · 12 / (5 + 11) = 1500.
        assert_eq!((group[0], &group[1..]), (7500, &[1500; 11][..]));
        let sizes = FrameSizes::new(2000.0, 12, 5.0, 0.4);
        let n = 120_000;
        let draws: Vec<f64> = (0..n).map(|n| f64::from(sizes.draw(n, &mut random))).collect();
        assert!((draws.iter().sum::<f64>() / n as f64 / 2000.0 - 1.0).abs() < 0.01);
        let p: Vec<f64> =
            draws.iter().enumerate().filter(|(i, _)| i % 12 > 0).map(|(_, &size)| size).collect();
        let mean = p.iter().sum::<f64>() / p.len() as f64;
        let variance = p.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / p.len() as f64;
        assert!((variance.sqrt() / mean - 0.4).abs() < 0.01);
    }
}
