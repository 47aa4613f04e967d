//! One gateway of the daemon: its engine, its datapath, its journal and recording.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use super::news::{News, Report};
use super::{Start, monotonic};
use crate::config::{self, Config, GatewayAt, Loaded, Mode};
use crate::datapath::{self, AckWeight, Counters, Datapath, DatapathError, Features, Orders, POLL, Queue};
use crate::engine::{Engine, Settings};
use crate::journal::{Entry, Journal};
use crate::log::{Level, Line, unix_s};
use crate::probe::Prober;
use crate::probe::unreported::Unreported;
use crate::record::{Event, FORMAT, Header, Recorder};
use crate::status::{self, GatewayStatus};
use crate::voice::Distrusted;

/// How long after a failure the datapath is started anew.
const RETRY: Nanos = Nanos::from_secs(2);
/// Maximum size of a recording: 3 minutes at 20,000 digests a second.
const MAX_RECORDING: u64 = 400 << 20;

/// One gateway.
pub(super) struct Instance {
    gateway: GatewayAt,
    control: String,
    engine: Engine,
    datapath: Option<Box<dyn Datapath>>,
    /// Indices of the interfaces when the datapath was started.
    indices: [Option<u32>; 2],
    features: Features,
    fault: Option<String>,
    retry_at: Nanos,
    journal: Option<Journal>,
    /// An error of the journal has been logged, and is not repeated.
    journal_failed: bool,
    news: News,
    recorder: Option<Recorder>,
    prober: Prober,
    unreported: Unreported,
    /// Counts since the start of the daemon, and the part of them that datapaths before have counted.
    counters: Counters,
    counted_before: Counters,
    /// Those of the look before, and the time between the two.
    counters_before: Option<(Nanos, Counters)>,
    queues: Vec<Queue>,
    mode: Mode,
}

impl Instance {
    /// A gateway whose datapath is not started. Its controller begins where the journal ends; `record` is where to record
    /// from the first packet on.
    pub(super) fn new(loaded: &Loaded, gateway: &GatewayAt, mode: Mode, record: Option<&Path>) -> Self {
        let config = &loaded.config;
        let mut engine = Engine::new(Settings::of(config, gateway, mode));
        let effect = "after a restart the controller begins anew";
        let journal = open_journal(&config.journal, gateway.name(), effect);
        let known = journal.as_ref().and_then(|journal| journal.budget(unix_s(), config.journal.resume_s));
        let budget = known.filter(|&budget| mode == Mode::Live && engine.resume(budget));
        if let Some(budget) = budget {
            Line::new(Level::Info, "resumed")
                .field("gateway", gateway.name())
                .field("budget_kbps", (budget / 1e3).round())
                .write();
        }
        let mut instance = Self {
            control: config.control_of(gateway).kind().to_owned(),
            gateway: gateway.clone(),
            engine,
            datapath: None,
            indices: [None; 2],
            features: Features::default(),
            fault: None,
            retry_at: Nanos::ZERO,
            journal,
            journal_failed: false,
            news: News::default(),
            recorder: None,
            prober: Prober::open(),
            unreported: Unreported::default(),
            counters: Counters::default(),
            counted_before: Counters::default(),
            counters_before: None,
            queues: Vec::new(),
            mode,
        };
        instance.find_networks();
        instance.set_probes();
        if let Some(path) = record
            && let Err(error) = instance.begin_recording(path, loaded, false, budget, None)
        {
            instance.warn("not-recorded", &error);
        }
        instance
    }

    pub(super) fn name(&self) -> &str {
        self.gateway.name()
    }

    /// Whether it has a datapath.
    pub(super) const fn is_running(&self) -> bool {
        self.datapath.is_some()
    }

    pub(super) const fn gateway(&self) -> &GatewayAt {
        &self.gateway
    }

    /// Whether it is the one that the config calls so: what it knows of flows stays over a reload.
    pub(super) fn is_for(&self, gateway: &GatewayAt) -> bool {
        self.name() == gateway.name() && self.gateway.mesh == gateway.mesh
    }

    pub(super) fn set_gateway(&mut self, gateway: &GatewayAt) {
        if gateway.probe != self.gateway.probe {
            // The probes begin anew. A host that was probed before would seem not to have answered since.
            self.unreported = Unreported::default();
        }
        self.gateway = gateway.clone();
        self.set_probes();
    }

    /// Has the probes that the config asks for, or says why not.
    fn set_probes(&mut self) {
        if let Err((family, error)) = self.prober.set(self.gateway.probe.as_ref()) {
            self.warn(
                "no-probes",
                format!(
                    "hosts with {family}: {error}: probes need a raw socket, which a gateway opens at its start with CAP_NET_RAW; restart it"
                ),
            );
        }
    }

