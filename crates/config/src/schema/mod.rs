//! The JSON Schema of a document, and the check of a document against it.
//!
//! The schema is generated from the types, the single source of keys, types, ranges and words. The check walks the
//! document's tree along the schema: serde loses the position of an error inside tagged enums and stops at the first error.
//! The check supports the part of JSON Schema that the types use: objects, arrays, scalars with ranges, `oneOf` of words,
//! `oneOf` of objects with a constant tag, and `anyOf`.

mod advice;
mod check;
mod shape;
mod words;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json};

pub(crate) use check::check;

use crate::tree::{Node, Value};

/// A form of document: its name in messages, and its schema.
#[derive(Debug)]
pub struct Form {
    /// What a document is called, as in "the scenario".
    pub(crate) name: &'static str,
    /// Help for a text that is too large.
    pub(crate) if_too_large: &'static str,
    schema: Json,
    /// The schema with its references replaced by what they refer to.
    pub(crate) root: &'static Json,
}

impl Form {
    /// The form of documents that are read as a `T`, which must not contain itself. Make it once: it keeps its schema for the
    /// rest of the process.
    pub fn of<T: JsonSchema>(name: &'static str, if_too_large: &'static str) -> Self {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = Json::from(generator.into_root_schema_for::<T>());
        as_written_in_toml(&mut schema);
        let mut root = schema.clone();
        let definitions = root.as_object_mut().and_then(|root| root.remove("$defs")).unwrap_or_default();
        replace_references(&mut root, &definitions);
        Self { name, if_too_large, schema, root: Box::leak(Box::new(root)) }
    }

    /// The JSON Schema (draft 2020-12).
    pub const fn schema(&self) -> &Json {
        &self.schema
    }
}

/// Replaces each reference by its definition; keys beside a reference (a description, a default) stay.
fn replace_references(schema: &mut Json, definitions: &Json) {
    if let Json::Object(map) = schema
        && let Some(Json::String(reference)) = map.remove("$ref")
        && let Some(name) = reference.strip_prefix("#/$defs/")
        && let Json::Object(definition) = &definitions[name]
    {
        for (key, value) in definition {
            map.entry(key).or_insert_with(|| value.clone());
        }
        replace_references(schema, definitions);
        return;
    }
    match schema {
        Json::Array(items) => items.iter_mut().for_each(|item| replace_references(item, definitions)),
        Json::Object(map) => map.values_mut().for_each(|value| replace_references(value, definitions)),
        _ => {}
    }
}

/// Adapts the generated schema to TOML: `null` is removed, since TOML has none. Line breaks of the source are removed from
/// descriptions, and 32-bit integers get the bound of their type.
fn as_written_in_toml(schema: &mut Json) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(as_written_in_toml),
        Json::Object(map) => {
            map.values_mut().for_each(as_written_in_toml);
            if let Some(Json::Array(types)) = map.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = &types[..] {
                    map["type"] = only.clone();
                }
            }
            if let Some(Json::Array(options)) = map.get_mut("anyOf") {
                options.retain(|o| o["type"] != "null");
                if let [Json::Object(only)] = &options[..] {
                    let only = only.clone();
                    map.shift_remove("anyOf");
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(Json::String(description)) = map.get_mut("description") {
                *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            if map.get("format").is_some_and(|f| f == "uint32") {
                map.entry("maximum").or_insert(u32::MAX.into());
            }
        }
        _ => {}
    }
}

/// The tree as JSON, for serde. Only for trees that have passed [`check()`].
pub(crate) fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Boolean(b) => (*b).into(),
        Value::Integer(i) => match (u64::try_from(*i), i64::try_from(*i)) {
            (Ok(i), _) => i.into(),
            (_, Ok(i)) => i.into(),
            _ => Json::Null,
        },
        Value::Float(f) => (*f).into(),
        Value::String(s) => s.as_str().into(),
        Value::Datetime => Json::Null,
        Value::Array(items) => items.iter().map(to_json).collect(),
        Value::Table(members) => {
            Json::Object(members.iter().map(|m| (m.key.clone(), to_json(&m.node))).collect::<Map<_, _>>())
        }
    }
}
