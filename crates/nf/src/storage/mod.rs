//! Queues between push and pull paths, and elements that pull from them.

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
