//! The receiving end: streams one after another.

use std::collections::hash_map::RandomState;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::handshake::{Admission, Listener};
use fairhop_transport::aimd::wire::{MAX_HEADER, Packet};
use fairhop_transport::aimd::{Arrival, Receiver, ReceiverConfig, Seq};
use serde_json::json;

use super::measure::{Delays, Live, kbps, ms, percent};
use super::socket::{Clock, DEFAULT_PORT, is_nothing, is_refusal, limit_wait, resolve, seconds};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::table::{TITLE, fixed, whole};
use crate::ui;

/// Longest UDP datagram.
const MAX_DATAGRAM: usize = 65_536;

/// With --once: how long the end of the stream is still answered, in case the first report is lost.
const LINGER: Nanos = Nanos(500_000_000);

/// Arguments of `fairhop aimd receive`.
#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// Address and port to listen on. The default receives from this host only; for other hosts, give an address of this
    /// host, or 0.0.0.0 for all of them. Port 0 is any free one
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value_t = format!("127.0.0.1:{DEFAULT_PORT}"))]
    bind: String,
    /// Maximum number of outstanding packets, as computed by `fairhop outage`
    #[arg(long, value_name = "PACKETS", default_value_t = u16::MAX, value_parser = clap::value_parser!(u16).range(1..))]
    rwnd: u16,
    /// Exit after the first stream
    #[arg(long)]
    once: bool,
    /// A stream ends after this many seconds without a packet
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,
    /// Print one JSON object per stream
    #[arg(long)]
    json: bool,
}

/// Receives streams until it is interrupted, or one with --once.
///
/// # Errors
/// The address cannot be used, or the output cannot be written.
pub(crate) fn receive(args: &ReceiveArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let _polling = interrupt.poll();
    let socket = bind(&args.bind)?;
    let listening = socket.local_addr().map_or_else(|_| args.bind.clone(), |address| address.to_string());
    ui::remark(&format!("listening at {listening} (UDP); Ctrl-C ends it"));
    let mut end = End {
        socket,
        clock: Clock::start(),
        buffer: vec![0; MAX_DATAGRAM],
        // The standard library gives every such state a random key.
        listener: Listener::new(RandomState::new()),
        current: None,
    };
    let code = loop {
        let Some((stream, ended)) = end.stream(args, &interrupt)? else { break 0 };
        let strays = end.listener.take_strays();
        let has_data = stream.receiver.stats().expected > 0;
        if has_data {
            ui::print(&if args.json { stream.json(ended, strays) } else { stream.text(ended, strays) })?;
        } else {
            ui::remark(&format!("{} opened a stream and sent no data", stream.from));
        }
        match ended {
            Ending::Interrupted => break exit::INTERRUPTED,
            Ending::Complete | Ending::Silent if args.once && has_data => break 0,
            Ending::Complete | Ending::Silent => {}
        }
    };
    if args.once {
        end.linger(&interrupt);
    }
    let strays = end.listener.take_strays();
    if strays > 0 {
        ui::remark(&format!("{strays} stray datagrams ignored"));
    }
    Ok(code)
}

fn bind(address: &str) -> Result<UdpSocket, Failure> {
    let found = resolve(address, DEFAULT_PORT).map_err(|error| {
        Failure::new(
            format!("--bind {address} is not an address: {}", reason(&error)),
            format!("as in 192.0.2.7, 0.0.0.0:{DEFAULT_PORT}, or [::]:{DEFAULT_PORT} for IPv6"),
        )
    })?;
    UdpSocket::bind(&found[..]).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => "another program listens there: end it, or --bind another port",
            io::ErrorKind::PermissionDenied => "ports below 1024 need privileges: --bind another one",
            _ => "--bind an address of this host",
        };
        Failure::new(format!("cannot listen at {address}: {}", reason(&error)), help)
    })
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    /// No packet for the timeout.
    Silent,
    Interrupted,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Silent => "silent",
            Self::Interrupted => "interrupted",
        }
    }
}

