//! What a tick starts from: the elastic flows with their claims to the budget, and the calls.
//!
//! An upload obeys late: its ACKs let a whole window go. It keeps the ACK of one segment per second, whatever the budget is,
//! because its sender repeats segments that are not acknowledged in time, which loads the mesh as much. Only where calls
//! suffer at the minimum budget, the interval of ACKs becomes longer.

use fairhop_model::units::Nanos;

use super::stress::Stress;
use super::tolerance::Tolerance;
use super::{Adaptive, FAST, SLOW, TICK};
use crate::allocate::{Claim, price, usable};
use crate::digest::Direction;
use crate::flow::{Address, FlowKey};
use crate::observer::{CallNow, FlowKind, Observer};
use crate::policy::Policy;

/// A flow that was silent for longer makes no claim.
const ALIVE: Nanos = Nanos::from_secs(1);
/// The same for uploads: longer than the longest wait for an ACK ([`MAX_ACK_INTERVAL_S`]).
const ALIVE_UP: Nanos = Nanos::from_secs(5);
/// A call whose speakers send nothing while silent has ended after a longer silence: the pauses of conversations are exponential
/// with a mean of 1.6 s (ITU-T P.59), and one in a million is longer.
const PAUSE: Nanos = Nanos::from_secs(22);
/// A change of a call's delay that changes what it tolerates: 10 ms are 0.01 to 0.05 of MOS.
const DELAY_CHANGE: Nanos = Nanos::from_millis(10);
/// A full packet in bits.
pub(super) const PACKET_BITS: f64 = 8.0 * 1500.0;
/// A full segment in bits.
const SEGMENT_BITS: f64 = 8.0 * 1460.0;
/// Longest time in seconds that an upload is made to wait for an ACK: two doublings of the minimum retransmission timeout (RFC 6298 §2.4).
const MAX_ACK_INTERVAL_S: f64 = 4.0;
/// Decay of the ACK interval per second otherwise: slower, since each loss costs a retransmission.
const ACK_INTERVAL_DECAY: f64 = 0.02;

/// Calls began, ended, or have another path.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallsChange {
    /// Change of the load of all calls, in bits per second times price of elastic data with the same airtime.
    pub(super) load: f64,
    /// A call began.
    pub(super) came: bool,
    /// A call ended.
    pub(super) went: bool,
}

/// A call, its load when it began, and the price of its path.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCall {
    key: FlowKey,
    pub(super) load: f64,
    price: f64,
    /// Hops of its path; 0 if not known.
    hops: u8,
    seen: Nanos,
    /// Silence after which it has ended.
    ends_after: Nanos,
    /// The delay of its fastest packet that `tolerance` holds for.
    min_delay: Nanos,
    tolerance: Tolerance,
}

impl Adaptive {
    /// Lengthens the ACK interval of uploads while calls suffer at the minimum budget, and shortens it otherwise. At 1 s no
    /// sender repeats a segment needlessly (RFC 6298 §2.4); a longer interval takes effect once senders have raised their
    /// timeouts.
    pub(super) fn adjust_ack_interval(&mut self, seconds: f64, stress: &Stress) {
        let is_at_minimum = self.has_uploads && self.law.budget <= 1.02 * self.min_budget;
        let calls_suffer = is_at_minimum && !self.nodes.is_empty() && stress.level > 1.0
            || self.internet.suffers_at_minimum();
        let change = if calls_suffer { self.tuning.ack_interval_growth } else { -ACK_INTERVAL_DECAY };
        self.ack_interval_s = (self.ack_interval_s * (1.0 + change * seconds)).clamp(1.0, MAX_ACK_INTERVAL_S);
    }

