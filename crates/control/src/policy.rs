//! What the gateway is asked to do, and why: plain data, which a simulator obeys and a daemon writes into kernel maps.
//!
//! A policy expires. If its maker is gone, everything in it is void at [`Policy::expires`], and traffic flows as if nobody
//! had asked for anything.

use std::fmt;

use fairhop_model::units::{BitRate, Nanos};

use crate::flow::FlowKey;
use crate::gate::Gate;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// When it was made.
    pub at: Nanos,
    /// When it is void.
    pub expires: Nanos,
    /// Pace of all elastic packets into the mesh together (IP bytes); none for no limit.
    pub down: Option<BitRate>,
    /// The moments at which elastic packets enter the mesh; none if any moment will do.
    pub gate: Option<Gate>,
    /// Pace of what ACKs out of the mesh acknowledge of downloads, together; none for no limit.
    pub down_acks: Option<BitRate>,
    /// Pace of what ACKs into the mesh acknowledge of uploads, together; none for no limit.
    pub up_acks: Option<BitRate>,
    /// What holds for single flows, in the order of their keys.
    pub flows: Vec<FlowPolicy>,
    /// What holds for elastic flows that are not among these, such as new ones.
    pub others: Treatment,
    /// What is relied upon.
    pub means: Means,
    /// The controller's state.
    pub state: State,
    /// Why it is as it is.
    pub reason: Reason,
}

/// How a flow is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// Clamp on what either end advertises, in bytes; none for no clamp. Enforced with the floor of
    /// [`crate::window::Clamp::floor`].
    pub window: Option<u32>,
    /// Pace of its own data into the mesh.
    pub rate: Option<BitRate>,
    /// Pace of what ACKs for it acknowledge.
    pub ack_rate: Option<BitRate>,
}

/// How one flow is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPolicy {
    /// The flow.
    pub key: FlowKey,
    /// How.
    pub treatment: Treatment,
}

/// What holds the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// Windows: few flows, short round trips. The pacer only guards against what windows let through.
    Window,
    /// Pacing: windows of so many flows cannot be small enough.
    Pacing,
    /// Windows keep queues short, the pacer breaks up the bursts of long round trips.
    #[default]
    Both,
}

/// States of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is asked for: there is nobody to protect or to hold back, or it is switched off.
    #[default]
    Off,
    /// Raises the budget in large steps, as nothing is known of the capacity yet.
    Learning,
    /// Near the best point; tries a little more now and then.
    Steady,
    /// Has just cut the budget, and waits for the effect.
    Protecting,
    /// Calls are bad whatever TCP does: it is not held back for nothing.
    Starved,
}

/// Why a decision was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reason {
    /// No flow to control.
    #[default]
    NoElasticTraffic,
    /// As configured.
    Configured,
    /// Nobody has complained at this budget yet.
    RoomToGrow,
    /// A call's loss or delay.
    CallSuffers {
        /// Fraction of packets lost or late over the short window.
        unheard: f64,
        /// Delay over the least, the greatest among the calls.
        delay: Nanos,
    },
    /// Round trips through the mesh have grown by this much.
    QueueGrows {
        /// Over the base.
        excess: Nanos,
    },
    /// A call came.
    CallStarted,
    /// A call went.
    CallEnded,
    /// Many flows came at once.
    FlowsCame,
    /// The path of a flow has more hops than it had.
    PathLonger,
    /// Past the point that was bad the last time: a careful try.
    Probe,
    /// Under the point that was bad the last time.
    Hold,
    /// The budget is not used up by those who share it.
    NotUsed,
    /// Less TCP made no call better.
    TcpIsNotTheCause,
    /// Time to see whether calls are still bad whatever TCP does.
    TryAgain,
}

impl Means {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Pacing => "pacing",
            Self::Both => "both",
        }
    }
}

impl State {
    /// The word for it.
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
            Self::RoomToGrow => f.write_str("nobody suffers at this budget"),
            Self::CallSuffers { unheard, delay } => {
                let percent = 100.0 * unheard;
                write!(f, "a call misses {percent:.1} % and is delayed by {:.0} ms", delay.as_millis_f64())
            }
            Self::QueueGrows { excess } => {
                write!(f, "round trips through the mesh are {:.0} ms over their base", excess.as_millis_f64())
            }
            Self::CallStarted => f.write_str("a call began"),
            Self::CallEnded => f.write_str("a call ended"),
            Self::FlowsCame => f.write_str("many flows came"),
            Self::PathLonger => f.write_str("a path has grown longer"),
            Self::Probe => f.write_str("tries whether there is more"),
            Self::Hold => f.write_str("near the best point"),
            Self::NotUsed => f.write_str("the budget is not used"),
            Self::TcpIsNotTheCause => f.write_str("calls are bad whatever TCP does"),
            Self::TryAgain => f.write_str("looks whether calls are still bad whatever TCP does"),
        }
    }
}

impl Policy {
    /// Nothing asked for.
    pub const fn none() -> Self {
        Self {
            at: Nanos::ZERO,
            expires: Nanos::MAX,
            down: None,
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

    /// Whether data into the mesh is paced, all together or by flow.
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
