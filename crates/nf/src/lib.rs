//! Elements, by topic: one file each, which is its manual, configuration, code and handlers.

pub mod annotation;
pub mod basic;
pub mod ethernet;
pub mod information;
pub mod ip;
pub mod latency;
mod patterns;
pub mod printers;
pub mod rate;
pub mod schedule;
pub mod script;
mod sorting;
pub mod source;
pub mod storage;
pub mod switch;
pub mod thread;
mod trigger;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] = &[
    &annotation::adjust_timestamp::CLASS,
    &annotation::paint::CLASS,
    &annotation::paint_switch::CLASS,
    &annotation::set_timestamp::CLASS,
    &annotation::set_timestamp_delta::CLASS,
    &annotation::time_filter::CLASS,
    &annotation::time_range::CLASS,
    &basic::average_counter::CLASS,
    &basic::counter::CLASS,
    &basic::discard::CLASS,
    &basic::idle::CLASS,
    &basic::null::CLASS,
    &basic::print::CLASS,
    &basic::pull_null::CLASS,
    &basic::pull_tee::CLASS,
    &basic::push_null::CLASS,
    &basic::strip::CLASS,
    &basic::tee::CLASS,
    &basic::unstrip::CLASS,
    &ethernet::classifier::CLASS,
    &ethernet::ether_encap::CLASS,
    &ethernet::ether_rewrite::CLASS,
    &information::address_info::CLASS,
    &information::alignment_info::CLASS,
    &information::error::CLASS,
    &information::message::CLASS,
    &information::port_info::CLASS,
    &information::quit_watcher::CLASS,
    &information::static_thread_sched::CLASS,
    &ip::check_ip_header::CLASS,
    &ip::dec_ip_ttl::CLASS,
    &ip::filter::ip_classifier::CLASS,
    &ip::filter::ip_filter::CLASS,
    &ip::mark_ip_header::CLASS,
    &latency::check_number_packet::CLASS,
    &latency::number_packet::CLASS,
    &latency::record_timestamp::CLASS,
    &latency::timestamp_diff::CLASS,
    &printers::arp_print::CLASS,
    &printers::ip6_print::CLASS,
    &printers::ip_print::CLASS,
    &rate::bandwidth_meter::CLASS,
    &rate::bandwidth_rated_splitter::CLASS,
    &rate::bandwidth_rated_unqueue::CLASS,
    &rate::bandwidth_shaper::CLASS,
    &rate::burster::CLASS,
    &rate::codel::CLASS,
    &rate::delay_shaper::CLASS,
    &rate::delay_unqueue::CLASS,
    &rate::link_unqueue::CLASS,
    &rate::meter::CLASS,
    &rate::random_bit_errors::CLASS,
    &rate::random_sample::CLASS,
    &rate::rated_splitter::CLASS,
    &rate::rated_unqueue::CLASS,
    &rate::red::CLASS,
    &rate::shaper::CLASS,
    &rate::timed_sink::CLASS,
    &rate::timed_unqueue::CLASS,
    &schedule::drr_sched::CLASS,
    &schedule::prio_sched::CLASS,
    &schedule::pull_switch::CLASS,
    &schedule::round_robin_multi_sched::CLASS,
    &schedule::round_robin_sched::CLASS,
    &schedule::simple_pull_switch::CLASS,
    &schedule::static_pull_switch::CLASS,
    &schedule::stride_sched::CLASS,
    &schedule::time_sorted_sched::CLASS,
    &script::CLASS,
    &script::driver_manager::CLASS,
    &source::infinite_source::CLASS,
    &source::rated_source::CLASS,
    &source::replay_unqueue::CLASS,
    &source::timed_source::CLASS,
    &storage::cpu_queue::CLASS,
    &storage::front_drop_queue::CLASS,
    &storage::mixed_queue::CLASS,
    &storage::notifier_queue::CLASS,
    &storage::queue::CLASS,
    &storage::quick_note_queue::CLASS,
    &storage::simple_queue::CLASS,
    &storage::thread_safe_queue::CLASS,
    &storage::unqueue::CLASS,
    &storage::unqueue2::CLASS,
    &switch::hash_switch::CLASS,
    &switch::hub::CLASS,
    &switch::paint_rr::CLASS,
    &switch::random_switch::CLASS,
    &switch::round_robin_switch::CLASS,
    &switch::static_switch::CLASS,
    &switch::stride_switch::CLASS,
    &switch::switch::CLASS,
    &thread::block_thread::CLASS,
    &thread::cpu_switch::CLASS,
    &thread::exact_cpu_switch::CLASS,
    &thread::notifier_debug::CLASS,
    &thread::path_spinlock::CLASS,
    &thread::pipeliner::CLASS,
    &thread::random_seed::CLASS,
    &thread::schedule_info::CLASS,
    &thread::spinlock_acquire::CLASS,
    &thread::spinlock_info::CLASS,
];
