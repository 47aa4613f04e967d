//! The daemon: a loop that polls the datapaths, decides ten times a second, and shows what it does.
//!
//! ```text
//! every 20 ms   digests of each datapath ▶ engine
//! every 100 ms  engine decides ▶ orders ▶ datapath (live), log, journal, recording; the watchdog hears
//! every 500 ms  status ▶ API
//! between       signals and commands: reload, mode, record, stop
//! ```
//! One thread does all of it, so that a watchdog that hears nothing means that nothing is decided. A datapath that fails is
//! stopped, which lets packets pass, and started anew every few seconds.

mod instance;
mod kernel;
mod news;
mod options;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fairhop_model::units::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::api::{self, Answer, Command, Pending, Shared, Token};
use crate::config::{self, Api, Config, GatewayAt, Loaded, Mode};
use crate::datapath::{Datapath, DatapathError, POLL};
use crate::engine::INTERVAL;
use crate::log::{Level, Line, unix_s};
use crate::notify::Notify;
use crate::privileges;
use crate::status::Status;

use instance::Instance;
use kernel::datapath_of;

pub use kernel::start_kernel;
pub use options::{DaemonError, Options, Signals};

/// Ticks between two looks at counters, queues and addresses.
const LOOK_TICKS: u64 = 5;

/// Starts the datapath of a gateway; `observe_only` in modes in which it must not touch a packet.
pub type Start<'s> = dyn FnMut(&Config, &GatewayAt, Mode) -> Result<Box<dyn Datapath>, DatapathError> + 's;

/// The time of the datapaths.
pub fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos::from_secs(now.tv_sec.cast_unsigned()).saturating_add(Nanos(now.tv_nsec.cast_unsigned()))
}

/// Runs until a signal ends it.
///
/// # Errors
/// The config has errors, no gateway can be started, or the address of the API is in use.
pub fn run(options: &Options, signals: &Signals, start: &mut Start<'_>) -> Result<(), DaemonError> {
    let loaded = options.load()?;
    let mut daemon = Daemon::new(options, loaded, start)?;
    daemon.announce();
    daemon.run(signals, start);
    daemon.stop();
    Ok(())
}

struct Daemon<'o> {
    options: &'o Options,
    loaded: Loaded,
    /// What the API was started with: a reload does not change it.
    api: Api,
    mode: Mode,
    instances: Vec<Instance>,
    shared: Arc<Shared>,
    pending: Receiver<Pending>,
    notify: Notify,
    began: Instant,
    reloads: u64,
    reloads_refused: u64,
    ticks: u64,
}

impl<'o> Daemon<'o> {
    fn new(options: &'o Options, loaded: Loaded, start: &mut Start<'_>) -> Result<Self, DaemonError> {
        let config = &loaded.config;
        let mode = config.mode;
        let token_file = &config.api.token_file;
        let token = if config.api.listen.is_empty() {
            Token::new("")
        } else {
            Token::of_file(token_file).unwrap_or_else(|error| {
                Line::new(Level::Warn, "no-token")
                    .field("file", token_file.display())
                    .field("why", error)
                    .field("effect", "nobody can change anything through the API")
                    .write();
                Token::new("")
            })
        };
        // The address is taken first: a second daemon would remove the queues of the one that has it.
        let listener =
            config.api.listen.parse().ok().map(|address| {
                TcpListener::bind(address).map_err(|source| DaemonError::Api { address, source })
            });
        let listener = listener.transpose()?;
        let instances = start_all(options, &loaded, start)?;
        // Threads are started after rights are given up.
        privileges::drop_others().map_err(DaemonError::Privileges)?;
        let (shared, pending) = Shared::new(token);
        let daemon = Self {
            options,
            api: loaded.config.api.clone(),
            mode,
            instances,
            shared,
            pending,
            notify: Notify::from_environment(),
            began: Instant::now(),
            reloads: 0,
            reloads_refused: 0,
            ticks: 0,
            loaded,
        };
        // A request finds a status even while the loop starts a datapath.
        daemon.publish(monotonic());
        if let Some(listener) = listener {
            let address = api::serve(listener, &daemon.shared).map_err(DaemonError::NoApi)?;
            Line::new(Level::Info, "api").field("listen", address).write();
            if let Some(report) = &options.report_address {
                report(address);
            }
        }
        Ok(daemon)
    }

    fn announce(&self) {
        self.notify.send(&format!("READY=1\nSTATUS={}", self.mode.name()));
        Line::new(Level::Info, "ready")
            .field("version", env!("CARGO_PKG_VERSION"))
            .field("mode", self.mode.name())
            .field("gateways", self.instances.len())
            .write();
    }