    /// Changes the settings of the engine.
    pub(super) fn set(&mut self, loaded: &Loaded, mode: Mode) {
        let config = &loaded.config;
        self.control = config.control_of(&self.gateway).kind().to_owned();
        self.engine.set(Settings::of(config, &self.gateway, mode));
        self.mode = mode;
        self.record_event(&Event::Set { mode: mode.name().to_owned(), config: loaded.text.clone() });
    }

    /// Goes on in the journal of a config. If that cannot be opened, the one before stays.
    pub(super) fn set_journal(&mut self, config: &config::Journal) {
        let is_same = |journal: &Journal| journal.is_for(&config.folder, self.name(), config.max_kb);
        if self.journal.as_ref().is_some_and(is_same) {
            return;
        }
        if let Some(journal) =
            open_journal(config, self.name(), "the journal before stays in use, if there is one")
        {
            self.journal = Some(journal);
            self.journal_failed = false;
            // The new journal gets the budget to continue from with the next tick.
            self.news = News::default();
        }
    }

    fn warn(&self, event: &str, why: impl Display) {
        Line::new(Level::Warn, event).field("gateway", self.name()).field("why", why).write();
    }

    /// Starts the datapath in place of the one before.
    pub(super) fn start(
        &mut self,
        config: &Config,
        mode: Mode,
        start: &mut Start<'_>,
    ) -> Result<(), DatapathError> {
        self.stop();
        let datapath = start(config, &self.gateway, mode)?;
        self.features = datapath.features().clone();
        for note in &self.features.notes {
            Line::new(Level::Info, "datapath").field("gateway", self.name()).field("note", note).write();
        }
        Line::new(Level::Info, "started")
            .field("gateway", self.name())
            .field("mesh", &self.gateway.mesh)
            .field("attachment", self.features.attachment)
            .field("pacing", self.features.pacing)
            .field("gate", self.features.has_gate)
            .write();
        self.datapath = Some(datapath);
        self.engine.on_blind();
        self.record_event(&Event::Blind);
        self.indices = self.interfaces().map(index_of);
        self.fault = None;
        self.counters_before = None;
        Ok(())
    }

    /// Starts the datapath, or tries again later.
    pub(super) fn start_or_fail(&mut self, config: &Config, mode: Mode, start: &mut Start<'_>) {
        if let Err(error) = self.start(config, mode, start) {
            self.fail(monotonic(), &error);
        }
    }

    /// Stops the datapath: packets pass as if it had never been there.
    pub(super) fn stop(&mut self) {
        if let Some(mut datapath) = self.datapath.take() {
            if let Ok(counters) = datapath.counters() {
                self.count(counters);
            }
            self.counted_before = self.counters;
            if let Err(error) = datapath.stop() {
                self.warn("not-removed", &error);
            }
        }
        self.queues.clear();
    }

    /// Lets packets pass and tries again later.
    pub(super) fn fail(&mut self, now: Nanos, error: &DatapathError) {
        self.stop();
        self.warn("datapath-failed", error);
        self.fault = Some(error.to_string());
        self.retry_at = now.saturating_add(RETRY);
    }

    /// When to poll again at the latest.
    pub(super) fn poll_within(&self) -> Duration {
        self.datapath.as_ref().map_or(POLL, |datapath| datapath.poll_within())
    }

    /// Takes the digests that have come.
    pub(super) fn poll(&mut self) {
        let (engine, recorder, prober) = (&mut self.engine, &mut self.recorder, &mut self.prober);
        let mut recorded = Ok(());
        let mut take = |digest: &RawDigest| {
            engine.on_digest(digest);
            if let Some(recorder) = recorder {
                recorded = std::mem::replace(&mut recorded, Ok(())).and_then(|()| recorder.digest(digest));
            }
        };
        // Probes and packets in the order of their times, which must not go back.
        let mut take_probes = |until, take: &mut dyn FnMut(&RawDigest)| {
            while let Some(digest) = prober.next_until(until) {
                take(&digest);
            }
        };
        let polled = self.datapath.as_mut().map_or(Ok(()), |datapath| {
            datapath.poll_digests(&mut |digest| {
                take_probes(Nanos(digest.at), &mut take);
                take(digest);
            })
        });
        take_probes(monotonic(), &mut take);
        if let Err(error) = recorded {
            self.end_recording(Some(&error));
        }
        if let Err(error) = polled {
            self.fail(monotonic(), &error);
        }
    }

