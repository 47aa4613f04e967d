//! Many runs of scenarios, for the program and for Python.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | finds and reads a scenario: a file, a ready-made one, standard input |
//! | [`campaign`] | runs jobs on all cores, in slices that can be watched and interrupted |
//! | [`plan`] | plans of sweeps: keys with their values, seeds, a stop rule |
//! | [`store`] | kept runs as a folder of Parquet files, which interruptions do not harm |
//! | [`sweep`] | the runs of a plan that are not kept yet |

pub mod campaign;
pub mod plan;
pub mod source;
pub mod store;
pub mod sweep;
