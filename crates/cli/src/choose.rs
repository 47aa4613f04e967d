//! Reads the scenario that a command names, and prints its warnings.

use std::path::Path;

use fairhop_sim::scenario::{Loaded, Override, Traffic};
use fairhop_study::source;
pub(crate) use fairhop_study::source::{Wanted, unknown};
use miette::Diagnostic;

use crate::failure::Failure;
use crate::ui;

/// Reads, checks and changes a scenario.
///
/// # Errors
/// It cannot be found or read, or it or the overrides are wrong.
pub(crate) fn load(which: &Path, overrides: &[Override]) -> Result<Loaded, Failure> {
    let loaded = source::load(which, overrides)?;
    warn(&loaded);
    Ok(loaded)
}

/// Prints the warnings of a scenario.
pub(crate) fn warn(loaded: &Loaded) {
    ui::diagnose(loaded.warnings().iter().map(|warning| warning as &dyn Diagnostic));
}

/// Says what of a scenario is not simulated.
pub(crate) fn remark_on_real_traffic(loaded: &Loaded) {
    if loaded.scenario.traffic.iter().any(|entry| matches!(entry, Traffic::Real(_))) {
        ui::remark("real traffic is left out: `fairhop emulate` runs its programs");
    }
}