    /// Collects the claims of the elastic flows that are alive; returns the budget that they use now, and what the mesh carries of
    /// it.
    pub(super) fn gather_claims(&mut self, now: Nanos, observer: &Observer, policy: &Policy) -> (f64, f64) {
        std::mem::swap(&mut self.claims, &mut self.claims_before);
        self.claims.clear();
        (self.new_flows, self.path_grew) = (0, false);
        (self.hops, self.base) = (0, Nanos::ZERO);
        (self.min_budget, self.has_uploads) = (0.0, false);
        self.internet.clear_flows();
        let (mut used, mut carried, mut bits, mut rates) = (0.0, 0.0, 0.0, 0.0);
        (self.interactive, self.interactive_price, self.sound) = (0.0, 1.0, 0.0);
        for flow in observer.elastic() {
            let alive = if flow.is_upload { ALIVE_UP } else { ALIVE };
            let sends = if flow.is_upload { Direction::FromMesh } else { Direction::ToMesh };
            if now.saturating_sub(flow.last) > alive || self.way.is_some_and(|way| way != sends) {
                continue;
            }
            let (key, rate) = (&flow.key, flow.rate);
            bits += flow.packet_bits * (rate + 1.0);
            rates += rate + 1.0;
            let price = self.price_over(flow.node_hops);
            used += rate * price;
            carried += flow.carried * price;
            if flow.kind == FlowKind::Interactive {
                self.interactive += rate * price;
                self.sound += flow.sound;
                self.interactive_price = self.interactive_price.max(price);
                continue;
            }
            self.new_flows += usize::from(now.saturating_sub(flow.began) < TICK);
            if let Some(base) = flow.base {
                (self.hops, self.base) = (self.hops.max(flow.hops), self.base.max(base));
            }
            if self.claims.len() < self.config.flows {
                let before = self.claims_before.binary_search_by_key(key, |claim| claim.key);
                self.path_grew |= before.is_ok_and(|place| self.claims_before[place].price < price);
                let treatment = policy.treatment(now, key);
                let granted = treatment.rate.or(treatment.ack_rate);
                let min_rate = if flow.is_upload {
                    SEGMENT_BITS / self.ack_interval_s
                } else {
                    self.config.min_per_flow / price
                };
                let demand = match granted {
                    _ if flow.is_held => f64::INFINITY,
                    Some(granted) if rate * self.tuning.demand_margin < granted.0 as f64 => {
                        (rate * self.tuning.demand_margin).max(granted.0 as f64 / 2.0).max(min_rate)
                    }
                    _ => f64::INFINITY,
                };
                self.claims.push(Claim { key: *key, price, demand, weight: self.weight_of(key.mesh) });
                if observer.is_remote(key.wired) {
                    self.internet.add_flow(flow.is_upload, rate, min_rate);
                }
                self.min_budget += min_rate * price;
                self.has_uploads |= flow.is_upload;
            }
        }
        self.packet_bits = if rates > 0.0 { bits / rates } else { PACKET_BITS };
        self.claims.sort_unstable_by_key(|claim| claim.key);
        // Where other regions bound all flows, the use of what they leave is the use of the budget.
        let usable = usable(&self.claims, &self.regions).unwrap_or(1.0);
        self.min_budget = (self.min_budget / usable).max(self.config.min_per_flow);
        (used / usable, carried / usable)
    }

