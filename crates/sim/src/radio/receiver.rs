//! A receiver among overlapping signals: which frame it locks on, which survives, when the medium is busy.
//!
//! Events at a receiver are ordered by arrival, propagation delay included. Signals are announced when they are sent, with
//! the exact times at which they arrive and end here, so that one event at the end of a frame serves all receivers.
//!
//! The rules ([`Capture`]):
//! - A transmitting station receives nothing. When it starts to transmit, it loses the frame that it was receiving.
//! - An idle receiver locks on a preamble above the detection threshold that exceeds the other energy by the required
//!   ratio. A locked receiver misses other frames, except under `stronger`, where a frame that is strong enough captures it.
//! - Under `none`, any overlap with a signal that can be sensed destroys the frame. Under `first` and `stronger`, with
//!   threshold reception, the frame survives while it exceeds the sum of all others by the capture ratio; with SINR
//!   reception, it survives with the probability of its modulation, piece by piece between changes of interference.
//! - The medium is busy while the station transmits, is locked, or senses energy above the detection threshold. EIFS
//!   follows a frame that the receiver was locked on and lost; energy alone does not cause it.
//!
//! Left out: a frame that arrives after the previous one has ended here but before it has ended at the farthest receiver
//! (within some 2 µs) finds the receiver still locked.

use fairhop_model::phy::Rate;
use fairhop_model::units::{Nanos, Power};

use super::config::{Capture, Reception};
use super::params::RadioParams;
use crate::engine::Stream;

/// Why a station in reach of a frame did not receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameLoss {
    /// Another signal overlapped.
    Collision,
    /// The station was transmitting.
    Transmitting,
    /// The receiver was locked on another frame.
    Busy,
    /// A stronger frame captured the receiver.
    Captured,
    /// Too weak to be decoded or detected.
    Weak,
    /// Bit errors without interference.
    Noise,
}

impl FrameLoss {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Collision, Self::Transmitting, Self::Busy, Self::Captured, Self::Weak, Self::Noise];

    /// The reason's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collision => "collision",
            Self::Transmitting => "transmitting",
            Self::Busy => "busy",
            Self::Captured => "captured",
            Self::Weak => "weak",
            Self::Noise => "noise",
        }
    }
}

/// The outcome of a frame at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Decoded.
    Received,
    /// Locked on and lost: EIFS follows.
    Lost(FrameLoss),
    /// Never locked on, or replaced by a stronger one: only energy to this station.
    Missed(FrameLoss),
}

/// A signal at a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The sender.
    pub from: u32,
    /// Rate of the frame's body.
    pub rate: Rate,
    /// Received power.
    pub power: Power,
    /// When it begins to arrive.
    pub arrive: Nanos,
    /// When its last bit has arrived.
    pub end: Nanos,
}

/// A signal that the receiver is not locked on.
#[derive(Clone, Copy, Debug)]
struct Missed {
    signal: Signal,
    /// Why the receiver is not locked on it.
    why: FrameLoss,
}

/// The frame that a receiver is locked on; half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Lock {
    from: u32,
    rate: Rate,
    /// Why it will be lost, if that is already certain.
    lost: Option<FrameLoss>,
    disturbed: bool,
    power: Power,
    arrive: Nanos,
    end: Nanos,
}

impl Lock {
    const NONE: Self = Self {
        from: u32::MAX,
        rate: Rate::Ofdm6,
        lost: None,
        disturbed: false,
        power: Power::ZERO,
        arrive: Nanos::ZERO,
        end: Nanos::ZERO,
    };

    fn signal(&self) -> Signal {
        Signal { from: self.from, rate: self.rate, power: self.power, arrive: self.arrive, end: self.end }
    }
}

/// How the reception of the locked frame goes, by SINR.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Chance of success of what has been received up to `since`.
    success: f64,
    since: Nanos,
}

/// What the end of a signal means for a station.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The outcome of the frame.
    pub outcome: Outcome,
    /// When the medium became idle; [`Nanos::MAX`] if it did not.
    pub idle_since: Nanos,
}

/// Time that a station spent, by kind. The rest of the run is idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Airtime {
    /// Received frames to this station.
    pub received: Nanos,
    /// Received frames to other stations.
    pub overheard: Nanos,
    /// Frames that the receiver was locked on and lost.
    pub collided: Nanos,
    /// Busy medium, for any reason.
    pub busy: Nanos,
    /// Own transmissions; last, because it changes least often (see [`Receiver`]).
    pub own: Nanos,
}

