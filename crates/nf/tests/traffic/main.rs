//! Tests of elements that make, hold, choose or measure packets, without a look at their headers: sources,
//! queues, schedulers, shapers, meters, time stamps.

mod fast_sources;
mod meters;
mod queues;
mod timestamps;
mod work;
