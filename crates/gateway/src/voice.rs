//! What counts as voice: networks of telephones, and bounds for hosts that fake calls.
//!
//! Packets of calls are never paced, and calls steer the controller, so a host gains by sending its data as RTP. Three bounds
//! limit the gain, each measured over half a second and exceeded for a second before it has an effect, since a queue that
//! drains makes a call fast for a moment:
//!
//! | bound | what it stops |
//! |---|---|
//! | rate of a call | large packets with the cadence of a call |
//! | cadence: packets per second against the interval of the codec | a call that speeds up once it is recognised |
//! | rate of all calls of a host | many calls that are each within their bound |
//!
//! A flow that exceeds a bound is *distrusted* until it ends: it is paced like bulk traffic, and its RTP is hidden from the
//! observer. Of the calls of a host, the newest ones are distrusted first.
//!
//! Left out: packets out of the mesh are counted, but have taken their airtime when they come to the gateway.

use std::collections::BTreeMap;
use std::fmt;

use fairhop_control::Network;
use fairhop_control::digest::{Digest, Payload};
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::observer::{Flow, FlowBody, FlowKind, Observer, UdpFlow};
use fairhop_model::units::Nanos;

/// Checks in a row that a bound must be exceeded: one second at 10 Hz.
const STRIKES: u8 = 10;
/// Packets per second, relative to the interval of the codec, that are still a call: a queue that drains may double it.
const MAX_CADENCE: f64 = 1.6;
/// A flow without packets for that time has ended.
const ENDED: Nanos = Nanos::from_secs(10);
/// Maximum number of distrusted flows; further ones stay calls.
const MAX_DISTRUSTED: usize = 4096;
/// A call without packets for that time is not counted.
const ALIVE: Nanos = Nanos::from_secs(2);

/// Bounds of voice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VoiceLimits {
    /// RTP counts as voice with an end in one of them; empty for any.
    pub networks: Vec<Network>,
    /// Maximum rate of the calls of a host in bits per second.
    pub per_host: f64,
    /// Maximum rate of a call in bits per second.
    pub per_call: f64,
}

/// Why a flow is distrusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distrust {
    /// Its rate is above that of a call.
    Rate {
        /// Its rate in bits per second.
        rate: f64,
    },
    /// It has more packets per second than its codec.
    Cadence {
        /// Packets per second.
        packets: f64,
        /// Those of its codec.
        nominal: f64,
    },
    /// The calls of its host are together above their bound.
    Host {
        /// Their rate in bits per second.
        rate: f64,
    },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { rate } => write!(f, "{:.0} kb/s are more than a call has", rate / 1e3),
            Self::Cadence { packets, nominal } => {
                write!(f, "{packets:.0} packets/s are more than the {nominal:.0} of its codec")
            }
            Self::Host { rate } => {
                write!(f, "the calls of its host have {:.0} kb/s, more than their bound", rate / 1e3)
            }
        }
    }
}

/// A flow that is distrusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distrusted {
    /// The flow.
    pub key: FlowKey,
    /// Why.
    pub why: Distrust,
    /// Since when.
    pub since: Nanos,
}

/// Keeps the bounds.
#[derive(Debug)]
pub struct VoiceGuard {
    limits: VoiceLimits,
    distrusted: BTreeMap<FlowKey, Distrusted>,
    /// Checks in a row at which a flow exceeded a bound of its own, and a host that of its calls.
    flow_strikes: BTreeMap<FlowKey, u8>,
    host_strikes: BTreeMap<Address, u8>,
    total: u64,
}

/// A call at a check.
struct Measured {
    key: FlowKey,
    began: Nanos,
    rate: f64,
    over: Option<Distrust>,
}

impl VoiceGuard {
    /// A guard that distrusts nothing yet.
    pub const fn new(limits: VoiceLimits) -> Self {
        Self {
            limits,
            distrusted: BTreeMap::new(),
            flow_strikes: BTreeMap::new(),
            host_strikes: BTreeMap::new(),
            total: 0,
        }
    }

    /// Changes the bounds; flows that are distrusted stay so.
    pub fn set_limits(&mut self, limits: VoiceLimits) {
        self.limits = limits;
    }

    /// Hides RTP and RTCP that do not count as voice.
    pub fn filter(&self, digest: &mut Digest) {
        if !matches!(digest.payload, Payload::Rtp(_) | Payload::Rtcp(_)) || digest.flow().is_of_probe() {
            return;
        }
        let networks = &self.limits.networks;
        let is_known = networks.is_empty()
            || networks.iter().any(|n| n.contains(digest.source) || n.contains(digest.destination));
        if !is_known || (!self.distrusted.is_empty() && self.distrusted.contains_key(&digest.flow())) {
            digest.payload = Payload::Udp;
        }
    }

