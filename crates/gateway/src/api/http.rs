//! A small server of HTTP/1.1 (RFC 9112): one request a connection, everything bounded.
//!
//! Heads are parsed by `httparse`. A request has at most [`MAX_HEAD`] and [`MAX_BODY`] bytes and must be complete within
//! [`TIMEOUT`]; an answer is written within as long. Left out: persistent connections, chunked requests, compression, TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Maximum size of a request line with its headers, in bytes.
pub(super) const MAX_HEAD: usize = 8 << 10;
/// Maximum size of a body, in bytes.
pub(super) const MAX_BODY: usize = 4 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// Time for a request, and for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    /// After the `?`.
    pub(super) query: String,
    /// `Host`.
    pub(super) host: String,
    /// The token of `Authorization: Bearer …`.
    pub(super) bearer: Option<String>,
    pub(super) body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    /// For 405: the methods that are possible.
    pub(super) allow: Option<&'static str>,
}

/// Reads a request.
///
/// # Errors
/// The answer to a request that is not one, too large or too slow; none if the client is gone.
pub(super) fn read(stream: &mut TcpStream) -> Result<Request, Option<Answer>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut bytes = Vec::with_capacity(1024);
    let (mut request, length, head) = loop {
        match head_of(&bytes) {
            Ok(Some(head)) => break head,
            Ok(None) if bytes.len() > MAX_HEAD => {
                return Err(Some(Answer::problem(431, "the head of the request is too large")));
            }
            Ok(None) => more(stream, &mut bytes, deadline)?,
            Err(answer) => return Err(Some(answer)),
        }
    };
    if length > MAX_BODY {
        return Err(Some(Answer::problem(413, "the body of the request is too large")));
    }
    while bytes.len() < head + length {
        more(stream, &mut bytes, deadline)?;
    }
    request.body = bytes[head..head + length].to_vec();
    Ok(request)
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>, deadline: Instant) -> Result<(), Option<Answer>> {
    let late = || Some(Answer::problem(408, "the request is not complete in time"));
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(late());
    }
    let mut chunk = [0; 2048];
    stream.set_read_timeout(Some(left)).map_err(|_| None)?;
    match stream.read(&mut chunk) {
        Ok(0) => Err(None),
        Ok(count) => {
            bytes.extend_from_slice(&chunk[..count]);
            Ok(())
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(late())
        }
        Err(_) => Err(None),
    }
}

/// The request without its body, the length of the body, and that of the head; none if more bytes are needed.
fn head_of(bytes: &[u8]) -> Result<Option<(Request, usize, usize)>, Answer> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Answer::problem(431, "too many headers")),
        Err(_) => return Err(Answer::problem(400, "this is not a request of HTTP/1.1")),
    };
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        ..Request::default()
    };
    let mut length = None;
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        let value = value.trim();
        match header.name.to_ascii_lowercase().as_str() {
            "host" => request.host = value.to_owned(),
            "authorization" => {
                let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
                request.bearer = scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned());
            }
            "content-length" => {
                let new = value.parse::<usize>().ok().filter(|_| value.bytes().all(|b| b.is_ascii_digit()));
                if new.is_none() || length.is_some_and(|old| Some(old) != new) {
                    return Err(Answer::problem(400, "the length of the body is not a number"));
                }
                length = new;
            }
            "transfer-encoding" => return Err(Answer::problem(411, "send the body with Content-Length")),
            _ => {}
        }
    }
    Ok(Some((request, length.unwrap_or(0), head)))
}

impl Answer {
    /// An object.
    pub(super) fn json(status: u16, value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self { status, content_type: "application/json", body, allow: None },
            Err(error) => Self::problem(500, &error.to_string()),
        }
    }

    /// An error (RFC 9457).
    pub(super) fn problem(status: u16, detail: &str) -> Self {
        let value = serde_json::json!({ "status": status, "title": phrase(status), "detail": detail });
        let content_type = "application/problem+json";
        Self { status, content_type, body: value.to_string().into_bytes(), allow: None }
    }

    /// Writes it; `has_body` is false for HEAD.
    pub(super) fn write(&self, stream: &mut TcpStream, has_body: bool) -> io::Result<()> {
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut head = head_text(self.status, self.content_type);
        head += &format!("Content-Length: {}\r\n", self.body.len());
        if let Some(allow) = self.allow {
            head += &format!("Allow: {allow}\r\n");
        }
        if self.status == 401 {
            head += "WWW-Authenticate: Bearer\r\n";
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        if has_body {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

/// Begins a stream of events.
pub(super) fn begin_events(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all((head_text(200, "text/event-stream") + "\r\n").as_bytes())
}

fn head_text(status: u16, content_type: &str) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n",
        phrase(status)
    )
}

/// Reads the rest of a request that was refused, up to a bound: the kernel resets a connection that is closed with bytes
/// unread, and the client would not see the answer.
pub(super) fn drain(stream: &mut TcpStream) {
    const MAX: usize = 64 << 10;
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let (mut chunk, mut total) = ([0; 4096], 0);
    while total < MAX {
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => total += count,
            _ => return,
        }
    }
}

/// Refuses a connection beyond the maximum.
pub(super) fn refuse(mut stream: TcpStream) {
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = stream
        .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

const fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_and_what_is_ambiguous_refused() {
        let text = b"POST /api/v1/mode?a=b HTTP/1.1\r\nHost: x\r\nAuthorization: bearer abc\r\nContent-Length: 2\r\n\r\n{}";
        let (request, length, head) = head_of(text).expect("a request").expect("complete");
        assert_eq!((request.path.as_str(), request.query.as_str(), length), ("/api/v1/mode", "a=b", 2));
        assert_eq!((request.bearer.as_deref(), &text[head..]), (Some("abc"), &b"{}"[..]));
        assert!(head_of(b"GET / HTTP/1.1\r\nHost").expect("so far").is_none());
        for bad in [
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\x16\x03\x01 nonsense\r\n\r\n",
        ] {
            assert!(head_of(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
