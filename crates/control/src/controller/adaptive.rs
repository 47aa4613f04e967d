//! The adaptive controller: finds, while it runs, how much elastic traffic the mesh carries without harm to calls.
//!
//! **The budget** is the one number that is sought: bits a second times price (see [`crate::allocate`]) for all elastic
//! flows together. No capacity is configured. It is split by shares of C-load and enforced by window, pacing or both.
//!
//! **The signals.** A call is a probe of 50 packets a second each way. Every tick, over all calls that end at one node
//! together (they take one path, and one call alone gives too few packets), the worst node counts:
//! *unheard*, the fraction lost or late, of the way out of the mesh as seen and of the way in as listeners report it;
//! *delay* over the fastest packet; and, where TCP passes, the *excess* of its round trips through the mesh over their base.
//! Each is set against what is tolerable, and the largest quotient is the stress: 1 is the point at which to stay.
//!
//! **The law.** The logarithm of the budget moves at a speed of g · (1 − stress): it rises while nothing is wrong, falls the
//! faster the worse it is, and rests where the stress is 1 on average. The speed is such that every packet that is lost
//! takes the same part of the budget ([`DROP`]): the more calls tell, the faster. The tolerable part of unheard packets
//! follows from the aim: with independent losses, 50 packets a second hold two or more, which is a MOS under 3.6 for
//! G.729A, in 2.5 % of the seconds if 0.5 % are lost. Seconds go bad by the square of that, so the two directions add as
//! squares do. Where few packets tell of the point, it is approached less closely ([`ENOUGH`]).
//!
//! Past a point a mesh breaks down within less than a second, for which the law is too slow. So a stress that is *acute*
//! (several packets of 300 ms, or delays near the playout delay) cuts the budget at once by a third, and for a moment more,
//! so that queues drain. The budget at which that happened is remembered as the *ceiling*: the budget returns to just
//! under it fast, stays, and tries to go past it only after a hold that doubles with every try that fails, and is short
//! again after one that succeeds. A try has succeeded when what it reached has held for as long as a breakdown takes to
//! come, and has failed at the first queue. So trouble of its own making becomes rare, and a world that has become wider is
//! found.
//!
//! **Queues.** Where round trips grow, more is let in than the mesh carries, and what it carries is known: it is what is
//! used. The budget comes down to that, and what is asked for lies under it the more the longer the queue is, which keeps
//! the two from swinging; and the most that was used of late is a ceiling. A budget that is not used does not grow, and
//! comes down to what is carried while the mesh loses data, but not far under the point to stay at: who recovers from a
//! loss will use it again.
//!
//! **Uploads** obey late. Each ACK lets a window go, so where one segment fills the path as long as its ACK takes, they
//! have a window of one; and they get an ACK a second each, whatever the budget is, since they repeat what is not
//! acknowledged in time, and more seldom only where calls suffer from that. The first stress leaves less of the budget
//! the fewer packets of calls tell of it.
//!
//! **In step with the calls.** On three hops and more, data sets out at the moments of a [`Gate`], right after packets of
//! calls have come, so that the two meet less often.
//!
//! **States.** *Learning*: doubles every second until the first stress that is no chance. *Steady*: the law. *Protecting*:
//! after a cut, until its effect can be seen; if calls are still bad, it cuts again. *Starved*: the budget was cut to a small
//! part and calls did not become better: so it is given back, and calls are asked again after a while. *Off*: nobody to
//! control; who comes next is still asked to begin slowly, since a window that comes late has no effect.
//!
//! **Without calls** the excess of round trips alone makes the stress, so that queues are short and no more is sent than
//! comes through.
//!
//! **Changes.** What calls and flows bore says less about others. A call that comes gets its airtime at once; besides, for some
//! seconds less of the budget is asked for, the less the more of the calls are new. The same where many flows come at once
//! or a path has more hops. Flows that were only silent for a while, as after a loss, find what has been learnt.
//!
//! **Noise.** Calls lose packets without any TCP, too. What less TCP does not help against is taken for the mesh's own
//! ([`Noise`]), and tolerated for the next minute beside half of what is tolerable. It takes a top to compare with: noise
//! near the tolerable from the very start is taken for harm.
//!
//! Left out: demands of flows that share none but other regions than the gateway's, and weights.

use fairhop_model::units::{BitRate, Nanos};

use super::TICK;
use super::noise::Noise;
use crate::allocate::{Claim, price, split};
use crate::digest::Direction;
use crate::flow::{Address, FlowKey};
use crate::gate::{Gate, Needs};
use crate::observer::{CallNow, Flow, FlowBody, FlowKind, Observer, Quality, RoundTrip, TcpFlow};
use crate::policy::{FlowPolicy, Means, Policy, Reason, State, Treatment};

/// What is tolerable and how fast to move. None of it says what the network carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveConfig {
    /// Fraction of a call's packets that may be lost or late in the long run.
    pub unheard: f64,
    /// Mean delay of call packets over the fastest that is tolerable.
    pub delay: Nanos,
    /// Excess of TCP's round trips through the mesh that is tolerable where there are calls.
    pub excess: Nanos,
    /// The same where there is none.
    pub excess_alone: Nanos,
    /// Budget to begin with, in bits a second times price.
    pub first_budget: f64,
    /// The budget never falls under this for each flow whose data goes into the mesh: bits a second times price.
    pub least_per_flow: f64,
    /// MOS that a call should have.
    pub mos: f64,
    /// How many hops share the air ([`fairhop_model::airtime::shared_links`]).
    pub shared_links: u32,
    /// What a packet costs beside its bytes, in bytes: for the airtime of a call that begins. 802.11a at 12 Mb/s takes as
    /// long for headers, gaps and ACK as for 200 bytes.
    pub packet_overhead: u32,
    /// Most flows that are treated one by one.
    pub flows: usize,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            unheard: 0.005,
            delay: Nanos::from_millis(20),
            excess: Nanos::from_millis(12),
            excess_alone: Nanos::from_millis(40),
            first_budget: 1e6,
            least_per_flow: 5_000.0,
            mos: 3.6,
            shared_links: 4,
            packet_overhead: 200,
            flows: 256,
        }
    }
}

