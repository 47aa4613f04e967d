//! The table of tuned constants in docs/control.md is that of the code.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairhop-control --test suite documents` rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use fairhop_control::controller::Tuning;

const BEGIN: &str = "<!-- constants: begin -->\n";
const END: &str = "<!-- constants: end -->";

fn number(value: f64) -> String {
    if value >= 1e7 { format!("{value:e}") } else { value.to_string() }
}

fn table() -> String {
    let mut table = String::from("| constant | value | unit | off | meaning |\n|---|---|---|---|---|\n");
    for constant in Tuning::CONSTANTS {
        let meaning = constant.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
        let off = constant.off.map_or_else(String::new, |off| format!("{} ", number(off)));
        let (name, value, unit) = (constant.name, number(constant.value), constant.unit);
        writeln!(table, "| `{name}` | {value} | {unit} | {off}| {} |", meaning.trim_end_matches('.'))
            .expect("memory");
    }
    table
}

#[test]
fn the_tuned_constants_are_those_of_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control.md");
    let page = std::fs::read_to_string(&path).expect("docs/control.md");
    let begin = page.find(BEGIN).expect("a begin") + BEGIN.len();
    let end = begin + page[begin..].find(END).expect("an end");
    let table = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &page[..begin], &page[end..])).expect("docs/control.md");
    } else {
        assert!(
            page[begin..end] == table,
            "docs/control.md has other constants: UPDATE_GOLDEN=1 cargo test -p fairhop-control --test suite documents"
        );
    }
}