    /// Decides, and has the decision carried out. Returns what is news.
    pub(super) fn tick(
        &mut self,
        now: Nanos,
        config: &Config,
        mode: Mode,
        start: &mut Start<'_>,
    ) -> Option<Entry> {
        if self.datapath.is_none() && now >= self.retry_at {
            match self.start(config, mode, start) {
                Ok(()) => {}
                // The reason is in the log, unless it has changed.
                Err(error) if self.fault.as_deref() == Some(error.to_string().as_str()) => {
                    self.retry_at = now.saturating_add(RETRY);
                }
                Err(error) => self.fail(now, &error),
            }
        }
        let waiting = match self.datapath.as_mut().map(|datapath| datapath.waiting(now)) {
            Some(Ok(waiting)) => waiting,
            Some(Err(error)) => {
                self.fail(now, &error);
                0
            }
            None => 0,
        };
        let distrusted = self.engine.tick(now, waiting);
        for flow in distrusted {
            self.report(&flow);
        }
        if self.gateway.probe.as_ref().is_some_and(|probe| probe.calls) {
            let hosts = self.unreported.choose(now, self.engine.controller().observer());
            self.prober.also(hosts.iter().map(|&host| host.into()));
        }
        if let Err(error) = self.enforce(now, mode) {
            self.fail(now, &error);
        }
        self.record_tick(now, waiting);
        self.news(now)
    }

    /// Hands the orders to the datapath. In other modes than live it gets none.
    fn enforce(&mut self, now: Nanos, mode: Mode) -> Result<(), DatapathError> {
        const NONE: &Policy = &Policy::none();
        let Some(datapath) = &mut self.datapath else { return Ok(()) };
        let none = Orders { policy: NONE, datagrams: &[], acks: AckWeight::default() };
        let orders = if mode == Mode::Live { self.engine.orders() } else { none };
        datapath.apply(&orders, now)
    }

    fn report(&self, flow: &Distrusted) {
        Line::new(Level::Warn, "distrusted")
            .field("gateway", self.name())
            .field("mesh", flow.key.mesh)
            .field("mesh_port", flow.key.mesh_port)
            .field("wired", flow.key.wired)
            .field("why", flow.why)
            .field("effect", "its packets are treated like other traffic")
            .write();
    }

    /// Logs a decision that differs from the last one in the log, and writes it into the journal; without news every ten seconds.
    fn news(&mut self, now: Nanos) -> Option<Entry> {
        let is_news = self.news.report(self.engine.decision()?)? == Report::Changed;
        let decision = status::decision(&self.engine, now);
        let calls = self.engine.controller().observer().calls(now, Nanos::from_secs(1));
        let calls = calls.filter(|call| !call.is_probe()).count();
        if is_news {
            let whole = |value: Option<f64>| value.map(f64::round);
            Line::new(Level::Info, "decision")
                .field("gateway", self.name())
                .field("state", &decision.state)
                .field("why", &decision.why)
                .maybe("budget_kbps", whole(decision.budget_kbps))
                .maybe("down_kbps", whole(decision.down_kbps))
                .maybe("window_bytes", decision.window_bytes)
                .field("calls", calls)
                .maybe("worst_mos", decision.mos.map(|mos| (100.0 * mos).round() / 100.0))
                .write();
        }
        let entry = Entry {
            unix_s: unix_s(),
            gateway: self.name().to_owned(),
            mode: self.mode.name().to_owned(),
            calls,
            decision,
        };
        if let Some(journal) = &mut self.journal {
            match journal.add(&entry) {
                Ok(()) => self.journal_failed = false,
                Err(error) if !self.journal_failed => {
                    self.journal_failed = true;
                    self.warn("journal-failed", &error);
                }
                Err(_) => {}
            }
        }
        is_news.then_some(entry)
    }

    fn interfaces(&self) -> [&str; 2] {
        [&self.gateway.mesh, self.gateway.wired.as_deref().unwrap_or_default()]
    }

    /// An interface that is made anew under its old name has neither programs nor queues: a reset of a radio, a restart of
    /// the mesh's routing, a cable of USB.
    fn replaced_interface(&self) -> Option<DatapathError> {
        let at = (0..2)
            .find(|&at| self.indices[at].is_some() && index_of(self.interfaces()[at]) != self.indices[at])?;
        Some(DatapathError::Missing {
            missing: format!("interface {}: it was removed", self.interfaces()[at]),
            fix: "nothing to do: the gateway starts again when it is back".into(),
        })
    }

    /// Learns the networks that the machine is in. Where the kernel does not say, those of before stay.
    fn find_networks(&mut self) {
        if let Ok(connected) = datapath::local_networks()
            && connected != self.engine.connected()
        {
            self.record_event(&Event::Connected(connected.iter().map(ToString::to_string).collect()));
            self.engine.set_connected(connected);
        }
    }

