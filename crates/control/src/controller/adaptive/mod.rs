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
//! | `degradation.rs` | calls that are bad independently of TCP |
//! | `write.rs` | the budget as a policy: windows, rates, gate |
//!
//! **States.** *Off*: no elastic flow; the policy only limits what may come next. *Learning*: the budget grows, more slowly as
//! stress rises, until the first significant stress. *Steady*: the budget follows the law. *Protecting*: after a cut, until its
//! effect can be seen; if calls are still bad, it cuts again. *Starved*: a cut to a small part did not help the calls, so the
//! budget is given back, and the controller checks the calls again later.
//!
//! Left out: flows that share only other regions than the gateway's.

mod changes;
mod degradation;
mod inputs;
mod law;
mod noise;
mod routes;
mod stress;
mod tolerance;
mod tuning;
mod write;

use fairhop_model::units::Nanos;

use self::degradation::Degradation;
use self::inputs::KnownCall;
use self::noise::Noise;
use self::routes::Routes;
use self::stress::{Node, Stress};
use self::tolerance::Tolerance;
use self::tuning::secs;
pub use self::tuning::{Constant, Tuning};
use super::TICK;
use crate::allocate::{Claim, OtherRegion};
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
/// Seconds over which the peak of what leaves the mesh is remembered: two windows of its meters, so that ACKs that come in bursts
/// do not lower it.
const CARRIED_FOR: f64 = 1.0;
/// Maximum time for which what uploads have sent before the control began counts as the cause of stress: a queue of 200 packets
/// leaves at 0.5 Mb/s.
const MAX_FIRST: Nanos = Nanos::from_secs(5);
/// Time without elastic flows after which the state before them is forgotten: calls last longer.
const REMEMBERED: Nanos = Nanos::from_secs(60);

