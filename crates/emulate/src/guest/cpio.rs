//! The archive from which a Linux kernel fills its root: cpio in the "newc" format
//! (kernel documentation, `driver-api/early-userspace/buffer-format`).
//!
//! Owner is root, times are 0, and inode numbers count up, so that equal content gives equal bytes. Several archives may
//! follow each other in one file; later ones add to and replace what earlier ones made. Hard links are left out.

use std::io::{self, Read, Write};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Symlink,
}

impl Kind {
    fn bits(self) -> u32 {
        match self {
            Self::Directory => 0o040_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
        }
    }
}

/// Writes one archive.
pub(super) struct Writer<W> {
    out: W,
    /// Bytes written so far: entries are aligned to 4 within an archive.
    length: u64,
    inode: u32,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, length: 0, inode: 1 }
    }

    /// Adds a directory, `name` without a leading slash.
    pub(super) fn directory(&mut self, name: &[u8], mode: u32) -> io::Result<()> {
        self.entry(name, Kind::Directory, mode, &mut io::empty(), 0)
    }

    /// Adds a symbolic link.
    pub(super) fn symlink(&mut self, name: &[u8], target: &[u8]) -> io::Result<()> {
        self.entry(name, Kind::Symlink, 0o777, &mut &target[..], target.len() as u64)
    }

    /// Adds a file of `size` bytes.
    ///
    /// # Errors
    /// The content has another size, is 4 GiB or longer, or cannot be read or written.
    pub(super) fn file(
        &mut self,
        name: &[u8],
        mode: u32,
        content: &mut dyn Read,
        size: u64,
    ) -> io::Result<()> {
        self.entry(name, Kind::File, mode, content, size)
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.header(b"TRAILER!!!", 0, 0, 0)?;
        self.align()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(
        &mut self,
        name: &[u8],
        kind: Kind,
        mode: u32,
        content: &mut dyn Read,
        size: u64,
    ) -> io::Result<()> {
        let short =
            u32::try_from(size).map_err(|_| io::Error::other("a file of 4 GiB or more in a guest"))?;
        let inode = self.inode;
        self.inode += 1;
        self.header(name, kind.bits() | (mode & 0o7777), inode, short)?;
        let copied = io::copy(&mut content.take(size), &mut self.out)?;
        self.length += copied;
        if copied != size {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        self.align()
    }

    fn header(&mut self, name: &[u8], mode: u32, inode: u32, size: u32) -> io::Result<()> {
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        let links = 1;
        // Inode, mode, owner, group, links, time, size, device (2), special device (2), length of the name, checksum.
        let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(name)?;
        self.out.write_all(&[0])?;
        self.length += header.len() as u64 + u64::from(name_size);
        self.align()
    }

    fn align(&mut self) -> io::Result<()> {
        let padding = (4 - self.length % 4) % 4;
        self.length += padding;
        self.out.write_all(&[0; 3][..padding as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_bytes_that_the_format_asks_for() {
        let mut writer = Writer::new(Vec::new());
        writer.directory(b"etc", 0o755).unwrap();
        writer.file(b"etc/a", 0o644, &mut &b"12345"[..], 5).unwrap();
        writer.symlink(b"b", b"etc/a").unwrap();
        let bytes = writer.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let directory = "070701000000010000\
                         41ED0000000000000000000000010000000000000000000000000000000000000000000000000000000400000000etc\0";
        assert!(text.starts_with(directory), "{text:?}");
        assert_eq!(text.len() % 4, 0);
        // Content begins and ends at multiples of 4: 110 bytes of header, the name with its 0, the padding.
        let file = 116 - 2;
        assert!(text[file..].contains("etc/a\0"), "{text:?}");
        assert_eq!(text.find("12345").unwrap() % 4, 0);
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text:?}");
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_and_not_a_broken_archive() {
        let mut writer = Writer::new(Vec::new());
        let error = writer.file(b"a", 0o644, &mut &b"123"[..], 5).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
