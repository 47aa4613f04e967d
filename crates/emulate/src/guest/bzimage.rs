//! The kernel inside a `vmlinuz` (kernel documentation, `arch/x86/boot`, "Payload").
//!
//! QEMU starts the ELF file inside as well as the compressed one. That saves the guest from uncompressing it, some
//! 6 s of processor time in an emulated processor.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Where the header has the number of 512-byte sectors before the payload's part, less one.
const SETUP_SECTORS: usize = 0x1f1;
/// Where it has `HdrS`.
const MAGIC: usize = 0x202;
/// Where it has the payload's offset and length, 4 bytes each.
const PAYLOAD: usize = 0x248;

/// How a payload is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compression {
    program: &'static str,
    magic: &'static [u8],
    /// Bytes that the kernel's build adds: the length of the content.
    trailer: usize,
}

const COMPRESSIONS: [Compression; 3] = [
    Compression { program: "xz", magic: b"\xfd7zXZ\0", trailer: 4 },
    Compression { program: "zstd", magic: b"\x28\xb5\x2f\xfd", trailer: 4 },
    Compression { program: "gzip", magic: b"\x1f\x8b", trailer: 0 },
];

/// Writes the ELF file in `vmlinuz` to `path`. Returns whether it could: the program that uncompresses it may be missing.
pub(super) fn extract(vmlinuz: &[u8], path: &Path) -> bool {
    let Some((compression, payload)) = payload(vmlinuz) else { return false };
    let Ok(out) = File::create(path) else { return false };
    let mut command = Command::new(compression.program);
    let Ok(mut child) = command.arg("-dc").stdin(Stdio::piped()).stdout(out).stderr(Stdio::null()).spawn()
    else {
        return false;
    };
    let stdin = child.stdin.take();
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| stdin.is_some_and(|mut stdin| stdin.write_all(payload).is_ok()));
        writer.join().unwrap_or(false)
    });
    let ended = child.wait().is_ok_and(|status| status.success());
    written && ended && std::fs::read(path).is_ok_and(|elf| elf.starts_with(b"\x7fELF"))
}

/// The payload of a `vmlinuz` without its trailer.
fn payload(vmlinuz: &[u8]) -> Option<(Compression, &[u8])> {
    let number = |at: usize| {
        let bytes = vmlinuz.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    if vmlinuz.get(MAGIC..MAGIC + 4)? != b"HdrS" {
        return None;
    }
    let sectors = match vmlinuz.get(SETUP_SECTORS)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let start = ((sectors + 1) * 512).checked_add(number(PAYLOAD)?)?;
    let payload = vmlinuz.get(start..start.checked_add(number(PAYLOAD + 4)?)?)?;
    let compression = COMPRESSIONS.into_iter().find(|compression| payload.starts_with(compression.magic))?;
    Some((compression, &payload[..payload.len().checked_sub(compression.trailer)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `vmlinuz` with one setup sector and a payload.
    fn vmlinuz(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD..PAYLOAD + 4].copy_from_slice(&16_u32.to_le_bytes());
        image[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend([0; 16]);
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_is_found_and_its_trailer_cut_off() {
        let image = vmlinuz(b"\xfd7zXZ\0content\x07\0\0\0");
        let (compression, payload) = payload(&image).unwrap();
        assert_eq!((compression.program, payload), ("xz", &b"\xfd7zXZ\0content"[..]));
    }

    #[test]
    fn what_is_no_kernel_has_no_payload() {
        assert!(payload(b"").is_none());
        assert!(payload(&vmlinuz(b"neither")).is_none());
        let mut wrong = vmlinuz(b"\x1f\x8b");
        wrong[PAYLOAD..PAYLOAD + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(payload(&wrong).is_none());
    }
}
