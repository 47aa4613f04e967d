//! Compares two scenarios over the same seeds, figure by figure.
//!
//! Figures are those that `fairhop run` prints, computed over what both scenarios have: calls and flows of the same name, and
//! nodes of the same number. The figures over all calls and flows are one family of tests, those of single calls, flows and
//! nodes another: each is corrected for its own number of tests ([`holm`]), so that a large mesh does not hide what is
//! true of all of its calls together.

use std::collections::BTreeSet;

use fairhop_model::stats;
use fairhop_sim::results::{CallSummary, FlowSummary, NodeSummary, Summary, Totals, totals};

use crate::paired::{LEVEL, Paired, holm};

/// Which of two values of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The higher one.
    Higher,
    /// The lower one.
    Lower,
    /// Neither: it is a matter of the setting.
    Neither,
}

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Name in JSON, with the unit.
    pub key: &'static str,
    /// Name in tables, with the unit.
    pub name: &'static str,
    /// Decimals in tables.
    pub decimals: usize,
    /// Which value is better.
    pub better: Better,
}

/// A figure of both scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The call, flow or node (`node 3`) that it belongs to; empty for a figure over all of them.
    pub of: String,
    /// What it is.
    pub figure: Figure,
    /// Its values.
    pub paired: Paired,
    /// Its p-value, corrected for the number of figures in its family.
    pub p_holm: Option<f64>,
}

impl Compared {
    /// Whether the figure differs significantly.
    pub fn differs(&self) -> bool {
        self.p_holm.is_some_and(|p| p <= LEVEL)
    }

    /// Whether B is significantly better; none if it does not differ, or if neither value is better.
    pub fn is_better(&self) -> Option<bool> {
        let higher = self.paired.difference > 0.0;
        match self.figure.better {
            _ if !self.differs() => None,
            Better::Higher => Some(higher),
            Better::Lower => Some(!higher),
            Better::Neither => None,
        }
    }
}

/// Names of what only one scenario has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// Calls.
    pub calls: Vec<String>,
    /// Other flows.
    pub flows: Vec<String>,
    /// Nodes, by number.
    pub nodes: Vec<u32>,
}

impl Only {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.flows.is_empty() && self.nodes.is_empty()
    }
}

/// Two scenarios compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Figures over all calls, flows and nodes that both have.
    pub totals: Vec<Compared>,
    /// Figures of single calls, flows and nodes.
    pub details: Vec<Compared>,
    /// What only A has.
    pub only_a: Only,
    /// What only B has.
    pub only_b: Only,
}

/// Compares runs: each pair is A and B with the same seed. `measured_s` is the measured time of a run of A and of B.
pub fn compare(runs: &[(Summary, Summary)], measured_s: [f64; 2]) -> Comparison {
    let a: Vec<&Summary> = runs.iter().map(|(a, _)| a).collect();
    let b: Vec<&Summary> = runs.iter().map(|(_, b)| b).collect();
    let (calls_a, calls_b) = (names(&a, calls_of), names(&b, calls_of));
    let (flows_a, flows_b) = (names(&a, flows_of), names(&b, flows_of));
    let (nodes_a, nodes_b) = (names(&a, nodes_of), names(&b, nodes_of));
    let common = Common {
        calls: calls_a.intersection(&calls_b).cloned().collect(),
        flows: flows_a.intersection(&flows_b).cloned().collect(),
        nodes: nodes_a.intersection(&nodes_b).copied().collect(),
    };
    let pairs: Vec<[Run<'_>; 2]> = runs
        .iter()
        .map(|(a, b)| [Run::of(a, measured_s[0], &common), Run::of(b, measured_s[1], &common)])
        .collect();
    fn only<T: Ord + Clone>(one: &BTreeSet<T>, other: &BTreeSet<T>) -> Vec<T> {
        one.difference(other).cloned().collect()
    }
    Comparison {
        totals: family(totals_of(&pairs)),
        details: family(details_of(&pairs, &common)),
        only_a: Only {
            calls: only(&calls_a, &calls_b),
            flows: only(&flows_a, &flows_b),
            nodes: only(&nodes_a, &nodes_b),
        },
        only_b: Only {
            calls: only(&calls_b, &calls_a),
            flows: only(&flows_b, &flows_a),
            nodes: only(&nodes_b, &nodes_a),
        },
    }
}

/// Figures with p-values corrected for their number.
fn family(mut figures: Vec<Compared>) -> Vec<Compared> {
    let p_values: Vec<Option<f64>> = figures.iter().map(|figure| figure.paired.p).collect();
    for (figure, p) in figures.iter_mut().zip(holm(&p_values)) {
        figure.p_holm = p;
    }
    figures
}

fn names<T: Ord>(runs: &[&Summary], of: fn(&Summary) -> Vec<T>) -> BTreeSet<T> {
    runs.iter().flat_map(|run| of(run)).collect()
}

fn calls_of(run: &Summary) -> Vec<String> {
    run.calls.iter().map(|call| call.name.clone()).collect()
}

fn flows_of(run: &Summary) -> Vec<String> {
    run.flows.iter().map(|flow| flow.name.clone()).collect()
}

fn nodes_of(run: &Summary) -> Vec<u32> {
    run.nodes.iter().map(|node| node.node).collect()
}

/// What both scenarios have.
struct Common {
    calls: BTreeSet<String>,
    flows: BTreeSet<String>,
    nodes: BTreeSet<u32>,
}

/// The part of a run that the other scenario has as well.
struct Run<'a> {
    calls: Vec<CallSummary>,
    flows: Vec<FlowSummary>,
    nodes: Vec<&'a NodeSummary>,
    totals: Totals,
    measured_s: f64,
}

