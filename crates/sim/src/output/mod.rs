//! Output files of runs: tables, captures, charts and traces.
//!
//! | module | output |
//! |---|---|
//! | [`tables`] | Parquet tables, and `summary.json` |
//! | [`columns`] | the same tables in memory, column by column |
//! | [`capture`] | one pcapng file per node, for Wireshark |
//! | [`chart`] | runs as SVG: several scenarios side by side, or one with its nodes |
//! | [`svg`] | elements of pictures |
//! | [`trace`] | finely sampled windows, queues and call quality as CSV |
//!
//! Files are never overwritten. Each file can be read alone: it holds the resolved scenario, the seeds and the version of the
//! program. No content depends on the wall clock, so equal runs write equal bytes.

pub mod capture;
pub mod chart;
pub mod columns;
mod error;
mod pcapng;
pub mod svg;
mod table;
pub mod tables;
pub mod trace;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub use error::OutputError;

/// Program and version, as named in output files.
pub const PROGRAM: &str = concat!("fairhop ", env!("CARGO_PKG_VERSION"));

/// A directory for the results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Creates the directory and its missing parents. An existing directory is used if it is empty.
    ///
    /// # Errors
    /// The directory is not empty, the path is not a directory, or it cannot be created.
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

    /// The current directory, empty or not. Its files are not overwritten either.
    pub fn current() -> Self {
        Self::existing(".")
    }

    /// A directory that exists, empty or not. Its files are not overwritten either.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file under a temporary name and renames it when it is complete, so that no reader sees a partial file.
    ///
    /// # Errors
    /// The file exists or cannot be written. A partial file is removed.
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
                // The first error is the one to report.
                let _ = fs::remove_file(&unfinished);
                Err(OutputError::io("write", &path, error))
            }
        }
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// As [`Directory::write`].
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf, OutputError> {
        self.write(name, |file| file.write_all(text.as_bytes()))
    }
}
