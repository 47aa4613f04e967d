//! Dependencies between source files have no circles across modules.
//!
//! A file depends on the files that define what it names after `use`, or in a path that starts with `crate::`. Names that a
//! module re-exports count for the file that defines them. Tests inside a file are left out. A `mod.rs` and the files of its
//! own module may depend on each other; two other files of one module may not, except in `world`, whose files all extend
//! the type `World`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules whose files extend one type and may name each other.
const ONE_TYPE: [&str; 1] = ["world"];

/// A module path, as in `["queue", "codel"]`; empty for the root of the crate.
type Module = Vec<String>;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn module_of(path: &Path, root: &Path) -> Module {
    let inside = path.strip_prefix(root).expect("below src").with_extension("");
    let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}

/// The code of a file without comments and without its tests at the end.
fn code(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = code.split("\n#[cfg(test)]\npub(crate) mod ").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inner = rest.strip_suffix('}').expect("a closing brace");
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[from..]);
    let paths = parts.into_iter().filter(|part| !part.trim().is_empty()).flat_map(expand);
    paths.map(|path| format!("{before}{path}")).collect()
}

/// Paths of the `use` declarations of a file, with whether they are public.
fn uses(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let line = rest[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let visibility = rest[line..at].trim();
        let is_use = visibility.is_empty() || visibility.starts_with("pub");
        rest = &rest[at + 4..];
        if is_use && let Some((tree, _)) = rest.split_once(';') {
            found.extend(expand(tree).into_iter().map(|path| (path, visibility.starts_with("pub"))));
        }
    }
    found
}

/// Paths that start with `crate::` in the rest of the code.
fn inline(code: &str) -> Vec<String> {
    let path = |rest: &str| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')));
        format!("crate::{}", &rest[..end.unwrap_or(rest.len())])
    };
    code.split("crate::").skip(1).map(path).collect()
}

struct Sources {
    codes: BTreeMap<Module, String>,
}

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        rust_files(&root, &mut files);
        // Files that only tests compile.
        let declared = |file: &PathBuf| {
            let text = fs::read_to_string(file).expect("a source file");
            let tests = text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
            let names = tests.map(|(name, _)| name.to_owned()).filter(|name| !name.contains('{'));
            let module = module_of(file, &root);
            names.map(move |name| [&module[..], &[name]].concat()).collect::<Vec<_>>()
        };
        let for_tests: BTreeSet<Module> = files.iter().flat_map(declared).collect();
        files.retain(|file| !for_tests.contains(&module_of(file, &root)));
        let read = |path: &PathBuf| {
            (module_of(path, &root), code(&fs::read_to_string(path).expect("a source file")))
        };
        Self { codes: files.iter().map(read).collect() }
    }

    /// The absolute segments of a path in a module; `None` for other crates.
    fn absolute(&self, path: &str, module: &Module) -> Option<Vec<String>> {
        let mut segments = path.split("::").map(str::trim).filter(|s| !s.is_empty()).peekable();
        let mut base = match *segments.peek()? {
            "crate" => Vec::new(),
            "super" | "self" => module.clone(),
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                self.codes.contains_key(&child).then(|| module.clone())?
            }
        };
        for segment in segments {
            match segment {
                "crate" | "self" => {}
                "super" => {
                    base.pop();
                }
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    /// The module that defines what a path names, found through re-exports.
    fn definition(&self, path: &str, module: &Module) -> Option<Module> {
        let segments = self.absolute(path, module)?;
        let depth = (0..=segments.len()).rev().find(|&n| self.codes.contains_key(&segments[..n]))?;
        let (owner, rest) = (segments[..depth].to_vec(), &segments[depth..]);
        let Some(name) = rest.first() else { return Some(owner) };
        let exported = uses(&self.codes[&owner]).into_iter().find(|(path, public)| {
            *public && path.rsplit("::").next().is_some_and(|last| last.trim() == name)
        });
        match exported {
            Some((path, _)) => self.definition(&path, &owner).or(Some(owner)),
            None => Some(owner),
        }
    }

    fn dependencies(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(module, code): (&Module, &String)| {
            let paths = uses(code).into_iter().map(|(path, _)| path).chain(inline(code));
            let targets = paths.filter_map(|path| self.definition(&path, module));
            (module.clone(), targets.filter(|target| target != module && !target.is_empty()).collect())
        };
        self.codes.iter().map(of).collect()
    }
}

/// Everything that a module depends on, directly or not.
fn reachable(from: &Module, graph: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.clone()];
    while let Some(module) = open.pop() {
        for next in graph.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// Pairs of modules that depend on each other.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<(Module, Module)> {
    let reached: BTreeMap<_, _> = graph.keys().map(|module| (module, reachable(module, graph))).collect();
    let pairs = reached.iter().flat_map(|(a, of_a)| of_a.iter().map(move |b| ((*a).clone(), b.clone())));
    pairs.filter(|(a, b)| a < b && reached.get(b).is_some_and(|of_b| of_b.contains(a))).collect()
}

#[test]
fn no_circle_of_dependencies_crosses_a_module() {
    let graph = Sources::read().dependencies();
    assert!(graph.len() > 60, "only {} files", graph.len());
    let known = graph[&vec!["queue".to_owned(), "codel".to_owned()]].clone();
    assert!(known.contains(&vec!["packet".to_owned()]), "codel.rs names crate::packet: {known:?}");
    let across: Vec<_> = circles(&graph).into_iter().filter(|(a, b)| a[0] != b[0]).collect();
    assert!(across.is_empty(), "{across:#?}");
}

#[test]
fn files_of_a_module_depend_on_each_other_through_its_root_alone() {
    let sources = Sources::read();
    let is_root = |module: &Module| {
        sources.codes.keys().any(|other| other.len() > module.len() && other.starts_with(module))
    };
    let mut graph = sources.dependencies();
    graph.retain(|module, _| {
        !is_root(module) && !ONE_TYPE.contains(&module.first().map_or("", String::as_str))
    });
    for targets in graph.values_mut() {
        targets.retain(|target| !is_root(target));
    }
    let within = circles(&graph);
    assert!(within.is_empty(), "{within:#?}");
}

#[test]
fn radio_mac_queues_wires_and_routes_do_not_know_the_scenario() {
    let graph = Sources::read().dependencies();
    for (module, targets) in graph {
        let inner = ["radio", "mac", "queue", "routing", "wired", "packet", "engine"];
        if inner.contains(&module.first().map_or("", String::as_str)) {
            let scenario = targets.iter().find(|target| target[0] == "scenario");
            assert_eq!(scenario, None, "{module:?}");
        }
    }
}
