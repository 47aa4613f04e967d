//! Parameters of AODV (RFC 3561 §10).

use fairhop_model::units::Nanos;

/// When a node sends HELLO messages (RFC 3561 §6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Never.
    Off,
    /// While it is on an active route: it has sent, forwarded or received data within the last `active_route_timeout`.
    Active,
    /// Always, as ns-3 and AODV-UU do.
    Always,
}

/// What becomes of the node's own packets that wait for a neighbour to which the link breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBreak {
    /// They are lost.
    Drop,
    /// They go back to the buffer, and a discovery begins.
    Rebuffer,
}

/// Parameters that can be set. Those that the RFC derives from them are methods.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// ACTIVE_ROUTE_TIMEOUT.
    pub active_route_timeout: Nanos,
    /// MY_ROUTE_TIMEOUT: lifetime that a destination puts into its replies.
    pub my_route_timeout: Nanos,
    /// HELLO_INTERVAL.
    pub hello_interval: Nanos,
    /// ALLOWED_HELLO_LOSS.
    pub allowed_hello_loss: u32,
    /// HELLO messages in a row before a neighbour is used.
    pub hello_needed: u32,
    /// TTL_START.
    pub ttl_start: u8,
    /// TTL_INCREMENT.
    pub ttl_increment: u8,
    /// TTL_THRESHOLD.
    pub ttl_threshold: u8,
    /// NET_DIAMETER.
    pub net_diameter: u8,
    /// NODE_TRAVERSAL_TIME.
    pub node_traversal_time: Nanos,
    /// TIMEOUT_BUFFER.
    pub timeout_buffer: u32,
    /// RREQ_RETRIES.
    pub rreq_retries: u32,
    /// RREQ_RATELIMIT, a second.
    pub rreq_ratelimit: u32,
    /// RERR_RATELIMIT, a second.
    pub rerr_ratelimit: u32,
    /// Rebroadcasts, HELLO messages and broadcast RERR wait for a uniform time up to this.
    pub broadcast_jitter: Nanos,
    /// Data packets that wait for a route.
    pub buffer_packets: usize,
    /// Maximum time that a packet waits for a route.
    pub buffer_time: Nanos,
    /// When HELLO messages are sent.
    pub hello: Hello,
    /// The link layer's retry limit breaks a link.
    pub link_feedback: bool,
    /// Packets in a row that the link layer gives up until a link is broken.
    pub breaks_after: u32,
    /// Own packets for a broken link.
    pub on_break: OnBreak,
    /// Requests carry the G flag: an intermediate node that answers informs the destination too.
    pub gratuitous: bool,
    /// Requests carry the D flag: only the destination answers.
    pub destination_only: bool,
    /// The path density protocol, in HELLO messages.
    pub pdp: bool,
}

impl Default for Config {
    fn default() -> Self {
        let active = Nanos::from_secs_f64(10.0);
        Self {
            active_route_timeout: active,
            my_route_timeout: active * 2,
            hello_interval: Nanos::from_secs_f64(1.0),
            allowed_hello_loss: 2,
            hello_needed: 1,
            ttl_start: 2,
            ttl_increment: 2,
            ttl_threshold: 7,
            net_diameter: 35,
            node_traversal_time: Nanos::from_millis_f64(40.0),
            timeout_buffer: 2,
            rreq_retries: 2,
            rreq_ratelimit: 10,
            rerr_ratelimit: 10,
            broadcast_jitter: Nanos::from_millis_f64(10.0),
            buffer_packets: 64,
            buffer_time: Nanos::from_secs_f64(30.0),
            hello: Hello::Active,
            link_feedback: true,
            breaks_after: 1,
            on_break: OnBreak::Drop,
            gratuitous: true,
            destination_only: false,
            pdp: false,
        }
    }
}

impl Config {
    /// NET_TRAVERSAL_TIME.
    pub fn net_traversal_time(&self) -> Nanos {
        self.node_traversal_time * (2 * u64::from(self.net_diameter))
    }

    /// PATH_DISCOVERY_TIME: how long a request is remembered.
    pub fn path_discovery_time(&self) -> Nanos {
        self.net_traversal_time() * 2
    }

    /// DELETE_PERIOD: how long an invalid route is kept, with K = 5.
    pub fn delete_period(&self) -> Nanos {
        self.active_route_timeout.max(self.hello_interval) * 5
    }

    /// BLACKLIST_TIMEOUT: how long requests over a one-way link are ignored.
    pub fn blacklist_timeout(&self) -> Nanos {
        self.net_traversal_time() * u64::from(self.rreq_retries)
    }

    /// NEXT_HOP_WAIT: how long a reply waits for its acknowledgment.
    pub fn next_hop_wait(&self) -> Nanos {
        self.node_traversal_time + Nanos::from_millis_f64(10.0)
    }

    /// How long a neighbour may be silent.
    pub fn neighbour_timeout(&self) -> Nanos {
        self.hello_interval * u64::from(self.allowed_hello_loss)
    }

    /// RING_TRAVERSAL_TIME: how long a request with this TTL waits for its answer.
    pub fn ring_traversal_time(&self, ttl: u8) -> Nanos {
        self.node_traversal_time * (2 * (u64::from(ttl) + u64::from(self.timeout_buffer)))
    }
}
