//! What the adaptive controller says is true in the World: in 22 worlds, each decision that names losses, delays or a
//! queue is compared with the packets and queues that the World knows and no gateway sees.

use fairhop_control::policy::Reason;
use fairhop_model::units::Nanos;
use fairhop_sim::recorder::StreamBin;
use fairhop_sim::scenario::Traffic;
use fairhop_sim::world::World;
use fairhop_sim::world::applications::flow::FlowKind;
use fairhop_sim::world::control::Decided;

use crate::support::{on_all_cores, ready};

/// A ready-made scenario and what is changed in it: hops, capture, codecs, directions, TCP, queues, the Internet.
const WORLDS: [(&str, &[&str]); 22] = [
    ("k-control", &[]),
    ("k-control", &["radio.capture=first"]),
    ("k-control", &["radio.capture=stronger", "topology.hops=6"]),
    ("k-control", &["topology.hops=1", "traffic.1.count=30"]),
    ("k-control", &["topology.hops=2", "traffic.1.count=100"]),
    ("k-control", &["topology.hops=3", "traffic.0.codec=g711"]),
    ("k-control", &["traffic.0.codec=g723.1", "traffic.0.rtcp_interval_s=5"]),
    ("k-control", &["traffic.0.codec=opus", "traffic.0.rtcp_interval_s=1"]),
    ("k-control", &["traffic.0.silence_suppression=true"]),
    ("k-control", &["traffic.0.count=0", "traffic.1.count=10", "traffic.1.profile=linux"]),
    ("k-control", &["traffic.1.from=4", "traffic.1.to=internet"]),
    (
        "k-control",
        &["traffic.1.from=4", "traffic.1.to=internet", "traffic.1.profile=linux", "radio.capture=first"],
    ),
    (
        "k-control",
        &[
            "radio.rate_mbps=24",
            "radio.capture=stronger",
            "topology.hops=5",
            "internet.delay_ms=145",
            UPLOADS,
        ],
    ),
    ("k-control", &["traffic.1.profile=linux", "traffic.1.tcp=bbr"]),
    ("k-control", &["traffic.1.tcp=vegas", "internet.delay_ms=150"]),
    ("k-control", &["internet.rate_mbps=1", "internet.queue={ packets = 100 }"]),
    ("k-control", &["mac.queue={ packets = 200 }", "traffic.1.count=10"]),
    (
        "k-control",
        &[
            "traffic.0.from=internet",
            "traffic.1.from=4",
            "traffic.1.to=internet",
            "internet.rate_mbps=0.4",
            "internet.queue={ packets = 100 }",
        ],
    ),
    (
        "k-control",
        &[
            "topology.hops=2",
            "traffic.0.from=internet",
            "traffic.1.from=2",
            "traffic.1.to=internet",
            "traffic.1.profile=linux",
            "internet.rate_mbps=1",
            "internet.delay_ms=60",
            "internet.queue={ packets = 300 }",
        ],
    ),
    ("k-control", &["radio.rate_mbps=54", "topology.hops=5", "traffic.1.count=6"]),
    ("web-and-calls", &[]),
    ("quic-and-calls", &[]),
];

/// Uploads of Linux, some of which are silent at times: an ACK then releases nothing, and its echo comes later.
const UPLOADS: &str = r#"traffic=[
    { kind = "call", from = "gateway", to = "last", codec = "g723.1" },
    { kind = "bulk", from = "last", to = "internet", count = 2, tcp = "newreno", profile = "linux", start_s = 3 },
    { kind = "bulk", from = 2, to = "internet", count = 2, tcp = "newreno", profile = "linux", start_s = 3.3 },
    { kind = "bulk", from = 4, to = "internet", tcp = "newreno", profile = "linux", start_s = 1.8 },
    { kind = "bulk", from = 3, to = "internet", tcp = "newreno", profile = "linux", start_s = 4.4 },
    { kind = "web", from = "internet", to = 4, count = 3, profile = "linux" }
]"#;

const TICK: Nanos = Nanos::from_millis(100);
/// The controller's span of losses, and half a round trip.
const SPAN_S: f64 = 1.5;
/// The controller's span of delays is 0.3 s. A cut keeps its reason until it has settled, for half a second and the delay that
/// caused it.
const DELAY_SPAN_S: f64 = 1.5;
/// How long a receiver's report is used, beyond the interval that it is about.
const REPORT_S: f64 = 2.5;
/// A loss at the end of a talk-spurt shows at the beginning of the next one: 95 % of the pauses are shorter (ITU-T P.59).
const PAUSE_S: f64 = 4.8;
/// Samples of the queues in a tick.
const LOOKS: u64 = 10;

