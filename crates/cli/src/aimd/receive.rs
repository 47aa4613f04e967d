//! The receiving end: streams one after another.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use clap::Args;
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::wire::{Body, MAX_HEADER, Packet};
use fairhop_transport::aimd::{Arrival, Receiver, ReceiverConfig, Seq};
use serde_json::json;

use super::measure::{Delays, Live, kbps, ms, percent};
use super::{Clock, DEFAULT_PORT, is_nothing, is_refusal, seconds, wait_at_most};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::table::{TITLE, fixed, whole};
use crate::ui;

/// The longest datagram there is.
const MOST_BYTES: usize = 65_536;

/// How long a stream that has ended is remembered at the end of the program, so that its sender hears of it even if the
/// first answer is lost.
const LINGER: Nanos = Nanos(500_000_000);

/// What `fairhop aimd receive` is asked to do.
#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// Address and port to listen at; the port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = format!("0.0.0.0:{DEFAULT_PORT}"))]
    bind: String,
    /// Most packets that may be on the way, as `fairhop outage` gives them
    #[arg(long, value_name = "PACKETS", default_value_t = u16::MAX, value_parser = clap::value_parser!(u16).range(1..))]
    rwnd: u16,
    /// End after the first stream
    #[arg(long)]
    once: bool,
    /// After how much silence a stream is over, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,
    /// Print one JSON object a stream
    #[arg(long)]
    json: bool,
}

/// Receives streams until it is interrupted, or one with --once.
///
/// # Errors
/// The port cannot be had, or the output cannot be written.
pub(crate) fn receive(args: &ReceiveArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let socket = bind(&args.bind)?;
    let listening = socket.local_addr().map_or_else(|_| args.bind.clone(), |address| address.to_string());
    ui::remark(&format!("listening at {listening} (UDP); Ctrl-C ends it"));
    let mut end =
        End { socket, clock: Clock::start(), buffer: vec![0; MOST_BYTES], current: None, last: None };
    let code = loop {
        let ended = end.stream(args, &interrupt)?;
        let Some((stream, ended)) = ended else { break 0 };
        ui::print(&if args.json { stream.json(ended) } else { stream.text(ended) })?;
        match ended {
            Ending::Interrupted => break exit::INTERRUPTED,
            Ending::Complete | Ending::Silent if args.once => break 0,
            Ending::Complete | Ending::Silent => {}
        }
    };
    if args.once {
        end.linger(&interrupt);
    }
    Ok(code)
}

fn bind(address: &str) -> Result<UdpSocket, Failure> {
    let found = address.to_socket_addrs().map_err(|error| {
        Failure::new(
            format!("--bind {address} is no address with a port: {}", reason(&error)),
            format!("as in 0.0.0.0:{DEFAULT_PORT}, or [::]:{DEFAULT_PORT} for IPv6"),
        )
    })?;
    UdpSocket::bind(&found.collect::<Vec<_>>()[..]).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => "something listens there already: end it, or --bind another port",
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 are for the administrator: --bind another one"
            }
            _ => "--bind an address of this host",
        };
        Failure::new(format!("cannot listen at {address}: {}", reason(&error)), help)
    })
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    /// The sender fell silent.
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
    current: Option<Stream>,
    /// The last stream that ended: from where, which, and the answer to its end.
    last: Option<(SocketAddr, u32, u32)>,
}

/// A stream that is being received.
struct Stream {
    from: SocketAddr,
    flow: u32,
    receiver: Receiver,
    began: Nanos,
    latest: Nanos,
    bytes: u64,
    delay: Delays,
    latest_delay: Nanos,
}

