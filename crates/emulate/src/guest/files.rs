//! The host's files that a guest gets: programs with the libraries that the loader would find, scripts with their
//! interpreters, folders. Every path keeps its name, with the symbolic links on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process;

use super::apt::output;
use super::{GuestError, cpio};

/// Links that may follow each other in a path, as in Linux.
const MAX_LINKS: u32 = 40;

/// What is read of a script.
const MAX_SCRIPT: usize = 1 << 18;

/// Where programs are looked for besides PATH: ordinary users do not have these.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// Interpreters, by the start of their names, whose scripts use modules.
const INTERPRETERS: [&str; 5] = ["lua", "node", "perl", "python", "ruby"];

/// What is large in the standard library of Python, and of no use in a guest.
const UNUSED_MODULES: [&str; 8] =
    ["__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter"];

/// A file of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory {
        mode: u32,
    },
    /// The content of a file of the host.
    Copy {
        of: PathBuf,
        mode: u32,
    },
    Text {
        text: Vec<u8>,
        mode: u32,
    },
    Symlink {
        target: PathBuf,
    },
}

/// The files of a guest, by absolute path.
#[derive(Debug, Default)]
pub(super) struct Files {
    nodes: BTreeMap<PathBuf, Node>,
    /// Programs whose libraries are still to be added.
    programs: BTreeSet<PathBuf>,
    /// Libraries whose own libraries are still to be added.
    libraries: BTreeSet<PathBuf>,
    /// Programs that have been added.
    seen: BTreeSet<PathBuf>,
    interpreters: BTreeSet<&'static str>,
}

impl Files {
    /// Adds a file with a content of its own.
    pub(super) fn text(&mut self, path: &str, mode: u32, text: impl Into<Vec<u8>>) {
        let path = PathBuf::from(path);
        for parent in path.ancestors().skip(1).filter(|parent| parent.parent().is_some()) {
            self.nodes.entry(parent.to_owned()).or_insert(Node::Directory { mode: 0o755 });
        }
        self.nodes.insert(path, Node::Text { text: text.into(), mode });
    }

    /// Adds a host's file under another name.
    pub(super) fn copy(&mut self, path: &str, mode: u32, of: &Path) {
        self.text(path, mode, "");
        self.nodes.insert(PathBuf::from(path), Node::Copy { of: of.to_owned(), mode });
    }

    /// Adds a directory of the guest's own, and its parents as the host has them, if it does.
    pub(super) fn directory(&mut self, path: &Path) -> Result<(), GuestError> {
        match self.resolve(path) {
            Err(GuestError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                for parent in path.ancestors().filter(|parent| parent.parent().is_some()) {
                    self.nodes.entry(parent.to_owned()).or_insert(Node::Directory { mode: 0o755 });
                }
                Ok(())
            }
            result => result.map(|_| ()),
        }
    }

