//! The list of findings of a check.

use crate::document::MAX_COLLECTED;
use crate::error::Finding;

/// Findings in the order in which the checks found them. The first [`MAX_COLLECTED`] are kept, the others counted.
#[derive(Debug, Default)]
pub struct Findings {
    /// Those that are kept.
    pub list: Vec<Finding>,
    /// How many more there were.
    pub uncollected: usize,
}

impl Findings {
    /// Adds a finding, see [`Finding`].
    pub fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.list.len() < MAX_COLLECTED {
            self.list.push(Finding::new(path, message, label, help));
        } else {
            self.uncollected += 1;
        }
    }

    /// Whether a further finding would only be counted.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_COLLECTED
    }
}
