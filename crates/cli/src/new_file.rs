//! A file that an option names and a command writes at its end.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fairhop_sim::output::{Directory, OutputError};

use crate::failure::Failure;

/// A file that does not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct NewFile(PathBuf);

impl NewFile {
    /// A file at `path`, which `option` names. Nothing is made yet.
    ///
    /// # Errors
    /// It exists, or its folder does not.
    pub(crate) fn claim(option: &str, path: &Path) -> Result<Self, Failure> {
        let file = Self(path.to_owned());
        if fs::symlink_metadata(path).is_ok() {
            return Err(OutputError::Occupied { path: file.0 }.into());
        }
        let folder = file.folder();
        if !folder.is_dir() {
            return Err(Failure::new(
                format!("{option} {}: there is no directory {}", path.display(), folder.display()),
                "make the directory, or give another file",
            ));
        }
        Ok(file)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn folder(&self) -> &Path {
        self.0.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Writes it: the whole file or none.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        Directory::existing(self.folder()).write(&name, |file| file.write_all(content))?;
        Ok(())
    }
}
