//! Control in the words of scenarios and gateways: kinds with their parameters.

use std::collections::BTreeMap;

use fairhop_control::controller::Tuning;
use fairhop_control::pacer::PacerConfig;
use fairhop_control::{AdaptiveConfig, ControllerConfig, FixedConfig};
use fairhop_model::units::{BitRate, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::Findings;
use crate::number::Number;

/// Segment size that `window_packets` counts in: the MSS over Ethernet.
const WINDOW_SEGMENT: u32 = 1460;
/// Windows in packets are rounded up to a multiple of the largest usual window scale (2^10 bytes), so that the advertised
/// window holds the given number of segments.
const WINDOW_GRAIN: u32 = 1024;

/// `Control` and `ControlChange` have the same kinds with the same keys, plus a few of their own.
macro_rules! kinds_of_control {
    ($( $(#[$about:meta])* $name:ident { $($own:tt)* } )+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
        pub enum $name {
            /// No control; the gateway only observes.
            None {
                $($own)*
            },
            /// The gateway reduces the window that TCP receivers advertise.
            Window {
                /// Maximum window in bytes. Exactly one of this and `window_packets` must be set.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000_000))]
                window_bytes: Option<u32>,
                /// Maximum window in segments of 1460 bytes.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                window_packets: Option<u32>,
                /// true: the window applies to each flow. false: all flows share it equally.
                #[serde(default = "yes")]
                each: bool,
                $($own)*
            },
            /// The gateway paces TCP data and other bulk traffic into the mesh at a maximum rate.
            DataPacing {
                /// The rate in kb/s of IP packets.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// true: the rate applies to each flow. false: to all flows together.
                #[serde(default)]
                each: bool,
                /// Capacity of the pacer's queue in packets. A full queue drops the newest packet of the flow with the most packets.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// Packets of ECN-capable transports that waited longer than this, in ms, are marked. Left out: no packets are
                /// marked.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                $($own)*
            },
            /// The gateway paces TCP ACKs of all flows together, so that the data they acknowledge does not exceed a rate.
            AckPacing {
                /// The rate in kb/s of acknowledged data.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// Capacity of the queue in ACKs. A full queue drops the oldest ACK.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                $($own)*
            },
            /// Window and data pacing combined.
            Combined {
                /// Maximum window in bytes. Exactly one of this and `window_packets` must be set.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000_000))]
                window_bytes: Option<u32>,
                /// Maximum window in segments of 1460 bytes.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                window_packets: Option<u32>,
                /// The rate in kb/s of IP packets.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// true: window and rate apply to each flow. false: to all flows together.
                #[serde(default)]
                each: bool,
                /// Capacity of the pacer's queue in packets. A full queue drops the newest packet of the flow with the most packets.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// Packets of ECN-capable transports that waited longer than this, in ms, are marked. Left out: no packets are
                /// marked.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                $($own)*
            },
            /// Conventional shaping: all traffic into the mesh passes one shaper with a queue discipline at the gateway, and all
            /// traffic out of the mesh passes another. Sizes count as in `tc`: the IP packet plus 14 bytes.
            Shaper {
                /// Rate into the mesh in kb/s.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// Rate out of the mesh in kb/s. Left out: traffic out of the mesh is not shaped.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                up_kbps: Option<f64>,
                /// Queue discipline.
                discipline: ShaperDiscipline,
                /// Capacity in packets; with `priority`, of each class. Left out: 1000, or 10240 with `fq-codel` and `cake`, as in
                /// Linux.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: Option<u32>,
                $($own)*
            },
            /// Every node paces its own flows by their share of C-load, and sends them before forwarded packets (osipov2007).
            /// Shares are computed from the routes and the flows at the time.
            Throttle {
                /// Measured throughput of a single flow over 1, 2, 3, … hops (Thr_max), in kb/s of payload. For longer paths,
                /// or left out: the airtime bound times `calibration`.
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                thr_max_kbps: Vec<f64>,
                /// Fraction of the airtime bound that a single flow reaches.
                #[serde(default = "one")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
                calibration: f64,
                $($own)*
            },
            /// Strict priority by DSCP class in the queue of every node, for the whole run. Short for `[mac] queue =
            /// { discipline = "priority", … }`.
            Priority {
                $($own)*
            },
            /// Adapts the rate of TCP and other bulk traffic during the run to the maximum that does not degrade calls.
            Adaptive {
                /// Target mean opinion score (MOS) of calls.
                #[serde(default = "mos")]
                #[schemars(range(min = 1.0, max = 4.4))]
                mos: f64,
                /// Maximum long-term fraction of a call's packets that are lost or late. Left out: what the codecs of the
                /// calls tolerate.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
                loss_or_late: Option<f64>,
                /// Maximum mean delay of call packets above that of the fastest packet, in ms.
                #[serde(default = "delay_ms")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
                delay_ms: f64,
                /// Initial budget in kb/s times hops.
                #[serde(default = "first_budget_kbps")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                first_budget_kbps: f64,
                /// Minimum budget of a download in kb/s times hops, regardless of call quality. An upload keeps one ACK per
                /// second, or one in four seconds if calls suffer.
                #[serde(default = "min_kbps")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                min_kbps: f64,
                /// Number of successive hops that share the medium.
                #[serde(default = "shared_hops")]
                #[schemars(range(min = 1, max = 255))]
                shared_hops: u32,
                /// The links of the mesh carry both directions independently of each other, as wired links and radios with two
                /// channels do. Each direction then has a budget of its own.
                #[serde(default, skip_serializing_if = "std::ops::Not::not")]
                duplex: bool,
                /// Capacity of the pacer's queue in packets. A full queue drops the newest packet of the flow with the most packets.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// Packets of ECN-capable transports that waited longer than this, in ms, are marked. Left out: no packets are
                /// marked.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                /// Constants of the controller by name, for studies: `{ cut = 0.5 }`. Left out: their tuned values, which
                /// docs/control.md lists.
                #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
                #[schemars(schema_with = "tuning_schema")]
                tuning: BTreeMap<String, f64>,
                $($own)*
            },
        }

        impl $name {
            /// The kind as written in `kind = "…"`.
            pub const fn kind(&self) -> &'static str {
                match self {
                    Self::None { .. } => "none",
                    Self::Window { .. } => "window",
                    Self::DataPacing { .. } => "data-pacing",
                    Self::AckPacing { .. } => "ack-pacing",
                    Self::Combined { .. } => "combined",
                    Self::Shaper { .. } => "shaper",
                    Self::Throttle { .. } => "throttle",
                    Self::Priority { .. } => "priority",
                    Self::Adaptive { .. } => "adaptive",
                }
            }

            /// The setting without its times.
            pub fn setting(&self) -> ControlSetting {
                let gateway = |config, packets: u32, mark_after_ms: Option<f64>| ControlSetting::Gateway {
                    config,
                    pacer: PacerConfig {
                        packets: packets as usize,
                        mark_after: mark_after_ms.map(Nanos::from_millis_f64),
                        ..PacerConfig::default()
                    },
                    shaper: None,
                };
                match self {
                    Self::None { .. } => gateway(ControllerConfig::None, 1, None),
                    &Self::Window { window_bytes, window_packets, each, .. } => {
                        let fixed = with_window(window_bytes, window_packets, each);
                        gateway(ControllerConfig::Fixed(fixed), 1, None)
                    }
                    &Self::DataPacing { rate_kbps, each, queue_packets, mark_after_ms, .. } => {
                        let fixed = with_rate(FixedConfig::default(), rate_kbps, each);
                        gateway(ControllerConfig::Fixed(fixed), queue_packets, mark_after_ms)
                    }
                    &Self::AckPacing { rate_kbps, queue_packets, .. } => {
                        let ack_rate = Some(BitRate::from_mbps(rate_kbps / 1e3));
                        let fixed = FixedConfig { ack_rate, ..FixedConfig::default() };
                        gateway(ControllerConfig::Fixed(fixed), queue_packets, None)
                    }
                    &Self::Combined {
                        window_bytes, window_packets, rate_kbps, each, queue_packets, mark_after_ms, ..
                    } => {
                        let fixed = with_rate(with_window(window_bytes, window_packets, each), rate_kbps, each);
                        gateway(ControllerConfig::Fixed(fixed), queue_packets, mark_after_ms)
                    }
                    &Self::Shaper { rate_kbps, up_kbps, discipline, queue_packets, .. } => ControlSetting::Gateway {
                        config: ControllerConfig::None,
                        pacer: PacerConfig { packets: 1, ..PacerConfig::default() },
                        shaper: Some(ShaperSetting {
                            down: BitRate::from_mbps(rate_kbps / 1e3),
                            up: up_kbps.map(|kbps| BitRate::from_mbps(kbps / 1e3)),
                            discipline,
                            packets: queue_packets,
                        }),
                    },
                    Self::Throttle { thr_max_kbps, calibration, .. } => ControlSetting::Throttle {
                        thr_max: thr_max_kbps.iter().map(|kbps| BitRate::from_mbps(kbps / 1e3)).collect(),
                        calibration: *calibration,
                    },
                    Self::Priority { .. } => ControlSetting::Priority,
                    Self::Adaptive {
                        mos, loss_or_late, delay_ms, first_budget_kbps, min_kbps, shared_hops, duplex,
                        queue_packets, mark_after_ms, tuning, ..
                    } => {
                        let mut constants = Tuning::default();
                        for (name, &value) in tuning {
                            constants.set(name, value);
                        }
                        let config = AdaptiveConfig {
                            mos: *mos,
                            loss_or_late: *loss_or_late,
                            tuning: constants,
                            delay: Nanos::from_millis_f64(*delay_ms),
                            first_budget: first_budget_kbps * 1e3,
                            min_per_flow: min_kbps * 1e3,
                            shared_links: *shared_hops,
                            duplex: *duplex,
                            ..AdaptiveConfig::default()
                        };
                        gateway(ControllerConfig::Adaptive(config), *queue_packets, *mark_after_ms)
                    }
                }
            }

            /// Adds to `findings` what the ranges of the keys cannot express; `path` is the place of this control, and no TCP
            /// flow has larger segments than `segment` bytes.
            pub fn check(&self, path: &str, segment: u32, findings: &mut Findings) {
                if let Self::Window { window_bytes, window_packets, .. }
                | Self::Combined { window_bytes, window_packets, .. } = self
                {
                    check_windows(path, (*window_bytes, *window_packets), segment, findings);
                }
                if let Self::Adaptive { min_kbps, first_budget_kbps, .. } = self {
                    check_budget(path, *min_kbps, *first_budget_kbps, findings);
                }
                if let Self::DataPacing { rate_kbps, .. }
                | Self::AckPacing { rate_kbps, .. }
                | Self::Combined { rate_kbps, .. }
                | Self::Shaper { rate_kbps, .. } = self
                {
                    check_pace(&format!("{path}.rate_kbps"), *rate_kbps, findings);
                }
                if let Self::Shaper { up_kbps: Some(up_kbps), .. } = self {
                    check_pace(&format!("{path}.up_kbps"), *up_kbps, findings);
                }
            }
        }
    )+};
}

kinds_of_control! {
    /// Control at the gateway or at every node, which keeps call quality high and TCP shares fair.
    Control {
        /// Start in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// End in seconds, changes included. Left out: the end of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
        /// Changes of the control during the run, in the order of time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        change: Vec<ControlChange>,
    }
    /// A change to another control during the run.
    ControlChange {
        /// Time of the change in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
    }
    /// Control at a gateway in front of a real network, from the start of the gateway to its end.
    GatewayControl {
    }
}

/// A control without its times.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "plain data, made once a run")]
pub enum ControlSetting {
    /// A controller at the gateway.
    Gateway {
        /// Configuration of the controller.
        config: ControllerConfig,
        /// Configuration of the pacers.
        pacer: PacerConfig,
        /// Shapers, with kind `shaper`.
        shaper: Option<ShaperSetting>,
    },
    /// Every node paces its own flows.
    Throttle {
        /// Thr_max by number of hops, as measured.
        thr_max: Vec<BitRate>,
        /// Fraction of the airtime bound that a single flow reaches.
        calibration: f64,
    },
    /// Strict priority in the queue of every node.
    Priority,
}

/// The queue of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShaperDiscipline {
    /// First in, first out.
    DropTail,
    /// Strict priority by DSCP class.
    Priority,
    /// FQ-CoDel: fair among flows; flows that send little are served first.
    FqCodel,
    /// As in CAKE: fair among the hosts in the mesh, then among the flows of a host; flows that send little are served first.
    Cake,
}

