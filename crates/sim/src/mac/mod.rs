//! Medium access: the distributed coordination function of IEEE 802.11, and its access categories.

mod dcf;
mod edca;
mod frame;
#[cfg(test)]
mod ns2;
mod outgoing;
mod params;
mod station;

pub use dcf::Dcf;
pub use edca::{EdcaParams, windows};
pub use frame::{BROADCAST, Context, Data, Done, Frame, FrameKind, Received};
pub use params::MacParams;
pub use station::Stations;
pub(crate) use station::for_stations;
