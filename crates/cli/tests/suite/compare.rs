//! `fairhop compare`.

use std::process::Output;

use serde_json::Value;

use crate::support::{folder, in_folder, output, text};

fn compared(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else")
}

fn figure<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let totals = comparison["totals"].as_array().expect("totals");
    totals.iter().find(|figure| figure["figure"] == name).expect("the figure")
}

#[test]
fn a_scenario_does_not_differ_from_itself() {
    let folder = folder();
    let arguments = ["compare", "small.toml", "small.toml", "--seeds", "3"];
    let printed = text(&in_folder(folder.path(), &arguments).stdout);
    assert!(printed.contains("Nothing differs significantly"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    let comparison =
        compared(&in_folder(folder.path(), &arguments.iter().copied().chain(["--json"]).collect::<Vec<_>>()));
    for family in ["totals", "details"] {
        let figures = comparison[family].as_array().expect("figures");
        assert!(figures.len() > 10);
        assert!(
            figures
                .iter()
                .all(|one| one["difference"] == 0.0 && one["significant"] == false && one["seeds"] == 3)
        );
    }
}

#[test]
fn adaptive_control_makes_the_calls_of_k_mix_better_and_no_control_is_the_other_way_round() {
    let arguments = [
        "compare",
        "k-mix",
        "--b",
        "control.kind=adaptive",
        "--set",
        "duration_s=20",
        "--seeds",
        "4",
        "--json",
    ];
    let comparison = compared(&output(arguments));
    let mos = figure(&comparison, "mos_mean");
    assert_eq!((&mos["significant"], &mos["better"]), (&true.into(), &true.into()), "{mos}");
    let [difference, ci95] = ["difference", "ci95"].map(|key| mos[key].as_f64().expect("a number"));
    assert!(difference - ci95 > 0.5, "{difference} ± {ci95}");
    let means = ["a", "b"].map(|side| mos[side].as_f64().expect("a mean"));
    assert!((means[1] - means[0] - difference).abs() < 1e-9);

    let back =
        ["compare", "k-mix", "--set-a", "control.kind=adaptive", "--set", "duration_s=20", "--seeds", "4"];
    let printed = text(&output(back).stdout);
    let verdict = printed.lines().find(|line| line.starts_with("mean MOS")).expect("the figure");
    assert!(verdict.ends_with("worse"), "{printed}");
}

#[test]
fn scenarios_with_different_flows_are_compared_on_what_both_have() {
    let folder = folder();
    let arguments =
        ["compare", "small.toml", "--seeds", "2", "--b", "traffic.0.count=3", "--b", "traffic.2.count=0"];
    let comparison =
        compared(&in_folder(folder.path(), &arguments.iter().copied().chain(["--json"]).collect::<Vec<_>>()));
    assert_eq!(comparison["only_b"]["calls"], serde_json::json!(["call-2"]));
    assert_eq!(comparison["only_a"]["flows"], serde_json::json!(["cbr-0"]));
    let ok = figure(&comparison, "calls_ok");
    assert!(ok["b"].as_f64().is_some_and(|calls| calls <= 2.0), "the third call does not count: {ok}");
    let printed = text(&in_folder(folder.path(), &arguments).stdout);
    assert!(
        printed.contains("Only A has the flows cbr-0") && printed.contains("Only B has the calls call-2")
    );
}
