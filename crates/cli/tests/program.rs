//! The program from outside: what it prints, what it writes, how it ends.
//!
//! `golden/*.txt` hold exactly what commands say whose answer does not depend on the simulator: help, arithmetic, errors.
//! `UPDATE_GOLDEN=1 cargo test -p fairhop --test program` writes them anew; read the changes as a newcomer would.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Two calls and a download over two hops, short enough for tests.
const SMALL: &str = r#"
name = "small"
duration_s = 3
warmup_s = 1

[topology]
kind = "string"
hops = 2
spacing_m = 200

[internet]
delay_ms = 10
rate_mbps = 100

[[traffic]]
kind = "call"
from = "gateway"
to = 2
count = 2

[[traffic]]
kind = "bulk"
from = "internet"
to = 2

[[traffic]]
kind = "cbr"
from = 0
to = 1
rate_kbps = 100
payload_bytes = 500
"#;

fn fairhop<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhop"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LINES"] {
        command.env_remove(variable);
    }
    command
}

fn output<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    fairhop(arguments).output().expect("the program runs")
}

/// A folder with the small scenario in it, as `small.toml`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("a scenario");
    folder
}

fn in_folder(folder: &Path, arguments: &[&str]) -> Output {
    fairhop(arguments).current_dir(folder).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The object that `--json` prints, without the one key that is never the same.
fn json(output: &Output) -> Value {
    let mut value: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    let wall = value.as_object_mut().and_then(|object| object.remove("wall_s"));
    assert!(wall.is_some_and(|wall| wall.as_f64().is_some_and(|s| s > 0.0)), "no wall_s");
    value
}

/// Every file below a folder with its content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").display().to_string();
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

// ---- what is printed ----

#[test]
fn commands_say_exactly_this() {
    let folder = folder();
    fs::write(folder.path().join("binary.toml"), b"name = \"x\"\n\xff\xfe\x00").expect("a file");
    let cases: &[(&str, &[&str])] = &[
        ("help", &["--help"]),
        ("help-demo", &["demo", "--help"]),
        ("help-run", &["run", "--help"]),
        ("help-scenarios", &["scenarios", "--help"]),
        ("help-schema", &["schema", "--help"]),
        ("help-mos", &["mos", "--help"]),
        ("help-airtime", &["airtime", "--help"]),
        ("help-outage", &["outage", "--help"]),
        ("help-aimd", &["aimd", "--help"]),
        ("help-aimd-send", &["aimd", "send", "--help"]),
        ("help-aimd-receive", &["aimd", "receive", "--help"]),
        ("help-completions", &["completions", "--help"]),
        ("no-command", &[]),
        ("mos", &["mos", "--codec", "g729a", "--loss", "0.02", "--delay-ms", "104"]),
        ("mos-opus", &["mos", "--codec", "opus", "--loss", "0.2", "--playout-ms", "20"]),
        ("mos-json", &["mos", "--codec", "g723.1", "--loss", "0.01", "--json"]),
        ("mos-percent", &["mos", "--loss", "2"]),
        ("mos-percent-sign", &["mos", "--loss", "2%"]),
        ("mos-negative", &["mos", "--loss", "-0.1"]),
        ("mos-for-ever", &["mos", "--delay-ms", "1e308"]),
        ("mos-codec", &["mos", "--codec", "g729"]),
        ("airtime", &["airtime"]),
        (
            "airtime-b-rts",
            &["airtime", "--standard", "802.11b", "--rate-mbps", "11", "--hops", "1", "--rts=500"],
        ),
        ("airtime-json", &["airtime", "--capture", "--json"]),
        ("airtime-rate", &["airtime", "--rate-mbps", "13"]),
        ("airtime-hops", &["airtime", "--hops", "4294967296"]),
        ("outage", &["outage"]),
        ("outage-optimal", &["outage", "--arq", "optimal", "--states", "3", "--memory", "0.35"]),
        ("outage-flows", &["outage", "--flows", "4", "--rtt-ms", "85,125"]),
        ("outage-flows-strict", &["outage", "--flows", "40", "--error", "0.1,0.5"]),
        ("outage-json", &["outage", "--error", "0.1", "--json"]),
        ("outage-flows-json", &["outage", "--error", "0.05", "--flows", "2", "--rtt-ms", "85,125", "--json"]),
        ("outage-percent", &["outage", "--error", "1,5"]),
        ("outage-range", &["outage", "--error", "0.1..0.01"]),
        ("outage-memory", &["outage", "--memory", "1"]),
        ("outage-no-slot", &["outage", "--slot-ms", "0"]),
        ("outage-many-slots", &["outage", "--slot-ms", "0.01"]),
        ("outage-no-round-trip", &["outage", "--rtt-ms", "0"]),
        ("aimd-beta", &["aimd", "send", "127.0.0.1", "--beta", "1"]),
        ("aimd-bind", &["aimd", "receive", "--bind", "127.0.0.1"]),
        ("run-unknown", &["run", "k-mx"]),
        ("run-unknown-file", &["run", "mesh/k-mix.toml"]),
        ("run-directory", &["run", "."]),
        ("run-below-file", &["run", "small.toml/x"]),
        ("run-binary", &["run", "binary.toml"]),
        ("run-overrides", &["run", "small.toml", "--set", "traffic.0.to=9", "--set", "radio.rate_mbps=13"]),
        ("run-seeds-0", &["run", "small.toml", "--seeds", "0"]),
        ("run-seed-huge", &["run", "small.toml", "--seed", "18446744073709551616"]),
        ("run-seed-and-seeds", &["run", "small.toml", "--seed", "1", "--seeds", "2"]),
        ("run-threads-huge", &["run", "small.toml", "--threads", "100000"]),
        ("run-pcap-without-out", &["run", "small.toml", "--pcap"]),
        ("run-out-below-file", &["run", "small.toml", "--out", "small.toml/results"]),
        ("run-out-exists", &["run", "small.toml", "--out", "."]),
        ("scenarios-unknown", &["scenarios", "k-cals"]),
    ];
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for (name, arguments) in cases {
        let Output { status, stdout, stderr } = in_folder(folder.path(), arguments);
        let code = status.code().expect("an exit code");
        let said = format!(
            "$ fairhop {}\nexit code {code}\n{}{}",
            arguments.join(" "),
            text(&stdout),
            text(&stderr)
                .lines()
                .map(|line| format!("! {line}").trim_end().to_owned() + "\n")
                .collect::<String>()
        );
        let path = golden.join(format!("{name}.txt"));
        if update {
            fs::write(&path, &said).expect("a golden file");
        } else if fs::read_to_string(&path).unwrap_or_default() != said {
            wrong.push(format!("---- {name} now says:\n{said}"));
        }
        if let Some(line) = text(&stdout).lines().find(|line| line.chars().count() > 100) {
            wrong.push(format!("---- {name} has a line of more than 100 columns:\n{line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_ready_made_scenario_is_listed_and_printed_as_it_is_in_the_repository() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let listed = text(&output(["scenarios"]).stdout);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let in_repository = fs::read_dir(&scenarios).expect("the folder of scenarios").count();
    assert_eq!(names.len(), in_repository);
    for name in names {
        let printed = output(["scenarios", name]).stdout;
        assert_eq!(printed, fs::read(scenarios.join(format!("{name}.toml"))).expect(name));
    }
}

#[test]
fn schema_is_json_and_completions_are_scripts() {
    let schema: Value = serde_json::from_slice(&output(["schema"]).stdout).expect("JSON");
    assert!(schema.pointer("/properties/traffic").is_some());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let Output { status, stdout, .. } = output(["completions", shell]);
        assert!(status.success() && text(&stdout).contains("fairhop"), "{shell}");
    }
}

#[test]
fn colours_are_for_terminals_and_can_be_forbidden() {
    let escapes = |command: &mut Command| {
        let Output { stdout, stderr, .. } = command.output().expect("the program runs");
        text(&stdout).contains('\x1b') || text(&stderr).contains('\x1b')
    };
    for arguments in [&["mos"][..], &["run", "k-mx"], &["mos", "--loss", "2"]] {
        assert!(!escapes(&mut fairhop(arguments)), "{arguments:?}: not a terminal");
        assert!(escapes(fairhop(arguments).env("CLICOLOR_FORCE", "1")), "{arguments:?}: forced");
        let no_color = arguments.iter().chain(&["--no-color"]);
        assert!(!escapes(fairhop(no_color).env("CLICOLOR_FORCE", "1")), "{arguments:?}: forbidden");
        assert!(!escapes(fairhop(arguments).env("NO_COLOR", "1")), "{arguments:?}: NO_COLOR");
    }
}

#[test]
fn what_cannot_be_simulated_is_told_with_its_place() {
    let folder = folder();
    fs::write(folder.path().join("empty.toml"), "").expect("a file");
    let cases: [(&[&str], &str); 5] = [
        (&["empty.toml"], "[empty.toml:1:1]"),
        (&["small.toml", "--set", "duration_s=1e300"], "[--set:1:12]"),
        (&["small.toml", "--set", "traffic.0.count=4000000000"], "[--set:1:17]"),
        (&["small.toml", "--set", "topology.spacing_m=300"], "[small.toml:18:6]"),
        (&["small.toml", "--set", "nonsense"], "[--set:1:1]"),
    ];
    for (arguments, place) in cases {
        let Output { status, stdout, stderr } =
            in_folder(folder.path(), &[&["run"], arguments, &["--json"]].concat());
        assert_eq!(status.code(), Some(1), "{arguments:?}");
        assert!(text(&stderr).contains(place), "{arguments:?}: {}", text(&stderr));
        assert!(text(&stderr).contains("help: ") && stdout.is_empty(), "{arguments:?}");
    }
}

// ---- runs ----

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
fn the_same_scenario_and_seeds_give_the_same_bytes_twice_and_on_any_number_of_threads() {
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
fn summary_json_holds_what_json_prints_and_the_scenario_as_it_was_run() {
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
fn tables_show_every_call_flow_and_node_and_fit_the_screen() {
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
fn a_file_goes_before_a_ready_made_scenario_of_its_name() {
    let folder = folder();
    fs::write(folder.path().join("k-mix"), SMALL).expect("a file");
    assert_eq!(json(&in_folder(folder.path(), &["run", "k-mix", "--json"]))["scenario"], "small");
    fs::create_dir(folder.path().join("ring")).expect("a directory");
    let ring =
        in_folder(folder.path(), &["run", "ring", "--set", "duration_s=1", "--set", "warmup_s=0", "--json"]);
    assert_ne!(json(&ring)["scenario"], "small");
}

#[test]
fn a_scenario_that_cannot_be_simulated_leaves_no_directory_behind() {
    let folder = folder();
    let refused = in_folder(
        folder.path(),
        &["run", "small.toml", "--set", "topology.spacing_m=300", "--out", "results"],
    );
    assert_eq!(refused.status.code(), Some(1));
    assert!(!folder.path().join("results").exists());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    for arguments in [&["schema"][..], &["run", "k-mix", "--json", "--set", "duration_s=6"], &["--help"]] {
        let mut child = fairhop(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        assert!(status.success() && !text(&stderr).contains("panicked"), "{arguments:?}: {}", text(&stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_an_unreadable_file_are_told() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let Output { status, stderr, .. } = fairhop(["schema"]).stdout(full).output().expect("the program runs");
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("cannot write to standard output: No space left on device\n"));

    // A file that even root cannot read.
    let Output { status, stderr, .. } = output(["run", "/proc/self/mem"]);
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("cannot read /proc/self/mem: Input/output error\n"), "{}", text(&stderr));
}

// ---- Ctrl-C ----

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_runs_and_keeps_what_they_measured() {
    let folder = folder();
    // Weeks of simulated time; captures tell that frames are on the air.
    let arguments = [
        "run",
        "small.toml",
        "--json",
        "--seeds",
        "2",
        "--threads",
        "2",
        "--out",
        "results",
        "--pcap",
        "--set",
        "duration_s=1000000",
        "--set",
        "warmup_s=0",
        "--set",
        "record.interval_s=1000",
        "--set",
        "traffic.1.count=0",
        "--set",
        "traffic.2.count=0",
    ];
    let mut child = fairhop(arguments)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let captured = |seed: u32| {
        let path = folder.path().join(format!("results/pcap/seed-{seed}/node-0.pcapng"));
        fs::metadata(path).map_or(0, |file| file.len())
    };
    while captured(1).min(captured(2)) < 1 << 20 {
        assert!(child.try_wait().expect("a child").is_none(), "ended before it was asked to");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(signal.success());
    let mut printed = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut printed).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));

    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&printed["partial"], &printed["seeds"]), (&true.into(), &serde_json::json!([1, 2])));
    let simulated = printed["sim_s"].as_f64().expect("a number");
    assert!(simulated > 0.0 && simulated < 1e6, "{simulated}");
    assert!(printed["calls"][0]["forward"]["sent"].as_f64().is_some_and(|sent| sent > 0.0));
    let kept = files(&folder.path().join("results"));
    let summary: Value = serde_json::from_slice(&kept["summary.json"]).expect("JSON");
    assert_eq!(summary["partial"], true);
    assert!(kept.contains_key("flows.parquet"));
}

// ---- the demo ----

#[test]
fn the_demo_compares_worlds_without_and_with_control_and_replaces_only_its_own_pictures() {
    let folder = folder();
    let Output { status, stdout, .. } = in_folder(folder.path(), &["demo", "--out", "pictures"]);
    let report = text(&stdout);
    assert!(status.success(), "{report}");
    for world in ["calls alone", "downloads alone", "together", "window", "pacing", "adaptive"] {
        assert!(report.contains(world), "{world}: {report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
    let picture = folder.path().join("pictures/demo.svg");
    let drawn = fs::read_to_string(&picture).expect("a picture");
    assert!(drawn.contains("<svg"));
    let remedies = fs::read_to_string(folder.path().join("pictures/demo-control.svg")).expect("a picture");
    assert!(remedies.contains("adaptive") && !drawn.contains("adaptive"));

    assert!(in_folder(folder.path(), &["demo", "--out", "pictures"]).status.success());
    assert_eq!(fs::read_to_string(&picture).expect("a picture"), drawn);

    fs::write(&picture, "<svg>somebody else's</svg>").expect("a file");
    let refused = in_folder(folder.path(), &["demo", "--out", "pictures"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&picture).expect("a picture"), "<svg>somebody else's</svg>");
}

#[test]
fn a_trace_is_a_line_a_sample_and_changes_nothing_in_the_results() {
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
    assert!(String::from_utf8_lossy(&again.stderr).contains("cwnd.csv is already there"));
}

#[test]
fn a_call_is_clear_in_the_seconds_in_which_its_trace_is_good_both_ways() {
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