impl Airtime {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            own: self.own.saturating_sub(earlier.own),
            received: self.received.saturating_sub(earlier.received),
            overheard: self.overheard.saturating_sub(earlier.overheard),
            collided: self.collided.saturating_sub(earlier.collided),
            busy: self.busy.saturating_sub(earlier.busy),
        }
    }
}

/// The radio of one station.
///
/// The order of the fields matters for large networks: those that the start of every frame in the neighbourhood uses are in
/// the first cache line, those that its end uses in addition in the second.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Receiver {
    /// The frame that is being received if `locked`, otherwise the last one.
    lock: Lock,
    locked: bool,
    busy: bool,
    /// Number of signals that are above the energy threshold by themselves.
    sensed: u32,
    /// Power of all signals.
    energy: Power,
    busy_since: Nanos,
    tx_until: Nanos,
    last_end: Nanos,
    airtime: Airtime,
    progress: Progress,
    /// Signals on the air that the receiver is not locked on.
    others: Vec<Missed>,
    random: Stream,
}

impl Receiver {
    /// An idle receiver; `random` draws bit errors.
    pub fn new(random: Stream) -> Self {
        Self {
            lock: Lock::NONE,
            locked: false,
            progress: Progress { success: 1.0, since: Nanos::ZERO },
            others: Vec::with_capacity(8),
            energy: Power::ZERO,
            sensed: 0,
            busy: false,
            busy_since: Nanos::ZERO,
            tx_until: Nanos::ZERO,
            last_end: Nanos::ZERO,
            airtime: Airtime::default(),
            random,
        }
    }

    /// When the frame that the receiver is locked on began to arrive; `None` if it is not locked.
    pub fn locked_since(&self) -> Option<Nanos> {
        self.locked.then_some(self.lock.arrive)
    }

    /// Airtime up to `now`.
    pub fn airtime(&self, now: Nanos) -> Airtime {
        let mut airtime = self.airtime;
        if self.busy {
            airtime.busy += now.saturating_sub(self.busy_since);
        }
        // A transmission in progress has been counted to its end.
        airtime.own = airtime.own.saturating_sub(self.tx_until.saturating_sub(now));
        airtime
    }

    /// Announces a signal. If the medium becomes busy with it, the result is whether the receiver locks on it.
    #[inline(always)]
    pub fn arrive(&mut self, params: &RadioParams, signal: Signal) -> Option<bool> {
        let missed = self.try_lock(params, &signal);
        if let Some(why) = missed {
            if self.locked {
                self.disturb(params, &signal, self.energy + signal.power);
            }
            self.others.push(Missed { signal, why });
        }
        self.energy = self.energy + signal.power;
        let alone_sensed = signal.power >= params.energy_detect;
        self.sensed += u32::from(alone_sensed);
        let sensed = alone_sensed || missed.is_none() || self.energy >= params.energy_detect;
        (sensed && self.become_busy(signal.arrive)).then_some(missed.is_none())
    }

    /// Power of the other signals that are still on the air at a time.
    #[inline(always)]
    fn power_at(&self, at: Nanos) -> Power {
        let mut sum = if self.locked && self.lock.end > at { self.lock.power } else { Power::ZERO };
        for other in &self.others {
            if other.signal.end > at {
                sum = sum + other.signal.power;
            }
        }
        sum
    }

    /// Locks on the signal, or returns why not.
    #[inline(always)]
    fn try_lock(&mut self, params: &RadioParams, signal: &Signal) -> Option<FrameLoss> {
        if self.tx_until > signal.arrive {
            return Some(FrameLoss::Transmitting);
        }
        if signal.power < params.preamble_detect {
            return Some(FrameLoss::Weak);
        }
        let others = if self.energy == Power::ZERO { Power::ZERO } else { self.power_at(signal.arrive) };
        if self.locked {
            let lock = &self.lock;
            if signal.arrive < lock.arrive && lock.end > signal.arrive {
                return self.lock_before(params, signal, lock.power, others);
            }
            let takes_over =
                params.capture == Capture::Stronger && stands_out(signal.power, others, params.capture_ratio);
            if !takes_over {
                return Some(if params.capture == Capture::None {
                    FrameLoss::Collision
                } else {
                    FrameLoss::Busy
                });
            }
            self.drop_lock(FrameLoss::Captured);
        } else if others > Power::ZERO {
            let detected = match (params.capture, params.reception) {
                (Capture::None, _) => others < params.energy_detect,
                (_, Reception::Threshold) => stands_out(signal.power, others, params.capture_ratio),
                (_, Reception::Sinr) => stands_out(signal.power, others + params.noise, params.preamble_sinr),
            };
            if !detected {
                return Some(FrameLoss::Collision);
            }
        } else if params.reception == Reception::Sinr
            && !stands_out(signal.power, params.noise, params.preamble_sinr)
        {
            return Some(FrameLoss::Weak);
        }
        self.lock_on(params, signal, others, None);
        None
    }

