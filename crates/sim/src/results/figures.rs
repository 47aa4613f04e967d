//! From the counters of streams to the figures of calls and flows. Pure functions of the records.

use std::collections::BTreeMap;

use fairhop_model::stats;
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};

use super::{
    ACCEPTABLE_MOS, BroadcastSummary, CallSummary, DelaySummary, DirectionSummary, FlowSummary,
    ObservedSummary, Totals, TransactionSummary, VideoSummary,
};
use crate::packet::stream;
use crate::recorder::{FrameRecord, Histogram, Loss, Recorder, StreamBin, StreamRecord, TransactionRecord};
use crate::world::applications::flow::FlowKind;
use crate::world::{Observed, RealClass, World};

/// Fraction of a stream's packets that were lost or too late to be played; none where no packet's fate is known.
pub fn loss_or_late(record: &StreamRecord) -> Option<f64> {
    let decided = record.decided();
    (decided > 0).then(|| fraction(record.lost_total() + record.late, decided))
}

/// The mean opinion score of one direction of a call; none where no packet's fate is known.
pub fn mos_of_direction(codec: Codec, record: &StreamRecord) -> Option<f64> {
    loss_or_late(record).map(|loss_or_late| mos(codec, record, loss_or_late))
}

/// The mean opinion score that one direction of a call would have if the whole call had been like a recording interval;
/// none where it sent nothing in the interval.
pub fn mos_of_interval(codec: Codec, record: &StreamRecord, bin: &StreamBin) -> Option<f64> {
    let loss_or_late = fraction(u64::from(bin.sent.saturating_sub(bin.in_time)), u64::from(bin.sent));
    (bin.sent > 0).then(|| mos(codec, record, loss_or_late))
}

impl World {
    /// The lowest score of any direction of a call over the last recording interval that has ended and whose packets can
    /// have arrived; none where no call sent anything in it.
    pub fn lowest_recent_score(&self) -> Option<f64> {
        let recorder = self.recorder();
        let bin = (self.now().0 / recorder.interval.0.max(1)).checked_sub(2)? as usize;
        let scores = self.flows().iter().enumerate().flat_map(|(index, flow)| {
            let codec = match flow.kind {
                FlowKind::Call(codec) => Some(codec),
                FlowKind::Real(real) => match self.real().get(real).class() {
                    RealClass::Call(codec) => Some(codec),
                    _ => None,
                },
                _ => None,
            };
            [false, true].map(|back| {
                let record = &recorder.streams[stream(index, back) as usize];
                mos_of_interval(codec?, record, record.bins.get(bin)?)
            })
        });
        scores.flatten().reduce(f64::min)
    }
}

/// The score of a direction with this fraction of its packets lost or late. Without any packet that arrived there is no
/// delay to compute with, and the score is the worst.
fn mos(codec: Codec, record: &StreamRecord, loss_or_late: f64) -> f64 {
    if record.delay_min == Nanos::MAX {
        return 1.0;
    }
    voice::mos(codec, loss_or_late, record.delay_min, record.playout)
}

/// [`CallSummary::clear`] of a call with these directions.
fn clear(codec: Codec, [forward, backward]: [&StreamRecord; 2], recorder: &Recorder) -> Option<f64> {
    let first = recorder.warmup.0.div_ceil(recorder.interval.0.max(1)) as usize;
    let (mut intervals, mut clear) = (0, 0);
    for (to, back) in forward.bins.iter().zip(&backward.bins).skip(first) {
        let scores = [mos_of_interval(codec, forward, to), mos_of_interval(codec, backward, back)];
        let Some(worse) = scores.into_iter().flatten().reduce(f64::min) else { continue };
        intervals += 1;
        clear += u64::from(worse >= ACCEPTABLE_MOS);
    }
    (intervals > 0).then(|| fraction(clear, intervals))
}

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The distribution of `count` times with this sum and these bounds.
fn distribution(times: &Histogram, count: u64, sum: Nanos, [min, max]: [Nanos; 2]) -> DelaySummary {
    let quantile = |q| times.quantile(q).unwrap_or_default().as_millis_f64();
    DelaySummary {
        min_ms: min.as_millis_f64(),
        mean_ms: sum.as_millis_f64() / count as f64,
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        max_ms: max.as_millis_f64(),
    }
}

fn delays(record: &StreamRecord) -> DelaySummary {
    if record.arrived == 0 {
        return DelaySummary::default();
    }
    distribution(&record.delays, record.arrived, record.delay_sum, [record.delay_min, record.delay_max])
}

fn jitter_ms(record: &StreamRecord) -> f64 {
    if record.arrived == 0 { 0.0 } else { record.jitter_sum.as_millis_f64() / record.arrived as f64 }
}

fn losses(record: &StreamRecord) -> BTreeMap<String, f64> {
    let counted = Loss::ALL.iter().filter(|why| record.routed || !why.is_of_routing());
    counted.map(|&why| (why.name().to_owned(), record.lost[why as usize] as f64)).collect()
}

fn direction(codec: Codec, record: &StreamRecord) -> DirectionSummary {
    let decided = record.decided();
    DirectionSummary {
        mos: mos_of_direction(codec, record),
        sent: record.sent as f64,
        loss: fraction(record.lost_total(), decided),
        late: fraction(record.late, decided),
        lost: losses(record),
        delay: delays(record),
        jitter_ms: jitter_ms(record),
    }
}