    fn run(&mut self, signals: &Signals, start: &mut Start<'_>) {
        let mut next_tick = monotonic();
        while !signals.stop.load(Ordering::Relaxed) {
            for instance in &mut self.instances {
                instance.poll();
            }
            let now = monotonic();
            if now >= next_tick {
                self.tick(now, start);
                // After a pause (a suspended machine), ticks are not made up for.
                next_tick = next_tick.saturating_add(INTERVAL).max(now);
            }
            if self.shared.is_status_wanted() {
                self.publish(monotonic());
            }
            if take(&signals.reload) {
                // The reason of a refusal is in the log.
                let _ = self.reload(start);
                self.publish(monotonic());
            }
            while let Ok(pending) = self.pending.try_recv() {
                let answer = self.carry_out(&pending.command, start);
                // Who has changed something sees it in the next status.
                self.publish(monotonic());
                pending.answer(answer);
            }
            let until_tick = next_tick.saturating_sub(monotonic());
            let within = self.instances.iter().map(Instance::poll_within).min().unwrap_or(POLL);
            std::thread::sleep(within.min(Duration::from_nanos(until_tick.0)));
        }
    }

    fn tick(&mut self, now: Nanos, start: &mut Start<'_>) {
        for instance in &mut self.instances {
            if let Some(entry) = instance.tick(now, &self.loaded.config, self.mode, start) {
                self.shared.decided(entry);
            }
        }
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOK_TICKS) {
            for instance in &mut self.instances {
                instance.observe(now);
            }
        }
        self.notify.alive();
    }

    fn publish(&self, now: Nanos) {
        self.shared.publish(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.mode.name().to_owned(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            unix_s: unix_s(),
            gateways: self.instances.iter().map(|instance| instance.status(now)).collect(),
            reloads: self.reloads,
            reloads_refused: self.reloads_refused,
        });
    }

    fn carry_out(&mut self, command: &Command, start: &mut Start<'_>) -> Answer {
        match command {
            Command::Mode(mode) => {
                self.set_mode(*mode, start)?;
                Ok(serde_json::json!({ "mode": self.mode.name() }))
            }
            Command::Reload => self.reload(start).map(|()| serde_json::json!({ "reloaded": true })),
            Command::Record { gateway, seconds } => {
                let place = match gateway {
                    None => Some(0),
                    Some(name) => self.instances.iter().position(|instance| instance.name() == name),
                };
                let instance = place.and_then(|place| self.instances.get_mut(place));
                let instance = instance.ok_or("there is no gateway of that name")?;
                let until = monotonic().saturating_add(Nanos::from_secs_f64(*seconds));
                let path = instance.record(&self.loaded, self.mode, until).map_err(|e| e.to_string())?;
                Ok(serde_json::json!({ "path": path }))
            }
        }
    }

    /// Changes the mode. If a datapath that runs cannot be started in the new one, nothing changes. A gateway that has failed before
    /// is no reason to refuse: it is tried again in the new mode.
    fn set_mode(&mut self, mode: Mode, start: &mut Start<'_>) -> Result<(), String> {
        if mode == self.mode {
            return Ok(());
        }
        if let Err(why) = self.restart_for(mode, start) {
            Line::new(Level::Warn, "mode-refused")
                .field("mode", mode.name())
                .field("why", &why)
                .field("effect", format!("{} stays in force", self.mode.name()))
                .write();
            return Err(why);
        }
        Line::new(Level::Info, "mode").field("from", self.mode.name()).field("to", mode.name()).write();
        // Engines change last: what a controller has found would be lost on the way back.
        for instance in &mut self.instances {
            instance.set(&self.loaded, mode);
        }
        self.mode = mode;
        self.notify.send(&format!("STATUS={}", mode.name()));
        Ok(())
    }

    /// Starts the datapaths anew that have to be others in a mode. After an error all are as before.
    fn restart_for(&mut self, mode: Mode, start: &mut Start<'_>) -> Result<(), String> {
        let config = &self.loaded.config;
        let mut restarted = Vec::new();
        for place in 0..self.instances.len() {
            let instance = &mut self.instances[place];
            let needed = datapath_of(config, instance.gateway(), self.mode);
            let was_running = instance.is_running();
            if was_running && needed == datapath_of(config, instance.gateway(), mode) {
                continue;
            }
            match instance.start(config, mode, start) {
                Ok(()) => restarted.push(place),
                Err(error) if was_running => {
                    let why = format!("{}: {error}", instance.name());
                    for place in restarted.into_iter().chain([place]) {
                        self.instances[place].start_or_fail(config, self.mode, start);
                    }
                    return Err(why);
                }
                Err(error) => instance.fail(monotonic(), &error),
            }
        }
        Ok(())
    }

    /// Reads the config again. One with errors changes nothing.
    fn reload(&mut self, start: &mut Start<'_>) -> Result<(), String> {
        let micros = monotonic().0 / 1000;
        self.notify.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        let result = self.load_again(start);
        // With it the reload is over for the service manager (sd_notify(3)).
        self.notify.send(&format!("READY=1\nSTATUS={}", self.mode.name()));
        result
    }

    fn load_again(&mut self, start: &mut Start<'_>) -> Result<(), String> {
        let loaded = self.options.load().map_err(|error| {
            self.reloads_refused += 1;
            let why = error.to_string();
            Line::new(Level::Warn, "reload-refused")
                .field("why", &why)
                .field("effect", "the config before stays in force")
                .write();
            why
        })?;
        self.reloads += 1;
        Line::new(Level::Info, "reloaded").field("mode", loaded.config.mode.name()).write();
        if loaded.config.api != self.api {
            Line::new(Level::Warn, "restart-needed").field("for", "[api]").write();
        }
        self.take_over(loaded, start);
        Ok(())
    }

    /// Puts a config into force. Datapaths that end or change are stopped before any is started: they find their queues, park and
    /// filters by fixed handles and names of interfaces, which may be those of a new one, too.
    fn take_over(&mut self, loaded: Loaded, start: &mut Start<'_>) {
        let mode = loaded.config.mode;
        let mut before = std::mem::take(&mut self.instances);
        let mut kept = Vec::new();
        for gateway in &loaded.config.gateway {
            let same = before.iter().position(|instance| instance.is_for(gateway));
            kept.push(same.map(|place| {
                let mut instance = before.swap_remove(place);
                let needed = datapath_of(&self.loaded.config, instance.gateway(), self.mode);
                instance.set_gateway(gateway);
                instance.set(&loaded, mode);
                instance.set_journal(&loaded.config.journal);
                if needed != datapath_of(&loaded.config, gateway, mode) {
                    instance.stop();
                }
                instance
            }));
        }
        drop(before);
        for (gateway, kept) in loaded.config.gateway.iter().zip(kept) {
            let mut instance = kept.unwrap_or_else(|| Instance::new(&loaded, gateway, mode, None));
            if !instance.is_running() {
                instance.start_or_fail(&loaded.config, mode, start);
            }
            self.instances.push(instance);
        }
        (self.loaded, self.mode) = (loaded, mode);
    }

    fn stop(&mut self) {
        self.notify.send("STOPPING=1");
        for instance in &mut self.instances {
            instance.stop();
        }
        self.shared.end();
        Line::new(Level::Info, "stopped").write();
    }
}

