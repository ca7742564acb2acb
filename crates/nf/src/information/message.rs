//! # Message
//! Prints a message when the configuration is read or starts to run.
//!
//! ## Usage
//! `Message(MESSAGE [, TYPE])`
//!
//! ## Arguments
//! - `MESSAGE`: the text.
//! - `TYPE`: `MESSAGE`, `WARNING` or `ERROR`, in any case. `MESSAGE` prints the text when the configuration
//!   starts to run. `WARNING` reports it as a warning when the configuration is read. `ERROR` reports it as
//!   an error, which prevents the configuration from running.
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
use element::{Class, Cx, Effects, Element, manual};
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
        let mut said = None;
        match kind.to_ascii_uppercase().as_str() {
            "MESSAGE" => said = Some(text),
            "WARNING" => args.warn(text),
            "ERROR" => args.error(text),
            _ => args.error("unrecognized message type"),
        }
        args.finish()?;
        Ok(Box::new(Message(said)))
    },
    ..Class::DEFAULT
};

/// The text to print when the configuration starts to run; `None` if it has been printed, or reported as a
/// warning or an error.
struct Message(Option<String>);

impl Element for Message {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(text) = self.0.take() {
            cx.messages().message(format_args!("{text}\n"));
        }
        Ok(())
    }
}
