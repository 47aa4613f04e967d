//! Shares against the centralized algorithm of [`fairhop_model::share`], on random static networks.

use std::collections::VecDeque;

use fairhop_model::share::{c_load_shares, regions};
use proptest::prelude::*;

use super::*;
use crate::Random;
use crate::draws::Draws;
use crate::wire::extensions;

const INTERVAL: Nanos = Nanos::from_secs(1);

/// Nodes that say HELLO in an order of their own.
#[derive(Debug)]
struct Network {
    nodes: Vec<Pdp>,
    linked: Vec<Vec<bool>>,
    paths: Vec<Vec<usize>>,
    interval: u64,
    random: Draws,
    /// Bytes of extensions so far.
    bytes: usize,
}

const fn address(node: usize) -> Address {
    Address(10 + node as u32)
}

impl Network {
    /// A flow along each path.
    fn new(linked: Vec<Vec<bool>>, paths: Vec<Vec<usize>>) -> Self {
        let node = || Pdp::new(INTERVAL, 2, Nanos::from_secs(10));
        let nodes = (0..linked.len()).map(|_| node()).collect();
        Self { nodes, linked, paths, interval: 0, random: Draws::new(1), bytes: 0 }
    }

    /// All nodes say HELLO once, at their own phase; each is lost at each receiver with a chance in thousandths.
    fn step(&mut self, loss: u32) {
        for node in 0..self.nodes.len() {
            let now = INTERVAL * self.interval + Nanos::from_millis((node as u64 * 613) % 1000);
            for path in &self.paths {
                let Some(at) = path.iter().position(|&member| member == node) else { continue };
                let ends = (address(path[0]), address(path[path.len() - 1]));
                let previous = at.checked_sub(1).map(|before| address(path[before]));
                let next = path.get(at + 1).map(|&after| address(after));
                self.nodes[node].on_data(now, ends, previous, next, (path.len() - 1 - at) as u8);
            }
            let mut out = Vec::new();
            self.nodes[node].on_hello(now, &mut out);
            self.bytes += out.len();
            for peer in 0..self.nodes.len() {
                if self.linked[node][peer] && self.random.up_to(999) >= loss {
                    for extension in extensions(&out) {
                        let (kind, data) = extension.expect("whole");
                        assert_eq!(kind, EXTENSION);
                        self.nodes[peer].on_extension(now, address(node), data);
                    }
                }
            }
        }
        self.interval += 1;
    }

    fn shares(&self) -> Vec<f64> {
        let share = |path: &Vec<usize>| {
            let ends = (address(path[0]), address(path[path.len() - 1]));
            self.nodes[path[0]].share(ends.0, ends.1).expect("it sends")
        };
        self.paths.iter().map(share).collect()
    }

    fn centralized(&self) -> Vec<f64> {
        let hears = |a: usize, b: usize| self.linked[a][b];
        c_load_shares(&regions(self.nodes.len(), hears, &self.paths), self.paths.len())
    }

    /// Intervals within which shares must have settled: 3 (h_max + 1) × (bottleneck levels).
    fn bound(&self) -> u64 {
        let mut levels: Vec<u64> = self.centralized().iter().map(|share| (share * 65_536.0) as u64).collect();
        levels.sort_unstable();
        levels.dedup();
        let hops = self.paths.iter().map(|path| path.len() as u64 - 1).max().unwrap_or(0);
        3 * (hops + 1) * levels.len() as u64
    }
}

/// The shortest path, by the lowest numbers.
fn path(linked: &[Vec<bool>], from: usize, to: usize) -> Option<Vec<usize>> {
    let mut before = vec![usize::MAX; linked.len()];
    let mut open = VecDeque::from([to]);
    before[to] = to;
    while let Some(node) = open.pop_front() {
        for next in 0..linked.len() {
            if linked[node][next] && before[next] == usize::MAX {
                before[next] = node;
                open.push_back(next);
            }
        }
    }
    let mut path = vec![from];
    while *path.last()? != to {
        let next = before[*path.last()?];
        if next == usize::MAX {
            return None;
        }
        path.push(next);
    }
    Some(path)
}

