//! Starts and ends the environment abstraction layer (EAL) of DPDK, which is possible only once in a
//! process.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Mutex;

use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

unsafe extern "C" {
    fn tg_start(count: c_int, arguments: *mut *mut c_char, quiet: c_int) -> c_int;
    fn tg_cleanup();
    fn tg_said(to: *mut u8, size: u32) -> u32;
    safe fn tg_reason(error: c_int) -> *const c_char;
}

static STATE: Mutex<State> = Mutex::new(State::Never);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Never,
    Runs,
    /// DPDK has ended or has failed to start. DPDK cannot be started again in this process.
    Over,
}

fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(in crate::dpdk) fn is_running() -> bool {
    *state() == State::Runs
}

/// Returns DPDK's text for an error number.
pub(in crate::dpdk) fn reason(error: i32) -> String {
    // SAFETY: DPDK returns text that ends with a zero byte, in memory of this thread; only the thread's next
    // call of this function overwrites the text.
    unsafe { CStr::from_ptr(tg_reason(error)) }.to_string_lossy().into_owned()
}

/// Returns the output of DPDK and its drivers since the last call, at most the last 4096 bytes; empty if the
/// output is not captured.
pub(in crate::dpdk) fn said() -> String {
    let mut text = vec![0; 4096];
    // SAFETY: the buffer has room for `text.len()` bytes.
    let n = unsafe { tg_said(text.as_mut_ptr(), text.len() as u32) };
    text.truncate(n as usize);
    String::from_utf8_lossy(&text).trim().to_string()
}

/// Starts DPDK with the given arguments, of which the first is the program's name. With `quiet`, DPDK writes
/// nothing to standard output while it starts, and its messages are kept for [`said`] instead of written to
/// standard error.
///
/// # Errors
/// If DPDK was started before, an argument has a zero byte, or DPDK cannot be started.
pub(in crate::dpdk) fn start(arguments: &[String], quiet: bool) -> Result<(), String> {
    let mut state = state();
    if *state != State::Never {
        return Err("it can be started only once".into());
    }
    let words = arguments.iter().map(|word| CString::new(word.as_str()));
    let words =
        words.collect::<Result<Vec<_>, _>>().map_err(|_| "an argument has a zero byte".to_string())?;
    // DPDK keeps pointers to the arguments, so they are never freed.
    let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // DPDK pins the thread that starts it to a core. The thread's affinity is restored, because workers do
    // their own pinning.
    let allowed = sched_getaffinity(Pid::from_raw(0));
    // SAFETY: the pointer is to `count` strings that are never freed, and a null after them, as `main` gets
    // them.
    let result = unsafe { tg_start(count, pointers.leak().as_mut_ptr(), quiet.into()) };
    if let Ok(allowed) = allowed {
        let _ = sched_setaffinity(Pid::from_raw(0), &allowed);
    }
    *state = if result == 0 { State::Runs } else { State::Over };
    if result == 0 { Ok(()) } else { Err(reason(result)) }
}

/// Closes all ports and ends DPDK. Does nothing if DPDK does not run.
pub(in crate::dpdk) fn end() {
    let mut state = state();
    if *state == State::Runs {
        *state = State::Over;
        // SAFETY: DPDK runs, and nothing uses a port: elements have closed theirs when the graph has ended.
        unsafe { tg_cleanup() };
    }
}
