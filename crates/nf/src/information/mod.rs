//! Elements that tell others something and see no packets.

pub mod address_info;
pub mod static_thread_sched;
