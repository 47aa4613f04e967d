//! Many runs of scenarios, for the program and for Python.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | finds and reads a scenario: a file, a ready-made one, standard input |
//! | [`campaign`] | runs jobs on all cores, in slices that can be watched and interrupted |
//! | [`advise`] | which control suits a scenario: a search with the same seeds, and a ranking |
//! | [`compare`] | two scenarios with the same seeds: which figures differ, and by how much |
//! | [`paired`] | paired differences with intervals, and tests corrected for their number |
//! | [`plan`] | plans of sweeps: keys with their values, seeds, a stop rule, a search |
//! | [`search`] | a search for the best value, with the same seeds for all: which values need which seeds |
//! | [`optimum`] | the search of a plan: its runs, and its result on other seeds |
//! | [`sweep`] | the runs of a plan that are not kept yet |
//! | [`executor`], [`cluster`] | what makes these runs: the cores of this machine, or a Dask cluster |
//! | [`store`], [`keeper`] | kept runs as a folder of Parquet files, which interruptions do not harm, and the threads that write them |

pub mod advise;
pub mod campaign;
pub mod cluster;
pub mod compare;
pub mod executor;
pub mod keeper;
pub mod optimum;
pub mod paired;
pub mod plan;
pub mod search;
pub mod source;
pub mod store;
pub mod sweep;
