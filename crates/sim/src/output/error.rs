//! What can go wrong with files, always with the file's name and the mend.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use miette::Diagnostic;

/// A result could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something is already there.
    #[error("{} is already there; results are never overwritten", path.display())]
    Occupied {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as in "write".
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OutputError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Occupied { path },
            _ => Self::Io { action, path, source },
        }
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Occupied { path } | Self::Io { path, .. } => path,
        }
    }

    /// The mend.
    pub fn mend(&self) -> &'static str {
        match self {
            Self::Occupied { .. } => {
                "name a new or empty directory, or remove what is there if it is not needed any more"
            }
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    "free some space or write to another disk; captures take the most: \
                     capture fewer seconds, or no packets at all"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "write to a directory that is yours"
                }
                io::ErrorKind::NotFound => "it was removed while the program ran; run again",
                _ => "check the disk and the path",
            },
        }
    }
}

impl Diagnostic for OutputError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.mend()))
    }
}