    /// Looks at all calls; due at each tick. Returns the flows that are distrusted from now on.
    pub fn check(&mut self, now: Nanos, observer: &Observer) -> Vec<Distrusted> {
        let calls: Vec<Measured> = observer
            .call_flows()
            // A call with video on its ports has the place of video.
            .filter(|(key, flow)| {
                flow.kind(now) == FlowKind::Call && !key.is_of_probe() && !self.distrusted.contains_key(*key)
            })
            .filter_map(|(key, flow)| self.measure(now, key, flow))
            .collect();
        let mut strikes = BTreeMap::new();
        let mut fresh = Vec::new();
        for (call, why) in calls.iter().filter_map(|call| Some((call, call.over?))) {
            let count = self.flow_strikes.get(&call.key).map_or(1, |count| count + 1);
            if count >= STRIKES {
                fresh.push(Distrusted { key: call.key, why, since: now });
            } else {
                strikes.insert(call.key, count);
            }
        }
        self.flow_strikes = strikes;
        self.check_hosts(now, &calls, &mut fresh);
        fresh.truncate(MAX_DISTRUSTED.saturating_sub(self.distrusted.len()));
        self.total += fresh.len() as u64;
        self.distrusted.extend(fresh.iter().map(|flow| (flow.key, *flow)));
        if !self.distrusted.is_empty() {
            let horizon = now.saturating_sub(ENDED);
            let active: std::collections::BTreeSet<FlowKey> =
                observer.active(horizon).map(|(key, _)| *key).collect();
            self.distrusted.retain(|key, flow| active.contains(key) || flow.since >= horizon);
        }
        fresh
    }

    fn measure(&self, now: Nanos, key: &FlowKey, flow: &Flow) -> Option<Measured> {
        let FlowBody::Udp(udp) = &flow.body else { return None };
        let rate = (udp.down_meter.rate(now).0 + udp.up_meter.rate(now).0) as f64;
        let packets = rate / 8.0 / f64::from(udp.packet_bytes().max(1));
        let nominal = nominal_packets(now, udp);
        let over = if rate > self.limits.per_call {
            Some(Distrust::Rate { rate })
        } else if packets > MAX_CADENCE * nominal + 10.0 {
            Some(Distrust::Cadence { packets, nominal })
        } else {
            None
        };
        Some(Measured { key: *key, began: flow.began, rate, over })
    }

    /// Distrusts the newest calls of each host that is above its bound, until the others are within.
    fn check_hosts(&mut self, now: Nanos, calls: &[Measured], fresh: &mut Vec<Distrusted>) {
        let mut hosts: BTreeMap<Address, Vec<&Measured>> = BTreeMap::new();
        for call in calls {
            hosts.entry(call.key.mesh).or_default().push(call);
        }
        let mut strikes = BTreeMap::new();
        for (host, mut calls) in hosts {
            let mut rate: f64 = calls.iter().map(|call| call.rate).sum();
            if rate <= self.limits.per_host {
                continue;
            }
            let count = self.host_strikes.get(&host).map_or(1, |count| count + 1);
            if count < STRIKES {
                strikes.insert(host, count);
                continue;
            }
            calls.sort_by_key(|call| std::cmp::Reverse(call.began));
            for call in calls {
                if rate <= self.limits.per_host {
                    break;
                }
                if !fresh.iter().any(|known| known.key == call.key) {
                    fresh.push(Distrusted { key: call.key, why: Distrust::Host { rate }, since: now });
                }
                rate -= call.rate;
            }
        }
        self.host_strikes = strikes;
    }

    /// The flows that are distrusted now.
    pub fn distrusted(&self) -> impl Iterator<Item = &Distrusted> {
        self.distrusted.values()
    }

    /// Whether a flow is distrusted.
    pub fn is_distrusted(&self, key: &FlowKey) -> bool {
        self.distrusted.contains_key(key)
    }

    /// Number of flows that have been distrusted since the start.
    pub const fn total(&self) -> u64 {
        self.total
    }
}

/// Packets per second of the streams of a call that are alive.
fn nominal_packets(now: Nanos, udp: &UdpFlow) -> f64 {
    let horizon = now.saturating_sub(ALIVE);
    let of = |stream: &fairhop_control::observer::Stream| {
        if stream.is_alive(horizon) { 1.0 / stream.interval().as_secs_f64().max(0.001) } else { 0.0 }
    };
    of(&udp.up) + of(&udp.down)
}
