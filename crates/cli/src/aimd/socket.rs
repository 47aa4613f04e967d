//! Addresses, and a socket with timeouts.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;

/// Port of a receiver of AIMD datagrams by default.
pub(crate) const DEFAULT_PORT: u16 = 24024;

/// Longest wait for the socket: Ctrl-C and the live line are handled between waits.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Time since the stream or the program started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Limits the next wait for the socket: not past `until`, and at most [`LONGEST_WAIT`].
pub(crate) fn limit_wait(socket: &UdpSocket, clock: Clock, until: Option<Nanos>) -> io::Result<()> {
    /// A timeout of zero would mean none.
    const SHORTEST: Duration = Duration::from_micros(100);
    let left = until.map(|until| Duration::from_nanos(until.saturating_sub(clock.now()).0));
    let wait = left.unwrap_or(LONGEST_WAIT).clamp(SHORTEST, LONGEST_WAIT);
    socket.set_read_timeout(Some(wait))
}

/// Whether a wait ended without a packet.
pub(crate) fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Whether the other host reported that the port is closed.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}

/// The addresses of a host, with `port` unless one is given: `192.0.2.7`, `host.example:5000`,
/// `[2001:db8::7]:5000`.
pub(crate) fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    // An IPv6 address contains colons, and has brackets if a port follows.
    let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let found = if has_port {
        host.to_socket_addrs()
    } else {
        (host.trim_start_matches('[').trim_end_matches(']'), port).to_socket_addrs()
    };
    Ok(found?.collect())
}

/// A number of seconds, as an argument.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    const MAX: f64 = 1e6;
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= MAX => Ok(s),
        Ok(_) => Err(format!("must be more than 0 and at most {MAX} s")),
        Err(_) => Err("must be a number of seconds, without a unit".to_owned()),
    }
}
