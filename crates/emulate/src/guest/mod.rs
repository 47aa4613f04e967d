//! Virtual time: programs in a guest whose clock is its instruction count.
