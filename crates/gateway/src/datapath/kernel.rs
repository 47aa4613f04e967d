//! The datapath of the kernel: programs on the interfaces, queues behind them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairhop_control::policy::Policy;
use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;
use rustix::time::{ClockId, clock_gettime};

use super::departures::Departures;
use super::links;
use super::netlink::{Interface, Netlink};
use super::orders::Written;
use super::park::{self, Park};
use super::programs::{Constants, MESH_MAJOR, Program, Programs, WIRED_MAJOR};
use super::queues::{self, Queues};
use super::{
    AckWeight, Attachment, Counters, Datapath, DatapathError, Features, LIFETIME, Orders, POLL, Pacing, Queue,
};

/// A stay in the park (`STAY` of the programs), and the way back.
const PARKED_FOR: Duration = Duration::from_millis(60);

/// What a datapath has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interface to the mesh.
    pub mesh: String,
    /// The interface to the wired side; without one, ACKs out of the mesh are not paced.
    pub wired: Option<String>,
    /// How packets are paced; none for the best that the kernel has.
    pub pacing: Option<Pacing>,
    /// How programs are attached; none for the best that the kernel has.
    pub attachment: Option<Attachment>,
    /// Number of TCP flows that are known at a time.
    pub flows: u32,
    /// Number of full packets that wait in the data pacer at most.
    pub queue_packets: u32,
    /// One of so many packets of TCP data and other UDP has a digest. With more than 1, losses and rates cannot be seen.
    pub sample: u32,
    /// Only digests: nothing is changed, and no queue is made.
    pub observe_only: bool,
    /// Where the queues that are replaced are written down.
    pub state_dir: PathBuf,
}

impl Settings {
    /// The usual settings for an interface to the mesh.
    pub fn new(mesh: impl Into<String>) -> Self {
        Self {
            mesh: mesh.into(),
            wired: None,
            pacing: None,
            attachment: None,
            flows: 16_384,
            queue_packets: 200,
            sample: 1,
            observe_only: false,
            state_dir: PathBuf::from("/run/fairhop"),
        }
    }
}

/// The datapath of the kernel.
#[derive(Debug)]
pub struct Kernel {
    settings: Settings,
    features: Features,
    netlink: Netlink,
    mesh: Interface,
    wired: Option<Interface>,
    /// None after the end.
    programs: Option<Programs>,
    queues: Vec<Queues>,
    /// With departure times and polling.
    park: Option<Park>,
    written: Written,
    /// Digests of packets that have not left yet.
    departures: Departures,
}

/// Now, on the clock of digests and policies.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

pub(super) fn open() -> Result<Netlink, DatapathError> {
    Netlink::open().map_err(|source| DatapathError::Io { action: "open a netlink socket".into(), source })
}

pub(super) fn interfaces(netlink: &mut Netlink) -> Result<Vec<Interface>, DatapathError> {
    let failed = |source| DatapathError::Io { action: "list the interfaces".into(), source };
    netlink.interfaces().map_err(failed)
}

pub(super) fn find(netlink: &mut Netlink, name: &str) -> Result<Interface, DatapathError> {
    let found = interfaces(netlink)?.into_iter().find(|interface| interface.name == name);
    found.ok_or_else(|| DatapathError::Missing {
        missing: format!("there is no interface {name}"),
        fix: "`ip link` lists the interfaces of this machine; set the right one in the config".into(),
    })
}

/// Removes what a gateway that was killed has left on interfaces. The names of what was removed.
///
/// # Errors
/// An interface does not exist, or rights are missing.
pub fn clean(interfaces: &[&str], state_dir: &Path) -> Result<Vec<String>, DatapathError> {
    let mut netlink = open()?;
    let mut removed = Vec::new();
    for name in interfaces {
        let interface = find(&mut netlink, name)?;
        removed.extend(queues::clean(&mut netlink, &interface, state_dir)?);
    }
    Ok(removed)
}

