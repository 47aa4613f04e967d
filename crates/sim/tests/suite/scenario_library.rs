//! The ready-made scenarios load and document themselves; the schema and the reader agree on them.

use fairhop_sim::scenario::{Loaded, Override, Scenario, ScenarioErrors, library, load, ready_made, schema};
use serde_json::Value;

fn ready(name: &str, overrides: &[&str]) -> Result<Loaded, ScenarioErrors> {
    let ready = ready_made(name).expect("a ready-made scenario");
    let overrides: Vec<_> = overrides.iter().copied().map(Override::new).collect();
    load(&ready.file_name(), ready.text, &overrides)
}

fn loaded(name: &str, overrides: &[&str]) -> Scenario {
    ready(name, overrides).unwrap_or_else(|e| panic!("{e}")).scenario
}

/// The words after `--set` in a comment, quotes of the shell taken off.
fn suggested(line: &str) -> Vec<String> {
    let comment = line.strip_prefix('#').unwrap_or_default();
    comment
        .split("--set ")
        .skip(1)
        .map(|rest| match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next().unwrap_or_default().to_owned(),
            None => rest.split_whitespace().next().unwrap_or_default().to_owned(),
        })
        .collect()
}

#[test]
fn every_ready_made_scenario_loads_and_is_documented() {
    assert!(library().len() >= 12);
    for ready in library() {
        let scenario = loaded(ready.name, &[]);
        assert!(!scenario.description.is_empty(), "{} has no description", ready.name);
        assert!(ready.title().ends_with(['.', '?']), "{}: {}", ready.name, ready.title());
        assert!(ready.text.contains("# What to learn: "), "{} has no line 'What to learn'", ready.name);
    }
}

#[test]
fn every_file_of_the_folder_is_in_the_library() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let files = std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").file_name());
    let mut files: Vec<_> = files.map(|f| f.to_string_lossy().into_owned()).collect();
    files.sort();
    let mut names: Vec<_> = library().iter().map(fairhop_sim::scenario::Ready::file_name).collect();
    names.sort();
    assert_eq!(files, names);
}

#[test]
fn every_override_that_a_comment_suggests_is_valid() {
    let mut tried = 0;
    for ready in library() {
        for line in ready.text.lines() {
            let changes = suggested(line);
            if !changes.is_empty() {
                let changes: Vec<_> = changes.iter().map(String::as_str).collect();
                loaded(ready.name, &changes);
                tried += 1;
            }
        }
    }
    assert!(tried > 20, "only {tried} suggestions found");
}

#[test]
fn a_serialized_scenario_is_read_back_unchanged() {
    for ready in library() {
        let scenario = loaded(ready.name, &[]);
        let text = toml::to_string(&scenario).expect("TOML");
        let again =
            load("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}: {e}\n{text}", ready.name));
        assert_eq!(again.scenario, scenario, "{}", ready.name);
    }
}

/// Validates by the keywords of JSON Schema that the scenario's schema uses, as the standard defines them, independently of
/// the reader.
fn valid(value: &Value, schema: &Value, root: &Value) -> bool {
    let number = |key: &str| schema[key].as_f64();
    let of_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0),
        "number" => value.is_number(),
        other => panic!("unexpected type {other}"),
    };
    let count = |options: &Value| {
        options.as_array().map_or(1, |options| options.iter().filter(|o| valid(value, o, root)).count())
    };
    schema["$ref"]
        .as_str()
        .is_none_or(|r| valid(value, &root["$defs"][r.trim_start_matches("#/$defs/")], root))
        && schema["type"].as_str().is_none_or(of_type)
        && (schema["const"].is_null() || schema["const"] == *value)
        && count(&schema["oneOf"]) == 1
        && count(&schema["anyOf"]) >= 1
        && value.as_f64().is_none_or(|v| {
            number("minimum").is_none_or(|min| v >= min)
                && number("maximum").is_none_or(|max| v <= max)
                && number("exclusiveMinimum").is_none_or(|min| v > min)
        })
        && value.as_array().is_none_or(|items| {
            schema["items"].is_null() || items.iter().all(|item| valid(item, &schema["items"], root))
        })
        && value.as_object().is_none_or(|map| {
            let known = &schema["properties"];
            map.iter().all(|(key, member)| match known.get(key) {
                Some(property) => valid(member, property, root),
                None => schema["additionalProperties"] != false,
            }) && schema["required"]
                .as_array()
                .is_none_or(|r| r.iter().all(|k| map.contains_key(k.as_str().unwrap_or(""))))
        })
}

