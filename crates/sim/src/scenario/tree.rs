//! A TOML document as a tree in which every key and value knows its place in the text, and overrides of it.

use toml::de::{DeTable, DeValue};

use super::Override;
use super::error::{Problem, Source};

/// A range of bytes in one of the sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// 0 is the file, the others are overrides.
    pub(super) source: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A value and where it stands. The span of a table with a header is its header.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

/// What TOML can say.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Boolean(bool),
    /// What exceeds 128 bits is clamped; no key accepts it either way.
    Integer(i128),
    Float(f64),
    String(String),
    Datetime,
    Array(Vec<Node>),
    /// In the order of the text.
    Table(Vec<Member>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) node: Node,
}

impl Node {
    /// The node at a path of keys and indices, or the deepest one on the way to it.
    pub(super) fn deepest(&self, path: &str) -> &Self {
        let mut node = self;
        for segment in path.split('.') {
            let next = match &node.value {
                Value::Table(members) => members.iter().find(|m| m.key == segment).map(|m| &m.node),
                Value::Array(items) => segment.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// A syntax error.
pub(super) struct SyntaxError {
    pub(super) span: Span,
    pub(super) message: String,
}

/// What the parser calls a value that is a word without quotes.
const BARE_WORDS: [&str; 4] = [
    "string values must be quoted",
    "invalid boolean",
    "invalid float, expected `nan`",
    "invalid float, expected `inf`",
];

const LINES: &str = "a line is `key = value`, `[table]` or `[[table]]`; a comment starts with `#`";

/// The parser's words for what it met, what a message says of it, and the mend.
const SYNTAX: [(&str, &str, &str); 17] = [
    ("key with no value", "a key has no value", LINES),
    ("unquoted keys cannot be empty", "a key is missing", LINES),
    ("invalid unquoted key", "this cannot be part of a key", "keys are made of letters, digits, `-` and `_`"),
    ("string values must be quoted", "a value is missing", "write a value after the `=`"),
    ("unclosed array table", "the header is not closed", "close it with `]]`"),
    ("unclosed table", "the header is not closed", "close it with `]`"),
    ("unclosed inline table", "the table is not closed", "close it with `}`"),
    ("unclosed array", "the list is not closed", "close it with `]`"),
    (
        "missing comma",
        "a comma or a closing bracket is missing",
        "put commas between the items and a bracket after the last",
    ),
    ("invalid basic string", "the string is not closed", "close it with `\"` on the same line"),
    ("invalid literal string", "the string is not closed", "close it with `'` on the same line"),
    (
        "missing escaped value",
        "`\\` has a meaning of its own in a string",
        "write `\\\\`, or use single quotes",
    ),
    (
        "unexpected key or value",
        "the line goes on after its end",
        "write one `key = value` a line, and numbers in one piece",
    ),
    ("extra `=`", "one `=` too many", "take it out"),
    ("unexpected leading zero", "a number starts with 0", "take the zeros in front away"),
    ("invalid mantissa", "a number starts with its point", "write a digit before the point, as in 0.5"),
    ("invalid fraction", "a number ends with its point", "write a digit after the point, as in 5.0"),
];

impl SyntaxError {
    /// Whether the parser took a bare word for a value and could go on.
    pub(super) fn is_bare_word(&self) -> bool {
        self.span.start < self.span.end && BARE_WORDS.iter().any(|known| self.message.starts_with(known))
    }

    /// Whether what follows is read with a wrong idea of where a value ends, so that its errors mean nothing.
    pub(super) fn derails(&self) -> bool {
        ["missing comma", "unclosed", "invalid multi-line"]
            .iter()
            .any(|known| self.message.starts_with(known))
    }

    pub(super) fn problem(&self, source: &Source) -> Problem {
        let Span { start, end, .. } = self.span;
        let text = source.inner().get(start..end).unwrap_or_default();
        let word = shown(text);
        let (message, label, help) = if self.is_bare_word() {
            let help = if text.starts_with(|c: char| c.is_ascii_digit()) {
                format!("write the number alone, or \"{word}\" in quotes")
            } else {
                format!("write \"{word}\", in quotes")
            };
            (format!("`{word}` is not a value"), "words need quotes", help)
        } else if self.message == "duplicate key" {
            (format!("`{word}` is there twice"), "the second time", "keep one of them".into())
        } else if let Some((_, message, help)) =
            SYNTAX.iter().find(|(known, ..)| self.message.starts_with(known))
        {
            ((*message).to_owned(), "here", (*help).to_owned())
        } else {
            (format!("not TOML: {}", self.message), "here", LINES.to_owned())
        };
        Problem::new(source, start..end, message, label.to_owned(), help)
    }
}

/// Makes each value at a bare word the string that was written, whatever the parser took it for. `words` are in the
/// order of the text.
pub(super) fn mend_bare_words(node: &mut Node, words: &[SyntaxError], text: &str) {
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| mend_bare_words(item, words, text)),
        Value::Table(members) => members.iter_mut().for_each(|m| mend_bare_words(&mut m.node, words, text)),
        value => {
            if let Ok(at) = words.binary_search_by_key(&node.span.start, |w| w.span.start) {
                *value = Value::String(
                    text.get(node.span.start..words[at].span.end).unwrap_or_default().to_owned(),
                );
            }
        }
    }
}

/// Parses the text of source number `source`, going on after errors.
pub(super) fn parse(text: &str, source: usize) -> (Node, Vec<SyntaxError>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let errors = errors
        .iter()
        .map(|e| {
            let span = e.span().unwrap_or(text.len()..text.len());
            SyntaxError {
                span: Span { source, start: span.start, end: span.end },
                message: e.message().to_owned(),
            }
        })
        .collect();
    let root = Span { source, start: 0, end: 0 };
    (Node { span: root, value: table_of(table.into_inner(), source) }, errors)
}

fn table_of(table: DeTable<'_>, source: usize) -> Value {
    let mut members: Vec<Member> = table
        .into_iter()
        .map(|(key, value)| {
            let at = key.span();
            Member {
                key: key.into_inner().into_owned(),
                key_span: Span { source, start: at.start, end: at.end },
                node: node_of(value, source),
            }
        })
        .collect();
    members.sort_by_key(|m| m.key_span.start);
    Value::Table(members)
}

fn node_of(value: toml::Spanned<DeValue<'_>>, source: usize) -> Node {
    let at = value.span();
    let value = match value.into_inner() {
        DeValue::String(s) => Value::String(s.into_owned()),
        DeValue::Integer(i) => {
            let clamped = if i.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Integer(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or(clamped))
        }
        DeValue::Float(f) => Value::Float(f.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Value::Boolean(b),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => Value::Array(items.into_iter().map(|item| node_of(item, source)).collect()),
        DeValue::Table(table) => table_of(table, source),
    };
    Node { span: Span { source, start: at.start, end: at.end }, value }
}

/// A word of an override's path and where it stands.
struct Segment<'t> {
    text: &'t str,
    span: Span,
}

/// Sets what an override says; `source` is its number and `origin` its text.
pub(super) fn apply(
    root: &mut Node,
    change: &Override,
    source: usize,
    origin: &Source,
) -> Result<(), Problem> {
    let text = change.text();
    let problem = |span: Span, message: String, label: &str, help: String| {
        Problem::new(origin, span.start..span.end, message, label.to_owned(), help)
    };
    let whole = Span { source, start: 0, end: text.len() };
    let Some(equals) = text.find('=') else {
        return Err(problem(
            whole,
            format!("`{}` sets nothing", shown(text)),
            "no `=` here",
            "write the path of a key, `=` and a value, as in traffic.0.count=8".into(),
        ));
    };
    let segments = segments_of(&text[..equals], source);
    if let Some(empty) = segments.iter().find(|s| s.text.is_empty()) {
        return Err(problem(
            empty.span,
            format!("`{}` is not the path of a key", shown(&text[..equals])),
            "a word is missing here",
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
        // What a path goes through and does not find is made on the way.
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
                                    "there is no `{}.{}`: the scenario has no `{path}`",
                                    path,
                                    segments[i + 1].text
                                ),
                                "nothing has this number",
                                format!("`{path}=[…]` sets all of it; `{path}.+=…` adds to it"),
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
                        "nothing has this number",
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
                    format!("there is no `{path}`: `{parent}` is a single value and has nothing inside"),
                    "leads nowhere",
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

/// The value after the `=`: TOML, or a bare word that stands for a string (`none`, `802.11b`).
fn value_of(text: &str, from: usize, source: usize) -> Result<Node, SyntaxError> {
    let raw = &text[from..];
    let trimmed = raw.trim();
    let start = from + (raw.len() - raw.trim_start().len());
    let span = Span { source, start, end: start + trimmed.len() };
    if trimmed.is_empty() {
        return Err(SyntaxError { span, message: "there is none".into() });
    }
    match DeValue::parse(trimmed) {
        Ok(value) => {
            let mut node = node_of(value, source);
            shift(&mut node, start);
            Ok(node)
        }
        Err(_) if !trimmed.starts_with(['[', '{', '"', '\'']) && !trimmed.contains('\n') => {
            Ok(Node { span, value: Value::String(trimmed.to_owned()) })
        }
        Err(e) => {
            let at = e.span().unwrap_or(0..trimmed.len());
            Err(SyntaxError {
                span: Span { source, start: start + at.start, end: start + at.end },
                message: e.message().to_owned(),
            })
        }
    }
}

fn shift(node: &mut Node, by: usize) {
    node.span.start += by;
    node.span.end += by;
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Table(members) => {
            for member in members {
                member.key_span.start += by;
                member.key_span.end += by;
                shift(&mut member.node, by);
            }
        }
        _ => {}
    }
}

/// Text of the user for use in a message: one line, and not too long.
pub(super) fn shown(text: &str) -> String {
    const LIMIT: usize = 60;
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == LIMIT {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
