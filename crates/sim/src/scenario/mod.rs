//! Scenarios: reading and checking them, and what they resolve to.
//!
//! [`load`] is pure: text and overrides go in, a checked [`Scenario`] or its errors come out. It has four steps: parse with
//! positions (`tree`), apply overrides (`overrides`), check keys, types and ranges against the JSON Schema of the types
//! (`schema`), check what the types cannot express (`check`). Whether links and routes exist is checked by the builder of
//! the network; it returns [`Finding`]s, which [`Loaded::locate`] places in the text.
//!
//! Radio, MAC, queues, wired links and routing own their parameter types, which are re-exported here as parts of a
//! scenario. None of these modules depends on this one.
//!
//! # Bounds
//! Texts larger than [`MAX_TEXT_BYTES`] are refused. Parsing takes time and memory in proportion to the text. At most
//! [`MAX_PROBLEMS`] problems are reported, and no suggestions are searched after the first [`MAX_COLLECTED`].

mod attach;
mod attachments;
mod change;
mod check;
mod control;
mod dscp;
mod error;
mod excerpt;
mod library;
mod mobility;
mod number;
mod overrides;
mod place;
mod placement;
mod resolve;
mod schema;
mod sections;
mod suggest;
mod topology;
mod traffic;
mod tree;
mod wired;

use std::sync::Arc;

use miette::NamedSource;
use serde::Deserialize;

pub use attach::{Attach, AttachKind, Attachment};
pub use change::Change;
pub(crate) use check::MIN_DISTANCE_M;
pub use control::{Control, ControlChange, ControlSetting, ShaperDiscipline, ShaperSetting};
pub use dscp::{Codepoint, DscpName};
pub use error::{Finding, Problem, ScenarioErrors};
pub use library::{Ready, library, nearest_ready_made, ready_made};
pub use mobility::{Initial, Mobility, MobilityKind};
pub use overrides::Override;
pub use place::{Endpoint, HostName, NamedPlace, Place};
pub use placement::Linkage;
pub use schema::schema;
pub use sections::{Record, Scenario, Voice};
pub use topology::{Gateways, NodeAt, Topology, Waypoint};
pub use traffic::{
    Aimd, Bulk, Burst, Call, Cbr, Common, Quic, Real, Request, SizeLaw, TcpHyStart, TcpProfile, TcpRecovery,
    TcpVariant, TimeLaw, Traffic, Video, Web,
};
pub use wired::{Host, Internet, LinkDirection, LinkLoss, SlottedChannel, Wired, WiredLink};

pub use crate::mac::{AccessCategory, DscpMapping, Edca, EdcaChoice, Mac};
pub use crate::queue::{Discipline, HostOf, QueueLimit};
pub use crate::radio::{Capture, LinkRate, Propagation, Radio, RateReach, Reception};
pub use crate::routing::{AodvSettings, Hello, Metric, OnBreak, Protocol, Routing};
pub use crate::wired::LinkArq;

use error::Source;
use tree::{Node, Span, SyntaxError};

/// Maximum number of problems that are reported.
pub const MAX_PROBLEMS: usize = 20;
/// Number of problems of keys and values that are collected, with suggestions; later ones are only counted. It is larger
/// than [`MAX_PROBLEMS`] since problems are not found in the order of the text.
pub const MAX_COLLECTED: usize = 100;
/// Maximum size of a scenario's text in bytes: enough for 100,000 explicit nodes, or a loss matrix of
/// 1000 × 1000.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// A checked scenario with the position of each of its values in the text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    tree: Node,
    sources: Vec<Source>,
}

impl Loaded {
    /// Findings as errors with their places in the text; `None` if there are none.
    pub fn locate(&self, findings: Vec<Finding>) -> Option<ScenarioErrors> {
        let problems = located(findings, &self.tree, &self.sources);
        (!problems.is_empty()).then(|| errors(problems, 0, &self.sources))
    }

    /// The warnings of [`Scenario::warnings`] with their places in the text.
    pub fn warnings(&self) -> Vec<Problem> {
        let problems = located(self.scenario.warnings(), &self.tree, &self.sources);
        problems.into_iter().map(Problem::into_warning).collect()
    }
}

/// Reads and checks a scenario.
///
/// `source_name` is the name of the text in errors: its file name.
///
/// # Errors
/// The errors of the first step that finds any: the size of the text, its syntax, its keys, types and ranges, or
/// contradictions and what cannot be simulated.
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
    load_with(source_name, text, overrides, |_| {
        Err("files are not read here: give its text as `movements`".to_owned())
    })
}

