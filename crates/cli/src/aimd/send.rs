//! The sending end.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use clap::Args;
use fairhop_model::outage::tcp_friendly_alpha;
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::handshake::{Answer, Opening};
use fairhop_transport::aimd::wire::{DATA_HEADER, MAX_HEADER, Packet, tag_of};
use fairhop_transport::aimd::{Sender, SenderConfig};
use serde_json::json;

use super::measure::{Delays, Live, kbps, ms, percent};
use super::socket::{Clock, DEFAULT_PORT, is_nothing, is_refusal, limit_wait, resolve, seconds};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::table::{TITLE, fixed, whole};
use crate::ui;

/// Longest payload: that of a UDP datagram over IPv4 (65,507 bytes) minus the header.
const MAX_PAYLOAD: i64 = 65_507 - DATA_HEADER as i64;

/// Interval and maximum number of end packets.
const END_INTERVAL: Nanos = Nanos(200_000_000);
const MAX_ENDS: u32 = 10;

/// Arguments of `fairhop aimd send`.
#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Where `fairhop aimd receive` runs: a name or an address, and the port unless it is 24024
    #[arg(value_name = "HOST:PORT")]
    to: String,
    /// Growth of the window, in packets per round trip [default: TCP-friendly, 3 (1 − β) / (1 + β)]
    #[arg(long, value_name = "PACKETS", value_parser = alpha, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// Window after a loss, as a fraction of the window before
    #[arg(long, value_name = "FRACTION", default_value = "0.875", value_parser = beta, allow_negative_numbers = true)]
    beta: f64,
    /// Payload of a packet, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1200,
        value_parser = clap::value_parser!(u32).range(0..=MAX_PAYLOAD)
    )]
    payload: u32,
    /// Rate of the source in kb/s of payload; packets that the window holds back are dropped, as for live media [default:
    /// as fast as the path allows]
    #[arg(long, value_name = "KBPS", value_parser = rate, allow_negative_numbers = true)]
    rate_limit: Option<f64>,
    /// Duration of the stream, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    duration: f64,
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha > 0.0 && alpha <= 100.0 => Ok(alpha),
        _ => Err("must be more than 0 and at most 100 packets per round trip; TCP has 1".to_owned()),
    }
}

fn beta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(beta) if beta > 0.0 && beta < 1.0 => Ok(beta),
        _ => Err("must be more than 0 and less than 1; TCP has 0.5".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(kbps) if (0.1..=1e7).contains(&kbps) => Ok(kbps),
        _ => Err("must be 0.1 to 10000000 kb/s, without a unit".to_owned()),
    }
}

/// Sends a stream and reports on it.
///
/// # Errors
/// The host cannot be found or reached, or no answer comes.
pub(crate) fn send(args: &SendArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let _polling = interrupt.poll();
    let to = address(&args.to)?;
    let mut stream = Stream::new(args, to)?;
    let live = Live::new();
    let end = stream.run(args, &interrupt, live)?;
    ui::print(&if args.json { stream.json(args, end) } else { stream.text(args, end) })?;
    match end {
        Ending::Complete => Ok(0),
        Ending::Interrupted => Ok(exit::INTERRUPTED),
        Ending::Silent => Err(Failure::new(
            format!("{} stopped answering for {} s, so the stream was ended", args.to, args.timeout),
            "check that the receiver is running and that the path works",
        )),
    }
}

/// The address of the receiver.
fn address(to: &str) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| {
        Failure::new(
            format!("there is no host {to}: {why}"),
            format!(
                "give a name or an address, with the port unless it is {DEFAULT_PORT}: 192.0.2.7, host.example:5000, \
                 [2001:db8::7]:5000"
            ),
        )
    };
    let found = resolve(to, DEFAULT_PORT).map_err(|error| unknown(reason(&error)))?;
    found.first().copied().ok_or_else(|| unknown("the name has no address".to_owned()))
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    Interrupted,
    /// The receiver stopped answering.
    Silent,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Silent => "silent",
        }
    }
}

/// How the opening of a stream ended.
enum Opened {
    Accepted,
    Interrupted,
    NoAnswer,
}

/// What came from the socket.
enum Received {
    Packet(Packet),
    /// No packet, or one of another protocol.
    Nothing,
    /// The other host reports that the port is closed.
    Closed,
}

/// A source of constant rate.
#[derive(Clone, Copy, Debug)]
struct Source {
    between: Nanos,
    next: Nanos,
}

