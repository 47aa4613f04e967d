//! Positions of the nodes of a topology.
//!
//! Nodes are numbered line by line, row by row, counterclockwise around the circle from the east, or in the order of the
//! list. A random placement is redrawn as a whole until it is connected, so that the result is a uniform sample of all
//! connected placements; placing one node after the other next to existing ones would be biased.

use std::f64::consts::PI;

use super::error::Finding;
use super::topology::Topology;

/// x and y in metres.
pub type Position = (f64, f64);

/// Maximum number of placements drawn for a random topology.
const MAX_PLACEMENTS: u32 = 1_000;

/// Maximum number of pairs tested for a random topology; this bounds the search to some seconds.
const MAX_LINK_CHECKS: u64 = 1_000_000_000;

impl Topology {
    /// Positions of the nodes in metres. Only a random topology calls `draw`, which returns uniform numbers in [0, 1), and
    /// `linked`, which returns whether two nodes of a placement can exchange frames.
    ///
    /// # Errors
    /// No connected placement of a random topology was found.
    pub fn positions(
        &self,
        mut draw: impl FnMut() -> f64,
        linked: impl Fn(&[Position], usize, usize) -> bool,
    ) -> Result<Vec<Position>, Finding> {
        Ok(match self {
            Self::String { hops, spacing_m, lines, line_spacing_m, .. } => {
                lattice(hops + 1, *lines, *spacing_m, line_spacing_m.unwrap_or(*spacing_m))
            }
            Self::Grid { columns, rows, spacing_m, .. } => lattice(*columns, *rows, *spacing_m, *spacing_m),
            Self::Ring { nodes, spacing_m, .. } => circle(*nodes, *spacing_m),
            Self::Random { nodes, width_m, height_m, .. } => {
                connected(*nodes as usize, (*width_m, *height_m), &mut draw, &linked)?
            }
            Self::Explicit { nodes, .. } => nodes.iter().map(|n| (n.x_m, n.y_m)).collect(),
            Self::None => Vec::new(),
        })
    }
}

fn lattice(columns: u32, rows: u32, dx: f64, dy: f64) -> Vec<Position> {
    (0..rows).flat_map(|r| (0..columns).map(move |c| (f64::from(c) * dx, f64::from(r) * dy))).collect()
}

fn circle(nodes: u32, chord: f64) -> Vec<Position> {
    let step = 2.0 * PI / f64::from(nodes);
    let radius = chord / (2.0 * libm::sin(step / 2.0));
    let at = |i: u32| (radius * libm::cos(f64::from(i) * step), radius * libm::sin(f64::from(i) * step));
    (0..nodes).map(at).collect()
}

fn connected(
    nodes: usize,
    (width, height): (f64, f64),
    draw: &mut impl FnMut() -> f64,
    linked: &impl Fn(&[Position], usize, usize) -> bool,
) -> Result<Vec<Position>, Finding> {
    let mut at = vec![(0.0, 0.0); nodes];
    let mut checks = 0;
    let mut placements = 0;
    while placements < MAX_PLACEMENTS && checks < MAX_LINK_CHECKS {
        for (x, y) in &mut at {
            *x = draw() * width;
            *y = draw() * height;
        }
        placements += 1;
        if reaches_all(&at, linked, &mut checks) {
            return Ok(at);
        }
    }
    Err(not_connected(&at, (width, height), placements, linked))
}

/// Breadth first from node 0.
fn reaches_all(
    at: &[Position],
    linked: &impl Fn(&[Position], usize, usize) -> bool,
    checks: &mut u64,
) -> bool {
    let mut unreached: Vec<usize> = (1..at.len()).collect();
    let mut frontier = vec![0];
    while let Some(from) = frontier.pop() {
        *checks += unreached.len() as u64;
        unreached.retain(|&to| {
            let reached = linked(at, from, to);
            if reached {
                frontier.push(to);
            }
            !reached
        });
    }
    unreached.is_empty()
}

