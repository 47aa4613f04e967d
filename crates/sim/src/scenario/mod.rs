//! Scenarios: reading, checking, and what they resolve to.
//!
//! [`load`] is pure: text and overrides go in, a checked [`Scenario`] or everything that is wrong with it comes out.
//! It has four steps: parse with places (`tree`), apply overrides, check keys, types and ranges against the JSON
//! Schema of the types (`schema`), check what the types cannot say (`check`). Whether links and routes exist is
//! for the builder of a world to find; it speaks in [`Finding`]s, which [`Loaded::locate`] gives their places.

mod change;
mod check;
mod check_change;
mod check_control;
mod check_wired;
mod control;
mod dscp;
mod edca;
mod error;
mod flows;
mod library;
mod placement;
mod queue;
mod schema;
mod suggest;
mod topology;
mod tree;
mod types;
mod wired;

use std::sync::Arc;

use miette::NamedSource;
use serde::Deserialize;

pub use change::Change;
pub(crate) use check::MIN_DISTANCE_M;
pub use control::{Control, ControlChange, ControlSetting, ShaperDiscipline, ShaperSetting};
pub use dscp::{Codepoint, DscpName};
pub use edca::{AccessCategory, DscpMapping, Edca, EdcaChoice};
pub use error::{Finding, Problem, ScenarioErrors};
pub use library::{Ready, library, nearest_ready_made, ready_made};
pub use placement::Linkage;
pub use queue::{HostOf, Queue, QueueLimit};
pub use schema::schema;
pub use topology::Endpoint;
pub use types::*;
pub use wired::{Host, HostName, LinkArq, LinkDirection, LinkLoss, SlottedChannel, Wired, WiredLink};

use error::Source;
use tree::{Node, Span, SyntaxError};

/// No more problems than this are told at once.
const MOST_PROBLEMS: usize = 20;

/// A change to a scenario by dotted path: `traffic.0.count=8`, `radio.capture=none`, `traffic.+={kind="bulk",…}`.
///
/// The value is TOML; what is not, and does not start like a list, table or quoted string, is taken as a string. Keys
/// and tables that are absent are made; `+` adds to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override(String);

impl Override {
    /// An override; nothing is checked before [`load`].
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The override as written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A checked scenario that knows where each of its values was written.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    tree: Node,
    sources: Vec<Source>,
}

impl Loaded {
    /// Findings with their places in the text; `None` where there are none.
    pub fn locate(&self, findings: Vec<Finding>) -> Option<ScenarioErrors> {
        let problems = located(findings, &self.tree, &self.sources);
        (!problems.is_empty()).then(|| errors(problems, &self.sources))
    }
}

/// Reads and checks a scenario.
///
/// `source_name` is what errors call the text: its file name.
///
/// # Errors
/// Everything that is wrong with it, as far as can be told at once: syntax first, then keys, types and ranges, then
/// what contradicts itself or cannot be simulated.
///
/// ```
/// use fairhop_sim::scenario::{Override, load, ready_made};
///
/// let mix = ready_made("k-mix").expect("a ready-made scenario");
/// let eight_calls = load("k-mix.toml", mix.text, &[Override::new("traffic.0.count=8")])?;
/// assert_eq!(eight_calls.scenario.traffic[0].count(), 8);
///
/// let errors = load("k-mix.toml", mix.text, &[Override::new("traffic.0.cuont=8")]).expect_err("a slip");
/// assert_eq!(errors.problems()[0].help(), "write `count`");
/// # Ok::<(), fairhop_sim::scenario::ScenarioErrors>(())
/// ```
pub fn load(source_name: &str, text: &str, overrides: &[Override]) -> Result<Loaded, ScenarioErrors> {
    let mut sources: Vec<Source> = vec![Arc::new(NamedSource::new(source_name, text.to_owned()))];
    sources.extend(overrides.iter().map(|o| Arc::new(NamedSource::new("--set", o.text().to_owned()))));

    let (mut tree, syntax) = tree::parse(text, 0);
    // A bare word is a syntax error that a reader can get over: `12 Mb/s` deserves a better message than "quote it".
    if syntax.iter().any(|e| !e.is_bare_word()) {
        return Err(errors(told_of_syntax(syntax, &sources[0]), &sources));
    }
    let mut bare = syntax;
    bare.sort_by_key(|e| e.span.start);
    tree::mend_bare_words(&mut tree, &bare, text);

    let mut problems = Vec::new();
    for (i, change) in overrides.iter().enumerate() {
        problems.extend(tree::apply(&mut tree, change, i + 1, &sources[i + 1]).err());
    }
    problems.extend(schema::check(&tree, &sources));
    for e in bare {
        if problems.len() >= MOST_PROBLEMS {
            break;
        }
        let known = |p: &Problem| {
            p.is_in(&sources[0]) && p.span().start <= e.span.start && e.span.end <= p.span().end
        };
        if !problems.iter().any(known) {
            problems.push(e.problem(&sources[0]));
        }
    }
    if !problems.is_empty() {
        return Err(errors(problems, &sources));
    }

    let scenario = Scenario::deserialize(schema::to_json(&tree)).map_err(|e| {
        let message = format!("the scenario cannot be read: {e}");
        errors(vec![Problem::new(&sources[0], 0..0, message, String::new(), String::new())], &sources)
    })?;
    let loaded = Loaded { scenario, tree, sources };
    match loaded.locate(loaded.scenario.findings()) {
        Some(errors) => Err(errors),
        None => Ok(loaded),
    }
}

fn located(findings: Vec<Finding>, tree: &Node, sources: &[Source]) -> Vec<Problem> {
    let locate = |f: Finding| {
        let Span { source, start, end } = tree.deepest(&f.path).span;
        Problem::new(&sources[source], start..end, f.message, f.label, f.help)
    };
    findings.into_iter().map(locate).collect()
}

/// The problems in the order of the text, those of the file first, and not too many.
fn errors(mut problems: Vec<Problem>, sources: &[Source]) -> ScenarioErrors {
    let order = |p: &Problem| (sources.iter().position(|s| p.is_in(s)), p.span().start);
    problems.sort_by_key(order);
    ScenarioErrors::limited(problems, MOST_PROBLEMS)
}

/// One syntax error a line, and none after one that derails the parser: the others would say nothing new.
fn told_of_syntax(mut syntax: Vec<SyntaxError>, source: &Source) -> Vec<Problem> {
    syntax.sort_by_key(|e| e.span.start);
    syntax.truncate(MOST_PROBLEMS);
    let derailed = syntax.iter().position(SyntaxError::derails).map_or(syntax.len(), |i| i + 1);
    syntax.truncate(derailed);
    // Where a line has both, the bare word follows from the other error.
    syntax.sort_by_key(SyntaxError::is_bare_word);
    let mut problems: Vec<_> = syntax.iter().map(|e| e.problem(source)).collect();
    problems.sort_by_key(|p| p.line_column().0);
    problems.dedup_by_key(|p| p.line_column().0);
    problems
}
