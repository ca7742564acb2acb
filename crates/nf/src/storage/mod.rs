//! Queues, which store packets between a push path and a pull path, and elements that pull packets from
//! queues and push them.

pub mod cpu_queue;
pub mod fifo;
pub mod front_drop_queue;
pub mod mixed_queue;
pub mod notifier_queue;
pub mod queue;
pub mod quick_note_queue;
pub mod simple_queue;
pub mod thread_safe_queue;
pub mod unqueue;
pub mod unqueue2;
pub(crate) mod watched;
