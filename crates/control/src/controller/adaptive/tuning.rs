//! The tuned constants of the controller: their units, and what switches a mechanism off.
//!
//! They are fields, not `const`, so that a study can change them: `[control] tuning = { cut = 0.5 }` in a scenario.
//! docs/control.md has their table.

/// A tuned constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// Name of the field.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// The value that switches its mechanism off, if there is one.
    pub off: Option<f64>,
    /// What it means, and why it is what it is.
    pub meaning: &'static str,
}

macro_rules! tuning {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr, $unit:literal, $off:expr;)+) => {
        /// The tuned constants. None says what a network carries.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Tuning {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Default for Tuning {
            fn default() -> Self {
                Self { $($name: $value,)+ }
            }
        }

        impl Tuning {
            /// All constants, in the order of the fields.
            pub const CONSTANTS: &[Constant] = &[
                $(Constant {
                    name: stringify!($name),
                    value: $value,
                    unit: $unit,
                    off: $off,
                    meaning: concat!($($doc),+),
                },)+
            ];

            /// Sets a constant by its name. False if no constant has that name.
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)+
                    _ => return false,
                }
                true
            }
        }
    };
}

tuning! {
    /// Growth while learning without stress, per second: by two thirds every second. With ln 2, 4.2 instead of 3.1 % of the
    /// calls' first ten seconds were bad in 230 worlds of validation, and learning was done after 7 s instead of 8.
    learning_speed = 0.5, "per second", None;
    /// Use of the budget above which it grows while learning.
    learning_used = 0.7, "part of the budget", Some(0.0);
    /// Budget multiplier at the first stress: the stress is seen about a second after its cause.
    learnt = 0.8, "part of the budget", Some(1.0);
    /// Speed g of the law without calls, per second; with calls it is between an eighth and twice as much.
    speed = 0.06, "per second", None;
    /// Minimum speed of the law with calls.
    min_speed = 0.0075, "per second", None;
    /// Growth at the beginning of a probe, per second: a breakdown shows before the budget is 10 % over the ceiling.
    probe_speed = 0.03, "per second", Some(0.0);
    /// Maximum stress in the law, or that of one lost packet if it is higher.
    max_stress = 8.0, "stress", None;
    /// Part of the budget that one lost call packet costs.
    loss_cost = 0.05, "part of the budget per packet", None;
    /// Budget multiplier of a cut.
    cut = 0.65, "part of the budget", Some(1.0);
    /// Budget multiplier of a second cut, if calls are still bad when the first should have helped. It pays where TCP is not the
    /// cause: with 10 % noise, that is found out in 0.9 of the time, and with the multiplier of the first cut in 0.3.
    cut_again = 0.5, "part of the budget", Some(0.65);
    /// How long queues drain after a cut: a queue of 50 packets of 1500 bytes at 2.4 Mb/s.
    drain_s = 0.25, "seconds", Some(0.0);
    /// Cuts before that are caused by what was sent before the control began, and nothing is learnt from them.
    first_s = 1.5, "seconds", Some(0.0);
    /// Call packets that would be lost by now if this were the point to stay at: with so many and no loss, it is not. Where three
    /// losses are expected, none occurs by chance with a probability of 5 % (the rule of three).
    sure_packets = 3.0, "packets", None;
    /// Longest hold of a ceiling: a change of the network is found within a minute.
    max_hold_s = 60.0, "seconds", Some(10.0);
    /// Seconds for which a probe stays slow. A change of the network during a faster probe meets a budget further over the
    /// ceiling: calls are back within two seconds after 137 of 150 changes of `change-fail`, and without it after 128.
    probe_calm_s = 3.0, "seconds", Some(0.0);
    /// Seconds after which the speed of a probe has doubled, and so on in proportion.
    probe_grows_s = 2.0, "seconds", Some(1e9);
    /// Part of the ceiling up to which the budget returns fast: loss rises steeply with the budget.
    safe_part = 0.6, "part of the ceiling", Some(0.0);
    /// Part of a call's load that the budget gets back when it ends.
    returned = 1.0, "part of the load", Some(0.0);
    /// Seconds from its cause to a breakdown.
    breakdown_after_s = 2.0, "seconds", Some(0.0);
    /// Seconds within which an unused budget falls to what is carried.
    fit_to_use_s = 2.0, "seconds", Some(1e9);
    /// Seconds within which the budget falls to what is carried where a queue grows.
    fit_to_queue_s = 0.5, "seconds", Some(1e9);
    /// Part of the budget that must be used before the budget grows.
    used = 0.75, "part of the budget", Some(0.0);
    /// The same where packets wait, of the recent peak of the use or of the first budget: what waits for something else must not let
    /// the budget grow without a bound.
    wanted_used = 0.1, "part of the budget", Some(0.0);
    /// Time over which the peak of the use is remembered, in seconds: longer than a TCP recovery.
    carried_s = 4.0, "seconds", None;
    /// Initial and shortest hold of a ceiling; also the minimum time between two reactions to new flows.
    min_hold_s = 10.0, "seconds", None;
    /// Wait after a cut before its effect is judged: the mesh has emptied, and the short span (300 ms) is past it.
    settle_s = 0.5, "seconds", None;
    /// Growth of a budget that returns to a known value, per second.
    return_speed = 0.25, "per second", None;
    /// A budget above this part of the peak counts as high.
    noise_high = 0.85, "part of the peak", None;
    /// A budget below this part of the peak counts as low.
    noise_low = 0.6, "part of the peak", Some(0.0);
    /// It is noise if more than this part of the loss is left at a low budget.
    noise_left = 0.75, "part of the loss", None;
    /// Minimum number of call packets of a mean: at the tolerable 0.5 %, three of them are lost.
    noise_packets = 600.0, "packets", None;
    /// Maximum tolerance over that of the codec: with 0.75 % loss each way instead of 0.5 %, one second of G.729A in
    /// ten is bad.
    noise_tolerance = 1.5, "times the tolerable loss", Some(1.0);
    /// A budget is small below this part of the budget at the begin of the degradation.
    small = 0.3, "part of the budget", Some(0.0);
    /// How long the budget must have been small before TCP is ruled out.
    small_s = 3.0, "seconds", None;
    /// TCP is ruled out if more than this part of the loss is left with a small budget.
    starved_left = 0.6, "part of the loss", None;
    /// Time without a bad call after which the degradation is over.
    over_after_s = 2.0, "seconds", None;
    /// Time in the state Starved before the next comparison: short enough to protect calls again soon, and long enough
    /// that TCP is not cut for most of the time. It doubles up to the maximum while comparisons say the same.
    starved_s = 12.0, "seconds", None;
    /// Part of the budget that is used where all calls or flows are new. A longer path also lowers the budget to this part: calls
    /// are back within two seconds after 351 of 360 changes of `change-fail`, and after 300 if hops beyond the fourth do not count.
    caution = 0.7, "part of the budget", Some(1.0);
    /// Minimum time for which less is used: calls need it to show their loss.
    caution_s = 3.0, "seconds", Some(0.0);
    /// Fraction lost or late over 300 ms that is acute without tolerated noise; with noise, more occurs by
    /// chance.
    acute_loss = 0.08, "part of the packets", Some(2.0);
    /// Minimum number of lost or late packets that is acute: fewer occur by chance.
    acute_packets = 3.0, "packets", None;
    /// Delay that is acute, as a part of the playout delay: beyond the playout delay, packets are late.
    acute_delay = 0.8, "part of the playout delay", Some(1e9);
    /// Stress by round trips that is acute where there are calls.
    acute_excess = 3.0, "stress", Some(1e9);
    /// Tolerable mean delay before the gateway, as a part of the playout delay, and tolerable excess of calls' round trips beyond it:
    /// 20 ms, as in the mesh.
    wired_delay = 0.333, "part of the playout delay", Some(1e9);
    /// Tolerable excess of the round trips of uploads beyond the gateway, as a part of the playout delay: 12 ms, as of TCP's round
    /// trips through the mesh.
    uplink_delay = 0.2, "part of the playout delay", Some(1e9);
    /// Call packets per second and direction at which the loss is known well enough to stay at the limit: three calls.
    enough_packets = 150.0, "packets per second", Some(1.0);
    /// Growth of the ACK interval per second while calls suffer at the minimum budget: beside uploads, calls are good in 91 of 96
    /// cells of the grid with it, and in 82 without. Drawn worlds have hardly any such cell.
    ack_interval_growth = 0.25, "per second", Some(0.0);
    /// A flow that uses less than 1/1.5 of its rate releases the rest; it keeps 1.5 times what it uses.
    demand_margin = 1.5, "times the rate", Some(1e9);
    /// Bits over which the use of the budget is averaged: ten packets of 1500 bytes, so that it does not jump by one
    /// packet.
    use_bits = 8.0 * 15_000.0, "bits", Some(0.0);
    /// Part of the budget that is used while queues drain after a cut.
    drain = 0.35, "part of the budget", Some(1.0);
    /// Silence of a node with a call after which its route may be broken: ten packets of 30 ms, of all its flows.
    route_silent_s = 0.3, "seconds", Some(1e9);
    /// Silence after which its route was broken, whatever the hops afterwards are.
    route_sure_s = 1.5, "seconds", None;
    /// Reduction of the demand at a stress of 1 by queues: damps the oscillation of budget and queue.
    damping = 0.04, "part of the budget per stress", Some(0.0);
    /// Rate of the pacer over that of the windows where windows enforce the budget: the pacer only stops excesses.
    guard_rate = 1.25, "times the windows", Some(1.0);
    /// Hops from which on data and call packets can collide: with fewer, every node senses every other one's receiver.
    gate_hops = 3.0, "hops", Some(256.0);
    /// Maximum part of the budget that interactive flows take ahead of elastic ones.
    interactive_part = 0.5, "part of the budget", Some(0.0);
    /// Interactive flows get that much more than they use, as their rates vary.
    interactive_margin = 1.25, "times the rate", None;
    /// How fast the ceiling falls to the budget while calls or queues show significant stress below it: the cause was seen
    /// late, so that the ceiling was set too high.
    ceiling_speed = 0.7, "per second", Some(0.0);
}

/// A duration of that many seconds.
pub(super) fn secs(seconds: f64) -> fairhop_model::units::Nanos {
    fairhop_model::units::Nanos::from_secs_f64(seconds)
}