/// Queues in the mesh are rare: one seed has two.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The decisions of a run that name a cause: its kind, and whether the World has it.
fn compare(name: &str, sets: &[&str], seed: u64) -> Vec<(&'static str, bool)> {
    let own = ["duration_s=30", "warmup_s=0", "record.interval_s=0.1", "control={ kind = \"adaptive\" }"];
    let scenario = ready(name, sets.iter().copied().chain(own));
    let mut world = World::new(&scenario, seed).expect("a network");
    // The largest backlogs in each tick: of all nodes together, of the gateway, node 0, and on the way to the Internet.
    let mut backlogs: Vec<[usize; 3]> = Vec::new();
    for tick in 0..world.end().0 / TICK.0 {
        let mut largest = [0; 3];
        for look in 1..=LOOKS {
            let now = Nanos(tick * TICK.0 + look * TICK.0 / LOOKS);
            world.run_until(now);
            let all = (0..world.node_count()).map(|node| world.backlog(node)).sum();
            let uplink = world.wired().first().map_or(0, |link| link.backlog_at(now));
            for (max, found) in largest.iter_mut().zip([all, world.backlog(0), uplink]) {
                *max = found.max(*max);
            }
        }
        backlogs.push(largest);
    }
    let later_s = scenario.traffic.iter().map(|entry| match entry {
        Traffic::Call(call) if call.rtcp_interval_s > 0.0 => 1.5 * call.rtcp_interval_s + REPORT_S,
        Traffic::Call(call) if call.silence_suppression => PAUSE_S,
        _ => 0.0,
    });
    let span_s = SPAN_S + later_s.fold(0.0, f64::max);
    let recorder = world.recorder();
    let calls: Vec<&[StreamBin]> = (world.flows().iter().enumerate())
        .filter(|(_, flow)| matches!(flow.kind, FlowKind::Call(_)))
        .flat_map(|(index, _)| [2 * index, 2 * index + 1])
        .map(|stream| recorder.streams[stream].bins.as_slice())
        .collect();
    let mut judged = Vec::new();
    for Decided { decision, .. } in world.control().expect("a gateway").decisions() {
        let tick = (decision.at.0 / TICK.0) as usize;
        let over = |seconds: f64| tick.saturating_sub((10.0 * seconds) as usize)..tick.min(backlogs.len());
        let bad = |seconds: f64| {
            calls.iter().any(|bins| bins[over(seconds)].iter().any(|bin| bin.in_time < bin.sent))
        };
        let delayed = |seconds: f64| {
            let is_over =
                |bin: &StreamBin| bin.delay_sum.as_secs_f64() > seconds * f64::from(bin.arrived.max(1));
            calls.iter().any(|bins| bins[over(DELAY_SPAN_S)].iter().any(is_over))
        };
        judged.push(match decision.reason {
            Reason::CallDegraded { loss_or_late, .. } if loss_or_late > 0.0 => {
                ("losses of calls", bad(span_s))
            }
            Reason::CallDegraded { delay, .. } => ("delay of calls", delayed(0.5 * delay.as_secs_f64())),
            Reason::QueueGrows { .. } => ("a queue in the mesh", over(1.0).any(|at| backlogs[at][0] >= 2)),
            Reason::OwnQueue { .. } => ("the gateway's own queue", over(1.0).any(|at| backlogs[at][1] >= 2)),
            Reason::UplinkQueue { .. } => {
                ("a queue beyond the gateway", over(1.0).any(|at| backlogs[at][2] >= 2))
            }
            _ => continue,
        });
    }
    judged
}

#[test]
fn what_the_adaptive_controller_says_of_losses_and_queues_is_true_in_the_world() {
    let found = on_all_cores(&WORLDS, |(name, sets)| {
        SEEDS.iter().flat_map(|&seed| compare(name, sets, seed)).collect::<Vec<_>>()
    });
    let kinds = [
        "losses of calls",
        "delay of calls",
        "a queue in the mesh",
        "the gateway's own queue",
        "a queue beyond the gateway",
    ];
    for kind in kinds {
        let of_kind = |judged: &Vec<(&str, bool)>| {
            let outcomes = judged.iter().filter(|(of, _)| *of == kind);
            (outcomes.clone().count(), outcomes.filter(|(_, is_true)| *is_true).count())
        };
        let counts: Vec<(usize, usize)> = found.iter().map(of_kind).collect();
        let said: usize = counts.iter().map(|(said, _)| said).sum();
        let true_ones: usize = counts.iter().map(|(_, true_ones)| true_ones).sum();
        let wrong: Vec<_> =
            WORLDS.iter().zip(&counts).filter(|(_, (said, true_ones))| true_ones < said).collect();
        assert!(said >= 5, "{kind}: named {said} times, too seldom to judge");
        assert!(
            true_ones as f64 >= 0.98 * said as f64,
            "{kind}: {true_ones} of {said} decisions are true; others in {wrong:?}"
        );
    }
}