    /// Looks at addresses, counters and queues.
    pub(super) fn observe(&mut self, now: Nanos) {
        self.find_networks();
        if self.datapath.is_some()
            && let Some(error) = self.replaced_interface()
        {
            self.fail(now, &error);
        }
        if let Some(Err(error)) = self.datapath.as_mut().map(|datapath| datapath.check_interfaces()) {
            self.fail(now, &error);
            // Another start is all that it takes.
            self.retry_at = now;
        }
        let Some(datapath) = &mut self.datapath else { return };
        match datapath.counters() {
            Ok(counters) => {
                let before = self.counters;
                self.count(counters);
                self.counters_before = Some((LOOK_EVERY, before));
            }
            Err(error) => {
                self.fail(now, &error);
                return;
            }
        }
        if let Some(datapath) = &mut self.datapath
            && let Ok(queues) = datapath.queues()
        {
            self.queues = queues;
        }
    }

    /// Takes the counts of the datapath that runs.
    fn count(&mut self, counters: Counters) {
        self.counters = self.counted_before;
        self.counters += counters;
    }

    pub(super) fn status(&self, now: Nanos) -> GatewayStatus {
        let before = self.counters_before.as_ref();
        GatewayStatus {
            name: self.name().to_owned(),
            mesh: self.gateway.mesh.clone(),
            wired: self.gateway.wired.clone(),
            control: self.control.clone(),
            fault: self.fault.clone(),
            probes: status::probes(&self.engine, now, self.prober.hosts()),
            ..status::collect(&self.engine, now, &self.features, &self.counters, before, self.queues.clone())
        }
    }

    /// Begins a recording in the folder of the journal; returns its file.
    pub(super) fn record(&mut self, loaded: &Loaded, mode: Mode, until: Nanos) -> std::io::Result<PathBuf> {
        if self.recorder.is_some() {
            return Err(std::io::Error::other("a recording is under way; wait for its end"));
        }
        let folder = &loaded.config.journal.folder;
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}-{:.0}.recording", self.name(), unix_s()));
        let budget = self.engine.controller().budget();
        self.mode = mode;
        self.begin_recording(&path, loaded, true, budget, Some(until))?;
        Ok(path)
    }

    fn begin_recording(
        &mut self,
        path: &Path,
        loaded: &Loaded,
        began_in_the_middle: bool,
        budget: Option<f64>,
        until: Option<Nanos>,
    ) -> std::io::Result<()> {
        let header = Header {
            fairhop_recording: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            gateway: self.name().to_owned(),
            mode: self.mode.name().to_owned(),
            unix_s: unix_s(),
            began_in_the_middle,
            budget,
            connected: self.engine.connected().iter().map(ToString::to_string).collect(),
            config: loaded.text.clone(),
        };
        self.recorder = Some(Recorder::begin(path, &header, until, MAX_RECORDING)?);
        Line::new(Level::Info, "recording")
            .field("gateway", self.name())
            .field("file", path.display())
            .write();
        Ok(())
    }

    fn record_event(&mut self, event: &Event) {
        if let Some(Err(error)) = self.recorder.as_mut().map(|recorder| recorder.event(event)) {
            self.end_recording(Some(&error));
        }
    }

    fn record_tick(&mut self, now: Nanos, waiting: usize) {
        let Some(recorder) = &mut self.recorder else { return };
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        match recorder.tick(now, waiting, &self.engine) {
            Ok(()) if recorder.is_over(now) => self.end_recording(None),
            Ok(()) => {}
            Err(error) => self.end_recording(Some(&error)),
        }
    }

    fn end_recording(&mut self, error: Option<&std::io::Error>) {
        let Some(recorder) = self.recorder.take() else { return };
        let path = recorder.path().to_owned();
        let ended = recorder.end();
        match (error, &ended) {
            (Some(error), _) | (None, Err(error)) => self.warn("recording-ended-early", error),
            (None, Ok(_)) => {
                Line::new(Level::Info, "recorded")
                    .field("gateway", self.name())
                    .field("file", path.display())
                    .write();
            }
        }
    }
}

/// The journal of a gateway. If it cannot be opened, the log has the reason and the effect.
fn open_journal(config: &config::Journal, name: &str, effect: &str) -> Option<Journal> {
    Journal::open(&config.folder, name, config.max_kb)
        .inspect_err(|error| {
            Line::new(Level::Warn, "no-journal")
                .field("gateway", name)
                .field("folder", config.folder.display())
                .field("why", error)
                .field("effect", effect)
                .write();
        })
        .ok()
}

/// Index of an interface of this thread's namespace.
fn index_of(name: &str) -> Option<u32> {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    name_to_index(socket, name).ok()
}

/// Time between two looks at counters.
const LOOK_EVERY: Nanos = Nanos(super::LOOK_TICKS * crate::engine::INTERVAL.0);

impl Drop for Instance {
    fn drop(&mut self) {
        self.end_recording(None);
        self.stop();
    }
}
