//! The hosts that are probed because nothing tells how their calls fare on the way into the mesh.
//!
//! These are calls without video whose reports are encrypted or missing (`fairhop_control::observer`). Downloads collide with them on the
//! way out of the mesh, which the gateway sees. Uploads collide with them on the way in, which it does not see. Nor does it see a queue on
//! the way in if a download shares the tunnel of the call, since that hides the round trips of TCP. So such hosts are probed during uploads,
//! and while a tunnel carries data beside a call.

use std::collections::BTreeMap;

use fairhop_control::flow::Address;
use fairhop_control::observer::{CallNow, ElasticFlow, FlowBody, FlowKind, Observer};
use fairhop_model::units::Nanos;

/// Hosts that are probed at a time. Their probes take the airtime of two calls.
const MAX_HOSTS: usize = 4;
/// A call that has had no report for this long is unreported: the longest usual interval between reports (RFC 3550 §6.3.1).
const WITHOUT_REPORT: Nanos = Nanos::from_millis(7500);
/// Minimum rate of data that may harm calls unseen, in bits per second: two full packets a second, as a slow mesh carries them.
const MIN_RATE: f64 = 24_000.0;
/// How long a host is probed after such data has last passed: uploads pause, and a probe needs a second before it counts.
const GOES_ON: Nanos = Nanos::from_secs(10);
/// A host that has not answered for this long does not answer.
const ANSWERS: Nanos = Nanos::from_secs(5);
/// A host that does not answer is tried again after that time.
const AGAIN: Nanos = Nanos::from_secs(60);

/// What is known of a host with calls.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// When a call of it was last seen.
    seen: Nanos,
    /// When a call was last reported, or the first one was seen; none if its reports cannot be read.
    reported: Option<Nanos>,
    /// When it last answered a probe, or when the probe began.
    answered: Nanos,
    /// It did not answer, and is not probed until then.
    silent_until: Nanos,
}

/// What a call shows of its host.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// It is a probe that is answered.
    Answer,
    /// It is known how the call fares into the mesh, or there is nothing to know.
    Reported,
    Unreported,
    /// Its protocol is not known, so that no report of it can be read.
    Unreadable,
}

/// The choice of hosts.
#[derive(Debug, Default)]
pub struct Unreported {
    hosts: BTreeMap<Address, Host>,
    /// When something last passed that may harm calls unseen.
    harm: Option<Nanos>,
    probed: Vec<Address>,
}

impl Unreported {
    /// Chooses, by what an observer has seen. Returns the hosts to probe.
    pub fn choose(&mut self, now: Nanos, observer: &Observer) -> &[Address] {
        let is_unseen = |flow: &ElasticFlow| {
            let is_tunnel = flow.kind == FlowKind::BulkUdp && flow.may_have_sound;
            flow.rate >= MIN_RATE
                && match observer.flow(&flow.key).map(|flow| &flow.body) {
                    Some(FlowBody::Udp(udp)) => {
                        is_tunnel || udp.up_meter.rate(now).0 > udp.down_meter.rate(now).0
                    }
                    _ => flow.is_upload,
                }
        };
        let is_harm = observer.elastic().iter().any(is_unseen);
        let shown = |call: CallNow| {
            // Of a call without a stream into the mesh there is nothing to tell.
            let shows = if call.is_probe() {
                Shows::Answer
            } else if call.is_opaque {
                Shows::Unreadable
            } else if call.wired.is_none() || call.down_is_reported {
                Shows::Reported
            } else {
                Shows::Unreported
            };
            (call.key.mesh, shows)
        };
        self.update(now, is_harm, observer.calls(now, Nanos::from_secs(1)).map(shown))
    }

