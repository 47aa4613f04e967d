//! What each request gets.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::http::{self, Answer, Request};
use super::{Command, OPENAPI, Shared, metrics};
use crate::config::Mode;
use crate::status::GatewayStatus;

/// Longest recording that a request may ask for, in seconds.
const MAX_RECORDING_S: f64 = 3600.0;

/// Answers the request of a connection.
pub(super) fn answer(mut stream: TcpStream, shared: &Shared) {
    let request = match http::read(&mut stream) {
        Ok(request) => request,
        Err(answer) => {
            if let Some(answer) = answer {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                let _ = answer.write(&mut stream, true);
                http::drain(&mut stream);
            }
            return;
        }
    };
    shared.requests.fetch_add(1, Ordering::Relaxed);
    if request.path == "/api/v1/events" && request.method == "GET" && is_named_here(&request.host) {
        // The client goes away: an error of its connection ends the stream.
        let _ = events(&mut stream, shared);
        return;
    }
    let answer = route(&request, shared);
    if answer.status >= 400 {
        shared.refused.fetch_add(1, Ordering::Relaxed);
    }
    let _ = answer.write(&mut stream, request.method != "HEAD");
}

fn route(request: &Request, shared: &Shared) -> Answer {
    // A page of another site may reach this address by a name of its own (DNS rebinding), and read what it gets.
    if !is_named_here(&request.host) {
        return Answer::problem(421, "use the address of the gateway, or localhost");
    }
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    match request.path.as_str() {
        "/metrics" if is_read => Answer {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: metrics::render(&shared.status(), &metrics::requests(shared)).into_bytes(),
            allow: None,
        },
        "/api/v1/status" if is_read => Answer::json(200, &*shared.status()),
        "/api/v1/calls" if is_read => lists(request, shared, |gateway| serde_json::json!(gateway.calls)),
        "/api/v1/flows" if is_read => lists(request, shared, |gateway| serde_json::json!(gateway.flows)),
        "/api/v1/decisions" if is_read => {
            let entries = shared.decisions();
            Answer::json(200, &entries.iter().map(AsRef::as_ref).collect::<Vec<_>>())
        }
        "/api/v1/openapi.json" if is_read => Answer {
            status: 200,
            content_type: "application/json",
            body: OPENAPI.as_bytes().to_vec(),
            allow: None,
        },
        "/api/v1/mode" | "/api/v1/reload" | "/api/v1/record" if request.method == "POST" => {
            change(request, shared)
        }
        "/metrics"
        | "/api/v1/status"
        | "/api/v1/calls"
        | "/api/v1/flows"
        | "/api/v1/decisions"
        | "/api/v1/openapi.json"
        | "/api/v1/events" => not_allowed("GET, HEAD"),
        "/api/v1/mode" | "/api/v1/reload" | "/api/v1/record" => not_allowed("POST"),
        _ => Answer::problem(404, "there is no such page; GET /api/v1/openapi.json lists them"),
    }
}

fn not_allowed(allow: &'static str) -> Answer {
    Answer { allow: Some(allow), ..Answer::problem(405, "this page has another method") }
}

/// Whether a request was sent to an address of this machine or to localhost.
fn is_named_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok()
}

/// One list for each gateway, by its name; `?gateway=NAME` for one of them.
fn lists(request: &Request, shared: &Shared, of: impl Fn(&GatewayStatus) -> serde_json::Value) -> Answer {
    let status = shared.status();
    let wanted = request.query.split('&').find_map(|pair| pair.strip_prefix("gateway="));
    if let Some(name) = wanted {
        return match status.gateway(name) {
            Some(gateway) => Answer::json(200, &serde_json::json!({ (name): of(gateway) })),
            None => Answer::problem(404, "there is no gateway of that name"),
        };
    }
    let all: serde_json::Map<_, _> =
        status.gateways.iter().map(|gateway| (gateway.name.clone(), of(gateway))).collect();
    Answer::json(200, &all)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeBody {
    mode: Mode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordBody {
    seconds: f64,
    gateway: Option<String>,
}

fn change(request: &Request, shared: &Shared) -> Answer {
    if !request.bearer.as_ref().is_some_and(|shown| shared.token.is(shown)) {
        return Answer::problem(401, "send the token of `token_file` as Authorization: Bearer …");
    }
    let body: &[u8] = if request.body.is_empty() { b"{}" } else { &request.body };
    let command = match request.path.as_str() {
        "/api/v1/mode" => serde_json::from_slice::<ModeBody>(body).map(|body| Command::Mode(body.mode)),
        "/api/v1/record" => serde_json::from_slice::<RecordBody>(body)
            .map(|body| Command::Record { gateway: body.gateway, seconds: body.seconds }),
        _ => Ok(Command::Reload),
    };
    let command = match command {
        Ok(Command::Record { seconds, .. }) if !(seconds > 0.0 && seconds <= MAX_RECORDING_S) => {
            let detail = format!("`seconds` must be more than 0 and at most {MAX_RECORDING_S}");
            return Answer::problem(400, &detail);
        }
        Ok(command) => command,
        Err(error) => return Answer::problem(400, &format!("the body is wrong: {error}")),
    };
    match shared.ask(command) {
        Some(Ok(value)) => Answer::json(200, &value),
        Some(Err(reason)) => Answer::problem(409, &reason),
        None => Answer::problem(503, "the gateway is busy or about to end; try again"),
    }
}

/// The status once a second, and decisions as they are made, until the client or the daemon ends.
fn events(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    http::begin_events(stream)?;
    let (mut version, mut decided) = (0, shared.board().decided);
    let mut due = Instant::now();
    loop {
        let mut text = String::new();
        let mut board = shared.board();
        let until_due = due.saturating_duration_since(Instant::now());
        if until_due.is_zero() {
            board = shared.with_fresh_status(board);
            if board.version == version {
                // The loop is busy. A comment line finds out whether the client is still there.
                text += ":\n\n";
            } else {
                push(&mut text, "status", &*board.status);
                due = Instant::now() + SECOND;
            }
            version = board.version;
        } else if board.decided == decided && !board.is_over {
            board = shared.news.wait_timeout(board, until_due).unwrap_or_else(PoisonError::into_inner).0;
        }
        if board.is_over {
            return Ok(());
        }
        let fresh = (board.decided - decided).min(board.decisions.len() as u64) as usize;
        decided = board.decided;
        for entry in board.decisions.iter().rev().take(fresh).rev() {
            push(&mut text, "decision", &**entry);
        }
        drop(board);
        if !text.is_empty() {
            stream.write_all(text.as_bytes())?;
            stream.flush()?;
        }
    }
}

fn push(text: &mut String, event: &str, value: &impl serde::Serialize) {
    if let Ok(json) = serde_json::to_string(value) {
        *text += &format!("event: {event}\ndata: {json}\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_names_of_the_gateway() {
        for host in ["localhost", "localhost:9470", "127.0.0.1:9470", "[::1]:9470", "10.1.0.1", "[fd00::1]"] {
            assert!(is_named_here(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:9470", "localhost.evil.example:9470"] {
            assert!(!is_named_here(host), "{host}");
        }
    }
}
