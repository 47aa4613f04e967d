//! The gateway's config: one TOML file, with the words and the kind of checks of a scenario.
//!
//! [`load`] is pure and never depends on the machine: whether an interface exists is checked by [`crate::doctor`] and when
//! the gateway starts.

mod check;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use fairhop_config::control::{ControlSetting, GatewayControl};
use fairhop_config::{Document, Errors, Form};
use fairhop_control::{ControllerConfig, Network, ObserverConfig};
use fairhop_model::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fairhop_config::Override;

use crate::datapath::Pacing;

/// The config of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What the gateway does with its decisions.
    #[serde(default)]
    pub mode: Mode,
    /// The places at which the Internet enters a mesh, at least one.
    #[schemars(length(min = 1))]
    pub gateway: Vec<GatewayAt>,
    /// Control of all gateways that have none of their own. Left out: adaptive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<GatewayControl>,
    /// Hosts in the mesh with a share that is not that of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<HostWeight>,
    /// Regions of the mesh, besides those around the gateways, in which other flows need airtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub region: Vec<RegionLoad>,
    /// Calls.
    #[serde(default)]
    pub voice: Voice,
    /// Sizes and times.
    #[serde(default)]
    pub limits: Limits,
    /// Metrics and the programming interface.
    #[serde(default)]
    pub api: Api,
    /// Decisions that survive a restart.
    #[serde(default)]
    pub journal: Journal,
}

/// What the gateway does with its decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Measures calls and flows, decides nothing.
    Observe,
    /// Decides and logs what it would do. Packets pass untouched.
    #[default]
    DryRun,
    /// Does what it decides.
    Live,
}

impl Mode {
    /// Its name in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::DryRun => "dry-run",
            Self::Live => "live",
        }
    }

    /// All modes.
    pub const ALL: [Self; 3] = [Self::Observe, Self::DryRun, Self::Live];
}

/// A place at which the Internet enters a mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayAt {
    /// Its name in logs and metrics. Left out: the name of the mesh interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub name: Option<String>,
    /// Interface to the mesh, such as wlan0 or bat0.
    #[schemars(length(min = 1, max = 15))]
    pub mesh: String,
    /// Interface to the Internet, for the queue of ACKs out of the mesh, which control `ack-pacing` needs. No other gateway may have
    /// this interface. Left out: these ACKs are not paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub wired: Option<String>,
    /// Networks beyond which the way to the Internet begins, besides those that this machine is in: what passes between them and the
    /// mesh does not share that way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<String>,
    /// Echo requests that stand for calls which stay in the mesh, or which have no reports. Left out: none, and what such calls lose is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeSetting>,
    /// How packets into the mesh are paced.
    #[serde(default)]
    pub pacing: PacingChoice,
    /// Control of this gateway. Left out: that of all gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<GatewayControl>,
}

impl GatewayAt {
    /// The networks before the way to the Internet.
    pub fn local(&self) -> Vec<Network> {
        self.local.iter().filter_map(|network| Network::read(network)).collect()
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.mesh)
    }
}

/// Echo requests (ping) to hosts of the mesh. Their replies count as calls whose packets cross the mesh both ways, so that the controller
/// makes room for calls that it does not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeSetting {
    /// Addresses of hosts that answer: near telephones, or where most data goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub hosts: Vec<String>,
    /// Also the hosts of calls whose loss into the mesh no report shows, such as encrypted calls without video: up to four at a time, while
    /// something is uploaded. A host that does not answer is tried again after a minute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calls: bool,
    /// Time between requests to a host in ms. Each takes as much air as a packet of a call, there and back.
    #[serde(default = "probe_interval_ms")]
    #[schemars(range(min = 10, max = 60))]
    pub interval_ms: u16,
}

impl ProbeSetting {
    /// The hosts that are named.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.hosts.iter().filter_map(|host| host.parse().ok())
    }
}

/// How packets into the mesh are paced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacingChoice {
    /// The first of the following that the kernel can do.
    #[default]
    Auto,
    /// Departure times under `fq`: rates and the gate.
    DepartureTimes,
    /// Rates and the gate without `fq`: what is too early is looked at again, 20,000 times a second.
    Polling,
    /// Classes of HTB with a TBF each: rates, no gate.
    Classes,
    /// No pacing: windows only.
    Off,
}

