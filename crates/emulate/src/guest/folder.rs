//! The folder of a run: streams, archive and results of one guest.
//!
//! It is removed with the run. A locked file in it says that its run is alive; what killed processes have left is removed
//! by the next run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::GuestError;
use super::image::cache;

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    pub(super) fn create() -> Result<Self, GuestError> {
        let runs = cache()?.join("runs");
        fs::create_dir_all(&runs).map_err(|error| GuestError::io("make", &runs, error))?;
        sweep(&runs);
        let failed = |error| GuestError::io("make a folder in", &runs, error);
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&runs).map_err(failed)?;
        // Renamed once it is locked: an unlocked `lock` is one whose process has ended.
        let early = folder.path().join("early");
        let lock = File::create(&early).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        fs::rename(&early, folder.path().join("lock")).map_err(failed)?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of runs whose process has ended. What cannot be removed stays.
fn sweep(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let dead = File::open(entry.path().join("lock"))
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if dead {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Moves a file or folder, if it exists, to a place that is free or a folder with none of its names.
pub(super) fn bring(from: &Path, to: &Path) -> Result<(), GuestError> {
    let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
    let failed = |error| GuestError::io("write", to, error);
    let target = fs::metadata(to).ok();
    if target.is_none() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(|error| GuestError::io("make", parent, error))?;
        }
        if fs::rename(from, to).is_ok() {
            return Ok(());
        }
    }
    if found.is_dir() {
        if target.is_none() {
            fs::create_dir(to).map_err(failed)?;
        }
        let entries = fs::read_dir(from).map_err(|error| GuestError::io("read", from, error))?;
        let mut names: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.file_name().into())).collect();
        names.sort();
        return names.iter().try_for_each(|name| bring(&from.join(name), &to.join(name)));
    }
    if target.is_some() {
        return Err(failed(io::Error::from(io::ErrorKind::AlreadyExists)));
    }
    // Another file system.
    fs::copy(from, to).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_join_a_folder_and_overwrite_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["from/deep", "to/deep"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("from/deep/new"), "1").unwrap();
        bring(&at("from"), &at("to")).unwrap();
        assert_eq!(fs::read_to_string(at("to/deep/new")).unwrap(), "1");

        fs::write(at("from/deep/new"), "2").unwrap();
        let error = bring(&at("from"), &at("to")).unwrap_err();
        assert!(error.to_string().contains("to/deep/new: entity already exists"), "{error}");
        assert_eq!(fs::read_to_string(at("to/deep/new")).unwrap(), "1");
        bring(&at("absent"), &at("other")).unwrap();
        assert!(!at("other").exists());
    }

    #[test]
    fn folders_of_ended_runs_are_swept_and_others_stay() {
        let runs = tempfile::tempdir().unwrap();
        for name in ["dead", "alive", "starting"] {
            fs::create_dir(runs.path().join(name)).unwrap();
        }
        File::create(runs.path().join("dead/lock")).unwrap();
        let alive = File::create(runs.path().join("alive/lock")).unwrap();
        flock(&alive, FlockOperation::LockExclusive).unwrap();
        sweep(runs.path());
        let mut left: Vec<_> =
            fs::read_dir(runs.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["alive", "starting"]);
    }
}
