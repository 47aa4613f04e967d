//! `fairhop call`: telephone calls between two hosts, as RTP over UDP with RTCP reports: what a phone sends, without sound.
//!
//! | module | what it is |
//! |---|---|
//! | [`leg`] | one end of a call, without socket and clock |
//!
//! `make` opens a socket for each call, `answer` has one for all. A thread of each call sleeps until its next packet, so
//! that packets leave at the codec's times; another one listens.

mod leg;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use clap::{Args, Subcommand};
use fairhop_model::units::Nanos;
use fairhop_model::voice::Codec;
use fairhop_sim::engine::{Purpose, Stream};
use fairhop_sim::results::ACCEPTABLE_MOS;
use serde_json::json;

use crate::aimd::measure::{ms, percent};
use crate::aimd::socket::{Clock, is_nothing, is_refusal, limit_wait, resolve, seconds};
use crate::failure::{Failure, exit, reason};
use crate::interrupt::Interrupt;
use crate::table::{BAD, GOOD, NOTHING, TITLE, fixed, whole};
use crate::{mos, ui};
use leg::{Config, Figures, Leg, read_rtp};

/// Examples of the command, for its help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  fairhop call answer --bind 192.0.2.7      on one host, at its own address
  fairhop call make 192.0.2.7 --count 5     on the other: five calls of 60 s

`fairhop call help make` and `fairhop call help answer` say more.";

const MAKE_EXAMPLES: &str = "\
Examples:
  fairhop call make 192.0.2.7                      one call of 60 s with G.729A
  fairhop call make host.example:5000 --codec g711 --duration 600
  fairhop call make 192.0.2.7 --count 5 --json | jq .mos";

const ANSWER_EXAMPLES: &str = "\
Examples:
  fairhop call answer                         from this host only
  fairhop call answer --bind 0.0.0.0          from other hosts, at every address
  fairhop call answer --bind 192.0.2.7 --once --json";

/// Port of an answering end by default.
const DEFAULT_PORT: u16 = 24026;
/// Maximum number of calls at a time.
const MAX_CALLS: usize = 250;
/// Longest datagram that is read.
const MAX_DATAGRAM: usize = 2048;
/// Longest sleep of a sending thread: the end of the call is noticed between sleeps.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

/// Arguments of `fairhop call`.
#[derive(Args, Debug)]
pub(crate) struct CallArgs {
    #[command(subcommand)]
    end: End,
}

#[derive(Debug, Subcommand)]
enum End {
    /// Call a host where `fairhop call answer` runs
    #[command(after_help = MAKE_EXAMPLES)]
    Make(MakeArgs),
    /// Answer calls, each with a stream of the same codec
    #[command(after_help = ANSWER_EXAMPLES)]
    Answer(AnswerArgs),
}

/// What both ends have.
#[derive(Args, Clone, Copy, Debug)]
struct Common {
    /// Time that the listener's playout buffer adds to the fastest packet, in ms; packets that are later count as lost
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = clap::value_parser!(u16).range(..=10_000))]
    playout_ms: u16,
    /// Mean time between RTCP reports in seconds; 0: none
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u16).range(..=3600))]
    rtcp_interval: u16,
    /// Print one JSON object per call
    #[arg(long)]
    json: bool,
}

impl Common {
    fn config(self, codec: Codec) -> Config {
        Config {
            codec,
            playout: Nanos::from_millis(self.playout_ms.into()),
            report_interval: Nanos::from_secs(self.rtcp_interval.into()),
        }
    }
}

/// Arguments of `fairhop call make`.
#[derive(Args, Debug)]
struct MakeArgs {
    /// The host that answers
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// Codec: g729a, g711, g723.1 or opus
    #[arg(long, default_value = "g729a", value_parser = mos::codec)]
    codec: Codec,
    /// Calls at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_CALLS as i64))]
    count: u16,
    /// Duration in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    duration: f64,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `fairhop call answer`.
#[derive(Args, Debug)]
struct AnswerArgs {
    /// Address and port to listen on. The default receives from this host only; for other hosts, give an address of this
    /// host, or 0.0.0.0 for all of them
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value_t = format!("127.0.0.1:{DEFAULT_PORT}"))]
    bind: String,
    /// Exit after the first call
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    common: Common,
}

/// Makes or answers calls.
///
/// # Errors
/// An address cannot be used, nobody answers, or the output cannot be written.
pub(crate) fn call(args: &CallArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen();
    let _polling = interrupt.poll();
    match &args.end {
        End::Make(args) => make(args, &interrupt),
        End::Answer(args) => answer(args, &interrupt),
    }
}

/// A call of this host.
struct Line {
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    leg: Mutex<Leg>,
}

