//! Positions of the nodes of a topology.
//!
//! Nodes are numbered as [`Topology`] says: line by line, row by row, around the circle from the east, in the order of
//! the list. Random placements are drawn as a whole until one is connected, so that the result is a sample of all
//! connected placements, not one grown around its first node.

use std::f64::consts::PI;

use super::topology::Topology;
use crate::engine::{Interrupt, Interrupted};
use crate::radio::{Grid, Position};
use fairhop_config::Finding;

/// Maximum number of placements that are drawn for a random topology.
const MAX_PLACEMENTS: u32 = 1_000;

/// Maximum number of pairs of nodes that are checked for a random topology: some seconds of work.
const MAX_CHECKS: u64 = 250_000_000;

/// Which nodes of a placement can exchange frames.
pub struct Linkage<'a> {
    /// Distance in metres beyond which no two nodes can.
    pub reach_m: f64,
    /// Whether two nodes at given positions can.
    pub linked: &'a dyn Fn(&[Position], usize, usize) -> bool,
}

impl Topology {
    /// The positions of the nodes. Only a random topology uses `draw`, which gives uniform numbers in [0, 1), and
    /// `linkage`.
    ///
    /// # Errors
    /// An interrupt; inside, a random topology of which no placement was connected.
    pub fn positions(
        &self,
        mut draw: impl FnMut() -> f64,
        linkage: &Linkage<'_>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Result<Vec<Position>, Finding>, Interrupted> {
        Ok(Ok(match self {
            Self::String { hops, spacing_m, lines, line_spacing_m, .. } => {
                lattice(hops + 1, *lines, *spacing_m, line_spacing_m.unwrap_or(*spacing_m))
            }
            Self::Grid { columns, rows, spacing_m, .. } => lattice(*columns, *rows, *spacing_m, *spacing_m),
            Self::Ring { nodes, spacing_m, .. } => circle(*nodes, *spacing_m),
            Self::Random { nodes, width_m, height_m, .. } => {
                return connected(*nodes as usize, (*width_m, *height_m), &mut draw, linkage, interrupt);
            }
            Self::Explicit { nodes, .. } => {
                nodes.iter().map(|n| Position { x_m: n.x_m, y_m: n.y_m }).collect()
            }
            Self::None => Vec::new(),
        }))
    }
}

fn lattice(columns: u32, rows: u32, dx: f64, dy: f64) -> Vec<Position> {
    let row = |r| (0..columns).map(move |c| Position { x_m: f64::from(c) * dx, y_m: f64::from(r) * dy });
    (0..rows).flat_map(row).collect()
}

fn circle(nodes: u32, chord: f64) -> Vec<Position> {
    let step = 2.0 * PI / f64::from(nodes);
    let radius = chord / (2.0 * libm::sin(step / 2.0));
    let angle = |i: u32| f64::from(i) * step;
    (0..nodes)
        .map(|i| Position { x_m: radius * libm::cos(angle(i)), y_m: radius * libm::sin(angle(i)) })
        .collect()
}

fn connected(
    nodes: usize,
    (width, height): (f64, f64),
    draw: &mut impl FnMut() -> f64,
    linkage: &Linkage<'_>,
    interrupt: &Interrupt<'_>,
) -> Result<Result<Vec<Position>, Finding>, Interrupted> {
    let mut at = vec![Position::default(); nodes];
    let mut checks = 0;
    let mut placements = 0;
    while placements < MAX_PLACEMENTS && checks < MAX_CHECKS {
        for position in &mut at {
            interrupt.check()?;
            position.x_m = draw() * width;
            position.y_m = draw() * height;
        }
        placements += 1;
        if reaches_all(&at, linkage, &mut checks, interrupt)? {
            return Ok(Ok(at));
        }
    }
    Ok(Err(not_connected(&at, (width, height), placements, linkage, interrupt)?))
}

/// Whether node 0 reaches all others, by depth-first search. `checks` counts the pairs that it looks at.
fn reaches_all(
    at: &[Position],
    linkage: &Linkage<'_>,
    checks: &mut u64,
    interrupt: &Interrupt<'_>,
) -> Result<bool, Interrupted> {
    let mut unreached = Grid::new(linkage.reach_m, at);
    unreached.remove(0, at[0]);
    let mut reached = 1;
    let mut frontier = vec![0];
    while let Some(from) = frontier.pop() {
        interrupt.check()?;
        unreached.take_near(at[from], |to| {
            *checks += 1;
            let linked = !at[from].is_farther_m(at[to], linkage.reach_m) && (linkage.linked)(at, from, to);
            if linked {
                frontier.push(to);
                reached += 1;
            }
            linked
        });
    }
    Ok(reached == at.len())
}