impl Kernel {
    /// Removes what an earlier one has left, makes queues, loads and attaches programs. Digests come from then on; nothing
    /// is limited before the first orders.
    ///
    /// # Errors
    /// Something is missing, or the kernel refuses. Nothing is left behind.
    pub fn start(settings: Settings) -> Result<Self, DatapathError> {
        let mut netlink = open()?;
        let mesh = find(&mut netlink, &settings.mesh)?;
        let wired = settings.wired.as_deref().map(|name| find(&mut netlink, name)).transpose()?;
        let mut notes = Vec::new();
        for interface in [Some(&mesh), wired.as_ref()].into_iter().flatten() {
            for what in queues::clean(&mut netlink, interface, &settings.state_dir)? {
                notes.push(format!("removed what an earlier gateway had left: {what}"));
            }
        }
        let misplaced = links::judge(&interfaces(&mut netlink)?, &settings.mesh, settings.wired.as_deref());
        if let Some(error) = misplaced {
            notes.push(error.to_string());
        }
        let mut kernel = Self {
            features: Features { notes, ..Features::default() },
            settings,
            netlink,
            mesh,
            wired,
            programs: None,
            queues: Vec::new(),
            park: None,
            written: Written::default(),
            departures: Departures::default(),
        };
        kernel.make_queues()?;
        // Dropping `kernel` after an error removes what was made.
        kernel.load()?;
        Ok(kernel)
    }

    fn make_queues(&mut self) -> Result<(), DatapathError> {
        if self.settings.observe_only || self.settings.pacing == Some(Pacing::Off) {
            return Ok(());
        }
        let choices = match self.settings.pacing {
            None => vec![Pacing::DepartureTimes, Pacing::Polling, Pacing::Classes],
            Some(pacing) => vec![pacing],
        };
        for pacing in choices {
            match self.make_queues_for(pacing) {
                Ok(()) => {
                    self.features.pacing = pacing;
                    self.features.has_gate = pacing.has_times();
                    self.features.paces_down_acks = pacing == Pacing::DepartureTimes && self.wired.is_some();
                    self.note_limits();
                    return Ok(());
                }
                // The kernel does not know the kind of queue or interface.
                Err(DatapathError::Io { source, .. })
                    if self.settings.pacing.is_none()
                        && matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {}
                Err(error) => return Err(error),
            }
        }
        self.features.notes.push(
            "no pacing: the kernel has neither fq nor htb and tbf (CONFIG_NET_SCH_FQ, _HTB, _TBF); windows are clamped"
                .into(),
        );
        Ok(())
    }

    /// What the way of pacing cannot do.
    fn note_limits(&mut self) {
        let Features { has_gate, paces_down_acks, .. } = self.features;
        let acks = self.wired.is_some() && !paces_down_acks;
        let missing = [(!has_gate).then_some("no gate"), acks.then_some("no pacing of ACKs out of the mesh")];
        let missing: Vec<&str> = missing.into_iter().flatten().collect();
        if !missing.is_empty() {
            let note = format!("{}: it takes the queue fq (CONFIG_NET_SCH_FQ)", missing.join(" and "));
            self.features.notes.push(note);
        }
    }

