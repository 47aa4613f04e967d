//! Reads arbitrary text as a scenario with overrides: lines `# --set …` in it.
//!
//! It must not panic, each error must say what is wrong at a place in the text, and the errors must print.
#![no_main]

use fairhop_sim::scenario::{Override, load};
use libfuzzer_sys::fuzz_target;
use miette::{GraphicalReportHandler, GraphicalTheme};

fuzz_target!(|text: &str| {
    let overrides: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("# --set ")).map(Override::new).collect();
    match load("fuzz.toml", text, &overrides) {
        Ok(loaded) => {
            let scenario = &loaded.scenario;
            assert!(scenario.findings().is_empty());
            assert_eq!(scenario.flow_names().len(), scenario.traffic.len());
        }
        Err(errors) => {
            assert!(!errors.problems().is_empty());
            assert!(!errors.to_string().is_empty());
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
            for problem in errors.problems() {
                assert!(!problem.message().is_empty());
                assert!(problem.source_text().get(problem.span()).is_some());
                let mut printed = String::new();
                handler.render_report(&mut printed, problem).expect("a report");
            }
        }
    }
});
