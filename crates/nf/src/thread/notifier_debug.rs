//! # NotifierDebug
//! Passes packets unchanged, and shows the signal that elements upstream or downstream of it give.
//!
//! ## Usage
//! `NotifierDebug`
//!
//! ## Handlers
//! - `signal`: the state of the signal: in a pull path, the signal that upstream elements have packets; in a
//!   push path, the signal that there is room downstream. The value is `busy*` if an element gives no signal,
//!   and `idle` if no element will ever give one. Otherwise it has one part per 32 elements that give the
//!   signal: a mask of these elements, a mask of the elements whose signal is on, and a star if any signal is
//!   on.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> n :: NotifierDebug -> Unqueue -> Discard; DriverManager(pause, print
//! n.signal)
//! ```
//!
//! ## See also
//! Queue

use element::{Class, Effects, Element, Handler, Signal, manual};

/// The element class `NotifierDebug`.
pub static CLASS: Class = Class {
    name: "NotifierDebug",
    manual: manual!("notifier_debug.rs"),
    table: &HANDLERS,
    build: |args| {
        args.finish()?;
        Ok(Box::new(NotifierDebug))
    },
    ..Class::DEFAULT
};

struct NotifierDebug;

/// Returns the text of the handler `signal` for the signal `name`. `signal_sources` has, for each element
/// that gives the signal, its number, and true if its signal is on. Each part of the text describes up to 32
/// elements.
fn show(name: &str, signal_sources: &[(usize, bool)]) -> String {
    let mut parts: Vec<(usize, u32, u32)> = Vec::new();
    for &(number, on) in signal_sources {
        let (word, bit) = (number / 32, 1 << (number % 32));
        match parts.iter_mut().find(|(w, ..)| *w == word) {
            Some((_, mask, value)) => {
                *mask |= bit;
                *value |= if on { bit } else { 0 };
            }
            None => parts.push((word, bit, if on { bit } else { 0 })),
        }
    }
    let show = |(word, mask, value): &(usize, u32, u32)| {
        format!("{name}.{word}/{mask:x}:{value:x}{}", if *value != 0 { "*" } else { "" })
    };
    parts.iter().map(show).collect::<Vec<_>>().join("+")
}

impl Element for NotifierDebug {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}

const HANDLERS: &[Handler<NotifierDebug>] = &[Handler::read("signal", |_, cx, _| {
    let (signal, name) = match cx.graph().input_is_push(0) {
        true => (Signal::Room, "full"),
        false => (Signal::Packets, "empty"),
    };
    Ok(match cx.graph().signal_sources(signal, 0) {
        None => "busy*".into(),
        Some(signal_sources) if signal_sources.is_empty() => "idle".into(),
        Some(signal_sources) => show(name, &signal_sources),
    })
})];

#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn signals_are_shown_in_words_of_32() {
        assert_eq!(show("empty", &[(0, true)]), "empty.0/1:1*");
        assert_eq!(show("empty", &[(1, false)]), "empty.0/2:0");
        assert_eq!(show("full", &[(0, true), (2, false), (33, true)]), "full.0/5:1*+full.1/2:2*");
    }
}
