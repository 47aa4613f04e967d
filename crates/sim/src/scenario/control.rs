//! Control as a scenario writes it: one kind from the start on, and others later in the run.

use fairhop_control::pacer::PacerConfig;
use fairhop_control::{AdaptiveConfig, ControllerConfig, FixedConfig};
use fairhop_model::units::{BitRate, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::{HostOf, Queue};

/// Segments in which `window_packets` counts: Ethernet's. Windows are rounded up to whole KiB, the largest unit of the
/// field that is usual, so that so many segments fit and not one more.
const WINDOW_SEGMENT: u32 = 1460;
const WINDOW_GRAIN: u32 = 1024;

/// `Control` and `ControlChange` have the same kinds with the same keys, and a few of their own.
macro_rules! kinds_of_control {
    ($( $(#[$about:meta])* $name:ident { $($own:tt)* } )+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
        pub enum $name {
            /// Nothing is done; the gateway watches.
            None {
                $($own)*
            },
            /// The window that TCP receivers advertise is made smaller on its way through the gateway.
            Window {
                /// Largest window in bytes. This or `window_packets`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000_000))]
                window_bytes: Option<u32>,
                /// Largest window in segments of 1460 bytes.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                window_packets: Option<u32>,
                /// The window is that of each flow; false: of all together, who have equal parts.
                #[serde(default = "yes")]
                each: bool,
                $($own)*
            },
            /// TCP data and other bulk leave the gateway for the mesh no faster than a rate.
            DataPacing {
                /// The rate in kb/s, counted on IP packets.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// The rate is that of each flow; false: of all together.
                #[serde(default)]
                each: bool,
                /// So many packets may wait; a full queue drops the newest packet of the flow that has most.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// A packet that waited longer is marked on leaving, in ms, if its transport understands ECN. Left out: none
                /// is.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                $($own)*
            },
            /// ACKs of TCP pass the gateway no faster than the bytes that they acknowledge come at a rate, all flows
            /// together.
            AckPacing {
                /// The rate in kb/s of acknowledged data.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// So many ACKs may wait; a full queue drops the oldest.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                $($own)*
            },
            /// Window and data pacing together.
            Combined {
                /// Largest window in bytes. This or `window_packets`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000_000))]
                window_bytes: Option<u32>,
                /// Largest window in segments of 1460 bytes.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                window_packets: Option<u32>,
                /// The rate in kb/s, counted on IP packets.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// Window and rate are those of each flow; false: of all together.
                #[serde(default)]
                each: bool,
                /// So many packets may wait; a full queue drops the newest packet of the flow that has most.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// A packet that waited longer is marked on leaving, in ms, if its transport understands ECN. Left out: none
                /// is.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                $($own)*
            },
            /// What people use today: everything that enters the mesh at the gateway passes one shaper with a queue discipline, and
            /// everything that leaves the mesh another one. Bytes count as `tc` counts them: the IP packet and 14.
            Shaper {
                /// Rate into the mesh in kb/s.
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                rate_kbps: f64,
                /// Rate out of the mesh in kb/s. Left out: what leaves the mesh is not shaped.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                up_kbps: Option<f64>,
                /// Who goes first, and who is dropped.
                discipline: ShaperDiscipline,
                /// So many packets may wait, with `priority` in each class. Left out: 1000, or 10240 with `fq-codel` and `cake`, as
                /// in Linux.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: Option<u32>,
                $($own)*
            },
            /// Every node spaces the packets of its own flows by their share of C-load, and sends them before what it
            /// forwards (osipov2007). Shares follow from the routes, and from the flows that the scenario has then.
            Throttle {
                /// What one flow alone carries over 1, 2, 3, … hops (Thr_max), in kb/s of payload, as measured. For longer
                /// paths, or left out: the airtime bound times `calibration`.
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                thr_max_kbps: Vec<f64>,
                /// The part of the airtime bound that a flow alone reaches.
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
            /// Finds, while it runs, how much TCP and other bulk the mesh carries without harm to calls.
            Adaptive {
                /// The mean opinion score that calls should have.
                #[serde(default = "mos")]
                #[schemars(range(min = 1.0, max = 4.4))]
                mos: f64,
                /// Fraction of a call's packets that may be lost or late in the long run.
                #[serde(default = "unheard")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1.0))]
                unheard: f64,
                /// Mean delay of call packets over the fastest that is tolerable, in ms.
                #[serde(default = "delay_ms")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000.0))]
                delay_ms: f64,
                /// Budget to begin with, in kb/s times hops.
                #[serde(default = "first_budget_kbps")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                first_budget_kbps: f64,
                /// No download gets less than this, whatever calls say, in kb/s times hops; an upload has an ACK a second,
                /// or, where calls suffer from that, one in four seconds.
                #[serde(default = "least_kbps")]
                #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 10_000_000.0))]
                least_kbps: f64,
                /// How many hops in a row share the air.
                #[serde(default = "shared_hops")]
                #[schemars(range(min = 1, max = 255))]
                shared_hops: u32,
                /// So many packets may wait in the pacer; a full queue drops the newest packet of the flow that has most.
                #[serde(default = "pacer_packets")]
                #[schemars(range(min = 1, max = 1_000_000))]
                queue_packets: u32,
                /// A packet that waited longer is marked on leaving, in ms, if its transport understands ECN. Left out: none
                /// is.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(range(min = 0.0, max = 100_000.0))]
                mark_after_ms: Option<f64>,
                $($own)*
            },
        }

        impl $name {
            /// Its kind, as written.
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

            /// What it asks for.
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
                    &Self::Adaptive {
                        mos, unheard, delay_ms, first_budget_kbps, least_kbps, shared_hops, queue_packets,
                        mark_after_ms, ..
                    } => {
                        let config = AdaptiveConfig {
                            mos,
                            loss_or_late: unheard,
                            delay: Nanos::from_millis_f64(delay_ms),
                            first_budget: first_budget_kbps * 1e3,
                            min_per_flow: least_kbps * 1e3,
                            shared_links: shared_hops,
                            ..AdaptiveConfig::default()
                        };
                        gateway(ControllerConfig::Adaptive(config), queue_packets, mark_after_ms)
                    }
                }
            }

            /// `window_bytes` and `window_packets` as written, where the kind has them.
            pub(super) const fn windows(&self) -> Option<(Option<u32>, Option<u32>)> {
                match self {
                    Self::Window { window_bytes, window_packets, .. }
                    | Self::Combined { window_bytes, window_packets, .. } => {
                        Some((*window_bytes, *window_packets))
                    }
                    _ => None,
                }
            }

            /// `rate_kbps` as written, where the kind has it.
            pub(super) const fn rate_kbps(&self) -> Option<f64> {
                match self {
                    Self::DataPacing { rate_kbps, .. }
                    | Self::AckPacing { rate_kbps, .. }
                    | Self::Combined { rate_kbps, .. }
                    | Self::Shaper { rate_kbps, .. } => Some(*rate_kbps),
                    _ => None,
                }
            }

            /// `up_kbps` as written, where the kind has it.
            pub(super) const fn up_kbps(&self) -> Option<f64> {
                match self {
                    Self::Shaper { up_kbps, .. } => *up_kbps,
                    _ => None,
                }
            }
        }
    )+};
}

kinds_of_control! {
    /// What is done at the gateway, or at every node, so that calls stay clear and TCP shares are fair.
    Control {
        /// It begins here, in seconds.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        start_s: f64,
        /// It ends here, in seconds, with all changes. Left out: at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        stop_s: Option<f64>,
        /// What takes its place later, in the order of time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        change: Vec<ControlChange>,
    }
    /// Another control from some time on.
    ControlChange {
        /// From here on, in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        at_s: f64,
    }
}

/// A control without its times.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlSetting {
    /// The gateway asks a controller, and obeys.
    Gateway {
        /// Which one.
        config: ControllerConfig,
        /// Its pacers.
        pacer: PacerConfig,
        /// Its shapers.
        shaper: Option<ShaperSetting>,
    },
    /// Every node holds back its own flows.
    Throttle {
        /// Thr_max by hops, as measured.
        thr_max: Vec<BitRate>,
        /// The part of the airtime bound that a flow alone reaches.
        calibration: f64,
    },
    /// Strict priority in the queue of every node.
    Priority,
}

