//! Script and DriverManager: small programs that call handlers, wait, and manage the driver.
//!
//! - `script` and `driver_manager`: the two classes, which differ in their default type only
//! - `program`: from arguments to a type and instructions
//! - `run`: executing instructions
//! - `calls`: handler calls out of a script's text, and the handlers that a script answers
//! - `expand`: substitution of variables and handlers in text
//! - `functions`, `number`, `sprintf`: what the functions calculate

pub mod driver_manager;
pub mod script;

mod calls;
mod expand;
mod functions;
mod number;
mod program;
mod run;
mod sprintf;

/// Longest text that a script can make, in bytes: variables may be defined in terms of themselves.
const MOST_TEXT: usize = 16 << 20;