    fn update(
        &mut self,
        now: Nanos,
        is_harm: bool,
        calls: impl Iterator<Item = (Address, Shows)>,
    ) -> &[Address] {
        for (address, shows) in calls {
            let reported = (!matches!(shows, Shows::Unreadable)).then_some(now);
            let new = Host { seen: Nanos::ZERO, reported, answered: now, silent_until: Nanos::ZERO };
            let host = self.hosts.entry(address).or_insert(new);
            match shows {
                Shows::Answer => host.answered = now,
                Shows::Reported => (host.seen, host.reported) = (now, Some(now)),
                Shows::Unreported | Shows::Unreadable => host.seen = now,
            }
        }
        if is_harm {
            self.harm = Some(now);
        }
        let is_due = self.harm.is_some_and(|at| now.saturating_sub(at) < GOES_ON);
        let mut probed = std::mem::take(&mut self.probed);
        for address in &probed {
            if let Some(host) = self.hosts.get_mut(address)
                && now.saturating_sub(host.answered) >= ANSWERS
            {
                host.silent_until = now.saturating_add(AGAIN);
            }
        }
        // That a host does not answer is known for longer than its calls.
        self.hosts.retain(|_, host| host.seen == now || host.silent_until > now);
        let is_wanted = |host: &Host| {
            is_due
                && host.seen == now
                && host.silent_until <= now
                && host.reported.is_none_or(|at| now.saturating_sub(at) >= WITHOUT_REPORT)
        };
        probed.retain(|address| self.hosts.get(address).is_some_and(is_wanted));
        for (address, host) in &mut self.hosts {
            if probed.len() < MAX_HOSTS && is_wanted(host) && !probed.contains(address) {
                host.answered = now;
                probed.push(*address);
            }
        }
        self.probed = probed;
        &self.probed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last byte of the address of each host that is probed, whenever that changes, with the second.
    fn chosen(seconds: u64, at: impl Fn(u64) -> (bool, Vec<(u8, Shows)>)) -> Vec<(u64, Vec<u8>)> {
        let mut unreported = Unreported::default();
        let mut changes: Vec<(u64, Vec<u8>)> = Vec::new();
        for ms in (100..1000 * seconds).step_by(100) {
            let (uploads, calls) = at(ms);
            let calls = calls.into_iter().map(|(last, shows)| (Address::v4([10, 1, 0, last]), shows));
            let of = |address: &Address| address.0[15];
            let now: Vec<u8> =
                unreported.update(Nanos::from_millis(ms), uploads, calls).iter().map(of).collect();
            if changes.last().map_or(&[][..], |(_, last)| last) != now {
                changes.push((ms / 1000, now));
            }
        }
        changes
    }

    #[test]
    fn hosts_are_probed_while_nothing_tells_of_a_call_and_something_is_uploaded() {
        let found = chosen(90, |ms| {
            let is_reported = ms % 5000 < 2500 || ms > 70_000;
            let reported = if is_reported { Shows::Reported } else { Shows::Unreported };
            let mut calls = vec![
                (1, Shows::Unreported),
                (2, reported),
                (3, if ms < 40_000 { Shows::Unreported } else { reported }),
            ];
            calls.push((1, Shows::Answer));
            calls.push((3, Shows::Answer));
            ((10_000..50_000).contains(&ms), calls)
        });
        // Ten seconds after the last upload there is none. Between reports there is none.
        assert_eq!(found, [(10, vec![1, 3]), (40, vec![1]), (59, vec![])]);
    }

    #[test]
    fn a_host_that_does_not_answer_makes_room_for_others_and_is_tried_again_after_a_minute() {
        let found = chosen(90, |ms| {
            let mut calls: Vec<_> = (1..=5).map(|last| (last, Shows::Unreported)).collect();
            calls.extend([1, 3, 4, 5].map(|last| (last, Shows::Answer)));
            // Its calls end and begin anew in that time.
            calls.retain(|(last, _)| *last != 2 || !(30_000..40_000).contains(&ms));
            (true, calls)
        });
        assert_eq!(found, [(7, vec![1, 2, 3, 4]), (12, vec![1, 3, 4, 5])]);
        let found = chosen(90, |_| (true, vec![(2, Shows::Unreported)]));
        assert_eq!(found, [(7, vec![2]), (12, vec![]), (72, vec![2]), (77, vec![])]);
    }

    /// Of these, no report will come. A host that has other calls is known by those.
    #[test]
    fn hosts_of_calls_whose_reports_cannot_be_read_are_probed_at_once() {
        let found = chosen(40, |ms| {
            let both = [(2, Shows::Reported), (2, Shows::Unreadable), (2, Shows::Answer)];
            let unreadable = [(1, Shows::Unreadable), (1, Shows::Answer)];
            (ms >= 1000, [&unreadable[..], &both[..if ms < 20_000 { 3 } else { 1 }]].concat())
        });
        assert_eq!(found, [(1, vec![1])]);
    }

    #[test]
    fn what_is_known_of_hosts_without_calls_is_forgotten() {
        let mut unreported = Unreported::default();
        for second in 0..1000_u64 {
            let bytes = (second as u32).to_be_bytes();
            let calls = [Shows::Unreported, Shows::Reported].map(|shows| (Address::v4(bytes), shows));
            unreported.update(Nanos::from_secs(second), true, calls.into_iter());
            assert!(unreported.hosts.len() <= 1);
        }
    }
}
