//! Samples of a flow and their summary.

use std::fmt::Write as _;

/// State of a flow at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Time since the connection was established.
    pub(crate) t_ms: u64,
    /// Congestion window in packets.
    pub(crate) cwnd: u32,
    /// Slow-start threshold in packets; 0 before the first loss.
    pub(crate) ssthresh: u32,
    /// Smoothed round-trip time; 0 before the first sample.
    pub(crate) srtt_us: u64,
    /// Packets sent and not acknowledged; packets in flight in simulated flows.
    pub(crate) unacked: u32,
    /// Packets retransmitted so far.
    pub(crate) retransmitted: u64,
    /// Payload acknowledged so far.
    pub(crate) acked_bytes: u64,
}

/// A flow's samples, one every 100 ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) samples: Vec<Sample>,
    /// Packets dropped by the bottleneck's queue and lost after it; 0 if unknown.
    pub(crate) queue_drops: u64,
    pub(crate) link_drops: u64,
}

/// Time after which slow start and its effect on the queue are over.
pub(crate) const SETTLED_MS: u64 = 10_000;

/// Goodput over the whole trace, the window from [`SETTLED_MS`] on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) goodput_mbps: f64,
    pub(crate) cwnd_mean: f64,
    pub(crate) cwnd_min: u32,
    pub(crate) cwnd_max: u32,
}

/// The first line of a trace file.
const COLUMNS: &str = "t_ms,cwnd,ssthresh,srtt_us,unacked,retransmitted,acked_bytes";

impl Trace {
    /// A trace from `traces/`.
    pub(crate) fn of_kernel(name: &str) -> Self {
        let path = format!("{}/tests/suite/linux/traces/{name}.csv", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(COLUMNS) {
            return Err(format!("the first line is not {COLUMNS}"));
        }
        let samples = lines.enumerate().map(|(i, line)| {
            Self::parse_line(line).ok_or_else(|| format!("line {} is not of seven numbers: {line}", i + 2))
        });
        Ok(Self { samples: samples.collect::<Result<_, _>>()?, queue_drops: 0, link_drops: 0 })
    }

    fn parse_line(line: &str) -> Option<Sample> {
        let mut fields = line.split(',').map(|field| field.parse::<u64>().ok());
        let mut next = || fields.next().flatten();
        Some(Sample {
            t_ms: next()?,
            cwnd: next()?.try_into().ok()?,
            ssthresh: next()?.try_into().ok()?,
            srtt_us: next()?,
            unacked: next()?.try_into().ok()?,
            retransmitted: next()?,
            acked_bytes: next()?,
        })
    }

    pub(crate) fn to_csv(&self) -> String {
        let mut text = format!("{COLUMNS}\n");
        for s in &self.samples {
            let Sample { t_ms, cwnd, ssthresh, srtt_us, unacked, retransmitted, acked_bytes } = s;
            writeln!(text, "{t_ms},{cwnd},{ssthresh},{srtt_us},{unacked},{retransmitted},{acked_bytes}")
                .expect("a string takes everything");
        }
        text
    }

    /// Packets retransmitted from a time on.
    pub(crate) fn retransmitted_from(&self, t_ms: u64) -> u64 {
        let before = self.samples.iter().take_while(|s| s.t_ms < t_ms).last().map_or(0, |s| s.retransmitted);
        self.samples.last().map_or(0, |s| s.retransmitted) - before
    }

    pub(crate) fn summary(&self) -> Summary {
        let last = self.samples.last().expect("a trace has samples");
        let settled = self.samples.iter().filter(|s| s.t_ms >= SETTLED_MS).map(|s| s.cwnd);
        let (count, sum) =
            settled.clone().fold((0_u32, 0_u64), |(n, sum), cwnd| (n + 1, sum + u64::from(cwnd)));
        Summary {
            goodput_mbps: last.acked_bytes as f64 * 8.0 / (last.t_ms as f64 * 1000.0),
            cwnd_mean: sum as f64 / f64::from(count),
            cwnd_min: settled.clone().min().expect("a trace is longer than 10 s"),
            cwnd_max: settled.max().expect("a trace is longer than 10 s"),
        }
    }
}
