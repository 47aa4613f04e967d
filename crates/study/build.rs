//! The engine's fingerprint: a hash of the sources of which results depend. Kept runs of another engine are not used.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that a run is made of.
const ENGINE: [&str; 6] = ["config", "control", "model", "routing", "sim", "transport"];
/// Libraries whose arithmetic or random numbers are in every result.
const LIBRARIES: [&str; 3] = ["libm", "rand_core", "rand_pcg"];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        // FNV-1a.
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for name in ENGINE {
        let folder = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(&folder, &mut files);
        files.sort();
        for file in files {
            take(file.strip_prefix(&crates).unwrap_or(&file).to_string_lossy().as_bytes());
            take(&fs::read(&file).unwrap_or_default());
        }
    }
    let lock = crates.join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    for package in fs::read_to_string(lock).unwrap_or_default().split("[[package]]") {
        if LIBRARIES.iter().any(|name| package.contains(&format!("name = \"{name}\"\n"))) {
            take(package.as_bytes());
        }
    }
    println!("cargo::rustc-env=FAIRHOP_ENGINE={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
