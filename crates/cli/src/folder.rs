//! The folder of `--out`: made when there is something to put into it, and removed if it stays empty.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fairhop_sim::output::{Directory, OutputError};

/// A folder for results that may not exist yet.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The directory once it is made, and the folders made for it, the innermost first.
    made: Mutex<Option<(Directory, Vec<PathBuf>)>>,
}

impl Folder {
    /// A folder at `path`. Nothing is made yet.
    ///
    /// # Errors
    /// There is a file at the path, or something in the folder.
    pub(crate) fn claim(path: &Path) -> Result<Self, OutputError> {
        let path = path.to_owned();
        let occupied = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some())
            }
            Ok(_) => true,
            Err(_) => false,
        };
        if occupied { Err(OutputError::Occupied { path }) } else { Ok(Self { path, made: Mutex::default() }) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory. The first call makes it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn directory(&self) -> Result<Directory, OutputError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((directory, _)) = &*made {
            return Ok(directory.clone());
        }
        let missing = self.path.ancestors().filter(|path| !path.as_os_str().is_empty());
        let missing: Vec<PathBuf> = missing.take_while(|path| !path.exists()).map(Path::to_owned).collect();
        let directory = Directory::create(&self.path)?;
        *made = Some((directory.clone(), missing));
        Ok(directory)
    }

    /// Removes unfinished files, and the folders that were made here and are empty.
    pub(crate) fn tidy(&self) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, folders)) = &*made else { return };
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') && name.ends_with(".unfinished") {
                let _ = fs::remove_file(entry.path());
            }
        }
        // `remove_dir` fails on a folder that is not empty.
        let captures = self.path.join("pcap");
        for seed in fs::read_dir(&captures).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(seed.path());
        }
        for folder in iter::once(&captures).chain(folders) {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_removed_with_those_made_above_it_and_a_full_one_stays() {
        let base = tempfile::tempdir().expect("a folder");
        let path = base.path().join("a/b");
        let folder = Folder::claim(&path).expect("free");
        assert!(!path.exists());
        folder.directory().expect("made");
        fs::write(path.join(".summary.json.unfinished"), "half").expect("a file");
        fs::create_dir_all(path.join("pcap/seed-1")).expect("a folder");
        folder.tidy();
        assert!(!base.path().join("a").exists() && base.path().exists());

        let folder = Folder::claim(&path).expect("free");
        folder.directory().expect("made").write_text("x", "result").expect("written");
        folder.tidy();
        assert!(path.join("x").exists());
        assert!(Folder::claim(&path).is_err());

        // A folder of the user's stays, empty or not.
        let own = base.path().join("own");
        fs::create_dir(&own).expect("a folder");
        let folder = Folder::claim(&own).expect("empty");
        folder.directory().expect("there");
        folder.tidy();
        assert!(own.exists());
    }
}
