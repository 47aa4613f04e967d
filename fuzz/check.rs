//! Properties that hold for every text read as a scenario. Used by the fuzz target and by the test that replays the corpus.

use fairhop_sim::scenario::{MAX_COLLECTED, MAX_PROBLEMS, Override, load};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// Reads `text` with the overrides in its lines `# --set …`. Nothing panics; an accepted scenario has no findings; each error
/// has a message and a place inside its text, and can be printed.
pub(crate) fn check(text: &str) {
    let overrides: Vec<_> =
        text.lines().filter_map(|l| l.strip_prefix("# --set ")).map(Override::new).collect();
    let errors = match load("fuzz.toml", text, &overrides) {
        Ok(loaded) => {
            assert!(loaded.scenario.findings().is_empty());
            assert_eq!(loaded.scenario.flow_names().len(), loaded.scenario.traffic.len());
            assert!(loaded.warnings().len() < MAX_COLLECTED);
            return;
        }
        Err(errors) => errors,
    };
    assert!(!errors.problems().is_empty() && errors.problems().len() <= MAX_PROBLEMS);
    assert!(!errors.to_string().is_empty());
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    for problem in errors.problems() {
        assert!(!problem.message().is_empty());
        assert!(problem.source_text().get(problem.span()).is_some());
        let mut printed = String::new();
        handler.render_report(&mut printed, problem).expect("a report");
    }
}