/// The same for a scenario that may name a file (`mobility.file`), whose text `read` gives, or the reason why it cannot.
///
/// # Errors
/// Those of [`load`], or a file that cannot be read.
pub fn load_with(
    source_name: &str,
    text: &str,
    overrides: &[Override],
    read: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Loaded, ScenarioErrors> {
    let size = text.len() + overrides.iter().map(|o| o.text().len()).sum::<usize>();
    if size > MAX_TEXT_BYTES {
        return Err(too_large(source_name, size));
    }
    let mut sources: Vec<Source> = vec![Arc::new(NamedSource::new(source_name, text.to_owned()))];
    sources.extend(overrides.iter().map(|o| Arc::new(NamedSource::new("--set", o.text().to_owned()))));

    let (mut tree, syntax) = tree::parse(text, 0);
    // After a bare word the parser can continue, and `12 Mb/s` deserves a better message than "quote it".
    if syntax.iter().any(|e| !e.is_bare_word()) {
        return Err(errors(syntax_problems(syntax, &sources[0]), 0, &sources));
    }
    let mut bare = syntax;
    bare.sort_by_key(|e| e.span.start);
    tree::quote_bare_words(&mut tree, &bare, text);

    let mut problems = Vec::new();
    for (i, change) in overrides.iter().enumerate() {
        problems.extend(overrides::apply(&mut tree, change, i + 1, &sources[i + 1]).err());
    }
    let (found, uncollected) = schema::check(&tree, &sources, MAX_COLLECTED);
    problems.extend(found);
    for e in bare {
        if problems.len() >= MAX_PROBLEMS {
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
        return Err(errors(problems, uncollected, &sources));
    }

    let scenario = Scenario::deserialize(schema::to_json(&tree)).map_err(|e| {
        let message = format!("the scenario cannot be read: {e}");
        errors(vec![Problem::new(&sources[0], 0..0, message, String::new(), String::new())], 0, &sources)
    })?;
    let mut loaded = Loaded { scenario, tree, sources };
    if let Some(mobility) = &mut loaded.scenario.mobility
        && let (Some(file), None) = (&mobility.file, &mobility.movements)
    {
        match read(file) {
            Ok(text) => mobility.movements = Some(text),
            Err(reason) => {
                let finding = Finding::new(
                    "mobility.file",
                    format!("cannot read {file}: {reason}"),
                    "not read",
                    "check the path, which is relative to the scenario's folder",
                );
                let problems = located(vec![finding], &loaded.tree, &loaded.sources);
                return Err(errors(problems, 0, &loaded.sources));
            }
        }
    }
    let (findings, uncollected) = loaded.scenario.counted_findings();
    let problems = located(findings, &loaded.tree, &loaded.sources);
    if problems.is_empty() { Ok(loaded) } else { Err(errors(problems, uncollected, &loaded.sources)) }
}

/// The error of a text over the limit. It does not keep the text.
fn too_large(source_name: &str, bytes: usize) -> ScenarioErrors {
    let source: Source = Arc::new(NamedSource::new(source_name, String::new()));
    let message = format!("the scenario has {bytes} bytes; at most {MAX_TEXT_BYTES} can be read");
    let help = "remove comments, or describe the nodes by a grid, string or random topology".to_owned();
    errors(vec![Problem::new(&source, 0..0, message, String::new(), help)], 0, &[source])
}

fn located(findings: Vec<Finding>, tree: &Node, sources: &[Source]) -> Vec<Problem> {
    let locate = |f: Finding| {
        let Span { source, start, end } = tree.deepest(&f.path).span;
        Problem::new(&sources[source], start..end, f.message, f.label, f.help)
    };
    findings.into_iter().map(locate).collect()
}

/// The first problems in the order of the text, those of the file before those of overrides. `uncollected` more are only
/// counted.
fn errors(mut problems: Vec<Problem>, uncollected: usize, sources: &[Source]) -> ScenarioErrors {
    let order = |p: &Problem| (sources.iter().position(|s| p.is_in(s)), p.span().start);
    problems.sort_by_key(order);
    ScenarioErrors::limited(problems, MAX_PROBLEMS, uncollected)
}

/// One syntax error per line, and none after an error that derails the parser.
fn syntax_problems(mut syntax: Vec<SyntaxError>, source: &Source) -> Vec<Problem> {
    syntax.sort_by_key(|e| e.span.start);
    syntax.truncate(MAX_PROBLEMS);
    let derailed = syntax.iter().position(SyntaxError::derails).map_or(syntax.len(), |i| i + 1);
    syntax.truncate(derailed);
    // If a line has both, the bare word is a consequence of the other error.
    syntax.sort_by_key(SyntaxError::is_bare_word);
    let mut problems: Vec<_> = syntax.iter().map(|e| e.problem(source)).collect();
    problems.sort_by_key(|p| p.line_column().0);
    problems.dedup_by_key(|p| p.line_column().0);
    problems
}
