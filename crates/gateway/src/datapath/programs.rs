//! The programs in the kernel and their maps.

use std::collections::HashMap;
use std::fmt;

use aya::maps::{Array, MapData, PerCpuArray, RingBuf};
use aya::programs::tc::{NlOptions, TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, tc};
use aya::{Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};
use fairhop_control::raw::RawDigest;
use fairhop_model::units::Nanos;

use super::layout::{RawCounters, RawKey, RawOrders, RawTreated, RawTreatment};
use super::places::{Places, Seeds};
use super::{Attachment, Counters, DatapathError, Pacing, sys};

/// `bpf/fairhop.c`, compiled; empty if there was no clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fairhop.bpf.o"));

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// Egress of the mesh's interface.
    ToMesh,
    /// Ingress of the mesh's interface.
    FromMesh,
    /// Egress of the wired interface.
    ToWired,
    /// Egress of the way in to the park.
    Park,
    /// Ingress of the way out of the park.
    Unpark,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ToMesh, Self::FromMesh, Self::ToWired, Self::Park, Self::Unpark];

    /// Its name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToMesh => "fairhop_to_mesh",
            Self::FromMesh => "fairhop_from_mesh",
            Self::ToWired => "fairhop_to_wired",
            Self::Park => "fairhop_park",
            Self::Unpark => "fairhop_unpark",
        }
    }

    const fn hook(self) -> TcAttachType {
        match self {
            Self::ToMesh | Self::ToWired | Self::Park => TcAttachType::Egress,
            Self::FromMesh | Self::Unpark => TcAttachType::Ingress,
        }
    }
}

/// What the programs have to know when they are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// How packets are paced.
    pub pacing: Pacing,
    /// The mesh's interface carries IP packets without a header of its own.
    pub mesh_is_ip: bool,
    /// The same of the wired interface.
    pub wired_is_ip: bool,
    /// Index of the mesh's interface.
    pub mesh_index: u32,
    /// Indices of the interfaces into the park and out of it; zero without one.
    pub park: (u32, u32),
    /// Packets that are parked at most.
    pub park_packets: u32,
    /// One of so many packets of paced flows has a digest; losses and round trips can only be seen with 1.
    pub sample: u32,
    /// Number of TCP flows.
    pub flows: u32,
    /// Headers are read in place; otherwise all are read as if they were in fragments, for tests.
    pub in_place: bool,
    /// Tests set the time.
    pub has_test_clock: bool,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            pacing: Pacing::Off,
            mesh_is_ip: false,
            wired_is_ip: false,
            mesh_index: 0,
            park: (0, 0),
            park_packets: 200,
            sample: 1,
            flows: 16_384,
            in_place: true,
            has_test_clock: false,
        }
    }
}

/// Major number of the queues that are made on the mesh's interface.
pub(super) const MESH_MAJOR: u16 = 0xfa10;
/// The same on the wired interface.
pub(super) const WIRED_MAJOR: u16 = 0xfa20;

/// The loaded programs.
pub(super) struct Programs {
    ebpf: Ebpf,
    orders: Array<MapData, RawOrders>,
    active: Array<MapData, u32>,
    treatments: Array<MapData, RawTreated>,
    counters: PerCpuArray<MapData, RawCounters>,
    clock: Array<MapData, u64>,
    digests: RingBuf<MapData>,
    /// What is in the table of treatments.
    treated: Places,
    /// Place of the orders in force.
    current: u32,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").field("current", &self.current).finish_non_exhaustive()
    }
}

