//! QEMU: starts a guest, streams its output, brings results back, ends it.
//!
//! The guest's streams are virtio ports that QEMU writes into files, which never makes the guest wait; this process reads
//! them as they grow. A third port reports what the guest does (`main.sh`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

use super::files::{Files, find};
use super::folder::{RunFolder, bring};
use super::image::Image;
use super::{Command, GuestError, Kernel};

const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "busybox";

/// An instruction takes 1 ns of the guest's time, and an idle guest jumps to its next timer.
///
/// The recording itself is not used. Record mode makes QEMU's main loop and its processor thread take turns. Without it, 7 of
/// 72 boots on a busy host ended some microseconds early or late. The likely reason: the processor's thread marks the processor
/// as halted first and counts its last instructions later, and the main loop can move the clock in between
/// (`rr_cpu_thread_fn` in QEMU's `accel/tcg/tcg-accel-ops-rr.c`).
const ICOUNT: &str = "shift=0,sleep=off,rr=record,rrfile=/dev/null";

/// The processor: an Intel of 2015, because Linux calibrates clocks of AMD's at length and keeps their idle timers apart.
/// Without `erms` and `fsrm`, since `rep movsb` takes an instruction for each byte under `-icount`.
const PROCESSOR: &str = "max,vendor=GenuineIntel,family=6,model=94,stepping=3,-erms,-fsrm,-monitor";

/// The kernel's command line. The clock's rate is known, 1 GHz. Waiting loops that calibrate timers take 10 s of processor
/// time, hence HPET instead of the local APIC's timer, and `no_timer_check`.
const KERNEL_OPTIONS: &str = "rdinit=/init console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr \
    random.trust_cpu=on net.ifnames=0 tsc=reliable tsc_early_khz=1000000 nolapic_timer no_timer_check";

/// How often this process looks for output and for the guest's end.
const POLL: Duration = Duration::from_millis(20);

/// Which files of the host a guest has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostFiles {
    /// Those that the command names, in memory from the start: runs are repeatable.
    #[default]
    Listed,
    /// All, read while the command runs, and written only in the guest's memory. Waiting for the host makes the guest's clock
    /// leap, so that equal runs have different figures.
    Shared,
}

/// A machine in virtual time.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its kernel.
    pub kernel: Kernel,
    /// Memory for the command and the files that it writes, MiB.
    pub memory_mib: u32,
    /// Which files of the host it has.
    pub host_files: HostFiles,
    /// Wall time after which it is ended.
    pub timeout: Duration,
    /// Seed of its processor's random numbers, which seed those of its kernel.
    pub seed: u64,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            kernel: Kernel::default(),
            memory_mib: 1024,
            host_files: HostFiles::Listed,
            timeout: Duration::from_secs(3600),
            seed: 1,
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The exit status as shells report it: 128 and the number of the signal for one that was killed.
    pub status: i32,
    /// The guest's kernel, as of `uname -r`.
    pub release: String,
    /// How long the command ran by the guest's clock, in steps of 10 ms.
    pub virtual_time: Duration,
    /// How long the guest took, start and end included.
    pub wall_time: Duration,
}