    /// The frame that the receiver is locked on was announced first but arrives second, with the power `later`. Reception
    /// follows the order of arrivals.
    #[cold]
    fn lock_before(
        &mut self,
        params: &RadioParams,
        signal: &Signal,
        later: Power,
        others: Power,
    ) -> Option<FrameLoss> {
        let around_it = others - later + signal.power;
        if params.capture == Capture::Stronger && stands_out(later, around_it, params.capture_ratio) {
            return Some(FrameLoss::Captured);
        }
        let destroyed = match (params.capture, params.reception) {
            (Capture::None, _) => true,
            (_, Reception::Threshold) => !stands_out(signal.power, others, params.capture_ratio),
            (_, Reception::Sinr) => false,
        };
        let late = if params.capture == Capture::None { FrameLoss::Collision } else { FrameLoss::Busy };
        self.drop_lock(late);
        self.busy_since = self.busy_since.min(signal.arrive);
        self.lock_on(params, signal, others, destroyed.then_some(FrameLoss::Collision));
        None
    }

    fn lock_on(&mut self, params: &RadioParams, signal: &Signal, others: Power, lost: Option<FrameLoss>) {
        self.locked = true;
        let Signal { from, rate, power, arrive, end } = *signal;
        self.lock = Lock { from, rate, lost, disturbed: others > Power::ZERO, power, arrive, end };
        if params.reception == Reception::Sinr {
            self.progress = Progress { success: 1.0, since: arrive };
        }
    }

    /// Stops receiving the locked frame; it remains as energy.
    fn drop_lock(&mut self, why: FrameLoss) {
        if std::mem::replace(&mut self.locked, false) {
            self.others.push(Missed { signal: self.lock.signal(), why });
        }
    }

    /// The signal from `from` has ended; `for_me` if its frame is addressed to this station.
    #[inline(always)]
    pub fn depart(&mut self, params: &RadioParams, from: u32, for_me: bool) -> Departure {
        let (power, end, outcome) = if self.locked && self.lock.from == from {
            self.locked = false;
            let outcome = self.finish(params, for_me);
            (self.lock.power, self.lock.end, outcome)
        } else {
            match self.depart_unlocked(params, from) {
                Some(departure) => departure,
                None => {
                    return Departure { outcome: Outcome::Missed(FrameLoss::Weak), idle_since: Nanos::MAX };
                }
            }
        };
        self.energy = self.energy - power;
        self.sensed -= u32::from(power >= params.energy_detect);
        self.last_end = self.last_end.max(end);
        Departure { outcome, idle_since: self.become_idle(params) }
    }

    /// A signal has ended that the receiver was not locked on.
    #[cold]
    fn depart_unlocked(&mut self, params: &RadioParams, from: u32) -> Option<(Power, Nanos, Outcome)> {
        let index = self.others.iter().position(|other| other.signal.from == from)?;
        let Missed { signal, why } = self.others.swap_remove(index);
        if self.locked {
            self.receive_until(params, signal.end, self.energy);
        }
        Some((signal.power, signal.end, Outcome::Missed(why)))
    }

    /// The frame that the receiver was locked on is complete.
    #[inline(always)]
    fn finish(&mut self, params: &RadioParams, for_me: bool) -> Outcome {
        self.receive_until(params, self.lock.end, self.energy);
        let Lock { rate, lost, disturbed, power, arrive, end, .. } = self.lock;
        let time = end - arrive;
        let fate = match (lost, params.reception) {
            (Some(why), _) => Some(why),
            (None, Reception::Threshold) => {
                (power < params.sensitivity[rate as usize]).then_some(FrameLoss::Weak)
            }
            (None, Reception::Sinr) => {
                let cause = if disturbed { FrameLoss::Collision } else { FrameLoss::Noise };
                (!self.survives(self.progress.success)).then_some(cause)
            }
        };
        match fate {
            Some(why) => {
                self.airtime.collided += time;
                Outcome::Lost(why)
            }
            None if for_me => {
                self.airtime.received += time;
                Outcome::Received
            }
            None => {
                self.airtime.overheard += time;
                Outcome::Received
            }
        }
    }

