//! The sending end.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use clap::Args;
use fairhop_model::outage::tcp_friendly_alpha;
use fairhop_model::units::Nanos;
use fairhop_transport::aimd::wire::{Body, DATA_HEADER, Packet};
use fairhop_transport::aimd::{Sender, SenderConfig};
use serde_json::json;

use super::measure::{Delays, Live, kbps, ms, percent};
use super::{Clock, DEFAULT_PORT, is_nothing, is_refusal, seconds, wait_at_most};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::table::{TITLE, fixed, whole};
use crate::ui;

/// Longest payload: what a datagram of IPv4 holds (65,507 bytes), less the header.
const MOST_PAYLOAD: i64 = 65_507 - DATA_HEADER as i64;

/// Time between two announcements of the end, and how many there are.
const END_EVERY: Nanos = Nanos(200_000_000);
const ENDS: u32 = 10;

/// What `fairhop aimd send` is asked to do.
#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Where `fairhop aimd receive` runs: a name or an address, and the port unless it is 24024
    #[arg(value_name = "HOST:PORT")]
    to: String,
    /// By how many packets the window grows in a round trip [default: friendly to TCP, 3 (1 − β) / (1 + β)]
    #[arg(long, value_name = "PACKETS", value_parser = alpha, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// The part of the window that is left after a loss
    #[arg(long, value_name = "FRACTION", default_value = "0.875", value_parser = beta, allow_negative_numbers = true)]
    beta: f64,
    /// Bytes of payload in a packet
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1200,
        value_parser = clap::value_parser!(u32).range(0..=MOST_PAYLOAD)
    )]
    payload: u32,
    /// Rate of the source in kb/s of payload; what the window holds back is dropped, as of a live source [default: as fast
    /// as the path carries]
    #[arg(long, value_name = "KBPS", value_parser = rate, allow_negative_numbers = true)]
    rate_limit: Option<f64>,
    /// How long to send, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    duration: f64,
    /// How long to wait for an answer, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha > 0.0 && alpha <= 100.0 => Ok(alpha),
        _ => Err("more than 0 and at most 100 packets a round trip is meant: TCP has 1".to_owned()),
    }
}

fn beta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(beta) if beta > 0.0 && beta < 1.0 => Ok(beta),
        _ => Err("a fraction more than 0 and less than 1 is meant: TCP has 0.5".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(kbps) if (0.1..=1e7).contains(&kbps) => Ok(kbps),
        _ => Err("a rate from 0.1 to 10000000 kb/s is meant, without a unit".to_owned()),
    }
}

/// Sends a stream and tells how it went.
///
/// # Errors
/// The host cannot be found or reached, or nobody answers there.
pub(crate) fn send(args: &SendArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let to = resolve(&args.to)?;
    let mut stream = Stream::new(args, to)?;
    let live = Live::new();
    let end = stream.run(args, &interrupt, live)?;
    ui::print(&if args.json { stream.json(args, end) } else { stream.text(args, end) })?;
    match end {
        Ending::Complete => Ok(0),
        Ending::Interrupted => Ok(exit::INTERRUPTED),
        Ending::Silent => Err(Failure::new(
            format!("{} has not answered for {} s, so the stream was ended", args.to, args.timeout),
            "the receiver may have been stopped, or the path is broken",
        )),
    }
}

