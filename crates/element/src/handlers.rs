//! Tables of handlers: each class lists its handlers together with the functions that answer them.
//!
//! The table of a class is a constant in the element's file. Each entry has the name of a handler and typed
//! functions of the element, so that no name can be declared without an answer:
//!
//! ```
//! use element::Handler;
//! # struct Counter { count: u64, active: bool }
//! const HANDLERS: &[Handler<Counter>] = &[
//!     Handler::count("count", |e| e.count),
//!     Handler::act("reset", |e| e.count = 0),
//!     Handler::flag("active", |e| &mut e.active, "expected boolean"),
//! ];
//! ```
//!
//! The class refers to the table (`table: &HANDLERS`). The engine looks a handler up by its name when it is
//! called, which is slow but never happens for packets.

use std::any::Any;

use crate::args::parse_bool;
use crate::class::{Access, HandlerInfo, HandlerTable};
use crate::{Class, Cx, Element};

/// A handler of elements of the type `E`: its description, and the functions that answer reads and writes.
pub struct Handler<E> {
    info: HandlerInfo,
    read: Read<E>,
    write: Write<E>,
}

/// The way in which a handler answers reads.
enum Read<E> {
    Nothing,
    Count(fn(&E) -> u64),
    Get(fn(&E) -> String),
    Answer(Answer<E>),
    Flag(fn(&mut E) -> &mut bool),
}

/// The way in which a handler executes writes.
enum Write<E> {
    Nothing,
    Act(fn(&mut E)),
    Set(Set<E>),
    /// Parses a truth value and stores it in the field that the function returns. The text is the error for
    /// other values.
    Flag(fn(&mut E) -> &mut bool, &'static str),
}

/// A function that answers a read handler. Its arguments are the element, the context and the parameter of
/// the read. An error is a text for the user.
pub type Answer<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<String, String>;
/// A function that executes a write handler. Its arguments are the element, the context and the value that
/// is written. An error is a text for the user.
pub type Set<E> = fn(&mut E, &mut Cx<'_>, &str) -> Result<(), String>;

impl<E> Handler<E> {
    const fn reads(info: HandlerInfo, read: Read<E>) -> Handler<E> {
        Handler { info, read, write: Write::Nothing }
    }

    const fn writes(name: &'static str, write: Write<E>) -> Handler<E> {
        Handler { info: HandlerInfo::write(name), read: Read::Nothing, write }
    }

    /// A read handler whose value `get` returns. The value of the first worker is shown.
    pub const fn get(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Get(get))
    }

    /// A read handler for a count, which `count` returns. The counts of several workers are added.
    pub const fn count(name: &'static str, count: fn(&E) -> u64) -> Handler<E> {
        Handler::reads(HandlerInfo::count(name), Read::Count(count))
    }

    /// A read handler for a list, whose lines `get` returns. The lines of several workers become one list.
    pub const fn list(name: &'static str, get: fn(&E) -> String) -> Handler<E> {
        Handler::reads(HandlerInfo::list(name), Read::Get(get))
    }

    /// A handler for reads and writes: `get` returns its value, and `set` executes writes.
    pub const fn data(name: &'static str, get: fn(&E) -> String, set: Set<E>) -> Handler<E> {
        Handler { info: HandlerInfo::both(name), read: Read::Get(get), write: Write::Set(set) }
    }

    /// A read handler whose value `answer` returns. Unlike in [`get`](Self::get), the function may use the
    /// context, change the element, and fail.
    pub const fn read(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read(name), Read::Answer(answer))
    }

    /// A read handler with a parameter, which `answer` gets.
    pub const fn read_param(name: &'static str, answer: Answer<E>) -> Handler<E> {
        Handler::reads(HandlerInfo::read_param(name), Read::Answer(answer))
    }

    /// A write handler that `set` executes with the value that is written.
    pub const fn set(name: &'static str, set: Set<E>) -> Handler<E> {
        Handler::writes(name, Write::Set(set))
    }

    /// A write handler that calls `act`, whatever the value that is written.
    pub const fn act(name: &'static str, act: fn(&mut E)) -> Handler<E> {
        Handler::writes(name, Write::Act(act))
    }

