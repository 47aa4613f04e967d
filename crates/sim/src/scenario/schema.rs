//! The JSON Schema of scenarios, and the check of a document against it.
//!
//! The schema comes from the types, so keys, types, ranges and words have one source. The check walks the document's
//! tree beside it, because serde loses the place of an error inside tagged enums, and because only a walk can say all
//! that is wrong at once. It knows the part of JSON Schema that the types use: objects, arrays, scalars with ranges,
//! `oneOf` of words, `oneOf` of objects with a constant tag, and `anyOf`.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json};

use super::error::{Problem, Source};
use super::suggest::{nearest, number_in_unit_of, same_but_for_unit, spoken_unit, tidy};
use super::tree::{Member, Node, Span, Value, shown};
use super::types::Scenario;

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

/// TOML has no null: what may be left out is left out. Descriptions lose the line breaks of the source, and 32-bit
/// integers get the bound that their type has.
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

/// A word or key, and the schema of what it stands for.
type Named = (&'static str, &'static Json);

/// What a schema asks for, references resolved.
enum Shape {
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

fn resolve(schema: &'static Json) -> &'static Json {
    match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        Some(name) => resolve(&SCHEMA["$defs"][name]),
        None => schema,
    }
}

fn description(property: &'static Json) -> &'static str {
    property["description"].as_str().or_else(|| resolve(property)["description"].as_str()).unwrap_or_default()
}

fn properties(schema: &'static Json) -> impl Iterator<Item = Named> {
    schema["properties"].as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

fn keys(schema: &'static Json) -> impl Iterator<Item = &'static str> {
    properties(schema).map(|(key, _)| key)
}

fn required(schema: &'static Json) -> impl Iterator<Item = &'static str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// The key whose value is constant, and that value.
fn tag_of(variant: &'static Json) -> Option<(&'static str, &'static str)> {
    properties(variant).find_map(|(key, value)| value["const"].as_str().map(|word| (key, word)))
}

fn shape(schema: &'static Json) -> Shape {
    let schema = resolve(schema);
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
    /// How a message calls it.
    fn name(&self) -> String {
        match self {
            Self::Choice(words) => format!("one of {}", quoted(words, "and")),
            Self::Tagged { .. } | Self::Table => "a table".into(),
            Self::Mixed(options) => {
                let any_text = options.iter().any(|o| matches!(shape(o), Self::Text));
                // Where any string will do, words are among them.
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

/// The words between commas, `last` before the last one.
fn listed(words: impl IntoIterator<Item = String>, last: &str) -> String {
    let words: Vec<_> = words.into_iter().collect();
    match &words[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

fn quoted(words: &[&str], last: &str) -> String {
    listed(words.iter().map(|w| format!("\"{w}\"")), last)
}

fn ticked<'k>(keys: impl IntoIterator<Item = &'k str>, last: &str) -> String {
    listed(keys.into_iter().map(|k| format!("`{k}`")), last)
}

/// How a message calls a value.
fn value_name(value: &Value) -> String {
    match value {
        Value::Boolean(b) => b.to_string(),
        Value::Integer(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::String(s) => format!("the string \"{}\"", shown(s)),
        Value::Datetime => "a date or time".into(),
        Value::Array(_) => "a list".into(),
        Value::Table(_) => "a table".into(),
    }
}

fn last_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// How a message calls the thing at a path: an entry of a list by its whole path, anything else by its key.
fn thing(path: &str) -> String {
    let key = last_of(path);
    let name = if key.parse::<usize>().is_ok() { path } else { key };
    format!("`{}`", shown(name))
}

/// How a message calls the table at a path.
fn table_name(path: &str) -> String {
    match path {
        "" => "the scenario".into(),
        _ if path.contains('.') => format!("`{path}`"),
        _ => format!("[{path}]"),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// Checks the tree against the schema of scenarios.
pub(super) fn check(root: &Node, sources: &[Source]) -> Vec<Problem> {
    let mut checker = Checker { sources, problems: Vec::new() };
    checker.visit(root, &SCHEMA, "");
    checker.problems
}

struct Checker<'s> {
    sources: &'s [Source],
    problems: Vec<Problem>,
}

/// A table that is being checked.
#[derive(Clone, Copy)]
struct TableAt<'p> {
    path: &'p str,
    schema: &'static Json,
    /// Its tag, the tag's word, and all variants, where it has a tag.
    tag: Option<(&'static str, &'static str, &'p [Named])>,
}

impl TableAt<'_> {
    fn name(&self) -> String {
        match self.tag {
            Some((tag, word, _)) => format!("{} with {tag} = \"{word}\"", table_name(self.path)),
            None => table_name(self.path),
        }
    }
}

impl Checker<'_> {
    fn report(&mut self, span: Span, message: String, label: impl Into<String>, help: impl Into<String>) {
        let source = &self.sources[span.source];
        self.problems.push(Problem::new(source, span.start..span.end, message, label.into(), help.into()));
    }

    fn visit(&mut self, node: &Node, property: &'static Json, path: &str) {
        match (shape(property), &node.value) {
            (Shape::Choice(words), Value::String(word)) => self.visit_word(node, &words, word, path, None),
            (Shape::Tagged { tag, variants }, Value::Table(members)) => {
                self.visit_tagged(node, members, tag, &variants, path);
            }
            (Shape::Mixed(options), _) => self.visit_mixed(node, property, &options, path),
            (Shape::Table, Value::Table(members)) => {
                self.visit_table(node, members, TableAt { path, schema: resolve(property), tag: None });
            }
            (Shape::List(item), Value::Array(items)) => {
                for (i, node) in items.iter().enumerate() {
                    self.visit(node, item, &format!("{path}.{i}"));
                }
            }
            (Shape::Number, Value::Integer(i)) => self.visit_number(node, *i as f64, property, path),
            (Shape::Number, Value::Float(f)) => self.visit_number(node, *f, property, path),
            (Shape::Integer, Value::Integer(i)) => self.visit_integer(node, *i, property, path),
            (Shape::Text, Value::String(text)) => self.visit_text(node, text, property, path),
            (Shape::Boolean, Value::Boolean(_)) => {}
            (expected, _) => self.wrong_type(node, &expected, property, path),
        }
    }

    /// `more` says what else than these words there could be.
    fn visit_word(
        &mut self,
        node: &Node,
        words: &[&'static str],
        word: &str,
        path: &str,
        more: Option<&str>,
    ) {
        if words.contains(&word) {
            return;
        }
        let options = words.iter().map(|w| format!("\"{w}\"")).chain(more.map(str::to_owned));
        let all = match words {
            [only] => format!("it can only be \"{only}\""),
            _ => format!("it can be {}", listed(options, "or")),
        };
        let help = match nearest(word, words.iter().copied()) {
            Some(right) if words.len() > 1 => format!("write \"{right}\"; {all}"),
            _ => all,
        };
        self.report(
            node.span,
            format!("{} cannot be \"{}\"", thing(path), shown(word)),
            "unknown word",
            help,
        );
    }

    fn visit_tagged(
        &mut self,
        node: &Node,
        members: &[Member],
        tag: &'static str,
        variants: &[Named],
        path: &str,
    ) {
        let words: Vec<_> = variants.iter().map(|(word, _)| *word).collect();
        let Some(member) = members.iter().find(|m| m.key == tag) else {
            let slip = members.iter().find(|m| {
                !variants.iter().any(|(_, v)| keys(v).any(|k| k == m.key))
                    && matches!(&m.node.value, Value::String(w) if words.contains(&w.as_str()))
            });
            match slip {
                Some(slip) => self.report(
                    slip.key_span,
                    format!("unknown key `{}` in {}", shown(&slip.key), table_name(path)),
                    "unknown key",
                    format!("write `{tag}`"),
                ),
                // A variant that may go without its name.
                None if variants.iter().any(|(_, v)| !required(v).any(|key| key == tag)) => {
                    for &(word, schema) in variants.iter().filter(|(_, v)| !required(v).any(|key| key == tag))
                    {
                        let tag = Some((tag, word, variants));
                        self.visit_table(node, members, TableAt { path, schema, tag });
                    }
                }
                None => self.report(
                    node.span,
                    format!("{} has no `{tag}`", table_name(path)),
                    format!("`{tag}` is missing"),
                    format!("add `{tag} = …`; it can be {}", quoted(&words, "or")),
                ),
            }
            return;
        };
        let word = match &member.node.value {
            Value::String(word) => variants.iter().find(|(w, _)| w == word),
            _ => None,
        };
        match word {
            Some(&(word, schema)) => {
                self.visit_table(node, members, TableAt { path, schema, tag: Some((tag, word, variants)) });
            }
            None => {
                let tag_path = join(path, tag);
                match &member.node.value {
                    Value::String(word) => self.visit_word(&member.node, &words, word, &tag_path, None),
                    _ => self.wrong_type(&member.node, &Shape::Choice(words), &Json::Null, &tag_path),
                }
            }
        }
    }

    /// A value for which there are several types: the one that it has is checked.
    fn visit_mixed(&mut self, node: &Node, property: &'static Json, options: &[&'static Json], path: &str) {
        let fitting = options.iter().find(|option| {
            matches!(
                (shape(option), &node.value),
                (Shape::Choice(_) | Shape::Text, Value::String(_))
                    | (Shape::Integer | Shape::Number, Value::Integer(_))
                    | (Shape::Number, Value::Float(_))
                    | (Shape::Boolean, Value::Boolean(_))
                    | (Shape::Table, Value::Table(_))
                    | (Shape::List(_), Value::Array(_))
            )
        });
        let number = options.iter().any(|o| matches!(shape(o), Shape::Integer));
        match (fitting, &node.value) {
            (Some(_), Value::String(text)) if number && text.trim().parse::<u32>().is_ok() => self.report(
                node.span,
                format!("{} cannot be \"{}\"", thing(path), shown(text)),
                "a number in quotes",
                format!("write `{} = {}`, without quotes", shown(last_of(path)), text.trim()),
            ),
            // A string that is none of the words may be right all the same, as the name of a host: `check` knows.
            (Some(_), Value::String(text)) if options.iter().any(|o| matches!(shape(o), Shape::Text)) => {
                for option in options.iter().filter(|o| matches!(shape(o), Shape::Text)) {
                    self.visit_text(node, text, option, path);
                }
            }
            (Some(option), Value::String(word)) if number => {
                if let Shape::Choice(words) = shape(option) {
                    self.visit_word(node, &words, word, path, Some("a number"));
                }
            }
            (Some(option), _) => self.visit(node, option, path),
            (None, _) => self.wrong_type(node, &Shape::Mixed(options.to_vec()), property, path),
        }
    }

    fn visit_table(&mut self, node: &Node, members: &[Member], table: TableAt<'_>) {
        let schema = table.schema;
        let mut meant = Vec::new();
        for member in members {
            match schema["properties"].get(&member.key) {
                Some(property) => self.visit(&member.node, property, &join(table.path, &member.key)),
                None => meant.extend(self.unknown_key(member, members, table)),
            }
        }
        for key in required(schema) {
            if !meant.contains(&key) && !members.iter().any(|m| m.key == key) {
                self.missing_key(node.span, key, table);
            }
        }
    }

    fn missing_key(&mut self, span: Span, key: &'static str, table: TableAt<'_>) {
        let property = &table.schema["properties"][key];
        let is_section =
            table.path.is_empty() && matches!(shape(property), Shape::Table | Shape::Tagged { .. });
        let add = match shape(property) {
            Shape::Tagged { tag, variants } if is_section => {
                let words: Vec<_> = variants.iter().map(|(word, _)| *word).collect();
                format!("add a table `[{key}]` with `{tag} = …`, which can be {}", quoted(&words, "or"))
            }
            _ if is_section => format!("add a table `[{key}]`"),
            Shape::Text => format!("add `{key} = \"…\"`"),
            _ => format!("add `{key} = …`"),
        };
        let name = if is_section { format!("[{key}]") } else { format!("`{key}`") };
        self.report(
            span,
            format!("{} has no {name}", table.name()),
            format!("{name} is missing"),
            sentence(&add, description(property)),
        );
    }

    /// Reports a key that the table does not have; returns the key that was meant, where that is clear.
    fn unknown_key(
        &mut self,
        member: &Member,
        members: &[Member],
        table: TableAt<'_>,
    ) -> Option<&'static str> {
        let key = member.key.as_str();
        let is_section = table.path.is_empty() && self.written(&member.node, &["["]);
        let (what, message) = if is_section {
            ("unknown table", format!("unknown table [{}]", shown(key)))
        } else {
            ("unknown key", format!("unknown key `{}` in {}", shown(key), table.name()))
        };
        // A key that the same text has already set is not what was meant; an override may mean one that the file sets.
        let source = member.key_span.source;
        let free = || {
            keys(table.schema).filter(|k| !members.iter().any(|m| m.key == *k && m.key_span.source == source))
        };
        let mut meant = None;
        let help = if let Some((right, factor)) = same_but_for_unit(key, free()) {
            meant = Some(right);
            match (
                converted(&member.node.value, factor, right, &table.schema["properties"][right]),
                spoken_unit(right),
            ) {
                (Some(value), _) => format!("write `{right} = {value}`"),
                (None, Some(unit)) => format!("write `{right}`, with a number in {unit}"),
                (None, None) => format!("write `{right}`"),
            }
        } else if let Some(help) = belongs_to_other_variant(key, table) {
            help
        } else if let Some(help) = belongs_elsewhere(key, table.path) {
            help
        } else if let Some(right) = nearest(key, free()) {
            meant = Some(right);
            match (is_section, shape(&table.schema["properties"][right])) {
                (true, Shape::List(_)) => format!("write `[[{right}]]`"),
                (true, _) => format!("write `[{right}]`"),
                (false, _) => format!("write `{right}`"),
            }
        } else if let Some(taken) = nearest(key, keys(table.schema)) {
            format!("take it out: `{taken}` is already set")
        } else {
            format!("its keys are {}", ticked(keys(table.schema), "and"))
        };
        self.report(member.key_span, message, what, help);
        meant
    }

    fn visit_text(&mut self, node: &Node, text: &str, property: &'static Json, path: &str) {
        if let Some(most) = resolve(property)["maxLength"].as_u64()
            && text.len() as u64 > most
        {
            self.report(
                node.span,
                format!("{} has {} bytes, but may have at most {most}", thing(path), text.len()),
                "too long",
                describe(property, path),
            );
        }
    }

    fn visit_number(&mut self, node: &Node, value: f64, property: &'static Json, path: &str) {
        if !value.is_finite() {
            self.report(
                node.span,
                format!("{} must be a finite number", thing(path)),
                "not a finite number",
                describe(property, path),
            );
            return;
        }
        let schema = resolve(property);
        let over = schema["maximum"].as_f64().is_some_and(|max| value > max);
        let under = schema["minimum"].as_f64().is_some_and(|min| value < min)
            || schema["exclusiveMinimum"].as_f64().is_some_and(|min| value <= min);
        if over || under {
            self.out_of_range(node, property, path);
        }
    }

    fn visit_integer(&mut self, node: &Node, value: i128, property: &'static Json, path: &str) {
        let bound = |key: &str| {
            let bound = &resolve(property)[key];
            bound.as_u64().map(i128::from).or_else(|| bound.as_i64().map(i128::from))
        };
        let min = bound("minimum").unwrap_or(i64::MIN.into());
        let max = bound("maximum").unwrap_or(u64::MAX.into());
        if value < min || value > max {
            self.out_of_range(node, property, path);
        }
    }

    fn out_of_range(&mut self, node: &Node, property: &'static Json, path: &str) {
        let schema = resolve(property);
        let bound = |key: &str| schema[key].as_f64().map(plain);
        let above = match (bound("exclusiveMinimum"), bound("minimum")) {
            (Some(min), _) => Some(format!("more than {min}")),
            (None, Some(min)) => Some(format!("at least {min}")),
            (None, None) => None,
        };
        // The limit of the type itself is worth telling only to who has passed it.
        let negative = matches!(node.value, Value::Integer(i) if i < 0);
        let below = match (bound("maximum"), schema["format"].as_str()) {
            (Some(_), Some("uint32")) if negative && schema["maximum"] == u32::MAX => None,
            (Some(max), _) => Some(format!("at most {max}")),
            (None, Some("uint64")) if !negative => Some(format!("at most {}", u64::MAX)),
            (None, _) => None,
        };
        let range = listed(above.into_iter().chain(below), "and");
        let value = match node.value {
            Value::Integer(i128::MIN | i128::MAX) => "out of range".into(),
            _ => value_name(&node.value),
        };
        self.report(
            node.span,
            format!("{} is {value}, but must be {range}", thing(path)),
            "out of range",
            describe(property, path),
        );
    }

    fn wrong_type(&mut self, node: &Node, expected: &Shape, property: &'static Json, path: &str) {
        let is = match &node.value {
            Value::String(s) if !self.written(node, &["\"", "'"]) => format!("`{}`", shown(s)),
            value => value_name(value),
        };
        let label = match expected {
            Shape::Choice(_) | Shape::Mixed(_) => "not one of these".to_owned(),
            _ => format!("not {}", expected.name()),
        };
        let help = self.advice(node, expected, property, path);
        self.report(
            node.span,
            format!("{} must be {}, but is {is}", thing(path), expected.name()),
            label,
            help,
        );
    }

    /// Whether the text of a node starts with one of these.
    fn written(&self, node: &Node, starts: &[&str]) -> bool {
        let text = self.sources[node.span.source].inner().get(node.span.start..).unwrap_or_default();
        starts.iter().any(|start| text.starts_with(start))
    }

    /// The mend for a value of the wrong type.
    fn advice(&self, node: &Node, expected: &Shape, property: &'static Json, path: &str) -> String {
        let key = shown(last_of(path));
        let assign = |value: &str| format!("write `{key} = {value}`");
        let unquoted = |value: &str| {
            let quotes = if self.written(node, &["\"", "'"]) { ", without quotes" } else { "" };
            format!("{}{quotes}", assign(value))
        };
        match (expected, &node.value) {
            (_, Value::String(word)) if ["null", "nil", "None"].contains(&word.as_str()) => {
                format!("leave `{key}` out where it has no value")
            }
            (Shape::Number | Shape::Integer, Value::String(text)) => {
                let whole = matches!(expected, Shape::Integer);
                let number = number_in_unit_of(&key, text).filter(|n| !whole || n.fract() == 0.0).map(plain);
                match (number, spoken_unit(&key)) {
                    (Some(number), Some(unit)) => {
                        format!("{}; the key's name says the unit ({unit})", assign(&number))
                    }
                    (Some(number), None) => unquoted(&number),
                    (None, Some(unit)) => {
                        format!("write the number alone; the key's name says the unit ({unit})")
                    }
                    (None, None) => describe(property, path),
                }
            }
            (Shape::Integer, Value::Float(f)) if f.abs() < 1e15 && f.fract() == 0.0 => assign(&plain(*f)),
            (Shape::Boolean, Value::String(text)) => match text.trim().to_lowercase().as_str() {
                "true" | "yes" | "on" => unquoted("true"),
                "false" | "no" | "off" => unquoted("false"),
                _ => assign("true` or `false"),
            },
            (Shape::Boolean, Value::Integer(0)) => assign("false"),
            (Shape::Boolean, Value::Integer(1)) => assign("true"),
            (Shape::Choice(words), Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => {
                format!("write {}", quoted(words, "or"))
            }
            (Shape::Text, Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => {
                let written = value_name(&node.value);
                if node.span.source > 0 {
                    format!("put it in quotes twice, once for the shell: '{key}=\"{written}\"'")
                } else {
                    format!("{}, in quotes", assign(&format!("\"{written}\"")))
                }
            }
            (Shape::Tagged { tag, variants }, Value::String(word)) => {
                match variants.iter().find(|(w, _)| w == word).or(variants.first()) {
                    Some((word, variant)) => {
                        let others = required(variant).filter(|k| k != tag).map(|k| format!(", {k} = …"));
                        assign(&format!("{{ {tag} = \"{word}\"{} }}", others.collect::<String>()))
                    }
                    None => String::new(),
                }
            }
            // A variant that may go without its name may be the one that was meant.
            (Shape::Tagged { tag, variants }, Value::Integer(amount))
                if variants.iter().any(|(_, v)| !required(v).any(|key| key == *tag)) =>
            {
                let own = variants.iter().filter(|(_, v)| !required(v).any(|key| key == *tag));
                let forms = own
                    .flat_map(|(_, v)| keys(v).filter(|key| key != tag))
                    .map(|option| format!("`{key} = {{ {option} = {amount} }}`"));
                format!("write {}", listed(forms, "or"))
            }
            (Shape::Table | Shape::Tagged { .. }, Value::Array(_)) if self.written(node, &["[["]) => {
                format!("write `[{path}]`, in single brackets: there is only one")
            }
            (Shape::List(_), Value::Table(_)) if self.written(node, &["["]) => {
                format!("write `[[{path}]]`, in double brackets: there may be several")
            }
            (Shape::List(_), Value::Integer(_) | Value::Float(_)) => {
                sentence(&assign(&format!("[{}]", value_name(&node.value))), description(property))
            }
            _ => describe(property, path),
        }
    }
}

/// A number as a person would write it.
fn plain(value: f64) -> String {
    tidy(value).to_string()
}

/// What was written under a wrong key, in the unit of the right one.
fn converted(value: &Value, factor: Option<f64>, right: &str, property: &'static Json) -> Option<String> {
    let number = match value {
        Value::Integer(i) => *i as f64 * factor?,
        Value::Float(f) => f * factor?,
        Value::String(text) => number_in_unit_of(right, text)?,
        _ => return None,
    };
    let whole = matches!(shape(property), Shape::Integer);
    (number.is_finite() && (!whole || tidy(number).fract() == 0.0)).then(|| plain(number))
}

/// The description of a key as a help text.
fn describe(property: &'static Json, path: &str) -> String {
    match description(property) {
        "" => String::new(),
        text if last_of(path).parse::<usize>().is_ok() => text.into(),
        text => format!("{}: {text}", thing(path)),
    }
}

/// `advice` and, after a colon, what the key means.
fn sentence(advice: &str, description: &str) -> String {
    if description.is_empty() { advice.into() } else { format!("{advice}: {description}") }
}

fn belongs_to_other_variant(key: &str, table: TableAt<'_>) -> Option<String> {
    let (tag, _, variants) = table.tag?;
    let having: Vec<_> =
        variants.iter().filter(|(_, v)| keys(v).any(|k| k == key)).map(|(word, _)| *word).collect();
    (!having.is_empty()).then(|| {
        let own: Vec<_> = keys(table.schema).filter(|k| *k != tag).collect();
        format!(
            "`{key}` goes with {tag} = {}; the keys here are {}",
            quoted(&having, "or"),
            ticked(own, "and")
        )
    })
}

/// Where a key that is unknown here would be right: the top of the file or another section.
fn belongs_elsewhere(key: &str, here: &str) -> Option<String> {
    if !here.is_empty() && SCHEMA["properties"].get(key).is_some() {
        let example = if matches!(shape(&SCHEMA["properties"][key]), Shape::Table | Shape::Tagged { .. }) {
            format!("`{key}` is a table of its own, `[{key}]`")
        } else {
            format!("`{key}` belongs at the top of the file, before the first [table]")
        };
        return Some(example);
    }
    let here = here.split('.').next().unwrap_or_default();
    let mut homes = properties(&SCHEMA).filter_map(|(section, property)| {
        let (tables, header): (Vec<&'static Json>, _) = match shape(property) {
            Shape::Table => (vec![resolve(property)], format!("[{section}]")),
            Shape::Tagged { variants, .. } => {
                (variants.iter().map(|(_, v)| *v).collect(), format!("[{section}]"))
            }
            Shape::List(items) => match shape(items) {
                Shape::Tagged { variants, .. } => {
                    (variants.iter().map(|(_, v)| *v).collect(), format!("[[{section}]]"))
                }
                _ => return None,
            },
            _ => return None,
        };
        (section != here && tables.iter().any(|t| keys(t).any(|k| k == key))).then_some(header)
    });
    match (homes.next(), homes.next()) {
        (Some(home), None) => Some(format!("`{key}` belongs in {home}")),
        _ => None,
    }
}

/// The tree as JSON, for serde. Only for trees that [`check`] has passed.
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
