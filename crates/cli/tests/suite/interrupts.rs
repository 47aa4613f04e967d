//! Ctrl-C.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{fairhop, files, folder};

#[test]
fn ctrl_c_ends_the_runs_and_keeps_their_results() {
    let folder = folder();
    // Weeks of simulated time. The captures show that frames are on the air.
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
        assert!(child.try_wait().expect("a child").is_none(), "ended before the signal");
        thread::sleep(Duration::from_millis(10));
    }
    interrupt(&child);
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

fn interrupt(child: &Child) {
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(signal.success());
}

/// Interrupts a run after `wait`. Returns how it ended and how long that took.
fn interrupted_after(wait: Duration, folder: &Path, arguments: &[&str]) -> (ExitStatus, Duration) {
    let mut child = fairhop(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    thread::sleep(wait);
    assert!(child.try_wait().expect("a child").is_none(), "ended before the signal");
    let began = Instant::now();
    interrupt(&child);
    (child.wait().expect("it ends"), began.elapsed())
}

/// The program reacts within 0.5 s; a loaded machine may need longer.
const PATIENCE: Duration = Duration::from_secs(5);
const SIGINT: i32 = 2;

fn assert_prompt((status, took): (ExitStatus, Duration), when: &str) {
    // A signal before the handler is installed ends the program by default.
    let by_interrupt = status.code() == Some(130) || status.signal() == Some(SIGINT);
    assert!(by_interrupt, "{when}: {status}");
    assert!(took < PATIENCE, "{when}: {took:?}");
}

#[test]
fn ctrl_c_is_obeyed_while_a_scenario_is_read_and_while_a_network_is_set_up() {
    let folder = folder();
    let forever = "duration_s = 1000000\nwarmup_s = 999999\n";
    let call = "[[traffic]]\nkind = \"call\"\nfrom = 0\nto = 1\n";
    let comment = format!(
        "# {}\nname = \"x\"\n{forever}[topology]\nkind = \"string\"\nhops = 1\nspacing_m = 100\n{call}",
        // Just under the largest text that is read.
        "x".repeat((8 << 20) - 400)
    );
    fs::write(folder.path().join("comment.toml"), comment).expect("a file");
    let dense = format!(
        "name = \"x\"\n{forever}[topology]\nkind = \"random\"\nnodes = 5500\nwidth_m = 300\nheight_m = 300\n{call}"
    );
    fs::write(folder.path().join("dense.toml"), dense).expect("a file");
    for (name, ms) in [("comment.toml", 100), ("dense.toml", 100), ("dense.toml", 1_000)] {
        let ended =
            interrupted_after(Duration::from_millis(ms), folder.path(), &["run", name, "--out", "a/results"]);
        assert_prompt(ended, &format!("{name} after {ms} ms"));
        assert!(!folder.path().join("a").exists(), "{name}: an empty folder is left");
    }
}