/// Parameters of the shapers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShaperSetting {
    /// Rate into the mesh.
    pub down: BitRate,
    /// Rate out of the mesh; `None`: not shaped.
    pub up: Option<BitRate>,
    /// The discipline.
    pub discipline: ShaperDiscipline,
    /// Capacity in packets, if given.
    pub packets: Option<u32>,
}

impl Control {
    /// Start and end in seconds, and the changes in between.
    pub fn times(&self) -> (f64, Option<f64>, &[ControlChange]) {
        match self {
            Self::None { start_s, stop_s, change }
            | Self::Window { start_s, stop_s, change, .. }
            | Self::DataPacing { start_s, stop_s, change, .. }
            | Self::AckPacing { start_s, stop_s, change, .. }
            | Self::Combined { start_s, stop_s, change, .. }
            | Self::Shaper { start_s, stop_s, change, .. }
            | Self::Throttle { start_s, stop_s, change, .. }
            | Self::Priority { start_s, stop_s, change }
            | Self::Adaptive { start_s, stop_s, change, .. } => (*start_s, *stop_s, change),
        }
    }

    /// The settings with their start in seconds and their kinds, in ascending order in a checked scenario. There is no
    /// control before the first.
    pub fn stages(&self) -> Vec<(f64, &'static str, ControlSetting)> {
        let (start_s, stop_s, change) = self.times();
        let mut stages = vec![(start_s, self.kind(), self.setting())];
        stages.extend(change.iter().map(|change| (change.at_s(), change.kind(), change.setting())));
        stages.extend(stop_s.map(|stop_s| (stop_s, Self::OFF.kind(), Self::OFF.setting())));
        stages
    }

