//! What counts as voice: networks of telephones, and bounds for hosts that fake calls.
//!
//! Packets of calls are never paced, and calls steer the controller, so a host gains by sending its data as RTP. Three bounds
//! limit the gain. Each is a token bucket, which allows [`BURST`] seconds of the bound at once, because a call is fast while a queue
//! of seconds drains:
//!
//! | bound | what it stops |
//! |---|---|
//! | rate of a call | large packets with the cadence of a call |
//! | cadence: packets per second of a direction against the interval of the codec | a call that speeds up once it is recognised |
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

/// Seconds of its bound that a flow or a host may be ahead. A call whose queue of five seconds drains is within it, however fast it does
/// ([`MAX_CADENCE`]). With half, such a queue may be half as long; with double, data sent as RTP gains twice as many bytes.
const BURST: f64 = 3.0;
/// Packets per second of a direction, relative to the interval of the codec, that a call may have for ever, beside ten for RTCP and the
/// like.
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
    /// It has more packets per second in a direction than its codec.
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
    /// Flows that are ahead of their own bounds, and hosts that are ahead of that of their calls, in seconds of the bound.
    flows_ahead: BTreeMap<FlowKey, f64>,
    hosts_ahead: BTreeMap<Address, f64>,
    checked_at: Nanos,
    total: u64,
}

/// A call at a check.
struct Measured {
    key: FlowKey,
    began: Nanos,
    rate: f64,
    /// Its load over the bound that it comes closest to, and what exceeding that bound means.
    load: f64,
    why: Distrust,
}

/// Counts `seconds` of a flow or a host at `load`, a multiple of its bound. `before` has how far each was ahead at the last check, in
/// seconds of the bound, and `after` gets it for this one. Returns whether it is ahead by [`BURST`].
fn is_over<K: Ord>(
    before: &BTreeMap<K, f64>,
    after: &mut BTreeMap<K, f64>,
    key: K,
    load: f64,
    seconds: f64,
) -> bool {
    let ahead = before.get(&key).copied().unwrap_or(0.0) + (load - 1.0) * seconds;
    if ahead > 0.0 && ahead < BURST {
        after.insert(key, ahead);
    }
    ahead >= BURST
}

impl VoiceGuard {
    /// A guard that distrusts nothing yet.
    pub const fn new(limits: VoiceLimits) -> Self {
        Self {
            limits,
            distrusted: BTreeMap::new(),
            flows_ahead: BTreeMap::new(),
            hosts_ahead: BTreeMap::new(),
            checked_at: Nanos::ZERO,
            total: 0,
        }
    }

    /// Changes the bounds; flows that are distrusted stay so.
    pub fn set_limits(&mut self, limits: VoiceLimits) {
        self.limits = limits;
    }

    /// Hides RTP and RTCP that do not count as voice, and datagrams whose times must not tell that they do.
    pub fn filter(&self, digest: &mut Digest) {
        let may_count = matches!(digest.payload, Payload::Rtp(_) | Payload::Rtcp(_) | Payload::Udp);
        if !may_count || digest.flow().is_of_probe() {
            return;
        }
        let networks = &self.limits.networks;
        let is_known = networks.is_empty()
            || networks.iter().any(|n| n.contains(digest.source) || n.contains(digest.destination));
        if !is_known || (!self.distrusted.is_empty() && self.distrusted.contains_key(&digest.flow())) {
            digest.payload = Payload::Other;
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
        // After a pause of the daemon, the meters show the last half second alone.
        let seconds = now.saturating_sub(self.checked_at).as_secs_f64().min(1.0);
        self.checked_at = now;
        let mut flows_ahead = BTreeMap::new();
        let mut fresh = Vec::new();
        for call in &calls {
            if is_over(&self.flows_ahead, &mut flows_ahead, call.key, call.load, seconds) {
                fresh.push(Distrusted { key: call.key, why: call.why, since: now });
            }
        }
        self.flows_ahead = flows_ahead;
        self.check_hosts(now, seconds, &calls, &mut fresh);
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
        let rates = [&udp.down_meter, &udp.up_meter].map(|meter| meter.rate(now).0 as f64);
        let rate = rates[0] + rates[1];
        let packets = rates[0].max(rates[1]) / 8.0 / f64::from(udp.packet_bytes().max(1));
        let nominal = nominal_packets(now, udp);
        let of_rate = rate / self.limits.per_call;
        let of_cadence = packets / (MAX_CADENCE * nominal + 10.0);
        let (load, why) = if of_rate > of_cadence {
            (of_rate, Distrust::Rate { rate })
        } else {
            (of_cadence, Distrust::Cadence { packets, nominal })
        };
        Some(Measured { key: *key, began: flow.began, rate, load, why })
    }

    /// Distrusts the newest calls of each host that is above its bound, until the others are within.
    fn check_hosts(&mut self, now: Nanos, seconds: f64, calls: &[Measured], fresh: &mut Vec<Distrusted>) {
        let mut hosts: BTreeMap<Address, Vec<&Measured>> = BTreeMap::new();
        for call in calls {
            hosts.entry(call.key.mesh).or_default().push(call);
        }
        let mut hosts_ahead = BTreeMap::new();
        for (host, mut calls) in hosts {
            let mut rate: f64 = calls.iter().map(|call| call.rate).sum();
            if !is_over(&self.hosts_ahead, &mut hosts_ahead, host, rate / self.limits.per_host, seconds) {
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
        self.hosts_ahead = hosts_ahead;
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

/// Packets per second of the faster of a call's streams that are alive. The other direction may not be recognised.
fn nominal_packets(now: Nanos, udp: &UdpFlow) -> f64 {
    let horizon = now.saturating_sub(ALIVE);
    let alive = [&udp.up, &udp.down].into_iter().filter(|stream| stream.is_alive(horizon));
    alive.map(|stream| 1.0 / stream.interval().as_secs_f64().max(0.001)).fold(0.0, f64::max)
}