impl PacingChoice {
    /// The way that is asked for; none for the best that the kernel has.
    pub const fn way(self) -> Option<Pacing> {
        match self {
            Self::Auto => None,
            Self::DepartureTimes => Some(Pacing::DepartureTimes),
            Self::Polling => Some(Pacing::Polling),
            Self::Classes => Some(Pacing::Classes),
            Self::Off => Some(Pacing::Off),
        }
    }
}

/// A host, or a network of hosts, in the mesh with a share of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostWeight {
    /// Address, or network with the length of its prefix: 10.1.0.4 or 10.1.0.0/24. Of several that contain a host, the
    /// longest prefix counts.
    pub network: String,
    /// Share of each of its flows, relative to 1 for the flows of other hosts.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 100.0))]
    pub weight: f64,
}

/// A region of the mesh through which the packets of some hosts pass, and the demand in it that no gateway of this config sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionLoad {
    /// The hosts: addresses, or networks with the length of their prefix, at least one.
    #[schemars(length(min = 1))]
    pub networks: Vec<String>,
    /// How many other flows share its airtime: calls inside the mesh or flows of another gateway, for example. A part of a flow is
    /// possible.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
    pub flows: f64,
}

/// What counts as a call, and how much of it a host may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Voice {
    /// Networks of telephones and exchanges: only RTP with an end in one of them counts as a call. Left out: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Maximum rate of RTP of one host in the mesh, both directions together, in kb/s of IP packets. What is above is treated
    /// like any other traffic.
    #[serde(default = "kbps_per_host")]
    #[schemars(range(min = 10.0, max = 1_000_000.0))]
    pub kbps_per_host: f64,
    /// Maximum rate of a call, both directions together, in kb/s of IP packets: G.711 has 160.
    #[serde(default = "kbps_per_call")]
    #[schemars(range(min = 10.0, max = 100_000.0))]
    pub kbps_per_call: f64,
}

/// Sizes and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of flows that are known at a time.
    #[serde(default = "flows")]
    #[schemars(range(min = 16, max = 1_000_000))]
    pub flows: u32,
    /// Silence after which a flow is forgotten, in seconds.
    #[serde(default = "idle_s")]
    #[schemars(range(min = 5.0, max = 3600.0))]
    pub idle_s: f64,
    /// Playout delay of listeners after the fastest packet, in ms.
    #[serde(default = "playout_ms")]
    #[schemars(range(min = 10.0, max = 1000.0))]
    pub playout_ms: f64,
    /// Delay of a call's fastest packet from end to end, in ms, which no gateway can see.
    #[serde(default = "min_delay_ms")]
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub min_delay_ms: f64,
}

/// Metrics and the programming interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Address and port to listen on; an empty string for none.
    #[serde(default = "listen")]
    #[schemars(length(max = 64))]
    pub listen: String,
    /// File with the token for requests that change something. It is made with a random token if it does not exist.
    #[serde(default = "token_file")]
    pub token_file: PathBuf,
}

/// Decisions that survive a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Folder of the journals and recordings.
    #[serde(default = "folder")]
    pub folder: PathBuf,
    /// Maximum size of the journal of a gateway in kB.
    #[serde(default = "max_kb")]
    #[schemars(range(min = 16, max = 1_000_000))]
    pub max_kb: u32,
    /// Maximum age of the last decision from which a controller continues after a restart, in seconds.
    #[serde(default = "resume_s")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub resume_s: f64,
}

/// A config that has been checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// Its text, for recordings.
    pub text: String,
}

static FORM: LazyLock<Form> = LazyLock::new(|| Form::of::<Config>("config", "list networks, not hosts"));

/// The JSON Schema (draft 2020-12) of a config.
pub fn schema() -> serde_json::Value {
    FORM.schema().clone()
}

/// Reads and checks a config. `source_name` is the name of the text in errors: its file name.
///
/// # Errors
/// Those of [`Document::read`], and contradictions, each at its place in the text.
///
/// ```
/// let text = "[[gateway]]\nmesh = \"wlan0\"\n\n[control]\nkind = \"adaptive\"\nmso = 3.6\n";
/// let errors = fairhop_gateway::config::load("gateway.toml", text, &[]).expect_err("a slip");
/// assert_eq!(errors.problems()[0].line_column(), (6, 1));
/// assert_eq!(errors.problems()[0].help(), "write `mos`");
/// ```
pub fn load(source_name: &str, text: &str, overrides: &[Override]) -> Result<Loaded, Errors> {
    let document = Document::read(source_name, text, overrides, &FORM)?;
    let config: Config = document.value()?;
    let findings = config.findings();
    match document.locate(findings.list, findings.uncollected) {
        Some(errors) => Err(errors),
        None => Ok(Loaded { config, text: text.to_owned() }),
    }
}

