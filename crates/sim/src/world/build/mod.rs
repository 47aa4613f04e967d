//! From a scenario to a World that is ready to run.

mod flows;
mod mobility;
mod overlay;
mod paths;
mod wired;

use fairhop_control::Address;
use fairhop_model::phy::Rate;
use fairhop_model::units::Nanos;

use super::World;
use super::aodv::Routers;
use super::applications::{Applications, RealFlows};
use super::changes::{Changes, FOLLOW, NEXT};
use super::control::Control;
use super::core::Core;
use super::mesh::Mesh;
use super::network::{Network, wires};
use super::throttle::{Surroundings, Throttle};
use crate::engine::{EventKind, Events, Interrupt, Interrupted, Purpose, Stream};
use crate::headers::Addresses;
use crate::mac::{BROADCAST, MacParams};
use crate::mobility::Trajectory;
use crate::packet::{NodeId, stream};
use crate::queue::{Discipline, Queue, Routed};
use crate::radio::{
    LIGHT_M_PER_S, Links, LinksError, MAX_LINKS, Moving, Position, RadioParams, decode_limit_m,
};
use crate::recorder::{Recorder, RoutingRecord};
use crate::routing::Routes;
use crate::scenario::{self, AttachKind, Attachment, Finding, Linkage, Scenario};
use flows::Plan;
use mobility::{check_possible_reach, trajectories};
use paths::{Surrounds, check_link_rates};
use wired::{hosts, wire};

