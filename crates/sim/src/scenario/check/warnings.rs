//! Warnings: scenarios that can be simulated, but whose results need care.

use super::super::sections::Scenario;
use super::super::topology::Topology;
use fairhop_config::Finding;

/// Explicit topologies with more nodes are not searched for nodes on a line: they are taken to have some.
const MAX_SEARCHED: usize = 100;

impl Scenario {
    /// What to check before trusting the results. Empty for most scenarios.
    pub fn warnings(&self) -> Vec<Finding> {
        let mut warnings = Vec::new();
        if self.mac.turnaround_us == Some(0.0) && self.topology.may_be_collinear() {
            warnings.push(Finding::new(
                "mac.turnaround_us",
                "`turnaround_us` = 0 can suppress collisions of stations on one line",
                "collisions may be missing",
                "on a line, the signal of a station reaches the next one at the start of the same slot, to the nanosecond: \
                 without a turnaround time, the next station may notice it and defer; leave `turnaround_us` out for the \
                 standard's value",
            ));
        }
        warnings
    }
}

impl Topology {
    /// Whether three nodes may lie on one line.
    fn may_be_collinear(&self) -> bool {
        match self {
            Self::String { hops, lines, .. } => *hops >= 2 || *lines >= 3,
            Self::Grid { columns, rows, .. } => *columns >= 3 || *rows >= 3,
            Self::Explicit { nodes, .. } if nodes.len() <= MAX_SEARCHED => {
                let at = |i: usize| (nodes[i].x_m, nodes[i].y_m);
                let is_line = |a: (f64, f64), b: (f64, f64), c: (f64, f64)| {
                    (b.0 - a.0) * (c.1 - a.1) == (b.1 - a.1) * (c.0 - a.0)
                };
                let count = nodes.len();
                (0..count).any(|a| (0..a).any(|b| (0..b).any(|c| is_line(at(a), at(b), at(c)))))
            }
            Self::Explicit { .. } => true,
            Self::Ring { .. } | Self::Random { .. } | Self::None => false,
        }
    }
}
