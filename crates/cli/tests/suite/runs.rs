//! `fairhop run`: results, files, traces.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{SMALL, fairhop, files, folder, in_folder, json, text};

#[test]
fn json_has_the_documented_form_for_one_seed_and_for_several() {
    let folder = folder();
    let numbers = |value: &Value, pointers: &[&str]| {
        for pointer in pointers {
            assert!(value.pointer(pointer).is_some_and(Value::is_number), "{pointer} in {value:#}");
        }
    };
    let figures = [
        "/frames",
        "/calls/0/mos",
        "/calls/0/mos_worst",
        "/calls/0/loss",
        "/calls/0/late",
        "/calls/1/delay_ms",
        "/calls/1/jitter_ms",
        "/flows/0/goodput_mbps",
        "/flows/0/sent_mbps",
        "/flows/1/delay_ms",
        "/flows/1/loss",
        "/totals/mos_mean",
        "/totals/mos_min",
        "/totals/calls_ok",
        "/totals/tcp_goodput_mbps",
        "/totals/udp_goodput_mbps",
        "/totals/jain",
    ];
    let one = json(&in_folder(folder.path(), &["run", "small.toml", "--json", "--seed", "7"]));
    numbers(&one, &figures);
    numbers(&one, &["/sim_s"]);
    assert_eq!(one["fairhop"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&one["scenario"], &one["seeds"], &one["ci95"]),
        (&"small".into(), &[7].into(), &serde_json::json!({}))
    );
    assert_eq!((&one["calls"][0]["name"], &one["flows"][0]["name"]), (&"call-0".into(), &"bulk-0".into()));
    assert_eq!((&one["flows"][0]["kind"], &one["flows"][1]["kind"]), (&"bulk".into(), &"cbr".into()));
    assert_eq!(one.get("partial"), None);

    let several = json(&in_folder(folder.path(), &["run", "small.toml", "--json", "--seeds", "3"]));
    numbers(&several, &figures);
    numbers(&several["ci95"], &figures);
    assert_eq!(several["seeds"], serde_json::json!([1, 2, 3]));
}

