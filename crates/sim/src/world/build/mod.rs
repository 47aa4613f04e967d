//! From a scenario to a World that is ready to run.

mod flows;
mod paths;
mod wired;

use fairhop_model::phy::Rate;
use fairhop_model::units::Nanos;

use super::changes::{Changes, NEXT, wires};
use super::control::{Control, crossings};
use super::throttle::{Surroundings, Throttle};
use super::traffic::stream;
use super::{OnAirs, World};
use crate::engine::{EventKind, Events, Purpose, Stream};
use crate::mac::{BROADCAST, MacParams, Stations};
use crate::output::headers::Addresses;
use crate::packet::{NodeId, Packets};
use crate::queue::Queue;
use crate::radio::{LIGHT_M_PER_S, Links, Position, RadioParams, Receiver as RadioReceiver};
use crate::recorder::Recorder;
use crate::routing::Routes;
use crate::scenario::{self, Finding, Scenario};
use crate::wired::Link;
use flows::Plan;
use wired::{hosts, wire};

impl World {
    /// A World that is ready to run, with every random draw fixed by `seed`. The scenario must have passed
    /// [`Scenario::findings`].
    ///
    /// # Errors
    /// What only the placed network can tell: flows without a route, paths set by hand over links that do not work,
    /// random nodes that cannot be connected, radios that reach farther than the timing of 802.11 allows.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Vec<Finding>> {
        let radio = RadioParams::new(&scenario.radio);
        let standard = scenario.radio.standard;
        let data_rate = standard.rate(scenario.radio.rate_mbps).unwrap_or(standard.rates()[0]);
        let basic_rates: Vec<Rate> = match &scenario.radio.basic_rates_mbps {
            Some(rates) => rates.iter().filter_map(|&mbps| standard.rate(mbps)).collect(),
            None => standard.mandatory_rates().to_vec(),
        };
        let mac = MacParams::new(&scenario.radio, &scenario.mac, data_rate, &basic_rates);
        let links = place(scenario, &radio, data_rate, seed)?;
        check_reach(&links, &mac)?;

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
        let routes = Routes::new(&plan.paths_from_start(&links, &wires, &radio, &mac)?, &wires);
        plan.check_changes(&links, &wires, &radio, &mac)?;

        let duration = Nanos::from_secs_f64(scenario.duration_s);
        let mut events = Events::new(nodes, 2 * (plan.sources.len() + 2 * plan.transfers.len()) + nodes + 64);
        for (index, start) in plan.starts.iter().enumerate() {
            events.push(*start, EventKind::Source, index as u32);
        }
        let control = control(scenario, &plan, &routes, &wired, &links, &radio, &basic_rates);
        if let Some(control) = control.as_deref().filter(|control| control.next_time() <= duration) {
            events.push(control.next_time(), EventKind::Control, 0);
        }
        let changes = Changes::new(scenario);
        for at in changes.iter().flat_map(|changes| changes.times()) {
            events.push(at, EventKind::Change, NEXT);
        }
        let mut recorder = Recorder::new(
            Nanos::from_secs_f64(scenario.warmup_s),
            Nanos::from_secs_f64(scenario.record.interval_s),
            duration,
            Nanos::from_millis_f64(scenario.voice.playout_ms),
            &plan.measured,
            plan.transfers.len(),
            nodes,
        );
        for (index, flow) in plan.flows.iter().enumerate() {
            if let Some(bound) = flow.delay_bound {
                recorder.streams[stream(index, false) as usize].playout = bound;
            }
            if flow.to == BROADCAST {
                let from = links.from(flow.from as usize).iter();
                let in_reach = from.filter(|link| radio.decodes(mac.broadcast_rate, link.power));
                recorder.expect_receivers(stream(index, false), in_reach.map(|link| link.to));
            }
        }
        let first_sample =
            if recorder.warmup == Nanos::ZERO { Nanos::ZERO } else { recorder.next_sample(Nanos::ZERO) };
        if first_sample <= duration {
            events.push(first_sample, EventKind::Sample, 0);
        }
        // What a station's queue needs to know of its radio: how long a packet takes at best.
        let rate = mac.data_rate.bit_rate();
        let queue = station_queue(scenario);
        // Each queue of a station has its own stream.
        let mut queues = vec![0_u64; nodes];
        let station_queues = |node: usize| {
            let subject = node as u64 | queues[node] << 32;
            queues[node] += 1;
            Queue::new(&queue, rate, Stream::new(seed, subject, Purpose::Queue))
        };
        Ok(Self {
            receivers: (0..nodes)
                .map(|n| RadioReceiver::new(Stream::new(seed, n as u64, Purpose::Reception)))
                .collect(),
            stations: Stations::new(&mac, nodes, station_queues, |n| {
                Stream::new(seed, n as u64, Purpose::Backoff)
            }),
            on_air: OnAirs::new(nodes),
            fetches: nodes > World::FEW,
            consequences: Vec::with_capacity(nodes),
            hosts,
            scenario: scenario.clone(),
            seed,
            events,
            radio,
            mac,
            links,
            routes,
            wired,
            packets: Packets::with_capacity(1024),
            flows: plan.flows,
            sources: plan.sources,
            transfers: plan.transfers,
            sessions: plan.sessions,
            videos: plan.videos,
            aimd: plan.aimd,
            quic: plan.quic,
            reporters: plan.reporters,
            changes,
            control,
            recorder,
            end: duration,
            finished: false,
            tap: None,
        })
    }
}

