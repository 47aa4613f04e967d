//! `fairhop advise`.

use std::fs;

use serde_json::Value;

use crate::support::{folder, in_folder, json, text};

/// Two calls beside a download over two hops at 6 Mb/s.
const SLOW: [&str; 4] = ["--set", "radio.rate_mbps=6", "--set", "traffic.2.count=0"];

#[test]
fn the_ranking_is_ordered_and_the_recommended_lines_reproduce_their_figures() {
    let folder = folder();
    let arguments = |more: &[&'static str]| {
        let words = ["advise", "small.toml", "--seeds", "2", "--store", "kept"];
        words.into_iter().chain(SLOW).chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let first = in_folder(folder.path(), &arguments(&["--json"]));
    assert!(first.status.success(), "{}", text(&first.stderr));
    let advice: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!((&advice["complete"], &advice["left_out"]), (&true.into(), &serde_json::json!([])));
    let rows = advice["rows"].as_array().expect("rows");
    let tcp = |row: &Value| row["figures"]["tcp_goodput_mbps"]["mean"].as_f64().expect("goodput");
    let good: Vec<&Value> = rows.iter().filter(|row| row["calls_good"] == true).collect();
    assert!(rows.len() > 12 && rows.iter().take(good.len()).all(|row| row["calls_good"] == true));
    assert!(good.windows(2).all(|pair| tcp(pair[0]) >= tcp(pair[1])), "most TCP first");
    for tried in ["no control", "adaptive", "window", "data pacing", "ACK pacing", "fq-codel", "cake"] {
        assert!(
            rows.iter().any(|row| row["name"].as_str().is_some_and(|name| name.starts_with(tried))),
            "{tried}"
        );
    }

    // The lines of the best paced setting, pasted into the scenario.
    let paced =
        rows.iter().find(|row| row["name"].as_str().is_some_and(|name| name.starts_with("data pacing")));
    for row in [&rows[0], paced.expect("a rate")] {
        let lines = row["toml"].as_str().expect("lines");
        let scenario = fs::read_to_string(folder.path().join("small.toml")).expect("the scenario");
        fs::write(folder.path().join("pasted.toml"), format!("{scenario}\n{lines}")).expect("a file");
        let words = ["run", "pasted.toml", "--seeds", "2", "--json"];
        let run = json(&in_folder(folder.path(), &words.into_iter().chain(SLOW).collect::<Vec<_>>()));
        for figure in ["calls_clear", "mos_mean", "mos_min", "tcp_goodput_mbps"] {
            let shown = &row["figures"][figure];
            assert_eq!(
                (&shown["mean"], &shown["ci95"]),
                (&run["totals"][figure], &run["ci95"]["totals"][figure])
            );
        }
    }

    // What is kept is not run again, and says the same.
    let kept = fs::read_dir(folder.path().join("kept/runs")).expect("runs").count();
    let again = in_folder(folder.path(), &arguments(&["--json"]));
    assert_eq!(text(&again.stdout), text(&first.stdout));
    assert_eq!(fs::read_dir(folder.path().join("kept/runs")).expect("runs").count(), kept);
    let printed = text(&in_folder(folder.path(), &arguments(&[])).stdout);
    assert!(printed.contains("Recommended: ") && printed.contains("\n[control]\nkind = "), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
}

#[test]
fn a_scenario_without_calls_or_without_tcp_says_what_is_ranked() {
    let folder = folder();
    let advise = |sets: &[&'static str]| {
        let words = ["advise", "small.toml", "--seeds", "2", "--duration", "1.5"];
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        in_folder(folder.path(), &words.into_iter().chain(sets).collect::<Vec<_>>())
    };
    let without_calls = text(&advise(&["traffic.0.count=0", "traffic.2.count=0"]).stdout);
    assert!(without_calls.contains("no calls: settings are ranked by TCP goodput alone"), "{without_calls}");
    let calls_only = text(&advise(&["traffic.1.count=0", "traffic.2.count=0"]).stdout);
    assert!(calls_only.contains("calls and nothing else"), "{calls_only}");
    let nothing = advise(&["traffic=[]"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("there is nothing to rank"), "{}", text(&nothing.stderr));
    let wired = in_folder(folder.path(), &["advise", "dumbbell"]);
    assert!(text(&wired.stderr).contains("\"Dumbbell\" has no mesh"), "{}", text(&wired.stderr));
}
