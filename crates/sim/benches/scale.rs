//! How the cost of a frame and of setup grows with the network, and the lower bound that the event queue sets.
//!
//! `cargo bench -p fairhop-sim` prints times, which depend on the machine, and ratios, which depend on it little. Nothing
//! here is a test; `docs/performance.md` quotes the ratios.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use fairhop_model::units::Nanos;
use fairhop_sim::engine::{EventKind, Events};
use fairhop_sim::scenario::{self, Override, Scenario};
use fairhop_sim::world::World;

/// The allocator of the `fairhop` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A scenario in which every node sends 200-byte datagrams, 4 per second, to a node three hops away.
fn scenario(name: &str, topology: &str, targets: &[u32], duration_s: f64) -> Scenario {
    let mut text = format!("name = \"{name}\"\nduration_s = {duration_s:?}\ntopology = {topology}\n");
    for (node, to) in targets.iter().enumerate() {
        text += &format!(
            "[[traffic]]\nkind = \"cbr\"\nfrom = {node}\nto = {to}\nrate_kbps = 6.4\npayload_bytes = 200\n"
        );
    }
    load(name, &text, &[])
}

/// Nodes on a circle, 60 m apart: each hears 18 others at any size. There is no border, so density and traffic per node
/// are constant.
fn ring(nodes: u32, duration_s: f64) -> Scenario {
    let targets: Vec<u32> = (0..nodes).map(|node| (node + 12) % nodes).collect();
    scenario(
        "ring",
        &format!("{{ kind = \"ring\", nodes = {nodes}, spacing_m = 60.0 }}"),
        &targets,
        duration_s,
    )
}

/// A square grid, 200 m apart: an inner node hears 20 others, one at the border fewer, so the mean grows from 15.8 at
/// 10 × 10 to 19.1 at 50 × 50.
fn grid(nodes: u32, duration_s: f64) -> Scenario {
    let side = nodes.isqrt();
    let target = |node: u32| if node % side + 3 < side { node + 3 } else { node - 3 };
    let targets: Vec<u32> = (0..nodes).map(target).collect();
    let topology = format!("{{ kind = \"grid\", columns = {side}, rows = {side}, spacing_m = 200.0 }}");
    scenario("grid", &topology, &targets, duration_s)
}

/// Nodes at random with 20 neighbours in reach on average, and flows by `ends`.
fn random(nodes: u32, ends: fn(u32, u32) -> Option<(u32, u32)>) -> Scenario {
    let side_m = (f64::from(nodes) * std::f64::consts::PI * 250.0 * 250.0 / 20.0).sqrt().round();
    let mut text = format!(
        "name = \"random\"\nduration_s = 1.0\n\
         topology = {{ kind = \"random\", nodes = {nodes}, width_m = {side_m:?}, height_m = {side_m:?} }}\n"
    );
    for (from, to) in (0..nodes).filter_map(|node| ends(node, nodes)) {
        text += &format!(
            "[[traffic]]\nkind = \"cbr\"\nfrom = {from}\nto = {to}\nrate_kbps = 6.4\npayload_bytes = 200\n"
        );
    }
    load("random", &text, &[])
}

/// 1,000 nodes at uniform places with 20 neighbours in reach on average. They rest, or each walks 10 m/s in a direction of its
/// own, so that the density stays. Each sends 200-byte datagrams, 4 per second, to all neighbours or to one at three hops.
fn walkers(moving: bool, broadcast: bool) -> Scenario {
    const NODES: u32 = 1000;
    const DURATION_S: f64 = 10.0;
    let side_m = (f64::from(NODES) * std::f64::consts::PI * 250.0 * 250.0 / 20.0).sqrt().round();
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut text = format!(
        "name = \"walkers\"\nduration_s = {DURATION_S:?}\n[topology]\nkind = \"explicit\"\nnodes = [\n"
    );
    let mut places = Vec::new();
    for _ in 0..NODES {
        let (x_m, y_m) = (draw() * side_m, draw() * side_m);
        let angle = draw() * std::f64::consts::TAU;
        let (to_x, to_y) = (x_m + 100.0 * angle.cos(), y_m + 100.0 * angle.sin());
        let walk = if moving {
            format!(
                ", waypoints = [{{ at_s = 0, x_m = {x_m:?}, y_m = {y_m:?} }}, {{ at_s = {DURATION_S:?}, x_m = {to_x:?}, \
                 y_m = {to_y:?} }}]"
            )
        } else {
            String::new()
        };
        text += &format!("  {{ x_m = {x_m:?}, y_m = {y_m:?}{walk} }},\n");
        places.push((x_m, y_m));
    }
    text += "]\n";
    for (node, (x, y)) in places.iter().enumerate() {
        // About three hops away: the node nearest to 550 m.
        let off = |(_, (a, b)): &(usize, &(f64, f64))| ((a - x).hypot(b - y) - 550.0).abs();
        let far = places.iter().enumerate().min_by(|a, b| off(a).total_cmp(&off(b)));
        let to = match far {
            Some((far, _)) if !broadcast => far.to_string(),
            _ => "\"broadcast\"".to_owned(),
        };
        text += &format!(
            "[[traffic]]\nkind = \"cbr\"\nfrom = {node}\nto = {to}\nrate_kbps = 6.4\npayload_bytes = 200\n"
        );
    }
    load("walkers", &text, &[])
}

