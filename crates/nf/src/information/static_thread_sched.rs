//! # StaticThreadSched
//! Assigns elements to threads.
//!
//! Each argument is an element, or a compound element for all elements in it, and a thread. Negative
//! threads count from the last thread, which is -1. A thread that does not exist means the first thread,
//! with a warning. If there is only one thread, all elements run on it, and the assignment shows only in
//! the handler `home_thread`.
//!
//! ## Usage
//! `StaticThreadSched(ELEMENT THREAD, ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element and its thread. The thread may be written `NODE/INDEX`, as in FastClick: it then
//!   is the number of the core with this index, from 0, of the NUMA node.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 1) -> Discard; StaticThreadSched(s 0)
//! ```
//!
//! ## See also
//! AddressInfo

use element::args::{not_a, parse_integer};
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, manual};

/// The element class `StaticThreadSched`.
pub static CLASS: Class = Class {
    name: "StaticThreadSched",
    ports: "0/0",
    manual: manual!("static_thread_sched.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element thread")],
    phase: ConfigurePhase::Information,
    build: |args| {
        args.each_of_rest(|args, _, text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (name, thread) = match words[..] {
                [] => return,
                [name, thread] => (name, thread),
                [_] => {
                    args.error("THREAD: required argument missing");
                    return;
                }
                _ => {
                    args.error("too many arguments");
                    return;
                }
            };
            let numbers: Result<Vec<i128>, _> = thread.split('/').map(parse_integer).collect();
            let thread = match numbers.as_deref() {
                Ok(&[thread]) => thread,
                Ok(&[node, index]) => core_of(node, index).unwrap_or_else(|| {
                    args.warn(format!("Socket {node} has no usable core {index}"));
                    0
                }),
                _ => {
                    let text = format!("THREAD: {}", not_a(thread, "a whole number"));
                    args.error_as(text, "THREAD: invalid number");
                    return;
                }
            };
            let inside = format!("{name}/");
            let whole: Vec<_> = match args.place().element(name) {
                Some(id) => vec![id],
                None => {
                    let all = args.setup.elements.iter().enumerate();
                    all.filter(|(_, (n, _))| n.starts_with(&inside)).map(|(id, _)| id).collect()
                }
            };
            if thread_of(thread, args.setup.workers).is_none() {
                args.warn(format!("thread preference {thread} out of range"));
            }
            if whole.is_empty() {
                args.error_as(
                    not_a(name, "the name of an element"),
                    format!("'{name}' does not name an element"),
                );
            }
            for id in whole {
                let thread = thread_of(thread, args.setup.workers);
                args.setup.threads.insert(id, thread.unwrap_or(0));
            }
        });
        args.finish()?;
        Ok(Box::new(StaticThreadSched))
    },
    ..Class::DEFAULT
};

/// Returns the thread that a number denotes, counted from the last thread if it is negative; `None` if
/// there is no such thread. If there is only one thread, any number is accepted and shown by `home_thread`;
/// negative numbers become 0.
fn thread_of(number: i128, threads: usize) -> Option<usize> {
    let all = threads as i128;
    let thread = if number < 0 { number + all } else { number };
    match threads {
        1 => Some(usize::try_from(number).unwrap_or(0)),
        _ if (0..all).contains(&thread) => usize::try_from(thread).ok(),
        _ => None,
    }
}

/// Returns the number of the core with an index, from 0, among the cores of a NUMA node. `None` if there is
/// no such node or core, or the kernel does not tell.
fn core_of(node: i128, index: i128) -> Option<i128> {
    let list = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok()?;
    nth_core(&list, usize::try_from(index).ok()?)
}

/// Returns the core with an index, from 0, in a list of the kernel such as `0-3,8`.
fn nth_core(list: &str, index: usize) -> Option<i128> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i128>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().nth(index)
}

struct StaticThreadSched;

impl Element for StaticThreadSched {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}

#[cfg(test)]
mod tests {
    use super::{nth_core, thread_of};

    #[test]
    fn cores_of_a_node_are_counted() {
        let cores = [0, 3, 4, 5, 6].map(|index| nth_core("0-3,8,10-11\n", index));
        assert_eq!(cores, [Some(0), Some(3), Some(8), Some(10), Some(11)]);
        assert_eq!((nth_core("0-3,8\n", 5), nth_core("\n", 0)), (None, None));
    }

    #[test]
    fn negative_threads_count_from_the_last_one() {
        let threads = [-4, -3, -1, 0, 2, 3].map(|number| thread_of(number, 3));
        assert_eq!(threads, [None, Some(0), Some(2), Some(0), Some(2), None]);
        assert_eq!([-1, 0, 5].map(|number| thread_of(number, 1)), [Some(0), Some(0), Some(5)]);
    }
}
