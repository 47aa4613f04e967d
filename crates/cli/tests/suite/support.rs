//! The program and its scenarios, for all tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Two calls and a download over two hops, short enough for tests.
pub(crate) const SMALL: &str = r#"
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

pub(crate) fn fairhop<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhop"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LINES"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn output<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    fairhop(arguments).output().expect("the program runs")
}

/// A folder with the small scenario in it, as `small.toml`.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("a scenario");
    folder
}

pub(crate) fn in_folder(folder: &Path, arguments: &[&str]) -> Output {
    fairhop(arguments).current_dir(folder).output().expect("the program runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The object that `--json` prints, without wall time, its only key that differs from run to run.
pub(crate) fn json(output: &Output) -> Value {
    let mut value: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    let wall = value.as_object_mut().and_then(|object| object.remove("wall_s"));
    assert!(wall.is_some_and(|wall| wall.as_f64().is_some_and(|s| s > 0.0)), "no wall_s");
    value
}

/// Every file below a folder, with its content.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
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