/// States how much denser the nodes must be. Random geometric graphs become connected around ln n neighbours per node
/// (Gupta and Kumar 1998); with ln n + 3, which allows for the edges of the rectangle, a few placements in ten are.
fn not_connected(
    at: &[Position],
    (width, height): (f64, f64),
    placements: u32,
    linkage: &Linkage<'_>,
    interrupt: &Interrupt<'_>,
) -> Result<Finding, Interrupted> {
    let nodes = at.len();
    let grid = Grid::new(linkage.reach_m, at);
    let mut links = 0;
    for i in 0..nodes {
        interrupt.check()?;
        let near = grid.near(at[i]).filter(|&j| j < i && !at[i].is_farther_m(at[j], linkage.reach_m));
        links += near.filter(|&j| (linkage.linked)(at, i, j)).count();
    }
    let neighbours = 2.0 * links as f64 / nodes as f64;
    let wanted = libm::log(nodes as f64) + 3.0;
    let help = if links == 0 {
        "no two nodes could hear each other: make width_m and height_m many times smaller, or raise the reach of the \
         radio"
            .to_owned()
    } else if neighbours < wanted {
        let shrink = libm::sqrt(neighbours / wanted);
        let more = nodes as f64 * wanted / neighbours;
        format!(
            "the nodes had {neighbours:.1} neighbours on average and need about {wanted:.0}: try width_m = {:.0} and \
             height_m = {:.0}, or nodes = {more:.0}, or a longer reach of the radio",
            width * shrink,
            height * shrink,
        )
    } else {
        format!(
            "the nodes had {neighbours:.1} neighbours on average, which is enough in the open: the rectangle may be too \
             long and narrow, or the radio too uneven; try more nodes or another seed"
        )
    };
    Ok(Finding::new(
        "topology",
        format!("none of {placements} random placements of {nodes} nodes was connected"),
        "too sparse",
        help,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::NodeAt;

    fn never() -> f64 {
        panic!("only random topologies draw")
    }

    fn places(topology: &Topology) -> Vec<(f64, f64)> {
        placed(topology, never, f64::INFINITY).expect("positions").iter().map(|at| (at.x_m, at.y_m)).collect()
    }

    /// Positions of a topology whose nodes are linked up to a distance.
    fn placed(
        topology: &Topology,
        draw: impl FnMut() -> f64,
        reach_m: f64,
    ) -> Result<Vec<Position>, Finding> {
        let linked = |at: &[Position], i: usize, j: usize| at[i].distance_m(at[j]) <= reach_m;
        let linkage = Linkage { reach_m, linked: &linked };
        topology.positions(draw, &linkage, &Interrupt::NEVER).expect("no interrupt")
    }

    /// Uniform numbers in [0, 1) from a seed, with the multiplier of PCG.
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
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
        let nodes = vec![NodeAt { x_m: 3.0, y_m: 4.0, waypoints: Vec::new() }];
        assert_eq!(places(&Topology::Explicit { nodes, gateway: 0.into() }), [(3.0, 4.0)]);
    }

    #[test]
    fn neighbours_on_a_ring_are_a_chord_apart() {
        for nodes in [3, 4, 8, 1000] {
            let at = places(&Topology::Ring { nodes, spacing_m: 200.0, gateway: 0.into() });
            assert_eq!(at.len(), nodes as usize);
            for i in 0..at.len() {
                let (from, to) = (at[i], at[(i + 1) % at.len()]);
                assert!((libm::hypot(from.0 - to.0, from.1 - to.1) - 200.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn the_finding_on_a_sparse_placement_names_a_size_and_a_number_that_work() {
        let sparse = placed(&random(30, 2_000.0), draws(1), 250.0).expect_err("too sparse");
        let number = |after: &str| -> f64 {
            let rest = sparse.help.split(after).nth(1).expect("the hint");
            rest.split([' ', ',']).next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let (side, nodes) = (number("width_m = "), number("nodes = "));
        assert!(placed(&random(30, side), draws(2), 250.0).is_ok(), "{}", sparse.help);
        assert!(placed(&random(nodes as u32, 2_000.0), draws(3), 250.0).is_ok(), "{}", sparse.help);
        let isolated = placed(&random(3, 1e6), draws(1), 1.0).expect_err("no links");
        assert!(isolated.help.contains("no two nodes"), "{}", isolated.help);
    }

    #[test]
    fn drawing_placements_stops_when_interrupted() {
        let asked = std::cell::Cell::new(0);
        let requested = || {
            asked.set(asked.get() + 1);
            asked.get() == 100
        };
        let linkage = Linkage { reach_m: 1.0, linked: &|_, _, _| false };
        let stopped = random(30, 1e6).positions(draws(1), &linkage, &Interrupt::new(&requested));
        assert_eq!((stopped.err(), asked.get()), (Some(Interrupted), 100));
    }

    /// All pairs, without a grid.
    fn is_connected(at: &[Position], reach_m: f64) -> bool {
        let mut reached = vec![0];
        for next in 0.. {
            let Some(&from) = reached.get(next) else { break };
            let linked = |to: &usize| at[from].distance_m(at[*to]) <= reach_m;
            let new: Vec<usize> = (0..at.len()).filter(|to| !reached.contains(to) && linked(to)).collect();
            reached.extend(new);
        }
        reached.len() == at.len()
    }

    proptest! {
        #[test]
        fn a_random_placement_is_connected_inside_its_rectangle_and_fixed_by_its_seed(seed: u64, nodes in 1_u32..40) {
            let topology = Topology::Random { nodes, width_m: 500.0, height_m: 300.0, gateway: 0.into() };
            let at = placed(&topology, draws(seed), 250.0).expect("dense enough");
            prop_assert_eq!(at.len(), nodes as usize);
            prop_assert!(at.iter().all(|p| (0.0..500.0).contains(&p.x_m) && (0.0..300.0).contains(&p.y_m)));
            prop_assert!(is_connected(&at, 250.0));
            prop_assert_eq!(placed(&topology, draws(seed), 250.0).expect("the same"), at);
        }

        #[test]
        fn the_grid_does_not_change_which_placements_are_connected(seed: u64, nodes in 1_u32..40) {
            let mut draw = draws(seed);
            let side = 120.0 * f64::from(nodes).sqrt();
            let at: Vec<_> = (0..nodes).map(|_| Position { x_m: draw() * side, y_m: draw() * side }).collect();
            let linked = |at: &[Position], i: usize, j: usize| at[i].distance_m(at[j]) <= 200.0;
            let linkage = Linkage { reach_m: 200.0, linked: &linked };
            let reached = reaches_all(&at, &linkage, &mut 0, &Interrupt::NEVER).expect("no interrupt");
            prop_assert_eq!(reached, is_connected(&at, 200.0));
        }
    }
}
