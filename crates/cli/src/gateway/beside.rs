//! The gateway beside an emulation: where the Internet is attached, in front of the emulated mesh.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use fairhop_emulate::namespaces;
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, reason};

/// Time to load programs and to be ready.
const START: Duration = Duration::from_secs(20);
/// Time to put everything back at the end.
const END: Duration = Duration::from_secs(3);

/// A gateway that runs in the namespace of the Internet, until it is dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    child: Child,
    socket: PathBuf,
}

impl Beside {
    /// Starts `fairhop gateway run` with a config, whose first mesh interface is that of the emulation, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// It cannot be started, or has ended.
    pub(crate) fn start(config: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                format!("cannot start the gateway: {}", reason(&error)),
                "see `fairhop gateway doctor`",
            )
        };
        let socket = std::env::temp_dir().join(format!("fairhop-gateway-{}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let ready = UnixDatagram::bind(&socket).map_err(failed)?;
        ready.set_read_timeout(Some(Duration::from_millis(200))).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let words = ["gateway", "run"].map(str::to_owned);
        let mut command = vec![program.display().to_string()];
        command.extend(words);
        command.push(config.display().to_string());
        command.extend(["--set".to_owned(), "gateway.0.mesh=fh0".to_owned()]);
        let child =
            namespaces::enter("internet", &command)?.env("NOTIFY_SOCKET", &socket).spawn().map_err(failed)?;
        let mut beside = Self { child, socket };
        let began = Instant::now();
        let mut message = [0; 256];
        loop {
            if let Ok(count) = ready.recv(&mut message)
                && message[..count].starts_with(b"READY=1")
            {
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
        let _ = std::fs::remove_file(&self.socket);
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
