//! Elements that depend on threads or control tasks and locks, of which most matter only with several
//! workers, and elements for tests (BlockThread, NotifierDebug, RandomSeed).

pub mod block_thread;
pub mod cpu_switch;
pub mod exact_cpu_switch;
pub mod notifier_debug;
pub mod path_spinlock;
pub mod pipeliner;
pub mod random_seed;
pub mod schedule_info;
pub mod spinlock_acquire;
pub mod spinlock_info;
