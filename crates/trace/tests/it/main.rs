//! Tests of the analyses against a second, straightforward implementation, on captures and on random
//! packets; tests of generated traces.

mod agreement;
mod by_hand;
mod generated;
mod multiply;
mod slow;
