//! The system calls that no safe wrapper has: the interface of a TUN or TAP device, its number and a netlink socket, the
//! real-time scheduler, and the end of a child with its parent.

// Calls of libc, each with a reason beside it; all other code of the crate is safe.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::ffi::c_short;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// IP packets: TUN.
    Ip,
    /// Ethernet frames: TAP.
    Ethernet,
}

/// Maximum length of an interface's name with the zero after it (`IFNAMSIZ`).
const NAME_BYTES: usize = 16;

/// `struct ifreq` with the flags of its union; 40 bytes on 64-bit machines, of which the kernel reads 18.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: c_short,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// Makes a TUN or TAP device in the network namespace of the calling thread. It exists until the file is closed.
/// Reading it never blocks.
pub(crate) fn open_device(name: &str, layer: Layer) -> io::Result<File> {
    let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mode = match layer {
        Layer::Ip => libc::IFF_TUN,
        Layer::Ethernet => libc::IFF_TAP,
    };
    let mut request =
        InterfaceRequest { name: [0; NAME_BYTES], flags: (mode | libc::IFF_NO_PI) as c_short, rest: [0; 22] };
    for (place, byte) in request.name[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is, and keeps no pointer to it.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// The number of an interface in the network namespace of the calling thread.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the call reads the name, which ends with a zero, and keeps no pointer to it.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A socket to the routing part of the kernel, in the network namespace of the calling thread. It never blocks.
pub(crate) fn open_netlink() -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only, and what it returns is a file of this process alone.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { File::from_raw_fd(socket) })
}

/// Puts the calling thread under `SCHED_FIFO` with the lowest of its priorities: before every ordinary thread. Threads and
/// processes that it starts are ordinary ones again.
pub(crate) fn schedule_in_real_time() -> io::Result<()> {
    // The kernel's `sched_param`. The function of the C library is not used: that of musl always fails.
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads `priority` and keeps no pointer to it; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets a command get SIGKILL when the thread that starts it ends, however that ends.
pub(crate) fn end_with_parent(command: &mut Command) -> &mut Command {
    let set = || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) }
}
