//! Arbitrary bytes as messages and as events: what the fuzz target `routing` checks, bounded.

#[path = "../../../../fuzz/check_routing.rs"]
mod check_routing;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_happens_nothing_panics_and_nothing_grows_without_bound(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        check_routing::check(&bytes);
    }

    /// Messages that can be read, at random times.
    #[test]
    fn well_formed_messages_in_any_order_do_no_harm(
        events in prop::collection::vec((any::<[u8; 2]>(), 1..=4_u8, any::<[u8; 24]>()), 0..60),
    ) {
        let mut bytes = Vec::new();
        for ([event, argument], kind, body) in events {
            // An event with a message of 24 bytes.
            bytes.extend([(22 << 3) | (event % 3), argument, kind]);
            bytes.extend(&body[1..]);
        }
        check_routing::check(&bytes);
    }
}
