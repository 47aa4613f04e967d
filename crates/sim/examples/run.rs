#![allow(missing_docs, clippy::print_stdout)]
use fairhop_sim::{results::Summary, scenario, world::World};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).unwrap();
    let o: Vec<_> = args[3..].iter().map(scenario::Override::new).collect();
    let l = scenario::load(&args[1], &text, &o).unwrap_or_else(|e| panic!("{e}"));
    let n: u64 = args[2].parse().unwrap();
    let mut runs = vec![];
    for seed in 1..=n {
        let mut w = World::new(&l.scenario, seed).unwrap();
        let t0 = std::time::Instant::now();
        w.run();
        let el = t0.elapsed().as_secs_f64();
        let s = Summary::of(&w, false);
        println!(
            "seed {seed}: {el:.3}s wall, {} frames, {:.0} ns/frame {} events; mos {:.2} min {:.2} ok {} tcp {:.3} udp {:.3} fp {:x}",
            w.recorder().frames,
            el * 1e9 / w.recorder().frames as f64,
            w.events_handled(),
            s.totals.mos_mean,
            s.totals.mos_min,
            s.totals.calls_ok,
            s.totals.tcp_goodput_mbps,
            s.totals.udp_goodput_mbps,
            w.recorder().fingerprint
        );
        if std::env::var("V").is_ok() {
            println!("{}", serde_json::to_string_pretty(&s).unwrap());
        }
        runs.push(s);
    }
    let m = |f: fn(&Summary) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
    println!(
        "mean mos {:.3} down {:.3} up {:.3} tcp {:.3} udp {:.3} mosmin {:.2}",
        m(|s| s.totals.mos_mean),
        m(|s| s.calls.iter().map(|c| c.forward.mos).sum::<f64>() / s.calls.len() as f64),
        m(|s| s.calls.iter().map(|c| c.backward.mos).sum::<f64>() / s.calls.len() as f64),
        m(|s| s.totals.tcp_goodput_mbps),
        m(|s| s.totals.udp_goodput_mbps),
        m(|s| s.totals.mos_min)
    );
}
