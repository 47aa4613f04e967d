//! What the program does with bad input, full disks and closed pipes.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::support::{fairhop, folder, in_folder, output, text};

#[test]
fn a_scenario_that_cannot_be_simulated_is_reported_with_its_place() {
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
fn a_closed_pipe_is_no_error() {
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
fn a_full_disk_and_an_unreadable_file_are_reported() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let Output { status, stderr, .. } = fairhop(["schema"]).stdout(full).output().expect("the program runs");
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("cannot write to standard output: No space left on device\n"));

    // A file that even root cannot read.
    let Output { status, stderr, .. } = output(["run", "/proc/self/mem"]);
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("cannot read /proc/self/mem: Input/output error\n"), "{}", text(&stderr));
}

/// `miette` panics if the label is beyond column 65,535 of the shown line.
#[test]
fn errors_far_along_a_line_are_reported_with_line_and_column() {
    let folder = folder();
    let numbers = |count: usize, number: &str| vec![number; count].join(", ");
    let cases = [
        // A line of 66,000 characters, wrong at its end.
        (
            "long.toml",
            format!("name = \"x\"\nduration_s = 1\nradio = {{{}rat_mbps = 12 }}\n", " ".repeat(66_000)),
            "[long.toml:3:66010]",
        ),
        // A list of 3,500 nodes in one line; the last one is wrong.
        (
            "nodes.toml",
            format!(
                "name = \"x\"\nduration_s = 1\n[topology]\nkind = \"explicit\"\nnodes = [{}, {{ x_m = \"far\", y_m = 0 }}]\n",
                (0..3_500).map(|x| format!("{{ x_m = {x}, y_m = 0 }}")).collect::<Vec<_>>().join(", ")
            ),
            "[nodes.toml:5:",
        ),
        // A matrix of 150 × 150 in one line, with a negative loss as its last element.
        (
            "matrix.toml",
            format!(
                "name = \"x\"\nduration_s = 1\n[topology]\nkind = \"explicit\"\nnodes = [{}]\n[radio.propagation]\nmodel = \"matrix\"\nloss_db = [{}, [{}, \"far\"]]\n",
                numbers(150, "{ x_m = 0, y_m = 0 }"),
                numbers(149, &format!("[{}]", numbers(150, "80.0"))),
                numbers(149, "80.0"),
            ),
            "[matrix.toml:8:",
        ),
    ];
    for (name, content, place) in cases {
        fs::write(folder.path().join(name), content).expect("a file");
        let Output { status, stderr, .. } = in_folder(folder.path(), &["run", name]);
        let stderr = text(&stderr);
        assert_eq!(status.code(), Some(1), "{name}: {}", stderr.chars().take(2_000).collect::<String>());
        assert!(stderr.contains(place) && !stderr.contains("panicked"), "{name}: {stderr}");
        assert!(stderr.lines().all(|line| line.chars().count() <= 160), "{name}: {stderr}");
    }
}

/// The limit on the size of a file stands for a full disk: captures reach it, the tables do not.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_with_captures_leaves_report_and_tables() {
    let folder = folder();
    let Output { status, stdout, stderr } = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_fairhop")])
        .args(["run", "small.toml", "--out", "results", "--pcap"])
        .current_dir(folder.path())
        .output()
        .expect("a shell");
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stdout.contains("Totals") && stdout.contains("call-0"), "{stdout}");
    assert!(stderr.contains("the captures are incomplete"), "{stderr}");
    assert!(
        stderr.contains("cannot write results/pcap/node-") && stderr.contains("File too large"),
        "{stderr}"
    );
    assert!(stderr.contains("help: free some space"), "{stderr}");
    assert!(folder.path().join("results/summary.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_kept_if_standard_output_cannot_be_written() {
    let folder = folder();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let Output { status, stderr, .. } = fairhop(["run", "small.toml", "--out", "results"])
        .current_dir(folder.path())
        .stdout(full)
        .output()
        .expect("the program runs");
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("cannot write to standard output"), "{}", text(&stderr));
    assert!(folder.path().join("results/summary.json").exists());
}

#[test]
fn an_error_leaves_no_empty_folder() {
    let folder = folder();
    // The trace cannot be written in place of a folder, so the run does not begin.
    fs::write(folder.path().join("cwnd.csv"), "mine").expect("a file");
    let refused = in_folder(folder.path(), &["run", "small.toml", "--trace", "cwnd"]);
    assert_eq!(refused.status.code(), Some(1));
    // A scenario whose network cannot be built for a later seed: no folder is made before the first run has begun.
    let refused = in_folder(
        folder.path(),
        &["run", "small.toml", "--out", "a/b", "--seeds", "2", "--set", "topology.spacing_m=300"],
    );
    assert_eq!(refused.status.code(), Some(1));
    assert!(!folder.path().join("a").exists());
}
