//! The other side of the interface: the commands of the program ask a running daemon.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time to connect, and for each part of an answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Largest answer in bytes: that of a status with a thousand calls has under one.
const MAX_ANSWER: u64 = 16 << 20;

/// An answer: its number, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 if all went well.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a request, with the token and a JSON body where they are given.
///
/// # Errors
/// Nobody answers, or the answer is not HTTP.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&str>,
) -> io::Result<Answer> {
    let mut reader = BufReader::new(send(address, method, path, token, body)?).take(MAX_ANSWER);
    let status = read_head(&mut reader)?;
    let mut body = String::new();
    reader.read_to_string(&mut body)?;
    Ok(Answer { status, body })
}

fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&str>,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n");
    if let Some(token) = token {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    let body = body.unwrap_or_default();
    head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

/// Reads up to the end of the head; returns the number of the answer.
fn read_head(reader: &mut impl BufRead) -> io::Result<u16> {
    let not_http = || io::Error::other("the answer is not that of a gateway");
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|number| number.parse().ok()).ok_or_else(not_http)?;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(not_http());
        }
        if line.trim_end().is_empty() {
            return Ok(status);
        }
    }
}
