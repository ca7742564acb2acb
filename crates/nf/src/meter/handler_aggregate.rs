//! # HandlerAggregate
//! Reads or writes a handler of several elements together.
//!
//! ## Usage
//! `HandlerAggregate(ELEMENT, ...)`
//!
//! ## Arguments
//! - `ELEMENTS`: elements, each by its name or as `ELEMENT name`.
//!
//! ## Handlers
//! - `add`: the sum of the values of the handler that the parameter names.
//! - `avg`: the mean of the values of the handler that the parameter names.
//! - `write`: writes a value to a handler of all elements; the text is the handler and the value.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> a :: Counter -> b :: Counter -> Discard;
//! h :: HandlerAggregate(a, b); Script(TYPE DRIVER, pause, print $(h.add count))
//! ```
//!
//! ## See also
//! Script, Counter

use element::args::{ArgType, ElementRef, parse_real};
use element::class::{ArgInfo, Notes};
use element::{Call, Class, Cx, Effects, Element, ElementId, Handler, manual};

use crate::script::number::Number;

/// The element class `HandlerAggregate`.
pub static CLASS: Class = Class {
    name: "HandlerAggregate",
    ports: "0/0",
    manual: manual!("handler_aggregate.rs"),
    args: &[ArgInfo::rest("ELEMENTS", "element")],
    table: &HANDLERS,
    notes: Notes { reads_handlers: true, ..Notes::NONE },
    build: |args| {
        let mut elements = Vec::new();
        args.each_of_rest(|args, _, text| {
            let name = text.strip_prefix("ELEMENT ").unwrap_or(text).trim();
            match ElementRef::parse(name, &args.place()) {
                Ok(ElementRef(element)) => elements.push(element),
                Err(reason) => {
                    let clicks_words = format!("ELEMENT: '{name}' does not name an element");
                    args.error_as(format!("ELEMENT: {reason}"), clicks_words);
                }
            }
        });
        args.finish()?;
        Ok(Box::new(HandlerAggregate { elements }))
    },
    ..Class::DEFAULT
};

struct HandlerAggregate {
    elements: Vec<ElementId>,
}

impl HandlerAggregate {
    fn calls(&self, cx: &Cx<'_>, text: &str) -> Vec<Call> {
        let (handler, value) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        // The calls are made with the value and the rights of the client that has called the handler of
        // HandlerAggregate.
        let call = |&element: &ElementId| Call {
            rights: cx.rights().clone(),
            ..Call::new(Some(element), handler, value.trim())
        };
        self.elements.iter().map(call).collect()
    }
}

impl Element for HandlerAggregate {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}

const HANDLERS: &[Handler<HandlerAggregate>] = &[
    Handler::read_param("add", |e, cx, param| Ok(Number::Real(e.sum(cx, param)?).to_string())),
    Handler::read_param("avg", |e, cx, param| {
        Ok(Number::Real(e.sum(cx, param)? / e.elements.len() as f64).to_string())
    }),
    Handler::set("write", |e, cx, value| {
        e.calls(cx, value).iter().try_for_each(|call| cx.handlers().write(call))
    }),
];

impl HandlerAggregate {
    /// Returns the sum of the values that a handler of all elements has; `param` is the handler's name and,
    /// optionally, its parameter.
    fn sum(&self, cx: &mut Cx<'_>, param: &str) -> Result<f64, String> {
        let mut sum = 0.0;
        for call in self.calls(cx, param) {
            // As in C, a value that is not a number counts as zero.
            sum += parse_real(&cx.handlers().read(&call)?).unwrap_or(0.0);
        }
        Ok(sum)
    }
}
