//! What the controller asks the gateway to do, and why: plain data, which a simulator obeys and a daemon writes into kernel
//! maps.
//!
//! A policy expires. If the controller is gone, the policy is void at [`Policy::expires`], and traffic flows without limits.

use std::fmt;

use fairhop_model::units::{BitRate, Nanos};

use crate::flow::FlowKey;
use crate::gate::Gate;

/// Limits for the traffic, and their reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// When it was made.
    pub at: Nanos,
    /// When it becomes void.
    pub expires: Nanos,
    /// Pace of all elastic packets into the mesh together, in IP bytes; none for no limit.
    pub down: Option<BitRate>,
    /// Rate up to which interactive packets ([`crate::observer::FlowKind::Interactive`]) go ahead of elastic ones; none if
    /// they do not. [`Policy::down`] holds for both together.
    pub interactive: Option<BitRate>,
    /// Times at which elastic packets may enter the mesh; none for any time.
    pub gate: Option<Gate>,
    /// Pace of the bytes that ACKs out of the mesh acknowledge (downloads), together; none for no limit.
    pub down_acks: Option<BitRate>,
    /// Pace of the bytes that ACKs into the mesh acknowledge (uploads), together; none for no limit.
    pub up_acks: Option<BitRate>,
    /// Treatment of single flows, in the order of their keys.
    pub flows: Vec<FlowPolicy>,
    /// Treatment of all other elastic flows, such as new ones.
    pub others: Treatment,
    /// What enforces the budget.
    pub means: Means,
    /// The controller's state.
    pub state: State,
    /// Why it was made.
    pub reason: Reason,
}

/// How a flow is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// Clamp on the windows of both ends, in bytes; none for no clamp. It leaves room for a full
    /// segment at least ([`crate::window`]).
    pub window: Option<u32>,
    /// Pace of its data into the mesh.
    pub rate: Option<BitRate>,
    /// Pace of the bytes that ACKs for it acknowledge.
    pub ack_rate: Option<BitRate>,
}

/// How one flow is treated. At a rate of its own, its packets leave in pairs ([`crate::pacer::departure::FlowSpacing`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPolicy {
    /// The flow.
    pub key: FlowKey,
    /// Its treatment.
    pub treatment: Treatment,
}

/// What enforces the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// Windows: few flows, short round trips. The pacer only stops excesses.
    Window,
    /// Pacing: with many flows, windows cannot be small enough.
    Pacing,
    /// Windows keep queues short; the pacer spreads the bursts of long round trips.
    #[default]
    Both,
}

/// States of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No elastic flow, or switched off.
    #[default]
    Off,
    /// Raises the budget in large steps; the capacity is not known yet.
    Learning,
    /// Near the best budget; probes for more from time to time.
    Steady,
    /// Has cut the budget and waits for the effect.
    Protecting,
    /// Calls are bad independently of TCP, which is not limited for them.
    Starved,
}

/// Why a decision was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reason {
    /// No elastic flow.
    #[default]
    NoElasticTraffic,
    /// As configured.
    Configured,
    /// No degradation at this budget.
    RoomToGrow,
    /// A call's loss or delay.
    CallDegraded {
        /// Fraction of packets lost or late.
        loss_or_late: f64,
        /// Mean delay over the fastest packet, of the worst node.
        delay: Nanos,
    },
    /// Round trips through the mesh have grown.
    QueueGrows {
        /// Excess over the base.
        excess: Nanos,
    },
    /// Packets wait in the gateway's own queue into the mesh.
    OwnQueue {
        /// Mean wait.
        wait: Nanos,
    },
    /// Packets of calls wait before the gateway, on the wired side.
    WiredQueue {
        /// Mean delay over the fastest packet.
        delay: Nanos,
    },
    /// Packets of uploads and calls wait beyond the gateway, on their way to the Internet.
    UplinkQueue {
        /// Excess of the uploads' round trips there over their base.
        excess: Nanos,
    },
    /// A call began.
    CallStarted,
    /// A call ended.
    CallEnded,
    /// Many flows began at once.
    FlowsStarted,
    /// The path of a flow has more hops than before.
    PathLonger,
    /// Probes past the budget at which degradation was last seen.
    Probe,
    /// Just below the budget at which degradation was last seen.
    Hold,
    /// The flows do not use the budget.
    NotUsed,
    /// Nothing arrived from a node in a call: its route was broken.
    RouteInterrupted,
    /// Less TCP did not help the calls.
    TcpIsNotTheCause,
    /// Checks whether calls are still bad independently of TCP.
    TryAgain,
}

impl Means {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Pacing => "pacing",
            Self::Both => "both",
        }
    }
}

impl State {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Learning => "learning",
            Self::Steady => "steady",
            Self::Protecting => "protecting",
            Self::Starved => "starved",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoElasticTraffic => f.write_str("no elastic traffic"),
            Self::Configured => f.write_str("as configured"),
            Self::RoomToGrow => f.write_str("no degradation at this budget"),
            Self::CallDegraded { loss_or_late, delay } => {
                let percent = 100.0 * loss_or_late;
                write!(
                    f,
                    "a call has {percent:.1} % of its packets lost or late and {:.0} ms of delay",
                    delay.as_millis_f64()
                )
            }
            Self::QueueGrows { excess } => {
                write!(f, "round trips through the mesh are {:.0} ms over their base", excess.as_millis_f64())
            }
            Self::OwnQueue { wait } => {
                write!(f, "packets wait {:.0} ms in the gateway's own queue", wait.as_millis_f64())
            }
            Self::WiredQueue { delay } => {
                write!(f, "packets of calls are delayed {:.0} ms before the gateway", delay.as_millis_f64())
            }
            Self::UplinkQueue { excess } => {
                write!(f, "round trips to the Internet are {:.0} ms over their base", excess.as_millis_f64())
            }
            Self::CallStarted => f.write_str("a call began"),
            Self::CallEnded => f.write_str("a call ended"),
            Self::FlowsStarted => f.write_str("many flows began at once"),
            Self::PathLonger => f.write_str("a path has become longer"),
            Self::Probe => f.write_str("probes for more"),
            Self::Hold => f.write_str("holds near the best budget"),
            Self::NotUsed => f.write_str("the budget is not used"),
            Self::RouteInterrupted => f.write_str("calls were interrupted by the route, not by TCP"),
            Self::TcpIsNotTheCause => f.write_str("calls are bad independently of TCP"),
            Self::TryAgain => f.write_str("checks whether calls are still bad independently of TCP"),
        }
    }
}

impl Policy {
    /// No limits.
    pub const fn none() -> Self {
        Self {
            at: Nanos::ZERO,
            expires: Nanos::MAX,
            down: None,
            interactive: None,
            gate: None,
            down_acks: None,
            up_acks: None,
            flows: Vec::new(),
            others: Treatment { window: None, rate: None, ack_rate: None },
            means: Means::Both,
            state: State::Off,
            reason: Reason::NoElasticTraffic,
        }
    }

    /// Whether data into the mesh is paced, in total or by flow.
    pub fn paces_data(&self) -> bool {
        self.down.is_some()
            || self.others.rate.is_some()
            || self.flows.iter().any(|flow| flow.treatment.rate.is_some())
    }

    /// How a flow is treated at `now`.
    pub fn treatment(&self, now: Nanos, key: &FlowKey) -> Treatment {
        if now >= self.expires {
            return Treatment::default();
        }
        match self.flows.binary_search_by(|flow| flow.key.cmp(key)) {
            Ok(place) => self.flows[place].treatment,
            Err(_) => self.others,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::none()
    }
}
