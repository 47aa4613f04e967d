//! What scenarios resolve to: the last node, rates of single links, warnings, bounds on input, descriptions.

use std::fs;
use std::path::Path;

use crate::support::*;
use fairhop_model::phy::{Rate, Standard};
use fairhop_sim::output::Directory;
use fairhop_sim::output::tables::{Meta, write_summary};
use fairhop_sim::results::{Replications, Summary};
use fairhop_sim::scenario::{
    Change, Endpoint, Finding, Loaded, MAX_COLLECTED, MAX_PROBLEMS, MAX_TEXT_BYTES, NamedPlace, Override,
    Place, Scenario, load, schema,
};
use fairhop_sim::world::World;
use miette::{Diagnostic, Severity};
use serde_json::Value;

const STRING: &str =
    "name = \"string\"\nduration_s = 2\ntopology = { kind = \"string\", hops = 3, spacing_m = 200 }\n";

fn loaded(text: &str) -> Loaded {
    load("test.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn scenario(text: &str) -> Scenario {
    loaded(text).scenario
}

fn built(text: &str) -> Result<World, Vec<Finding>> {
    World::new(&scenario(text), 1)
}

#[test]
fn last_follows_the_number_of_hops() {
    for hops in [1, 4, 6] {
        let scenario = ready("k-mix", [format!("topology.hops={hops}")]);
        assert_eq!(scenario.traffic[0].to(), Place::Named(NamedPlace::Last));
        assert_eq!(scenario.resolve_place(scenario.traffic[0].to()), Endpoint::Node(hops));
        assert!(World::new(&scenario, 1).is_ok());
    }
}

#[test]
fn last_is_the_highest_number_in_every_topology() {
    for (topology, last) in [
        ("kind = \"string\", hops = 2, spacing_m = 9, lines = 3", 8),
        ("kind = \"grid\", columns = 4, rows = 3, spacing_m = 9", 11),
        ("kind = \"ring\", nodes = 5, spacing_m = 9", 4),
        ("kind = \"random\", nodes = 7, width_m = 9, height_m = 9", 6),
        ("kind = \"explicit\", nodes = [{ x_m = 0, y_m = 0 }, { x_m = 9, y_m = 0 }]", 1),
    ] {
        let scenario = scenario(&format!("name = \"x\"\nduration_s = 1\ntopology = {{ {topology} }}\n"));
        let place = Place::Named(NamedPlace::Last);
        assert_eq!(scenario.resolve_place(place), Endpoint::Node(last), "{topology}");
    }
}

#[test]
fn the_rate_of_a_link_is_set_one_way_or_both() {
    let rates = "[[radio.rates]]\nfrom = 1\nto = 2\nrate_mbps = 6\n";
    let one_way = scenario(&format!("{STRING}{rates}")).mac_params();
    assert_eq!((one_way.rate_of_hop(1, 2), one_way.rate_of_hop(2, 1)), (Rate::Ofdm6, Rate::Ofdm12));
    let both_ways = scenario(&format!("{STRING}{rates}both_ways = true\n")).mac_params();
    assert_eq!((both_ways.rate_of_hop(1, 2), both_ways.rate_of_hop(2, 1)), (Rate::Ofdm6, Rate::Ofdm6));
    assert_eq!(both_ways.rate_of_hop(0, 1), Rate::Ofdm12);
}

#[test]
fn a_link_rate_gives_the_run_of_a_change_at_the_start() {
    let traffic = "[[traffic]]\nkind = \"call\"\nfrom = 0\nto = \"last\"\nstart_s = 0.1\n";
    let rate = "from = 1\nto = 2\nrate_mbps = 6\n";
    let run = |more: &str| {
        let mut world = built(&format!("{STRING}{traffic}{more}")).unwrap();
        world.run();
        world.recorder().fingerprint
    };
    let fixed = run(&format!("[[radio.rates]]\n{rate}"));
    assert_eq!(fixed, run(&format!("[[change]]\nkind = \"rate\"\nat_s = 0\n{rate}")));
    assert_ne!(fixed, run(""));
}

/// Nodes 0 and 2 are 400 m apart: sensed within 550 m, not decoded beyond 250 m.
#[test]
fn rates_between_nodes_that_are_not_neighbours_are_refused() {
    let rate = "from = 0\nto = 2\nrate_mbps = 6\n";
    for (table, path) in [
        (format!("[[radio.rates]]\n{rate}"), "radio.rates.0.to"),
        (format!("[[change]]\nkind = \"rate\"\nat_s = 1\n{rate}"), "change.0.to"),
    ] {
        let findings = built(&format!("{STRING}{table}")).map(|_| ()).unwrap_err();
        assert_eq!(findings[0].path, path);
        assert!(findings[0].message.contains("node 2 is not a neighbour of node 0"), "{}", findings[0]);
        assert!(findings[0].help.contains("400 m apart"), "{}", findings[0]);
    }
    assert!(matches!(
        scenario(&format!("{STRING}[[change]]\nkind = \"rate\"\nat_s = 1\nfrom = 0\nrate_mbps = 6\n")).change
            [..],
        [Change::Rate { to: None, .. }]
    ));
}

#[test]
fn a_turnaround_of_zero_on_a_line_is_a_warning_at_its_place() {
    let text = format!("{STRING}[mac]\nturnaround_us = 0\n");
    let warnings = loaded(&text).warnings();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.severity(), Some(Severity::Warning));
    assert_eq!(&warning.source_text()[warning.span()], "0");
    assert!(warning.message().contains("collisions"), "{warning}");
    for (topology, expected) in [
        ("kind = \"string\", hops = 1, spacing_m = 9", 0),
        ("kind = \"grid\", columns = 3, rows = 1, spacing_m = 9", 1),
        ("kind = \"ring\", nodes = 5, spacing_m = 9", 0),
        ("kind = \"explicit\", nodes = [{x_m=0,y_m=0}, {x_m=9,y_m=1}, {x_m=9,y_m=0}, {x_m=18,y_m=2}]", 1),
        ("kind = \"explicit\", nodes = [{x_m=0,y_m=0}, {x_m=9,y_m=1}, {x_m=9,y_m=0}, {x_m=18,y_m=3}]", 0),
    ] {
        let mut scenario = scenario(&format!(
            "name = \"x\"\nduration_s = 1\ntopology = {{ {topology} }}\n[mac]\nturnaround_us = 0\n"
        ));
        assert_eq!(scenario.warnings().len(), expected, "{topology}");
        scenario.mac.turnaround_us = None;
        assert_eq!(scenario.warnings(), [], "{topology}");
    }
}

