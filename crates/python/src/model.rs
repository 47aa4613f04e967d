//! Call quality, shares, outage and airtime. Arrays come as buffers of the same length; Python broadcasts them.

use fairhop_model::airtime;
use fairhop_model::markov::Channel;
use fairhop_model::outage::{self, Arq, Start};
use fairhop_model::phy::{Phy, Preamble, Rate, Standard};
use fairhop_model::share::{self, Demand, Region};
use fairhop_model::units::Nanos;
use fairhop_model::voice::{self, Codec};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn codec_of(name: &str) -> PyResult<Codec> {
    Codec::from_name(name).ok_or_else(|| {
        let names = Codec::ALL.map(|codec| codec.profile().name).join(", ");
        PyValueError::new_err(format!("there is no codec {name}; the codecs are {names}"))
    })
}

/// A figure of a call: codec, loss, delay, playout delay.
type Score = fn(Codec, f64, Nanos, Nanos) -> f64;

/// Writes a figure for each pair of loss and delay into `out`.
fn scores(
    py: Python<'_>,
    score: Score,
    (codec, playout_ms): (&str, f64),
    loss: &PyBuffer<f64>,
    delay_ms: &PyBuffer<f64>,
    out: &PyBuffer<f64>,
) -> PyResult<()> {
    let (codec, playout) = (codec_of(codec)?, Nanos::from_millis_f64(playout_ms));
    let (losses, delays) = (loss.to_vec(py)?, delay_ms.to_vec(py)?);
    if losses.len() != delays.len() {
        return Err(PyValueError::new_err("arrays must be of one length"));
    }
    let pairs = losses.into_iter().zip(delays);
    let of = |(loss, delay)| score(codec, loss, Nanos::from_millis_f64(delay), playout);
    let values: Vec<f64> = py.detach(|| pairs.map(of).collect());
    out.copy_from_slice(py, &values)
}

/// Writes the opinion scores of calls into `out`.
#[pyfunction]
pub(crate) fn mos(
    py: Python<'_>,
    codec: &str,
    loss: PyBuffer<f64>,
    delay_ms: PyBuffer<f64>,
    playout_ms: f64,
    out: PyBuffer<f64>,
) -> PyResult<()> {
    scores(py, voice::mos, (codec, playout_ms), &loss, &delay_ms, &out)
}

/// Writes the ratings R of calls into `out`.
#[pyfunction]
pub(crate) fn r_factor(
    py: Python<'_>,
    codec: &str,
    loss: PyBuffer<f64>,
    delay_ms: PyBuffer<f64>,
    playout_ms: f64,
    out: PyBuffer<f64>,
) -> PyResult<()> {
    scores(py, voice::r_factor, (codec, playout_ms), &loss, &delay_ms, &out)
}

/// The opinion score of a rating.
#[pyfunction]
pub(crate) fn mos_of_r(r: f64) -> f64 {
    voice::mos_of_r(r)
}

/// Shares, the regions that limit them, and overloaded regions.
type Allocation = (Vec<f64>, Vec<Option<usize>>, Vec<usize>);

/// Max-min shares of associations with weights and limits; those whose load is not NaN are calls.
#[pyfunction]
pub(crate) fn max_min(
    regions: Vec<Vec<usize>>,
    weights: Vec<f64>,
    limits: Vec<f64>,
    loads: Vec<f64>,
) -> PyResult<Allocation> {
    let regions: Vec<Region> = regions
        .into_iter()
        .enumerate()
        .map(|(centre, associations)| Region { centre, associations })
        .collect();
    let demand = |((&weight, &limit), &load): ((&f64, &f64), &f64)| {
        if load.is_nan() { Demand::Elastic { weight, limit } } else { Demand::Call { load } }
    };
    let demands: Vec<Demand> = weights.iter().zip(&limits).zip(&loads).map(demand).collect();
    let found =
        share::max_min(&regions, &demands).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((found.shares, found.bottlenecks, found.overloaded))
}

/// Jain's index; none without shares.
#[pyfunction]
pub(crate) fn jain_index(shares: Vec<f64>) -> Option<f64> {
    share::jain_index(&shares)
}

/// The factor of a two-sided 95 % confidence interval.
#[pyfunction]
pub(crate) fn student_t_975(df: usize) -> f64 {
    fairhop_model::stats::student_t_975(df)
}

/// The unfairness index of osipov2007; none if it does not exist.
#[pyfunction]
pub(crate) fn unfairness(fair: Vec<f64>, actual: Vec<f64>) -> Option<f64> {
    share::unfairness(&fair, &actual)
}

/// A slotted link with losses, its ARQ and a queue.
#[pyclass(frozen, module = "fairhop._native")]
pub(crate) struct Link(outage::Link);

