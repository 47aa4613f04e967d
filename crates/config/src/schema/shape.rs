//! The shapes of values in a schema without references.

use serde_json::Value as Json;

use super::words::{last_of, quoted, thing};

/// A word or key with its schema.
pub(super) type Named = (&'static str, &'static Json);

/// What a schema accepts.
pub(super) enum Shape {
    /// One of some words.
    Choice(Vec<&'static str>),
    /// A table whose keys depend on the word under `tag`.
    Tagged {
        tag: &'static str,
        variants: Vec<Named>,
    },
    /// Any of some shapes of different types.
    Mixed(Vec<&'static Json>),
    Table,
    List(&'static Json),
    Number,
    Integer,
    Text,
    Boolean,
}

pub(super) fn description(property: &'static Json) -> &'static str {
    property["description"].as_str().unwrap_or_default()
}

pub(super) fn properties(schema: &'static Json) -> impl Iterator<Item = Named> {
    schema["properties"].as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

pub(super) fn keys(schema: &'static Json) -> impl Iterator<Item = &'static str> {
    properties(schema).map(|(key, _)| key)
}

pub(super) fn required(schema: &'static Json) -> impl Iterator<Item = &'static str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// The key whose value is constant, and that value.
pub(super) fn tag_of(variant: &'static Json) -> Option<(&'static str, &'static str)> {
    properties(variant).find_map(|(key, value)| value["const"].as_str().map(|word| (key, word)))
}

pub(super) fn shape(schema: &'static Json) -> Shape {
    if let Some(options) = schema["oneOf"].as_array() {
        let words: Vec<_> = options.iter().filter_map(|o| o["const"].as_str()).collect();
        if words.len() == options.len() {
            return Shape::Choice(words);
        }
        let tags: Vec<_> =
            options.iter().filter_map(|o| tag_of(o).map(|(tag, word)| (tag, word, o))).collect();
        if let Some(&(tag, ..)) = tags.first() {
            return Shape::Tagged { tag, variants: tags.into_iter().map(|(_, word, o)| (word, o)).collect() };
        }
    }
    if let Some(options) = schema["anyOf"].as_array() {
        return Shape::Mixed(options.iter().collect());
    }
    if let Some(word) = schema["const"].as_str() {
        return Shape::Choice(vec![word]);
    }
    match schema["type"].as_str() {
        Some("number") => Shape::Number,
        Some("integer") => Shape::Integer,
        Some("string") => Shape::Text,
        Some("boolean") => Shape::Boolean,
        Some("array") => Shape::List(&schema["items"]),
        _ => Shape::Table,
    }
}

impl Shape {
    /// The shape as written in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Choice(words) => format!("one of {}", quoted(words, "and")),
            Self::Tagged { .. } | Self::Table => "a table".into(),
            Self::Mixed(options) => {
                let any_text = options.iter().any(|o| matches!(shape(o), Self::Text));
                // Words are included in "a string".
                let shapes =
                    options.iter().map(|o| shape(o)).filter(|s| !(any_text && matches!(s, Self::Choice(_))));
                let names: Vec<_> = shapes.map(|shape| shape.name()).collect();
                names.join(" or ")
            }
            Self::List(items) => match shape(items) {
                Self::Table | Self::Tagged { .. } => "a list of tables".into(),
                Self::Number | Self::Integer => "a list of numbers".into(),
                _ => "a list".into(),
            },
            Self::Number => "a number".into(),
            Self::Integer => "a whole number".into(),
            Self::Text => "a string".into(),
            Self::Boolean => "true or false".into(),
        }
    }
}

/// The description of a key as a help text.
pub(super) fn describe(property: &'static Json, path: &str) -> String {
    match description(property) {
        "" => String::new(),
        text if last_of(path).parse::<usize>().is_ok() => text.into(),
        text => format!("{}: {text}", thing(path)),
    }
}

/// `advice` and, after a colon, the description of the key.
pub(super) fn sentence(advice: &str, description: &str) -> String {
    if description.is_empty() { advice.into() } else { format!("{advice}: {description}") }
}
