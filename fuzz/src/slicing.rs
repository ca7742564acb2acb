//! A fuzz target for packets whose payloads are parked, and for packets that reach a join without having
//! been sliced.

use engine::End;
use testkit::Run;
use testkit::elements::{Seen, collect, offer};

use crate::chain::inputs;

/// A chain in which packets that were sliced and joined with each kind of table reach sinks 0 and 1;
/// packets that reach a splicer unsliced go to sink 2.
const CHAIN: &str = "
    a :: PayloadTable(ENTRIES 100, MARKER none); b :: PayloadTable(ENTRIES 3, TTL 2);
    TestSource(%, 0) -> t :: Tee(3);
    t[0] -> Slice(a, THRESHOLD 20) -> Splice(a) -> TestSink(%, 0);
    t[1] -> Slice(b, THRESHOLD 60, BYTES 30) -> Queue -> Unqueue -> Splice(b) -> TestSink(%, 1);
    t[2] -> [1] other :: Slicer; other -> TestSink(%, 2); Idle -> other; other [1] -> Discard;
";

/// Slices packets and joins them; checks that they come out unchanged. The input has the format of
/// [`packets`](crate::packets).
pub fn slicing(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let inputs = inputs(data);
    let given: Vec<_> = inputs.iter().map(|input| input.bytes.clone()).collect();
    let number = offer(vec![inputs]);
    let run = Run { burst: Some(1 + usize::from(first) % 64), ..Run::default() };
    let outcome = run.text(&CHAIN.replace('%', &number.to_string()), &[]).expect("the chain is right");
    let seen = collect(number);
    assert_eq!((outcome.end, &outcome.errors), (End::Idle, &vec![]));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let of = |sink| seen.iter().filter(move |seen: &&Seen| seen.sink == sink).map(|seen| &seen.bytes);
    // No input can forge a token.
    assert!(of(0).eq(&given), "without a mark");
    // If the table has no room, a packet with a foreign mark is lost; no other packet is.
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
