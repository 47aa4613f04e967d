//! Searches on networks whose answer is known.

use fairhop_sim::scenario::{self, Control, Override};

use super::*;

const MIX: &str = "
name = 'mix'
duration_s = 10
[topology]
kind = 'string'
hops = 2
spacing_m = 200
[internet]
delay_ms = 10
rate_mbps = 100
[[traffic]]
kind = 'call'
from = 'gateway'
to = 2
[[traffic]]
kind = 'bulk'
from = 'internet'
to = 2
";

fn load(text: &str) -> impl Fn(&[String]) -> Result<Loaded, ScenarioErrors> {
    move |overrides| scenario::load("x.toml", text, &overrides.iter().map(Override::new).collect::<Vec<_>>())
}

fn adviser(text: &str) -> Adviser<impl Fn(&[String]) -> Result<Loaded, ScenarioErrors>> {
    let load = load(text);
    let scenario = load(&[]).expect("a scenario").scenario;
    Adviser::new(load, &scenario, vec![1, 2, 3], vec![4, 5, 6, 7]).expect("an adviser")
}

/// A network in which data at a paced rate arrives as it is, calls are good up to 300 kb/s and again between 600 and
/// 800 kb/s, and without pacing TCP carries 1 Mb/s and calls are bad.
fn network((loaded, seed): &Wanted) -> RunFigures {
    let noise = *seed as f64 * 1e-4;
    let (clear, tcp_mbps) = match loaded.scenario.control {
        Some(Control::DataPacing { rate_kbps, .. }) => {
            let good = rate_kbps < 300.0 || (600.0..800.0).contains(&rate_kbps);
            (if good { 1.0 } else { 0.5 }, rate_kbps / 1e3 + noise)
        }
        Some(Control::Adaptive { .. }) => (0.99, 0.4 + noise),
        _ => (0.2, 1.0 + noise),
    };
    let has_calls = Kinds::of(&loaded.scenario).calls;
    let clear = if has_calls { clear } else { 1.0 };
    RunFigures { clear, mos_mean: Some(1.0 + 3.0 * clear), mos_min: Some(1.0), tcp_mbps, udp_mbps: 0.0 }
}

#[test]
fn the_search_finds_the_best_rate_although_calls_suffer_at_lower_ones() {
    let adviser = adviser(MIX);
    let planned = adviser.planned();
    let mut made = 0;
    let advice = adviser
        .advise(|wanted| {
            made += wanted.len();
            Ok::<_, std::convert::Infallible>(wanted.iter().map(|run| Some(network(run))).collect())
        })
        .expect("runs");
    assert!(advice.complete && made <= planned, "{made} of {planned}");
    let best = &advice.rows[0];
    assert!(best.setting.name.starts_with("data pacing"), "{}", best.setting.name);
    let mbps = best.mbps.expect("goodput").mean;
    assert!((0.75..0.8).contains(&mbps), "{mbps}: within 6 % of the limit");
    assert_eq!((best.good, best.against_first.map(|first| first.difference)), (Some(true), Some(0.0)));
    // Good calls first, then goodput; then the others by their calls.
    let good: Vec<bool> = advice.rows.iter().map(|row| row.good == Some(true)).collect();
    assert!(good.is_sorted_by(|a, b| a >= b), "{good:?}");
    assert!(advice.rows.windows(2).all(|pair| rank(&pair[0]) >= rank(&pair[1])));
    let none = advice.rows.iter().find(|row| row.setting.name == "no control").expect("no control");
    assert_eq!(none.against_none.map(|none| none.difference), Some(0.0));
    let difference = mbps - none.mbps.expect("goodput").mean;
    let against = best.against_none.expect("pairs");
    assert!((against.difference - difference).abs() < 1e-9 && against.ci95.is_some(), "{against:?}");
}

#[test]
fn an_interrupt_leaves_the_settings_that_have_all_runs() {
    let mut rounds = 0;
    let advice = adviser(MIX)
        .advise(|wanted| {
            rounds += 1;
            // The probe and the fixed settings, then half of the first round of the search.
            let done = if rounds < 3 { wanted.len() } else { wanted.len() / 2 };
            let runs = wanted.iter().enumerate().map(|(index, run)| (index < done).then(|| network(run)));
            Ok::<_, std::convert::Infallible>(runs.collect())
        })
        .expect("runs");
    assert!(!advice.complete && rounds == 3);
    let names: Vec<&str> = advice.rows.iter().map(|row| row.setting.name.as_str()).collect();
    assert_eq!(names[0], "adaptive", "the only one with good calls");
    assert!(
        names.contains(&"no control") && !names.iter().any(|name| name.starts_with("window")),
        "{names:?}"
    );
}

#[test]
fn what_the_scenario_carries_decides_what_is_tried_and_ranked() {
    let advice = |text: &str| {
        let adviser = adviser(text);
        let knobs = adviser.knobs.clone();
        let make = |wanted: &[Wanted]| {
            Ok::<_, std::convert::Infallible>(wanted.iter().map(|run| Some(network(run))).collect())
        };
        (knobs, adviser.advise(make).expect("runs"))
    };
    let (knobs, calls) = advice(&MIX[..MIX.rfind("[[traffic]]").expect("two entries")]);
    assert_eq!((knobs.as_slice(), calls.carried, calls.alone_mbps), (&[][..], Carried::Calls, None));
    assert_eq!(calls.rows[0].setting.name, "adaptive", "the best calls");

    let tcp = MIX.replace("kind = 'call'", "kind = 'bulk'");
    let (_, tcp) = advice(&tcp);
    assert_eq!((tcp.carried, tcp.rows[0].good), (Carried::Tcp, None));
    let most = tcp.rows[0].mbps.expect("goodput").mean;
    assert!(
        tcp.rows[0].setting.name.starts_with("data pacing") && most > 1.2,
        "{}",
        tcp.rows[0].setting.name
    );

    let own = format!("{MIX}[control]\nkind = 'window'\nwindow_packets = 5\n");
    let names = |advice: &Advice| advice.rows.iter().map(|row| row.setting.name.clone()).collect::<Vec<_>>();
    assert!(names(&advice(&own).1).contains(&"as in the scenario".to_owned()));
    let upload = MIX.replace("from = 'internet'\nto = 2", "from = 2\nto = 'internet'");
    assert!(advice(&upload).0.contains(&Knob::Cake(true)));
}
