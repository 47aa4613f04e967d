//! Departure times of the programs against those of [`fairhop_control::pacer::departure`].
