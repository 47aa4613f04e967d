//! What the daemon is started with, and why it may end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fairhop_config::{Errors, Override};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::datapath::DatapathError;

/// What the daemon is started with.
#[derive(Default)]
pub struct Options {
    /// The config.
    pub config: PathBuf,
    /// Changes to the config, which hold after a reload too.
    pub overrides: Vec<Override>,
    /// Records the first gateway from the start into this file.
    pub record: Option<PathBuf>,
    /// Is told the address of the API, whose port may have been 0.
    pub report_address: Option<Box<dyn Fn(SocketAddr)>>,
}

/// What signals ask for.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// SIGTERM or SIGINT: end.
    pub stop: Arc<AtomicBool>,
    /// SIGHUP: read the config again.
    pub reload: Arc<AtomicBool>,
}

impl Signals {
    /// Those of this process. A second SIGTERM or SIGINT ends it at once: the kernel removes the programs, and the next start
    /// the queues.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_process() -> io::Result<Self> {
        let signals = Self::default();
        for signal in [SIGTERM, SIGINT] {
            flag::register_conditional_default(signal, Arc::clone(&signals.stop))?;
            flag::register(signal, Arc::clone(&signals.stop))?;
        }
        flag::register(SIGHUP, Arc::clone(&signals.reload))?;
        Ok(signals)
    }
}

/// Why the daemon ends.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The config cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The config has errors.
    #[error(transparent)]
    Config(Errors),
    /// No datapath can be started: the first one.
    #[error("gateway {gateway}: {source}")]
    Datapath {
        /// Name of its gateway.
        gateway: String,
        /// Why.
        source: DatapathError,
    },
    /// The address of the API cannot be used.
    #[error(
        "cannot listen on {address}: {source}; fix: if `fairhop gateway status` answers, a gateway runs already; otherwise choose another address in [api] listen"
    )]
    Api {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The API cannot be started.
    #[error("cannot start the API: {0}")]
    NoApi(io::Error),
    /// Rights cannot be given up.
    #[error("cannot give up rights: {0}")]
    Privileges(io::Error),
}