    const OFF: Self = Self::None { start_s: 0.0, stop_s: None, change: Vec::new() };
}

impl ControlChange {
    /// Time of the change in seconds.
    pub const fn at_s(&self) -> f64 {
        match self {
            Self::None { at_s }
            | Self::Window { at_s, .. }
            | Self::DataPacing { at_s, .. }
            | Self::AckPacing { at_s, .. }
            | Self::Combined { at_s, .. }
            | Self::Shaper { at_s, .. }
            | Self::Throttle { at_s, .. }
            | Self::Priority { at_s }
            | Self::Adaptive { at_s, .. } => *at_s,
        }
    }
}

fn with_window(bytes: Option<u32>, packets: Option<u32>, each: bool) -> FixedConfig {
    let packets = packets.map(|packets| {
        packets.saturating_mul(WINDOW_SEGMENT).div_ceil(WINDOW_GRAIN).saturating_mul(WINDOW_GRAIN)
    });
    let window = bytes.or(packets);
    if each {
        FixedConfig { window, ..FixedConfig::default() }
    } else {
        FixedConfig { window_of_all: window, ..FixedConfig::default() }
    }
}

fn with_rate(fixed: FixedConfig, rate_kbps: f64, each: bool) -> FixedConfig {
    let rate = Some(BitRate::from_mbps(rate_kbps / 1e3));
    if each { FixedConfig { flow_rate: rate, ..fixed } } else { FixedConfig { data_rate: rate, ..fixed } }
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn pacer_packets() -> u32 {
    PacerConfig::default().packets as u32
}

/// The constants of the controller with their meanings and values.
fn tuning_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let constant = |constant: &fairhop_control::controller::Constant| {
        let schema = serde_json::json!({
            "type": "number",
            "minimum": 0.0,
            "default": constant.value,
            "description": format!("{} ({})", constant.meaning.trim(), constant.unit),
            // Without its mechanism; null where there is none. For studies of sensitivity.
            "x-off": constant.off,
        });
        (constant.name.to_owned(), schema)
    };
    let properties: serde_json::Map<_, _> = Tuning::CONSTANTS.iter().map(constant).collect();
    schemars::json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn mos() -> f64 {
    AdaptiveConfig::default().mos
}

fn delay_ms() -> f64 {
    AdaptiveConfig::default().delay.as_millis_f64()
}

fn first_budget_kbps() -> f64 {
    AdaptiveConfig::default().first_budget / 1e3
}

fn min_kbps() -> f64 {
    AdaptiveConfig::default().min_per_flow / 1e3
}

fn shared_hops() -> u32 {
    AdaptiveConfig::default().shared_links
}

fn check_windows(path: &str, windows: (Option<u32>, Option<u32>), segment: u32, findings: &mut Findings) {
    match windows {
        (Some(_), Some(_)) => findings.add(
            format!("{path}.window_packets"),
            "the window has `window_bytes` and `window_packets` together",
            "one too many",
            "keep one of them",
        ),
        (None, None) => findings.add(
            path,
            "the control has no window",
            "`window_packets` is missing",
            "add window_packets = 4, or window_bytes = 6000",
        ),
        (Some(bytes), None) if bytes < segment => findings.add(
            format!("{path}.window_bytes"),
            format!("`window_bytes` is {bytes}, less than one segment of {segment} bytes: TCP would stall"),
            "smaller than a segment",
            format!("make it at least {segment}, or write window_packets = 1"),
        ),
        _ => {}
    }
}

/// The minimum and the initial budget of adaptive control.
fn check_budget(path: &str, min_kbps: f64, first_kbps: f64, findings: &mut Findings) {
    if min_kbps > first_kbps {
        findings.add(
            format!("{path}.min_kbps"),
            format!("`min_kbps` is {}, above `first_budget_kbps` = {}", Number(min_kbps), Number(first_kbps)),
            "above the initial budget",
            format!("make it at most {}, or `first_budget_kbps` larger", Number(first_kbps)),
        );
    }
}

/// Refuses rates below a bit per second: the next packet would come after the end of the clock (2^63 ns).
fn check_pace(path: &str, rate_kbps: f64, findings: &mut Findings) {
    if rate_kbps < 0.001 {
        let key = path.rsplit('.').next().unwrap_or(path);
        findings.add(
            path,
            format!("`{key}` is {}, less than a bit per second", Number(rate_kbps)),
            "too low",
            format!("`{key}` is in kb/s: 500 is a usual value"),
        );
    }
}