#[test]
fn the_schema_accepts_every_ready_made_scenario_and_refuses_what_the_reader_refuses() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let json = |text: &str| -> Value {
        let table: toml::Table = text.parse().expect("TOML");
        serde_json::to_value(table).expect("JSON")
    };
    for ready in library() {
        assert!(valid(&json(ready.text), &schema, &schema), "{}", ready.name);
    }
    let mix = ready_made("k-mix").expect("k-mix").text;
    for (right, wrong) in [
        ("hops = 4", "hops = 0"),
        ("hops = 4", "hops = 4.5"),
        ("hops = 4", "columns = 4"),
        ("\"string\"", "\"strings\""),
        ("spacing_m = 200", ""),
        ("delay_ms", "delay_s"),
        ("rate_mbps = 12", "rate_mbps = \"12 Mb/s\""),
    ] {
        let text = mix.replace(right, wrong);
        assert_ne!(text, mix);
        assert!(!valid(&json(&text), &schema, &schema), "{wrong}");
        assert!(load("changed.toml", &text, &[]).is_err(), "{wrong}");
    }
}

#[test]
fn the_schema_describes_every_key_and_knows_no_null() {
    fn visit(schema: &Value, at: &str) {
        if let Some(properties) = schema["properties"].as_object() {
            for (key, property) in properties {
                let described = property["description"].is_string() || property["const"].is_string();
                // A variant with a single key is described as a whole.
                assert!(described || schema["description"].is_string(), "{at}.{key} is not described");
            }
        }
        assert_ne!(schema["type"], "null", "{at}");
        match schema {
            Value::Object(map) => map.iter().for_each(|(key, value)| visit(value, &format!("{at}.{key}"))),
            Value::Array(items) => items.iter().for_each(|item| visit(item, at)),
            _ => {}
        }
    }
    visit(&schema(), "");
}

#[test]
fn overrides_set_append_and_create_keys() {
    let scenario = loaded(
        "k-mix",
        &[
            "traffic.0.count=8",
            "radio.capture=none",
            "radio.standard=802.11g",
            "mac.rts_threshold_bytes=500",
            "mac.queue.bytes=30000",
            "topology.hops = 5",
            "traffic.+={ kind = \"cbr\", from = 0, to = \"broadcast\", rate_kbps = 8, payload_bytes = 100 }",
            "traffic.2.count=2",
            "name=\"quoted\"",
        ],
    );
    let json = serde_json::to_value(&scenario).expect("JSON");
    assert_eq!(json["traffic"][0]["count"], 8);
    assert_eq!(json["radio"]["capture"], "none");
    assert_eq!(json["radio"]["standard"], "802.11g");
    assert_eq!(json["mac"]["rts_threshold_bytes"], 500);
    assert_eq!(json["mac"]["queue"]["bytes"], 30000);
    assert_eq!(json["traffic"][2]["count"], 2);
    assert_eq!(json["name"], "quoted");
    assert_eq!(scenario.topology.node_count(), 6);
    let exposed = loaded("exposed-terminals", &["topology.nodes.2.x_m=610"]);
    let json = serde_json::to_value(&exposed).expect("JSON");
    assert_eq!(json["topology"]["nodes"][2]["x_m"], 610.0);
}

#[test]
fn findings_of_the_network_builder_get_their_place_in_the_text() {
    let loaded = ready("k-mix", &["traffic.0.to=3"]).unwrap_or_else(|e| panic!("{e}"));
    let no_route = |traffic| fairhop_sim::scenario::no_route(traffic, 0, 4, "raise receive_m");
    let errors = loaded.locate(vec![no_route(0), no_route(1)]).expect("errors");
    let [in_file, in_override] = errors.problems() else { panic!("{errors}") };
    assert_eq!(in_file.source_name(), "k-mix.toml");
    assert_eq!(&in_file.source_text()[in_file.span()], "\"last\"");
    assert_eq!(in_override.source_name(), "--set");
    assert_eq!(&in_override.source_text()[in_override.span()], "3");
    assert!(loaded.locate(Vec::new()).is_none());
}

#[test]
fn copies_are_numbered_and_entries_without_names_share_the_numbers() {
    let scenario = loaded(
        "k-mix",
        &[
            "traffic.0.count=2",
            "traffic.1.count=1",
            "traffic.+={kind=\"call\",from=0,to=2}",
            "traffic.1.name=\"get\"",
        ],
    );
    assert_eq!(scenario.flow_names(), [vec!["call-0", "call-1"], vec!["get-0"], vec!["call-2"]]);
}
