//! Saturated stations in one cell against Bianchi's model of the DCF, extended by the standard's freezing of the backoff and
//! waits after a collision (`fairhop_model::bianchi` has the error of the plain model).

#![allow(clippy::unwrap_used)]

use fairhop_model::bianchi::{
    AfterCollision, Contention, Exchange, head_start, saturation, saturation_with_freezing,
};
use fairhop_model::phy::{Phy, Preamble, Standard};
use fairhop_sim::scenario::Scenario;
use fairhop_sim::world::World;

const ATTEMPTS: u32 = 7;
const PAYLOAD: u32 = 1472;

/// Payload throughput in Mb/s of stations on a small circle that always have packets for station 0.
fn simulated(
    standard: &str,
    rate_mbps: f64,
    basic_mbps: f64,
    rts: bool,
    stations: u32,
    duration_s: f64,
) -> f64 {
    let offered_kbps = rate_mbps * 1500.0 / f64::from(stations);
    let mut text = format!(
        r#"
        name = "one cell"
        duration_s = {duration_s:?}
        warmup_s = 1.0
        radio = {{ standard = "{standard}", rate_mbps = {rate_mbps:?}, basic_rates_mbps = [{basic_mbps:?}], capture = "none" }}
        mac = {{ short_retry_limit = {ATTEMPTS}, long_retry_limit = {ATTEMPTS}, queue = {{ packets = 3 }}{rts} }}
        topology = {{ kind = "ring", nodes = {}, spacing_m = 1.0 }}
        "#,
        (stations + 1).max(3),
        rts = if rts { ", rts_threshold_bytes = 500" } else { "" },
    );
    for station in 1..=stations {
        text += &format!(
            "[[traffic]]\nkind = \"cbr\"\nfrom = {station}\nto = 0\nrate_kbps = {offered_kbps:?}\npayload_bytes = {PAYLOAD}\n"
        );
    }
    let scenario: Scenario = toml::from_str(&text).unwrap();
    let mut world = World::new(&scenario, 1).unwrap();
    world.run();
    let bytes: u64 = world.recorder().streams.iter().map(|stream| stream.delivered_bytes).sum();
    bytes as f64 * 8e-6 / (duration_s - 1.0)
}

#[test]
fn saturation_throughput_of_1_to_50_stations_is_within_2_percent_of_bianchis_model() {
    println!("standard  access  stations  simulated  model  difference  plain Bianchi");
    let mut worst: f64 = 0.0;
    for (standard, name, rate_mbps, basic_mbps, duration_s) in
        [(Standard::Dot11a, "802.11a", 24.0, 24.0, 60.0), (Standard::Dot11b, "802.11b", 11.0, 1.0, 120.0)]
    {
        let phy = Phy::new(standard, Preamble::Long);
        let rate = standard.rate(rate_mbps).unwrap();
        let basic = standard.rate(basic_mbps).unwrap();
        for rts in [false, true] {
            let exchange = if rts { Exchange::rts_cts } else { Exchange::basic_access };
            let exchange = |after| exchange(&phy, rate, &[basic], PAYLOAD + 28, PAYLOAD, after);
            let contention = Contention::of(&phy, Some(ATTEMPTS));
            for stations in [1, 2, 3, 5, 10, 20, 35, 50] {
                let model = saturation_with_freezing(
                    stations,
                    &contention,
                    &exchange(AfterCollision::ResponseTimeout),
                    head_start(&phy, basic),
                );
                let plain = saturation(stations, &contention, &exchange(AfterCollision::Eifs));
                let model_mbps = model.throughput.as_mbps();
                let simulated_mbps = simulated(name, rate_mbps, basic_mbps, rts, stations, duration_s);
                let off = simulated_mbps / model_mbps - 1.0;
                println!(
                    "{name}   {}  {stations:8}  {simulated_mbps:9.3}  {model_mbps:5.3}  {:9.2}%  {:5.3} ({:+.2}%)",
                    if rts { "rts   " } else { "basic " },
                    off * 100.0,
                    plain.throughput.as_mbps(),
                    (simulated_mbps / plain.throughput.as_mbps() - 1.0) * 100.0,
                );
                worst = worst.max(off.abs());
            }
        }
    }
    assert!(worst <= 0.02, "{:.2} % off", worst * 100.0);
}
