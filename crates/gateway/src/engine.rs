//! The part of the daemon without a kernel: digests in, policy and orders out.
//!
//! The daemon feeds it from a datapath, [`crate::record::replay`] from a file, and tests by hand.

use fairhop_control::allocate::OtherRegion;
use fairhop_control::controller::TICK;
use fairhop_control::digest::Payload;
use fairhop_control::flow::{Address, FlowKey};
use fairhop_control::observer::{AckTotals, FlowKind};
use fairhop_control::policy::{Policy, Reason};
use fairhop_control::raw::RawDigest;
use fairhop_control::{Controller, ControllerConfig, Decision, Digest, Network, ObserverConfig};
use fairhop_model::units::Nanos;

use crate::config::{self, Config, GatewayAt, Mode};
use crate::datapath::{AckWeight, DatagramClass, Orders};
use crate::voice::{Distrusted, VoiceGuard, VoiceLimits};

/// Ticks after a restart during which the budget is held: calls and flows that were there before look new.
const RESUMING_TICKS: u32 = 10;
/// A packet that waits longer was held by the pace: more than the usual distance between packets of a flow in a burst.
const HELD: Nanos = Nanos::from_millis(5);
/// Maximum number of UDP flows in the orders.
const MAX_DATAGRAMS: usize = 4096;
/// Span over which calls are judged.
const SECOND: Nanos = Nanos::from_secs(1);

/// What an engine needs of the config.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sizes and assumptions of the observer.
    pub observer: ObserverConfig,
    /// The controller.
    pub controller: ControllerConfig,
    /// Weights of networks of hosts, longest prefixes first.
    pub weights: Vec<(Network, f64)>,
    /// Networks in each region besides the gateway's, and the number of other flows there.
    pub regions: Vec<(Vec<Network>, f64)>,
    /// Networks before the way to the Internet, besides those that the machine is in.
    pub local: Vec<Network>,
    /// Bounds of voice.
    pub voice: VoiceLimits,
}

impl Settings {
    /// The settings of one of the gateways of a config. With [`Mode::Observe`], there is no controller.
    pub fn of(config: &Config, gateway: &GatewayAt, mode: Mode) -> Self {
        let mut controller = match mode {
            Mode::Observe => ControllerConfig::None,
            Mode::DryRun | Mode::Live => config::setting_of(&config.control_of(gateway)).0,
        };
        if let ControllerConfig::Adaptive(adaptive) = &mut controller {
            adaptive.is_obeyed = mode == Mode::Live;
        }
        Self {
            observer: config.observer(),
            controller,
            weights: config.weights(),
            regions: config.regions(),
            local: gateway.local(),
            voice: VoiceLimits {
                networks: config.voice_networks(),
                per_host: 1e3 * config.voice.kbps_per_host,
                per_call: 1e3 * config.voice.kbps_per_call,
            },
        }
    }
}

impl Settings {
    const fn is_obeyed(&self) -> bool {
        matches!(&self.controller, ControllerConfig::Adaptive(adaptive) if adaptive.is_obeyed)
    }

    const fn has_one_budget(&self) -> bool {
        matches!(&self.controller, ControllerConfig::Adaptive(adaptive) if !adaptive.duplex)
    }
}

/// Observer, guard and controller of one gateway.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    /// The networks that the machine is in.
    connected: Vec<Network>,
    controller: Controller,
    guard: VoiceGuard,
    datagrams: Vec<(FlowKey, DatagramClass)>,
    /// What ACKs into the mesh acknowledge, and those that had been seen at the last tick.
    acks: (AckWeight, AckTotals),
    /// A budget from before a restart, and for how many more ticks it is held.
    resume: Option<(f64, u32)>,
    decision: Option<Decision>,
    invalid: u64,
    /// Time of the last digest or tick: the observer's time must not go back.
    now: Nanos,
}

impl Engine {
    /// An engine that has seen no packet.
    pub fn new(settings: Settings) -> Self {
        let mut engine = Self {
            controller: Controller::new(settings.observer, settings.controller),
            guard: VoiceGuard::new(settings.voice.clone()),
            settings,
            connected: Vec::new(),
            datagrams: Vec::new(),
            acks: Default::default(),
            resume: None,
            decision: None,
            invalid: 0,
            now: Nanos::ZERO,
        };
        engine.set_local();
        engine
    }

    /// Tells the networks that the machine is in: see
    /// [`Observer::set_local`](fairhop_control::Observer::set_local).
    pub fn set_connected(&mut self, connected: Vec<Network>) {
        self.connected = connected;
        self.set_local();
    }

    /// The networks that the machine is in.
    pub fn connected(&self) -> &[Network] {
        &self.connected
    }

    fn set_local(&mut self) {
        self.controller.set_local([&self.connected[..], &self.settings.local].concat());
    }

    /// Begins at a budget from before a restart, in bits per second times price. Returns whether it does: the controller has to seek
    /// a single budget, and the value has to be positive and finite.
    pub const fn resume(&mut self, budget: f64) -> bool {
        let is_taken = self.settings.has_one_budget() && budget.is_finite() && budget > 0.0;
        if is_taken {
            self.resume = Some((budget, RESUMING_TICKS));
        }
        is_taken
    }

    /// Changes the settings. What the observer knows stays, unless its own sizes change; the controller stays if it is the
    /// same. One that begins or ceases to be obeyed begins anew: what traffic did that obeyed nobody shows no budget.
    pub fn set(&mut self, settings: Settings) {
        let budget = self.controller.budget().filter(|_| settings.is_obeyed() == self.settings.is_obeyed());
        if settings.observer != self.settings.observer {
            let connected = std::mem::take(&mut self.connected);
            *self = Self::new(settings);
            self.set_connected(connected);
        } else {
            if settings.controller != self.settings.controller {
                self.controller.set(settings.controller);
            }
            self.guard.set_limits(settings.voice.clone());
            self.settings = settings;
            self.set_local();
        }
        if let Some(budget) = budget {
            self.resume(budget);
        }
    }

