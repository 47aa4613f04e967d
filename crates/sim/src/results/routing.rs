//! What a routing protocol did, and what flows noticed of it.

use std::collections::BTreeMap;

use fairhop_model::units::Nanos;
use fairhop_routing::MessageKind;
use serde::{Deserialize, Serialize};

use crate::mac::BROADCAST;
use crate::packet::stream;
use crate::recorder::{PathRecord, RoutingRecord};
use crate::world::World;
use crate::world::applications::flow::FlowKind;

/// A routing protocol in a run. Counts leave the warm-up out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutingSummary {
    /// The protocol, as in the scenario.
    pub protocol: String,
    /// Messages sent, by kind. Each hop counts; retries of 802.11 do not.
    pub messages: BTreeMap<String, f64>,
    /// Bytes of their IP packets, by kind.
    pub bytes: BTreeMap<String, f64>,
    /// Normalised routing load: messages sent per data packet that arrived; null where none arrived.
    pub load: Option<f64>,
    /// Discoveries of routes.
    pub discoveries: DiscoverySummary,
    /// Links that were taken for broken while in use, and whose ends could not decode each other at the data rate.
    pub true_breaks: f64,
    /// Links that were taken for broken while in use, though nothing but other transmissions disturbed them.
    pub false_breaks: f64,
    /// Routes that were new, changed next hop or length, or became invalid, at all nodes.
    pub route_changes: f64,
    /// Changes of a route after which next hops led in a circle. Always 0.
    pub loops: f64,
    /// What each flow noticed, warm-up included.
    pub paths: Vec<PathSummary>,
}

/// Discoveries of routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoverySummary {
    /// Discoveries begun.
    pub tried: f64,
    /// Discoveries that found a route.
    pub found: f64,
    /// Discoveries given up.
    pub given_up: f64,
    /// Time from the first request to the route, of those that found one: median; null where none did.
    pub latency_p50_ms: Option<f64>,
    /// 95th percentile.
    pub latency_p95_ms: Option<f64>,
    /// Maximum, rounded up to the next bound of the histogram.
    pub latency_max_ms: Option<f64>,
}

/// What a flow notices of routes: in the direction of its data, of a call in the direction from `from` to `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// Name of the flow.
    pub name: String,
    /// Mean number of radio hops of the packets that arrived after the warm-up; null where none did.
    pub hops: Option<f64>,
    /// Time from the first packet sent to the first arrival; null where nothing arrived.
    pub first_packet_ms: Option<f64>,
    /// Times of more than 1 s without an arrival, between the first packet and the stop of the flow.
    pub interruptions: f64,
    /// The longest of them in seconds; 0 where there is none.
    pub longest_interruption_s: f64,
    /// Their sum in seconds.
    pub interrupted_s: f64,
    /// The share of airtime that its source has learnt by the end, as a fraction; left out without the path density protocol,
    /// and where the flow has not sent for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// The stream of a flow whose arrivals count.
fn data_stream(kind: FlowKind, flow: usize) -> u32 {
    stream(flow, matches!(kind, FlowKind::Request(_)))
}

pub(super) fn summary(world: &World) -> Option<RoutingSummary> {
    let recorder = world.recorder();
    let record: &RoutingRecord = recorder.routing.as_deref()?;
    let of_kinds = |value: fn(&RoutingRecord, MessageKind) -> u64| {
        MessageKind::ALL.iter().map(|&kind| (kind.name().to_owned(), value(record, kind) as f64)).collect()
    };
    let data = world.flows().iter().enumerate().map(|(index, flow)| data_stream(flow.kind, index));
    let both_ways = |flow: usize| [stream(flow, false), stream(flow, true)];
    let arrived: u64 = (0..world.flows().len())
        .flat_map(both_ways)
        .filter(|&stream| recorder.is_measured(stream))
        .map(|stream| recorder.streams[stream as usize].arrived)
        .sum();
    let quantile = |q: f64| record.latencies.quantile(q).map(Nanos::as_millis_f64);
    let first_bin = recorder.warmup.0.div_ceil(recorder.interval.0.max(1)) as usize;
    let paths = world.flows().iter().zip(data).enumerate().filter(|(_, (flow, _))| flow.to != BROADCAST);
    Some(RoutingSummary {
        protocol: "aodv".to_owned(),
        messages: of_kinds(|record, kind| record.messages[kind as usize].sent),
        bytes: of_kinds(|record, kind| record.messages[kind as usize].bytes),
        load: (arrived > 0).then(|| record.total().sent as f64 / arrived as f64),
        discoveries: DiscoverySummary {
            tried: record.tried as f64,
            found: record.found as f64,
            given_up: record.given_up as f64,
            latency_p50_ms: quantile(0.5),
            latency_p95_ms: quantile(0.95),
            latency_max_ms: quantile(1.0),
        },
        true_breaks: record.true_breaks as f64,
        false_breaks: record.false_breaks as f64,
        route_changes: record.route_changes as f64,
        loops: record.loops as f64,
        paths: paths
            .map(|(index, (flow, stream))| PathSummary {
                share: world.learnt_share(index),
                ..path(&flow.name, record.paths.get(stream as usize), first_bin)
            })
            .collect(),
    })
}

fn path(name: &str, record: Option<&PathRecord>, first_bin: usize) -> PathSummary {
    let silences = record.map_or(&[][..], |record| &record.interruptions);
    let lengths = silences.iter().map(|silence| (silence.to - silence.from).as_secs_f64());
    PathSummary {
        name: name.to_owned(),
        hops: record.and_then(|record| record.mean_hops(first_bin)),
        first_packet_ms: record.and_then(|record| record.first_delay).map(Nanos::as_millis_f64),
        interruptions: silences.len() as f64,
        longest_interruption_s: lengths.clone().fold(0.0, f64::max),
        interrupted_s: lengths.sum(),
        share: None,
    }
}