    /// A handler that reads and writes the truth value to which `flag` refers. A write of another value
    /// fails with the text `error`.
    pub const fn flag(name: &'static str, flag: fn(&mut E) -> &mut bool, error: &'static str) -> Handler<E> {
        Handler { info: HandlerInfo::both(name), read: Read::Flag(flag), write: Write::Flag(flag, error) }
    }

    /// Returns a read handler as a handler for reads and writes: `set` executes writes.
    #[must_use]
    pub const fn and_set(self, set: Set<E>) -> Handler<E> {
        let access = Access { write: true, ..self.info.access };
        Handler { info: HandlerInfo { access, ..self.info }, read: self.read, write: Write::Set(set) }
    }

    /// Returns the handler with the rule that the values of several workers are added
    /// ([`Merge::Sum`](crate::class::Merge::Sum)).
    #[must_use]
    pub const fn summed(self) -> Handler<E> {
        Handler { info: self.info.summed(), ..self }
    }

    /// Returns the handler with the rule that the values of several workers are tables whose columns of
    /// numbers are added ([`Merge::Columns`](crate::class::Merge::Columns)).
    #[must_use]
    pub const fn tabled(self) -> Handler<E> {
        Handler { info: self.info.tabled(), ..self }
    }

    /// Returns the handler with the rule that the lines of several workers become one list
    /// ([`Merge::Lines`](crate::class::Merge::Lines)).
    #[must_use]
    pub const fn listed(self) -> Handler<E> {
        Handler { info: self.info.listed(), ..self }
    }
}

impl<E: Element> HandlerTable for &'static [Handler<E>] {
    fn info(&self, index: usize) -> Option<&HandlerInfo> {
        self.get(index).map(|handler| &handler.info)
    }

    fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Option<Result<String, String>> {
        let handler = self.iter().find(|handler| handler.info.name == name && handler.info.access.read)?;
        Some(of_type(element, name).and_then(|element| match handler.read {
            Read::Nothing => Err(format!("'{name}' is not a read handler")),
            Read::Count(count) => Ok(count(element).to_string()),
            Read::Get(get) => Ok(get(element)),
            Read::Answer(answer) => answer(element, cx, param),
            Read::Flag(flag) => Ok(flag(element).to_string()),
        }))
    }

    fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let handler = self.iter().find(|handler| handler.info.name == name && handler.info.access.write)?;
        Some(of_type(element, name).and_then(|element| {
            match handler.write {
                Write::Nothing => return Err(format!("'{name}' is not a write handler")),
                Write::Act(act) => act(element),
                Write::Set(set) => set(element, cx, value)?,
                Write::Flag(flag, error) => *flag(element) = parse_bool(value).ok_or(error)?,
            }
            Ok(())
        }))
    }
}

/// Returns the element as a value of its type. It fails only if a class has a table for another type than
/// the type of its elements; a test that reads the handlers of all classes would find this.
fn of_type<'e, E: Element>(element: &'e mut dyn Element, name: &str) -> Result<&'e mut E, String> {
    let any: &mut dyn Any = element;
    any.downcast_mut().ok_or_else(|| format!("'{name}' is a handler of another type of elements"))
}

impl Class {
    /// Returns the description of each handler of the class, without the handlers that all elements have.
    pub fn each_handler(&self) -> impl Iterator<Item = HandlerInfo> + Clone + use<> {
        let (handlers, table) = (self.handlers, self.table);
        handlers.iter().copied().chain((0..).map_while(move |index| table.info(index).copied()))
    }

    /// Returns the value of the read handler `name` of an element of this class, from the table or from the
    /// element ([`Element::read`]).
    ///
    /// # Errors
    /// A text for the user that says why the handler cannot be read.
    pub fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, String> {
        self.table.read(element, cx, name, param).unwrap_or_else(|| element.read(cx, name, param))
    }

    /// Executes the write handler `name` of an element of this class, by the table or by the element
    /// ([`Element::write`]).
    ///
    /// # Errors
    /// A text for the user that says what is wrong; nothing was changed.
    pub fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        self.table.write(element, cx, name, value).unwrap_or_else(|| element.write(cx, name, value))
    }
}
