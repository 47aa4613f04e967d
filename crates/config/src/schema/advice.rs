//! Suggestions for unknown keys and values of the wrong type.

use serde_json::Value as Json;

use super::check::{Checker, TableAt};
use super::shape::{Shape, describe, description, keys, properties, required, sentence, shape};
use super::words::{last_of, listed, plain, quoted, ticked, value_name};
use crate::suggest::{nearest, number_in_unit_of, renamed, same_but_for_unit, spoken_unit, tidy};
use crate::tree::{Member, Node, Value, shown};

impl Checker<'_> {
    /// Reports a key that the table does not have. Returns the key of which it is probably a misspelling.
    pub(super) fn unknown_key(
        &mut self,
        member: &Member,
        set: &[(&'static str, usize)],
        table: TableAt<'_>,
    ) -> Option<&'static str> {
        let key = member.key.as_str();
        let is_section = table.path.is_empty() && self.written(&member.node, &["["]);
        let (what, message) = if is_section {
            ("unknown table", format!("unknown table [{}]", shown(key)))
        } else {
            ("unknown key", format!("unknown key `{}` in {}", shown(key), table.name(self.form)))
        };
        // A key that the same text already sets is not suggested. An override may mean a key that the file sets.
        let source = member.key_span.source;
        let free = || keys(table.schema).filter(|key| !set.contains(&(*key, source)));
        let mut meant = None;
        let help = if let Some(new) = renamed(key).filter(|new| free().any(|key| key == *new)) {
            meant = Some(new);
            format!("write `{new}`")
        } else if let Some((right, factor)) = same_but_for_unit(key, free()) {
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
        } else if let Some(help) = belongs_elsewhere(self.form.root, key, table.path) {
            help
        } else if let Some(right) = nearest(key, free()) {
            meant = Some(right);
            match (is_section, shape(&table.schema["properties"][right])) {
                (true, Shape::List(_)) => format!("write `[[{right}]]`"),
                (true, _) => format!("write `[{right}]`"),
                (false, _) => format!("write `{right}`"),
            }
        } else if let Some(taken) = nearest(key, keys(table.schema)) {
            format!("remove it: `{taken}` is already set")
        } else {
            format!("its keys are {}", ticked(keys(table.schema), "and"))
        };
        self.report(member.key_span, message, what, help);
        meant
    }

    /// Whether the text of a node starts with one of these strings.
    pub(super) fn written(&self, node: &Node, starts: &[&str]) -> bool {
        let text = self.sources[node.span.source].inner().get(node.span.start..).unwrap_or_default();
        starts.iter().any(|start| text.starts_with(start))
    }

    /// How to fix a value of the wrong type.
    pub(super) fn advice(
        &self,
        node: &Node,
        expected: &Shape,
        property: &'static Json,
        path: &str,
    ) -> String {
        let key = shown(last_of(path));
        let assign = |value: &str| format!("write `{key} = {value}`");
        let unquoted = |value: &str| {
            let quotes = if self.written(node, &["\"", "'"]) { ", without quotes" } else { "" };
            format!("{}{quotes}", assign(value))
        };
        match (expected, &node.value) {
            (_, Value::String(word)) if ["null", "nil", "None"].contains(&word.as_str()) => {
                format!("leave `{key}` out if it has no value")
            }
            (Shape::Number | Shape::Integer, Value::String(text)) => {
                let whole = matches!(expected, Shape::Integer);
                let number = number_in_unit_of(&key, text).filter(|n| !whole || n.fract() == 0.0).map(plain);
                match (number, spoken_unit(&key)) {
                    (Some(number), Some(unit)) => {
                        format!("{}; the key is in {unit}", assign(&number))
                    }
                    (Some(number), None) => unquoted(&number),
                    (None, Some(unit)) => {
                        format!("write only the number; the key is in {unit}")
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
            // The variant whose tag is optional is probably meant.
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

/// The value written under a wrong key, converted to the unit of the right key.
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
fn belongs_elsewhere(root: &'static Json, key: &str, here: &str) -> Option<String> {
    if !here.is_empty() && root["properties"].get(key).is_some() {
        let example = if matches!(shape(&root["properties"][key]), Shape::Table | Shape::Tagged { .. }) {
            format!("`{key}` is a table of its own, `[{key}]`")
        } else {
            format!("`{key}` belongs at the top of the file, before the first [table]")
        };
        return Some(example);
    }
    let here = here.split('.').next().unwrap_or_default();
    let mut homes = properties(root).filter_map(|(section, property)| {
        let (tables, header): (Vec<&'static Json>, _) = match shape(property) {
            Shape::Table => (vec![property], format!("[{section}]")),
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