impl Config {
    /// Whether the control of a gateway paces ACKs out of the mesh, which takes a queue on the wired interface.
    pub fn paces_acks(&self, gateway: &GatewayAt) -> bool {
        let (controller, _) = setting_of(&self.control_of(gateway));
        matches!(controller, ControllerConfig::Fixed(fixed) if fixed.ack_rate.is_some())
    }

    /// The sizes and assumptions of the observers.
    pub fn observer(&self) -> ObserverConfig {
        ObserverConfig {
            flows: self.limits.flows as usize,
            idle: Nanos::from_secs_f64(self.limits.idle_s),
            playout: Nanos::from_millis_f64(self.limits.playout_ms),
            min_delay: Nanos::from_millis_f64(self.limits.min_delay_ms),
        }
    }

    /// The control of a gateway as written, or as it is if none is written.
    pub fn control_of(&self, gateway: &GatewayAt) -> GatewayControl {
        let own = gateway.control.as_ref().or(self.control.as_ref());
        own.cloned().unwrap_or_else(default_control)
    }

    /// The weights of hosts, longest prefixes first.
    pub fn weights(&self) -> Vec<(Network, f64)> {
        let of = |host: &HostWeight| Some((Network::read(&host.network)?, host.weight));
        let mut weights: Vec<_> = self.host.iter().filter_map(of).collect();
        weights.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix()));
        weights
    }

    /// The networks of each region besides those around the gateways, and how many other flows are in it.
    pub fn regions(&self) -> Vec<(Vec<Network>, f64)> {
        let of = |region: &RegionLoad| {
            (region.networks.iter().filter_map(|network| Network::read(network)).collect(), region.flows)
        };
        self.region.iter().map(of).collect()
    }

    /// The networks of telephones.
    pub fn voice_networks(&self) -> Vec<Network> {
        self.voice.networks.iter().filter_map(|network| Network::read(network)).collect()
    }
}

/// The settings of a controller at a gateway, and the capacity of its pacer in packets. Kinds that a gateway cannot carry out
/// ([`load`] refuses them) observe only.
pub fn setting_of(control: &GatewayControl) -> (ControllerConfig, usize) {
    match control.setting() {
        ControlSetting::Gateway { config, pacer, shaper: None } => (config, pacer.packets),
        _ => (ControllerConfig::None, 1),
    }
}

/// Adaptive control with its default values.
const fn probe_interval_ms() -> u16 {
    40
}

fn default_control() -> GatewayControl {
    serde_json::from_value(serde_json::json!({ "kind": "adaptive" })).unwrap_or(GatewayControl::None {})
}

impl Default for Voice {
    fn default() -> Self {
        Self { networks: Vec::new(), kbps_per_host: kbps_per_host(), kbps_per_call: kbps_per_call() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: flows(), idle_s: idle_s(), playout_ms: playout_ms(), min_delay_ms: min_delay_ms() }
    }
}

impl Default for Api {
    fn default() -> Self {
        Self { listen: listen(), token_file: token_file() }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self { folder: folder(), max_kb: max_kb(), resume_s: resume_s() }
    }
}

/// Fifteen calls with G.711: a host may be an exchange, or a house behind one address.
fn kbps_per_host() -> f64 {
    2500.0
}

/// G.711 at 20 ms has 160 kb/s both ways; room for wideband codecs.
fn kbps_per_call() -> f64 {
    300.0
}

fn flows() -> u32 {
    ObserverConfig::default().flows as u32
}

fn idle_s() -> f64 {
    ObserverConfig::default().idle.as_secs_f64()
}

fn playout_ms() -> f64 {
    ObserverConfig::default().playout.as_millis_f64()
}

fn min_delay_ms() -> f64 {
    ObserverConfig::default().min_delay.as_millis_f64()
}

fn listen() -> String {
    "127.0.0.1:9470".to_owned()
}

fn token_file() -> PathBuf {
    PathBuf::from("/run/fairhop-gateway/token")
}

fn folder() -> PathBuf {
    PathBuf::from("/var/lib/fairhop-gateway")
}

fn max_kb() -> u32 {
    1024
}

/// An hour: long enough for an update of the system, shorter than most changes of a mesh.
fn resume_s() -> f64 {
    3600.0
}

#[cfg(test)]
mod tests;