/// The error of a placement that is not connected, with a density that would do. Random geometric graphs become connected
/// at about ln n neighbours per node (Gupta and Kumar 1998); with ln n + 3, and fewer neighbours at the edges of the
/// rectangle, a few placements in ten are connected.
fn not_connected(
    at: &[Position],
    (width, height): (f64, f64),
    placements: u32,
    linked: &impl Fn(&[Position], usize, usize) -> bool,
) -> Finding {
    let nodes = at.len();
    let links = (0..nodes).map(|i| (0..i).filter(|&j| linked(at, i, j)).count()).sum::<usize>();
    let neighbours = 2.0 * links as f64 / nodes as f64;
    let wanted = libm::log(nodes as f64) + 3.0;
    let help = if links == 0 {
        "no two nodes are neighbours: make width_m and height_m many times smaller, or increase the range of the radio"
            .to_owned()
    } else if neighbours < wanted {
        let shrink = libm::sqrt(neighbours / wanted);
        let more = nodes as f64 * wanted / neighbours;
        format!(
            "the nodes had {neighbours:.1} neighbours on average and need about {wanted:.0}: try width_m = {:.0} and \
             height_m = {:.0}, or nodes = {more:.0}, or a longer range of the radio",
            width * shrink,
            height * shrink,
        )
    } else {
        format!(
            "the nodes had {neighbours:.1} neighbours on average, which is usually enough: the rectangle may be too long \
             and narrow, or shadowing too strong; try more nodes or another seed"
        )
    };
    Finding::new(
        "topology",
        format!("none of {placements} random placements of {nodes} nodes was connected"),
        "too sparse",
        help,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::topology::NodeAt;

    fn never() -> f64 {
        panic!("only random topologies draw")
    }

    fn places(topology: &Topology) -> Vec<Position> {
        topology.positions(never, |_, _, _| true).expect("positions")
    }

    fn distance(a: Position, b: Position) -> f64 {
        libm::hypot(a.0 - b.0, a.1 - b.1)
    }

    /// Pseudo-random numbers in [0, 1), with the multiplier of PCG.
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    fn within(metres: f64) -> impl Fn(&[Position], usize, usize) -> bool {
        move |at, i, j| distance(at[i], at[j]) <= metres
    }

    fn random(nodes: u32, side: f64) -> Topology {
        Topology::Random { nodes, width_m: side, height_m: side, gateway: 0.into() }
    }

    #[test]
    fn lines_and_rows_are_numbered_one_after_the_other() {
        let lines = Topology::String {
            hops: 2,
            spacing_m: 100.0,
            lines: 2,
            line_spacing_m: Some(300.0),
            gateway: 0.into(),
        };
        let expected = [(0.0, 0.0), (100.0, 0.0), (200.0, 0.0), (0.0, 300.0), (100.0, 300.0), (200.0, 300.0)];
        assert_eq!(places(&lines), expected);
        let grid = Topology::Grid { columns: 2, rows: 2, spacing_m: 10.0, gateway: 0.into() };
        assert_eq!(places(&grid), [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)]);
        let nodes = vec![NodeAt { x_m: 3.0, y_m: 4.0 }];
        assert_eq!(places(&Topology::Explicit { nodes, gateway: 0.into() }), [(3.0, 4.0)]);
    }

    #[test]
    fn neighbours_on_a_ring_are_a_chord_apart() {
        for nodes in [3, 4, 8, 1000] {
            let at = places(&Topology::Ring { nodes, spacing_m: 200.0, gateway: 0.into() });
            assert_eq!(at.len(), nodes as usize);
            for i in 0..at.len() {
                assert!((distance(at[i], at[(i + 1) % at.len()]) - 200.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn the_error_of_a_sparse_placement_suggests_one_that_is_connected() {
        let sparse = random(30, 2_000.0).positions(draws(1), within(250.0)).expect_err("too sparse");
        let number = |after: &str| -> f64 {
            let rest = sparse.help.split(after).nth(1).expect("the hint");
            rest.split([' ', ',']).next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let (side, nodes) = (number("width_m = "), number("nodes = "));
        assert!(random(30, side).positions(draws(2), within(250.0)).is_ok(), "{}", sparse.help);
        assert!(random(nodes as u32, 2_000.0).positions(draws(3), within(250.0)).is_ok(), "{}", sparse.help);
        let unlinked = random(3, 1e6).positions(draws(1), |_, _, _| false).expect_err("no links");
        assert!(unlinked.help.contains("no two nodes"), "{}", unlinked.help);
    }

    proptest! {
        #[test]
        fn a_random_placement_is_connected_within_its_rectangle_and_determined_by_its_seed(seed: u64, nodes in 1_u32..40) {
            let topology = Topology::Random { nodes, width_m: 500.0, height_m: 300.0, gateway: 0.into() };
            let at = topology.positions(draws(seed), within(250.0)).expect("dense enough");
            prop_assert!(at.iter().all(|(x, y)| (0.0..500.0).contains(x) && (0.0..300.0).contains(y)));
            let mut reached = vec![0];
            for next in 0.. {
                let Some(&from) = reached.get(next) else { break };
                reached.extend((0..at.len()).filter(|&to| !reached.contains(&to) && distance(at[from], at[to]) <= 250.0).collect::<Vec<_>>());
            }
            prop_assert_eq!(reached.len(), nodes as usize);
            prop_assert_eq!(topology.positions(draws(seed), within(250.0)).expect("the same"), at);
        }
    }
}
