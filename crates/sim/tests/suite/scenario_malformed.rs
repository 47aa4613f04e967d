//! Error messages: each malformed scenario of the folder `malformed` with its exact output.
//!
//! `NNN-name.toml` is a scenario, in which a line `# --set …` is an override; `NNN-name.err` is the output of the program.
//! `UPDATE_GOLDEN=1 cargo test -p fairhop-sim --test suite scenario_malformed` rewrites the outputs; read the changes as a
//! newcomer would.

use std::fs;
use std::path::PathBuf;

use fairhop_sim::scenario::{Override, ScenarioErrors, load};
use miette::{GraphicalReportHandler, GraphicalTheme};

fn printed(errors: &ScenarioErrors) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(100);
    let mut out = String::new();
    for problem in errors.problems() {
        handler.render_report(&mut out, problem).expect("a report");
        out.push('\n');
    }
    if errors.untold() > 0 {
        out.push_str(&format!("and {} more\n", errors.untold()));
    }
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

fn cases() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/malformed");
    let mut cases: Vec<_> = fs::read_dir(folder)
        .expect("the folder of malformed scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn each_malformed_scenario_is_refused_with_exactly_this_message() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let cases = cases();
    assert!(cases.len() >= 45, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let text = fs::read_to_string(&case).expect("a scenario");
        let overrides: Vec<_> =
            text.lines().filter_map(|l| l.strip_prefix("# --set ")).map(Override::new).collect();
        let Err(errors) = load(&name, &text, &overrides) else {
            wrong.push(format!("{name} is accepted"));
            continue;
        };
        for problem in errors.problems() {
            if problem.message().is_empty() || problem.help().is_empty() {
                wrong.push(format!("{name} has no message or no help: {}", problem.message()));
            }
        }
        let got = printed(&errors);
        let golden = case.with_extension("err");
        if update {
            fs::write(&golden, &got).expect("a golden file");
        } else if fs::read_to_string(&golden).unwrap_or_default() != got {
            wrong.push(format!("{name} now says:\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