#[test]
fn warnings_are_stored_with_the_results() {
    let stored = |name: &str, text: &str| -> Value {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        let directory = Directory::create(&path).unwrap();
        let scenario = scenario(text);
        let mut world = World::new(&scenario, 1).unwrap();
        world.run();
        let results = Replications::of(&[Summary::of(&world, false)]).unwrap();
        let written = write_summary(&directory, &results, &Meta::new(&scenario).unwrap()).unwrap();
        serde_json::from_str(&fs::read_to_string(written).unwrap()).unwrap()
    };
    let summary = stored("warnings", &format!("{STRING}[mac]\nturnaround_us = 0\n"));
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("`turnaround_us` = 0"), "{warning}");
    assert_eq!(stored("no-warnings", STRING).get("warnings"), None);
}

/// The reason for the warning: two saturated stations and their receiver on a line, the receiver at its end. Slots count from
/// the end of the receiver's ACK, so a frame of the nearer station reaches the farther one at the start of its own slot. Over
/// 40 and 80 m (133.4 and 266.9 ns), rounding makes it a nanosecond earlier.
#[test]
fn a_turnaround_of_zero_suppresses_collisions_on_a_line() {
    let collided = |turnaround_us| {
        let mut lab = Lab::at([(0.0, 0.0), (40.0, 0.0), (80.0, 0.0)])
            .stream(node(1), node(0), 1000, 2000.0)
            .stream(node(2), node(0), 1000, 2000.0);
        lab.scenario.mac.turnaround_us = turnaround_us;
        let mut world = lab.world(1);
        world.run();
        world.airtime(0).collided.as_secs_f64()
    };
    let (standard, zero) = (collided(None), collided(Some(0.0)));
    assert!(standard > 10.0 * zero, "{standard} s with the standard's turnaround, {zero} s without");
}

