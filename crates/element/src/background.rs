//! Threads for work beside the workers: building a configuration, composing programs, making machine code,
//! writing state.
//!
//! These threads should take little of the time in which a worker would process packets. So they run at a
//! lower priority, and on all processors of the process: a thread that a worker starts would otherwise stay
//! on the processor that the worker is bound to.

use std::io;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The niceness that is added to that of the process. On a processor that a worker keeps busy, a thread with
/// 5 more than the worker gets a quarter of the time, and its work takes four times as long.
const NICE: i32 = 5;

/// The processors that the process may use, and its niceness; `None` if the system does not tell.
struct Process {
    processors: Option<CpuSet>,
    niceness: Option<i32>,
}

/// The processors and the niceness of the process. They are read once, because a thread inherits its own from
/// the thread that starts it. That thread may be bound to a processor, or have been started by [`spawn`].
static PROCESS: OnceLock<Process> = OnceLock::new();

fn process() -> &'static Process {
    PROCESS.get_or_init(|| Process {
        processors: sched_getaffinity(Pid::from_raw(0)).ok(),
        niceness: rustix::process::getpriority_process(None).ok(),
    })
}

/// Returns the processors that the process may use, or `None` if the system does not tell. The first call has
/// to be made before a worker is bound to a processor.
pub fn processors() -> Option<&'static CpuSet> {
    process().processors.as_ref()
}

/// Starts a thread for work beside the workers.
///
/// # Errors
/// If the system has no room for a further thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let Process { processors, niceness } = process();
    Builder::new().name(name.into()).spawn(move || {
        // If the system refuses the processors or the lower priority, the work is done all the same.
        let _ = processors.as_ref().map(|processors| sched_setaffinity(Pid::from_raw(0), processors));
        // A user may have lowered the priority of all threads meanwhile. A priority that is already lower
        // than the wanted one is not raised again.
        let own = rustix::process::getpriority_process(None).unwrap_or_default();
        let wanted = niceness.map(|niceness| niceness + NICE).filter(|&wanted| wanted > own);
        let _ = wanted.map(|wanted| rustix::process::setpriority_process(None, wanted));
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
            // A thread that a thread of this module starts has the same processors and priority.
            let both = move || (of_thread(), spawn("inner", of_thread).unwrap().join().unwrap());
            (own.1, spawn("outer", both).unwrap().join().unwrap())
        });
        let (nice, threads) = bound.join().unwrap();
        let expected = (before, (nice + NICE).min(19));
        assert_eq!(threads, (expected, expected));
    }
}