    /// Adds a file or folder of the host, with all that is in it.
    ///
    /// # Errors
    /// It is absent or cannot be read.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), GuestError> {
        self.add_if(path, &|_| true, false)
    }

    /// The same for what `is_wanted`; with the libraries of `modules`, files whose names end in `.so`.
    fn add_if(
        &mut self,
        path: &Path,
        is_wanted: &dyn Fn(&Path) -> bool,
        modules: bool,
    ) -> Result<(), GuestError> {
        let mut stack = vec![path.to_owned()];
        while let Some(path) = stack.pop() {
            if !is_wanted(&path) {
                continue;
            }
            let resolved = self.resolve(&path)?;
            if modules && resolved.extension().is_some_and(|extension| extension == "so") {
                self.libraries.insert(resolved.clone());
            }
            if resolved.is_dir() {
                let failed = |error| GuestError::io("read", &resolved, error);
                for entry in fs::read_dir(&resolved).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let kind = entry.file_type().map_err(failed)?;
                    // A link that leads nowhere, a socket or a pipe is of no use in the guest.
                    let usable =
                        kind.is_file() || kind.is_dir() || (kind.is_symlink() && entry.path().exists());
                    if usable {
                        stack.push(entry.path());
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a program, its interpreter if it is a script, and its libraries. Returns its path.
    ///
    /// # Errors
    /// There is no such program.
    pub(super) fn program(&mut self, name: &OsStr, directory: &Path) -> Result<PathBuf, GuestError> {
        let no_program = || GuestError::NoProgram { program: name.to_string_lossy().into_owned() };
        let path = find(name, directory).ok_or_else(no_program)?;
        let resolved = self.resolve(&path)?;
        if !self.seen.insert(resolved.clone()) {
            return Ok(path);
        }
        let mut start = Vec::new();
        File::open(&resolved)
            .and_then(|file| file.take(256).read_to_end(&mut start))
            .map_err(|error| GuestError::io("read", &resolved, error))?;
        match start.strip_prefix(b"#!") {
            Some(line) => {
                let mut words = line
                    .split(|byte| *byte == b'\n')
                    .next()
                    .unwrap_or_default()
                    .split(u8::is_ascii_whitespace)
                    .filter(|word| !word.is_empty())
                    .map(|word| OsString::from_vec(word.to_vec()));
                if let Some(interpreter) = words.next() {
                    self.program(&interpreter, directory)?;
                    if Path::new(&interpreter).ends_with("env")
                        && let Some(program) = words.find(|word| !word.as_bytes().starts_with(b"-"))
                    {
                        self.program(&program, directory)?;
                    }
                    self.named_in_script(&interpreter, &resolved, directory)?;
                }
            }
            None => {
                self.modules_of(&resolved)?;
                self.programs.insert(resolved);
            }
        }
        Ok(path)
    }

    /// Adds the standard library of an interpreter of Python. Other interpreters and further packages are the user's
    /// concern ([`Files::interpreters`]).
    fn modules_of(&mut self, program: &Path) -> Result<(), GuestError> {
        let name = program.file_name().unwrap_or_default().as_bytes();
        if let Some(known) = INTERPRETERS.iter().find(|known| name.starts_with(known.as_bytes())) {
            self.interpreters.insert(known);
        }
        if !name.starts_with(b"python") || name.ends_with(b"-config") {
            return Ok(());
        }
        let mut command = process::Command::new(program);
        command.args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]);
        let Ok(folder) = output("python3", "python3", "it says where its modules are", &mut command) else {
            // Its own message will say what is wrong with it.
            return Ok(());
        };
        let is_wanted = |path: &Path| {
            !path.file_name().is_some_and(|name| UNUSED_MODULES.iter().any(|unused| name == *unused))
        };
        self.add_if(Path::new(folder.trim()), &is_wanted, true)
    }

    /// The interpreters among the programs whose modules may be missing.
    pub(super) fn interpreters(&self) -> impl Iterator<Item = &'static str> {
        self.interpreters.iter().copied()
    }

    /// Adds the programs and files that the words of a shell script name.
    fn named_in_script(
        &mut self,
        interpreter: &OsStr,
        script: &Path,
        directory: &Path,
    ) -> Result<(), GuestError> {
        if !interpreter.as_bytes().ends_with(b"sh") {
            return Ok(());
        }
        let text = fs::read(script).map_err(|error| GuestError::io("read", script, error))?;
        for word in words(&text[..text.len().min(MAX_SCRIPT)]) {
            if find(&word, directory).is_some() {
                self.program(&word, directory)?;
            } else if word.as_bytes().contains(&b'/') && directory.join(&word).is_file() {
                self.add(&directory.join(&word))?;
            }
        }
        Ok(())
    }

    /// Adds the libraries of all programs, as the loader of the host finds them.
    ///
    /// # Errors
    /// `ldd` is missing.
    pub(super) fn add_libraries(&mut self) -> Result<(), GuestError> {
        let each = std::mem::take(&mut self.programs).into_iter().map(|program| vec![program]);
        // All libraries at once, which is faster; a program without libraries makes `ldd` fail.
        let together: Vec<_> = std::mem::take(&mut self.libraries).into_iter().collect();
        for files in each.chain([together]).filter(|files| !files.is_empty()) {
            let mut command = process::Command::new("ldd");
            command.args(&files).env("LC_ALL", "C");
            let libraries =
                match output("ldd", "libc-bin", "it lists the libraries of programs", &mut command) {
                    Ok(libraries) => libraries,
                    // It fails for a program without libraries.
                    Err(GuestError::Tool { .. }) => continue,
                    Err(error) => return Err(error),
                };
            for library in libraries_of(&libraries) {
                self.resolve(library)?;
            }
        }
        Ok(())
    }

    /// Writes all of it as an archive.
    pub(super) fn write<W: Write>(&self, out: W) -> Result<W, GuestError> {
        let mut writer = cpio::Writer::new(out);
        for (path, node) in &self.nodes {
            let name = path.as_os_str().as_bytes();
            let name = name.strip_prefix(b"/").unwrap_or(name);
            let written = match node {
                Node::Directory { mode } => writer.directory(name, *mode),
                Node::Symlink { target } => writer.symlink(name, target.as_os_str().as_bytes()),
                Node::Text { text, mode } => writer.file(name, *mode, &mut &text[..], text.len() as u64),
                Node::Copy { of, mode } => File::open(of).and_then(|mut file| {
                    let size = file.metadata()?.len();
                    writer.file(name, *mode, &mut file, size)
                }),
            };
            written.map_err(|error| GuestError::io("copy into the guest", path, error))?;
        }
        writer.finish().map_err(|error| GuestError::io("write the archive of", Path::new("/"), error))
    }

    /// Adds a path: the directories and links on the way, and the file. Returns the path without links.
    fn resolve(&mut self, path: &Path) -> Result<PathBuf, GuestError> {
        let failed = |error| GuestError::io("read", path, error);
        let mut links = 0;
        let mut resolved = PathBuf::from("/");
        let mut rest: Vec<OsString> = names(path);
        while let Some(name) = rest.pop() {
            if name == ".." {
                resolved.pop();
                continue;
            }
            let next = resolved.join(&name);
            let found = fs::symlink_metadata(&next).map_err(failed)?;
            let mode = found.permissions().mode() & 0o7777;
            if found.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(failed(io::Error::other("too many symbolic links")));
                }
                let target = fs::read_link(&next).map_err(failed)?;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                rest.extend(names(&target));
                self.nodes.insert(next, Node::Symlink { target });
                continue;
            }
            if found.is_dir() {
                self.nodes.entry(next.clone()).or_insert(Node::Directory { mode });
            } else if found.is_file() {
                self.nodes.entry(next.clone()).or_insert(Node::Copy { of: next.clone(), mode });
            } else {
                return Err(GuestError::Path {
                    path: path.to_owned(),
                    reason: "it is neither a file nor a folder",
                });
            }
            resolved = next;
        }
        Ok(resolved)
    }
}

