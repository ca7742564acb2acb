//! The declaration of the state that a class keeps, and of what a reload does with it.
//!
//! A reload replaces the running configuration by another configuration. Each new element gets the state of
//! the old element with the same name and class ([`Element::take_state`](crate::Element::take_state)). A
//! class lists the parts of its state ([`Class::state`](crate::Class::state)), each with the read handlers
//! that show it:
//!
//! ```
//! use element::StatePart;
//! const STATE: &[StatePart] = &[
//!     StatePart::kept("mappings", &["table", "table_size"]),
//!     StatePart::lost("cache", "the rules may have changed", &["cache_hits"]),
//! ];
//! ```
//!
//! The manual and `docs/reload.md` are made from the declarations, and a generic test compares each class
//! with its declaration.

use std::fmt::{self, Write};

use crate::Class;

/// A part of the state of an element, and what a reload does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// The name of this part of an element's state, in the user's words, such as `mappings`, `packets` or
    /// `counts`.
    pub name: &'static str,
    /// The names of the read handlers that show this part of an element's state. Handlers with numbers, such
    /// as `pattern0`, are named without the number.
    pub handlers: &'static [&'static str],
    /// The names of the tables of state that belong to this part of an element's state, if they differ from
    /// the part's name ([`State::table`](crate::effects::State::table)).
    pub tables: &'static [&'static str],
    /// The effect of a reload on the part.
    pub fate: OnReload,
    /// True if this part of an element's state survives a restart with the same state file ([`crate::save`]).
    pub on_disk: bool,
}

/// The effect of a reload on a part of an element's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReload {
    /// The new element continues with this part of the old element's state.
    Kept,
    /// The packets in this part of the old element's state leave by the element's outputs, in order, and
    /// nothing of this part remains.
    Drained,
    /// The new element starts without this part of the old element's state. The text is the reason: a short
    /// sentence for users, without capital letter and full stop.
    Lost(&'static str),
}

impl StatePart {
    /// Declares a part of an element's state that is kept by a reload.
    pub const fn kept(name: &'static str, handlers: &'static [&'static str]) -> StatePart {
        StatePart { name, handlers, tables: &[], fate: OnReload::Kept, on_disk: false }
    }

    /// Declares a part whose packets leave the element on a reload.
    pub const fn drained(name: &'static str, handlers: &'static [&'static str]) -> StatePart {
        StatePart { fate: OnReload::Drained, ..StatePart::kept(name, handlers) }
    }

    /// Declares a part that is lost on a reload, for this reason.
    pub const fn lost(
        name: &'static str,
        reason: &'static str,
        handlers: &'static [&'static str],
    ) -> StatePart {
        StatePart { fate: OnReload::Lost(reason), ..StatePart::kept(name, handlers) }
    }

    /// Returns this part of an element's state with the tables of state that belong to it, if they have other
    /// names than the part.
    #[must_use]
    pub const fn with_tables(self, tables: &'static [&'static str]) -> StatePart {
        StatePart { tables, ..self }
    }

    /// Returns the part as a part that also survives a restart with the same state file. Its class has a
    /// [`saved_form`](Class::saved_form).
    #[must_use]
    pub const fn on_disk(self) -> StatePart {
        StatePart { on_disk: true, ..self }
    }

    /// True if the read handler `name` shows the part.
    pub fn is_shown_by(&self, name: &str) -> bool {
        let is_numbered = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        self.handlers.iter().any(|handler| name.strip_prefix(handler).is_some_and(is_numbered))
    }

    /// Returns the names of the read handlers that show this part of an element's state, in backquotes.
    fn shown(&self) -> String {
        let names: Vec<String> = self.handlers.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    /// True if the table `name` of an element's effects belongs to this part of the element's state.
    pub fn has_table(&self, name: &str) -> bool {
        self.name == name || self.tables.contains(&name)
    }
}

/// Returns the parts of the state of a class for its manual: one line for each part, with the effect of a
/// reload and the read handlers that show the part. Empty for a class that keeps nothing.
pub fn describe(class: &Class) -> String {
    class.state.iter().fold(String::new(), |mut text, part| {
        let shown = part.shown();
        let shown = if shown.is_empty() { shown } else { format!(" ({shown})") };
        let saved = if part.on_disk { "; kept by a restart with --state" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {}{shown}: {}{saved}", part.name, part.fate);
        text
    })
}

/// Returns the table of the state of classes for a document: one row for each part.
pub fn table<'c>(classes: impl IntoIterator<Item = &'c Class>) -> String {
    let mut text = String::from(
        "| element | state | handlers | on a reload | on a restart |\n| --- | --- | --- | --- | --- |\n",
    );
    for class in classes {
        for part in class.state {
            let (name, shown, fate) = (part.name, part.shown(), part.fate);
            let restart = if part.on_disk { "kept" } else { "" };
            let _ = writeln!(text, "| {} | {name} | {shown} | {fate} | {restart} |", class.name);
        }
    }
    text
}

impl fmt::Display for OnReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnReload::Kept => f.write_str("kept"),
            OnReload::Drained => f.write_str("the packets leave, in order"),
            OnReload::Lost(reason) => write!(f, "lost: {reason}"),
        }
    }
}

/// The functions [`take_state`](crate::Element::take_state) and
/// [`put_state`](crate::Element::put_state) for an element whose kept state is the value of some of its
/// fields. The fields are copied, because packets may pass the old element once more when the old graph is
/// drained.
///
/// ```
/// # use element::{Effects, Element};
/// # #[derive(Clone)]
/// # struct Counts;
/// struct Meter {
///     limit: u32,
///     counts: Counts,
/// }
///
/// impl Element for Meter {
///     element::keeps!(counts);
/// #   fn effects(&self) -> Effects { Effects::pass() }
/// }
/// ```
#[macro_export]
macro_rules! keeps {
    ($($($field:tt).+),+) => {
        fn take_state(&mut self) -> Option<Box<dyn std::any::Any + Send>> {
            Some(Box::new(($(self.$($field).+.clone(),)+)))
        }

        fn put_state(
            &mut self,
            _cx: &mut $crate::Cx<'_>,
            state: Box<dyn std::any::Any + Send>,
        ) -> Result<(), String> {
            ($(self.$($field).+,)+) = *state.downcast().map_err(|_| "the state of another class")?;
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shown_by_their_handlers() {
        let part = StatePart::kept("connections", &["count", "load"]).with_tables(&["flows"]);
        for (name, is_shown) in [("count", true), ("load12", true), ("loads", false), ("coun", false)] {
            assert_eq!(part.is_shown_by(name), is_shown, "{name}");
        }
        const STATE: &[StatePart] = &[StatePart::lost("cache", "too old", &["hits"])];
        let class = Class { name: "X", state: STATE, ..Class::DEFAULT };
        assert_eq!(describe(&class), "- cache (`hits`): lost: too old\n");
        assert!(table([&class]).ends_with("| X | cache | `hits` | lost: too old |  |\n"));
        const SAVED: &[StatePart] = &[StatePart::kept("mappings", &[]).on_disk()];
        let class = Class { name: "Y", state: SAVED, saved_form: Some(1), ..Class::DEFAULT };
        assert_eq!(describe(&class), "- mappings: kept; kept by a restart with --state\n");
        assert!(table([&class]).ends_with("| Y | mappings |  | kept | kept |\n"));
        assert!(part.has_table("flows") && part.has_table("connections") && !part.has_table("count"));
    }
}
