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