impl Guest {
    /// Runs a command as root in a new guest and passes its output on while it runs. `stop` is asked all the time; once it
    /// says yes, the guest is ended. The first run of a kernel downloads it, see [`Guest::prepare`].
    ///
    /// # Errors
    /// The guest cannot be built or started, ends early, or cannot deliver its results; `stop` or the timeout ended it.
    pub fn run(
        &self,
        command: &Command,
        out: &mut dyn Write,
        err: &mut dyn Write,
        stop: &dyn Fn() -> bool,
    ) -> Result<Finished, GuestError> {
        let qemu = needed(QEMU, "qemu-system-x86", "it runs kernels in virtual time")?;
        let busybox = needed(BUSYBOX, "busybox-static", "it is the guest's shell")?;
        let mut files = command.files()?;
        self.add_own_files(&mut files, &busybox);
        let image = self.image()?;
        let folder = RunFolder::create()?;
        let archive = write_archive(&image, &files, folder.path())?;
        let begin = Instant::now();
        let memory_mib = self.memory_mib.saturating_add(2 * archive.size_mib);
        let mut running = Running::start(
            self.qemu(&qemu, &image, &archive.path, memory_mib, folder.path()),
            folder.path(),
        )?;
        let deadline = begin.checked_add(self.timeout);
        loop {
            let ended = running.has_ended()?;
            running.pass_on(out, err)?;
            if ended {
                break;
            }
            if stop() {
                return Err(GuestError::Interrupted);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(GuestError::Timeout { limit: self.timeout });
            }
            std::thread::sleep(POLL);
        }
        drop(running);
        let story = Story::read(folder.path());
        let (status, release, virtual_time) = story.outcome(memory_mib)?;
        for (number, path) in command.outputs().enumerate() {
            bring(&folder.path().join("results").join(number.to_string()), &path)?;
        }
        Ok(Finished { status, release, virtual_time, wall_time: begin.elapsed() })
    }

    /// Downloads and builds the kernel if this has not been done: about 60 MB and 20 s.
    ///
    /// # Errors
    /// There is no such package, no connection, no space, or a tool is missing.
    pub fn prepare(&self) -> Result<(), GuestError> {
        self.image().map(|_| ())
    }

    fn image(&self) -> Result<Image, GuestError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(GuestError::Machine { machine: std::env::consts::ARCH });
        }
        Image::of(self.kernel)
    }

    fn add_own_files(&self, files: &mut Files, busybox: &Path) {
        let shared = if self.host_files == HostFiles::Shared { "shared" } else { "listed" };
        files.text("/init", 0o755, include_str!("init.sh"));
        files.text("/.guest/main", 0o755, include_str!("main.sh"));
        files.text("/.guest/settings", 0o644, format!("host_files={shared}\n"));
        files.copy("/.guest/busybox", 0o755, busybox);
    }

    fn qemu(
        &self,
        qemu: &Path,
        image: &Image,
        archive: &Path,
        memory_mib: u32,
        folder: &Path,
    ) -> process::Command {
        // The guest ends with this process, however that ends.
        let mut command = match find(OsStr::new("setpriv"), Path::new("/")) {
            Some(setpriv) => {
                let mut command = process::Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(qemu);
                command
            }
            None => process::Command::new(qemu),
        };
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "pc"]);
        command.args(["-accel", "tcg,thread=single,tb-size=256", "-icount", ICOUNT]);
        // A fixed date, and a seed of what the guest's processor and firmware have for random numbers.
        command.args([
            "-smp",
            "1",
            "-cpu",
            PROCESSOR,
            "-seed",
            &self.seed.to_string(),
            "-rtc",
            "base=2026-01-01T00:00:00,clock=vm",
        ]);
        command.args(["-m", &memory_mib.to_string()]);
        command.arg("-kernel").arg(image.kernel()).arg("-initrd").arg(archive);
        command.args(["-append", KERNEL_OPTIONS]);
        command.arg("-chardev").arg(option_path("file,id=console,path=", &folder.join("console")));
        // Without `ioeventfd=off`, another thread of QEMU serves a device some time after the guest asked.
        command.args(["-serial", "chardev:console", "-device", "virtio-serial-pci,id=ports,ioeventfd=off"]);
        for name in ["control", "out", "err"] {
            let chardev = option_path(&format!("file,id={name},path="), &folder.join(name));
            command.arg("-chardev").arg(chardev);
            command.args(["-device", &format!("virtserialport,bus=ports.0,chardev={name},name={name}")]);
        }
        let mut share = |name: &str, path: &Path, options: &str| {
            let system = option_path(&format!("local,id={name},security_model=none{options},path="), path);
            command.arg("-fsdev").arg(system);
            command.args(["-device", &format!("virtio-9p-pci,fsdev={name},mount_tag={name},ioeventfd=off")]);
        };
        share("results", &folder.join("results"), "");
        if self.host_files == HostFiles::Shared {
            share("host", Path::new("/"), ",readonly=on,multidevs=remap");
        }
        // Ctrl-C in a terminal is for this process, which then ends the guest.
        command.process_group(0).stdin(Stdio::null());
        command
    }
}