/// Spans over which calls are looked at.
const FAST: Nanos = Nanos::from_millis(300);
const SLOW: Nanos = Nanos::from_millis(1000);

/// Speeds of the law, a second.
const LEARNING_SPEED: f64 = core::f64::consts::LN_2;
/// What is left of the budget at the first stress, which is felt late.
const LEARNT: f64 = 0.6;
const RETURN_SPEED: f64 = 0.25;
const SPEED: f64 = 0.06;
const PROBE_SPEED: f64 = 0.03;
/// The law's greatest downward quotient.
const STRESS_MOST: f64 = 8.0;

/// Fraction unheard over the fast span that is acute, where no noise is tolerated; with noise, chance makes more.
const ACUTE: f64 = 0.08;
const ACUTE_PACKETS: f64 = 3.0;
/// Call packets a second from which on the point can be kept well.
const ENOUGH: f64 = 150.0;
/// Call packets a second from which on losses come together: six calls.
const MANY: f64 = 300.0;
/// What part of the budget has to be used before it grows.
const USED: f64 = 0.85;
/// What a lost packet takes of the budget.
const DROP: f64 = 0.03;
/// By how much less than the budget is asked for where the queue is as long as tolerable.
const DAMPING: f64 = 0.04;

/// What a cut leaves of the budget, what another one right after it, and what of that while queues drain.
const CUT: f64 = 0.65;
const CUT_AGAIN: f64 = 0.5;
const DRAIN: f64 = 0.35;
const DRAIN_TIME: Nanos = Nanos::from_millis(250);
/// What is asked for of the budget where all calls or flows are new, or a path is longer, for so long at least.
const CAREFUL: f64 = 0.7;
const CAREFUL_TIME: Nanos = Nanos::from_secs(3);
/// Time after a cut before its effect is judged: what is in the mesh has left, and the fast span is clean.
const SETTLE: Nanos = Nanos::from_millis(500);
const SETTLE_MOST: Nanos = Nanos::from_secs(2);

/// Where under the ceiling to stay.
const UNDER_CEILING: f64 = 0.93;
/// Packets that would have been lost, after which it is sure that this is not the point to stay at.
const SURE: f64 = 1.5;
const HOLD_LEAST: Nanos = Nanos::from_secs(10);
const HOLD_MOST: Nanos = Nanos::from_secs(60);
/// Seconds that a probe goes on slowly, and by how many a breakdown follows what causes it.
const PROBE_CALM: f64 = 3.0;
const BREAKDOWN_AFTER: f64 = 2.0;
/// What part of the point to stay at a budget that is not used keeps: that much is known to be carried.
const KNOWN: f64 = 0.75;
/// Seconds over which it is remembered what the mesh has carried.
const CARRIED_FOR: f64 = 4.0;
/// Cuts before that are for what was sent when there was no control yet, and nothing is learnt from them.
const FIRST: Nanos = Nanos::from_millis(1500);
/// How long an end keeps the ACK of a single segment back (most take less; RFC 1122 §4.2.3.2 allows more).
const DELAYED_ACK: Nanos = Nanos::from_millis(200);

/// Cut to this part of what it was when trouble began, for so long, without calls becoming better, TCP is not the cause.
const STARVED_AT: f64 = 0.3;
const STARVED_AFTER: Nanos = Nanos::from_secs(3);
const TROUBLE_OVER: Nanos = Nanos::from_secs(2);
const STARVED_FOR: Nanos = Nanos::from_secs(12);

/// What is wrong now.
#[derive(Clone, Copy, Debug)]
struct Stress {
    /// 1 is what is tolerable.
    level: f64,
    /// The same with the benefit of the doubt: a deviation off the count of unheard packets.
    sure: f64,
    /// Fraction of call packets unheard over the slow span, both directions together, worst node.
    mean_unheard: f64,
    /// Call packets a second of that node.
    packets: f64,
    /// What round trips and delays make of it.
    queue: f64,
    /// By how much round trips are over their base.
    excess: Nanos,
    acute: bool,
    /// Fraction of call packets unheard over the slow span, worst node.
    unheard: f64,
    /// A call is under the MOS that it should have over the slow span.
    bad_call: bool,
    reason: Reason,
}

/// Sums over the calls that end at one node.
#[derive(Clone, Copy, Debug)]
struct Node {
    address: Address,
    /// Expected and unheard packets, and delay by packets in seconds: into the mesh, out of it.
    fast: [Sum; 2],
    slow: [Sum; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    expected: f64,
    unheard: f64,
    /// By packets of all, told or inferred.
    weight: f64,
    delay: f64,
}

impl Sum {
    fn add(&mut self, quality: &Quality, told: bool) {
        let expected = f64::from(quality.expected.max(1));
        if told {
            self.expected += expected;
            self.unheard += expected * (quality.loss + quality.late).min(1.0);
        }
        self.weight += expected;
        self.delay += expected * quality.delay.as_secs_f64();
    }

    fn mean_delay(&self) -> f64 {
        if self.weight > 0.0 { self.delay / self.weight } else { 0.0 }
    }

    fn part(&self, of: f64) -> f64 {
        if self.expected > 0.0 { of / self.expected } else { 0.0 }
    }
}

/// Calls that are bad, and what has been tried.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// The budget when it began.
    budget: f64,
    /// What was unheard with the budget not much under that, and with a small part of it.
    before: Mean,
    after: Mean,
    /// Since when the budget has been a small part.
    small_since: Option<Nanos>,
    /// When a call was last bad.
    last_bad: Nanos,
}

/// A mean.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }
}

/// Calls came, went, or have another path.
#[derive(Clone, Copy, Debug)]
struct CallsChange {
    /// By how much the load of all has changed, in bits a second times price, as data of elastic flows would have it.
    load: f64,
    came: bool,
    went: bool,
}

/// A call that is known, and its load as it was when it came, at the price of its path.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: FlowKey,
    load: f64,
    price: f64,
    seen: bool,
}

