//! The adaptive controller: finds at run time how much elastic traffic the mesh carries without harm to calls.
//!
//! The controller seeks one number, the **budget**: bits per second times price (see [`crate::allocate`]) for all elastic
//! flows together. It does not know the capacity. Each tick has the steps below; each has a file.
//!
//! | file | step |
//! |---|---|
//! | `inputs.rs` | the elastic flows with their claims, and the calls |
//! | `stress.rs` | one number for how calls and queues are; 1 is the limit of what is tolerable |
//! | `noise.rs` | the part of the calls' loss that less TCP does not reduce |
//! | `changes.rs` | calls and flows that begin or end, paths that change |
//! | `routes.rs` | calls that the route interrupts, and not TCP |
//! | `law.rs` | the new budget |
//! | `internet.rs` | budgets of both directions of the link to the Internet |
//! | `degradation.rs` | calls that are bad independently of TCP |
//! | `write.rs` | the budget as a policy: windows, rates, gate |
//! | `duplex.rs` | all of these for each direction, where links carry both directions independently |
//!
//! **States.** *Off*: no elastic flow; the policy only limits what may come next. *Learning*: the budget grows, more slowly as
//! stress rises, until the first significant stress. *Steady*: the budget follows the law. *Protecting*: after a cut, until its
//! effect can be seen; if calls are still bad, it cuts again. *Starved*: a cut to a small part did not help the calls, so the
//! budget is given back, and the controller checks the calls again later.
//!
//! Left out: flows that share only other regions than the gateway's.

mod changes;
mod degradation;
mod duplex;
mod inputs;
mod internet;
mod law;
mod noise;
mod routes;
mod stress;
mod tolerance;
mod tuning;
mod write;

use fairhop_model::units::Nanos;

use self::degradation::Degradation;
pub(super) use self::duplex::Duplex;
use self::inputs::KnownCall;
use self::internet::Internet;
use self::law::{Law, Load};
use self::noise::Noise;
use self::routes::Routes;
use self::stress::{Node, Stress};
use self::tolerance::Tolerance;
use self::tuning::secs;
pub use self::tuning::{Constant, Tuning};
use self::write::Limit;
use super::TICK;
use crate::allocate::{Claim, OtherRegion};
use crate::digest::Direction;
use crate::flow::Address;
use crate::observer::Observer;
use crate::policy::{FlowPolicy, Policy, Reason, State};

/// What is tolerable. No value says what the network carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveConfig {
    /// Tolerable fraction of a call's packets lost or late, in the long run; none to derive it from the codec.
    pub loss_or_late: Option<f64>,
    /// Tolerable mean delay of call packets over the fastest one.
    pub delay: Nanos,
    /// Tolerable excess of TCP's round trips through the mesh over their base, while there are calls.
    pub excess: Nanos,
    /// The same without calls.
    pub excess_alone: Nanos,
    /// Initial budget in bits per second times price.
    pub first_budget: f64,
    /// Minimum budget for each flow whose data enters the mesh, in bits per second times price.
    pub min_per_flow: f64,
    /// MOS that a call should have.
    pub mos: f64,
    /// Number of hops that share the air ([`fairhop_model::airtime::shared_links`]).
    pub shared_links: u32,
    /// Airtime of a packet beside that of its bytes, in bytes; used to estimate the load of a new call. With 802.11a at
    /// 12 Mb/s, headers, gaps and ACK take as long as 200 bytes.
    pub packet_overhead: u32,
    /// Maximum number of flows that are treated one by one.
    pub flows: usize,
    /// The links of the mesh carry both directions independently of each other, as wired ones do.
    pub duplex: bool,
    /// Whether its policy is in force. In a dry run it is not, and that calls stay bad after a cut says nothing of TCP.
    pub is_obeyed: bool,
    /// Constants of the law, for studies.
    pub tuning: Tuning,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            loss_or_late: None,
            delay: Nanos::from_millis(20),
            excess: Nanos::from_millis(12),
            excess_alone: Nanos::from_millis(40),
            first_budget: 1e6,
            min_per_flow: 5_000.0,
            mos: 3.6,
            shared_links: 4,
            packet_overhead: 200,
            flows: 256,
            duplex: false,
            is_obeyed: true,
            tuning: Tuning::default(),
        }
    }
}

