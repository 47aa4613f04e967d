//! The loop that lets a World follow the wall clock.
//!
//! One thread waits for whatever comes first: the next event of the World, by a timer with an absolute time, or a packet
//! from a device. An event is handled as soon as it is due; how late that is, is recorded for every time at which events
//! were due. A packet enters the World at the time at which it is read. The thread runs under `SCHED_FIFO` where it may, and
//! never waits actively.
//!
//! The loop asks the machine for nothing but `CLOCK_MONOTONIC`, so that it runs unchanged in a guest whose clock counts
//! instructions.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use fairhop_model::units::Nanos;
use fairhop_sim::recorder::Histogram;
use fairhop_sim::scenario::AttachKind;
use fairhop_sim::world::{MAX_REAL_BYTES, World};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime, timerfd_create,
    timerfd_settime,
};

use crate::error::EmulateError;
use crate::gate::Gate;
use crate::namespaces::Port;
use crate::sys;

/// Packets that are read from one device before events and the other devices get their turn.
const BATCH: usize = 32;
/// Times at which events are handled before devices get their turn.
const EVENT_BATCH: usize = 256;
/// Room for any frame that a device can send, so that a larger one is seen as such.
const BUFFER: usize = 1 << 16;
/// Packets at a station above which frames are left in the device, for the kernel to queue.
const LINK_BACKLOG: usize = 2;
/// A run whose p99 lateness is above this says so.
pub const MAX_LATENESS: Nanos = Nanos::from_millis(1);

/// What a run of the loop was like.
#[derive(Clone, Debug)]
pub struct Timing {
    /// How late events were handled.
    pub lateness: Histogram,
    /// Longest lateness.
    pub max: Nanos,
    /// How late the machine woke the thread when a timer was due: the part of the lateness that no program can avoid.
    pub wakeups: Histogram,
    /// Whether the thread ran under `SCHED_FIFO`.
    pub is_real_time: bool,
    /// Packets that a device did not take.
    pub unwritten: u64,
}

impl Timing {
    fn new() -> Self {
        Self {
            lateness: Histogram::new(),
            max: Nanos::ZERO,
            wakeups: Histogram::new(),
            is_real_time: false,
            unwritten: 0,
        }
    }

    /// A quantile of the lateness; 0 where nothing was due.
    pub fn quantile(&self, q: f64) -> Nanos {
        self.lateness.quantile(q).unwrap_or_default()
    }

    /// Whether events were so late that the figures of the run cannot be trusted.
    pub fn is_too_late(&self) -> bool {
        self.quantile(0.99) > MAX_LATENESS
    }
}

/// Ends the loop from another thread.
#[derive(Debug)]
pub struct Stop {
    is_requested: AtomicBool,
    wake: OwnedFd,
}

impl Stop {
    /// A request that is not made yet.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn new() -> Result<Self, EmulateError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| EmulateError::io("make an eventfd", error))?;
        Ok(Self { is_requested: AtomicBool::new(false), wake })
    }

    /// Asks the loop to end.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }
}

/// What watches a run from inside the loop. It must be quick.
pub trait Watch {
    /// Simulated time between two calls of [`Watch::sample`].
    fn interval(&self) -> Nanos {
        Nanos::MAX
    }

    /// The run is at `at`, a multiple of the interval.
    fn sample(&mut self, _world: &World, _at: Nanos) {}

    /// The run is at `now`; called a few times a second.
    fn progress(&mut self, _world: &World, _now: Nanos, _timing: &Timing) {}
}

impl Watch for () {}

/// Time between two calls of [`Watch::progress`].
const PROGRESS: Nanos = Nanos::from_millis(200);

/// The loop and its state.
struct Loop<'a, W> {
    world: &'a mut World,
    ports: &'a mut [Port],
    watch: &'a mut W,
    timing: Timing,
    timer: OwnedFd,
    /// What the timer is set to, of the clock; 0 is not set.
    armed: u64,
    /// The clock at the World's time zero.
    start: u64,
    next_sample: Nanos,
    next_progress: Nanos,
    /// Port by node.
    port_of: Vec<Option<usize>>,
    buffer: Box<[u8]>,
}

