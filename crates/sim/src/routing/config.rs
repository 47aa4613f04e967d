//! Parameters of routing as a scenario writes them. The doc comments are the descriptions in the JSON Schema.

use fairhop_model::units::Nanos;
use fairhop_routing::aodv::{self, Config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How packets find their way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// What finds the paths.
    #[serde(skip_serializing_if = "Protocol::is_oracle")]
    pub protocol: Protocol,
    /// Metric of a path; `hops` if left out. With `protocol = "oracle"` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Explicit paths, as node numbers from first to last. They take precedence over the metric and are used in both
    /// directions. With `protocol = "oracle"` only.
    pub paths: Vec<Vec<u32>>,
    /// Parameters of AODV. With `protocol = "aodv"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aodv: Option<AodvSettings>,
    /// Time to live that hosts and nodes send with: a packet is dropped by the node that would forward it for this many
    /// times. 64 is the default of Linux.
    #[schemars(range(min = 1, max = 255))]
    pub ttl: u8,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            protocol: Protocol::Oracle,
            metric: Some(Metric::Hops),
            paths: Vec::new(),
            aodv: None,
            ttl: 64,
        }
    }
}

impl Routing {
    /// Puts the default metric in where the scenario has none and one has an effect.
    pub(crate) fn fill_metric(&mut self) {
        if self.protocol.is_oracle() {
            self.metric.get_or_insert(Metric::Hops);
        }
    }

    /// The metric of paths.
    pub fn metric(&self) -> Metric {
        self.metric.unwrap_or(Metric::Hops)
    }

    /// The parameters of AODV, if it finds the paths.
    pub fn aodv(&self) -> Option<AodvSettings> {
        (self.protocol == Protocol::Aodv).then(|| self.aodv.clone().unwrap_or_default())
    }
}

/// What finds the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Shortest paths that are known everywhere and follow every change at once: the upper bound of any protocol.
    #[default]
    Oracle,
    /// AODV (RFC 3561): nodes look for a path when they need one, and messages and waiting times are simulated.
    Aodv,
}

impl Protocol {
    fn is_oracle(&self) -> bool {
        *self == Self::Oracle
    }
}

/// When a node sends HELLO messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hello {
    /// Never.
    Off,
    /// While it sends, forwards or receives data, and for `active_route_timeout_s` after that (RFC 3561 section 6.9).
    #[default]
    Active,
    /// Always, as ns-3 and AODV-UU do.
    Always,
}

/// What becomes of a node's own packets that wait for a neighbour to which the link breaks. Packets of others are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnBreak {
    /// They are lost, as in ns-2.
    #[default]
    Drop,
    /// They wait for the next route.
    Rebuffer,
}

/// Parameters of AODV (RFC 3561 section 10). Times that the RFC derives from others follow them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AodvSettings {
    /// ACTIVE_ROUTE_TIMEOUT: lifetime of a route after its last packet. Left out: 10 s with `link_feedback`, otherwise 3 s.
    #[schemars(range(min = 0.1, max = 3600.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_route_timeout_s: Option<f64>,
    /// MY_ROUTE_TIMEOUT: lifetime that a destination puts into its replies. Left out: twice `active_route_timeout_s`.
    #[schemars(range(min = 0.1, max = 3600.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub my_route_timeout_s: Option<f64>,
    /// When nodes send HELLO messages.
    pub hello: Hello,
    /// HELLO_INTERVAL.
    #[schemars(range(min = 0.01, max = 3600.0))]
    pub hello_interval_s: f64,
    /// ALLOWED_HELLO_LOSS: intervals without any frame from a neighbour after which the link is broken.
    #[schemars(range(min = 1, max = 1000))]
    pub allowed_hello_loss: u32,
    /// HELLO messages in a row before a neighbour is used.
    #[schemars(range(min = 1, max = 1000))]
    pub hello_needed: u32,
    /// Whether nodes ignore broadcast messages whose signal is too weak for the data rate (Lundgren et al. 2002), where
    /// broadcasts reach farther than data. Announcements of the path density protocol are taken all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub signal_threshold: bool,
    /// Whether the retry limit of 802.11 breaks a link.
    pub link_feedback: bool,
    /// Packets in a row that 802.11 gives up until a link is broken. With `link_feedback` only.
    #[schemars(range(min = 1, max = 1000))]
    pub breaks_after: u32,
    /// What becomes of a node's own packets that wait for a neighbour to which the link breaks.
    pub on_break: OnBreak,
    /// TTL_START: hops that the first request of a discovery goes. Left out: 2 with HELLO messages, otherwise 1.
    #[schemars(range(min = 1, max = 255))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_start: Option<u8>,
    /// TTL_INCREMENT: hops that each further request goes beyond the last one.
    #[schemars(range(min = 1, max = 255))]
    pub ttl_increment: u8,
    /// TTL_THRESHOLD: beyond this number of hops, requests go through the whole network.
    #[schemars(range(min = 0, max = 255))]
    pub ttl_threshold: u8,
    /// NET_DIAMETER: hops that a request through the whole network goes.
    #[schemars(range(min = 1, max = 255))]
    pub net_diameter: u8,
    /// NODE_TRAVERSAL_TIME: estimate of the time that a message takes over one hop.
    #[schemars(range(min = 1.0, max = 10000.0))]
    pub node_traversal_time_ms: f64,
    /// TIMEOUT_BUFFER: hops added to a ring's waiting time for delays.
    #[schemars(range(min = 0, max = 1000))]
    pub timeout_buffer: u32,
    /// RREQ_RETRIES: further requests through the whole network, each with twice the waiting time.
    #[schemars(range(min = 0, max = 16))]
    pub rreq_retries: u32,
    /// RREQ_RATELIMIT: requests that a node originates in a second at most.
    #[schemars(range(min = 1, max = 100000))]
    pub rreq_ratelimit: u32,
    /// RERR_RATELIMIT: RERR messages that a node sends in a second at most.
    #[schemars(range(min = 1, max = 100000))]
    pub rerr_ratelimit: u32,
    /// Rebroadcasts, HELLO messages and broadcast RERR wait for a uniform random time up to this.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub broadcast_jitter_ms: f64,
    /// Packets that wait for a route at a node; when there are more, the oldest is lost.
    #[schemars(range(min = 1, max = 100000))]
    pub buffer_packets: u32,
    /// Maximum time that a packet waits for a route.
    #[schemars(range(min = 0.001, max = 3600.0))]
    pub buffer_s: f64,
    /// Whether routing messages go before data in the interface queue.
    pub queue_priority: bool,
    /// Whether requests ask the node that answers to inform the destination as well (the G flag).
    pub gratuitous: bool,
    /// Whether only the destination answers a request (the D flag).
    pub destination_only: bool,
    /// Whether HELLO messages carry the path density protocol: nodes compute max-min shares of airtime, and with `control =
    /// { kind = "throttle" }` sources keep to the share that they have learnt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pdp: bool,
}