impl<'a> Run<'a> {
    fn of(run: &'a Summary, measured_s: f64, common: &Common) -> Self {
        let calls: Vec<CallSummary> =
            run.calls.iter().filter(|call| common.calls.contains(&call.name)).cloned().collect();
        let flows: Vec<FlowSummary> =
            run.flows.iter().filter(|flow| common.flows.contains(&flow.name)).cloned().collect();
        let nodes = run.nodes.iter().filter(|node| common.nodes.contains(&node.node)).collect();
        let totals = totals(&calls, &flows);
        Self { calls, flows, nodes, totals, measured_s }
    }

    fn mean_of_calls(&self, of: fn(&CallSummary) -> f64) -> Option<f64> {
        stats::mean(&self.calls.iter().map(of).collect::<Vec<_>>())
    }

    /// A figure that exists only if there are calls.
    fn with_calls(&self, value: f64) -> Option<f64> {
        (!self.calls.is_empty()).then_some(value)
    }

    fn has_tcp(&self) -> bool {
        self.flows.iter().any(|flow| flow.tcp.is_some())
    }

    /// The sum of a counter of TCP, a second.
    fn of_tcp(&self, counter: fn(&fairhop_sim::results::TcpSummary) -> f64) -> Option<f64> {
        let sum: f64 = self.flows.iter().filter_map(|flow| flow.tcp.as_ref()).map(counter).sum();
        self.has_tcp().then_some(sum / self.measured_s)
    }

    fn has_other(&self) -> bool {
        self.flows.iter().any(|flow| flow.tcp.is_none())
    }

    /// Fraction of the packets of flows that are not calls that were lost.
    fn data_lost(&self) -> Option<f64> {
        let sent: f64 = self.flows.iter().map(|flow| flow.sent).sum();
        let lost: f64 = self.flows.iter().flat_map(|flow| flow.lost.values()).sum();
        (sent > 0.0).then(|| lost / sent)
    }

    fn of_nodes(&self, of: fn(&NodeSummary) -> f64, fold: fn(f64, f64) -> f64) -> Option<f64> {
        self.nodes.iter().map(|node| of(node)).reduce(fold)
    }
}

const fn figure(key: &'static str, name: &'static str, decimals: usize, better: Better) -> Figure {
    Figure { key, name, decimals, better }
}

