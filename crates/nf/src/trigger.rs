//! Handler calls that are made when a counter reaches a number.

use std::sync::Arc;

use element::args::parse_integer;
use element::{Call, Class, Cx};

/// A call that is made once when a count is reached.
pub(crate) struct Trigger {
    /// The count at which the call is made.
    pub(crate) at: u64,
    pub(crate) call: Arc<Call>,
    /// True if the call has not been made yet.
    pub(crate) armed: bool,
}

impl Trigger {
    /// Parses `N HANDLER [VALUE]`. `unsigned` is the error text for an N that is not a number. A handler
    /// name without an element means the element's own handler, if its class has one.
    pub(crate) fn parse(text: &str, unsigned: &str, cx: &Cx<'_>, class: &Class) -> Result<Trigger, String> {
        let (count, call) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), "stop"));
        let at = parse_integer(count).ok().and_then(|n| u64::try_from(n).ok()).ok_or(unsigned)?;
        let own = |name: &str| class.each_handler().any(|h| h.name == name).then_some(cx.id());
        Ok(Trigger { at, call: Arc::new(Call::parse(call, cx, own)?), armed: true })
    }

    /// Returns the call if the count, which has just grown by `step` to `now`, has reached `at`.
    pub(crate) fn check(trigger: &mut Option<Trigger>, now: u64, step: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut()?;
        if !trigger.armed || now < trigger.at || trigger.at <= now - step {
            return None;
        }
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }

    /// Returns the call if it has not been made yet and the count is at least `at`.
    pub(crate) fn check_above(trigger: &mut Option<Trigger>, now: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut().filter(|trigger| trigger.armed && now >= trigger.at)?;
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }
}
