//! A TOML document as a tree in which every key and value has its position in the text.

use toml::de::{DeTable, DeValue};

use crate::error::{Problem, Source};

/// A range of bytes in one of the sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// 0 is the file, the others are overrides.
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A value and its position. The span of a table with a header is the header.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    /// Clamped to 128 bits; no key accepts values near these limits.
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
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

impl Node {
    /// The node at a path of keys and indices, or the deepest one on the way to it.
    pub(crate) fn deepest(&self, path: &str) -> &Self {
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
pub(crate) struct SyntaxError {
    pub(crate) span: Span,
    pub(crate) message: String,
}

/// Messages of the parser about a value that is a word without quotes.
const BARE_WORDS: [&str; 4] = [
    "string values must be quoted",
    "invalid boolean",
    "invalid float, expected `nan`",
    "invalid float, expected `inf`",
];

const LINES: &str = "a line is `key = value`, `[table]` or `[[table]]`; a comment starts with `#`";

/// The parser's message, the message that users get, and the help.
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
        "`\\` starts an escape sequence in a string",
        "write `\\\\`, or use single quotes",
    ),
    (
        "unexpected key or value",
        "unexpected text after the value",
        "write one `key = value` per line, and numbers without spaces",
    ),
    ("extra `=`", "one `=` too many", "remove it"),
    ("unexpected leading zero", "a number starts with 0", "remove the leading zeros"),
    ("invalid mantissa", "a number starts with a decimal point", "write a digit before the point, as in 0.5"),
    ("invalid fraction", "a number ends with a decimal point", "write a digit after the point, as in 5.0"),
];

impl SyntaxError {
    /// Whether the value is a bare word, after which the parser could continue.
    pub(crate) fn is_bare_word(&self) -> bool {
        self.span.start < self.span.end && BARE_WORDS.iter().any(|known| self.message.starts_with(known))
    }

    /// Whether the parser has lost track of where values end, so that later errors are meaningless.
    pub(crate) fn derails(&self) -> bool {
        ["missing comma", "unclosed", "invalid multi-line"]
            .iter()
            .any(|known| self.message.starts_with(known))
    }

    pub(crate) fn problem(&self, source: &Source) -> Problem {
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
            (format!("`{word}` is set twice"), "second time", "keep one of them".into())
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

/// Replaces each value at a bare word by the string that was written. `words` are in the order of the text.
pub(crate) fn quote_bare_words(node: &mut Node, words: &[SyntaxError], text: &str) {
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| quote_bare_words(item, words, text)),
        Value::Table(members) => members.iter_mut().for_each(|m| quote_bare_words(&mut m.node, words, text)),
        value => {
            if let Ok(at) = words.binary_search_by_key(&node.span.start, |w| w.span.start) {
                *value = Value::String(
                    text.get(node.span.start..words[at].span.end).unwrap_or_default().to_owned(),
                );
            }
        }
    }
}

/// Parses the text of source number `source`; continues after errors.
pub(crate) fn parse(text: &str, source: usize) -> (Node, Vec<SyntaxError>) {
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

/// The value after the `=` of an override: TOML, or a bare word as a string (`none`, `802.11b`).
pub(crate) fn value_of(text: &str, from: usize, source: usize) -> Result<Node, SyntaxError> {
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

/// Text of the user for a message: on one line, truncated.
pub(crate) fn shown(text: &str) -> String {
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