/// Short span over which calls are measured: the shortest in which a breakdown shows (15 packets of a call).
const FAST: Nanos = Nanos::from_millis(300);
/// Long span over which calls are measured: the second by which their quality is judged.
const SLOW: Nanos = Nanos::from_secs(1);

/// Tolerable loss before the first call: that of G.729A.
const DEFAULT_TOLERANCE: f64 = 0.005;
/// Packets in the pacer that show that more is wanted: one waits for its turn anyway.
const WAITING: usize = 2;
/// Time without elastic flows after which the state before them is forgotten: calls last longer.
const REMEMBERED: Nanos = Nanos::from_secs(60);

/// The controller's memory.
#[derive(Debug)]
pub(super) struct Adaptive {
    config: AdaptiveConfig,
    tuning: Tuning,
    /// The direction whose flows it limits, and whose signals count; none for both.
    way: Option<Direction>,
    law: Law,
    degradation: Option<Degradation>,
    starved_until: Nanos,
    starve_for: Nanos,
    /// The budget is that of before a restart, and no elastic flow has used it since.
    is_continued: bool,
    /// When elastic flows began that the control had no effect on yet, and how many there were then.
    first_since: Nanos,
    first_flows: usize,
    /// When the last elastic flow ended.
    idle_since: Nanos,
    /// There is nothing to limit.
    is_idle: bool,
    /// Packets wait, and they wait for the budget of the mesh.
    waits: bool,
    is_wanted: bool,
    /// Mean size of elastic packets in bits, by rate.
    packet_bits: f64,
    /// Load of interactive flows, in bits per second times price.
    interactive: f64,
    /// Their highest price.
    interactive_price: f64,
    /// Rate into the mesh of the sound that shares the ports of interactive flows, in bits per second.
    sound: f64,
    /// Maximum over the elastic flows: hops to the mesh end, and base of the round trip through the mesh.
    hops: u8,
    base: Nanos,
    /// What the most sensitive call tolerates.
    tolerable: Tolerance,
    /// Tolerated fraction lost or late, and since when it is above that of the calls.
    tolerance: f64,
    tolerant_since: Nanos,
    noise: Noise,
    routes: Routes,
    /// Treatments of the tick before.
    flows_before: Vec<FlowPolicy>,
    /// Bytes by which the windows of uploads may jump.
    jumps: f64,
    calls: Vec<KnownCall>,
    /// Interval and phase of each call's packets out of the mesh.
    cadences: Vec<(Nanos, Nanos)>,
    arrivals: Vec<Nanos>,
    nodes: Vec<Node>,
    /// The smallest mean delay of a call's packets out of the mesh.
    least_up_delay: Option<Nanos>,
    /// A call has a MOS under the configured one.
    has_bad_call: bool,
    claims: Vec<Claim>,
    /// Claims of the tick before, the number of flows that have begun since, and whether a path has become longer.
    claims_before: Vec<Claim>,
    new_flows: usize,
    path_grew: bool,
    /// When the controller last made room for calls or flows, and the part of the budget that is used since then.
    yielded_at: Nanos,
    caution: f64,
    internet: Internet,
    /// What the link to the Internet leaves to each claim, and whether it bounds a rate.
    limits: Vec<Limit>,
    internet_binds: bool,
    /// The budget bounds the rate of a flow.
    budget_binds: bool,
    /// Lower bound of the budget.
    min_budget: f64,
    /// A flow sends data out of the mesh.
    has_uploads: bool,
    /// Maximum time in seconds that an upload waits for an ACK.
    ack_interval_s: f64,
    last_tick: Option<Nanos>,
    /// Weights of hosts that do not have 1, in the order of their addresses.
    weights: Vec<(Address, f64)>,
    /// Regions besides the gateway's.
    regions: Vec<OtherRegion>,
}

