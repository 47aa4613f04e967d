//! Medium access: the distributed coordination function of IEEE 802.11.

mod dcf;
mod params;

pub use dcf::{BROADCAST, Context, Data, Dcf, Done, Frame, FrameKind, Received};
pub use params::MacParams;