fn start_of(name: &str) -> PyResult<Start> {
    match name {
        "any-slot" => Ok(Start::AnySlot),
        "after-success" => Ok(Start::AfterSuccess),
        _ => Err(PyValueError::new_err(format!("start is any-slot or after-success, not {name}"))),
    }
}

#[pymethods]
impl Link {
    #[new]
    fn new(error: f64, memory: f64, arq: &str) -> PyResult<Self> {
        let arq = match arq {
            "persistent" => Arq::Persistent,
            "optimal" => Arq::Optimal,
            _ => return Err(PyValueError::new_err(format!("arq is persistent or optimal, not {arq}"))),
        };
        let channel =
            if memory == 0.0 { Channel::memoryless(error) } else { Channel::two_state(error, memory) };
        channel
            .and_then(|channel| outage::Link::new(channel, arq))
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Packets per slot.
    #[getter]
    fn throughput(&self) -> f64 {
        self.0.throughput()
    }

    /// Probability that a packet takes more than `slots` slots with `window` packets outstanding.
    fn delay_outage(&self, py: Python<'_>, slots: u32, window: u32, start: &str) -> PyResult<f64> {
        let start = start_of(start)?;
        Ok(py.detach(|| self.0.delay_outage(slots, window, start)))
    }

    /// The largest window with a delay outage of at most `bound`.
    fn max_window(&self, py: Python<'_>, slots: u32, bound: f64, start: &str) -> PyResult<u32> {
        let start = start_of(start)?;
        Ok(py.detach(|| self.0.max_window(slots, bound, start)))
    }
}

/// A line of equal radio hops.
#[pyclass(frozen, module = "fairhop._native")]
pub(crate) struct Path {
    phy: Phy,
    rate: Rate,
    basic: Vec<Rate>,
    rts_threshold: Option<u32>,
    hops: u32,
    shared_links: u32,
}

impl Path {
    fn path(&self) -> airtime::Path<'_> {
        airtime::Path {
            phy: self.phy,
            rate: self.rate,
            basic: &self.basic,
            rts_threshold: self.rts_threshold,
            hops: self.hops,
            shared_links: self.shared_links,
        }
    }
}

fn rate_of(standard: Standard, mbps: f64) -> PyResult<Rate> {
    standard.rate(mbps).ok_or_else(|| {
        let rates: Vec<String> = standard.rates().iter().map(|rate| rate.mbps().to_string()).collect();
        PyValueError::new_err(format!(
            "{} has no rate of {mbps} Mb/s; its rates are {} Mb/s",
            standard.name(),
            rates.join(", ")
        ))
    })
}

#[pymethods]
impl Path {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the keys of a path; Python names them")]
    fn new(
        standard: &str,
        rate_mbps: f64,
        basic_rates_mbps: Vec<f64>,
        preamble: &str,
        rts_threshold: Option<u32>,
        hops: u32,
        reach: u32,
        capture: bool,
    ) -> PyResult<Self> {
        let standard = [Standard::Dot11a, Standard::Dot11b, Standard::Dot11g]
            .into_iter()
            .find(|known| known.name() == standard)
            .ok_or_else(|| PyValueError::new_err("the standards are 802.11a, 802.11b and 802.11g"))?;
        let preamble = match preamble {
            "long" => Preamble::Long,
            "short" => Preamble::Short,
            _ => return Err(PyValueError::new_err("the preambles are long and short")),
        };
        if hops == 0 {
            return Err(PyValueError::new_err("hops must be at least 1"));
        }
        let basic = basic_rates_mbps.into_iter().map(|mbps| rate_of(standard, mbps));
        Ok(Self {
            phy: Phy::new(standard, preamble),
            rate: rate_of(standard, rate_mbps)?,
            basic: basic.collect::<PyResult<_>>()?,
            rts_threshold,
            hops,
            shared_links: airtime::shared_links(reach, capture),
        })
    }

    /// Channel time of a packet on one hop in microseconds: DIFS, mean backoff, RTS and CTS, data, acknowledgment.
    fn packet_us(&self, ip_bytes: u32) -> [f64; 5] {
        let time = self.path().packet_time(ip_bytes);
        [time.difs, time.backoff, time.protection, time.data, time.acknowledgment].map(Nanos::as_micros_f64)
    }

    /// Upper bound of UDP goodput in Mb/s.
    fn udp_mbps(&self, payload_bytes: u32) -> f64 {
        self.path().udp_goodput(payload_bytes).as_mbps()
    }

    /// Upper bound of TCP goodput in Mb/s.
    fn tcp_mbps(&self, mss: u32, options: u32, segments_per_ack: f64) -> f64 {
        self.path().tcp_goodput(mss, options, segments_per_ack).as_mbps()
    }

    /// Upper bound of the number of calls.
    fn calls(&self, codec: &str) -> PyResult<u32> {
        Ok(self.path().calls(codec_of(codec)?))
    }
}
