//! Medium access: the distributed coordination function of IEEE 802.11, and its access categories.

mod config;
mod dcf;
mod edca;
mod frame;
#[cfg(test)]
mod ns2;
mod outgoing;
mod params;
mod station;

pub use config::{AccessCategory, DscpMapping, Edca, EdcaChoice, Mac};
pub use dcf::Dcf;
pub use frame::{BROADCAST, Context, Data, Done, Frame, FrameKind, Received};
pub use params::{EdcaParams, MacParams, windows};
pub use station::Stations;
pub(crate) use station::for_stations;