impl Line {
    fn leg(&self) -> MutexGuard<'_, Leg> {
        self.leg.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is due until `is_over`.
    fn speak(&self, clock: Clock, is_over: impl Fn(&Leg, Nanos) -> bool) {
        let mut out = Vec::with_capacity(MAX_DATAGRAM);
        loop {
            let now = clock.now();
            let next = {
                let mut leg = self.leg();
                if is_over(&leg, now) {
                    leg.hang_up(now, &mut out);
                    self.send(&out);
                    return;
                }
                while leg.transmit(now, &mut out) {
                    self.send(&out);
                }
                leg.next_time()
            };
            let pause = next.saturating_sub(clock.now()).min(LONGEST_SLEEP);
            thread::sleep(Duration::from_nanos(pause.0));
        }
    }

    fn send(&self, datagram: &[u8]) {
        // What cannot be sent is lost; the other end counts it.
        let _ = self.socket.send_to(datagram, self.peer);
    }
}

/// Random numbers that differ from call to call.
fn random() -> Stream {
    // The standard library gives every such state a random key.
    Stream::new(RandomState::new().hash_one(0), 0, Purpose::Source)
}

/// The address with this program's default port unless one is given.
fn addresses(host: &str) -> std::io::Result<Vec<SocketAddr>> {
    resolve(host, DEFAULT_PORT)
}

fn make(args: &MakeArgs, interrupt: &Interrupt) -> Result<u8, Failure> {
    let cannot = |error: &std::io::Error| {
        Failure::new(format!("cannot call {}: {}", args.host, reason(error)), "check the address")
    };
    let peer = addresses(&args.host).map_err(|error| cannot(&error))?;
    let &peer = peer.first().ok_or_else(|| cannot(&std::io::Error::other("it has no address")))?;
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let clock = Clock::start();
    let mut lines = Vec::new();
    for _ in 0..args.count {
        let socket = UdpSocket::bind(any)
            .and_then(|socket| socket.connect(peer).map(|()| socket))
            .map_err(|error| cannot(&error))?;
        let leg = Leg::new(args.common.config(args.codec), clock.now(), random());
        // A connected socket learns of refusals.
        lines.push(Line { socket: Arc::new(socket), peer, leg: Mutex::new(leg) });
    }
    let until = Nanos::from_secs_f64(args.duration);
    thread::scope(|scope| {
        for line in &lines {
            scope.spawn(move || {
                line.speak(clock, |leg, now| now >= until || interrupt.is_requested() || leg.is_over(now));
            });
            scope.spawn(move || listen(line, clock, until, interrupt));
        }
    });
    let now = clock.now();
    let figures: Vec<Figures> = lines.iter().map(|line| line.leg().figures(now)).collect();
    if figures.iter().all(|figures| figures.expected == 0) && !interrupt.is_requested() {
        return Err(Failure::new(
            format!("nobody answers at {peer} (UDP)"),
            "start `fairhop call answer --bind ADDRESS` there",
        ));
    }
    for (line, figures) in lines.iter().zip(&figures) {
        let local = line.socket.local_addr().map_or_else(|_| String::new(), |address| address.to_string());
        print(figures, &local, peer, args.common.json)?;
    }
    Ok(if interrupt.is_requested() { exit::INTERRUPTED } else { 0 })
}

