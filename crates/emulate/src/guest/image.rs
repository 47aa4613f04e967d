//! Images of guests: a kernel and its modules, made from Debian's package without installing it.
//!
//! An image is a folder below `$XDG_CACHE_HOME/fairhop/guests` that is complete or absent: it is built under another name
//! and renamed. A lock lets one process build at a time; what a killed one left is removed by the next.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, flock};

use super::apt::output;
use super::{GuestError, Kernel, apt, bzimage, cpio};

/// Counts changes of what an image holds, so that images of another version of the program are not used.
const RECIPE: u32 = 3;

/// Modules of an image, by the start of their path below `kernel/`: everything for networks, and what a guest needs.
/// The modules on which they depend come with them.
const MODULES: &[&str] = &[
    "crypto/crc32c_generic",
    "drivers/char/virtio_console",
    "drivers/net/bonding/",
    "drivers/net/dummy",
    "drivers/net/ifb",
    "drivers/net/ipvlan/",
    "drivers/net/macvlan",
    "drivers/net/macvtap",
    "drivers/net/tap",
    "drivers/net/tun",
    "drivers/net/veth",
    "drivers/net/vrf",
    "drivers/net/vxlan",
    "drivers/net/wireguard/",
    // The folder of the first is that of 6.4 and later.
    "drivers/net/wireless/virtual/mac80211_hwsim",
    "drivers/net/wireless/mac80211_hwsim",
    "drivers/virtio/virtio_pci",
    "fs/9p/",
    "fs/overlayfs/",
    "net/802/",
    "net/8021q/",
    "net/9p/9pnet_virtio",
    "net/batman-adv/",
    "net/bridge/",
    "net/ipv4/",
    "net/ipv6/",
    "net/llc/",
    "net/mpls/",
    "net/netfilter/",
    "net/netlink/",
    "net/packet/",
    "net/sched/",
    "net/unix/",
    "net/xfrm/",
];

/// A kernel that can be started.
#[derive(Clone, Debug)]
pub(super) struct Image {
    folder: PathBuf,
}

impl Image {
    /// The image of a kernel, built before if it is absent: about 60 MB are downloaded and 20 s computed.
    pub(super) fn of(kernel: Kernel) -> Result<Self, GuestError> {
        let guests = cache()?;
        let image = Self { folder: guests.join(format!("{kernel}-{RECIPE}")) };
        if image.folder.exists() {
            return Ok(image);
        }
        fs::create_dir_all(&guests).map_err(|error| GuestError::io("make", &guests, error))?;
        let _lock = lock(&guests)?;
        if !image.folder.exists() {
            let building = guests.join("building");
            remove(&building)?;
            let built = build(kernel, &building).and_then(|finished| {
                fs::rename(&finished, &image.folder)
                    .map_err(|error| GuestError::io("make", &image.folder, error))
            });
            remove(&building)?;
            built?;
        }
        Ok(image)
    }

    /// The kernel as QEMU loads it.
    pub(super) fn kernel(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    /// An archive with the modules.
    pub(super) fn modules(&self) -> PathBuf {
        self.folder.join("modules.cpio")
    }
}

/// The folder of all images.
pub(super) fn cache() -> Result<PathBuf, GuestError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.ok_or(GuestError::NoCache)?.join("fairhop/guests"))
}

/// Waits until no other process builds. The lock ends when the file is closed.
fn lock(guests: &Path) -> Result<File, GuestError> {
    let path = guests.join("lock");
    let file = File::create(&path).map_err(|error| GuestError::io("write", &path, error))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| GuestError::io("lock", &path, io::Error::from(error)))?;
    Ok(file)
}

fn remove(folder: &Path) -> Result<(), GuestError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GuestError::io("remove", folder, error)),
        _ => Ok(()),
    }
}

/// Builds an image in a folder below `building` and returns it.
fn build(kernel: Kernel, building: &Path) -> Result<PathBuf, GuestError> {
    let at = |name: &str| building.join(name);
    for name in ["apt", "package", "image", "tree/usr/lib/modules"] {
        fs::create_dir_all(at(name)).map_err(|error| GuestError::io("make", &at(name), error))?;
    }
    let package = apt::download(kernel, &at("apt"))?;
    let mut unpack = process::Command::new("dpkg-deb");
    output("dpkg-deb", "dpkg", "it unpacks kernels", unpack.arg("-x").args([&package, &at("package")]))?;
    // From Debian 13 on, packages have /usr/lib/modules; depmod looks for either.
    link_lib(&at("package"))?;
    link_lib(&at("tree"))?;

    let folder = at("package/lib/modules");
    let release = fs::read_dir(&folder)
        .ok()
        .and_then(|mut entries| entries.next()?.ok()?.file_name().into_string().ok())
        .ok_or_else(|| GuestError::Tool {
            program: "dpkg-deb",
            reason: "the package has no modules".to_owned(),
        })?;
    depmod(&at("package"), &release)?;
    select(&folder.join(&release), &at("tree/usr/lib/modules").join(&release))?;
    depmod(&at("tree"), &release)?;

    archive(&at("tree/usr"), &at("image/modules.cpio"))?;
    let vmlinuz = at("package/boot").join(format!("vmlinuz-{release}"));
    let content = fs::read(&vmlinuz).map_err(|error| GuestError::io("read", &vmlinuz, error))?;
    let kernel = at("image/kernel");
    if !bzimage::extract(&content, &kernel) {
        fs::write(&kernel, content).map_err(|error| GuestError::io("write", &kernel, error))?;
    }
    Ok(at("image"))
}

