//! Elements, by topic: one file each, which is its manual, configuration, code and handlers.

pub mod annotation;
pub mod basic;
pub mod ethernet;
pub mod information;
pub mod ip;
mod patterns;
pub mod script;
mod sorting;
pub mod source;
pub mod storage;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[
    &annotation::paint::CLASS,
    &annotation::paint_switch::CLASS,
    &annotation::set_timestamp::CLASS,
    &basic::average_counter::CLASS,
    &basic::counter::CLASS,
    &basic::discard::CLASS,
    &basic::idle::CLASS,
    &basic::null::CLASS,
    &basic::print::CLASS,
    &basic::strip::CLASS,
    &basic::tee::CLASS,
    &basic::unstrip::CLASS,
    &ethernet::classifier::CLASS,
    &ethernet::ether_encap::CLASS,
    &ethernet::ether_rewrite::CLASS,
    &information::address_info::CLASS,
    &information::static_thread_sched::CLASS,
    &ip::check_ip_header::CLASS,
    &ip::dec_ip_ttl::CLASS,
    &ip::filter::ip_classifier::CLASS,
    &ip::filter::ip_filter::CLASS,
    &ip::mark_ip_header::CLASS,
    &storage::queue::CLASS,
    &storage::unqueue::CLASS,
    &script::driver_manager::CLASS,
    &script::CLASS,
    &source::infinite_source::CLASS,
    &source::rated_source::CLASS,
    &source::replay_unqueue::CLASS,
    &source::timed_source::CLASS,
];