impl End {
    /// Waits for a stream and follows it to its end. None where the user wanted no stream any more.
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
            self.last = Some((stream.from, stream.flow, stream.receiver.stats().received as u32));
            (stream, ended)
        }))
    }

    /// Waits for a packet and answers it. Tells whether it ended the stream.
    fn receive(&mut self, args: &ReceiveArgs, until: Option<Nanos>) -> Result<bool, Failure> {
        let received = wait_at_most(&self.socket, self.clock, until)
            .and_then(|()| self.socket.recv_from(&mut self.buffer));
        let (length, from) = match received {
            Ok(received) => received,
            // That a sender to whom an answer went has gone is no concern of the next one.
            Err(error) if is_nothing(&error) || is_refusal(&error) => return Ok(false),
            Err(error) => {
                return Err(Failure::new(format!("cannot receive: {}", reason(&error)), "check the network"));
            }
        };
        let now = self.clock.now();
        let Ok((packet, payload)) = Packet::decode(&self.buffer[..length]) else { return Ok(false) };
        let payload = payload.len() as u64;
        let (answer, over) = self.answer(args, now, from, &packet, payload);
        if let Some(body) = answer {
            let mut bytes = [0; MAX_HEADER];
            let length = Packet { flow: packet.flow, body }.encode(&mut bytes).unwrap_or(0);
            // An answer that cannot be sent is lost, as any other may be.
            let _ = self.socket.send_to(&bytes[..length], from);
        }
        Ok(over)
    }

    /// What is answered to a packet, and whether it ended the stream.
    fn answer(
        &mut self,
        args: &ReceiveArgs,
        now: Nanos,
        from: SocketAddr,
        packet: &Packet,
        payload: u64,
    ) -> (Option<Body>, bool) {
        let ended = self.last.filter(|&(address, flow, _)| (address, flow) == (from, packet.flow));
        if let Some((.., received)) = ended {
            let asked = matches!(packet.body, Body::End { .. });
            return (asked.then_some(Body::Report { received }), false);
        }
        if self.current.is_none() && matches!(packet.body, Body::Data(_)) {
            self.current = Some(Stream::new(args, now, from, packet.flow));
        }
        let Some(stream) = &mut self.current else { return (None, false) };
        if (stream.from, stream.flow) != (from, packet.flow) {
            return (matches!(packet.body, Body::Data(_)).then_some(Body::Busy), false);
        }
        match packet.body {
            Body::Data(datagram) => {
                let (ack, arrival) = stream.receiver.on_datagram(now, &datagram);
                stream.latest = now;
                if let Arrival::New { delay, .. } = arrival {
                    stream.bytes += payload;
                    stream.delay.record(delay);
                    stream.latest_delay = delay;
                }
                (Some(Body::Ack(ack)), false)
            }
            Body::End { end } => {
                stream.receiver.on_end(end);
                (Some(Body::Report { received: stream.receiver.stats().received as u32 }), true)
            }
            Body::Ack(_) | Body::Report { .. } | Body::Busy => (None, false),
        }
    }

    /// Answers to the end of the last stream until its sender must have heard one.
    fn linger(&mut self, interrupt: &Interrupt) {
        let until = self.clock.now().saturating_add(LINGER);
        let Some((address, flow, received)) = self.last else { return };
        while self.clock.now() < until && !interrupt.is_requested() {
            let packet = wait_at_most(&self.socket, self.clock, Some(until))
                .and_then(|()| self.socket.recv_from(&mut self.buffer));
            let Ok((length, from)) = packet else { continue };
            let asks = Packet::decode(&self.buffer[..length])
                .is_ok_and(|(packet, _)| packet.flow == flow && matches!(packet.body, Body::End { .. }));
            let mut bytes = [0; MAX_HEADER];
            if asks && from == address {
                let length = Packet { flow, body: Body::Report { received } }.encode(&mut bytes).unwrap_or(0);
                let _ = self.socket.send_to(&bytes[..length], from);
            }
        }
    }
}

impl Stream {
    fn new(args: &ReceiveArgs, now: Nanos, from: SocketAddr, flow: u32) -> Self {
        Self {
            from,
            flow,
            receiver: Receiver::new(ReceiverConfig { rwnd: args.rwnd, first: Seq::of(0) }),
            began: now,
            latest: now,
            bytes: 0,
            delay: Delays::default(),
            latest_delay: Nanos::ZERO,
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

    fn text(&self, ended: Ending) -> String {
        let stats = self.receiver.stats();
        let ended = match ended {
            Ending::Complete => "",
            Ending::Silent => ", ended by silence",
            Ending::Interrupted => ", interrupted",
        };
        format!(
            "{TITLE}From {}{TITLE:#}, {} s{ended}\n\
             rate     {} kb/s of payload, {} packets\n\
             loss     {} %: {} of {} packets; {} out of order, {} twice\n\
             delay    {} over the shortest, one way\n",
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
        )
    }

    fn json(&self, ended: Ending) -> String {
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
            "delay_ms": self.delay.json(),
        });
        format!("{object:#}\n")
    }
}
