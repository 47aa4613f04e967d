//! The `fairhop` program.

fn main() {}