type OfRun = fn(&Run<'_>) -> Option<f64>;

use Better::{Higher, Lower, Neither};

/// How a figure is read from a result.
type Of<T> = fn(&T) -> Option<f64>;

/// Figures over all calls, flows and nodes.
const TOTALS: [(Figure, OfRun); 18] = [
    (figure("mos_mean", "mean MOS", 2, Higher), |run| run.totals.mos_mean),
    (figure("mos_min", "worst direction's MOS", 2, Higher), |run| run.totals.mos_min),
    (figure("calls_clear_percent", "seconds good, %", 1, Higher), |run| {
        run.with_calls(100.0 * run.totals.calls_clear)
    }),
    (figure("calls_ok", "calls ≥ 3.6 both ways", 1, Higher), |run| run.with_calls(run.totals.calls_ok)),
    (figure("voice_lost_percent", "voice lost, %", 2, Lower), |run| {
        run.mean_of_calls(|call| 100.0 * call.loss)
    }),
    (figure("voice_late_percent", "voice too late, %", 2, Lower), |run| {
        run.mean_of_calls(|call| 100.0 * call.late)
    }),
    (figure("voice_delay_ms", "voice delay, ms", 1, Lower), |run| run.mean_of_calls(|call| call.delay_ms)),
    (figure("tcp_goodput_mbps", "TCP goodput, Mb/s", 3, Higher), |run| {
        run.has_tcp().then_some(run.totals.tcp_goodput_mbps)
    }),
    (figure("udp_goodput_mbps", "UDP goodput, Mb/s", 3, Higher), |run| {
        run.has_other().then_some(run.totals.udp_goodput_mbps)
    }),
    (figure("jain", "fairness (Jain)", 3, Higher), |run| (run.flows.len() > 1).then_some(run.totals.jain)),
    (figure("data_lost_percent", "data lost, %", 2, Lower), |run| run.data_lost().map(|part| 100.0 * part)),
    (figure("tcp_resent_per_s", "TCP segments resent/s", 2, Lower), |run| {
        run.of_tcp(|tcp| tcp.retransmitted)
    }),
    (figure("tcp_timeouts_per_s", "TCP timeouts/s", 3, Lower), |run| run.of_tcp(|tcp| tcp.timeouts)),
    (figure("airtime_sent_percent", "airtime sent, mean %", 1, Neither), |run| {
        let sum = run.of_nodes(|node| 100.0 * node.airtime.own, |a, b| a + b)?;
        Some(sum / run.nodes.len() as f64)
    }),
    (figure("airtime_busy_percent", "busiest node busy, %", 1, Neither), |run| {
        run.of_nodes(|node| 100.0 * (1.0 - node.airtime.idle), f64::max)
    }),
    (figure("frames_resent_per_s", "frames resent/s", 1, Lower), |run| {
        Some(run.of_nodes(|node| node.retries, |a, b| a + b)? / run.measured_s)
    }),
    (figure("queue_packets", "longest queue, packets", 1, Lower), |run| {
        run.of_nodes(|node| node.queue_mean, f64::max)
    }),
    (figure("queue_drops_per_s", "dropped in queues/s", 2, Lower), |run| {
        Some(run.of_nodes(|node| node.queue_drops + node.queue_early_drops, |a, b| a + b)? / run.measured_s)
    }),
];

const CALL: [(Figure, Of<CallSummary>); 5] = [
    (figure("mos", "MOS", 2, Higher), |call| call.mos),
    (figure("mos_worst", "MOS, worse way", 2, Higher), |call| call.mos_worst),
    (figure("clear_percent", "seconds good, %", 1, Higher), |call| call.clear.map(|part| 100.0 * part)),
    (figure("lost_or_late_percent", "lost or late, %", 2, Lower), |call| {
        Some(100.0 * (call.loss + call.late))
    }),
    (figure("delay_ms", "delay, ms", 1, Lower), |call| Some(call.delay_ms)),
];

const FLOW: [(Figure, Of<FlowSummary>); 3] = [
    (figure("goodput_mbps", "goodput, Mb/s", 3, Higher), |flow| Some(flow.goodput_mbps)),
    (figure("loss_percent", "lost, %", 2, Lower), |flow| Some(100.0 * flow.loss)),
    (figure("delay_ms", "delay, ms", 1, Lower), |flow| Some(flow.delay_ms)),
];

const NODE: [(Figure, Of<NodeSummary>); 3] = [
    (figure("airtime_sent_percent", "airtime sent, %", 1, Neither), |node| Some(100.0 * node.airtime.own)),
    (figure("airtime_busy_percent", "busy, %", 1, Neither), |node| Some(100.0 * (1.0 - node.airtime.idle))),
    (figure("queue_packets", "queue, packets", 1, Lower), |node| Some(node.queue_mean)),
];

fn compared(of: &str, figure: Figure, paired: Paired) -> Compared {
    Compared { of: of.to_owned(), figure, paired, p_holm: None }
}

fn totals_of(pairs: &[[Run<'_>; 2]]) -> Vec<Compared> {
    let of = |(figure, of): (Figure, OfRun)| {
        let paired = Paired::of(pairs.iter().map(|[a, b]| (of(a), of(b))))?;
        Some(compared("", figure, paired))
    };
    TOTALS.into_iter().filter_map(of).collect()
}

fn details_of(pairs: &[[Run<'_>; 2]], common: &Common) -> Vec<Compared> {
    let mut found = Vec::new();
    let mut add = |of: &str, figure: Figure, value: &dyn Fn(&Run<'_>) -> Option<f64>| {
        let paired = Paired::of(pairs.iter().map(|[a, b]| (value(a), value(b))));
        found.extend(paired.map(|paired| compared(of, figure, paired)));
    };
    for name in &common.calls {
        for (figure, of) in CALL {
            add(name, figure, &|run| of(run.calls.iter().find(|call| call.name == *name)?));
        }
    }
    for name in &common.flows {
        for (figure, of) in FLOW {
            add(name, figure, &|run| of(run.flows.iter().find(|flow| flow.name == *name)?));
        }
    }
    for &number in &common.nodes {
        for (figure, of) in NODE {
            add(&format!("node {number}"), figure, &|run| {
                of(run.nodes.iter().copied().find(|node| node.node == number)?)
            });
        }
    }
    found
}