    /// Another signal overlaps the locked frame; `energy` is the sum of all, the new one included.
    #[inline]
    fn disturb(&mut self, params: &RadioParams, other: &Signal, energy: Power) {
        let lock = &mut self.lock;
        if other.arrive >= lock.end {
            return;
        }
        let interference = energy - lock.power;
        match (params.capture, params.reception) {
            (Capture::None, _) => {
                if interference >= params.energy_detect {
                    lock.lost = Some(FrameLoss::Collision);
                }
            }
            (_, Reception::Threshold) => {
                if !stands_out(lock.power, interference, params.capture_ratio) {
                    lock.lost = Some(FrameLoss::Collision);
                }
            }
            (_, Reception::Sinr) => {}
        }
        if params.reception == Reception::Sinr {
            self.receive_until(params, other.arrive, energy - other.power);
            self.lock.disturbed = true;
        }
    }

    /// Adds the piece of the locked frame up to `until`, received with a total energy of `energy` (its own included).
    #[inline]
    fn receive_until(&mut self, params: &RadioParams, until: Nanos, energy: Power) {
        let Self { lock, progress, .. } = self;
        if params.reception == Reception::Threshold || lock.lost.is_some() || until <= progress.since {
            return;
        }
        let disturbance = energy - lock.power + params.noise;
        let header_end = lock.arrive + params.header_duration;
        let mut success = 1.0;
        if progress.since < header_end {
            let bits = piece_bits(params.header_rate, until.min(header_end) - progress.since);
            success *= piece_success(params, params.header_rate, lock.power, disturbance, bits);
        }
        if until > header_end {
            let bits = piece_bits(lock.rate, until - progress.since.max(header_end));
            success *= piece_success(params, lock.rate, lock.power, disturbance, bits);
        }
        progress.success *= success;
        progress.since = until;
    }

    /// Draws whether a frame survives; no draw is made if the result is certain.
    fn survives(&mut self, chance: f64) -> bool {
        const NEVER: f64 = 1e-12;
        chance >= 1.0 - NEVER || (chance > NEVER && self.random.unit() < chance)
    }

    /// The station starts to transmit.
    pub fn begin_transmission(&mut self, now: Nanos, until: Nanos) {
        if self.locked {
            self.airtime.collided += now.saturating_sub(self.lock.arrive);
            self.drop_lock(FrameLoss::Transmitting);
        }
        self.tx_until = until;
        self.airtime.own += until - now;
        self.become_busy(now);
    }

    /// The station's transmission has ended. The result is when the medium became idle; [`Nanos::MAX`] if it did not.
    pub fn end_transmission(&mut self, params: &RadioParams) -> Nanos {
        self.last_end = self.last_end.max(self.tx_until);
        self.become_idle(params)
    }

    fn become_busy(&mut self, at: Nanos) -> bool {
        let was_idle = !self.busy;
        if was_idle {
            self.busy = true;
            self.busy_since = at;
        }
        was_idle
    }

    #[inline(always)]
    fn become_idle(&mut self, params: &RadioParams) -> Nanos {
        let quiet = self.sensed == 0
            && !self.locked
            && self.energy < params.energy_detect
            && self.tx_until <= self.last_end;
        if !(quiet && self.busy) {
            return Nanos::MAX;
        }
        self.busy = false;
        self.airtime.busy += self.last_end.saturating_sub(self.busy_since);
        self.last_end
    }
}

#[inline]
fn stands_out(power: Power, others: Power, ratio: f64) -> bool {
    power.0 as f64 >= others.0 as f64 * ratio
}

fn piece_bits(rate: Rate, time: Nanos) -> f64 {
    rate.bit_rate().0 as f64 * time.as_secs_f64()
}

fn piece_success(params: &RadioParams, rate: Rate, power: Power, disturbance: Power, bits: f64) -> f64 {
    if disturbance == Power::ZERO {
        return 1.0;
    }
    params.errors.success(rate, power.ratio(disturbance), bits)
}
