//! Virtual time: programs in a guest whose clock is its instruction count.
//!
//! A guest is a stock Debian kernel in QEMU's emulator (TCG, no KVM) with one virtual CPU and `-icount shift=0,sleep=off`:
//! an instruction takes 1 ns of the guest's time, and an idle guest jumps to its next timer. So a loaded machine makes a
//! run longer, but does not change its figures.
//!
//! | module | part |
//! |---|---|
//! | `apt` | downloads a kernel package, with a private apt state |
//! | `image` | kernel and modules in the cache folder, each image complete or absent |
//! | `bzimage` | the kernel inside a `vmlinuz` |
//! | `files` | which of the host's files a guest gets: programs with their libraries |
//! | `cpio` | the archive from which a kernel fills its root |
//! | `command` | what runs in a guest: any command, or this very program once more |
//! | `run` | QEMU: starts a guest, streams its output, brings results back, ends it |
//! | `folder` | streams and results of one run on the host |
//!
//! **Repeatable.** While the command runs, the guest does no input or output whose duration is the host's: its files are in
//! memory from the start, and results leave when the command has ended. QEMU's threads take turns. The real-time clock
//! starts at a fixed date, and random numbers come from a seed. Then two runs of a command are equal, to the nanosecond as far
//! as it was measured ([validation](../../../../docs/validation/emulator.md)). With [`HostFiles::Shared`] the whole file system of the
//! host is visible; waiting for a file then makes the guest's clock leap.
//!
//! **Left out.** More than one virtual CPU, other architectures than x86-64, network access from a guest, input to the
//! command (its standard input is empty).

mod apt;
mod bzimage;
mod command;
mod cpio;
mod error;
mod files;
mod folder;
mod image;
mod run;

use std::fmt;
use std::str::FromStr;

pub use command::Command;
pub use error::GuestError;
pub use run::{Finished, Guest, HostFiles};

/// The kernels that can be run: series of Debian's own packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// 5.10, of Debian 11.
    V5_10,
    /// 6.1, of Debian 12.
    #[default]
    V6_1,
    /// 6.12, of Debian 12's backports.
    V6_12,
}

impl Kernel {
    /// All, oldest first.
    pub const ALL: [Self; 3] = [Self::V5_10, Self::V6_1, Self::V6_12];

    /// The series, as in "6.12".
    pub fn series(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        }
    }

    /// The suite of Debian's archive that has the series.
    fn suite(self) -> &'static str {
        match self {
            Self::V5_10 => "bullseye",
            Self::V6_1 => "bookworm",
            Self::V6_12 => "bookworm-backports",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.series())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kernel| kernel.series() == text)
            .ok_or_else(|| format!("no kernel `{text}`; possible are 5.10, 6.1 and 6.12"))
    }
}