/// The controller's memory.
#[derive(Debug)]
pub(super) struct Adaptive {
    config: AdaptiveConfig,
    tuning: Tuning,
    state: State,
    reason: Reason,
    /// Bits per second times price.
    budget: f64,
    /// Budget at which degradation was last seen.
    ceiling: f64,
    /// When the ceiling was set, and how long it is not questioned.
    ceiling_at: Nanos,
    hold: Nanos,
    /// Since when the budget probes past the ceiling.
    probing_since: Option<Nanos>,
    cut_at: Nanos,
    /// How long after a cut its effect is judged.
    settle_for: Nanos,
    /// Until when queues drain after a cut.
    drain_until: Nanos,
    degradation: Option<Degradation>,
    starved_until: Nanos,
    starve_for: Nanos,
    /// When the stress was last over a half.
    stressed_at: Nanos,
    /// The budget at which stress begins is known.
    has_learnt: bool,
    /// Stress is still caused by what was sent before the control began.
    is_first: bool,
    /// The budget is that of before a restart, and no elastic flow has used it since.
    is_continued: bool,
    /// When elastic flows began, and when the last one ended.
    active_since: Nanos,
    idle_since: Nanos,
    /// There is nothing to limit.
    is_idle: bool,
    /// Packets wait for the budget.
    is_wanted: bool,
    /// Mean size of elastic packets in bits, by rate.
    packet_bits: f64,
    /// Smoothed use of the budget.
    used: f64,
    /// Load of interactive flows, in bits per second times price.
    interactive: f64,
    /// Their highest price.
    interactive_price: f64,
    /// Recent peak of the use: a load that the mesh has taken.
    peak_used: f64,
    /// Peak over [`CARRIED_FOR`] of what has left the mesh.
    carried: f64,
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
    /// A call has a MOS under the configured one.
    has_bad_call: bool,
    /// The wired end of a call is reached through the Internet.
    is_call_remote: bool,
    claims: Vec<Claim>,
    /// Claims of the tick before, the number of flows that have begun since, and whether a path has become longer.
    claims_before: Vec<Claim>,
    new_flows: usize,
    path_grew: bool,
    /// When the controller last made room for calls or flows, and the part of the budget that is used since then.
    yielded_at: Nanos,
    caution: f64,
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
    pub(super) fn new(config: AdaptiveConfig) -> Self {
        let tuning = config.tuning;
        Self {
            config,
            tuning,
            state: State::Off,
            reason: Reason::NoElasticTraffic,
            budget: config.first_budget,
            ceiling: f64::INFINITY,
            ceiling_at: Nanos::ZERO,
            hold: secs(tuning.min_hold_s),
            probing_since: None,
            cut_at: Nanos::ZERO,
            settle_for: secs(tuning.settle_s),
            drain_until: Nanos::ZERO,
            degradation: None,
            starved_until: Nanos::ZERO,
            starve_for: secs(tuning.starved_s),
            stressed_at: Nanos::ZERO,
            has_learnt: false,
            is_first: true,
            is_continued: false,
            active_since: Nanos::ZERO,
            idle_since: Nanos::ZERO,
            is_idle: true,
            is_wanted: false,
            packet_bits: inputs::PACKET_BITS,
            used: 0.0,
            interactive: 0.0,
            interactive_price: 1.0,
            peak_used: 0.0,
            carried: 0.0,
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
            has_bad_call: false,
            is_call_remote: false,
            claims: Vec::with_capacity(config.flows),
            claims_before: Vec::with_capacity(config.flows),
            new_flows: 0,
            path_grew: false,
            yielded_at: Nanos::ZERO,
            caution: 1.0,
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
        self.budget
    }

    /// See [`super::Controller::begin_at`].
    pub(super) fn begin_at(&mut self, now: Nanos, budget: f64) {
        self.budget = budget.max(self.config.min_per_flow);
        self.ceiling = self.budget;
        (self.ceiling_at, self.idle_since) = (now, now);
        (self.has_learnt, self.is_continued) = (true, true);
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

    pub(super) fn tick(&mut self, now: Nanos, observer: &Observer, waiting: usize, policy: &mut Policy) {
        self.is_wanted = waiting >= WAITING;
        let seconds = self.last_tick.map_or(TICK, |last| now.saturating_sub(last)).as_secs_f64().min(1.0);
        self.last_tick = Some(now);
        let (used, carried) = self.gather_claims(now, observer, policy);
        let used = self.smoothed(used, seconds);
        self.peak_used = used.max(self.peak_used * (1.0 - seconds / self.tuning.carried_s));
        self.carried = carried.max(self.carried * (1.0 - seconds / CARRIED_FOR));
        self.follow_returns(now, observer);
        let change = self.gather_calls(now, observer);
        let stress = self.stress(now, observer);
        self.undo_since_break(now, &stress);
        if stress.level > 0.5 {
            self.stressed_at = now;
        }
        self.learn_noise(now, seconds, &stress);
        self.adjust_ack_interval(seconds, &stress);

        self.is_idle = self.claims.is_empty() && self.interactive == 0.0 && waiting == 0;
        if self.is_idle {
            self.idle(now, change);
        } else {
            if self.state == State::Off {
                self.resume(now);
            }
            if let Some(change) = change {
                self.on_calls_changed(now, change);
            }
            self.on_load_grown(now);
            self.restore_caution(now, seconds, &stress);
            self.follow_beginning(now, &stress);
            self.decide(now, seconds, used, &stress);
        }
        self.budget = self.budget.max(self.min_budget);
        self.ceiling = self.ceiling.max(self.min_budget);
        self.end_tick(now);
        self.write(now, observer, &stress, policy);
    }

    /// No elastic flow. What has been learnt stays valid for the calls of then and those that join them; the first calls begin anew.
    fn idle(&mut self, now: Nanos, change: Option<inputs::CallsChange>) {
        if self.state != State::Off {
            self.idle_since = now;
        }
        // The first calls after a restart are those of before.
        if let Some(change) = change.filter(|_| !self.is_continued) {
            self.has_learnt &= !(change.came && self.are_first(change.load));
            if self.has_learnt {
                self.on_calls_changed(now, change);
            } else {
                self.budget = self.budget.min(self.config.first_budget);
                self.ceiling = f64::INFINITY;
            }
        }
        self.enter(State::Off, Reason::NoElasticTraffic);
    }

    /// Elastic flows again. Flows that were silent for a short time, after a loss for example, continue with what has been
    /// learnt.
    fn resume(&mut self, now: Nanos) {
        self.is_continued = false;
        if now < self.starved_until {
            self.enter(State::Starved, Reason::TcpIsNotTheCause);
        } else if self.has_learnt && now.saturating_sub(self.idle_since) < REMEMBERED {
            self.enter(State::Steady, Reason::Hold);
        } else {
            self.active_since = now;
            self.is_first = true;
            self.has_learnt = false;
            self.enter(State::Learning, Reason::RoomToGrow);
        }
    }

    /// Follows whether stress is still caused by what was sent before the control began. Uploads obey late, so with them it is
    /// until stress has been low once.
    fn follow_beginning(&mut self, now: Nanos, stress: &Stress) {
        let elapsed = now.saturating_sub(self.active_since);
        let obeys = !self.has_uploads || stress.level < 1.0 || elapsed > MAX_FIRST;
        self.is_first &= elapsed <= secs(self.tuning.first_s) || !obeys;
    }

    fn enter(&mut self, state: State, reason: Reason) {
        self.state = state;
        self.reason = reason;
    }
}