impl Adaptive {
    pub(super) fn new(config: AdaptiveConfig, way: Option<Direction>) -> Self {
        let tuning = config.tuning;
        Self {
            config,
            tuning,
            way,
            law: Law::new(config.first_budget, &tuning),
            degradation: None,
            starved_until: Nanos::ZERO,
            starve_for: secs(tuning.starved_s),
            is_continued: false,
            first_since: Nanos::ZERO,
            first_flows: 0,
            idle_since: Nanos::ZERO,
            is_idle: true,
            waits: false,
            is_wanted: false,
            packet_bits: inputs::PACKET_BITS,
            interactive: 0.0,
            interactive_price: 1.0,
            sound: 0.0,
            hops: 0,
            base: Nanos::ZERO,
            tolerable: Tolerance { loss: DEFAULT_TOLERANCE, packets: 2, mos: config.mos },
            tolerance: DEFAULT_TOLERANCE,
            tolerant_since: Nanos::ZERO,
            noise: Noise::default(),
            routes: Routes::default(),
            flows_before: Vec::new(),
            jumps: 0.0,
            calls: Vec::new(),
            cadences: Vec::new(),
            arrivals: Vec::new(),
            nodes: Vec::new(),
            least_up_delay: None,
            has_bad_call: false,
            claims: Vec::with_capacity(config.flows),
            claims_before: Vec::with_capacity(config.flows),
            new_flows: 0,
            path_grew: false,
            yielded_at: Nanos::ZERO,
            caution: 1.0,
            internet: Internet::new(&config),
            limits: Vec::with_capacity(config.flows),
            internet_binds: false,
            budget_binds: true,
            min_budget: config.min_per_flow,
            has_uploads: false,
            ack_interval_s: 1.0,
            last_tick: None,
            weights: Vec::new(),
            regions: Vec::new(),
        }
    }

    /// The budget of all elastic flows in bits per second times price.
    pub(super) const fn budget(&self) -> f64 {
        self.law.budget
    }

    /// See [`super::Controller::begin_at`].
    pub(super) fn begin_at(&mut self, now: Nanos, budget: f64) {
        self.law.budget = budget.max(self.config.min_per_flow);
        self.law.ceiling = self.law.budget;
        (self.law.ceiling_at, self.idle_since) = (now, now);
        (self.law.has_learnt, self.is_continued) = (true, true);
    }

    /// See [`super::Controller::set_weights`].
    pub(super) fn set_weights(&mut self, weights: Vec<(Address, f64)>) {
        self.weights = weights;
        self.weights.sort_unstable_by_key(|(host, _)| *host);
    }

    /// See [`super::Controller::set_regions`].
    pub(super) fn set_regions(&mut self, mut regions: Vec<OtherRegion>) {
        for region in &mut regions {
            region.hosts.sort_unstable();
        }
        self.regions = regions;
    }

    fn weight_of(&self, host: Address) -> f64 {
        let place = self.weights.binary_search_by_key(&host, |(host, _)| *host);
        place.map_or(1.0, |place| self.weights[place].1)
    }

