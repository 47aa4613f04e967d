//! Replays the corpus of the fuzzer, the malformed scenarios and the ready-made ones.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/check.rs"]
mod check;

#[test]
fn no_text_of_the_corpus_panics_or_is_refused_without_a_reason_and_a_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut read = 0;
    for folder in ["../../fuzz/corpus/scenario", "../../scenarios", "tests/malformed"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder") {
            let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
            // As the fuzzer does: the text ends at the first byte that is not UTF-8.
            let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            check::check(text);
            read += 1;
        }
    }
    assert!(read > 200, "only {read} texts");
}
