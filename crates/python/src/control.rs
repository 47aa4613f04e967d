//! Controllers written in Python: called at each tick with what the gateway's observer knows, they return a policy.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;

use fairhop_control::Observer;
use fairhop_control::controller::CustomController;
use fairhop_control::digest::PROTOCOL_TCP;
use fairhop_control::flow::FlowKey;
use fairhop_control::observer::FlowKind;
use fairhop_control::policy::{FlowPolicy, Policy, Reason, State, Treatment};
use fairhop_model::units::{BitRate, Nanos};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::shared::Shared;

/// Span over which the quality of calls is given.
const SPAN: Nanos = Nanos::from_secs(1);

/// A call as the gateway sees it, over the last second.
#[pyclass(frozen, get_all, module = "fairhop._native")]
pub(crate) struct Call {
    /// Identifies its flow.
    id: String,
    /// Opinion score of the worse direction.
    mos: Option<f64>,
    /// Fraction of packets lost, the worse direction.
    loss: Option<f64>,
    /// Fraction of packets that come too late, the worse direction.
    late: Option<f64>,
    /// Mean delay over the fastest packet in ms, the worse direction.
    delay_ms: Option<f64>,
    /// Jitter in ms (RFC 3550 §6.4.1), the worse direction.
    jitter_ms: Option<f64>,
}

/// A flow whose data can wait: TCP, or UDP with a high rate.
#[pyclass(frozen, get_all, module = "fairhop._native")]
pub(crate) struct Flow {
    /// Identifies it.
    id: String,
    /// `tcp`, `udp` or `interactive`.
    kind: &'static str,
    /// Its data leaves the mesh.
    is_upload: bool,
    /// Present rate in Mb/s.
    rate_mbps: f64,
    /// Hops in the mesh; none if not known.
    hops: Option<u8>,
    /// Shortest round trip through the mesh in ms.
    min_rtt_ms: Option<f64>,
}

/// What a gateway knows at a tick.
#[pyclass(frozen, get_all, module = "fairhop._native")]
pub(crate) struct Observation {
    /// Simulated time in seconds.
    time_s: f64,
    /// The gateway's node.
    gateway: u32,
    /// Packets in the gateway's pacer.
    waiting: usize,
    /// How far round trips through the mesh are over their base, in ms; the minimum of all nodes.
    excess_ms: Option<f64>,
    /// The calls.
    calls: Vec<Py<Call>>,
    /// The flows whose data can wait.
    flows: Vec<Py<Flow>>,
}

/// A policy of Python: `fairhop.Policy`.
#[derive(FromPyObject)]
struct Asked {
    down_mbps: Option<f64>,
    down_ack_mbps: Option<f64>,
    up_ack_mbps: Option<f64>,
    window_bytes: Option<u32>,
    flows: HashMap<String, AskedLimit>,
}

/// A limit of Python: `fairhop.Limit`.
#[derive(FromPyObject)]
struct AskedLimit {
    rate_mbps: Option<f64>,
    window_bytes: Option<u32>,
}

/// A controller of one gateway.
pub(crate) struct PyController {
    object: Option<Py<PyAny>>,
    gateway: u32,
    shared: Shared,
}

impl fmt::Debug for PyController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PyController {{ gateway: {} }}", self.gateway)
    }
}

impl PyController {
    /// A controller from what the user gave: an instance of a class, or a function.
    pub(crate) fn new(given: &Py<PyAny>, gateway: u32, shared: Shared) -> Self {
        let made = Python::attach(|py| {
            let given = given.bind(py);
            if given.is_instance_of::<PyType>() { given.call0() } else { Ok(given.clone()) }
                .map(Bound::unbind)
        });
        let object = match made {
            Ok(object) => Some(object),
            Err(error) => {
                shared.fail(error);
                None
            }
        };
        Self { object, gateway, shared }
    }
}

impl Drop for PyController {
    fn drop(&mut self) {
        let object = self.object.take();
        Python::attach(|_| drop(object));
    }
}

