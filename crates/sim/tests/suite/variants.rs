//! A golden table of every TCP variant over strings of 1 to 6 hops, with 0, 1 and 5 % random loss in the Internet, with one flow
//! and with four. It shows every change of behaviour as a difference to review.
//!
//! The string is that of kim2010 (802.11a at 12 Mb/s, 200 m apart, received to 250 m and sensed to 550 m, no capture) with a
//! server 30 ms behind the gateway; the loss is in the direction of the data. 30 s after 2 s of warm-up and one seed are too
//! few for conclusions about a variant; docs/claims.md has those.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite variants` rewrites `golden/variants.txt`.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;

use fairhop_sim::results::Summary;
use fairhop_sim::scenario::load;
use fairhop_sim::world::World;

const VARIANTS: [&str; 9] =
    ["reno", "newreno", "vegas", "veno", "westwood", "westwood-plus", "cubic", "compound", "bbr"];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.05];
const FLOWS: [u32; 2] = [1, 4];
const HOPS: [u32; 6] = [1, 2, 3, 4, 5, 6];

/// Goodput of all flows in Mb/s, retransmissions as a fraction of the segments sent, and Jain's index of the goodputs.
fn figures(tcp: &str, loss: f64, flows: u32, hops: u32) -> (f64, f64, f64) {
    let text = format!(
        r#"
        name = "variants"
        duration_s = 32
        warmup_s = 2
        [radio]
        standard = "802.11a"
        rate_mbps = 12
        propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}
        capture = "none"
        [topology]
        kind = "string"
        hops = {hops}
        spacing_m = 200
        [[wired.hosts]]
        name = "server"
        [[wired.links]]
        between = ["server", "gateway"]
        rate_mbps = 100
        delay_ms = 30
        queue = {{ packets = 1000 }}
        forward = {{ loss = {{ probability = {loss} }} }}
        [[traffic]]
        kind = "bulk"
        from = "server"
        to = {hops}
        count = {flows}
        tcp = "{tcp}"
        "#
    );
    let text = if loss == 0.0 { text.replace("forward = { loss = { probability = 0 } }", "") } else { text };
    let scenario = load("variants.toml", &text, &[]).unwrap_or_else(|e| panic!("{e}")).scenario;
    let mut world = World::new(&scenario, 1).expect("a world");
    world.run();
    let summary = Summary::of(&world, false);
    let resent: f64 =
        summary.flows.iter().filter_map(|flow| flow.tcp.as_ref()).map(|tcp| tcp.retransmitted).sum();
    let sent: f64 = summary.flows.iter().map(|flow| flow.sent).sum();
    (summary.totals.tcp_goodput_mbps, resent / sent.max(1.0), summary.totals.jain)
}

/// The lines of one variant.
fn lines(tcp: &str) -> String {
    let mut lines = String::new();
    for loss in LOSSES {
        for flows in FLOWS {
            write!(lines, "{tcp:<13} {:>3} {flows:>5} ", 100.0 * loss).expect("memory");
            for hops in HOPS {
                let (goodput, resent, jain) = figures(tcp, loss, flows, hops);
                assert!(
                    goodput > 0.0,
                    "{tcp}, {hops} hops, loss {loss}, {flows} flows: nothing was delivered"
                );
                write!(lines, " |{goodput:>6.3} {:>4.1} {jain:.2}", 100.0 * resent).expect("memory");
            }
            lines.push('\n');
        }
    }
    lines
}

fn table() -> String {
    let mut table = String::from(
        "Of each number of hops: goodput in Mb/s, repetitions in % of segments sent, Jain's index.\n",
    );
    write!(table, "{:<13} {:>3} {:>5} ", "tcp", "%", "flows").expect("memory");
    for hops in HOPS {
        write!(table, " |{:>16}", format!("{hops} hops     ")).expect("memory");
    }
    table.push('\n');
    let parts: Vec<String> = thread::scope(|scope| {
        let workers = VARIANTS.map(|tcp| scope.spawn(move || lines(tcp)));
        workers.into_iter().map(|worker| worker.join().expect("a table")).collect()
    });
    table + &parts.concat()
}

#[test]
fn every_variant_has_the_figures_of_the_reviewed_golden_table() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/variants.txt");
    let now = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &now).expect("the table is written");
    }
    let then = std::fs::read_to_string(&golden).unwrap_or_default();
    let changed: Vec<_> = now.lines().filter(|line| !then.lines().any(|old| old == *line)).collect();
    assert!(
        now == then,
        "changed:\n{}\nIf this is intended: UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite variants",
        changed.join("\n")
    );
}