impl World {
    /// A World that is ready to run, with every random draw fixed by `seed`. The scenario must have passed
    /// [`Scenario::findings`].
    ///
    /// # Errors
    /// What only the placed network can tell: flows without a route, paths set by hand over links that do not work,
    /// random nodes that cannot be connected, radios that reach farther than the timing of 802.11 allows.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Vec<Finding>> {
        match Self::new_interruptible(scenario, seed, &Interrupt::NEVER) {
            Ok(world) => Ok(world),
            Err(SetupError::Findings(findings)) => Err(findings),
            Err(SetupError::Interrupted) => unreachable!("nothing interrupts"),
        }
    }

    /// The same, with a way to stop it: the setup of a large network can take seconds.
    ///
    /// # Errors
    /// Those of [`World::new`], or that it was stopped.
    pub fn new_interruptible(
        scenario: &Scenario,
        seed: u64,
        interrupt: &Interrupt<'_>,
    ) -> Result<Self, SetupError> {
        Self::build(scenario, seed, interrupt, |_| ())
    }

    /// The same, with parameters of medium access that no scenario has.
    pub(crate) fn build(
        scenario: &Scenario,
        seed: u64,
        interrupt: &Interrupt<'_>,
        adjust: impl FnOnce(&mut MacParams),
    ) -> Result<Self, SetupError> {
        let radio = scenario.radio_params();
        let mut mac = scenario.mac_params();
        adjust(&mut mac);
        let (links, trajectories) = place(scenario, &radio, mac.data_rate, seed, interrupt)?;
        if trajectories.is_empty() {
            check_reach(&links, &mac)?;
        } else {
            check_possible_reach(scenario, &radio, &mac, links.positions())?;
        }
        check_link_rates(scenario, &links, &radio)?;

        let nodes = links.positions().len();
        let hosts = hosts(scenario);
        let wired = wire(scenario, seed, nodes as NodeId);
        let wires = wires(&wired, nodes + hosts.len());
        let mut plan = Plan::new(scenario, seed, nodes as NodeId);
        for (entry, (traffic, names)) in scenario.traffic.iter().zip(scenario.flow_names()).enumerate() {
            for name in names {
                plan.add(entry, traffic, name);
            }
        }
        plan.applications.real = real_flows(scenario);
        let around = Surrounds { links: &links, wires: &wires, radio: &radio, mac: &mac };
        let (paths, finder) = plan.paths(around, interrupt)?;
        let aodv = scenario.routing.aodv();
        let (routes, overlay) = match &aodv {
            None => (Routes::new(&paths, &wires), None),
            Some(_) => {
                let (routes, overlay) = plan.overlay(around)?;
                (routes, Some(Box::new(overlay)))
            }
        };
        let Plan { mut applications, measured, starts, .. } = plan;
        let network = Network { routes, hosts, wired, overlay };

        // The disciplines need the time that a packet takes at best.
        let rate = mac.data_rate.bit_rate();
        let queue = station_queue(scenario);
        let queue_priority = aodv.as_ref().is_some_and(|aodv| aodv.queue_priority);
        // Each queue of a station has its own stream.
        let mut queues = vec![0_u64; nodes];
        let station_queues = |node: usize| {
            let subject = node as u64 | queues[node] << 32;
            queues[node] += 1;
            let queue = Queue::new(&queue, rate, Stream::new(seed, subject, Purpose::Queue));
            if queue_priority { Queue::Routed(Box::new(Routed::new(queue))) } else { queue }
        };
        let random = |purpose| move |node: usize| Stream::new(seed, node as u64, purpose);
        let reception = random(Purpose::Reception);
        let model = &scenario.radio.propagation;
        let moving = if trajectories.is_empty() {
            None
        } else {
            Moving::new(model, &radio, seed, &links, trajectories)
        };
        let mut mesh = Mesh::new(radio, mac, links, station_queues, reception, random(Purpose::Backoff));
        mesh.set_moving(moving);

        let surroundings =
            Surroundings { scenario, applications: &applications, network: &network, mesh: &mesh };
        let addresses = Addresses { nodes: nodes as NodeId, internet: scenario.internet.is_some() };
        let control = scenario
            .control
            .is_some()
            .then(|| Control::new(scenario, addresses, Throttle::new(surroundings)))
            .flatten();
        if control.as_deref().is_some_and(|control| control.gateways().next().is_some()) {
            applications.real.leave_to_gateways();
        }
        let changes = Changes::new(scenario, finder);
        let duration = Nanos::from_secs_f64(scenario.duration_s);
        let mut recorder = recorder(scenario, duration, &applications, &measured, &mesh);
        if aodv.is_some() {
            recorder.routing = Some(Box::new(RoutingRecord::new(recorder.streams.len(), recorder.interval)));
            for stream in &mut recorder.streams {
                stream.routed = true;
            }
        }
        let transfers = applications.tcp.transfers.len();
        let mut events = Events::new(nodes, 2 * (starts.len() + 2 * transfers) + nodes + 64);
        for (source, start) in starts.iter().enumerate() {
            events.push(*start, EventKind::Source, source as u32);
        }
        if let Some(control) = control.as_deref().filter(|control| control.next_time() <= duration) {
            events.push(control.next_time(), EventKind::Control, 0);
        }
        for at in changes.iter().flat_map(|changes| changes.times()) {
            events.push(at, EventKind::Change, NEXT);
        }
        if let Some(interval) = changes.as_ref().and_then(|changes| changes.interval()) {
            events.push(interval, EventKind::Change, FOLLOW);
        }
        let first_sample =
            if recorder.warmup == Nanos::ZERO { Nanos::ZERO } else { recorder.next_sample(Nanos::ZERO) };
        if first_sample <= duration {
            events.push(first_sample, EventKind::Sample, 0);
        }
        let mut core = Core::new(events, recorder, scenario.routing.ttl);
        if let Some(aodv) = &aodv {
            let mut routers = Routers::new(&aodv.config(), aodv.signal_threshold, nodes, seed);
            routers.arm_all(&mut core);
            core.routing = Some(Box::new(routers));
        }
        Ok(Self {
            scenario: scenario.clone(),
            seed,
            core,
            mesh,
            network,
            applications,
            control,
            changes,
            end: duration,
            finished: false,
        })
    }
}

/// Records for all streams, transfers and nodes of a run.
fn recorder(
    scenario: &Scenario,
    duration: Nanos,
    applications: &Applications,
    measured: &[bool],
    mesh: &Mesh,
) -> Recorder {
    let mut recorder = Recorder::new(
        Nanos::from_secs_f64(scenario.warmup_s),
        Nanos::from_secs_f64(scenario.record.interval_s),
        duration,
        Nanos::from_millis_f64(scenario.voice.playout_ms),
        measured,
        applications.tcp.transfers.len(),
        mesh.len(),
    );
    for (index, flow) in applications.flows.iter().enumerate() {
        if let Some(bound) = flow.delay_bound {
            recorder.streams[stream(index, false) as usize].playout = bound;
        }
        if flow.to == BROADCAST {
            recorder.expect_receivers(stream(index, false), mesh.broadcast_receivers(flow.from));
        }
    }
    recorder
}

/// Real traffic between the attached places.
fn real_flows(scenario: &Scenario) -> RealFlows {
    let attached = scenario.attachments();
    let addresses = attached.iter().flat_map(|attachment| {
        let node = attachment.node;
        attachment.addresses.iter().map(move |(address, _)| (Address::from(*address), node))
    });
    let internet = scenario.topology.node_count() as NodeId;
    let is_internet = |attachment: &&Attachment| scenario.internet.is_some() && attachment.node == internet;
    let default = attached.iter().find(is_internet).map(|attachment| attachment.node);
    let mut ends = Vec::new();
    for (place, from) in attached.iter().enumerate() {
        // Over links, the kernels route.
        if from.kind == AttachKind::Edge {
            ends.extend(attached[..place].iter().map(|to| (from.node, to.node)));
        }
    }
    let playout = Nanos::from_millis_f64(scenario.voice.playout_ms);
    RealFlows::new(addresses.collect(), default, ends, playout)
        .observe_at(internet, scenario.topology.gateways())
}