#[test]
fn a_text_over_the_limit_is_refused_unread() {
    let comment = format!("# {}\n{STRING}", "x".repeat(MAX_TEXT_BYTES));
    let errors = load("large.toml", &comment, &[]).unwrap_err();
    let [problem] = errors.problems() else { panic!("{errors}") };
    assert!(problem.message().contains("at most 8388608 can be read"), "{errors}");
    assert_eq!(problem.source_text(), "");
    assert!(load("small.toml", &comment["# ".len() + MAX_TEXT_BYTES..], &[]).is_ok());
    let long = Override::new(format!("name={}", "x".repeat(MAX_TEXT_BYTES)));
    assert!(load("test.toml", STRING, &[long]).is_err());
}

#[test]
fn the_number_of_problems_is_bounded_and_all_are_counted() {
    let rows = vec![vec![-1.0; 40]; 40];
    let matrix = format!(
        "name = \"x\"\nduration_s = 1\n[topology]\nkind = \"grid\"\ncolumns = 40\nrows = 1\nspacing_m = 9\n\
         [radio.propagation]\nmodel = \"matrix\"\nloss_db = {rows:?}\n"
    );
    let errors = load("matrix.toml", &matrix, &[]).unwrap_err();
    assert_eq!((errors.problems().len(), errors.untold()), (MAX_PROBLEMS, 40 * 39 - MAX_PROBLEMS));
    let keys: String = (0..1000).map(|key| format!("key_{key} = 1\n")).collect();
    let errors = load("keys.toml", &format!("{keys}{STRING}"), &[]).unwrap_err();
    assert_eq!((errors.problems().len(), errors.untold()), (MAX_PROBLEMS, 1000 - MAX_PROBLEMS));
    const { assert!(MAX_PROBLEMS <= MAX_COLLECTED) };
}

/// The description of a key of a table in the schema's definitions or, for traffic, of a kind.
fn description(table: &Value, key: &str) -> String {
    table["properties"][key]["description"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn descriptions_state_the_defaults_that_apply() {
    let schema = schema();
    let basic = description(&schema["$defs"]["Radio"], "basic_rates_mbps");
    for (standard, words) in [
        (Standard::Dot11a, "6, 12 and 24 Mb/s in 802.11a and 802.11g"),
        (Standard::Dot11g, "6, 12 and 24 Mb/s in 802.11a and 802.11g"),
        (Standard::Dot11b, "1 and 2 Mb/s in 802.11b"),
    ] {
        assert!(basic.contains(words), "{basic}");
        let rates: Vec<_> = standard.mandatory_rates().iter().map(|rate| rate.mbps().to_string()).collect();
        let listed = words.split(" Mb/s").next().unwrap().replace(" and ", ", ");
        assert_eq!(rates.join(", "), listed);
    }
    let kinds = schema["$defs"]["Traffic"]["oneOf"].as_array().unwrap();
    assert_eq!(kinds.len(), 11);
    for kind in kinds {
        let word = kind["properties"]["kind"]["const"].as_str().unwrap();
        let own: String = kind["required"].as_array().unwrap().iter().filter_map(Value::as_str).fold(
            String::new(),
            |own, key| match key {
                "kind" | "from" | "to" => own,
                key => format!("{own}{key} = 100\n"),
            },
        );
        // Real traffic needs a command at one of its ends, of either.
        let command = if word == "real" { "command_to = \"true\"\n" } else { "" };
        let entry = format!("{STRING}[[traffic]]\nkind = \"{word}\"\nfrom = 0\nto = 1\n{own}{command}");
        let dscp = scenario(&entry).traffic[0].default_dscp();
        let name = serde_json::to_value(dscp).unwrap();
        let words = format!("Left out: `{}`", name.as_str().unwrap());
        assert!(description(kind, "dscp").contains(&words), "{word}: {}", description(kind, "dscp"));
    }
}