    /// Returns the stress.
    pub(super) fn tick(
        &mut self,
        now: Nanos,
        observer: &Observer,
        waiting: usize,
        policy: &mut Policy,
    ) -> f64 {
        self.waits = waiting >= WAITING;
        // What waits for the link to the Internet wants nothing of the mesh.
        self.is_wanted = self.waits && self.budget_binds && !self.internet_binds;
        let seconds = self.last_tick.map_or(TICK, |last| now.saturating_sub(last)).as_secs_f64().min(1.0);
        self.last_tick = Some(now);
        let load = self.gather_claims(now, observer, policy);
        let price = f64::from(self.config.shared_links.max(1));
        self.law.take(seconds, load, price, &self.tuning);
        self.follow_returns(now, observer);
        let change = self.gather_calls(now, observer);
        let stress = self.stress(now, observer);
        self.follow_internet(now, seconds, observer, &stress);
        self.undo_since_break(now, &stress);
        self.law.follow_stress(now, &stress);
        self.learn_noise(now, seconds, &stress);
        self.adjust_ack_interval(seconds, &stress);

        self.is_idle = self.claims.is_empty() && self.interactive == 0.0 && waiting == 0;
        if self.is_idle {
            self.idle(now, change);
        } else {
            if self.law.state == State::Off {
                self.resume(now);
            }
            if let Some(change) = change {
                self.on_calls_changed(now, change);
            }
            self.on_load_grown(now);
            self.restore_caution(now, seconds, &stress);
            self.on_flows_doubled(now);
            let elapsed = now.saturating_sub(self.first_since);
            self.law.follow_beginning(elapsed, &stress, &self.tuning);
            self.decide(now, seconds, &stress);
        }
        self.law.budget = self.law.budget.max(self.min_budget);
        self.law.ceiling = self.law.ceiling.max(self.min_budget);
        self.end_tick(now);
        self.write(now, observer, &stress, policy);
        stress.level
    }

    fn decide(&mut self, now: Nanos, seconds: f64, stress: &Stress) {
        if self.law.state == State::Starved {
            self.starve(now, stress);
            return;
        }
        if self.follow_degradation(now, stress) {
            self.give_back(now);
            return;
        }
        let load = Load {
            is_wanted: self.is_wanted,
            min_budget: self.min_budget,
            first_budget: self.config.first_budget,
            has_uploads: self.has_uploads,
            has_calls: !self.nodes.is_empty(),
            tolerance: self.tolerance,
            caution: self.caution,
            is_interrupted: self.routes.is_interrupted(),
            is_small: self.degradation.is_some_and(|degradation| degradation.is_small()),
        };
        if self.law.decide(now, seconds, &load, stress, &self.tuning) {
            self.caution = 1.0;
            self.noise.restart(self.law.budget);
        }
    }

    /// No elastic flow. What has been learnt stays valid for the calls of then and those that join them; the first calls begin anew.
    fn idle(&mut self, now: Nanos, change: Option<inputs::CallsChange>) {
        if self.law.state != State::Off {
            self.idle_since = now;
        }
        // The first calls after a restart are those of before.
        if let Some(change) = change.filter(|_| !self.is_continued) {
            self.law.has_learnt &= !(change.came && self.are_first(change.load));
            if self.law.has_learnt {
                self.on_calls_changed(now, change);
            } else {
                self.law.budget = self.law.budget.min(self.config.first_budget);
                self.law.ceiling = f64::INFINITY;
            }
        }
        self.law.enter(State::Off, Reason::NoElasticTraffic);
    }

    /// Elastic flows again. Flows that were silent for a short time, after a loss for example, continue with what has been
    /// learnt.
    fn resume(&mut self, now: Nanos) {
        self.is_continued = false;
        if now < self.starved_until {
            self.law.enter(State::Starved, Reason::TcpIsNotTheCause);
        } else if self.law.has_learnt && now.saturating_sub(self.idle_since) < REMEMBERED {
            self.law.enter(State::Steady, Reason::Hold);
        } else {
            self.begin_first(now);
            self.law.has_learnt = false;
            self.law.enter(State::Learning, Reason::RoomToGrow);
        }
    }

    /// Flows have begun on which the control has no effect yet: what they send is no reason to learn.
    fn begin_first(&mut self, now: Nanos) {
        (self.first_since, self.first_flows) = (now, self.claims.len().max(1));
        self.law.is_first = true;
    }
}
