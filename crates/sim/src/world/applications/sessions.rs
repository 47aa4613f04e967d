//! Sessions over TCP: readers of web pages, and clients that send requests and wait for responses.
//!
//! A session alternates between a transaction and a pause, which is the on/off behaviour of users in M. E. Crovella and
//! A. Bestavros, "Self-similarity in World Wide Web traffic", IEEE/ACM ToN 5(6), 1997. Sizes and pauses are drawn from
//! distributions of the scenario; a heavy-tailed one makes the sum of many sessions bursty at every time scale.
//!
//! - *Pages:* each is a TCP connection, which the server opens: handshake, page, close. The next page replaces the
//!   connection of the last one at once; later packets of the old connection are ignored, as at a closed port.
//! - *Requests and responses* use two connections that stay open, one for each direction, opened with the first request.
//!
//! A transaction fails when its connection times out (RFC 9293 §3.8.3). Left out: parallel connections, objects within
//! pages (the distribution covers them), TLS, piggybacked acknowledgments, processing time of servers.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::SenderState;

use super::AppContext;
use super::tcp::TcpFlows;
use crate::engine::Stream;
use crate::recorder::TransactionRecord;
use crate::scenario::{SizeLaw, TimeLaw};

/// One session.
#[derive(Debug)]
pub struct Session {
    /// The transfer that carries pages or responses.
    pub transfer: usize,
    /// The transfer that carries requests, where there are any.
    pub requests: Option<usize>,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Sizes of pages or responses.
    pub size: SizeLaw,
    /// Pauses.
    pub think: TimeLaw,
    /// No transaction begins from this time on.
    pub stop: Nanos,
    /// The source whose events start transactions.
    pub source: u32,
    /// Its draws.
    pub random: Stream,
    /// When the current transaction began.
    pub began: Option<Nanos>,
    /// The request has been sent, and the server has not received all of it.
    pub asking: bool,
    /// Bytes to be delivered on the connection before the next step: of the request, then of the response or page.
    pub awaited: u64,
    /// Bytes of all requests on this connection.
    pub asked: u64,
    /// Bytes of all responses on this connection.
    pub answered: u64,
    /// Counters of transactions.
    pub record: TransactionRecord,
}

impl Session {
    /// The next pause.
    pub fn pause(&mut self) -> Nanos {
        draw_time(&self.think, &mut self.random)
    }
}

/// A size drawn from a distribution, in bytes.
pub fn draw_size(law: &SizeLaw, random: &mut Stream) -> u64 {
    match *law {
        SizeLaw::Fixed { bytes } => u64::from(bytes),
        SizeLaw::Pareto { min_bytes, max_bytes, shape } => {
            bounded_pareto(f64::from(min_bytes), f64::from(max_bytes), shape, random.unit()).round() as u64
        }
        SizeLaw::LogNormal { median_bytes, sigma, max_bytes } => {
            let size = f64::from(median_bytes) * libm::exp(sigma * random.normal());
            size.round().clamp(1.0, f64::from(max_bytes)) as u64
        }
    }
}

/// A time drawn from a distribution.
pub fn draw_time(law: &TimeLaw, random: &mut Stream) -> Nanos {
    Nanos::from_secs_f64(match *law {
        TimeLaw::Fixed { seconds } => seconds,
        TimeLaw::Exponential { mean_s } => -mean_s * libm::log(1.0 - random.unit()),
        TimeLaw::Pareto { min_s, max_s, shape } => bounded_pareto(min_s, max_s, shape, random.unit()),
    })
}

/// The `u`-quantile of a bounded Pareto distribution: the inverse of F(x) = (1 − (L/x)^a) / (1 − (L/H)^a).
fn bounded_pareto(least: f64, most: f64, shape: f64, u: f64) -> f64 {
    let beyond = libm::pow(least / most, shape);
    (least * libm::pow(1.0 - u * (1.0 - beyond), -1.0 / shape)).clamp(least, most)
}

impl TcpFlows {
    /// A pause is over: the next page or request.
    pub(super) fn begin_transaction(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let session = &mut self.sessions[index];
        if now >= session.stop || session.began.is_some() {
            return;
        }
        session.began = Some(now);
        session.record.began(now >= ctx.warmup());
        match session.requests {
            None => self.send_page(ctx, index),
            Some(requests) => self.send_request(ctx, index, requests),
        }
    }

    fn send_page(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let session = &mut self.sessions[index];
        let size = draw_size(&session.size, &mut session.random);
        session.awaited = size;
        let tcp = session.transfer;
        let transfer = &mut self.transfers[tcp];
        transfer.renew();
        transfer.sender.open(now);
        transfer.sender.offer(size);
        transfer.sender.close();
        self.pump_sender(ctx, tcp);
    }

