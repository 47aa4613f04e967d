//! The walk of a document's tree along the schema.

use serde_json::Value as Json;

use super::Form;
use super::shape::{Named, Shape, describe, description, keys, required, sentence, shape};
use super::words::{join, last_of, listed, plain, quoted, table_name, thing, value_name};
use crate::error::{Problem, Source};
use crate::suggest::nearest;
use crate::tree::{Member, Node, Span, Value, shown};

/// Checks the tree against the schema of its form. Returns the first `max` problems found, and the number of further ones.
pub(crate) fn check(root: &Node, form: &Form, sources: &[Source], max: usize) -> (Vec<Problem>, usize) {
    let mut checker = Checker { form, sources, max, problems: Vec::new(), uncollected: 0 };
    checker.visit(root, form.root, "");
    (checker.problems, checker.uncollected)
}

pub(super) struct Checker<'s> {
    pub(super) form: &'s Form,
    pub(super) sources: &'s [Source],
    /// Maximum number of problems that are collected.
    max: usize,
    problems: Vec<Problem>,
    uncollected: usize,
}

/// The table that is being checked.
#[derive(Clone, Copy)]
pub(super) struct TableAt<'p> {
    pub(super) path: &'p str,
    pub(super) schema: &'static Json,
    /// Its tag, the tag's word, and all variants; `None` for a table without a tag.
    pub(super) tag: Option<(&'static str, &'static str, &'p [Named])>,
}

impl TableAt<'_> {
    pub(super) fn name(&self, form: &Form) -> String {
        let table = table_name(form.name, self.path);
        match self.tag {
            Some((tag, word, _)) => format!("{table} with {tag} = \"{word}\""),
            None => table,
        }
    }
}

impl Checker<'_> {
    /// Whether a further problem would only be counted. No suggestions are searched then.
    fn is_full(&self) -> bool {
        self.problems.len() >= self.max
    }

    pub(super) fn report(
        &mut self,
        span: Span,
        message: String,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.is_full() {
            self.uncollected += 1;
            return;
        }
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
            // Its keys are names that the user chooses, or those of another document.
            (Shape::Table, Value::Table(_)) if property["additionalProperties"] == Json::Bool(true) => {}
            (Shape::Table, Value::Table(members)) => {
                self.visit_table(node, members, TableAt { path, schema: property, tag: None });
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

    /// `more` is what the value can be apart from these words.
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
        if self.is_full() {
            self.uncollected += 1;
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
                    format!("unknown key `{}` in {}", shown(&slip.key), table_name(self.form.name, path)),
                    "unknown key",
                    format!("write `{tag}`"),
                ),
                // The variant whose tag is optional.
                None if variants.iter().any(|(_, v)| !required(v).any(|key| key == tag)) => {
                    for &(word, schema) in variants.iter().filter(|(_, v)| !required(v).any(|key| key == tag))
                    {
                        let tag = Some((tag, word, variants));
                        self.visit_table(node, members, TableAt { path, schema, tag });
                    }
                }
                None => self.report(
                    node.span,
                    format!("{} has no `{tag}`", table_name(self.form.name, path)),
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

    /// A value of one of several types: the value is checked against the type that it has.
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
            // A string that is none of the words may be the name of a host, which `check` looks up.
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
        let mut set = None;
        for member in members {
            match schema["properties"].get(&member.key) {
                Some(property) => self.visit(&member.node, property, &join(table.path, &member.key)),
                None if self.is_full() => self.uncollected += 1,
                None => {
                    let set = set.get_or_insert_with(|| keys_set(members, schema));
                    meant.extend(self.unknown_key(member, set, table));
                }
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
            format!("{} has no {name}", table.name(self.form)),
            format!("{name} is missing"),
            sentence(&add, description(property)),
        );
    }

    fn visit_text(&mut self, node: &Node, text: &str, property: &'static Json, path: &str) {
        if let Some(max) = property["maxLength"].as_u64()
            && text.len() as u64 > max
        {
            self.report(
                node.span,
                format!("{} has {} bytes, but may have at most {max}", thing(path), text.len()),
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
        let schema = property;
        let over = schema["maximum"].as_f64().is_some_and(|max| value > max);
        let under = schema["minimum"].as_f64().is_some_and(|min| value < min)
            || schema["exclusiveMinimum"].as_f64().is_some_and(|min| value <= min);
        if over || under {
            self.out_of_range(node, property, path);
        }
    }

    fn visit_integer(&mut self, node: &Node, value: i128, property: &'static Json, path: &str) {
        let bound = |key: &str| {
            let bound = &property[key];
            bound.as_u64().map(i128::from).or_else(|| bound.as_i64().map(i128::from))
        };
        let min = bound("minimum").unwrap_or(i64::MIN.into());
        let max = bound("maximum").unwrap_or(u64::MAX.into());
        if value < min || value > max {
            self.out_of_range(node, property, path);
        }
    }

    fn out_of_range(&mut self, node: &Node, property: &'static Json, path: &str) {
        let schema = property;
        let bound = |key: &str| schema[key].as_f64().map(plain);
        let above = match (bound("exclusiveMinimum"), bound("minimum")) {
            (Some(min), _) => Some(format!("more than {min}")),
            (None, Some(min)) => Some(format!("at least {min}")),
            (None, None) => None,
        };
        // The limit of the integer type is shown only if the value exceeds it.
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
}

/// The keys of the schema that members set, with their sources.
fn keys_set(members: &[Member], schema: &'static Json) -> Vec<(&'static str, usize)> {
    let known = |member: &Member| {
        let (key, _) = schema["properties"].as_object()?.get_key_value(&member.key)?;
        Some((key.as_str(), member.key_span.source))
    };
    members.iter().filter_map(known).collect()
}
