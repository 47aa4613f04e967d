//! Control over many minutes: what it knows at the beginning must not decay or grow without a bound.

use crate::support::*;
use fairhop_sim::world::World;
use fairhop_sim::world::control::Decided;

/// The decisions of K-MIX under adaptive control, with these changes.
fn decisions(sets: &[&str], seed: u64) -> Vec<Decided> {
    let mut world = World::new(&ready("k-control", sets.iter().copied()), seed).expect("a network");
    world.run();
    world.control().expect("a gateway").decisions().to_vec()
}

/// Packets wait for a moment behind the pace of their flow, though the Internet is the bottleneck and the budget is not used. A budget
/// that grew each time reached 111 Mb/s after two minutes and 2,000,000 after fifteen, and could not fall in time.
#[test]
fn a_budget_that_the_internet_leaves_unused_has_a_bound_and_falls_within_seconds() {
    const SLOWER_S: f64 = 300.0;
    let slower = [(0, 1), (1, 0), (1, 2), (2, 1)].map(|(from, to)| {
        format!("{{ at_s = {SLOWER_S}, kind = \"rate\", from = {from}, to = {to}, rate_mbps = 6 }}")
    });
    let slower = format!("change=[{}]", slower.join(", "));
    let seeds = on_all_cores(&[1, 2], |&seed| {
        decisions(&["topology.hops=2", "internet.rate_mbps=2", "duration_s=310", &slower], seed)
    });
    for decisions in seeds {
        // 2 Mb/s over two hops use 4 of it.
        let before = max_budget(&decisions, 0.0, SLOWER_S);
        assert!(before < 50e6, "{before} before the change");
        let later = max_budget(&decisions, SLOWER_S + 3.0, SLOWER_S + 10.0);
        assert!(later < 6e6, "{later} after the change");
    }
}

/// The clamp of an upload must not count all of the wait of its ACKs at the gateway as a round trip: a larger window lengthens the wait,
/// and the wait makes the window larger. With these uploads 56 ACKs waited after ten minutes and 80 after twenty, and in a drawn world for 40 s after a quarter of an
/// hour.
#[test]
fn acks_of_uploads_do_not_wait_the_longer_the_longer_uploads_go_on() {
    let sets = [
        "topology.hops=3",
        "traffic.0.count=2",
        "traffic.1.from=last",
        "traffic.1.to=internet",
        "traffic.1.count=10",
        "traffic.1.profile=linux",
        "traffic.1.tcp=cubic",
        "duration_s=600",
    ];
    let decisions = decisions(&sets, 1);
    let mean_in = |from: usize, to: usize| {
        let waiting = decisions[from..to].iter().map(|one| f64::from(one.decision.waiting));
        waiting.sum::<f64>() / (to - from) as f64
    };
    let (early, late) = (mean_in(300, 1000), mean_in(5000, 5990));
    assert!(late < 1.3 * early + 2.0, "{early} ACKs wait early, and {late} late");
}

/// A late packet is no queue. A slow flow has a packet or two a second: where each late one counted, it became slower still, and the budget
/// fell to 0.08 to 0.20 Mb/s within ten minutes. Paced at 0.8 (200 kb/s, price 4), the transfer leaves the call clear.
#[test]
fn a_slow_transfer_over_many_hops_does_not_become_slower_and_slower() {
    let sets = [
        "topology.hops=6",
        "radio.standard=\"802.11b\"",
        "radio.rate_mbps=11",
        "traffic.0.count=1",
        "traffic.0.rtcp_interval_s=1",
        "traffic.1={kind=\"quic\",controller=\"cubic\",from=\"internet\",to=\"last\"}",
        "duration_s=600",
    ];
    let late = on_all_cores(&[1, 2, 3, 4], |&seed| {
        let decisions = decisions(&sets, seed);
        let late = decisions[3000..].iter().map(|one| one.decision.budget.unwrap_or(0.0));
        late.sum::<f64>() / (decisions.len() - 3000) as f64
    });
    assert!(late.iter().all(|&budget| budget > 0.25e6), "{late:?}");
}