/// Moving nodes against resting ones.
fn movement() {
    println!("\n1,000 nodes, 20 neighbours in reach: walking at 10 m/s against resting, fastest of rounds");
    println!("  traffic                       resting ns/frame  moving ns/frame  ratio");
    for (name, broadcast) in [("broadcasts", true), ("flows of about three hops", false)] {
        let rounds = costs(rounds().min(5), &[walkers(false, broadcast), walkers(true, broadcast)]);
        let [resting, moving] =
            [0, 1].map(|which| fastest(rounds.iter().map(|round| &round[which])).per_frame_ns());
        println!("  {name:28} {resting:17.0} {moving:16.0} {:6.2}", moving / resting);
    }
}

fn load(name: &str, text: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<Override> = overrides.iter().copied().map(Override::new).collect();
    match scenario::load(name, text, &overrides) {
        Ok(loaded) => loaded.scenario,
        Err(errors) => panic!("{errors}"),
    }
}

#[derive(Clone, Copy)]
struct Cost {
    build_s: f64,
    run_s: f64,
    frames: u64,
    events: u64,
}

impl Cost {
    fn per_frame_ns(&self) -> f64 {
        self.run_s * 1e9 / self.frames as f64
    }
}

/// Sets a network up and runs it once.
fn cost(scenario: &Scenario) -> Cost {
    let start = Instant::now();
    let mut world = match World::new(scenario, 1) {
        Ok(world) => world,
        Err(findings) => panic!("{findings:?}"),
    };
    let build_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    world.run();
    let run_s = start.elapsed().as_secs_f64();
    Cost { build_s, run_s, frames: world.recorder().frames, events: world.events_handled() }
}

/// Runs of each scenario in turn, so that a slow minute of the machine does not affect one scenario alone.
fn costs<const COUNT: usize>(rounds: usize, scenarios: &[Scenario; COUNT]) -> Vec<[Cost; COUNT]> {
    (0..rounds.max(1)).map(|_| std::array::from_fn(|index| cost(&scenarios[index]))).collect()
}

