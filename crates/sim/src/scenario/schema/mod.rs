//! The JSON Schema of scenarios, and the check of a document against it.
//!
//! The schema is generated from the types, the single source of keys, types, ranges and words. The check walks the
//! document's tree along the schema: serde loses the position of an error inside tagged enums and stops at the first error.
//! The check supports the part of JSON Schema that the types use: objects, arrays, scalars with ranges, `oneOf` of words,
//! `oneOf` of objects with a constant tag, and `anyOf`.

mod advice;
mod check;
mod shape;
mod words;

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json};

pub(super) use check::check;

use super::sections::Scenario;
use super::tree::{Node, Value};

static SCHEMA: LazyLock<Json> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = Json::from(generator.into_root_schema_for::<Scenario>());
    as_written_in_toml(&mut schema);
    schema
});

/// The JSON Schema (draft 2020-12) of a scenario.
pub fn schema() -> Json {
    SCHEMA.clone()
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
pub(super) fn to_json(node: &Node) -> Json {
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
