//! The Python package as users get it: a wheel, installed into an empty environment.

use std::env;
use std::path::Path;
use std::process::Command;

/// `tools/try_wheel.py` makes a wheel of the library that `cargo test` has built, installs it, checks its types, and runs
/// the tests in `python/tests`.
#[test]
fn the_wheel_passes_its_tests_in_an_empty_environment() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        assert!(env::var_os("CI").is_none(), ".venv is missing; fix: tools/prepare venv");
        eprintln!("skipped: .venv is missing; fix: tools/prepare venv");
        return;
    }
    let test = env::current_exe().expect("the path of this test");
    let built = test.parent().expect("the folder of tests");
    let program = built.with_file_name("fairhop");
    assert!(program.exists(), "{} is missing; fix: cargo build --package fairhop", program.display());
    let status = Command::new(python)
        .arg(root.join("tools/try_wheel.py"))
        .arg("--library")
        .arg(built.join("lib_native.so"))
        .arg("--program")
        .arg(program)
        .status()
        .expect("Python starts");
    assert!(status.success(), "see the output above; tools/try_wheel.py --help runs parts of it");
}
