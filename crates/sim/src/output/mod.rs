//! What a run leaves on disk: tables, captures and pictures.
//!
//! | module | what it writes |
//! |---|---|
//! | [`tables`] | Parquet tables, and `summary.json` |
//! | [`capture`] | one pcapng file a node, for Wireshark |
//! | [`chart`] | runs side by side as an SVG |
//! | [`trace`] | windows and queues, sampled finely, as comma-separated values |
//!
//! Results are never overwritten, and each file can be read alone: it holds the resolved scenario, the seeds and the
//! version of the program. Nothing depends on the wall clock, so that equal runs leave equal bytes.

pub mod capture;
pub mod chart;
mod error;
mod pcapng;
mod table;
pub mod tables;
pub mod trace;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub use error::OutputError;

/// What result files name as their origin.
pub const PROGRAM: &str = concat!("fairhop ", env!("CARGO_PKG_VERSION"));

/// A directory that holds the results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes the directory, and those above it where they are missing. One that exists is taken if it is empty.
    ///
    /// # Errors
    /// There is something in it, it is not a directory, or it cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, OutputError> {
        let path = path.into();
        let failed = |error| OutputError::io("make the directory", &path, error);
        match fs::metadata(&path) {
            Ok(found) if !found.is_dir() => return Err(OutputError::Occupied { path }),
            Ok(_) => {
                if fs::read_dir(&path).map_err(failed)?.next().is_some() {
                    return Err(OutputError::Occupied { path });
                }
            }
            Err(_) => fs::create_dir_all(&path).map_err(failed)?,
        }
        Ok(Self { path })
    }

    /// The current folder, whatever is in it; no file of it is overwritten either.
    pub fn current() -> Self {
        Self { path: PathBuf::from(".") }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file under a temporary name and renames it when it is complete, so that no reader finds half a file.
    ///
    /// # Errors
    /// The file exists, or it cannot be written; then nothing is left of it.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<PathBuf, OutputError> {
        let path = self.path.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(OutputError::Occupied { path });
        }
        let unfinished = self.path.join(format!(".{name}.unfinished"));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .and_then(|file| {
                let mut writer = BufWriter::with_capacity(1 << 16, file);
                content(&mut writer)?;
                writer.flush()
            })
            .and_then(|()| fs::rename(&unfinished, &path));
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                // The error that counts is the first one.
                let _ = fs::remove_file(&unfinished);
                Err(OutputError::io("write", &path, error))
            }
        }
    }

    /// Writes a text.
    ///
    /// # Errors
    /// As [`Directory::write`].
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf, OutputError> {
        self.write(name, |file| file.write_all(text.as_bytes()))
    }
}
