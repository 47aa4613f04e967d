//! Distributions of sizes and pauses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distribution of page and response sizes. The default is that of sizes that users request from web servers: Pareto with
/// exponent 1 from 1000 bytes (Barford and Crovella, SIGMETRICS 1998), truncated at 10 MB; its mean is 9.2 kB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeLaw {
    /// Constant size.
    Fixed {
        /// The size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        bytes: u32,
    },
    /// Bounded Pareto: P(X > x) falls as x^-shape between two bounds.
    Pareto {
        /// Minimum size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        min_bytes: u32,
        /// Maximum size.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        max_bytes: u32,
        /// Exponent; the distribution is heavy-tailed up to 2.
        #[schemars(range(min = 0.1, max = 10.0))]
        shape: f64,
    },
    /// Log-normal, truncated at `max_bytes`.
    LogNormal {
        /// Median.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        median_bytes: u32,
        /// Standard deviation of the natural logarithm.
        #[schemars(range(min = 0.0, max = 10.0))]
        sigma: f64,
        /// Maximum size.
        #[serde(default = "max_bytes")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        max_bytes: u32,
    },
}

fn max_bytes() -> u32 {
    10_000_000
}

impl Default for SizeLaw {
    fn default() -> Self {
        Self::Pareto { min_bytes: 1_000, max_bytes: max_bytes(), shape: 1.0 }
    }
}

/// Distribution of pauses. The default is the think time of Barford and Crovella (SIGMETRICS 1998), truncated at 100 s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TimeLaw {
    /// Constant time.
    Fixed {
        /// The time in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        seconds: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean in seconds.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        mean_s: f64,
    },
    /// Bounded Pareto: P(X > x) falls as x^-shape between two bounds.
    Pareto {
        /// Minimum in seconds.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        min_s: f64,
        /// Maximum in seconds.
        #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1_000_000.0))]
        max_s: f64,
        /// Exponent; the distribution is heavy-tailed up to 2.
        #[schemars(range(min = 0.1, max = 10.0))]
        shape: f64,
    },
}

impl Default for TimeLaw {
    fn default() -> Self {
        Self::Pareto { min_s: 1.0, max_s: 100.0, shape: 1.5 }
    }
}
