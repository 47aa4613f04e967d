//! A document: parsed, changed by overrides, checked against its form.

use std::sync::Arc;

use miette::NamedSource;
use serde::de::DeserializeOwned;

use crate::error::{Errors, Finding, Problem, Source};
use crate::overrides::{self, Override};
use crate::schema::{self, Form};
use crate::tree::{self, Node, Span, SyntaxError};

/// Maximum number of problems that are reported.
pub const MAX_PROBLEMS: usize = 20;
/// Number of problems of keys and values that are collected, with suggestions; later ones are only counted. It is larger
/// than [`MAX_PROBLEMS`] since problems are not found in the order of the text.
pub const MAX_COLLECTED: usize = 100;
/// Maximum size of a document's text in bytes: enough for a scenario with 100,000 explicit nodes, or a loss matrix of
/// 1000 × 1000.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// A document whose keys, types and ranges are those of its form, with the position of each value in the text.
#[derive(Clone, Debug)]
pub struct Document {
    name: &'static str,
    tree: Node,
    sources: Vec<Source>,
}

impl Document {
    /// Reads a text and its overrides. `source_name` is the name of the text in errors: its file name.
    ///
    /// # Errors
    /// Those of the first step that finds any: the size of the text, its syntax, its keys, types and ranges.
    pub fn read(source_name: &str, text: &str, overrides: &[Override], form: &Form) -> Result<Self, Errors> {
        let size = text.len() + overrides.iter().map(|o| o.text().len()).sum::<usize>();
        if size > MAX_TEXT_BYTES {
            return Err(too_large(source_name, size, form));
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
            problems.extend(overrides::apply(&mut tree, change, i + 1, &sources[i + 1], form.name).err());
        }
        let (found, uncollected) = schema::check(&tree, form, &sources, MAX_COLLECTED);
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
        Ok(Self { name: form.name, tree, sources })
    }

    /// The document as its type.
    ///
    /// # Errors
    /// The type refuses what its schema accepts.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, Errors> {
        T::deserialize(schema::to_json(&self.tree)).map_err(|e| {
            let message = format!("the {} cannot be read: {e}", self.name);
            let problem = Problem::new(&self.sources[0], 0..0, message, String::new(), String::new());
            errors(vec![problem], 0, &self.sources)
        })
    }

    /// Findings as errors with their places in the text, and `uncollected` more; `None` if there are none.
    pub fn locate(&self, findings: Vec<Finding>, uncollected: usize) -> Option<Errors> {
        let problems = self.problems(findings);
        (!problems.is_empty()).then(|| errors(problems, uncollected, &self.sources))
    }

    /// Findings as warnings with their places in the text.
    pub fn warnings(&self, findings: Vec<Finding>) -> Vec<Problem> {
        self.problems(findings).into_iter().map(Problem::into_warning).collect()
    }

    fn problems(&self, findings: Vec<Finding>) -> Vec<Problem> {
        let locate = |f: Finding| {
            let Span { source, start, end } = self.tree.deepest(&f.path).span;
            Problem::new(&self.sources[source], start..end, f.message, f.label, f.help)
        };
        findings.into_iter().map(locate).collect()
    }
}

/// The error of a text over the limit. It does not keep the text.
fn too_large(source_name: &str, bytes: usize, form: &Form) -> Errors {
    let source: Source = Arc::new(NamedSource::new(source_name, String::new()));
    let message = format!("the {} has {bytes} bytes; at most {MAX_TEXT_BYTES} can be read", form.name);
    let problem = Problem::new(&source, 0..0, message, String::new(), form.if_too_large.to_owned());
    errors(vec![problem], 0, &[source])
}

/// The first problems in the order of the text, those of the file before those of overrides. `uncollected` more are only
/// counted.
fn errors(mut problems: Vec<Problem>, uncollected: usize, sources: &[Source]) -> Errors {
    let order = |p: &Problem| (sources.iter().position(|s| p.is_in(s)), p.span().start);
    problems.sort_by_key(order);
    Errors::limited(problems, MAX_PROBLEMS, uncollected)
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    /// An example.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Example {
        /// A name.
        name: String,
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one_and_what_the_document_is_called() {
        let form = Form::of::<Example>("example", "");
        let errors = Document::read("a.toml", "nmae = \"x\"\n", &[], &form).expect_err("a slip");
        assert_eq!(errors.to_string(), "a.toml:1:1: unknown key `nmae` in the example\n  help: write `name`");
        let document = Document::read("a.toml", "name = \"x\"\n", &[], &form).expect("an example");
        assert_eq!(document.value::<Example>().expect("an example").name, "x");
    }

    /// Suggestions for one unknown key take time in proportion to the keys of the table: only some are searched.
    #[test]
    fn only_the_first_of_many_unknown_keys_get_a_suggestion() {
        let mut text = "name = \"many\"\n".to_owned();
        for key in 0..25_000 {
            let _ = writeln!(text, "key_{key} = 1");
        }
        let form = Form::of::<Example>("example", "");
        let errors = Document::read("many.toml", &text, &[], &form).expect_err("unknown keys");
        assert_eq!((errors.problems().len(), errors.untold()), (MAX_PROBLEMS, 25_000 - MAX_PROBLEMS));
    }
}