/// The time since the machine started, in nanoseconds.
fn clock() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}

/// Lets a World run to its end, or to a [`Stop`], by the wall clock, with the devices of `ports`. The World's time zero is
/// now. Returns how late events were; the run is complete where the World has reached its end.
///
/// # Errors
/// The process cannot make a timer, or a device fails.
pub fn run(
    world: &mut World,
    ports: &mut [Port],
    stop: &Stop,
    watch: &mut impl Watch,
) -> Result<Timing, EmulateError> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
        .map_err(|error| EmulateError::io("make a timer", error))?;
    let places = ports.iter().map(|port| port.node as usize + 1).max().unwrap_or(0);
    let mut port_of = vec![None; places];
    for (index, port) in ports.iter().enumerate() {
        port_of[port.node as usize] = Some(index);
    }
    let mut timing = Timing::new();
    timing.is_real_time = sys::schedule_in_real_time().is_ok();
    let interval = watch.interval();
    let emulation = Loop {
        world,
        ports,
        watch,
        timing,
        timer,
        armed: 0,
        start: clock(),
        next_sample: interval,
        next_progress: PROGRESS,
        port_of,
        buffer: vec![0; BUFFER].into(),
    };
    emulation.run(stop)
}

impl<W: Watch> Loop<'_, W> {
    fn run(mut self, stop: &Stop) -> Result<Timing, EmulateError> {
        let end = self.world.end();
        let mut readable = vec![true; self.ports.len()];
        loop {
            let now = self.catch_up();
            if now >= end {
                self.world.run();
                return Ok(self.timing);
            }
            if stop.is_requested() {
                self.world.stop(self.world.now());
                return Ok(self.timing);
            }
            let mut has_more = false;
            for (index, readable) in readable.iter().enumerate() {
                if *readable || self.owes_credit(index) {
                    has_more |= self.read_port(index)?;
                }
            }
            self.wait(stop, &mut readable, has_more)?;
        }
    }

    fn now(&self) -> Nanos {
        Nanos(clock().saturating_sub(self.start))
    }

    /// Handles what is due. Returns the time up to which everything is handled.
    fn catch_up(&mut self) -> Nanos {
        let end = self.world.end();
        let mut now = self.now();
        for _ in 0..EVENT_BATCH {
            let due = self.world.next_time().filter(|at| *at <= now && *at <= end);
            let Some(at) = due else {
                self.advance(now);
                break;
            };
            let late = now.saturating_sub(at);
            self.timing.lateness.add(late);
            self.timing.max = self.timing.max.max(late);
            self.advance(at);
            now = self.now();
        }
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS;
            self.watch.progress(self.world, now, &self.timing);
        }
        self.world.now()
    }

    /// Advances the World, with the samples on the way, and writes what has arrived.
    fn advance(&mut self, to: Nanos) {
        while self.next_sample <= to && self.next_sample <= self.world.end() {
            let at = self.next_sample;
            self.world.advance_to(at);
            self.watch.sample(self.world, at);
            self.next_sample = at.saturating_add(self.watch.interval());
        }
        self.world.advance_to(to);
        self.write_delivered();
    }

    fn write_delivered(&mut self) {
        while let Some(packet) = self.world.take_delivered() {
            // A broadcast also reaches nodes whose network stack is not real.
            let port = self.port_of.get(packet.node as usize).copied().flatten();
            if let Some(index) = port
                && self.ports[index].device.write(&packet.bytes).is_err()
            {
                self.timing.unwritten += 1;
            }
        }
    }

    /// Whether the World takes another packet of a port now. Frames that the station could only queue wait in the device.
    fn has_room(&self, index: usize) -> bool {
        let port = &self.ports[index];
        port.kind == AttachKind::Edge || self.world.backlog(port.node as usize) < LINK_BACKLOG
    }

    /// Whether the kernel may hold back a frame that the station has room for.
    fn owes_credit(&self, index: usize) -> bool {
        self.ports[index].gate.as_ref().is_some_and(Gate::is_used) && self.has_room(index)
    }

    /// Reads packets of a device. Whether there may be more.
    fn read_port(&mut self, index: usize) -> Result<bool, EmulateError> {
        for _ in 0..BATCH {
            if !self.has_room(index) {
                return Ok(false);
            }
            let length = match self.ports[index].device.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.owes_credit(index) => {
                    if let Some(gate) = &mut self.ports[index].gate {
                        gate.open_once();
                    }
                    // The frame that waited has come, or comes soon.
                    continue;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(false);
                }
                Err(error) => {
                    let port = &self.ports[index];
                    return Err(EmulateError::io(format!("read the device of {}", port.namespace), error));
                }
            };
            self.catch_up();
            if let Some(gate) = &mut self.ports[index].gate {
                gate.on_frame();
            }
            let Port { node, kind, .. } = self.ports[index];
            // What is rejected is counted by the World.
            let _ = match kind {
                AttachKind::Edge => self.world.inject(node, &self.buffer[..length]),
                AttachKind::Link => self.world.inject_frame(node, &self.buffer[..length]),
            };
        }
        Ok(true)
    }

    /// Waits for the next event, a packet or the stop. Not at all where something is due.
    fn wait(&mut self, stop: &Stop, readable: &mut [bool], has_more: bool) -> Result<(), EmulateError> {
        let due = self.world.next_time().unwrap_or(Nanos::MAX).min(self.world.end());
        let at_once = has_more || due <= self.now();
        if !at_once {
            self.arm(due)?;
        }
        let is_wanted: Vec<bool> = (0..self.ports.len()).map(|index| self.has_room(index)).collect();
        let mut files = Vec::with_capacity(self.ports.len() + 2);
        files.push(PollFd::new(&self.timer, PollFlags::IN));
        files.push(PollFd::new(&stop.wake, PollFlags::IN));
        for (port, is_wanted) in self.ports.iter().zip(&is_wanted) {
            let wanted = if *is_wanted { PollFlags::IN } else { PollFlags::empty() };
            files.push(PollFd::from_borrowed_fd(port.device.as_fd(), wanted));
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut files, at_once.then_some(&none)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(EmulateError::io("wait for packets", error)),
        }
        let woke = files[0].revents().contains(PollFlags::IN);
        for (readable, file) in readable.iter_mut().zip(&files[2..]) {
            *readable = file.revents().intersects(PollFlags::IN | PollFlags::ERR);
        }
        drop(files);
        if woke && !at_once {
            self.timing.wakeups.add(Nanos(clock().saturating_sub(self.armed)));
        }
        Ok(())
    }

    /// Sets the timer to a time of the World.
    fn arm(&mut self, due: Nanos) -> Result<(), EmulateError> {
        let at = self.start.saturating_add(due.0);
        if self.armed == at {
            return Ok(());
        }
        self.armed = at;
        let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map(drop)
            .map_err(|error| EmulateError::io("set a timer", error))
    }
}

/// How late the machine wakes a thread at `interval` for `count` times, as an emulation would be woken, without anything
/// else to do: the part of the lateness that is the machine's.
///
/// # Errors
/// The process cannot make a timer.
pub fn measure_machine(interval: Nanos, count: u32) -> Result<Histogram, EmulateError> {
    let failed = |error: rustix::io::Errno| EmulateError::io("use a timer", error);
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).map_err(failed)?;
    let mut file = File::from(timer);
    let _ = sys::schedule_in_real_time();
    let mut lateness = Histogram::new();
    let mut at = clock();
    for _ in 0..count {
        at = (at + interval.0).max(clock());
        let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&file, TimerfdTimerFlags::ABSTIME, &once).map_err(failed)?;
        let mut expirations = [0; 8];
        file.read_exact(&mut expirations).map_err(|error| EmulateError::io("read a timer", error))?;
        lateness.add(Nanos(clock().saturating_sub(at)));
    }
    Ok(lateness)
}

const _: () = assert!(BUFFER > MAX_REAL_BYTES);
