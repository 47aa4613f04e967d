//! PSH.

use fairhop_transport::tcp::{Flags, SenderConfig};

use super::script::{MSS, SENDER_SEQ, SenderScript};

/// Numbers of the segments with PSH, out of seven and a half that are sent under a window of two.
fn pushed(config: SenderConfig) -> Vec<u64> {
    let mut s = SenderScript::opened(SenderConfig { mss: MSS, initial_seq: SENDER_SEQ, ..config });
    s.sender.offer(7500);
    s.window = 2000;
    s.after(100).answer_syn(0);
    s.acks();
    let mut pushed = Vec::new();
    for acked in [0, 2, 4, 6] {
        s.ack(acked);
        let sent = s.poll();
        assert_eq!(sent.len(), 2, "after {acked}");
        let numbers = sent.iter().zip(acked..).filter(|(segment, _)| segment.flags.has(Flags::PSH));
        pushed.extend(numbers.map(|(_, number)| number));
    }
    pushed
}

#[test]
fn rfc9293_3_9_1_2_the_end_of_a_write_is_pushed_and_linux_pushes_every_half_of_the_window() {
    assert_eq!(pushed(SenderConfig::default()), [7]);
    assert_eq!(pushed(SenderConfig { timestamps: false, ..SenderConfig::linux() }), [1, 3, 5, 7]);
}
