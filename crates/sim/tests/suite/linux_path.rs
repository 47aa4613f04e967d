//! The scenario `linux-path` against windows measured in Linux kernels: the comparison of `fairhop_transport`'s `linux` tests,
//! made with a scenario alone.
//!
//! A scenario cannot express where the writes of the measured application ended. The kernel sets PSH there, and its receiver
//! answers at once. This changes the first round trips by an ACK or two.

use fairhop_model::units::Nanos;
use fairhop_sim::world::World;
use fairhop_transport::tcp::SenderState;

use crate::support::ready;

/// Goodput over 60 s from the handshake; mean, minimum and maximum of the window in segments after the first 10 s.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    goodput_mbps: f64,
    mean: f64,
    min: u32,
    max: u32,
}

/// The figures of samples, every 100 ms, of the window and of the bytes acknowledged.
fn figures(samples: &[(u32, u64)]) -> Figures {
    let settled: Vec<u32> = samples.iter().skip(100).map(|&(cwnd, _)| cwnd).collect();
    let acked = samples.last().map_or(0, |&(_, acked)| acked);
    Figures {
        goodput_mbps: acked as f64 * 8e-6 / (0.1 * (samples.len() - 1) as f64),
        mean: settled.iter().map(|&cwnd| f64::from(cwnd)).sum::<f64>() / settled.len() as f64,
        min: settled.iter().copied().min().unwrap_or(0),
        max: settled.iter().copied().max().unwrap_or(0),
    }
}

fn kernel(name: &str) -> Figures {
    let path = format!("{}/../transport/tests/suite/linux/traces/{name}.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let samples: Vec<(u32, u64)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<u64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
            (fields[1] as u32, fields[6])
        })
        .collect();
    assert_eq!(samples.len(), 600, "{name}");
    figures(&samples)
}

fn ours(tcp: &str, every_200th: bool) -> Figures {
    let mut changes = vec![format!("traffic.0.tcp={tcp}"), "duration_s=61".into()];
    if every_200th {
        changes.push("wired.links.0.forward={ loss = { every = 200, over_bytes = 200 } }".into());
    }
    let mut world = World::new(&ready("linux-path", changes), 1).expect("a world");
    let mut at = Nanos::ZERO;
    while matches!(world.transfers()[0].sender.state(), SenderState::Closed | SenderState::SynSent) {
        at += Nanos::from_micros(1);
        world.run_until(at);
    }
    // The kernels were sampled up to 0.1 ms late.
    at += Nanos::from_micros(50);
    let mut samples = Vec::with_capacity(600);
    for _ in 0..600 {
        world.run_until(at);
        let sender = &world.transfers()[0].sender;
        samples.push((sender.cwnd_segments(), sender.bytes_acked()));
        at += Nanos::from_millis(100);
    }
    figures(&samples)
}

#[test]
fn the_scenario_reproduces_the_windows_of_the_kernels() {
    let mut apart = Vec::new();
    for (tcp, trace, goodput) in [
        ("reno", "reno", 0.02),
        ("cubic", "cubic", 0.02),
        ("vegas", "vegas", 0.02),
        // The phase of the kernel's ticks is unknown.
        ("westwood-plus", "westwood", 0.04),
        ("bbr", "bbr", 0.02),
    ] {
        for (every_200th, suffix) in [(false, "0"), (true, "n200")] {
            let (a, b) = (ours(tcp, every_200th), kernel(&format!("{trace}_{suffix}")));
            let report = format!("{tcp}, {suffix}: ours {a:?}, the kernel's {b:?}");
            if (a.goodput_mbps / b.goodput_mbps - 1.0).abs() > goodput
                || (a.mean - b.mean).abs() > 2.0
                || a.min.abs_diff(b.min) > 4
                || a.max.abs_diff(b.max) > 4
            {
                apart.push(report);
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
