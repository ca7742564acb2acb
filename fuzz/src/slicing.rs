//! A fuzz target for sliced packets, whose payloads are parked until they are joined again, and for packets
//! that reach a join without having been sliced.

use engine::End;
use testkit::TestRun;
use testkit::elements::{Seen, collect, offer};

use crate::chain::inputs;

/// A chain with three paths. Packets that were sliced and joined reach sink 0 (table without markers) and
/// sink 1 (small table with markers). Packets that were never sliced go to a join, and then to sink 2.
const CHAIN: &str = "
    a :: PayloadTable(ENTRIES 100, MARKER none); b :: PayloadTable(ENTRIES 3, TTL 2);
    TestSource(%, 0) -> t :: Tee(3);
    t[0] -> Slice(a, THRESHOLD 20) -> Splice(a) -> TestSink(%, 0);
    t[1] -> Slice(b, THRESHOLD 60, BYTES 30) -> Queue -> Unqueue -> Splice(b) -> TestSink(%, 1);
    t[2] -> [1] other :: Slicer; other -> TestSink(%, 2); Idle -> other; other [1] -> Discard;
";

/// Slices and joins the packets of an input. Checks that packets come out unchanged by the path without
/// markers, and with the length of an input packet by the path with markers. The input has the format of
/// [`packets`](crate::packets).
pub fn slicing(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let inputs = inputs(data);
    let given: Vec<_> = inputs.iter().map(|input| input.bytes.clone()).collect();
    let number = offer(vec![inputs]);
    let run = TestRun { burst: Some(1 + usize::from(first) % 64), ..TestRun::default() };
    let outcome = run.text(&CHAIN.replace('%', &number.to_string()), &[]).expect("the chain is right");
    let seen = collect(number);
    assert_eq!((outcome.end, &outcome.errors), (End::Idle, &vec![]));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let of = |sink| seen.iter().filter(move |seen: &&Seen| seen.sink == sink).map(|seen| &seen.bytes);
    // Without markers in the packets, nothing in an input is taken for the token of another packet's
    // payload.
    assert!(of(0).eq(&given), "without a mark");
    // If the table has no room, a packet that has the mark (DSCP 63) from outside is lost. All packets that
    // arrive have the length of an input packet.
    assert!(of(1).all(|bytes| given.iter().any(|whole| whole.len() == bytes.len())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_sliced() {
        crate::seeds::of("slicing").iter().for_each(|seed| slicing(seed));
    }
}
