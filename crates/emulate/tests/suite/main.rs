//! Tests of the emulator that need no rights. Those with namespaces are with the program's.
#![allow(clippy::unwrap_used)]

mod realtime;
