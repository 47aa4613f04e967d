//! Phrases of messages.

use crate::number::Number;
use crate::suggest::tidy;
use crate::tree::{Value, shown};

/// The words separated by commas, with `last` before the last one.
pub(super) fn listed(words: impl IntoIterator<Item = String>, last: &str) -> String {
    let words: Vec<_> = words.into_iter().collect();
    match &words[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

pub(super) fn quoted(words: &[&str], last: &str) -> String {
    listed(words.iter().map(|w| format!("\"{w}\"")), last)
}

pub(super) fn ticked<'k>(keys: impl IntoIterator<Item = &'k str>, last: &str) -> String {
    listed(keys.into_iter().map(|k| format!("`{k}`")), last)
}

/// A value as written in messages.
pub(super) fn value_name(value: &Value) -> String {
    match value {
        Value::Boolean(b) => b.to_string(),
        Value::Integer(i) => i.to_string(),
        // With its point or exponent: `2.0` is not a whole number.
        Value::Float(f) => format!("{f:?}"),
        Value::String(s) => format!("the string \"{}\"", shown(s)),
        Value::Datetime => "a date or time".into(),
        Value::Array(_) => "a list".into(),
        Value::Table(_) => "a table".into(),
    }
}

pub(super) fn last_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The value at a path as written in messages: an entry of a list by its whole path, other values by their keys.
pub(super) fn thing(path: &str) -> String {
    let key = last_of(path);
    let name = if key.parse::<usize>().is_ok() { path } else { key };
    format!("`{}`", shown(name))
}

/// The table at a path as written in messages; `document` is what the whole is called.
pub(super) fn table_name(document: &str, path: &str) -> String {
    match path {
        "" => format!("the {document}"),
        _ if path.contains('.') => format!("`{path}`"),
        _ => format!("[{path}]"),
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// A number without rounding noise.
pub(super) fn plain(value: f64) -> String {
    Number(tidy(value)).to_string()
}