/// The fastest run: the cost of the code with the least interference from the machine.
fn fastest<'a>(runs: impl Iterator<Item = &'a Cost>) -> Cost {
    match runs.min_by(|a, b| a.run_s.total_cmp(&b.run_s)) {
        Some(run) => *run,
        None => panic!("no run"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds that the event queue alone takes for `count` events over `stations`: each event sets its successor.
fn floor(stations: u32, count: u64) -> f64 {
    let mut events = Events::new(stations as usize, 64);
    for station in 0..stations {
        events.set_station(Nanos(u64::from(station)), EventKind::Access, station);
    }
    let start = Instant::now();
    let mut state = 1u64;
    for _ in 0..count {
        let Some(event) = events.pop_until(Nanos::MAX) else { break };
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        events.set_station(event.at + Nanos(1 + (state >> 44)), EventKind::Access, event.subject);
    }
    start.elapsed().as_secs_f64()
}

/// The maximum resident size of this process so far, in MB (Linux).
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}

/// Number of rounds of the tables by size; the environment variable `ROUNDS` overrides it.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(15)
}

fn by_size(make: fn(u32, f64) -> Scenario) {
    println!("                       fastest run            to 100 nodes");
    println!(
        "  nodes   frames  build s  run s  ns/frame  fastest  median of rounds  events/frame  floor ns/frame  peak MB"
    );
    let sizes = [(100, 100.0), (400, 25.0), (900, 11.0), (1600, 6.25), (2500, 4.0)];
    let rounds = costs(rounds(), &sizes.map(|(nodes, duration_s)| make(nodes, duration_s)));
    let peak_mb = peak_memory_mb().unwrap_or(f64::NAN);
    let smallest = fastest(rounds.iter().map(|round| &round[0]));
    for (size, (nodes, _)) in sizes.iter().enumerate() {
        let cost = fastest(rounds.iter().map(|round| &round[size]));
        println!(
            "{nodes:7} {:8} {:8.3} {:6.3} {:9.0} {:8.2} {:17.2} {:13.2} {:15.0} {:8.1}",
            cost.frames,
            cost.build_s,
            cost.run_s,
            cost.per_frame_ns(),
            cost.per_frame_ns() / smallest.per_frame_ns(),
            median(rounds.iter().map(|round| round[size].per_frame_ns() / round[0].per_frame_ns())),
            cost.events as f64 / cost.frames as f64,
            floor(*nodes, cost.events) * 1e9 / cost.frames as f64,
            peak_mb,
        );
    }
}

/// Setup of random networks of 1,000 and 10,000 nodes of the same density, without running them.
fn setup() {
    println!("\nSetup, random nodes with 20 neighbours in reach: fastest of rounds, 10,000 nodes to 1,000");
    println!("  flows                            1,000 s  10,000 s   ratio");
    type Ends = fn(u32, u32) -> Option<(u32, u32)>;
    let flows: [(&str, Ends); 3] = [
        ("none", |_, _| None),
        ("every node to the gateway", |node, _| (node > 0).then_some((node, 0))),
        ("every node to any other one", |node, nodes| {
            Some((node, (node.wrapping_mul(2_654_435_761) % (nodes - 1) + node + 1) % nodes))
        }),
    ];
    for (name, ends) in flows {
        let scenarios = [1_000, 10_000].map(|nodes| random(nodes, ends));
        let fastest = scenarios.each_ref().map(|scenario| {
            let once = || {
                let start = Instant::now();
                if let Err(findings) = World::new(scenario, 1) {
                    panic!("{findings:?}");
                }
                start.elapsed().as_secs_f64()
            };
            (0..rounds().clamp(1, 5)).map(|_| once()).fold(f64::INFINITY, f64::min)
        });
        println!("  {name:30} {:9.3} {:9.3} {:7.1}", fastest[0], fastest[1], fastest[1] / fastest[0]);
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "setup") {
        return setup();
    }
    if std::env::args().any(|argument| argument == "movement") {
        return movement();
    }
    println!("Cost by size, ring 60 m apart: every node hears 18 others and sends one 3-hop flow");
    by_size(ring);
    println!("\nCost by size, grid 200 m apart: a node hears 20 others, fewer at the border");
    by_size(grid);

    setup();
    movement();

    println!("\nReady-made scenarios");
    println!("  scenario                       frames   run s  ns/frame  sim/wall  events/frame  floor");
    for (name, overrides) in [
        ("k-mix", &["duration_s=100"][..]),
        ("k-mix", &["duration_s=100", "radio.capture=first"]),
        ("k-calls", &["duration_s=100"]),
        ("k-tcp", &["duration_s=100"]),
        ("parallel-strings", &["duration_s=100"]),
        ("grid-cbr", &["duration_s=30"]),
    ] {
        let Some(text) = scenario::library().iter().find(|ready| ready.name == name).map(|ready| ready.text)
        else {
            continue;
        };
        let scenario = load(name, text, overrides);
        let nodes = scenario.topology.node_count() as u32;
        let runs = costs(3, std::array::from_ref(&scenario));
        let cost = fastest(runs.iter().flatten());
        println!(
            "  {:28} {:9} {:7.3} {:9.0} {:9.0} {:13.2} {:5.0}%",
            format!("{name} {}", overrides.get(1).copied().unwrap_or_default()),
            cost.frames,
            cost.run_s,
            cost.per_frame_ns(),
            scenario.duration_s / cost.run_s,
            cost.events as f64 / cost.frames as f64,
            100.0 * floor(nodes, cost.events) / cost.run_s,
        );
    }
}