    fn make_queues_for(&mut self, pacing: Pacing) -> Result<(), DatapathError> {
        if pacing == Pacing::Polling {
            let failed = |source| DatapathError::Io {
                action: format!("make a pair of interfaces and their queue for {pacing}"),
                source,
            };
            self.park = Some(Park::make(&mut self.netlink, &self.mesh, pacing).map_err(failed)?);
            return Ok(());
        }
        let Settings { queue_packets, state_dir, .. } = &self.settings;
        let sides = [(Some(&self.mesh), MESH_MAJOR, true), (self.wired.as_ref(), WIRED_MAJOR, false)];
        for (interface, major, has_data) in sides {
            // Classes pace what goes into the mesh.
            let Some(interface) = interface.filter(|_| has_data || pacing != Pacing::Classes) else {
                continue;
            };
            let netlink = &mut self.netlink;
            let made = Queues::make(netlink, interface, major, pacing, has_data, *queue_packets, state_dir);
            match made {
                Ok(made) => self.queues.push(made),
                Err(error) => {
                    for queues in self.queues.drain(..) {
                        queues.remove(&mut self.netlink)?;
                    }
                    return Err(error);
                }
            }
        }
        if pacing == Pacing::DepartureTimes {
            // Without a park, departure times are fixed on arrival.
            match Park::make(&mut self.netlink, &self.mesh, pacing) {
                Ok(park) => self.park = Some(park),
                Err(error) => self.features.notes.push(format!(
                    "rates take effect late where many packets wait: no pair of interfaces to park them (CONFIG_VETH): {error}"
                )),
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), DatapathError> {
        let constants = Constants {
            pacing: self.features.pacing,
            mesh_is_ip: !self.mesh.is_ethernet,
            wired_is_ip: self.wired.as_ref().is_some_and(|wired| !wired.is_ethernet),
            mesh_index: self.mesh.index,
            park: self.park.as_ref().map_or((0, 0), |park| (park.way_in.index, park.way_out.index)),
            park_packets: match self.features.pacing {
                Pacing::Polling => self.settings.queue_packets.min(park::MAX_POLLED),
                _ => self.settings.queue_packets,
            },
            sample: self.settings.sample.max(1),
            flows: self.settings.flows,
            ..Constants::default()
        };
        let mut wanted =
            vec![(Program::ToMesh, self.mesh.name.clone()), (Program::FromMesh, self.mesh.name.clone())];
        if let Some(wired) = self.wired.as_ref().filter(|_| self.features.pacing == Pacing::DepartureTimes) {
            wanted.push((Program::ToWired, wired.name.clone()));
        }
        if let Some(park) = &self.park {
            if self.features.pacing == Pacing::DepartureTimes {
                wanted.push((Program::Park, park.way_in.name.clone()));
            }
            wanted.push((Program::Unpark, park.way_out.name.clone()));
        }
        let only: Vec<Program> = wanted.iter().map(|(program, _)| *program).collect();
        let mut programs = Programs::load(&constants, &only)?;
        let mut attachment = self.settings.attachment.unwrap_or(Attachment::Tcx);
        for (program, name) in &wanted {
            if attachment == Attachment::Tcx {
                match programs.attach(*program, name, attachment) {
                    Ok(()) => continue,
                    Err(_) if self.settings.attachment.is_none() => attachment = Attachment::Clsact,
                    Err(error) => return Err(error),
                }
            }
            if attachment == Attachment::Clsact {
                let interface = find(&mut self.netlink, name)?;
                queues::check_clsact(&mut self.netlink, &interface)?;
            }
            programs.attach(*program, name, attachment)?;
        }
        self.features.attachment = attachment;
        self.programs = Some(programs);
        Ok(())
    }

    /// What `of` finds in the park, if there is one.
    fn parked<T>(
        &mut self,
        of: fn(&Park, &mut Netlink) -> io::Result<T>,
    ) -> Result<Option<T>, DatapathError> {
        let found = self.park.as_ref().map(|park| of(park, &mut self.netlink)).transpose();
        found.map_err(|source| DatapathError::Io { action: "list the queue of the park".into(), source })
    }

    fn gone<T>() -> Result<T, DatapathError> {
        Err(DatapathError::Missing {
            missing: "the datapath: it was stopped".into(),
            fix: "start it again".into(),
        })
    }
}

impl Datapath for Kernel {
    fn features(&self) -> &Features {
        &self.features
    }

    fn poll_within(&self) -> Duration {
        /// The times of packets in classes are wrong by up to that, and round trips with them: it has to be less than what the
        /// controller takes for a queue (12 ms).
        const LOOK: Duration = Duration::from_millis(5);
        if self.departures.has_classes() { LOOK } else { POLL }
    }

    fn poll_digests(&mut self, sink: &mut dyn FnMut(&RawDigest)) -> Result<(), DatapathError> {
        let Some(programs) = &mut self.programs else { return Self::gone() };
        if self.features.pacing == Pacing::Off {
            // Nothing waits.
            programs.read_digests(|digest| sink(&digest));
            return Ok(());
        }
        let departures = &mut self.departures;
        // The look comes before the digests: packets that come after it are told apart by their times. Where nothing waited
        // before, the next one is soon enough.
        let classes = match (self.features.pacing, self.queues.first()) {
            (Pacing::Classes, Some(queues)) if departures.has_classes() => {
                Some((queues.backlogs(&mut self.netlink)?, queues.header()))
            }
            _ => None,
        };
        let now = now();
        let has_classes = self.features.pacing == Pacing::Classes;
        programs.read_digests(|digest| {
            if has_classes { departures.take_class(digest) } else { departures.take(digest) }
        });
        if let Some((backlogs, header)) = classes {
            departures.look(now, header, &backlogs);
        }
        while let Some(digest) = departures.next(now) {
            sink(&digest);
        }
        Ok(())
    }

    fn apply(&mut self, orders: &Orders<'_>, now: Nanos) -> Result<(), DatapathError> {
        let Some(programs) = &mut self.programs else { return Self::gone() };
        if self.settings.observe_only {
            return Ok(());
        }
        let packets = self.settings.queue_packets;
        let expires = orders.policy.expires.min(now.saturating_add(LIFETIME));
        // Rates before packets: a class never sends what it got at an older, higher rate.
        for queues in &mut self.queues {
            queues.set(&mut self.netlink, orders, &self.written, packets)?;
        }
        if let Some(park) = self.park.as_mut().filter(|_| self.features.pacing == Pacing::Polling) {
            let failed = |source| DatapathError::Io { action: "change the queue of the park".into(), source };
            park.set(&mut self.netlink, orders.policy).map_err(failed)?;
        }
        self.written.write(programs, orders, now, expires, packets, self.features.pacing)?;
        // Classes that have just been given to flows.
        for queues in &mut self.queues {
            queues.set(&mut self.netlink, orders, &self.written, packets)?;
        }
        Ok(())
    }

    fn waiting(&mut self, _now: Nanos) -> Result<usize, DatapathError> {
        let parked = self.parked(Park::waiting)?.unwrap_or(0);
        let queued = self.queues.first().map(|queues| queues.waiting(&mut self.netlink)).transpose()?;
        Ok(queued.unwrap_or(0) + parked)
    }

    /// Bursts and queues of classes are made for packets of a size: larger ones are dropped by TBF.
    fn check_interfaces(&mut self) -> Result<(), DatapathError> {
        if self.features.pacing != Pacing::Classes {
            return Ok(());
        }
        let Interface { name, mtu, .. } = &self.mesh;
        let now = find(&mut self.netlink, name)?.mtu;
        if now == *mtu {
            return Ok(());
        }
        Err(DatapathError::Missing {
            missing: format!("classes for packets of {now} bytes on {name}: it had an MTU of {mtu} before"),
            fix: "nothing to do: the gateway makes them anew".into(),
        })
    }

    fn counters(&mut self) -> Result<Counters, DatapathError> {
        match &self.programs {
            Some(programs) => programs.counters(),
            None => Self::gone(),
        }
    }

    fn queues(&mut self) -> Result<Vec<Queue>, DatapathError> {
        let mut all = Vec::new();
        for queues in &self.queues {
            all.extend(queues.list(&mut self.netlink)?);
        }
        all.extend(self.parked(Park::queue)?);
        Ok(all)
    }

    fn stop(&mut self) -> Result<(), DatapathError> {
        let Some(mut programs) = self.programs.take() else { return self.remove_queues() };
        // Nothing is limited from now on, whatever fails below.
        let expired = Policy { expires: Nanos::ZERO, ..Policy::none() };
        let orders = Orders { policy: &expired, datagrams: &[], acks: AckWeight::default() };
        let lifted = self.written.write(&mut programs, &orders, Nanos::ZERO, Nanos::ZERO, 1, Pacing::Off);
        // What is parked comes back and passes.
        if lifted.is_ok()
            && self.parked(Park::waiting).is_ok_and(|parked| parked.is_some_and(|parked| parked > 0))
        {
            std::thread::sleep(PARKED_FOR);
        }
        // Dropping the programs detaches them.
        drop(programs);
        let removed = self.remove_queues();
        for interface in [Some(&self.mesh), self.wired.as_ref()].into_iter().flatten() {
            if self.features.attachment == Attachment::Clsact {
                queues::clean(&mut self.netlink, interface, &self.settings.state_dir)?;
            }
        }
        lifted.and(removed)
    }
}

impl Kernel {
    fn remove_queues(&mut self) -> Result<(), DatapathError> {
        let mut result = Ok(());
        for queues in self.queues.drain(..) {
            result = result.and(queues.remove(&mut self.netlink));
        }
        if self.park.take().is_some() {
            let removed = park::clean(&mut self.netlink, &self.mesh.name);
            let failed = |source| DatapathError::Io { action: "remove the park".into(), source };
            result = result.and(removed.map(drop).map_err(failed));
        }
        result
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Nobody can act on a failure here; the next start cleans up.
        let _ = self.stop();
    }
}
