//! Threads for work beside the workers: building a configuration, composing programs, making machine code,
//! writing state.
//!
//! These threads must not take the time in which a worker would process packets. So they run at a lower
//! priority, and on all processors of the process: a thread that a worker starts would otherwise stay on the
//! processor that the worker is bound to.

use std::io;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The niceness that is added to that of the process. On a processor that a worker keeps busy, a thread with
/// this niceness gets a quarter of the time, and its work takes four times as long.
const NICE: i32 = 5;

/// The processors that the process may use.
static PROCESSORS: OnceLock<Option<CpuSet>> = OnceLock::new();

/// Returns the processors that the process may use, or `None` if the system does not tell. The first call has
/// to be made before a worker is bound to a processor.
pub fn processors() -> Option<&'static CpuSet> {
    PROCESSORS.get_or_init(|| sched_getaffinity(Pid::from_raw(0)).ok()).as_ref()
}

/// Starts a thread for work beside the workers.
///
/// # Errors
/// If the system has no room for a further thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(move || {
        // If the system refuses one of these, the work is done all the same.
        let _ = processors().map(|processors| sched_setaffinity(Pid::from_raw(0), processors));
        let _ = rustix::process::nice(NICE);
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_nicer_and_not_bound() {
        let before = processors().copied().unwrap();
        let of_thread = || (sched_getaffinity(Pid::from_raw(0)).unwrap(), rustix::process::nice(0).unwrap());
        let bound = std::thread::spawn(move || {
            let mut one = CpuSet::new();
            let first = (0..CpuSet::count()).find(|&core| before.is_set(core) == Ok(true)).unwrap();
            one.set(first).unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            let own = of_thread();
            assert_eq!(own.0, one);
            (own.1, spawn("test", of_thread).unwrap().join().unwrap())
        });
        let (nice, (processors, nicer)) = bound.join().unwrap();
        assert_eq!((processors, nicer), (before, (nice + NICE).min(19)));
    }
}
