//! Packets and a datapath without a kernel.

use std::collections::VecDeque;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};

use fairhop_control::digest::{
    Digest, Direction, PROTOCOL_TCP, PROTOCOL_UDP, Payload, RtpFields, TcpFields, tcp_flag,
};
use fairhop_control::flow::Address;
use fairhop_control::raw::RawDigest;
use fairhop_gateway::config::Mode;
use fairhop_gateway::datapath::{Counters, Datapath, DatapathError, Features, Orders, Queue};
use fairhop_model::units::Nanos;

pub(crate) const SERVER: [u8; 4] = [192, 0, 2, 1];

/// A packet between a mesh host and the server.
pub(crate) fn digest(
    at: Nanos,
    direction: Direction,
    host: u8,
    port: u16,
    payload: Payload,
    bytes: u32,
) -> RawDigest {
    let (mesh, wired) = (Address::v4([10, 1, 0, host]), Address::v4(SERVER));
    let is_tcp = matches!(payload, Payload::Tcp(_));
    let wired_port = if is_tcp { 443 } else { 4000 };
    let (source, destination, source_port, destination_port) = match direction {
        Direction::ToMesh => (wired, mesh, wired_port, port),
        Direction::FromMesh => (mesh, wired, port, wired_port),
    };
    RawDigest::from(&Digest {
        at,
        waited: Nanos::ZERO,
        direction,
        source,
        destination,
        source_port,
        destination_port,
        protocol: if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP },
        ttl: 62,
        traffic_class: 0,
        bytes,
        payload,
    })
}

/// Packet number `n` of a stream of RTP with `payload_bytes` in each, 160 ticks apart.
pub(crate) fn rtp(n: u32, payload_bytes: u32) -> Payload {
    Payload::Rtp(RtpFields {
        payload_type: 0,
        marker: false,
        sequence: n as u16,
        timestamp: n.wrapping_mul(160),
        ssrc: 7,
        payload_bytes,
    })
}

/// Both directions of a call of a host, one packet every 20 ms each.
pub(crate) fn call(at: Nanos, host: u8, payload_bytes: u32) -> [RawDigest; 2] {
    let n = (at.0 / 20_000_000) as u32;
    let of = |direction| digest(at, direction, host, 5000, rtp(n, payload_bytes), payload_bytes + 40);
    [of(Direction::FromMesh), of(Direction::ToMesh)]
}

pub(crate) fn syn(at: Nanos, host: u8, port: u16) -> RawDigest {
    let fields = TcpFields { flags: tcp_flag::SYN, window: 65_535, mss: Some(1460), ..TcpFields::default() };
    digest(at, Direction::ToMesh, host, port, Payload::Tcp(fields), 60)
}

/// Segment number `n` of a download of a host, and its ACK 20 ms later.
pub(crate) fn download(at: Nanos, host: u8, n: u32) -> [RawDigest; 2] {
    let seq = 1 + n * 1460;
    let data =
        TcpFields { seq, flags: tcp_flag::ACK, window: 500, payload_bytes: 1460, ..TcpFields::default() };
    let ack = TcpFields { ack: seq + 1460, flags: tcp_flag::ACK, window: 500, ..TcpFields::default() };
    let later = at.saturating_add(Nanos::from_millis(20));
    [
        digest(at, Direction::ToMesh, host, 6000, Payload::Tcp(data), 1500),
        digest(later, Direction::FromMesh, host, 6000, Payload::Tcp(ack), 40),
    ]
}

/// Calls of `calls` hosts and a download of another one, in the order of time, for some seconds from the tenth on.
pub(crate) fn traffic(calls: u8, seconds: u64) -> Vec<RawDigest> {
    let mut digests = Vec::new();
    for step in 0..seconds * 100 {
        let at = Nanos::from_secs(10).saturating_add(Nanos::from_millis(10 * step));
        if step % 2 == 0 {
            (1..=calls).for_each(|host| digests.extend(call(at, host, 160)));
        }
        digests.extend(download(at, 99, step as u32));
    }
    digests.sort_by_key(|digest| digest.at);
    digests
}

