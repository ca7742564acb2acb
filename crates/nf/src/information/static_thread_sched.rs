//! # StaticThreadSched
//! Assigns elements to threads.
//!
//! Each argument is an element, or a compound element that stands for all elements in it, and a thread.
//! Negative threads count from the last one. As long as there is one thread, all elements run on it, and the
//! assignment shows in the handler `home_thread` only.
//!
//! ## Usage
//! `StaticThreadSched(ELEMENT THREAD, ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element and its thread.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 1) -> Discard; StaticThreadSched(s 0)
//! ```
//!
//! ## See also
//! AddressInfo

use element::args::parse_integer;
use element::class::{ArgInfo, Phase};
use element::{Class, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "StaticThreadSched",
    ports: "0/0",
    manual: manual!("static_thread_sched.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element thread")],
    phase: Phase::Information,
    build: |args| {
        for text in args.rest() {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (name, thread) = match words[..] {
                [] => continue,
                [name, thread] => (name, thread),
                [_] => {
                    args.error("THREAD: required argument missing");
                    continue;
                }
                _ => {
                    args.error("too many arguments");
                    continue;
                }
            };
            let Ok(thread) = parse_integer(thread) else {
                args.error("THREAD: invalid number");
                continue;
            };
            let inside = format!("{name}/");
            let whole: Vec<_> = match args.place().element(name) {
                Some(id) => vec![id],
                None => {
                    let all = args.setup.elements.iter().enumerate();
                    all.filter(|(_, (n, _))| n.starts_with(&inside)).map(|(id, _)| id).collect()
                }
            };
            if whole.is_empty() {
                args.error(format!("'{name}' does not name an element"));
            }
            for id in whole {
                // Threads that do not exist are reported when the number of workers is known.
                args.setup.threads.insert(id, usize::try_from(thread).unwrap_or(0));
            }
        }
        args.finish()?;
        Ok(Box::new(StaticThreadSched))
    },
    ..Class::DEFAULT
};

struct StaticThreadSched;

impl Element for StaticThreadSched {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
