//! The protocol of `sd_notify(3)`: ready, reloading, stopping, and the watchdog.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Half of the time within which the watchdog wants to hear.
    interval: Option<Duration>,
    last: Instant,
}

impl Notify {
    /// The service manager that the environment names (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub fn from_environment() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|path| address_of(path.as_bytes()).ok());
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse::<u64>().ok());
        Self::new(address, micros.map(Duration::from_micros))
    }

    /// A service manager at an address, which wants to hear within `watchdog`.
    pub fn new(address: Option<SocketAddr>, watchdog: Option<Duration>) -> Self {
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        Self { socket, interval: watchdog.map(|within| within / 2), last: Instant::now() }
    }

    /// Sends assignments such as `READY=1`, separated by line breaks. Without a service manager nothing happens.
    pub fn send(&self, assignments: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that has gone away is no reason to stop.
            let _ = socket.send_to_addr(assignments.as_bytes(), address);
        }
    }

    /// Tells the watchdog that the loop runs, if that is due.
    pub fn alive(&mut self) {
        if self.interval.is_some_and(|interval| self.last.elapsed() >= interval) {
            self.last = Instant::now();
            self.send("WATCHDOG=1");
        }
    }
}

/// A path, or an abstract name after `@`.
fn address_of(path: &[u8]) -> io::Result<SocketAddr> {
    match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_gets_ready_and_the_watchdog_hears_twice_within_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let address = SocketAddr::from_pathname(&path).expect("an address");
        let mut notify = Notify::new(Some(address), Some(Duration::from_millis(20)));
        notify.send("READY=1\nSTATUS=dry-run");
        let mut buffer = [0; 64];
        let count = manager.recv(&mut buffer).expect("a message");
        assert_eq!(&buffer[..count], b"READY=1\nSTATUS=dry-run");
        std::thread::sleep(Duration::from_millis(12));
        notify.alive();
        let count = manager.recv(&mut buffer).expect("a message");
        assert_eq!(&buffer[..count], b"WATCHDOG=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let mut notify = Notify::new(None, None);
        notify.send("READY=1");
        notify.alive();
    }
}
