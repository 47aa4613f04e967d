//! TOML documents whose errors say where and what to write instead, and [`control`] in the words that scenarios and
//! gateways share.
//!
//! [`Document::read`] is pure: text and overrides go in, a checked document or its errors come out. It has three steps:
//! parse with positions (`tree`), apply overrides (`overrides`), check keys, types and ranges against the JSON Schema of
//! the types (`schema`). What the types cannot express, their owners check; [`Document::locate`] gives such findings their
//! places in the text.
//!
//! # Bounds
//! Texts larger than [`MAX_TEXT_BYTES`] are refused. Parsing takes time and memory in proportion to the text. At most
//! [`MAX_PROBLEMS`] problems are reported, and no suggestions are searched after the first [`MAX_COLLECTED`].

pub mod control;
mod document;
mod error;
mod excerpt;
mod findings;
mod number;
mod overrides;
mod schema;
mod suggest;
mod tree;

pub use document::{Document, MAX_COLLECTED, MAX_PROBLEMS, MAX_TEXT_BYTES};
pub use error::{Errors, Finding, Problem};
pub use findings::Findings;
pub use number::Number;
pub use overrides::Override;
pub use schema::Form;
pub use suggest::nearest;
