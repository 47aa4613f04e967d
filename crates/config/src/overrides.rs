//! Overrides: changes to a document by dotted path, as in `--set`.

use crate::error::{Problem, Source};
use crate::tree::{Member, Node, Span, Value, shown, value_of};

/// A change to a document by dotted path: `traffic.0.count=8`, `radio.capture=none`, `traffic.+={kind="bulk",…}`.
///
/// The value is TOML. A value that is not TOML and does not start like a list, table or quoted string is taken as a string.
/// Missing keys and tables are created; `+` appends to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override(String);

impl Override {
    /// An override. It is not checked before [`Document::read`](crate::Document::read).
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The override as written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A segment of an override's path and its position.
struct Segment<'t> {
    text: &'t str,
    span: Span,
}

/// Applies an override to the tree; `source` is its number, `origin` its text, and `document` what the whole is called.
///
/// # Errors
/// The path leads nowhere, or the value is not TOML.
pub(crate) fn apply(
    root: &mut Node,
    change: &Override,
    source: usize,
    origin: &Source,
    document: &str,
) -> Result<(), Problem> {
    let text = change.text();
    let problem = |span: Span, message: String, label: &str, help: String| {
        Problem::new(origin, span.start..span.end, message, label.to_owned(), help)
    };
    let whole = Span { source, start: 0, end: text.len() };
    let Some(equals) = text.find('=') else {
        return Err(problem(
            whole,
            format!("`{}` has no `=`", shown(text)),
            "no `=`",
            "write the path of a key, `=` and a value, as in traffic.0.count=8".into(),
        ));
    };
    let segments = segments_of(&text[..equals], source);
    if let Some(empty) = segments.iter().find(|s| s.text.is_empty()) {
        return Err(problem(
            empty.span,
            format!("`{}` is not the path of a key", shown(&text[..equals])),
            "a key is missing here",
            "write keys and numbers with dots between them, as in traffic.0.count=8".into(),
        ));
    }
    let value = value_of(text, equals + 1, source).map_err(|e| {
        problem(
            e.span,
            format!("the value of `{}` cannot be read: {}", shown(text[..equals].trim()), e.message),
            "not a TOML value",
            "write a number, true or false, a word, or a TOML list or table, as in routing.paths=[[0,1,2]]"
                .into(),
        )
    })?;

    let mut node = root;
    let mut value = Some(value);
    for (i, segment) in segments.iter().enumerate() {
        let here = Span { end: segment.span.end, ..whole };
        let path = shown(text[..segment.span.end].trim());
        let parent = if i == 0 { String::new() } else { shown(text[..segments[i - 1].span.end].trim()) };
        let last = i + 1 == segments.len();
        // Missing tables and lists on the path are created.
        let mut fill = || match value.take_if(|_| last) {
            Some(value) => value,
            None if segments.get(i + 1).is_some_and(|s| s.text == "+") => {
                Node { span: here, value: Value::Array(Vec::new()) }
            }
            None => Node { span: here, value: Value::Table(Vec::new()) },
        };
        node = match &mut node.value {
            Value::Table(members) => {
                let at = match members.iter().position(|m| m.key == segment.text) {
                    Some(at) => {
                        if last {
                            members[at].key_span = segment.span;
                            members[at].node = fill();
                        }
                        at
                    }
                    None => {
                        if segments.get(i + 1).is_some_and(|s| s.text.parse::<usize>().is_ok()) {
                            return Err(problem(
                                segments[i + 1].span,
                                format!(
                                    "there is no `{path}.{}`: the {document} has no `{path}`",
                                    segments[i + 1].text
                                ),
                                "no such entry",
                                format!("`{path}=[…]` sets the whole list; `{path}.+=…` adds an entry"),
                            ));
                        }
                        members.push(Member {
                            key: segment.text.into(),
                            key_span: segment.span,
                            node: fill(),
                        });
                        members.len() - 1
                    }
                };
                &mut members[at].node
            }
            Value::Array(items) => {
                let adds = segment.text == "+";
                if adds {
                    items.push(fill());
                }
                let count = items.len();
                let at = if adds {
                    Some(count - 1)
                } else {
                    segment.text.parse().ok().filter(|&i: &usize| i < count)
                };
                let Some(at) = at else {
                    let have = match count {
                        0 => format!("`{parent}` is empty"),
                        1 => format!("`{parent}` has one entry, number 0"),
                        _ => format!("`{parent}` has {count} entries, numbered 0 to {}", count - 1),
                    };
                    return Err(problem(
                        segment.span,
                        format!("there is no `{path}`: {have}"),
                        "no such entry",
                        format!("`{parent}.+=…` adds an entry"),
                    ));
                };
                if last && !adds {
                    items[at] = fill();
                }
                &mut items[at]
            }
            Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) | Value::Datetime => {
                return Err(problem(
                    segment.span,
                    format!("there is no `{path}`: `{parent}` is a single value"),
                    "no such key",
                    format!("set `{parent}` itself, as in {parent}=…"),
                ));
            }
        };
    }
    Ok(())
}

fn segments_of(path: &str, source: usize) -> Vec<Segment<'_>> {
    let mut start = 0;
    path.split('.')
        .map(|raw| {
            let text = raw.trim();
            let from = start + (raw.len() - raw.trim_start().len());
            start += raw.len() + 1;
            Segment { text, span: Span { source, start: from, end: from + text.len() } }
        })
        .collect()
}
