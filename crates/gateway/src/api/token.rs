//! The token that changes need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A secret that clients show.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token with this text. An empty one lets nobody change anything.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Reads the token from a file. If there is none, makes it with a random token that only its owner can read.
    ///
    /// # Errors
    /// The file can be neither read nor made.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => return Ok(Self(text.trim().to_owned())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{text}")?;
        Ok(Self(text))
    }

    /// Whether a client has shown the token. The time does not depend on where the two differ.
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differs = own.iter().zip(shown).fold(own.len() ^ shown.len(), |d, (a, b)| d | usize::from(a ^ b));
        !own.is_empty() && differs == 0
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/token");
        let token = Token::of_file(&path).expect("a token");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!((token.text().len(), mode & 0o777), (32, 0o600));
        assert_eq!(Token::of_file(&path).expect("the same").text(), token.text());
        assert!(token.is(token.text()) && !token.is("") && !token.is(&token.text()[1..]));
        assert!(!Token::new("").is(""));
    }
}