impl Default for AodvSettings {
    fn default() -> Self {
        Self {
            active_route_timeout_s: None,
            my_route_timeout_s: None,
            hello: Hello::Active,
            hello_interval_s: 1.0,
            allowed_hello_loss: 2,
            hello_needed: 1,
            signal_threshold: false,
            link_feedback: true,
            breaks_after: 1,
            on_break: OnBreak::Drop,
            ttl_start: None,
            ttl_increment: 2,
            ttl_threshold: 7,
            net_diameter: 35,
            node_traversal_time_ms: 40.0,
            timeout_buffer: 2,
            rreq_retries: 2,
            rreq_ratelimit: 10,
            rerr_ratelimit: 10,
            broadcast_jitter_ms: 10.0,
            buffer_packets: 64,
            buffer_s: 30.0,
            queue_priority: true,
            gratuitous: true,
            destination_only: false,
            pdp: false,
        }
    }
}

impl AodvSettings {
    /// The parameters of the machines.
    pub fn config(&self) -> Config {
        let active = self.active_route_timeout_s.unwrap_or(if self.link_feedback { 10.0 } else { 3.0 });
        Config {
            active_route_timeout: Nanos::from_secs_f64(active),
            my_route_timeout: Nanos::from_secs_f64(self.my_route_timeout_s.unwrap_or(2.0 * active)),
            hello_interval: Nanos::from_secs_f64(self.hello_interval_s),
            allowed_hello_loss: self.allowed_hello_loss,
            hello_needed: self.hello_needed,
            ttl_start: self.ttl_start.unwrap_or(if self.hello == Hello::Off { 1 } else { 2 }),
            ttl_increment: self.ttl_increment,
            ttl_threshold: self.ttl_threshold,
            net_diameter: self.net_diameter,
            node_traversal_time: Nanos::from_millis_f64(self.node_traversal_time_ms),
            timeout_buffer: self.timeout_buffer,
            rreq_retries: self.rreq_retries,
            rreq_ratelimit: self.rreq_ratelimit,
            rerr_ratelimit: self.rerr_ratelimit,
            broadcast_jitter: Nanos::from_millis_f64(self.broadcast_jitter_ms),
            buffer_packets: self.buffer_packets as usize,
            buffer_time: Nanos::from_secs_f64(self.buffer_s),
            hello: match self.hello {
                Hello::Off => aodv::Hello::Off,
                Hello::Active => aodv::Hello::Active,
                Hello::Always => aodv::Hello::Always,
            },
            link_feedback: self.link_feedback,
            breaks_after: self.breaks_after,
            on_break: match self.on_break {
                OnBreak::Drop => aodv::OnBreak::Drop,
                OnBreak::Rebuffer => aodv::OnBreak::Rebuffer,
            },
            gratuitous: self.gratuitous,
            destination_only: self.destination_only,
            pdp: self.pdp,
        }
    }
}

/// Routing metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Fewest hops over links that decode at the data rate; ties are broken by the shortest distance, then the lowest node
    /// number.
    Hops,
    /// ETX: minimum expected transmissions of a 1500-byte packet and its ACK (De Couto et al., MobiCom 2003), computed from
    /// the links' error rates without interference. Links with a delivery ratio below 10 % are not used.
    Etx,
}
