//! Setup of networks: its work grows with links and flows, and it can be stopped at any moment.
//!
//! Work is counted in checks for an interrupt, which do not depend on the machine: one for each node that is placed,
//! whose links or hops are computed, and one for 64 nodes that a search for paths expands.

use std::cell::Cell;

use crate::support::*;
use fairhop_sim::engine::Interrupt;
use fairhop_sim::scenario::{Scenario, Topology};
use fairhop_sim::world::{SetupError, World};

/// Random nodes with 250 m of reach, and a CBR flow for each pair of ends.
fn random(nodes: u32, side_m: f64, ends: impl Iterator<Item = (u32, u32)>) -> Scenario {
    let mut lab = Lab::at([(0.0, 0.0)]);
    lab.scenario.topology = Topology::Random { nodes, width_m: side_m, height_m: side_m, gateway: 0.into() };
    for (from, to) in ends {
        lab = lab.stream(node(from), node(to), 228, 4.0);
    }
    assert!(lab.scenario.findings().is_empty());
    lab.scenario
}

/// A square with 20 neighbours in reach of a node on average.
fn ordinary_side_m(nodes: u32) -> f64 {
    (f64::from(nodes) * std::f64::consts::PI * 250.0 * 250.0 / 20.0).sqrt()
}

/// Checks for an interrupt until the setup is done, or until it was stopped at the one with the number `stop`.
fn checks(scenario: &Scenario, stop: u64) -> Result<u64, SetupError> {
    let count = Cell::new(0);
    let requested = || {
        count.set(count.get() + 1);
        count.get() == stop
    };
    World::new_interruptible(scenario, 1, &Interrupt::new(&requested)).map(|_| count.get())
}

#[test]
fn setup_can_be_stopped_while_it_places_nodes_computes_links_and_searches_paths() {
    let nodes = 300;
    let mut scenario =
        random(nodes, ordinary_side_m(nodes), (1..nodes).map(|node| (node, (node + 150) % nodes)));
    scenario.change = (1..20)
        .map(|step| fairhop_sim::scenario::Change::Rate {
            at_s: 0.01 * f64::from(step),
            from: step,
            to: None,
            rate_mbps: 6.0,
        })
        .collect();
    let all = checks(&scenario, u64::MAX).expect("a network");
    assert!(all > 900, "{all} checks");
    for stop in (1..=all).step_by(97).chain([all]) {
        let stopped = checks(&scenario, stop);
        assert!(matches!(stopped, Err(SetupError::Interrupted)), "{stop} of {all}: {stopped:?}");
    }
}

#[test]
fn the_work_of_setup_grows_with_the_nodes_if_their_density_and_the_length_of_paths_stay() {
    let work = |nodes: u32| {
        let to_gateway = random(nodes, ordinary_side_m(nodes), (1..nodes).map(|node| (node, 0)));
        checks(&to_gateway, u64::MAX).expect("a network") as f64 / f64::from(nodes)
    };
    let (small, large) = (work(500), work(4000));
    assert!(large < 3.0 * small, "{small} checks a node among 500, {large} among 4000");
}

/// Nodes that all hear each other: a search would be cubic if it looked at every link for every flow.
#[test]
fn in_a_dense_network_a_search_looks_only_at_what_lies_between_the_ends() {
    let nodes = 500;
    let scenario = random(nodes, 170.0, (0..nodes).map(|node| (node, (node + 250) % nodes)));
    let work = checks(&scenario, u64::MAX).expect("a network");
    // Placement, links and hops are some 3 checks a node. A whole search of each flow would be 8 checks a flow more.
    assert!(work < 5 * u64::from(nodes), "{work} checks");
}