struct End {
    socket: UdpSocket,
    clock: Clock,
    buffer: Vec<u8>,
    listener: Listener<SocketAddr, RandomState>,
    current: Option<Stream>,
}

/// A stream that is being received.
struct Stream {
    from: SocketAddr,
    receiver: Receiver,
    /// When the first data came; before that, when the stream was opened.
    began: Nanos,
    latest: Nanos,
    bytes: u64,
    delay: Delays,
    latest_delay: Nanos,
}

impl End {
    /// Waits for a stream and receives it to its end. `None` if interrupted without a stream.
    fn stream(
        &mut self,
        args: &ReceiveArgs,
        interrupt: &Interrupt,
    ) -> Result<Option<(Stream, Ending)>, Failure> {
        let patience = Nanos::from_secs_f64(args.timeout);
        let mut live = None;
        let ended = loop {
            if interrupt.is_requested() {
                break Ending::Interrupted;
            }
            let now = self.clock.now();
            if self.current.as_ref().is_some_and(|stream| now.saturating_sub(stream.latest) > patience) {
                break Ending::Silent;
            }
            if self.receive(args, None)? {
                break Ending::Complete;
            }
            if let Some(stream) = &self.current {
                stream.show(live.get_or_insert_with(Live::new), self.clock.now());
            }
        };
        live.iter().for_each(Live::clear);
        Ok(self.current.take().map(|stream| {
            self.listener.close(stream.receiver.stats().received as u32);
            (stream, ended)
        }))
    }

    /// Waits for a packet and answers it. Returns whether it ended the stream.
    fn receive(&mut self, args: &ReceiveArgs, until: Option<Nanos>) -> Result<bool, Failure> {
        let received = limit_wait(&self.socket, self.clock, until)
            .and_then(|()| self.socket.recv_from(&mut self.buffer));
        let (length, from) = match received {
            Ok(received) => received,
            // A refusal is about an answer to a sender that has gone. It does not concern the next one.
            Err(error) if is_nothing(&error) || is_refusal(&error) => return Ok(false),
            Err(error) => {
                return Err(Failure::new(format!("cannot receive: {}", reason(&error)), "check the network"));
            }
        };
        let now = self.clock.now();
        let Ok((packet, payload)) = Packet::decode(&self.buffer[..length]) else {
            self.listener.on_garbage();
            return Ok(false);
        };
        let payload = payload.len() as u64;
        let (answer, over) = match self.listener.on_packet(from, &packet) {
            Admission::Reply(answer) => (Some(answer), false),
            Admission::Opened(answer) => {
                self.current = Some(Stream::new(args, now, from));
                (Some(answer), false)
            }
            Admission::Current => match &mut self.current {
                Some(stream) => stream.take(now, &packet, payload),
                None => (None, false),
            },
            Admission::Late | Admission::Stray => (None, false),
        };
        if let Some(answer) = answer {
            self.send(&answer, from);
        }
        Ok(over)
    }

    fn send(&self, answer: &Packet, to: SocketAddr) {
        let mut bytes = [0; MAX_HEADER];
        let length = answer.encode(&mut bytes).unwrap_or(0);
        // An answer that cannot be sent counts as lost.
        let _ = self.socket.send_to(&bytes[..length], to);
    }

    /// Answers the end of the last stream until its sender must have received a report.
    fn linger(&mut self, interrupt: &Interrupt) {
        let until = self.clock.now().saturating_add(LINGER);
        while self.clock.now() < until && !interrupt.is_requested() {
            let received = limit_wait(&self.socket, self.clock, Some(until))
                .and_then(|()| self.socket.recv_from(&mut self.buffer));
            let Ok((length, from)) = received else { continue };
            let Ok((packet, _)) = Packet::decode(&self.buffer[..length]) else {
                self.listener.on_garbage();
                continue;
            };
            // No stream opens any more.
            let is_hello = matches!(packet, Packet::Hello { .. });
            if !is_hello && let Admission::Reply(answer) = self.listener.on_packet(from, &packet) {
                self.send(&answer, from);
            }
        }
    }
}