/// The queue of every station.
fn station_queue(scenario: &Scenario) -> Discipline {
    match (&scenario.control, &scenario.mac.queue) {
        (Some(scenario::Control::Priority { .. }), queue) => {
            let (packets, bytes) = queue.limits();
            Discipline::Priority { packets, bytes }
        }
        (_, queue) => queue.clone(),
    }
}

/// Why a World was not built.
#[derive(Clone, Debug)]
pub enum SetupError {
    /// An [`Interrupt`] has stopped the setup.
    Interrupted,
    /// The scenario cannot be simulated.
    Findings(Vec<Finding>),
}

impl From<Interrupted> for SetupError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<Finding> for SetupError {
    fn from(finding: Finding) -> Self {
        Self::Findings(vec![finding])
    }
}

impl From<Vec<Finding>> for SetupError {
    fn from(findings: Vec<Finding>) -> Self {
        Self::Findings(findings)
    }
}

/// Places the nodes and computes their links. With them come the trajectories of moving nodes: one for each node, or none
/// at all. Nodes that move need not be connected.
fn place(
    scenario: &Scenario,
    radio: &RadioParams,
    data_rate: Rate,
    seed: u64,
    interrupt: &Interrupt<'_>,
) -> Result<(Links, Vec<Option<Trajectory>>), SetupError> {
    let mut draws = Stream::new(seed, 0, Purpose::Placement);
    let model = &scenario.radio.propagation;
    let linked = |at: &[Position], from: usize, to: usize| {
        let power = Links::power_between(model, radio, seed, (from, to), at[from], at[to]);
        radio.decodes(data_rate, power)
    };
    let everywhere = |_: &[Position], _: usize, _: usize| true;
    let linkage = if scenario.has_mobility() {
        Linkage { reach_m: f64::INFINITY, linked: &everywhere }
    } else {
        Linkage { reach_m: decode_limit_m(model, radio, data_rate), linked: &linked }
    };
    let mut positions = scenario.topology.positions(|| draws.unit(), &linkage, interrupt)??;
    let trajectories = trajectories(scenario, seed, &mut positions)?;
    let links = Links::new(model, radio, seed, positions, interrupt).map_err(|error| match error {
        LinksError::Interrupted => SetupError::Interrupted,
        LinksError::TooMany { mean_per_node } => too_many_links(scenario, mean_per_node).into(),
    })?;
    Ok((links, trajectories))
}

fn too_many_links(scenario: &Scenario, mean_per_node: u32) -> Finding {
    let nodes = scenario.topology.node_count();
    Finding::new(
        "topology",
        format!(
            "each of the {nodes} nodes senses about {mean_per_node} others; the network would have more than the {MAX_LINKS} \
             links that fit in 512 MiB"
        ),
        "too dense",
        format!(
            "keep the number of nodes times the number of nodes that each one senses below {MAX_LINKS}: use fewer nodes (at \
             most {} if all sense each other), place them farther apart, or shorten the reach of the radio \
             (carrier_sense_m, tx_power_dbm)",
            MAX_LINKS.isqrt()
        ),
    )
}

/// A signal must reach everybody before an answer to it can begin: the timing of the standard supposes so.
fn check_reach(links: &Links, mac: &MacParams) -> Result<(), Vec<Finding>> {
    let longest =
        (0..links.positions().len()).map(|node| links.longest_delay(node)).max().unwrap_or_default();
    if longest < mac.phy.sifs {
        return Ok(());
    }
    Err(vec![reaches_too_far(longest.as_secs_f64() * LIGHT_M_PER_S, mac)])
}

fn reaches_too_far(heard_m: f64, mac: &MacParams) -> Finding {
    let most_m = (mac.phy.sifs.as_secs_f64() * LIGHT_M_PER_S).floor();
    Finding::new(
        "radio.propagation",
        format!(
            "signals are heard over {heard_m:.0} m, but the inter-frame spaces of 802.11 bridge {most_m:.0} m at most"
        ),
        "reaches too far",
        "place the nodes closer together, lower tx_power_dbm, or shorten the radii of the range model",
    )
}