/// Nodes in the unit square that are linked within a reach, and flows with different ends.
fn networks() -> impl Strategy<Value = Network> {
    let places = prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 3..16);
    let flows = prop::collection::vec((0..16_usize, 0..16_usize), 1..7);
    (places, 0.25..0.6_f64, flows).prop_map(|(places, reach, flows)| {
        let near = |a: &(f64, f64), b: &(f64, f64)| {
            a != b && (a.0 - b.0).powi(2) + (a.1 - b.1).powi(2) < reach * reach
        };
        let linked: Vec<Vec<bool>> =
            places.iter().map(|a| places.iter().map(|b| near(a, b)).collect()).collect();
        let mut paths: Vec<Vec<usize>> = Vec::new();
        for (from, to) in flows {
            let (from, to) = (from % places.len(), to % places.len());
            let known = |path: &Vec<usize>| {
                let ends = (path[0], path[path.len() - 1]);
                ends == (from, to) || ends == (to, from)
            };
            if from != to
                && !paths.iter().any(known)
                && let Some(path) = path(&linked, from, to)
            {
                paths.push(path);
            }
        }
        Network::new(linked, paths)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn settled_shares_are_the_centralized_ones_within_the_stated_time(mut network in networks()) {
        for _ in 0..network.bound() {
            network.step(0);
        }
        for (share, expected) in network.shares().into_iter().zip(network.centralized()) {
            prop_assert!((share - expected).abs() <= 1.0 / 16_384.0, "{share} {expected}");
        }
        let loads: Vec<f64> = network.nodes.iter().map(Pdp::load).collect();
        prop_assert!(loads.iter().all(|&load| load <= 1.0 + 1e-9), "{loads:?}");
    }
}

/// Four flows of which three meet in one region and the fourth shares a region with one of them: 1/3, 1/3, 1/3, 2/3.
fn three_and_one() -> Network {
    // Nodes 0, 1, 2 form a triangle of one-hop flows with 3, 4, 5; node 2's flow is near 6 and 7 only.
    let edges = [(0, 3), (1, 4), (2, 5), (0, 1), (1, 2), (0, 2), (5, 6), (6, 7)];
    let mut linked = vec![vec![false; 8]; 8];
    for (a, b) in edges {
        (linked[a][b], linked[b][a]) = (true, true);
    }
    Network::new(linked, vec![vec![0, 3], vec![1, 4], vec![2, 5], vec![6, 7]])
}

#[test]
fn shares_of_the_papers_kind_of_network_are_a_third_and_two_thirds() {
    let mut network = three_and_one();
    let expected = network.centralized();
    assert!((expected[0] - 1.0 / 3.0).abs() < 1e-9 && (expected[3] - 2.0 / 3.0).abs() < 1e-9, "{expected:?}");
    for _ in 0..network.bound() {
        network.step(0);
    }
    for (share, expected) in network.shares().into_iter().zip(expected) {
        assert!((share - expected).abs() <= 1.0 / 16_384.0, "{share} {expected}");
    }
}

#[test]
fn with_a_tenth_of_the_hellos_lost_shares_are_within_5_percent_in_95_percent_of_the_time() {
    let mut network = three_and_one();
    let expected = network.centralized();
    for _ in 0..network.bound() {
        network.step(100);
    }
    let (mut all, mut close) = (0, 0);
    for _ in 0..2000 {
        network.step(100);
        for (share, expected) in network.shares().into_iter().zip(&expected) {
            all += 1;
            close += usize::from((share / expected - 1.0).abs() <= 0.05);
        }
    }
    assert!(close * 100 >= all * 95, "{close} of {all}");
}

/// Bytes of the extension by the number of 3-hop flows along parallel lines, all in one region.
#[test]
fn the_extension_takes_the_order_of_one_kilobit_a_second_for_each_flow() {
    for flows in [1_usize, 2, 4, 9] {
        let nodes = 4 * flows;
        let linked = (0..nodes).map(|a| (0..nodes).map(|b| a != b).collect()).collect();
        let paths = (0..flows).map(|flow| (4 * flow..4 * flow + 4).collect()).collect();
        let mut network = Network::new(linked, paths);
        for _ in 0..20 {
            network.step(0);
        }
        network.bytes = 0;
        for _ in 0..10 {
            network.step(0);
        }
        let kbps = network.bytes as f64 * 8.0 / 1000.0 / 10.0 / flows as f64;
        // Every node lists every flow: nodes × (14 + header) × 8 bits for each flow.
        let entries = nodes as f64 * 14.0 * 8.0 / 1000.0;
        assert!(kbps >= entries && kbps <= entries * 1.2, "{flows} flows: {kbps} kb/s each");
    }
}

#[test]
fn an_unknown_share_counts_as_bound_here_and_the_offer_never_exceeds_the_whole() {
    assert_eq!(offer(&[]), WHOLE);
    assert_eq!(offer(&[None, None]), WHOLE / 2);
    assert_eq!(offer(&[Some(1000), None]), WHOLE - 1000);
    assert_eq!(offer(&[Some(1000), Some(2000)]), WHOLE - 1000);
    assert_eq!(offer(&[Some(WHOLE), Some(WHOLE), Some(WHOLE)]), WHOLE / 3);
}

#[test]
fn a_server_uses_the_share_that_the_path_announces_for_its_client() {
    let mut network = three_and_one();
    for _ in 0..network.bound() {
        network.step(0);
    }
    let (client, server) = (address(6), address(7));
    let (asked, answered) = (network.nodes[6].share(client, server), network.nodes[7].share(server, client));
    assert!(asked.is_some() && asked == answered, "{asked:?} {answered:?}");
    assert_eq!(network.nodes[5].share(address(5), client), None, "off the path");
}

/// Data go 0-1-2-3, and their ACKs 3-4-5-0. Another flow (6, 7) is near the ACKs' node 5 alone.
#[test]
fn answers_over_another_path_are_no_flow_of_their_own_but_count_in_the_regions_that_they_cross() {
    let links = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (5, 6), (6, 7)];
    let linked = |a: usize, b: usize| links.contains(&(a, b)) || links.contains(&(b, a));
    let mut nodes: Vec<Pdp> = (0..8).map(|_| Pdp::new(INTERVAL, 2, Nanos::from_secs(10))).collect();
    let at = |node: usize| Some(address(node));
    let walk = |nodes: &mut Vec<Pdp>, now: Nanos, path: &[usize]| {
        let ends = (address(path[0]), address(path[path.len() - 1]));
        for (place, &node) in path.iter().enumerate() {
            let previous = place.checked_sub(1).and_then(|before| at(path[before]));
            let next = path.get(place + 1).and_then(|&after| at(after));
            nodes[node].on_data(now, ends, previous, next, (path.len() - 1 - place) as u8);
        }
    };
    for step in 0..40_u64 {
        let now = Nanos(step * INTERVAL.0);
        walk(&mut nodes, now, &[0, 1, 2, 3]);
        walk(&mut nodes, now, &[3, 4, 5, 0]);
        walk(&mut nodes, now, &[6, 7]);
        for from in 0..8 {
            let mut bytes = Vec::new();
            nodes[from].on_hello(now, &mut bytes);
            for to in (0..8).filter(|&to| linked(from, to)) {
                for (_, data) in crate::wire::extensions(&bytes).flatten() {
                    nodes[to].on_extension(now, address(from), data);
                }
            }
        }
    }
    let shares = [nodes[0].share(address(0), address(3)), nodes[6].share(address(6), address(7))];
    for share in shares {
        assert!((share.expect("a share") - 0.5).abs() <= 1.0 / 16_384.0, "{shares:?}");
    }
}

#[test]
fn answers_belong_to_the_flow_and_an_idle_flow_ends() {
    let mut pdp = Pdp::new(INTERVAL, 2, Nanos::from_secs(10));
    let (a, b) = (address(0), address(1));
    pdp.on_data(Nanos::ZERO, (a, b), None, Some(b), 1);
    pdp.on_data(Nanos::from_secs(5), (b, a), Some(b), None, 0);
    assert_eq!(pdp.share(b, a), None);
    assert_eq!(pdp.share(a, b), Some(1.0));
    pdp.on_hello(Nanos::from_secs(14), &mut Vec::new());
    assert!(pdp.has_region());
    pdp.on_hello(Nanos::from_secs(15), &mut Vec::new());
    assert!(!pdp.has_region() && pdp.share(a, b).is_none());
}
