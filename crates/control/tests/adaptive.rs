//! What controllers do to a small mesh (see `support`).

use fairhop_control::{AdaptiveConfig, ControllerConfig, FixedConfig};
use fairhop_model::units::{BitRate, Nanos};

mod support;
use support::Plant;

const ADAPTIVE: fn() -> ControllerConfig = || ControllerConfig::Adaptive(AdaptiveConfig::default());

fn secs(s: u64) -> Nanos {
    Nanos::from_secs(s)
}

fn world(config: ControllerConfig, calls: usize, flows: usize, wired_ms: u64) -> Plant {
    let mut plant = Plant::new(config, wired_ms);
    for _ in 0..calls {
        plant.call(Nanos::ZERO, Nanos::MAX);
    }
    for flow in 0..flows {
        plant.transfer(secs(1) + Nanos::from_millis(37 * flow as u64));
    }
    plant
}

#[test]
#[ignore = "a look, not a test"]
fn look() {
    for (calls, flows, wired) in
        [(0, 1, 30), (0, 10, 30), (1, 3, 30), (3, 3, 30), (6, 3, 10), (6, 30, 150), (9, 3, 30)]
    {
        let mut best = (0.0, 0, 0.0);
        for rate in (1..20).map(|n| n * 100_000) {
            let config = FixedConfig {
                data_rate: Some(BitRate(rate)),
                window: Some(20_000),
                ..FixedConfig::default()
            };
            let mut plant = world(ControllerConfig::Fixed(config), calls, flows, wired);
            plant.run(secs(40));
            let good = plant.good_seconds(10, 40);
            if good >= 0.95 && plant.goodput(10, 40) > best.0 {
                best = (plant.goodput(10, 40), rate, good);
            }
        }
        let mut plant = world(ADAPTIVE(), calls, flows, wired);
        plant.run(secs(60));
        let mut none = world(ControllerConfig::None, calls, flows, wired);
        none.run(secs(40));
        println!(
            "{calls} calls {flows} flows {wired} ms: best {:.0} at {} ({:.2}), adaptive {:.0} ({:.3}), none {:.0} ({:.2})",
            best.0 / 1e3,
            best.1 / 1000,
            best.2,
            plant.goodput(10, 60) / 1e3,
            plant.good_seconds(10, 60),
            none.goodput(10, 40) / 1e3,
            none.good_seconds(10, 40)
        );
        if std::env::var("LOOK").is_ok_and(|which| which == format!("{calls},{flows},{wired}")) {
            for (at, state, reason, pace) in &plant.log {
                println!("  {at:?} {state} {pace} {reason}");
            }
        }
    }
}

#[test]
#[ignore = "a look, not a test"]
fn look_changes() {
    let worlds: [(&str, fn(ControllerConfig) -> Plant); 6] = [
        ("calls come and go", |config| {
            let mut plant = world(config, 0, 3, 30);
            for n in 0..6 {
                plant.call(secs(10 * (n + 1)), secs(130 - 10 * n));
            }
            plant
        }),
        ("half as fast at 60 s", |config| {
            let mut plant = world(config, 3, 3, 30);
            plant.slower(secs(60), 2.0);
            plant
        }),
        ("half as fast from 40 to 80 s", |config| {
            let mut plant = world(config, 3, 3, 30);
            plant.slower(secs(40), 2.0);
            plant.slower(secs(80), 1.0);
            plant
        }),
        ("ten flows at 40, 60, 80 s", |config| {
            let mut plant = world(config, 3, 1, 30);
            for n in 0..30 {
                plant.transfer(secs(40 + 20 * (n / 10)));
            }
            plant
        }),
        ("noise of 1 % from 40 s", |config| {
            let mut plant = world(config, 3, 3, 30);
            plant.noise(secs(40), 0.01);
            plant
        }),
        ("noise of 10 % from 40 to 80 s", |config| {
            let mut plant = world(config, 3, 3, 30);
            plant.noise(secs(40), 0.1);
            plant.noise(secs(80), 0.0005);
            plant
        }),
    ];
    for (name, world) in worlds {
        let mut plant = world(ADAPTIVE());
        plant.run(secs(120));
        print!("{name}:");
        for from in (10..120).step_by(5) {
            print!(
                " {from}:{:.0}/{:.2}",
                plant.goodput(from, from + 5) / 1e3,
                plant.good_seconds(from, from + 5)
            );
        }
        println!();
        if std::env::var("LOOK").is_ok_and(|which| which == name) {
            for (at, state, reason, pace) in &plant.log {
                println!("  {at:?} {state} {pace} {reason}");
            }
        }
    }
}