    /// Collects the calls that are alive, summed by node. Returns what has changed since the last tick, if a call began, ended
    /// or has another path.
    pub(super) fn gather_calls(&mut self, now: Nanos, observer: &Observer) -> Option<CallsChange> {
        self.nodes.clear();
        self.least_up_delay = None;
        self.internet.clear_calls();
        self.cadences.clear();
        let before = self.calls.len();
        let mut came = false;
        let mut load = None;
        let mut tolerable: Option<Tolerance> = None;
        let mut slow = observer.calls(now, SLOW);
        self.has_bad_call = false;
        let tolerable_wired_delay = self.tolerable_wired_delay(observer);
        for call in observer.calls(now, FAST) {
            let slow = slow.next();
            self.follow_route(now, observer, &call);
            if observer.is_remote(call.key.wired) {
                self.internet.add_call(&call, slow.as_ref(), tolerable_wired_delay);
            }
            let up_delay = call.up.filter(|up| up.expected > 0).map(|up| up.delay);
            self.least_up_delay = self.least_up_delay.into_iter().chain(up_delay).min();
            let slow = slow.map(|slow| self.in_own_direction(slow));
            self.add_to_node(&self.in_own_direction(call), slow.as_ref());
            let mos = slow.as_ref().and_then(CallNow::mos_at_gateway);
            // The packets of the calls that a probe stands for are not predicted by its own.
            self.cadences.extend(call.cadence.filter(|_| !call.is_probe()));
            let hops = hops_to(observer, call.key.mesh);
            let price = self.price_over(hops);
            // A probe of a host with calls stands for them.
            let counts = !call.is_probe() || !self.has_call(call.key.mesh);
            let target = match self.calls.binary_search_by_key(&call.key, |known| known.key) {
                Ok(place) => {
                    let is_shown =
                        self.calls[place].min_delay.0.abs_diff(call.listening.min_delay.0) > DELAY_CHANGE.0;
                    if is_shown {
                        self.calls[place].tolerance = self.tolerance_of(&call);
                        self.calls[place].min_delay = call.listening.min_delay;
                    }
                    let known = &mut self.calls[place];
                    known.seen = now;
                    self.path_grew |= known.hops > 0 && hops > known.hops;
                    known.hops = hops;
                    if call.suppresses_silence {
                        known.ends_after = PAUSE;
                    }
                    if counts && tolerable.is_none_or(|min| known.tolerance.loss < min.loss) {
                        tolerable = Some(known.tolerance);
                    }
                    if known.price != price {
                        let longer = known.load * (price / known.price - 1.0);
                        (known.load, known.price) = (known.load + longer, price);
                        *load.get_or_insert(0.0) += longer;
                    }
                    known.tolerance.mos
                }
                Err(place) => {
                    let tolerance = self.tolerance_of(&call);
                    let of_call = self.load_of(&call) * price;
                    let known = KnownCall {
                        key: call.key,
                        load: of_call,
                        price,
                        hops,
                        seen: now,
                        ends_after: Nanos::ZERO,
                        min_delay: call.listening.min_delay,
                        tolerance,
                    };
                    self.calls.insert(place, known);
                    *load.get_or_insert(0.0) += of_call;
                    came = true;
                    tolerance.mos
                }
            };
            // A second has fewer packets of a probe than of a call, so that one lost packet of it says little about the second.
            let is_bad = mos.is_some_and(|mos| mos < target) && !call.is_probe();
            self.has_bad_call |= is_bad && !self.routes.interrupts(call.key.mesh);
        }
        if let Some(tolerable) = tolerable.filter(|tolerable| *tolerable != self.tolerable) {
            self.tolerance *= tolerable.loss / self.tolerable.loss;
            self.tolerable = tolerable;
        }
        self.calls.retain(|known| {
            let goes_on = now.saturating_sub(known.seen) <= known.ends_after;
            if !goes_on {
                *load.get_or_insert(0.0) -= known.load;
            }
            goes_on
        });
        load.map(|load| CallsChange { load, came, went: self.calls.len() < before })
    }

    /// Whether a call to that node is known, other than a probe.
    fn has_call(&self, mesh: Address) -> bool {
        let first = self.calls.partition_point(|known| known.key.mesh < mesh);
        let mut of_node = self.calls[first..].iter().take_while(|known| known.key.mesh == mesh);
        of_node.any(|known| !known.key.is_of_probe())
    }

    fn tolerance_of(&self, call: &CallNow) -> Tolerance {
        /// A probe stands for calls with packets of 20 ms, which are the usual ones.
        const USUAL: Nanos = Nanos::from_millis(20);
        let interval = if call.is_probe() { USUAL } else { call.interval };
        let of_codec = Tolerance::of(call.codec, interval, self.config.mos, call.listening);
        Tolerance { loss: self.config.loss_or_late.unwrap_or(of_codec.loss), ..of_codec }
    }

    /// The price of data over that many hops: the highest one if they are not known.
    fn price_over(&self, hops: u8) -> f64 {
        price(if hops == 0 { u8::MAX } else { hops }, self.config.shared_links)
    }

    /// The load of a call on one hop in bits per second, counting the overhead of its packets as bytes.
    fn load_of(&self, call: &CallNow) -> f64 {
        let bits = 8.0 * (call.packet_bytes + f64::from(self.config.packet_overhead));
        let of_way = if self.way.is_some() { 0.5 } else { 1.0 };
        of_way * call.packets_per_second * bits
    }
}

/// Hops to a mesh node; 0 if they are not known.
fn hops_to(observer: &Observer, mesh: Address) -> u8 {
    observer.node(mesh).map_or(0, |node| node.hops)
}
