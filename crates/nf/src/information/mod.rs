//! Elements that declare information or watch other elements, and process no packets.

pub mod address_info;
pub mod alignment_info;
pub mod error;
pub mod message;
pub mod port_info;
pub mod quit_watcher;
pub mod static_thread_sched;
