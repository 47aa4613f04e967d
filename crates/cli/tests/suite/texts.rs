//! What the program prints: help, arithmetic, errors, colours.
//!
//! `golden/*.txt` hold the exact output of commands that does not depend on the simulator.
//! `UPDATE_GOLDEN=1 cargo test -p fairhop --test suite texts` rewrites them; review the changes as a new user would.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{fairhop, folder, in_folder, output, text};

#[test]
fn the_output_of_commands_is_golden() {
    let folder = folder();
    fs::write(folder.path().join("binary.toml"), b"name = \"x\"\n\xff\xfe\x00").expect("a file");
    let cases: &[(&str, &[&str])] = &[
        ("help", &["--help"]),
        ("help-demo", &["demo", "--help"]),
        ("help-run", &["run", "--help"]),
        ("help-compare", &["compare", "--help"]),
        ("help-advise", &["advise", "--help"]),
        ("compare-nothing", &["compare", "k-mix"]),
        ("help-sweep", &["sweep", "--help"]),
        ("help-query", &["query", "--help"]),
        ("help-plot", &["plot", "--help"]),
        ("help-study", &["study", "--help"]),
        ("help-emulate", &["emulate", "--help"]),
        ("help-scenarios", &["scenarios", "--help"]),
        ("help-schema", &["schema", "--help"]),
        ("help-mos", &["mos", "--help"]),
        ("help-airtime", &["airtime", "--help"]),
        ("help-outage", &["outage", "--help"]),
        ("help-aimd", &["aimd", "--help"]),
        ("help-aimd-send", &["aimd", "send", "--help"]),
        ("help-aimd-receive", &["aimd", "receive", "--help"]),
        ("help-call", &["call", "--help"]),
        ("help-call-make", &["call", "make", "--help"]),
        ("help-call-answer", &["call", "answer", "--help"]),
        ("call-bind", &["call", "answer", "--bind", "127.0.0.1:port"]),
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
        ("aimd-bind", &["aimd", "receive", "--bind", "127.0.0.1:port"]),
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
        ("run-chart-extension", &["run", "small.toml", "--chart", "chart.pdf"]),
        ("run-chart-folder", &["run", "small.toml", "--chart", "none/chart.svg"]),
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
fn every_ready_made_scenario_is_listed_and_printed_as_in_the_repository() {
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
    let schema: Value = serde_json::from_slice(&output(["schema", "plan"]).stdout).expect("JSON");
    assert!(schema.pointer("/properties/vary").is_some());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let Output { status, stdout, .. } = output(["completions", shell]);
        assert!(status.success() && text(&stdout).contains("fairhop"), "{shell}");
    }
}

#[test]
fn colours_are_for_terminals_and_can_be_turned_off() {
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
