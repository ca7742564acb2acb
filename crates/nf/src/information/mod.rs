//! Elements that give information to other elements or to the user, or watch other elements. No packets
//! pass through them.

pub mod address_info;
pub mod alignment_info;
pub mod annotation_info;
pub mod clicky_info;
pub mod devirtualize_info;
pub mod error;
pub mod jiffie_clock;
pub mod message;
pub mod port_info;
pub mod quit_watcher;
pub mod static_thread_sched;
pub mod tsc_clock;
