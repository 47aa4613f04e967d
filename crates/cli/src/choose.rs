//! Finds the scenario: a file, a ready-made one, or standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use fairhop_sim::scenario::{self, Loaded, Override};
use miette::Diagnostic;

use crate::failure::{Failure, reason};
use crate::ui;

/// Files larger than a scenario may be are not read to their end.
const MAX_BYTES: u64 = scenario::MAX_TEXT_BYTES as u64;

/// Reads, checks and changes a scenario.
///
/// # Errors
/// It cannot be found or read, or it or the overrides are wrong.
pub(crate) fn load(which: &Path, overrides: &[Override]) -> Result<Loaded, Failure> {
    let (name, text) = find(which)?;
    let folder = which.parent().unwrap_or_else(|| Path::new(""));
    let loaded = scenario::load_with(&name, &text, overrides, |file| {
        let path = folder.join(file);
        match fs::metadata(&path) {
            Ok(found) if found.len() > MAX_BYTES => Err(format!("it is larger than {} MiB", MAX_BYTES >> 20)),
            Ok(_) => fs::read_to_string(&path).map_err(|error| reason(&error).to_string()),
            Err(error) => Err(reason(&error).to_string()),
        }
    })?;
    ui::diagnose(loaded.warnings().iter().map(|warning| warning as &dyn Diagnostic));
    Ok(loaded)
}

/// The name and the text of a scenario. A file takes precedence over a ready-made scenario of the same name.
fn find(which: &Path) -> Result<(String, String), Failure> {
    let name = which.display().to_string();
    if name == "-" {
        return Ok(("standard input".to_owned(), read("standard input", io::stdin().lock())?));
    }
    let ready = scenario::ready_made(&name);
    match (fs::metadata(which), ready) {
        (Ok(found), Some(ready)) if found.is_dir() => Ok((ready.file_name(), ready.text.to_owned())),
        (Ok(found), None) if found.is_dir() => Err(Failure::new(
            format!("{name} is a directory, not a scenario"),
            "give a file in it that ends in .toml, or a ready-made scenario (`fairhop scenarios` lists them)",
        )),
        (Ok(_), _) => {
            let file = File::open(which).map_err(|error| unreadable(&name, &error))?;
            Ok((name.clone(), read(&name, file)?))
        }
        (Err(_), Some(ready)) => Ok((ready.file_name(), ready.text.to_owned())),
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => Err(unknown(which, Wanted::Any)),
        (Err(error), None) => Err(unreadable(&name, &error)),
    }
}

fn read(name: &str, source: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(
            format!("{name} is larger than {} MiB", MAX_BYTES >> 20),
            "a scenario is a short text in TOML; is this the right file?",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::new(
            format!("{name} is not a text: byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1),
            "a scenario is a text in TOML and UTF-8; is this the right file?",
        )
    })
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {name}: {}", reason(error)), "check the path and its permissions")
}

/// What a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A file or a ready-made scenario.
    Any,
    /// A ready-made scenario.
    ReadyMade,
}

/// The error for an unknown scenario, with a similar name if there is one.
pub(crate) fn unknown(which: &Path, wanted: Wanted) -> Failure {
    const LIST: &str = "`fairhop scenarios` lists the ready-made ones";
    let name = which.display();
    let stem = which.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let looks_like_file = which.extension().is_some() || which.components().count() > 1;
    let message = match wanted {
        Wanted::ReadyMade => format!("there is no ready-made scenario called {name}"),
        Wanted::Any if looks_like_file => format!("there is no file {name}"),
        Wanted::Any => format!("there is neither a file nor a ready-made scenario called {name}"),
    };
    let help = match (scenario::ready_made(stem), scenario::nearest_ready_made(stem)) {
        (Some(ready), _) => {
            format!("{} is ready-made: give its name without folder and extension", ready.name)
        }
        (None, Some(nearest)) => format!("did you mean {nearest}? {LIST}"),
        (None, None) => LIST.to_owned(),
    };
    Failure::new(message, help)
}