/// The control of a scenario, with what it needs to know of the network.
#[allow(clippy::too_many_arguments)]
fn control(
    scenario: &Scenario,
    plan: &Plan<'_>,
    routes: &Routes,
    wired: &[Link],
    links: &Links,
    radio: &RadioParams,
    basic: &[Rate],
) -> Option<Box<Control>> {
    scenario.control.as_ref()?;
    let sessions: Vec<usize> = plan.sessions.iter().map(|session| session.transfer).collect();
    let throttle = Throttle::new(&Surroundings {
        scenario,
        flows: &plan.flows,
        transfers: &plan.transfers,
        sessions: &sessions,
        routes,
        wired,
        links,
        radio,
        basic,
    });
    let ends = || plan.flows.iter().map(|flow| (flow.from, flow.to));
    let gateways = scenario.topology.gateways().iter();
    let crossings = gateways.map(|&node| (node, crossings(ends(), node, routes, wired)));
    let addresses = Addresses { nodes: plan.nodes, internet: scenario.internet.is_some() };
    Control::new(scenario, addresses, crossings, throttle)
}

/// The queue of every station.
fn station_queue(scenario: &Scenario) -> scenario::Queue {
    match (&scenario.control, &scenario.mac.queue) {
        (Some(scenario::Control::Priority { .. }), queue) => {
            let (packets, bytes) = queue.limits();
            scenario::Queue::Priority { packets, bytes }
        }
        (_, queue) => queue.clone(),
    }
}

/// Places the nodes and computes who hears whom.
fn place(
    scenario: &Scenario,
    radio: &RadioParams,
    data_rate: Rate,
    seed: u64,
) -> Result<Links, Vec<Finding>> {
    let mut draws = Stream::new(seed, 0, Purpose::Placement);
    let model = &scenario.radio.propagation;
    let linked = |at: &[(f64, f64)], from: usize, to: usize| {
        let power =
            Links::power_between(model, radio, seed, (from, to), position(at[from]), position(at[to]));
        radio.decodes(data_rate, power)
    };
    let at = scenario.topology.positions(|| draws.unit(), linked).map_err(|finding| vec![finding])?;
    Ok(Links::new(model, radio, seed, at.into_iter().map(position).collect()))
}

fn position((x_m, y_m): (f64, f64)) -> Position {
    Position { x_m, y_m }
}

/// A signal must reach everybody before an answer to it can begin: the timing of the standard supposes so.
fn check_reach(links: &Links, mac: &MacParams) -> Result<(), Vec<Finding>> {
    let longest =
        (0..links.positions().len()).map(|node| links.longest_delay(node)).max().unwrap_or_default();
    if longest < mac.phy.sifs {
        return Ok(());
    }
    let most_m = (mac.phy.sifs.as_secs_f64() * LIGHT_M_PER_S).floor();
    Err(vec![Finding::new(
        "radio.propagation",
        format!(
            "signals are heard over {:.0} m, but the inter-frame spaces of 802.11 bridge {most_m:.0} m at most",
            longest.as_secs_f64() * LIGHT_M_PER_S
        ),
        "reaches too far",
        "place the nodes closer together, lower tx_power_dbm, or shorten the radii of the range model",
    )])
}
