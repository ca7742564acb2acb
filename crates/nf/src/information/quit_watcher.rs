//! # QuitWatcher
//! Stops the driver as soon as one of the watched elements has no more work to do.
//!
//! QuitWatcher checks every 10 milliseconds whether the tasks of the watched elements are scheduled.
//!
//! ## Usage
//! `QuitWatcher(ELEMENT, ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element with a handler `scheduled`.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 100) -> Discard; QuitWatcher(s)
//! ```
//!
//! ## See also
//! DriverManager

use element::args::{ArgType, ElementRef};
use element::class::ArgInfo;
use element::{Call, Class, Cx, Effects, Element, Timestamp, manual};

/// The element class `QuitWatcher`.
pub static CLASS: Class = Class {
    name: "QuitWatcher",
    ports: "0/0",
    manual: manual!("quit_watcher.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element")],
    build: |args| {
        let mut watched = Vec::new();
        args.each_of_rest(|args, _, name| match ElementRef::parse(name, &args.place()) {
            Ok(ElementRef(element)) => watched.push(Call::new(Some(element), "scheduled", "")),
            Err(reason) => args.error_as(reason, format!("'{name}' does not name an element")),
        });
        args.finish()?;
        Ok(Box::new(QuitWatcher { watched }))
    },
    ..Class::DEFAULT
};

struct QuitWatcher {
    /// The calls that read the handler `scheduled` of each watched element.
    watched: Vec<Call>,
}

/// The time between two checks, in nanoseconds: 10 ms.
const INTERVAL: Timestamp = Timestamp(10_000_000);

impl Element for QuitWatcher {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(call) = self.watched.iter().find(|call| !cx.graph().has_handler(call, false)) {
            let name = call.element.map(|id| cx.graph().name_of(id)).unwrap_or_default();
            return Err(format!("no '{name}.scheduled' read handler"));
        }
        if !self.watched.is_empty() {
            cx.set_timer(0, cx.now() + INTERVAL);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let idle =
            |scheduled: Result<String, String>| scheduled.is_ok_and(|s| s.is_empty() || s.starts_with('f'));
        if self.watched.iter().any(|call| idle(cx.handlers().read(call))) {
            cx.stop();
        } else {
            cx.set_timer(0, cx.now() + INTERVAL);
        }
    }
}
