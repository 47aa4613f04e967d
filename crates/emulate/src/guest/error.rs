//! What can go wrong with a guest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Why a guest could not be prepared, or could not finish its command. A command that fails is not an error: see
/// [`Finished::status`](super::Finished::status).
#[derive(Debug, Error)]
pub enum GuestError {
    /// Guests run the host's programs, so that both have the same architecture.
    #[error("guests need an x86-64 machine; this one is {machine}")]
    Machine {
        /// The architecture of this program.
        machine: &'static str,
    },
    /// A program of the host that a guest needs.
    #[error("{program} is not installed; {purpose}")]
    Missing {
        /// The program.
        program: &'static str,
        /// What it is needed for.
        purpose: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// The command to run in the guest.
    #[error("no program `{program}` on this machine")]
    NoProgram {
        /// As it was named.
        program: String,
    },
    /// A path that a guest cannot have.
    #[error("{} cannot be used in a guest: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// No Debian archive in apt's configuration.
    #[error("apt on this machine has no Debian archive to download kernels from")]
    NoArchive,
    /// The archive does not have the series.
    #[error("{suite} in {archive} has no package of a kernel {series}")]
    NoPackage {
        /// As in "6.12".
        series: &'static str,
        /// Debian's suite.
        suite: &'static str,
        /// Its address.
        archive: String,
    },
    /// A program of the host that failed while an image was built.
    #[error("{program} failed: {reason}")]
    Tool {
        /// The program.
        program: &'static str,
        /// Its message.
        reason: String,
    },
    /// There is no folder for images.
    #[error("no folder for guests: neither XDG_CACHE_HOME nor HOME is an absolute path")]
    NoCache,
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
    /// QEMU ended before the command began, or the guest could not run it.
    #[error("the guest did not start: {reason}")]
    NotStarted {
        /// The last words of QEMU or of the guest's kernel.
        reason: String,
    },
    /// The guest's kernel gave up.
    #[error("the guest's kernel panicked: {message}")]
    Panicked {
        /// The kernel's message.
        message: String,
    },
    /// The guest's kernel killed a process to get memory.
    #[error("the guest ran out of memory ({memory_mib} MiB)")]
    OutOfMemory {
        /// What the guest had.
        memory_mib: u32,
    },
    /// QEMU ended while the command ran.
    #[error("the guest ended before its command: {reason}")]
    Ended {
        /// The last words of QEMU or of the guest's kernel.
        reason: String,
    },
    /// The command took too long.
    #[error("the guest was still running after {} s of wall time", limit.as_secs_f64())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The caller asked for the end.
    #[error("interrupted; the guest was ended, and its results are lost")]
    Interrupted,
    /// The command ended, and its results could not be copied to the host.
    #[error("the results could not be copied out of the guest: {reason}")]
    Results {
        /// The guest's message.
        reason: String,
    },
}

impl GuestError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// How to fix it, as a sentence without a full stop.
    pub fn fix(&self) -> String {
        match self {
            Self::Machine { .. } => "run without virtual time, or on an x86-64 machine".to_owned(),
            Self::Missing { package, .. } => format!("apt-get install {package} (as root)"),
            Self::NoProgram { .. } => "install it, or check the spelling".to_owned(),
            Self::Path { .. } => "choose another path".to_owned(),
            Self::NoArchive => format!("set {} to the address of a Debian archive", super::apt::ARCHIVE_VARIABLE),
            Self::NoPackage { .. } => {
                format!("choose another kernel, or set {} to another archive", super::apt::ARCHIVE_VARIABLE)
            }
            Self::Tool { program, .. } if *program == "apt-get" => {
                "check that this machine reaches the archive, and that the package debian-archive-keyring is installed"
                    .to_owned()
            }
            Self::Tool { .. } => "check the message above, and the space below the cache folder".to_owned(),
            Self::NoCache => "set XDG_CACHE_HOME to a folder with 1 GB of free space".to_owned(),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space: building a guest takes 1 GB, a built one 100 MB".to_owned()
                }
                _ => "check that it exists and that you may use it".to_owned(),
            },
            Self::NotStarted { .. } | Self::Panicked { .. } => {
                "try another kernel; if all fail, report it with the message above".to_owned()
            }
            Self::OutOfMemory { .. } => "give the guest more memory, or write less into files".to_owned(),
            Self::Ended { .. } => "the command must not shut the guest down; see the message above".to_owned(),
            Self::Timeout { .. } => "allow more time, or make the run shorter".to_owned(),
            Self::Interrupted => "start it again".to_owned(),
            Self::Results { .. } => "check the space and the rights of the folder for results".to_owned(),
        }
    }
}