/// The queue of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShaperDiscipline {
    /// First come, first served.
    DropTail,
    /// Strict priority by DSCP class.
    Priority,
    /// FQ-CoDel: fair to flows, those that send little first.
    FqCodel,
    /// As CAKE has it: fair to the hosts in the mesh, then to the flows of a host, those that send little first.
    Cake,
}

/// Shapers as asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShaperSetting {
    /// Rate into the mesh.
    pub down: BitRate,
    /// Rate out of the mesh; none is not shaped.
    pub up: Option<BitRate>,
    /// The discipline.
    pub discipline: ShaperDiscipline,
    /// Packets that may wait, where that is said.
    pub packets: Option<u32>,
}

impl ShaperSetting {
    /// The queue in front of a rate, with hosts told apart by `by`. Target, interval and quantum follow the rate as CAKE has it
    /// (`cake_set_rate`): the target is 5 ms, or one and a half times what a full packet takes, the interval 95 ms more and at
    /// least twice as long, and the quantum what the rate gives in a 4096th of a second, from 300 to 1514 bytes.
    pub fn queue(&self, rate: BitRate, by: HostOf) -> Queue {
        const FULL: u32 = 1514;
        const TARGET_MS: f64 = 5.0;
        const INTERVAL_MS: f64 = 100.0;
        let target_ms = (1.5 * rate.time_for(u64::from(FULL)).as_millis_f64()).max(TARGET_MS);
        let interval_ms = (INTERVAL_MS - TARGET_MS + target_ms).max(2.0 * target_ms);
        let quantum_bytes = ((rate.0 / 8) >> 12).clamp(300, u64::from(FULL)) as u32;
        let (few, many) = (Some(self.packets.unwrap_or(1000)), Some(self.packets.unwrap_or(10_240)));
        let (bytes, flows, ecn) = (None, 1024, true);
        match self.discipline {
            ShaperDiscipline::DropTail => Queue::DropTail { packets: few, bytes },
            ShaperDiscipline::Priority => Queue::Priority { packets: few, bytes },
            ShaperDiscipline::FqCodel => {
                Queue::FqCodel { packets: many, bytes, target_ms, interval_ms, quantum_bytes, flows, ecn }
            }
            ShaperDiscipline::Cake => {
                Queue::Cake { packets: many, bytes, target_ms, interval_ms, quantum_bytes, flows, ecn, by }
            }
        }
    }
}

impl Control {
    /// When it begins, when it ends if it does, and what follows it.
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

    /// What holds from which second on, with its kind; nothing is done before the first. Ascending, as far as the
    /// scenario is right.
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
    /// From when on.
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

fn mos() -> f64 {
    AdaptiveConfig::default().mos
}

fn unheard() -> f64 {
    AdaptiveConfig::default().loss_or_late
}

fn delay_ms() -> f64 {
    AdaptiveConfig::default().delay.as_millis_f64()
}

fn first_budget_kbps() -> f64 {
    AdaptiveConfig::default().first_budget / 1e3
}

fn least_kbps() -> f64 {
    AdaptiveConfig::default().min_per_flow / 1e3
}

fn shared_hops() -> u32 {
    AdaptiveConfig::default().shared_links
}
