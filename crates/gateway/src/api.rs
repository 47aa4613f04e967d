//! Metrics and the programming interface over HTTP, on the machine itself unless configured otherwise.
//!
//! | request | what it is |
//! |---|---|
//! | `GET /metrics` | Prometheus |
//! | `GET /api/v1/status`, `/calls`, `/flows`, `/decisions` | JSON |
//! | `GET /api/v1/events` | server-sent events: the status once a second, decisions as they are made |
//! | `GET /api/v1/openapi.json` | this table, for programs |
//! | `POST /api/v1/mode`, `/reload`, `/record` | changes; they need the token |
//!
//! The server is small on purpose ([`http`]): the daemon has 30 MB and a few per cent of a core. Requests never touch the
//! datapath or the controller: they wait for the loop to make a [`Status`], or leave a [`Command`] that it carries out between
//! two ticks. A status is made only for a request, since with 10,000 flows it takes as long as a tick.

pub mod client;
mod http;
pub mod metrics;
mod routes;
mod token;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use token::Token;

use crate::config::Mode;
use crate::journal::Entry;
use crate::status::Status;

/// The OpenAPI document.
pub const OPENAPI: &str = include_str!("../api/openapi.json");
/// Decisions that are kept for requests.
const DECISIONS: usize = 1000;
/// Commands that wait for the loop; further ones are refused.
const COMMANDS: usize = 8;
/// How long a request waits for its command: the loop looks every tick, and starting a datapath takes a second.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// A status is shown again for that time, however many ask.
const STATUS_AGE: Duration = Duration::from_millis(500);
/// How long a request waits for a new status before it gets the old one: the loop looks every 20 ms, and starting a datapath
/// takes a second.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);
/// Connections at a time, those of event streams included; further ones are refused.
const MAX_CONNECTIONS: usize = 32;

/// What a request asks the loop to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Changes the mode until the next reload.
    Mode(Mode),
    /// Reads the config again.
    Reload,
    /// Records digests and decisions of a gateway.
    Record {
        /// Its name; none for the first.
        gateway: Option<String>,
        /// For how long.
        seconds: f64,
    },
}

/// The answer of the loop: an object for the client, or what is wrong.
pub type Answer = Result<serde_json::Value, String>;

/// A command with the way back to its request.
#[derive(Debug)]
pub struct Pending {
    /// The command.
    pub command: Command,
    answer: SyncSender<Answer>,
}

impl Pending {
    /// Answers the request, which may have gone away.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.try_send(answer);
    }
}

#[derive(Debug, Default)]
struct Board {
    status: Arc<Status>,
    /// When it was made; none before the first one.
    made: Option<Instant>,
    /// Number of statuses so far.
    version: u64,
    /// A request waits for the next one.
    is_wanted: bool,
    decisions: VecDeque<Arc<Entry>>,
    /// Number of decisions so far.
    decided: u64,
    is_over: bool,
}

/// What the loop shows and the requests read.
#[derive(Debug)]
pub struct Shared {
    board: Mutex<Board>,
    news: Condvar,
    commands: SyncSender<Pending>,
    token: Token,
    requests: AtomicU64,
    refused: AtomicU64,
    connections: AtomicUsize,
}

impl Shared {
    /// A board without a status, and the commands that requests leave.
    pub fn new(token: Token) -> (Arc<Self>, Receiver<Pending>) {
        let (commands, pending) = mpsc::sync_channel(COMMANDS);
        let shared = Self {
            board: Mutex::default(),
            news: Condvar::new(),
            commands,
            token,
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
        };
        (Arc::new(shared), pending)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // A request that panics leaves the board whole.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a new status.
    pub fn publish(&self, status: Status) {
        let mut board = self.board();
        board.status = Arc::new(status);
        (board.made, board.is_wanted) = (Some(Instant::now()), false);
        board.version += 1;
        self.news.notify_all();
    }

    /// Shows a decision.
    pub fn decided(&self, entry: Entry) {
        let mut board = self.board();
        if board.decisions.len() == DECISIONS {
            board.decisions.pop_front();
        }
        board.decisions.push_back(Arc::new(entry));
        board.decided += 1;
        self.news.notify_all();
    }

    /// Whether a request waits for a status.
    pub fn is_status_wanted(&self) -> bool {
        self.board().is_wanted
    }

    /// A status that is at most half a second old; an older one if the loop does not make one in time.
    fn status(&self) -> Arc<Status> {
        self.with_fresh_status(self.board()).status.clone()
    }

    /// The board once its status is fresh, or the loop has not made one in time.
    fn with_fresh_status<'b>(&self, mut board: MutexGuard<'b, Board>) -> MutexGuard<'b, Board> {
        if board.made.is_some_and(|made| made.elapsed() < STATUS_AGE) {
            return board;
        }
        board.is_wanted = true;
        let is_awaited = |board: &mut Board| board.is_wanted && !board.is_over;
        self.news
            .wait_timeout_while(board, STATUS_TIMEOUT, is_awaited)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// The last decisions, oldest first.
    pub fn decisions(&self) -> Vec<Arc<Entry>> {
        self.board().decisions.iter().cloned().collect()
    }

    /// Ends event streams.
    pub fn end(&self) {
        self.board().is_over = true;
        self.news.notify_all();
    }

    /// Leaves a command for the loop and waits for its answer; none if the loop does not answer.
    fn ask(&self, command: Command) -> Option<Answer> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.commands.try_send(Pending { command, answer }).ok()?;
        answered.recv_timeout(COMMAND_TIMEOUT).ok()
    }
}

/// Starts to answer requests, in threads of its own. Returns the address in use: a port of 0 has been replaced.
///
/// # Errors
/// The address cannot be read, or no thread started.
pub fn serve(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let shared = Arc::clone(shared);
    thread::Builder::new().name("api".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            // Without files for more connections, the next attempt comes when one has ended.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            if shared.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                shared.connections.fetch_sub(1, Ordering::Relaxed);
                http::refuse(stream);
                continue;
            }
            let of_thread = Arc::clone(&shared);
            let answer = move || {
                routes::answer(stream, &of_thread);
                of_thread.connections.fetch_sub(1, Ordering::Relaxed);
            };
            let started =
                thread::Builder::new().name("request".to_owned()).stack_size(256 << 10).spawn(answer);
            if started.is_err() {
                shared.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(address)
}