/// Takes what comes for a call until it is over.
fn listen(line: &Line, clock: Clock, until: Nanos, interrupt: &Interrupt) {
    let mut buffer = [0; MAX_DATAGRAM];
    while clock.now() < until && !interrupt.is_requested() && !line.leg().is_over(clock.now()) {
        let received =
            limit_wait(&line.socket, clock, Some(until)).and_then(|()| line.socket.recv(&mut buffer));
        if let Ok(length) = received {
            line.leg().receive(clock.now(), &buffer[..length]);
        } else {
            // A refusal comes at once, and again with every packet.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn answer(args: &AnswerArgs, interrupt: &Interrupt) -> Result<u8, Failure> {
    let found = addresses(&args.bind).map_err(|error| {
        Failure::new(
            format!("--bind {} is not an address: {}", args.bind, reason(&error)),
            format!("as in 192.0.2.7, 0.0.0.0:{DEFAULT_PORT}, or [::]:{DEFAULT_PORT} for IPv6"),
        )
    })?;
    let socket = UdpSocket::bind(&found[..]).map_err(|error| {
        Failure::new(
            format!("cannot listen at {}: {}", args.bind, reason(&error)),
            "--bind another port, or an address of this host",
        )
    })?;
    let listening = socket.local_addr().map_or_else(|_| args.bind.clone(), |address| address.to_string());
    ui::remark(&format!("answering at {listening} (UDP); Ctrl-C ends it"));
    let switchboard = Switchboard {
        socket: Arc::new(socket),
        clock: Clock::start(),
        common: args.common,
        local: listening,
        ended: Mutex::new((0, None)),
    };
    thread::scope(|scope| switchboard.run(scope, args.once, interrupt))?;
    let failure = switchboard.ended.into_inner().unwrap_or_else(PoisonError::into_inner).1;
    match failure {
        Some(failure) => Err(failure),
        None if interrupt.is_requested() => Ok(exit::INTERRUPTED),
        None => Ok(0),
    }
}

/// All calls to an answering end.
struct Switchboard {
    socket: Arc<UdpSocket>,
    clock: Clock,
    common: Common,
    local: String,
    /// How many calls have ended, and whether one could not be printed.
    ended: Mutex<(u32, Option<Failure>)>,
}

impl Switchboard {
    fn run<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        once: bool,
        interrupt: &'scope Interrupt,
    ) -> Result<(), Failure> {
        let mut lines: HashMap<SocketAddr, Arc<Line>> = HashMap::new();
        let mut buffer = [0; MAX_DATAGRAM];
        let mut checked = Nanos::ZERO;
        loop {
            let now = self.clock.now();
            if now.saturating_sub(checked) >= LONGEST_SLEEP {
                checked = now;
                lines.retain(|_, line| !line.leg().is_over(now));
                let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                if interrupt.is_requested() || ended.1.is_some() || (once && ended.0 > 0) {
                    // The sending threads end by themselves.
                    return Ok(());
                }
            }
            let received =
                limit_wait(&self.socket, self.clock, None).and_then(|()| self.socket.recv_from(&mut buffer));
            let (length, peer) = match received {
                Ok(received) => received,
                Err(error) if is_nothing(&error) || is_refusal(&error) => continue,
                Err(error) => {
                    return Err(Failure::new(
                        format!("cannot receive: {}", reason(&error)),
                        "check the network",
                    ));
                }
            };
            let (now, datagram) = (self.clock.now(), &buffer[..length]);
            if !lines.contains_key(&peer)
                && let Some(line) = self.pick_up(now, peer, datagram).filter(|_| lines.len() < MAX_CALLS)
            {
                lines.insert(peer, line.clone());
                scope.spawn(move || self.converse(&line, interrupt));
            }
            if let Some(line) = lines.get(&peer) {
                line.leg().receive(now, datagram);
            }
        }
    }

    /// A call from a new peer, if the datagram is RTP of a codec.
    fn pick_up(&self, now: Nanos, peer: SocketAddr, datagram: &[u8]) -> Option<Arc<Line>> {
        let payload_type = read_rtp(datagram)?.payload_type;
        let codec = Codec::ALL.into_iter().find(|codec| codec.profile().rtp_payload_type == payload_type)?;
        let leg = Leg::new(self.common.config(codec), now, random());
        Some(Arc::new(Line { socket: self.socket.clone(), peer, leg: Mutex::new(leg) }))
    }

    fn converse(&self, line: &Line, interrupt: &Interrupt) {
        line.speak(self.clock, |leg, now| interrupt.is_requested() || leg.is_over(now));
        let figures = line.leg().figures(self.clock.now());
        let printed = print(&figures, &self.local, line.peer, self.common.json);
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.0 += 1;
        ended.1 = ended.1.take().or(printed.err());
    }
}

/// Prints what an end has heard of a call.
fn print(figures: &Figures, local: &str, peer: SocketAddr, json: bool) -> Result<(), Failure> {
    let round_trip_ms = figures.min_round_trip.map(Nanos::as_millis_f64);
    if json {
        let object = json!({
            "local": local,
            "peer": peer.to_string(),
            "codec": figures.codec.profile().name,
            "seconds": figures.seconds,
            "mos": figures.mos,
            "whole_seconds": figures.whole_seconds,
            "bad_seconds": figures.bad_seconds,
            "sent": figures.sent,
            "expected": figures.expected,
            "lost": figures.lost,
            "late": figures.late,
            "jitter_ms": figures.jitter.as_millis_f64(),
            "delay_ms": figures.delays.json(),
            "min_round_trip_ms": round_trip_ms,
            "peer_reports_lost": figures.reported_lost,
        });
        return ui::print(&format!("{object}\n"));
    }
    let (mos, style) = match figures.mos {
        Some(mos) if mos >= ACCEPTABLE_MOS => (fixed(mos, 2), GOOD),
        Some(mos) => (fixed(mos, 2), BAD),
        None => (NOTHING.to_owned(), BAD),
    };
    let reported = figures.reported_lost.map_or_else(|| NOTHING.to_owned(), |lost| whole(lost.into()));
    ui::print(&format!(
        "{TITLE}Call with {peer}{TITLE:#}, {}, {} s\n\
         heard    MOS {style}{mos}{style:#}, good in {} of {} s; lost {} % and late {} % of {} packets, jitter {} ms\n\
         delay    {}, above the minimum; fastest round trip {} ms\n\
         sent     {} packets, of which the other end reports {reported} lost\n",
        figures.codec.profile().name,
        fixed(figures.seconds, 1),
        figures.whole_seconds - figures.bad_seconds.len(),
        figures.whole_seconds,
        percent(figures.lost, figures.expected),
        percent(figures.late, figures.expected),
        whole(figures.expected as f64),
        fixed(figures.jitter.as_millis_f64(), 1),
        figures.delays.text(),
        ms(round_trip_ms),
        whole(figures.sent as f64),
    ))
}
