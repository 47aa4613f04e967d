//! System calls that no safe wrapper has: running a program on a packet, and reading a digest out of the ring buffer.

// Each block has its reason beside it; all other code of the datapath is safe.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use fairhop_control::raw::RawDigest;

/// Command `BPF_PROG_TEST_RUN` of `bpf(2)`.
const TEST_RUN: libc::c_int = 10;

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    packet_len: u32,
    out_len: u32,
    packet: u64,
    out: u64,
    repeat: u32,
    duration: u32,
    context_len: u32,
    context_out_len: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    zero: u32,
}

const _: () = assert!(size_of::<TestRun>() == 80);

/// `struct __sk_buff` up to its end in Linux 5.18; older kernels know less of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    words: [u32; 2],
    pub(super) mark: u32,
    more: [u32; 5],
    priority: u32,
    ingress: u32,
    rest: [u32; 26],
    padding: [u32; 2],
    pub(super) tstamp: u64,
    wire: [u32; 2],
    socket: u64,
    gso: [u32; 2],
    hwtstamp: u64,
}

/// What a program has done with a packet.
pub(super) struct Done {
    pub(super) verdict: i32,
    /// Length of the packet in `out`.
    pub(super) length: usize,
    pub(super) context: Context,
    /// Mean time of a run in nanoseconds.
    pub(super) run_ns: u32,
}

/// Runs a program on a packet, `repeat` times on the same one.
pub(super) fn run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    ingress: u32,
    mark: u32,
    repeat: u32,
    out: &mut [u8],
) -> io::Result<Done> {
    let context = Context { ingress, mark, ..Context::default() };
    let mut after = Context::default();
    let mut call = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        packet_len: packet.len() as u32,
        out_len: out.len() as u32,
        packet: packet.as_ptr() as u64,
        out: out.as_mut_ptr() as u64,
        repeat,
        context_len: size_of::<Context>() as u32,
        context_out_len: size_of::<Context>() as u32,
        context: &raw const context as u64,
        context_out: &raw mut after as u64,
        ..TestRun::default()
    };
    // SAFETY: the kernel reads `packet` and `context` and writes `out` and `after`, each no further than the length beside
    // it; all of them outlive the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut call, size_of::<TestRun>()) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Done {
        verdict: call.verdict.cast_signed(),
        length: call.out_len as usize,
        context: after,
        run_ns: call.duration,
    })
}

/// Asks the kernel for its reasons when it refuses a request (`NETLINK_EXT_ACK`).
pub(super) fn explain_errors(netlink: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `on`, and keeps no pointer to it.
    let done = unsafe {
        libc::setsockopt(
            netlink.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_EXT_ACK,
            (&raw const on).cast(),
            length,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The digest in an entry of the ring buffer; none for an entry of another length.
pub(super) fn digest(entry: &[u8]) -> Option<RawDigest> {
    if entry.len() != size_of::<RawDigest>() {
        return None;
    }
    // SAFETY: the length is right, every bit pattern is a `RawDigest`, and nothing is assumed of the alignment.
    Some(unsafe { entry.as_ptr().cast::<RawDigest>().read_unaligned() })
}