/// The address that is meant by a name with or without a port.
fn resolve(to: &str) -> Result<SocketAddr, Failure> {
    let has_port = to.rsplit_once(':').is_some_and(|(host, port)| {
        // An IPv6 address has colons itself, and brackets where a port follows.
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    let found = match has_port {
        true => to.to_socket_addrs(),
        false => (to.trim_start_matches('[').trim_end_matches(']'), DEFAULT_PORT).to_socket_addrs(),
    };
    let unknown = |why: String| {
        Failure::new(
            format!("there is no host {to}: {why}"),
            format!(
                "give a name or an address, and the port unless it is {DEFAULT_PORT}: 192.0.2.7, host.example:5000, \
                 [2001:db8::7]:5000"
            ),
        )
    };
    found
        .map_err(|error| unknown(reason(&error)))?
        .next()
        .ok_or_else(|| unknown("the name has no address".to_owned()))
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    Interrupted,
    /// The receiver fell silent.
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

/// Packets of a source at a constant rate.
#[derive(Clone, Copy, Debug)]
struct Source {
    between: Nanos,
    next: Nanos,
}

struct Stream {
    socket: UdpSocket,
    to: SocketAddr,
    flow: u32,
    clock: Clock,
    sender: Sender,
    alpha: f64,
    payload: u32,
    source: Option<Source>,
    buffer: Vec<u8>,
    rtt: Delays,
    delay: Delays,
    /// Packets of a limited source that found the window closed.
    held_back: u64,
    /// What the receiver says that it received.
    report: Option<u32>,
    last_answer: Option<Nanos>,
    /// When the last packet of data was offered.
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
            // A packet without payload would come infinitely often: its header counts then.
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
            // The standard library seeds every such state at random.
            flow: RandomState::new().hash_one(to) as u32,
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
            last_answer: None,
            stopped: Nanos::ZERO,
        })
    }

    /// Sends until the time is over, and then says so until the receiver has heard it.
    fn run(&mut self, args: &SendArgs, interrupt: &Interrupt, mut live: Live) -> Result<Ending, Failure> {
        let patience = Nanos::from_secs_f64(args.timeout);
        let stop = Nanos::from_secs_f64(args.duration);
        live.say(format!("{}: waiting for an answer", self.to));
        let result = loop {
            let now = self.clock.now();
            if now >= stop {
                break Ok(Ending::Complete);
            }
            if interrupt.is_requested() {
                break Ok(Ending::Interrupted);
            }
            if now.saturating_sub(self.last_answer.unwrap_or_default()) > patience {
                if self.last_answer.is_none() {
                    break Err(self.nobody(args));
                }
                break Ok(Ending::Silent);
            }
            self.sender.on_timer(now);
            let source = self.offer(now);
            let there = self.pump(now).and_then(|there| {
                let next = [self.sender.next_timer(), source, Some(stop)].into_iter().flatten().min();
                Ok(there && self.receive(next)?)
            });
            match there {
                Ok(true) => {}
                Ok(false) => break Ok(Ending::Silent),
                Err(failure) => break Err(failure),
            }
            self.show(&mut live);
        };
        self.stopped = self.clock.now();
        if self.last_answer.is_some() && matches!(result, Ok(Ending::Complete | Ending::Interrupted)) {
            self.finish(&live);
        }
        live.clear();
        match result {
            Ok(Ending::Complete) if self.last_answer.is_none() => Err(self.nobody(args)),
            result => result,
        }
    }

    fn nobody(&self, args: &SendArgs) -> Failure {
        Failure::new(
            format!("nobody answered at {} for {} s", self.to, args.timeout.min(args.duration)),
            format!(
                "start `fairhop aimd receive` there, and see that UDP to port {} is let through",
                self.to.port()
            ),
        )
    }

    /// Offers what a source of constant rate has had until now; gives when it has the next packet.
    fn offer(&mut self, now: Nanos) -> Option<Nanos> {
        let source = self.source.as_mut()?;
        while source.next <= now {
            // What is not sent when the next packet comes has come too late.
            let late = self.sender.backlog();
            self.sender.withdraw(late);
            self.held_back += late;
            self.sender.offer(1);
            source.next = source.next.saturating_add(source.between.max(Nanos(1)));
            // A pause of the whole program would make a burst: one packet at most for each time that is looked.
            if source.next <= now {
                break;
            }
        }
        Some(source.next)
    }

    /// Sends what the window allows. Tells whether the receiver is still there.
    fn pump(&mut self, now: Nanos) -> Result<bool, Failure> {
        while let Some(datagram) = self.sender.poll_transmit(now) {
            let packet = Packet { flow: self.flow, body: Body::Data(datagram) };
            packet.encode(&mut self.buffer);
            match self.socket.send(&self.buffer) {
                Ok(_) => {}
                Err(error) if is_refusal(&error) => return self.refused(),
                // A full queue of this host loses packets as any other queue does.
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

    /// Waits for an answer and takes it in. Tells whether the receiver is still there.
    fn receive(&mut self, until: Option<Nanos>) -> Result<bool, Failure> {
        let mut bytes = [0; 64];
        let received =
            wait_at_most(&self.socket, self.clock, until).and_then(|()| self.socket.recv(&mut bytes));
        let length = match received {
            Ok(length) => length,
            Err(error) if is_nothing(&error) => return Ok(true),
            Err(error) if is_refusal(&error) => return self.refused(),
            Err(error) => {
                return Err(Failure::new(
                    format!("cannot receive from {}: {}", self.to, reason(&error)),
                    "check the network",
                ));
            }
        };
        let now = self.clock.now();
        let Ok((packet, _)) = Packet::decode(&bytes[..length]) else { return Ok(true) };
        if packet.flow != self.flow {
            return Ok(true);
        }
        match packet.body {
            Body::Ack(ack) => {
                let before = self.sender.stats().acked;
                self.sender.on_ack(now, &ack);
                if self.sender.stats().acked > before {
                    self.last_answer = Some(now);
                    self.sender.latest_rtt().into_iter().for_each(|rtt| self.rtt.record(rtt));
                    self.sender.latest_delay().into_iter().for_each(|delay| self.delay.record(delay));
                }
            }
            Body::Report { received } => {
                self.last_answer = Some(now);
                self.report = Some(received);
            }
            Body::Busy if self.last_answer.is_none() => {
                return Err(Failure::new(
                    format!("the receiver at {} serves another sender", self.to),
                    "try again when that stream is over, or start a second receiver at another port",
                ));
            }
            Body::Busy | Body::Data(_) | Body::End { .. } => {}
        }
        Ok(true)
    }

    /// The other host says that nobody listens: from the beginning, or not any more.
    fn refused(&self) -> Result<bool, Failure> {
        if self.last_answer.is_some() {
            return Ok(false);
        }
        Err(Failure::new(
            format!("nobody listens at {}", self.to),
            "start `fairhop aimd receive` there first; with --bind it may listen at another port",
        ))
    }

    /// Announces the end until the receiver reports. What is still on the way may arrive meanwhile.
    fn finish(&mut self, live: &Live) {
        live.say("the stream is over: waiting for the receiver's count".to_owned());
        self.sender.withdraw(u64::MAX);
        let end = Packet { flow: self.flow, body: Body::End { end: self.sender.end() } };
        let Some(length) = end.encode(&mut self.buffer) else { return };
        for _ in 0..ENDS {
            // That the receiver has gone shows as silence too.
            let _ = self.socket.send(&self.buffer[..length]);
            let until = self.clock.now().saturating_add(END_EVERY);
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

    /// Packets lost: what the receiver misses, or what its answers showed.
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
            Some(_) => format!(", {} held back by the window", whole(self.held_back as f64)),
            None => String::new(),
        };
        let ended = match end {
            Ending::Complete => String::new(),
            Ending::Interrupted => ", interrupted".to_owned(),
            Ending::Silent => ", ended by silence".to_owned(),
        };
        format!(
            "{TITLE}AIMD({}, {}) to {}{TITLE:#}, {} s{ended}\n\
             rate     {} kb/s of payload, {} packets of {} bytes{held_back}\n\
             loss     {} %: {} of {} packets{}\n\
             delay    {} over the shortest, one way\n\
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
            if self.report.is_some() { "" } else { " (the receiver's own count did not come)" },
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
