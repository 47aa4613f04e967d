//! What runs in a guest.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::GuestError;
use super::files::Files;

/// Programs that every guest gets if the host has them: those that set up networks, send traffic and route.
const PROGRAMS: &[&str] = &[
    "babeld", "bash", "batctl", "bird", "birdc", "bridge", "ethtool", "ip", "iperf3", "irtt", "iw", "nft",
    "ping", "sh", "sipp", "ss", "sysctl", "tc", "tcpdump",
];

/// Files that every guest gets if the host has them: names of ports, protocols and users, settings of iproute2.
const SETTINGS: &[&str] = &[
    "/etc/group",
    "/etc/hosts",
    "/etc/iproute2",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
    "/usr/lib/tc",
    "/usr/share/iproute2",
];

/// Settings of this process's environment that a program in a guest gets too, by the start of their names.
const ENVIRONMENT: &[&str] = &["CLICOLOR", "COLUMNS", "FAIRHOP_", "NO_COLOR", "RUST_BACKTRACE"];

/// A command with its files. Paths are the same in the guest as on the host.
#[derive(Clone, Debug)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    programs: Vec<OsString>,
    files: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
}

impl Command {
    /// Runs `program`, a name or path on the host, in the current directory.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            programs: Vec::new(),
            files: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Runs this very program with other arguments, and with the settings of its environment that concern output.
    ///
    /// # Errors
    /// The system does not say which program this is.
    pub fn this_program() -> Result<Self, GuestError> {
        let program =
            env::current_exe().map_err(|error| GuestError::io("find", Path::new("/proc/self/exe"), error))?;
        let mut command = Self::new(program);
        let known =
            |name: &OsStr| ENVIRONMENT.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()));
        command.environment.extend(env::vars_os().filter(|(name, _)| known(name)));
        Ok(command)
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment. The guest has `PATH`, `HOME`, `LANG` and `TERM` of its own.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory, an absolute path.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Gives the guest another program of the host, by name or path, with its libraries. Scripts bring their
    /// interpreter, not the programs that they run. The common ones of networks are there anyway.
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.programs.push(program.into());
        self
    }

    /// Gives the guest the program at `path`, with its libraries, if it is one.
    pub fn program_if_any(self, path: &Path) -> Self {
        let found = super::files::find(self.directory.join(path).as_os_str(), Path::new("/"));
        match found {
            Some(program) => self.program(program),
            None => self,
        }
    }

    /// Gives the guest the programs and files that the words of `text`, a part of a shell command, name. Words that name
    /// neither are left alone, and so are folders.
    pub fn mentioned(mut self, text: impl AsRef<OsStr>) -> Self {
        for word in super::files::words(text.as_ref().as_bytes()) {
            if super::files::find(&word, &self.directory).is_some() {
                self.programs.push(word);
            } else if self.directory.join(&word).is_file() {
                self.files.push(PathBuf::from(word));
            }
        }
        self
    }

    /// Gives the guest a file or a folder of the host, as it is at the start.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Names a file or folder that the command writes, and that is copied to the same place of the host when the command
    /// has ended, whatever its status. If the command did not write it, nothing is copied. Files of the host are not
    /// overwritten.
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.outputs.push(path.into());
        self
    }

    /// The paths of [`Command::output`], absolute.
    pub(super) fn outputs(&self) -> impl Iterator<Item = PathBuf> {
        self.outputs.iter().map(|path| self.directory.join(path))
    }

    /// The interpreters among the command's programs whose scripts may need modules that the guest does not get: those of
    /// Python's standard library are there, and all others have to be named ([`Command::file`]).
    ///
    /// # Errors
    /// As those of [`Guest::run`](super::Guest::run) about files.
    pub fn interpreters(&self) -> Result<Vec<&'static str>, GuestError> {
        Ok(self.files()?.interpreters().collect())
    }

    /// The host's files that the command needs, and the script that starts it.
    pub(super) fn files(&self) -> Result<Files, GuestError> {
        let mut files = Files::default();
        let program = files.program(&self.program, &self.directory)?;
        for name in &self.programs {
            files.program(name, &self.directory)?;
        }
        for name in PROGRAMS {
            match files.program(OsStr::new(name), &self.directory) {
                Err(GuestError::NoProgram { .. }) => {}
                result => drop(result?),
            }
        }
        files.add_libraries()?;
        for path in SETTINGS.iter().map(Path::new).filter(|path| path.exists()) {
            files.add(path)?;
        }
        for path in &self.files {
            files.add(&self.directory.join(path))?;
        }
        files.directory(&self.directory)?;
        let mut outputs = Vec::new();
        for path in self.outputs() {
            if path.as_os_str().as_bytes().contains(&b'\n') {
                return Err(GuestError::Path { path, reason: "a result's path cannot have a line break" });
            }
            if let Some(parent) = path.parent() {
                files.directory(parent)?;
            }
            outputs.extend_from_slice(path.as_os_str().as_bytes());
            outputs.push(b'\n');
        }
        files.text("/.guest/outputs", 0o644, outputs);
        files.text("/.guest/command", 0o755, self.script(&program));
        Ok(files)
    }

    /// A shell script that becomes the program.
    fn script(&self, program: &Path) -> Vec<u8> {
        let mut script = OsString::from("#!/.guest/busybox sh\ncd ");
        script.push(quoted(self.directory.as_os_str()));
        script.push(" || exit 127\nexec env");
        for (name, value) in &self.environment {
            let mut setting = name.clone();
            setting.push("=");
            setting.push(value);
            script.push(" ");
            script.push(quoted(&setting));
        }
        for word in [program.as_os_str()].into_iter().chain(self.arguments.iter().map(OsString::as_os_str)) {
            script.push(" ");
            script.push(quoted(word));
        }
        script.push("\n");
        script.into_vec()
    }
}

/// A word that a shell reads back as it is.
fn quoted(word: &OsStr) -> OsString {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_guest_as_they_are() {
        let command = Command::new("x").directory("/a b").args(["it's", "$HOME", ""]).env("K", "v w");
        let script = String::from_utf8(command.script(Path::new("/bin/x"))).unwrap();
        assert_eq!(
            script,
            "#!/.guest/busybox sh\ncd '/a b' || exit 127\nexec env 'K=v w' '/bin/x' 'it'\\''s' '$HOME' ''\n"
        );
    }

    #[test]
    fn a_result_with_a_line_break_in_its_name_is_refused() {
        let error = Command::new("sh").output("a\nb").files().unwrap_err();
        assert!(matches!(error, GuestError::Path { .. }), "{error}");
    }
}