impl CustomController for PyController {
    fn tick(&mut self, now: Nanos, observer: &Observer, waiting: usize, policy: &mut Policy) {
        let Some(object) = &self.object else { return };
        if self.shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let asked = Python::attach(|py| {
            let observation = observe(py, now, self.gateway, observer, waiting)?;
            let answer = object.bind(py).call1((observation,))?;
            if answer.is_none() { Ok(None) } else { apply(&answer.extract()?, observer).map(Some) }
        });
        match asked {
            Ok(Some(asked)) => *policy = asked,
            Ok(None) => {}
            Err(error) => self.shared.fail(error),
        }
    }
}

fn id_of(key: &FlowKey) -> String {
    let protocol = if key.protocol == PROTOCOL_TCP { "tcp" } else { "udp" };
    format!("{}:{}-{}:{}/{protocol}", key.wired, key.wired_port, key.mesh, key.mesh_port)
}

fn observe(
    py: Python<'_>,
    now: Nanos,
    gateway: u32,
    observer: &Observer,
    waiting: usize,
) -> PyResult<Observation> {
    let calls = observer.calls(now, SPAN).map(|call| {
        let worse = |of: fn(&fairhop_control::observer::Quality) -> f64| {
            call.up.iter().chain(&call.down).map(of).reduce(f64::max)
        };
        let call = Call {
            id: id_of(&call.key),
            mos: call.mos(),
            loss: worse(|quality| quality.loss),
            late: worse(|quality| quality.late),
            delay_ms: worse(|quality| quality.delay.as_millis_f64()),
            jitter_ms: worse(|quality| quality.jitter.as_millis_f64()),
        };
        Py::new(py, call)
    });
    let flows = observer.elastic().iter().map(|flow| {
        let flow = Flow {
            id: id_of(&flow.key),
            kind: match flow.kind {
                FlowKind::Tcp => "tcp",
                FlowKind::Interactive => "interactive",
                FlowKind::BulkUdp | FlowKind::Call | FlowKind::Other => "udp",
            },
            is_upload: flow.is_upload,
            rate_mbps: flow.rate / 1e6,
            hops: (flow.hops > 0).then_some(flow.hops),
            min_rtt_ms: flow.base.map(Nanos::as_millis_f64),
        };
        Py::new(py, flow)
    });
    Ok(Observation {
        time_s: now.as_secs_f64(),
        gateway,
        waiting,
        excess_ms: observer.mesh_excess(None).map(Nanos::as_millis_f64),
        calls: calls.collect::<PyResult<_>>()?,
        flows: flows.collect::<PyResult<_>>()?,
    })
}

fn rate(name: &str, mbps: Option<f64>) -> PyResult<Option<BitRate>> {
    match mbps {
        Some(mbps) if !(mbps.is_finite() && mbps >= 0.001) => {
            Err(PyValueError::new_err(format!("{name} is {mbps}, but must be at least 0.001 Mb/s")))
        }
        mbps => Ok(mbps.map(BitRate::from_mbps)),
    }
}

fn apply(asked: &Asked, observer: &Observer) -> PyResult<Policy> {
    let mut flows = Vec::with_capacity(asked.flows.len());
    for flow in observer.elastic() {
        if let Some(limit) = asked.flows.get(&id_of(&flow.key)) {
            let treatment = Treatment {
                window: limit.window_bytes.or(asked.window_bytes),
                rate: rate("rate_mbps", limit.rate_mbps)?,
                ack_rate: None,
            };
            flows.push(FlowPolicy { key: flow.key, treatment });
        }
    }
    flows.sort_by_key(|flow| flow.key);
    Ok(Policy {
        down: rate("down_mbps", asked.down_mbps)?,
        down_acks: rate("down_ack_mbps", asked.down_ack_mbps)?,
        up_acks: rate("up_ack_mbps", asked.up_ack_mbps)?,
        flows,
        others: Treatment { window: asked.window_bytes, rate: None, ack_rate: None },
        state: State::Steady,
        reason: Reason::Configured,
        ..Policy::none()
    })
}
