//! The gateway beside an emulation: where the Internet is attached, in front of the emulated mesh.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use fairhop_emulate::namespaces;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::failure::{Failure, reason};
use crate::ui;

/// Time to load programs and to be ready.
const START: Duration = Duration::from_secs(20);
/// Time to put everything back at the end.
const END: Duration = Duration::from_secs(3);

/// The gateway without a config of the user's. Journal and token are beside the socket.
const CONFIG: &str = "\
mode = \"live\"
control = { kind = \"adaptive\" }
[[gateway]]
mesh = \"fh0\"
";

/// A gateway that runs in the namespace of the Internet, until it is dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    child: Child,
    /// Socket, and journal, token and config of a gateway without a config of the user's.
    _folder: TempDir,
}

impl Beside {
    /// Starts `fairhop gateway run`, with adaptive control or with a config, and waits until it is ready. The first mesh
    /// interface is that of the emulation.
    ///
    /// # Errors
    /// It cannot be started, or has ended.
    pub(crate) fn start(config: Option<&Path>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                format!("cannot start the gateway: {}", reason(&error)),
                "see `fairhop gateway doctor`",
            )
        };
        let folder = tempfile::Builder::new().prefix("fairhop-gateway-").tempdir().map_err(failed)?;
        let socket = folder.path().join("ready");
        let ready = UnixDatagram::bind(&socket).map_err(failed)?;
        ready.set_read_timeout(Some(Duration::from_millis(200))).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        // The gateway of a mesh forwards packets. Here its host sends them, several segments in one.
        let one_segment = ["ip", "link", "set", "fh0", "gso_max_segs", "1"].map(str::to_owned);
        namespaces::enter("internet", &one_segment)?.status().map_err(failed)?;
        let own = folder.path().join("gateway.toml");
        let path = |path: &Path| path.display().to_string();
        let mut command = vec![path(&program), "gateway".into(), "run".into(), path(config.unwrap_or(&own))];
        let mut set =
            |name: &str, value: &str| command.extend(["--set".to_owned(), format!("{name}={value}")]);
        set("gateway.0.mesh", "fh0");
        if config.is_none() {
            std::fs::write(&own, CONFIG).map_err(failed)?;
            set("journal.folder", &path(&folder.path().join("journal")));
            set("api.token_file", &path(&folder.path().join("token")));
        }
        let child =
            namespaces::enter("internet", &command)?.env("NOTIFY_SOCKET", &socket).spawn().map_err(failed)?;
        let mut beside = Self { child, _folder: folder };
        let began = Instant::now();
        let mut message = [0; 256];
        loop {
            let text = ready.recv(&mut message).map(|count| String::from_utf8_lossy(&message[..count]));
            if let Ok(text) = text.as_ref()
                && let Some(status) = text.strip_prefix("READY=1\nSTATUS=")
            {
                if status != "live" {
                    ui::remark(&format!(
                        "the gateway touches no packet: its mode is {status}, as in the config"
                    ));
                }
                return Ok(beside);
            }
            let has_ended = beside.child.try_wait().map_err(failed)?.is_some();
            if has_ended || began.elapsed() > START {
                return Err(Failure::new(
                    "the gateway beside the emulation is not ready",
                    "the lines above say why; `fairhop gateway doctor` says what this machine lacks",
                ));
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