/// The controller's memory.
#[derive(Debug)]
pub(super) struct Adaptive {
    config: AdaptiveConfig,
    state: State,
    reason: Reason,
    budget: f64,
    ceiling: f64,
    /// Since when the ceiling is what it is, and for how long it is not questioned.
    ceiling_at: Nanos,
    hold: Nanos,
    probing: Option<Nanos>,
    cut_at: Nanos,
    /// How long after it its effect is judged.
    settle: Nanos,
    drain_until: Nanos,
    trouble: Option<Trouble>,
    starved_until: Nanos,
    /// When the stress was last over a half.
    stressed_at: Nanos,
    /// The budget at which stress began has been seen.
    learnt: bool,
    /// When there began to be elastic flows, and when there were none any more.
    began: Nanos,
    rests_since: Nanos,
    /// What is used of the budget.
    used: f64,
    /// The most that was used of late, which the mesh has carried.
    carried: f64,
    /// The most hops to an elastic flow's end, and the longest round trip there that nothing delays.
    hops: u8,
    base: Nanos,
    /// What the mesh has lost of TCP's data, and when it last lost some.
    lost: u64,
    lost_at: Nanos,
    /// Fraction unheard that is tolerated now, and since when more than configured.
    tolerance: f64,
    tolerant_since: Nanos,
    /// What calls lose whatever TCP does.
    noise: Noise,
    /// By how much windows are wider than round trips say.
    slack: f64,
    calls: Vec<Known>,
    /// Interval and phase of what calls send out of the mesh.
    cadences: Vec<(Nanos, Nanos)>,
    arrivals: Vec<Nanos>,
    nodes: Vec<Node>,
    claims: Vec<Claim>,
    /// The claims of the last tick; how many flows have come since, and whether the path of one has grown longer.
    claims_before: Vec<Claim>,
    joined: usize,
    longer: bool,
    /// When it was last given way for that, or for a call, and what is asked for of the budget since.
    gave_way_at: Nanos,
    care: f64,
    /// What the budget never falls under.
    least: f64,
    /// Somebody sends data out of the mesh.
    uploads: bool,
    /// Seconds that an upload may wait for an ACK.
    patience: f64,
    last: Option<Nanos>,
}

impl Adaptive {
    pub(super) fn new(config: AdaptiveConfig) -> Self {
        Self {
            config,
            state: State::Off,
            reason: Reason::NoElasticTraffic,
            budget: config.first_budget,
            ceiling: f64::INFINITY,
            ceiling_at: Nanos::ZERO,
            hold: HOLD_LEAST,
            probing: None,
            cut_at: Nanos::ZERO,
            settle: SETTLE,
            drain_until: Nanos::ZERO,
            trouble: None,
            starved_until: Nanos::ZERO,
            stressed_at: Nanos::ZERO,
            learnt: false,
            began: Nanos::ZERO,
            rests_since: Nanos::ZERO,
            used: 0.0,
            carried: 0.0,
            hops: 0,
            base: Nanos::ZERO,
            lost: 0,
            lost_at: Nanos::ZERO,
            tolerance: config.unheard,
            tolerant_since: Nanos::ZERO,
            noise: Noise::default(),
            slack: 1.0,
            calls: Vec::new(),
            cadences: Vec::new(),
            arrivals: Vec::new(),
            nodes: Vec::new(),
            claims: Vec::with_capacity(config.flows),
            claims_before: Vec::with_capacity(config.flows),
            joined: 0,
            longer: false,
            gave_way_at: Nanos::ZERO,
            care: 1.0,
            least: config.least_per_flow,
            uploads: false,
            patience: 1.0,
            last: None,
        }
    }

    /// Bits a second times price, for all elastic flows together.
    pub(super) const fn budget(&self) -> f64 {
        self.budget
    }

    pub(super) fn tick(&mut self, now: Nanos, observer: &Observer, policy: &mut Policy) {
        let seconds = self.last.map_or(TICK, |last| now.saturating_sub(last)).as_secs_f64().min(1.0);
        self.last = Some(now);
        let used = self.gather_claims(now, observer, policy);
        let used = self.smoothed(used, seconds);
        self.carried = used.max(self.carried * (1.0 - seconds / CARRIED_FOR));
        let change = self.gather_calls(now, observer);
        let stress = self.stress(now, observer);
        let lost = observer.totals().lost_in_mesh;
        if lost != std::mem::replace(&mut self.lost, lost) {
            self.lost_at = now;
        }
        if stress.level > 0.5 {
            self.stressed_at = now;
        }
        self.learn_noise(now, seconds, &stress);
        self.fit_windows(seconds, used, &stress);

        if self.claims.is_empty() {
            self.rest(now, change);
        } else {
            if self.state == State::Off {
                self.resume(now);
            }
            if let Some(change) = change {
                self.on_calls_changed(now, change);
            }
            self.on_burden_grown(now);
            if now.saturating_sub(self.gave_way_at) > CAREFUL_TIME && stress.level < 1.0 {
                self.care = (self.care * (1.0 + seconds * RETURN_SPEED)).min(1.0);
            }
            self.decide(now, seconds, used, &stress);
        }
        self.have_patience(seconds, &stress);
        self.budget = self.budget.max(self.least);
        self.ceiling = self.ceiling.max(self.least);
        self.write(now, observer, &stress, policy);
    }

    /// An upload waits for the ACK of a segment no longer than a second, after which its sender repeats it (RFC 6298 §2.4):
    /// that would load the mesh as much, for nothing. Where calls suffer even so, it waits longer: its sender learns to.
    fn have_patience(&mut self, seconds: f64, stress: &Stress) {
        const LONGER: f64 = 0.25;
        const SHORTER: f64 = 0.02;
        const MOST: f64 = 4.0;
        let is_least = self.uploads && self.budget <= 1.02 * self.least;
        let change = if is_least && !self.nodes.is_empty() && stress.level > 1.0 { LONGER } else { -SHORTER };
        self.patience = (self.patience * (1.0 + change * seconds)).clamp(1.0, MOST);
    }