/// A path as the last part of an option of QEMU, where commas are doubled.
fn option_path(start: &str, path: &Path) -> OsString {
    let mut option = start.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        option.push(*byte);
        if *byte == b',' {
            option.push(b',');
        }
    }
    OsString::from_vec(option)
}

fn needed(
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
) -> Result<PathBuf, GuestError> {
    find(OsStr::new(program), Path::new("/")).ok_or(GuestError::Missing { program, purpose, package })
}

/// What a guest's kernel fills its root from.
struct Archive {
    path: PathBuf,
    size_mib: u32,
}

/// The modules of the image, followed by the files of this run.
fn write_archive(image: &Image, files: &Files, folder: &Path) -> Result<Archive, GuestError> {
    let path = folder.join("initramfs");
    let failed = |error| GuestError::io("write", &path, error);
    let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
    let modules = image.modules();
    File::open(&modules)
        .and_then(|mut file| io::copy(&mut file, &mut out))
        .map_err(|error| GuestError::io("copy", &modules, error))?;
    let file = files.write(out)?.into_inner().map_err(|error| failed(error.into_error()))?;
    let size = file.metadata().map_err(failed)?.len();
    Ok(Archive { path, size_mib: u32::try_from(size >> 20).unwrap_or(u32::MAX / 4) + 1 })
}

/// QEMU, and the streams read from its files.
struct Running {
    child: Child,
    out: File,
    err: File,
}

impl Running {
    fn start(mut qemu: process::Command, folder: &Path) -> Result<Self, GuestError> {
        let create = |name: &str| {
            let path = folder.join(name);
            File::create(&path).map_err(|error| GuestError::io("write", &path, error))
        };
        let open = |name: &str| {
            let path = folder.join(name);
            File::open(&path).map_err(|error| GuestError::io("read", &path, error))
        };
        for name in ["control", "out", "err"] {
            create(name)?;
        }
        let results = folder.join("results");
        fs::create_dir(&results).map_err(|error| GuestError::io("make", &results, error))?;
        qemu.stdout(Stdio::null()).stderr(create("qemu")?);
        let (out, err) = (open("out")?, open("err")?);
        let child = qemu.spawn().map_err(|error| GuestError::io("run", Path::new(QEMU), error))?;
        Ok(Self { child, out, err })
    }

    fn has_ended(&mut self) -> Result<bool, GuestError> {
        let status =
            self.child.try_wait().map_err(|error| GuestError::io("wait for", Path::new(QEMU), error))?;
        Ok(status.is_some())
    }

