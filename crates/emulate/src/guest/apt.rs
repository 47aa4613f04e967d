//! Kernel packages from Debian's archive.
//!
//! apt gets a state of its own in the build folder, so that any suite can be used, nothing on the machine changes, and no
//! rights are needed. The archive is the one that the machine's own apt uses.

use std::cmp::Ordering;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use super::{GuestError, Kernel};

/// The environment variable that names another archive.
pub(super) const ARCHIVE_VARIABLE: &str = "FAIRHOP_DEBIAN_ARCHIVE";

/// Debian's keys, where the package debian-archive-keyring has them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads the newest package of a kernel series into `folder` and returns its path.
pub(super) fn download(kernel: Kernel, folder: &Path) -> Result<PathBuf, GuestError> {
    let apt = Apt::new(kernel, folder)?;
    apt.run("apt-get", &["--quiet", "update"])?;
    let prefix = format!("linux-image-{}", kernel.series());
    let names = apt.run("apt-cache", &["pkgnames", &prefix])?;
    let name = newest(kernel, &names).ok_or_else(|| GuestError::NoPackage {
        series: kernel.series(),
        suite: kernel.suite(),
        archive: apt.archive.clone(),
    })?;
    apt.run("apt-get", &["--quiet", "download", name])?;
    let entries = fs::read_dir(folder).map_err(|error| GuestError::io("read", folder, error))?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| GuestError::Tool { program: "apt-get", reason: format!("{name} was not downloaded") })
}

/// apt with a state of its own.
struct Apt<'a> {
    folder: &'a Path,
    archive: String,
    options: Vec<String>,
}

impl<'a> Apt<'a> {
    fn new(kernel: Kernel, folder: &'a Path) -> Result<Self, GuestError> {
        let archive = archive()?;
        let at = |name: &str| folder.join(name);
        for name in ["lists/partial", "archives/partial", "parts"] {
            fs::create_dir_all(at(name)).map_err(|error| GuestError::io("make", &at(name), error))?;
        }
        let signed_by =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        let source = format!("deb {signed_by}{archive} {} main\n", kernel.suite());
        fs::write(at("sources.list"), source)
            .map_err(|error| GuestError::io("write", &at("sources.list"), error))?;
        let options = [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", at("parts")),
            ("Dir::Etc::preferences", at("none")),
            ("Dir::Etc::preferencesparts", at("parts")),
            ("Dir::State::lists", at("lists")),
            ("Dir::State::status", PathBuf::from("/dev/null")),
            ("Dir::Cache", folder.to_owned()),
            ("Dir::Cache::archives", at("archives")),
            ("Acquire::Languages", PathBuf::from("none")),
            ("Acquire::Retries", PathBuf::from("3")),
            // The user _apt may not write into this folder.
            ("APT::Sandbox::User", PathBuf::from("root")),
        ];
        let options = options
            .iter()
            .flat_map(|(key, value)| ["-o".to_owned(), format!("{key}={}", value.display())])
            .collect();
        Ok(Self { folder, archive, options })
    }

    /// The output of an apt program.
    fn run(&self, program: &'static str, arguments: &[&str]) -> Result<String, GuestError> {
        let mut command = process::Command::new(program);
        command.args(&self.options).args(arguments).current_dir(self.folder).env("LC_ALL", "C");
        output(program, "apt", "it downloads kernels", &mut command)
    }
}

/// The address of the Debian archive that this machine uses.
fn archive() -> Result<String, GuestError> {
    if let Some(archive) = env::var(ARCHIVE_VARIABLE).ok().filter(|archive| !archive.is_empty()) {
        return Ok(archive);
    }
    let mut command = process::Command::new("apt-get");
    command
        .args(["indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(LABEL)", "Created-By: Packages"])
        .env("LC_ALL", "C");
    let targets = output("apt-get", "apt", "it downloads kernels", &mut command)?;
    archive_of(&targets).ok_or(GuestError::NoArchive)
}

/// Chooses the main archive from lines of "address component label". The label is known only after an update; before
/// one, the address has to do.
fn archive_of(targets: &str) -> Option<String> {
    let fields = || targets.lines().map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
    let labelled = fields().find(|fields| fields.get(1..) == Some(&["main", "Debian"]));
    let by_address = || {
        fields()
            .find(|fields| fields.first().is_some_and(|uri| uri.trim_end_matches('/').ends_with("/debian")))
    };
    Some(labelled.or_else(by_address)?.first()?.trim_end_matches('/').to_owned())
}

/// The newest of the packages that are ordinary kernels of a series.
fn newest(kernel: Kernel, names: &str) -> Option<&str> {
    let prefix = format!("linux-image-{}.", kernel.series());
    let version = |name: &str| Some(name.strip_prefix(&prefix)?.strip_suffix("-amd64")?.to_owned());
    names
        .lines()
        .filter_map(|name| Some((version(name)?, name)))
        .filter(|(version, _)| !version.ends_with("-rt") && !version.ends_with("-cloud"))
        .max_by(|(a, _), (b, _)| compare_versions(a, b))
        .map(|(_, name)| name)
}

/// Compares runs of digits as numbers and everything else as text.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| {
        text.split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u64>().ok())
            .collect::<Vec<_>>()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

/// Runs a program of the host to its end and returns its output.
pub(super) fn output(
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
    command: &mut process::Command,
) -> Result<String, GuestError> {
    let output = command.stdin(process::Stdio::null()).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => GuestError::Missing { program, purpose, package },
        _ => GuestError::io("run", Path::new(program), error),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    // apt's first error names the cause, others its consequences.
    let reason = lines().find(|line| line.starts_with("E:")).or_else(|| lines().next_back());
    Err(GuestError::Tool { program, reason: reason.map_or_else(|| output.status.to_string(), str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ordinary_kernel_of_the_series_is_chosen() {
        let names = "linux-image-6.12.9+deb12-amd64\nlinux-image-6.12.90+deb12-amd64\nlinux-image-6.12.90+deb12.1-amd64\n\
                     linux-image-6.12.95+deb12-rt-amd64\nlinux-image-6.12.94+deb12-cloud-amd64\nlinux-image-6.1.0-50-amd64\n\
                     linux-image-6.12.74+deb12-amd64-dbg\nlinux-image-6.12.93+deb12-amd64-unsigned\n";
        assert_eq!(newest(Kernel::V6_12, names), Some("linux-image-6.12.90+deb12.1-amd64"));
        assert_eq!(newest(Kernel::V6_1, names), Some("linux-image-6.1.0-50-amd64"));
        assert_eq!(newest(Kernel::V5_10, names), None);
    }

    #[test]
    fn the_archive_is_the_machines_own_and_neither_security_nor_a_third_partys() {
        let updated = "http://mirror/x/ main Someone\nhttp://mirror/security/ main Debian-Security\n\
                       http://mirror/d/ contrib Debian\nhttp://mirror/d/ main Debian\n";
        assert_eq!(archive_of(updated).as_deref(), Some("http://mirror/d"));
        let before =
            "http://mirror/x/ main \nhttp://mirror/debian-security/ main \nhttp://mirror/debian/ main \n";
        assert_eq!(archive_of(before).as_deref(), Some("http://mirror/debian"));
        assert_eq!(archive_of("http://mirror/ubuntu/ main Ubuntu\n"), None);
    }
}
