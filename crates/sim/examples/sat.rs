#![allow(missing_docs, clippy::print_stdout)]
use fairhop_model::units::Nanos;
use fairhop_sim::scenario::Scenario;
use fairhop_sim::world::World;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let std = &args[1];
    let rate: f64 = args[2].parse().unwrap();
    let basic = &args[3];
    let rts = &args[4];
    for n in [1, 2, 3, 5, 10, 20, 30, 50] {
        let mut t = format!(
            "name='x'\nduration_s=20.0\nwarmup_s=1.0\n[radio]\nstandard='{std}'\nrate_mbps={rate}\nbasic_rates_mbps=[{basic}]\ncapture='none'\n[mac]\nshort_retry_limit={}\n{rts}\nqueue={{packets=3}}\n[topology]\nkind='ring'\nnodes={}\nspacing_m=0.1\n",
            args.get(5).map_or(7, |s| s.parse::<u32>().unwrap()),
            (n + 1).max(3)
        );
        for i in 0..n {
            t += &format!(
                "[[traffic]]\nkind='cbr'\nfrom={}\nto=0\nrate_kbps={}\npayload_bytes=1472\n",
                i + 1,
                rate * 1000.0 * 1.1 / n as f64 * 1.5
            );
        }
        let s: Scenario = toml::from_str(&t).unwrap();
        let mut w = World::new(&s, 1).unwrap();
        let t0 = std::time::Instant::now();
        w.run_until(Nanos::from_secs(20));
        let el = t0.elapsed().as_secs_f64();
        let bytes: u64 = w.recorder().streams.iter().map(|s| s.delivered_bytes).sum();
        let lost: u64 = w.recorder().streams.iter().map(|s| s.lost[1]).sum();
        let arr: u64 = w.recorder().streams.iter().map(|s| s.arrived).sum();
        println!(
            "{n} {:.4} Mb/s payload1472; frames {} {:.0} ns/frame; events {}; retry-lost {:.4}",
            bytes as f64 * 8.0 / 19.0 / 1e6,
            w.recorder().frames,
            el * 1e9 / w.recorder().frames as f64,
            w.events_handled(),
            lost as f64 / (arr + lost) as f64
        );
    }
}
