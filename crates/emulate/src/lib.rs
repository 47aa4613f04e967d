//! Real network stacks and programs on the radio of the simulator.

pub mod guest;