impl Stream {
    fn new(args: &ReceiveArgs, now: Nanos, from: SocketAddr) -> Self {
        Self {
            from,
            receiver: Receiver::new(ReceiverConfig { rwnd: args.rwnd, first: Seq::of(0) }),
            began: now,
            latest: now,
            bytes: 0,
            delay: Delays::default(),
            latest_delay: Nanos::ZERO,
        }
    }

    /// Takes a packet of the stream. Returns the answer, and whether the packet ended the stream.
    fn take(&mut self, now: Nanos, packet: &Packet, payload: u64) -> (Option<Packet>, bool) {
        match *packet {
            Packet::Data { tag, datagram } => {
                if self.receiver.stats().expected == 0 {
                    self.began = now;
                }
                let (ack, arrival) = self.receiver.on_datagram(now, &datagram);
                self.latest = now;
                if let Arrival::New { delay, .. } = arrival {
                    self.bytes += payload;
                    self.delay.record(delay);
                    self.latest_delay = delay;
                }
                (Some(Packet::Ack { tag, ack }), false)
            }
            Packet::End { tag, end } => {
                self.receiver.on_end(end);
                let received = self.receiver.stats().received as u32;
                (Some(Packet::Report { tag, received }), true)
            }
            _ => (None, false),
        }
    }

    fn duration(&self) -> Nanos {
        self.latest.saturating_sub(self.began)
    }

    fn show(&self, live: &mut Live, now: Nanos) {
        let stats = self.receiver.stats();
        live.show(now.saturating_sub(self.began), self.bytes, || {
            format!(
                "loss {} %  delay +{} ms  from {}",
                percent(stats.missing(), stats.expected),
                ms(Some(self.latest_delay.as_millis_f64())),
                self.from
            )
        });
    }

    fn text(&self, ended: Ending, strays: u64) -> String {
        let stats = self.receiver.stats();
        let ended = match ended {
            Ending::Complete => "",
            Ending::Silent => ", ended: no more packets",
            Ending::Interrupted => ", interrupted",
        };
        format!(
            "{TITLE}From {}{TITLE:#}, {} s{ended}\n\
             rate     {} kb/s of payload, {} packets\n\
             loss     {} %: {} of {} packets; {} out of order, {} duplicates\n\
             delay    {} one way, above the minimum{}\n",
            self.from,
            fixed(self.duration().as_secs_f64(), 1),
            fixed(kbps(self.bytes, self.duration()), 1),
            whole(stats.received as f64),
            percent(stats.missing(), stats.expected),
            whole(stats.missing() as f64),
            whole(stats.expected as f64),
            whole(stats.reordered as f64),
            whole(stats.duplicates as f64),
            self.delay.text(),
            if strays > 0 {
                format!("\nstrays   {} other datagrams ignored", whole(strays as f64))
            } else {
                String::new()
            },
        )
    }

    fn json(&self, ended: Ending, strays: u64) -> String {
        let stats = self.receiver.stats();
        let object = json!({
            "from": self.from.to_string(),
            "ended": ended.name(),
            "duration_s": self.duration().as_secs_f64(),
            "rate_kbps": kbps(self.bytes, self.duration()),
            "received": stats.received,
            "expected": stats.expected,
            "lost": stats.missing(),
            "loss": if stats.expected == 0 { 0.0 } else { stats.missing() as f64 / stats.expected as f64 },
            "reordered": stats.reordered,
            "duplicates": stats.duplicates,
            "strays": strays,
            "delay_ms": self.delay.json(),
        });
        format!("{object:#}\n")
    }
}
