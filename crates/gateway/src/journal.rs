//! Decisions on disk: bounded, readable line by line, and where a controller begins after a restart.
//!
//! A journal is two files, `NAME.journal` and `NAME.journal.old`, of half the configured size each, with one JSON object a
//! line. A line that was cut by a crash is skipped. A disk that is full costs decisions in the journal and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::status::DecisionStatus;

/// Longest line that is read.
const MAX_LINE: usize = 4096;

/// A decision with its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since 1970.
    pub unix_s: f64,
    /// Name of the gateway.
    pub gateway: String,
    /// Mode at that time.
    pub mode: String,
    /// Number of calls.
    pub calls: usize,
    /// The decision.
    #[serde(flatten)]
    pub decision: DecisionStatus,
}

/// The journal of a gateway.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
}

impl Journal {
    /// Opens the journal of `name` in a folder, which is made if it does not exist; at most `max_kb` kB are kept.
    ///
    /// # Errors
    /// The folder or the file cannot be made.
    pub fn open(folder: &Path, name: &str, max_kb: u32) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = path_of(folder, name);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, max_bytes: max_bytes(max_kb) })
    }

    /// Whether [`Journal::open`] with these values would give the same journal.
    pub fn is_for(&self, folder: &Path, name: &str, max_kb: u32) -> bool {
        self.path == path_of(folder, name) && self.max_bytes == max_bytes(max_kb)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The disk is full, or the file is gone.
    pub fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        if self.bytes + line.len() as u64 > self.max_bytes {
            fs::rename(&self.path, old(&self.path))?;
            self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.bytes = 0;
        }
        // One write, so that a crash cuts at most one line.
        self.file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// The entries of the journal, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = read(&old(&self.path));
        entries.append(&mut read(&self.path));
        entries
    }

    /// The budget to begin with, in bits per second times price: that of the last decision with one, if it is at most
    /// `max_age_s` old and was made in a mode in which budgets have an effect.
    pub fn budget(&self, now_unix_s: f64, max_age_s: f64) -> Option<f64> {
        let entries = self.entries();
        let last = entries.iter().rev().find(|entry| entry.decision.budget_kbps.is_some())?;
        let age_s = now_unix_s - last.unix_s;
        // After a step of the clock, the age may be negative.
        let is_recent = age_s.abs() <= max_age_s && last.mode == "live";
        last.decision.budget_kbps.filter(|_| is_recent).map(|kbps| kbps * 1e3)
    }
}

fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.journal"))
}

/// Of each of the two files.
const fn max_bytes(max_kb: u32) -> u64 {
    max_kb as u64 * 1000 / 2
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("journal.old")
}

fn read(path: &Path) -> Vec<Entry> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    BufReader::new(file)
        .split(b'\n')
        .map_while(Result::ok)
        .filter(|line| line.len() <= MAX_LINE)
        .filter_map(|line| serde_json::from_slice(&line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: f64, budget_kbps: Option<f64>) -> Entry {
        let decision =
            DecisionStatus { state: "steady".into(), why: "holds".into(), budget_kbps, ..Default::default() };
        Entry { unix_s: at, gateway: "roof".into(), mode: "live".into(), calls: 5, decision }
    }

    #[test]
    fn a_journal_survives_a_restart_and_a_line_that_was_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::open(folder.path(), "roof", 64).expect("a journal");
        journal.add(&entry(1000.0, Some(2500.0))).expect("a line");
        journal.add(&entry(1001.0, None)).expect("a line");
        drop(journal);
        let mut file =
            OpenOptions::new().append(true).open(folder.path().join("roof.journal")).expect("a file");
        file.write_all(b"{\"unix_s\":1002,\"gate").expect("a cut line");
        let journal = Journal::open(folder.path(), "roof", 64).expect("a journal");
        assert_eq!(journal.entries().len(), 2);
        assert_eq!(journal.budget(1060.0, 3600.0), Some(2.5e6));
        assert_eq!(journal.budget(9000.0, 3600.0), None, "too old");
        // A step of the clock, back or ahead, costs at most the continuation.
        assert_eq!(journal.budget(900.0, 3600.0), Some(2.5e6));
        assert_eq!((journal.budget(-9e9, 3600.0), journal.budget(9e9, 3600.0)), (None, None));
    }

    #[test]
    fn a_budget_from_a_dry_run_is_not_continued() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::open(folder.path(), "roof", 64).expect("a journal");
        journal.add(&Entry { mode: "dry-run".into(), ..entry(1000.0, Some(2500.0)) }).expect("a line");
        assert_eq!(journal.budget(1000.0, 3600.0), None);
    }

    #[test]
    fn a_journal_is_never_larger_than_configured_and_keeps_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::open(folder.path(), "roof", 16).expect("a journal");
        for at in 0..500 {
            journal.add(&entry(f64::from(at), Some(1.0))).expect("a line");
        }
        let files = fs::read_dir(folder.path()).expect("a folder");
        let bytes: u64 = files.map(|file| file.and_then(|f| f.metadata()).map_or(0, |m| m.len())).sum();
        assert!(bytes <= 16_000, "{bytes}");
        let entries = journal.entries();
        assert_eq!(entries.last().map(|entry| entry.unix_s), Some(499.0));
        assert!(entries.len() > 20 && entries.windows(2).all(|pair| pair[0].unix_s < pair[1].unix_s));
    }
}