#[test]
fn the_same_scenario_and_seeds_give_the_same_bytes_on_any_number_of_threads() {
    let folder = folder();
    let run = |threads: &str, out: &str| {
        let arguments =
            ["run", "small.toml", "--seeds", "3", "--threads", threads, "--out", out, "--pcap", "--json"];
        let output = in_folder(folder.path(), &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (json(&output), files(&folder.path().join(out)))
    };
    let (first, first_files) = run("1", "results/a");
    let names: Vec<&str> = first_files.keys().map(String::as_str).collect();
    for name in ["summary.json", "flows.parquet", "flow_series.parquet", "pcap/seed-3/node-2.pcapng"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for (threads, out) in [("1", "results/b"), ("2", "results/c")] {
        let (again, again_files) = run(threads, out);
        assert_eq!(again, first, "{threads} threads");
        assert_eq!(again_files.keys().collect::<Vec<_>>(), first_files.keys().collect::<Vec<_>>());
        for (name, content) in &first_files {
            assert!(again_files.get(name) == Some(content), "{name} differs with {threads} threads");
        }
    }
}

#[test]
fn summary_json_contains_the_output_of_json_and_the_resolved_scenario() {
    let folder = folder();
    let arguments = [
        "run",
        "small.toml",
        "--set",
        "traffic.0.count=1",
        "--seed",
        "5",
        "--out",
        "results",
        "--pcap",
        "--json",
    ];
    let printed = json(&in_folder(folder.path(), &arguments));
    let kept = files(&folder.path().join("results"));
    assert!(kept.contains_key("pcap/node-0.pcapng") && kept.contains_key("pcap/internet.pcapng"));
    let mut summary: Value = serde_json::from_slice(&kept["summary.json"]).expect("JSON");
    let resolved = summary.as_object_mut().and_then(|object| object.remove("resolved_scenario"));
    assert_eq!(summary, printed);
    let resolved = resolved.expect("the resolved scenario");
    assert_eq!((&resolved["seed"], &resolved["traffic"][0]["count"]), (&5.into(), &1.into()));
}

#[test]
fn tables_show_every_call_flow_and_node_and_fit_the_terminal() {
    let folder = folder();
    for seeds in ["1", "3"] {
        let Output { status, stdout, .. } =
            in_folder(folder.path(), &["run", "small.toml", "--seeds", seeds]);
        let report = text(&stdout);
        assert!(status.success());
        for name in ["call-0", "call-1", "bulk-0", "cbr-0", "node 0", "node 2"] {
            assert!(report.lines().any(|line| line.starts_with(name)), "{name} is not in\n{report}");
        }
        assert_eq!(report.contains('±'), seeds != "1");
        assert!(
            report.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line),
            "{report}"
        );
    }
}

#[test]
fn scenarios_are_read_from_standard_input_too() {
    let mut child =
        fairhop(["run", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    child.stdin.take().expect("its input").write_all(SMALL.as_bytes()).expect("it reads");
    assert_eq!(json(&child.wait_with_output().expect("it ends"))["scenario"], "small");
}

#[test]
fn a_file_takes_precedence_over_a_ready_made_scenario_of_its_name() {
    let folder = folder();
    fs::write(folder.path().join("k-mix"), SMALL).expect("a file");
    assert_eq!(json(&in_folder(folder.path(), &["run", "k-mix", "--json"]))["scenario"], "small");
    fs::create_dir(folder.path().join("ring")).expect("a directory");
    let ring =
        in_folder(folder.path(), &["run", "ring", "--set", "duration_s=1", "--set", "warmup_s=0", "--json"]);
    assert_ne!(json(&ring)["scenario"], "small");
}

#[test]
fn a_trace_has_one_line_per_sample_and_does_not_change_the_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |extra: &[&str]| {
        let mut command =
            fairhop(["run", "slotted-link", "--set", "duration_s=10", "--json"].iter().chain(extra));
        command.current_dir(folder.path()).output().expect("the program runs")
    };
    let results = |output: &Output| {
        let mut json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json.as_object_mut().expect("an object").remove("wall_s");
        json
    };
    let plain = run(&[]);
    let traced = run(&["--trace", "cwnd", "--trace", "queue", "--trace-interval-ms", "20"]);
    assert!(traced.status.success(), "{traced:?}");
    assert_eq!(results(&traced), results(&plain));
    let lines = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a trace");
    // 500 samples of one sender, and of four directions of links.
    assert_eq!((lines("cwnd.csv").lines().count(), lines("queue.csv").lines().count()), (501, 2001));
    assert!(lines("cwnd.csv").contains("\n1,10,aimd-0,"), "{}", lines("cwnd.csv"));
    assert!(lines("queue.csv").contains("\n1,0.02,base -> mobile,"));
    let again = run(&["--trace", "cwnd"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("cwnd.csv exists"));
}

#[test]
fn a_call_is_clear_in_the_seconds_in_which_its_trace_is_good_in_both_directions() {
    let folder = tempfile::tempdir().expect("a folder");
    let sets = ["--set", "duration_s=20", "--set", "warmup_s=4.5", "--set", "control.rate_kbps=1000"];
    let words = ["run", "k-region", "--trace", "mos", "--json"].iter().chain(&sets);
    let output = fairhop(words).current_dir(folder.path()).output().expect("the program runs");
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trace = fs::read_to_string(folder.path().join("mos.csv")).expect("a trace");
    let mut counted: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in trace.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, t_s, flow, forward, backward] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        // The first second that begins after the warm-up ends at 6.
        if number(t_s) >= 6.0 {
            let (clear, whole) = counted.entry(flow).or_default();
            *clear += f64::from(number(forward).min(number(backward)) >= 3.6);
            *whole += 1.0;
        }
    }
    let calls = results["calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 3);
    for call in calls {
        let (clear, whole) = counted[call["name"].as_str().expect("a name")];
        assert_eq!((whole, call["clear"].as_f64()), (15.0, Some(clear / whole)));
    }
    let mean = results["totals"]["calls_clear"].as_f64().expect("a number");
    assert!((0.3..0.99).contains(&mean), "a rate at which some seconds are good: {mean}");
}