/// Makes `lib` a link to `usr/lib` where there is no `lib`.
fn link_lib(root: &Path) -> Result<(), GuestError> {
    let lib = root.join("lib");
    if lib.exists() {
        return Ok(());
    }
    symlink("usr/lib", &lib).map_err(|error| GuestError::io("make", &lib, error))
}

fn depmod(root: &Path, release: &str) -> Result<(), GuestError> {
    // Not in the PATH of ordinary users on Debian.
    let sbin = Path::new("/usr/sbin/depmod");
    let mut command = process::Command::new(if sbin.exists() { sbin } else { Path::new("depmod") });
    command.arg("-b").arg(root).arg(release);
    output("depmod", "kmod", "it lists what kernel modules depend on", &mut command).map(|_| ())
}

/// Copies the modules that guests need, uncompressed, and the lists from which depmod makes its own.
fn select(from: &Path, to: &Path) -> Result<(), GuestError> {
    let list = from.join("modules.dep");
    let dependencies = fs::read_to_string(&list).map_err(|error| GuestError::io("read", &list, error))?;
    for module in wanted(&dependencies) {
        let (source, target) = (from.join(module), to.join(module));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| GuestError::io("make", parent, error))?;
        }
        fs::copy(&source, &target).map_err(|error| GuestError::io("copy", &source, error))?;
        if target.extension() == Some(OsStr::new("xz")) {
            output(
                "xz",
                "xz-utils",
                "it uncompresses kernel modules",
                process::Command::new("xz").arg("-d").arg(&target),
            )?;
        }
    }
    for name in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        let source = from.join(name);
        fs::copy(&source, to.join(name)).map_err(|error| GuestError::io("copy", &source, error))?;
    }
    Ok(())
}

/// The paths of the modules in [`MODULES`] and of those on which they depend, from the lines of `modules.dep`
/// (`module: dependency dependency`).
fn wanted(dependencies: &str) -> Vec<&str> {
    let mut wanted: Vec<_> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(module, _)| {
            module
                .strip_prefix("kernel/")
                .is_some_and(|path| MODULES.iter().any(|start| path.starts_with(start)))
        })
        .flat_map(|(module, dependencies)| dependencies.split_whitespace().chain([module]))
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// Archives `folder`, which is `usr` of the guest.
fn archive(folder: &Path, to: &Path) -> Result<(), GuestError> {
    let failed = |error| GuestError::io("write", to, error);
    let file = File::create(to).map_err(failed)?;
    let mut writer = cpio::Writer::new(BufWriter::new(file));
    let mut stack = vec![(folder.to_owned(), PathBuf::from("usr"))];
    while let Some((path, name)) = stack.pop() {
        let reading = |error| GuestError::io("read", &path, error);
        let bytes = name.as_os_str().as_bytes();
        if path.is_dir() {
            writer.directory(bytes, 0o755).map_err(failed)?;
            let mut entries =
                fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(reading)?;
            entries.sort_by_key(fs::DirEntry::file_name);
            stack.extend(entries.iter().map(|entry| (entry.path(), name.join(entry.file_name()))));
        } else {
            let mut content = File::open(&path).map_err(reading)?;
            let size = content.metadata().map_err(reading)?.len();
            writer.file(bytes, 0o644, &mut content, size).map_err(failed)?;
        }
    }
    writer.finish().map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_modules_for_networks_and_those_on_which_they_depend() {
        let dependencies = "kernel/net/sched/sch_cake.ko:\n\
            kernel/net/batman-adv/batman-adv.ko.xz: kernel/net/wireless/cfg80211.ko.xz kernel/lib/libcrc32c.ko.xz\n\
            kernel/drivers/gpu/drm/drm.ko: kernel/lib/other.ko\n\
            kernel/net/wireless/cfg80211.ko.xz:\n";
        assert_eq!(
            wanted(dependencies),
            [
                "kernel/lib/libcrc32c.ko.xz",
                "kernel/net/batman-adv/batman-adv.ko.xz",
                "kernel/net/sched/sch_cake.ko",
                "kernel/net/wireless/cfg80211.ko.xz"
            ]
        );
    }
}