    /// Takes a digest from the datapath. Invalid ones are counted and dropped.
    pub fn on_digest(&mut self, raw: &RawDigest) {
        let Ok(mut digest) = Digest::try_from(raw) else {
            self.invalid += 1;
            return;
        };
        // Processors hand over their digests one after the other, some a little late.
        digest.at = digest.at.max(self.now);
        self.now = digest.at;
        self.guard.filter(&mut digest);
        self.controller.on_digest(&digest);
        // An ACK that waits is no sign that its flow would send more.
        let is_ack = matches!(&digest.payload, Payload::Tcp(tcp) if tcp.is_pure_ack());
        if digest.waited > HELD && !is_ack {
            self.controller.on_held(digest.at, &digest.flow());
        }
    }

    /// The datapath was replaced: packets have passed unseen.
    pub fn on_blind(&mut self) {
        self.controller.on_blind();
    }

    /// Decides. `waiting` packets wait in the data pacer. Returns the flows that are distrusted from now on.
    pub fn tick(&mut self, now: Nanos, waiting: usize) -> Vec<Distrusted> {
        let now = now.max(self.now);
        self.now = now;
        if let Some((budget, ticks)) = self.resume.take() {
            self.controller.begin_at(now, budget);
            self.resume = (ticks > 1).then(|| (budget, ticks - 1));
        }
        self.set_shares(now);
        self.controller.tick(now, waiting);
        let distrusted = self.guard.check(now, self.controller.observer());
        self.collect_datagrams();
        self.weigh_acks();
        self.decision = Some(Decision::of(&self.controller, now, waiting));
        distrusted
    }

    /// Weights and regions count for single hosts, which the flows name.
    fn set_shares(&mut self, now: Nanos) {
        if self.settings.weights.is_empty() && self.settings.regions.is_empty() {
            return;
        }
        let horizon = now.saturating_sub(SECOND);
        let mut hosts: Vec<Address> =
            self.controller.observer().active(horizon).map(|(key, _)| key.mesh).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let weight_of = |host: Address| {
            let mut weights = self.settings.weights.iter();
            weights.find(|(network, _)| network.contains(host)).map(|(_, weight)| *weight)
        };
        let weights = hosts.iter().filter_map(|host| Some((*host, weight_of(*host)?))).collect();
        let regions = self.settings.regions.iter().map(|(networks, weight)| {
            let is_inside = |host: &Address| networks.iter().any(|network| network.contains(*host));
            OtherRegion { hosts: hosts.iter().copied().filter(is_inside).collect(), weight: *weight }
        });
        let regions = regions.collect();
        self.controller.set_weights(weights);
        self.controller.set_regions(regions);
    }

    fn collect_datagrams(&mut self) {
        self.datagrams.clear();
        let elastic = self.controller.observer().elastic_datagrams().filter_map(|flow| match flow.kind {
            FlowKind::BulkUdp if flow.may_have_sound => Some((flow.key, DatagramClass::ElasticBesideSound)),
            FlowKind::BulkUdp => Some((flow.key, DatagramClass::Elastic)),
            FlowKind::Interactive => Some((flow.key, DatagramClass::Interactive)),
            FlowKind::Tcp | FlowKind::Call | FlowKind::Other => None,
        });
        let distrusted = self.guard.distrusted().map(|flow| (flow.key, DatagramClass::Elastic));
        self.datagrams.extend(distrusted.chain(elastic).take(MAX_DATAGRAMS));
        // Stable: a distrusted flow stays elastic, whatever its marks ask for.
        self.datagrams.sort_by_key(|(key, _)| *key);
        self.datagrams.dedup_by_key(|(key, _)| *key);
    }

    fn weigh_acks(&mut self) {
        let (weight, before) = &mut self.acks;
        let now = self.controller.observer().totals().acks_down;
        weight.add(now.since(*before));
        *before = now;
    }

    /// What the datapath has to do.
    pub fn orders(&self) -> Orders<'_> {
        Orders { policy: self.controller.policy(), datagrams: &self.datagrams, acks: self.acks.0 }
    }

    /// The last policy.
    pub const fn policy(&self) -> &Policy {
        self.controller.policy()
    }

    /// The last decision; none before the first tick.
    pub const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The controller.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The guard of voice.
    pub const fn guard(&self) -> &VoiceGuard {
        &self.guard
    }

    /// Digests that were invalid.
    pub const fn invalid(&self) -> u64 {
        self.invalid
    }
}

/// The kind of a reason, for metrics and the journal: one word each.
pub const fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::NoElasticTraffic => "no-elastic-traffic",
        Reason::Configured => "configured",
        Reason::RoomToGrow => "room-to-grow",
        Reason::CallDegraded { .. } => "call-degraded",
        Reason::QueueGrows { .. } => "queue-grows",
        Reason::OwnQueue { .. } => "own-queue",
        Reason::WiredQueue { .. } => "wired-queue",
        Reason::UplinkQueue { .. } => "uplink-queue",
        Reason::CallStarted => "call-started",
        Reason::CallEnded => "call-ended",
        Reason::FlowsStarted => "flows-started",
        Reason::PathLonger => "path-longer",
        Reason::Probe => "probe",
        Reason::Hold => "hold",
        Reason::NotUsed => "not-used",
        Reason::RouteInterrupted => "route-interrupted",
        Reason::TcpIsNotTheCause => "tcp-is-not-the-cause",
        Reason::TryAgain => "try-again",
    }
}

/// Time between ticks.
pub const INTERVAL: Nanos = TICK;