fn io(action: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DatapathError {
    DatapathError::Io { action: action.to_owned(), source: std::io::Error::other(source) }
}

/// An error of loading, with its fix where the cause is known.
fn explain(program: &str, error: &ProgramError) -> DatapathError {
    let text = error.to_string();
    if let ProgramError::LoadError { io_error, verifier_log } = error {
        if matches!(io_error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
            && verifier_log.to_string().is_empty()
        {
            return DatapathError::Missing {
                missing: "the right to load programs into the kernel".into(),
                fix: "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON".into(),
            };
        }
        let log = verifier_log.to_string();
        let last: Vec<&str> = log.lines().rev().take(6).collect();
        let reason = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        return DatapathError::Program {
            program: program.to_owned(),
            reason: format!("{io_error}\n{reason}"),
        };
    }
    DatapathError::Program { program: program.to_owned(), reason: text }
}

/// Fewest flows that have a place.
const MIN_FLOWS: u32 = 64;
/// Most of them: the kernel has no tables of more places.
const MAX_FLOWS: u32 = 1 << 28;

/// Places of a table for `flows` flows, a power of two: at most half of them are taken.
fn places_for(flows: u32) -> u32 {
    2 * flows.clamp(MIN_FLOWS, MAX_FLOWS).next_power_of_two()
}

impl Programs {
    /// Loads the programs. It takes the kernel up to a second to verify them.
    pub(super) fn load(constants: &Constants, only: &[Program]) -> Result<Self, DatapathError> {
        if OBJECT.is_empty() {
            return Err(DatapathError::Missing {
                missing: "the programs for the kernel: fairhop was built without clang".into(),
                fix: "apt-get install clang, then build fairhop again (touch crates/gateway/build.rs)".into(),
            });
        }
        let pacing: u32 = match constants.pacing {
            Pacing::Off => 0,
            Pacing::DepartureTimes => 1,
            Pacing::Classes => 2,
            Pacing::Polling => 3,
        };
        let (mesh_is_ip, wired_is_ip) = (u32::from(constants.mesh_is_ip), u32::from(constants.wired_is_ip));
        let mesh_major = u32::from(MESH_MAJOR) << 16;
        let (places, seeds) = (places_for(constants.flows), Seeds::random());
        let place_mask = places - 1;
        let (in_place, has_test_clock) = (u32::from(constants.in_place), u32::from(constants.has_test_clock));
        let mut loader = EbpfLoader::new();
        loader
            // No structure of the kernel is read: its types are not needed.
            .btf(None)
            .verifier_log_level(VerifierLogLevel::STATS)
            .override_global("pacing", &pacing, true)
            .override_global("mesh_is_ip", &mesh_is_ip, true)
            .override_global("wired_is_ip", &wired_is_ip, true)
            .override_global("mesh_index", &constants.mesh_index, true)
            .override_global("park_index", &constants.park.0, true)
            .override_global("unpark_index", &constants.park.1, true)
            .override_global("park_packets", &constants.park_packets, true)
            .override_global("sample", &constants.sample, true)
            .override_global("mesh_major", &mesh_major, true)
            .override_global("place_mask", &place_mask, true)
            .override_global("seeds", &seeds.0, true)
            .override_global("in_place", &in_place, true)
            .override_global("has_test_clock", &has_test_clock, true);
        loader.map_max_entries("opening", constants.flows.max(MIN_FLOWS));
        loader.map_max_entries("flows", places);
        // Without departure times, no flow has a lane.
        let has_lanes = constants.pacing.has_times();
        loader.map_max_entries("lanes", if has_lanes { places } else { 1 });
        let mut ebpf = loader.load(OBJECT).map_err(|error| match error {
            EbpfError::MapError(error) => DatapathError::Missing {
                missing: format!("maps for the programs: {error}"),
                fix: "run as root, or with CAP_BPF and CAP_NET_ADMIN, on Linux 5.10 or later".into(),
            },
            other => io("load the programs", other),
        })?;
        for program in only {
            classifier(&mut ebpf, *program)?.load().map_err(|error| explain(program.name(), &error))?;
        }
        let mut take = |name: &str| ebpf.take_map(name).ok_or_else(|| io("find a map", name));
        let failed = |error| io("use a map", error);
        Ok(Self {
            orders: Array::try_from(take("orders")?).map_err(failed)?,
            active: Array::try_from(take("active")?).map_err(failed)?,
            treatments: Array::try_from(take("treatments")?).map_err(failed)?,
            counters: PerCpuArray::try_from(take("counts")?).map_err(failed)?,
            clock: Array::try_from(take("test_clock")?).map_err(failed)?,
            digests: RingBuf::try_from(take("digests")?).map_err(failed)?,
            ebpf,
            treated: Places::new(seeds),
            current: 0,
        })
    }

    /// Attaches a program to an interface.
    pub(super) fn attach(
        &mut self,
        program: Program,
        interface: &str,
        attachment: Attachment,
    ) -> Result<(), DatapathError> {
        let failed = |error: ProgramError| {
            let action = format!("attach {} to {interface} by {attachment}", program.name());
            io(&action, error)
        };
        let options = match attachment {
            Attachment::None => return Ok(()),
            Attachment::Tcx => TcAttachOptions::TcxOrder(LinkOrder::default()),
            Attachment::Clsact => {
                // There may be one already; then attaching works, and if not, its error tells more.
                let _ = tc::qdisc_add_clsact(interface);
                TcAttachOptions::Netlink(NlOptions::default())
            }
        };
        let classifier = classifier(&mut self.ebpf, program)?;
        classifier.attach_with_options(interface, program.hook(), options).map_err(failed)?;
        Ok(())
    }

    /// Puts orders in force.
    pub(super) fn set_orders(&mut self, orders: RawOrders) -> Result<(), DatapathError> {
        let failed = |error| io("write orders", error);
        // The other of the two places: a program never reads what is being written.
        let place = 1 - self.current;
        self.orders.set(place, orders, 0).map_err(failed)?;
        self.active.set(0, place, 0).map_err(failed)?;
        self.current = place;
        Ok(())
    }

    /// Writes the treatments of single flows. Only what has changed costs a system call.
    pub(super) fn set_treatments(
        &mut self,
        wanted: &HashMap<RawKey, RawTreatment>,
    ) -> Result<(), DatapathError> {
        let table = &mut self.treatments;
        let write = |place: u32, treated: &RawTreated| table.set(place, treated, 0);
        // A flow that finds no place is treated like those without a treatment of their own.
        self.treated.set(wanted, write).map(|_| ()).map_err(|error| io("write treatments", error))
    }

    /// Hands over what is in the ring buffer.
    pub(super) fn read_digests(&mut self, mut sink: impl FnMut(RawDigest)) {
        while let Some(entry) = self.digests.next() {
            if let Some(digest) = sys::digest(&entry) {
                sink(digest);
            }
        }
    }

    /// The counts of all CPUs.
    pub(super) fn counters(&self) -> Result<Counters, DatapathError> {
        let mut sum = Counters::default();
        let values = self.counters.get(&0, 0).map_err(|error| io("read the counters", error))?;
        for counters in values.iter() {
            sum += Counters::from(counters);
        }
        for program in Program::ALL {
            let loaded = self.ebpf.program(program.name());
            if let Some(Ok(info)) = loaded.map(aya::programs::Program::info) {
                sum.run_time_ns += info.run_time().as_nanos() as u64;
                sum.runs += info.run_count();
            }
        }
        Ok(sum)
    }

    /// Sets the time of the programs, if they were loaded with [`Constants::has_test_clock`].
    pub(super) fn set_clock(&mut self, now: Nanos) -> Result<(), DatapathError> {
        self.clock.set(0, now.0, 0).map_err(|error| io("set the clock", error))
    }

    /// Runs a program on a packet, without any interface, `repeat` times.
    pub(super) fn run(
        &self,
        program: Program,
        packet: &[u8],
        ingress: u32,
        mark: u32,
        repeat: u32,
        out: &mut [u8],
    ) -> Result<sys::Done, DatapathError> {
        let failed = |error: ProgramError| io("run a program", error);
        let loaded = self.ebpf.program(program.name()).ok_or_else(|| io("find a program", program.name()))?;
        let classifier: &SchedClassifier = loaded.try_into().map_err(failed)?;
        let fd = classifier.fd().map_err(failed)?;
        sys::run(std::os::fd::AsFd::as_fd(fd), packet, ingress, mark, repeat, out)
            .map_err(|error| io("run a program", error))
    }
}

fn classifier(ebpf: &mut Ebpf, program: Program) -> Result<&mut SchedClassifier, DatapathError> {
    let found = ebpf.program_mut(program.name()).ok_or_else(|| io("find a program", program.name()))?;
    found.try_into().map_err(|error: ProgramError| io("use a program", error))
}
