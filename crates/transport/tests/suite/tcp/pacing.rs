//! Pacing inside TCP, as in Linux.

use fairhop_model::units::Nanos;
use fairhop_transport::tcp::{CongestionKind, SenderConfig};

use super::script::SenderScript;

fn bbr() -> SenderConfig {
    SenderConfig { congestion: CongestionKind::Bbr, ..SenderScript::config() }
}

#[test]
fn the_first_ten_segments_leave_at_once_and_the_others_at_the_pacing_rate() {
    let mut s = SenderScript::established(bbr());
    // The high gain times ten segments in 100 ms, less 1 %, in Linux's integer arithmetic.
    let rate = s.sender.pacing_rate().expect("BBR paces");
    assert!((283_000..=286_000).contains(&rate), "{rate}");
    assert_eq!(s.sent().len(), 10);
    // All segments are acknowledged at once: the window is 20, but pacing releases one after the other.
    s.after(100).ack(10);
    let rate = s.sender.pacing_rate().expect("BBR paces");
    let gap = Nanos(1_000_000_000_000 / rate);
    assert_eq!(s.sent(), [10]);
    let mut next = s.sender.next_timer().expect("a pacing timer");
    // The first was late, which shortens its gap by half.
    assert_eq!(next, s.now + Nanos(gap.0 - gap.0 / 2));
    for number in 11..15 {
        s.now = next - Nanos(1);
        s.sender.on_timer(s.now);
        assert!(s.sent().is_empty());
        s.now = next;
        s.sender.on_timer(s.now);
        assert_eq!(s.sent(), [number]);
        next = s.sender.next_timer().expect("a pacing timer");
        assert_eq!(next, s.now + gap);
    }
}

#[test]
fn a_sender_without_pacing_has_no_pacing_timer() {
    let mut s = SenderScript::established(SenderScript::config());
    assert_eq!((s.sender.pacing_rate(), s.sent().len()), (None, 10));
    assert_eq!(s.sender.next_timer(), Some(s.now + s.sender.rto()));
}
