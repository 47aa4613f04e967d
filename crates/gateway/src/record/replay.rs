//! Runs the controller on a recording, and compares its decisions with those in the file.

use std::io::BufRead;

use fairhop_control::Network;
use fairhop_model::units::Nanos;

use super::{Event, Frame, Mark, Reader};
use crate::engine::{Engine, Settings};

/// Time at the beginning of a recording that began in the middle, in which decisions are expected to differ: the observer
/// knows no flow yet, and its shortest span of calls is a second.
const SETTLING: Nanos = Nanos::from_secs(10);
/// Budgets that differ by less are the same: processors round alike, but libraries of other systems may not.
const SAME_BUDGET: f64 = 1e-6;

/// A tick at which the replay decides otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Seconds since the beginning of the recording.
    pub at_s: f64,
    /// What was decided.
    pub recorded: Mark,
    /// What the replay decides.
    pub replayed: Mark,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Digests in the recording.
    pub digests: u64,
    /// Ticks in the recording.
    pub ticks: u64,
    /// Ticks that were not compared, at the beginning of a recording that began in the middle.
    pub settling: u64,
    /// Length in seconds.
    pub seconds: f64,
    /// The ticks that differ.
    pub differences: Vec<Difference>,
    /// Means of the budgets in bits per second times price, over ticks with one: recorded, replayed.
    pub budgets: Option<(f64, f64)>,
}

impl Outcome {
    /// Whether decisions were compared.
    pub const fn is_compared(&self) -> bool {
        self.ticks > self.settling
    }

    /// Whether the replay decides as the gateway did.
    pub fn is_same(&self) -> bool {
        self.is_compared() && self.differences.is_empty()
    }
}

/// Replays a recording with these settings. Where another mode or config comes into force in it, `settings_of` gives those of then;
/// with none, they stay.
pub fn replay<R: BufRead>(
    reader: &mut Reader<R>,
    settings: Settings,
    settings_of: &mut dyn FnMut(&str, &str) -> Option<Settings>,
) -> Outcome {
    let mut engine = Engine::new(settings);
    let networks = |texts: &[String]| texts.iter().filter_map(|network| Network::read(network)).collect();
    engine.set_connected(networks(&reader.header().connected));
    if let Some(budget) = reader.header().budget {
        engine.resume(budget);
    }
    let in_middle = reader.header().began_in_the_middle;
    let mut outcome = Outcome::default();
    let mut began = None;
    let (mut recorded_sum, mut replayed_sum, mut budgets) = (0.0, 0.0, 0_u32);
    while let Some(frame) = reader.next_frame() {
        match frame {
            Frame::Digest(digest) => {
                outcome.digests += 1;
                engine.on_digest(&digest);
            }
            Frame::Event(Event::Blind) => engine.on_blind(),
            Frame::Event(Event::Connected(connected)) => engine.set_connected(networks(&connected)),
            Frame::Event(Event::Set { mode, config }) => {
                if let Some(settings) = settings_of(&mode, &config) {
                    engine.set(settings);
                }
            }
            Frame::Tick { now, waiting, mark } => {
                let since = now.saturating_sub(*began.get_or_insert(now));
                outcome.ticks += 1;
                outcome.seconds = since.as_secs_f64();
                engine.tick(now, waiting as usize);
                let replayed = Mark::of(&engine);
                if let (Some(a), Some(b)) = (mark.budget, replayed.budget) {
                    (recorded_sum, replayed_sum, budgets) = (recorded_sum + a, replayed_sum + b, budgets + 1);
                }
                if in_middle && since < SETTLING {
                    outcome.settling += 1;
                } else if !same(&mark, &replayed) {
                    let at_s = since.as_secs_f64();
                    outcome.differences.push(Difference { at_s, recorded: mark, replayed });
                }
            }
        }
    }
    outcome.budgets =
        (budgets > 0).then(|| (recorded_sum / f64::from(budgets), replayed_sum / f64::from(budgets)));
    outcome
}

fn same(a: &Mark, b: &Mark) -> bool {
    let budgets = match (a.budget, b.budget) {
        (Some(a), Some(b)) => (a - b).abs() <= SAME_BUDGET * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    budgets && Mark { budget: None, ..*a } == Mark { budget: None, ..*b }
}
