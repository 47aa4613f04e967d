//! Why an emulation cannot begin or go on: what failed, and what to do.

use std::io;

/// An error of the emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// The process may not make namespaces and interfaces.
    #[error("missing rights: {missing}; an emulation makes network namespaces and interfaces")]
    Rights {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel has no TUN devices, or the process does not see the device.
    #[error("cannot open /dev/net/tun: {}", reason(source))]
    NoTun {
        /// Why.
        source: io::Error,
    },
    /// `ip` of iproute2 cannot be started.
    #[error("cannot start ip: {}", reason(source))]
    NoIp {
        /// Why.
        source: io::Error,
    },
    /// Another emulation runs.
    #[error("another emulation is running: process {process}, scenario \"{scenario}\"")]
    Busy {
        /// Its process.
        process: String,
        /// Its scenario.
        scenario: String,
    },
    /// A network namespace has the name of an attached place, and no emulation made it.
    #[error("network namespace {name} exists, and no emulation made it")]
    Exists {
        /// The name.
        name: String,
    },
    /// No emulation has attached this place.
    #[error("there is no attached place \"{name}\"")]
    NotAttached {
        /// The name as given.
        name: String,
        /// The names of the attached places.
        attached: Vec<String>,
    },
    /// Nothing is attached.
    #[error("no place is attached, so no packet could enter the network")]
    Nothing,
    /// Too many places are attached.
    #[error("{places} places are attached; at most {max} can be")]
    TooMany {
        /// How many.
        places: usize,
        /// The maximum.
        max: usize,
    },
    /// `ip` has refused something.
    #[error("`ip {command}` failed: {message}")]
    Ip {
        /// Its arguments, or the lines of its batch.
        command: String,
        /// What it printed.
        message: String,
    },
    /// A program cannot be started.
    #[error("cannot start `{command}`: {}", reason(source))]
    Command {
        /// The program.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// Another call has failed.
    #[error("cannot {action}: {}", reason(source))]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// The system's message without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl EmulateError {
    /// The failure of an action: "cannot {action}: …".
    pub(crate) fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { action: action.into(), source: source.into() }
    }

    /// How to fix it.
    pub fn fix(&self) -> String {
        match self {
            Self::Rights { .. } => {
                "run it as root (sudo fairhop emulate …); in a container, add the capabilities NET_ADMIN and SYS_ADMIN".into()
            }
            Self::NoTun { source } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root, or allow the container to use the device".into()
            }
            Self::NoTun { .. } => {
                "load the kernel module (sudo modprobe tun); in a container, pass the device on: --device /dev/net/tun".into()
            }
            Self::NoIp { .. } => "install iproute2 (apt install iproute2)".into(),
            Self::Busy { process, .. } => {
                format!("wait for its end, or end it with `kill {process}`; one emulation runs at a time")
            }
            Self::Exists { name } => {
                format!("remove it with `ip netns del {name}`, or give the attached place another `name`")
            }
            Self::NotAttached { attached, .. } if attached.is_empty() => {
                "start `fairhop emulate SCENARIO` in another terminal first".into()
            }
            Self::NotAttached { attached, .. } => format!("attached are: {}", attached.join(", ")),
            Self::Nothing => {
                "name places with --attach, as in --attach 4 --attach internet, or write [[attach]] in the scenario; \
                 --link attaches every node"
                    .into()
            }
            Self::TooMany { .. } => "attach fewer places".into(),
            Self::Ip { .. } => "see the message of ip; `fairhop emulate clean` removes what is left".into(),
            Self::Command { .. } => "check its name and that it is installed".into(),
            Self::Io { .. } => "see the reason above".into(),
        }
    }
}