    /// What is used, over as long as ten packets take at the budget: half a second, for which it is measured, may hold one.
    fn smoothed(&mut self, used: f64, seconds: f64) -> f64 {
        const BITS: f64 = 8.0 * 15_000.0;
        const LONGEST: f64 = 4.0;
        let price = f64::from(self.config.shared_links.max(1));
        let over = (BITS * price / self.budget.max(1.0)).min(LONGEST);
        let rests = over > seconds && self.state != State::Learning;
        self.used += (used - self.used) * if rests { seconds / over } else { 1.0 };
        self.used
    }

    /// Nobody to control. What has been learnt stays, as long as calls are the same.
    fn rest(&mut self, now: Nanos, change: Option<CallsChange>) {
        if self.state != State::Off {
            self.rests_since = now;
        }
        self.learnt &= change.is_none();
        self.enter(State::Off, Reason::NoElasticTraffic);
    }

    /// Somebody to control again. Who was only silent, after a loss perhaps, finds what has been learnt.
    fn resume(&mut self, now: Nanos) {
        const REMEMBERED: Nanos = Nanos::from_secs(60);
        if self.learnt && now.saturating_sub(self.rests_since) < REMEMBERED {
            self.enter(State::Steady, Reason::Hold);
        } else {
            self.began = now;
            self.learnt = false;
            self.enter(State::Learning, Reason::RoomToGrow);
        }
    }

    fn enter(&mut self, state: State, reason: Reason) {
        self.state = state;
        self.reason = reason;
    }

    /// Elastic flows that are alive, as claims; returns the budget that they use now.
    fn gather_claims(&mut self, now: Nanos, observer: &Observer, policy: &Policy) -> f64 {
        const ALIVE: Nanos = Nanos::from_secs(1);
        /// Uploads whose ACKs are late send that seldom: no less than they are made to wait.
        const ALIVE_UP: Nanos = Nanos::from_secs(5);
        const SEGMENT: f64 = 8.0 * 1460.0;
        std::mem::swap(&mut self.claims, &mut self.claims_before);
        self.claims.clear();
        (self.joined, self.longer) = (0, false);
        (self.hops, self.base) = (0, Nanos::ZERO);
        (self.least, self.uploads) = (0.0, false);
        let mut used = 0.0;
        let fresh = observer.active(now.saturating_sub(ALIVE)).count();
        for (place, (key, flow)) in observer.active(now.saturating_sub(ALIVE_UP)).enumerate() {
            let uploads = is_upload(flow);
            if place >= fresh && !uploads {
                continue;
            }
            let Some(rate) = elastic_rate(now, flow) else { continue };
            self.joined += usize::from(now.saturating_sub(flow.began) < TICK);
            if let FlowBody::Tcp(tcp) = &flow.body
                && let Some(base) = tcp.mesh_rtt.base()
            {
                (self.hops, self.base) = (self.hops.max(flow.hops), self.base.max(base));
            }
            let price = price(if flow.hops == 0 { u8::MAX } else { flow.hops }, self.config.shared_links);
            let before = self.claims_before.binary_search_by_key(key, |claim| claim.key);
            self.longer |= before.is_ok_and(|place| self.claims_before[place].price < price);
            used += rate * price;
            if self.claims.len() < self.config.flows {
                let treatment = policy.treatment(now, key);
                let granted = treatment.rate.or(treatment.ack_rate);
                // Who does not use two thirds of what he has, hands some of it on: half as much again as he uses stays his, and as
                // much as nobody falls under, since who sends a segment a second sends nothing most of the time.
                let least =
                    if uploads { SEGMENT / self.patience } else { self.config.least_per_flow / price };
                let demand = match granted {
                    Some(granted) if rate * 1.5 < granted.0 as f64 => {
                        (rate * 1.5).max(granted.0 as f64 / 2.0).max(least)
                    }
                    _ => f64::INFINITY,
                };
                self.claims.push(Claim { key: *key, price, demand });
                self.least += least * price;
                self.uploads |= uploads;
            }
        }
        self.claims.sort_unstable_by_key(|claim| claim.key);
        self.least = self.least.max(self.config.least_per_flow);
        used
    }

    /// Calls that are alive, summed by node; returns what changed since the last tick, if calls came or went or have another
    /// path.
    fn gather_calls(&mut self, now: Nanos, observer: &Observer) -> Option<CallsChange> {
        self.nodes.clear();
        self.cadences.clear();
        for known in &mut self.calls {
            known.seen = false;
        }
        let before = self.calls.len();
        let mut came = false;
        let mut load = None;
        let mut slow = observer.calls(now, SLOW);
        for call in observer.calls(now, FAST) {
            self.add_to_node(&call, slow.next().as_ref());
            self.cadences.extend(call.cadence);
            let hops = observer.flow(&call.key).map_or(u8::MAX, |flow| flow.hops.max(1));
            let price = price(hops, self.config.shared_links);
            match self.calls.iter_mut().find(|known| known.key == call.key) {
                Some(known) => {
                    known.seen = true;
                    if known.price != price {
                        let longer = known.load * (price / known.price - 1.0);
                        (known.load, known.price) = (known.load + longer, price);
                        *load.get_or_insert(0.0) += longer;
                    }
                }
                None => {
                    let of_call = self.load_of(&call) * price;
                    self.calls.push(Known { key: call.key, load: of_call, price, seen: true });
                    *load.get_or_insert(0.0) += of_call;
                    came = true;
                }
            }
        }
        self.calls.retain(|known| {
            if !known.seen {
                *load.get_or_insert(0.0) -= known.load;
            }
            known.seen
        });
        load.map(|load| CallsChange { load, came, went: self.calls.len() < before })
    }

