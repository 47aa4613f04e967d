//! A gate before a TAP device: frames wait in a qdisc of the kernel until the station takes one.
//!
//! ```text
//! fh0: prio 1: ─┬─ tbf 2: (credit) ── 3: the user's qdisc, pfifo by default
//!               └─ plug 4: (empty)
//! ```
//!
//! Linux's TAP driver never stops its queue: what it is given and cannot keep, it drops. So the kernel must not give it
//! more. A token bucket with hardly any rate holds everything back once its bucket is empty. Changing its parameters, to
//! the same values, fills the bucket: the credit for a frame. It does not restart the queue, but changing a `plug` on the same
//! device does. Both changes are netlink messages (rtnetlink(7), linux/pkt_sched.h), sent in one call.
//!
//! A credit is one bucket of bytes: a full frame, or several short ones, which then wait in the device.

use std::fs::File;
use std::io::{self, Write};

use crate::sys;

/// Bytes in the bucket: an Ethernet frame with the largest MTU of 802.11, 2304.
const BUCKET: u32 = 2400;
/// Rate of the bucket in bytes a second, which frees a full frame in 24 s.
const RATE: u32 = 100;
/// Frames in the qdisc below the bucket, as in a simulated station's queue by default.
const LIMIT: u32 = 50;

/// What `tc -batch` does to a device.
pub(crate) fn batch(device: &str) -> String {
    let to = format!("dev {device}");
    format!(
        "qdisc replace {to} root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
         qdisc add {to} parent 1:1 handle 2: tbf rate {}bit burst {BUCKET} limit 1000000\n\
         qdisc add {to} parent 2:1 handle 3: pfifo limit {LIMIT}\n\
         qdisc add {to} parent 1:2 handle 4: plug limit 10000\n\
         qdisc change {to} parent 1:2 handle 4: plug release_indefinite\n",
        RATE * 8
    )
}

/// The gate of a device.
#[derive(Debug)]
pub struct Gate {
    socket: File,
    /// The two changes.
    messages: Vec<u8>,
    is_used: bool,
}

impl Gate {
    /// The gate of a device of the calling thread's namespace, which [`batch`] has set up.
    pub(crate) fn open(device: &str) -> io::Result<Self> {
        let index = sys::interface_index(device)?;
        let mut messages = change(index, 0x0002_0000, 0x0001_0001, b"tbf\0", &bucket());
        messages.extend(change(index, 0x0004_0000, 0x0001_0002, b"plug\0", &release()));
        Ok(Self { socket: sys::open_netlink()?, messages, is_used: true })
    }

    /// A frame has passed.
    pub(crate) fn on_frame(&mut self) {
        self.is_used = true;
    }

    /// Whether the next frame may have to wait for a credit.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Lets the next frame pass.
    pub(crate) fn open_once(&mut self) {
        self.is_used = false;
        // The kernel answers errors only: what the user has removed cannot be changed, and holds nothing back.
        let _ = self.socket.write(&self.messages);
    }
}

/// `RTM_NEWQDISC` for a qdisc that exists: a change.
fn change(index: u32, handle: u32, parent: u32, kind: &[u8], options: &[u8]) -> Vec<u8> {
    const RTM_NEWQDISC: u16 = 36;
    const NLM_F_REQUEST: u16 = 1;
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    let mut message = Vec::new();
    // nlmsghdr: length, type, flags, sequence, port.
    message.extend([0; 4]);
    message.extend(RTM_NEWQDISC.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    // tcmsg: family and padding, interface, handle, parent, info.
    message.extend([0; 4]);
    for word in [index, handle, parent, 0] {
        message.extend(word.to_ne_bytes());
    }
    attribute(&mut message, TCA_KIND, kind);
    attribute(&mut message, TCA_OPTIONS, options);
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// Appends an attribute, padded to a multiple of four bytes.
fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend((4 + value.len() as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Options of the token bucket.
fn bucket() -> Vec<u8> {
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_BURST: u16 = 6;
    const LINKLAYER_ETHERNET: u8 = 1;
    let mut parameters = Vec::new();
    // tc_ratespec: cell log, link layer, overhead, cell alignment, minimum, rate; then that of the peak rate: none.
    parameters.extend([0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
    parameters.extend(RATE.to_ne_bytes());
    parameters.extend([0; 12]);
    // Limit, which the kernel hands on to a fifo below; buffer, which TCA_TBF_BURST replaces; MTU of the peak rate.
    for word in [LIMIT, BUCKET, 0] {
        parameters.extend(word.to_ne_bytes());
    }
    let mut options = Vec::new();
    attribute(&mut options, TCA_TBF_PARMS, &parameters);
    attribute(&mut options, TCA_TBF_BURST, &BUCKET.to_ne_bytes());
    options
}

/// Options of the plug: `tc_plug_qopt`, action and limit.
fn release() -> Vec<u8> {
    const TCQ_PLUG_RELEASE_INDEFINITE: u32 = 2;
    [TCQ_PLUG_RELEASE_INDEFINITE.to_ne_bytes(), 0_u32.to_ne_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_lengths_of_linux_pkt_sched() {
        let tbf = change(7, 0x0002_0000, 0x0001_0001, b"tbf\0", &bucket());
        // Two headers of 16 and 20 bytes; kind 4 + 4; options 4, of which parameters 4 + 36 and burst 4 + 4.
        assert_eq!((tbf.len(), u32::from_ne_bytes(tbf[..4].try_into().expect("four"))), (96, 96));
        let plug = change(7, 0x0004_0000, 0x0001_0002, b"plug\0", &release());
        assert_eq!(plug.len(), 16 + 20 + 12 + 12);
        assert_eq!(plug[20..24], 7_u32.to_ne_bytes());
    }
}