/// The figures of a call from the records of its directions.
pub(super) fn call(
    name: &str,
    codec: Codec,
    records: [&StreamRecord; 2],
    recorder: &Recorder,
) -> CallSummary {
    let [forward, backward] = records.map(|record| direction(codec, record));
    let scores: Vec<f64> = [forward.mos, backward.mos].into_iter().flatten().collect();
    let mean = |pick: fn(&DirectionSummary) -> f64| (pick(&forward) + pick(&backward)) / 2.0;
    CallSummary {
        name: name.to_owned(),
        mos: stats::mean(&scores),
        mos_worst: scores.iter().copied().reduce(f64::min),
        clear: clear(codec, records, recorder),
        loss: mean(|direction| direction.loss),
        late: mean(|direction| direction.late),
        delay_ms: mean(|direction| direction.delay.mean_ms),
        jitter_ms: mean(|direction| direction.jitter_ms),
        forward,
        backward,
        observed: None,
    }
}

/// The figures of a call as a gateway sees it.
pub(super) fn observed(codec: Codec, observed: &Observed, playout: Nanos) -> ObservedSummary {
    let scores: Vec<f64> = observed.scores(codec, playout).collect();
    ObservedSummary {
        mos: stats::mean(&scores),
        mos_worst: scores.iter().copied().reduce(f64::min),
        clear: (observed.seconds > 0).then(|| fraction(observed.clear, observed.seconds)),
    }
}

/// The figures of any other flow from the record of its data, over `measured_s` seconds.
pub(super) fn flow(name: &str, kind: &str, record: &StreamRecord, measured_s: f64) -> FlowSummary {
    let mbps = |bytes: u64| if measured_s > 0.0 { bytes as f64 * 8e-6 / measured_s } else { 0.0 };
    let delay = delays(record);
    FlowSummary {
        name: name.to_owned(),
        kind: kind.to_owned(),
        goodput_mbps: mbps(record.delivered_bytes),
        sent_mbps: mbps(record.sent_bytes),
        delay_ms: delay.mean_ms,
        loss: fraction(record.lost_total(), record.decided()),
        sent: record.sent as f64,
        lost: losses(record),
        delay,
        jitter_ms: jitter_ms(record),
        outage: None,
        limit_mbps: None,
        broadcast: None,
        aimd: None,
        quic: None,
        tcp: None,
        transactions: None,
        video: None,
    }
}

/// Fraction of the packets that were not lost that were late.
pub fn outage(record: &StreamRecord) -> f64 {
    fraction(record.late, record.decided().saturating_sub(record.lost_total()))
}

pub(super) fn broadcast(record: &StreamRecord) -> BroadcastSummary {
    let ratios: Vec<f64> = record.delivery_ratios().map(|(_, ratio)| ratio).collect();
    BroadcastSummary {
        delivery_mean: stats::mean(&ratios),
        delivery_min: ratios.iter().copied().reduce(f64::min),
        delivery: record.delivery_ratios().map(|(node, ratio)| (node.to_string(), ratio)).collect(),
    }
}

pub(super) fn transactions(record: &TransactionRecord) -> TransactionSummary {
    let TransactionRecord { finished, ref times, time_sum, time_min, time_max, .. } = *record;
    TransactionSummary {
        finished: finished as f64,
        open: record.begun.saturating_sub(finished + record.failed) as f64,
        failed: record.failed as f64,
        time: (finished > 0).then(|| distribution(times, finished, time_sum, [time_min, time_max])),
    }
}

pub(super) fn video(record: &FrameRecord) -> VideoSummary {
    let decided = record.complete + record.late + record.lost;
    VideoSummary {
        frames: decided as f64,
        complete: fraction(record.complete, decided),
        late: fraction(record.late, decided),
        lost: fraction(record.lost, decided),
    }
}

/// [`FlowSummary::kind`] of real TCP.
pub(super) const REAL_TCP: &str = "real-tcp";
/// [`FlowSummary::kind`] of real traffic that is neither TCP nor UDP: ICMP, fragments, Ethernet frames.
pub(super) const REAL_OTHER: &str = "real";

/// Figures over these calls and flows.
pub fn totals(calls: &[CallSummary], flows: &[FlowSummary]) -> Totals {
    let of_calls =
        |pick: fn(&CallSummary) -> Option<f64>| calls.iter().filter_map(pick).collect::<Vec<f64>>();
    let worse = of_calls(|call| call.mos_worst);
    let is_tcp = |flow: &FlowSummary| flow.tcp.is_some() || flow.kind == REAL_TCP;
    let shares = || flows.iter().filter(|flow| flow.kind != REAL_OTHER);
    let goodputs: Vec<f64> = shares().map(|flow| flow.goodput_mbps).collect();
    // Not `sum`, which makes -0.0 of nothing.
    let sum = |tcp: bool| {
        shares().filter(|flow| is_tcp(flow) == tcp).fold(0.0, |sum, flow| sum + flow.goodput_mbps)
    };
    Totals {
        mos_mean: stats::mean(&of_calls(|call| call.mos)),
        mos_min: worse.iter().copied().reduce(f64::min),
        calls_ok: worse.iter().filter(|&&score| score >= ACCEPTABLE_MOS).count() as f64,
        calls_clear: stats::mean(&of_calls(|call| call.clear)).unwrap_or(1.0),
        tcp_goodput_mbps: sum(true),
        udp_goodput_mbps: sum(false),
        jain: stats::jain_index(&goodputs).unwrap_or(1.0),
    }
}