    fn send_request(&mut self, ctx: &mut AppContext<'_>, index: usize, requests: usize) {
        let now = ctx.now();
        let responses = self.sessions[index].transfer;
        let mut opens = false;
        for tcp in [requests, responses] {
            opens |= matches!(self.transfers[tcp].sender.state(), SenderState::Closed | SenderState::Failed);
        }
        let session = &mut self.sessions[index];
        if opens {
            (session.asked, session.answered) = (0, 0);
            for tcp in [requests, responses] {
                self.transfers[tcp].renew();
                self.transfers[tcp].sender.open(now);
            }
        }
        session.asked += u64::from(session.request_bytes);
        (session.awaited, session.asking) = (session.asked, true);
        self.transfers[requests].sender.offer(u64::from(session.request_bytes));
        self.pump_sender(ctx, requests);
        if opens {
            self.pump_sender(ctx, responses);
        }
    }

    /// Data of a session was delivered by the transfer `tcp`.
    pub(super) fn session_delivered(&mut self, ctx: &mut AppContext<'_>, index: usize, tcp: usize) {
        let now = ctx.now();
        let delivered = self.transfers[tcp].delivered;
        let session = &mut self.sessions[index];
        let Some(began) = session.began else { return };
        if delivered < session.awaited || session.asking != (Some(tcp) == session.requests) {
            return;
        }
        if session.asking {
            let size = draw_size(&session.size, &mut session.random);
            session.answered += size;
            (session.awaited, session.asking) = (session.answered, false);
            let responses = session.transfer;
            self.transfers[responses].sender.offer(size);
            self.pump_sender(ctx, responses);
        } else {
            session.record.finished(now - began, began >= ctx.warmup());
            self.end_transaction(ctx, index);
        }
    }

    /// A sender of a session has timed out.
    pub(super) fn session_failed(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let session = &mut self.sessions[index];
        if let Some(began) = session.began {
            session.record.failed(began >= ctx.warmup());
            self.end_transaction(ctx, index);
        }
    }

    fn end_transaction(&mut self, ctx: &mut AppContext<'_>, index: usize) {
        let now = ctx.now();
        let session = &mut self.sessions[index];
        session.began = None;
        let next = now.saturating_add(session.pause());
        if next < session.stop {
            ctx.wake(next, session.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;

    /// The mean of a bounded Pareto law: ∫ x dF = a L^a / (1 − (L/H)^a) · (L^(1−a) − H^(1−a)) / (a − 1).
    #[test]
    fn draws_have_the_bounds_the_median_and_the_mean_of_their_law() {
        let (least, most, shape) = (1000.0_f64, 1e6_f64, 1.5_f64);
        let law = SizeLaw::Pareto { min_bytes: 1000, max_bytes: 1_000_000, shape };
        let mut random = Stream::new(1, 2, Purpose::Source);
        let n = 200_000;
        let mut draws: Vec<u64> = (0..n).map(|_| draw_size(&law, &mut random)).collect();
        draws.sort_unstable();
        assert!(draws[0] >= 1000 && draws[n - 1] <= 1_000_000);
        let beyond = (least / most).powf(shape);
        let median = least * (1.0 - 0.5 * (1.0 - beyond)).powf(-1.0 / shape);
        let mean = shape * least.powf(shape) / (1.0 - beyond)
            * (least.powf(1.0 - shape) - most.powf(1.0 - shape))
            / (shape - 1.0);
        let measured = draws.iter().sum::<u64>() as f64 / n as f64;
        assert!((draws[n / 2] as f64 / median - 1.0).abs() < 0.01, "median {}, {median}", draws[n / 2]);
        assert!((measured / mean - 1.0).abs() < 0.03, "mean {measured}, {mean}");

        let law = SizeLaw::LogNormal { median_bytes: 10_000, sigma: 1.0, max_bytes: 50_000 };
        let mut draws: Vec<u64> = (0..n).map(|_| draw_size(&law, &mut random)).collect();
        draws.sort_unstable();
        assert_eq!(draws[n - 1], 50_000);
        // 84.134 % of a normal law lie below its mean plus its standard deviation.
        assert!((draws[n / 2] as f64 / 1e4 - 1.0).abs() < 0.02);
        assert!((draws[n * 84_134 / 100_000] as f64 / (1e4 * 1f64.exp()) - 1.0).abs() < 0.02);

        let law = TimeLaw::Exponential { mean_s: 2.0 };
        let sum: f64 = (0..n).map(|_| draw_time(&law, &mut random).as_secs_f64()).sum();
        assert!((sum / n as f64 / 2.0 - 1.0).abs() < 0.02);
    }
}