/// The components of a path, last first, without those that change nothing.
fn names(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        })
        .collect()
}

/// The words of a shell command that can be names: without quotes and operators, and only once.
pub(super) fn words(text: &[u8]) -> BTreeSet<OsString> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"/._+-@".contains(byte);
    text.split(|byte| !is_part(byte))
        .filter(|word| word.iter().any(u8::is_ascii_alphanumeric))
        // The guest has its own of these.
        .filter(|word| {
            !["/proc/", "/sys/", "/dev/", "/run/"].iter().any(|own| word.starts_with(own.as_bytes()))
        })
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

/// Where a shell in `directory` would find a program.
pub(super) fn find(name: &OsStr, directory: &Path) -> Option<PathBuf> {
    let executable = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(|path| executable(path));
    }
    let search = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&search)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| executable(path))
}

/// The paths in ldd's output: `name => /path (address)`, or `/path (address)` for the loader. Lines that are not indented
/// name the files that were asked about.
fn libraries_of(output: &str) -> impl Iterator<Item = &Path> {
    output.lines().filter(|line| line.starts_with('\t')).filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        let path = path.split_once(" (").map_or(path, |(path, _)| path);
        path.starts_with('/').then_some(Path::new(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_with_the_links_and_directories_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/deep/file"), "content").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let mut files = Files::default();
        let resolved = files.resolve(&root.join("link/deep/file")).unwrap();
        assert_eq!(resolved, root.join("real/deep/file"));
        assert_eq!(files.nodes[&root.join("link")], Node::Symlink { target: PathBuf::from("real") });
        assert!(matches!(files.nodes[&root.join("real/deep")], Node::Directory { .. }));
        assert!(matches!(files.nodes[&resolved], Node::Copy { .. }));
    }

    #[test]
    fn links_in_a_circle_and_absent_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        let error = Files::default().add(&folder.path().join("a")).unwrap_err();
        assert!(error.to_string().ends_with("too many symbolic links"), "{error}");
        let error = Files::default().add(&folder.path().join("absent")).unwrap_err();
        assert!(
            matches!(&error, GuestError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{error}"
        );
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_script_brings_its_interpreter_and_a_program_its_loader() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut files = Files::default();
        files.program(OsStr::new("./script"), folder.path()).unwrap();
        files.add_libraries().unwrap();
        let has = |path: &str| files.nodes.contains_key(&fs::canonicalize(path).unwrap());
        assert!(has("/usr/bin/env") && has("/bin/sh") && has("/lib64/ld-linux-x86-64.so.2"));
    }

    #[test]
    fn python_brings_the_modules_of_its_standard_library() {
        // Debian's, not a wrapper of the user's.
        let python = Path::new("/usr/bin/python3");
        if !python.exists() {
            return;
        }
        let mut files = Files::default();
        files.program(python.as_os_str(), Path::new("/")).unwrap();
        let has = |end: &str| files.nodes.keys().any(|path| path.ends_with(end));
        assert!(has("json/decoder.py") && has("encodings/utf_8.py") && !has("test/support/__init__.py"));
        assert_eq!(files.interpreters().collect::<Vec<_>>(), ["python"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Files::default().program(OsStr::new("no-such-program"), Path::new("/")).unwrap_err();
        assert_eq!(error.to_string(), "no program `no-such-program` on this machine");
    }

    #[test]
    fn libraries_are_read_from_lddtext() {
        let text = "/bin/asked:\n\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x0)\n\tgone.so => not found\n\
                    \t/lib64/ld.so (0x1)\n\tstatically linked\n";
        let found: Vec<_> = libraries_of(text).collect();
        assert_eq!(found, [Path::new("/lib/x/libm.so.6"), Path::new("/lib64/ld.so")]);
    }
}