/// Starts the gateways of a config. One that cannot be started is tried again later, as it would be after a failure.
///
/// # Errors
/// None can be started: the error of the first one.
fn start_all(
    options: &Options,
    loaded: &Loaded,
    start: &mut Start<'_>,
) -> Result<Vec<Instance>, DaemonError> {
    let mode = loaded.config.mode;
    let mut instances: Vec<Instance> = Vec::new();
    let mut failed = None;
    for gateway in &loaded.config.gateway {
        // A file holds one recording: that of the first gateway.
        let record = options.record.as_deref().filter(|_| instances.is_empty());
        let mut instance = Instance::new(loaded, gateway, mode, record);
        if let Err(source) = instance.start(&loaded.config, mode, start) {
            instance.fail(monotonic(), &source);
            failed
                .get_or_insert_with(|| DaemonError::Datapath { gateway: gateway.name().to_owned(), source });
        }
        instances.push(instance);
    }
    match failed {
        Some(error) if !instances.iter().any(Instance::is_running) => Err(error),
        _ => Ok(instances),
    }
}

fn take(flag: &AtomicBool) -> bool {
    flag.swap(false, Ordering::Relaxed)
}

impl Options {
    /// Reads and checks the config.
    fn load(&self) -> Result<Loaded, DaemonError> {
        let text = std::fs::read_to_string(&self.config)
            .map_err(|source: io::Error| DaemonError::Read { path: self.config.clone(), source })?;
        let name = self.config.display().to_string();
        config::load(&name, &text, &self.overrides).map_err(DaemonError::Config)
    }
}
