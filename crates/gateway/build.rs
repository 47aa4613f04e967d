//! Compiles `bpf/fairhop.c` with clang. Without clang the crate is built with an empty object, and the gateway says at its
//! start what is missing: whoever uses the laboratory only needs no clang. No compiled object is part of the repository,
//! since nobody could review it, and the one in use is always that of the source beside it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// Little-endian architectures whose kernels let programs read words at any address (`HAVE_EFFICIENT_UNALIGNED_ACCESS`).
const WIDE: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    println!("cargo::rerun-if-changed=bpf/fairhop.c");
    println!("cargo::rerun-if-env-changed=FAIRHOP_CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("fairhop.bpf.o");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux && compile(&out) {
        return;
    }
    if let Err(error) = fs::write(&out, []) {
        println!("cargo::error=cannot write {}: {error}", out.display());
    }
}

/// Whether the object has been made.
fn compile(out: &PathBuf) -> bool {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let clang = env::var("FAIRHOP_CLANG").unwrap_or_else(|_| "clang".into());
    let result = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
        // Debian keeps the kernel's headers of an architecture there: its own, and others for cross compilers.
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .arg(format!("-idirafter/usr/{arch}-linux-gnu/include"))
        .args(WIDE.contains(&arch.as_str()).then_some("-DWIDE"))
        .args(["-c", "bpf/fairhop.c", "-o"])
        .arg(out)
        .output();
    match result {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            println!(
                "cargo::warning=clang cannot compile bpf/fairhop.c, the gateway will not start: {}",
                text.trim()
            );
            false
        }
        // A message at run time says so; builds for the laboratory alone stay quiet.
        Err(_) => false,
    }
}
