//! The analyses against straightforward second ones, on captures and on random packets; generated traces.

mod agreement;
mod by_hand;
mod generated;
mod multiply;
mod slow;
