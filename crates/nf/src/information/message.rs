//! # Message
//! Prints a message when the configuration is read.
//!
//! ## Usage
//! `Message(MESSAGE [, TYPE])`
//!
//! ## Arguments
//! - `MESSAGE`: the text.
//! - `TYPE`: `MESSAGE`, `WARNING` or `ERROR`, in any case. `MESSAGE` prints the text, and `WARNING` reports
//!   it as a warning. `ERROR` reports it as an error, which prevents the configuration from running.
//!
//! ## Example
//! ```click
//! Message("this configuration does nothing", WARNING)
//! ```
//!
//! ## See also
//! Error

use element::args::Raw;
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, manual};
use lang::args::unquote;

/// The element class `Message`.
pub static CLASS: Class = Class {
    name: "Message",
    ports: "0/0",
    manual: manual!("message.rs"),
    args: &[ArgInfo::required("MESSAGE", "string"), ArgInfo::positional("TYPE", "word", "MESSAGE")],
    phase: ConfigurePhase::Information,
    samples: &["hello", "careful, WARNING"],
    build: |args| {
        let text: String = args.required("MESSAGE");
        let Raw(kind) = args.value("TYPE");
        let kind = unquote(&kind);
        args.finish()?;
        match kind.to_ascii_uppercase().as_str() {
            "MESSAGE" => args.note(text),
            "WARNING" => args.warn(text),
            "ERROR" => args.error(text),
            _ => args.error("unrecognized message type"),
        }
        args.finish()?;
        Ok(Box::new(Message))
    },
    ..Class::DEFAULT
};

struct Message;

impl Element for Message {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
