//! Everything that wakes an element: tasks, timers, signals of other elements, files, and signals of the
//! operating system.

pub(crate) mod files;
pub(crate) mod os_signals;
pub(crate) mod signals;
pub(crate) mod tasks;
pub(crate) mod timers;
