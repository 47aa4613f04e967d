//! Finds the scenario: a file, a ready-made one, or standard input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fairhop_sim::scenario::{self, Loaded, Override, ScenarioErrors};
use fairhop_sim::world::World;

/// Files larger than a scenario may be are not read to their end.
const MAX_BYTES: u64 = scenario::MAX_TEXT_BYTES as u64;

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be found or read.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// It, or a change to it, is wrong.
    #[error(transparent)]
    Wrong(#[from] ScenarioErrors),
}

/// A scenario that cannot be found or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unavailable {
    /// What is wrong, with the name of the file.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl Unavailable {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.message, self.help)
    }
}

/// The text of a scenario, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in errors: the file's.
    pub name: String,
    /// The text.
    pub text: String,
    /// The folder to which paths in the text are relative.
    pub folder: PathBuf,
}

impl Source {
    /// Finds and reads a scenario: a file, the name of a ready-made scenario, or `-` for standard input. A file takes
    /// precedence over a ready-made scenario of the same name.
    ///
    /// # Errors
    /// It cannot be found or read.
    pub fn find(which: &Path) -> Result<Self, Unavailable> {
        let name = which.display().to_string();
        if name == "-" {
            let name = "standard input".to_owned();
            return Ok(Self { text: read(&name, io::stdin().lock())?, name, folder: folder_of(which) });
        }
        match (scenario::ready_made(&name), fs::metadata(which)) {
            (Some(_), Ok(found)) if found.is_dir() => Self::ready_made(&name),
            (Some(_), Err(_)) => Self::ready_made(&name),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(unknown(which, Wanted::Any)),
            _ => Self::file(which),
        }
    }

    /// Reads the scenario of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn file(path: &Path) -> Result<Self, Unavailable> {
        let name = path.display().to_string();
        let text = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(directory(&name)),
            Ok(_) => read(&name, File::open(path).map_err(|error| unreadable(&name, &error))?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown(path, Wanted::File)),
            Err(error) => return Err(unreadable(&name, &error)),
        };
        Ok(Self { name, text, folder: folder_of(path) })
    }

    /// A ready-made scenario.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn ready_made(name: &str) -> Result<Self, Unavailable> {
        let ready = scenario::ready_made(name).ok_or_else(|| unknown(Path::new(name), Wanted::ReadyMade))?;
        Ok(Self { name: ready.file_name(), text: ready.text.to_owned(), folder: PathBuf::new() })
    }

    /// Checks the scenario with changes.
    ///
    /// # Errors
    /// It or a change is wrong.
    pub fn load(&self, overrides: &[Override]) -> Result<Loaded, ScenarioErrors> {
        scenario::load_with(&self.name, &self.text, overrides, |file| {
            let path = self.folder.join(file);
            match fs::metadata(&path) {
                Ok(found) if found.len() > MAX_BYTES => {
                    Err(format!("it is larger than {} MiB", MAX_BYTES >> 20))
                }
                Ok(_) => fs::read_to_string(&path).map_err(|error| reason(&error)),
                Err(error) => Err(reason(&error)),
            }
        })
    }
}

/// Finds, reads, changes and checks a scenario.
///
/// # Errors
/// It cannot be found or read, or it or the overrides are wrong.
pub fn load(which: &Path, overrides: &[Override]) -> Result<Loaded, SourceError> {
    Ok(Source::find(which)?.load(overrides)?)
}

/// Why a checked scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// At places in its text: no route, nodes that cannot be connected.
    #[error(transparent)]
    Wrong(#[from] ScenarioErrors),
    /// Without a place.
    #[error("the scenario cannot be simulated: {0}")]
    Other(String),
}

/// The network of a scenario. Problems that only show once nodes are placed are reported at their place in the text.
///
/// # Errors
/// It cannot be built: no route, nodes that cannot be connected.
pub fn build(loaded: &Loaded, seed: u64) -> Result<World, BuildError> {
    World::new(&loaded.scenario, seed).map_err(|findings| {
        let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        match loaded.locate(findings) {
            Some(errors) => BuildError::Wrong(errors),
            None => BuildError::Other(text),
        }
    })
}

/// Consecutive seeds; none if there are not that many from `first` on.
pub fn seeds(first: u64, count: u32) -> Option<Vec<u64>> {
    let last = first.checked_add(u64::from(count).checked_sub(1)?)?;
    Some((first..=last).collect())
}

/// The system's message without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or_else(|| Path::new("")).to_owned()
}

fn directory(name: &str) -> Unavailable {
    Unavailable::new(
        format!("{name} is a directory, not a scenario"),
        "give a file in it that ends in .toml, or a ready-made scenario (`fairhop scenarios` lists them)",
    )
}

fn read(name: &str, source: impl Read) -> Result<String, Unavailable> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Unavailable::new(
            format!("{name} is larger than {} MiB", MAX_BYTES >> 20),
            "a scenario is a short text in TOML; is this the right file?",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        Unavailable::new(
            format!("{name} is not a text: byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1),
            "a scenario is a text in TOML and UTF-8; is this the right file?",
        )
    })
}

fn unreadable(name: &str, error: &io::Error) -> Unavailable {
    Unavailable::new(format!("cannot read {name}: {}", reason(error)), "check the path and its permissions")
}

/// What a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A file or a ready-made scenario.
    Any,
    /// A file.
    File,
    /// A ready-made scenario.
    ReadyMade,
}

/// The error for an unknown scenario, with a similar name if there is one.
pub fn unknown(which: &Path, wanted: Wanted) -> Unavailable {
    const LIST: &str = "`fairhop scenarios` lists the ready-made ones";
    let name = which.display();
    let stem = which.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let looks_like_file = which.extension().is_some() || which.components().count() > 1;
    let message = match wanted {
        Wanted::ReadyMade => format!("there is no ready-made scenario called {name}"),
        Wanted::File => format!("there is no file {name}"),
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
    Unavailable::new(message, help)
}
