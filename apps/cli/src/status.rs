//! The results of commands: exit statuses, and failures with their messages.

use std::fmt;
use std::process::ExitCode;

use lang::Severity;

use crate::messages::say;

/// The exit status of success.
pub(crate) const SUCCESS: u8 = 0;
/// The exit status for errors in configurations and in runs.
pub(crate) const FAILURE: u8 = 1;
/// The exit status for wrong usage, which is the value that clap uses.
pub(crate) const USAGE: u8 = 2;

/// The result of a command: its exit status if it has done its work, or the reason why it has not.
pub(crate) type Status = Result<u8, Failure>;

/// The failure of a command: its exit status and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    /// The message for the user; `None` if all messages have already been shown.
    text: Option<String>,
}

impl Failure {
    /// Returns the failure of a command that was used wrongly, with the message for the user.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { status: USAGE, text: Some(text.into()) }
    }

    /// Returns a failure whose messages have already been shown.
    pub(crate) fn shown() -> Failure {
        Failure { status: FAILURE, text: None }
    }

    /// Returns the same failure with another exit status.
    pub(crate) fn with_status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }
}

/// Formats the message for the user; empty if it has already been shown.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_deref().unwrap_or_default())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure { status: FAILURE, text: Some(text) }
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        text.to_string().into()
    }
}

/// Prints the message of a failure, if there is one, and returns the exit status of the process.
pub(crate) fn report(exit: Status) -> ExitCode {
    match exit {
        Ok(status) => ExitCode::from(status),
        Err(Failure { status, text }) => {
            text.iter().for_each(|text| say(Severity::Error, text));
            ExitCode::from(status)
        }
    }
}
