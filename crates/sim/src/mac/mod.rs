//! Medium access: the distributed coordination function of IEEE 802.11, and its access categories.

mod dcf;
mod edca;
mod params;
mod station;

pub use dcf::{BROADCAST, Context, Data, Dcf, Done, Frame, FrameKind, Received};
pub use edca::{EdcaParams, windows};
pub use params::MacParams;
pub use station::Stations;
pub(crate) use station::for_stations;