    /// Passes on what the command has written since the last time.
    fn pass_on<'a>(&mut self, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Result<(), GuestError> {
        for (from, to, name) in
            [(&mut self.out, out, "standard output"), (&mut self.err, err, "standard error")]
        {
            let copied = io::copy(from, to).and_then(|copied| if copied > 0 { to.flush() } else { Ok(()) });
            copied.map_err(|error| GuestError::io("write to", Path::new(name), error))?;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a guest, its kernel and QEMU have said.
#[derive(Debug, Default)]
struct Story {
    control: String,
    console: String,
    qemu: String,
}

impl Story {
    fn read(folder: &Path) -> Self {
        let read = |name: &str| {
            let mut text = Vec::new();
            // An absent file says nothing.
            let _ = File::open(folder.join(name)).and_then(|mut file| file.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        };
        Self { control: read("control"), console: read("console"), qemu: read("qemu") }
    }

    /// Status, kernel release and virtual time.
    fn outcome(&self, memory_mib: u32) -> Result<(i32, String, Duration), GuestError> {
        let reported = |word: &str| {
            let line = self.control.lines().find_map(|line| line.strip_prefix(word))?;
            Some(line.trim().to_owned())
        };
        if self.console.contains("Out of memory: Killed")
            || self.console.contains("Initramfs unpacking failed: write error")
            || self.console.contains("System is deadlocked on memory")
        {
            return Err(GuestError::OutOfMemory { memory_mib });
        }
        if let Some((_, panic)) = self.console.split_once("Kernel panic - not syncing: ") {
            return Err(GuestError::Panicked { message: first_line(panic).to_owned() });
        }
        let Some(started) = reported("started ") else {
            return Err(GuestError::NotStarted { reason: self.last_words() });
        };
        let Some(exited) = reported("exited ") else {
            return Err(GuestError::Ended { reason: self.last_words() });
        };
        if let Some(reason) = reported("failed ") {
            return Err(GuestError::Results { reason });
        }
        if reported("copied").is_none() {
            return Err(GuestError::Results { reason: self.last_words() });
        }
        let (release, begin) = started.split_once(' ').unwrap_or((&started, ""));
        let (status, end) = exited.split_once(' ').unwrap_or((&exited, ""));
        let seconds = |text: &str| text.parse::<f64>().unwrap_or(0.0);
        let virtual_time = Duration::from_secs_f64((seconds(end) - seconds(begin)).max(0.0));
        Ok((status.parse().unwrap_or(-1), release.to_owned(), virtual_time))
    }

    /// The last line that the kernel or QEMU has written.
    fn last_words(&self) -> String {
        let last = |text: &str| text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
        last(&self.qemu).or_else(|| last(&self.console)).unwrap_or_else(|| "it said nothing".to_owned())
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(control: &str, console: &str, qemu: &str) -> Story {
        Story { control: control.to_owned(), console: console.to_owned(), qemu: qemu.to_owned() }
    }

    #[test]
    fn a_guest_that_did_its_work_gives_status_release_and_virtual_time() {
        let (status, release, time) =
            story("started 6.1.0-9 1.25\nexited 3 61.75\ncopied\n", "", "").outcome(1024).unwrap();
        assert_eq!((status, release.as_str(), time), (3, "6.1.0-9", Duration::from_millis(60_500)));
    }

    #[test]
    fn what_went_wrong_is_named() {
        let message = |story: Story| story.outcome(512).unwrap_err().to_string();
        assert_eq!(
            message(story("", "", "qemu: no such option\n")),
            "the guest did not start: qemu: no such option"
        );
        assert_eq!(message(story("", "", "")), "the guest did not start: it said nothing");
        assert_eq!(
            message(story(
                "started 6.1 1.0\n",
                "[ 2.0] Kernel panic - not syncing: sysrq triggered crash\nmore",
                ""
            )),
            "the guest's kernel panicked: sysrq triggered crash"
        );
        assert_eq!(
            message(story("started 6.1 1.0\n", "Out of memory: Killed process 9 (x)", "")),
            "the guest ran out of memory (512 MiB)"
        );
        assert_eq!(
            message(story("started 6.1 1.0\nexited 0 2.0\nfailed cp: No space left\ncopied\n", "", "")),
            "the results could not be copied out of the guest: cp: No space left"
        );
        assert_eq!(
            message(story("started 6.1 1.0\n", "reboot: Power down\n", "")),
            "the guest ended before its command: reboot: Power down"
        );
    }

    #[test]
    fn commas_in_paths_do_not_end_an_option_of_qemu() {
        assert_eq!(option_path("file,path=", Path::new("/a,b")), OsString::from("file,path=/a,,b"));
    }
}