struct Stream {
    socket: UdpSocket,
    to: SocketAddr,
    id: u64,
    clock: Clock,
    sender: Sender,
    alpha: f64,
    payload: u32,
    source: Option<Source>,
    buffer: Vec<u8>,
    rtt: Delays,
    delay: Delays,
    /// Packets of a limited source dropped because the window was closed.
    held_back: u64,
    /// Count reported by the receiver.
    report: Option<u32>,
    last_answer: Nanos,
    /// When the source stopped.
    stopped: Nanos,
}

impl Stream {
    fn new(args: &SendArgs, to: SocketAddr) -> Result<Self, Failure> {
        let unreachable = |error: io::Error| {
            Failure::new(
                format!("{to} cannot be reached: {}", reason(&error)),
                "check the address and the network",
            )
        };
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).map_err(unreachable)?;
        socket.connect(to).map_err(unreachable)?;
        let alpha = args.alpha.unwrap_or_else(|| tcp_friendly_alpha(args.beta));
        let mut sender = Sender::new(SenderConfig { alpha, beta: args.beta, ..SenderConfig::default() });
        let source = args.rate_limit.map(|kbps| Source {
            // A packet without payload counts as its header, so that the interval is not zero.
            between: Nanos::from_secs_f64(
                8.0 * f64::from(args.payload.max(DATA_HEADER as u32)) / (1e3 * kbps),
            ),
            next: Nanos::ZERO,
        });
        if source.is_none() {
            sender.offer(u64::MAX);
        }
        Ok(Self {
            socket,
            to,
            // The standard library gives every such state a random key.
            id: RandomState::new().hash_one(to),
            clock: Clock::start(),
            sender,
            alpha,
            payload: args.payload,
            source,
            buffer: vec![0; DATA_HEADER + args.payload as usize],
            rtt: Delays::default(),
            delay: Delays::default(),
            held_back: 0,
            report: None,
            last_answer: Nanos::ZERO,
            stopped: Nanos::ZERO,
        })
    }

    /// Opens the stream, sends until the time is over, and announces the end.
    fn run(&mut self, args: &SendArgs, interrupt: &Interrupt, mut live: Live) -> Result<Ending, Failure> {
        let patience = Nanos::from_secs_f64(args.timeout);
        let stop = Nanos::from_secs_f64(args.duration);
        live.say(format!("{}: waiting for an answer", self.to));
        match self.open(patience, interrupt) {
            Ok(Opened::Accepted) => {}
            Ok(Opened::Interrupted) => return Ok(Ending::Interrupted),
            Ok(Opened::NoAnswer) => {
                live.clear();
                return Err(self.no_answer(args));
            }
            Err(failure) => {
                live.clear();
                return Err(failure);
            }
        }
        self.clock = Clock::start();
        let result = loop {
            let now = self.clock.now();
            if now >= stop {
                break Ok(Ending::Complete);
            }
            if interrupt.is_requested() {
                break Ok(Ending::Interrupted);
            }
            if now.saturating_sub(self.last_answer) > patience {
                break Ok(Ending::Silent);
            }
            self.sender.on_timer(now);
            let source = self.offer(now);
            let open = self.pump(now).and_then(|open| {
                let next = [self.sender.next_timer(), source, Some(stop)].into_iter().flatten().min();
                Ok(open && self.receive(next)?)
            });
            match open {
                Ok(true) => {}
                Ok(false) => break Ok(Ending::Silent),
                Err(failure) => break Err(failure),
            }
            self.show(&mut live);
        };
        self.stopped = self.clock.now();
        if matches!(result, Ok(Ending::Complete | Ending::Interrupted)) {
            self.finish(&live);
        }
        live.clear();
        result
    }

    /// Repeats hellos until the receiver accepts or refuses the stream.
    fn open(&mut self, patience: Nanos, interrupt: &Interrupt) -> Result<Opened, Failure> {
        let mut opening = Opening::new(self.id);
        loop {
            let now = self.clock.now();
            if interrupt.is_requested() {
                return Ok(Opened::Interrupted);
            }
            if now > patience {
                return Ok(Opened::NoAnswer);
            }
            if let Some(hello) = opening.poll_transmit(now) {
                let mut bytes = [0; MAX_HEADER];
                let length = hello.encode(&mut bytes).unwrap_or(0);
                match self.socket.send(&bytes[..length]) {
                    Err(error) if is_refusal(&error) => return Err(self.closed()),
                    // The hello is repeated.
                    _ => {}
                }
            }
            let packet = match self.next_packet(Some(opening.next_timer()))? {
                Received::Packet(packet) => packet,
                Received::Nothing => continue,
                Received::Closed => return Err(self.closed()),
            };
            match opening.on_packet(self.clock.now(), &packet) {
                Some(Answer::Accepted) => return Ok(Opened::Accepted),
                Some(Answer::Refused) => {
                    return Err(Failure::new(
                        format!("the receiver at {} serves another sender", self.to),
                        "try again after that stream, or start a second receiver on another port",
                    ));
                }
                None => {}
            }
        }
    }

    fn no_answer(&self, args: &SendArgs) -> Failure {
        Failure::new(
            format!("no answer from {} for {} s", self.to, args.timeout),
            format!(
                "start `fairhop aimd receive --bind ADDRESS` there, and let UDP to port {} pass",
                self.to.port()
            ),
        )
    }

    /// Offers the packets that a source of constant rate has until now; returns the time of its next one.
    fn offer(&mut self, now: Nanos) -> Option<Nanos> {
        let source = self.source.as_mut()?;
        while source.next <= now {
            // Packets unsent when the next one is due are too late.
            let late = self.sender.backlog();
            self.sender.withdraw(late);
            self.held_back += late;
            self.sender.offer(1);
            source.next = source.next.saturating_add(source.between.max(Nanos(1)));
            // At most one packet per call, so that a pause of the program does not cause a burst.
            if source.next <= now {
                break;
            }
        }
        Some(source.next)
    }

    /// Sends what the window allows. Returns whether the receiver's port is open.
    fn pump(&mut self, now: Nanos) -> Result<bool, Failure> {
        while let Some(datagram) = self.sender.poll_transmit(now) {
            let packet = Packet::Data { tag: tag_of(self.id), datagram };
            packet.encode(&mut self.buffer);
            match self.socket.send(&self.buffer) {
                Ok(_) => {}
                Err(error) if is_refusal(&error) => return Ok(false),
                // A full queue of this host drops packets like any other queue.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory || is_nothing(&error) => {}
                Err(error) => {
                    return Err(Failure::new(
                        format!("cannot send {} bytes to {}: {}", self.buffer.len(), self.to, reason(&error)),
                        "check the network, or give a smaller --payload",
                    ));
                }
            }
        }
        Ok(true)
    }

    /// Waits for a packet.
    fn next_packet(&mut self, until: Option<Nanos>) -> Result<Received, Failure> {
        let mut bytes = [0; 64];
        let received =
            limit_wait(&self.socket, self.clock, until).and_then(|()| self.socket.recv(&mut bytes));
        match received {
            Ok(length) => Ok(match Packet::decode(&bytes[..length]) {
                Ok((packet, _)) => Received::Packet(packet),
                Err(_) => Received::Nothing,
            }),
            Err(error) if is_nothing(&error) => Ok(Received::Nothing),
            Err(error) if is_refusal(&error) => Ok(Received::Closed),
            Err(error) => Err(Failure::new(
                format!("cannot receive from {}: {}", self.to, reason(&error)),
                "check the network",
            )),
        }
    }

    /// Waits for an answer and processes it. Returns whether the receiver's port is open.
    fn receive(&mut self, until: Option<Nanos>) -> Result<bool, Failure> {
        let packet = match self.next_packet(until)? {
            Received::Packet(packet) => packet,
            Received::Nothing => return Ok(true),
            Received::Closed => return Ok(false),
        };
        let now = self.clock.now();
        match packet {
            Packet::Ack { tag, ack } if tag == tag_of(self.id) => {
                let before = self.sender.stats().acked;
                self.sender.on_ack(now, &ack);
                if self.sender.stats().acked > before {
                    self.last_answer = now;
                    self.sender.latest_rtt().into_iter().for_each(|rtt| self.rtt.record(rtt));
                    self.sender.latest_delay().into_iter().for_each(|delay| self.delay.record(delay));
                }
            }
            Packet::Report { tag, received } if tag == tag_of(self.id) => {
                self.last_answer = now;
                self.report = Some(received);
            }
            _ => {}
        }
        Ok(true)
    }

    /// The other host reports that the port is closed.
    fn closed(&self) -> Failure {
        Failure::new(
            format!("port {} of {} is closed", self.to.port(), self.to.ip()),
            "start `fairhop aimd receive --bind ADDRESS` there first, with the same port",
        )
    }

    /// Repeats the end until the receiver reports. Packets in flight may arrive meanwhile.
    fn finish(&mut self, live: &Live) {
        live.say("the stream is over: waiting for the receiver's count".to_owned());
        self.sender.withdraw(u64::MAX);
        let end = Packet::End { tag: tag_of(self.id), end: self.sender.end() };
        let Some(length) = end.encode(&mut self.buffer) else { return };
        for _ in 0..MAX_ENDS {
            // A receiver that has gone shows as silence.
            let _ = self.socket.send(&self.buffer[..length]);
            let until = self.clock.now().saturating_add(END_INTERVAL);
            while self.clock.now() < until {
                if self.report.is_some() || !matches!(self.receive(Some(until)), Ok(true)) {
                    return;
                }
            }
        }
    }

    fn show(&self, live: &mut Live) {
        let stats = self.sender.stats();
        let bytes = stats.acked * u64::from(self.payload);
        live.show(self.clock.now(), bytes, || {
            let ms = |time: Option<Nanos>| ms(time.map(Nanos::as_millis_f64));
            format!(
                "loss {} %  delay +{} ms  rtt {} ms  window {}",
                percent(stats.lost, stats.sent),
                ms(self.sender.latest_delay()),
                ms(self.sender.srtt()),
                self.sender.window(),
            )
        });
    }

    /// Lost packets: by the receiver's count, or else by its acknowledgments.
    fn lost(&self) -> u64 {
        let stats = self.sender.stats();
        self.report.map_or(stats.lost, |received| stats.sent.saturating_sub(u64::from(received)))
    }

    fn rate_kbps(&self) -> f64 {
        kbps(self.received() * u64::from(self.payload), self.stopped)
    }

    fn received(&self) -> u64 {
        self.report.map_or(self.sender.stats().acked, u64::from)
    }

    fn text(&self, args: &SendArgs, end: Ending) -> String {
        let stats = self.sender.stats();
        let held_back = match self.source {
            Some(_) => format!(", {} dropped before the window", whole(self.held_back as f64)),
            None => String::new(),
        };
        let ended = match end {
            Ending::Complete => String::new(),
            Ending::Interrupted => ", interrupted".to_owned(),
            Ending::Silent => ", ended: no more answers".to_owned(),
        };
        format!(
            "{TITLE}AIMD({}, {}) to {}{TITLE:#}, {} s{ended}\n\
             rate     {} kb/s of payload, {} packets of {} bytes{held_back}\n\
             loss     {} %: {} of {} packets{}\n\
             delay    {} one way, above the minimum\n\
             rtt      {}\n\
             window   {} at the end; {} backoffs, {} timeouts\n",
            fixed(self.alpha, 3),
            args.beta,
            self.to,
            fixed(self.stopped.as_secs_f64(), 1),
            fixed(self.rate_kbps(), 1),
            whole(self.received() as f64),
            self.payload,
            percent(self.lost(), stats.sent),
            whole(self.lost() as f64),
            whole(stats.sent as f64),
            if self.report.is_some() { "" } else { " (without the receiver's count)" },
            self.delay.text(),
            self.rtt.text(),
            self.sender.window(),
            whole(stats.backoffs as f64),
            whole(stats.timeouts as f64),
        )
    }

    fn json(&self, args: &SendArgs, end: Ending) -> String {
        let stats = self.sender.stats();
        let mut rtt = self.rtt.json();
        rtt["min"] = self.sender.min_rtt().map(Nanos::as_millis_f64).into();
        let object = json!({
            "to": self.to.to_string(),
            "ended": end.name(),
            "duration_s": self.stopped.as_secs_f64(),
            "alpha": self.alpha,
            "beta": args.beta,
            "payload_bytes": self.payload,
            "rate_limit_kbps": args.rate_limit,
            "rate_kbps": self.rate_kbps(),
            "sent": stats.sent,
            "received": self.report,
            "acked": stats.acked,
            "lost": self.lost(),
            "loss": if stats.sent == 0 { 0.0 } else { self.lost() as f64 / stats.sent as f64 },
            "unreported": stats.unreported,
            "spurious": stats.spurious,
            "held_back": self.held_back,
            "delay_ms": self.delay.json(),
            "rtt_ms": rtt,
            "window": self.sender.window(),
            "cwnd": self.sender.cwnd(),
            "rwnd": self.sender.rwnd(),
            "backoffs": stats.backoffs,
            "timeouts": stats.timeouts,
        });
        format!("{object:#}\n")
    }
}
