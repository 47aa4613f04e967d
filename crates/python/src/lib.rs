//! The native part of the Python package `fairhop`: scenarios, runs, tables, models. What can be Python is Python
//! (python/fairhop); this crate converts values and releases the interpreter while it computes.
//!
//! | module | what it is |
//! |---|---|
//! | [`scenario`] | reading, changing and checking scenarios; errors as exceptions |
//! | [`run`] | runs on all cores, Ctrl-C, results |
//! | [`sweep`] | the runs of a plan |
//! | [`shared`] | Ctrl-C, and exceptions that end runs |
//! | [`table`], [`arrow`] | tables over the Arrow C data interface |
//! | [`control`] | controllers written in Python |
//! | [`model`] | call quality, shares, outage and airtime |

mod arrow;
mod control;
mod model;
mod run;
mod scenario;
mod shared;
mod sweep;
mod table;

/// The native part of `fairhop`.
#[pyo3::pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::control::{Call, Flow, Observation};
    #[pymodule_export]
    use crate::model::{Link, Path, jain_index, max_min, mos, mos_of_r, r_factor, student_t_975, unfairness};
    #[pymodule_export]
    use crate::run::{Outcome, run};
    #[pymodule_export]
    use crate::scenario::{Scenario, ScenarioError, ready_made};
    #[pymodule_export]
    use crate::sweep::{engine, make_runs, work};
    #[pymodule_export]
    use crate::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
