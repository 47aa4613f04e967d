//! Many runs of scenarios, for the program and for Python.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | finds and reads a scenario: a file, a ready-made one, standard input |
//! | [`campaign`] | runs jobs on all cores, in slices that can be watched and interrupted |

pub mod campaign;
pub mod source;