/// What a test sees of a datapath, and what it lets it do.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) digests: VecDeque<RawDigest>,
    /// Number of orders, and the rate into the mesh of the last ones.
    pub(crate) applied: u64,
    pub(crate) down: Option<u64>,
    pub(crate) stopped: u32,
    /// Starts and stops with the interfaces to the mesh, in their order.
    pub(crate) events: Vec<String>,
    /// Whether every call fails.
    pub(crate) is_gone: bool,
    /// Which gateways cannot be started, by the interface to the mesh and the mode.
    pub(crate) refuses: Option<fn(&str, Mode) -> bool>,
    /// The service manager, whose messages are put among the events.
    pub(crate) manager: Option<UnixDatagram>,
}

impl Seen {
    /// Takes the messages that the service manager has got, without those of the watchdog.
    pub(crate) fn hear(&mut self) {
        let mut buffer = [0; 256];
        while let Some(Ok(count)) = self.manager.as_ref().map(|manager| manager.recv(&mut buffer)) {
            let message = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if message != "WATCHDOG=1" {
                self.events.push(message);
            }
        }
    }
}

/// A datapath that hands over what a test gives it.
#[derive(Debug)]
pub(crate) struct Fake {
    seen: Arc<Mutex<Seen>>,
    features: Features,
    mesh: String,
    digests: u64,
}

impl Fake {
    pub(crate) fn start(seen: &Arc<Mutex<Seen>>, mesh: &str, mode: Mode) -> Result<Self, DatapathError> {
        let features = Features::default();
        let fake = Self { seen: Arc::clone(seen), features, mesh: mesh.to_owned(), digests: 0 };
        fake.check()?;
        let mut of_fake = seen.lock().unwrap();
        if of_fake.refuses.is_some_and(|refuses| refuses(mesh, mode)) {
            let (missing, fix) = (format!("{mesh} cannot be {}", mode.name()), "choose another mode".into());
            return Err(DatapathError::Missing { missing, fix });
        }
        of_fake.hear();
        of_fake.events.push(format!("start {mesh}"));
        drop(of_fake);
        Ok(fake)
    }

    fn check(&self) -> Result<(), DatapathError> {
        if self.seen.lock().unwrap().is_gone {
            let fix = "ip link set up".into();
            return Err(DatapathError::Missing { missing: "the interface is gone".into(), fix });
        }
        Ok(())
    }
}

impl Datapath for Fake {
    fn features(&self) -> &Features {
        &self.features
    }

    fn poll_digests(&mut self, sink: &mut dyn FnMut(&RawDigest)) -> Result<(), DatapathError> {
        self.check()?;
        let digests = std::mem::take(&mut self.seen.lock().unwrap().digests);
        self.digests += digests.len() as u64;
        digests.iter().for_each(sink);
        Ok(())
    }

    fn apply(&mut self, orders: &Orders<'_>, _now: Nanos) -> Result<(), DatapathError> {
        self.check()?;
        let mut seen = self.seen.lock().unwrap();
        seen.applied += 1;
        seen.down = orders.policy.down.map(|rate| rate.0);
        Ok(())
    }

    fn waiting(&mut self, _now: Nanos) -> Result<usize, DatapathError> {
        self.check().map(|()| 0)
    }

    fn counters(&mut self) -> Result<Counters, DatapathError> {
        self.check().map(|()| Counters { digests: self.digests, ..Counters::default() })
    }

    fn queues(&mut self) -> Result<Vec<Queue>, DatapathError> {
        self.check().map(|()| Vec::new())
    }

    fn stop(&mut self) -> Result<(), DatapathError> {
        let mut seen = self.seen.lock().unwrap();
        seen.stopped += 1;
        seen.hear();
        seen.events.push(format!("stop {}", self.mesh));
        Ok(())
    }
}
