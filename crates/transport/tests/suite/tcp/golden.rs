//! The congestion window over a path of known losses, reviewed by hand against RFC 5681, RFC 6675 and RFC 6582.
//!
//! The path has a delay of 50 ms each way and no other limit. Segments have 1,000 bytes. The first transmissions of some
//! are dropped, and of one also the first retransmission, so that its timer expires.

use std::collections::VecDeque;
use std::fmt::Write as _;

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::congestion::Phase;
use fairhop_transport::tcp::{Receiver, Segment, Sender, SenderConfig, Seq};

use super::script::{MSS, ReceiverScript, SenderScript, ms};

/// Segments to drop; each entry drops one transmission.
const DROPPED: [i64; 7] = [25, 60, 61, 64, 66, 120, 120];

struct Path {
    sender: Sender,
    receiver: Receiver,
    origin: Seq,
    now: Nanos,
    flying: VecDeque<(Nanos, bool, Segment)>,
    to_drop: Vec<i64>,
}

impl Path {
    fn new(config: SenderConfig) -> Self {
        let mut path = Self {
            sender: Sender::new(config),
            receiver: Receiver::new(ReceiverScript::config()),
            origin: Seq(config.initial_seq) + 1,
            now: Nanos::ZERO,
            flying: VecDeque::new(),
            to_drop: DROPPED.to_vec(),
        };
        path.sender.offer(u64::MAX);
        path.sender.open(Nanos::ZERO);
        path.flush();
        path
    }

    fn flush(&mut self) {
        let arrival = self.now + ms(50);
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            let number = segment.seq.since(self.origin) / i64::from(MSS);
            let dropped = self.to_drop.iter().position(|&d| d == number && segment.len > 0);
            match dropped {
                Some(at) => drop(self.to_drop.remove(at)),
                None => self.flying.push_back((arrival, true, segment)),
            }
        }
        while let Some(segment) = self.receiver.poll_transmit(self.now) {
            self.flying.push_back((arrival, false, segment));
        }
    }

    /// Advances to the next event and processes all events at that time.
    fn step(&mut self) {
        let times = [self.flying.front().map(|f| f.0), self.sender.next_timer(), self.receiver.next_timer()];
        self.now = times.into_iter().flatten().min().expect("an endless stream");
        while let Some(&(_, forward, segment)) = self.flying.front().filter(|f| f.0 <= self.now) {
            self.flying.pop_front();
            if forward {
                self.receiver.on_segment(self.now, &segment);
            } else {
                self.sender.on_segment(self.now, &segment);
            }
            self.flush();
        }
        self.sender.on_timer(self.now);
        self.receiver.on_timer(self.now);
        self.flush();
    }
}

/// Time in ms, phase, window and threshold in segments, at each change of the last three.
fn trace(config: SenderConfig, until: Nanos) -> String {
    let mut path = Path::new(config);
    let (mut table, mut last) = (String::new(), String::new());
    while path.now <= until {
        let phase = match path.sender.phase() {
            Phase::Open => "open",
            Phase::Recovery => "recovery",
            Phase::Loss => "loss",
            Phase::Cwr => "cwr",
        };
        let ssthresh = path.sender.ssthresh().map_or("-".to_owned(), |s| (s / u64::from(MSS)).to_string());
        let state = format!("{phase} {} {ssthresh}", path.sender.cwnd_segments());
        if state != last {
            writeln!(table, "{} {state}", path.now.0 / 1_000_000).expect("a string takes everything");
            last = state;
        }
        path.step();
    }
    table
}

#[test]
fn the_window_with_sack_over_known_losses() {
    // 100 to 300 ms: slow start to 10 and 20; then 10 to 24 and 26 arrive (the ACK of 24 SACKs 26): 36. Three segments
    // past 25 are SACKed: 36 / 2. Limited transmit sent 60 and 61 before that, so they are in the same recovery. 64 and 66
    // were sent later and halve the window again after that recovery, at 600. Congestion avoidance adds one segment per
    // round trip. 120 is lost at 900 and detected at 1000. Its retransmission is lost and the timer expires one second
    // later; the threshold, already reduced, stays. Then 1, 2, 4, 5 (the threshold), and one more per round trip. 11 is
    // odd, and its last segment waits for the next round trip's.
    assert_eq!(trace(SenderScript::config(), ms(3300)), SACK);
}

#[test]
fn the_window_without_sack_over_known_losses() {
    // As above up to 35, because only acknowledged segments count: 35 / 2. 60 and 61 are retransmitted in turn, one per
    // round trip. 64 and 66 reduce to 17 / 2 and take two round trips, 120 reduces to 10 / 2. Its retransmission is lost.
    // After the timeout one acknowledgment covers all data that arrived past it within the second. Duplicates have counted
    // all but the last flight, so only that flight grows the window: to the threshold, 5.
    let config = SenderConfig { sack: false, ..SenderScript::config() };
    assert_eq!(trace(config, ms(2600)), NO_SACK);
}

const SACK: &str = "\
0 open 10 -
200 open 20 -
300 recovery 18 18
600 recovery 9 9
700 open 9 9
800 open 10 9
900 open 11 9
1000 recovery 5 5
2000 loss 1 5
2100 open 2 5
2200 open 4 5
2300 open 5 5
2400 open 6 5
2500 open 7 5
2600 open 8 5
2700 open 9 5
2800 open 10 5
2900 open 11 5
3100 open 12 5
3200 open 13 5
3300 open 14 5
";

const NO_SACK: &str = "\
0 open 10 -
200 open 20 -
300 recovery 17 17
600 recovery 8 8
800 open 8 8
900 open 9 8
1000 open 10 8
1100 recovery 5 5
2100 loss 1 5
2200 open 5 5
2300 open 6 5
2400 open 7 5
2600 open 8 5
";