    fn add_to_node(&mut self, fast: &CallNow, slow: Option<&CallNow>) {
        let address = fast.key.mesh;
        let place = self.nodes.iter().position(|node| node.address == address).unwrap_or_else(|| {
            self.nodes.push(Node { address, fast: <_>::default(), slow: <_>::default() });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[place];
        for (sums, call) in [(&mut node.fast, Some(fast)), (&mut node.slow, slow)] {
            let both = call.map_or([None, None], |call| [call.down, call.up]);
            // What is inferred of the way down says nothing that the way up has not said, but of its delay.
            let told = [call.is_some_and(|call| call.down_is_reported), true];
            for ((sum, quality), told) in sums.iter_mut().zip(both).zip(told) {
                if let Some(quality) = quality {
                    sum.add(&quality, told);
                }
            }
        }
    }

    /// What a call takes on one hop, as elastic data would: its bytes and what its packets cost beside.
    fn load_of(&self, call: &CallNow) -> f64 {
        const VOICE_BYTES: u32 = 60;
        let bits = f64::from(8 * (VOICE_BYTES + self.config.packet_overhead));
        call.packets_per_second * bits
    }

    fn stress(&self, now: Nanos, observer: &Observer) -> Stress {
        let config = &self.config;
        let mut stress = Stress {
            level: 0.0,
            sure: 0.0,
            mean_unheard: 0.0,
            packets: 0.0,
            queue: 0.0,
            excess: Nanos::ZERO,
            acute: false,
            unheard: 0.0,
            bad_call: false,
            reason: Reason::RoomToGrow,
        };
        let mut queue = 0.0_f64;
        let mut packets = 0.0_f64;
        let mut raise = |level: f64, sure: f64, reason: Reason| {
            stress.sure = stress.sure.max(sure);
            if level > stress.level {
                (stress.level, stress.reason) = (level, reason);
            }
        };
        let ignores_calls = self.state == State::Starved;
        let playout = observer.listening().playout.as_secs_f64();
        let (mut acute, mut worst, mut mean) = (false, 0.0_f64, 0.0_f64);
        for node in &self.nodes {
            let told = node.slow.iter().map(|slow| slow.expected).fold(0.0, f64::max);
            // Seconds are bad for two packets and more, by the square of what each direction misses.
            let (mut both, mut surely) = (0.0, 0.0);
            for (fast, slow) in node.fast.iter().zip(&node.slow) {
                let (unheard, delay) = (slow.part(slow.unheard), fast.mean_delay());
                let at_once = fast.part(fast.unheard);
                worst = worst.max(unheard);
                let sure = slow.part((slow.unheard - libm::sqrt(slow.unheard)).max(0.0));
                (both, surely) = (libm::hypot(both, unheard), libm::hypot(surely, sure));
                if !ignores_calls {
                    let level = delay / config.delay.as_secs_f64();
                    let reason = Reason::CallSuffers {
                        unheard: unheard.max(at_once),
                        delay: Nanos::from_secs_f64(delay),
                    };
                    raise(level, level, reason);
                    queue = queue.max(level);
                    let many = ACUTE * (self.tolerance / config.unheard).sqrt();
                    acute |= (fast.unheard >= ACUTE_PACKETS && at_once >= many) || delay > 0.8 * playout;
                }
            }
            if both >= mean {
                (mean, packets) = (both, told / SLOW.as_secs_f64());
            }
            if !ignores_calls && told > 0.0 {
                let reason = Reason::CallSuffers { unheard: both, delay: Nanos::ZERO };
                // The fewer packets tell of the point, the farther from it; and of many calls, which queue behind each other,
                // what is lost comes together.
                let crowd = (MANY / told).clamp(0.5, 1.0);
                let tolerance = self.tolerance * known(told) * crowd;
                raise(both / tolerance, surely / tolerance, reason);
            }
        }
        let has_calls = !self.nodes.is_empty() && !ignores_calls;
        // On a path of many hops packets of calls alone make round trips vary by as much as they take.
        let tolerable = if has_calls { config.excess } else { config.excess_alone };
        let tolerable = tolerable.saturating_add(Nanos(2 * self.base.0));
        if let Some(excess) = observer.mesh_excess(now, None) {
            let level = excess.as_secs_f64() / tolerable.as_secs_f64().max(1e-3);
            raise(level, level, Reason::QueueGrows { excess });
            queue = queue.max(level);
            stress.excess = excess;
            acute |= has_calls && level > 3.0;
        }
        (stress.queue, stress.packets) = (queue, packets);
        stress.acute = acute;
        stress.unheard = worst;
        stress.mean_unheard = mean;
        stress.bad_call =
            observer.calls(now, SLOW).any(|call| call.mos().is_some_and(|mos| mos < config.mos));
        stress
    }

    /// Raises the tolerance where less TCP has not made calls lose less. See the module's head.
    fn learn_noise(&mut self, now: Nanos, seconds: f64, stress: &Stress) {
        const MEMORY: Nanos = Nanos::from_secs(60);
        // With as many unheard each way one second in ten is bad: not much more is noise that calls bear.
        const MOST: f64 = 0.0075;
        if now.saturating_sub(self.tolerant_since) > MEMORY {
            self.tolerance = self.config.unheard;
        }
        if self.nodes.is_empty() || stress.acute || self.state != State::Steady {
            return;
        }
        let told = (stress.mean_unheard, stress.packets.max(1.0));
        if let Some((noise, top)) = self.noise.tell(self.budget, seconds, told, self.tolerance) {
            let tolerance = noise + 0.5 * self.config.unheard;
            self.tolerance = tolerance.min(MOST).max(self.config.unheard);
            self.tolerant_since = now;
            self.budget = 0.85 * top;
            self.ceiling = self.ceiling.max(self.budget);
        }
    }

    /// A call came: it gets its airtime before it asks for it by suffering. A call went: the ceiling is that much higher.
    fn on_calls_changed(&mut self, now: Nanos, change: CallsChange) {
        let CallsChange { load, came, went } = change;
        self.ceiling = (self.ceiling - load).max(self.config.first_budget / 10.0);
        if load > 0.0 && self.state != State::Starved {
            let before = self.budget;
            let mut part = load / self.calls.iter().map(|known| known.load).sum::<f64>();
            if part > 0.99 {
                // What was learnt without calls is no measure for what they bear.
                self.ceiling = f64::INFINITY;
                self.budget *= CAREFUL;
                part = 0.0;
            }
            self.budget = (self.budget - load).max(before / 4.0);
            let reason = if came { Reason::CallStarted } else { Reason::PathLonger };
            self.give_way(now, part, reason);
        } else if load < 0.0 {
            self.hold = HOLD_LEAST;
            self.noise.forget(self.budget);
            if self.calls.is_empty() {
                // What calls bore is no measure for a mesh without them.
                self.ceiling = f64::INFINITY;
            }
            if went && self.state == State::Steady {
                self.reason = Reason::CallEnded;
            }
        }
    }

    /// Many flows came at once, or a path grew longer: what calls were seen to bear is less now.
    fn on_burden_grown(&mut self, now: Nanos) {
        const MANY: usize = 4;
        let part = self.joined as f64 / self.claims.len() as f64;
        let (part, reason) = if self.longer {
            (1.0, Reason::PathLonger)
        } else if self.joined >= MANY && part > 0.25 {
            (part, Reason::FlowsCame)
        } else {
            return;
        };
        let calm = now.saturating_sub(self.gave_way_at) > HOLD_LEAST;
        if calm && self.learnt && !self.nodes.is_empty() && self.state != State::Starved {
            self.give_way(now, part, reason);
        }
    }

    /// Asks for less of the budget before anybody suffers, where this part of calls or flows is new: what the others bore says
    /// less then. Waits for its effect.
    fn give_way(&mut self, now: Nanos, part: f64, reason: Reason) {
        self.care = self.care.min(libm::pow(CAREFUL, part));
        self.gave_way_at = now;
        self.noise.forget(self.budget);
        self.drain_until = now.saturating_add(DRAIN_TIME);
        (self.cut_at, self.settle) = (now, SETTLE);
        self.enter(State::Protecting, reason);
    }

    fn decide(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        if self.state != State::Starved && self.follow_trouble(now, stress) {
            if let Some(trouble) = self.trouble {
                self.budget = trouble.budget;
            }
            self.starved_until = now.saturating_add(STARVED_FOR);
            self.enter(State::Starved, Reason::TcpIsNotTheCause);
            return;
        }
        match self.state {
            State::Starved => self.starve(now, seconds, stress),
            State::Protecting if now.saturating_sub(self.cut_at) < self.settle => {}
            State::Protecting => {
                if stress.acute {
                    self.cut(now, stress);
                } else if self.learnt {
                    self.enter(State::Steady, Reason::Hold);
                } else {
                    self.enter(State::Learning, Reason::RoomToGrow);
                }
            }
            _ if stress.acute => self.cut(now, stress),
            State::Learning => {
                // The slow span still has what was before a cut.
                if stress.sure > 1.0 && now.saturating_sub(self.cut_at) > SLOW {
                    self.ceiling =
                        if stress.queue > 1.0 { self.budget.min(self.carried) } else { self.budget };
                    (self.ceiling_at, self.hold) = (now, HOLD_LEAST);
                    self.budget *= LEARNT;
                    // Uploads obey late, and few packets of calls tell late.
                    if self.uploads && !self.nodes.is_empty() {
                        self.budget *= known(stress.packets);
                    }
                    self.learnt = true;
                    self.enter(State::Steady, stress.reason);
                } else if used > 0.7 * self.budget {
                    self.grow(seconds * LEARNING_SPEED);
                    self.reason = Reason::RoomToGrow;
                } else {
                    self.reason = Reason::NotUsed;
                    self.fit_to_use(now, seconds, used, stress);
                }
            }
            _ => self.move_by_law(now, seconds, used, stress),
        }
    }

    /// A budget that is not used holds nothing back. That does no harm while nobody has more to send; where the mesh loses
    /// data or queues grow all the same, it comes down to what is carried.
    fn fit_to_use(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        const WITHIN: f64 = 2.0;
        const LATELY: Nanos = Nanos::from_secs(1);
        if stress.queue > 0.5 || now.saturating_sub(self.lost_at) < LATELY {
            let known = if self.ceiling.is_finite() { KNOWN * UNDER_CEILING * self.ceiling } else { 0.0 };
            let over = self.budget - (used / USED).max(known);
            self.budget -= over.max(0.0) * seconds / WITHIN;
        }
    }

    /// Where a queue grows, the budget is over what the mesh carries, which is what is used.
    fn fit_to_queue(&mut self, seconds: f64, used: f64, stress: &Stress) {
        const WITHIN: f64 = 0.5;
        const LESS: f64 = 0.05;
        if stress.queue > 1.0 && used > 0.4 * self.budget {
            let carried = used * (1.0 - LESS * (stress.queue.min(3.0) - 1.0));
            self.ceiling = self.ceiling.min(self.carried);
            self.budget -= (self.budget - carried).max(0.0) * (seconds / WITHIN).min(1.0);
        }
    }

    /// How fast the law moves: so that each packet that is lost takes the same part of the budget.
    fn speed(&self, stress: &Stress) -> f64 {
        if self.nodes.is_empty() {
            return SPEED;
        }
        (DROP * self.tolerance * stress.packets).clamp(SPEED / 4.0, 2.0 * SPEED)
    }

    fn grow(&mut self, by: f64) {
        self.budget *= 1.0 + by;
    }

    fn move_by_law(&mut self, now: Nanos, seconds: f64, used: f64, stress: &Stress) {
        self.fit_to_queue(seconds, used, stress);
        let speed = self.speed(stress);
        let pull = 1.0 - stress.level.min(STRESS_MOST);
        if pull < 0.0 {
            self.grow(seconds * speed * pull);
            self.reason = stress.reason;
            let fails = stress.sure > 2.0 || stress.queue > 1.0 || self.budget < self.ceiling * UNDER_CEILING;
            if self.probing.is_some() && fails {
                self.fail_probe(now);
            }
            return;
        }
        if self.care < 1.0 {
            return;
        }
        if used < USED * self.budget {
            self.reason = Reason::NotUsed;
            self.fit_to_use(now, seconds, used, stress);
            return;
        }
        let stay = self.ceiling * UNDER_CEILING;
        if let Some(since) = self.probing {
            // Slowly at first, and the faster the longer it holds.
            let held = now.saturating_sub(since).as_secs_f64();
            let speed = (PROBE_SPEED * (1.0 + (held - PROBE_CALM).max(0.0) / 2.0)).min(RETURN_SPEED);
            self.grow(seconds * speed * pull);
            self.reason = Reason::Probe;
            // A breakdown takes its time: what was reached so long ago has held, and what was learnt is old.
            let holds = self.budget / (1.0 + speed * BREAKDOWN_AFTER);
            if holds > self.ceiling {
                self.ceiling = holds;
                self.hold = HOLD_LEAST;
            }
        } else if self.budget < stay {
            // The longer nothing has been wrong the faster, and slower just under the ceiling.
            let calm = now.saturating_sub(self.stressed_at).as_secs_f64();
            let far = if stay.is_finite() { (5.0 * (stay - self.budget) / stay).min(1.0) } else { 1.0 };
            // What would have been lost by now if this were the point to stay at.
            let missed =
                if self.nodes.is_empty() { 2.0 * calm } else { calm * stress.packets * self.tolerance };
            let speed =
                speed + (RETURN_SPEED - speed) * far * ((missed - SURE) / (2.0 * SURE)).clamp(0.0, 1.0);
            let grown = self.budget * (1.0 + seconds * speed * pull);
            self.budget = grown.min(stay.max(self.budget));
            self.reason = Reason::RoomToGrow;
        } else {
            self.reason = Reason::Hold;
            if now.saturating_sub(self.ceiling_at) >= self.hold {
                self.probing = Some(now);
            }
        }
    }

    fn fail_probe(&mut self, now: Nanos) {
        self.probing = None;
        self.ceiling_at = now;
        self.ceiling = self.ceiling.min(self.budget);
        self.budget = self.budget.min(UNDER_CEILING * self.ceiling);
        self.hold = Nanos(self.hold.0 * 2).min(HOLD_MOST);
    }

    fn cut(&mut self, now: Nanos, stress: &Stress) {
        self.learnt |= now.saturating_sub(self.began) > FIRST;
        self.budget *= std::mem::replace(&mut self.care, 1.0);
        if self.probing.is_some() {
            self.fail_probe(now);
        } else if self.state != State::Protecting {
            // Under what held until now: the world has become narrower, or this is the first time.
            self.ceiling = self.ceiling.min(self.budget);
            self.hold = HOLD_LEAST;
            self.ceiling_at = now;
        }
        let is_small = self.trouble.is_some_and(|trouble| trouble.small_since.is_some());
        if !is_small {
            self.budget *= if self.state == State::Protecting { CUT_AGAIN } else { CUT };
            self.drain_until = now.saturating_add(DRAIN_TIME);
        }
        self.cut_at = now;
        // What a queue has delayed tells of it for so long.
        self.settle = SETTLE.saturating_add(stress.excess).min(SETTLE_MOST);
        // What is unheard from here on has another cause than what was before.
        self.noise.forget(self.budget);
        self.enter(State::Protecting, stress.reason);
    }

    /// Keeps in mind what has been tried for calls that are bad; true once it is known that TCP is not the cause.
    fn follow_trouble(&mut self, now: Nanos, stress: &Stress) -> bool {
        if stress.bad_call {
            let begun = Trouble {
                budget: self.budget,
                before: Mean::default(),
                after: Mean::default(),
                small_since: None,
                last_bad: now,
            };
            self.trouble.get_or_insert(begun).last_bad = now;
        }
        let Some(trouble) = &mut self.trouble else { return false };
        if now.saturating_sub(trouble.last_bad) > TROUBLE_OVER {
            self.trouble = None;
            return false;
        }
        if self.budget > (trouble.budget * STARVED_AT).max(self.least) {
            trouble.before.add(stress.unheard);
            trouble.small_since = None;
            trouble.after = Mean::default();
            return false;
        }
        // The slow span still has what was before, at first.
        let small_for = now.saturating_sub(*trouble.small_since.get_or_insert(now));
        if small_for > SLOW {
            trouble.after.add(stress.unheard);
        }
        small_for >= STARVED_AFTER && stress.bad_call && trouble.after.value() > 0.6 * trouble.before.value()
    }

    /// Calls are bad whatever TCP does. It is treated as if there were none, until they are good, or time has come to ask
    /// again.
    fn starve(&mut self, now: Nanos, seconds: f64, stress: &Stress) {
        if !stress.bad_call {
            self.trouble = None;
            self.enter(State::Steady, Reason::Hold);
        } else if now >= self.starved_until {
            let mut before = Mean::default();
            before.add(stress.unheard);
            self.trouble = Some(Trouble {
                budget: self.budget,
                before,
                after: Mean::default(),
                small_since: Some(now),
                last_bad: now,
            });
            self.budget *= STARVED_AT;
            (self.cut_at, self.settle) = (now, SETTLE);
            self.enter(State::Protecting, Reason::TryAgain);
        } else {
            self.grow(seconds * SPEED * (1.0 - stress.level.min(STRESS_MOST)));
        }
    }

    /// The round trip of a flow from end to end without queues but with what its packets take on the air: what it is,
    /// but over its base by no more than is tolerable; 10 ms for a side that is not known.
    fn round_trip(&self, tcp: &TcpFlow) -> Nanos {
        const UNKNOWN: Nanos = Nanos::from_millis(10);
        let of = |side: &RoundTrip| match (side.smoothed(), side.base()) {
            (Some(smoothed), Some(base)) => smoothed.min(base.saturating_add(self.config.excess)),
            (_, base) => base.unwrap_or(UNKNOWN),
        };
        of(&tcp.mesh_rtt).saturating_add(of(&tcp.wired_rtt))
    }

    /// Windows from a round trip are wrong where it is not known well. Where the budget is not used and nobody suffers, they
    /// are widened; where queues grow, they come back.
    fn fit_windows(&mut self, seconds: f64, used: f64, stress: &Stress) {
        const SPEED: f64 = 0.4;
        const MOST: f64 = 8.0;
        let is_queue = matches!(stress.reason, Reason::QueueGrows { .. });
        if stress.level > 1.0 && is_queue {
            self.slack = (self.slack * (1.0 - seconds * SPEED)).max(1.0);
        } else if used < USED * self.budget && stress.level < 0.8 {
            self.slack = (self.slack * (1.0 + seconds * SPEED)).min(MOST);
        }
    }

    /// When data enters the mesh, in step with the calls: where it can meet them unheard, and there is room between them.
    fn gate(&mut self, down: f64) -> Option<Gate> {
        /// Where every node hears every other one's receiver, nobody sends into another's packet unheard.
        const HIDDEN_FROM: u8 = 3;
        const LONGEST: u64 = 60_000_000;
        const FULL: f64 = 8.0 * 1500.0;
        if self.hops < HIDDEN_FROM {
            return None;
        }
        let period = self.cadences.iter().try_fold(1_u64, |period, (interval, _)| {
            let interval = interval.0.max(1);
            let all = period / gcd(period, interval) * interval;
            (all <= LONGEST).then_some(all)
        })?;
        self.arrivals.clear();
        for (interval, phase) in &self.cadences {
            for turn in 0..period / interval.0.max(1) {
                self.arrivals.push(Nanos(phase.0 + turn * interval.0));
            }
        }
        // Of a round trip that nothing delays, the ACK takes a fifth.
        let transit = Nanos(self.base.0 / 5 * 4);
        let shared = u64::from(self.config.shared_links.min(u32::from(self.hops)));
        let wanted =
            (down * Nanos(period).as_secs_f64() / FULL).ceil().clamp(1.0, Gate::MOST as f64) as usize;
        let needs = |packets| Needs {
            guard: Nanos::from_millis(1),
            clear: transit,
            step: Nanos(transit.0 * shared / u64::from(self.hops)),
            packets,
        };
        (1..=wanted).rev().find_map(|packets| Gate::plan(Nanos(period), &mut self.arrivals, needs(packets)))
    }

    /// Puts the budget into a policy.
    fn write(&mut self, now: Nanos, observer: &Observer, stress: &Stress, policy: &mut Policy) {
        policy.state = self.state;
        policy.reason = self.reason;
        policy.flows.clear();
        policy.down_acks = None;
        policy.gate = None;
        let draining = now < self.drain_until;
        let damped = self.budget * self.care * (1.0 - DAMPING * stress.queue.min(2.0));
        let budget = if draining { self.budget * self.care * DRAIN } else { damped };
        let most = f64::from(self.config.shared_links.max(1));
        if self.claims.is_empty() {
            // What comes next, thirty flows at once perhaps, finds calls protected and queues short. ACKs that are held back,
            // which may be why nobody sends, go on leaving at their pace.
            policy.down = Some(rate_of(budget / most));
            policy.others = Treatment { window: Some(NEW_FLOW), ..Treatment::default() };
            return;
        }
        let Ok(rates) = split(budget, &self.claims, &[]) else { return };
        let equal = budget / self.claims.len() as f64;
        let (mut down, mut up) = (0.0, 0.0);
        let (mut windows_fit, mut bursts_are_small) = (true, true);
        for (claim, rate) in self.claims.iter().zip(rates) {
            let mut treatment = Treatment { rate: Some(rate_of(rate)), ..Treatment::default() };
            if let Some(Flow { body: FlowBody::Tcp(tcp), .. }) = observer.flow(&claim.key) {
                let mss = f64::from(tcp.mss());
                // A window that follows what a flow uses would hold it there.
                let fair = rate.max(equal / claim.price);
                let in_path = fair / 8.0 * self.round_trip(tcp).as_secs_f64();
                windows_fit &= in_path >= mss;
                bursts_are_small &= in_path <= 4.0 * mss;
                // What the path holds at this rate, and two segments so that there is always one to send. Each ACK of an upload
                // may let two go at once, and nothing spaces these: one is enough where it fills the path even if its ACK
                // is late, and then downloads beside them send no more at a time either.
                let waits = self.round_trip(tcp).saturating_add(DELAYED_ACK).as_secs_f64();
                let one = self.uploads && self.slack * fair / 8.0 * waits < mss;
                let window = if one { 1.25 * mss } else { self.slack * in_path + 2.0 * mss };
                treatment.window = Some(window.min(f64::from(u32::MAX)) as u32);
                if tcp.data_direction() == Direction::FromMesh {
                    treatment.ack_rate = treatment.rate.take();
                    up += rate;
                } else {
                    down += rate;
                }
            } else {
                down += rate;
            }
            policy.flows.push(FlowPolicy { key: claim.key, treatment });
        }
        policy.means = match (windows_fit, bursts_are_small) {
            (false, _) => Means::Pacing,
            (true, true) => Means::Window,
            (true, false) => Means::Both,
        };
        // Where windows hold the budget, the pacer only stops what they let through.
        let guard = if policy.means == Means::Window { 1.25 } else { 1.0 };
        policy.down = Some(rate_of((guard * down).max(budget / most / 10.0)));
        policy.gate = self.gate(down);
        policy.up_acks = (up > 0.0).then(|| rate_of(guard * up));
        policy.others = Treatment { window: Some(NEW_FLOW), ..Treatment::default() };
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Window of a flow that is too new for a treatment of its own: two full segments of Ethernet.
const NEW_FLOW: u32 = 3000;

/// How well the point is known from so many packets of calls a second.
fn known(packets: f64) -> f64 {
    (packets / ENOUGH).clamp(0.25, 1.0).sqrt()
}

fn rate_of(bits: f64) -> BitRate {
    // Never none: a rate of zero would hold packets for ever.
    BitRate((bits.round() as u64).max(1000))
}

/// Whether it is TCP whose data comes out of the mesh.
const fn is_upload(flow: &Flow) -> bool {
    match &flow.body {
        FlowBody::Tcp(tcp) => matches!(tcp.data_direction(), Direction::FromMesh),
        FlowBody::Udp(_) => false,
    }
}

/// The rate of an elastic flow now, in bits a second of data's direction; none if it is no elastic flow, or one that
/// has sent nothing to speak of.
fn elastic_rate(now: Nanos, flow: &Flow) -> Option<f64> {
    match &flow.body {
        FlowBody::Tcp(tcp) if !tcp.is_closed() => {
            let meter = match tcp.data_direction() {
                Direction::ToMesh => &tcp.down,
                Direction::FromMesh => &tcp.up,
            };
            Some(meter.rate(now).0 as f64)
        }
        FlowBody::Udp(udp) if udp.kind(now) == FlowKind::BulkUdp => {
            Some((udp.down_meter.rate(now).0 + udp.up_meter.rate(now).0) as f64)
        }
        _ => None,
    }
}
